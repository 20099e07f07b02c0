//! Packets from files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::path::Path;

use truechimer_capture::convert::Change;
use truechimer_capture::filter::Filter;
use truechimer_pcapng::records::{self, Mark, MarkKind, PacketRecord, Quality, RESTAMPED, Record};
use truechimer_pcapng::{Blocks, Content, Options, Pcap, Section, Statistics, Torn, code, kind};
use truechimer_qos::{
    At, Counted, DifferenceClock, Direction, Engine, Note, Observation, Severity,
};
use truechimer_time::{BootId, CounterKind, Epoch, Rate};
use truechimer_timehands::Hand;

use super::{Found, Qos, nanos};
use truechimer_command::Failure;
use truechimer_command::show::many;

/// Largest relative error of the nominal period of a counter whose clock says nothing better: what
/// crystals and the kernel's calibration of the TSC keep.
const NOMINAL: Rate = Rate::from_ppb(500_000);
/// Host of what does not name any.
pub const NOT_TOLD: &str = "not told";
/// Most hosts of an input that are named.
const MOST_HOSTS: usize = 8;

/// Reads all files.
pub fn read(args: &Qos) -> Result<Found, Failure> {
    let two = args.files.len() == 2 || !args.between.is_empty();
    let mut inputs = Vec::new();
    for (n, path) in args.files.iter().enumerate() {
        let assumed = args.assume.get(n).or(args.assume.first()).map(|span| nanos(*span) as u64);
        let mut input = Input::open(path, args.filter.clone(), assumed)?;
        input.point = n;
        input.between.clone_from(&args.between);
        inputs.push(input);
    }
    let mut engine = Engine::new(args.options(if two { 2 } else { 1 }));
    for input in &mut inputs {
        input.advance()?;
    }
    let mut counters = Counters::default();
    // Always the packet that passed first.
    while let Some(input) = inputs
        .iter_mut()
        .filter(|input| input.held.is_some())
        .min_by_key(|input| input.held.as_ref().map_or(i64::MAX, |held| held.at.unix_ns))
    {
        input.give(&mut engine, &mut counters);
        input.advance()?;
    }
    engine.finish();
    let short = distinct(inputs.iter().map(|input| input.name.clone()).collect());
    inputs.iter_mut().zip(&short).for_each(|(input, short)| input.name.clone_from(short));
    let names = if args.between.is_empty() {
        short
    } else {
        args.between.iter().map(|name| format!("interface {name}")).collect()
    };
    let notes = inputs.iter().flat_map(Input::notes).collect();
    let hosts = hosts(inputs.iter().map(|input| (input.name.as_str(), input.host())).collect());
    Ok(Found { engine, names, notes, layers: None, hosts })
}

/// Hosts of inputs by their names: once, where all are of the same.
pub fn hosts(mut of: Vec<(&str, String)>) -> String {
    if let [(_, first), others @ ..] = of.as_mut_slice()
        && others.iter().all(|(_, host)| host == first)
    {
        return std::mem::take(first);
    }
    let each = of.iter().map(|(name, host)| format!("{name}: {host}"));
    each.collect::<Vec<_>>().join("; ")
}

/// Names that tell the two apart, as short as can be.
fn distinct(names: Vec<String>) -> Vec<String> {
    let short: Vec<String> = names
        .iter()
        .map(|name| Path::new(name).file_name().map_or(name.clone(), |s| s.display().to_string()))
        .collect();
    match short.as_slice() {
        [a, b] if a == b => names,
        _ => short,
    }
}

/// Which counter, of which boot of which machine.
type CounterOf = (CounterKind, BootId);

/// Counters that the packets of each point are counted by.
#[derive(Default)]
pub struct Counters {
    first: [Option<CounterOf>; 2],
}

impl Counters {
    /// True if counts of this counter can be compared with the others at the point. Files that were
    /// merged have packets of several machines.
    fn fit(&mut self, point: usize, counter: CounterOf) -> bool {
        let first = self.first.get_mut(point);
        first.is_some_and(|first| *first.get_or_insert(counter) == counter)
    }

    /// True if the counts of both points can be compared.
    fn are_one(&self) -> bool {
        let [first, second] = &self.first;
        first.is_some_and(|(_, boot)| boot != BootId::default()) && first == second
    }
}

/// Conversion of an interface's counts.
struct Clock {
    difference: DifferenceClock,
    counter: CounterOf,
    epoch: Epoch,
    hand: Option<Hand>,
}

impl Clock {
    fn of(change: &Change, before: Option<&Clock>) -> Clock {
        // A change that names no hand leaves the one before.
        let before = before.filter(|before| before.epoch == change.epoch);
        let hand = change.hand.as_ref().map(|used| used.hand);
        Clock {
            difference: match (before, hand) {
                (Some(before), None) => before.difference,
                _ => clock(change),
            },
            counter: (change.counter.kind, change.counter.boot),
            epoch: change.epoch,
            hand: hand.or(before.and_then(|before| before.hand)),
        }
    }

    /// The time on a scale without leap seconds. Unix time repeats in one: the count tells which of
    /// the two it is.
    fn leap_free_ns(&self, unix_ns: i64, counted: Option<&Counted>) -> Option<i64> {
        let hand = self.hand.as_ref().filter(|hand| hand.leaps.known)?;
        let counted = counted.filter(|counted| counted.epoch == self.epoch)?;
        let about = hand.time_at(counted.count).as_nanos();
        const SECOND: i128 = 1_000_000_000;
        let leaps = about.saturating_sub(unix_ns.into()).saturating_add(SECOND / 2);
        let leaps = i64::try_from(leaps.div_euclid(SECOND)).ok()?;
        unix_ns.checked_add(leaps.checked_mul(1_000_000_000)?)
    }
}

type Source<'a> = Chain<Cursor<Vec<u8>>, Box<dyn Read + 'a>>;

enum Form<'a> {
    Pcapng(Box<(Blocks<Source<'a>>, Section)>),
    Pcap(Box<Pcap<Source<'a>>>),
}

/// A packet that waits for its turn.
struct Held {
    at: At,
    counted: Option<Counted>,
    link_type: u16,
    data: Vec<u8>,
    length: u32,
    direction: Direction,
    point: usize,
    clock: Option<(DifferenceClock, CounterOf)>,
}

/// A file, or a stream, that is being read.
pub struct Input<'a> {
    name: String,
    form: Form<'a>,
    /// The point that its packets pass.
    pub point: usize,
    /// Set for a stream, which comes while the packets pass and is ended with us.
    pub streams: bool,
    between: Vec<String>,
    assumed: Option<u64>,
    filter: Option<String>,
    filters: HashMap<u16, Filter>,
    held: Option<Held>,
    /// By the number of the interface.
    clocks: HashMap<u32, Clock>,
    untimed: u64,
    elsewhere: u64,
    interfaces: u32,
    hosts: Hosts,
    missing: Missing,
}

/// Hosts that an input names.
#[derive(Default)]
struct Hosts {
    names: Vec<String>,
    /// True if an interface is of none that is told.
    untold: bool,
    /// True if there are more than are kept.
    more: bool,
}

impl Hosts {
    /// Takes note of an interface's.
    fn add(&mut self, host: Option<&str>) {
        match host {
            None => self.untold = true,
            Some(host) if self.names.iter().any(|name| name == host) => {}
            Some(_) if self.names.len() >= MOST_HOSTS => self.more = true,
            Some(host) => self.names.push(host.to_owned()),
        }
    }
}

/// Packets that passed where an input was captured and that it does not have, as it says itself.
#[derive(Clone, Default)]
struct Missing {
    /// Of the captures before.
    before: u64,
    /// Of the sections of the last capture before the present section.
    capture: Lack,
    section: Lack,
    /// Number of times that an interface went down or vanished.
    down: u64,
}

/// Lack of some sections.
#[derive(Clone, Default)]
struct Lack {
    /// Beginning of the capture, as the statistics have it: the same in each file of a row, whose statistics
    /// are of the whole capture.
    began: Option<[u8; 8]>,
    /// By the number of the interface: the most that its statistics say.
    counted: HashMap<u32, u64>,
    /// Sum of the marks: these are in the statistics too, which a writer that was killed has not
    /// written.
    marked: u64,
}

impl Lack {
    fn count(&mut self, interface: u32, lost: u64) {
        let most = self.counted.entry(interface).or_default();
        *most = lost.max(*most);
    }

    fn add(&mut self, more: Lack) {
        more.counted.into_iter().for_each(|(interface, lost)| self.count(interface, lost));
        self.marked = self.marked.saturating_add(more.marked);
    }

    fn packets(&self) -> u64 {
        let counted = self.counted.values().fold(0u64, |sum, lost| sum.saturating_add(*lost));
        counted.max(self.marked)
    }
}

impl Missing {
    fn count(&mut self, statistics: &Statistics, options: Options<'_>) {
        let Statistics { interface, dropped, system_dropped, .. } = *statistics;
        let lost = dropped.unwrap_or(0).saturating_add(system_dropped.unwrap_or(0));
        self.section.count(interface, lost);
        let mut options = options.filter_map(Result::ok);
        let began = options.find(|option| option.code == code::START);
        self.section.began = began.and_then(|option| option.value.try_into().ok());
    }

    fn mark(&mut self, mark: &Mark) {
        match mark.kind {
            MarkKind::Unwritten => {
                self.section.marked = self.section.marked.saturating_add(mark.value);
            }
            MarkKind::Down | MarkKind::Gone => self.down += 1,
            MarkKind::Up => {}
        }
    }

    /// The present section has ended.
    fn section(&mut self) {
        let ended = std::mem::take(&mut self.section);
        if ended.began.is_some() && ended.began == self.capture.began {
            self.capture.add(ended);
        } else {
            self.before = self.before.saturating_add(self.capture.packets());
            self.capture = ended;
        }
    }

    /// All of them, the present section's included.
    fn packets(&self) -> u64 {
        let mut all = self.clone();
        all.section();
        all.before.saturating_add(all.capture.packets())
    }
}

impl<'a> Input<'a> {
    fn open(
        path: &Path,
        filter: Option<String>,
        assumed: Option<u64>,
    ) -> Result<Input<'a>, Failure> {
        let name = path.display().to_string();
        let source: Box<dyn Read> = if name == "-" {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).map_err(|why| Failure::new(&name, why))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        };
        Input::of(name, source, filter, assumed)
    }

    /// The input from its first bytes on, which tell of what form it is.
    pub fn of(
        name: String,
        mut source: Box<dyn Read + 'a>,
        filter: Option<String>,
        assumed: Option<u64>,
    ) -> Result<Input<'a>, Failure> {
        let mut head = Vec::new();
        let read = source.by_ref().take(4).read_to_end(&mut head);
        read.map_err(|why| Failure::new(&name, why))?;
        if head.is_empty() {
            return Err(Failure::new(&name, "it is empty"));
        }
        let pcapng = head == kind::SECTION.to_le_bytes();
        let source = Cursor::new(head).chain(source);
        let form = if pcapng {
            Form::Pcapng(Box::new((Blocks::new(source), Section::new())))
        } else {
            let pcap = Pcap::new(source).map_err(|why| Failure::new(&name, why))?;
            Form::Pcap(Box::new(pcap))
        };
        Ok(Input {
            name,
            form,
            point: 0,
            streams: false,
            between: Vec::new(),
            assumed,
            filter,
            filters: HashMap::new(),
            held: None,
            clocks: HashMap::new(),
            untimed: 0,
            elsewhere: 0,
            interfaces: 0,
            hosts: Hosts::default(),
            missing: Missing::default(),
        })
    }

    /// Reads up to the next packet that counts.
    pub fn advance(&mut self) -> Result<(), Failure> {
        loop {
            self.held = None;
            let Some(next) = self.next()? else { return Ok(()) };
            if self.passes(&next)? {
                self.held = Some(next);
                return Ok(());
            }
        }
    }

    fn passes(&mut self, packet: &Held) -> Result<bool, Failure> {
        let Some(text) = &self.filter else { return Ok(true) };
        let filter = match self.filters.entry(packet.link_type) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                let made = Filter::compile(text, None, packet.link_type, 262_144);
                place.insert(made.map_err(|why| Failure::Said(why.to_string()))?)
            }
        };
        Ok(filter.matches(&packet.data, packet.length))
    }

    fn next(&mut self) -> Result<Option<Held>, Failure> {
        loop {
            let found = match &mut self.form {
                Form::Pcap(pcap) => {
                    let link_type = pcap.link_type();
                    let packet = pcap.next_packet().map_err(|why| Failure::new(&self.name, why))?;
                    let Some(packet) = packet else { return Ok(None) };
                    let at = packet.unix_ns.map(|unix_ns| At {
                        unix_ns,
                        leap_free_ns: None,
                        bound_ns: self.assumed,
                    });
                    at.map(|at| Held {
                        at,
                        counted: None,
                        link_type,
                        data: packet.data.to_vec(),
                        length: packet.length,
                        direction: Direction::Unknown,
                        point: self.point,
                        clock: None,
                    })
                }
                Form::Pcapng(_) => match self.next_of_blocks()? {
                    Block::End => return Ok(None),
                    Block::Elsewhere => {
                        self.elsewhere += 1;
                        continue;
                    }
                    Block::Untimed => None,
                    Block::Packet(held) => Some(*held),
                },
            };
            match found {
                Some(held) => return Ok(Some(held)),
                None => self.untimed += 1,
            }
        }
    }

    fn next_of_blocks(&mut self) -> Result<Block, Failure> {
        let Form::Pcapng(both) = &mut self.form else { return Ok(Block::End) };
        let (blocks, section) = &mut **both;
        loop {
            let block = blocks.next_block().map_err(|why| Failure::new(&self.name, why))?;
            let Some(block) = block else { return Ok(Block::End) };
            let content = section.take(&block).map_err(|why| Failure::new(&self.name, why))?;
            let begins = matches!(content, Content::Interface(..));
            let (options, of, packet) = match content {
                Content::Packet(packet) => (packet.options, packet.interface, Some(packet)),
                Content::Interface(number, options) => {
                    self.interfaces = self.interfaces.max(number.saturating_add(1));
                    (options, number, None)
                }
                Content::Section(_) => {
                    self.clocks.clear();
                    self.missing.section();
                    continue;
                }
                Content::Statistics(statistics, options) => {
                    // Of one that the section has: there is an end to those.
                    let is_there = section.interface(statistics.interface).is_some();
                    if is_there && is_of(&self.between, section, statistics.interface) {
                        self.missing.count(&statistics, options);
                    }
                    (options, statistics.interface, None)
                }
                Content::Other => continue,
            };
            let said = look(options, block.order)
                .map_err(|what| Failure::new(&self.name, block.damaged(what)))?;
            if begins && is_of(&self.between, section, of) {
                let ours = section.interface(of).filter(|_| said.change.is_some());
                self.hosts.add(ours.and_then(|ours| records::host_of(&ours.description)));
            }
            if let Some(change) = said.change
                && section.interface(of).is_some()
            {
                let clock = Clock::of(&change, self.clocks.get(&of));
                self.clocks.insert(of, clock);
            }
            if is_of(&self.between, section, of) {
                said.marks.iter().for_each(|mark| self.missing.mark(mark));
            }
            let Some(packet) = packet else { continue };
            let Some(unix_ns) = section.nanos(&packet) else { return Ok(Block::Untimed) };
            let interface = section.interface(packet.interface);
            let Some(point) = point(&self.between, self.point, section, of) else {
                return Ok(Block::Elsewhere);
            };
            let record = said.record;
            let bound = record
                .filter(|record| record.quality == Quality::Bounded)
                .and_then(|record| record.bound_ns.map(u64::from));
            let clock = self.clocks.get(&of);
            let counted = record
                .filter(|record| record.method != RESTAMPED)
                .and_then(|record| record.counted)
                .map(|(count, error, epoch)| Counted { count, error, epoch });
            let leap_free_ns =
                clock.and_then(|clock| clock.leap_free_ns(unix_ns, counted.as_ref()));
            return Ok(Block::Packet(Box::new(Held {
                at: At { unix_ns, leap_free_ns, bound_ns: bound.or(self.assumed) },
                counted,
                clock: clock.map(|clock| (clock.difference, clock.counter)),
                link_type: interface.map_or(0, |interface| interface.link_type),
                data: packet.data.to_vec(),
                length: packet.length,
                direction: said.direction,
                point,
            })));
        }
    }

    /// Host that its packets were captured at, or several, in words.
    pub fn host(&self) -> String {
        let Hosts { names, untold, more } = &self.hosts;
        let more = more.then(|| "others".to_owned());
        let untold = (*untold || names.is_empty()).then(|| NOT_TOLD.to_owned());
        names.iter().cloned().chain(more).chain(untold).collect::<Vec<_>>().join(", ")
    }

    /// Time of the packet that is to be handed on, if there is one.
    pub fn held_at(&self) -> Option<At> {
        Some(self.held.as_ref()?.at)
    }

    /// Hands the packet on.
    pub fn give(&mut self, engine: &mut Engine, counters: &mut Counters) {
        let Some(held) = &self.held else { return };
        let fits = held.clock.is_some_and(|(_, counter)| counters.fit(held.point, counter));
        if fits {
            engine.set_clock(held.point, held.clock.map(|(difference, _)| difference));
            engine.set_one_counter(counters.are_one());
        }
        engine.observe(&Observation {
            point: held.point,
            at: held.at,
            counted: held.counted.filter(|_| fits),
            link_type: held.link_type,
            data: &held.data,
            length: held.length,
            direction: held.direction,
        });
    }

    /// Notes of what is odd about it.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut say = |severity, text: String| {
            notes.push(Note { severity, text: format!("{}: {text}", self.name) });
        };
        let torn: Option<Torn> = match &self.form {
            Form::Pcapng(both) => both.0.torn(),
            Form::Pcap(pcap) => pcap.torn(),
        };
        if torn.is_some() && !self.streams {
            let text = "ends in the midst of a packet: its writer was stopped";
            say(Severity::Warning, text.to_owned());
        }
        let missing = self.missing.packets();
        if missing > 0 {
            let text = format!(
                "up to {missing} passed there that it does not have, as it says itself of the whole \
                 capture: they look as if they were lost on the way"
            );
            say(Severity::Warning, text);
        }
        if self.missing.down > 0 {
            let times = many(self.missing.down, "time", "times");
            say(Severity::Warning, format!("its interface went down {times}"));
        }
        if self.untimed > 0 {
            let text = format!("{} packets have no time, and were left out", self.untimed);
            say(Severity::Warning, text);
        }
        if self.elsewhere > 0 {
            let text = format!("{} packets are of other interfaces", self.elsewhere);
            say(Severity::Note, text);
        }
        if self.between.is_empty() && self.interfaces > 1 {
            let mend = match self.streams {
                true => "have it capture one",
                false => "--between A,B makes two of them",
            };
            let text = format!(
                "has {} interfaces, which are taken for one point; {mend}",
                self.interfaces
            );
            say(Severity::Note, text);
        }
        if let Some(assumed) = self.assumed {
            let span = truechimer_time::Span::from_nanos(assumed as i64);
            say(Severity::Note, format!("its times were taken to be right to within ± {span}"));
        }
        notes
    }
}

enum Block {
    End,
    Elsewhere,
    Untimed,
    Packet(Box<Held>),
}

/// The point that an interface's packets belong to.
fn point(between: &[String], alone: usize, section: &Section, interface: u32) -> Option<usize> {
    if between.is_empty() {
        return Some(alone);
    }
    let name = section.interface(interface).map_or("", |interface| interface.name.as_str());
    let number = interface.to_string();
    between.iter().position(|wanted| *wanted == name || *wanted == number)
}

/// True of an interface that is one of those looked at.
fn is_of(between: &[String], section: &Section, interface: u32) -> bool {
    point(between, 0, section, interface).is_some()
}

/// Contents of a block's options.
#[derive(Default)]
struct Said {
    change: Option<Box<Change>>,
    record: Option<PacketRecord>,
    marks: Vec<Mark>,
    direction: Direction,
}

fn look(options: Options<'_>, order: truechimer_pcapng::Order) -> Result<Said, String> {
    let mut said = Said::default();
    for option in options {
        let option = option?;
        match option.code {
            code::FLAGS => {
                said.direction = match order.u32(option.value, 0).map(|flags| flags & 3) {
                    Some(1) => Direction::In,
                    Some(2) => Direction::Out,
                    _ => Direction::Unknown,
                };
            }
            code::CUSTOM => match records::read(option.value)? {
                Some(Record::Packet(record)) => said.record = Some(record),
                Some(Record::Change(json)) => {
                    let change: Change = serde_json::from_str(json)
                        .map_err(|why| format!("the state of the clock: {why}"))?;
                    said.change = Some(Box::new(change));
                }
                Some(Record::Mark(mark)) => said.marks.push(mark),
                Some(Record::Unknown { .. }) | None => {}
            },
            _ => {}
        }
    }
    Ok(said)
}

/// The clock that spans are measured by from a change on.
pub fn clock(change: &Change) -> DifferenceClock {
    match &change.hand {
        Some(used) => {
            DifferenceClock { period: used.hand.difference, error: used.hand.difference_error }
        }
        None => DifferenceClock { period: change.counter.period, error: NOMINAL },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_pcapng::write;

    #[test]
    fn statistics_of_a_whole_capture_are_not_summed_over_its_files() {
        let file = |began: u64, said: [u64; 2], mark: Option<u64>| {
            let mut file = Vec::new();
            write::section(&mut file).end();
            for _ in 0..2 {
                write::interface(&mut file, 1, 0).end();
            }
            if let Some(mark) = mark {
                let mark = Mark { kind: MarkKind::Unwritten, unix_ns: 0, value: mark };
                write::packet(&mut file, 0, 1, &[&[0; 60]], 60).record(&mark.encode()).end();
            }
            // An interface of number 7 is none of its.
            for (interface, lost) in [(0, said[0]), (1, said[1]), (7, 100)] {
                let block = write::statistics(&mut file, interface, 0);
                block.time(code::START, began as i64).count(code::DROPPED, lost).end();
            }
            file
        };
        let missing = |files: &[Vec<u8>]| {
            let bytes = files.concat();
            let source = Box::new(bytes.as_slice());
            let mut input = Input::of("row".into(), source, None, None).unwrap();
            while input.advance().is_ok() && input.held.is_some() {}
            input.missing.packets()
        };
        let row = [file(5, [3, 0], Some(3)), file(5, [3, 1], None), file(5, [4, 1], None)];
        assert_eq!(missing(&row), 5);
        assert_eq!(missing(&row[2..]), 5);
        // Another capture has losses of its own.
        assert_eq!(missing(&[row.concat(), file(6, [1, 1], None)]), 7);
        // One that says nothing of its beginning is one by itself.
        let mut unsaid = Vec::new();
        write::section(&mut unsaid).end();
        write::interface(&mut unsaid, 1, 0).end();
        write::statistics(&mut unsaid, 0, 0).count(code::DROPPED, 2).end();
        assert_eq!(missing(&[unsaid.clone(), unsaid, row.concat()]), 9);
    }

    #[test]
    fn counts_of_different_machines_are_not_compared() {
        let counter = |boot: u8| (CounterKind::Tsc, BootId([boot; 16]));
        let mut counters = Counters::default();
        assert!(counters.fit(0, counter(1)) && !counters.are_one());
        assert!(counters.fit(1, counter(1)) && counters.are_one());
        assert!(!counters.fit(1, counter(2)), "a second machine at one point");
        let mut two = Counters::default();
        assert!(two.fit(0, counter(1)) && two.fit(1, counter(2)) && !two.are_one());
        let mut unknown = Counters::default();
        assert!(unknown.fit(0, counter(0)) && unknown.fit(1, counter(0)) && !unknown.are_one());
    }
}
