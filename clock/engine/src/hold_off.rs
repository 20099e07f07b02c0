//! Servers whose time has moved by more than it may: what to say of them, and when others vouch for
//! them.
//!
//! If one server of several steps, it is wrong. If the time of several moves alike at once, it was
//! the counter that moved: a virtual machine that was migrated, say. The stamps of a single server
//! look the same in both cases.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use truechimer_feedforward::{Disputed, Estimate, TimePrior};
use truechimer_time::{Count, CounterId, Instant, Period, Span, Utc};
use truechimer_timehands::Hand;

use crate::bar::{self, Bar};
use crate::peer::HoldOff;
use crate::select::Claim;

/// Hold-off of the clock against a server: kept beside the saved rate, as the clock page shows only
/// a bound that covers both.
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
    /// The server, host and port: what it was known by is nobody else's.
    #[serde(default)]
    pub server: String,
    /// Since when the clock had been known, and when the server's last sample came that agreed with
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<(Count, Count)>,
}

impl Held {
    /// Makes what is held at `at` against a server with this hold-off, where `time` is what the
    /// clock says, and `known` since when.
    pub(crate) fn new(
        server: String,
        counter: CounterId,
        (at, time): (Count, Instant),
        hold_off: &HoldOff,
        known: Option<(Count, Count)>,
    ) -> Held {
        let bound = (hold_off.held.1 - time).abs().max((time - hold_off.held.0).abs());
        Held {
            counter,
            count: at,
            time,
            bound,
            since: hold_off.since,
            step: hold_off.step,
            server,
            known,
        }
    }

    /// Prior of time by it, if it goes with this hand: unless they contradict each other. A hand of
    /// another time is newer, and the hold-off is over.
    pub(crate) fn prior(&self, hand: &Hand) -> Option<TimePrior> {
        let Held { counter, count, time, bound, since, step, known, .. } = *self;
        let goes = counter == hand.counter
            && bound >= Span::ZERO
            && (hand.time_at(count) - time).abs() <= hand.bound_at(count) + bound
            && count.at_or_after(since);
        let known = known.filter(|(from, to)| to.at_or_after(*from) && count.at_or_after(*to));
        let doubted = Some(Disputed::Step(since, step));
        goes.then_some(TimePrior { count, time, bound, known, doubted })
    }
}

/// Span by which a list of those that agreed may be older than the clock page: it is kept whenever
/// it changes, and every hour.
const AGREED_FOR: Span = Span::from_secs(4096);

/// The servers that agreed with the clock: to them the time on the clock page is their own word.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreed {
    /// The counter, and its epoch.
    pub counter: CounterId,
    /// A count of it.
    pub count: Count,
    /// The servers, host and port.
    pub servers: Vec<String>,
    /// Since when what each of them agrees with has been known to its estimator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub since: BTreeMap<String, Count>,
    /// The servers whose word the time on the clock page is, also if they say otherwise by now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_by: Vec<String>,
    /// The servers that the user's word overruled (`truechimer accept`), and that do not agree yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overruled: Vec<String>,
}

impl Agreed {
    /// Those of whom this hand is the word, each with since when and until when it was known, if
    /// that was kept: none, if it is of another counter or time.
    pub(crate) fn of(&self, hand: &Hand) -> BTreeMap<String, Option<(Count, Count)>> {
        if !self.goes_with(hand) {
            return BTreeMap::new();
        }
        let known = |server: &String| {
            let since = *self.since.get(server)?;
            // The hand is what they agreed with last.
            let past = self.count.at_or_after(since) && hand.base.at_or_after(since);
            past.then_some((since, hand.base))
        };
        self.servers.iter().map(|server| (server.clone(), known(server))).collect()
    }

    /// True if it is of the time that this hand is of.
    fn goes_with(&self, hand: &Hand) -> bool {
        let apart = hand.period.span(hand.base - self.count).abs();
        self.counter == hand.counter && apart <= AGREED_FOR
    }

    /// The servers whose word this hand is, if that is known.
    pub(crate) fn tellers(&self, hand: &Hand) -> &[String] {
        if self.goes_with(hand) { &self.told_by } else { &[] }
    }

    /// The servers that were overruled where this hand goes.
    pub(crate) fn overruled(&self, hand: &Hand) -> &[String] {
        if self.goes_with(hand) { &self.overruled } else { &[] }
    }
}

/// Replies of a server that must say the same before it counts.
const EXCHANGES: u32 = 2;

/// Describes a hold-off in one line, when it is `utc` by the clock that is held. One that has
/// something `against` it (the others' word, or the user's) is wrong, also when its estimator
/// believes it.
pub(crate) fn told(
    hold_off: &HoldOff,
    (name, bar): (&str, Option<&Bar>),
    at: Count,
    nominal: Period,
    utc: Option<Utc>,
    against: Option<String>,
) -> String {
    let HoldOff { step, exchanges, .. } = hold_off;
    let since = time(nominal.span(at - hold_off.since));
    let replies = match exchanges {
        1 => " (1 reply so far)".to_owned(),
        _ => format!(", for {since} ({exchanges} replies)"),
    };
    let (suspected, moves) = if hold_off.steady { ("step", "is") } else { ("drift", "moves, now") };
    let believed = || accepted(hold_off, utc, bar) + &bar::remedies(name);
    let accepted = against.unwrap_or_else(believed);
    format!(
        "{suspected} suspected: its time {moves} {step:+} off what was known{replies}: not used; {accepted}"
    )
}

/// Tells what this server says that is held off, for how long it has, and when it is accepted.
pub(crate) fn says(
    hold_off: &HoldOff,
    (name, bar): (&str, Option<&Bar>),
    at: Count,
    nominal: Period,
    utc: Option<Utc>,
) -> String {
    let since = time(nominal.span(at - hold_off.since));
    let accepted = accepted(hold_off, utc, bar);
    format!("{:+} for {since}; {accepted}{}", hold_off.step, bar::remedies(name))
}

/// Tells of it in a few words.
pub(crate) fn in_short(hold_off: &HoldOff) -> String {
    let moves = if hold_off.steady { "moved" } else { "moves" };
    format!("held off: its time {moves} by {:+}", hold_off.step)
}

/// When it is believed.
fn accepted(hold_off: &HoldOff, utc: Option<Utc>, bar: Option<&Bar>) -> String {
    if let Some(bar) = bar {
        return format!("not accepted by itself, as {bar}");
    }
    if hold_off.left == Span::ZERO {
        return "accepted when a few more replies agree, unless it goes back".into();
    }
    let day = 86_400;
    let clock =
        utc.filter(|_| hold_off.left < Span::from_secs(day)).map_or_else(String::new, |utc| {
            let then = Span::from_secs(utc.unix) + Span(utc.frac.into()) + hold_off.left;
            // To the nearest second: it is the same one each time.
            let of_day = ((then + Span::from_millis(500)).0 >> 64).rem_euclid(day.into());
            let (h, min, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            format!(" (at {h:02}:{min:02}:{s:02} UTC)")
        });
    format!("accepted in {}{clock}, unless it goes back", time(hold_off.left))
}

/// A length of time as people say it, to the second.
pub(crate) fn time(span: Span) -> String {
    let seconds = span.as_nanos().div_euclid(1_000_000_000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// Opinion of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opinion {
    /// Claim of its newest replies.
    newest: Claim,
    /// Claim of its replies before, if they contradict that, and how many they are.
    before: Option<(Claim, u32)>,
    /// When the last reply of it came that was used.
    used: Count,
    /// Since when its replies contradict what it said before.
    since: Option<Count>,
    /// When it was last believed to have moved.
    moved: Option<Count>,
}

impl Opinion {
    /// By its estimate and its hold-off, on the scale that begins at `origin`.
    pub(crate) fn new(
        estimate: &Estimate,
        hold_off: Option<&HoldOff>,
        moved: Option<Count>,
        origin: Instant,
    ) -> Opinion {
        let (used, since) = (estimate.last_used, hold_off.map(|hold_off| hold_off.since));
        let claim = |(from, to): (Instant, Instant)| Claim {
            low: (from - origin).0,
            high: (to - origin).0,
        };
        match hold_off {
            Some(hold_off) => Opinion {
                newest: claim(hold_off.newcomers),
                before: Some((claim(hold_off.held), hold_off.exchanges)),
                used,
                since,
                moved,
            },
            None => {
                let (time, bound) = (estimate.time, estimate.bound);
                let newest = claim((time - bound, time + bound));
                Opinion { newest, before: None, used, since, moved }
            }
        }
    }
}

/// True if so many servers agree with what this one says now, and not with what it said before,
/// that it is to be believed.
pub(crate) fn vouched(one: usize, opinions: &[Opinion]) -> bool {
    let Some(Opinion { before: Some((_, exchanges)), .. }) = opinions.get(one) else {
        return false;
    };
    let (vouchers, opponents) = witnesses(one, opinions);
    let all = opinions.len();
    let majority = all - all.saturating_sub(1) / 2;
    *exchanges >= EXCHANGES && all > 1 && vouchers + 1 >= majority && vouchers >= opponents
}

/// True if it was said often enough to count.
pub(crate) fn is_said(hold_off: &HoldOff) -> bool {
    hold_off.exchanges >= EXCHANGES
}

/// Numbers of others that say what this one says now, and that say what it said before.
pub(crate) fn witnesses(one: usize, opinions: &[Opinion]) -> (usize, usize) {
    let Some(Opinion { newest, before: Some((before, _)), .. }) = opinions.get(one) else {
        return (0, 0);
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
    (vouchers, opponents)
}

/// Judgement of the others on a server whose time has moved, and is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// All who can tell have moved alike.
    All,
    /// All who were asked since have moved alike, but not all who can tell were asked.
    AllAsked,
    /// Majority, itself among them, that has moved alike; others stand where they stood.
    Majority {
        /// Those that have moved.
        moved: usize,
        /// Those that have not.
        stood: usize,
    },
    /// Others were there before.
    Back,
    /// The clock has stood there all the time.
    Home,
}

impl Moved {
    /// By the opinions of all; `one` is vouched for.
    pub(crate) fn of(one: usize, opinions: &[Opinion]) -> Moved {
        let Some(Opinion { newest, before: Some((before, _)), used, since: Some(since), .. }) =
            opinions.get(one)
        else {
            return Moved::AllAsked;
        };
        let (mut moved, mut there, mut stood, mut unasked) = (1, 0, 0, 0);
        for (index, other) in opinions.iter().enumerate() {
            let with_it = (other.newest.meets(newest), other.newest.meets(before));
            let has_moved =
                other.since.is_some() || other.moved.is_some_and(|moved| moved.at_or_after(*used));
            match with_it {
                _ if index == one => {}
                (true, false) if has_moved => moved += 1,
                (true, false) => there += 1,
                (false, true) if other.used.at_or_after(*since) => stood += 1,
                (false, _) => unasked += 1,
                // It can tell nothing.
                (true, true) => {}
            }
        }
        match (there, stood) {
            (1.., _) => Moved::Back,
            (_, 1..) => Moved::Majority { moved, stood },
            _ if unasked == 0 => Moved::All,
            _ => Moved::AllAsked,
        }
    }

    /// In plain words, for a server whose time moved by this.
    pub(crate) fn told(self, by: Span, all: usize) -> String {
        match self {
            Moved::All | Moved::AllAsked if all == 1 => format!(
                "its time moved by {by:+}, and so did the machine's real-time clock: the counter jumped; \
                 the clock goes by it from now on"
            ),
            Moved::All => format!(
                "its time moved by {by:+}, as that of all other servers that can tell: the counter jumped; the \
                 clock goes by them from now on"
            ),
            Moved::AllAsked => format!(
                "its time moved by {by:+}, as that of every other server that has told since: the \
                 counter may have jumped; the clock goes by them from now on"
            ),
            Moved::Majority { moved, stood } => {
                let others = if stood == 1 { "one has" } else { "others have" };
                format!(
                    "its time moved by {by:+}, as that of {moved} servers in all, while {others} not \
                     moved: so it was not the counter; the clock goes by the majority"
                )
            }
            Moved::Back => format!(
                "its time moved by {by:+}, to where other servers were already: it is used again"
            ),
            Moved::Home => format!(
                "its time moved by {by:+}, to where the clock has stood all the time: it was wrong and \
                 is used again"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEN: Opinion = Opinion {
        newest: Claim { low: 0, high: 0 },
        before: None,
        used: Count(100),
        since: None,
        moved: None,
    };

    fn honest(low: i128, high: i128) -> Opinion {
        Opinion { newest: Claim { low, high }, ..WHEN }
    }

    fn moved(by: i128) -> Opinion {
        let before = Some((Claim { low: -10, high: 10 }, 2));
        let newest = Claim { low: by - 10, high: by + 10 };
        Opinion { newest, before, since: Some(Count(105)), ..WHEN }
    }

    /// One that was asked again at that count.
    fn asked(opinion: Opinion, used: u64) -> Opinion {
        Opinion { used: Count(used), ..opinion }
    }

    #[test]
    fn a_server_alone_has_nobody_to_vouch_for_it() {
        assert!(!vouched(0, &[moved(100)]));
        assert!(!vouched(0, &[moved(100), honest(-9, 12)]));
        assert!(!vouched(0, &[moved(100), honest(-9, 12), honest(-5, 5)]));
        assert!(!vouched(1, &[moved(100), honest(-9, 12)]), "it is not held off");
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
    fn the_counter_is_blamed_only_if_nobody_stood_still() {
        let of = |opinions: &[Opinion]| {
            assert!(vouched(0, opinions));
            Moved::of(0, opinions)
        };
        assert_eq!(of(&[moved(100), moved(95)]), Moved::All);
        let stays = honest(-9, 12);
        assert_eq!(of(&[moved(100), moved(95), asked(stays, 104)]), Moved::AllAsked);
        let majority = Moved::Majority { moved: 2, stood: 1 };
        assert_eq!(of(&[moved(100), moved(95), asked(stays, 106)]), majority);
        assert!(majority.told(Span::from_millis(5), 3).contains("not the counter"));
        // One that has been believed already has moved all the same, but not one long ago.
        let believed = |at| Opinion { moved: Some(Count(at)), ..asked(honest(90, 110), 108) };
        assert_eq!(of(&[moved(100), believed(107)]), Moved::All);
        assert_eq!(of(&[moved(100), believed(99)]), Moved::Back);
        assert_eq!(of(&[moved(100), honest(95, 105), honest(90, 120)]), Moved::Back);
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
        let hold_off = HoldOff {
            since: count(1000),
            exchanges: 12,
            step: Span::from_millis(150),
            steady: true,
            left: Span::from_secs(3410),
            newcomers: (here, here),
            held: (here, here),
            open: (here, here),
        };
        assert_eq!(
            told(&hold_off, ("s1:123", None), count(1190), Period::NANOSECOND, None, None),
            "step suspected: its time is +150.000 ms off what was known, for 3 min 10 s \
             (12 replies): not used; accepted in 56 min 50 s, unless it goes back; to believe it \
             now: truechimer accept s1:123, or truechimer run --fresh"
        );
        let utc = |unix| Some(Utc { unix, frac: 0, leap_second: false });
        assert_eq!(
            says(&hold_off, ("s1:123", None), count(1190), Period::NANOSECOND, utc(1_800_010_000)),
            "+150.000 ms for 3 min 10 s; accepted in 56 min 50 s (at 11:43:30 UTC), unless it \
             goes back; to believe it now: truechimer accept s1:123, or truechimer run --fresh"
        );
        let bar = Bar::TooFew { agree: 1, least: 2 };
        let text = says(&hold_off, ("s1:123", Some(&bar)), count(1190), Period::NANOSECOND, None);
        assert!(
            text.contains("not accepted by itself, as only 1 of min-sources = 2 says so; to"),
            "{text}"
        );
        let week = HoldOff { left: Span::from_secs(600_000), ..hold_off };
        let text =
            told(&week, ("s1", None), count(1190), Period::NANOSECOND, utc(1_800_010_000), None);
        assert!(text.contains("accepted in 166 h 40 min, unless"), "which day? {text}");
        let first = HoldOff { exchanges: 1, steady: false, left: Span::ZERO, ..hold_off };
        let text = told(&first, ("s1", None), count(8900), Period::NANOSECOND, None, None);
        assert_eq!(in_short(&first), "held off: its time moves by +150.000 ms");
        assert!(text.contains("time moves, now +150.000 ms"), "{text}");
        assert!(text.contains("off what was known (1 reply so far): not used"), "{text}");
        assert!(
            text.contains("accepted when a few more replies agree, unless it goes back; to"),
            "{text}"
        );
    }
}
