//! The host's own clocks: what shows a suspend, a jump of the counter or another clocksource.

use truechimer_counter::{
    Counter, CounterError, HostReading, KeptAt, available_clocksources, boot_id, clocksource,
    host_reading,
};
use truechimer_engine::{Event, HostCheck};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Period, Rate, Span,
};
use truechimer_timehands::{Allowed, Hand, Kept, Made, Marker, Passed};

use crate::cpus::{Cpus, Finding};
use crate::device::Device;
use crate::hypervisor::Hypervisor;

/// A check is due this long after the last one: with what else a wake-up does, comfortably within
/// the second that readers are promised.
const INTERVAL: Span = Span::from_millis(900);

/// Span by which the counter and `CLOCK_MONOTONIC_RAW` may have come apart while no daemon ran,
/// beyond a rate: reading them, and the kernel's losses at a change of clocksource.
const CONTINUITY: Span = Span::from_micros(100);
/// The rate: both run from one oscillator as a rule, but their periods are known to the bound of
/// the hand only, and one of them may come from the kernel's calibration.
const CONTINUITY_RATE: Rate = Rate::from_ppb(50_000);
/// Span by which the time in suspend may differ between readings.
const SUSPENDED: Span = Span::from_millis(1);
/// More than that between two readings of one daemon is a suspend, as the engine has it.
const SUSPEND: Span = Span::from_millis(10);
/// The kernel's name for the TSC. It is no longer among the available clocksources once the kernel
/// has found it unstable.
const TSC: &str = "tsc";
/// Reason that readers hear when a counter rolled over unseen.
const LAPSED: &str = "the counter rolled over while nobody read it: the daemon was stopped";
/// A counter that has not moved for so long by the raw clock stands still, unless it is one that
/// moves in steps: any that is of use does so in fewer counts than this.
const SLOWEST: Span = Span::from_micros(20);
const SLOWEST_STEP: CountSpan = CountSpan(64);
/// One that has not for so long will not again: in S3 a device may lose its power, and nobody may
/// have started it.
const DEAD: Span = Span::from_secs(3);
/// Number of times that the clocks are read again because the counter rolled over unseen meanwhile.
const TRIES: u32 = 3;

/// Watches the host's clocks.
#[derive(Debug)]
pub(crate) struct Host {
    counter: Counter,
    interval: CountSpan,
    /// Reading of the last check.
    last: Option<HostReading>,
    /// True if a hand was not published because the machine was suspended since that.
    withheld: bool,
    /// Clocksource that the kernel keeps time by, if it says.
    clocksource: Option<String>,
    /// True if the counter is the TSC and the kernel vouched for it at the start.
    vouched: bool,
    /// Where the counter last moved to, and what the raw clock read then, ns.
    moved: Option<(Count, i64)>,
    /// True if it has stood still since, and the engine has heard of it.
    still: bool,
    /// Number of times that the counter had rolled over unseen when that was last told.
    lapses: u32,
    /// Facts for readers if the counter is a device.
    device: Option<Device>,
    nominal: Period,
    /// The processors, if each has a counter of its own.
    cpus: Option<Cpus>,
    /// The hypervisor's word, if it has one.
    hypervisor: Option<Hypervisor>,
}

/// Motion of a counter.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Motion {
    Moves,
    /// Stands still, and nobody knows yet.
    Stopped(String),
    /// Does as before.
    Still,
    /// Stands still for too long.
    Lost(String),
}

/// Findings of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The count of the check.
    pub(crate) count: Count,
    /// Where a counter that rolls over was: what others continue from.
    pub(crate) kept: Option<Kept>,
    /// Events that the engine should hear, in this order.
    pub(crate) events: Vec<Event>,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// The counter is no good any more, and why: the engine hears of it, and that is the end.
    pub(crate) lost: Option<String>,
}

impl Host {
    /// `nominal` need only be good enough to wait by; `lapses` are the counter's when the first of
    /// the counts was read that the engine has heard of.
    pub(crate) fn new(counter: Counter, nominal: Period, lapses: u32) -> Host {
        let vouched = counter.kind() == CounterKind::Tsc && !given_up(available_clocksources());
        Host {
            counter,
            interval: nominal.counts(INTERVAL),
            last: None,
            withheld: false,
            clocksource: clocksource(),
            vouched,
            moved: None,
            still: false,
            lapses,
            device: Device::of(counter, nominal),
            nominal,
            cpus: Cpus::of(counter),
            hypervisor: None,
        }
    }

    /// Hears the hypervisor, which said nothing new since the first of the counts was read.
    pub(crate) fn hear(&mut self, hypervisor: Option<Hypervisor>) {
        self.hypervisor = hypervisor;
    }

    /// Disruption marker of the epoch, if a hypervisor says one.
    pub(crate) fn marker(&self) -> Option<Marker> {
        self.hypervisor.as_ref().map(Hypervisor::marker)
    }

    /// When the next check is due. A counter that went back makes it due at once, and so does a
    /// hand that was withheld.
    pub(crate) fn due(&self, now: Count) -> Count {
        match self.last {
            Some(last) if now.at_or_after(last.count) && !self.withheld => {
                last.count + self.interval
            }
            _ => now,
        }
    }

    /// Reads the clocks.
    pub(crate) fn check(&mut self) -> Checked {
        let current = clocksource();
        let (mut events, warning, mut lost) = self.look(current.clone(), available_clocksources);
        let mut lapse = self.lapsed();
        let (mut reading, mut kept) = self.read();
        for _ in 0..TRIES {
            // Readings from before and after a lapse have nothing to do with each other.
            let Some(again) = self.lapsed() else { break };
            lapse = Some(again);
            (reading, kept) = self.read();
        }
        if let Some(device) = &mut self.device {
            device.look(current.as_deref());
        }
        events.extend(lapse);
        let mut warnings = Vec::from_iter(warning);
        let findings = self.cpus.as_mut().map(|cpus| cpus.look(self.counter, self.nominal));
        for finding in findings.into_iter().flatten() {
            match finding {
                // Which the engine tells the user.
                Finding::Off(reason) => events.push(Event::Disruption { reason }),
                Finding::Unknown(text) => warnings.push(text),
            }
        }
        let HostReading { count, raw_ns, suspended_ns, width, .. } = reading;
        match self.motion(count, raw_ns) {
            Motion::Moves => {
                events.push(Event::Check(HostCheck { count, raw_ns, suspended_ns, width }));
            }
            Motion::Stopped(reason) => events.push(Event::Disruption { reason }),
            // Told already. To be told again would have the engine ask its servers again, at once.
            Motion::Still => {}
            Motion::Lost(reason) => {
                events.push(Event::Disruption { reason: reason.clone() });
                lost = lost.or(Some(reason));
            }
        }
        self.last = Some(reading);
        Checked { count, kept, events, warnings, lost }
    }

    fn read(&self) -> (HostReading, Option<Kept>) {
        let reading = host_reading(self.counter);
        let kept = self.counter.keep().map(|KeptAt { wide, at_ns }| Kept { wide, at_ns });
        (reading, kept)
    }

    /// Event for the engine if, since this was last asked, the counter has rolled over unseen or the
    /// hypervisor said that the machine was moved: counts from before have nothing to do with those
    /// from now on.
    pub(crate) fn lapsed(&mut self) -> Option<Event> {
        if !self.has_lapsed() {
            return None;
        }
        let moved = self.hypervisor.as_mut().and_then(Hypervisor::moved);
        if moved.is_some() {
            // Of a device the time since it was kept is nobody's to tell.
            self.lapses = self.counter.lapses();
            if let Some(device) = &mut self.device {
                device.forget();
            }
            return moved;
        }
        self.lapses = self.counter.lapses();
        if let Some(device) = &mut self.device {
            device.forget();
        }
        Some(Event::Disruption { reason: LAPSED.into() })
    }

    /// True if that is so: the counter rolled over unseen, or the hypervisor says that it moved.
    pub(crate) fn has_lapsed(&self) -> bool {
        let moved = self.hypervisor.as_ref().is_some_and(Hypervisor::has_moved);
        moved || self.counter.lapses() != self.lapses
    }

    /// True if the counter does not move any more: stamps are of no use then, and nothing that is
    /// to be done at some count will ever be due.
    pub(crate) fn is_still(&self) -> bool {
        self.still
    }

    /// Judges a counter that is at `count` when the raw clock reads `raw_ns`.
    fn motion(&mut self, count: Count, raw_ns: i64) -> Motion {
        let since = match self.moved {
            Some((there, since)) if there == count => since,
            _ => {
                self.moved = Some((count, raw_ns));
                self.still = false;
                return Motion::Moves;
            }
        };
        let still = Span::from_nanos_wide(i128::from(raw_ns) - i128::from(since));
        if still < SLOWEST + self.nominal.span(SLOWEST_STEP) {
            return Motion::Moves;
        }
        let kind = self.counter.kind();
        if still >= DEAD {
            return Motion::Lost(format!(
                "the counter {kind} stands still, for {still} by now (a suspend may have switched \
                 it off)"
            ));
        }
        match std::mem::replace(&mut self.still, true) {
            false => Motion::Stopped(format!("the counter {kind} stands still")),
            true => Motion::Still,
        }
    }

    /// True if readers should hear at once how to read the counter, or of a hand that was withheld,
    /// although the clock itself has nothing new to tell.
    pub(crate) fn has_news(&self) -> bool {
        self.withheld || self.device.as_ref().is_some_and(Device::has_news)
    }

    /// Makes the counter look as if it had rolled over unseen just now.
    #[cfg(test)]
    pub(crate) fn lapse(&mut self) {
        self.lapses = self.lapses.wrapping_sub(1);
    }

    /// Word of the kernel's clocksources: events, a warning, the loss of the counter.
    fn look(
        &mut self,
        current: Option<String>,
        available: impl Fn() -> Option<Vec<String>>,
    ) -> (Vec<Event>, Option<String>, Option<String>) {
        // Asked each time while another is in use: the TSC may be given up even then.
        let away = current.as_deref().is_some_and(|name| name != TSC);
        let change = self.changed(current);
        if self.vouched && away && given_up(available()) {
            let reason = "the kernel has found the TSC unstable".to_owned();
            let reason = change.map_or(reason.clone(), |change| format!("{change}: {reason}"));
            return (vec![Event::Disruption { reason: reason.clone() }], None, Some(reason));
        }
        match change {
            // The raw clock has another slope from now on.
            Some(reason) if self.counter.kind() == CounterKind::Raw => {
                (vec![Event::Disruption { reason }], None, None)
            }
            Some(change) => {
                let kind = self.counter.kind();
                (Vec::new(), Some(format!("{change}; the clock goes on by the {kind}")), None)
            }
            None => (Vec::new(), None, None),
        }
    }

    /// Words for how the clocksource changed, if it is known to have.
    fn changed(&mut self, current: Option<String>) -> Option<String> {
        let current = current?;
        let before = self.clocksource.replace(current.clone())?;
        (before != current)
            .then(|| format!("the kernel's clocksource changed from {before} to {current}"))
    }

    /// Host's clocks for a hand that is being published; none if the machine was suspended since the
    /// last check. Beside clocks of after that, readers would take a hand of before it for a sound
    /// one. The next check is due at once, and tells the engine.
    pub(crate) fn made(&mut self) -> Option<Made> {
        let made = made(self.awake()?);
        Some(match &mut self.device {
            Some(device) => device.made(made),
            None => made,
        })
    }

    /// True if nothing is to be published before the next check, for that reason.
    pub(crate) fn is_withheld(&mut self) -> bool {
        self.awake().is_none()
    }

    fn awake(&mut self) -> Option<HostReading> {
        let reading = host_reading(self.counter);
        self.withheld = self.last.is_some_and(|last| {
            Span::from_nanos(reading.suspended_ns.wrapping_sub(last.suspended_ns)) > SUSPEND
        });
        (!self.withheld).then_some(reading)
    }
}

/// True if the kernel is known to think nothing of the TSC.
fn given_up(available: Option<Vec<String>>) -> bool {
    available.is_some_and(|names| !names.iter().any(|name| name == TSC))
}

fn made(reading: HostReading) -> Made {
    let HostReading { count, raw_ns, suspended_ns, monotonic_ns, .. } = reading;
    Made { count, monotonic_ns, raw_ns, suspended_ns, device: None }
}

/// The identity of the counter, and the hand to go on from: `left` is what the daemon before left
/// in the page, and `kept` where the counter was then, if it rolls over. If the counter ran on
/// without a break since, its epoch continues; else, or if that is to be forgotten (`fresh`), the
/// next one begins.
pub(crate) fn identity(
    counter: Counter,
    left: Option<(Hand, Made)>,
    kept: Option<Kept>,
    fresh: bool,
) -> Result<(CounterId, Option<Hand>), CounterError> {
    let boot = boot_id()?;
    // A counter that rolls over, kept by nobody for too long, begins anew: then it will not fit.
    if let Some(Kept { wide, at_ns }) = kept
        && left.is_some_and(|(hand, _)| {
            (hand.counter.kind, hand.counter.boot) == (counter.kind(), boot)
        })
    {
        let _ = counter.resume(&KeptAt { wide, at_ns });
    }
    Ok(continued(counter.kind(), boot, left, made(host_reading(counter)), fresh))
}

/// True if the hypervisor has another disruption marker than the one under which the daemon before
/// left its last hand.
pub(crate) fn has_moved(left: Option<Marker>, now: Option<Marker>) -> bool {
    let same = |(left, now): &(Marker, Marker)| left.device == now.device;
    left.zip(now).filter(same).is_some_and(|(left, now)| left.value != now.value)
}

fn continued(
    kind: CounterKind,
    boot: BootId,
    left: Option<(Hand, Made)>,
    now: Made,
    fresh: bool,
) -> (CounterId, Option<Hand>) {
    match left {
        Some((hand, then)) if hand.counter.boot == boot => {
            if !fresh && hand.counter.kind == kind && unbroken(&hand, then, now) {
                (hand.counter, Some(hand))
            } else {
                let epoch = Epoch(hand.counter.epoch.0.wrapping_add(1));
                (CounterId { kind, boot, epoch }, None)
            }
        }
        _ => (CounterId { kind, boot, epoch: Epoch::default() }, None),
    }
}

/// True if the counter and the kernel's clocks agree on how much time passed since `hand` was made,
/// and none of it was spent suspended. What cannot be seen: another clocksource under the raw
/// clock, if that is the counter.
fn unbroken(hand: &Hand, then: Made, now: Made) -> bool {
    let passed = Passed::new(
        hand.period,
        now.count - then.count,
        [then.raw_ns, now.raw_ns],
        [then.suspended_ns, now.suspended_ns],
    );
    let allowed = Allowed {
        suspended: SUSPENDED,
        back: Span::ZERO,
        apart: CONTINUITY,
        rate: CONTINUITY_RATE,
    };
    passed.broken(&allowed).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Instant;

    const BOOT: BootId = BootId([7; 16]);
    const ID: CounterId = CounterId { kind: CounterKind::Tsc, boot: BOOT, epoch: Epoch(3) };
    const THEN: Made =
        Made { count: Count(5_000), monotonic_ns: 90, raw_ns: 100, suspended_ns: 5, device: None };

    fn hand() -> Hand {
        Hand {
            difference_error: Rate::from_ppb(10),
            path_bound: Span::from_micros(20),
            statistical_bound: Span::from_micros(20),
            growth: Rate::from_ppb(500),
            ..Hand::exact(
                ID,
                Count(4_000),
                Instant::new(1_800_000_000, 0),
                Period::from_hz(2_000_000_000),
                Count(1 << 60),
            )
        }
    }

    /// Ten seconds later, and then some.
    fn later(counts: i64, raw_ns: i64, suspended_ns: i64) -> Made {
        Made {
            count: THEN.count + CountSpan(20_000_000_000 + counts),
            monotonic_ns: 0,
            raw_ns: THEN.raw_ns + 10_000_000_000 + raw_ns,
            suspended_ns: THEN.suspended_ns + suspended_ns,
            device: None,
        }
    }

    fn go_on(kind: CounterKind, boot: BootId, now: Made) -> (CounterId, bool) {
        let (id, warm) = continued(kind, boot, Some((hand(), THEN)), now, false);
        (id, warm.is_some())
    }

    #[test]
    fn the_epoch_goes_on_only_if_the_counter_did() {
        let next = CounterId { epoch: Epoch(4), ..ID };
        let tsc = CounterKind::Tsc;
        assert_eq!(go_on(tsc, BOOT, later(0, 0, 0)), (ID, true));
        assert_eq!(go_on(tsc, BOOT, later(0, 90_000, 1_000)), (ID, true), "a rate of 9 ppm");
        assert_eq!(go_on(tsc, BOOT, later(4_000_000, 0, 0)), (next, false), "a jump of 2 ms");
        assert_eq!(go_on(tsc, BOOT, later(0, 0, 2_000_000)), (next, false), "a suspend");
        let back = Made { count: Count(1), ..later(0, 0, 0) };
        assert_eq!(go_on(tsc, BOOT, back), (next, false), "a counter that went back");
        let raw = CounterId { kind: CounterKind::Raw, ..next };
        assert_eq!(go_on(CounterKind::Raw, BOOT, later(0, 0, 0)), (raw, false));
        let other = BootId([8; 16]);
        let fresh = CounterId { boot: other, epoch: Epoch(0), ..ID };
        assert_eq!(go_on(tsc, other, later(0, 0, 0)), (fresh, false));
    }

    #[test]
    fn extremes_do_not_panic() {
        for n in [i64::MIN, i64::MAX, 0] {
            let made = |n: i64| Made {
                count: Count(n as u64),
                monotonic_ns: n,
                raw_ns: n,
                suspended_ns: n,
                device: None,
            };
            let _ = unbroken(&hand(), made(n), made(!n));
        }
    }

    #[test]
    fn a_check_is_due_again_and_at_once_if_the_counter_went_back() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let mut host = Host::new(counter, Period::NANOSECOND, 0);
        assert_eq!(host.due(Count(5)), Count(5), "none was made yet");
        let Checked { count, kept, events, warnings, lost } = host.check();
        assert_eq!((kept, warnings.len(), lost), (None, 0, None));
        assert!(matches!(events.as_slice(), [Event::Check(check)] if check.count == count));
        assert_eq!(host.due(count), count + Period::NANOSECOND.counts(INTERVAL));
        let before = count - CountSpan(1);
        assert_eq!(host.due(before), before);
    }

    #[test]
    fn a_hand_of_before_a_suspend_waits_for_the_check_after_it() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let mut host = Host::new(counter, Period::NANOSECOND, 0);
        assert!(host.made().is_some(), "no check was made yet");
        let now = host.check().count;
        assert!(host.made().is_some() && !host.has_news());
        let last = host.last.as_mut().unwrap();
        last.suspended_ns -= 6_000_000_000;
        assert!(host.made().is_none());
        assert_eq!(host.due(now), now, "the check is due at once");
        assert!(host.has_news() && host.made().is_none(), "until that was made");
        let now = host.check().count;
        assert!(host.made().is_some() && !host.has_news());
        assert!(host.due(now) != now);
    }

    #[test]
    fn a_counter_that_rolled_over_unseen_is_told_of_once_and_first() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let mut host = Host::new(counter, Period::NANOSECOND, counter.lapses());
        assert!(!host.has_lapsed() && host.lapsed().is_none());
        host.lapse();
        assert!(host.has_lapsed());
        let events = host.check().events;
        let [Event::Disruption { reason }, Event::Check(_)] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert!(reason.contains("rolled over"), "{reason}");
        assert!(!host.has_lapsed() && host.lapsed().is_none());
        assert!(matches!(host.check().events.as_slice(), [Event::Check(_)]));
    }

    #[test]
    fn a_counter_that_does_not_move_is_lost() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let mut host = Host::new(counter, Period::NANOSECOND, 0);
        let ms = 1_000_000;
        for (count, at_ns, motion) in [
            (7, 0, "moves"),
            (7, 20_000, "moves"),
            (7, 21_000, "stopped"),
            (7, 22_000, "still"),
            (7, 2_000 * ms, "still"),
            // It may go back, or only just move: that is for others to judge.
            (6, 4_000 * ms, "moves"),
            (6, 4_001 * ms, "stopped"),
            (7, 8_000 * ms, "moves"),
            // Both clocks may stand still, in a simulator or where one is made of the other.
            (7, 8_000 * ms, "moves"),
            (7, 11_000 * ms, "lost"),
            (8, 15_000 * ms, "moves"),
            (8, i64::MIN, "moves"),
            (8, i64::MAX, "lost"),
        ] {
            let is = host.motion(Count(count), at_ns);
            let right = match &is {
                Motion::Moves => motion == "moves",
                Motion::Stopped(text) => {
                    motion == "stopped" && text == "the counter raw stands still"
                }
                Motion::Still => motion == "still",
                Motion::Lost(text) => motion == "lost" && text.contains("raw stands still, for "),
            };
            assert!(right, "{count} at {at_ns} ns: {is:?}, not {motion}");
            let still = ["stopped", "still"].contains(&motion);
            assert_eq!(host.is_still(), still, "{count} at {at_ns} ns");
        }
    }

    fn looks(kind: CounterKind, vouched: bool) -> impl FnMut(&str, &[&str]) -> [bool; 3] {
        let counter = match kind {
            CounterKind::Raw => Counter::of_kind(CounterKind::Raw),
            _ => Counter::of_kind(CounterKind::Tsc),
        };
        let host = counter.map(|counter| Host {
            clocksource: Some(TSC.into()),
            vouched,
            ..Host::new(counter, Period::NANOSECOND, 0)
        });
        let mut host = host.unwrap();
        move |current, available| {
            let available: Vec<String> = available.iter().map(|&name| name.into()).collect();
            let (events, warning, lost) =
                host.look(Some(current.into()), || Some(available.clone()));
            assert!(events.iter().all(|event| matches!(event, Event::Disruption { .. })));
            [!events.is_empty(), warning.is_some(), lost.is_some()]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_tsc_that_the_kernel_gives_up_is_lost() {
        let (nothing, warned, lost) = ([false; 3], [false, true, false], [true, false, true]);
        let mut look = looks(CounterKind::Tsc, true);
        assert_eq!(look("tsc", &["tsc", "hpet"]), nothing);
        assert_eq!(look("hpet", &["tsc", "hpet"]), warned, "somebody chose another");
        assert_eq!(look("hpet", &["tsc", "hpet"]), nothing);
        assert_eq!(look("hpet", &["hpet"]), lost, "given up later");
        assert_eq!(looks(CounterKind::Tsc, true)("hpet", &["hpet", "acpi_pm"]), lost);
        // The user insisted on it although the kernel never vouched for it.
        assert_eq!(looks(CounterKind::Tsc, false)("hpet", &["hpet"]), warned);
    }

    #[test]
    fn another_clocksource_under_the_raw_clock_is_a_break() {
        let mut look = looks(CounterKind::Raw, false);
        assert_eq!(look("hpet", &["hpet"]), [true, false, false]);
        assert_eq!(look("hpet", &["hpet"]), [false; 3]);
    }

    #[test]
    fn only_a_known_change_of_clocksource_is_one() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let mut host = Host { clocksource: None, ..Host::new(counter, Period::NANOSECOND, 0) };
        for (current, change) in [
            (None, None),
            (Some("tsc"), None),
            (None, None),
            (Some("tsc"), None),
            (Some("hpet"), Some("the kernel's clocksource changed from tsc to hpet")),
            (Some("hpet"), None),
        ] {
            assert_eq!(host.changed(current.map(str::to_owned)).as_deref(), change);
        }
    }
}
