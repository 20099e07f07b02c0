//! Account of a span of time: how much of it was known how well.

use std::collections::BTreeMap;

use crate::Time;
use crate::line::{Event, Interval, Kind, Line, SourceState, Sources};

/// A stretch of time with one bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Begin.
    pub from: Time,
    /// End, later than the begin.
    pub to: Time,
    /// The worst bound within it, ns; none: no bound held.
    pub bound_ns: Option<u64>,
    /// Index of its status in [`Account::words`].
    status: usize,
    /// Index of the selected source in [`Account::words`].
    source: Option<usize>,
    /// Root distance of that source, ns.
    root_distance_ns: Option<u64>,
}

/// A stretch of which the record says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Begin.
    pub from: Time,
    /// End.
    pub to: Time,
}

/// Time during which the bound was at most a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Limit, ns.
    pub limit_ns: u64,
    /// Time, ns.
    pub within_ns: i64,
}

/// A source as it was seen in a span of time, while its address, stratum and reference were the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Name as configured.
    pub name: String,
    /// Address.
    pub address: Option<String>,
    /// Stratum.
    pub stratum: Option<u8>,
    /// Reference identifier.
    pub reference: Option<String>,
    /// Time at which it was first seen so.
    pub first: Time,
    /// Time until which it was so: another list came, or nobody looked any more.
    pub last: Time,
    /// Time during which it was so, ns: it may have been otherwise in between.
    pub time_ns: i64,
    /// The largest root distance that was seen, ns.
    pub root_distance_ns: Option<u64>,
    /// Statuses that it had, in words.
    pub statuses: Vec<String>,
}

/// Account of a span of time. Lines come in by [`Account::take`], in the order of the record.
#[derive(Clone, Debug)]
pub struct Account {
    /// Begin of the span.
    pub from: Time,
    /// End of the span.
    pub to: Time,
    /// Begin of the record.
    pub begins: Option<Time>,
    /// Time of its last line.
    pub ends: Option<Time>,
    /// End of its last interval.
    pub covers: Option<Time>,
    /// True if its last word is that the daemon ended.
    pub is_ended: bool,
    pieces: Vec<Piece>,
    words: Vec<String>,
    events: Vec<Event>,
    sources: Vec<Sources>,
    /// The last list of sources from before the span: they are so when it begins.
    inherited: Option<Sources>,
}

impl Account {
    /// An account from one time, 1970 at the earliest, to another, without any line yet.
    #[must_use]
    pub fn new(from: Time, to: Time) -> Account {
        Account {
            // So that all lengths within the span add up to what an i64 holds.
            from: from.max(Time(0)),
            to,
            begins: None,
            ends: None,
            covers: None,
            is_ended: false,
            pieces: Vec::new(),
            words: Vec::new(),
            events: Vec::new(),
            sources: Vec::new(),
            inherited: None,
        }
    }

    /// Takes the next line of the record.
    pub fn take(&mut self, line: Line) {
        match line {
            Line::Record(_) => {}
            Line::Interval(interval) => self.interval(interval),
            Line::Sources(sources) if sources.at < self.from => self.inherited = Some(sources),
            Line::Sources(sources) if sources.at <= self.to => self.sources.push(sources),
            Line::Sources(_) => {}
            Line::Event(event) => {
                self.seen(event.at, event.at);
                self.is_ended = event.kind == Kind::Stop;
                if event.at >= self.from && event.at <= self.to {
                    self.events.push(event);
                }
            }
        }
    }

    fn seen(&mut self, from: Time, to: Time) {
        self.begins = Some(self.begins.map_or(from, |begins| begins.min(from)));
        self.ends = Some(self.ends.map_or(to, |ends| ends.max(to)));
    }

    fn interval(&mut self, interval: Interval) {
        let from = Time(interval.to.0.saturating_sub(interval.for_ns));
        if from >= interval.to {
            return;
        }
        self.seen(from, interval.to);
        self.covers = Some(interval.to);
        let status = self.word(interval.status);
        let source = interval.source.map(|source| self.word(source));
        // What comes later is the better word on the time that both speak of.
        while let Some(last) = self.pieces.last_mut() {
            if last.to <= from {
                break;
            }
            last.to = from;
            if last.from < last.to {
                break;
            }
            self.pieces.pop();
        }
        self.pieces.push(Piece {
            from,
            to: interval.to,
            bound_ns: interval.bound_ns,
            status,
            source,
            root_distance_ns: interval.root_distance_ns,
        });
    }

    /// Index of a word.
    fn word(&mut self, word: String) -> usize {
        let known = self.words.iter().position(|known| *known == word);
        known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        })
    }

    /// Length of the span, ns.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0).max(0)
    }

    /// The stretches within the span, in order and without overlap.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.iter().filter_map(|piece| {
            let (from, to) = (piece.from.max(self.from), piece.to.min(self.to));
            (from < to).then_some(Piece { from, to, ..*piece })
        })
    }

    /// Status during a stretch.
    #[must_use]
    pub fn status(&self, piece: &Piece) -> &str {
        self.words.get(piece.status).map_or("unknown", String::as_str)
    }

    /// Selected source during a stretch.
    #[must_use]
    pub fn source(&self, piece: &Piece) -> Option<&str> {
        self.words.get(piece.source?).map(String::as_str)
    }

    /// Stretches of the span of which the record says nothing.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        let (mut gaps, mut at) = (Vec::new(), self.from);
        for piece in self.pieces() {
            if piece.from > at {
                gaps.push(Gap { from: at, to: piece.from });
            }
            at = piece.to;
        }
        if at < self.to {
            gaps.push(Gap { from: at, to: self.to });
        }
        gaps
    }

    /// Time that the record covers, ns.
    #[must_use]
    pub fn recorded_ns(&self) -> i64 {
        self.pieces().map(|piece| piece.length_ns()).sum()
    }

    /// Time during which a bound held, ns.
    #[must_use]
    pub fn bounded_ns(&self) -> i64 {
        self.pieces().filter(|p| p.bound_ns.is_some()).map(|p| p.length_ns()).sum()
    }

    /// Time during which the bound was at most each of these limits, ns. A stretch counts only if its
    /// worst bound was.
    #[must_use]
    pub fn shares(&self, limits_ns: &[u64]) -> Vec<Share> {
        let within = |limit: u64| {
            let good = self.pieces().filter(|p| p.bound_ns.is_some_and(|bound| bound <= limit));
            good.map(|piece| piece.length_ns()).sum()
        };
        limits_ns.iter().map(|&limit_ns| Share { limit_ns, within_ns: within(limit_ns) }).collect()
    }

    /// Time by status, ns.
    #[must_use]
    pub fn by_status(&self) -> BTreeMap<&str, i64> {
        let mut times = BTreeMap::new();
        for piece in self.pieces() {
            *times.entry(self.status(&piece)).or_default() += piece.length_ns();
        }
        times
    }

    /// Time during which each source was selected, ns, and the largest root distance then.
    #[must_use]
    pub fn by_source(&self) -> BTreeMap<&str, (i64, Option<u64>)> {
        let mut times: BTreeMap<&str, (i64, Option<u64>)> = BTreeMap::new();
        for piece in self.pieces() {
            if let Some(source) = self.source(&piece) {
                let entry = times.entry(source).or_default();
                entry.0 += piece.length_ns();
                entry.1 = entry.1.max(piece.root_distance_ns);
            }
        }
        times
    }

    /// The stretch with the largest bound.
    #[must_use]
    pub fn worst(&self) -> Option<Piece> {
        self.pieces().filter(|p| p.bound_ns.is_some()).max_by_key(|p| (p.bound_ns, -p.from.0))
    }

    /// The bound that held or was better for this share of the time with a bound, in percent, ns.
    #[must_use]
    pub fn percentile_ns(&self, percent: u8) -> Option<u64> {
        let mut bounds: Vec<(u64, i64)> =
            self.pieces().filter_map(|p| Some((p.bound_ns?, p.length_ns()))).collect();
        bounds.sort_unstable();
        let all: i128 = bounds.iter().map(|(_, length)| i128::from(*length)).sum();
        let mut below = 0i128;
        bounds.into_iter().find_map(|(bound, length)| {
            below += i128::from(length);
            (below * 100 >= all * i128::from(percent)).then_some(bound)
        })
    }

    /// Everything that happened in the span, in the order of the record.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The sources, each as often as what it said of its own source changed.
    #[must_use]
    pub fn sources(&self) -> Vec<Seen> {
        let mut all: Vec<Seen> = Vec::new();
        let inherited = self.inherited.iter().map(|sources| (self.from, &sources.list));
        let lists = inherited.chain(self.sources.iter().map(|s| (s.at, &s.list)));
        let lists: Vec<_> = lists.collect();
        let gaps = self.gaps();
        for (n, (at, list)) in lists.iter().enumerate() {
            // They were so until the next list, or until nobody looked any more.
            let next = lists.get(n + 1).map_or(self.to, |(next, _)| *next);
            let gap = gaps.iter().find(|gap| gap.to > *at).map_or(self.to, |gap| gap.from);
            let until = next.min(gap).max(*at);
            for state in *list {
                // A daemon that has just started knows nothing of it as yet: that is no other source.
                let is_blank = state.is_blank();
                let same = |seen: &&mut Seen| {
                    seen.name == state.name
                        && (is_blank
                            || (seen.address == state.address)
                                && (seen.stratum, &seen.reference)
                                    == (state.stratum, &state.reference))
                };
                match all.iter_mut().filter(same).max_by_key(|seen| seen.last) {
                    Some(seen) => seen.again(*at, until, state),
                    None => all.push(Seen::first(*at, until, state)),
                }
            }
        }
        all.sort_by(|a, b| (&a.name, a.first).cmp(&(&b.name, b.first)));
        all
    }
}

impl SourceState {
    /// True if nothing is known of it but its name.
    fn is_blank(&self) -> bool {
        self.address.is_none() && self.stratum.is_none() && self.reference.is_none()
    }
}

impl Piece {
    /// Length, ns, > 0.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

impl Gap {
    /// Length, ns, > 0.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

impl Seen {
    fn first(at: Time, until: Time, state: &SourceState) -> Seen {
        Seen {
            name: state.name.clone(),
            address: state.address.clone(),
            stratum: state.stratum,
            reference: state.reference.clone(),
            first: at,
            last: until,
            time_ns: until.0.saturating_sub(at.0),
            root_distance_ns: state.root_distance_ns,
            statuses: vec![state.status.clone()],
        }
    }

    fn again(&mut self, at: Time, until: Time, state: &SourceState) {
        self.first = self.first.min(at);
        self.last = self.last.max(until);
        self.time_ns = self.time_ns.saturating_add(until.0.saturating_sub(at.0));
        self.root_distance_ns = self.root_distance_ns.max(state.root_distance_ns);
        if !self.statuses.contains(&state.status) {
            self.statuses.push(state.status.clone());
        }
    }
}
