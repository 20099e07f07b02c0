//! References, read beside a counter.

use std::fs::File;
use std::time::Duration;

use serde::Serialize;
use truechimer_counter::{Counter, nominal, realtime_pair, resolution};
use truechimer_stamp::pps::{EdgeLog, Pps};
use truechimer_stamp::ptp::{self, Beside};
use truechimer_stamp::{PairLog, Window};
use truechimer_time::{Count, CountSpan, Period, Span};

use super::against::Against;
use super::error::StabilityError;
use super::ntp::Ntp;

/// Readings of a clock, of which the narrowest counts; more, while none is about as narrow as the
/// narrowest so far.
const TRIES: u32 = 16;
const MOST_TRIES: u32 = 64;
/// Longest wait for a pulse at a time.
const LOOK: Duration = Duration::from_millis(200);

/// The reference at one count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The count.
    pub count: Count,
    /// Time that the reference showed, since its own zero.
    pub reference: Span,
    /// The count is known to ± this much, as far as reading the two goes.
    pub half_width: CountSpan,
}

/// Exchanges with an NTP server.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Exchanges {
    /// Requests sent.
    pub sent: u64,
    /// Replies that were good.
    pub answered: u64,
    /// Round trips of the samples that count, s.
    pub round_trip_min_s: f64,
    /// Their median.
    pub round_trip_median_s: f64,
    /// Number of good replies of which the kernel stamped both packets.
    pub kernel_stamped: u64,
}

/// A reference that is being read.
pub(super) enum Reference {
    /// A clock or counter that is read in between two readings of the counter.
    Clock(Clock),
    Ntp(Box<Ntp>),
    Pps(Box<Pulses>),
    Phc(Hardware),
}

/// State that a resumed measurement goes on from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continued {
    /// The reference at the very beginning.
    pub origin: Span,
    /// The period of the reference if it is a counter.
    pub period: Option<Period>,
    /// The counter at the first and at the last sample, and how many seconds of the reference the
    /// last one is after the first.
    pub first: Count,
    pub last: Count,
    pub last_s: f64,
}

impl Reference {
    pub(super) fn open(
        against: &Against,
        counter: Counter,
        period: Period,
        continued: Option<Continued>,
    ) -> Result<Reference, StabilityError> {
        let failed = |why: String| StabilityError::Reference(against.to_string(), why);
        let step = resolution(counter);
        match against {
            Against::Raw => {
                Clock::of(counter, Counter::open(truechimer_counter::Choice::Raw)?, continued)
            }
            Against::Counter(_, choice) => Clock::of(counter, Counter::open(*choice)?, continued),
            Against::Realtime => {
                Ok(Reference::Clock(Clock { counter, other: Other::Realtime, narrowest: None }))
            }
            Against::Ntp(host, port) => {
                let ntp = Ntp::open(host, *port, counter, period, step).map_err(failed)?;
                Ok(Reference::Ntp(Box::new(ntp)))
            }
            Against::Pps(path) => Ok(Reference::Pps(Box::new(Pulses {
                pps: Pps::open(path).map_err(|why| failed(why.to_string()))?,
                edges: EdgeLog::new(counter, period, step),
                period,
                origin: continued.map(|c| c.origin.as_nanos_i64()),
                seconds: continued.map(|c| Seconds {
                    first: (c.first, 0),
                    last: (c.last, c.last_s.round() as i64),
                }),
            }))),
            Against::Phc(path) => {
                let open = || -> std::io::Result<Hardware> {
                    let device = File::open(path)?;
                    let precise = ptp::precise(&device, Beside::Realtime).is_ok();
                    ptp::extended(&device, READINGS, Beside::Realtime)?;
                    Ok(Hardware { device, precise, counter, log: PairLog::new(period, step) })
                };
                let hint = "a PTP hardware clock is a device as /dev/ptp0 (ethtool -T says which \
                            network card has which)";
                Ok(Reference::Phc(open().map_err(|why| failed(format!("{why}: {hint}")))?))
            }
            Against::File(_) => Err(failed("a file is not measured".into())),
        }
    }

    /// A sample; `None` if there is none within a moment (no pulse, no reply), to be asked again.
    pub(super) fn take(&mut self) -> Result<Option<Sample>, String> {
        match self {
            Reference::Clock(clock) => Ok(Some(clock.take())),
            Reference::Ntp(ntp) => ntp.take(),
            Reference::Pps(pulses) => pulses.take(),
            Reference::Phc(hardware) => hardware.take().map_err(|why| why.to_string()),
        }
    }

    /// True if samples come at the reference's own pace.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self, Reference::Pps(_))
    }

    pub(super) fn period(&self) -> Option<Period> {
        match self {
            Reference::Clock(Clock { other: Other::Counter(_, period), .. }) => Some(*period),
            _ => None,
        }
    }

    /// Reads a counter that is the reference, which is narrow perhaps and wants to be read, and
    /// says how often it was not read in time.
    pub(super) fn attend(&self) -> u32 {
        let Reference::Clock(Clock { other: Other::Counter(other, _), .. }) = self else {
            return 0;
        };
        let _ = other.read();
        other.lapses()
    }

    pub(super) fn exchanges(&self, taken: &[CountSpan], period: Period) -> Option<Exchanges> {
        let Reference::Ntp(ntp) = self else { return None };
        Some(ntp.exchanges(taken, period))
    }
}

/// A clock of the host.
pub(super) struct Clock {
    counter: Counter,
    other: Other,
    /// The narrowest reading so far.
    narrowest: Option<CountSpan>,
}

enum Other {
    Realtime,
    Counter(Counter, Period),
}

impl Clock {
    fn of(
        counter: Counter,
        other: Counter,
        continued: Option<Continued>,
    ) -> Result<Reference, StabilityError> {
        if other.kind() == counter.kind() {
            let why = format!(
                "the counter {} cannot be compared with itself: choose another --counter or --against",
                counter.kind().name()
            );
            return Err(StabilityError::Asked(why));
        }
        if continued.is_some() {
            resumable(other).map_err(StabilityError::Asked)?;
        }
        let period = match continued.and_then(|c| c.period) {
            Some(period) => period,
            None => nominal(other)?.period,
        };
        let other = Other::Counter(other.fenced(), period);
        Ok(Reference::Clock(Clock { counter: counter.fenced(), other, narrowest: None }))
    }

    fn take(&mut self) -> Sample {
        let mut best: Option<(CountSpan, Sample)> = None;
        for nth in 0..MOST_TRIES {
            let (width, sample) = self.once();
            if width >= CountSpan(0) && best.as_ref().is_none_or(|(least, _)| width < *least) {
                best = Some((width, sample));
            }
            let narrow = self.narrowest.is_none_or(|narrowest| {
                best.as_ref().is_some_and(|(least, _)| least.0 <= narrowest.0.saturating_mul(2))
            });
            if nth + 1 >= TRIES && narrow {
                break;
            }
        }
        // A counter that only ever goes back has no better reading.
        let (width, sample) = best.unwrap_or_else(|| self.once());
        self.narrowest = Some(self.narrowest.map_or(width, |narrowest| narrowest.min(width)));
        sample
    }

    fn once(&self) -> (CountSpan, Sample) {
        let (before, reference, after) = match &self.other {
            Other::Realtime => {
                let pair = realtime_pair(self.counter, 1);
                (pair.before, Span::from_nanos(pair.unix_ns), pair.after)
            }
            Other::Counter(other, period) => {
                let before = self.counter.read();
                let count = other.read();
                let after = self.counter.read();
                // Signed: no counter gets to 2^63 within a century.
                (before, period.span(CountSpan(count.0 as i64)), after)
            }
        };
        let width = after - before;
        let half_width = CountSpan((width.0 + 1) / 2);
        (width, Sample { count: before.midpoint(after), reference, half_width })
    }
}

/// Pulses per second: each is a whole number of seconds after the first.
pub(super) struct Pulses {
    pps: Pps,
    edges: EdgeLog,
    period: Period,
    /// `CLOCK_REALTIME` at the first edge, ns.
    origin: Option<i64>,
    /// Which second it is, once there was an edge.
    seconds: Option<Seconds>,
}

/// Seconds since the first edge, by the counter from the last one on: the system clock may have
/// been set meanwhile.
#[derive(Clone, Copy, Debug)]
struct Seconds {
    /// Count and second of the first edge, and of the last.
    first: (Count, i64),
    last: (Count, i64),
}

impl Seconds {
    /// The nearest second to this count. How long a count lasts is taken from the edges so far, if
    /// they are some seconds apart: by the nominal period it may be off by half a second after a
    /// quarter of an hour without an edge.
    fn at(&self, count: Count, period: Period) -> i64 {
        const APART: i64 = 10;
        let (counts, seconds) = (self.last.0 - self.first.0, self.last.1 - self.first.1);
        let since = count - self.last.0;
        let passed = if seconds >= APART && counts.0 > 0 {
            let passed = since.0 as f64 * (seconds as f64 / counts.0 as f64);
            passed.round() as i64
        } else {
            rounded(period.span(since))
        };
        self.last.1.saturating_add(passed)
    }
}

impl Pulses {
    fn take(&mut self) -> Result<Option<Sample>, String> {
        self.edges.look();
        let Some(edge) = self.pps.wait(LOOK).map_err(|why| why.to_string())? else {
            return Ok(None);
        };
        let Ok(stamp) = self.edges.stamp(&edge) else { return Ok(None) };
        let origin = *self.origin.get_or_insert(edge.unix_ns);
        let so_far = self.seconds;
        let seconds = so_far.map_or(0, |so_far| so_far.at(stamp.count, self.period));
        if so_far.is_some_and(|so_far| seconds <= so_far.last.1) {
            // A stray edge.
            return Ok(None);
        }
        let last = (stamp.count, seconds);
        self.seconds = Some(Seconds { first: so_far.map_or(last, |so_far| so_far.first), last });
        let reference = Span::from_nanos(origin) + Span::from_secs(seconds);
        Ok(Some(Sample { count: stamp.count, reference, half_width: stamp.error }))
    }
}

/// Checks that counts of this process compare with those of an earlier one: those of a narrow
/// counter do not, as every process widens it by itself.
pub(super) fn resumable(counter: Counter) -> Result<(), String> {
    if counter.bits() >= 64 {
        return Ok(());
    }
    Err(format!(
        "the counter {} has {} bits, and every process begins to count its roll-overs anew: what is \
         measured with it cannot be resumed",
        counter.kind().name(),
        counter.bits()
    ))
}

/// To the nearest second.
fn rounded(span: Span) -> i64 {
    let ns = span.as_nanos_i64();
    ns.saturating_add(500_000_000).div_euclid(1_000_000_000)
}

/// Number of readings of a hardware clock that are asked for at once.
const READINGS: u32 = 10;

/// A PTP hardware clock.
pub(super) struct Hardware {
    device: File,
    /// True if the hardware can read both clocks at once.
    precise: bool,
    counter: Counter,
    log: PairLog,
}

impl Hardware {
    fn take(&mut self) -> std::io::Result<Option<Sample>> {
        let earliest = self.log.take(self.counter).before;
        let readings = if self.precise {
            let [device, realtime] = ptp::precise(&self.device, Beside::Realtime)?;
            vec![[realtime, device, realtime]]
        } else {
            ptp::extended(&self.device, READINGS, Beside::Realtime)?
        };
        let latest = self.log.take(self.counter).after;
        let readings = readings
            .into_iter()
            .filter_map(|[before, device, after]| Some((before?, device?, after?)));
        let narrowest = readings
            .filter(|(before, _, after)| after >= before)
            .min_by_key(|(before, _, after)| after - before);
        let Some((before, device, after)) = narrowest else { return Ok(None) };
        let window = Window { earliest, latest };
        let Ok(stamp) = self.log.invert(before + (after - before) / 2, window) else {
            return Ok(None);
        };
        let half = self.log.period().counts(Span::from_nanos((after - before + 1) / 2));
        let reference = Span::from_nanos(device);
        Ok(Some(Sample { count: stamp.count, reference, half_width: half + stamp.error }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    fn raw() -> Counter {
        Counter::open(Choice::Raw).unwrap()
    }

    fn open(against: &str) -> Result<Reference, StabilityError> {
        Reference::open(&against.parse().unwrap(), raw(), Period::NANOSECOND, None)
    }

    #[test]
    fn the_realtime_clock_advances_with_the_counter() {
        let mut realtime = open("realtime").unwrap();
        let a = realtime.take().unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let b = realtime.take().unwrap().unwrap();
        let (counts, passed) = (b.count - a.count, b.reference - a.reference);
        // Nobody slews by more than 10 %; a step is unlikely just now, and harmless elsewhere.
        let ratio = passed.as_nanos() as f64 / counts.0 as f64;
        assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
        assert!(a.half_width.0 >= 0 && !realtime.is_paced());
    }

    #[test]
    fn a_counter_is_not_compared_with_itself() {
        for against in ["raw", "counter:raw"] {
            let why = open(against).err().unwrap().to_string();
            assert!(why.contains("itself"), "{why}");
        }
    }

    #[test]
    fn devices_that_are_none() {
        for (against, says) in [
            ("phc:/dev/null", "ethtool"),
            ("phc:/dev/no-such-clock", "No such file"),
            ("pps:/dev/no-such-pulses", "No such file"),
            ("pps:/dev/null", "/dev/null"),
            ("file:x", "not measured"),
        ] {
            let why = open(against).err().unwrap().to_string();
            assert!(why.contains(says) && why.contains(against), "{why}");
        }
    }

    #[derive(Debug)]
    struct Narrow;

    impl truechimer_counter::Hardware for Narrow {
        fn kind(&self) -> truechimer_time::CounterKind {
            truechimer_time::CounterKind::AcpiPm
        }

        fn description(&self) -> &'static str {
            "a timer of this test"
        }

        fn raw(&self) -> u64 {
            7
        }

        fn bits(&self) -> u32 {
            24
        }

        fn cost(&self) -> truechimer_counter::Cost {
            truechimer_counter::Cost::Device
        }

        fn stated(&self) -> Option<truechimer_counter::Nominal> {
            let (period, error) = (Period::from_hz(3_579_545), truechimer_time::Rate::from_ppb(1));
            let source = truechimer_counter::NominalSource::Definition;
            Some(truechimer_counter::Nominal { period, error, source })
        }
    }

    #[test]
    fn what_every_process_counts_anew_is_not_resumed() {
        assert_eq!(resumable(raw()), Ok(()));
        let why = resumable(Counter::of_hardware(Narrow).unwrap()).unwrap_err();
        assert!(why.contains("acpi-pm has 24 bits"), "{why}");
    }

    #[test]
    fn the_second_is_told_by_the_counter_as_it_runs() {
        // A counter that is nominally of 1 GHz and runs 400 ppm fast.
        let count = |seconds: f64| Count(5_000 + (seconds * 1.0004e9) as u64);
        let after = |seconds: f64| Seconds {
            first: (count(0.0), 0),
            last: (count(seconds), seconds as i64),
        };
        for (last, now) in [(0.0, 1.0), (3.0, 4.0), (20.0, 21.0), (20.0, 20_020.0)] {
            let found = after(last).at(count(now), Period::NANOSECOND);
            assert_eq!(found, now as i64, "{last} {now}");
        }
        assert_eq!(after(20.0).at(count(20.3), Period::NANOSECOND), 20, "a stray edge");
    }

    #[test]
    fn seconds_are_rounded_to_the_nearest() {
        for (ms, seconds) in
            [(0, 0), (499, 0), (501, 1), (-501, -1), (1499, 1), (86_400_400, 86_400)]
        {
            assert_eq!(rounded(Span::from_millis(ms)), seconds);
        }
    }
}
