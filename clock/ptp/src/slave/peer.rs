//! The peer-to-peer delay mechanism (11.4) with a neighbour that is the master itself.
//!
//! The mechanism measures the link to the neighbour, whoever that is, and what `Sync` took on the way
//! before is known by everybody's word only: nothing bounds it. Where the neighbour is the master (of a
//! grandmaster on the link, or a boundary clock) its answer is as good as one to `Delay_Req`: it says
//! when the question arrived, and is paired with the next `Sync`, whose time is the master's own. IEEE
//! 802.1AS lets the clock for delays run freely. One that is ahead of the master's makes the round trip
//! longer by as much, so the bound holds; one that is behind by more than the round trip makes it
//! impossible. The newest `Sync` shows one that is far off in either direction.

use truechimer_time::{Count, CountSpan, Instant, Period, Span, Stamp};

use super::arrivals::Arrival;
use super::{Request, corrected};
use crate::{
    Body, ClockIdentity, Correction, Flags, Header, Kind, PortIdentity, Refusal, Timestamp,
};

/// Corrections of a link are below a nanosecond in each message; more is of something between that
/// does not belong there.
const MOST: Span = Span::from_nanos(3);
/// A `Sync` that seems to take longer shows that the neighbour's clock for delays is no master's. Whatever is
/// less is in the round trip.
const SYNC_MAY_TAKE: Span = Span::from_millis(100);
/// The newest `Sync` is compared with if it is no older.
const SYNC_AGE: Span = Span::from_secs(16);
/// Counters are right to 500 ppm or better: one part in this.
const RATE_WITHIN: i128 = 2000;

/// A neighbour is answered no sooner than this after the answer before: twice as often as any profile
/// has it ask.
const REST: Span = Span::from_millis(60);

/// No answer is given for so long after another clock answered the neighbour: it may have one neighbour only,
/// and takes several answers for a fault (IEEE 802.1AS-2020, 11.2.2; ptp4l: FAULTY).
const SILENT: Span = Span::from_secs(600);

/// A question of a neighbour's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    from: PortIdentity,
    sequence: u16,
    correction: Correction,
    /// The asker is one that announces itself.
    known: bool,
}

/// Answers to questions of the neighbour's. It is told times of the counter, which are of no clock: only
/// what lies between them counts (11.4.2), and their rate is the oscillator's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answers {
    /// The newest question, while its answer is on its way.
    asked: Option<Asked>,
    /// When the next of clocks that are not known, and of those that are, is answered at the earliest: a flood
    /// of the one takes nothing from the other.
    rest: [Option<Count>; 2],
    /// Another clock answers; none is given before that.
    silent: Option<Count>,
}

impl Answers {
    pub(super) const NONE: Answers = Answers { asked: None, rest: [None; 2], silent: None };

    /// The body of an answer to a question. `known`: as of [`Asked`].
    pub(super) fn to(
        &mut self,
        header: &Header,
        known: bool,
        received: Option<Stamp>,
        (at, nominal): (Count, Period),
    ) -> Result<Body, Refusal> {
        let waits = |until: Option<Count>| until.is_some_and(|until| !at.at_or_after(until));
        let [strangers, masters] = &mut self.rest;
        // One answer is on its way at a time: a stranger's question does not cut off that of the master.
        let busy = !known && self.asked.is_some_and(|asked| asked.known) && waits(*masters);
        let rest = if known { masters } else { strangers };
        if busy || waits(*rest) || waits(self.silent) {
            return Err(Refusal::Unused(Kind::PdelayReq));
        }
        let received = received.ok_or(Refusal::NoStamp)?;
        let time = shown(received, nominal).ok_or(Refusal::Timestamp)?;
        let Header { source, sequence, correction, .. } = *header;
        *rest = Some(at + nominal.counts(REST));
        self.asked = Some(Asked { from: source, sequence, correction, known });
        Ok(Body::PdelayResp(time, source))
    }

    /// The newest answer left: the header's sequence number and correction, and the body, of the message that
    /// says so.
    pub(super) fn left(&mut self, sent: Stamp, nominal: Period) -> Option<(u16, Correction, Body)> {
        let Asked { from, sequence, correction, .. } = self.asked.take()?;
        Some((sequence, correction, Body::PdelayRespFollowUp(shown(sent, nominal)?, from)))
    }

    /// Another clock answers the neighbour.
    pub(super) fn given_by_another(&mut self, at: Count, nominal: Period) {
        self.silent = Some(at + nominal.counts(SILENT));
    }
}

/// The counter as a clock that nobody set, nominally; `None` once it has wrapped around.
fn shown(stamp: Stamp, nominal: Period) -> Option<Timestamp> {
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
        // In one step it says how long it took, and not when; in two it may do so as well (11.4.2 c).
        if !header.flags.has(Flags::TWO_STEP) || arrived == Timestamp::default() {
            return Err(Refusal::Turnaround);
        }
        is_of_link(header)?;
        let received = received.ok_or(Refusal::NoStamp)?;
        let arrived = arrived.instant().ok_or(Refusal::Timestamp)?;
        self.answer = Some(Answer { from: header.source, received, arrived });
        Ok(())
    }

    /// Takes its `Pdelay_Resp_Follow_Up`.
    pub(super) fn followed(&mut self, header: &Header, left: Timestamp) -> Result<(), Refusal> {
        if self.left.is_some() {
            return Err(Refusal::Duplicate);
        }
        if left == Timestamp::default() {
            return Err(Refusal::Turnaround);
        }
        is_of_link(header)?;
        self.left = Some((header.source, left.instant().ok_or(Refusal::Timestamp)?));
        Ok(())
    }

    /// The question with its answer, once all is known. `sync`: the newest of that master.
    pub(super) fn request(
        &self,
        master: ClockIdentity,
        sync: Option<Arrival>,
        nominal: Period,
    ) -> Result<Option<Request>, Refusal> {
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
        let (sequence, sent) = (self.sequence, Some(sent));
        Ok(Some(Request { sequence, sent, arrived: Some((arrived, Span::ZERO)) }))
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
