//! PostgreSQL: a new cluster, and sessions with a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::binary;
use crate::lacking::Lacking;
use crate::process::is_root;

/// User that runs PostgreSQL for root, whom it refuses.
pub const NOBODY: u32 = 65534;

/// Longest time that a server may take for an answer, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a cluster in a folder that is not there yet, with these lines in its configuration; root
/// as [`NOBODY`], to whom the folder above has to belong. The superuser is `test`, whom all believe.
pub fn cluster(data: &Path, settings: &str) -> Result<(), Lacking> {
    let mut init = Command::new(binary::system("initdb"));
    if is_root() {
        init.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    init.args(["-A", "trust", "-U", "test", "-E", "UTF8", "--no-locale", "-N", "-D"]).arg(data);
    let output = init.output().map_err(|why| Lacking(format!("initdb: {why}")))?;
    assert!(output.status.success(), "{output:?}");
    let file = data.join("postgresql.conf");
    let before = std::fs::read_to_string(&file).expect("initdb has made it");
    std::fs::write(file, before + settings).expect("it can be written");
    Ok(())
}

/// A stream to a server.
trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A session, by the protocol of version 3.0.
pub struct Session(Box<dyn Stream>);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

impl Session {
    /// Opens one at a port of this host; none while the server does not serve.
    #[must_use]
    pub fn open(port: u16) -> Option<Session> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Session::over(stream)
    }

    /// Opens one at a socket of the file system; none while the server does not serve.
    #[must_use]
    pub fn open_at(socket: &Path) -> Option<Session> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Session::over(stream)
    }

    fn over(stream: impl Stream + 'static) -> Option<Session> {
        let mut session = Session(Box::new(stream));
        let body = b"\0\x03\0\0user\0test\0database\0postgres\0\0";
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend(body);
        session.0.write_all(&packet).ok()?;
        // A server that has started and does not serve yet says so.
        session.answer()?.ok().map(|_| session)
    }

    /// The rows of an answer, their values joined; none if the connection was closed.
    ///
    /// # Panics
    /// If the answer is an error.
    pub fn ask(&mut self, query: &str) -> Option<Vec<String>> {
        let mut packet = b"Q".to_vec();
        packet.extend((query.len() as u32 + 5).to_be_bytes());
        packet.extend(query.bytes().chain([0]));
        self.0.write_all(&packet).ok()?;
        self.answer().map(|rows| rows.unwrap_or_else(|error| panic!("{error}")))
    }

    /// The rows of an answer, or an error; none if the connection was closed.
    fn answer(&mut self) -> Option<Result<Vec<String>, String>> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let mut head = [0; 5];
            if self.0.read_exact(&mut head).is_err() {
                return error.map(Err);
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; (length as usize).saturating_sub(4)];
            self.0.read_exact(&mut body).ok()?;
            match head[0] {
                b'Z' => return Some(error.map_or(Ok(rows), Err)),
                b'D' => rows.push(row(&body)),
                b'E' => error = Some(String::from_utf8_lossy(&body).into_owned()),
                _ => {}
            }
        }
    }
}

fn row(body: &[u8]) -> String {
    let (mut values, mut rest) = (Vec::new(), body.get(2..).unwrap_or_default());
    while let Some((length, more)) = rest.split_first_chunk() {
        // None has the length -1.
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (value, more) = more.split_at_checked(length).unwrap_or((more, &[]));
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = more;
    }
    values.join(" ")
}

/// An expression for a time in µs since 1970.
#[must_use]
pub fn micros(time: &str) -> String {
    format!("(extract(epoch from {time}) * 1000000)::bigint")
}
