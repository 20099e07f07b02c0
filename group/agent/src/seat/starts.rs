//! Programs' starts and ends, as the engine and they themselves are told of them.

use truechimer_group::{Event, Member, Mode, Reading, Thread};
use truechimer_group_client::Began;
use truechimer_group_client::link::Together;

use super::gate::Asked;
use super::{Seat, Turn};
use crate::clocks::Clocks;
use crate::notices::Level;

impl Seat {
    /// True if programs start together here. Not where they start from a checkpoint, or in the
    /// passive mode, from what the log has since.
    fn starts_together(&self) -> bool {
        self.tells() && self.membership.group.mode != Mode::Passive
    }

    /// True if the group is told of programs here. Not where they give and take checkpoints: such
    /// a member is none without its program.
    fn tells(&self) -> bool {
        !self.membership.checkpoints && !self.is_observer()
    }

    /// True while what is here has read nothing that is a program's.
    pub(super) fn has_not_started(&self) -> bool {
        self.together.is_some()
    }

    /// There is no program yet.
    pub(super) fn no_program(&mut self, now: i64) {
        if self.tells() {
            self.engine.handle(Reading { physical: now, utc: None }, Event::End);
        }
    }

    /// A program of a new family has come.
    pub(super) fn start(&mut self, together: Together, turn: &mut Turn<'_>) {
        if !self.tells() {
            return;
        }
        let members = self.membership.group.universe.len();
        if let Together::Count(count) = together
            && usize::from(count) > members
        {
            let text = format!(
                "a program wants to start together with those of {count} members, and the group \
                 has {members}: it starts with these"
            );
            self.speak(Level::Warning, &text, turn);
        }
        let (count, apart) = match together {
            Together::All => (0, false),
            Together::Count(count) => (count, false),
            Together::Apart => (0, true),
        };
        self.together = Some(count);
        self.ended_beside.clear();
        if !apart {
            self.start_now(turn);
        }
    }

    /// A thread that is a program's reads: if that has not started, it does so now.
    pub(super) fn start_by_reading(&mut self, thread: Thread, turn: &Turn<'_>) {
        if thread.is_programs() {
            self.start_now(turn);
        }
    }

    fn start_now(&mut self, turn: &Turn<'_>) {
        if let Some(together) = self.together.take() {
            if self.starts_together() {
                self.set_began(Began::Waits);
            }
            self.ask(Asked::Start { together }, turn.clocks);
        }
    }

    fn set_began(&mut self, began: Began) {
        self.began = began;
        self.door.began(began);
    }

    /// The program has ended.
    pub(super) fn end(&mut self, clocks: &Clocks) {
        let ran = matches!(self.began, Began::Together | Began::Late);
        (self.together, self.began) = (None, Began::Unknown);
        self.end_now(clocks);
        if self.tells() {
            if ran {
                self.ended_beside = self.running_elsewhere();
            }
            self.gate.forget_program();
            self.engine.handle(clocks.read(), Event::End);
        }
    }

    fn running_elsewhere(&self) -> Vec<(Member, u64)> {
        let others = self.engine.status().members.into_iter();
        others
            .filter(|other| other.member != self.member)
            .filter_map(|other| Some((other.member, other.program?)))
            .collect()
    }

    /// The members whose programs go on without the one that has ended here.
    pub(super) fn left_behind_by(&self) -> Vec<u32> {
        if self.ended_beside.is_empty() {
            return Vec::new();
        }
        let still = self.running_elsewhere();
        let those = self.ended_beside.iter().filter(|one| still.contains(one));
        those.map(|(member, _)| member.0).collect()
    }

    /// The program reads from now on.
    pub(super) fn begun(&mut self, running: &[Member], turn: &mut Turn<'_>) {
        self.set_began(if running.is_empty() { Began::Together } else { Began::Late });
        if !running.is_empty() {
            let members: Vec<String> = running.iter().map(Member::to_string).collect();
            let text = format!(
                "the program here has begun while those of member {} were running: it has not read \
                 what they have, and needs their state if it is to give their answers",
                members.join(", ")
            );
            self.speak(Level::Warning, &text, turn);
        }
    }
}
