//! Interleaved mode (RFC 9769): a reply tells when the one before it left, exactly.
//!
//! So an exchange is complete with the reply to the request that was made next after its own had come, and is used then. A server that answers in
//! basic mode, or does so for once, completes each by itself; what one of them has told is used
//! once.

use alloc::vec::Vec;

use truechimer_ntp::{Reply, Timestamp, WAITING};
use truechimer_time::{Period, Stamp};

use super::{Clock, Source};

/// Exchanges of which it is not known yet when the reply left exactly.
///
/// With a round trip longer than the interval a reply is about one of several before: the request that it
/// answers was made when that one was the last that had come.
#[derive(Clone, Default, Debug)]
pub(super) struct Open {
    /// The oldest first, [`WAITING`] at most, as no reply is about one before those.
    exchanges: Vec<Before>,
    /// The last reply was of interleaved mode.
    interleaved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    sent: Stamp,
    received: Stamp,
    reply: Reply,
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
    /// True if its last reply was of this mode.
    pub(super) fn is_interleaved(&self) -> bool {
        self.open.interleaved
    }

    /// The exchange that is complete with a reply to this one, if there is one that was not used yet.
    pub(super) fn complete(&mut self, now: Complete) -> Option<Complete> {
        let Complete { sent, received, reply, clock } = now;
        let Some(named) = reply.interleaved else {
            // What came before it is too old to be used after it.
            self.open = Open::default();
            return Some(now);
        };
        let before = self.open.take(named);
        self.open.keep(Before { sent, received, reply });
        let before = before?;
        let clock = clock.at(before.received, received, self.peer.filter.nominal());
        // All but the departure is as the reply of then said it.
        let reply = Reply { transmit: reply.transmit, ..before.reply };
        Some(Complete { sent: before.sent, received: before.received, reply, clock })
    }
}

impl Open {
    /// The exchange whose reply has this receive timestamp. Those before it are too old from now on.
    fn take(&mut self, named: Timestamp) -> Option<Before> {
        let place = self.exchanges.iter().position(|before| before.reply.receive == named)?;
        self.exchanges.drain(..=place).next_back()
    }

    fn keep(&mut self, exchange: Before) {
        self.interleaved = true;
        self.exchanges.push(exchange);
        self.exchanges.drain(..self.exchanges.len().saturating_sub(WAITING));
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
