//! Two hosts with a clock each, a server, and the relays between them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use truechimer_pcapng::records::{Quality, method_name};
use truechimer_testbed::daemon::Setup;
use truechimer_testbed::namespace::{Namespace, SERVER};
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::{binary, temp};

use super::RATE;
use super::judge::{Judge, Judged, Passed, Point, judge};
use crate::bench::capture::bed::{Bed, NOBODY, WIRE, output};
use crate::bench::capture::frame::marked;
use crate::bench::capture::generator::{Order, Source};
use crate::bench::capture::options::Options;
use crate::bench::capture::trial::{Places, Spool};
use truechimer_outcome::outcome::Failure;

/// Least time for which the relay holds each datagram, ms.
pub const HELD_MS: u32 = 5;
/// Where the NTP server listens, in the first namespace.
const NTP: u16 = 11123;
/// Where the crooked road to it begins.
const CROOKED: u16 = 11124;
/// Where the relay of the datagrams listens.
const ENTRANCE: u16 = 7272;
/// Where it sends them to.
const EXIT: u16 = 9;
/// A clock that has just been synchronised is still getting better fast.
const SETTLING: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

/// Road of the second daemon's requests to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Road {
    /// Over the wire.
    Short,
    /// Through a relay that takes 2 ms there and 1 ms back.
    Crooked,
}

impl Road {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Road::Short => "short",
            Road::Crooked => "crooked",
        }
    }
}

/// All that runs.
pub struct Hosts {
    /// Stops last what the others need.
    _running: Vec<Process>,
    bed: Bed,
    dir: temp::Dir,
    truechimer: PathBuf,
    cpu: String,
}

impl Hosts {
    /// Starts it all, and waits until the clocks are synchronised.
    ///
    /// # Errors
    /// Where something does not start.
    pub fn new(options: &Options) -> Result<Hosts, Failure> {
        let (bed, dir) = (Bed::new(1)?, temp::Dir::new());
        let truechimer = options.truechimer.clone();
        let mut hosts =
            Hosts { _running: Vec::new(), bed, dir, truechimer, cpu: Places::split().generator };
        let near = format!("127.0.0.1:{NTP}");
        let (wire, crooked) = (format!("{SERVER}:{NTP}"), format!("{SERVER}:{CROOKED}"));
        let mut serve = hosts.bed.sender().command(&hosts.truechimer);
        serve.args(["serve", "--clock", "system", "--json", "--listen", &format!("0.0.0.0:{NTP}")]);
        hosts.start("serve", serve);
        hosts.relay("crooked", &crooked, &near, "delay=2ms", "delay=1ms")?;
        let (entrance, exit) = (format!("{SERVER}:{ENTRANCE}"), format!("{NOBODY}:{EXIT}"));
        hosts.relay("relay", &entrance, &exit, &format!("delay={HELD_MS}ms,jitter=200us"), "")?;
        for (name, first, server) in
            [("first", true, &near), ("short", false, &wire), ("crooked", false, &crooked)]
        {
            let side = if first { hosts.bed.sender() } else { hosts.bed.receiver() };
            let setup = Setup { name, network: Some(side), ..Setup::new(&hosts.dir, server) };
            let mut command = side.command(&hosts.truechimer);
            command.args(["run", "--config"]).arg(setup.write());
            hosts.start(&format!("daemon-{name}"), command);
        }
        options.say("waiting for three clocks to be synchronised");
        for (name, bound) in [("first", "1ms"), ("short", "1ms"), ("crooked", "4ms")] {
            output(
                Command::new(&hosts.truechimer)
                    .args(["waitsync", "--max-bound", bound, "--timeout", "60s", "--page"])
                    .arg(hosts.dir.join(name)),
            )?;
        }
        if !options.quick {
            std::thread::sleep(SETTLING);
        }
        Ok(hosts)
    }

    fn start(&mut self, name: &str, command: Command) {
        let log = self.dir.join(&format!("{name}.log"));
        self._running.push(Process::start(command, &log));
    }

    fn relay(
        &mut self,
        name: &str,
        listen: &str,
        to: &str,
        there: &str,
        back: &str,
    ) -> Result<(), Failure> {
        let own = std::env::current_exe().map_err(|e| Failure::of("our own program", e))?;
        let mut command = self.bed.sender().command(own);
        command.args(["bench", "capture", "relay", listen, to, there, back]);
        self.start(&format!("relay-{name}"), command);
        Ok(())
    }

    /// The delays of so many datagrams, captured by this method; and how many were sent.
    ///
    /// # Errors
    /// Where a program does not run.
    pub fn delays(
        &self,
        method: &str,
        road: Road,
        datagrams: u32,
    ) -> Result<(Vec<Judged>, u64), Failure> {
        let (first, second) = (self.bed.sender(), self.bed.receiver());
        let filters = [ENTRANCE, EXIT].map(|port| format!("udp dst port {port}"));
        let [enters, leaves] = &filters;
        let ours = |side: &Namespace, page: &str, filter: &str, file: &Spool| {
            let mut command = side.command(&self.truechimer);
            command.args(["capture", "--method", method, "-i", WIRE, "-f", filter, "--page"]);
            command.arg(self.dir.join(page)).arg("-w").arg(file.path());
            command
        };
        let theirs = |side: &Namespace, filter: &str, file: &Spool| {
            let mut command = side.command(binary::system("tcpdump"));
            command.args(["-Z", "root", "-n", "-i", WIRE, "--time-stamp-precision=nano", "-w"]);
            command.arg(file.path()).arg(filter);
            command
        };
        let mut files = [Spool::new()?, Spool::new()?, Spool::new()?, Spool::new()?];
        let [a, b, c, d] = &files;
        let commands = [
            (ours(first, "first", enters, a), "capturing on"),
            (ours(second, road.name(), leaves, b), "capturing on"),
            (theirs(first, enters, c), "listening on"),
            (theirs(second, leaves, d), "listening on"),
        ];
        let mut captures = Vec::new();
        for (command, ready) in commands {
            let log = Spool::new()?;
            let mut process = Process::start(command, log.path());
            started(&mut process, ready)?;
            captures.push((process, log));
        }
        files.iter().for_each(Spool::hide);
        std::thread::sleep(Duration::from_millis(300));
        let order = Order {
            rate: RATE,
            burst: 1,
            to: SocketAddr::from((SERVER, ENTRANCE)),
            ..Order::new(Source::Socket, 128, datagrams)
        };
        let sent = order.send_from(second, &self.cpu)?.frames;
        // The relay holds the last ones, and the captures their last blocks, for a while.
        std::thread::sleep(Duration::from_millis(1500));
        for (process, _) in &mut captures {
            process.signal(Signal::Term);
            if process.wait(PATIENCE).is_none() {
                return Err(Failure::of("a capture does not end", process.output()));
            }
        }
        let by = if method == "packet" { Judge::Stamps } else { Judge::Counts };
        let mut points = Vec::new();
        for file in &mut files {
            points.push(point(file, method)?);
        }
        match points.as_slice() {
            [a, b, c, d] => Ok((judge(by, [a, b], [c, d]), sent)),
            _ => Ok((Vec::new(), sent)),
        }
    }
}

fn started(process: &mut Process, ready: &str) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    while !process.output().contains(ready) {
        if !process.is_running() || Instant::now() > end {
            return Err(Failure::of("a capture does not start", process.output().trim()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The datagrams in a file; if it is one of ours, they must have been captured by this method.
fn point(file: &mut Spool, method: &str) -> Result<Point, Failure> {
    let mut point = Point::new();
    let mut other = None;
    file.frames(|frame| {
        let (Some(mark), Some(unix_ns)) = (marked(frame.data), frame.unix_ns) else { return };
        let by = frame.record.map(|record| method_name(record.method));
        other = other.or(by.filter(|name| *name != method));
        let count = frame.record.and_then(|record| Some(record.counted?.0.0));
        let promised = frame.record.filter(|record| record.quality == Quality::Bounded);
        let bound_ns = promised.and_then(|record| record.bound_ns);
        point.entry(mark.number).or_insert(Passed { unix_ns, bound_ns, count });
    })?;
    match other {
        Some(other) => Err(Failure(format!("{method}: captures by {other} instead"))),
        None => Ok(point),
    }
}
