//! The first reading: whose counts there are, from when to when, and what the clock was.

use std::collections::BTreeMap;
use std::io::Read;

use truechimer_capture::convert::{Change, Identity};
use truechimer_pcapng::records::{self, PacketRecord, Record};
use truechimer_pcapng::{Block, Blocks, Content, Options, ReadError, Section, code};
use truechimer_time::Count;

use truechimer_command::Failure;

/// More states of the clock than this are no capture's: eleven days at one a second.
const MOST_CHANGES: usize = 1_000_000;

/// An interface: the section's number, and its own in that.
pub type Place = (u64, u32);

/// Facts that the packets of one interface have in common.
#[derive(Debug, Default)]
pub struct Track {
    /// The counter; `None` while no state of the clock told.
    pub counter: Option<Identity>,
    /// The first and the last count.
    pub range: Option<(Count, Count)>,
    /// The states of the clock.
    pub changes: Vec<Change>,
}

/// Contents of a file.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Whole blocks.
    pub blocks: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that bear a record of ours.
    pub recorded: u64,
    /// Records of a later version than this program's.
    pub unknown: u64,
    /// By interface.
    pub tracks: BTreeMap<Place, Track>,
}

/// The records of ours in one block.
#[derive(Debug, Default)]
pub struct Found {
    /// The packet's, and where it begins (after the enterprise number) in bytes from the start of
    /// the block.
    pub packet: Option<(usize, PacketRecord)>,
    /// The states of the clock that travel with it.
    pub changes: Vec<Change>,
    /// Records of a later version.
    pub unknown: u64,
}

/// Reads a file as far as it goes.
pub fn scan(input: impl Read, name: &str) -> Result<Scanned, Failure> {
    let failed = |why| Failure::new(name, why);
    let (mut blocks, mut section) = (Blocks::new(input), Section::new());
    let mut scanned = Scanned::default();
    let mut application = None;
    loop {
        match blocks.advance() {
            Ok(true) => {}
            Ok(false) => break,
            // An older file is no damage, but holds nothing to go by either.
            Err(ReadError::Foreign(what)) if scanned.blocks == 0 => {
                return Err(Failure::new(name, foreign(&what)));
            }
            Err(why) => return Err(failed(why)),
        }
        let Some(block) = blocks.block() else { break };
        scanned.blocks += 1;
        let (place, options, packet) = match section.take(&block).map_err(failed)? {
            Content::Packet(packet) => (packet.interface, packet.options, true),
            Content::Interface(number, options) => (number, options, false),
            Content::Statistics(statistics, options) => (statistics.interface, options, false),
            Content::Section(options) => {
                let text = options.find(code::APPLICATION);
                application =
                    application.or(text.map(|t| String::from_utf8_lossy(t.value).into_owned()));
                continue;
            }
            Content::Other => continue,
        };
        scanned.packets += u64::from(packet);
        let found = examine(&block, options).map_err(failed)?;
        scanned.unknown += found.unknown;
        if found.packet.is_none() && found.changes.is_empty() {
            continue;
        }
        let track = scanned.tracks.entry((section.number(), place)).or_default();
        for change in found.changes {
            track.change(change).map_err(|what| failed(block.damaged(what)))?;
        }
        if let Some((_, record)) = found.packet {
            scanned.recorded += 1;
            if let Some((count, _, _)) = record.counted {
                let (first, last) = track.range.unwrap_or((count, count));
                let first = if first.at_or_after(count) { count } else { first };
                track.range = Some((first, last.latest(count)));
            }
        }
    }
    if scanned.blocks == 0 {
        return Err(Failure::new(name, "the file is empty"));
    }
    if scanned.recorded == 0 {
        return Err(Failure::new(name, nothing(&scanned, application)));
    }
    Ok(scanned)
}

impl Track {
    fn change(&mut self, change: Change) -> Result<(), String> {
        let counter = *self.counter.get_or_insert(change.counter);
        if (counter.kind, counter.boot) != (change.counter.kind, change.counter.boot) {
            return Err("the counter of an interface changes in its midst".to_owned());
        }
        // It is repeated now and then.
        if self.changes.last() != Some(&change) {
            if self.changes.len() >= MOST_CHANGES {
                return Err(format!("more than {MOST_CHANGES} states of the clock"));
            }
            self.changes.push(change);
        }
        Ok(())
    }
}

/// The records of ours among a block's options.
pub fn examine(block: &Block<'_>, options: Options<'_>) -> Result<Found, ReadError> {
    let mut found = Found::default();
    for option in options {
        let option = option.map_err(|what| block.damaged(what))?;
        if option.code != code::CUSTOM {
            continue;
        }
        match records::read(option.value).map_err(|what| block.damaged(what))? {
            Some(Record::Packet(record)) if found.packet.is_some() => {
                return Err(block.damaged(format!("two records of one packet: {record:?}")));
            }
            Some(Record::Packet(record)) => found.packet = Some((option.at + 4, record)),
            Some(Record::Change(json)) => {
                let change = serde_json::from_str(json)
                    .map_err(|why| block.damaged(format!("state of the clock: {why}")))?;
                found.changes.push(change);
            }
            Some(Record::Unknown { .. }) => found.unknown += 1,
            Some(Record::Mark(_)) | None => {}
        }
    }
    Ok(found)
}

fn foreign(what: &str) -> &str {
    match what {
        "a pcap file, not a pcapng" => {
            "a pcap file holds no raw counts; the pcapng of 'truechimer capture' does"
        }
        what => what,
    }
}

fn nothing(scanned: &Scanned, application: Option<String>) -> String {
    let plain: String =
        application.unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
    let by = match plain.as_str() {
        "" => String::new(),
        plain => format!(" (written by {plain})"),
    };
    if scanned.unknown > 0 {
        return "its raw counts are in a later form than this version knows".to_owned();
    }
    match scanned.packets {
        0 => format!("no packets in it{by}"),
        many => format!(
            "none of its {many} packets bears a raw count{by}: only captures of 'truechimer \
             capture' can be restamped, and tools that filter options out of them spoil them"
        ),
    }
}
