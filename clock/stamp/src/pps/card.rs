//! Pulses that a card stamps by its own clock: external time stamps of a PTP hardware clock.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use truechimer_counter::Counter;
use truechimer_time::{Count, CountSpan, Period, Span, Stamp};

use crate::phc::DeviceClock;
use crate::{CardLog, NoStamp, Window, ptp, readable};

/// Time that a card's driver may take to show an edge: some look at the card from time to time only.
const SHOWN: Span = Span::from_millis(250);
/// Time that pairs of the two clocks are kept, for edges that are still to be shown.
const KEPT: Span = Span::from_secs(2);
/// Reads of the device in one go: the kernel keeps 128 edges, and gives at least one at a time.
const READS: u32 = 128;

/// Input of a card: `DEVICE`, `DEVICE:channel=N`, `DEVICE:channel=N:pin=N`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Path of the clock's device.
    pub device: PathBuf,
    /// Number of the channel.
    pub channel: u32,
    /// Pin that is made the channel's input; `None` leaves pins as they are.
    pub pin: Option<u32>,
}

impl Input {
    /// True where a pulse's path is that of a card's device.
    #[must_use]
    pub fn is_meant(path: &str) -> bool {
        path.starts_with("/dev/ptp")
    }
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Input, String> {
        let mut parts = text.split(':');
        let device = parts.next().unwrap_or_default().into();
        let mut input = Input { device, channel: 0, pin: None };
        for part in parts {
            let (key, number) = part.split_once('=').unwrap_or((part, ""));
            let number =
                number.parse().map_err(|_| format!("`{part}` is no number of an input"))?;
            match key {
                "channel" => input.channel = number,
                "pin" => input.pin = Some(number),
                _ => return Err(format!("`{part}` is neither a channel nor a pin")),
            }
        }
        Ok(input)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device.display())?;
        if self.channel != 0 || self.pin.is_some() {
            write!(f, ":channel={}", self.channel)?;
        }
        self.pin.map_or(Ok(()), |pin| write!(f, ":pin={pin}"))
    }
}

/// An edge that a card stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardEdge {
    /// Number of the edge, counted here from 1 on.
    pub sequence: u64,
    /// When it came, or why that is no count.
    pub stamp: Result<Stamp, NoStamp>,
}

/// Edges at an input of a card.
///
/// Nothing is believed of the card's clock but that it goes on, as with stamps of packets ([`CardLog`]).
/// Linux before 6.7 shows each edge to one of those who have the device open.
pub struct CardPulse {
    input: Input,
    device: File,
    clock: DeviceClock,
    counter: Counter,
    log: CardLog,
    /// When the two clocks were read, in order.
    looks: Vec<Count>,
    shown: CountSpan,
    kept: CountSpan,
    sequence: u64,
}

impl CardPulse {
    /// Makes the card stamp rising edges at an input, by a counter whose counts last `period` and which counts in
    /// steps of `resolution`. Edges from before are not reported.
    ///
    /// # Errors
    /// If there is no such device, it has no such input, or this process may not ask for that.
    pub fn open(
        input: Input,
        counter: Counter,
        period: Period,
        resolution: CountSpan,
    ) -> io::Result<CardPulse> {
        let device = open(&input.device)?;
        if let Some(pin) = input.pin {
            ptp::make_input(&device, pin, input.channel)?;
        }
        ptp::stamp_edges(&device, input.channel, true)?;
        let clock = DeviceClock::open(&input.device, counter, period, resolution)?;
        let mut pulse = CardPulse {
            input,
            device,
            clock,
            counter,
            log: CardLog::new(period, resolution),
            looks: Vec::new(),
            shown: period.counts(SHOWN),
            kept: period.counts(KEPT),
            sequence: 0,
        };
        pulse.newest()?;
        Ok(pulse)
    }

    /// Path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.input.device
    }

    /// Reads both clocks: to be called before each look for an edge. Where the card's cannot be read, the look
    /// itself says why.
    pub fn look(&mut self) -> Count {
        let _ = self.pair();
        self.counter.fenced().read()
    }

    /// The newest edge since the last call, if there is one.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn fetch(&mut self) -> io::Result<Option<CardEdge>> {
        let Some(device_ns) = self.newest()? else { return Ok(None) };
        self.sequence += 1;
        let latest = self.pair()?;
        let long_ago = latest - self.shown;
        let earliest = self.looks.iter().rev().find(|look| long_ago.at_or_after(**look));
        let earliest = earliest.or(self.looks.first()).copied().unwrap_or(latest);
        let stamp = self.log.place(device_ns, Window { earliest, latest });
        Ok(Some(CardEdge { sequence: self.sequence, stamp }))
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        self.log.clear();
        self.looks.clear();
    }

    /// Reads both clocks; the last count at which that was.
    fn pair(&mut self) -> io::Result<Count> {
        let pair = self.clock.pair()?;
        self.log.push(pair);
        let old = pair.before - self.kept;
        if self.looks.last().is_some_and(|last| !pair.before.at_or_after(*last)) {
            self.looks.clear();
        }
        self.looks.retain(|look| look.at_or_after(old));
        self.looks.push(pair.before);
        Ok(pair.after)
    }

    /// The card's time of the newest edge at this input that waits.
    fn newest(&mut self) -> io::Result<Option<i64>> {
        let mut newest = None;
        for _ in 0..READS {
            // The read would wait, whatever the file's flags.
            if !readable(&self.device, Duration::ZERO)? {
                break;
            }
            let edges = ptp::edges(&mut self.device)?;
            let own = edges.into_iter().filter(|(channel, _)| *channel == self.input.channel);
            newest = own.filter_map(|(_, at)| at).next_back().or(newest);
        }
        Ok(newest)
    }
}

impl Drop for CardPulse {
    fn drop(&mut self) {
        // A device that is gone stamps nothing.
        let _ = ptp::stamp_edges(&self.device, self.input.channel, false);
    }
}

/// Opens a device to be set, as newer kernels want it for that, or to be read, which is enough for others.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    match options.clone().write(true).open(path) {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => options.open(path),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    #[test]
    fn inputs_are_read_as_they_are_written() {
        for (text, channel, pin) in [
            ("/dev/ptp0", 0, None),
            ("/dev/ptp0:channel=1", 1, None),
            ("/dev/ptp0:channel=0:pin=3", 0, Some(3)),
        ] {
            let input: Input = text.parse().unwrap();
            assert_eq!(input, Input { device: "/dev/ptp0".into(), channel, pin });
            assert_eq!(input.to_string(), text);
        }
        for wrong in ["/dev/ptp0:", "/dev/ptp0:pin", "/dev/ptp0:pin=-1", "/dev/ptp0:x=1"] {
            assert!(wrong.parse::<Input>().is_err(), "{wrong}");
        }
        assert!(Input::is_meant("/dev/ptp1:pin=0") && !Input::is_meant("/dev/pps0"));
    }

    #[test]
    fn a_file_is_no_input_of_a_card() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let input = "/dev/null".parse().unwrap();
        let Err(why) = CardPulse::open(input, counter, Period::NANOSECOND, CountSpan(1)) else {
            panic!("it is none")
        };
        assert_eq!(why.raw_os_error(), Some(libc::ENOTTY));
    }
}
