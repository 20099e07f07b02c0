//! The first reading: whose counts there are, from when to when, and what the clock was.

use std::collections::BTreeMap;
use std::io::Read;

use truechimer_capture::convert::{Change, Identity};
use truechimer_pcapng::records::{self, PacketRecord, RESTAMPED, Record};
use truechimer_pcapng::{Block, Blocks, Content, Options, ReadError, Section, code};
use truechimer_time::Count;

use truechimer_command::Failure;

use super::others::{Looks, Others};

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
    /// Program that wrote it, as it says.
    pub application: Option<String>,
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

/// Reads a file as far as it goes; packets of others are shown to `looks`.
pub fn scan(input: impl Read, name: &str, looks: &mut Looks) -> Result<Scanned, Failure> {
    let failed = |why| Failure::new(name, why);
    let (mut blocks, mut section) = (Blocks::new(input), Section::new());
    let mut scanned = Scanned::default();
    loop {
        match blocks.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(why) => return Err(failed(why)),
        }
        let Some(block) = blocks.block() else { break };
        scanned.blocks += 1;
        let (place, options, packet) = match section.take(&block).map_err(failed)? {
            Content::Packet(packet) => (packet.interface, packet.options, Some(packet)),
            Content::Interface(number, options) => (number, options, None),
            Content::Statistics(statistics, options) => (statistics.interface, options, None),
            Content::Section(options) => {
                let text = options.find(code::APPLICATION);
                let text = text.map(|t| String::from_utf8_lossy(t.value).into_owned());
                scanned.application = scanned.application.or(text);
                continue;
            }
            Content::Other => continue,
        };
        let mut found = examine(&block, options).map_err(failed)?;
        scanned.unknown += found.unknown;
        if let Some(packet) = packet {
            scanned.packets += 1;
            if found.unknown == 0 {
                looks.packet(&section, &packet, found.packet.as_ref().map(|(_, record)| record));
            }
        }
        // Its count is no counter's.
        found.packet = found.packet.filter(|(_, record)| record.method != RESTAMPED);
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

/// Reason why there is nothing to go by in a file, where there is not.
pub fn nothing(scanned: &Scanned, others: &Others) -> Option<String> {
    if scanned.recorded > 0 || others.is_told() {
        return None;
    }
    let application = scanned.application.as_deref().unwrap_or_default();
    let plain: String = application.chars().filter(|c| !c.is_control()).take(80).collect();
    let by = match plain.as_str() {
        "" => String::new(),
        plain => format!(" (written by {plain})"),
    };
    if scanned.unknown > 0 {
        return Some("its raw counts are in a later form than this version knows".to_owned());
    }
    if scanned.packets == 0 {
        return Some(format!("no packets in it{by}"));
    }
    let mut text = format!("none of its {} packets bears a raw count{by}", scanned.packets);
    for account in others.accounts() {
        text += &format!("; {}: {}", account.name(), account.words());
    }
    Some(text)
}
