//! The hands of one counter, from wherever they come.

use std::io::BufRead;

use truechimer::Clock;
use truechimer_time::{BootId, Count, CountSpan, CounterId, Epoch, Span};
use truechimer_timehands::{Hand, Made, Status};

use super::link::{Captured, Link, Reference, References};
use super::log::{self, Said};
use super::{Known, Numbered, RestampError};
use crate::Counted;
use crate::convert::{Change, Identity};

/// Largest number of hands that are kept: 250 MB of them.
const MOST: usize = 1 << 20;
/// Largest number of epochs that they may be of.
const EPOCHS: usize = 1 << 8;

/// Hands to work out times by, from wherever they come.
#[derive(Debug)]
pub struct Hands {
    counter: Identity,
    /// The first and the last count that times are wanted of.
    first: Count,
    last: Count,
    rows: Vec<Row>,
    /// Number of hands in all, and of sources.
    hands: usize,
    sources: usize,
    captured: Captured,
    /// The sources that the capture itself is, each from so many changes on: another one after each
    /// break of the counter.
    own: Vec<(usize, usize)>,
    /// Number of changes before the next packet.
    passed: usize,
    matching: Option<Matching>,
}

/// The rows that packets go with which lie between the same changes and are of the same epoch.
#[derive(Debug)]
struct Matching {
    passed: usize,
    epoch: Epoch,
    /// Each with what it adds to the bound.
    rows: Vec<(usize, Span)>,
}

/// A hand with what it adds to the bound.
type Beside = (Numbered, Span);

/// The one of two hands on the same side of a count that is nearer to it; of equals the first.
fn nearer(one: Option<Beside>, other: Option<Beside>, count: Count) -> Option<Beside> {
    let far = |hand: &Beside| (hand.0.hand.base - count).abs();
    match (one, other) {
        (Some(one), Some(other)) => Some(if far(&other) < far(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// The hands of one epoch, from one source: daemons that know nothing of each other may count
/// epochs alike.
#[derive(Debug, Default)]
struct Row {
    source: usize,
    epoch: Epoch,
    /// The newest from before the first count, the oldest from after the last one.
    outer: [Option<Numbered>; 2],
    /// Those between, in the end all of them, in the order of their bases.
    hands: Vec<Numbered>,
    /// Number of those that are not after the count that was asked for last.
    place: usize,
    /// Readings of the host's clocks.
    references: References,
}

impl Hands {
    /// None yet, for packets whose counts are of this counter and lie from `first` to `last`. Of
    /// hands that were made before or after that only the nearest is kept.
    #[must_use]
    pub fn new(counter: Identity, first: Count, last: Count) -> Hands {
        Hands {
            counter,
            first,
            last,
            rows: Vec::new(),
            hands: 0,
            sources: 1,
            captured: Captured::new(counter.period),
            own: vec![(0, 0)],
            passed: 0,
            matching: None,
        }
    }

    /// Adds what stands in the capture itself. All changes are to be given, in the order of the
    /// file.
    pub fn recorded(&mut self, change: &Change) {
        if let Some(changes) = self.captured.add(&change.continuity) {
            let source = self.another_source();
            self.own.push((changes, source));
        }
        let source = self.own.last().map_or(0, |(_, source)| *source);
        // One that makes no sense is no use; the packets keep their times.
        if let Some(used) = &change.hand
            && self.is_ours(&used.hand)
            && let Ok(row) = self.add(source, &used.hand, used.generation)
        {
            self.refer(row, (&used.made).into());
        }
    }

    /// Those in a daemon's replay log, called `name` in errors. Returns how many of them are of
    /// this counter.
    ///
    /// # Errors
    /// If it is no such log, or none of its hands are of this counter and boot.
    pub fn log(&mut self, log: impl BufRead, name: &str) -> Result<u64, RestampError> {
        let refused = |why: String| RestampError::Refused(format!("{name}: {why}"));
        let source = self.another_source();
        let (mut ours, mut others) = (0, None);
        // The row of the newest hand, and what the clocks said since: of the same epoch unless the
        // next hand is of another. Then it may be what showed the break.
        let (mut row, mut pending) = (None, None);
        log::read(log, &mut |said| {
            match said {
                Said::Hand(hand) if self.is_ours(&hand) => {
                    ours += 1;
                    let new = self.add(source, &hand, 0)?;
                    if row.replace(new) != Some(new) {
                        pending = None;
                    }
                }
                Said::Hand(hand) => others = Some(hand.counter),
                Said::Check(check) => {
                    if let (Some(row), Some(check)) = (row, pending.replace(check)) {
                        self.refer(row, check);
                    }
                }
            }
            Ok(())
        })
        .map_err(refused)?;
        match (ours, others) {
            (0, Some(other)) => Err(refused(self.foreign(&other))),
            (0, None) => Err(refused("there are no hands in it".to_owned())),
            (ours, _) => Ok(ours),
        }
    }

    /// The present one.
    ///
    /// # Errors
    /// If there is none, it promises nothing, or it is of another counter or boot.
    pub fn page(&mut self, clock: &Clock) -> Result<(), RestampError> {
        let refused = |why: String| {
            RestampError::Refused(format!("{}: {why}", clock.page().path().display()))
        };
        let view = clock.view().map_err(|why| refused(why.to_string()))?;
        if !self.is_ours(&view.hand) {
            return Err(refused(self.foreign(&view.hand.counter)));
        }
        if view.status == Status::Disrupted || !view.hand.status.bound_holds() {
            let why = format!("the clock is {}: wait until it has synchronised", view.status);
            return Err(refused(why));
        }
        let source = self.another_source();
        let row = self.add(source, &view.hand, view.generation).map_err(refused)?;
        self.refer(row, (&view.made).into());
        Ok(())
    }

    fn another_source(&mut self) -> usize {
        self.sources += 1;
        self.sources - 1
    }

    /// Number of hands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hands
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hands == 0
    }

    fn is_ours(&self, hand: &Hand) -> bool {
        let CounterId { kind, boot, .. } = hand.counter;
        (kind, boot) == (self.counter.kind, self.counter.boot)
    }

    fn foreign(&self, other: &CounterId) -> String {
        let Identity { kind, boot, .. } = self.counter;
        if other.boot != boot {
            return format!(
                "its hands are of boot {}, the packets were captured in boot {}: it takes those of \
                 the daemon that ran then, on that machine",
                name(other.boot),
                name(boot)
            );
        }
        format!(
            "its hands are of the counter '{}', the packets were counted by '{kind}': capture while \
             the daemon runs, and its counter is used",
            other.kind
        )
    }

    /// Keeps a hand that promises something. Returns its row.
    fn add(&mut self, source: usize, hand: &Hand, generation: u64) -> Result<usize, String> {
        sensible(hand)?;
        let epoch = hand.counter.epoch;
        // It is nearly always the last one.
        let known = self.rows.iter().rposition(|row| (row.source, row.epoch) == (source, epoch));
        let at = match known {
            Some(at) => at,
            None if self.rows.len() >= EPOCHS => {
                return Err(format!("hands of more than {EPOCHS} epochs: that is no counter"));
            }
            None => {
                self.rows.push(Row { source, epoch, ..Row::default() });
                self.rows.len() - 1
            }
        };
        let Some(row) = self.rows.get_mut(at) else { return Ok(at) };
        if !hand.status.bound_holds() {
            return Ok(at);
        }
        if self.hands >= MOST {
            return Err(format!(
                "more than {MOST} hands within the time of the capture: cut the capture in parts"
            ));
        }
        let new = Numbered { hand: *hand, generation };
        let [before, after] = &mut row.outer;
        let (place, nearer) = if !hand.base.at_or_after(self.first) {
            let nearer = before.is_none_or(|known| hand.base.at_or_after(known.hand.base));
            (before, nearer)
        } else if !self.last.at_or_after(hand.base) {
            let nearer = after.is_none_or(|known| known.hand.base.at_or_after(hand.base));
            (after, nearer)
        } else {
            self.hands += 1;
            row.hands.push(new);
            return Ok(at);
        };
        if nearer {
            self.hands += usize::from(place.replace(new).is_none());
        }
        Ok(at)
    }

    fn refer(&mut self, row: usize, reference: Reference) {
        if let Some(row) = self.rows.get_mut(row) {
            row.references.add(reference, self.first, self.last);
        }
    }

    /// Puts everything in order, and returns what is to be said.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let first = self.first;
        for row in &mut self.rows {
            row.hands.extend(row.outer.iter_mut().filter_map(Option::take));
            row.hands.sort_by_key(|known| (known.hand.base - first).0);
            row.references.settle(first);
        }
        self.captured.settle().into_iter().collect()
    }

    /// Another change lies before the next packet.
    pub(super) fn next(&mut self) {
        self.passed += 1;
    }

    /// Works out the time at a packet's count.
    pub(super) fn known(&mut self, counted: &Counted) -> Option<Known> {
        let (passed, epoch) = (self.passed, counted.epoch);
        let same = |known: &Matching| (known.passed, known.epoch) == (passed, epoch);
        if !self.matching.as_ref().is_some_and(same) {
            self.matching = Some(Matching { passed, epoch, rows: self.matching(epoch) });
        }
        let rows = &self.matching.as_ref()?.rows;
        let mut sides: [Option<Beside>; 2] = [None; 2];
        let mut each: Option<Known> = None;
        for (at, extra) in rows {
            let Some(row) = self.rows.get_mut(*at) else { continue };
            let (before, after) = row.around(counted.count, self.first);
            let own = [before, after].map(|hand| hand.map(|hand| (*hand, *extra)));
            let known = Known::of(own[0], own[1], counted.count);
            each = match (each, known) {
                (Some(each), Some(known)) => Some(each.and(&known)),
                (each, known) => each.or(known),
            };
            for (side, own) in sides.iter_mut().zip(own) {
                *side = nearer(*side, own, counted.count);
            }
        }
        if rows.len() == 1 {
            return each;
        }
        // The nearest of all tell the time, and each source has its say.
        let nearest = Known::of(sides[0], sides[1], counted.count)?;
        Some(each.map_or(nearest, |each| nearest.and(&each)))
    }

    /// Reason why there are no hands for packets of this epoch here, if there are none.
    pub(super) fn missing(&self, epoch: Epoch) -> Option<String> {
        let none = self.matching.as_ref().is_none_or(|known| known.rows.is_empty());
        let of = || self.rows.iter().any(|row| row.epoch == epoch);
        let why = match epoch {
            _ if !none => return None,
            Counted::NO_EPOCH => {
                "some packets were counted without a clock, and nothing shows that the counter ran \
                 on from them to any of the hands"
            }
            _ if of() => {
                "some packets are of an epoch that the hands are of by name, but the counter lost \
                 its continuity between them: those are of another daemon"
            }
            _ => "some packets are of an epoch that none of the hands is of",
        };
        Some(match epoch {
            Counted::NO_EPOCH => why.to_owned(),
            Epoch(number) => format!("{why} ({number})"),
        })
    }

    /// The rows that packets of this epoch go with at this place.
    fn matching(&self, epoch: Epoch) -> Vec<(usize, Span)> {
        let mut found: Vec<(usize, Span)> = Vec::new();
        let own = self.own.partition_point(|(changes, _)| *changes < self.passed.max(1));
        let own = own.checked_sub(1).and_then(|at| self.own.get(at)).map(|(_, source)| *source);
        for (at, row) in self.rows.iter().enumerate() {
            let known = epoch != Counted::NO_EPOCH;
            if known && row.epoch != epoch {
                continue;
            }
            if known && Some(row.source) == own {
                found.push((at, Span::ZERO));
                continue;
            }
            let link = self.captured.link(self.passed, &row.references);
            match (known, link) {
                (true, Link::Joined(_) | Link::Open) => found.push((at, Span::ZERO)),
                (false, Link::Joined(apart)) => {
                    // Of two epochs of one clock it can only be one.
                    let of = |at: usize| self.rows.get(at).map(|row| row.source);
                    match found.iter_mut().find(|(other, _)| of(*other) == Some(row.source)) {
                        Some(other) if apart < other.1 => *other = (at, apart),
                        Some(_) => {}
                        None => found.push((at, apart)),
                    }
                }
                _ => {}
            }
        }
        found
    }
}

impl Row {
    /// The hands before and after this count.
    fn around(&mut self, count: Count, first: Count) -> (Option<&Numbered>, Option<&Numbered>) {
        let place = (count - first).0;
        let base = |known: &Numbered| (known.hand.base - first).0;
        let before = |at: usize| at.checked_sub(1).and_then(|at| self.hands.get(at));
        let right = before(self.place).is_none_or(|known| base(known) <= place)
            && self.hands.get(self.place).is_none_or(|known| base(known) > place);
        if !right {
            self.place = self.hands.partition_point(|known| base(known) <= place);
        }
        let before = self.place.checked_sub(1).and_then(|at| self.hands.get(at));
        (before, self.hands.get(self.place))
    }
}

/// Checks that what a hand says can be: all that is worked out from it relies on that.
pub(super) fn sensible(hand: &Hand) -> Result<(), String> {
    let fields = [
        ("path_bound", hand.path_bound.0 < 0),
        ("statistical_bound", hand.statistical_bound.0 < 0),
        ("disputed", hand.disputed.0 < 0),
        ("growth", hand.growth.0 < 0),
        ("difference_error", hand.difference_error.0 < 0),
        ("void_after", (hand.void_after - hand.base).0 < 0),
    ];
    match fields.iter().find(|(_, wrong)| *wrong) {
        Some((field, _)) => Err(format!("a hand's {field} is below 0, which no daemon writes")),
        None => Ok(()),
    }
}

impl From<&Made> for Reference {
    fn from(made: &Made) -> Reference {
        let Made { count, raw_ns, suspended_ns, .. } = *made;
        Reference { count, raw_ns, suspended_ns, width: CountSpan::ZERO }
    }
}

/// A boot's name as the kernel writes it.
fn name(boot: BootId) -> String {
    let digits: String = boot.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
