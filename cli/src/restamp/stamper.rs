//! One restamper for each interface, and what came of them together.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use truechimer::Clock;
use truechimer_capture::convert::Change;
use truechimer_capture::pipeline::Spread;
use truechimer_capture::restamp::{Hands, Recorded, RestampError, Restamper};
use truechimer_capture::{Counted, Quality, Stamped, sink};
use truechimer_pcapng::records::{self, PacketRecord};

use truechimer_command::Failure;

use super::scan::{Place, Scanned};

/// By what times are worked out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// They stay as they are.
    Nothing,
    /// By the hands that were used at the time.
    Recorded,
    /// By all hands that are known.
    Best,
}

/// Outcome for a packet's time.
#[derive(Clone, Copy, Debug)]
pub struct Anew {
    /// Unix ns.
    pub unix_ns: i64,
    /// The record that says how.
    pub record: PacketRecord,
}

/// Works out times for all interfaces of a file.
pub struct Stampers {
    by: By,
    hands: BTreeMap<Place, Hands>,
    restampers: BTreeMap<Place, Restamper>,
    /// The states that were told last: they are repeated now and then.
    told: BTreeMap<Place, Change>,
    /// By how much times moved, ns.
    pub shifts: Spread,
    /// Times that moved.
    pub changed: u64,
    /// Packets that bear no record of ours, and keep their times.
    pub foreign: u64,
    /// Packets of others that have new times.
    pub restamped: u64,
    /// Packets of others that bear a record without a bound.
    pub unbounded: u64,
    /// Bounds in the file, ns.
    pub before: Spread,
    /// Bounds afterwards, ns.
    pub after: Spread,
}

impl Stampers {
    /// With the hands in the file itself.
    pub fn new(scanned: &Scanned, by: By) -> Stampers {
        let mut hands = BTreeMap::new();
        for (place, track) in &scanned.tracks {
            if let (Some(counter), Some((first, last)), By::Best) = (track.counter, track.range, by)
            {
                let mut those = Hands::new(counter, first, last);
                track.changes.iter().for_each(|change| those.recorded(change));
                hands.insert(*place, those);
            }
        }
        Stampers {
            by,
            hands,
            restampers: BTreeMap::new(),
            told: BTreeMap::new(),
            shifts: Spread::default(),
            changed: 0,
            foreign: 0,
            restamped: 0,
            unbounded: 0,
            before: Spread::default(),
            after: Spread::default(),
        }
    }

    /// With those in a replay log.
    pub fn log(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.display().to_string();
        let open = || File::open(path).map_err(|why| Failure::new(&name, why));
        let mut files = Vec::new();
        for _ in 0..self.hands.len() {
            files.push(BufReader::with_capacity(1 << 18, open()?));
        }
        let mut files = files.into_iter();
        self.each(|hands| match files.next() {
            Some(file) => hands.log(file, &name).map(drop),
            None => Ok(()),
        })
    }

    /// With that of a page.
    pub fn page(&mut self, clock: &Clock) -> Result<(), Failure> {
        self.each(|hands| hands.page(clock))
    }

    /// In a file of several hosts hands are of one of them.
    fn each(
        &mut self,
        mut take: impl FnMut(&mut Hands) -> Result<(), RestampError>,
    ) -> Result<(), Failure> {
        if self.hands.is_empty() {
            let why = "the file does not say of which counter its counts are (a tool has taken \
                       the options of its interfaces away): no other hands can be used";
            return Err(Failure::Said(why.to_owned()));
        }
        let (mut taken, mut refused) = (0, None);
        for hands in self.hands.values_mut() {
            match take(hands) {
                Ok(()) => taken += 1,
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            Some(why) if taken == 0 => Err(Failure::Said(why.to_string())),
            _ => Ok(()),
        }
    }

    /// States of the clock that stand before the next packet of an interface.
    pub fn changes(&mut self, place: Place, changes: &[Change]) {
        for change in changes {
            if self.told.get(&place) != Some(change) {
                self.told.insert(place, change.clone());
                self.restamper(place).change(change);
            }
        }
    }

    /// Status of the clock as packets of an interface were captured, for their comments.
    pub fn clock(&self, place: Place) -> Option<String> {
        self.told.get(&place).map(|change| sink::clock(change.status))
    }

    /// A packet of others that keeps its time.
    pub fn foreign(&mut self) {
        self.foreign += 1;
    }

    /// New time of a packet of others, which the file has at `unix_ns` with such a record.
    pub fn restamped(&mut self, record: Option<&PacketRecord>, anew: &Anew, unix_ns: i64) {
        let old = record.and_then(|record| record.bound_ns);
        old.into_iter().for_each(|ns| self.before.add(ns.into()));
        match anew.record.bound_ns {
            Some(_) => self.restamped += 1,
            None => self.unbounded += 1,
        }
        self.count(anew, unix_ns);
    }

    /// Counts what came of a packet's time.
    fn count(&mut self, anew: &Anew, unix_ns: i64) {
        anew.record.bound_ns.into_iter().for_each(|ns| self.after.add(ns.into()));
        let shift = anew.unix_ns.abs_diff(unix_ns);
        if shift > 0 {
            self.changed += 1;
            self.shifts.add(shift);
        }
    }

    /// The time of a packet that the file has at `unix_ns`.
    pub fn stamp(&mut self, place: Place, record: &PacketRecord, unix_ns: i64) -> Anew {
        let recorded = Recorded {
            counted: record.counted.map(|(count, error, epoch)| Counted { count, error, epoch }),
            unix_ns,
            quality: match record.quality {
                records::Quality::Bounded => Quality::Bounded,
                records::Quality::Unsynchronised => Quality::Unsynchronised,
                records::Quality::Uncounted => Quality::Uncounted,
            },
            generation: record.generation,
        };
        record.bound_ns.into_iter().for_each(|ns| self.before.add(ns.into()));
        let anew = match self.by {
            By::Nothing => Anew { unix_ns, record: *record },
            By::Recorded | By::Best => {
                let restamper = self.restamper(place);
                let before = restamper.report().contradicted;
                let stamped = restamper.stamp(&recorded);
                let refuted = restamper.report().contradicted > before;
                renew(self.by, record, &recorded, &stamped, refuted)
            }
        };
        self.count(&anew, unix_ns);
        anew
    }

    /// Reports of the restampers.
    pub fn reports(&self) -> impl Iterator<Item = &truechimer_capture::restamp::Report> {
        self.restampers.values().map(Restamper::report)
    }

    fn restamper(&mut self, place: Place) -> &mut Restamper {
        let hands = &mut self.hands;
        self.restampers.entry(place).or_insert_with(|| match hands.remove(&place) {
            Some(hands) => Restamper::best(hands),
            None => Restamper::recorded(),
        })
    }
}

/// True if what the file promises is narrower than what is known now, and not contradicted by it: a
/// hand that the daemon has extended since may know less of a moment than the one of that moment.
pub(super) fn kept(old: &PacketRecord, then_ns: i64, now_ns: i64, bound_ns: Option<u32>) -> bool {
    let (Some(then), Some(now)) = (old.bound_ns, bound_ns) else { return false };
    let apart = then_ns.abs_diff(now_ns);
    old.quality == records::Quality::Bounded
        && then < now
        && apart <= u64::from(then) + u64::from(now)
}

/// The record with what is new in it. Where nothing is, to the last bit the old one. `refuted`: hands
/// contradict each other, and the record's may be the wrong one.
fn renew(
    by: By,
    old: &PacketRecord,
    recorded: &Recorded,
    stamped: &Stamped,
    refuted: bool,
) -> Anew {
    let unix_ns = stamped.unix_ns;
    // Somebody has cut the hand that it is by out of the file: what was promised then still is.
    let lost = stamped.quality != Quality::Bounded && unix_ns == recorded.unix_ns;
    if by == By::Recorded && lost {
        return Anew { unix_ns, record: *old };
    }
    let bound_ns = stamped.bound.and_then(sink::bound_ns);
    let quality = match stamped.quality {
        // A bound too large for a record promises nothing.
        Quality::Bounded if bound_ns.is_none() => records::Quality::Unsynchronised,
        Quality::Bounded => records::Quality::Bounded,
        Quality::Unsynchronised => records::Quality::Unsynchronised,
        Quality::Uncounted => records::Quality::Uncounted,
    };
    if by == By::Best && !refuted && kept(old, recorded.unix_ns, unix_ns, bound_ns) {
        return Anew { unix_ns: recorded.unix_ns, record: *old };
    }
    let record = PacketRecord { quality, generation: stamped.generation, bound_ns, ..*old };
    Anew { unix_ns, record }
}
