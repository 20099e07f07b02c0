//! The daemon's side: it never waits for a client, and no client costs it much.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde::Serialize;
use truechimer_time::Count;

use super::{Answer, MAX_REQUEST, Refused, Reloading, Request, Version};
use crate::sys::{self, POLLIN, POLLOUT, pollfd};

/// Clients at a time; one more, and the one that was quiet longest has to go.
const MAX_CLIENTS: usize = 16;
/// Requests that are answered between two calls of [`Server::resume`]. What comes on top waits, so
/// that a client that never tires does not keep the daemon busy.
const MAX_ANSWERS: u32 = 256;
/// Who may connect: everybody. What they may do is decided by request.
const MODE: u32 = 0o666;

/// Who knows the answers.
pub(crate) trait Handler {
    /// All that the daemon knows.
    fn report(&mut self) -> Answer;
    /// Reads the configuration again, soon.
    fn reload(&mut self);
}

/// The listening socket and its clients.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
    /// No more connections until [`Server::resume`]: accepting failed.
    paused: bool,
    /// How many requests may still be answered until then.
    left: u32,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    may_change: bool,
    /// The beginning of a request.
    input: Vec<u8>,
    /// The rest of an answer. Nothing more is read before it is gone.
    output: Vec<u8>,
    /// When it last made progress.
    active: Count,
}

impl Server {
    /// Listens at `path`. A socket that a dead daemon left there is replaced, one that is alive is
    /// not, and neither is anything else.
    pub(crate) fn bind(path: &Path) -> io::Result<Server> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                clear(path)?;
                UnixListener::bind(path)?
            }
            result => result?,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        listener.set_nonblocking(true)?;
        Ok(Server {
            path: path.into(),
            listener,
            clients: Vec::new(),
            paused: false,
            left: MAX_ANSWERS,
        })
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        if self.left == 0 {
            return;
        }
        if !self.paused {
            fds.push(pollfd { fd: self.listener.as_raw_fd(), events: POLLIN, revents: 0 });
        }
        fds.extend(self.clients.iter().map(|client| pollfd {
            fd: client.stream.as_raw_fd(),
            events: if client.output.is_empty() { POLLIN } else { POLLOUT },
            revents: 0,
        }));
    }

    /// Does what can be done without waiting. `ready` tells which descriptors poll(2) reported.
    pub(crate) fn serve(
        &mut self,
        ready: impl Fn(RawFd) -> bool,
        now: Count,
        handler: &mut dyn Handler,
    ) {
        self.clients.retain_mut(|client| {
            !ready(client.stream.as_raw_fd()) || client.serve(now, &mut self.left, handler).is_ok()
        });
        if ready(self.listener.as_raw_fd()) {
            // One a wake-up: the others are not lost.
            self.left = self.left.saturating_sub(1);
            match self.accept(now) {
                Err(error) if !is_temporary(&error) => self.paused = true,
                _ => {}
            }
        }
    }

    /// Accepts connections again after a failure such as too many open files, and answers again
    /// after too many requests. To be called once a second or so.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.left = MAX_ANSWERS;
    }

    fn accept(&mut self, now: Count) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        let may_change = sys::peer_uid(&stream).is_ok_and(|uid| uid == 0 || uid == sys::uid());
        if self.clients.len() >= MAX_CLIENTS {
            let quiet = self.clients.iter().enumerate().min_by_key(|(_, c)| (c.active - now).0);
            if let Some((index, _)) = quiet {
                self.clients.swap_remove(index);
            }
        }
        let (input, output) = (Vec::new(), Vec::new());
        self.clients.push(Client { stream, may_change, input, output, active: now });
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it is gone already, so much the better.
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Moves on as far as it goes without waiting; an error ends the connection.
    fn serve(&mut self, now: Count, left: &mut u32, handler: &mut dyn Handler) -> io::Result<()> {
        if self.output.is_empty() {
            self.read()?;
        }
        self.write(now)?;
        // What is left in `input` is less than MAX_REQUEST bytes: few requests.
        while self.output.is_empty()
            && let Some(end) = self.input.iter().position(|b| *b == b'\n')
        {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.output = self.answer(&line, handler)?;
            *left = left.saturating_sub(1);
            self.active = now;
            self.write(now)?;
        }
        if self.output.is_empty() && self.input.len() >= MAX_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; MAX_REQUEST];
        let room = MAX_REQUEST.saturating_sub(self.input.len());
        let Some(buffer) = buffer.get_mut(..room).filter(|b| !b.is_empty()) else { return Ok(()) };
        match self.stream.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.input.extend(buffer.iter().take(n));
                Ok(())
            }
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, now: Count) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => {
                    self.output.drain(..n);
                    self.active = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(&self, line: &[u8], handler: &mut dyn Handler) -> io::Result<Vec<u8>> {
        let verb = match serde_json::from_slice(line) {
            Ok(Request { verb }) => verb,
            Err(error) => return refuse(format!("not a request: {error}")),
        };
        match verb.as_str() {
            "report" => json_line(&handler.report()),
            "version" => json_line(&Version { version: crate::VERSION.into() }),
            "reload" if self.may_change => {
                handler.reload();
                json_line(&Reloading { reloading: true })
            }
            "reload" => refuse("only root and the daemon's own user may reload it".into()),
            _ => refuse("unknown verb: known are report, version, reload".into()),
        }
    }
}

fn refuse(error: String) -> io::Result<Vec<u8>> {
    json_line(&Refused { error })
}

fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

/// Removes what a dead daemon left at `path`.
fn clear(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "something else is in its place"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another daemon answers there")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{self, ControlError, DaemonInfo};
    use std::io::{BufRead, BufReader};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;
    use truechimer_engine::Report;
    use truechimer_time::{Rate, Span};

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Knows extreme answers, and counts.
    #[derive(Default)]
    struct Oracle {
        reloads: u32,
    }

    impl Handler for Oracle {
        fn report(&mut self) -> Answer {
            Answer {
                daemon: DaemonInfo {
                    version: "0".into(),
                    pid: 1,
                    counter: "x".repeat(100_000),
                    resolution: Span::MAX,
                    uptime: Span(i128::MIN),
                    memory: u64::MAX,
                    page: "/page".into(),
                    replay_log: None,
                    state: None,
                    system_clock: String::new(),
                    floods: 0,
                },
                report: Report {
                    at: Count(u64::MAX),
                    hand: None,
                    skew: Some(Rate(i64::MIN)),
                    reason: "\"\n".into(),
                    disputed: None,
                    sources: Vec::new(),
                },
            }
        }

        fn reload(&mut self) {
            self.reloads += 1;
        }
    }

    /// Serves at a path of its own while `client` runs, and returns how it went.
    fn with_server<T: Send>(client: impl FnOnce(&Path) -> T + Send) -> (T, Oracle, usize) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("truechimer-control-{}-{number}", std::process::id()));
        let mut server = Server::bind(&path).unwrap();
        let mut oracle = Oracle::default();
        let mut most = 0;
        let result = thread::scope(|scope| {
            let client = scope.spawn(|| client(&path));
            let mut turn = 0;
            while !client.is_finished() {
                turn += 1;
                let mut fds = Vec::new();
                server.interests(&mut fds);
                sys::poll(&mut fds, 10).unwrap();
                let ready = |fd| fds.iter().any(|p| p.fd == fd && p.revents != 0);
                server.serve(ready, Count(turn), &mut oracle);
                server.resume();
                most = most.max(server.clients.len());
            }
            client.join().unwrap()
        });
        drop(server);
        assert!(!path.exists());
        (result, oracle, most)
    }

    #[test]
    fn every_verb_is_answered() {
        let (answers, oracle, _) = with_server(|path| {
            let version = control::version(path, TIMEOUT).unwrap();
            control::reload(path, TIMEOUT).unwrap();
            (version, control::report(path, TIMEOUT).unwrap())
        });
        assert_eq!(answers.0, Version { version: crate::VERSION.into() });
        assert_eq!(answers.1, Oracle::default().report(), "to the last bit");
        assert_eq!(oracle.reloads, 1);
    }

    #[test]
    fn nonsense_is_refused_and_the_connection_goes_on() {
        let (lines, ..) = with_server(|path| {
            let mut stream = UnixStream::connect(path).unwrap();
            let requests = [
                "{}",
                "[]",
                "null",
                "{\"verb\":7}",
                "\u{fffd}",
                "{\"verb\":\"stop\"}",
                "{\"verb\":\"version\",\"x\":1}",
                "{\"verb\":\"version\"}",
            ];
            // All at once.
            stream.write_all(requests.join("\n").as_bytes()).unwrap();
            stream.write_all(b"\n").unwrap();
            BufReader::new(stream)
                .lines()
                .take(requests.len())
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        });
        let (last, errors) = lines.split_last().unwrap();
        assert!(errors.iter().all(|line| line.starts_with("{\"error\":")), "{errors:?}");
        assert!(errors[5].contains("known are report"), "{}", errors[5]);
        assert!(last.contains(crate::VERSION));
    }

    #[test]
    fn a_request_without_end_is_hung_up_on() {
        let (result, ..) = with_server(|path| {
            let mut stream = UnixStream::connect(path).unwrap();
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
            control::version(path, TIMEOUT)
        });
        assert!(result.is_ok());
    }

    #[test]
    fn clients_that_never_read_or_never_speak_are_in_nobodys_way() {
        let (result, _, most) = with_server(|path| {
            let hostile: Vec<_> = (0..3 * MAX_CLIENTS)
                .map(|k| {
                    let mut stream = UnixStream::connect(path).unwrap();
                    if k % 2 == 0 {
                        // 100 kB each that nobody will read. It may have been hung up on already.
                        let _ = stream.write_all(&b"{\"verb\":\"report\"}\n".repeat(30));
                    }
                    stream
                })
                .collect();
            let result = control::report(path, TIMEOUT);
            drop(hostile);
            result
        });
        assert!(result.is_ok());
        assert!(most <= MAX_CLIENTS);
    }

    #[test]
    fn a_dead_daemons_socket_is_replaced_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("truechimer-stale-{}", std::process::id()));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(
            control::version(&path, TIMEOUT),
            Err(ControlError::NoDaemon { why, .. }) if why.kind() == ErrorKind::ConnectionRefused
        ));
        let live = Server::bind(&path).unwrap();
        let error = Server::bind(&path).unwrap_err();
        assert!(error.to_string().contains("another daemon"), "{error}");
        drop(live);
        fs::write(&path, "precious").unwrap();
        let error = Server::bind(&path).unwrap_err();
        assert!(error.to_string().contains("something else"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        let error = control::version(&path, TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("truechimer run"), "{error}");
    }

    #[test]
    fn silence_and_noise_are_told_apart() {
        let path = std::env::temp_dir().join(format!("truechimer-silent-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let silent = control::version(&path, Duration::from_millis(20));
        assert!(matches!(silent, Err(ControlError::Silent { .. })), "{silent:?}");
        let noise = thread::scope(|scope| {
            scope.spawn(|| {
                let _first = listener.accept().unwrap();
                let (mut second, _) = listener.accept().unwrap();
                let _ = second.read(&mut [0; 100]);
                second.write_all(b"220 mail.example.org\n").unwrap();
            });
            control::version(&path, TIMEOUT)
        });
        assert!(matches!(noise, Err(ControlError::Unintelligible { .. })), "{noise:?}");
        fs::remove_file(&path).unwrap();
    }
}
