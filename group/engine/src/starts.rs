//! Start of programs: together, at one place of the stream.
//!
//! A member tells the others when a program starts at it, and when one ends. A program that has
//! started waits until the programs of all live members have, or as many as it wants, or its time
//! for that is over; which of these comes first, the stream decides. All that wait then *begin* at
//! the same place: their rounds are those that are agreed on from there on. So they read the same,
//! whatever was read at any of the members before, and nothing that is older than their starts: the
//! group's clock has gone beyond the proposal that each start carries.
//!
//! Programs that are running meanwhile go on as they are. They have read rounds that those who
//! begin have not, which are told so.

use crate::engine::Engine;
use crate::event::Action;
use crate::message::{Entry, Peer, Program, Run, Stage, Time};
use crate::outgoing::AGAIN_NS;
use crate::settings::Own;
use crate::types::{Fence, GroupTime, Member, Mode, Order, Thread};

/// The least time between two words that those who wait should begin, ns.
const BEGIN_AGAIN_NS: i64 = 10_000_000;

/// The program here, as this member knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Start {
    /// Number of times that one has started or ended; 0: nobody tells of programs, and one has
    /// always been there.
    serial: u64,
    stage: Stage,
    together: u8,
    /// Up to which of these the others were last told, and when.
    told: Option<(u64, i64)>,
    /// When they were last told that those who wait should begin.
    begin: Option<i64>,
    /// Difference for which it is fenced.
    fence: Option<Fence>,
    /// Difference for which its member has left, until it has taken another's state.
    unlike: Option<Fence>,
}

impl Start {
    fn waits(&self) -> bool {
        self.stage == Stage::Waits
    }

    /// Tells anew, as what was sent may not have been heard.
    pub(crate) fn tell_anew(&mut self) {
        (self.told, self.begin) = (None, None);
    }

    fn turn(&mut self, stage: Stage, together: u8) {
        let serial = self.serial.saturating_add(1);
        *self = Start { serial, stage, together, ..Start::default() };
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// True where a program is known to read here.
    pub(crate) fn runs(&self) -> bool {
        self.serial > 0 && self.stage == Stage::Runs
    }

    /// True where one is there that gets nothing.
    pub(crate) fn is_fenced(&self) -> bool {
        self.stage == Stage::Fenced
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The program differs, which all know.
    pub(crate) fn fence_off(&mut self, fence: Fence) {
        (self.stage, self.fence) = (Stage::Fenced, Some(fence));
    }

    /// The program differs, for which this member leaves.
    pub(crate) fn leave_for(&mut self, fence: Fence) {
        // Where nobody tells of programs nobody could say that it has begun anew.
        self.unlike = Some(fence).filter(|_| self.serial > 0);
    }

    /// Difference of the program here that it has not been rid of.
    pub(crate) fn unlike(&self) -> Option<Fence> {
        self.fence.or(self.unlike)
    }

    /// The program has taken another's state.
    pub(crate) fn take_over(&mut self) {
        self.unlike = None;
    }

    /// The program has missed something, which the others are to be told.
    pub(crate) fn miss(&mut self) {
        if self.runs() {
            self.turn(Stage::Fenced, 0);
        }
    }

    /// Begins anew, if it was fenced.
    pub(crate) fn restart(&mut self) {
        if self.is_fenced() {
            self.turn(Stage::Runs, 0);
        }
        self.unlike = None;
    }
}

impl Engine {
    /// True if programs here begin together. Not where they have a past to go on from: another's
    /// state, or in the passive mode the log of values.
    fn gathers(&self) -> bool {
        self.group.mode != Mode::Passive && !self.own.checkpoints
    }

    /// True if the program here has no part in this thread's rounds, as there is none or it has
    /// not begun. Threads that are no program's wait for nobody.
    pub(crate) fn holds(&self, thread: Thread) -> bool {
        let Start { serial, stage, .. } = self.start;
        self.gathers() && serial > 0 && stage != Stage::Runs && thread.is_programs()
    }

    pub(crate) fn start(&mut self, together: u8) {
        if self.gathers() {
            self.start.turn(Stage::Waits, together);
            self.threads.clear();
        } else {
            self.start.turn(Stage::Runs, 0);
            self.likeness.begin(self.point());
        }
    }

    pub(crate) fn end(&mut self) {
        self.start.turn(Stage::None, 0);
        if self.gathers() {
            self.threads.clear();
        }
    }

    /// The program goes on where the group is. One that has not begun has given up what it has
    /// given up in the rounds that it begins with.
    pub(crate) fn go_on_here(&mut self) {
        self.likeness.begin(self.point());
        if self.start.waits() { self.threads.begin() } else { self.threads.skip() }
    }

    /// State of the program here as the others know it.
    fn own_run(&self) -> Option<Run> {
        Some(self.live()?.live.get(&self.own.member)?.run)
    }

    /// When the others are to be told what has become of the program here.
    pub(crate) fn program_due(&self) -> Option<i64> {
        let Run { serial: known, .. } = self.own_run()?;
        let told = self.start.told.filter(|(serial, _)| *serial == self.start.serial);
        let due = told.map_or(i64::MIN, |(_, at)| at.saturating_add(AGAIN_NS));
        (known < self.start.serial).then_some(due)
    }

    /// When this member says that those who wait should begin: one of them itself, after its time.
    pub(crate) fn begin_due(&self) -> Option<i64> {
        let since = self.live().and_then(|_| self.ready_since()).filter(|_| self.is_ready())?;
        // The view may be rounded down when it is computed and when it is read.
        let over = since.0.saturating_add_unsigned(self.own.gather_ns);
        let over = self.view?.when(over).saturating_add(3);
        let again = self.start.begin.map_or(i64::MIN, |at| at.saturating_add(BEGIN_AGAIN_NS));
        Some(self.staggered(over, self.rank(0)?).max(again))
    }

    pub(crate) fn tell_of_program(&mut self, time: Time, entries: &mut Vec<Entry>) {
        let now = self.now.physical;
        if self.program_due().is_some_and(|due| due <= now) {
            let Start { serial, stage, together, fence, .. } = self.start;
            self.start.told = Some((serial, now));
            entries.push(Entry::Program(Program { serial, stage, together, time, fence }));
        }
        if self.begin_due().is_some_and(|due| due <= now)
            && let Some(since) = self.ready_since()
        {
            self.start.begin = Some(now);
            entries.push(Entry::Begin(since));
        }
    }

    fn runs(&self, stage: Stage) -> impl Iterator<Item = &Peer> {
        let live = self.state.iter().flat_map(|state| state.replicas(&self.group));
        // Where an operator has drained a member no program begins.
        let begins = move |peer: &&Peer| stage != Stage::Waits || !peer.drained;
        live.filter(move |peer| peer.run.stage == stage).filter(begins)
    }

    /// Those that wait and would begin now: not those that want more than there are.
    fn ready(&self) -> impl Iterator<Item = &Peer> {
        let (there, all) = (self.runs(Stage::Waits).count(), self.group.universe.len());
        let enough = move |peer: &&Peer| there >= usize::from(peer.run.together).min(all);
        self.runs(Stage::Waits).filter(enough)
    }

    /// From when on their time is counted: the first start of those that do not say for how many
    /// they wait; of all, if none of these is left.
    fn ready_since(&self) -> Option<GroupTime> {
        let first = self.ready().min_by_key(|peer| (peer.run.together != 0, peer.run.since));
        first.map(|peer| peer.run.since)
    }

    /// True if the program here is one of them, as far as all know.
    fn is_ready(&self) -> bool {
        let Own { member, incarnation, .. } = self.own;
        self.start.waits()
            && self.ready().any(|peer| {
                let its = (peer.member, peer.incarnation, peer.run.serial);
                its == (member, incarnation, self.start.serial)
            })
    }

    /// Lets the fate of a member's program take effect on the state.
    pub(crate) fn program(&mut self, from: Member, program: &Program) {
        let &Program { serial, stage, together, ref time, fence } = program;
        let counts = self.group.counts(from);
        let Some(state) = self.state.as_mut().filter(|_| counts) else { return };
        if state.live.get(&from).is_none_or(|peer| serial <= peer.run.serial) {
            return;
        }
        let mut since = time.group;
        if stage == Stage::Waits && self.group.order == Order::Monotone {
            // What comes from here on is later than that.
            let decided = state.decide(&self.group, from, time);
            since = decided.value;
            self.settle(from, time, decided);
            self.release(decided.utc, from);
        }
        let Some(state) = self.state.as_mut() else { return };
        let run = Run { serial, stage, together, since: GroupTime(since) };
        state.change(from, |peer| (peer.run, peer.fence) = (run, fence));
        state.record(&[from.0.into(), serial, stage as u64, together.into(), since as u64]);
        state.refresh(&self.group);
        let live = state.replicas(&self.group).filter(|peer| !peer.drained).count();
        let all = self.runs(Stage::Waits).count() == live;
        if self.ready().count() > 0 && self.ready().all(|peer| all || peer.run.together != 0) {
            self.begin_all();
        }
    }

    /// The time of those that wait is over.
    pub(crate) fn begin_those_since(&mut self, from: Member, since: GroupTime) {
        // One may come late that was meant for those that have begun since.
        if self.group.counts(from) && self.ready_since() == Some(since) {
            self.begin_all();
        }
    }

    /// All that are ready begin.
    fn begin_all(&mut self) {
        let running: Vec<Member> = self.runs(Stage::Runs).map(|peer| peer.member).collect();
        let ready: Vec<Member> = self.ready().map(|peer| peer.member).collect();
        let ours = self.is_ready();
        let Some(state) = self.state.as_mut() else { return };
        for member in &ready {
            state.change(*member, |peer| peer.run.stage = Stage::Runs);
        }
        state.refresh(&self.group);
        state.record(&ready.iter().map(|member| member.0.into()).collect::<Vec<u64>>());
        if ours {
            self.start.stage = Stage::Runs;
            self.threads.begin();
            self.likeness.begin(self.point());
            self.threads.wait_anew(self.now.physical, false);
            self.act(Action::Begun { running });
        }
    }
}
