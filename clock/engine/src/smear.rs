//! Servers that smear a leap second.
//!
//! Instead of a leap second they show a frequency: from noon to noon UTC, around the midnight of
//! the leap, their clock runs 1/86 400 slow or fast (the linear smear that most public servers of
//! that kind use). Until the leap such a server falls behind the others by up to half a second,
//! then it is as much ahead, and at noon it is right again. On our scale, which has no leaps, that
//! is a saw tooth around an instant that a list or the other servers know.
//!
//! A server smears if its time does what that saw tooth does, and ours does not. Its smear is then
//! taken off, so that its estimator sees no change of rate. It votes all the same, as one lying server that
//! does not smear could else silence all others; but it has no part in where the time stands as long as one
//! that votes and does not smear agrees.
//!
//! At noon nobody can tell: the smear has yet to exceed what a path hides. Until it is known
//! whether a server smears, what it would be ahead by if it did is taken to be wrong with its word,
//! so that the bound covers it.

use truechimer_time::{Instant, Leaps, Span};

use truechimer_feedforward::number::seconds;

/// From noon to midnight, s.
const HALF: i64 = 43_200;
/// Replies in a row that must follow the saw tooth, or must not, to change what is thought.
const REPLIES: u32 = 4;
/// Clear replies in a row, not smeared, that tell that the server does not smear.
const HONEST: u32 = 2;
/// Share of what is expected that may be seen, at least and at most: our own clock may have
/// followed a little.
const SHARE: (f64, f64) = (0.5, 1.25);
/// The smear must exceed what else may be wrong by so much.
const CLEAR: f64 = 4.0;
/// Paths of which the directions differ by more than this part of the round trip are rare.
const ASKEW: f64 = 0.1;
/// A clock that may itself be off by no more than this part of a smear, less than the least
/// [`SHARE`], does not take an honest server's time for one.
const OWN: f64 = 0.45;
/// A clock that may itself be off by more than this part of a smear can never tell one.
const TELLS: f64 = 0.7;
/// Error that any reply may have, s.
const LEAST: f64 = 100e-6;
/// Tolerance of a smear that is taken off, against the one that we think of: this part of it.
const ROUGH: i128 = 1000;

/// Time of a server that smears − true time, at `at`; `None` if no leap is near.
pub(crate) fn expected(leaps: &Leaps, at: Instant) -> Option<Span> {
    let near = |at: Instant, leap: i64| at.secs().abs_diff(leap) < HALF.unsigned_abs();
    let leap = [leaps.next, leaps.last].into_iter().flatten().find(|l| near(at, l.at))?;
    let since = at - Instant::new(leap.at, 0);
    // The part of the second that has been made up for by now.
    let part = Span((since + Span::from_secs(HALF)).0 / i128::from(2 * HALF));
    let step = i128::from(leap.step.signum());
    let ahead = if since.is_negative() { -part.0 } else { Span::from_secs(1).0 - part.0 };
    Some(Span(step * ahead))
}

/// Error that our clock may have, by dead reckoning since a leap second came near.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// By its rate since then.
    pub(crate) strayed: Span,
    /// By its bound when that began.
    pub(crate) begun: Span,
}

impl Doubt {
    pub(crate) const NONE: Doubt = Doubt { strayed: Span::ZERO, begun: Span::ZERO };
}

/// Belief about one server.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Smear {
    found: bool,
    /// Replies in a row that speak against what is thought.
    against: u32,
    /// Off and expected at the first of them, s.
    first: (f64, f64),
    /// The newest reply may be one of a server that smears.
    plausible: bool,
    early: Early,
    /// Least round trip since the day of the leap began, s.
    rtt: Option<f64>,
}

/// Stages until one can tell whether a server smears.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Early {
    /// No reply since the day of the leap began.
    #[default]
    Unseen,
    /// Too early to tell.
    Open {
        /// But for so many clear replies in a row of a server that does not smear.
        honest: u32,
        /// The smear has been more than a round trip: what it is now says nothing of what it has
        /// come to, and of how far the clock was carried along.
        beyond: bool,
    },
    Over,
}

impl Early {
    const OPEN: Early = Early::Open { honest: 0, beyond: false };

    fn open(honest: u32, beyond: bool) -> Early {
        if honest < HONEST { Early::Open { honest, beyond } } else { Early::Over }
    }
}

impl Smear {
    /// Looks at a reply that is `off` from our clock and took a round trip of `rtt`; `expected` is
    /// where the server is if it smears.
    pub(crate) fn look(&mut self, off: Span, rtt: Span, doubt: Doubt, expected: Option<Span>) {
        let Some(expected) = expected.map(seconds) else {
            *self = Smear::default();
            return;
        };
        // At the leap itself it is a matter of reading by which side of it a reply is told.
        let off = seconds(off);
        let whole = rounded(off - expected);
        let off = off - whole;
        let share = off / expected;
        let near = (-1.0..=1.0).contains(&whole);
        self.plausible = near && expected != 0.0 && share >= SHARE.0 && share <= SHARE.1;
        let (rtt, begun) = (seconds(rtt).abs(), seconds(doubt.begun).abs());
        let doubt = seconds(doubt.strayed).abs();
        let least = self.rtt.map_or(rtt, |least| least.min(rtt));
        self.rtt = Some(least);
        // A path that has become shorter moves the server by what it hid from our clock until then;
        // one that has become longer, by half of that.
        let moved = (begun - rtt / 2.0).max((rtt - least) / 2.0);
        let doubtful = (ASKEW * rtt).max(LEAST).max(moved);
        let clear = expected.abs() >= CLEAR * doubtful && doubt <= OWN * expected.abs();
        // No path hides so much.
        let honest = (off - expected).abs() > rtt / 2.0 + doubt + LEAST;
        // However rarely it is asked, the first reply of the day alone tells nothing.
        let early = if self.early == Early::Unseen { Early::OPEN } else { self.early };
        if let Early::Open { honest: before, beyond } = early {
            let beyond = beyond || expected.abs() >= rtt;
            self.early = if !beyond && doubt > TELLS * expected.abs() {
                // Nobody will ever tell.
                Early::Over
            } else if honest || clear && !self.plausible {
                Early::open(before + 1, beyond)
            } else {
                Early::open(if clear { 0 } else { before }, beyond)
            };
        }
        if !clear {
            return;
        }
        if self.plausible == self.found {
            self.against = 0;
            return;
        }
        if self.against == 0 {
            self.first = (off, expected);
        }
        self.against += 1;
        let (moved, should) = (off - self.first.0, expected - self.first.1);
        // A server that stepped once stands still; one that smears goes on.
        let goes = should.abs() >= doubtful.max(doubt)
            && (SHARE.0..=2.0 - SHARE.0).contains(&(moved / should));
        if self.against >= REPLIES && (self.found || goes) {
            (self.found, self.against, self.early) = (!self.found, 0, Early::Over);
        }
    }

    /// The counter broke, and our clock with it: by its own time the server is `expected` ahead if
    /// it smears. One that does goes on doing so.
    pub(crate) fn survive(&mut self, expected: Option<Span>) {
        let found = self.found && expected.is_some();
        let early = if found { Early::Over } else { Early::Unseen };
        *self = Smear { found, early, ..Smear::default() };
    }

    /// By how much the newest reply may be wrong, as it is too early to tell whether it is smeared.
    pub(crate) fn doubt(&self, expected: Option<Span>) -> Span {
        match self.early {
            Early::Open { .. } => expected.unwrap_or(Span::ZERO).abs(),
            _ => Span::ZERO,
        }
    }

    /// True if it is too early to tell.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.early, Early::Open { .. })
    }

    /// True if it smears.
    pub(crate) fn is_found(&self) -> bool {
        self.found
    }

    /// True if it may be that it smears: what it says may be that and no step.
    pub(crate) fn is_plausible(&self) -> bool {
        self.found || self.plausible
    }

    /// Correction to take off a reply that is `off` from our clock, and what is to be added to its
    /// root distance for it.
    pub(crate) fn correction(&self, off: Span, expected: Option<Span>) -> Option<(Span, Span)> {
        let expected = expected.filter(|_| self.found)?;
        let whole = rounded(seconds(off - expected)) as i64;
        Some((expected + Span::from_secs(whole), Span(expected.abs().0 / ROUGH)))
    }
}

/// To the nearest whole number, for what is far below 2⁵².
fn rounded(x: f64) -> f64 {
    let shifted = if x < 0.0 { x - 0.5 } else { x + 0.5 };
    if shifted.abs() < 1e15 { (shifted as i64) as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Leap;

    const LEAP: i64 = 1_483_228_837;
    const LEAPS: Leaps =
        Leaps { tai_offset: 36, known: true, last: None, next: Some(Leap { at: LEAP, step: 1 }) };

    fn at(hours: f64) -> Option<f64> {
        let at = Instant::new(LEAP, 0) + Span::from_millis((hours * 3_600_000.0) as i64);
        expected(&LEAPS, at).map(seconds)
    }

    #[test]
    fn the_saw_tooth() {
        let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-9;
        assert_eq!((at(-12.1), at(12.1)), (None, None));
        assert!(near(at(-6.0), -0.25) && near(at(6.0), 0.25));
        assert!(near(at(0.0), 0.5) && at(-1e-6).unwrap() < -0.49);
        let deleted = Leaps { next: Some(Leap { at: LEAP, step: -1 }), ..LEAPS };
        let six = expected(&deleted, Instant::new(LEAP - 21_600, 0)).map(seconds);
        assert!(near(six, 0.25));
    }

    /// The smear as it is thought of after looking at replies that are so far off, s.
    fn looked(off: impl Fn(i64) -> f64) -> Smear {
        let mut smear = Smear::default();
        for reply in 0..40 {
            let now = Instant::new(LEAP - HALF + 16 * reply, 0);
            let off = Span::from_nanos((off(16 * reply) * 1e9) as i64);
            smear.look(off, Span::from_micros(500), Doubt::NONE, expected(&LEAPS, now));
        }
        smear
    }

    /// A clock that half a round trip of a second hid half a second from, which comes to light.
    #[test]
    fn a_path_that_became_shorter_is_no_smear() {
        for (begun, found) in [(Span::from_millis(560), false), (Span::from_millis(20), true)] {
            let mut smear = Smear::default();
            for reply in 0..400 {
                let expected = expected(&LEAPS, Instant::new(LEAP + 32 * reply, 0));
                let doubt = Doubt { begun, ..Doubt::NONE };
                smear.look(expected.unwrap(), Span::from_millis(22), doubt, expected);
            }
            assert_eq!(smear.is_found(), found, "{begun}");
        }
    }

    /// Replies that are held back by 0.9 s from some time of the day on.
    #[test]
    fn a_path_that_became_longer_is_no_smear() {
        for longer in [0, 900] {
            let mut smear = Smear::default();
            for reply in 0..400 {
                let expected = expected(&LEAPS, Instant::new(LEAP + 32 * reply, 0));
                let late = reply >= 40;
                let rtt = Span::from_millis(22 + if late { longer } else { 0 });
                let off = if late { expected.unwrap() } else { Span::ZERO };
                smear.look(off, rtt, Doubt::NONE, expected);
            }
            assert_eq!(smear.is_found(), longer == 0, "{longer}");
        }
    }

    #[test]
    fn a_smear_is_told_from_a_step_and_from_a_wrong_rate() {
        assert!(looked(|s| s as f64 / -86_400.0).is_found());
        assert!(looked(|s| s as f64 / -86_400.0 + 150e-6).is_found());
        assert!(!looked(|_| 0.0).is_found());
        assert!(!looked(|_| -2e-3).is_found(), "a step");
        assert!(!looked(|s| s as f64 * -25e-6).is_found(), "twice as fast");
        assert!(!looked(|s| s as f64 / 86_400.0).is_found(), "the other way");
    }

    #[test]
    fn it_is_over_when_it_no_longer_follows() {
        let stops = |s: i64| if s < 320 { s as f64 / -86_400.0 } else { 0.0 };
        assert!(!looked(stops).is_found());
        let mut smear = looked(|s| s as f64 / -86_400.0);
        smear.look(Span::ZERO, Span::ZERO, Doubt::NONE, None);
        assert_eq!(smear, Smear::default());
    }

    #[test]
    fn at_the_leap_either_reading_will_do() {
        let mut smear = looked(|s| s as f64 / -86_400.0);
        for off in [-500, 500] {
            let expected = Some(Span::from_millis(500));
            smear.look(Span::from_millis(off), Span::from_micros(500), Doubt::NONE, expected);
            let (by, _) = smear.correction(Span::from_millis(off), expected).unwrap();
            assert!((by - Span::from_millis(off)).abs() <= Span(2), "{by}");
        }
        assert!(smear.is_found());
        smear.look(
            Span::MAX,
            Span::MAX,
            Doubt { strayed: Span::MAX, begun: Span::MAX },
            Some(Span::MAX),
        );
    }

    #[test]
    fn until_it_can_be_told_the_doubt_is_as_large_as_the_smear() {
        let polled = |first: i64, poll: usize, seconds: i64, off: &dyn Fn(f64) -> f64| {
            let mut smear = Smear::default();
            let mut doubt = Span::ZERO;
            for at in (first..=seconds).step_by(poll) {
                let expected = expected(&LEAPS, Instant::new(LEAP - HALF + at, 0));
                let off = Span::from_nanos((off(at as f64) * 1e9) as i64);
                smear.look(off, Span::from_micros(500), Doubt::NONE, expected);
                doubt = smear.doubt(expected);
                // Nothing that is off by as much is ever without its doubt, or known for what it
                // is.
                let covered = off.abs() <= doubt + Span::from_micros(1) || smear.is_found();
                assert!(covered, "{at} s: {off}, {doubt}");
            }
            doubt
        };
        let after = |seconds: i64, off: &dyn Fn(f64) -> f64| polled(1, 16, seconds, off);
        let smeared = |s: f64| s / -86_400.0;
        for poll in [64, 1024] {
            let first = poll as i64 - 4;
            let last = |replies| first + poll as i64 * (replies - 1);
            let polled =
                |replies: i64, off: &dyn Fn(f64) -> f64| polled(first, poll, last(replies), off);
            assert!(
                polled(1, &smeared) > Span::from_micros(690),
                "{poll}: one reply tells nothing"
            );
            assert_eq!(polled(8, &smeared), Span::ZERO, "{poll}: it is known, and taken off");
            assert!(polled(1, &|_| 0.0) > Span::from_micros(690), "{poll}");
            assert_eq!(polled(2, &|_| 0.0), Span::ZERO, "{poll}: an honest one");
        }
        assert_eq!(after(33, &smeared).as_nanos(), 381_944);
        assert_eq!(after(300, &smeared), Span::ZERO, "it is known, and taken off");
        assert!(after(17, &|_| 0.0) > Span::from_micros(190), "too early");
        assert_eq!(after(81, &|_| 0.0), Span::ZERO, "an honest one");
    }

    /// Over 36 ms, with a rate that is known to so many ppm.
    #[test]
    fn a_far_server_is_in_doubt_until_no_path_hides_a_smear() {
        let lasts = |rate: f64, smears: bool| {
            let mut smear = Smear::default();
            let mut open = 0;
            for at in (0..20_000).step_by(16) {
                let expected = expected(&LEAPS, Instant::new(LEAP - HALF + at, 0));
                let off = if smears { expected.unwrap_or(Span::ZERO) } else { Span::ZERO };
                let doubt = Span::from_nanos((rate * at as f64 * 1e3) as i64);
                smear.look(
                    off,
                    Span::from_millis(36),
                    Doubt { strayed: doubt, ..Doubt::NONE },
                    expected,
                );
                open += i64::from(smear.is_open()) * 16;
            }
            (open, smear.is_found())
        };
        for (rate, least, most) in [(0.6, 1200, 1400), (4.5, 1200, 1400), (6.0, 3000, 3600)] {
            let (open, found) = lasts(rate, false);
            assert!((least..most).contains(&open) && !found, "{rate}: {open}");
        }
        assert!(lasts(20.0, false).0 < 64, "nobody will ever tell");
        for rate in [0.6, 4.5] {
            let (open, found) = lasts(rate, true);
            assert!(found && open < 2400, "{rate}: {open}");
        }
        assert_eq!(lasts(6.0, true), (19_984, false), "but it is in doubt all along");
        let mut smear = Smear::default();
        for at in (16..2 * HALF).step_by(16) {
            let expected = expected(&LEAPS, Instant::new(LEAP - HALF + at, 0));
            let doubt = Span::from_nanos((6.0 * at as f64 * 1e3) as i64);
            smear.look(
                expected.unwrap(),
                Span::from_millis(36),
                Doubt { strayed: doubt, ..Doubt::NONE },
                expected,
            );
            assert!(smear.is_open(), "{at}");
        }
    }

    #[test]
    fn extreme_leaps_and_times_do_not_overflow() {
        for leap in [i64::MIN, i64::MAX, 0] {
            let leaps = Leaps { next: Some(Leap { at: leap, step: 1 }), ..LEAPS };
            for secs in [i64::MIN, -1, i64::MAX] {
                let at = Instant::new(secs, 0);
                assert_eq!(expected(&leaps, at).is_some(), secs == leap || secs == -1 && leap == 0);
            }
        }
    }
}
