//! The record of how well the clock was known, for `truechimer audit`: a line for each interval, with
//! the worst bound in it, and one for each event.
//!
//! Lines are gathered while the daemon works and written before it waits, as the replay log is. What
//! cannot be written is counted and never waited for.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;

use truechimer_audit::{
    Event, Interval, Kind, Limits, Line, SourceState, Sources, Time, Torn, Writer,
};
use truechimer_counter::{Counter, realtime_pair};
use truechimer_engine::{Level, ReasonKind, Report, SourceReport, SourceStatus};
use truechimer_time::{Count, CountSpan, Leaps, Period, Span};
use truechimer_timehands::{Hand, PATIENCE, Status};

mod difference;

pub(crate) use difference::{configured, difference};

/// A system clock that is further from ours than this is worth a line where ours begins.
const APART: Span = Span::from_millis(1);
/// Longest time between two lists of the sources, even if they are as before.
const SOURCES: Span = Span::from_secs(3600);
/// Lines of the daemon's log that are taken in each interval; the others are counted.
const NOTES: u32 = 60;
/// Most of a text that is taken, characters.
const TEXT: usize = 1000;
/// Largest number of sources in one line.
const LISTED: usize = 100;
/// Changes of standing that are recorded when they happen, in the length of an interval; what comes beyond
/// them is seen at its end.
const TURNS: u32 = 20;

/// Record that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Directory of its files.
    pub directory: PathBuf,
    /// Length of an interval.
    pub interval: Span,
    /// Most that all files may be together, MB of 10⁶ bytes.
    pub max_mb: u64,
}

impl Wanted {
    /// Unless the configuration says otherwise.
    pub(crate) const INTERVAL: Span = Span::from_secs(60);
    pub(crate) const MAX_MB: u64 = 256;
}

/// The record as the daemon keeps it.
#[derive(Debug)]
pub(crate) struct Audit {
    wanted: Wanted,
    counter: Counter,
    nominal: Period,
    /// Counts for which readers take a page for tended after the last look at the clocks.
    patience: CountSpan,
    writer: Option<Writer>,
    /// Lines to be written.
    pending: VecDeque<Line>,
    /// Lines that could not be, since that was last recorded, and in all.
    lost: (u64, u64),
    /// True if the user has heard of it.
    is_told: bool,
    /// The hand in force, with the status that readers saw.
    hand: Option<Hand>,
    /// Status that it has by itself, where readers saw another as nobody tended the page.
    untended: Option<Status>,
    /// Status that was recorded last.
    status: Status,
    /// Line of the log that announces another one, which is not published yet.
    told: Option<(Level, String)>,
    leaps: Option<Leaps>,
    /// Last count at which the counter was known to run on.
    checked: Count,
    /// End of the last interval: its count and time, and whether that is the system clock's.
    since: (Count, Time, bool),
    /// The worst bound since then.
    worst: Span,
    source: Option<(String, Option<Span>)>,
    /// Source that was selected last, or told of being so.
    leader: Option<String>,
    /// Sources as last written, and the count of that.
    sources: Option<(Vec<Traced>, Count)>,
    /// Standings as last seen, by name.
    standings: Vec<(String, Standing)>,
    /// Changes of these that may still be recorded at once, and the count from which on there are more.
    turns: (u32, Count),
    held: BTreeSet<String>,
    /// Notes that may still be taken, and those that were not.
    notes: (u32, u64),
}

/// Part of a source whose change is worth a line: name, address, status and reason, stratum, reference.
type Traced =
    (String, Option<String>, (SourceStatus, Option<ReasonKind>), Option<u8>, Option<String>);

/// Part of a source's status whose change is worth a line at once: whether it is silent, and the status, where
/// all that agree with the majority and do not lead are as one.
type Standing = (SourceStatus, bool);

fn standing(status: SourceStatus, is_silent: bool) -> Standing {
    match status {
        SourceStatus::Combined => (SourceStatus::Truechimer, is_silent),
        other => (other, is_silent),
    }
}

impl Audit {
    /// A record that begins now.
    pub(crate) fn new(wanted: Wanted, counter: Counter, nominal: Period) -> Audit {
        let now = counter.read();
        let mut audit = Audit {
            wanted,
            counter,
            nominal,
            patience: nominal.counts(PATIENCE),
            writer: None,
            pending: VecDeque::new(),
            lost: (0, 0),
            is_told: false,
            hand: None,
            untended: None,
            status: Status::Unknown,
            told: None,
            leaps: None,
            checked: now,
            since: (now, Time(0), true),
            worst: Span::ZERO,
            source: None,
            leader: None,
            sources: None,
            standings: Vec::new(),
            turns: (TURNS, now),
            held: BTreeSet::new(),
            notes: (NOTES, 0),
        };
        audit.since.1 = audit.time(now).0;
        audit
    }

    /// Words for the log on where it is.
    pub(crate) fn description(&self) -> String {
        format!("{}, {} MB at most", self.wanted.directory.display(), self.wanted.max_mb)
    }

    /// True if it can be written, as far as that has been tried.
    pub(crate) fn is_written(&self) -> bool {
        self.writer.is_some()
    }

    /// Lines that could not be written since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.1
    }

    /// True if the bound holds at a count.
    pub(crate) fn holds(&self, at: Count) -> bool {
        self.hand.is_some_and(|hand| {
            hand.status.bound_holds() && !(at - hand.void_after).0.is_positive()
        })
    }

    /// Time at a count, its bound, and whether it is the system clock's. That is read now: a count
    /// of which no hand tells is as good as now.
    fn time(&self, at: Count) -> (Time, Option<u64>, bool) {
        match self.hand.filter(|_| self.holds(at)) {
            Some(hand) => {
                let ns = hand.leaps.utc(hand.time_at(at)).unix_nanos();
                let time = Time(i64::try_from(ns).unwrap_or(i64::MAX));
                (time, Some(whole_ns(hand.bound_at(at))), false)
            }
            None => (Time(realtime_pair(self.counter, 1).unix_ns), None, true),
        }
    }

    /// A hand is published.
    pub(crate) fn publish(&mut self, hand: &Hand, at: Count) {
        let broke = self.hand.is_some_and(|old| old.counter.epoch != hand.counter.epoch);
        if broke {
            // What was promised since the last look at the clocks is worth nothing.
            self.close(self.checked);
            (self.hand, self.untended) = (None, None);
            self.since.0 = at;
            self.checked = at;
            self.sources = None;
            self.turns = (TURNS, at);
        } else {
            self.expire(at);
        }
        let held_before = self.holds(at);
        let now_holds = hand.status.bound_holds() && !(at - hand.void_after).0.is_positive();
        let is_other = self.hand.is_some_and(|old| old.status != hand.status);
        if held_before && !now_holds || is_other && held_before == now_holds {
            self.close(at);
            // By the new hand from here on.
            self.worst = Span::ZERO;
        } else if held_before {
            self.worst = self.worst.max(self.bound(at));
        }
        if now_holds && !held_before {
            // Until now there was no bound.
            let begun = self.since;
            self.close_until(at, Some(hand));
            self.hand = Some(*hand);
            self.worst = Span::ZERO;
            self.set_apart(at, begun, hand);
        }
        (self.hand, self.untended) = (Some(*hand), None);
        if now_holds {
            self.worst = self.worst.max(self.bound(at));
        }
        if self.leaps != Some(hand.leaps) {
            let known = self.leaps.replace(hand.leaps).is_some();
            if known || hand.leaps.known {
                self.event(at, Kind::Leap, leap(&hand.leaps));
            }
        }
    }

    /// Says how far the times of before are from those that begin here, if they are the system clock's.
    fn set_apart(
        &mut self,
        at: Count,
        (count, time, by_system_clock): (Count, Time, bool),
        hand: &Hand,
    ) {
        let ours = hand.leaps.utc(hand.time_at(count)).unix_nanos();
        let ahead = Span::from_nanos_wide(i128::from(time.0) - ours);
        if by_system_clock && ahead.abs() >= APART {
            let where_ = if ahead.is_negative() { "behind" } else { "ahead of" };
            let text = format!(
                "times before this line are the system clock's, which was {} {where_} this clock",
                ahead.abs()
            );
            self.event(at, Kind::Log, text);
        }
    }

    fn bound(&self, at: Count) -> Span {
        self.hand.map_or(Span::ZERO, |hand| hand.bound_at(at))
    }

    /// Ends the interval where readers saw another status without a new hand, if they have: holdover once the page
    /// was not tended for longer than they wait, and none where the hand became void.
    fn expire(&mut self, at: Count) {
        let Some(hand) = self.hand.filter(|hand| hand.status.bound_holds()) else { return };
        let untended = self.checked + self.patience;
        if hand.status == Status::Synchronised
            && (at - untended).0.is_positive()
            && (hand.void_after - untended).0.is_positive()
        {
            let silence = self.nominal.span(at - self.checked);
            self.checked = at;
            self.close(untended);
            self.untended = Some(hand.status);
            self.hand = Some(Hand { status: Status::Holdover, ..hand });
            let before = std::mem::replace(&mut self.status, Status::Holdover);
            let text = format!(
                "holdover: no daemon tended the clock, as it did not run for {silence} (was {before})"
            );
            self.event(untended, Kind::Status, text);
        }
        let Some(hand) = self.hand else { return };
        if (at - hand.void_after).0.is_positive() {
            self.close(hand.void_after);
            self.hand = Some(Hand { status: Status::Unknown, ..hand });
        }
    }

    /// The host's clocks are in order: ends the interval if it is long enough.
    pub(crate) fn look(&mut self, at: Count) {
        self.expire(at);
        let untended = self.untended.take();
        if let Some((hand, status)) = self.hand.filter(|_| self.holds(at)).zip(untended) {
            self.close(at);
            self.hand = Some(Hand { status, ..hand });
        } else if self.nominal.span(at - self.since.0) >= self.wanted.interval {
            self.close(at);
        }
        self.checked = at;
    }

    /// True if a report is wanted: an interval is about to end.
    pub(crate) fn wants_report(&self, at: Count) -> bool {
        self.sources.is_none() || self.nominal.span(at - self.since.0) >= self.wanted.interval
    }

    /// True if a report is wanted at once, as the standing of a source is another than at the last look.
    pub(crate) fn has_turned<'a>(
        &mut self,
        at: Count,
        now: impl Iterator<Item = (&'a str, SourceStatus, bool)>,
    ) -> bool {
        if self.nominal.span(at - self.turns.1) >= self.wanted.interval {
            self.turns = (TURNS, at);
        }
        if self.turns.0 == 0 {
            return false;
        }
        let now = now.map(|(name, status, is_silent)| (name, standing(status, is_silent)));
        let before = self.standings.iter().map(|(name, standing)| (name.as_str(), *standing));
        let now: Vec<_> = now.take(LISTED).collect();
        if before.eq(now.iter().copied()) {
            return false;
        }
        self.turns.0 -= 1;
        self.standings = now.into_iter().map(|(name, standing)| (name.into(), standing)).collect();
        true
    }

    /// Ends the interval at a count.
    fn close(&mut self, at: Count) {
        self.close_until(at, None);
    }

    /// Ends the interval at a count whose time the hand `by` tells rather than the one in force.
    fn close_until(&mut self, at: Count, by: Option<&Hand>) {
        let holds = self.holds(at);
        let (mut to, _, mut by_system_clock) = self.time(at);
        if let Some(hand) = by {
            let ns = hand.leaps.utc(hand.time_at(at)).unix_nanos();
            (to, by_system_clock) = (Time(i64::try_from(ns).unwrap_or(i64::MAX)), false);
        }
        let worst = self.worst.max(self.bound(at));
        let status = match self.hand {
            Some(hand) if holds || !hand.status.bound_holds() => hand.status,
            _ => Status::Unknown,
        };
        let for_ns = to.0.saturating_sub(self.since.1.0);
        self.since = (at, to, by_system_clock);
        self.worst = if holds { self.bound(at) } else { Span::ZERO };
        let (source, root_distance) = self.source.clone().filter(|_| holds).unzip();
        if for_ns != 0 {
            self.pending.push_back(Line::Interval(Interval {
                to,
                for_ns,
                count: at.0,
                status: status.name().into(),
                bound_ns: holds.then(|| whole_ns(worst)),
                source,
                root_distance_ns: root_distance.flatten().map(whole_ns),
                by_system_clock,
            }));
        }
        if self.notes.1 > 0 {
            let text = format!("{} more lines of the log are not in the record", self.notes.1);
            self.event(at, Kind::Log, text);
        }
        self.notes = (NOTES, 0);
    }

    /// Something happened.
    pub(crate) fn event(&mut self, at: Count, kind: Kind, text: impl Into<String>) {
        self.push(at, kind, text.into(), None, None);
    }

    /// The system clock was stepped by a span: positive, it was set ahead.
    pub(crate) fn step(&mut self, at: Count, by: Span) {
        let text = format!("step of the system clock by {by:+}");
        self.push(at, Kind::Step, text, Some(by.as_nanos_i64()), None);
    }

    fn push(
        &mut self,
        at: Count,
        kind: Kind,
        text: String,
        step_ns: Option<i64>,
        torn: Option<Torn>,
    ) {
        let line = self.made(at, kind, text, step_ns, torn);
        self.pending.push_back(line);
    }

    fn made(
        &self,
        at: Count,
        kind: Kind,
        mut text: String,
        step_ns: Option<i64>,
        torn: Option<Torn>,
    ) -> Line {
        if let Some((cut, _)) = text.char_indices().nth(TEXT) {
            text.truncate(cut);
            text.push('…');
        }
        let (time, bound_ns, by_system_clock) = self.time(at);
        Line::Event(Event {
            at: time,
            count: at.0,
            kind,
            text,
            bound_ns,
            by_system_clock,
            step_ns,
            torn,
            interval_ns: (kind == Kind::Start).then(|| whole_ns(self.wanted.interval)),
        })
    }

    /// The daemon's log has a line more. `status` is the engine's, which is published after the line
    /// that announces it.
    pub(crate) fn note(&mut self, at: Count, status: Status, level: Level, text: &str) {
        if status != self.status && text.starts_with(status.name()) {
            // By the clock that begins with it.
            if let Some((level, text)) = self.told.replace((level, text.into())) {
                self.log(at, level, &text);
            }
            return;
        }
        self.log(at, level, text);
    }

    /// Takes a line of the log as it is, as long as there is room for it.
    fn log(&mut self, at: Count, level: Level, text: &str) {
        if let Some((name, _)) = text.split_once(" is selected from now on") {
            self.leader = Some(name.into());
        }
        if self.notes.0 == 0 {
            self.notes.1 += 1;
            return;
        }
        self.notes.0 -= 1;
        let kind = if level == Level::Warning { Kind::Warning } else { Kind::Log };
        self.event(at, kind, text);
    }

    /// Records another status, and whether there is one; `reason` says why where no line of the log has.
    pub(crate) fn announce(&mut self, at: Count, reason: impl FnOnce() -> String) -> bool {
        let status = self.hand.map_or(Status::Unknown, |hand| hand.status);
        let is_new = status != self.status;
        let mut told = self.told.take();
        // Nothing came of it, or something else.
        if let Some((level, text)) =
            told.take_if(|(_, text)| !is_new || !text.starts_with(status.name()))
        {
            self.log(at, level, &text);
        }
        if !is_new {
            return false;
        }
        let text = told.map(|(_, text)| text).unwrap_or_else(|| format!("{status}: {}", reason()));
        let before = std::mem::replace(&mut self.status, status);
        let kind = if status == Status::Disrupted { Kind::Disruption } else { Kind::Status };
        self.event(at, kind, format!("{text} (was {before})"));
        true
    }

    /// Takes what is known of the sources, and who of them is held off.
    pub(crate) fn sources(&mut self, report: &Report, held: BTreeSet<String>) {
        self.expire(report.at);
        let selected = report.sources.iter().find(|s| s.status == SourceStatus::Selected);
        let selected = selected.map(|source| (source.name.clone(), source.root_distance));
        let name = |source: &Option<(String, _)>| source.as_ref().map(|(name, _)| name.clone());
        if self.holds(report.at) && name(&self.source) != name(&selected) {
            self.close(report.at);
        }
        // The log does not tell of each, at the beginning least.
        if let (Some(new), Some(old)) = (name(&selected), &self.leader)
            && new != *old
        {
            let text = format!("{new} is selected from now on, instead of {old}");
            self.log(report.at, Level::Info, &text);
        }
        self.leader = name(&selected).or(self.leader.take());
        self.source = selected;
        let traced: Vec<Traced> = report.sources.iter().take(LISTED).map(traced).collect();
        let is_due = match &self.sources {
            Some((before, at)) => {
                *before != traced || self.nominal.span(report.at - *at) >= SOURCES
            }
            None => true,
        };
        if is_due {
            let list = report.sources.iter().take(LISTED).map(state).collect();
            let at = self.time(report.at).0;
            self.pending.push_back(Line::Sources(Sources { at, list }));
            self.sources = Some((traced, report.at));
        }
        let before = std::mem::replace(&mut self.held, held.clone());
        for name in held.difference(&before) {
            let why = report.sources.iter().find(|source| source.name == *name);
            let why = why.and_then(|source| source.reason.as_ref());
            let why = why.map_or_else(String::new, |reason| {
                format!(": {}", reason.text.strip_prefix("held off: ").unwrap_or(&reason.text))
            });
            self.event(report.at, Kind::HoldOff, format!("{name} is held off{why}"));
        }
        for name in before.difference(&held) {
            self.event(report.at, Kind::Released, format!("{name} is not held off any more"));
        }
    }

    /// True if these are held off as before.
    pub(crate) fn is_held(&self, held: &BTreeSet<String>) -> bool {
        *held == self.held
    }

    /// Hands everything to the system. What the user should hear comes back.
    pub(crate) fn flush(&mut self) -> Option<(Level, String)> {
        let wants = self.pending.iter().any(|line| matches!(line, Line::Interval(_)));
        let mut told = Vec::new();
        if self.writer.is_none() {
            // Tried with the first line of all, and with each interval.
            if self.pending.is_empty() || self.is_told && !wants {
                self.lose();
                return None;
            }
            match self.open() {
                Ok(found) => told = found,
                Err(why) => return self.failed(&why),
            }
        }
        while let Some(line) = self.pending.pop_front() {
            if let Err(why) = self.write(&line) {
                self.pending.push_front(line);
                return self.failed(&why);
            }
        }
        // Only now: a full disk lets a file be opened, and no line be written.
        let is_again = std::mem::take(&mut self.is_told);
        if is_again {
            told.push("it can be written again".into());
        }
        let level = if is_again { Level::Info } else { Level::Warning };
        (!told.is_empty()).then(|| (level, format!("audit record: {}", told.join("; "))))
    }

    /// Opens the record, and writes what it lacks and what was found at its end. Words on the latter come back.
    fn open(&mut self) -> io::Result<Vec<String>> {
        let limits = Limits { total_bytes: self.wanted.max_mb.saturating_mul(1_000_000) };
        let (writer, found) = Writer::open(&self.wanted.directory, limits, crate::VERSION)?;
        self.writer = Some(writer);
        let now = self.counter.read();
        let mut told = Vec::new();
        for found in found {
            let (kind, torn) = match &found {
                truechimer_audit::Found::Torn(torn) => (Kind::Torn, Some(torn.clone())),
                _ => (Kind::Lost, None),
            };
            self.write(&self.made(now, kind, found.text(), None, torn))?;
            told.push(found.text());
        }
        if self.lost.0 > 0 {
            let text = format!("{} lines before this one could not be written", self.lost.0);
            self.write(&self.made(now, Kind::Lost, text, None, None))?;
            self.lost.0 = 0;
        }
        Ok(told)
    }

    /// Writes a line. Which files were removed to make room for it is to be written next.
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(io::Error::other("the record is not open"));
        };
        let removed = writer.append(line)?;
        if !removed.is_empty() {
            let text = format!("removed to make room: {}", removed.join(", "));
            let line = self.made(self.counter.read(), Kind::Rotation, text, None, None);
            self.pending.push_front(line);
        }
        Ok(())
    }

    fn failed(&mut self, why: &io::Error) -> Option<(Level, String)> {
        self.writer = None;
        self.lose();
        let text = format!(
            "audit record: cannot be written in {}: {why}; what it lacks is counted, and it is tried \
             again with each interval",
            self.wanted.directory.display()
        );
        (!std::mem::replace(&mut self.is_told, true)).then_some((Level::Warning, text))
    }

    /// Gives up what waits.
    fn lose(&mut self) {
        let lines = self.pending.len() as u64;
        self.pending.clear();
        self.lost = (self.lost.0 + lines, self.lost.1 + lines);
    }

    /// Ends the record in order.
    pub(crate) fn finish(&mut self, at: Count) {
        self.expire(at);
        if let Some((level, text)) = self.told.take() {
            self.log(at, level, &text);
        }
        self.close(at);
        let mut line = self.made(at, Kind::Stop, "the daemon ended".into(), None, None);
        if let Line::Event(event) = &mut line {
            // Not after the end of the interval.
            event.at = self.since.1;
        }
        self.pending.push_back(line);
    }
}

fn whole_ns(span: Span) -> u64 {
    u64::try_from(span.as_nanos_up()).unwrap_or(0)
}

fn traced(source: &SourceReport) -> Traced {
    let address = source.address.map(|address| address.to_string());
    let status = (source.status, source.reason.as_ref().map(|reason| reason.kind));
    (source.name.clone(), address, status, source.stratum, source.reference.clone())
}

fn state(source: &SourceReport) -> SourceState {
    SourceState {
        name: source.name.clone(),
        address: source.address.map(|address| address.to_string()),
        status: source.status.name().into(),
        stratum: source.stratum,
        reference: source.reference.clone(),
        root_distance_ns: source.root_distance.map(whole_ns),
        reason: source.reason.as_ref().map(|reason| difference::word(&reason.kind)),
    }
}

/// Knowledge of leap seconds in words.
fn leap(leaps: &Leaps) -> String {
    let offset = if leaps.known {
        format!("TAI − UTC = {} s", leaps.tai_offset)
    } else {
        "TAI − UTC is not known".into()
    };
    match leaps.next {
        None => format!("{offset}; no leap second is announced"),
        Some(next) => {
            let unix = leaps.utc(truechimer_time::Instant::new(next.at, 0)).unix;
            let at = Time(unix.saturating_mul(1_000_000_000));
            let what = if next.step > 0 { "inserted" } else { "left out" };
            format!("{offset}; a leap second is to be {what} before {at}")
        }
    }
}

#[cfg(test)]
mod tests;
