//! Raw stamps turned into counts, and counts into time.
//!
//! The thread that captures only notes what the kernel wrote beside each packet, and now and then
//! takes a *pair*: the counter and the kernel's clocks, read together. A [`Converter`], on whatever
//! thread, does the rest in two steps that have nothing to do with each other:
//!
//! 1. **Stamp to count.** Between two pairs a kernel clock's reading is a count by a straight line,
//!    with a bound of what the clock may have done in between ([`truechimer_stamp`]). A count that
//!    was read is a count already.
//! 2. **Count to time**, by the hand of the moment from the clock page, as any reader of the clock
//!    does it ([`truechimer::Clock`]). Without a clock that promises a bound the time is the system
//!    clock's, and says so ([`Quality`]).
//!
//! The count is what lasts: it can be turned into time again later, by better parameters
//! ([`crate::restamp`], [`time_of`]).
//!
//! # What the error of a count is made of
//! The counter's step; how wide the pairs are; and what the kernel's clock may have done since the
//! nearer pair, unseen: it is slewed by up to 1100 ppm, 0.55 µs half-way between pairs that are a
//! millisecond apart. Steps and harder slews show in the pairs. Where a clock was stepped back, and
//! showed the same time twice, the order of packets tells which time it was: none is stamped more
//! than half a second before one that was converted before it. Where that does not tell, both are
//! in the error. A stamp that no pair explains has no count
//! ([`Quality::Uncounted`](crate::Quality)). A count that was read without a fence may have been
//! read 50 ns from where the program has it.
//!
//! What does not show is what was undone before the next pair: two steps that cancel each other, a
//! hard slew one way and then the other way. Pairs are a millisecond apart while packets come, half
//! a second otherwise.
//!
//! Not in the error: what the counters of two processors differ by. The kernel uses no TSC in which
//! that shows.
//!
//! # When the counter breaks
//! After a suspend, a migration or a jump no count from before compares with one from after. That
//! shows in the pairs at once if it is large, by the host's clocks or the daemon within a second
//! otherwise: the same window as any reader of the clock has. From then on packets are
//! unsynchronised until there is a hand of after the break, and what was stamped before it but not
//! yet converted has no count.

use std::fmt;
use std::path::PathBuf;

use truechimer::{Clock, OpenError, ReadError, View};
use truechimer_counter::{Choice, Counter, CounterError, HostPair, host_reading, realtime_pair};
use truechimer_time::{Count, CountSpan, CounterKind, Epoch, Span};
use truechimer_timehands::Status;

use crate::{Counted, Quality, RawStamp, Stamped};

mod change;
mod core;
mod segment;
pub(crate) mod tell;
#[cfg(test)]
mod tests;
mod track;

use self::core::{Core, Seen};
pub use change::{Change, Continuity, Identity, Used};
pub use truechimer_stamp::phc::DevicePair;

/// Where to look for a clock page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Search {
    /// At the usual places: [`Clock::open`].
    #[default]
    Usual,
    /// Here: [`Clock::open_at`].
    At(PathBuf),
    /// Nowhere: the system clock's time will do.
    Nowhere,
}

/// Reason why packets cannot be given counts.
#[derive(Debug)]
pub enum ConvertError {
    /// The counter cannot be read, or does not count.
    Counter(CounterError),
    /// The clock cannot be opened.
    Clock(OpenError),
    /// The clock runs by a counter that packets cannot be counted by.
    Device(CounterKind),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvertError::Counter(why) => why.fmt(f),
            ConvertError::Clock(why) => why.fmt(f),
            ConvertError::Device(kind) => write!(
                f,
                "the clock runs by the counter '{kind}', a device that is too slow to count \
                 packets by: run the daemon with --counter raw, which is the same device as the \
                 kernel reads it"
            ),
        }
    }
}

impl std::error::Error for ConvertError {}

impl From<CounterError> for ConvertError {
    fn from(why: CounterError) -> ConvertError {
        ConvertError::Counter(why)
    }
}

/// The narrowest of so many readings is the first pair.
const TRIES: u32 = 8;
/// Intervals at which a quiet clock is looked at, and at which one is looked for.
const LOOK: Span = Span::from_millis(1);
const SEARCH: Span = Span::from_secs(1);
/// Intervals at which the host's clocks are looked at, and at which they go into the file.
const WATCH: Span = Span::from_secs(1);
const RECORD: Span = Span::from_secs(10);
/// Most that a counter which is not fenced may be read earlier or later than the program has it. No
/// figure of the architecture: the processor's window of instructions, a few hundred of them.
const UNFENCED: Span = Span::from_nanos(50);

/// Turns stamps into counts and counts into time. Belongs to one thread at a time.
#[derive(Debug)]
pub struct Converter {
    counter: Counter,
    clock: Option<Clock>,
    search: Search,
    core: Core,
    /// Contents of the last change.
    told: Option<Told>,
    /// The host's clocks as they were looked at last, and as they were last told of.
    watched: Option<Continuity>,
    recorded: Option<Count>,
    /// When the page was looked at, and looked for.
    looked: Option<Count>,
    searched: Option<Count>,
    breaks: u64,
    trouble: Option<String>,
}

/// State that a change is compared with.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    hand: Option<Used>,
    epoch: Epoch,
    status: Option<Status>,
    reason: Option<String>,
}

impl Converter {
    /// One that converts by this clock, which must be of this counter. It takes a first pair, so
    /// make it before the tap; then a tenth of a second to measure how long a count lasts, where
    /// nobody states it.
    ///
    /// # Errors
    /// If the counter stands still, or the boot's name cannot be read.
    pub fn new(counter: Counter, clock: Option<Clock>) -> Result<Converter, ConvertError> {
        // There may be packets already.
        let first = realtime_pair(counter, TRIES);
        let identity = Identity {
            kind: counter.kind(),
            boot: truechimer_counter::boot_id()?,
            period: truechimer_counter::nominal(counter)?.period,
            resolution: truechimer_counter::resolution(counter),
        };
        let read = if counter.is_fenced() { Span::ZERO } else { UNFENCED };
        let mut converter = Converter {
            counter,
            clock,
            search: Search::Nowhere,
            core: Core::new(identity, identity.period.counts(read)),
            told: None,
            watched: None,
            recorded: None,
            looked: None,
            searched: None,
            breaks: 0,
            trouble: None,
        };
        converter.pair(first);
        Ok(converter)
    }

    /// Looks for a clock there, once a second, while it has none that a daemon tends.
    #[must_use]
    pub fn looking(mut self, search: Search) -> Converter {
        self.search = search;
        self
    }

    /// The counter that all counts are of.
    #[must_use]
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// Identity of it.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.core.identity()
    }

    /// A pair, later than all before. A packet's stamp is converted by the last pair before it and
    /// the first after it: so there should be one from before the tap is opened, and after each
    /// chunk one is to be given *before* the chunk's packets are converted. Without the latter a
    /// stamp of `CLOCK_REALTIME`, which may have been stepped since, counts for nothing.
    ///
    /// Some four seconds of pairs are kept, if there is one each millisecond; longer if there are
    /// fewer.
    pub fn pair(&mut self, pair: HostPair) {
        self.core.pair(pair);
    }

    /// Takes a pair of the clock of the network card, whose stamps are converted as
    /// [`Converter::pair`] has it. That clock may be stepped, too, and nothing else tells of it.
    pub fn device_pair(&mut self, pair: DevicePair) {
        self.core.device_pair(pair);
    }

    /// No packet that is converted from here on was stamped before this count. Only of use where a
    /// clock was stepped back and showed the same time twice: it tells which time it was. For
    /// `CLOCK_REALTIME` the order of the packets does so, too, unless they are more than half a
    /// second apart. Otherwise the bound covers both times.
    pub fn not_before(&mut self, count: Count) {
        self.core.not_before(count);
    }

    /// Counts that are handed in are off by so much because of the way they are made
    /// ([`crate::Facts::stamp_error`]): it is in their error from here on.
    pub fn stamp_error(&mut self, error: CountSpan) {
        self.core.stamp_error(error);
    }

    /// Looks at the clock; to be called once for each batch, after its pair and before its packets.
    /// Costs some ns where nothing happened. What it returns is for the sink; the first call always
    /// returns something.
    pub fn refresh(&mut self) -> Option<Change> {
        let now = self.counter.read();
        let period = self.identity().period;
        let past =
            |at: Option<Count>, long: Span| at.is_none_or(|at| period.span(now - at).abs() > long);
        let (broke, stepped) = (self.core.breaks != self.breaks, self.core.take_stepped());
        if !past(self.looked, LOOK) && !broke && !stepped && !self.is_new() {
            return None;
        }
        self.looked = Some(now);
        if broke {
            // It would only be seen once more.
            self.watched = None;
        }
        // A machine that wakes up steps its clock.
        if stepped || past(self.watched.map(|watched| watched.count), WATCH) {
            self.watch();
        }
        let watched = self.core.breaks;
        if past(self.searched, SEARCH) {
            self.searched = Some(now);
            self.look_for();
        }
        let told = self.look();
        if self.core.breaks != watched {
            self.watched = None;
        }
        let broke = std::mem::replace(&mut self.breaks, self.core.breaks) != self.core.breaks;
        if !broke && self.told.as_ref() == Some(&told) && !past(self.recorded, RECORD) {
            return None;
        }
        let mut change = self.change(now, told);
        if broke {
            let why = "the counter lost its continuity (suspend, migration or a jump)";
            change.reason.get_or_insert_with(|| why.to_owned());
        }
        Some(change)
    }

    /// When a packet was stamped.
    #[inline]
    pub fn convert(&mut self, stamp: RawStamp) -> Stamped {
        self.core.convert(stamp)
    }

    /// The state at the end, for the sink: shows that the counter ran on until here.
    pub fn finish(&mut self) -> Change {
        let now = self.counter.read();
        self.watch();
        let told = self.look();
        self.change(now, told)
    }

    /// Number of stamps that could not be converted by the straight line between two pairs: a
    /// handful a millisecond at the most, unless the system clock is being stepped.
    #[must_use]
    pub fn slow(&self) -> u64 {
        self.core.slow()
    }

    /// Number of times that the counter was found to have lost its continuity.
    #[must_use]
    pub fn breaks(&self) -> u64 {
        self.core.breaks
    }

    /// True if the page holds a hand that was not seen yet.
    fn is_new(&self) -> bool {
        let hand = self.told.as_ref().and_then(|told| told.hand);
        let seen = hand.map_or(0, |used| used.generation);
        self.clock.as_ref().is_some_and(|clock| clock.page().ring().generation() != seen)
    }

    /// Checks that the counter ran on since it was watched last.
    fn watch(&mut self) {
        let now = Continuity::from(host_reading(self.counter));
        if let Some(last) = self.watched.replace(now)
            && now.broken_since(&last, self.identity().period)
        {
            self.core.broke(now.count, now.monotonic_ns);
        }
    }

    /// Looks for a clock where there is none, or none that a daemon tends: it may tend another file
    /// by now.
    fn look_for(&mut self) {
        let tended = |clock: &Clock| clock.page().tended();
        if self.search == Search::Nowhere || self.clock.as_ref().is_some_and(tended) {
            return;
        }
        self.trouble = None;
        match clock(&self.search) {
            Ok(Some(clock)) if self.clock.is_none() || tended(&clock) => self.clock = Some(clock),
            Ok(_) => {}
            Err(why) => self.trouble = Some(why.to_string()),
        }
    }

    /// Takes in what the page says.
    fn look(&mut self) -> Told {
        let view = self.clock.as_ref().map(Clock::view);
        let kind = self.counter.kind();
        let (seen, reason) = match view {
            None => {
                (None, Some(self.trouble.clone().unwrap_or_else(|| "no clock page".to_owned())))
            }
            Some(Err(why)) => (None, Some(why.to_string())),
            Some(Ok(view)) if view.hand.counter.kind != kind => {
                let clock = view.hand.counter.kind;
                let why = format!(
                    "the clock runs by the counter '{clock}', packets are counted by '{kind}': \
                     begin the capture anew"
                );
                (None, Some(why))
            }
            Some(Ok(view)) => {
                let View { count, generation, hand, made, status, reason, .. } = view;
                let reason = reason.map(str::to_owned);
                (Some(Seen { count, generation, hand, made, status }), reason)
            }
        };
        self.core.see(seen);
        let why = "the counter lost its continuity, and the clock does not know yet";
        let broken = self.core.is_broken();
        let status = seen.map(|seen| if broken { Status::Disrupted } else { seen.status });
        let reason = if broken { Some(why.to_owned()) } else { reason };
        Told { hand: self.core.used(), epoch: self.core.epoch(), status, reason }
    }

    fn change(&mut self, at: Count, told: Told) -> Change {
        // Not by its number: another page begins to count anew.
        let before = self.told.as_ref().and_then(|told| told.hand);
        let continuity = Continuity::from(host_reading(self.counter));
        self.recorded = Some(at);
        let change = Change {
            at,
            counter: *self.identity(),
            epoch: told.epoch,
            status: told.status,
            reason: told.reason.clone(),
            hand: told.hand.filter(|_| told.hand != before),
            continuity,
        };
        self.told = Some(told);
        change
    }
}

/// The counter to capture by: that of the clock, or the best there is.
///
/// # Errors
/// If that cannot be read by this process, or is too slow.
pub fn choose(clock: Option<&Clock>) -> Result<Counter, ConvertError> {
    let newest = clock.and_then(|clock| clock.page().newest().ok().flatten());
    match newest.map(|(_, hand, _)| hand.counter.kind) {
        None => Ok(Counter::open(Choice::Auto)?),
        Some(kind @ (CounterKind::Hpet | CounterKind::AcpiPm)) => Err(ConvertError::Device(kind)),
        Some(kind) => Ok(Counter::of_kind(kind)?),
    }
}

/// The clock at that place; `None` if there is no page (yet).
///
/// # Errors
/// If there is one that cannot be used.
pub fn clock(search: &Search) -> Result<Option<Clock>, ConvertError> {
    let opened = match search {
        Search::Usual => Clock::open(),
        Search::At(path) => Clock::open_at(path),
        Search::Nowhere => return Ok(None),
    };
    match opened {
        Ok(clock) => Ok(Some(clock)),
        Err(OpenError::NoPage { .. }) => Ok(None),
        Err(why) => Err(ConvertError::Clock(why)),
    }
}

/// The time of a count that was kept, of a counter of this kind, by what the clock knows now: the
/// bound grows with the distance.
///
/// The count must be of the present boot of this machine: nothing here can tell.
///
/// # Errors
/// If the clock has no time; if the count is of another counter or epoch than the clock has now, or
/// of none, as when it was taken without a clock; and if the clock promises nothing for it.
pub fn time_of(clock: &Clock, kind: CounterKind, counted: &Counted) -> Result<Stamped, ReadError> {
    let view = clock.view()?;
    let Counted { count, error, epoch } = *counted;
    let id = view.hand.counter;
    if id.kind != kind {
        return Err(ReadError::OtherCounter { moment: kind, clock: id.kind });
    }
    if id.epoch != epoch {
        return Err(ReadError::OtherEpoch { moment: epoch, clock: id.epoch });
    }
    match view.status_at(count) {
        Status::Disrupted => return Err(ReadError::Disrupted),
        status if !status.bound_holds() || error.0 < 0 => return Err(ReadError::Void),
        _ => {}
    }
    let (instant, bound, unix_ns) = tell::tell(&view.hand, count, error);
    Ok(Stamped {
        counted: Some(*counted),
        unix_ns,
        instant: Some(instant),
        bound: Some(bound),
        quality: Quality::Bounded,
        generation: view.generation,
    })
}
