//! The servers of the contest: ours on a clock of its own, and chronyd.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use truechimer_serve::{DEFAULT_STRATUM, Load, Running, ServedClock, Server};
use truechimer_time::{Rate, Span};

use crate::bench::daemon::Daemon;
use truechimer_command::Failure;
use truechimer_command::clock;
use truechimer_command::scratch::Scratch;

/// Time that anything has to be there.
const SOON: Duration = Duration::from_secs(20);

/// One server.
pub struct Contestant {
    pub name: &'static str,
    pub address: SocketAddr,
    pub pid: u32,
}

/// All that runs; ends when dropped.
pub struct Set {
    pub servers: Vec<Contestant>,
    /// Reason why chronyd is not among them.
    pub chronyd: Option<String>,
    _children: Vec<Killed>,
    _daemon: Daemon,
    _source: Running,
    _scratch: Scratch,
}

/// A process that ends when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts them all.
pub fn start(threads: u8) -> Result<Set, Failure> {
    let failed = |what: &'static str| move |why| Failure::new(what, why);
    let scratch = Scratch::new().map_err(failed("cannot make a directory"))?;
    let page = scratch.path().join("clock");
    let served = ServedClock::starting_now(Span::ZERO, Rate::ZERO)
        .map_err(|why| Failure::new("cannot serve a time", why))?;
    let source = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), served, DEFAULT_STRATUM)
        .and_then(Server::start)
        .map_err(failed("cannot start the server on loopback"))?;
    let daemon = Daemon::start(scratch.path(), &page, source.address(), 1)
        .map_err(failed("cannot start the daemon"))?;
    let clock = clock::open_within(&page, SOON)?;
    clock.wait_synchronised(None, SOON).map_err(|why| Failure::new("the daemon", why))?;

    let (ours, child) = truechimer(&page, threads)?;
    let (mut servers, mut children) = (vec![ours], vec![child]);
    let chronyd = match chronyd(scratch.path()) {
        Ok((contestant, child)) => {
            servers.push(contestant);
            children.push(child);
            None
        }
        Err(why) => Some(why),
    };
    Ok(Set {
        servers,
        chronyd,
        _children: children,
        _daemon: daemon,
        _source: source,
        _scratch: scratch,
    })
}

/// `truechimer serve --clock page`, without a limit of requests.
fn truechimer(page: &Path, threads: u8) -> Result<(Contestant, Killed), Failure> {
    let failed = |why| Failure::new("cannot start our server", why);
    let mut child = Command::new(crate::bench::truechimer().map_err(failed)?)
        .args(["serve", "--clock", "page", "--listen", "127.0.0.1:0", "--rate", "0"])
        .args(["--threads", &threads.to_string(), "--page"])
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Killed)
        .map_err(failed)?;
    let pid = child.0.id();
    let mut line = String::new();
    let Some(output) = child.0.stdout.take() else {
        return Err(Failure::Said("our server says nothing".into()));
    };
    let mut output = BufReader::new(output);
    output.read_line(&mut line).map_err(failed)?;
    let address = line.trim().rsplit(' ').next().and_then(|text| text.parse().ok());
    let address = address.ok_or_else(|| Failure::new("our server", line.trim()))?;
    // It says little from now on: what a pipe holds is more than that. Yet the pipe must stay.
    child.0.stdout = Some(output.into_inner());
    Ok((Contestant { name: "truechimer", address, pid }, child))
}

/// chronyd as a server of the system clock, which it does not touch; or why not.
fn chronyd(dir: &Path) -> Result<(Contestant, Killed), String> {
    let program = program("chronyd").ok_or(
        "it is not here (package chrony; 'scripts/test stack' unpacks it without installing)",
    )?;
    let port = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .map_err(|why| format!("no free port: {why}"))?
        .port();
    let user = std::env::var("USER").ok().filter(|user| user != "root");
    let user = if is_root() { "root".to_owned() } else { user.unwrap_or_else(|| "nobody".into()) };
    let configuration = dir.join("chronyd.conf");
    let text = format!(
        "local stratum 10\nallow 127.0.0.0/8\nport {port}\nbindaddress 127.0.0.1\ncmdport 0\n\
         bindcmdaddress /\nuser {user}\npidfile {}\n",
        dir.join("chronyd.pid").display()
    );
    fs::write(&configuration, text).map_err(|why| format!("{}: {why}", configuration.display()))?;
    let mut child = Command::new(&program)
        .args(["-d", "-x", "-U", "-f"])
        .arg(&configuration)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Killed)
        .map_err(|why| format!("{}: {why}", program.display()))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let end = Instant::now() + SOON;
    let stop = AtomicBool::new(false);
    while Instant::now() < end {
        if let Ok(Some(status)) = child.0.try_wait() {
            return Err(format!("{} ended with {status}", program.display()));
        }
        let asked =
            Load::new(address, 1).and_then(|mut load| load.run(Duration::from_millis(50), &stop));
        if asked.is_ok_and(|measured| measured.answered > 0) {
            let pid = child.0.id();
            return Ok((Contestant { name: "chronyd", address, pid }, child));
        }
    }
    Err(format!("{} does not answer", program.display()))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A program of the system, or one that the tests have unpacked beside our own.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok();
    let unpacked = own.as_deref().and_then(|own| own.parent()?.parent());
    let places = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .chain(unpacked.map(|target| target.join("test/chrony/usr/sbin")));
    places.map(|place| place.join(name)).find(|program| program.is_file())
}
