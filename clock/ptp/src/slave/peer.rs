//! The peer-to-peer delay mechanism (11.4) with a neighbour that is the master itself.
//!
//! The mechanism measures the link to the neighbour, whoever that is, and what `Sync` took on the way
//! before is known by everybody's word only: nothing bounds it. Where the neighbour is the master (of a
//! grandmaster on the link, or a boundary clock) its answer is as good as one to `Delay_Req`: it says
//! when the question arrived and when the answer left, by the clock that `Sync` is of. That it is that
//! clock, and no free-running one as IEEE 802.1AS has it, is checked by the newest `Sync`.

use truechimer_time::{Count, CountSpan, Instant, Period, Span, Stamp};

use super::arrivals::Arrival;
use super::{Exchange, corrected};
use crate::{ClockIdentity, Correction, Flags, Header, PortIdentity, Refusal, Timestamp};

/// Corrections of a link are below a nanosecond in each message; more is of something between that
/// does not belong there.
const MOST: Span = Span::from_nanos(3);
/// A `Sync` takes no longer than this.
const SYNC_MAY_TAKE: Span = Span::from_millis(100);
/// The newest `Sync` is compared with if it is no older.
const SYNC_AGE: Span = Span::from_secs(16);
/// Counters are right to 500 ppm or better: one part in this.
const RATE_WITHIN: i128 = 2000;

/// The neighbour is answered no sooner than this after the answer before: twice as often as any profile
/// has it ask.
pub(super) const REST: Span = Span::from_millis(60);

/// A question of the neighbour's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) from: PortIdentity,
    pub(super) sequence: u16,
    pub(super) correction: Correction,
}

impl Asked {
    pub(super) const fn new(header: &Header) -> Asked {
        let Header { source, sequence, correction, .. } = *header;
        Asked { from: source, sequence, correction }
    }
}

/// The counter as a clock that nobody set, nominally; `None` once it has wrapped around.
pub(super) fn shown(stamp: Stamp, nominal: Period) -> Option<Timestamp> {
    let nanos = nominal.span(stamp.count - Count(0)).as_nanos();
    let seconds = u64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    Some(Timestamp { seconds, nanos: nanos.rem_euclid(1_000_000_000) as u32 })
}

/// An answer, in two parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answer {
    from: PortIdentity,
    received: Stamp,
    /// When the question arrived there.
    arrived: Instant,
}

/// A question to the neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) sequence: u16,
    pub(super) sent: Option<Stamp>,
    answer: Option<Answer>,
    /// When the answer left, and who says so.
    left: Option<(PortIdentity, Instant)>,
}

impl Question {
    pub(super) const fn new(sequence: u16) -> Question {
        Question { sequence, sent: None, answer: None, left: None }
    }

    /// A `Pdelay_Resp` came.
    pub(super) fn responded(
        &mut self,
        header: &Header,
        arrived: Timestamp,
        received: Option<Stamp>,
    ) -> Result<(), Refusal> {
        if self.answer.is_some() {
            return Err(Refusal::Duplicate);
        }
        // In one step it says how long it took, and not when.
        if !header.flags.has(Flags::TWO_STEP) {
            return Err(Refusal::Neighbour);
        }
        is_of_link(header)?;
        let received = received.ok_or(Refusal::NoStamp)?;
        let arrived = arrived.instant().ok_or(Refusal::Timestamp)?;
        self.answer = Some(Answer { from: header.source, received, arrived });
        Ok(())
    }

    /// Its `Pdelay_Resp_Follow_Up` came.
    pub(super) fn followed(&mut self, header: &Header, left: Timestamp) -> Result<(), Refusal> {
        if self.left.is_some() {
            return Err(Refusal::Duplicate);
        }
        is_of_link(header)?;
        self.left = Some((header.source, left.instant().ok_or(Refusal::Timestamp)?));
        Ok(())
    }

    /// The exchange, once all is known. `sync`: the newest of that master.
    pub(super) fn exchange(
        &self,
        master: ClockIdentity,
        sync: Option<Arrival>,
        nominal: Period,
    ) -> Result<Option<Exchange>, Refusal> {
        let (Some(sent), Some(answer), Some((from, left))) = (self.sent, self.answer, self.left)
        else {
            return Ok(None);
        };
        if from != answer.from || from.clock != master || left < answer.arrived {
            return Err(Refusal::Neighbour);
        }
        let Some(sync) = sync else { return Ok(None) };
        let Answer { received, arrived, .. } = answer;
        if (received.count - sent.count).0 <= 0 {
            return Err(Refusal::Stray);
        }
        let since = nominal.span(sync.received.count - received.count);
        let rtt = nominal.span(received.count - sent.count) - (left - arrived);
        let vague = Span(since.0.abs() / RATE_WITHIN) + error(nominal, [sent, received]);
        // When the `Sync` arrived, by the neighbour's answer at the latest.
        let at = left + since + rtt.max(Span::ZERO) + vague;
        let took = at - sync.left;
        if since.abs() > SYNC_AGE {
            return Ok(None);
        }
        if took < Span::ZERO || took > SYNC_MAY_TAKE + vague + rtt.abs() {
            return Err(Refusal::Neighbour);
        }
        Ok(Some(Exchange {
            sent,
            master_received: arrived,
            master_sent: left,
            received,
            corrected: Span::ZERO,
        }))
    }
}

/// Errors of stamps together, nominally.
fn error(nominal: Period, stamps: [Stamp; 2]) -> Span {
    let [one, other] = stamps.map(|stamp| stamp.error.0);
    nominal.span(CountSpan(one.saturating_add(other))).abs()
}

fn is_of_link(header: &Header) -> Result<(), Refusal> {
    if corrected(header)?.abs() > MOST { Err(Refusal::Correction) } else { Ok(()) }
}
