//! Readings of a reference clock of any kind, each with its count.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use truechimer_counter::Counter;
use truechimer_counter::vmclock::Vmclock;
use truechimer_engine::{RefClockKind, Scale, Shown};
use truechimer_files::Bound;
use truechimer_stamp::phc::{self, DeviceClock};
use truechimer_stamp::pps::card::{CardPulse, Input};
use truechimer_stamp::pps::{Edge, EdgeLog, Pps, PpsError};
use truechimer_stamp::shm::{self, Shm};
use truechimer_stamp::sock;
use truechimer_time::{Count, CountSpan, Period, Span, Stamp, StampMethod};

use super::hypervisor;

/// The leap indicator of a clock that is not synchronised.
const UNSYNCHRONISED: u8 = 3;

/// Those that say nothing of their time scale.
const UNSAID: Scale = Scale::Auto;
/// Programs show a sample so much later than they took it, at the most.
const SHOWN: Span = Span::from_secs(2);
/// Only the owner may send: whoever can, tells what time it is.
const MODE: u32 = 0o600;
/// Datagrams that are read at a time.
const DATAGRAMS: usize = 32;

/// A reference clock that is open.
pub(super) enum Reader {
    Pulse(Pps, EdgeLog),
    CardPulse(CardPulse),
    Shm(Shm, EdgeLog),
    /// The name goes with the socket.
    Sock(UnixDatagram, #[expect(dead_code, reason = "held for its end")] Bound, EdgeLog),
    Phc(PathBuf, DeviceClock, CountSpan),
    Vmclock(Vmclock, Counter, CountSpan),
}

/// A sample.
pub(super) struct Sample {
    /// Sequence number, if it has one.
    pub(super) sequence: Option<u64>,
    /// When, or why that is no count.
    pub(super) stamp: Result<Stamp, String>,
    pub(super) shown: Shown,
}

/// Trouble with a reference clock.
pub(super) struct Trouble {
    pub(super) text: String,
    /// True if it may be over at the next look.
    pub(super) may_pass: bool,
}

impl Trouble {
    fn new(why: impl fmt::Display, may_pass: bool) -> Trouble {
        Trouble { text: why.to_string(), may_pass }
    }
}

impl Reader {
    /// Opens it, to be read beside this counter.
    pub(super) fn open(
        kind: RefClockKind,
        path: &str,
        (counter, nominal, resolution): (Counter, Period, CountSpan),
    ) -> Result<Reader, String> {
        let log = || EdgeLog::new(counter, nominal, resolution);
        let of_program = || log().shown_within(SHOWN);
        match kind {
            RefClockKind::Pulse if Input::is_meant(path) => {
                let input: Input = path.parse()?;
                let pulse = CardPulse::open(input.clone(), counter, nominal, resolution);
                Ok(Reader::CardPulse(pulse.map_err(|why| no_input(&input, &why))?))
            }
            RefClockKind::Pulse => {
                let pps = Pps::open(Path::new(path)).map_err(|why| why.to_string())?;
                Ok(Reader::Pulse(pps, log()))
            }
            RefClockKind::Shm => {
                let unit = path.parse().ok().filter(|unit| shm::UNITS.contains(unit));
                let unit = unit.ok_or("a segment has a number from 0 to 15")?;
                let shm = Shm::open(unit).map_err(|why| format!("segment {unit}: {why}"))?;
                Ok(Reader::Shm(shm, of_program()))
            }
            RefClockKind::Sock => {
                let bound = truechimer_files::receive(Path::new(path), MODE);
                let (socket, name) = bound.map_err(|why| format!("{path}: {why}"))?;
                Ok(Reader::Sock(socket, name, of_program()))
            }
            RefClockKind::Phc => {
                let device = phc::find(path)?;
                let clock = DeviceClock::open(&device, counter, nominal, resolution);
                let clock = clock.map_err(|why| unreadable(&device, &why))?;
                Ok(Reader::Phc(device, clock, resolution))
            }
            RefClockKind::Vmclock => {
                let page = Vmclock::open(path).map_err(|why| why.to_string())?;
                Ok(Reader::Vmclock(page, counter, resolution))
            }
        }
    }

    /// Notes when it is looked at, which is now.
    pub(super) fn prepare(&mut self, counter: Counter) -> Count {
        match self {
            Reader::Pulse(_, log) | Reader::Shm(_, log) | Reader::Sock(_, _, log) => log.look().end,
            Reader::CardPulse(pulse) => pulse.look(),
            Reader::Phc(..) | Reader::Vmclock(..) => counter.read(),
        }
    }

    /// The newest sample, if it is another than the last one.
    pub(super) fn fetch(&mut self) -> Result<Option<Sample>, Trouble> {
        match self {
            Reader::Pulse(pps, log) => {
                let edge = pps.fetch();
                let edge = edge.map_err(|why| {
                    let half = matches!(why, PpsError::Line { .. });
                    Trouble::new(why, half)
                })?;
                Ok(edge.map(|edge| Sample {
                    sequence: Some(edge.sequence),
                    stamp: stamped(log, edge.unix_ns),
                    shown: Shown::PULSE,
                }))
            }
            Reader::CardPulse(pulse) => {
                let edge = pulse.fetch();
                let edge =
                    edge.map_err(|why| Trouble::new(unreadable(pulse.path(), &why), false))?;
                Ok(edge.map(|edge| Sample {
                    sequence: Some(edge.sequence),
                    stamp: edge.stamp.map_err(|why| why.to_string()),
                    shown: Shown::PULSE,
                }))
            }
            Reader::Shm(shm, log) => {
                let sample = shm.fetch().map_err(|why| Trouble::new(why, true))?;
                Ok(sample.map(|sample| {
                    let shm::ShmSample { unix_ns, true_ns, leap, precision } = sample;
                    let error = precision;
                    let shown =
                        Shown { unix_ns: true_ns, pulse: false, error, leap, scale: UNSAID };
                    Sample { sequence: None, stamp: stamped(log, unix_ns), shown }
                }))
            }
            Reader::Sock(socket, _, log) => {
                let sample = newest(socket).map_err(|why| Trouble::new(why, false))?;
                Ok(sample.map(|sample| {
                    let sock::SockSample { unix_ns, true_ns, pulse, leap } = sample;
                    let error = Span::ZERO;
                    let shown = Shown { unix_ns: true_ns, pulse, error, leap, scale: UNSAID };
                    Sample { sequence: None, stamp: stamped(log, unix_ns), shown }
                }))
            }
            Reader::Phc(device, clock, resolution) => {
                let pair =
                    clock.pair().map_err(|why| Trouble::new(unreadable(device, &why), false))?;
                let stated = phc::stated_error(device);
                let leap = if stated == Some(Span::ZERO) { UNSYNCHRONISED } else { 0 };
                let error = stated.unwrap_or(Span::ZERO);
                let unix_ns = pair.device_ns;
                let shown = Shown { unix_ns, pulse: false, error, leap, scale: UNSAID };
                Ok(Some(Sample { sequence: None, stamp: Ok(pair.stamp(*resolution)), shown }))
            }
            Reader::Vmclock(page, counter, resolution) => {
                let at = page.path().display();
                let reading = hypervisor::read(page, *counter)
                    .map_err(|why| Trouble::new(format!("{at}: {why}"), false))?;
                Ok(reading.map(|(count, shown)| {
                    let (error, method) = (*resolution, StampMethod::User);
                    Sample { sequence: None, stamp: Ok(Stamp { count, error, method }), shown }
                }))
            }
        }
    }

    /// True if it shows the time whenever it is asked.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self, Reader::Phc(..) | Reader::Vmclock(..))
    }

    /// Socket that samples come from.
    pub(super) fn socket(&self) -> Option<RawFd> {
        match self {
            Reader::Sock(socket, ..) => Some(socket.as_raw_fd()),
            _ => None,
        }
    }

    /// Forgets all counts.
    pub(super) fn forget(&mut self) {
        match self {
            Reader::Pulse(_, log) | Reader::Shm(_, log) | Reader::Sock(_, _, log) => log.clear(),
            Reader::CardPulse(pulse) => pulse.clear(),
            Reader::Phc(..) | Reader::Vmclock(..) => {}
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reader::Pulse(..) => "Pulse",
            Reader::CardPulse(..) => "CardPulse",
            Reader::Shm(..) => "Shm",
            Reader::Sock(..) => "Sock",
            Reader::Phc(..) => "Phc",
            Reader::Vmclock(..) => "Vmclock",
        })
    }
}

/// The count at which `CLOCK_REALTIME` showed this.
fn stamped(log: &mut EdgeLog, unix_ns: i64) -> Result<Stamp, String> {
    log.stamp(&Edge { sequence: 0, unix_ns }).map_err(|why| why.to_string())
}

/// The newest sample that waits; what makes no sense is left out, as anybody may have sent it.
fn newest(socket: &UnixDatagram) -> io::Result<Option<sock::SockSample>> {
    let mut newest = None;
    let mut datagram = [0; sock::LONGEST + 1];
    for _ in 0..DATAGRAMS {
        match socket.recv(&mut datagram) {
            Ok(length) => {
                let bytes = datagram.get(..length).unwrap_or_default();
                newest = sock::parse(bytes).ok().or(newest);
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => break,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(newest)
}

fn no_input(Input { device, channel, pin }: &Input, why: &io::Error) -> String {
    let lacks = |why: &io::Error| {
        matches!(
            why.raw_os_error(),
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EBUSY | libc::ENOTTY)
        )
    };
    if !lacks(why) {
        return unreadable(device, why);
    }
    let pin = pin.map_or(String::new(), |pin| format!(" at pin {pin}"));
    format!(
        "{} stamps no pulses on channel {channel}{pin}: {why}: see how many there are in \
         /sys/class/ptp/*/n_external_timestamps, and its pins below /sys/class/ptp/*/pins",
        device.display()
    )
}

fn unreadable(device: &Path, why: &io::Error) -> String {
    let path = device.display();
    let mend = match why.kind() {
        ErrorKind::PermissionDenied => {
            format!(": chgrp {path} to a group of this user's, and chmod g+r")
        }
        ErrorKind::NotFound => ": ls /sys/class/ptp shows those that there are".to_owned(),
        _ => String::new(),
    };
    format!("{path} cannot be read: {why}{mend}")
}
