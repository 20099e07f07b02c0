//! A capture in pcapng.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use truechimer_pcapng::records::{self, MarkKind};
use truechimer_pcapng::{code, comment, write};
use truechimer_time::Span;
use truechimer_timehands::Status;

use super::encode::{self, Attached};
use super::output::{BadEnd, Outcome, Output};
use super::{FileOptions, Mark, Sink, SinkError, Written, names};
use crate::convert::{Change, Used};
use crate::{Facts, Losses, Packet, Quality, Stamped};

/// Bytes that are collected before they are written.
const BATCH: usize = 256 << 10;
/// Longest time that they wait for that.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which a full disk is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Lateness of a file by time that the next one makes up for: it is looked at each second, on a busy machine a
/// little later.
const LATE: Duration = Duration::from_secs(2);
/// The state of the clock is repeated after so many bytes, of which it takes 1 or 2 %: whoever
/// keeps part of a file is likely to keep one of them.
const REPEAT: usize = 64 << 10;
/// More records than this do not wait for a packet to travel with. Those in the middle are dropped:
/// what came right after the last packet and right before the next is of most use to them.
const WAITING: usize = 16;

/// A capture in pcapng, in one file, in a row of files, or on standard output.
///
/// Each file is complete in itself: it begins with the interfaces, and their counters and clocks as
/// they are then. The first file begins with the first packet, with a flush after the first change,
/// or a second after all; so a change before those stands at its beginning.
#[derive(Debug)]
pub struct CaptureFile {
    interfaces: Vec<Interface>,
    options: FileOptions,
    output: Output,
    /// Compressed files that are not complete yet.
    ending: Vec<Complete>,
    buffer: Vec<u8>,
    /// The head stands in the file (or in the buffer).
    headed: bool,
    /// When to try again, while the disk is full.
    again: Option<Instant>,
    /// The present file may not grow any more, though there is room: the next one can.
    too_large: bool,
    flushed: Instant,
    /// When the present file was begun, by a clock that does not jump.
    begun: Instant,
    capture_begun: SystemTime,
    files: VecDeque<PathBuf>,
    /// Number of the present one in its name.
    number: u64,
    /// Bytes of files that are complete.
    before: u64,
    /// When to try again to begin another file, if that could not be.
    no_rotation_before: Option<Instant>,
    written: Written,
    finished: bool,
    /// Reason for which nothing more can be written, to be reported with the next call: what came before is accounted for.
    failed: Option<SinkError>,
}

/// A file that has all its blocks.
#[derive(Debug)]
struct Complete {
    output: Output,
    /// Packets of each interface that were handed to it.
    packets: Vec<u64>,
}

/// One interface of a capture.
#[derive(Debug)]
struct Interface {
    facts: Facts,
    /// The number of the method in records.
    method: u8,
    /// The present state of the clock.
    state: Option<Attached>,
    /// The hand in it.
    hand: Option<Used>,
    /// Status and epoch of the clock: people are told when they change.
    told: Option<(Option<Status>, u32)>,
    waiting: VecDeque<Attached>,
    /// Bytes until the state is repeated.
    until_repeat: usize,
    /// Packets that were handed to the system, and those that could not be.
    packets: u64,
    unwritten: u64,
    /// Of `packets`, those in files before the present one.
    before: u64,
    /// Packets that were lost to a full disk since the last one that was not.
    unsaid: u64,
    /// Number of those in a mark that is not written yet, and where its block begins in the buffer.
    announced: Option<(u64, usize)>,
    losses: Losses,
    dropped: u64,
    /// Packets that the file's last statistics say are missing, and when they were written.
    told_missing: (u64, Option<Instant>),
    tally: Tally,
}

impl Interface {
    fn new(facts: &Facts) -> Interface {
        Interface {
            method: encode::method(facts.method),
            facts: facts.clone(),
            state: None,
            hand: None,
            told: None,
            waiting: VecDeque::new(),
            until_repeat: REPEAT,
            packets: 0,
            unwritten: 0,
            before: 0,
            unsaid: 0,
            announced: None,
            losses: Losses::default(),
            dropped: 0,
            told_missing: (0, None),
            tally: Tally::default(),
        }
    }

    /// A file begins, which says the state.
    fn begin(&mut self) {
        let state = self.state.as_ref();
        self.waiting.retain(|waiting| Some(waiting) != state);
        self.until_repeat = REPEAT;
    }

    /// Notes what happened here, for programs and for people.
    fn note(&mut self, (kind, value): (MarkKind, u64), text: &str) {
        let mark = records::Mark { kind, unix_ns: names::unix_ns(SystemTime::now()), value };
        self.wait_for_packet(Attached::Record(mark.encode().to_vec()));
        self.wait_for_packet(Attached::Comment(text.to_owned()));
    }

    fn wait_for_packet(&mut self, attached: Attached) {
        if self.waiting.len() >= WAITING {
            self.waiting.remove(WAITING / 2);
        }
        self.waiting.push_back(attached);
    }

    /// Notes that so many bytes of the buffer are written, perhaps with the mark.
    fn written(&mut self, bytes: usize) {
        self.announced = self.announced.and_then(|(lost, at)| Some((lost, at.checked_sub(bytes)?)));
    }

    /// Packets that were taken over are lost, and a mark that was to be written: the disk is full.
    fn lose(&mut self, packets: u64) {
        self.packets = self.packets.saturating_sub(packets);
        self.unwritten += packets;
        self.unsaid += packets + self.announced.take().map_or(0, |(lost, _)| lost);
        // Records that were lost with them: the state is what matters.
        self.until_repeat = 0;
    }

    /// Adds to the next packet, at this place of the buffer, how many are missing before it, and the state
    /// in its turn.
    fn prepare(&mut self, at: usize) {
        if self.unsaid > 0 {
            let lost = std::mem::take(&mut self.unsaid);
            self.announced = Some((lost, at));
            let text = format!("packets before this that could not be written: {lost}");
            self.note((MarkKind::Unwritten, lost), &text);
        }
        if self.until_repeat == 0 {
            let there = self.waiting.iter().any(|waiting| Some(waiting) == self.state.as_ref());
            if let (Some(state), false) = (&self.state, there) {
                self.waiting.push_front(state.clone());
            }
            self.until_repeat = REPEAT;
        }
    }

    /// Packets that passed and are in no file.
    fn missing(&self) -> u64 {
        let Losses { ring, kernel, interface, .. } = self.losses;
        let all = [ring, kernel, interface, self.dropped];
        all.iter().fold(self.unwritten, |a, b| a.saturating_add(*b))
    }

    /// Writes the statistics, with what is still waiting if they are the last.
    fn statistics(&mut self, number: u32, out: &mut Vec<u8>, began: SystemTime, last: bool) {
        let now = names::unix_ns(SystemTime::now());
        let Losses { received, ring, kernel, interface } = self.losses;
        let lost_here = self.dropped.saturating_add(self.unwritten);
        let block = write::statistics(out, number, now)
            .time(code::START, names::unix_ns(began))
            .time(code::STOP, now)
            .count(code::RECEIVED, received)
            .count(code::DROPPED, kernel.saturating_add(interface))
            .count(code::ACCEPTED, received)
            .count(code::SYSTEM_DROPPED, ring.saturating_add(lost_here))
            .count(code::DELIVERED, self.packets)
            .comment(&self.tally.say());
        let waiting = if last { std::mem::take(&mut self.waiting) } else { VecDeque::new() };
        encode::attach(block, &Vec::from(waiting)).end();
        self.told_missing = (self.missing(), Some(Instant::now()));
    }

    /// True where more is missing than the statistics said, of a second ago: who reads a stream, or a
    /// file whose writer was killed, is not to take it for a loss on the way.
    fn has_news(&self) -> bool {
        let (told, when) = self.told_missing;
        self.missing() != told && when.is_none_or(|when| when.elapsed() >= PATIENCE)
    }

    fn change(&mut self, change: &Change, headed: bool) {
        let told = (change.status, change.epoch.0);
        if self.told.is_some_and(|before| before != told) {
            self.wait_for_packet(Attached::Comment(say(change)));
        }
        self.told = Some(told);
        // A change that names no hand goes on with the one before. Each that is written names it,
        // so that any of them can be the first of a file.
        let hand = change.hand.or(self.hand);
        self.hand = hand;
        let whole = Change { hand, ..change.clone() };
        let Some(record) = encode::change(&whole).map(Attached::Record) else { return };
        self.state = Some(record.clone());
        if headed {
            self.wait_for_packet(record);
        }
    }

    fn mark(&mut self, mark: Mark) {
        let (kind, text) = match mark {
            Mark::Down => (MarkKind::Down, "went down"),
            Mark::Up => (MarkKind::Up, "is up again"),
            Mark::Gone => (MarkKind::Gone, "is gone"),
        };
        let text = format!("{} {text} before this", self.facts.interface);
        self.note((kind, 0), &text);
    }
}

/// Tally of the quality of the packets' times.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    bounded: u64,
    unsynchronised: u64,
    uncounted: u64,
    /// The largest bound, in ns.
    largest: Option<u32>,
}

impl Tally {
    fn add(&mut self, quality: Quality, bound: Option<u32>) {
        match quality {
            Quality::Bounded => self.bounded += 1,
            Quality::Unsynchronised => self.unsynchronised += 1,
            Quality::Uncounted => self.uncounted += 1,
        }
        self.largest = self.largest.max(bound);
    }

    fn say(&self) -> String {
        let Tally { bounded, unsynchronised, uncounted, largest } = *self;
        let largest = match largest {
            Some(ns @ ..1000) if bounded > 0 => format!(" (at most ± {ns} ns)"),
            Some(ns) if bounded > 0 => format!(" (at most ± {})", Span::from_nanos(ns.into())),
            _ => String::new(),
        };
        let mut text = format!("times of packets so far: {bounded} within a bound{largest}");
        for (number, what) in
            [(unsynchronised, "by the unsynchronised system clock"), (uncounted, "without a count")]
        {
            if number > 0 {
                text.push_str(&format!(", {number} {what}"));
            }
        }
        text
    }
}

fn is_full(why: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(why.kind(), StorageFull | QuotaExceeded)
}

/// Tells people what a change means for the packets after it.
fn say(change: &Change) -> String {
    let what = match change.status {
        Some(status) if status.bound_holds() => format!("clock: {status} from here on"),
        Some(status) => format!("clock: {status}; times are the system clock's from here on"),
        None => "no clock: times are the system clock's from here on".to_owned(),
    };
    match &change.reason {
        Some(reason) => format!("{what} ({reason})"),
        None => what,
    }
}

impl CaptureFile {
    /// Opens the (first) file; nothing is written to it yet. An existing plain file is emptied.
    ///
    /// # Errors
    /// If it cannot be written to, or files are to be a row of that cannot be.
    pub fn create(facts: &Facts, options: FileOptions) -> Result<CaptureFile, SinkError> {
        CaptureFile::of(std::slice::from_ref(facts), options)
    }

    /// Opens the (first) file of a capture of several interfaces, with these numbers.
    ///
    /// # Errors
    /// Those of [`CaptureFile::create`].
    pub(super) fn of(facts: &[Facts], options: FileOptions) -> Result<CaptureFile, SinkError> {
        let now = SystemTime::now();
        let rotates = options.rotates();
        let standard = options.path.as_os_str() == "-";
        if standard && rotates {
            let why = std::io::Error::other("cannot be a row of files: name one with -w");
            let file = "standard output".to_owned();
            return Err(SinkError::Failed { file, doing: "opening", why });
        }
        let (number, path) = match rotates {
            true => names::free(&options.path, 1, now),
            false => (1, options.path.clone()),
        };
        let output = match (standard, options.zstd) {
            (true, None) => Output::standard()?,
            (true, Some(_)) => {
                let why = std::io::Error::other("is not compressed: name a file with -w");
                let file = "standard output".to_owned();
                return Err(SinkError::Failed { file, doing: "opening", why });
            }
            (false, Some(level)) => Output::compressed(&path, level, options.tell)?,
            (false, None) => Output::open(&path)?,
        };
        let file = (!standard).then(|| path.clone());
        Ok(CaptureFile {
            interfaces: facts.iter().map(Interface::new).collect(),
            options,
            output,
            ending: Vec::new(),
            buffer: Vec::with_capacity(BATCH + (64 << 10)),
            headed: false,
            again: None,
            too_large: false,
            flushed: Instant::now(),
            begun: Instant::now(),
            capture_begun: now,
            files: VecDeque::from([path]),
            number,
            before: 0,
            no_rotation_before: None,
            written: Written { files: 1, file, ..Written::default() },
            finished: false,
            failed: None,
        })
    }

    /// Reason why nothing more can be written.
    fn over(&mut self) -> SinkError {
        self.failed.take().unwrap_or(SinkError::Closed)
    }

    /// Writes the head of a file, unless it stands there.
    fn begin(&mut self) {
        if self.headed {
            return;
        }
        let options = &self.options;
        encode::head(&mut self.buffer, &options.comments);
        for Interface { facts, state, .. } in &self.interfaces {
            encode::interface(&mut self.buffer, facts, options, state.as_slice());
        }
        self.headed = true;
        self.interfaces.iter_mut().for_each(Interface::begin);
    }

    /// Writes what is collected.
    pub(super) fn write_out(&mut self) -> Result<(), SinkError> {
        self.flushed = Instant::now();
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut outcome = self.output.write(&self.buffer);
        // Of a row of files the oldest makes room for the newest, as long as that helps: it does not where
        // the file itself is too large, where somebody still has the old one, or takes the room first.
        let mut helps = true;
        while helps
            && let Ok(Outcome::Full(whole, why)) = &outcome
            && is_full(why)
            && self.remove_oldest()
        {
            let whole = *whole;
            self.drain(whole);
            outcome = self.output.write(&self.buffer);
            helps = !matches!(outcome, Ok(Outcome::Full(0, _)));
        }
        match outcome {
            Ok(Outcome::Whole) => {
                self.drain(self.buffer.len());
                if self.again.take().is_some() {
                    (self.too_large, self.written.trouble) = (false, None);
                }
            }
            Ok(Outcome::Full(whole, why)) => {
                self.drain(whole);
                self.lose();
                // If not even the head fitted, it will have to be written again.
                self.headed = self.output.position() > 0;
                let trouble = format!("{}: {why}; packets are being lost", self.output.name());
                self.written.trouble = Some(trouble);
                self.again = Some(Instant::now() + AGAIN);
                self.too_large = !is_full(&why);
            }
            Err(why) => {
                // Nobody will have them.
                if self.output.is_compressed() {
                    self.abandon()
                } else {
                    self.lose()
                }
                self.finished = true;
                return Err(why);
            }
        }
        let ending: u64 = self.ending.iter().map(|one| one.output.length()).sum();
        self.written.bytes = self.before + ending + self.output.length();
        Ok(())
    }

    /// Takes what is written out of the buffer.
    fn drain(&mut self, bytes: usize) {
        self.buffer.drain(..bytes);
        self.interfaces.iter_mut().for_each(|interface| interface.written(bytes));
    }

    /// Empties the buffer, whose packets are lost.
    fn lose(&mut self) {
        for (number, interface) in (0..).zip(&mut self.interfaces) {
            let lost = encode::packets(&self.buffer, number);
            interface.lose(lost);
            self.written.packets = self.written.packets.saturating_sub(lost);
            self.written.unwritten += lost;
        }
        self.buffer.clear();
    }

    /// Counts anew the packets of a file whose compression ended badly: those that were handed to it are lost, but
    /// for those that are found there.
    fn recount(&mut self, handed: &[u64], found: &[u64]) {
        for (number, (interface, handed)) in self.interfaces.iter_mut().zip(handed).enumerate() {
            let lost = handed.saturating_sub(found.get(number).copied().unwrap_or(0));
            interface.lose(lost);
            self.written.packets = self.written.packets.saturating_sub(lost);
            self.written.unwritten += lost;
        }
    }

    /// The present file, which another one takes the place of.
    fn exchange(&mut self, next: Output) -> Complete {
        let packets = self.in_file();
        self.interfaces.iter_mut().for_each(|one| one.before = one.packets);
        Complete { output: std::mem::replace(&mut self.output, next), packets }
    }

    /// Packets of each interface that the present file was given, or the buffer for it.
    fn in_file(&self) -> Vec<u64> {
        self.interfaces.iter().map(|one| one.packets.saturating_sub(one.before)).collect()
    }

    /// Waits for files to be there, all of them; the first error, with what is lost counted.
    fn settle(&mut self, files: Vec<Complete>) -> Result<(), SinkError> {
        let mut result = Ok(());
        for Complete { mut output, packets } in files {
            if let Err(BadEnd { why, found }) = output.end() {
                self.recount(&packets, &found);
                result = result.and(Err(why));
            }
            self.before += output.length();
        }
        result
    }

    /// Ends all files, as nothing more can be written to a compressed one, and counts what they lack.
    fn abandon(&mut self) {
        self.finished = true;
        self.buffer.clear();
        // The reason is known.
        let _ = self.complete();
    }

    /// Writes statistics where more is missing than they said before.
    fn tell_missing(&mut self) {
        for (number, interface) in (0..).zip(&mut self.interfaces) {
            if interface.has_news() {
                interface.statistics(number, &mut self.buffer, self.capture_begun, false);
            }
        }
    }

    /// Writes the statistics and ends the present file.
    fn end_file(&mut self) -> Result<(), SinkError> {
        self.begin();
        for (number, interface) in (0..).zip(&mut self.interfaces) {
            interface.statistics(number, &mut self.buffer, self.capture_begun, true);
        }
        self.write_out()
    }

    fn rotate(&mut self) -> Result<(), SinkError> {
        let (number, path) = names::free(&self.options.path, self.number + 1, SystemTime::now());
        let next = match self.options.zstd {
            Some(level) => Output::compressed(&path, level, self.options.tell),
            None => Output::open(&path),
        };
        let next = match next {
            Ok(next) => next,
            // No room for another file (no inodes, say): this one goes on meanwhile.
            Err(SinkError::Failed { why, .. }) if is_full(&why) => {
                self.no_rotation_before = Some(Instant::now() + AGAIN);
                return Ok(());
            }
            // This one is ended, with all that it has: the capture ends, and loses nothing.
            Err(why) => {
                self.finished = true;
                self.failed = Some(why);
                return self.end_file();
            }
        };
        if let Err(why) = self.end_file() {
            // The next one is begun, and has nothing in it.
            let mut next = next;
            let _ = next.end();
            let _ = std::fs::remove_file(&path);
            return Err(why);
        }
        let complete = self.exchange(next);
        // One that is compressed goes on meanwhile; of the one before nothing is left to do.
        let before = match complete.output.is_compressed() {
            true => std::mem::replace(&mut self.ending, vec![complete]),
            false => vec![complete],
        };
        if let Err(why) = self.settle(before) {
            self.abandon();
            return Err(why);
        }
        self.number = number;
        self.written.files += 1;
        self.written.file = Some(path.clone());
        self.files.push_back(path);
        if let Some(keep) = self.options.keep {
            while self.files.len() > keep.max(1) as usize && self.remove_oldest() {}
        }
        self.begun = self.next_begins();
        if std::mem::take(&mut self.too_large) {
            (self.again, self.written.trouble) = (None, None);
        }
        self.headed = false;
        self.begin();
        Ok(())
    }

    /// Removes the oldest file of a row of which the last are kept; false if there is none but the
    /// present one. Only files that were begun here; one that is gone already is no trouble.
    fn remove_oldest(&mut self) -> bool {
        let may = self.options.keep.is_some() && self.files.len() > 1;
        let oldest = may.then(|| self.files.pop_front()).flatten();
        oldest.map(|old| truechimer_files::remove(&old)).is_some()
    }

    /// Waits for compressed files to be complete.
    fn complete(&mut self) -> Result<(), SinkError> {
        if !self.output.is_compressed() {
            return Ok(());
        }
        let (before, last) = (std::mem::take(&mut self.ending), self.in_file());
        let mut result = self.settle(before);
        if let Err(BadEnd { why, found }) = self.output.end() {
            self.recount(&last, &found);
            result = result.and(Err(why));
        }
        self.written.bytes = self.before + self.output.length();
        result
    }

    /// When the next file begins: by time, when it was due, however late that is noticed, so that the lateness
    /// of many does not add up.
    fn next_begins(&self) -> Instant {
        let now = Instant::now();
        let due = self.options.rotate_after.and_then(|each| self.begun.checked_add(each));
        due.filter(|due| now.checked_duration_since(*due).is_some_and(|late| late < LATE))
            .unwrap_or(now)
    }

    fn rotate_if_due(&mut self) -> Result<(), SinkError> {
        let waiting = if self.output.is_compressed() { 0 } else { self.buffer.len() as u64 };
        let length = self.output.length() + waiting;
        let is_last = self.options.last.is_some_and(|last| self.written.files >= u64::from(last));
        if is_last || self.no_rotation_before.is_some_and(|then| Instant::now() < then) {
            return Ok(());
        }
        // One with nothing in it but its head is never too large.
        let large = self.options.rotate_bytes.is_some_and(|most| length >= most)
            && self.interfaces.iter().any(|one| one.packets > one.before);
        let old = self.options.rotate_after.is_some_and(|most| self.begun.elapsed() >= most);
        if large || old { self.rotate() } else { Ok(()) }
    }

    /// True if nothing can be written now.
    fn stuck(&self) -> bool {
        self.again.is_some_and(|again| Instant::now() < again)
    }
}

impl CaptureFile {
    /// Takes a packet of the interface of this number.
    pub(super) fn packet_of(
        &mut self,
        number: usize,
        packet: &Packet<'_>,
        stamped: &Stamped,
    ) -> Result<bool, SinkError> {
        if self.finished {
            return Err(self.over());
        }
        if self.again.is_some() && self.stuck() {
            self.written.unwritten += 1;
            self.interfaces.get_mut(number).into_iter().for_each(|interface| {
                interface.unwritten += 1;
                interface.unsaid += 1;
            });
            return Ok(false);
        }
        self.begin();
        let Some(interface) = self.interfaces.get_mut(number) else { return Ok(false) };
        let before = self.buffer.len();
        interface.prepare(before);
        let record = encode::record(interface.method, packet.stamp, stamped);
        interface.tally.add(stamped.quality, record.bound_ns);
        if self.options.packet_comments {
            let clock = interface.told.map(|(status, _)| encode::clock(status));
            let text = comment::text(&record, clock.as_deref());
            interface.waiting.push_front(Attached::Comment(text));
        }
        encode::packet(
            &mut self.buffer,
            (number as u32, packet),
            stamped,
            &record.encode(),
            interface.facts.snap_length,
            interface.waiting.make_contiguous(),
        );
        interface.waiting.clear();
        interface.until_repeat = interface.until_repeat.saturating_sub(self.buffer.len() - before);
        interface.packets += 1;
        self.written.packets += 1;
        // This packet is accounted for, also where that fails: the next call reports it.
        if let Err(why) = self.go_on() {
            self.failed.get_or_insert(why);
        }
        Ok(true)
    }

    /// Writes what is collected if it is much, and begins the next file if this one is large.
    fn go_on(&mut self) -> Result<(), SinkError> {
        if self.buffer.len() >= BATCH || self.again.is_some() {
            self.write_out()?;
        }
        // Of a compressed one the system has to be asked: with each flush.
        let counted = self.options.rotate_bytes.is_some() && !self.output.is_compressed();
        if counted && self.again.is_none() { self.rotate_if_due() } else { Ok(()) }
    }

    /// The clock that an interface's packets are stamped by changed.
    pub(super) fn change_of(&mut self, number: usize, change: &Change) {
        let headed = self.headed;
        self.interfaces.get_mut(number).into_iter().for_each(|one| one.change(change, headed));
    }

    /// Something happened to an interface.
    pub(super) fn mark_of(&mut self, number: usize, mark: Mark) {
        self.interfaces.get_mut(number).into_iter().for_each(|interface| interface.mark(mark));
    }

    /// Takes the losses of an interface's tap.
    pub(super) fn losses_of(&mut self, number: usize, losses: &Losses, dropped: u64) {
        self.interfaces
            .get_mut(number)
            .into_iter()
            .for_each(|one| (one.losses, one.dropped) = (*losses, dropped));
    }

    /// Outcome so far, with the packets of this interface alone.
    pub(super) fn written_of(&self, number: usize) -> Written {
        let one = self.interfaces.get(number);
        let [packets, unwritten] = one.map_or([0, 0], |one| [one.packets, one.unwritten]);
        Written { packets, unwritten, ..self.written.clone() }
    }
}

impl Sink for CaptureFile {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        self.packet_of(0, packet, stamped)
    }

    fn change(&mut self, change: &Change) -> Result<(), SinkError> {
        self.change_of(0, change);
        Ok(())
    }

    fn mark(&mut self, mark: Mark) -> Result<(), SinkError> {
        self.mark_of(0, mark);
        Ok(())
    }

    fn losses(&mut self, losses: &Losses, dropped: u64) {
        self.losses_of(0, losses, dropped);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.finished {
            return Err(self.over());
        }
        // What the clock is should stand at the very beginning.
        let known = self.interfaces.iter().all(|interface| interface.state.is_some());
        let early = !self.headed && !known && self.begun.elapsed() < PATIENCE;
        if early || self.stuck() {
            return Ok(());
        }
        self.begin();
        self.tell_missing();
        if self.output.is_read_along() || self.flushed.elapsed() >= PATIENCE {
            self.write_out()?;
        }
        if self.again.is_none() || self.too_large {
            self.rotate_if_due()?;
        }
        Ok(())
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        if !self.finished {
            self.finished = true;
            self.again = self.again.map(|_| Instant::now());
            self.end_file()?;
            self.complete()?;
        }
        self.failed.take().map_or_else(|| Ok(self.written.clone()), Err)
    }
}
