//! The faults: what they are, how they are made and undone.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use truechimer_daemon::control::{connect, default_path};
use truechimer_outcome::outcome::Failure;
use truechimer_sim::Random;
use truechimer_testbed::namespace::Way;
use truechimer_testbed::process::{Process, Signal};

use crate::bench::group::bed::MEMBERS;
use crate::soak::captured::{self, End};
use crate::soak::ledger::{Ledger, Part};
use crate::soak::world::{Route, SERVERS, World};

/// Kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    DaemonKilled,
    DaemonStopped,
    DaemonEnded,
    DaemonHup,
    ClockStepped,
    ServeKilled,
    ServeStopped,
    ServeFlooded,
    CaptureKilled,
    CaptureStopped,
    CaptureFlooded,
    InterfaceDown,
    AgentKilled,
    AgentStopped,
    CorosyncKilled,
    CorosyncStopped,
    NodeCut,
    ServerDown,
    ServerMoved,
    WireDown,
    HostMoved,
    Loss,
    Slow,
    DiskFull,
    CaptureDiskFull,
    NamesGone,
    ControlFlooded,
}

/// All of them: name, part, and how long one lasts at least and at most, s.
pub const ALL: [(Kind, &str, Part, (f64, f64)); 27] = [
    (Kind::DaemonKilled, "daemon killed", Part::Daemon, (0.2, 8.0)),
    (Kind::DaemonStopped, "daemon stopped", Part::Daemon, (1.0, 15.0)),
    (Kind::DaemonEnded, "daemon ended", Part::Daemon, (0.2, 8.0)),
    (Kind::DaemonHup, "daemon told to read its configuration", Part::Control, (0.2, 1.0)),
    (Kind::ClockStepped, "system clock stepped and slewed by others", Part::Daemon, (10.0, 30.0)),
    (Kind::ServeKilled, "server killed", Part::Serve, (0.2, 5.0)),
    (Kind::ServeStopped, "server stopped", Part::Serve, (1.0, 8.0)),
    (Kind::ServeFlooded, "server flooded", Part::Serve, (3.0, 10.0)),
    (Kind::CaptureKilled, "capture killed", Part::Capture, (0.2, 3.0)),
    (Kind::CaptureStopped, "capture stopped", Part::Capture, (1.0, 6.0)),
    (Kind::CaptureFlooded, "captured interface flooded", Part::Load, (2.0, 5.0)),
    (Kind::InterfaceDown, "captured interface down", Part::Load, (1.0, 8.0)),
    (Kind::AgentKilled, "agent killed", Part::Group, (0.2, 6.0)),
    (Kind::AgentStopped, "agent stopped", Part::Group, (0.5, 5.0)),
    (Kind::CorosyncKilled, "Corosync killed", Part::Group, (0.5, 8.0)),
    (Kind::CorosyncStopped, "Corosync stopped", Part::Group, (0.5, 8.0)),
    (Kind::NodeCut, "node cut off the ring", Part::Group, (0.5, 10.0)),
    (Kind::ServerDown, "one server down", Part::Server, (3.0, 20.0)),
    (Kind::ServerMoved, "one server at another address", Part::Server, (1.0, 2.0)),
    (Kind::WireDown, "all servers out of reach", Part::Wire, (2.0, 30.0)),
    (Kind::HostMoved, "host at another address", Part::Wire, (5.0, 15.0)),
    (Kind::Loss, "20 % of the packets lost", Part::Wire, (10.0, 30.0)),
    (Kind::Slow, "requests 12 ms late", Part::Wire, (10.0, 30.0)),
    (Kind::DiskFull, "disk of the records full", Part::Disk, (5.0, 20.0)),
    (Kind::CaptureDiskFull, "disk of the captures full", Part::CaptureDisk, (2.0, 8.0)),
    (Kind::NamesGone, "name resolution gone, daemon restarted", Part::Daemon, (3.0, 15.0)),
    (Kind::ControlFlooded, "control socket flooded", Part::Control, (3.0, 10.0)),
];

/// A fault that is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: &'static str,
    /// The part that it hits.
    pub part: Part,
    /// Length of the fault.
    pub lasts: Duration,
    /// Which server (from 0) or node (from 1), and whatever else it has to draw.
    pub which: u64,
}

impl Fault {
    /// Draws the number `n` of [`ALL`].
    pub fn draw(n: usize, random: &mut Random) -> Option<Fault> {
        let (kind, name, part, (least, most)) = *ALL.get(n)?;
        let lasts = Duration::from_secs_f64(least + (most - least) * random.uniform());
        Some(Fault { kind, name, part, lasts, which: random.bits() })
    }

    fn server(&self) -> usize {
        self.which as usize % SERVERS
    }

    fn node(&self) -> u32 {
        1 + (self.which % u64::from(MEMBERS)) as u32
    }
}

/// A flood under way: it ends when dropped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    /// Begins one: `work` is done again and again.
    fn start(mut work: impl FnMut() + Send + 'static) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                work();
            }
        });
        Flood { stop, threads: vec![thread] }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Datagrams, `burst` each millisecond, of random bytes, some of which begin as a request does.
fn datagrams(way: &Way, to: SocketAddr, burst: usize, seed: u64) -> Flood {
    // The socket belongs to the network of the thread that makes it.
    let socket = std::thread::scope(|scope| {
        let made = scope.spawn(|| way.enter().and_then(|()| UdpSocket::bind("0.0.0.0:0")).ok());
        made.join().ok().flatten()
    });
    let mut random = Random::new(seed, "flood");
    Flood::start(move || {
        for _ in 0..burst {
            let mut bytes = [0_u8; 128];
            for chunk in bytes.chunks_mut(8) {
                let word = random.bits().to_le_bytes();
                chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
            }
            let mut length = 1 + (random.bits() % 128) as usize;
            if random.chance(0.5) {
                bytes.iter_mut().take(1).for_each(|first| *first = 0x23);
                length = length.max(48);
            }
            if let Some(socket) = &socket {
                let _ = socket.send_to(bytes.get(..length).unwrap_or_default(), to);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    })
}

/// Connections that say rubbish, or nothing, and hang on for a while.
fn connections(socket: &Path, seed: u64) -> Flood {
    let (socket, mut random, mut held) =
        (socket.to_owned(), Random::new(seed, "connections"), Vec::new());
    Flood::start(move || {
        for _ in 0..20 {
            // A daemon that is stopped meanwhile takes none in once as many wait as may.
            let Ok(mut stream) = connect(&socket, Duration::from_millis(1)) else { continue };
            let _ = stream.set_nonblocking(true);
            let _ = match random.bits() % 4 {
                0 => stream.write_all(b"report\n"),
                1 => stream.write_all(&random.bits().to_le_bytes()),
                2 => stream.write_all(&[b'x'; 4096]),
                _ => Ok(()),
            };
            let _ = stream.read(&mut [0; 64]);
            held.push(stream);
        }
        if held.len() > 200 {
            held.clear();
        }
        std::thread::sleep(Duration::from_millis(20));
    })
}

fn signal(process: &mut Option<Process>, signal: Signal) {
    if let Some(process) = process
        && process.is_running()
    {
        process.signal(signal);
    }
}

/// Addresses that floods go to, and the way into the network that they come from.
pub struct Targets {
    /// The NTP server.
    pub serve: SocketAddr,
    /// The load's other end.
    pub load: SocketAddr,
    /// The way into the network of the servers.
    pub way: Way,
}

/// A fault in force.
pub struct Force {
    /// Description.
    pub fault: Fault,
    _flood: Option<Flood>,
}

/// Makes a fault.
///
/// # Errors
/// Where that does not work.
pub fn make(
    world: &mut World<'_>,
    ledger: &Ledger,
    fault: Fault,
    targets: &Targets,
) -> Result<Force, Failure> {
    let mut flood = None;
    ledger.unsettle();
    // Packets may get lost before the interface is down.
    if fault.part == Part::Load {
        ledger.put_out(Part::Load);
    }
    match fault.kind {
        Kind::DaemonKilled => world.daemon = None,
        Kind::DaemonStopped => signal(&mut world.daemon, Signal::Stop),
        Kind::DaemonEnded => {
            signal(&mut world.daemon, Signal::Term);
            let ended = world.daemon.take().and_then(|mut it| it.wait(Duration::from_secs(10)));
            if ended.is_none_or(|status| status.code() != Some(0)) {
                ledger.violation("daemon: SIGTERM ends it well", format!("{ended:?}"));
            }
        }
        Kind::DaemonHup => signal(&mut world.daemon, Signal::Hangup),
        Kind::ClockStepped => {
            world.daemon = None;
            world.start_daemon(Some(fault.which));
        }
        Kind::ServeKilled => world.serve = None,
        Kind::ServeStopped => signal(&mut world.serve, Signal::Stop),
        Kind::ServeFlooded => {
            flood = Some(datagrams(&targets.way, targets.serve, 20, fault.which));
        }
        Kind::CaptureKilled => {
            if let Some(run) = world.end_capture(End::Killed) {
                captured::check(ledger, &run);
            }
        }
        Kind::CaptureStopped => signal(&mut world.capture, Signal::Stop),
        Kind::CaptureFlooded => {
            flood = Some(datagrams(&targets.way, targets.load, 40, fault.which));
        }
        Kind::InterfaceDown => world.load_down()?,
        Kind::AgentKilled => world.bed.kill_agent(fault.node()),
        Kind::AgentStopped => world.bed.agent(fault.node())?.signal(Signal::Stop),
        Kind::CorosyncKilled => {
            world.bed.ring_mut().kill(fault.node());
            world.corosync_out = Some(fault.node());
        }
        Kind::CorosyncStopped => world.bed.ring().pause(fault.node()),
        Kind::NodeCut => world.bed.ring().cut(fault.node()),
        Kind::ServerDown => world.stop_server(fault.server()),
        Kind::ServerMoved => world.move_server(fault.server())?,
        Kind::WireDown => world.server(&["link", "set", "wire", "down"])?,
        Kind::HostMoved => world.move_client(true)?,
        Kind::Loss => (0..SERVERS).for_each(|n| world.start_relay(n, Route::Lossy)),
        Kind::Slow => (0..SERVERS).for_each(|n| world.start_relay(n, Route::Slow)),
        Kind::DiskFull => World::fill(&world.disk(), true)?,
        Kind::CaptureDiskFull => {
            world.captures_were_full = true;
            World::fill(&world.capture_disk(), true)?;
        }
        Kind::NamesGone => {
            world.name(false)?;
            world.daemon = None;
            world.start_daemon(None);
        }
        Kind::ControlFlooded => {
            flood = Some(connections(&default_path(&world.page()), fault.which));
        }
    }
    // An outage that readers are to be told of begins when the last of it is gone.
    match fault.kind {
        Kind::DaemonKilled | Kind::DaemonStopped | Kind::DaemonEnded => {
            ledger.put_out(Part::Daemon);
        }
        Kind::WireDown => ledger.put_out(Part::Wire),
        _ => {}
    }
    Ok(Force { fault, _flood: flood })
}

/// Undoes it.
///
/// # Errors
/// Where that does not work.
pub fn undo(world: &mut World<'_>, ledger: &Ledger, force: Force) -> Result<(), Failure> {
    let Force { fault, _flood: flood } = force;
    drop(flood);
    // Packets may still get lost after it: the ledger allows for that.
    ledger.put_back(fault.part);
    match fault.kind {
        Kind::DaemonKilled | Kind::DaemonEnded => world.start_daemon(None),
        Kind::ClockStepped => {
            world.daemon = None;
            world.start_daemon(None);
        }
        Kind::DaemonStopped => signal(&mut world.daemon, Signal::Continue),
        Kind::ServeKilled => world.start_serve(),
        Kind::ServeStopped => signal(&mut world.serve, Signal::Continue),
        Kind::CaptureKilled => world.start_capture(),
        Kind::CaptureStopped => signal(&mut world.capture, Signal::Continue),
        Kind::InterfaceDown => world.load_up()?,
        Kind::AgentKilled => world.bed.start_agent(fault.node())?,
        Kind::AgentStopped => world.bed.agent(fault.node())?.signal(Signal::Continue),
        Kind::CorosyncKilled => {
            world.bed.ring_mut().start(fault.node());
            world.corosync_out = None;
        }
        Kind::CorosyncStopped => world.bed.ring().cont(fault.node()),
        Kind::NodeCut => world.bed.ring().plug(fault.node()),
        Kind::ServerDown => world.resume_server(fault.server()),
        Kind::WireDown => world.server(&["link", "set", "wire", "up"])?,
        Kind::HostMoved => world.move_client(false)?,
        Kind::Loss | Kind::Slow => {
            (0..SERVERS).for_each(|n| world.start_relay(n, Route::Usual));
        }
        Kind::DiskFull => World::fill(&world.disk(), false)?,
        Kind::CaptureDiskFull => World::fill(&world.capture_disk(), false)?,
        Kind::NamesGone => {
            world.name(true)?;
        }
        Kind::DaemonHup
        | Kind::ServerMoved
        | Kind::ServeFlooded
        | Kind::CaptureFlooded
        | Kind::ControlFlooded => {}
    }
    Ok(())
}
