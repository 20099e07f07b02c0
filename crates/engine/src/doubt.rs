//! Servers whose time has moved by more than it may: what to say of them, and when others vouch for
//! them.
//!
//! If one server of several steps, it is wrong. If the time of several moves alike at once, it was
//! the counter that moved: a virtual machine that was migrated, say. The stamps of a single server
//! look the same in both cases.

use serde::{Deserialize, Serialize};
use truechimer_feedforward::{Doubt, Estimate, TimePrior};
use truechimer_time::{Count, CounterId, Instant, Period, Span};
use truechimer_timehands::Hand;

use crate::select::Claim;

/// What the clock holds against the server it follows: kept beside the saved rate, as the clock page
/// shows only a bound that covers both.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The counter, and its epoch.
    pub counter: CounterId,
    /// A count of it.
    pub count: Count,
    /// The time then.
    pub time: Instant,
    /// Bound of its error, if the server is wrong.
    pub bound: Span,
    /// Since when the server has said otherwise.
    pub since: Count,
    /// By how much; positive: its time is ahead.
    pub step: Span,
    /// The server, host and port: what it was known by is nobody else's word.
    #[serde(default)]
    pub server: String,
}

impl Held {
    /// What is held at `at` against a server with this estimate and doubt.
    pub(crate) fn new(
        server: String,
        counter: CounterId,
        at: Count,
        estimate: &Estimate,
        doubt: &Doubt,
    ) -> Held {
        let Estimate { time, .. } = *estimate;
        let bound = (doubt.held.1 - time).abs().max((time - doubt.held.0).abs());
        Held { counter, count: at, time, bound, since: doubt.since, step: doubt.step, server }
    }

    /// What is known of time by it, if it goes with this hand: as long as that covers both.
    pub(crate) fn prior(&self, hand: &Hand) -> Option<TimePrior> {
        let Held { counter, count, time, bound, since, step, .. } = *self;
        // A hand of a better time is newer, and the doubt is over.
        let covers = hand.bound_at(count) >= step.abs().max((hand.time_at(count) - time).abs());
        (counter == hand.counter && covers).then_some(TimePrior {
            count,
            time,
            bound,
            doubted: Some((since, step)),
        })
    }
}

/// So many replies of a server must say the same before it counts.
const EXCHANGES: u32 = 2;

/// What there is to say of a doubt, in one line.
pub(crate) fn told(doubt: &Doubt, at: Count, nominal: Period) -> String {
    let Doubt { step, exchanges, .. } = doubt;
    let since = time(nominal.span(at - doubt.since));
    let replies =
        if *exchanges == 1 { "1 reply".to_owned() } else { format!("{exchanges} replies") };
    let moves = if doubt.steady { "is" } else { "moves, now" };
    let left = if doubt.left == Span::ZERO {
        "believed when a few more replies agree".to_owned()
    } else {
        format!("believed if it stays there for another {}", time(doubt.left))
    };
    format!(
        "server-step: its time {moves} {step:+} off what was known, since {since} ({replies}): \
         not used, {left}"
    )
}

/// A length of time as people say it, to the second.
fn time(span: Span) -> String {
    let seconds = span.as_nanos().div_euclid(1_000_000_000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// What one server says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opinion {
    /// What its newest replies say.
    newest: Claim,
    /// What it said before, if they contradict that, and how many they are.
    before: Option<(Claim, u32)>,
}

impl Opinion {
    /// By its estimate and its doubt, on the scale that begins at `origin`.
    pub(crate) fn new(estimate: &Estimate, doubt: Option<&Doubt>, origin: Instant) -> Opinion {
        let claim = |(from, to): (Instant, Instant)| Claim {
            low: (from - origin).0,
            high: (to - origin).0,
        };
        match doubt {
            Some(doubt) => Opinion {
                newest: claim(doubt.newcomers),
                before: Some((claim(doubt.held), doubt.exchanges)),
            },
            None => {
                let (time, bound) = (estimate.time, estimate.bound);
                Opinion { newest: claim((time - bound, time + bound)), before: None }
            }
        }
    }
}

/// Whether so many servers agree with what this one says now, and not with what it said before, that
/// it is to be believed.
pub(crate) fn vouched(one: usize, opinions: &[Opinion]) -> bool {
    let Some(Opinion { newest, before: Some((before, exchanges)) }) = opinions.get(one) else {
        return false;
    };
    let others = opinions.iter().enumerate().filter(|(index, _)| *index != one);
    let (mut vouchers, mut opponents) = (0, 0);
    for (_, other) in others {
        match (other.newest.meets(newest), other.newest.meets(before)) {
            (true, false) => vouchers += 1,
            (false, true) => opponents += 1,
            _ => {}
        }
    }
    let all = opinions.len();
    let majority = all - all.saturating_sub(1) / 2;
    *exchanges >= EXCHANGES && all > 1 && vouchers + 1 >= majority && vouchers >= opponents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn honest(low: i128, high: i128) -> Opinion {
        Opinion { newest: Claim { low, high }, before: None }
    }

    fn moved(by: i128) -> Opinion {
        let before = Claim { low: -10, high: 10 };
        Opinion { newest: Claim { low: by - 10, high: by + 10 }, before: Some((before, 2)) }
    }

    #[test]
    fn a_server_alone_has_nobody_to_vouch_for_it() {
        assert!(!vouched(0, &[moved(100)]));
        assert!(!vouched(0, &[moved(100), honest(-9, 12)]));
        assert!(!vouched(0, &[moved(100), honest(-9, 12), honest(-5, 5)]));
        assert!(!vouched(1, &[moved(100), honest(-9, 12)]), "it is in no doubt");
    }

    #[test]
    fn a_counter_that_jumps_moves_them_all() {
        assert!(vouched(0, &[moved(100), moved(95)]));
        assert!(vouched(1, &[moved(100), moved(95), honest(-9, 12)]), "not asked since");
        assert!(!vouched(0, &[moved(100), moved(-100), honest(-9, 12)]));
        let first = Opinion { before: Some((Claim { low: -10, high: 10 }, 1)), ..moved(100) };
        assert!(!vouched(0, &[first, moved(100)]), "one reply is not enough");
    }

    #[test]
    fn one_who_can_tell_nothing_vouches_for_nothing() {
        assert!(!vouched(0, &[moved(100), honest(-1000, 1000)]));
        assert!(!vouched(0, &[moved(100), honest(-1000, 1000), honest(-1000, 1000)]));
    }

    #[test]
    fn one_who_was_wrong_is_taken_back_at_once() {
        assert!(vouched(0, &[moved(100), honest(95, 105), honest(90, 120)]));
    }

    #[test]
    fn it_is_said_in_plain_words() {
        let count = |seconds: u64| Count(seconds * 1_000_000_000);
        let here = Instant::new(1_800_000_000, 0);
        let doubt = Doubt {
            since: count(1000),
            exchanges: 12,
            step: Span::from_millis(150),
            steady: true,
            left: Span::from_secs(3410),
            newcomers: (here, here),
            held: (here, here),
        };
        assert_eq!(
            told(&doubt, count(1190), Period::NANOSECOND),
            "server-step: its time is +150.000 ms off what was known, since 3 min 10 s \
             (12 replies): not used, believed if it stays there for another 56 min 50 s"
        );
        let first = Doubt { exchanges: 1, steady: false, left: Span::ZERO, ..doubt };
        let text = told(&first, count(8900), Period::NANOSECOND);
        assert!(text.contains("time moves, now +150.000 ms"), "{text}");
        assert!(text.contains("since 2 h 11 min (1 reply)"), "{text}");
        assert!(text.ends_with("believed when a few more replies agree"), "{text}");
    }
}
