//! The conversion itself, without looking at anything: pairs and what the clock page said come in
//! from outside.

use truechimer_counter::HostPair;
use truechimer_time::{Count, CountSpan, CounterId, Epoch, Period, Span};
use truechimer_timehands::{Hand, Made, Status};

use super::tell::tell;
use super::track::{HARDEST, Nature, Track};
use super::{DevicePair, Identity, Used};
use crate::{Counted, KernelClock, Quality, RawStamp, Stamped};

/// So much more than its hardest slew the kernel's clock and the counter may be apart between two
/// pairs before the counter has jumped.
const JUMP: Span = Span::from_micros(50);
/// After a jump that shows between pairs the daemon has looked, too, once this has passed: it does
/// so every second. Until then no hand of the same epoch is believed.
const LOOKED_NS: i64 = 2_000_000_000;
/// A packet is stamped before it is put among the others that were fetched before it, by no more
/// than this: a processor of a virtual machine may be held up for a fifth of a second in between.
const OUT_OF_ORDER: Span = Span::from_millis(500);
/// A step of `CLOCK_REALTIME` that may be a suspend; shorter ones there are not.
const SUSPEND: Span = Span::from_millis(10);

/// The clock page at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The count of that moment.
    pub count: Count,
    pub generation: u64,
    pub hand: Hand,
    pub made: Made,
    /// Status of the clock then.
    pub status: Status,
}

/// Promise that packets are converted by.
#[derive(Clone, Copy, Debug)]
struct Promise {
    hand: Hand,
    generation: u64,
}

/// The counter lost its continuity, and nobody has begun another epoch yet.
#[derive(Clone, Copy, Debug)]
struct Broken {
    epoch: Epoch,
    /// `CLOCK_MONOTONIC` when it was seen.
    monotonic_ns: i64,
}

/// Stamps to counts, counts to time.
#[derive(Debug)]
pub(crate) struct Core {
    identity: Identity,
    /// The error of a count that was read.
    read: CountSpan,
    /// The part of it that is not the stamps' own.
    reading: CountSpan,
    realtime: Track,
    monotonic: Track,
    device: Track,
    newest: Option<HostPair>,
    /// The newest stamp of `CLOCK_REALTIME` since then.
    latest: Option<i64>,
    /// True if the pairs show what may be a suspend.
    stepped: bool,
    /// Length of a count by the system clock, as the newest pairs have it.
    system: Period,
    /// Promise that holds, if any.
    promise: Option<Promise>,
    /// The epoch of counts.
    epoch: Epoch,
    /// Counts before this one are of nobody knows which epoch.
    since: Option<Count>,
    broken: Option<Broken>,
    /// Number of times that the pairs showed that the counter had lost its continuity.
    pub(crate) breaks: u64,
    /// The page, if it is there and of our counter.
    seen: Option<Seen>,
    /// The epoch of the last hand of our counter.
    last: Option<Epoch>,
}

impl Core {
    /// `read`: how far from the right moment a count may be that was read for it, besides the
    /// counter's resolution.
    pub(crate) fn new(identity: Identity, read: CountSpan) -> Core {
        let own = identity.resolution.abs();
        let track = |nature| Track::new(nature, identity.period, own);
        Core {
            identity,
            read: own + read.abs(),
            reading: own + read.abs(),
            realtime: track(Nature::Stepped),
            monotonic: track(Nature::Steady),
            device: track(Nature::Unwatched),
            newest: None,
            latest: None,
            stepped: false,
            system: identity.period,
            promise: None,
            epoch: Counted::NO_EPOCH,
            since: None,
            broken: None,
            breaks: 0,
            seen: None,
            last: None,
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// True if the counter broke and no hand of after it is there yet.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Number of stamps that took the long way.
    pub(crate) fn slow(&self) -> u64 {
        self.realtime.slow + self.monotonic.slow + self.device.slow
    }

    pub(crate) fn pair(&mut self, pair: HostPair) {
        let ordered = pair.after.at_or_after(pair.before) && pair.end.at_or_after(pair.after);
        if !ordered {
            self.broke(pair.end.latest(pair.before), pair.monotonic_ns);
            return;
        }
        if let Some(last) = self.newest {
            let ahead = |pair: &HostPair| i128::from(pair.unix_ns) - i128::from(pair.monotonic_ns);
            self.stepped |= Span::from_nanos_wide(ahead(&pair) - ahead(&last)).abs() > SUSPEND;
            if self.jumped(&last, &pair) {
                self.broke(pair.before, pair.monotonic_ns);
            } else {
                self.learn(&last, &pair);
            }
        }
        if let Some(ns) = self.latest.take()
            && let Some((count, error)) = self.realtime.count(ns)
        {
            let before = self.identity.period.counts(OUT_OF_ORDER);
            self.realtime.not_before(count - error - before);
        }
        self.newest = Some(pair);
        self.realtime.push(pair);
        self.monotonic.push(HostPair {
            before: pair.after,
            unix_ns: pair.monotonic_ns,
            after: pair.end,
            ..pair
        });
    }

    pub(crate) fn device_pair(&mut self, pair: DevicePair) {
        self.device.push(HostPair {
            before: pair.before,
            unix_ns: pair.device_ns,
            after: pair.after,
            monotonic_ns: 0,
            end: pair.after,
        });
    }

    pub(crate) fn not_before(&mut self, count: Count) {
        // Of a counter that went back since, this is about another time.
        if self.newest.is_none_or(|newest| !newest.end.at_or_after(count)) {
            return;
        }
        for track in [&mut self.realtime, &mut self.monotonic, &mut self.device] {
            track.not_before(count);
        }
    }

    /// True if the pairs showed what may be a suspend since this was asked last.
    pub(crate) fn take_stepped(&mut self) -> bool {
        std::mem::take(&mut self.stepped)
    }

    /// Counts are off by so much besides.
    pub(crate) fn stamp_error(&mut self, error: CountSpan) {
        self.read = CountSpan(self.reading.0.saturating_add(error.0.max(0)));
    }

    /// True if the counter cannot have run on between these two.
    fn jumped(&self, last: &HostPair, pair: &HostPair) -> bool {
        if !pair.before.at_or_after(last.end) {
            return true;
        }
        let period = self.identity.period;
        let counted = period.span(pair.after.midpoint(pair.end) - last.after.midpoint(last.end));
        let passed = i128::from(pair.monotonic_ns) - i128::from(last.monotonic_ns);
        let widths = period.span(pair.end - pair.before) + period.span(last.end - last.before);
        let apart = (Span::from_nanos_wide(passed) - counted).abs();
        apart > HARDEST.over(counted.abs()) + widths.abs() + JUMP
    }

    /// The counter lost its continuity: nothing from before `count` compares with anything after.
    pub(crate) fn broke(&mut self, count: Count, monotonic_ns: i64) {
        for track in [&mut self.realtime, &mut self.monotonic, &mut self.device] {
            track.clear();
        }
        (self.newest, self.latest) = (None, None);
        self.system = self.identity.period;
        self.since = Some(count);
        self.breaks += 1;
        if let Some(epoch) = self.last {
            self.broken = Some(Broken { epoch, monotonic_ns });
        }
        self.promise = None;
        self.epoch = Counted::NO_EPOCH;
    }

    /// Learns how long a count lasts by the system clock, unless it was stepped just then.
    fn learn(&mut self, last: &HostPair, pair: &HostPair) {
        let nominal = self.identity.period;
        let shown = i128::from(pair.unix_ns) - i128::from(last.unix_ns);
        let counts = pair.mid() - last.mid();
        let shown = Span::from_nanos_wide(shown);
        let ordinary = (shown - nominal.span(counts)).abs() <= HARDEST.over(shown.abs());
        // A short stretch says less than the nominal rate.
        if shown >= Span::from_micros(500) && ordinary {
            self.system = Period::from_ratio(shown, counts).unwrap_or(nominal);
        } else {
            self.system = nominal;
        }
    }

    /// Notes the word of the clock page now; `None` if there is none of our counter.
    pub(crate) fn see(&mut self, seen: Option<Seen>) {
        self.seen = seen;
        let Some(now) = seen else {
            (self.promise, self.epoch) = (None, Counted::NO_EPOCH);
            return;
        };
        let CounterId { epoch, .. } = now.hand.counter;
        if let Some(before) = self.last.replace(epoch)
            && before != epoch
        {
            // The daemon saw what the pairs may not have shown.
            if self.broken.is_none() {
                self.broke(now.count, now.made.monotonic_ns);
            }
            self.broken = None;
        }
        let looked = |broken: Broken| {
            broken.epoch != epoch
                || now.made.monotonic_ns.saturating_sub(broken.monotonic_ns) >= LOOKED_NS
        };
        if self.broken.is_some_and(looked) {
            self.broken = None;
        }
        // The epoch that a hand names is over if its reader finds the counter broken.
        let interrupted = now.status == Status::Disrupted && now.hand.status != Status::Disrupted;
        let known = self.broken.is_none() && !interrupted;
        self.epoch = if known { epoch } else { Counted::NO_EPOCH };
        // A hand that is void by now still holds for the time that it was made for.
        let holds = known && now.status != Status::Disrupted && now.hand.status.bound_holds();
        self.promise = holds.then_some(Promise { hand: now.hand, generation: now.generation });
    }

    #[inline]
    pub(crate) fn convert(&mut self, stamp: RawStamp) -> Stamped {
        let found = match stamp {
            RawStamp::Clock(KernelClock::Realtime, ns) => {
                self.latest = Some(ns);
                self.realtime.count(ns)
            }
            RawStamp::Clock(KernelClock::Monotonic, ns) => self.monotonic.count(ns),
            RawStamp::Clock(KernelClock::Device, ns) => self.device.count(ns),
            RawStamp::Count(count) => Some((count, self.read)),
            RawStamp::Missing => None,
        };
        if let Some((count, error)) = found
            && let Some(promise) = &self.promise
            && promise.hand.void_after.at_or_after(count)
            && self.is_of_now(stamp, count)
        {
            let counted = Counted { count, error, epoch: self.epoch };
            let (instant, bound, unix_ns) = tell(&promise.hand, count, error);
            return Stamped {
                counted: Some(counted),
                unix_ns,
                instant: Some(instant),
                bound: Some(bound),
                quality: Quality::Bounded,
                generation: promise.generation,
            };
        }
        self.without(stamp, found)
    }

    /// True if the count is from after the last break. A counter that went back shows what it
    /// showed before the break again: but a count that was read then is later than any pair of
    /// since.
    #[inline]
    fn is_of_now(&self, stamp: RawStamp, count: Count) -> bool {
        self.since.is_none_or(|since| {
            let newest = || self.newest.as_ref().map(|pair| pair.end + self.read);
            let read = matches!(stamp, RawStamp::Count(_));
            count.at_or_after(since)
                && (!read || newest().is_some_and(|newest| newest.at_or_after(count)))
        })
    }

    /// By the system clock.
    #[inline(never)]
    fn without(&self, stamp: RawStamp, found: Option<(Count, CountSpan)>) -> Stamped {
        let counted = found.map(|(count, error)| {
            let known = self.is_of_now(stamp, count);
            Counted { count, error, epoch: if known { self.epoch } else { Counted::NO_EPOCH } }
        });
        Stamped {
            counted,
            unix_ns: self.system_time(stamp, counted.map(|counted| counted.count)),
            instant: None,
            bound: None,
            quality: match counted {
                Some(_) => Quality::Unsynchronised,
                None => Quality::Uncounted,
            },
            generation: 0,
        }
    }

    /// Time of the system clock, as it said, or would have said: its own stamp, else by the newest
    /// pair. 0 while there is none.
    fn system_time(&self, stamp: RawStamp, count: Option<Count>) -> i64 {
        let Some(pair) = &self.newest else {
            return if let RawStamp::Clock(KernelClock::Realtime, ns) = stamp { ns } else { 0 };
        };
        match (stamp, count) {
            (RawStamp::Clock(KernelClock::Realtime, ns), _) => ns,
            (_, Some(count)) => {
                let span = self.system.span(count - pair.mid());
                pair.unix_ns.saturating_add(span.as_nanos_i64())
            }
            (RawStamp::Clock(KernelClock::Monotonic, ns), None) => {
                pair.unix_ns.saturating_add(ns.saturating_sub(pair.monotonic_ns))
            }
            _ => pair.unix_ns,
        }
    }

    /// The hand that packets are converted by, if there is one.
    pub(crate) fn used(&self) -> Option<Used> {
        let Seen { generation, hand, made, .. } = self.seen?;
        Some(Used { generation, hand, made })
    }
}
