//! The hands of one counter, from wherever they come.

use std::collections::BTreeMap;
use std::io::BufRead;

use truechimer::{Clock, Span};
use truechimer_time::{BootId, Count, CounterId, Epoch};
use truechimer_timehands::{Hand, Made, Status};

use super::link::{Links, Reference};
use super::log::{self, Said};
use super::{Known, Numbered, RestampError};
use crate::Counted;
use crate::convert::{Change, Identity};

/// So many hands are kept at the most: 250 MB of them.
const MOST: usize = 1 << 20;
/// So many epochs may they be of.
const EPOCHS: usize = 1 << 12;

/// Hands to work out times by, from wherever they come.
#[derive(Debug)]
pub struct Hands {
    counter: Identity,
    /// The first and the last count that times are wanted of.
    first: Count,
    last: Count,
    epochs: BTreeMap<Epoch, Row>,
    /// How many there are in all.
    hands: usize,
    links: Links,
    /// How many changes lie before the next packet.
    passed: usize,
}

/// The hands of one epoch.
#[derive(Debug, Default)]
struct Row {
    /// The newest from before the first count, the oldest from after the last one.
    outer: [Option<Numbered>; 2],
    /// Those between, in the end all of them, in the order of their bases.
    hands: Vec<Numbered>,
    /// How many of them are not after the count that was asked for last.
    place: usize,
}

impl Hands {
    /// None yet, for packets whose counts are of this counter and lie from `first` to `last`. Of
    /// hands that were made before or after that only the nearest is kept.
    #[must_use]
    pub fn new(counter: Identity, first: Count, last: Count) -> Hands {
        let (epochs, links) = (BTreeMap::new(), Links::new(counter.period));
        Hands { counter, first, last, epochs, hands: 0, links, passed: 0 }
    }

    /// What stands in the capture itself. All changes are to be given, in the order of the file.
    pub fn recorded(&mut self, change: &Change) {
        self.links.recorded(&change.continuity);
        // One that makes no sense is no use; the packets keep their times.
        if let Some(used) = &change.hand
            && self.is_ours(&used.hand)
        {
            let _ = self.add(&used.hand, used.generation);
            self.made(&used.hand, &used.made);
        }
    }

    /// Those in a daemon's replay log, called `name` in errors. Returns how many of them are of this
    /// counter.
    ///
    /// # Errors
    /// If it is no such log, or none of its hands are of this counter and boot.
    pub fn log(&mut self, log: impl BufRead, name: &str) -> Result<u64, RestampError> {
        let refused = |why: String| RestampError::Refused(format!("{name}: {why}"));
        let (mut ours, mut others) = (0, None);
        // The epoch of the newest hand, and what the clocks said since: of the same epoch unless the
        // next hand is of another. Then it may be what showed the break.
        let (mut epoch, mut pending) = (None, None);
        log::read(log, &mut |said| {
            match said {
                Said::Hand(hand) if self.is_ours(&hand) => {
                    ours += 1;
                    let new = hand.counter.epoch;
                    if epoch.replace(new) != Some(new) {
                        pending = None;
                    }
                    self.add(&hand, 0)?;
                }
                Said::Hand(hand) => others = Some(hand.counter),
                Said::Check(check) => {
                    if let (Some(epoch), Some(check)) = (epoch, pending.replace(check)) {
                        self.links.reference(epoch, check, self.first, self.last);
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
        self.add(&view.hand, view.generation).map_err(refused)?;
        self.made(&view.hand, &view.made);
        Ok(())
    }

    /// How many hands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hands
    }

    /// Whether there is none.
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

    /// Keeps a hand that promises something.
    fn add(&mut self, hand: &Hand, generation: u64) -> Result<(), String> {
        sensible(hand)?;
        if !hand.status.bound_holds() {
            return Ok(());
        }
        if self.hands >= MOST {
            return Err(format!(
                "more than {MOST} hands within the time of the capture: cut the capture in parts"
            ));
        }
        let epoch = hand.counter.epoch;
        if !self.epochs.contains_key(&epoch) && self.epochs.len() >= EPOCHS {
            return Err(format!("hands of more than {EPOCHS} epochs: that is no counter"));
        }
        let row = self.epochs.entry(epoch).or_default();
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
            return Ok(());
        };
        if nearer {
            self.hands += usize::from(place.replace(new).is_none());
        }
        Ok(())
    }

    fn made(&mut self, hand: &Hand, made: &Made) {
        let Made { count, raw_ns, suspended_ns, .. } = *made;
        let reference = Reference { count, raw_ns, suspended_ns, width: Default::default() };
        self.links.reference(hand.counter.epoch, reference, self.first, self.last);
    }

    /// Puts everything in order, and returns what is to be said.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let first = self.first;
        for row in self.epochs.values_mut() {
            row.hands.extend(row.outer.iter_mut().filter_map(Option::take));
            row.hands.sort_by_key(|known| (known.hand.base - first).0);
        }
        self.links.settle()
    }

    /// Another change lies before the next packet.
    pub(super) fn next(&mut self) {
        self.passed += 1;
    }

    /// What is known of the time at a packet's count.
    pub(super) fn known(&mut self, counted: &Counted) -> Option<Known> {
        let (epoch, extra) = match counted.epoch {
            Epoch(0) => self.links.epoch(self.passed)?,
            epoch => (epoch, Span::ZERO),
        };
        let row = self.epochs.get_mut(&epoch)?;
        let (before, after) = row.around(counted.count, self.first);
        Known::of(before, after, counted.count, extra)
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

/// Whether what a hand says can be: all that is worked out from it relies on that.
fn sensible(hand: &Hand) -> Result<(), String> {
    let fields = [
        ("path_bound", hand.path_bound.0 < 0),
        ("statistical_bound", hand.statistical_bound.0 < 0),
        ("growth", hand.growth.0 < 0),
        ("difference_error", hand.difference_error.0 < 0),
        ("void_after", (hand.void_after - hand.base).0 < 0),
    ];
    match fields.iter().find(|(_, wrong)| *wrong) {
        Some((field, _)) => Err(format!("a hand's {field} is below 0, which no daemon writes")),
        None => Ok(()),
    }
}

/// A boot's name as the kernel writes it.
fn name(boot: BootId) -> String {
    let digits: String = boot.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
