//! Packets of others: their times on the scale of UTC, as far as the file itself tells it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;
use truechimer_pcapng::records::{PacketRecord, Quality, RESTAMPED, StampedBy};
use truechimer_pcapng::{PacketBlock, Resolution, Section};
use truechimer_qos::parse;
use truechimer_scale::{By, LeftOut, Limits, Scale, Scales, Sighting, Told};
use truechimer_time::{Count, CountSpan, Rate, Span};

use truechimer_capture::Counted;

use truechimer_command::Failure;

use super::scan::Place;
use super::stamper::Anew;

/// Log of the clock that stamped an interface's packets: `NAME=KIND:FILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockLog {
    interface: String,
    kind: String,
    path: PathBuf,
}

impl FromStr for ClockLog {
    type Err = String;

    fn from_str(text: &str) -> Result<ClockLog, String> {
        let parts = text.rsplit_once('=').and_then(|(name, rest)| {
            let (kind, path) = rest.split_once(':')?;
            (!name.is_empty() && !path.is_empty()).then_some((name, kind, path))
        });
        let parts = parts.filter(|(_, kind, _)| matches!(*kind, "system" | "card"));
        let (interface, kind, path) =
            parts.ok_or("must be NAME=system:FILE or NAME=card:FILE, as eth0=card:day.clocks")?;
        Ok(ClockLog { interface: interface.into(), kind: kind.into(), path: path.into() })
    }
}

/// Name of an interface for people.
fn named_or_numbered(name: &str, number: u32) -> String {
    if name.is_empty() { format!("interface {number}") } else { name.to_owned() }
}

/// Conditions that nobody but the user can know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// Longest time between two interfaces' sights of one packet.
    pub apart: Option<Span>,
    /// Limit of the clocks' rates.
    pub rate: Option<Rate>,
    /// Limit of these about their average.
    pub wander: Option<Rate>,
}

/// Looks at the packets of a file in its first reading.
#[derive(Debug)]
pub struct Looks {
    scales: Scales,
    conditions: Conditions,
    interfaces: BTreeMap<Place, Facts>,
}

/// Facts about an interface.
#[derive(Clone, Debug, Default)]
struct Facts {
    name: String,
    packets: u64,
    told: u64,
    /// Those that have a time in UTC and no bound.
    unbounded: u64,
    /// Those that keep their stamp, as nothing tells.
    kept: u64,
    contradicted: u64,
    resolution: Resolution,
}

/// First stamp of a packet of others, ns; `None` of one of ours, or where it has no time.
fn first_stamp(record: Option<&PacketRecord>, unix_ns: Option<i64>) -> Option<i64> {
    match record {
        None => unix_ns,
        Some(PacketRecord { method: RESTAMPED, counted: Some((count, ..)), .. }) => {
            i64::try_from(count.0).ok()
        }
        Some(_) => None,
    }
}

impl Looks {
    /// Nothing yet.
    pub fn new(conditions: Conditions) -> Looks {
        let apart = conditions.apart.map(|span| span.as_nanos().clamp(0, u64::MAX.into()) as u64);
        Looks { scales: Scales::new(apart), conditions, interfaces: BTreeMap::new() }
    }

    /// Looks at the next packet of the file.
    pub fn packet(
        &mut self,
        section: &Section,
        packet: &PacketBlock<'_>,
        record: Option<&PacketRecord>,
    ) {
        let place = (section.number(), packet.interface);
        let Some(interface) = section.interface(packet.interface) else { return };
        let unix_ns = section.nanos(packet);
        let first = first_stamp(record, unix_ns);
        let ours = unix_ns.zip(record.and_then(|record| record.bound_ns));
        let (at, bound_ns) = match (first, ours) {
            (Some(at), _) => (at, None),
            (None, Some((at, bound))) => (at, Some(bound)),
            (None, None) => return,
        };
        if bound_ns.is_none() {
            let facts = self.interfaces.entry(place).or_default();
            facts.name.clone_from(&interface.name);
            facts.packets += 1;
            facts.resolution = interface.resolution;
        }
        let parsed = parse(interface.link_type, packet.data);
        let unit_ns = i64::try_from(interface.resolution.unit_ns()).unwrap_or(i64::MAX);
        self.scales.packet(Sighting { place, at, unit_ns, bound_ns }, &parsed);
    }

    /// Takes the log of a clock.
    pub fn log(&mut self, log: &ClockLog) -> Result<(), Failure> {
        let name = log.path.display();
        let file = File::open(&log.path).map_err(|why| Failure::new(&name, why))?;
        let anchors = truechimer_scale::log::read(BufReader::new(file), &log.kind)
            .map_err(|why| Failure::new(&name, why))?;
        let is_it = |((_, number), facts): &(&Place, &Facts)| {
            facts.name == log.interface || number.to_string() == log.interface
        };
        let places: Vec<Place> = self.interfaces.iter().filter(is_it).map(|(p, _)| *p).collect();
        if places.is_empty() {
            let of = |(place, facts): (&Place, &Facts)| named_or_numbered(&facts.name, place.1);
            let there: Vec<String> = self.interfaces.iter().map(of).collect();
            return Err(Failure::Said(format!(
                "--clock {}: no packets of others on an interface of that name or number; there \
                 are {}",
                log.interface,
                if there.is_empty() { "none".to_owned() } else { there.join(", ") }
            )));
        }
        places.iter().for_each(|place| self.scales.log(*place, &anchors));
        Ok(())
    }

    /// Works out the clocks of the interfaces.
    pub fn solve(self) -> Others {
        let Looks { scales, conditions, mut interfaces } = self;
        let ppb = |rate: Rate| rate.as_ppt().saturating_add(999).div_euclid(1000);
        let mut limits = Limits::default();
        if let Some(rate) = conditions.rate {
            limits.rate_ppb = ppb(rate);
        }
        limits.wander_ppb = conditions.wander.map(ppb);
        let (scales, LeftOut { late, wide }) = scales.solve(limits);
        let mut notes = Vec::new();
        if late > 0 {
            notes.push(format!(
                "of packets that two interfaces saw only the first 2 097 152 sightings were looked \
                 at, not {late} more: cut the capture in parts"
            ));
        }
        if wide > 0 {
            notes.push(format!(
                "{wide} packets that more than 16 interfaces saw told none of them: leave some \
                 interfaces out"
            ));
        }
        interfaces.retain(|place, _| scales.contains_key(place));
        Others { scales, interfaces, asked_apart: conditions.apart.is_some(), notes }
    }
}

/// The clocks of the interfaces of others.
#[derive(Debug)]
pub struct Others {
    scales: BTreeMap<Place, Scale>,
    interfaces: BTreeMap<Place, Facts>,
    asked_apart: bool,
    notes: Vec<String>,
}

impl Others {
    /// True if the time of any interface is told.
    pub fn is_told(&self) -> bool {
        self.interfaces.keys().any(|place| self.scales.get(place).is_some_and(Scale::is_told))
    }

    /// New time of a packet of others that the file has at `unix_ns`; `None` of one that bears no
    /// record and of which nothing tells. What a record promises that is not borne out now is taken
    /// away. All packets are to be given, in the order of the file.
    pub fn stamp(
        &mut self,
        place: Place,
        record: Option<&PacketRecord>,
        unix_ns: Option<i64>,
    ) -> Option<Anew> {
        let at = first_stamp(record, unix_ns)?;
        let told = self.scales.get_mut(&place)?.next(at);
        let facts = self.interfaces.get_mut(&place)?;
        let Some(anew) = anew(at, told, facts.resolution) else {
            facts.kept += 1;
            return record.map(|record| unpromised(at, record));
        };
        match anew.record.bound_ns {
            Some(_) => facts.told += 1,
            None => facts.unbounded += 1,
        }
        facts.contradicted += u64::from(told.contradicted);
        Some(anew)
    }

    /// Account of each interface.
    pub fn accounts(&self) -> Vec<Account> {
        let of = |(place, facts): (&Place, &Facts)| {
            Some(Account::new(*place, facts, self.scales.get(place)?, self.asked_apart))
        };
        self.interfaces.iter().filter_map(of).collect()
    }

    /// Account of an interface in a comment of it, where its packets have new times.
    pub fn comment(&self, place: Place) -> Option<String> {
        let (facts, scale) = self.interfaces.get(&place).zip(self.scales.get(&place))?;
        let account = Account::new(place, facts, scale, self.asked_apart);
        scale.is_told().then(|| format!("{COMMENT}{}", account.words()))
    }

    /// Notes besides, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Beginning of the comment of an interface whose packets have new times.
pub const COMMENT: &str = "Truechimer restamp: ";

/// Record of a packet of which nothing tells any more, with its first stamp.
fn unpromised(at: i64, record: &PacketRecord) -> Anew {
    let record = PacketRecord { quality: Quality::Unsynchronised, bound_ns: None, ..*record };
    Anew { unix_ns: at, record }
}

/// New time and record of a packet that was stamped `at` in such units: without a bound where that
/// is too large for a record; `None` where a side is open.
fn anew(at: i64, told: Told, resolution: Resolution) -> Option<Anew> {
    let count = Count(u64::try_from(at).ok()?);
    let (middle, bound) = told.middle()?;
    // The stamp is cut to a unit, and the time is written in the nearest.
    let unit = resolution.unit_ns();
    let bound = bound.saturating_add(unit).saturating_add(unit.div_ceil(2));
    let bound_ns = u32::try_from(bound).ok().filter(|bound| *bound != u32::MAX);
    let record = PacketRecord {
        method: RESTAMPED,
        stamped_by: StampedBy::Unknown,
        quality: match bound_ns {
            Some(_) => Quality::Bounded,
            None => Quality::Unsynchronised,
        },
        counted: Some((count, CountSpan(i64::try_from(unit).ok()?), Counted::NO_EPOCH)),
        generation: 0,
        bound_ns,
    };
    // As it will be read.
    let unix_ns = resolution.ticks(middle).and_then(|ticks| resolution.nanos(ticks))?;
    Some(Anew { unix_ns, record })
}

/// Account of one interface of others.
#[derive(Clone, Serialize, Debug)]
pub struct Account {
    section: u64,
    interface: u32,
    name: String,
    packets: u64,
    /// Packets that have a bound now.
    bounded: u64,
    /// Packets that have a time in UTC, and no bound as it is more than 4.29 s.
    unbounded: u64,
    /// Packets that have the time of its clock, as nothing tells.
    kept: u64,
    /// Those of them near a break.
    contradicted: u64,
    by: &'static str,
    anchors: usize,
    breaks: usize,
    first: Option<Ahead>,
    last: Option<Ahead>,
    /// Lack of knowledge, and what would mend it.
    lacking: Option<String>,
}

/// By how much a clock is ahead of UTC.
#[derive(Clone, Copy, Serialize, Debug)]
struct Ahead {
    unix_ns: i64,
    ahead_ns: i64,
    bound_ns: u64,
}

impl Account {
    fn new(
        (section, interface): Place,
        facts: &Facts,
        scale: &Scale,
        asked_apart: bool,
    ) -> Account {
        let ahead = |(at, told): (i64, Told)| {
            let (unix_ns, bound_ns) = told.middle()?;
            Some(Ahead { unix_ns, ahead_ns: at.checked_sub(unix_ns)?, bound_ns })
        };
        let ends = scale.ends().map(|ends| ends.map(ahead));
        let [first, last] = ends.unwrap_or_default();
        Account {
            section,
            interface,
            name: facts.name.clone(),
            packets: facts.packets,
            bounded: facts.told,
            unbounded: facts.unbounded,
            kept: facts.kept,
            contradicted: facts.contradicted,
            by: match scale.by() {
                By::Nothing => "nothing",
                By::Ntp => "ntp",
                By::Shared => "shared",
                By::Log => "log",
                By::Known => "records",
            },
            anchors: scale.anchors(),
            breaks: scale.breaks(),
            first,
            last,
            lacking: lacking(scale, asked_apart),
        }
    }

    /// Name for people.
    pub fn name(&self) -> String {
        named_or_numbered(&self.name, self.interface)
    }

    /// Account in words.
    pub fn words(&self) -> String {
        let by = match self.by {
            "ntp" => "NTP exchanges that passed",
            "shared" => "packets that another interface saw as well",
            "log" => "the log of its clock",
            "records" => "records of ours",
            _ => "nothing",
        };
        let mut text = format!("time by {by}");
        if let Some(lacking) = &self.lacking {
            return format!("{text}: {lacking}");
        }
        for (when, ahead) in [("first", self.first), ("last", self.last)] {
            if let Some(Ahead { ahead_ns, bound_ns, .. }) = ahead {
                let side = if ahead_ns < 0 { "behind" } else { "ahead of" };
                let seconds = ahead_ns.unsigned_abs() / 1_000_000_000;
                let rest = ahead_ns.unsigned_abs() % 1_000_000_000;
                let bound = Span::from_nanos(i64::try_from(bound_ns).unwrap_or(i64::MAX));
                text += &format!(
                    "; its clock was {seconds}.{rest:09} s {side} UTC at the {when}, ± {bound}"
                );
            }
        }
        if let Some(scale) = self.first.zip(self.last).and_then(|(a, b)| named(a, b)) {
            text += &format!(": {scale}");
        }
        if self.breaks > 0 {
            text += &format!(
                "; {} breaks: it was stepped there, or a reference is wrong; bounds between the \
                 references around a break cover all that these say",
                self.breaks
            );
        }
        if self.contradicted > 0 {
            text += &format!(", those of {} packets", self.contradicted);
        }
        if self.unbounded > 0 {
            text += &format!(
                "; {} packets have a time in UTC and no bound, as more than 4.29 s is left open: \
                 around a step, or far before the first reference or after the last",
                self.unbounded
            );
        }
        if self.kept > 0 {
            text += &format!("; {} keep the time of its clock, as nothing tells", self.kept);
        }
        text
    }
}

/// Name of a scale that is a whole number of seconds from UTC at both ends, to 0.1 s.
fn named(first: Ahead, last: Ahead) -> Option<String> {
    const SECOND: i128 = 1_000_000_000;
    let whole = |Ahead { ahead_ns, bound_ns, .. }: Ahead| {
        let ahead_ns = i128::from(ahead_ns);
        let seconds = (ahead_ns + SECOND / 2).div_euclid(SECOND);
        let off = ahead_ns.abs_diff(seconds * SECOND) + u128::from(bound_ns);
        (off < SECOND.unsigned_abs() / 10).then_some(seconds)
    };
    match (whole(first)?, whole(last)?) {
        (0, 0) => Some("UTC".to_owned()),
        // Since 2017-01-01 (IERS Bulletin C 52).
        (37, 37) => Some("TAI, 37 s ahead".to_owned()),
        (a, b) if a == b => Some(format!("{a} s from UTC")),
        _ => None,
    }
}

/// Lack of knowledge of a scale, and what would mend it.
fn lacking(scale: &Scale, asked_apart: bool) -> Option<String> {
    if scale.is_told() {
        return None;
    }
    if scale.by() == By::Known {
        return Some("those without one keep their times".to_owned());
    }
    if scale.by() == By::Log {
        let why = "its clock was set back in the midst, and the log may be of either part: split \
                   the capture there; its packets keep their times";
        return Some(why.to_owned());
    }
    let one_sided = match (scale.by(), scale.anchors()) {
        (By::Ntp, anchors) if anchors > 0 => {
            "replies of NTP servers passed without their requests, so that its clock may be ahead \
             by any span"
        }
        _ => "no NTP exchange passed",
    };
    let more = match asked_apart {
        true => "and no packet that an interface whose time is known saw as well",
        false => {
            "and how far apart two interfaces can have seen one packet is not known: say it with \
             --apart if they did"
        }
    };
    Some(format!("{one_sided}, {more}; its packets keep their times"))
}
