//! One counter, ready to be read.

use std::hash::{Hash, Hasher};
use std::ptr;

use truechimer_time::{Count, CounterKind};

use crate::builtin::{Native, Raw};
use crate::choose::{self, Choice};
use crate::error::CounterError;
use crate::hardware::{Cost, Hardware};
use crate::keeper::{Keeper, KeptAt};
use crate::width::Width;
use crate::{device, machine, read};

/// A counter that this process can read: a small value to be copied about freely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Counter(Source);

/// Ways to take a reading. `Native` is whatever the architecture has ([`read::NATIVE`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    Native,
    NativeFenced,
    Raw,
    Device(Device),
}

/// A counter behind the trait, with its keeper if it is narrow: there for the rest of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub hardware: &'static dyn Hardware,
    pub keeper: Option<&'static Keeper>,
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        ptr::addr_eq(self.hardware, other.hardware)
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::from_ref(self.hardware).cast::<()>().hash(state);
    }
}

impl Device {
    /// Begins to keep this hardware's counts, if they need it.
    ///
    /// # Errors
    /// Where it has a width that nothing can be made of, states no period, or there is no clock to
    /// tell its age by.
    pub(crate) fn new(hardware: &'static dyn Hardware) -> Result<Device, CounterError> {
        let bits = hardware.bits();
        if bits == 64 {
            return Ok(Device { hardware, keeper: None });
        }
        let width = hardware.stated().and_then(|stated| Width::new(bits, stated.period));
        let width = width.ok_or(CounterError::Width(hardware.kind(), bits))?;
        let at_ns = read::clock(libc::CLOCK_MONOTONIC_COARSE)
            .map_err(|error| CounterError::NoCoarse(error.raw_os_error().unwrap_or(0)))?;
        let keeper = Box::leak(Box::new(Keeper::new(width, at_ns, hardware.raw())));
        Ok(Device { hardware, keeper: Some(keeper) })
    }

    #[inline(never)]
    fn read(self) -> Count {
        match self.keep() {
            Some(kept) => kept.wide,
            None => Count(self.hardware.raw()),
        }
    }

    fn keep(self) -> Option<KeptAt> {
        self.keeper.map(|keeper| keeper.read(|| self.hardware.raw(), read::coarse))
    }
}

impl Counter {
    /// The counter of this choice, after asking processor and kernel whether it can be relied on.
    /// A device stays open for the rest of the process.
    ///
    /// # Errors
    /// What is wrong with it, and what to choose instead. [`Choice::Auto`] only fails where not
    /// even `CLOCK_MONOTONIC_RAW` can be read.
    pub fn open(choice: Choice) -> Result<Counter, CounterError> {
        choose::choose(choice, &machine::facts(), &device::open).map(Counter)
    }

    /// The counter of this kind, unfenced, for those who read what somebody else chose: the kind
    /// comes from a page, and its writer has judged the counter already. What is asked here is
    /// only whether this process can read it, and gets the same counts; those of a narrow counter
    /// by [`Counter::read_from`]. The ACPI timer is read in its safe form: a page does not tell
    /// which one its machine needs.
    ///
    /// # Errors
    /// Where it cannot, with the reason.
    pub fn of_kind(kind: CounterKind) -> Result<Counter, CounterError> {
        choose::readable(kind, &machine::facts(), &device::open).map(Counter)
    }

    /// A counter of any hardware, a simulated one for example. What it takes is never given back:
    /// a value of this type may be anywhere.
    ///
    /// # Errors
    /// If it is narrow and cannot be kept: 2 to 48 bits and a stated period are what it takes.
    pub fn of_hardware(hardware: impl Hardware + 'static) -> Result<Counter, CounterError> {
        Device::new(Box::leak(Box::new(hardware))).map(Source::Device).map(Counter)
    }

    #[cfg(test)]
    pub(crate) fn device(device: Device) -> Counter {
        Counter(Source::Device(device))
    }

    /// One reading, 64 bits wide; never blocks or fails. A few nanoseconds and no allocation for
    /// all but devices, which take microseconds ([`Counter::cost`]).
    ///
    /// The counts of a narrow counter are this process's own, and are continued as long as it
    /// reads the counter once in half a roll-over: see [`Counter::lapses`].
    #[must_use]
    #[inline]
    pub fn read(self) -> Count {
        match self.0 {
            Source::Native => Count(read::native()),
            Source::NativeFenced => Count(read::native_fenced()),
            Source::Raw => Count(read::raw()),
            Source::Device(device) => device.read(),
        }
    }

    /// Number of bits that are counted in before the counter (or the part of it that is read) rolls
    /// over; 64 where nobody need widen.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.hardware().bits()
    }

    /// Cost of a reading.
    #[must_use]
    pub fn cost(self) -> Cost {
        self.hardware().cost()
    }

    /// Reads a narrow counter, and says where it is and since when: for other processes to go on
    /// from ([`Counter::read_from`]). `None` for 64-bit counters, which need no keeping.
    #[must_use]
    pub fn keep(self) -> Option<KeptAt> {
        match self.0 {
            Source::Device(device) => device.keep(),
            _ => None,
        }
    }

    /// Reads the counter, continuing another process's keeping of it, on the same machine and in
    /// the same boot. For a 64-bit counter it is [`Counter::read`].
    ///
    /// # Errors
    /// [`CounterError::Stale`] where it was kept half a roll-over ago or more, or in the future.
    pub fn read_from(self, kept: &KeptAt) -> Result<Count, CounterError> {
        self.read_within(kept, u32::MAX)
    }

    /// Reads likewise where whoever kept it read the lowest `bits` bits of the counter only: those
    /// above are not relied on. An ACPI timer of 32 bits, for one, is taken for one of 24 by
    /// whoever opens it while its upper eight are 0.
    ///
    /// # Errors
    /// As [`Counter::read_from`], by a roll-over of that many bits.
    pub fn read_within(self, kept: &KeptAt, bits: u32) -> Result<Count, CounterError> {
        match self.0 {
            Source::Device(Device { hardware, keeper: Some(keeper) }) => {
                let width = keeper.width().narrowed(bits);
                let width = width.ok_or(CounterError::Width(hardware.kind(), bits))?;
                let raw = hardware.raw();
                width.checked(kept.wide, raw, read::coarse().wrapping_sub(kept.at_ns))
            }
            _ => Ok(self.read()),
        }
    }

    /// Goes on in this process from where another one (a daemon before a restart, say) kept the
    /// narrow counter, so that its counts and this process's compare. Counts that this process has
    /// read before then compare with neither: it is for the beginning. Does nothing for 64-bit
    /// counters, which compare anyway.
    ///
    /// # Errors
    /// As [`Counter::read_from`], or where what was kept is no count that the counter reaches.
    /// Nothing has changed then.
    pub fn resume(self, kept: &KeptAt) -> Result<(), CounterError> {
        match self.0 {
            Source::Device(Device { hardware, keeper: Some(keeper) }) => {
                keeper.resume(kept, || hardware.raw(), read::coarse)
            }
            _ => Ok(()),
        }
    }

    /// Number of times that this process found its narrow counter unread for half a roll-over
    /// (2.3 s for an ACPI timer of 24 bits). Counts from before and after do not compare: they do
    /// if this is the same before the first and after the second was read. 0 for 64-bit counters.
    #[must_use]
    pub fn lapses(self) -> u32 {
        match self.0 {
            Source::Device(Device { keeper: Some(keeper), .. }) => keeper.lapses(),
            _ => 0,
        }
    }

    /// Hardware behind it.
    #[must_use]
    pub fn hardware(self) -> &'static dyn Hardware {
        match self.0 {
            Source::Native => &Native { fenced: false },
            Source::NativeFenced => &Native { fenced: true },
            Source::Raw => &Raw,
            Source::Device(device) => device.hardware,
        }
    }

    /// Which counter it is: readings of one kind compare, fenced or not.
    #[must_use]
    pub fn kind(self) -> CounterKind {
        self.hardware().kind()
    }

    /// True if a reading is ordered with the instructions around it. `CLOCK_MONOTONIC_RAW` always
    /// is: the vDSO sees to that. So are devices: the processor waits for them.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        self.0 != Source::Native
    }

    /// Makes its reads fenced.
    #[must_use]
    #[inline]
    pub fn fenced(self) -> Counter {
        Counter(match self.0 {
            Source::Native => Source::NativeFenced,
            other => other,
        })
    }

    /// Makes its reads the cheapest there are.
    pub(crate) fn unfenced(self) -> Counter {
        Counter(match self.0 {
            Source::NativeFenced => Source::Native,
            other => other,
        })
    }

    /// The processor's own counter, if that is what this is, unfenced: for those to whom a branch
    /// between the ways to read a counter matters.
    #[must_use]
    #[inline(always)]
    pub fn native(self) -> Option<NativeCounter> {
        matches!(self.0, Source::Native).then_some(NativeCounter(()))
    }

    /// Description in a few words for people.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.hardware().description()
    }
}

/// The processor's own counter, unfenced: [`Counter::native`]. To read it is one instruction, in
/// line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NativeCounter(());

impl NativeCounter {
    /// One reading.
    #[must_use]
    #[inline(always)]
    pub fn read(self) -> Count {
        Count(read::native())
    }
}

/// Every choice but [`Choice::Auto`], and the counter or why this process cannot have it.
#[must_use]
pub fn counters() -> Vec<(Choice, Result<Counter, CounterError>)> {
    let facts = machine::facts();
    let open = |choice| choose::choose(choice, &facts, &device::open).map(Counter);
    Choice::EVERY.map(|choice| (choice, open(choice))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_openable_counter_advances() {
        for (choice, counter) in counters() {
            let Ok(counter) = counter else { continue };
            let first = counter.read();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!((counter.read() - first).0 > 1000, "{choice:?}");
            assert_eq!(counter.bits() == 64, counter.keep().is_none());
            assert_eq!(Counter::of_kind(counter.kind()).unwrap().kind(), counter.kind());
            assert!(counter.fenced().is_fenced());
            assert_eq!(counter.native().is_some(), !counter.is_fenced());
            if let Some(native) = counter.native() {
                assert!((native.read() - counter.read()).abs().0 < 1_000_000_000);
            }
        }
    }

    #[test]
    fn fenced_readings_never_go_back() {
        let counter = Counter::open(Choice::Auto).unwrap().fenced();
        assert!(counter.is_fenced());
        assert_eq!(counter.native(), None, "it would not be fenced");
        let mut last = counter.read();
        for _ in 0..100_000 {
            let next = counter.read();
            assert!(next.at_or_after(last));
            last = next;
        }
    }

    #[test]
    fn raw_is_everywhere() {
        let raw = Counter::open(Choice::Raw).unwrap();
        assert_eq!((raw.kind(), raw.fenced()), (CounterKind::Raw, raw));
        assert_eq!(raw.description(), "CLOCK_MONOTONIC_RAW");
        assert_eq!((raw.bits(), raw.keep(), raw.lapses()), (64, None, 0));
        let kept = KeptAt { wide: Count(5), at_ns: i64::MAX };
        let (before, read) = (raw.read(), raw.read_from(&kept).unwrap());
        assert!(read.at_or_after(before) && raw.read().at_or_after(read));
    }
}
