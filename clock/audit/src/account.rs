//! Account of a span of time: how much of it was known how well.

use std::collections::BTreeMap;

use crate::line::{Event, Interval, Kind, Line, SourceState, Sources};
use crate::{Fault, Time};

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
    /// Lines between the stretch before and this one do not fit the chain.
    follows_fault: bool,
}

/// A stretch of which the record says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Begin.
    pub from: Time,
    /// End.
    pub to: Time,
    /// True if lines there do not fit the chain, and are left out: what they said is not to be known.
    pub is_broken: bool,
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
    /// Statuses that it had, and for how long.
    pub statuses: Vec<StatusTime>,
}

/// Time during which a source had a status, for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusTime {
    /// Status, in one word.
    pub status: String,
    /// Reason for it, in one word, if the record says any.
    pub reason: Option<String>,
    /// Time, ns.
    pub time_ns: i64,
}

/// Stretch of time during which a source was the same, its root distance apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Begin.
    pub from: Time,
    /// End, the begin at the earliest.
    pub to: Time,
    /// The source, with the largest root distance that was seen.
    pub state: SourceState,
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
    /// Begin of the interval that is in the record when it is over: the end of the last one, or the last start.
    /// None if the daemon has ended since.
    pub open: Option<Time>,
    /// Length of an interval, ns, as the last start has it.
    pub interval_ns: Option<u64>,
    /// Time of the last line.
    pub last: Option<Time>,
    /// The longest interval, ns.
    pub longest_ns: i64,
    /// End of the part of the span that is judged: all shares and lists are of that.
    judged: Time,
    /// Lines since the last interval do not fit the chain.
    is_broken: bool,
    pieces: Vec<Piece>,
    words: Vec<String>,
    /// Index of each of them.
    known: BTreeMap<String, usize>,
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
            open: None,
            interval_ns: None,
            last: None,
            longest_ns: 0,
            judged: to,
            is_broken: false,
            pieces: Vec::new(),
            words: Vec::new(),
            known: BTreeMap::new(),
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
                self.last = Some(event.at);
                match event.kind {
                    Kind::Start => {
                        (self.open, self.interval_ns) = (Some(event.at), event.interval_ns);
                    }
                    Kind::Stop => self.open = None,
                    // Perhaps the start of another daemon, which has intervals of another length.
                    Kind::Lost => self.interval_ns = None,
                    _ => {}
                }
                if event.at >= self.from && event.at <= self.to {
                    self.events.push(event);
                }
            }
        }
    }

    /// Takes what comes next in the record: a line, or a place where lines do not fit the chain.
    pub fn read(&mut self, next: Result<Line, &Fault>) {
        match next {
            Ok(line) => self.take(line),
            // Time before the first line has no record, whole or not.
            Err(_) => self.is_broken = self.begins.is_some(),
        }
    }

    /// Judges no more of the span than up to `end`: what comes later cannot be known yet.
    pub fn judge(&mut self, end: Time) {
        self.judged = end.min(self.to).max(self.from);
        // Of what was before a daemon that did not run has learnt afterwards.
        self.events.sort_by_key(|event| event.at);
    }

    /// End of the part of the span that is judged.
    #[must_use]
    pub fn judged(&self) -> Time {
        self.judged
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
        (self.open, self.last) = (Some(interval.to), Some(interval.to));
        self.longest_ns = self.longest_ns.max(interval.for_ns);
        let mut follows_fault = std::mem::take(&mut self.is_broken);
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
            follows_fault |= last.follows_fault;
            self.pieces.pop();
        }
        self.pieces.push(Piece {
            from,
            to: interval.to,
            bound_ns: interval.bound_ns,
            status,
            source,
            root_distance_ns: interval.root_distance_ns,
            follows_fault,
        });
    }

    /// Index of a word.
    fn word(&mut self, word: String) -> usize {
        if let Some(known) = self.known.get(&word) {
            return *known;
        }
        let new = self.words.len();
        self.words.push(word.clone());
        self.known.insert(word, new);
        new
    }

    /// Length of the span, ns.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0).max(0)
    }

    /// Length of the part of it that is judged, ns.
    #[must_use]
    pub fn judged_ns(&self) -> i64 {
        self.judged.0.saturating_sub(self.from.0).max(0)
    }

    /// The stretches within what is judged of the span, in order and without overlap.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.iter().filter_map(|piece| {
            let (from, to) = (piece.from.max(self.from), piece.to.min(self.judged));
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

    /// Stretches of what is judged of which the record says nothing that fits.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        let (mut gaps, mut at) = (Vec::new(), self.from);
        for piece in self.pieces() {
            if piece.from > at {
                gaps.push(Gap { from: at, to: piece.from, is_broken: piece.follows_fault });
            }
            at = piece.to;
        }
        if at < self.judged {
            // The next stretch, if there is one, begins later.
            let next = self.pieces.iter().find(|piece| piece.to > self.judged);
            let is_broken = next.map_or(self.is_broken, |piece| piece.follows_fault);
            gaps.push(Gap { from: at, to: self.judged, is_broken });
        }
        gaps
    }

    /// Time within it of which lines do not fit the chain, ns.
    #[must_use]
    pub fn broken_ns(&self) -> i64 {
        self.gaps().iter().filter(|gap| gap.is_broken).map(Gap::length_ns).sum()
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

    /// Everything that happened in the span, in the order of the record, or of time once it is judged.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Stretches of all sources, in the order in which these begin.
    #[must_use]
    pub fn stretches(&self) -> Vec<Stretch> {
        let inherited = self.inherited.iter().map(|sources| (self.from, &sources.list));
        let lists = self.sources.iter().filter(|sources| sources.at <= self.judged);
        let lists: Vec<_> = inherited.chain(lists.map(|s| (s.at, &s.list))).collect();
        let gaps = self.gaps();
        let mut all: Vec<Stretch> = Vec::new();
        // Where the last one of each source is.
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (n, (at, list)) in lists.iter().enumerate() {
            // They were so until the next list, or until nobody looked any more.
            let next = lists.get(n + 1).map_or(self.judged, |(next, _)| *next);
            let gap = gaps.get(gaps.partition_point(|gap| gap.to <= *at));
            let gap = gap.map_or(self.judged, |gap| gap.from);
            let to = next.min(gap).max(*at);
            for state in *list {
                let before = last.get(state.name.as_str()).and_then(|n| all.get_mut(*n));
                match before.filter(|before| before.to == *at && before.state.is_same(state)) {
                    Some(before) => {
                        let distance = &mut before.state.root_distance_ns;
                        *distance = (*distance).max(state.root_distance_ns);
                        before.to = to;
                    }
                    None => {
                        last.insert(&state.name, all.len());
                        all.push(Stretch { from: *at, to, state: state.clone() });
                    }
                }
            }
        }
        all
    }

    /// The sources, each as often as what it said of its own source changed.
    #[must_use]
    pub fn sources(&self) -> Vec<Seen> {
        let stretches = self.stretches();
        let mut all: Vec<Seen> = Vec::new();
        // Looked up, as a record that somebody made up may have any number of them: by all that it is, the one of
        // each name that was seen last, and places of statuses.
        let (mut exact, mut latest, mut places) =
            (BTreeMap::new(), BTreeMap::<&str, usize>::new(), BTreeMap::new());
        for stretch in stretches.iter().filter(|stretch| stretch.length_ns() > 0) {
            let state = &stretch.state;
            let name = state.name.as_str();
            let key = (name, &state.address, state.stratum, &state.reference);
            // A daemon that has just started knows nothing of it as yet: that is no other source.
            let known = if state.is_blank() { latest.get(name) } else { exact.get(&key) };
            let place = known.copied().unwrap_or_else(|| {
                exact.insert(key, all.len());
                all.push(Seen::first(stretch));
                all.len() - 1
            });
            let Some(seen) = all.get_mut(place) else { continue };
            let status = places.entry((place, &state.status, &state.reason));
            seen.again(stretch, status.or_insert(seen.statuses.len()));
            let (last, before) = (seen.last, latest.get(name).and_then(|place| all.get(*place)));
            if before.is_none_or(|before| before.last <= last) {
                latest.insert(name, place);
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

    /// True if it is the same as another, root distances apart.
    fn is_same(&self, other: &SourceState) -> bool {
        let SourceState { name, address, status, stratum, reference, root_distance_ns: _, reason } =
            self;
        (name, address, stratum) == (&other.name, &other.address, &other.stratum)
            && (status, reference, reason) == (&other.status, &other.reference, &other.reason)
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

impl Stretch {
    /// Length, ns, ≥ 0.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

impl Seen {
    fn first(stretch: &Stretch) -> Seen {
        let state = stretch.state.clone();
        Seen {
            name: state.name,
            address: state.address,
            stratum: state.stratum,
            reference: state.reference,
            first: stretch.from,
            last: stretch.to,
            time_ns: 0,
            root_distance_ns: None,
            statuses: Vec::new(),
        }
    }

    /// Takes a stretch more, whose status has this place, the next one if it is new.
    fn again(&mut self, stretch: &Stretch, place: &usize) {
        let (state, length_ns) = (&stretch.state, stretch.length_ns());
        self.first = self.first.min(stretch.from);
        self.last = self.last.max(stretch.to);
        self.time_ns = self.time_ns.saturating_add(length_ns);
        self.root_distance_ns = self.root_distance_ns.max(state.root_distance_ns);
        match self.statuses.get_mut(*place) {
            Some(it) => it.time_ns = it.time_ns.saturating_add(length_ns),
            None => self.statuses.push(StatusTime {
                status: state.status.clone(),
                reason: state.reason.clone(),
                time_ns: length_ns,
            }),
        }
    }
}
