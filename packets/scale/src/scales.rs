//! The clocks of a file's interfaces.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use truechimer_qos::{Parsed, Transport, identity};

use crate::{Anchor, Limits, Line, Ntp, Told};

/// Interface: number of its section, and its own in that.
type Place = (u64, u32);

/// Sightings that are kept; later ones are passed over.
const SIGHTINGS: usize = 1 << 21;
/// Anchors that are kept of an interface; later ones are passed over.
pub(crate) const ANCHORS: usize = 1 << 21;
/// Stamps that go back by more, ns, are of a clock that was stepped; by less, of packets that the
/// file has in another order.
pub(crate) const DISORDER: i64 = 1_000_000_000;
/// Bytes of a payload that tell packets apart.
const PAYLOAD: usize = 64;

/// Packet that passed an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Interface.
    pub place: Place,
    /// Stamp, ns.
    pub at: i64,
    /// Bound of the stamp's error, ns, where the file has one: true time already.
    pub bound_ns: Option<u32>,
}

/// Evidence that a scale is told by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Nothing: true time is not known.
    Nothing,
    /// NTP exchanges that passed.
    Ntp,
    /// Packets that an interface with known times saw as well.
    Shared,
    /// A log of its clock.
    Log,
    /// The file has the times already.
    Known,
}

/// Stretches of stamps that do not go back.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    number: usize,
    newest: Option<i64>,
}

impl Stretch {
    /// Number of the stretch that the next packet of the file is in.
    fn of(&mut self, at: i64) -> usize {
        match self.newest {
            Some(newest) if at < newest.saturating_sub(DISORDER) => {
                self.number += 1;
                self.newest = Some(at);
            }
            newest => self.newest = newest.max(Some(at)),
        }
        self.number
    }
}

/// Facts about one interface's clock, as the file is read.
#[derive(Clone, Debug, Default)]
struct Watched {
    stretch: Stretch,
    ntp: Ntp,
    anchors: Vec<(usize, Anchor)>,
    log: Vec<Anchor>,
    is_known: bool,
}

/// One packet of many that were seen, in few bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Seen {
    identity: u64,
    place: Place,
    stretch: usize,
    at: i64,
    bound_ns: Option<u32>,
}

/// The clocks of a file's interfaces, as the file is read.
#[derive(Clone, Debug)]
pub struct Scales {
    apart_ns: Option<i64>,
    watched: BTreeMap<Place, Watched>,
    seen: Vec<Seen>,
    is_full: bool,
}

impl Scales {
    /// Nothing yet. `apart_ns`: sightings of one packet at two interfaces are no farther apart than
    /// this, ns, whichever was first; `None` where nobody knows, which leaves them out.
    #[must_use]
    pub fn new(apart_ns: Option<u64>) -> Scales {
        let apart_ns = apart_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        Scales { apart_ns, watched: BTreeMap::new(), seen: Vec::new(), is_full: false }
    }

    /// Looks at the next packet of the file.
    pub fn packet(&mut self, sighting: Sighting, parsed: &Parsed<'_>) {
        let Sighting { place, at, bound_ns } = sighting;
        let watched = self.watched.entry(place).or_default();
        let stretch = watched.stretch.of(at);
        watched.is_known |= bound_ns.is_some();
        if bound_ns.is_none() && watched.anchors.len() < ANCHORS {
            let anchors = watched.ntp.packet(parsed, at);
            watched.anchors.extend(anchors.into_iter().flatten().map(|anchor| (stretch, anchor)));
        }
        if self.apart_ns.is_none() || parsed.ip.is_none() {
            return;
        }
        if self.seen.len() >= SIGHTINGS {
            self.is_full = true;
            return;
        }
        self.seen.push(Seen { identity: whole(parsed), place, stretch, at, bound_ns });
    }

    /// Takes a log of an interface's clock, which then tells its time instead of its packets.
    pub fn log(&mut self, place: Place, anchors: &[Anchor]) {
        self.watched.entry(place).or_default().log.extend_from_slice(anchors);
    }

    /// Whether packets were passed over for want of room: those that two interfaces saw.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Works out the clocks of all interfaces.
    #[must_use]
    pub fn solve(mut self, limits: Limits) -> BTreeMap<Place, Scale> {
        let mut solved: BTreeMap<Place, Scale> = BTreeMap::new();
        for (place, watched) in &mut self.watched {
            let log = std::mem::take(&mut watched.log);
            let (by, anchors) = match (watched.is_known, log.is_empty()) {
                (true, _) => (By::Known, Vec::new()),
                (false, true) => (By::Ntp, std::mem::take(&mut watched.anchors)),
                // It could be of either part of a capture whose clock was set back.
                (false, false) if watched.stretch.number > 0 => (By::Log, Vec::new()),
                (false, false) => (By::Log, log.into_iter().map(|anchor| (0, anchor)).collect()),
            };
            solved.insert(*place, Scale::new(by, anchors, limits));
        }
        let pairs = self.pairs();
        let apart = self.apart_ns.unwrap_or(0);
        // Each turn reaches one interface farther.
        loop {
            let mut new: BTreeMap<Place, Vec<(usize, Anchor)>> = BTreeMap::new();
            for (from, to) in &pairs {
                let is_told = |place: &Place| solved.get(place).is_some_and(|s| s.is_told);
                let is_logged = |place: &Place| solved.get(place).is_some_and(|s| s.by == By::Log);
                let is_known = |place: &Place| solved.get(place).is_some_and(|s| s.by == By::Known);
                if is_told(&to.place)
                    || is_known(&to.place)
                    || is_logged(&to.place)
                    || !(from.bound_ns.is_some() || is_told(&from.place))
                {
                    continue;
                }
                let Some((earliest, latest)) = solved.get(&from.place).and_then(|s| s.span(from))
                else {
                    continue;
                };
                let (earliest, latest) =
                    (earliest.saturating_sub(apart), latest.saturating_add(apart));
                let anchor = Anchor::between(to.at, earliest, latest);
                new.entry(to.place).or_default().push((to.stretch, anchor));
            }
            if new.is_empty() {
                return solved;
            }
            for (place, anchors) in new {
                solved.insert(place, Scale::new(By::Shared, anchors, limits));
            }
        }
    }

    /// Sightings of one packet at two interfaces, either way round. One that an interface saw twice
    /// is left out.
    fn pairs(&mut self) -> Vec<(Seen, Seen)> {
        self.seen.sort_unstable();
        let mut pairs = Vec::new();
        for group in self.seen.chunk_by(|a, b| a.identity == b.identity) {
            let is_once = group.windows(2).all(|two| match two {
                [a, b] => a.place != b.place,
                _ => true,
            });
            if !is_once {
                continue;
            }
            for from in group {
                let others = group.iter().filter(|to| to.place != from.place);
                pairs.extend(others.filter(|to| to.bound_ns.is_none()).map(|to| (*from, *to)));
            }
        }
        pairs
    }
}

/// Identity of a packet on all links that it passes.
fn whole(parsed: &Parsed<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(ip) = &parsed.ip {
        (ip.source, ip.destination, ip.protocol).hash(&mut hasher);
    }
    if let Transport::Udp { source, destination } = parsed.transport {
        (source, destination).hash(&mut hasher);
    }
    if let Transport::Tcp(tcp) = parsed.transport {
        (tcp.source, tcp.destination).hash(&mut hasher);
    }
    identity(parsed, None, PAYLOAD).hash(&mut hasher);
    hasher.finish()
}

/// Clock of one interface: true time of its stamps.
#[derive(Clone, Debug)]
pub struct Scale {
    by: By,
    lines: Vec<Line>,
    is_told: bool,
    stretch: Stretch,
}

impl Scale {
    fn new(by: By, anchors: Vec<(usize, Anchor)>, limits: Limits) -> Scale {
        let stretches = anchors.iter().map(|(stretch, _)| stretch + 1).max().unwrap_or(0);
        let mut sorted = vec![Vec::new(); stretches];
        for (stretch, anchor) in anchors {
            if let Some(those) = sorted.get_mut(stretch) {
                those.push(anchor);
            }
        }
        let lines: Vec<_> = sorted.into_iter().map(|those| Line::new(those, limits)).collect();
        let is_told = lines.iter().any(|line| {
            line.range().is_some_and(|(first, last)| {
                [first, last].iter().any(|at| line.at(*at).middle().is_some())
            })
        });
        let by = if by == By::Ntp && lines.is_empty() { By::Nothing } else { by };
        Scale { by, lines, is_told, stretch: Stretch::default() }
    }

    /// Evidence that it is told by.
    #[must_use]
    pub fn by(&self) -> By {
        self.by
    }

    /// Whether true time has both sides anywhere.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// True time of the next packet of this interface; all are to be given, in the order of the
    /// file.
    pub fn next(&mut self, at: i64) -> Told {
        let stretch = self.stretch.of(at);
        self.lines.get(stretch).map_or_else(Told::default, |line| line.at(at))
    }

    /// Anchors that it is made of.
    #[must_use]
    pub fn anchors(&self) -> usize {
        self.lines.iter().map(Line::anchors).sum()
    }

    /// Times at which the clock was stepped, or anchors are wrong.
    #[must_use]
    pub fn breaks(&self) -> usize {
        let inside: usize = self.lines.iter().map(Line::breaks).sum();
        inside + self.lines.len().saturating_sub(1)
    }

    /// First and last anchor's stamp, and true time there.
    #[must_use]
    pub fn ends(&self) -> Option<[(i64, Told); 2]> {
        let (first, last) = (self.lines.first()?, self.lines.last()?);
        let ((from, _), (_, to)) = (first.range()?, last.range()?);
        Some([(from, first.at(from)), (to, last.at(to))])
    }

    /// True time of a sighting, if it has both sides and no contradiction.
    fn span(&self, seen: &Seen) -> Option<(i64, i64)> {
        if let Some(bound) = seen.bound_ns {
            let bound = i64::from(bound);
            return Some((seen.at.checked_sub(bound)?, seen.at.checked_add(bound)?));
        }
        let told = self.lines.get(seen.stretch)?.at(seen.at);
        told.earliest.zip(told.latest).filter(|_| !told.contradicted)
    }
}
