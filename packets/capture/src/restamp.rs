//! Times worked out anew from counts.
//!
//! While capturing, a packet's time is worked out by the newest hand there is: one of before the
//! packet. Its count stays true. Later more is known:
//!
//! * [`Restamper::recorded`] takes the very hands that were used, which stand in the capture, and
//!   comes to the very same times, to the last bit.
//! * [`Restamper::best`] takes all hands there are: those in the capture, a daemon's replay log
//!   ([`Hands::log`]), the present clock page ([`Hands::page`]). What a hand promises holds on both
//!   sides of the count at which it was made, and the promises of two hands hold both. So true time
//!   is after the later of the two earliest times, and before the earlier of the two latest ones.
//!   Of the times in that range the one on the way from the first hand's to the second's is taken,
//!   by the distance from either: a clock that was corrected in between then shows no step, unless
//!   the promises demand one.
//!   Where two promises exclude each other, one of them was broken: that is counted, and the
//!   nearer hand is believed.
//!
//! Only hands of the same counter, in the same boot and of the same epoch are any use. Those that
//! do not stand in the capture must also be shown to be of the same stretch of the counter, where
//! there is anything to show it by: the host's clocks, which a capture has at its beginning, its
//! end and every ten seconds ([`Continuity`](crate::convert::Continuity)), a log and a page with
//! their hands. The counts of a capture without a clock are of no known epoch. They are joined with
//! the hands of a clock that ran before, after, or unseen meanwhile where those clocks show that
//! the counter ran on without a break all the way. What they differ by is then added to the bound.

use std::fmt;

use truechimer_time::{Count, CountSpan, Instant, Span};
use truechimer_timehands::Hand;

use crate::convert::tell::{lasts, tell, unix_ns};
use crate::convert::{Change, Used};
use crate::{Counted, Quality, Stamped};

mod hands;
mod link;
mod log;
#[cfg(test)]
mod tests;

pub use hands::Hands;

/// Record in a capture file of when a packet was stamped: [`Stamped`] without what can be worked
/// out from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Count, if there is one.
    pub counted: Option<Counted>,
    /// The time that it was written with, Unix ns.
    pub unix_ns: i64,
    /// Quality of that.
    pub quality: Quality,
    /// The number of the hand that it was worked out by; 0 for none.
    pub generation: u64,
}

impl From<&Stamped> for Recorded {
    fn from(stamped: &Stamped) -> Recorded {
        let Stamped { counted, unix_ns, quality, generation, .. } = *stamped;
        Recorded { counted, unix_ns, quality, generation }
    }
}

impl Recorded {
    /// Stamp as it was written.
    fn kept(&self) -> Stamped {
        let quality = match self.counted {
            None => Quality::Uncounted,
            Some(_) => Quality::Unsynchronised,
        };
        Stamped {
            counted: self.counted,
            unix_ns: self.unix_ns,
            instant: None,
            bound: None,
            quality,
            generation: 0,
        }
    }
}

/// Outcome of the work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Packets in all.
    pub packets: u64,
    /// Packets whose time has a bound now.
    pub bounded: u64,
    /// Packets that no hand could be used for: they keep the time that they had, without a bound.
    pub kept: u64,
    /// Of these, packets without a count.
    pub uncounted: u64,
    /// Packets for which hands contradicted each other: one of them broke its promise, or is of
    /// another clock. The bound covers all of them.
    pub contradicted: u64,
    /// By recorded hands: packets whose time is not the one that was written, so that the file has
    /// been changed since, and packets of hands that do not stand in it.
    pub differing: u64,
    /// Notes besides, for people.
    pub notes: Vec<String>,
}

/// Largest number of notes that are kept.
const NOTES: usize = 16;

/// Works out times, packet by packet in the order of the file.
#[derive(Debug)]
pub struct Restamper {
    hands: Option<Hands>,
    /// The hand that packets were converted by.
    current: Option<Used>,
    report: Report,
}

impl Restamper {
    /// By the very hands that were used when the packets were captured: gives the same times to the
    /// last bit.
    #[must_use]
    pub fn recorded() -> Restamper {
        Restamper { hands: None, current: None, report: Report::default() }
    }

    /// By all that is known of each packet's time from hands before and after it.
    #[must_use]
    pub fn best(mut hands: Hands) -> Restamper {
        let notes = hands.settle();
        let report = Report { notes, ..Report::default() };
        Restamper { hands: Some(hands), current: None, report }
    }

    /// A change that stands before the next packet. All of them are to be given, in order.
    pub fn change(&mut self, change: &Change) {
        if let Some(hands) = &mut self.hands {
            hands.next();
        }
        if let Some(used) = change.hand {
            self.current = Some(used).filter(|used| hands::sensible(&used.hand).is_ok());
        }
    }

    /// When the packet was stamped.
    pub fn stamp(&mut self, recorded: &Recorded) -> Stamped {
        let stamped = self.work_out(recorded).unwrap_or_else(|| recorded.kept());
        self.report.packets += 1;
        match stamped.quality {
            Quality::Bounded => self.report.bounded += 1,
            _ => self.report.kept += 1,
        }
        self.report.uncounted += u64::from(stamped.counted.is_none());
        stamped
    }

    /// Outcome so far.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn work_out(&mut self, recorded: &Recorded) -> Option<Stamped> {
        // An error below 0 is none of ours.
        let counted = recorded.counted.filter(|counted| counted.error.0 >= 0)?;
        let Some(hands) = &mut self.hands else {
            return self.again(recorded, counted);
        };
        let Some(known) = hands.known(&counted) else {
            if let Some(why) = hands.missing(counted.epoch)
                && self.report.notes.len() < NOTES
                && !self.report.notes.contains(&why)
            {
                self.report.notes.push(why);
            }
            return None;
        };
        self.report.contradicted += u64::from(known.contradicted);
        Some(known.stamped(counted))
    }

    /// Repeats what was done when it was captured.
    fn again(&mut self, recorded: &Recorded, counted: Counted) -> Option<Stamped> {
        if recorded.generation == 0 {
            // Worked out since by hands of no number.
            self.report.differing += u64::from(recorded.quality == Quality::Bounded);
            return None;
        }
        let current = self.current.filter(|used| used.generation == recorded.generation);
        let Some(Used { generation, hand, .. }) = current else {
            self.report.differing += 1;
            return None;
        };
        let (instant, bound, unix_ns) = tell(&hand, counted.count, counted.error);
        self.report.differing += u64::from(unix_ns != recorded.unix_ns);
        Some(Stamped {
            counted: Some(counted),
            unix_ns,
            instant: Some(instant),
            bound: Some(bound),
            quality: Quality::Bounded,
            generation,
        })
    }
}

/// A hand and its number in a clock page; 0 where that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbered {
    hand: Hand,
    generation: u64,
}

impl Numbered {
    /// True if it still, or already, promises something at this count: no farther back than
    /// forward.
    fn holds_at(&self, count: Count) -> bool {
        let reach = self.hand.void_after - self.hand.base;
        (count - self.hand.base).abs() <= reach
    }
}

/// Knowledge of the time at one count.
#[derive(Clone, Copy, Debug)]
struct Known {
    by: Numbered,
    best: Instant,
    /// True time at the very count is not before this ...
    earliest: Instant,
    /// ... nor after this.
    latest: Instant,
    /// Promises exclude each other: all that either leaves open is within the two.
    contradicted: bool,
}

impl Known {
    /// By one hand, whose counts and the packet's may be apart by `extra`.
    fn by((by, extra): (Numbered, Span), count: Count) -> Known {
        let (best, bound) = (by.hand.time_at(count), by.hand.bound_at(count) + extra);
        Known { by, best, earliest: best - bound, latest: best + bound, contradicted: false }
    }

    /// By the hands before and after the count, of which either may be missing; each with what its
    /// counts and the packet's may be apart by.
    fn of(
        before: Option<(Numbered, Span)>,
        after: Option<(Numbered, Span)>,
        count: Count,
    ) -> Option<Known> {
        let usable = |(hand, _): &(Numbered, Span)| hand.holds_at(count);
        let [before, after] =
            [before, after].map(|hand| hand.filter(usable).map(|hand| Known::by(hand, count)));
        let (Some(first), Some(second)) = (before, after) else { return before.or(after) };
        let (since, until) = (count - first.by.hand.base, second.by.hand.base - count);
        let nearer = if since.abs() <= until.abs() { first } else { second };
        let both = nearer.and(&second).and(&first);
        if both.contradicted {
            return Some(both);
        }
        let way = part(second.best - first.best, since, since + until);
        Some(Known { best: (first.best + way).clamp(both.earliest, both.latest), ..both })
    }

    /// With what others say of the same count: where both promises meet, or, as one of them is
    /// broken, all that either leaves open.
    fn and(self, other: &Known) -> Known {
        let (earliest, latest) = (self.earliest.max(other.earliest), self.latest.min(other.latest));
        if self.contradicted || other.contradicted || earliest > latest {
            let (earliest, latest) =
                (self.earliest.min(other.earliest), self.latest.max(other.latest));
            return Known { earliest, latest, contradicted: true, ..self };
        }
        Known { best: self.best.clamp(earliest, latest), earliest, latest, ..self }
    }

    fn stamped(self, counted: Counted) -> Stamped {
        let Known { by: Numbered { hand, generation }, best, earliest, latest, .. } = self;
        let bound = (latest - best).max(best - earliest);
        Stamped {
            counted: Some(counted),
            unix_ns: unix_ns(&hand, best),
            instant: Some(best),
            bound: Some(bound + lasts(&hand, counted.error)),
            quality: Quality::Bounded,
            generation,
        }
    }
}

/// `whole` · `some` / `all`, for 0 ≤ `some` ≤ `all`.
fn part(whole: Span, some: CountSpan, all: CountSpan) -> Span {
    let share = (i128::from(some.0) << 32) / i128::from(all.0.max(1));
    let share = share.clamp(0, 1 << 32);
    match whole.0.checked_mul(share) {
        Some(product) => Span(product >> 32),
        None => Span((whole.0 >> 32).saturating_mul(share)),
    }
}

/// Reason why hands cannot be used.
#[derive(Debug)]
pub enum RestampError {
    /// Refusal: what it is, where, and what to do about it.
    Refused(String),
}

impl fmt::Display for RestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestampError::Refused(why) = self;
        f.write_str(why)
    }
}

impl std::error::Error for RestampError {}
