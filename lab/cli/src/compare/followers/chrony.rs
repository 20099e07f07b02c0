//! chronyd with `-x`: the system clock, which it leaves alone, and the correction of it that it
//! would make.
//!
//! With `-x` chronyd keeps that correction in a register instead of in the kernel; every stamp of
//! its own and every reply that it gives as a server has it applied, and `tracking` reports it as
//! "system time". The clock that it would have made is thus known to the nanosecond at any moment.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::binary;
use truechimer_testbed::chrony::installed;
use truechimer_testbed::process::Process;
use truechimer_time::Count;

use super::{Follower, Said};
use crate::compare::bed::{Bed, SERVER};
use crate::compare::moment::{Counters, Moment};

/// Time that it has to open its control socket.
const START: Duration = Duration::from_secs(20);
/// An answer to `tracking` that took longer than that is of no use, ns.
const SLOW_NS: f64 = 20e6;

/// Contents of `chronyc -c tracking`, as far as they matter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tracking {
    /// Time by chronyd − the system clock, s.
    pub correction: f64,
    /// The system clock gains so much on its time, parts in 10⁶.
    pub gain_ppm: f64,
    /// Half of this and the dispersion are its bound, s.
    pub root_delay: f64,
    /// See there.
    pub root_dispersion: f64,
    /// True if it is synchronised at all.
    pub synchronised: bool,
}

impl Tracking {
    /// Reads a line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Tracking> {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let number = |n: usize| fields.get(n)?.parse::<f64>().ok().filter(|v| v.is_finite());
        Some(Tracking {
            correction: number(4)?,
            gain_ppm: number(7)?,
            root_delay: number(10)?,
            root_dispersion: number(11)?,
            synchronised: *fields.get(13)? != "Not synchronised",
        })
    }

    /// Bound on its own error (as `chronyc(1)` has it, the correction being applied), ns.
    #[must_use]
    pub fn bound_ns(&self) -> f64 {
        (self.root_delay / 2.0 + self.root_dispersion) * 1e9
    }
}

/// A chronyd, and a chronyc that asks it.
#[derive(Debug)]
pub struct Chrony {
    name: String,
    _daemon: Process,
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    newest: Option<(Count, Tracking)>,
}

impl Chrony {
    /// Starts one with these further options of `server`.
    ///
    /// # Errors
    /// If it is not installed, or does not start.
    pub fn start(bed: &Bed, name: &str, poll: u32, options: &str) -> Result<Chrony, Failure> {
        installed().map_err(|lacking| Failure(lacking.to_string()))?;
        // chronyc takes what has a comma for several sockets.
        let word: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let file = |what: &str| bed.dir.join(&format!("{word}-{what}"));
        let (configuration, folder, log) = (file("conf"), file("run"), file("log"));
        let socket = folder.join("sock");
        let poll = poll.ilog2();
        let text = format!(
            "server {SERVER} iburst minpoll {poll} maxpoll {poll} {options}\nport 0\ncmdport 0\n\
             bindcmdaddress {}\npidfile {}\nuser root\n",
            socket.display(),
            file("pid").display(),
        );
        std::fs::write(&configuration, text)
            .map_err(|why| Failure::of(configuration.display(), why))?;
        let mut command = bed.net.client.command(binary::system("chronyd"));
        command.args(["-d", "-x", "-f"]).arg(&configuration);
        let mut daemon = Process::start(command, &log);
        let end = std::time::Instant::now() + START;
        while !socket.exists() {
            if !daemon.is_running() || std::time::Instant::now() >= end {
                return Err(Failure::of("chronyd", daemon.output().trim()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut client = client(bed, &socket)?;
        let ends = client.stdin.take().zip(client.stdout.take());
        let (input, output) = ends.ok_or_else(|| Failure("chronyc: no pipes".to_owned()))?;
        let output = BufReader::new(output);
        let name = name.to_owned();
        let mut chrony = Chrony { name, _daemon: daemon, client, input, output, newest: None };
        if chrony.tracking().is_none() {
            return Err(Failure(format!("{}: chronyc does not get through to it", chrony.name)));
        }
        Ok(chrony)
    }

    fn tracking(&mut self) -> Option<Tracking> {
        self.input.write_all(b"tracking\n").ok()?;
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        Tracking::parse(&line)
    }
}

fn client(bed: &Bed, socket: &Path) -> Result<Child, Failure> {
    let mut command = bed.net.client.command(chronyc()?);
    command.args(["-c", "-n", "-h"]).arg(socket);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(|why| Failure::of("chronyc (package chrony)", why))
}

/// chronyc, which an unpacked package has beside its chronyd.
fn chronyc() -> Result<PathBuf, Failure> {
    let unpacked = binary::system("chronyd").parent().map(|sbin| sbin.join("../bin/chronyc"));
    [Some(binary::system("chronyc")), unpacked]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
        .ok_or_else(|| Failure("chronyc (package chrony): not found in PATH".to_owned()))
}

impl Drop for Chrony {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

impl Follower for Chrony {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, counters: &Counters) {
        let before = counters.native.read();
        let tracking = self.tracking();
        let after = counters.native.read();
        // The correction was read somewhere between, and changes by some ppm of the time that took.
        self.newest = tracking
            .filter(|tracking| tracking.synchronised)
            .filter(|_| counters.ns(after - before) < SLOW_NS)
            .map(|tracking| (before.midpoint(after), tracking));
    }

    fn said(&mut self, counters: &Counters, moment: &Moment) -> Option<Said> {
        let (asked, tracking) = self.newest.take()?;
        let since_ns = counters.ns(moment.count - asked);
        let correction_ns = tracking.correction * 1e9 - tracking.gain_ppm * 1e-6 * since_ns;
        Some(Said {
            unix_ns: moment.realtime_ns + correction_ns.round() as i64,
            bound_ns: Some(tracking.bound_ns()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_tracking_is_read() {
        let line = "A9FEA97B,169.254.169.123,2,1763804803.1,0.010023456,0.000000123,0.000000456,\
                    -20.123,0.010,0.500,0.000612345,0.000034567,2.0,Normal\n";
        let tracking = Tracking::parse(line).unwrap();
        assert_eq!(tracking.correction, 0.010_023_456);
        assert_eq!(tracking.gain_ppm, -20.123);
        assert!(tracking.synchronised);
        assert!((tracking.bound_ns() - 340_739.5).abs() < 0.1);
        let none = "00000000,,0,0.0,0.0,0.0,0.0,0.000,0.000,0.000,1.0,1.0,0.0,Not synchronised";
        assert!(!Tracking::parse(none).unwrap().synchronised);
        assert_eq!(Tracking::parse("506 Cannot talk to daemon"), None);
    }
}
