//! Selection among sources by the overlap of their intervals.

use super::{
    ChronyModel, DISTANT, MAX_DISTANCE, MAX_JITTER, REACH, RESELECT_DISTANCE, SCORE_LIMIT,
    statistics::Interval,
};

/// A source that may be selected.
#[derive(Clone, Copy, Debug)]
struct Able {
    index: usize,
    interval: Interval,
    trusted: bool,
}

impl Able {
    fn reaches(&self, low: f64, high: f64) -> bool {
        self.interval.low <= low && self.interval.high >= high
    }

    fn is_within(&self, low: f64, high: f64) -> bool {
        self.interval.low >= low && self.interval.high <= high
    }
}

impl ChronyModel {
    /// Makes up its mind after a sample of `updated` at `at`.
    pub(super) fn select(&mut self, updated: usize, at: f64) {
        let able = |(index, source): (usize, &super::Source)| {
            let register = &source.register;
            let fresh = register.newest().is_some_and(|newest| at - newest <= REACH * self.poll);
            let interval = register.interval(at).filter(|i| {
                fresh && i.distance <= MAX_DISTANCE && register.deviation() <= MAX_JITTER
            })?;
            Some(Able { index, interval, trusted: source.trusted })
        };
        // Until the first is selected, those that have answered are waited for.
        let first = self.sources.iter().filter_map(|s| s.register.oldest()).fold(at, f64::min);
        let waits = self.sources.iter().any(|source| source.register.is_gathering());
        if self.reference.is_none() && waits && at - first < REACH * self.poll {
            return;
        }
        let able: Vec<Able> = self.sources.iter().enumerate().filter_map(able).collect();
        let survivors = survivors(&able);
        let required = self.sources.iter().any(|source| source.trusted);
        if survivors.is_empty() || required && !survivors.iter().any(|able| able.trusted) {
            self.selected = None;
            return;
        }
        let Some(selected) = self.best(&survivors, updated) else { return };
        let has_news = self.sources.get(selected).is_some_and(|source| source.updated);
        if has_news {
            let indices: Vec<usize> = survivors.iter().map(|able| able.index).collect();
            self.follow(selected, &indices);
        }
    }

    /// Which of the survivors is selected: the one that was, unless another has been much nearer
    /// for a while. None if the next one has said nothing new.
    fn best(&mut self, survivors: &[Able], updated: usize) -> Option<usize> {
        let current = survivors.iter().find(|able| Some(able.index) == self.selected).copied();
        let mut best = (0.0, 0);
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(able) = survivors.iter().find(|able| able.index == index) else {
                source.score = 1.0;
                source.distant = DISTANT;
                continue;
            };
            let distance = able.interval.distance + RESELECT_DISTANCE;
            match current {
                Some(current) if index == updated || current.index == updated => {
                    let ratio = current.interval.distance / distance;
                    source.score = (source.score * ratio).max(1.0);
                }
                Some(_) => {}
                None => source.score = 1.0 / distance,
            }
            if source.score > best.0 {
                best = (source.score, index);
            }
        }
        if let Some(current) = current
            && (best.1 == current.index || best.0 <= SCORE_LIMIT)
        {
            return Some(current.index);
        }
        if !self.sources.get(best.1).is_some_and(|source| source.updated) {
            self.selected = None;
            return None;
        }
        for source in &mut self.sources {
            (source.score, source.distant) = (1.0, 0);
        }
        self.selected = Some(best.1);
        self.selected
    }
}

/// Those that a majority agrees with, by the trusted ones where there are some.
fn survivors(able: &[Able]) -> Vec<Able> {
    let mut edges: Vec<(f64, bool, bool)> = Vec::new();
    for one in able {
        edges.push((one.interval.low, false, one.trusted));
        edges.push((one.interval.high, true, one.trusted));
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut depth, mut trusted) = (0usize, 0usize);
    let (mut best, mut low, mut high) = ((0, 0), 0.0, 0.0);
    for (at, ends, trust) in edges {
        if !ends {
            depth += 1;
            trusted += usize::from(trust);
            if (trusted, depth) > best {
                (best, low) = ((trusted, depth), at);
            }
        } else {
            if (trusted, depth) == best {
                high = at;
            }
            depth -= 1;
            trusted -= usize::from(trust);
        }
    }
    let all_trusted = able.iter().filter(|one| one.trusted).count();
    let majority = if best.0 > 0 { best.0 * 2 > all_trusted } else { best.1 * 2 > able.len() };
    if !majority {
        return Vec::new();
    }
    let fits = |one: &&Able| {
        let vouched = best.0 == 0 || one.trusted;
        vouched && one.reaches(low, high) || one.is_within(low, high)
    };
    able.iter().filter(fits).copied().collect()
}
