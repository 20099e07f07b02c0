//! ClockBound's pages: what they say of the clock, and when.
//!
//! Layout 3 is a clock of its own and says what the clock page says. Layouts 1 and 2 bound the error
//! of `CLOCK_REALTIME`: how far that was from our clock when it was last read, how far our clock may
//! be from the truth, and how fast the two may part, since nobody looks between two readings. So
//! the rate of the system clock is measured as well, and every page says the worse of two rates
//! before the daemon changes it.

use std::path::PathBuf;

use rustix::time::{ClockId, clock_getres, clock_gettime};
use serde::{Deserialize, Serialize};
use truechimer_clockbound::{Layout, Lost, Page, PageError, Record, Status as Word};
use truechimer_counter::{Counter, realtime_pair};
use truechimer_engine::Steer;
use truechimer_time::{Count, CounterKind, Instant, Period, Rate, Span};
use truechimer_timehands::{Hand, Marker, Status};

use crate::sys;

/// The longest that a page promises anything after it was written, ns: as ClockBound has it.
const LASTS: i64 = 1_000 * NANOS;
const NANOS: i64 = 1_000_000_000;
/// A leap second is told to the kernel and to readers, and neither is exact to the moment: no
/// bound is promised this long before it and after it, ns.
const AROUND_LEAP: i64 = 2 * NANOS;
/// Out of how many pairs the narrowest is taken.
const TRIES: u32 = 8;
/// Error that the kernel adds to a frequency that it was given: its clock is made of whole steps,
/// ppb.
const KERNELS: i64 = 1_000;
/// Error beside that in a prediction of the system clock, ns: the clock of a counter that is not
/// the kernel's own.
const APART: i64 = 1_000;
/// Readings closer together than this say too little about the rate, ns.
const MIN_INTERVAL: i64 = 200_000_000;
/// Longest time after our start for which an earlier writer's word is left alone, ns: as long as clients
/// take it for good.
const RESTS: i64 = 5 * NANOS;
/// Time for which nothing is written into a page that was there, ns: whoever else writes it, each second as
/// ClockBound does, is noticed before (its process may be out of sight, as from a container).
const LISTENS: i64 = NANOS + NANOS / 5;
/// The kernel runs its clock at most this much faster or slower than another, as a part of the time
/// that passes (`adjtimex`: `tick`, of 9000 to 11000 µs, and 500 ppm).
const MAX_SLEW: i64 = 8;
/// Addition of a client to a time by rounding, ns.
const ROUNDING: i64 = 4;

/// Which pages are wanted, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Their layouts.
    pub pages: Vec<Layout>,
    /// Their directory.
    pub directory: PathBuf,
    /// Clients are to look at `/dev/vmclock0` themselves: all must be able to read it.
    pub vmclock: bool,
}

impl Wanted {
    /// Where clients look if nobody tells them.
    pub const DIRECTORY: &'static str = "/run/clockbound";
}

/// State of a page for clients of ClockBound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PageState {
    /// The word of an earlier daemon stands there.
    Kept,
    /// The bound holds.
    Synchronized,
    /// The bound holds, without fresh word from any source.
    FreeRunning,
    /// No bound.
    Unknown,
    /// No bound, as the counter lost its continuity.
    Disrupted,
    /// Nothing is written there any more.
    Lost,
}

impl PageState {
    /// All of them.
    pub const ALL: [PageState; 6] = [
        PageState::Kept,
        PageState::Synchronized,
        PageState::FreeRunning,
        PageState::Unknown,
        PageState::Disrupted,
        PageState::Lost,
    ];

    /// A word for people and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PageState::Kept => "kept",
            PageState::Synchronized => "synchronized",
            PageState::FreeRunning => "free-running",
            PageState::Unknown => "unknown",
            PageState::Disrupted => "disrupted",
            PageState::Lost => "lost",
        }
    }
}

impl From<Word> for PageState {
    fn from(word: Word) -> PageState {
        match word {
            Word::Unknown => PageState::Unknown,
            Word::Synchronized => PageState::Synchronized,
            Word::FreeRunning => PageState::FreeRunning,
            Word::Disrupted => PageState::Disrupted,
        }
    }
}

/// A page that is wanted, and what it says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageReport {
    /// Name of its file, which says the layout.
    pub name: String,
    /// State of it.
    pub state: PageState,
}

/// Reason why a counter will not do, if it will not.
pub(crate) fn unfit(layout: Layout, kind: CounterKind) -> Option<String> {
    let fits =
        layout.bounds_system_clock() || matches!(kind, CounterKind::Tsc | CounterKind::ArmGeneric);
    (!fits).then(|| {
        format!(
            "clients of ClockBound's `{}` read the TSC or the Arm generic timer by themselves, and \
             the counter is {kind}: use --counter tsc if this machine's is good, or leave the page \
             out of [clockbound]",
            layout.name()
        )
    })
}

/// Reason not to write pages here: a ClockBound runs, and one of the pages there, wanted from us or
/// not, may be its own.
pub(crate) fn running(wanted: &Wanted) -> Option<String> {
    let mut pages = Layout::ALL.map(|page| wanted.directory.join(page.name())).into_iter();
    let page = pages.find(|page| page.exists())?;
    let pid = std::fs::read_dir("/proc").ok()?.find_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let pid: u32 = name.parse().ok()?;
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        PROGRAMS.contains(&program.trim_end()).then_some(pid)
    })?;
    Some(format!(
        "a ClockBound runs (process {pid}) and the page {} is there, which may be its own: stop it, \
         or remove the page if it is none of that one's, or leave out [clockbound]",
        page.display()
    ))
}

/// Names of ClockBound's daemon, as the kernel has them.
const PROGRAMS: [&str; 2] = ["clockbound", "clockboundd"];

/// The pages that are written.
#[derive(Debug)]
pub(crate) struct ClockBound {
    pages: Vec<Page>,
    /// All that were wanted, and what they say.
    reports: Vec<PageReport>,
    /// Last record of layouts 1 and 2.
    said: Option<Record>,
    system: System,
    /// Something of ours was written.
    begun: bool,
    /// When the pages were opened, ns of `CLOCK_MONOTONIC_COARSE`.
    opened: i64,
    /// No system clock further from ours than this is taken for ours, ns.
    near: i64,
    /// Complained that somebody else moves the system clock.
    complained: bool,
    /// Clients are to look at the device.
    looks: bool,
    /// Marker of the device under which what is written is true.
    marker: Option<u64>,
}

impl ClockBound {
    /// Opens the pages that are wanted. `near`: a system clock that is further off is not followed
    /// yet.
    pub(crate) fn open(
        wanted: &Wanted,
        nominal: Period,
        near: Span,
    ) -> Result<ClockBound, PageError> {
        let open = |layout: &Layout| Page::create(&wanted.directory, *layout);
        let pages = wanted.pages.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let report = |page: &Page| {
            let state = if page.is_continued() { PageState::Kept } else { PageState::Unknown };
            PageReport { name: page.layout().name().into(), state }
        };
        Ok(ClockBound {
            reports: pages.iter().map(report).collect(),
            pages,
            said: None,
            system: System { nominal, last: None, rate: None },
            begun: false,
            opened: monotonic(),
            near: near.as_nanos_i64(),
            complained: false,
            looks: wanted.vmclock,
            marker: None,
        })
    }

    /// Paths that are written, for people.
    pub(crate) fn description(&self) -> String {
        let names = self.pages.iter().map(|page| page.path().display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The pages that were wanted, and what they say.
    pub(crate) fn reports(&self) -> Vec<PageReport> {
        self.reports.clone()
    }

    /// From now on a system clock further off than this is not followed yet.
    pub(crate) fn configure(&mut self, near: Span) {
        self.near = near.as_nanos_i64();
    }

    /// From now on what is written is true under this marker.
    pub(crate) fn mark(&mut self, marker: Option<Marker>) {
        // Clients know no other device.
        let own = marker.filter(|marker| self.looks && marker.device == 0);
        self.marker = own.map(|marker| marker.value);
    }

    fn bounds_system_clock(&self) -> bool {
        self.pages.iter().any(|page| page.layout().bounds_system_clock())
    }

    /// The counter has begun a new epoch, so that no count of before means anything.
    pub(crate) fn forget(&mut self) {
        (self.system.last, self.system.rate) = (None, None);
    }

    /// Looks whether somebody else moves the system clock, and says so in the pages at once.
    pub(crate) fn look(&mut self, counter: Counter) -> Vec<String> {
        if !self.bounds_system_clock() {
            return Vec::new();
        }
        let reading = Reading::take(counter, self.system.nominal);
        if self.system.takes(&reading) {
            return Vec::new();
        }
        // An earlier daemon's word is true no more: ours comes next, and says so.
        self.begun = true;
        let mut notes = Vec::new();
        // Pages that say Unknown already, as around a leap second, which moves the system clock, are no news.
        let was_known = self.said.is_some_and(|said| said.status != Word::Unknown);
        if was_known && !std::mem::replace(&mut self.complained, true) {
            notes.push(
                "ClockBound: somebody else moves the system clock; pages that bound it say Unknown \
                 until it is followed again"
                    .to_owned(),
            );
        }
        if let Some(said) = self.said {
            notes.extend(self.write_system(&Record { status: Word::Unknown, ..said }));
        }
        notes
    }

    /// To be called before the system clock is steered: what the pages say stays true whether or
    /// not anybody comes to write them again.
    pub(crate) fn before(&mut self, steer: Steer, counter: Counter) -> Vec<String> {
        let mut notes = self.look(counter);
        let Some(said) = self.said else { return notes };
        match steer {
            Steer::Step(_) => {
                notes.extend(self.write_system(&Record { status: Word::Unknown, ..said }));
            }
            Steer::Frequency(frequency) => {
                // By how much the clock will run otherwise, on top of what it does now.
                let change = self.system.rate.map_or(0, |rate| ppb(frequency) - rate.frequency);
                let extra = u32::try_from(change.abs()).unwrap_or(u32::MAX);
                let drift = said.drift.saturating_add(extra);
                if extra > 0 {
                    notes.extend(self.write_system(&Record { drift, ..said }));
                }
            }
            Steer::Tell(_) => {}
        }
        notes
    }

    /// To be called when that was done.
    pub(crate) fn after(&mut self, steer: Steer) {
        match steer {
            Steer::Step(_) => self.system.last = None,
            Steer::Frequency(frequency) => {
                self.system.last = None;
                if let Some(rate) = &mut self.system.rate {
                    let frequency = ppb(frequency);
                    rate.ppb += frequency - rate.frequency;
                    rate.frequency = frequency;
                }
            }
            Steer::Tell(_) => {}
        }
    }

    /// Writes what `hand` says now; to be called once a second at least, and with each new hand.
    /// `steered`: whether the daemon keeps the system clock. Returns what there is to say.
    pub(crate) fn refresh(&mut self, hand: &Hand, counter: Counter, steered: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.bounds_system_clock() {
            notes.extend(self.look(counter));
        }
        if self.rests(hand, counter) {
            return notes;
        }
        self.begun = true;
        if self.bounds_system_clock() {
            let record = self.system_record(hand, counter, steered);
            self.complained &= record.status != Word::Synchronized;
            self.said = Some(record);
            notes.extend(self.write_system(&record));
        }
        let record = own_record(hand, counter.fenced().read());
        let record = Record { vmclock: self.marker, ..record };
        notes.extend(self.write(&record, |layout| !layout.bounds_system_clock()));
        notes
    }

    /// Tells whether an earlier daemon's word is better than what we can say yet, that it ended or that
    /// the rate of the system clock is not measured. It holds as before, and clients know how old it
    /// is; but not where the system clock is elsewhere.
    fn rests(&self, hand: &Hand, counter: Counter) -> bool {
        if self.age() >= RESTS || !self.is_untouched() {
            return false;
        }
        let unmeasured = self.bounds_system_clock() && self.system.rate.is_none();
        let listens = self.age() < LISTENS;
        let is_near = || !self.bounds_system_clock() || self.is_near(hand, counter);
        match hand.status {
            Status::Holdover => is_near(),
            Status::Synchronised => (unmeasured || listens) && is_near(),
            // A hand that knows nothing cannot say where the system clock is.
            Status::Unknown => listens,
            Status::Disrupted => false,
        }
    }

    /// All pages still say what an earlier writer wrote.
    fn is_untouched(&self) -> bool {
        !self.begun && self.pages.iter().all(Page::is_continued)
    }

    /// The pages say how the system clock ran under an earlier daemon: it is not to be steered until they
    /// are written.
    pub(crate) fn holds_steering(&self) -> bool {
        self.bounds_system_clock() && self.is_untouched()
    }

    /// Time since the pages were opened, ns.
    fn age(&self) -> i64 {
        monotonic().saturating_sub(self.opened)
    }

    fn is_near(&self, hand: &Hand, counter: Counter) -> bool {
        offset(hand, &Reading::take(counter, self.system.nominal)) <= self.near
    }

    /// Record of layouts 1 and 2.
    fn system_record(&self, hand: &Hand, counter: Counter, steered: bool) -> Record {
        // Before anything else: what is read later was later.
        let as_of = monotonic();
        let reading = Reading::take(counter, self.system.nominal);
        let ours = hand.time_at(reading.count);
        let offset = offset(hand, &reading);
        let lasts = lasts(hand, reading.count, ours);
        let rate = self.system.rate;
        let apart = rate.map_or(0, |rate| {
            (rate.ppb - ppb(hand.period.relative_to(self.system.nominal))).abs() + rate.error
        });
        let drift = growth(hand).saturating_add(apart).saturating_add(KERNELS);
        // A client's clock moves once in a tick, by as much as which it may be late.
        let late = up(drift, tick());
        let bound = [hand.bound_at(reading.count).as_nanos_up(), offset, reading.error, late];
        let bound = bound.into_iter().fold(ROUNDING, i64::saturating_add);
        let trusted = steered && rate.is_some() && offset <= self.near && lasts > 0;
        let status = match hand.status {
            _ if near_leap(hand, ours) => Word::Unknown,
            Status::Synchronised | Status::Holdover if !trusted => Word::Unknown,
            status => word(status),
        };
        Record {
            count: reading.count.0,
            as_of,
            void_after: as_of.saturating_add(lasts),
            bound,
            drift: u32::try_from(drift).unwrap_or(u32::MAX),
            period: hand.period,
            disruptions: u64::from(hand.counter.epoch.0),
            vmclock: self.marker,
            status,
        }
    }

    fn write_system(&mut self, record: &Record) -> Vec<String> {
        self.write(record, Layout::bounds_system_clock)
    }

    /// Writes all pages of which this is true. One that somebody else took is left to them; one
    /// that was removed is made anew.
    fn write(&mut self, record: &Record, which: fn(Layout) -> bool) -> Vec<String> {
        let (mut notes, reports) = (Vec::new(), &mut self.reports);
        let mut tell = |layout: Layout, state| {
            let of = reports.iter_mut().filter(|report| report.name == layout.name());
            of.for_each(|report| report.state = state);
        };
        self.pages.retain_mut(|page| {
            if !which(page.layout()) {
                return true;
            }
            let written = match page.publish(record) {
                Err(Lost::Removed) => match page.renew() {
                    Ok(()) => {
                        let path = page.path().display();
                        notes.push(format!(
                            "ClockBound: {path} was removed, and is there again; clients that had \
                             opened it must open it anew"
                        ));
                        page.publish(record).map_err(|why| why.to_string())
                    }
                    Err(why) => Err(why.to_string()),
                },
                written => written.map_err(|why| why.to_string()),
            };
            let Err(why) = written else {
                tell(page.layout(), record.status.into());
                return true;
            };
            tell(page.layout(), PageState::Lost);
            notes.push(format!("ClockBound: {} is written no more: {why}", page.path().display()));
            false
        });
        notes
    }
}

/// Distance of the system clock from ours, ns, ≥ 0.
fn offset(hand: &Hand, reading: &Reading) -> i64 {
    let ours = hand.leaps.utc(hand.time_at(reading.count)).unix_nanos();
    i64::try_from((i128::from(reading.unix_ns) - ours).abs()).unwrap_or(i64::MAX)
}

/// Record of layout 3 at this count.
fn own_record(hand: &Hand, count: Count) -> Record {
    let ours = hand.time_at(count);
    let as_of = hand.leaps.utc(ours).unix_nanos();
    let as_of = i64::try_from(as_of).unwrap_or(0);
    let lasts = lasts(hand, count, ours);
    let status = match hand.status {
        _ if near_leap(hand, ours) => Word::Unknown,
        status if lasts <= 0 && status.bound_holds() => Word::Unknown,
        status => word(status),
    };
    Record {
        count: count.0,
        as_of,
        void_after: as_of.saturating_add(lasts),
        bound: hand.bound_at(count).as_nanos_up().saturating_add(ROUNDING),
        drift: u32::try_from(growth(hand)).unwrap_or(u32::MAX),
        period: hand.period,
        disruptions: u64::from(hand.counter.epoch.0),
        vmclock: None,
        status,
    }
}

fn word(status: Status) -> Word {
    match status {
        Status::Unknown => Word::Unknown,
        Status::Synchronised => Word::Synchronized,
        Status::Holdover => Word::FreeRunning,
        Status::Disrupted => Word::Disrupted,
    }
}

/// Time for which the hand promises something, ns: not beyond the next leap second, of which a page has
/// no word.
fn lasts(hand: &Hand, count: Count, now: Instant) -> i64 {
    let void = hand.period.span(hand.void_after - count).as_nanos_i64();
    let leap = hand.leaps.next.map_or(i64::MAX, |leap| {
        let until = (Instant::new(leap.at, 0) - now).as_nanos_i64();
        if until > 0 { until.saturating_sub(NANOS) } else { i64::MAX }
    });
    void.min(leap).clamp(0, LASTS)
}

fn near_leap(hand: &Hand, now: Instant) -> bool {
    let leaps = [hand.leaps.last, hand.leaps.next].into_iter().flatten();
    leaps
        .map(|leap| (now - Instant::new(leap.at, 0)).as_nanos_i64())
        // An inserted second is the one before.
        .any(|since| (-AROUND_LEAP - NANOS..AROUND_LEAP).contains(&since))
}

/// Growth of the bound, ppb, rounded up.
fn growth(hand: &Hand) -> i64 {
    ppb(hand.growth).saturating_add(1)
}

/// A rate in parts in 10⁹, rounded down.
fn ppb(rate: Rate) -> i64 {
    rate.as_ppt().div_euclid(1_000)
}

/// Product of a rate in ppb and so many ns, rounded up.
fn up(ppb: i64, nanos: i64) -> i64 {
    let product = i128::from(ppb) * i128::from(nanos);
    i64::try_from(product / i128::from(NANOS) + 1).unwrap_or(i64::MAX)
}

/// `CLOCK_MONOTONIC_COARSE`, which clients read, ns.
fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.saturating_mul(NANOS).saturating_add(now.tv_nsec)
}

/// Time from one move of it to the next, ns.
fn tick() -> i64 {
    clock_getres(ClockId::MonotonicCoarse).tv_nsec
}

/// The system clock at a count.
#[derive(Clone, Copy, Debug)]
struct Reading {
    count: Count,
    /// Unix time, ns.
    unix_ns: i64,
    /// By how much that may have been earlier or later than `count`, ns, > 0.
    error: i64,
    /// The frequency that the kernel has been given for it, ppb.
    frequency: Option<i64>,
}

impl Reading {
    fn take(counter: Counter, nominal: Period) -> Reading {
        let pair = realtime_pair(counter, TRIES);
        Reading {
            count: pair.mid(),
            unix_ns: pair.unix_ns,
            // Half of its width; the nominal period is good to far less than the other half.
            error: nominal.span(pair.width()).half().as_nanos_up().saturating_add(2),
            frequency: sys::kernel_frequency().ok().map(ppb),
        }
    }
}

/// Rate of the system clock.
#[derive(Debug)]
struct System {
    nominal: Period,
    /// A reading since when nobody steered it.
    last: Option<Reading>,
    rate: Option<Running>,
}

/// Rate of the system clock beside a counter of the nominal period; positive: it is faster.
#[derive(Clone, Copy, Debug)]
struct Running {
    ppb: i64,
    /// Known to this, ppb, ≥ 0.
    error: i64,
    /// With this frequency, as the kernel was told, ppb.
    frequency: i64,
}

impl System {
    /// Takes a reading in; `false` if somebody else must have moved the clock, and then nothing is
    /// known of it until two more readings.
    fn takes(&mut self, reading: &Reading) -> bool {
        let Some(last) = self.last else {
            self.last = Some(*reading);
            return true;
        };
        let passed = self.nominal.span(reading.count - last.count).as_nanos_i64();
        let gained = (reading.unix_ns - last.unix_ns).saturating_sub(passed);
        let error = last.error + reading.error;
        if let Some(rate) = self.rate {
            let wanted = up(rate.ppb, passed);
            let allowed = error + up(rate.error + KERNELS, passed.abs()) + APART;
            // The kernel keeps frequencies in steps of 0.015 ppb.
            let changed = reading.frequency.is_some_and(|f| (f - rate.frequency).abs() > 1);
            if gained.saturating_sub(wanted).abs() > allowed || changed {
                (self.last, self.rate) = (None, None);
                return false;
            }
        } else if gained.saturating_abs() > error + passed.saturating_abs() / MAX_SLEW + APART {
            // Whatever its rate, this was none.
            self.last = None;
            return false;
        }
        if passed < MIN_INTERVAL {
            return true;
        }
        if let (Some(before), Some(frequency)) = (last.frequency, reading.frequency)
            && (before - frequency).abs() <= 1
        {
            let per = |ns: i64| {
                i64::try_from(i128::from(ns) * i128::from(NANOS) / i128::from(passed))
                    .unwrap_or(i64::MAX / 4)
            };
            self.rate = Some(Running { ppb: per(gained), error: per(error) + 1, frequency });
        }
        self.last = Some(*reading);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_time::{BootId, CountSpan, CounterId, Epoch, Leap, Leaps};

    /// A clock of 2.5 GHz in November 2026, with TAI − UTC 37 s.
    fn hand() -> Hand {
        Hand {
            difference_error: Rate::from_ppb(10),
            path_bound: Span::from_micros(20),
            statistical_bound: Span::from_nanos(1_234),
            growth: Rate::from_ppb(512),
            leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
            ..Hand::exact(
                CounterId { kind: CounterKind::Tsc, boot: BootId([7; 16]), epoch: Epoch(3) },
                Count(5_000_000_000_000),
                Instant::new(1_795_700_037, 1 << 63),
                Period::from_hz(2_500_000_077),
                Count(1 << 60),
            )
        }
    }

    proptest! {
        /// Interval of a client of layout 3, by a record and at whatever count it reads, takes in
        /// all that the hand does.
        #[test]
        fn a_client_has_no_narrower_an_interval_than_we(
            written in 0i64..2_500_000_000_000, read in 0i64..2_500_000_000_000,
            growth in 0i64..500_000,
        ) {
            let hand = Hand { growth: Rate::from_ppb(growth), ..hand() };
            let count = hand.base + CountSpan(written);
            let record = own_record(&hand, count);
            prop_assert_eq!((record.status, record.disruptions), (Word::Synchronized, 3));
            prop_assert_eq!(record.void_after - record.as_of, LASTS);
            let now = count + CountSpan(read);
            // By its documents: seconds per count are a fraction of 2^(64 + shift).
            let shift = i32::from(record.period.shift());
            let period = record.period.mantissa() as f64 / 2f64.powi(64 + shift);
            let passed = read as f64 * period * 1e9;
            let client = record.as_of + passed as i64;
            let bound = (record.bound as f64 + passed * f64::from(record.drift) / 1e9) as i64;
            let ours = i64::try_from(hand.leaps.utc(hand.time_at(now)).unix_nanos()).unwrap();
            let most = hand.bound_at(now).as_nanos_up();
            prop_assert!(client - bound <= ours - most && client + bound > ours + most,
                "{client} ± {bound}, not {ours} ± {most}");
            // And not much more than that.
            prop_assert!(bound <= most + 10 + read / 2_500_000_000 * 3, "{bound}, not {most}");
        }
    }

    #[test]
    fn a_leap_second_ends_every_promise_before_it_comes() {
        let leap = |at| Leaps { next: Some(Leap { at, step: 1 }), ..hand().leaps };
        let at = |seconds: i64| {
            let hand = Hand { leaps: leap(1_795_700_037 + seconds), ..hand() };
            let record = own_record(&hand, hand.base);
            (record.status, (record.void_after - record.as_of) / NANOS)
        };
        assert_eq!(at(2_000), (Word::Synchronized, 1_000));
        // Half a second has passed, and the second before is the one that is inserted.
        assert_eq!(at(100), (Word::Synchronized, 98));
        assert_eq!(at(3).0, Word::Unknown);
        assert_eq!(at(0).0, Word::Unknown);
        assert_eq!(at(-1).0, Word::Unknown);
        assert_eq!(at(-3), (Word::Synchronized, 1_000));
    }

    #[test]
    fn statuses_are_clockbounds_and_none_outlives_its_hand() {
        for (status, wanted) in [
            (Status::Unknown, Word::Unknown),
            (Status::Synchronised, Word::Synchronized),
            (Status::Holdover, Word::FreeRunning),
            (Status::Disrupted, Word::Disrupted),
        ] {
            let hand = Hand { status, ..hand() };
            assert_eq!(own_record(&hand, hand.base).status, wanted);
        }
        let hand = Hand { void_after: hand().base + CountSpan(25_000_000_000), ..hand() };
        let record = own_record(&hand, hand.base);
        assert_eq!((record.void_after - record.as_of + 500_000_000) / NANOS, 10);
        assert_eq!(own_record(&hand, hand.void_after + CountSpan(1)).status, Word::Unknown);
    }

    /// A system clock that gains `ppb`, read each second, and by how much it is ahead then, ns.
    fn reading(second: u64, ppb: i64, ahead: i64) -> Reading {
        let unix_ns = second as i64 * (NANOS + ppb) + ahead;
        Reading { count: Count(second * 1_000_000_000), unix_ns, error: 50, frequency: Some(7) }
    }

    #[test]
    fn a_system_clock_that_somebody_else_moves_is_noticed() {
        let mut system = System { nominal: Period::NANOSECOND, last: None, rate: None };
        for second in 0..5 {
            assert!(system.takes(&reading(second, 30_000, 0)));
        }
        let rate = system.rate.unwrap();
        assert!((rate.ppb - 30_000).abs() <= rate.error && rate.error < 1_000, "{rate:?}");
        // What a reading may be off by is no step, and a step of 10 µs is one, either way.
        assert!(system.takes(&reading(5, 30_000, 90)));
        for ahead in [10_000, -10_000] {
            assert!(!system.takes(&reading(6, 30_000, ahead)));
            assert!(system.rate.is_none(), "until two readings agree");
            assert!(system.takes(&reading(7, 30_000, 0)) && system.rate.is_none());
            assert!(system.takes(&reading(8, 30_000, 0)) && system.rate.is_some());
            (system.last, system.rate) = (None, None);
            assert!((3..6).all(|second| system.takes(&reading(second, 30_000, 0))));
        }
        // While the rate is not known, a step is what the kernel cannot do by a rate.
        (system.last, system.rate) = (Some(reading(6, 30_000, 0)), None);
        assert!(!system.takes(&reading(7, 30_000, 200_000_000)));
        assert!(system.takes(&reading(7, 30_000, 0)));
        assert!(system.takes(&reading(8, 100_000_000, -700_000_000)) && system.rate.is_some());
        (system.last, system.rate) = (None, None);
        assert!((3..6).all(|second| system.takes(&reading(second, 30_000, 0))));
        // So is a frequency that we have not set.
        let other = Reading { frequency: Some(900), ..reading(6, 30_000, 0) };
        assert!(!system.takes(&other));
    }

    /// A directory with a page of each layout that says Synchronised, as a daemon of before left them.
    fn left(name: &str, now: i64) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tc-left-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for layout in Layout::ALL {
            let record = Record {
                as_of: now,
                void_after: now + LASTS,
                status: Word::Synchronized,
                ..own_record(&hand(), hand().base)
            };
            Page::create(&directory, layout).unwrap().publish(&record).unwrap();
        }
        directory
    }

    /// Statuses of the three pages.
    fn told(directory: &std::path::Path) -> [u8; 3] {
        [(Layout::One, 64), (Layout::Two, 68), (Layout::Three, 92)]
            .map(|(layout, at)| std::fs::read(directory.join(layout.name())).unwrap()[at])
    }

    /// A hand at this very moment that agrees with the system clock but for so much.
    fn agreeing(counter: Counter, status: Status, ahead: Span) -> Hand {
        let pair = realtime_pair(counter, TRIES);
        let unix = Span::from_nanos(pair.unix_ns) + Span::from_secs(hand().leaps.tai_offset.into());
        Hand {
            counter: CounterId { kind: CounterKind::Raw, ..hand().counter },
            base: pair.mid(),
            time: Instant::new(0, 0) + unix + ahead,
            period: Period::NANOSECOND,
            difference: Period::NANOSECOND,
            status,
            ..hand()
        }
    }

    #[test]
    fn what_an_earlier_daemon_said_stays_until_there_is_something_better_and_no_longer() {
        const SAID: [u8; 3] = [Word::Synchronized as u8; 3];
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let directory = left("rests", monotonic());
        let wanted = Wanted { pages: Layout::ALL.to_vec(), directory, vmclock: false };
        let open = || {
            let mut pages =
                ClockBound::open(&wanted, Period::NANOSECOND, Span::from_millis(1)).unwrap();
            // However slow this machine is.
            pages.opened += 1_000 * NANOS;
            pages
        };
        let say = |pages: &mut ClockBound, status, ahead| {
            pages.refresh(&agreeing(counter, status, ahead), counter, true);
            (told(&wanted.directory), pages.holds_steering())
        };
        // Before a reply, and after the first one as long as the rate is not measured.
        let mut pages = open();
        assert_eq!(say(&mut pages, Status::Holdover, Span::ZERO), (SAID, true));
        pages.system = System { nominal: Period::NANOSECOND, last: None, rate: None };
        assert_eq!(say(&mut pages, Status::Synchronised, Span::ZERO), (SAID, true));
        // Where no reply comes it is not left for longer than clients take it for good.
        pages.opened -= 2_000 * NANOS;
        pages.system.rate = Some(Running { ppb: 0, error: 500_000, frequency: 0 });
        let word = Word::FreeRunning as u8;
        let (said, rests) = say(&mut pages, Status::Holdover, Span::ZERO);
        assert_eq!((said[2], rests), (word, false), "{said:?}");
        assert_ne!(said, SAID);
        drop(pages);

        // Nor where the system clock is found elsewhere than it was left: at once, or by its step.
        let unknown = Word::Unknown as u8;
        left("rests", monotonic());
        let mut pages = open();
        let (said, rests) = say(&mut pages, Status::Holdover, Span::from_millis(2));
        assert_eq!((&said[..2], rests), ([unknown; 2].as_slice(), false));
        drop(pages);
        left("rests", monotonic());
        let mut pages = open();
        assert_eq!(say(&mut pages, Status::Holdover, Span::ZERO), (SAID, true));
        pages.system.last.as_mut().unwrap().unix_ns -= 10 * NANOS;
        let (said, rests) = say(&mut pages, Status::Holdover, Span::ZERO);
        assert_eq!((&said[..2], rests), ([unknown; 2].as_slice(), false));
        std::fs::remove_dir_all(&wanted.directory).unwrap();
    }

    #[test]
    fn a_page_that_somebody_out_of_sight_writes_is_left_to_them() {
        use std::os::unix::fs::FileExt;
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let directory = left("others", monotonic());
        let page = directory.join(Layout::Three.name());
        let wanted = Wanted { pages: vec![Layout::Three], directory, vmclock: false };
        let mut pages =
            ClockBound::open(&wanted, Period::NANOSECOND, Span::from_millis(1)).unwrap();
        pages.opened += 1_000 * NANOS;
        let hand = || agreeing(counter, Status::Synchronised, Span::ZERO);
        assert!(!pages.holds_steering(), "this page says nothing of the system clock");
        assert!(pages.refresh(&hand(), counter, false).is_empty());
        let bytes = std::fs::read(&page).unwrap();
        let generation = u16::from_ne_bytes([bytes[14], bytes[15]]).wrapping_add(2);
        let file = std::fs::File::options().write(true).open(&page).unwrap();
        file.write_all_at(&generation.to_ne_bytes(), 14).unwrap();
        let theirs = std::fs::read(&page).unwrap();
        assert!(pages.refresh(&hand(), counter, false).is_empty());
        // Nor by a daemon that has yet to hear of the time.
        let nothing = agreeing(counter, Status::Unknown, Span::from_secs(86_400));
        assert!(pages.refresh(&nothing, counter, false).is_empty());
        assert_eq!(std::fs::read(&page).unwrap(), theirs);
        pages.opened -= 1_002 * NANOS;
        let notes = pages.refresh(&hand(), counter, false);
        assert!(notes[0].contains("is written no more: somebody else writes it"), "{notes:?}");
        assert_eq!(std::fs::read(&page).unwrap(), theirs);
        assert_eq!(pages.reports()[0].state, PageState::Lost);
        std::fs::remove_dir_all(&wanted.directory).unwrap();
    }

    #[test]
    fn whoever_cannot_read_our_counter_is_told() {
        for kind in [CounterKind::Raw, CounterKind::Hpet, CounterKind::AcpiPm] {
            let told = unfit(Layout::Three, kind).unwrap();
            assert!(told.contains("`shm1`") && told.contains(&kind.to_string()), "{told}");
            assert_eq!(unfit(Layout::Two, kind), None);
        }
        assert_eq!(unfit(Layout::Three, CounterKind::Tsc), None);
    }
}
