//! Events of PTP ports.

use alloc::format;
use alloc::vec::Vec;

use truechimer_time::Count;

use super::{Engine, note};
use crate::event::{Action, Level, SourceId};
use crate::peer::Peer;
use crate::ptp::PtpEvent;
use crate::source::{Clock, Heard};

impl Engine {
    /// Something happened at a PTP port.
    pub(super) fn ptp_event(&mut self, event: &PtpEvent, at: Count, actions: &mut Vec<Action>) {
        let id = match event {
            PtpEvent::Message { source, .. }
            | PtpEvent::Sent { source, .. }
            | PtpEvent::Failed { source, .. } => *source,
        };
        let (clock, hand) = (self.clock_for(id, at), self.hand);
        let Some(source) = self.source(id) else { return };
        let heard = match event {
            PtpEvent::Message { from, received, packet, .. } => {
                source.heard_ptp(*from, packet, *received, (&clock, at), actions)
            }
            PtpEvent::Sent { sent, answer: true, .. } => {
                actions.extend(source.answered_ptp(*sent));
                None
            }
            PtpEvent::Sent { sent, .. } => source.sent_ptp(*sent, &clock),
            PtpEvent::Failed { error, .. } => {
                if let Some(trouble) = source.failed_ptp(error, at) {
                    let text = format!("{}: {trouble}", source.name());
                    note(actions, Level::Warning, text);
                }
                None
            }
        };
        let used = matches!(heard, Some(Heard::Used(_)));
        let learnt = used.then(|| source.learn(&hand)).flatten();
        for text in source.news().into_iter().chain(learnt) {
            note(actions, Level::Info, format!("{}: {text}", source.name()));
        }
        let Some(heard) = heard else { return };
        for text in [source.news_of_straying(), source.news_of_asymmetry()].into_iter().flatten() {
            note(actions, Level::Warning, format!("{}: {text}", source.name()));
        }
        self.tell_intervals();
        self.after_reply(id, heard, at, actions);
    }

    /// Knowledge of the time beside this source.
    fn clock_for(&self, id: SourceId, at: Count) -> Clock {
        let known = self.hand.status.bound_holds();
        let about = known.then(|| self.hand.time_at(at));
        let tells = |peer: &Peer| peer.id != id && peer.trust.is_part();
        let (leaps, others, ordinal) = (self.leaps, self.peers().any(tells), self.events);
        Clock { leaps, about, reckoned: None, others, ordinal }
    }
}
