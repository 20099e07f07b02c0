//! The primary: operators' words to the engine, and what programs are told.

use truechimer_group::{Event, Member, Post, Unshifted};
use truechimer_group_client::Lead;
use truechimer_group_client::agent::{LinkId, News};

use super::{Seat, Turn};
use crate::notices::Level;

impl Seat {
    /// An operator wants a member at another place.
    pub(super) fn shift(&mut self, link: LinkId, member: Member, to: Post, turn: &mut Turn<'_>) {
        let what = match to {
            Post::First => "promotes",
            Post::Last => "demotes",
            Post::Drained => "drains",
        };
        self.speak(Level::Info, &format!("an operator here {what} member {member}"), turn);
        self.next_shift += 1;
        self.shifts.insert(self.next_shift, link);
        let event = Event::Shift { token: self.next_shift, member, to };
        self.engine.handle(turn.clocks.read(), event);
    }

    pub(super) fn shifted(&mut self, token: u64, outcome: Result<(), Unshifted>) {
        if let Some(link) = self.shifts.remove(&token) {
            self.door.send(link, &News::Shifted(outcome));
        }
    }

    /// Tells programs, and the log, who is the primary now.
    pub(super) fn see_primary(&mut self, turn: &mut Turn<'_>) {
        let lead = Lead {
            primary: self.engine.primary(),
            drained: self.engine.is_drained(),
            handover: self.engine.handover(),
        };
        let known = |lead: &Lead| (lead.primary, lead.drained, lead.handover.is_some());
        let same = match lead.handover.zip(self.lead.handover) {
            // The same twice is another one if it was less long ago.
            Some((now, before)) => now.is_same(&before) && now.ago_ns >= before.ago_ns,
            None => true,
        };
        if same && known(&lead) == known(&self.lead) {
            return;
        }
        self.door.lead(lead);
        let before = std::mem::replace(&mut self.lead, lead);
        if let Some(handover) = lead.handover
            && before.primary != lead.primary
            && lead.primary == Some(handover.to)
        {
            let text = format!("member {} is the primary now: {handover}", handover.to);
            self.say(Level::Info, "primary", text, turn);
        }
    }
}
