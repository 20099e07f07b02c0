//! Work given to the program, one thing at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use truechimer_group::{Member, Point};

use crate::order::{Conn, End, FrontId, Op, Request, State};
use crate::program::{Busy, Program};
use crate::transfer::Gave;
use crate::wire::{LARGEST_PIECE, Message};

use super::{Ended, Front};

/// Longest time that the front looks at nothing but the program.
const GLANCE: Duration = Duration::from_millis(1);
/// Largest number of pieces of a checkpoint that may be under way.
const MOST_PARTS: usize = 16;

/// Work being done.
#[derive(Debug)]
enum Doing {
    /// Until the program is there.
    Start,
    /// Until it is done.
    Program(Busy),
    /// Until it is done with what clients ask that only read.
    Reads(Busy),
    /// Until the checkpoint is made.
    Checkpoint { to: FrontId, serial: u32, state: State, gave: Gave },
    /// Until it is sent.
    Parts { to: FrontId, serial: u32, state: State, data: Vec<u8>, at: usize },
    /// Until the program has started from one.
    Restore(Gave),
}

/// Work that waits, and that is being done.
#[derive(Debug, Default)]
pub struct Work {
    waiting: VecDeque<(Op, i64, Point)>,
    doing: Option<Doing>,
    since: Option<Instant>,
    reported: Option<Instant>,
    /// Number of openings, of requests, or the end that is being worked on.
    given: usize,
    /// The requests that are being worked on, by number and connection, their time, and the replies so far, for a record.
    requests: Vec<(u64, Conn)>,
    time: i64,
    output: BTreeMap<Conn, Vec<u8>>,
    /// Place up to which what the program writes depends on the stream.
    point: Point,
    started: bool,
    /// Words that were said of it as it is hard to follow.
    told: Vec<&'static str>,
    /// True if it was last asked something beside the order.
    read: bool,
    /// Number of openings, requests and ends that have been dealt with.
    done: u64,
}

impl Work {
    /// For later.
    pub fn push(&mut self, op: Op, time: i64, point: Point) {
        if op == Op::Time
            && let Some((Op::Time, last, at)) = self.waiting.back_mut()
        {
            (*last, *at) = (time, point);
            return;
        }
        self.waiting.push_back((op, time, point));
    }

    /// Nothing waits or is being done.
    pub fn is_idle(&self) -> bool {
        self.doing.is_none() && self.waiting.is_empty()
    }

    /// True if the program has worked on requests of that member's front for less than `most`.
    pub fn answers(&self, member: Member, most: Duration) -> bool {
        let own = self.requests.iter().any(|(_, conn)| conn.member == member);
        own && self.since.is_none_or(|since| since.elapsed() < most)
    }

    /// The program has been there.
    pub fn is_started(&self) -> bool {
        self.started && !matches!(self.doing, Some(Doing::Start | Doing::Restore(_)))
    }

    /// The program starts from a checkpoint.
    pub fn is_restoring(&self) -> bool {
        matches!(self.doing, Some(Doing::Restore(_)))
    }

    /// Number of openings, requests and ends that have been dealt with.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Number of operations that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The place of the first thing of the order that waits; none if there is none.
    pub fn next(&self) -> Option<Point> {
        self.waiting.front().map(|(_, _, point)| *point)
    }

    /// Takes note that what is written from now on depends on the stream up to there, too.
    pub fn depend_on(&mut self, place: Point) {
        self.point = self.point.max(place);
    }

    /// Waits a little for the program, if that is what is to be waited for, and returns how long
    /// all else may be waited for.
    pub fn wait(&self, program: &mut Program, patience: Duration) -> Duration {
        match &self.doing {
            Some(Doing::Program(busy) | Doing::Reads(busy)) => {
                let settles = program.page().settles();
                if !program.is_done(*busy) {
                    program.wait(settles, GLANCE);
                }
                Duration::ZERO
            }
            _ => patience,
        }
    }
}

impl Front {
    /// Goes on with the work as far as that is possible now.
    pub(super) fn work(&mut self) -> Result<(), String> {
        let works = matches!(self.work.doing, Some(Doing::Program(_)));
        // Written while it works on nothing: what is done has brought it about. Whoever is done with all of that and
        // leaves it out would else be waited for until something more is done, which may be never.
        self.drain(self.work.done + u64::from(works))?;
        loop {
            self.program.push();
            if let Some(doing) = self.work.doing.take() {
                let (doing, done) = self.go_on(doing)?;
                if !done {
                    self.work.doing = doing;
                    return self.report_late();
                }
                self.work.since = None;
                continue;
            }
            // In turn with what comes in the order, so that neither holds up the other.
            let reads = !self.work.read || self.work.waiting.is_empty();
            let busy = if reads { self.give_reads() } else { None };
            self.work.read = busy.is_some();
            if let Some(busy) = busy {
                self.work.doing = Some(Doing::Reads(busy));
                self.work.since = Some(Instant::now());
                self.work.reported = None;
                continue;
            }
            let Some((op, time, point)) = self.work.waiting.pop_front() else { return Ok(()) };
            self.work.point = point;
            self.program.set_time(time);
            self.start(op, time)?;
            self.work.since = Some(Instant::now());
            self.work.reported = None;
        }
    }

    fn start(&mut self, op: Op, time: i64) -> Result<(), String> {
        self.work.doing = match op {
            Op::Time => None,
            Op::Start(done) => {
                self.work.done = done;
                Some(Doing::Start)
            }
            Op::Open(mut conns) => {
                let now = self.program.takes_openings(conns.len());
                let later = conns.split_off(now);
                if !later.is_empty() {
                    self.work.waiting.push_front((Op::Open(later), time, self.work.point));
                }
                self.work.given = now;
                match self.program.open(&conns) {
                    Ok(busy) => Some(Doing::Program(busy)),
                    Err(why) => {
                        let connect = self.settings.connect;
                        self.unfit(format!("cannot connect to the program at {connect}: {why}"));
                        None
                    }
                }
            }
            Op::Requests(mut requests) => {
                let lengths = requests.iter().map(|request| (request.conn, request.bytes.len()));
                let now = self.program.takes(lengths);
                let later = requests.split_off(now);
                if !later.is_empty() {
                    // Of a loop all have one, as it is given several at once at one replica and maybe not at another.
                    let own = if self.settings.event_loop { 0 } else { now as i64 };
                    let next = time.saturating_add(own);
                    self.work.waiting.push_front((Op::Requests(later), next, self.work.point));
                }
                self.work.time = time;
                self.work.given = now;
                for Request { conn, number, bytes } in &requests {
                    self.work.requests.push((*number, *conn));
                    self.streams.asked(*conn, bytes);
                }
                let requests = requests.into_iter().map(|request| (request.conn, request.bytes));
                Some(Doing::Program(self.program.give(requests)))
            }
            Op::Close(conn) => {
                self.streams.closed(conn, self.work.done + 1);
                self.work.given = 1;
                Some(Doing::Program(self.program.end(conn)))
            }
            Op::Checkpoint { to, serial, state } => match &self.settings.checkpoint_command {
                Some(command) => {
                    let gave = self.shell.take(command, &self.waker);
                    let gave = gave.map_err(|why| format!("cannot start a thread: {why}"))?;
                    Some(Doing::Checkpoint { to, serial, state, gave })
                }
                None => {
                    let why = "its front has no --checkpoint-command".into();
                    self.send(&Message::Failed { to, serial, why })?;
                    None
                }
            },
        };
        Ok(())
    }

    /// Goes on with what is being done. True if that is done; if not, with what is being done now.
    fn go_on(&mut self, doing: Doing) -> Result<(Option<Doing>, bool), String> {
        match doing {
            Doing::Start => {
                self.ask_ready()?;
                let there = self.program.misses().is_none();
                self.work.started |= there;
                Ok((Some(Doing::Start), there))
            }
            Doing::Program(busy) => {
                if !self.program.is_done(busy) {
                    self.look_whether_fit();
                    return Ok((Some(Doing::Program(busy)), false));
                }
                // What it wrote, it wrote before it was done.
                self.drain(self.work.done + 1)?;
                self.tell_troubles();
                self.finish(busy)?;
                Ok((None, true))
            }
            Doing::Reads(busy) => {
                if !self.program.is_done(busy) {
                    self.look_whether_fit();
                    return Ok((Some(Doing::Reads(busy)), false));
                }
                self.drain(self.work.done)?;
                self.tell_troubles();
                if let Busy::End(conn) = busy {
                    self.program.close(conn);
                    let word = self.last_word_of(conn);
                    self.replies.push(self.work.point, conn.number, &word, None, true);
                }
                Ok((None, true))
            }
            Doing::Checkpoint { to, serial, state, gave } => match gave.try_recv() {
                Err(TryRecvError::Empty) => {
                    Ok((Some(Doing::Checkpoint { to, serial, state, gave }), false))
                }
                Ok(Ok(data)) => {
                    let bytes = data.len();
                    self.says
                        .push(format!("a checkpoint of {bytes} bytes for member {}", to.member));
                    Ok((Some(Doing::Parts { to, serial, state, data, at: 0 }), false))
                }
                Ok(Err(why)) => self.no_checkpoint(to, serial, why),
                Err(why) => self.no_checkpoint(to, serial, why.to_string()),
            },
            Doing::Parts { to, serial, state, data, at } => self.parts(to, serial, state, data, at),
            Doing::Restore(gave) => match gave.try_recv() {
                Err(TryRecvError::Empty) => Ok((Some(Doing::Restore(gave)), false)),
                Ok(Ok(_)) => {
                    let steps = self.order.restored();
                    self.steps(steps)?;
                    Ok((None, true))
                }
                Ok(Err(why)) => {
                    self.unfit(format!("cannot start the program from the checkpoint: {why}"));
                    Ok((None, true))
                }
                Err(why) => {
                    self.unfit(format!("cannot start the program from the checkpoint: {why}"));
                    Ok((None, true))
                }
            },
        }
    }

    /// Ends if the program cannot be followed.
    fn look_whether_fit(&mut self) {
        if let Some(why) = self.program.unfit() {
            self.unfit(why.into());
        }
    }

    /// Says once what the program makes hard to follow.
    fn tell_troubles(&mut self) {
        let troubles = self.program.troubles();
        if let Some(why) = troubles.filter(|why| !self.work.told.contains(why)) {
            self.work.told.push(why);
            self.says.push(why.into());
        }
    }

    fn no_checkpoint(
        &mut self,
        to: FrontId,
        serial: u32,
        why: String,
    ) -> Result<(Option<Doing>, bool), String> {
        self.says.push(format!("no checkpoint for member {}: {why}", to.member));
        self.send(&Message::Failed { to, serial, why })?;
        Ok((None, true))
    }

    fn parts(
        &mut self,
        to: FrontId,
        serial: u32,
        state: State,
        data: Vec<u8>,
        mut at: usize,
    ) -> Result<(Option<Doing>, bool), String> {
        while self.under_way.len() < MOST_PARTS {
            let end = data.len().min(at + LARGEST_PIECE);
            let bytes = data.get(at..end).unwrap_or(&[]).to_vec();
            let (total, first) = (data.len() as u64, (at == 0).then(|| state.clone()));
            let part = Message::Part { to, serial, total, at: at as u64, state: first, bytes };
            self.send(&part)?;
            at = end;
            if at == data.len() {
                return Ok((None, true));
            }
        }
        Ok((Some(Doing::Parts { to, serial, state, data, at }), false))
    }

    /// The program is to start from this; what it was to do before does not matter any more.
    pub(super) fn restore(&mut self, data: Vec<u8>) -> Result<(), String> {
        let Some(command) = self.settings.restore_command.clone() else {
            self.unfit("a checkpoint has come, but there is no --restore-command".into());
            return Ok(());
        };
        self.work = Work::default();
        self.streams.clear();
        self.program.forget();
        if let Some(readers) = &mut self.readers {
            readers.forget();
        }
        let gave = self.shell.give(&command, data, &self.waker);
        let gave = gave.map_err(|why| format!("cannot start a thread: {why}"))?;
        self.work.doing = Some(Doing::Restore(gave));
        Ok(())
    }

    /// Takes what the program has written, by what has that place at the latest.
    fn drain(&mut self, place: u64) -> Result<(), String> {
        let me = self.order.me().member;
        let (output, replies, point) = (&mut self.work.output, &mut self.replies, self.work.point);
        let streams = &mut self.streams;
        let records = self.record.is_some() && !self.work.requests.is_empty();
        let (mut ended, mut differences) = (Vec::new(), Vec::new());
        self.program.drain(|conn, bytes, end| {
            if conn.is_beside() {
                // Its client goes when the end has been dealt with, after its last word.
                replies.push(point, conn.number, bytes, None, false);
                if end != End::Open {
                    ended.push(conn);
                }
                return;
            }
            differences.extend(streams.wrote(conn, bytes, place));
            if conn.member == me {
                let until = Some(streams.length(conn));
                replies.push(point, conn.number, bytes, until, end != End::Open);
            }
            if end != End::Open {
                streams.ended(conn, end);
                ended.push(conn);
            }
            if records && !bytes.is_empty() {
                output.entry(conn).or_default().extend(bytes);
            }
        });
        for conn in ended {
            if let Some(readers) = self.readers.as_mut().filter(|_| conn.is_beside()) {
                readers.end(conn.number, Vec::new());
            }
            if conn.member == me && self.order.has(conn) {
                self.close(conn.number);
            }
        }
        self.differ(differences)
    }

    /// The program is done with it.
    fn finish(&mut self, busy: Busy) -> Result<(), String> {
        if let Busy::End(conn) = busy {
            self.program.close(conn);
            if conn.member == self.order.me().member {
                let until = Some(self.streams.length(conn));
                self.replies.push(self.work.point, conn.number, &[], until, true);
                self.said.retain(|said| *said != conn);
            }
        }
        let requests = std::mem::take(&mut self.work.requests);
        self.work.done += self.work.given as u64;
        let mut output = std::mem::take(&mut self.work.output);
        let Some(record) = &mut self.record else { return Ok(()) };
        // What went to others stands with the last one.
        let last = requests.len().saturating_sub(1);
        for (at, (number, conn)) in requests.into_iter().enumerate() {
            let mut reply = output.remove(&conn).unwrap_or_default();
            if at == last {
                reply.extend(std::mem::take(&mut output).into_values().flatten());
            }
            if let Err(why) = record.line(number, self.work.time, conn, &reply) {
                return Err(self.unwritten(&why));
            }
        }
        Ok(())
    }

    /// Says once in a while that the program is not done.
    fn report_late(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let since = *self.work.since.get_or_insert(now);
        let due = self.work.reported.unwrap_or(since);
        if now.saturating_duration_since(due) < self.settings.patience {
            return Ok(());
        }
        self.work.reported = Some(now);
        let late = now.saturating_duration_since(since).as_secs();
        let what = match &self.work.doing {
            Some(Doing::Start) => self.program.misses(),
            Some(Doing::Program(busy) | Doing::Reads(busy)) => Some(self.program.says(*busy)),
            Some(Doing::Checkpoint { .. }) => Some("the checkpoint command runs".into()),
            Some(Doing::Restore(_)) => Some("the restore command runs".into()),
            _ => None,
        };
        if let Some(what) = what {
            self.says.push(format!("waiting for the program for {late} s: {what}"));
        }
        Ok(())
    }

    fn unfit(&mut self, why: String) {
        self.ended = Some(Ended::Unfit(why));
    }
}
