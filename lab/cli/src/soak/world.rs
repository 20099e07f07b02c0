//! The bed: servers, paths, daemon, NTP server, capture and group, each in its own place.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::Setup;
use truechimer_testbed::namespace::{CLIENT, Pair};
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, temp};

use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::soak::captured::{End, Run};
use crate::soak::ledger::Ledger;

/// Servers that the daemon follows.
pub const SERVERS: usize = 3;
/// The domain that they are named in.
const DOMAIN: &str = "soak.test";
/// The port of the load.
pub const LOAD_PORT: u16 = 7007;
/// Interface that is captured.
const LOAD: &str = "load";
/// A second address of the client's.
const OTHER_CLIENT: &str = "192.0.2.3/24";
/// Time that a process has to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// A path as it usually is, and while it loses packets.
const USUAL: &str = "delay=200us,jitter=100us";
const LOSSY: &str = "delay=200us,jitter=100us,loss=0.2,duplicate=0.02";
const SLOW: &str = "delay=12ms,jitter=3ms";

/// Places of files: two small disks, and the names of the servers.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of all.
    pub dir: PathBuf,
}

impl Places {
    /// The disk of the daemon's records.
    #[must_use]
    pub fn disk(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// The disk of the captures.
    #[must_use]
    pub fn captures(&self) -> PathBuf {
        self.dir.join("captures")
    }

    /// The file that stands in for `/etc/hosts`.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.dir.join("hosts")
    }

    /// The file that stands in for `/etc/resolv.conf`.
    #[must_use]
    pub fn resolver(&self) -> PathBuf {
        self.dir.join("resolv.conf")
    }
}

/// Kind of path between the daemon and its servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The usual state.
    Usual,
    /// A fifth of the packets is lost each way.
    Lossy,
    /// Requests take longer than replies.
    Slow,
}

/// The bed; all of it ends when it is dropped. Its processes die with the thread that starts them.
pub struct World<'n> {
    net: &'n Pair,
    places: Places,
    logs: &'n temp::Dir,
    seed: u64,
    servers: Vec<Chronyd<'n>>,
    relays: Vec<Option<Process>>,
    /// The last part of each server's address.
    addresses: [u8; SERVERS],
    named: bool,
    /// The daemon.
    pub daemon: Option<Process>,
    /// The NTP server.
    pub serve: Option<Process>,
    /// The capture.
    pub capture: Option<Process>,
    captures: u32,
    capture_began: Instant,
    /// True if the disk of the captures has been full since this one began.
    pub captures_were_full: bool,
    /// The group.
    pub bed: Bed,
    /// Corosyncs that do not run.
    pub corosync_out: Option<u32>,
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command.output().map_err(|why| Failure::of("a command", why))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure(format!("{command:?}: {said}")))
}

impl<'n> World<'n> {
    /// Starts all of it.
    ///
    /// # Errors
    /// Where this machine lacks what that takes.
    pub fn up(
        net: &'n Pair,
        dirs: &'n [temp::Dir; SERVERS],
        logs: &'n temp::Dir,
        places: &Places,
        seed: u64,
    ) -> Result<World<'n>, Failure> {
        let there = net.client.holder().to_string();
        let ip = |arguments: &[&str]| run(net.server.command(binary::system("ip")).args(arguments));
        ip(&["link", "add", LOAD, "type", "veth", "peer", "name", LOAD, "netns", &there])?;
        ip(&["address", "add", "198.51.100.1/24", "dev", LOAD])?;
        ip(&["link", "set", LOAD, "up"])?;
        let mut servers = Vec::new();
        for (n, dir) in dirs.iter().enumerate() {
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 11_123 + n as u16);
            let server = Chronyd::at(&net.server, dir, address, "");
            servers.push(server.map_err(|lacking| Failure(lacking.to_string()))?);
        }
        let how = How {
            utc: format!("page = {:?}", logs.join("clock")),
            ..How::usual(&binary::truechimer())
        };
        let mut world = World {
            net,
            places: places.clone(),
            logs,
            seed,
            servers,
            relays: (0..SERVERS).map(|_| None).collect(),
            addresses: [11, 12, 13],
            named: true,
            daemon: None,
            serve: None,
            capture: None,
            captures: 0,
            capture_began: Instant::now(),
            captures_were_full: false,
            bed: Bed::up(how)?,
            corosync_out: None,
        };
        world.client(&["address", "add", "198.51.100.2/24", "dev", LOAD])?;
        world.load_up()?;
        for n in 0..SERVERS {
            let address = format!("{}/24", world.address(n));
            world.server(&["address", "add", &address, "dev", "wire"])?;
            world.start_relay(n, Route::Usual);
        }
        world.write_names()?;
        world.start_daemon(None);
        world.start_serve();
        world.start_capture();
        Ok(world)
    }

    /// The clock page.
    #[must_use]
    pub fn page(&self) -> PathBuf {
        self.logs.join("clock")
    }

    fn address(&self, n: usize) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self.addresses.get(n).copied().unwrap_or(0))
    }

    /// Runs `ip` at the servers.
    ///
    /// # Errors
    /// Where it fails.
    pub fn server(&self, arguments: &[&str]) -> Result<(), Failure> {
        run(self.net.server.command(binary::system("ip")).args(arguments))
    }

    /// Runs `ip` where the daemon is.
    ///
    /// # Errors
    /// Where it fails.
    pub fn client(&self, arguments: &[&str]) -> Result<(), Failure> {
        run(self.net.client.command(binary::system("ip")).args(arguments))
    }

    /// Puts up the daemon's interface of the load.
    ///
    /// # Errors
    /// Where it fails.
    pub fn load_up(&self) -> Result<(), Failure> {
        self.client(&["link", "set", LOAD, "up"])
    }

    /// Puts it down.
    ///
    /// # Errors
    /// Where it fails.
    pub fn load_down(&self) -> Result<(), Failure> {
        self.client(&["link", "set", LOAD, "down"])
    }

    /// Gives the daemon's host another address, or its own again.
    ///
    /// # Errors
    /// Where it fails.
    pub fn move_client(&self, away: bool) -> Result<(), Failure> {
        let usual = format!("{CLIENT}/24");
        let (from, to) =
            if away { (usual.as_str(), OTHER_CLIENT) } else { (OTHER_CLIENT, usual.as_str()) };
        // A second address of the same network would go with the first.
        self.client(&["address", "del", from, "dev", "wire"])?;
        self.client(&["address", "add", to, "dev", "wire"])
    }

    /// Gives a server another address and name service the new one.
    ///
    /// # Errors
    /// Where it fails.
    pub fn move_server(&mut self, n: usize) -> Result<(), Failure> {
        let old = format!("{}/24", self.address(n));
        if let Some(address) = self.addresses.get_mut(n) {
            *address = if *address < 100 { *address + 100 } else { *address - 100 };
        }
        let new = format!("{}/24", self.address(n));
        self.server(&["address", "del", &old, "dev", "wire"])?;
        self.server(&["address", "add", &new, "dev", "wire"])?;
        self.start_relay(n, Route::Usual);
        self.write_names()
    }

    /// Takes the names of the servers away, or puts them back.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn name(&mut self, named: bool) -> Result<(), Failure> {
        self.named = named;
        self.write_names()
    }

    fn write_names(&self) -> Result<(), Failure> {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        for n in (0..SERVERS).filter(|_| self.named) {
            let _ = writeln!(text, "{} server{}.{DOMAIN}", self.address(n), n + 1);
        }
        let path = self.places.hosts();
        // In place: it is mounted over the system's.
        std::fs::write(&path, text).map_err(|why| Failure::of(path.display(), why))
    }

    /// Starts, or starts anew, the path to a server.
    pub fn start_relay(&mut self, n: usize, path: Route) {
        let mut command = self.net.server.command(binary::testbed());
        let (there, back) = match path {
            Route::Usual => (USUAL, USUAL),
            Route::Lossy => (LOSSY, LOSSY),
            Route::Slow => (SLOW, USUAL),
        };
        self.seed = self.seed.wrapping_add(1);
        let listen = format!("{}:123", self.address(n));
        let server = format!("127.0.0.1:{}", 11_123 + n);
        command.args(["relay", &listen, &server, &self.seed.to_string(), there, back]);
        if let Some(place) = self.relays.get_mut(n) {
            // The port must be free.
            *place = None;
            *place = Some(Process::start(command, &self.logs.join("relay.log")));
        }
    }

    /// Ends a server.
    pub fn stop_server(&mut self, n: usize) {
        if let Some(server) = self.servers.get_mut(n) {
            server.stop();
        }
    }

    /// Starts it again.
    pub fn resume_server(&mut self, n: usize) {
        if let Some(server) = self.servers.get_mut(n) {
            server.resume();
        }
    }

    /// Starts the daemon, if need be with a system clock that others slew and step.
    pub fn start_daemon(&mut self, warp: Option<u64>) {
        let sections = format!(
            "[audit]\ndirectory = {:?}\ninterval = \"1s\"\n[metrics]\nlisten = {:?}\n",
            self.places.disk().join("audit"),
            self.logs.join("metrics"),
        );
        let settings = format!("replay-log = {:?}\n", self.places.disk().join("replay.log"));
        let environment = warp.map(|seed| {
            let steps = "rate=80ppm,toggle=500ppm/3ms,steps=1ms..1s/900ms";
            let warp = format!("epoch={},{steps},seed={seed}", Truth::host().now_ns());
            vec![("LD_PRELOAD", binary::warp().display().to_string()), ("TRUECHIMER_WARP", warp)]
        });
        let setup = Setup {
            network: Some(&self.net.client),
            servers: (1..=SERVERS).map(|n| format!("server{n}.{DOMAIN}")).collect(),
            settings: &settings,
            sections: &sections,
            environment: environment.unwrap_or_default(),
            ..Setup::new(self.logs, "")
        };
        self.daemon = Some(setup.start().process);
    }

    /// Starts the NTP server.
    pub fn start_serve(&mut self) {
        let mut command = self.net.client.command(binary::truechimer());
        command.args(["serve", "--page"]).arg(self.page());
        command.args(["--allow", "192.0.2.0/24", "--rate", "1000", "--burst", "1000"]);
        self.serve = Some(Process::start(command, &self.logs.join("serve.log")));
    }

    /// Starts a capture.
    pub fn start_capture(&mut self) {
        self.captures += 1;
        let file = self.places.captures().join(format!("load{}.pcapng", self.captures));
        let mut command = self.net.client.command(binary::truechimer());
        command.args(["capture", "-i", LOAD, "--json", "--ring", "8", "--rotate-size", "500k"]);
        command.arg("--page").arg(self.page()).arg("-w").arg(file);
        self.captures_were_full = false;
        self.capture_began = Instant::now();
        self.capture = Some(Process::start(command, &self.capture_log()));
    }

    fn capture_log(&self) -> PathBuf {
        self.logs.join(&format!("capture{}.log", self.captures))
    }

    /// For how long the capture has been under way.
    #[must_use]
    pub fn capture_age(&self) -> Duration {
        self.capture_began.elapsed()
    }

    /// Ends the capture, or takes what is left of one that has ended.
    pub fn end_capture(&mut self, end: End) -> Option<Run> {
        let mut process = self.capture.take()?;
        if process.is_running() {
            // One that is stopped ends all the same.
            process.signal(Signal::Continue);
            process.signal(if end == End::Asked { Signal::Term } else { Signal::Kill });
        }
        let in_time = process.wait(PATIENCE).is_some();
        let said = process.output();
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.places.captures())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "pcapng"))
            .collect();
        files.sort();
        // Its log has a line each second; what it says is kept by the check.
        let _ = std::fs::remove_file(self.capture_log());
        Some(Run {
            files,
            said: if in_time { said } else { format!("it did not end in {PATIENCE:?}\n{said}") },
            end,
            disk_was_full: self.captures_were_full,
            between: (self.capture_began, Instant::now()),
            ended_ns: Run::now_ns(),
        })
    }

    /// The disk of the daemon's records.
    #[must_use]
    pub fn disk(&self) -> PathBuf {
        self.places.disk()
    }

    /// The disk of the captures.
    #[must_use]
    pub fn capture_disk(&self) -> PathBuf {
        self.places.captures()
    }

    /// Fills a disk, or makes room again.
    ///
    /// # Errors
    /// Where the file that fills it cannot be made.
    pub fn fill(disk: &Path, full: bool) -> Result<(), Failure> {
        let file = disk.join("filler");
        if !full {
            let _ = std::fs::remove_file(&file);
            return Ok(());
        }
        let made = std::fs::File::create(&file);
        let mut made = made.map_err(|why| Failure::of(file.display(), why))?;
        let block = vec![0; 1 << 20];
        for size in [1 << 20, 1 << 12, 1] {
            while std::io::Write::write_all(&mut made, block.get(..size).unwrap_or_default())
                .is_ok()
            {}
        }
        Ok(())
    }

    /// Tells the ledger which processes there are.
    pub fn tell(&mut self, ledger: &Ledger) {
        let parts = [("daemon", &self.daemon), ("serve", &self.serve), ("capture", &self.capture)];
        for (name, process) in parts {
            ledger.process(name, process.as_ref().map(Process::pid));
        }
        for node in 1..=MEMBERS {
            let agent = self.bed.agent(node).ok().map(|agent| agent.pid());
            ledger.process(&format!("agent {node}"), agent);
        }
    }

    /// All logs, by name.
    #[must_use]
    pub fn logs(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for name in ["clock.log", "serve.log", "relay.log"] {
            let text = std::fs::read(self.logs.join(name)).unwrap_or_default();
            all.push((name.to_owned(), String::from_utf8_lossy(&text).into_owned()));
        }
        for node in 1..=MEMBERS {
            all.extend(self.bed.logs(node));
        }
        all
    }
}
