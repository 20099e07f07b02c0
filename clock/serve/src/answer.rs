//! Treatment of one datagram: everything that a server decides, without I/O.

use std::net::IpAddr;

use truechimer_ntp::server::{self, Ignored, ServerState, is_interleaved};
use truechimer_ntp::{LeapIndicator, Log2, Packet, RefId, Timestamp};
use truechimer_time::Span;

use crate::access::Access;
use crate::limit::{Limiter, Rate, Ruling};
use crate::table::Table;

/// Number of replies that are remembered for interleaved mode, at the most: some 1 MiB.
const REMEMBERED: usize = 16_384;
/// The kiss code for those who ask too often (RFC 5905 Figure 13).
const RATE: RefId = RefId(*b"RATE");

/// Decides what becomes of each datagram. Threads share one.
///
/// Memory is bounded whatever arrives: 16 384 clients with a rate, and as many replies of
/// interleaved mode; what is pushed out by others is answered as if it came for the first time.
#[derive(Debug)]
pub struct Responder {
    access: Access,
    limiter: Option<Limiter>,
    replies: Option<Table<Sent, Timestamp>>,
}

/// A reply that may be referred to: to whom it went and its receive timestamp.
pub type Sent = (IpAddr, Timestamp);

/// Outcome of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Answered.
    Reply(Answer),
    /// No request.
    Ignored(Ignored),
    /// Sent by one that may not ask.
    Denied,
    /// Sent by one that asks too often.
    Limited,
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The packet to send. In basic mode its transmit timestamp is the sender's to put in.
    pub packet: Packet,
    /// Of which kind it is.
    pub kind: Kind,
    /// The client will ask for the exact time at which this reply left: to be told by
    /// [`Responder::departed`].
    pub remember: Option<Sent>,
}

/// Kinds of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The usual.
    Basic,
    /// With the exact time at which the reply before it left (RFC 9769).
    Interleaved,
    /// Not so often.
    Kiss,
}

impl Responder {
    /// Answers those whom `access` lets ask, each up to `rate` if there is one, in interleaved mode
    /// too if so wished. `seed` makes unpredictable what should be.
    #[must_use]
    pub fn new(access: Access, rate: Option<Rate>, interleaved: bool, seed: u64) -> Responder {
        Responder {
            access,
            limiter: rate.map(|rate| Limiter::new(rate, seed)),
            replies: interleaved.then(|| Table::new(REMEMBERED)),
        }
    }

    /// Rules of who may ask.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Decides about a datagram that arrived from `from` at `receive` by the clock that `state`
    /// describes. `now` is in ns, by a clock that does not go back.
    ///
    /// The lowest bit of a reply's receive timestamp is 1 and that of its transmit timestamp 0
    /// ([`transmit`]). So what a client names as its origin shows whether it wants interleaved
    /// mode, and only for those who do anything is kept.
    #[must_use]
    pub fn outcome(
        &self,
        datagram: &[u8],
        from: IpAddr,
        receive: Timestamp,
        now: u64,
        state: &ServerState,
    ) -> Outcome {
        let request = match server::request(datagram) {
            Ok(request) => request,
            Err(ignored) => return Outcome::Ignored(ignored),
        };
        if !self.access.allows(from) {
            return Outcome::Denied;
        }
        let receive = Timestamp(receive.0 | 1);
        if let Some(limiter) = &self.limiter {
            match limiter.rule(from, now) {
                Ruling::Answer => {}
                Ruling::Kiss => {
                    let poll = Log2::at_least(Span::from_nanos_wide(limiter.interval().into()));
                    let packet = server::kiss(&request, receive, RATE, poll);
                    return Outcome::Reply(Answer { packet, kind: Kind::Kiss, remember: None });
                }
                Ruling::Drop => return Outcome::Limited,
            }
        }
        let basic = Answer {
            packet: server::reply(&request, receive, receive, state),
            kind: Kind::Basic,
            remember: None,
        };
        let Some(replies) = &self.replies else { return Outcome::Reply(basic) };
        let named = request.origin_timestamp;
        let usable = state.leap != LeapIndicator::Unsynchronised;
        if named.0 & 1 == 0 || !is_interleaved(&request) || !usable {
            return Outcome::Reply(basic);
        }
        let remember = Some((from, receive));
        // Once asked for it is gone: the same request again is answered in basic mode.
        Outcome::Reply(match replies.take((from, named)) {
            Some(left) => Answer {
                packet: server::interleaved(&request, receive, left, state),
                kind: Kind::Interleaved,
                remember,
            },
            None => Answer { remember, ..basic },
        })
    }

    /// That reply left at `transmit`, as far as is known so far: `now` is as above.
    pub fn departs(&self, reply: Sent, transmit: Timestamp, now: u64) {
        if let Some(replies) = &self.replies {
            replies.with(reply, now, || transmit, |left| *left = transmit);
        }
    }

    /// That reply left at `transmit`, as the kernel has it.
    pub fn departed(&self, reply: Sent, transmit: Timestamp) {
        if let Some(replies) = &self.replies {
            replies.change(reply, |left| *left = transmit);
        }
    }
}

/// The transmit timestamp for a reply of basic mode that is about to leave at `at`: never one that
/// could be taken for a receive timestamp, and after `receive`.
#[must_use]
pub fn transmit(at: Timestamp, receive: Timestamp) -> Timestamp {
    let even = Timestamp(at.0 & !1);
    // Across eras as well: the sign of the difference decides.
    let later = even.since(receive) > Span::ZERO && !even.is_unknown();
    if later { even } else { Timestamp((receive.0 | 1).wrapping_add(1).max(2)) }
}
