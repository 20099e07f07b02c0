//! Packets in, flows and their metrics out.

mod media;
mod questions;

use std::collections::{HashMap, VecDeque};

use media::{follow_rtp, rtp_header};

use crate::flow::{Flow, FlowKey, Seen};
use crate::group::Groups;
use crate::identity::identity;
use crate::path::{Alone, Passing, Path, Way, way};
use crate::rtp::Clocks;
use crate::rtt::{Kind, Stamp};
use crate::table::Table;
use crate::totals::Totals;
use crate::{At, Counted, DifferenceClock, Direction, Parsed, Pattern, Sequence, Transport, parse};

/// Which UDP flows are taken for RTP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RtpChoice {
    /// Those that look like it, three packets in a row.
    #[default]
    Auto,
    /// None.
    Never,
    /// Those from or to these ports, and no others.
    Ports(Vec<u16>),
}

/// Options of the analysis.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// One point, or two between which packets are followed.
    pub points: usize,
    /// Choice of what is RTP.
    pub rtp: RtpChoice,
    /// Clock rates of RTP's payload types.
    pub clocks: Clocks,
    /// Where packets have sequence numbers; the first that matches counts.
    pub patterns: Vec<Pattern>,
    /// Which way flows go; `None`: told from the packets of each.
    pub way: Option<Way>,
    /// Longest wait for a packet, or an answer, before it is lost, ns (RFC 7680's Tmax).
    pub timeout_ns: i64,
    /// The width of bins over time, ns.
    pub bin_ns: i64,
    /// Flows at a time. Each takes 2 KiB to some 500 KiB, by how many different delays it has.
    pub most_flows: usize,
    /// Packets remembered in order to meet them at the other point, or their answers: about 200
    /// bytes each.
    pub most_waiting: usize,
    /// Bytes of the payload that packets are told apart by, besides their headers.
    pub identity_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            points: 1,
            rtp: RtpChoice::Auto,
            clocks: Clocks::default(),
            patterns: Vec::new(),
            way: None,
            timeout_ns: 2_000_000_000,
            bin_ns: 1_000_000_000,
            most_flows: 1000,
            most_waiting: 500_000,
            identity_bytes: 32,
        }
    }
}

/// A packet at a point.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// Which: 0, or 1.
    pub point: usize,
    /// When.
    pub at: At,
    /// Count, if it has one.
    pub counted: Option<Counted>,
    /// The link type of `data`, as tcpdump.org numbers them.
    pub link_type: u16,
    /// Bytes of it, as far as they were captured.
    pub data: &'a [u8],
    /// Length on the wire, in bytes.
    pub length: u32,
    /// Direction in which it passed this host.
    pub direction: Direction,
}

/// Totals of one point.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PointTotals {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as long as they were there.
    pub bytes: u64,
    /// Packets that are not IP, or cut off before the end of the IP header: in no flow.
    pub not_ip: u64,
    /// Packets of which not all bytes were captured.
    pub cut: u64,
    /// Packets whose time has no bound: the clock was not synchronised.
    pub unbounded: u64,
    /// Packets with a count.
    pub counted: u64,
    /// Of packets cut off within the bytes of the payload that they are told apart by: the least
    /// that is there.
    pub shortest: Option<usize>,
    /// The greatest bound of a time, ns.
    pub worst_bound: Option<u64>,
    /// Unix ns of the first and the last packet.
    pub span: Option<(i64, i64)>,
}

/// Counts of what had to be given up for want of memory: never silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct GivenUp {
    /// Flows that made room for others. Their packets, losses and delays stay in the totals.
    pub flows: u64,
    /// Packets of these flows.
    pub packets: u64,
    /// Packets forgotten before the time to wait for them at the other point was over.
    pub waiting: u64,
    /// Questions forgotten before the time to wait for their answer was over.
    pub questions: u64,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    copies: [u32; 2],
    index: [u64; 2],
    passing: [Option<Passing>; 2],
    met: bool,
    ambiguous: bool,
}

type Identity = (u64, u64);
type Question = (u8, Kind, u64, u64);

/// Packets in, flows and their metrics out. Packets of all points come in the order of their times,
/// more or less; of one point in the order in which they passed.
#[derive(Debug)]
pub struct Engine {
    options: Options,
    flows: Table,
    points: Vec<PointTotals>,
    watched: [Option<(i64, i64)>; 2],
    clocks: [Option<DifferenceClock>; 2],
    one_counter: bool,
    outstanding: HashMap<Identity, Entry>,
    ages: VecDeque<(i64, Identity, u64)>,
    questions: HashMap<Question, (u64, Stamp)>,
    question_ages: VecDeque<(i64, Question, u64)>,
    serial: u64,
    gone: Totals,
    gone_groups: Groups,
    given_up: GivenUp,
    now_ns: i64,
}

impl Engine {
    /// With nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Engine {
        let points = options.points.clamp(1, 2);
        Engine {
            flows: Table::new(options.most_flows),
            points: vec![PointTotals::default(); points],
            watched: [None; 2],
            clocks: [None; 2],
            one_counter: false,
            outstanding: HashMap::new(),
            ages: VecDeque::new(),
            questions: HashMap::new(),
            question_ages: VecDeque::new(),
            serial: 0,
            gone: Totals::default(),
            gone_groups: Groups::default(),
            given_up: GivenUp::default(),
            now_ns: i64::MIN,
            options,
        }
    }

    /// From when to when a point watches, Unix ns, where that is known; else from its first packet
    /// to its last.
    pub fn watches(&mut self, point: usize, from_ns: i64, to_ns: i64) {
        if let Some(watched) = self.watched.get_mut(point) {
            *watched = Some((from_ns, to_ns));
        }
    }

    /// The clock that spans at a point are measured by from now on.
    pub fn set_clock(&mut self, point: usize, clock: Option<DifferenceClock>) {
        if let Some(place) = self.clocks.get_mut(point) {
            *place = clock;
        }
    }

    /// Sets whether the counts of both points are of one counter of one host: spans between them
    /// are measured by it then.
    pub fn set_one_counter(&mut self, one: bool) {
        self.one_counter = one;
    }

    /// A packet.
    pub fn observe(&mut self, packet: &Observation<'_>) {
        let parsed = parse(packet.link_type, packet.data);
        let Some(totals) = self.points.get_mut(packet.point) else { return };
        totals.packets += 1;
        totals.bytes += u64::from(packet.length);
        let cut = (packet.data.len() as u64) < u64::from(packet.length);
        totals.cut += u64::from(cut);
        if cut
            && parsed.cut
            && parsed.ip.is_some()
            && parsed.payload.len() < self.options.identity_bytes
        {
            let shortest = totals.shortest.unwrap_or(usize::MAX);
            totals.shortest = Some(shortest.min(parsed.payload.len()));
        }
        totals.counted += u64::from(packet.counted.is_some());
        match packet.at.bound_ns {
            Some(bound) => totals.worst_bound = totals.worst_bound.max(Some(bound)),
            None => totals.unbounded += 1,
        }
        let at_ns = packet.at.unix_ns;
        let (first, last) = totals.span.unwrap_or((at_ns, at_ns));
        totals.span = Some((first.min(at_ns), last.max(at_ns)));
        self.now_ns = at_ns;
        let Some(key) = FlowKey::of(&parsed) else {
            totals.not_ip += 1;
            return self.expire();
        };
        self.in_flow(packet, &parsed, key, cut);
        self.expire();
    }

    fn in_flow(&mut self, packet: &Observation<'_>, parsed: &Parsed<'_>, key: FlowKey, cut: bool) {
        let options = &self.options;
        let stamp = Stamp { at: packet.at, counted: packet.counted };
        let pattern = options
            .patterns
            .iter()
            .enumerate()
            .find_map(|(n, pattern)| pattern.number(parsed).map(|number| (n, number)));
        let rtp = match pattern {
            None => rtp_header(&options.rtp, parsed),
            Some(_) => None,
        };
        // A second source on the same 5-tuple is a flow of its own.
        let known = self.flows.find(&key).and_then(|flow| flow.rtp);
        let key = match (known, &rtp) {
            (Some(known), Some(header)) if known != header.ssrc => {
                FlowKey { ssrc: Some(header.ssrc), ..key }
            }
            _ => key,
        };
        let (flow, out) = self.flows.get(&key, |number| Flow {
            key,
            number,
            pattern: None,
            seen: [None, None],
            path: (options.points == 2).then(|| Box::new(Path::new(options.way, options.bin_ns))),
            detector: None,
            rtp: key.ssrc,
            touched: false,
        });
        if let Some(out) = out {
            self.given_up.flows += 1;
            self.given_up.packets += out.packets();
            self.gone.add(&out);
            self.gone_groups.gone(&out);
        }
        let Some(flow) = flow else { return };
        flow.touched = true;
        let clock = self.clocks.get(packet.point).and_then(Option::as_ref);
        let seen = flow.seen.get_mut(packet.point).map(|seen| {
            seen.get_or_insert_with(|| Box::new(Seen::new(packet.at.unix_ns, options.bin_ns)))
        });
        let Some(seen) = seen else { return };
        seen.passed(stamp, packet.length, cut, clock);
        seen.largest = seen.largest.max(parsed.ip.map_or(0, |ip| ip.total()));
        if let Some((n, number)) = pattern {
            flow.pattern = Some(n);
            let bits = options.patterns.get(n).map_or(64, Pattern::bits);
            let numbers = seen.numbers.get_or_insert_with(|| Sequence::new(bits));
            numbers.arrived(number, packet.at.leap_free_ns.unwrap_or(packet.at.unix_ns));
        }
        if let Some(header) = rtp {
            let sure = matches!(options.rtp, RtpChoice::Ports(_));
            follow_rtp(flow, packet, &header, sure, &options.clocks);
        }
        let number = flow.number;
        let explicit = pattern.is_some() || flow.rtp.is_some();
        self.questions_and_answers(packet, parsed, &key, number, pattern, stamp);
        if self.options.points == 2 {
            let identity = identity(parsed, pattern, self.options.identity_bytes);
            let explicit = explicit || matches!(parsed.transport, Transport::Echo { .. });
            self.meet((number, identity), packet, stamp, parsed, explicit);
        }
    }

    /// Looks for the same packet at the other point.
    fn meet(
        &mut self,
        identity: Identity,
        packet: &Observation<'_>,
        stamp: Stamp,
        parsed: &Parsed<'_>,
        explicit: bool,
    ) {
        let (point, other) = (packet.point, 1 - packet.point);
        let clock = self.clocks.get(point).and_then(Option::as_ref).filter(|_| self.one_counter);
        let Some(path) = self.flows.by_number(identity.0).and_then(|flow| flow.path.as_mut())
        else {
            return;
        };
        let hop_limit = parsed.ip.map_or(0, |ip| ip.hop_limit);
        let passing = Passing { stamp, hop_limit, direction: packet.direction };
        let entry = self.outstanding.get_mut(&identity);
        let new = match entry {
            None => true,
            Some(entry) => {
                let here = entry.copies.get(point).copied().unwrap_or(0);
                let there = entry.copies.get(other).copied().unwrap_or(0);
                // Two that are alike, sent one after the other: the first has long arrived.
                let again = here > 0 && entry.met && !explicit && !path.arrives_at(point);
                if !again {
                    if let Some(copies) = entry.copies.get_mut(point) {
                        *copies = copies.saturating_add(1);
                    }
                    match (here, entry.ambiguous) {
                        (_, true) => path.passed_ambiguous(point, packet.at),
                        (0, false) => {
                            entry.met = true;
                            let met = entry.passing.get(other).copied().flatten();
                            if let (Some(met), Some(index)) = (met, entry.index.get(other)) {
                                let after = stamp.since(&met.stamp, clock).0;
                                let hint = || match point {
                                    1 => way(&met, &passing, after),
                                    _ => way(&passing, &met, after.reversed()),
                                };
                                path.met(point, packet.at, *index, after, hint);
                                // Its copies came first: the clocks say so, at least.
                                if path.arrives_at(other) {
                                    path.duplicates += u64::from(there.saturating_sub(1));
                                }
                            }
                        }
                        _ if explicit || entry.met || path.arrives_at(point) => {
                            if entry.met && path.arrives_at(point) && here + 1 > there {
                                path.duplicates += 1;
                            }
                        }
                        _ => {
                            entry.ambiguous = true;
                            if let Some(index) = entry.index.get(point) {
                                path.turned_ambiguous(point, *index);
                            }
                            path.passed_ambiguous(point, packet.at);
                        }
                    }
                }
                again
            }
        };
        if !new {
            return;
        }
        let index = path.passed(point, packet.at);
        self.serial += 1;
        let mut entry = Entry {
            serial: self.serial,
            copies: [0; 2],
            index: [0; 2],
            passing: [None; 2],
            met: false,
            ambiguous: false,
        };
        if let (Some(copies), Some(place), Some(kept)) =
            (entry.copies.get_mut(point), entry.index.get_mut(point), entry.passing.get_mut(point))
        {
            (*copies, *place, *kept) = (1, index, Some(passing));
        }
        self.outstanding.insert(identity, entry);
        self.ages.push_back((packet.at.unix_ns, identity, self.serial));
    }

    /// Lets go of what was waited for long enough, or of the oldest if there is too much.
    fn expire(&mut self) {
        let timeout = self.options.timeout_ns;
        // Both points must have come so far, unless one has long been silent.
        let come = self.points.iter().filter_map(|point| Some(point.span?.1)).min();
        let come = if self.points.len() == 2 { come.unwrap_or(i64::MIN) } else { self.now_ns };
        let come = come.max(self.now_ns.saturating_sub(timeout)).min(self.now_ns);
        while let Some(&(at_ns, identity, serial)) = self.ages.front() {
            let old = come.saturating_sub(at_ns) > timeout;
            let full = self.ages.len() > self.options.most_waiting;
            if !old && !full {
                break;
            }
            self.ages.pop_front();
            self.let_go(at_ns, identity, serial, !old);
        }
        while let Some(&(at_ns, question, serial)) = self.question_ages.front() {
            let old = self.now_ns.saturating_sub(at_ns) > timeout;
            let full = self.question_ages.len() > self.options.most_waiting;
            if !old && !full {
                break;
            }
            self.question_ages.pop_front();
            if self.questions.get(&question).is_some_and(|(number, _)| *number == serial) {
                self.questions.remove(&question);
                self.given_up.questions += u64::from(!old);
            }
        }
    }

    fn let_go(&mut self, at_ns: i64, identity: Identity, serial: u64, dropped: bool) {
        if self.outstanding.get(&identity).is_none_or(|entry| entry.serial != serial) {
            return;
        }
        let Some(entry) = self.outstanding.remove(&identity) else { return };
        if entry.met || entry.ambiguous {
            return;
        }
        self.given_up.waiting += u64::from(dropped);
        let point = usize::from(entry.copies.first() == Some(&0));
        let resized = self.flows.by_number(identity.0).is_some_and(|flow| flow.is_resized());
        let why = match self.fate(at_ns, 1 - point) {
            _ if dropped => Alone::Dropped,
            Alone::Lost if resized => Alone::Resized,
            why => why,
        };
        let index = entry.index.get(point).copied().unwrap_or(0);
        if let Some(path) = self.flows.by_number(identity.0).and_then(|flow| flow.path.as_mut()) {
            path.alone(point, index, why);
        }
    }

    /// Judges a packet that the other point did not see.
    fn fate(&self, at_ns: i64, other: usize) -> Alone {
        let declared = self.watched.get(other).copied().flatten();
        let watched = declared.or_else(|| self.points.get(other).and_then(|point| point.span));
        match watched {
            None => Alone::Unwatched,
            Some((from, _)) if at_ns < from => Alone::Unwatched,
            Some((_, to)) if to.saturating_sub(at_ns) < self.options.timeout_ns => Alone::Recent,
            Some(_) => Alone::Lost,
        }
    }

    /// Nothing more comes: what is still waited for is decided.
    pub fn finish(&mut self) {
        while let Some((at_ns, identity, serial)) = self.ages.pop_front() {
            self.let_go(at_ns, identity, serial, false);
        }
        self.questions.clear();
        self.question_ages.clear();
    }

    /// The flows that are kept.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// Number of flows that there were.
    #[must_use]
    pub fn flows_made(&self) -> u64 {
        self.flows.made()
    }

    /// All flows together, those included that made room for others.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.gone.clone();
        self.flows.iter().for_each(|flow| totals.add(flow));
        totals
    }

    /// Flows of few packets by what they have in common, those included that made room.
    #[must_use]
    pub fn groups(&self) -> Groups {
        self.gone_groups.clone().with(self.flows.iter())
    }

    pub(crate) fn keyed(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.keyed(key)
    }

    /// The flow with this number.
    #[must_use]
    pub fn flow(&self, number: u64) -> Option<&Flow> {
        self.flows.numbered(number)
    }

    /// Totals of each point.
    #[must_use]
    pub fn points(&self) -> &[PointTotals] {
        &self.points
    }

    /// Counts of what had to be given up.
    #[must_use]
    pub fn given_up(&self) -> GivenUp {
        self.given_up
    }

    /// Options of the analysis.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }
}
