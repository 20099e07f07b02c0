//! A card's clock (PTP hardware clock, PHC), read beside the counter.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use truechimer_counter::{Counter, HostPair, raw_pair, realtime_pair};
use truechimer_time::{Count, CountSpan, Period, Span, Stamp, StampMethod};

use crate::ptp::{self, Beside};
use crate::{PairLog, Window};

/// Number of readings that the narrowest pair is taken of.
const TRIES: u32 = 8;

/// Questions to a clock, times in ns; a trait so that one can be made up. `None` stands for what no
/// clock shows.
trait Device: Send {
    /// The clock and `CLOCK_MONOTONIC_RAW` at the very same moment, by hardware.
    fn precise(&mut self) -> io::Result<[Option<i64>; 2]>;
    /// Readings of the clock, each between two of that clock of the host's.
    fn extended(&mut self, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>>;
    /// The clock alone.
    fn read(&mut self) -> io::Result<i64>;
}

/// Number of readings that are asked for at once: the narrowest is used.
const READINGS: u32 = 5;

impl Device for File {
    fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
        ptp::precise(self, Beside::Raw)
    }

    fn extended(&mut self, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
        ptp::extended(self, READINGS, beside)
    }

    fn read(&mut self) -> io::Result<i64> {
        ptp::read(self)
    }
}

/// The counter and the host's clocks, for the same reason.
trait Host: Send {
    fn pair(&mut self, of: Beside) -> HostPair;
    fn count(&mut self) -> Count;
}

impl Host for Counter {
    fn pair(&mut self, of: Beside) -> HostPair {
        match of {
            Beside::Realtime => realtime_pair(*self, TRIES),
            Beside::Raw => raw_pair(*self, TRIES),
        }
    }

    fn count(&mut self) -> Count {
        self.fenced().read()
    }
}

/// Ways to compare the clock with the counter, the best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// `PTP_SYS_OFFSET_PRECISE`: the hardware reads both at once.
    Precise,
    /// `PTP_SYS_OFFSET_EXTENDED`: the driver reads the clock between two readings of the host's.
    Extended(Beside),
    /// The counter is read before and after the call that reads the clock.
    Around,
}

impl Way {
    /// The one to try when this is not to be had.
    fn after(self) -> Option<Way> {
        match self {
            Way::Precise => Some(Way::Extended(Beside::Raw)),
            Way::Extended(Beside::Raw) => Some(Way::Extended(Beside::Realtime)),
            Way::Extended(Beside::Realtime) => Some(Way::Around),
            Way::Around => None,
        }
    }

    /// Says whether an error means that this is not to be had, and not that it failed. `ENODEV` says that a clock is gone, but
    /// to [`Way::Precise`] also that the host counts by none that the hardware reads (hpet, kvm-clock).
    fn is_lacking(self, why: &io::Error) -> bool {
        match why.raw_os_error() {
            Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => true,
            Some(libc::ENODEV) => self == Way::Precise,
            _ => false,
        }
    }

    /// The clock of the host's that shows when it was.
    fn beside(self) -> Beside {
        match self {
            Way::Precise | Way::Extended(Beside::Raw) => Beside::Raw,
            Way::Extended(Beside::Realtime) | Way::Around => Beside::Realtime,
        }
    }
}

/// A device's clock between two readings of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DevicePair {
    /// The count before.
    pub before: Count,
    /// The device's clock, ns on its own scale.
    pub device_ns: i64,
    /// The count after.
    pub after: Count,
}

impl DevicePair {
    /// The middle of the two counts, with half of what lies between them, and `resolution`, as its
    /// error.
    #[must_use]
    pub fn stamp(&self, resolution: CountSpan) -> Stamp {
        let half = (self.after - self.before).0 / 2;
        Stamp {
            count: self.before + CountSpan(half),
            error: CountSpan(half + 1) + resolution,
            method: StampMethod::Kernel,
        }
    }
}

/// A PTP hardware clock.
pub struct DeviceClock {
    device: Box<dyn Device>,
    host: Box<dyn Host>,
    log: PairLog,
    way: Way,
}

impl DeviceClock {
    /// Opens `/dev/ptpN`, to be compared with a counter whose counts last `period` and which counts
    /// in steps of `resolution`.
    ///
    /// # Errors
    /// If there is none, it may not be read, or it is no clock.
    pub fn open(
        path: &Path,
        counter: Counter,
        period: Period,
        resolution: CountSpan,
    ) -> io::Result<DeviceClock> {
        // Not to wait for the other end of a pipe.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let device = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let log = PairLog::new(period, resolution);
        let mut clock = DeviceClock::new(Box::new(device), Box::new(counter), log);
        clock.pair()?;
        Ok(clock)
    }

    fn new(device: Box<dyn Device>, host: Box<dyn Host>, log: PairLog) -> DeviceClock {
        DeviceClock { device, host, log, way: Way::Precise }
    }

    /// Reads the clock beside the counter now: 2 to 20 µs, mostly the card's.
    ///
    /// # Errors
    /// If the clock cannot be read (any more).
    pub fn pair(&mut self) -> io::Result<DevicePair> {
        let mut way = self.way;
        loop {
            let why = match self.pair_by(way) {
                Ok(pair) => return Ok(pair),
                Err(why) => why,
            };
            let lacking = way.is_lacking(&why);
            match way.after() {
                // Cards whose hardware fails to read both clocks for once can be read all the same.
                Some(next) if lacking || way == Way::Precise => {
                    if lacking && way == self.way {
                        self.way = next;
                    }
                    way = next;
                }
                _ => return Err(why),
            }
        }
    }

    fn pair_by(&mut self, way: Way) -> io::Result<DevicePair> {
        let beside = way.beside();
        let first = self.host.pair(beside);
        let start = self.host.count();
        let answer = self.read(way);
        let end = self.host.count();
        let second = self.host.pair(beside);
        let readings = answer?;
        self.log.clear();
        self.log.push(first);
        self.log.push(second);
        let window = Window { earliest: start, latest: end };
        let narrowed = readings
            .iter()
            .filter_map(|reading| narrow(&self.log, window, *reading))
            .min_by_key(|pair| (pair.after - pair.before).0);
        // Where the host's clock did something odd meanwhile, the counts around it all hold.
        let around = readings.first().map(|[_, device_ns, _]| DevicePair {
            before: start,
            device_ns: *device_ns,
            after: end,
        });
        Ok(narrowed.or(around).ok_or(io::ErrorKind::InvalidData)?)
    }

    /// The host's clock before, the device's, and the host's after. Where the host's was not read,
    /// it is `i64::MIN` and `i64::MAX`.
    fn read(&mut self, way: Way) -> io::Result<Vec<[i64; 3]>> {
        Ok(match way {
            Way::Precise => match self.device.precise()? {
                [Some(device), Some(host)] => vec![[host, device, host]],
                _ => Vec::new(),
            },
            Way::Extended(beside) => {
                let all = self.device.extended(beside)?;
                let whole = |[before, device, after]: [Option<i64>; 3]| {
                    Some([before?, device?, after?]).filter(|[before, _, after]| before <= after)
                };
                all.into_iter().filter_map(whole).collect()
            }
            Way::Around => vec![[i64::MIN, self.device.read()?, i64::MAX]],
        })
    }

    /// Way in which the clock is compared with the counter, for people.
    #[must_use]
    pub fn way(&self) -> &'static str {
        match self.way {
            Way::Precise => "precise: the hardware reads both clocks at once",
            Way::Extended(Beside::Raw) => {
                "extended: the driver reads the card between two readings of the host's raw clock"
            }
            Way::Extended(Beside::Realtime) => {
                "extended: the driver reads the card between two readings of the host"
            }
            Way::Around => "around: the counter before and after the call",
        }
    }
}

/// The device of a clock that the user has named: by its path, by the name that its driver gives it
/// (`clock_name`), or by a network interface that has it.
///
/// # Errors
/// If there is none of that name; the text says which there are.
pub fn find(name: &str) -> Result<PathBuf, String> {
    find_in(Path::new("/sys/class"), name)
}

/// Finds it with the classes of devices in this directory.
fn find_in(classes: &Path, name: &str) -> Result<PathBuf, String> {
    if name.starts_with('/') {
        return Ok(name.into());
    }
    let mut named: Vec<(PathBuf, String)> = devices_in(&classes.join("ptp"))
        .into_iter()
        .filter_map(|device| {
            let text =
                std::fs::read_to_string(classes.join("ptp").join(&device).join("clock_name"));
            Some((Path::new("/dev").join(&device), text.ok()?.trim().to_owned()))
        })
        .collect();
    named.sort();
    let of_name: Vec<&(PathBuf, String)> = named.iter().filter(|(_, of)| of == name).collect();
    match of_name.as_slice() {
        [(device, _)] => return Ok(device.clone()),
        [] => {}
        several => {
            let all: Vec<String> =
                several.iter().map(|(device, _)| device.display().to_string()).collect();
            return Err(format!("{} are called {name}: name one by its path", all.join(" and ")));
        }
    }
    let plain = !name.contains('/') && name != "..";
    let of_interface = classes.join("net").join(name).join("device/ptp");
    if let Some(device) = devices_in(&of_interface).first().filter(|_| plain) {
        return Ok(Path::new("/dev").join(device));
    }
    if named.is_empty() {
        return Err(format!("no clock is called {name}: this machine has none (/sys/class/ptp)"));
    }
    let all: Vec<String> =
        named.iter().map(|(device, of)| format!("{} ({of})", device.display())).collect();
    Err(format!(
        "no clock and no interface with one is called {name}; there are {}",
        all.join(", ")
    ))
}

/// The names `ptpN` in a directory, in order.
fn devices_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("ptp")).collect();
    names.sort();
    names
}

/// Bound of the clock's error as its driver states it (Amazon's ENA does): `None` if it states none, zero
/// if it says that the clock is not synchronised.
#[must_use]
pub fn stated_error(device: &Path) -> Option<Span> {
    stated_in(Path::new("/sys/class"), device)
}

/// [`stated_error`] by what is below `classes`.
fn stated_in(classes: &Path, device: &Path) -> Option<Span> {
    let number = device.canonicalize().ok()?.file_name()?.to_str()?.to_owned();
    let path = classes.join("ptp").join(number).join("device/phc_error_bound");
    Some(parse_error(&std::fs::read_to_string(path).ok()?))
}

/// A number of ns: 0 stands for a clock that is not synchronised, as what is no number, or 4.3 s and more, does
/// here.
fn parse_error(text: &str) -> Span {
    text.trim().parse::<u32>().map_or(Span::ZERO, |ns| Span::from_nanos(ns.into()))
}

/// Narrows the window by the host's clock around a reading.
fn narrow(
    log: &PairLog,
    window: Window,
    [before, device_ns, after]: [i64; 3],
) -> Option<DevicePair> {
    let first = log.invert(before, window).ok()?;
    let last = log.invert(after, window).ok()?;
    let (from, to) = (first.count - first.error, last.count + last.error);
    let before = if from.at_or_after(window.earliest) { from } else { window.earliest };
    let after = if window.latest.at_or_after(to) { to } else { window.latest };
    after.at_or_after(before).then_some(DevicePair { before, device_ns, after })
}

impl fmt::Debug for DeviceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceClock { device: _, host: _, log: _, way } = self;
        f.debug_struct("DeviceClock").field("way", way).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
