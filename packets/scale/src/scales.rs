//! The clocks of a file's interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use truechimer_qos::{Parsed, Transport, identity};

use crate::line::Slopes;
use crate::lines::{Lines, SERVERS};
use crate::{Anchor, Limits, Ntp, Told};

/// Interface: number of its section, and its own in that.
type Place = (u64, u32);

/// Sightings that are kept; later ones are passed over.
const SIGHTINGS: usize = 1 << 21;
/// Anchors that are kept of an interface; later ones are passed over.
pub(crate) const ANCHORS: usize = 1 << 21;
/// Stamps that go back by more, ns, are of a clock that was stepped; by less, of packets that the
/// file has in another order.
pub(crate) const DISORDER: i64 = 1_000_000_000;
/// Interfaces that one packet may be seen at; one that more saw is passed over, as it would tell by
/// the square of them.
const INTERFACES: usize = 16;
/// Bytes of a payload that tell packets apart.
const PAYLOAD: usize = 64;

/// Packet that passed an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Interface.
    pub place: Place,
    /// Stamp, ns.
    pub at: i64,
    /// Unit that the stamp is cut to, ns, not negative.
    pub unit_ns: i64,
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
    servers: Vec<IpAddr>,
    anchors: Vec<Evidence>,
    log: Vec<Anchor>,
    unit_ns: i64,
    is_known: bool,
}

impl Watched {
    /// Number of a server, below [`SERVERS`]: the last is all that come late.
    fn server(&mut self, address: IpAddr) -> usize {
        let known = self.servers.iter().position(|server| *server == address);
        known.unwrap_or_else(|| {
            let number = self.servers.len();
            if number + 1 < SERVERS {
                self.servers.push(address);
            }
            number
        })
    }
}

/// Anchor of a clock, with its stretch and the server that gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Evidence {
    stretch: usize,
    server: usize,
    anchor: Anchor,
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
    left_out: LeftOut,
}

/// Shared packets that tell nothing, for want of room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftOut {
    /// Sightings, or pairs of two, after the first 2 097 152.
    pub late: u64,
    /// Packets that more than 16 interfaces saw.
    pub wide: u64,
}

impl Scales {
    /// Nothing yet. `apart_ns`: sightings of one packet at two interfaces are no farther apart than
    /// this, ns, whichever was first; `None` where nobody knows, which leaves them out.
    #[must_use]
    pub fn new(apart_ns: Option<u64>) -> Scales {
        let apart_ns = apart_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let left_out = LeftOut::default();
        Scales { apart_ns, watched: BTreeMap::new(), seen: Vec::new(), left_out }
    }

    /// Looks at the next packet of the file.
    pub fn packet(&mut self, sighting: Sighting, parsed: &Parsed<'_>) {
        let Sighting { place, at, unit_ns, bound_ns } = sighting;
        let watched = self.watched.entry(place).or_default();
        let stretch = watched.stretch.of(at);
        watched.is_known |= bound_ns.is_some();
        watched.unit_ns = watched.unit_ns.max(unit_ns);
        if bound_ns.is_none() && watched.anchors.len() < ANCHORS {
            let anchors = watched.ntp.packet(parsed, at);
            // Anchors come with replies alone.
            if let (Some(ip), [_, Some(_)]) = (parsed.ip, anchors) {
                let server = watched.server(ip.source);
                let of = |anchor| Evidence { stretch, server, anchor };
                watched.anchors.extend(anchors.into_iter().flatten().map(of));
            }
        }
        if self.apart_ns.is_none() || parsed.ip.is_none() {
            return;
        }
        if self.seen.len() >= SIGHTINGS {
            self.left_out.late += 1;
            return;
        }
        self.seen.push(Seen { identity: whole(parsed), place, stretch, at, bound_ns });
    }

    /// Takes a log of an interface's clock, which then tells its time instead of its packets.
    pub fn log(&mut self, place: Place, anchors: &[Anchor]) {
        self.watched.entry(place).or_default().log.extend_from_slice(anchors);
    }

    /// Works out the clocks of all interfaces.
    #[must_use]
    pub fn solve(mut self, limits: Limits) -> (BTreeMap<Place, Scale>, LeftOut) {
        let mut solved: BTreeMap<Place, Scale> = BTreeMap::new();
        for (place, watched) in &mut self.watched {
            let log = std::mem::take(&mut watched.log);
            let (by, anchors) = match (watched.is_known, log.is_empty()) {
                (true, _) => (By::Known, Vec::new()),
                (false, true) => (By::Ntp, std::mem::take(&mut watched.anchors)),
                // It could be of either part of a capture whose clock was set back.
                (false, false) if watched.stretch.number > 0 => (By::Log, Vec::new()),
                (false, false) => (By::Log, log.into_iter().map(Evidence::alone).collect()),
            };
            solved.insert(*place, Scale::new(by, anchors, limits, watched.unit_ns));
        }
        self.share(&mut solved, limits);
        (solved, self.left_out)
    }

    /// Hands times on, from interfaces that have them to those that saw the same packets.
    fn share(&mut self, solved: &mut BTreeMap<Place, Scale>, limits: Limits) {
        let apart = self.apart_ns.unwrap_or(0);
        self.seen.sort_unstable();
        let groups = groups(&self.seen, &mut self.left_out);
        let at = places(&groups);
        let is_source = |scale: &Scale| scale.is_told || scale.by == By::Known;
        let mut sources: BTreeSet<Place> =
            solved.iter().filter(|(_, scale)| is_source(scale)).map(|(place, _)| *place).collect();
        // Each turn reaches one interface farther.
        while !sources.is_empty() {
            let mut new: BTreeMap<Place, Vec<Evidence>> = BTreeMap::new();
            let mut room = ANCHORS;
            for source in &sources {
                let (Some(scale), Some(those)) = (solved.get(source), at.get(source)) else {
                    continue;
                };
                for group in those.iter().filter_map(|index| groups.get(*index)) {
                    let from = group.iter().find(|seen| seen.place == *source);
                    let Some((from, to)) = from.and_then(|seen| scale.span(seen)) else { continue };
                    let (from, to) = (from.saturating_sub(apart), to.saturating_add(apart));
                    for seen in group.iter().filter(|seen| seen.bound_ns.is_none()) {
                        if solved.get(&seen.place).is_none_or(|to| to.by.is_final() || to.is_told) {
                            continue;
                        }
                        if room == 0 {
                            self.left_out.late += 1;
                            continue;
                        }
                        room -= 1;
                        let anchor = Anchor::between(seen.at, from, to);
                        let evidence =
                            Evidence { stretch: seen.stretch, ..Evidence::alone(anchor) };
                        new.entry(seen.place).or_default().push(evidence);
                    }
                }
            }
            sources = new.keys().copied().collect();
            for (place, anchors) in new {
                let unit_ns = solved.get(&place).map_or(0, |scale| scale.unit_ns);
                solved.insert(place, Scale::new(By::Shared, anchors, limits, unit_ns));
            }
        }
    }
}

/// Sightings of each packet that several interfaces saw, of all in order. One that an interface saw
/// twice is left out.
fn groups<'a>(seen: &'a [Seen], left_out: &mut LeftOut) -> Vec<&'a [Seen]> {
    let is_once = |group: &&[Seen]| {
        let mut pairs = group.iter().zip(group.iter().skip(1));
        group.len() > 1 && pairs.all(|(a, b)| a.place != b.place)
    };
    let groups = seen.chunk_by(|a, b| a.identity == b.identity).filter(is_once);
    let (few, wide): (Vec<_>, Vec<_>) = groups.partition(|group| group.len() <= INTERFACES);
    left_out.wide += wide.len() as u64;
    few
}

/// Numbers of the groups that each interface has a part in.
fn places(groups: &[&[Seen]]) -> BTreeMap<Place, Vec<usize>> {
    let mut places: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        group.iter().for_each(|seen| places.entry(seen.place).or_default().push(index));
    }
    places
}

impl Evidence {
    /// Anchor that no other server contradicts, in the first stretch.
    fn alone(anchor: Anchor) -> Evidence {
        Evidence { stretch: 0, server: 0, anchor }
    }
}

impl By {
    /// True if shared packets may not tell the time instead.
    fn is_final(self) -> bool {
        matches!(self, By::Known | By::Log)
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
    stretches: Vec<Lines>,
    is_told: bool,
    unit_ns: i64,
    /// Longest true time that a unit of its stamps can last, ns.
    cut_ns: i64,
    stretch: Stretch,
}

impl Scale {
    fn new(by: By, anchors: Vec<Evidence>, limits: Limits, unit_ns: i64) -> Scale {
        let count = anchors.iter().map(|evidence| evidence.stretch + 1).max().unwrap_or(0);
        let mut sorted = vec![Vec::new(); count];
        let cut_ns = Slopes::of(limits).longest(unit_ns);
        for Evidence { stretch, server, mut anchor } in anchors {
            // The clock showed the stamp of a packet up to a unit before the packet passed.
            if by != By::Log {
                anchor.earliest = anchor.earliest.map(|at| at.saturating_sub(cut_ns));
            }
            if let Some(those) = sorted.get_mut(stretch) {
                those.push((server, anchor));
            }
        }
        let stretches: Vec<_> = sorted.into_iter().map(|those| Lines::new(those, limits)).collect();
        let is_told = stretches.iter().any(|lines| {
            lines.range().is_some_and(|(first, last)| {
                [first, last].iter().any(|at| lines.at(*at).middle().is_some())
            })
        });
        let by = if by == By::Ntp && stretches.is_empty() { By::Nothing } else { by };
        Scale { by, stretches, is_told, unit_ns, cut_ns, stretch: Stretch::default() }
    }

    /// Evidence that it is told by.
    #[must_use]
    pub fn by(&self) -> By {
        self.by
    }

    /// True if true time has both sides anywhere.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// True time of the next packet of this interface; all are to be given, in the order of the
    /// file.
    pub fn next(&mut self, at: i64) -> Told {
        let stretch = self.stretch.of(at);
        self.stretches.get(stretch).map_or_else(Told::default, |lines| lines.at(at))
    }

    /// Anchors that it is made of.
    #[must_use]
    pub fn anchors(&self) -> usize {
        self.stretches.iter().map(Lines::anchors).sum()
    }

    /// Times at which the clock was stepped, or anchors are wrong.
    #[must_use]
    pub fn breaks(&self) -> usize {
        let inside: usize = self.stretches.iter().map(Lines::breaks).sum();
        inside + self.stretches.len().saturating_sub(1)
    }

    /// First and last anchor's stamp, and true time there.
    #[must_use]
    pub fn ends(&self) -> Option<[(i64, Told); 2]> {
        let (first, last) = (self.stretches.first()?, self.stretches.last()?);
        let ((from, _), (_, to)) = (first.range()?, last.range()?);
        Some([(from, first.at(from)), (to, last.at(to))])
    }

    /// True time of a sighting, if it has both sides and no contradiction: up to a unit after the
    /// clock showed its stamp.
    fn span(&self, seen: &Seen) -> Option<(i64, i64)> {
        if let Some(bound) = seen.bound_ns {
            let bound = i64::from(bound);
            return Some((seen.at.checked_sub(bound)?, seen.at.checked_add(bound)?));
        }
        let told = self.stretches.get(seen.stretch)?.at(seen.at);
        let (earliest, latest) = told.earliest.zip(told.latest).filter(|_| !told.contradicted)?;
        Some((earliest, latest.checked_add(self.cut_ns)?))
    }
}
