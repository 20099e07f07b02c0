//! Selection among sources by the overlap of their intervals.

use super::{
    ChronyModel, MAX_DISTANCE, REACH, RESELECT_DISTANCE, SCORE_LIMIT, statistics::Interval,
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
            let interval = register.interval(at).filter(|i| fresh && i.distance <= MAX_DISTANCE)?;
            Some(Able { index, interval, trusted: source.trusted })
        };
        let able: Vec<Able> = self.sources.iter().enumerate().filter_map(able).collect();
        let survivors = survivors(&able);
        let required = self.sources.iter().any(|source| source.trusted);
        if survivors.is_empty() || required && !survivors.iter().any(|able| able.trusted) {
            self.selected = None;
            return;
        }
        let selected = self.best(&survivors, updated);
        let has_news = self.sources.get(selected).is_some_and(|source| source.updated);
        if has_news {
            let indices: Vec<usize> = survivors.iter().map(|able| able.index).collect();
            self.follow(selected, &indices);
        }
    }

    /// Which of the survivors is selected: the one that was, unless another has been much nearer
    /// for a while.
    fn best(&mut self, survivors: &[Able], updated: usize) -> usize {
        let current = survivors.iter().find(|able| Some(able.index) == self.selected).copied();
        let mut best = (0.0, 0);
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(able) = survivors.iter().find(|able| able.index == index) else {
                source.score = 1.0;
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
            return current.index;
        }
        self.sources.iter_mut().for_each(|source| source.score = 1.0);
        self.selected = Some(best.1);
        best.1
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
    let (mut trust_low, mut trust_high) = (0.0, 0.0);
    for (at, ends, trust) in edges {
        if !ends {
            depth += 1;
            trusted += usize::from(trust);
            if trusted > best.0 {
                trust_low = at;
            }
            if (trusted, depth) > best {
                (best, low) = ((trusted, depth), at);
            }
        } else {
            if (trusted, depth) == best {
                high = at;
            }
            if trusted == best.0 && trust {
                trust_high = at;
            }
            depth -= 1;
            trusted -= usize::from(trust);
        }
    }
    let all_trusted = able.iter().filter(|one| one.trusted).count();
    let majority =
        if best.0 > 0 { best.0 * 2 > all_trusted } else { best.1 * 2 > able.len() };
    if !majority {
        return Vec::new();
    }
    let fits = |one: &&Able| {
        let inside = best.0 == 0 || one.trusted || one.is_within(trust_low, trust_high);
        (one.reaches(low, high) || one.is_within(low, high)) && inside
    };
    able.iter().filter(fits).copied().collect()
}
