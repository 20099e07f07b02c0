//! The clock.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use truechimer_counter::{Counter, CounterError, boot_id, host_reading, resolution};
use truechimer_time::{BootId, Count, CountSpan, CounterKind, Instant, Rate, Span};
use truechimer_timehands::{
    Corrupt, Glance, Hand, Marker, Newest, PageError, PageReader, Status, Word, places,
};

use crate::device::{Device, Look, ReadBy};
use crate::error::{OpenError, ReadError, Unreadable};
use crate::hypervisor::{Hypervisor, MOVED};
use crate::judge::{Verdict, judge};
use crate::reading::{Doubt, Elapsed, Moment, Reading};
use crate::shown::UnixReading;
use crate::unix::UnixNanos;
use crate::uptime::Uptime;
use crate::view::View;

/// A clock to read. Cheap to share between threads, and meant to be: open it once.
pub struct Clock {
    page: PageReader,
    boot: BootId,
    /// The processor's own counter, or `raw` once more where it has none that can be used.
    native: Readable,
    /// `CLOCK_MONOTONIC_RAW`.
    raw: Readable,
    /// Counters that are devices, from when a hand first is of one.
    devices: [OnceLock<Device>; DEVICES.len()],
    hypervisor: Hypervisor,
    latest: Latest,
    latest_unix: Latest,
    uptime: Uptime,
}

/// A counter that can be read here.
struct Readable {
    counter: Counter,
    kind: CounterKind,
    /// The newest hand of this counter that was examined in full and found to stand; 0 for none.
    /// Reading the clock goes straight ahead with this one only.
    vetted: AtomicU64,
    /// The smallest step of the counter, ≥ 1, once measured.
    resolution: OnceLock<CountSpan>,
}

/// The latest time that [`Clock::now_monotone`] has given out, in ns since 1970; on a cache line
/// of its own, since it is written to.
#[repr(align(128))]
struct Latest(AtomicI64);

impl Latest {
    /// The later one of `nanos` and what was given out, which is given out with that. Where nothing is
    /// promised it stays.
    fn held(&self, nanos: i64, promised: bool) -> i64 {
        if promised {
            return self.0.fetch_max(nanos, Relaxed).max(nanos);
        }
        match self.0.load(Relaxed) {
            NEVER => nanos,
            latest => latest,
        }
    }
}

/// Counters that are devices.
const DEVICES: [CounterKind; 2] = [CounterKind::Hpet, CounterKind::AcpiPm];

/// Number of tries to read a device while other hands come out. The daemon publishes a few a second
/// at most.
const TRIES: u32 = 8;

/// No time given out yet.
const NEVER: i64 = i64::MIN;

/// The counter that processors of this architecture have.
const NATIVE: CounterKind =
    if cfg!(target_arch = "aarch64") { CounterKind::ArmGeneric } else { CounterKind::Tsc };

impl Clock {
    /// Opens the clock of this machine. If `$TRUECHIMER_PAGE` is set, that names the page.
    /// Otherwise it is `$XDG_RUNTIME_DIR/truechimer/clock` or `/run/truechimer/clock`: the first
    /// that a daemon tends, or the first that exists.
    ///
    /// # Errors
    /// If there is no page, it cannot be trusted or read, or it is about a counter that this
    /// process cannot read. A page without any time yet is no error here but one of
    /// [`Clock::now`].
    pub fn open() -> Result<Clock, OpenError> {
        let searched = places::for_readers();
        let mut found = None;
        for path in &searched {
            match PageReader::open(path) {
                Ok(page) if page.tended() => return Clock::over(page),
                Ok(page) => found = found.or(Some(Ok(page))),
                Err(PageError::Missing { .. }) => {}
                Err(error) => found = found.or(Some(Err(error))),
            }
        }
        match found {
            Some(page) => Clock::over(page?),
            None => Err(OpenError::NoPage { searched }),
        }
    }

    /// Opens the clock whose page is at `path`.
    ///
    /// # Errors
    /// As [`Clock::open`].
    pub fn open_at(path: impl AsRef<Path>) -> Result<Clock, OpenError> {
        match PageReader::open(&path) {
            Ok(page) => Clock::over(page),
            Err(PageError::Missing { path }) => Err(OpenError::NoPage { searched: vec![path] }),
            Err(error) => Err(error.into()),
        }
    }

    fn over(page: PageReader) -> Result<Clock, OpenError> {
        // The kernel's counter is what any other is checked against when no daemon does.
        let raw = Counter::of_kind(CounterKind::Raw)?;
        let clock = Clock {
            page,
            boot: boot_id()?,
            native: Readable::new(Counter::of_kind(NATIVE).unwrap_or(raw)),
            raw: Readable::new(raw),
            devices: Default::default(),
            hypervisor: Hypervisor::default(),
            latest: Latest(AtomicI64::new(NEVER)),
            latest_unix: Latest(AtomicI64::new(NEVER)),
            uptime: Uptime::new(),
        };
        let path = || clock.page.path().to_path_buf();
        match clock.page.newest_in_full() {
            Ok(Some(Newest { hand, marker, .. })) if hand.counter.boot == clock.boot => {
                // Now, as a program may give up its rights once it has opened all it needs.
                clock.hypervisor.seek(marker);
                match clock.device(hand.counter.kind) {
                    Some(device) => device.usable()?,
                    None => clock.readable(hand.counter.kind).map(drop)?,
                }
            }
            // A daemon of this boot that has not published yet: its lock shows that it is there.
            Ok(Some(_)) if clock.page.tended() => {}
            Ok(Some(_)) => return Err(OpenError::OtherBoot { path: path() }),
            Ok(None) => {}
            Err(corrupt) => return Err(OpenError::Corrupt { path: path(), corrupt }),
        }
        Ok(clock)
    }

    /// Makes reads of the counter fenced: see the crate's documentation.
    #[must_use]
    pub fn fenced(mut self) -> Clock {
        self.native.counter = self.native.counter.fenced();
        self
    }

    /// Makes it hear the hypervisor by the vmclock device at this path, wherever the page says that
    /// it is: in a container that has it elsewhere, say. `None` if it cannot be read there.
    #[must_use]
    pub fn with_vmclock(mut self, path: impl AsRef<Path>) -> Option<Clock> {
        self.hypervisor = Hypervisor::at(path.as_ref())?;
        Some(self)
    }

    /// The time now, with its bound and status.
    ///
    /// # Errors
    /// If the page has no time yet, or is about a counter that this process cannot read.
    #[inline]
    pub fn now(&self) -> Result<Reading, ReadError> {
        match self.quickly(now) {
            Some(reading) => Ok(reading),
            None => self.now_less_quickly(),
        }
    }

    /// The time now if all is as usual; else [`Clock::now`] has it, or says what is wrong. For
    /// libraries in other languages: in line, a reading stays in registers until it is converted.
    #[doc(hidden)]
    #[inline(always)]
    pub fn now_if_usual(&self) -> Option<Reading> {
        self.quickly(now)
    }

    /// The time now, never before what an earlier call on this `Clock` gave, in any thread: `best`
    /// is in whole nanoseconds and stands still while the clock goes back, or while nothing is
    /// promised.
    ///
    /// The clock itself does go back now and then, by less than its bound, when the daemon learns
    /// better. `best` stays within `earliest..=latest`, which is widened where need be.
    ///
    /// The scale is that of [`Reading`], without leap seconds; as Unix time the same readings go back
    /// in an inserted one, where [`Clock::now_monotone_unix`] does not.
    ///
    /// # Errors
    /// Those of [`Clock::now`].
    pub fn now_monotone(&self) -> Result<Reading, ReadError> {
        let mut reading = self.now()?;
        let nanos = i64::try_from(reading.best.as_nanos()).unwrap_or(i64::MAX);
        let latest = self.latest.held(nanos, reading.status.bound_holds());
        reading.best = Instant::from_nanos(latest.into());
        reading.earliest = reading.earliest.min(reading.best);
        reading.latest = reading.latest.max(reading.best);
        Ok(reading)
    }

    /// The time now, and as Unix time never before what an earlier call of this on this `Clock` gave,
    /// in any thread: as [`Clock::now_monotone`], but that `best` also stands still through an inserted
    /// leap second, in which Unix time shows 23:59:59 once more.
    ///
    /// # Errors
    /// Those of [`Clock::now`].
    pub fn now_monotone_unix(&self) -> Result<(Reading, UnixReading), ReadError> {
        let reading = self.now()?;
        let mut unix = reading.unix();
        let nanos = i64::try_from(unix.best.as_nanos()).unwrap_or(i64::MAX);
        let latest = self.latest_unix.held(nanos, reading.status.bound_holds());
        unix.best = UnixNanos::from_nanos(latest);
        unix.earliest = unix.earliest.min(unix.best);
        unix.latest = unix.latest.max(unix.best);
        Ok((reading, unix))
    }

    /// This moment, to ask about later. Costs little more than reading the counter.
    ///
    /// # Errors
    /// As [`Clock::now`], and while the counter is out of step and no daemon has begun a new
    /// epoch.
    #[inline]
    pub fn moment(&self) -> Result<Moment, ReadError> {
        match self.quickly(moment) {
            Some(moment) => Ok(moment),
            None => self.moment_less_quickly(),
        }
    }

    /// The time of a moment, by what is known now: the bound grows with the distance, in either
    /// direction. For a moment to come nothing is promised beyond what the daemon foresees.
    ///
    /// # Errors
    /// As [`Clock::now`], and if the counter has lost its continuity since that moment.
    #[inline]
    pub fn time_of(&self, moment: Moment) -> Result<Reading, ReadError> {
        match self.quickly(time_of(moment)) {
            Some(reading) => Ok(reading),
            None => self.time_of_less_quickly(moment),
        }
    }

    /// Time since the machine was started, suspended or not, never before what an earlier call on this
    /// `Clock` gave: a clock for programs that need one which no correction of the time, leap second
    /// or change of the system clock moves.
    ///
    /// At the first call, and at the first in a new epoch, it is `CLOCK_BOOTTIME`; from there on it
    /// goes by the difference clock, and the bound is that of the length since.
    ///
    /// # Errors
    /// As [`Clock::moment`] and [`Clock::elapsed`].
    pub fn uptime(&self) -> Result<Elapsed, ReadError> {
        self.uptime.of(self)
    }

    /// Length of the time from one moment to another, by the difference clock: the one that knows
    /// nothing of corrections to the time, only how long a count lasts. Negative if `to` came
    /// first.
    ///
    /// # Errors
    /// As [`Clock::now`], and if the counter lost its continuity since either moment: then nobody
    /// knows how long it was. A [`Moment`] does not say of which boot it is: who keeps one for longer
    /// keeps the boot beside it, as `truechimer interval` does.
    #[inline]
    pub fn elapsed(&self, from: Moment, to: Moment) -> Result<Elapsed, ReadError> {
        match self.quickly(elapsed(from, to)) {
            Some(elapsed) => Ok(elapsed),
            None => self.elapsed_less_quickly(from, to),
        }
    }

    /// Standard deviation of the rate that [`Clock::elapsed`] goes by, measured: an interval that
    /// ends now is likely to be off by that share of its length, and a step of the counter, while
    /// [`Elapsed::bound`] is what it is off by at most. Within three of it are 98 % of the intervals
    /// or more in simulation; nothing promises that. `None` while nothing is promised at all.
    #[must_use]
    pub fn difference_deviation(&self) -> Option<Rate> {
        self.page.difference_deviation()
    }

    /// Status of the clock now.
    ///
    /// # Errors
    /// Those of [`Clock::now`].
    pub fn status(&self) -> Result<Status, ReadError> {
        self.now().map(|reading| reading.status)
    }

    /// Everything about the clock now, after a look at the host's own clocks. About a microsecond;
    /// several where the counter is a device.
    ///
    /// # Errors
    /// Those of [`Clock::now`].
    #[cold]
    pub fn view(&self) -> Result<View, ReadError> {
        for _ in 0..TRIES {
            let newest = match self.page.newest_in_full() {
                Ok(Some(newest)) if newest.hand.counter.boot == self.boot => newest,
                // What another boot left behind is no time.
                Ok(_) => return Err(ReadError::NotYet { tended: self.page.tended() }),
                Err(corrupt) => return Err(ReadError::Corrupt(corrupt)),
            };
            self.hypervisor.seek(newest.marker);
            let Some(device) = self.device(newest.hand.counter.kind) else {
                return self.view_by_counter(&newest);
            };
            if let Some(view) = self.view_by_device(device, &newest)? {
                return Ok(view);
            }
        }
        // No daemon is that busy.
        Err(ReadError::Corrupt(Corrupt { field: "generation" }))
    }

    fn view_by_counter(&self, newest: &Newest) -> Result<View, ReadError> {
        let Newest { generation, hand, made, marker } = *newest;
        let readable = self.readable(hand.counter.kind)?;
        let heartbeat = self.page.heartbeat();
        let verdict = judge(&hand, &made, heartbeat, &host_reading(readable.counter));
        let count = readable.counter.read();
        let verdict = self.heard(verdict, marker);
        if verdict.reason.is_none() && hand.status.bound_holds() {
            readable.vetted.store(generation, Relaxed);
        }
        let (error, read_by) = (CountSpan::ZERO, ReadBy::Counter);
        Ok(self.view_of(newest, (count, error, read_by), heartbeat, verdict))
    }

    /// `None` if another hand came out meanwhile.
    fn view_by_device(&self, device: &Device, newest: &Newest) -> Result<Option<View>, Unreadable> {
        let Newest { generation, hand, made, marker } = *newest;
        let Some(look) = device.look(&self.page, generation, &hand, &made)? else {
            return Ok(None);
        };
        let Look { count, error, read_by, heartbeat, host } = look;
        let verdict = match host {
            Some(host) => judge(&hand, &made, heartbeat, &host),
            None => Verdict { status: hand.status, reason: None },
        };
        let verdict = self.heard(verdict, marker);
        if verdict.reason.is_none() && hand.status.bound_holds() {
            device.vetted.store(generation, Relaxed);
        }
        Ok(Some(self.view_of(newest, (count, error, read_by), heartbeat, verdict)))
    }

    /// The verdict on a hand, once its count was read, unless the hypervisor knows better.
    fn heard(&self, verdict: Verdict, marker: Option<Marker>) -> Verdict {
        match self.hypervisor.agrees(marker) {
            true => verdict,
            false => Verdict { status: Status::Disrupted, reason: Some(MOVED) },
        }
    }

    fn view_of(
        &self,
        newest: &Newest,
        (count, error, read_by): (Count, CountSpan, ReadBy),
        heartbeat: Count,
        Verdict { status, reason }: Verdict,
    ) -> View {
        let Newest { generation, hand, made, marker } = *newest;
        let difference_deviation = self.page.difference_deviation();
        View {
            count,
            error,
            read_by,
            generation,
            hand,
            made,
            heartbeat,
            difference_deviation,
            hypervisor: marker.map(|_| self.hypervisor.watches(marker)),
            status,
            reason,
        }
    }

    /// The page itself.
    #[must_use]
    pub fn page(&self) -> &PageReader {
        &self.page
    }

    /// The way of nearly all calls: an unfenced read of the processor's own counter, in line.
    #[inline(always)]
    fn quickly<T>(&self, tell: impl Tell<T>) -> Option<T> {
        let counter = self.native.counter.native()?;
        self.straight(&self.native, || counter.read(), tell)
    }

    /// Tells for every counter, to be called where a function call does not matter.
    fn straightforwardly<T>(&self, tell: impl Tell<T>) -> Option<T> {
        let by = |readable: &Readable| self.straight(readable, || readable.counter.read(), &tell);
        by(&self.raw).or_else(|| by(&self.native))
    }

    /// Tells by the newest hand, if all is as usual: it was examined before, promises a bound, and
    /// a daemon tends it.
    ///
    /// Whether the counter is read before or after the hand does not matter: should a newer hand
    /// come out in between, this one still holds, and [`Glance::at`] works on either side of its
    /// base. What does matter is that words and count are of the same counter; that is why each
    /// counter has its own mark for the hand that was vetted.
    #[inline(always)]
    fn straight<T>(
        &self,
        readable: &Readable,
        read: impl FnOnce() -> Count,
        tell: impl Tell<T>,
    ) -> Option<T> {
        let ring = self.page.ring();
        let look = ring.look()?;
        if look.generation() != readable.vetted.load(Relaxed) {
            return None;
        }
        let (hand, heartbeat) = (Glance(look.words(), look.beside()), ring.heartbeat());
        let count = read();
        // Here, and not with the rest: nothing that is worked out has to be kept meanwhile.
        if !self.hypervisor.lets_stand(&hand) || !hand.stands_at(count, heartbeat) {
            return None;
        }
        let told = tell(&hand, count, readable);
        if ring.stands(&look) { told } else { None }
    }

    /// [`Clock::now`] for other counters, and when something is unusual.
    #[inline(never)]
    fn now_less_quickly(&self) -> Result<Reading, ReadError> {
        if let Some(reading) = self.straightforwardly(now) {
            return Ok(reading);
        }
        let view = self.view()?;
        Ok(view.reading(view.count, view.status))
    }

    /// [`Clock::moment`] for other counters, and when something is unusual.
    #[inline(never)]
    fn moment_less_quickly(&self) -> Result<Moment, ReadError> {
        if let Some(moment) = self.straightforwardly(moment) {
            return Ok(moment);
        }
        let view = self.view()?;
        if view.interrupted() {
            return Err(ReadError::Disrupted);
        }
        let id = view.hand.counter;
        let doubt = Doubt::of(view.error).ok_or(ReadError::Void)?;
        Ok(Moment { count: view.count, kind: id.kind, epoch: id.epoch, doubt })
    }

    /// [`Clock::time_of`] for other counters, and when something is unusual.
    #[inline(never)]
    fn time_of_less_quickly(&self, moment: Moment) -> Result<Reading, ReadError> {
        if let Some(reading) = self.straightforwardly(time_of(moment)) {
            return Ok(reading);
        }
        let view = self.view()?;
        same_stretch(&view.hand, moment)?;
        let status = view.status_at(moment.count);
        Ok(view.reading_within(moment.count, moment.doubt.counts(), status))
    }

    /// [`Clock::elapsed`] for other counters, and when something is unusual.
    #[inline(never)]
    fn elapsed_less_quickly(&self, from: Moment, to: Moment) -> Result<Elapsed, ReadError> {
        if let Some(elapsed) = self.straightforwardly(elapsed(from, to)) {
            return Ok(elapsed);
        }
        let view = self.view()?;
        for moment in [from, to] {
            same_stretch(&view.hand, moment)?;
            if !view.hand.void_after.at_or_after(moment.count) {
                let over = view.count.at_or_after(moment.count);
                return Err(if over { ReadError::Void } else { ReadError::NotOver });
            }
        }
        if view.status == Status::Disrupted {
            return Err(ReadError::Disrupted);
        }
        let kind = view.hand.counter.kind;
        let step = match self.device(kind) {
            Some(device) => device.resolution(view.hand.period),
            None => self.readable(kind)?.resolution(),
        };
        let counts = to.count - from.count;
        let (span, error) = view.hand.elapsed(counts);
        let doubt = view.lasts(from.doubt.counts() + to.doubt.counts());
        Ok(Elapsed::new((span, error + doubt), view.hand.elapsed(step).0))
    }

    /// Pair of a moment and what `CLOCK_BOOTTIME` read then, ns, to within so much.
    pub(crate) fn boot_time(&self) -> Result<(Moment, i64, Span), ReadError> {
        let (before, host, after) =
            (self.moment()?, host_reading(self.raw.counter), self.moment()?);
        let (width, error) = self.elapsed(before, after).map(|e| (e.span, e.bound))?;
        let count = before.count.midpoint(after.count);
        let boot_ns = host.monotonic_ns.wrapping_add(host.suspended_ns);
        Ok((Moment { count, ..before }, boot_ns, width.half() + error))
    }

    /// The device of this kind, if it is one.
    fn device(&self, kind: CounterKind) -> Option<&Device> {
        let (_, place) = DEVICES.iter().zip(&self.devices).find(|(known, _)| **known == kind)?;
        if let Some(device) = place.get() {
            return Some(device);
        }
        // Another thread may open it, too; one of the two is dropped.
        let device = Device::of_kind(kind, self.raw.counter)?;
        Some(place.get_or_init(|| device))
    }

    /// The counter of this kind, if it is no device.
    fn readable(&self, kind: CounterKind) -> Result<&Readable, CounterError> {
        match kind {
            _ if kind == self.raw.kind => Ok(&self.raw),
            _ if kind == self.native.kind => Ok(&self.native),
            // Asked again for the reason.
            _ => Counter::of_kind(kind).and(Err(CounterError::NotHere(kind))),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("page", &self.page).finish_non_exhaustive()
    }
}

impl Readable {
    fn new(counter: Counter) -> Readable {
        let (vetted, resolution) = (AtomicU64::new(0), OnceLock::new());
        Readable { counter, kind: counter.kind(), vetted, resolution }
    }

    /// The smallest step of the counter. Measured at the first call, in under 0.2 ms.
    fn resolution(&self) -> CountSpan {
        *self.resolution.get_or_init(|| resolution(self.counter))
    }
}

/// Tells something by a hand in good standing, at this count, of this counter.
trait Tell<T>: Fn(&Glance<'_, Word>, Count, &Readable) -> Option<T> {}

impl<T, F: Fn(&Glance<'_, Word>, Count, &Readable) -> Option<T>> Tell<T> for F {}

#[inline(always)]
fn now(hand: &Glance<'_, Word>, count: Count, _: &Readable) -> Option<Reading> {
    let (best, [before, after]) = hand.between(count);
    Some(Reading {
        count,
        earliest: Instant(best.0.wrapping_sub(before.0)),
        best,
        latest: Instant(best.0.wrapping_add(after.0)),
        status: hand.status(),
        leaps: hand.leaps(),
    })
}

#[inline(always)]
fn moment(hand: &Glance<'_, Word>, count: Count, readable: &Readable) -> Option<Moment> {
    Some(Moment { count, kind: readable.kind, epoch: hand.epoch(), doubt: Doubt::NONE })
}

#[inline(always)]
fn time_of(moment: Moment) -> impl Tell<Reading> {
    move |hand: &Glance<'_, Word>, count: Count, readable: &Readable| {
        if past(moment, hand, count, readable) { now(hand, moment.count, readable) } else { None }
    }
}

#[inline(always)]
fn elapsed(from: Moment, to: Moment) -> impl Tell<Elapsed> {
    move |hand: &Glance<'_, Word>, count: Count, readable: &Readable| {
        let step = *readable.resolution.get()?;
        let past = |moment| past(moment, hand, count, readable);
        let told = || Elapsed::new(hand.elapsed(to.count - from.count), hand.elapsed(step).0);
        (past(from) && past(to)).then(told)
    }
}

/// True if the moment is one of the hand's counter and epoch, and over.
#[inline(always)]
fn past(moment: Moment, hand: &Glance<'_, Word>, count: Count, readable: &Readable) -> bool {
    let comparable = moment.kind == readable.kind && moment.epoch == hand.epoch();
    comparable && count.at_or_after(moment.count)
}

/// Checks that a moment's count can be compared with those of the hand.
fn same_stretch(hand: &Hand, moment: Moment) -> Result<(), ReadError> {
    let clock = hand.counter;
    if moment.kind != clock.kind {
        Err(ReadError::OtherCounter { moment: moment.kind, clock: clock.kind })
    } else if moment.epoch != clock.epoch {
        Err(ReadError::OtherEpoch { moment: moment.epoch, clock: clock.epoch })
    } else {
        Ok(())
    }
}
