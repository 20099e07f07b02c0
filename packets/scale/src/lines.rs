//! True time at any stamp of one clock, by servers of which each may be wrong.

use crate::scales::DISORDER;
use crate::{Anchor, Limits, Line, Told};

/// Servers that are told apart; all others count as one.
pub(crate) const SERVERS: usize = 16;

/// Moment at which a server gave an anchor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Heard {
    at: i64,
    server: usize,
    /// Moments up to and with this one at which servers contradict each other.
    clashes: usize,
}

/// A line of each server, and where they contradict each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    heard: Vec<Heard>,
    clashes: usize,
}

impl Lines {
    /// By anchors in any order, each with its server, below [`SERVERS`].
    pub(crate) fn new(anchors: Vec<(usize, Anchor)>, limits: Limits) -> Lines {
        let mut sorted: [Vec<Anchor>; SERVERS] = Default::default();
        let mut heard = Vec::new();
        for (server, anchor) in anchors {
            let server = server.min(SERVERS - 1);
            heard.push(Heard { at: anchor.at, server, clashes: 0 });
            if let Some(those) = sorted.get_mut(server) {
                those.push(anchor);
            }
        }
        heard.sort_unstable();
        let lines = sorted.into_iter().map(|those| Line::new(those, limits)).collect();
        let mut lines = Lines { lines, heard, clashes: 0 };
        let clash: Vec<bool> = lines.heard.iter().map(|heard| lines.clash(heard.at)).collect();
        let (mut count, mut was) = (0, false);
        for (heard, clash) in lines.heard.iter_mut().zip(clash) {
            count += usize::from(clash);
            heard.clashes = count;
            lines.clashes += usize::from(clash && !was);
            was = clash;
        }
        lines
    }

    /// True time at a stamp, by the servers that were heard before and after it, or next to it:
    /// where they agree each of them bounds it, else it is all that any of them leaves open.
    pub(crate) fn at(&self, at: i64) -> Told {
        let told = self.by_speakers(at);
        let all = told.iter().flatten().copied();
        let is_one = all.clone().count() < 2;
        let agreed = all.clone().try_fold(Told::default(), Told::and);
        let agreed = agreed.filter(|agreed| is_one || !(agreed.contradicted || self.near(at)));
        let told = agreed.unwrap_or_else(|| any(all));
        if told.contradicted || told.middle().is_some() {
            return told;
        }
        // Those who were heard elsewhere may have the other side.
        let others = self.lines.iter().filter(|line| line.anchors() > 0);
        others.fold(told, |told, line| told.and(line.at(at)).unwrap_or(told))
    }

    /// Times at which the clock was stepped, or servers are wrong.
    pub(crate) fn breaks(&self) -> usize {
        self.clashes + self.lines.iter().map(Line::breaks).max().unwrap_or(0)
    }

    /// Anchors that it is made of.
    pub(crate) fn anchors(&self) -> usize {
        self.lines.iter().map(Line::anchors).sum()
    }

    /// First and last stamp that an anchor has.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        Some((self.heard.first()?.at, self.heard.last()?.at))
    }

    /// True if servers that were heard around a stamp, or next to it, contradict each other there.
    fn clash(&self, at: i64) -> bool {
        let told = self.by_speakers(at);
        told.iter().flatten().copied().try_fold(Told::default(), Told::and).is_none()
    }

    /// True if they do at any moment near it.
    fn near(&self, at: i64) -> bool {
        let (before, after) = self.next_to(at);
        let count = |index: Option<usize>| {
            index.and_then(|index| self.heard.get(index)).map_or(0, |heard| heard.clashes)
        };
        let last = after.or(self.heard.len().checked_sub(1));
        count(last) > count(before.and_then(|index| index.checked_sub(1)))
    }

    /// Indices of the last moment before a stamp and of the first after it, whatever was set back.
    fn next_to(&self, at: i64) -> (Option<usize>, Option<usize>) {
        let begin = self.heard.partition_point(|heard| heard.at <= at.saturating_sub(DISORDER));
        let end = self.heard.partition_point(|heard| heard.at < at.saturating_add(DISORDER));
        (begin.checked_sub(1), Some(end).filter(|end| *end < self.heard.len()))
    }

    /// True time by each server that was heard before and after a stamp, or next to it.
    fn by_speakers(&self, at: i64) -> [Option<Told>; SERVERS] {
        let (before, after) = self.next_to(at);
        let next = [before, after].map(|index| Some(self.heard.get(index?)?.server));
        let mut told = [None; SERVERS];
        for (server, (line, told)) in self.lines.iter().zip(&mut told).enumerate() {
            let is_around = line.range().is_some_and(|(first, last)| {
                (first.saturating_sub(DISORDER)..=last.saturating_add(DISORDER)).contains(&at)
            });
            if is_around || next.contains(&Some(server)) {
                *told = Some(line.at(at));
            }
        }
        told
    }
}

/// All that any of these leaves open. Those with one side cannot bound it: they only take the bound
/// away, where they contradict the others.
fn any(told: impl Iterator<Item = Told> + Clone) -> Told {
    let has_both = |told: &Told| told.earliest.is_some() && told.latest.is_some();
    let unknown = Told { contradicted: true, ..Told::default() };
    let all = told.clone().filter(has_both).reduce(Told::or).unwrap_or(unknown);
    let all = Told { contradicted: true, ..all };
    let mut rest = told.filter(|told| !has_both(told));
    if rest.all(|one| !one.contradicted && all.and(one).is_some()) { all } else { unknown }
}
