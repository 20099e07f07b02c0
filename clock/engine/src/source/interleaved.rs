//! Interleaved mode (RFC 9769): a reply tells when the one before it left, exactly.
//!
//! So an exchange is complete with the reply after its own, and is used then. A server that answers in
//! basic mode, or does so for once, completes each by itself; what one of them has told is used
//! once.

use truechimer_ntp::Reply;
use truechimer_time::{Period, Stamp};

use super::{Clock, Source};

/// An exchange of which it is not known yet when the reply left exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    sent: Stamp,
    received: Stamp,
    reply: Reply,
    /// Complete by itself, and used.
    used: bool,
}

/// An exchange that can be used: its stamps, what the server said, and what was known at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Complete {
    pub(super) sent: Stamp,
    pub(super) received: Stamp,
    pub(super) reply: Reply,
    pub(super) clock: Clock,
}

impl Source {
    /// Whether its last reply was of this mode.
    pub(super) fn is_interleaved(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.reply.interleaved.is_some())
    }

    /// The exchange that is complete with a reply to this one, if there is one that was not used yet.
    pub(super) fn complete(&mut self, now: Complete) -> Option<Complete> {
        let Complete { sent, received, reply, clock } = now;
        let Some(named) = reply.interleaved else {
            let before = Before { sent, received, reply, used: true };
            self.before = Some(before).filter(|_| self.config.interleaved);
            return Some(now);
        };
        let before = self.before.replace(Before { sent, received, reply, used: false });
        let before = before.filter(|before| !before.used && before.reply.receive == named)?;
        let clock = clock.at(before.received, received, self.peer.filter.nominal());
        // All but the departure is as the reply of then said it.
        let reply = Reply { transmit: reply.transmit, ..before.reply };
        Some(Complete { sent: before.sent, received: before.received, reply, clock })
    }
}

impl Clock {
    /// Knowledge as of another arrival.
    fn at(self, then: Stamp, now: Stamp, nominal: Period) -> Clock {
        let ago = nominal.span(now.count - then.count);
        Clock {
            about: self.about.map(|about| about - ago),
            reckoned: self.reckoned.map(|(time, error)| (time - ago, error)),
            ..self
        }
    }
}
