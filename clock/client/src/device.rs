//! Counts of a counter that is a device: it rolls over, and not everybody may read it.
//!
//! A reader that may read the device continues from the count that the daemon kept last; one that
//! may not makes its counts of `CLOCK_MONOTONIC_RAW`, if that is made of the same device. Either
//! way a count is only given with the hand that it belongs to, and never a wrong one.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use truechimer_counter::{
    Counter, CounterError, HostReading, KeptAt, clocksource, host_reading, resolution,
};
use truechimer_time::{Count, CountSpan, CounterKind, Period, Rate, Span};
use truechimer_timehands::{Device as Said, Hand, Kept, Made, PATIENCE, PageReader};

use crate::error::{NoDevice, NoRawClock, Unreadable};

/// Number of looks at device and clocks: the narrowest counts.
const LOOKS: u32 = 2;
/// Number of times that the page is asked where the counter was: the daemon keeps it once a second.
const ASKS: u32 = 8;
/// Difference that the rates of two clocksources may have: the HPET's specification and the
/// kernel's calibration of the TSC allow for 500 ppm each.
const CLOCKSOURCES: Rate = Rate::from_ppb(1_000_000);

/// Ways in which a count comes about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadBy {
    /// By reading the counter, which anybody may.
    Counter,
    /// By reading the device, from where the daemon had last kept it.
    Device,
    /// By `CLOCK_MONOTONIC_RAW`, which the kernel makes of the same device.
    RawClock,
}

impl ReadBy {
    /// A short name for tables and other programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ReadBy::Counter => "counter",
            ReadBy::Device => "device",
            ReadBy::RawClock => "raw-clock",
        }
    }
}

/// The kernel's name for the clocksource that is this device, if it is one.
pub(crate) fn clocksource_of(kind: CounterKind) -> Option<&'static str> {
    match kind {
        CounterKind::Hpet => Some("hpet"),
        CounterKind::AcpiPm => Some("acpi_pm"),
        _ => None,
    }
}

/// A device as far as this process can read it.
pub(crate) struct Device {
    kind: CounterKind,
    clocksource: &'static str,
    machine: Here,
    /// The newest hand that was examined in full and found to stand; 0 for none.
    pub vetted: AtomicU64,
    resolution: OnceLock<CountSpan>,
}

impl Device {
    /// The device of this kind; `None` if it is no device at all.
    pub fn of_kind(kind: CounterKind, raw: Counter) -> Option<Device> {
        Some(Device {
            kind,
            clocksource: clocksource_of(kind)?,
            machine: Here { device: Counter::of_kind(kind), raw },
            vetted: AtomicU64::new(0),
            resolution: OnceLock::new(),
        })
    }

    /// Checks that counts can be had at all, as things are.
    ///
    /// # Errors
    /// Why not.
    pub fn usable(&self) -> Result<(), Unreadable> {
        let now = self.machine.clocksource();
        if self.machine.device.is_ok() || now.as_deref() == Some(self.clocksource) {
            return Ok(());
        }
        let wanted = self.clocksource;
        let device = match &self.machine.device {
            Ok(_) => NoDevice::NotKept,
            Err(why) => NoDevice::Counter(why.clone()),
        };
        Err(Unreadable { kind: self.kind, device, raw: NoRawClock::Clocksource { now, wanted } })
    }

    /// The smallest step of the device, as far as it shows here. Measured at the first call, in
    /// some milliseconds.
    pub fn resolution(&self, period: Period) -> CountSpan {
        *self.resolution.get_or_init(|| match self.machine.device {
            Ok(counter) => resolution(counter),
            // In nanoseconds, of which the clock shows whole ones.
            Err(_) => {
                let ns = Period::NANOSECOND.span(resolution(self.machine.raw));
                period.counts(ns) + CountSpan(1)
            }
        })
    }

    /// A count for this hand, with what the host's clocks say if the hand was not vetted before or
    /// nobody tends it. `None` if another hand has come out meanwhile.
    pub fn look(
        &self,
        page: &impl Page,
        generation: u64,
        hand: &Hand,
        made: &Made,
    ) -> Result<Option<Look>, Unreadable> {
        let sight = Sight { page, machine: &self.machine, generation, hand, made };
        let vetted = self.vetted.load(Relaxed) == generation;
        match look(&sight, self.clocksource, vetted) {
            Ok(look) => Ok(Some(look)),
            Err(Trouble::Changed) => Ok(None),
            Err(Trouble::Unreadable(device, raw)) => {
                Err(Unreadable { kind: self.kind, device, raw })
            }
        }
    }
}

/// A count of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub count: Count,
    /// The device was within this of `count`.
    pub error: CountSpan,
    pub read_by: ReadBy,
    /// The heartbeat, loaded before the count.
    pub heartbeat: Count,
    /// The host's clocks at a count just before; `None` if there is no need to look at them.
    pub host: Option<HostReading>,
}

/// Words of a page that go with a count.
pub(crate) trait Page {
    fn generation(&self) -> u64;
    fn kept(&self) -> Option<Kept>;
    fn heartbeat(&self) -> Count;
}

impl Page for PageReader {
    fn generation(&self) -> u64 {
        self.ring().generation()
    }

    fn kept(&self) -> Option<Kept> {
        self.kept()
    }

    fn heartbeat(&self) -> Count {
        self.heartbeat()
    }
}

/// Readings that a machine allows.
pub(crate) trait Machine {
    /// The device itself, if it may be read: from where its lowest `bits` bits were kept, or, if
    /// nobody need keep it, all that many.
    fn device(&self, bits: u32, kept: Option<Kept>) -> Result<Count, NoDevice>;
    /// The host's clocks by the raw clock: in it a count is a nanosecond of that.
    fn clocks(&self) -> HostReading;
    /// Clocksource that the kernel keeps time by.
    fn clocksource(&self) -> Option<String>;
}

/// This machine.
struct Here {
    device: Result<Counter, CounterError>,
    raw: Counter,
}

impl Machine for Here {
    fn device(&self, bits: u32, kept: Option<Kept>) -> Result<Count, NoDevice> {
        let counter = self.device.clone().map_err(NoDevice::Counter)?;
        match (counter.bits(), kept) {
            // The lowest bits of what was kept are the device's own, whoever reads how many more.
            (_, Some(Kept { wide, at_ns })) => {
                counter.read_within(&KeptAt { wide, at_ns }, bits).map_err(NoDevice::Counter)
            }
            (here, None) if here != bits => Err(NoDevice::Width { here, page: bits }),
            (_, None) => Ok(counter.read()),
        }
    }

    fn clocks(&self) -> HostReading {
        host_reading(self.raw)
    }

    fn clocksource(&self) -> Option<String> {
        clocksource()
    }
}

/// Reasons why there is no count.
#[derive(Debug)]
enum Trouble {
    /// Another hand came out: all is to be done again.
    Changed,
    /// Neither the device nor the raw clock will do.
    Unreadable(NoDevice, NoRawClock),
}

/// All that a look takes.
struct Sight<'a, P, M> {
    page: &'a P,
    machine: &'a M,
    generation: u64,
    hand: &'a Hand,
    made: &'a Made,
}

fn look<P: Page, M: Machine>(
    sight: &Sight<'_, P, M>,
    clocksource: &'static str,
    vetted: bool,
) -> Result<Look, Trouble> {
    let said = sight.made.device;
    let device = match sight.by_device(said, vetted) {
        Ok(look) => return sight.unchanged(look),
        Err(why) => why,
    };
    // Whatever went wrong may have been on account of another hand.
    let look = sight.by_raw_clock(said, clocksource);
    match look {
        Ok(look) => sight.unchanged(look),
        Err(_) if sight.page.generation() != sight.generation => Err(Trouble::Changed),
        Err(raw) => Err(Trouble::Unreadable(device, raw)),
    }
}

impl<P: Page, M: Machine> Sight<'_, P, M> {
    /// The look, if the hand was the newest all the while: only then the count is one of its row.
    fn unchanged(&self, look: Look) -> Result<Look, Trouble> {
        if self.page.generation() == self.generation { Ok(look) } else { Err(Trouble::Changed) }
    }

    /// By the device.
    fn by_device(&self, said: Option<Said>, vetted: bool) -> Result<Look, NoDevice> {
        let heartbeat = self.page.heartbeat();
        let mut count = self.count(said)?;
        let mut host = None;
        let silence = self.hand.period.span(count - heartbeat).abs();
        if !vetted || silence > PATIENCE || !self.hand.void_after.at_or_after(count) {
            for _ in 0..LOOKS {
                let before = count;
                let clocks = self.machine.clocks();
                count = self.count(said)?;
                let width = count - before;
                if host.is_none_or(|h: HostReading| (width.0 as u64) < h.width.0 as u64) {
                    host = Some(HostReading { count: before.midpoint(count), width, ..clocks });
                }
            }
        }
        Ok(Look { count, error: CountSpan::ZERO, read_by: ReadBy::Device, heartbeat, host })
    }

    fn count(&self, said: Option<Said>) -> Result<Count, NoDevice> {
        let bits = said.ok_or(NoDevice::NotKept)?.bits;
        // One of 64 bits needs no keeping.
        let ask = || (0..ASKS).find_map(|_| self.page.kept()).ok_or(NoDevice::NotKept);
        let kept = (bits < 64).then(ask).transpose()?;
        self.machine.device(bits, kept)
    }

    /// By the raw clock. It is always looked at with the others: they cost no more.
    fn by_raw_clock(&self, said: Option<Said>, wanted: &'static str) -> Result<Look, NoRawClock> {
        let heartbeat = self.page.heartbeat();
        let clocks = self.machine.clocks();
        // Looked at last: if it is the right one now, it was when the clock was read.
        let now = self.machine.clocksource();
        if now.as_deref() != Some(wanted) {
            return Err(NoRawClock::Clocksource { now, wanted });
        }
        let by_raw = said.and_then(|said| said.by_raw).ok_or(NoRawClock::NotSaid)?;
        let (count, error) = by_raw.count(self.made, clocks.raw_ns).ok_or(NoRawClock::TooFar)?;
        let error = error + self.unwatched(count, heartbeat);
        // What reading the clocks took; the error of the count has nothing to do with them.
        let width = self.hand.period.counts(Span::from_nanos(clocks.width.0)) + CountSpan(1);
        let host = Some(HostReading { count, width, ..clocks });
        Ok(Look { count, error, read_by: ReadBy::RawClock, heartbeat, host })
    }

    /// Error that the raw clock may have because nobody saw to it that it was made of the device
    /// all the time: another clocksource runs at a rate of its own.
    fn unwatched(&self, count: Count, heartbeat: Count) -> CountSpan {
        let period = self.hand.period;
        let silence = period.span(count - heartbeat).abs();
        match silence > PATIENCE {
            true => period.counts(CLOCKSOURCES.over(silence)) + CountSpan(1),
            false => CountSpan::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
