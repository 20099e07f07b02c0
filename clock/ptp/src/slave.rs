//! A port that is slave only: messages in, exchanges out (9.5, 11.2, 11.3).
//!
//! A master sends `Sync` of its own accord, and answers `Delay_Req`. The estimator wants a question
//! and a later answer, both stamped here: that is what bounds the time without trusting the path to
//! be symmetric. So each `Delay_Req` that was answered is paired with the next `Sync` that left the
//! master after the question had arrived there; as all stamps are raw counts, nothing was steered
//! between the two. The master keeps the question meanwhile, as a slow NTP server would. What comes
//! until the next answer are further replies to the same question.

mod arrivals;
mod peer;
pub(crate) mod unicast;

use core::net::IpAddr;

use truechimer_time::{Count, CountSpan, Instant, Period, Span, Stamp};

use crate::masters::{Ignored, Masters, announced};
use crate::{
    Body, ClockIdentity, Flags, Header, LogInterval, Master, Message, PortIdentity, Refusal, Tally,
    Timestamp, Tlv,
};
use arrivals::{Arrival, Arrivals};
pub use unicast::Grant;
use unicast::Unicast;

/// Room for the longest message that is sent, in bytes: a signalling message of several TLVs.
const LONGEST: usize = 96;
/// Highest minor version that is sent: that of IEEE 1588-2019. To a master of a lower one that one is sent, as
/// devices of IEEE 1588-2008 may drop what they do not know.
const MINOR_VERSION: u8 = 1;
/// Exponents of intervals between `Delay_Req` that a master may ask for: 1 s to 32 s. Shorter ones
/// are not used: a second between questions is all that the estimator wants.
const REQUEST_INTERVALS: (i8, i8) = (0, 5);
/// Intervals for which an answer may wait for its `Sync` before another question is asked.
const PATIENCE: i64 = 4;
/// A master that gives nothing to tell the time by for so long, or for [`PATIENCE`] of its own intervals between
/// questions if that is more, is passed over. Four requests for unicast messages that are lost fit in.
const IDLE: Span = Span::from_secs(30);
/// A master that took the place of another is followed for so long if it goes on announcing itself: forged
/// announcements do not have us ask and end at their pace.
const HOLD: Span = Span::from_secs(5);
/// Number of the profile IEEE 802.1AS, in which a neighbour is answered.
const IEEE_802_1AS: u16 = 0x100;
/// Corrections beyond this are of no path.
const MAX_CORRECTION: Span = Span::from_secs(1);

/// An exchange with the master, on its timescale; the four times of 11.3 without what transparent
/// clocks say that the messages stayed with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When our `Delay_Req` left (t3).
    pub sent: Stamp,
    /// When it arrived at the master, less its correction (t4).
    pub master_received: Instant,
    /// When the master's `Sync` left, with its corrections (t1); not before `master_received`.
    pub master_sent: Instant,
    /// When that arrived (t2); after `sent`.
    pub received: Stamp,
    /// Sum of the corrections without their signs: what is known of both ways only by the word of
    /// transparent clocks.
    pub corrected: Span,
}

/// Change of the master.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// This one is followed now, in the place of that before.
    To(Master, Option<Master>),
    /// The port and the address stay, and lead to another grandmaster.
    Grandmaster(Master, Master),
    /// This one is no longer heard of, and there is no other.
    Lost(Master),
}

/// Mechanism by which the delay to the master is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DelayMechanism {
    /// `Delay_Req` to the master (11.3).
    #[default]
    EndToEnd,
    /// `Pdelay_Req` to the neighbour on the link, which has to be the master (11.4).
    PeerToPeer,
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    bytes: [u8; LONGEST],
    length: usize,
    to: Option<IpAddr>,
}

impl Packet {
    fn new(message: &Message<'_>, to: Option<IpAddr>) -> Option<Packet> {
        let mut bytes = [0; LONGEST];
        let length = message.encode(&mut bytes)?.len();
        Some(Packet { bytes, length, to })
    }

    /// The only receiver; none: the group of all.
    #[must_use]
    pub const fn to(&self) -> Option<IpAddr> {
        self.to
    }
}

impl core::ops::Deref for Packet {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }
}

/// Effect of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// An exchange is complete.
    pub exchange: Option<Exchange>,
    /// A further `Sync` after the question of the last exchange: only its own times are new.
    pub further: Option<Exchange>,
    /// The master changed.
    pub change: Option<Change>,
    /// An answer to the neighbour, to send to the event port; then tell [`answered`](Slave::answered).
    pub answer: Option<Packet>,
}

/// A question to the master.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    sequence: u16,
    /// When it left, once that is known.
    sent: Option<Stamp>,
    /// When it arrived less its correction, and that correction without sign, once it is answered.
    arrived: Option<(Instant, Span)>,
}

/// The one port of an ordinary clock that is slave only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slave {
    own: PortIdentity,
    domain: u8,
    /// Number of the profile whose messages are used and sent.
    sdo_id: u16,
    mechanism: DelayMechanism,
    nominal: Period,
    masters: Masters,
    /// Negotiation with masters that are known by address; none: all is multicast.
    unicast: Option<Unicast>,
    parent: Option<Master>,
    arrivals: Arrivals,
    /// Sequence number of the newest `Delay_Req`.
    sequence: u16,
    /// The newest question, and the newest that was answered and has yet to be paired.
    waiting: Option<Request>,
    answered: Option<Request>,
    /// The newest that was paired, and when the newest `Sync` arrived that was used with it.
    paired: Option<(Request, Count)>,
    /// The newest question to the neighbour.
    peer: Option<peer::Question>,
    /// Answers to the neighbour's own questions.
    answers: peer::Answers,
    /// Since when the parent is followed and no exchange with it was complete.
    idle: Option<Count>,
    /// When another master was followed in the place of one.
    changed: Option<Count>,
    /// The interval between questions that the master wants.
    interval: Span,
    /// When the next question is due; `None` without a master.
    due: Option<Count>,
    /// Least time from the `Sync` that a question was paired with to the next question: at random,
    /// so that not all slaves ask at once.
    apart: CountSpan,
    refused: Tally,
}

impl Slave {
    /// A port of this identity, which nobody else may have, in a domain. `nominal`: how long a count
    /// lasts. `sequence` is best chosen at random: whoever forges an answer has to know the number
    /// of the question.
    #[must_use]
    pub const fn new(own: PortIdentity, domain: u8, nominal: Period, sequence: u16) -> Slave {
        Slave {
            own,
            domain,
            sdo_id: 0,
            mechanism: DelayMechanism::EndToEnd,
            nominal,
            masters: Masters::new(own, nominal),
            unicast: None,
            parent: None,
            arrivals: Arrivals::NONE,
            sequence,
            waiting: None,
            answered: None,
            paired: None,
            peer: None,
            answers: peer::Answers::NONE,
            idle: None,
            changed: None,
            interval: Span::from_secs(1),
            due: None,
            apart: CountSpan(0),
            refused: Tally::NONE,
        }
    }

    /// The port with another mechanism than end to end.
    #[must_use]
    pub const fn by(mut self, mechanism: DelayMechanism) -> Slave {
        self.mechanism = mechanism;
        self
    }

    /// The port in the profile with this number (sdoId) instead of in none: 0x100 for IEEE 802.1AS.
    #[must_use]
    pub const fn in_profile(mut self, sdo_id: u16) -> Slave {
        self.sdo_id = sdo_id;
        self
    }

    /// The port with masters at these addresses, the first [`MASTERS`](crate::MASTERS) of them, that are
    /// asked for their messages from `at` on (16.1). Nothing else is used then. Of those that are equally
    /// good the first is the best. Without an address nothing changes.
    #[must_use]
    pub fn with_masters(mut self, masters: &[IpAddr], at: Count) -> Slave {
        self.unicast =
            (!masters.is_empty()).then(|| Unicast::new(masters, self.nominal, self.sequence, at));
        self
    }

    /// Addresses of the masters that are asked for messages, and what each grants: `Announce`, `Sync` and
    /// `Delay_Resp`.
    pub fn grants(&self) -> impl Iterator<Item = (IpAddr, [Grant; 3])> {
        self.unicast.iter().flat_map(Unicast::grants)
    }

    /// True if there is a master, and it grants what it is asked for.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let granted = |unicast: &Unicast, parent: &Master| {
            unicast.grants().any(|(of, all)| of == parent.from && all == [Grant::Granted; 3])
        };
        self.parent.as_ref().is_some_and(|parent| {
            self.unicast.as_ref().is_none_or(|unicast| granted(unicast, parent))
        })
    }

    /// The port's identity.
    #[must_use]
    pub const fn own(&self) -> PortIdentity {
        self.own
    }

    /// The master that is followed.
    #[must_use]
    pub const fn master(&self) -> Option<&Master> {
        self.parent.as_ref()
    }

    /// Masters that announce themselves, each with whether it is qualified: the one that is
    /// followed, and those that would be in its place.
    pub fn masters(&self) -> impl Iterator<Item = (&Master, bool)> {
        self.masters.iter()
    }

    /// The interval between questions.
    #[must_use]
    pub const fn interval(&self) -> Span {
        self.interval
    }

    /// Messages refused so far.
    #[must_use]
    pub const fn refused(&self) -> &Tally {
        &self.refused
    }

    /// When [`act`](Slave::act) is wanted next, if ever.
    #[must_use]
    pub fn deadline(&self, at: Count) -> Option<Count> {
        let signal = self.unicast.as_ref().and_then(|unicast| unicast.deadline(at));
        let soonest = [self.due(), self.masters.deadline(at), signal, self.passed_over_at()];
        soonest.into_iter().flatten().min_by_key(|due| (*due - at).0)
    }

    /// Does what is due at `at`: forgets masters that are silent, and asks. Returns what changed, and
    /// the `Delay_Req` to send to the event port; then tell [`sent`](Slave::sent).
    ///
    /// Questions are at least the master's interval apart on average, each at random within half to
    /// one and a half of it (9.5.11.2): many slaves do not ask in step. Where `Sync` comes less often
    /// than that, each question waits for one to be paired with the question before.
    pub fn act(
        &mut self,
        at: Count,
        random: &mut dyn FnMut() -> u64,
    ) -> (Option<Change>, Option<Packet>) {
        let change =
            if self.masters.expire(at) | self.pass_over(at) { self.choose(at) } else { None };
        let due = self.due().is_some_and(|due| at.at_or_after(due));
        let request = if due { self.ask(at, random) } else { None };
        (change, request)
    }

    /// The next signalling message that is due at `at`, to be sent to its receiver's general port. There
    /// may be more.
    pub fn signal(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Option<Packet> {
        let header = self.header(0);
        self.unicast.as_mut()?.signal(header, at, random)
    }

    /// Messages that end all that masters grant, for when the port is given up; to be sent to the
    /// receivers' general ports.
    pub fn farewell(&self) -> impl Iterator<Item = Packet> {
        let header = self.header(0);
        self.unicast.iter().flat_map(move |unicast| unicast.farewell(header))
    }

    /// When the parent is passed over if it still gives nothing to tell the time by.
    fn passed_over_at(&self) -> Option<Count> {
        self.parent?;
        let most = IDLE.max(self.interval * PATIENCE);
        self.idle.map(|idle| idle + self.nominal.counts(most))
    }

    /// Passes the parent over, as another may serve us; whether it did.
    fn pass_over(&mut self, at: Count) -> bool {
        let due = self.passed_over_at().is_some_and(|due| at.at_or_after(due));
        if let (true, Some(parent)) = (due, &self.parent) {
            match &mut self.unicast {
                Some(unicast) => unicast.pass_over(parent.from, at),
                None => self.masters.pass_over(parent, at),
            }
            self.idle = Some(at);
        }
        due
    }

    /// When the next question is due: later while an answer waits for its `Sync`, never before answers are
    /// granted.
    fn due(&self) -> Option<Count> {
        let due = self.due?;
        if !self.is_served() {
            return None;
        }
        let waits = self.answered.and_then(|request| request.sent);
        let longest = |sent: Stamp| sent.count + self.nominal.counts(self.interval * PATIENCE);
        Some(waits.map_or(due, |sent| due.latest(longest(sent))))
    }

    fn ask(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Option<Packet> {
        let interval = self.nominal.counts(self.interval).0.max(2);
        let mut within = || (random() % interval.unsigned_abs()) as i64;
        self.due = Some(at + CountSpan(interval / 2 + within()));
        self.apart = CountSpan(interval / 4 + within() / 2);
        self.sequence = self.sequence.wrapping_add(1);
        // Nothing is said of our time (9.5.11.1 allows 0 as the origin).
        let origin = Timestamp::default();
        let body = match self.mechanism {
            DelayMechanism::EndToEnd => {
                self.waiting = Some(Request { sequence: self.sequence, sent: None, arrived: None });
                Body::DelayReq(origin)
            }
            DelayMechanism::PeerToPeer => {
                self.peer = Some(peer::Question::new(self.sequence));
                Body::PdelayReq(origin)
            }
        };
        let to = self.unicast.as_ref().and(self.parent).map(|parent| parent.from);
        let flags = if to.is_some() { Flags::UNICAST } else { Flags::default() };
        let header = Header { flags, ..self.header(self.sequence) };
        Packet::new(&Message { header, body, rest: &[] }, to)
    }

    /// The header of a message of ours.
    fn header(&self, sequence: u16) -> Header {
        Header {
            sdo_id: self.sdo_id,
            minor_version: self.parent.map_or(0, |parent| parent.minor_version.min(MINOR_VERSION)),
            domain: self.domain,
            source: self.own,
            sequence,
            interval: LogInterval::NONE,
            ..Header::default()
        }
    }

    /// The newest question left. Returns the exchange if that completes it.
    pub fn sent(&mut self, stamp: Stamp) -> Option<Exchange> {
        for request in [&mut self.waiting, &mut self.answered].into_iter().flatten() {
            if request.sequence == self.sequence && request.sent.is_none() {
                request.sent = Some(stamp);
            }
        }
        if let Some(question) = &mut self.peer {
            question.sent = question.sent.or(Some(stamp));
            return self.measured().ok().flatten();
        }
        self.pair()
    }

    /// The newest question could not be sent.
    pub fn unsent(&mut self) {
        (self.waiting, self.peer) = (None, None);
    }

    /// True while the newest question has no answer.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting.is_some() || self.peer.is_some()
    }

    /// The counter broke: nothing stamped before goes with anything stamped since.
    pub fn new_epoch(&mut self, at: Count) {
        self.masters.new_epoch(at);
        self.answers = peer::Answers::NONE;
        (self.idle, self.changed) = (self.parent.map(|_| at), None);
        if let Some(unicast) = &mut self.unicast {
            unicast.new_epoch(at);
        }
        self.forget();
        self.due = self.parent.map(|_| at);
    }

    /// Forgets all that was stamped.
    fn forget(&mut self) {
        (self.arrivals, self.waiting, self.answered) = (Arrivals::NONE, None, None);
        (self.paired, self.peer) = (None, None);
    }

    /// A datagram came from that address, stamped if it came to the event port. `at` is when it was
    /// noticed.
    ///
    /// # Errors
    /// The first check that it failed; nothing changed then but the counts and, of a signalling message, the
    /// grants before that.
    pub fn heard(
        &mut self,
        from: IpAddr,
        datagram: &[u8],
        received: Option<Stamp>,
        at: Count,
    ) -> Result<Heard, Refusal> {
        let result = self.take_in(from.to_canonical(), datagram, received, at);
        if let Err(refusal) = result {
            self.refused.add(refusal);
        }
        result
    }

    fn take_in(
        &mut self,
        from: IpAddr,
        datagram: &[u8],
        received: Option<Stamp>,
        at: Count,
    ) -> Result<Heard, Refusal> {
        let message = Message::decode(datagram).map_err(Refusal::Malformed)?;
        let header = &message.header;
        if header.sdo_id != self.sdo_id {
            return Err(Refusal::Profile(header.sdo_id));
        }
        if header.domain != self.domain {
            return Err(Refusal::Domain(header.domain));
        }
        if header.source.clock == self.own.clock {
            return Err(Refusal::Own);
        }
        // What messages say of their interval, unless they are asked for by address (table 42).
        let mut granted = header.interval;
        if let Some(unicast) = &mut self.unicast {
            if let Body::Signaling(target) = message.body {
                if target != self.own {
                    return Err(Refusal::ForOthers);
                }
                unicast.heard(from, &message, at)?;
                return Ok(Heard::default());
            }
            granted = unicast.check(message.body.kind(), from, header, at)?;
        }
        let exchange = match message.body {
            Body::Announce(announce) => {
                if passed(&message, self.own.clock) {
                    return Err(Refusal::Own);
                }
                let (port, flags) = (header.source, header.flags);
                let minor_version = header.minor_version;
                let master = Master { port, from, announce, flags, minor_version };
                let change = self.announced(master, header, granted, at)?;
                return Ok(Heard { change, ..Heard::default() });
            }
            Body::Sync(origin) => {
                self.check_parent(header, from)?;
                let stamp = received.ok_or(Refusal::NoStamp)?;
                let correction = corrected(header)?;
                if header.flags.has(Flags::TWO_STEP) {
                    self.arrivals.sync(header.sequence, stamp, correction)?
                } else {
                    let left = origin.instant().ok_or(Refusal::Timestamp)?;
                    self.arrivals.one_step(header.sequence, stamp, (left, correction))?
                }
            }
            Body::FollowUp(origin) => {
                self.check_parent(header, from)?;
                let left = origin.instant().ok_or(Refusal::Timestamp)?;
                self.arrivals.follow_up(header.sequence, (left, corrected(header)?))?
            }
            Body::PdelayResp(arrived, port) => {
                if port != self.own {
                    self.answers.given_by_another(at, self.nominal);
                }
                self.question(header, port)?.responded(header, arrived, received)?;
                return Ok(Heard { exchange: self.measured()?, ..Heard::default() });
            }
            Body::PdelayReq(_) if self.sdo_id == IEEE_802_1AS => {
                let answer = Some(self.answer(header, from, received, at)?);
                return Ok(Heard { answer, ..Heard::default() });
            }
            Body::PdelayRespFollowUp(left, port) => {
                self.question(header, port)?.followed(header, left)?;
                return Ok(Heard { exchange: self.measured()?, ..Heard::default() });
            }
            Body::DelayResp(arrived, port) => {
                self.check_parent(header, from)?;
                self.responded(header, granted, arrived, port)?;
                true
            }
            _ => return Err(Refusal::Unused(message.body.kind())),
        };
        let exchange = if exchange { self.pair() } else { None };
        let further = if exchange.is_none() { self.further() } else { None };
        Ok(Heard { exchange, further, ..Heard::default() })
    }

    /// A neighbour asks. Its master announces itself only once it is answered, so strangers are answered too.
    fn answer(
        &mut self,
        header: &Header,
        from: IpAddr,
        received: Option<Stamp>,
        at: Count,
    ) -> Result<Packet, Refusal> {
        let known = self.masters.by_name(header.source, from).is_some();
        let body = self.answers.to(header, known, received, (at, self.nominal))?;
        let minor_version = header.minor_version.min(MINOR_VERSION);
        let header =
            Header { flags: Flags::TWO_STEP, minor_version, ..self.header(header.sequence) };
        Packet::new(&Message { header, body, rest: &[] }, None).ok_or(Refusal::Timestamp)
    }

    /// The newest answer to the neighbour left. Returns the message that says so, to send to the general
    /// port.
    pub fn answered(&mut self, sent: Stamp) -> Option<Packet> {
        let (sequence, correction, body) = self.answers.left(sent, self.nominal)?;
        let header = Header { correction, ..self.header(sequence) };
        Packet::new(&Message { header, body, rest: &[] }, None)
    }

    /// Question to the neighbour that a message answers. The neighbour sends from whatever address it
    /// has on this link.
    fn question(
        &mut self,
        header: &Header,
        port: PortIdentity,
    ) -> Result<&mut peer::Question, Refusal> {
        if port != self.own {
            return Err(Refusal::ForOthers);
        }
        let asked = self.peer.as_mut().filter(|asked| asked.sequence == header.sequence);
        asked.ok_or(Refusal::Stray)
    }

    /// The exchange with the neighbour, if its answer and a `Sync` after the question are known. The question
    /// is over as soon as it is answered.
    fn measured(&mut self) -> Result<Option<Exchange>, Refusal> {
        let (Some(question), Some(master)) = (&self.peer, &self.parent) else { return Ok(None) };
        let result = question.request(master.port.clock, self.arrivals.newest(), self.nominal);
        if !matches!(result, Ok(None)) {
            self.peer = None;
        }
        let Some(request) = result? else { return Ok(None) };
        self.answered = Some(request);
        Ok(self.pair())
    }

    /// Checks that a message is the master's own.
    fn check_parent(&self, header: &Header, from: IpAddr) -> Result<(), Refusal> {
        match &self.parent {
            Some(parent) if parent.port == header.source => {
                if parent.from == from {
                    Ok(())
                } else {
                    Err(Refusal::WrongAddress)
                }
            }
            _ => Err(Refusal::NotParent),
        }
    }

    /// A master announces itself.
    fn announced(
        &mut self,
        master: Master,
        header: &Header,
        interval: LogInterval,
        at: Count,
    ) -> Result<Option<Change>, Refusal> {
        // It has said itself that it is not the best (17.3.3).
        if header.flags.has(Flags::ALTERNATE_MASTER) {
            return Err(Refusal::NotParent);
        }
        let known = (self.parent.map(|parent| parent.port), self.unicast.as_ref());
        let heard = (header.sequence, announced(interval));
        self.masters.heard(master, heard, known, at).map_err(|ignored| match ignored {
            Ignored::TooFar => Refusal::TooFar,
            Ignored::Copy => Refusal::Duplicate,
            Ignored::WrongAddress => Refusal::WrongAddress,
            Ignored::NoRoom => Refusal::TooMany,
        })?;
        Ok(self.choose(at))
    }

    /// Decides who is followed (9.2.2.1, figure 31: a slave only takes the best, or none).
    fn choose(&mut self, at: Count) -> Option<Change> {
        let held = self
            .changed
            .is_some_and(|changed| !at.at_or_after(changed + self.nominal.counts(HOLD)));
        let parent = self.parent.filter(|_| held && self.unicast.is_some());
        let best = parent
            .and_then(|parent| self.masters.by_name(parent.port, parent.from))
            .or_else(|| self.masters.best(self.unicast.as_ref(), at));
        let before = core::mem::replace(&mut self.parent, best);
        match (before, best) {
            (Some(before), Some(best)) if (before.port, before.from) == (best.port, best.from) => {
                let changed = before.announce.grandmaster != best.announce.grandmaster;
                return changed.then_some(Change::Grandmaster(best, before));
            }
            (None, None) => return None,
            _ => {}
        }
        if let Some(unicast) = &mut self.unicast {
            unicast.follow(best.map(|best| best.from), before.map(|before| before.from), at);
        }
        self.forget();
        self.interval = Span::from_secs(1);
        self.due = best.map(|_| at);
        self.idle = self.due;
        if best.is_some() && before.is_some() {
            self.changed = Some(at);
        }
        match (before, best) {
            (before, Some(best)) => Some(Change::To(best, before)),
            (Some(before), None) => Some(Change::Lost(before)),
            (None, None) => None,
        }
    }

    /// The master answered a question.
    fn responded(
        &mut self,
        header: &Header,
        interval: LogInterval,
        arrived: Timestamp,
        port: PortIdentity,
    ) -> Result<(), Refusal> {
        if port != self.own {
            return Err(Refusal::ForOthers);
        }
        let newest = |request: &Option<Request>| {
            request.is_some_and(|request| request.sequence == header.sequence)
        };
        if !newest(&self.waiting) {
            let again = newest(&self.answered);
            return Err(if again { Refusal::Duplicate } else { Refusal::Stray });
        }
        let instant = arrived.instant().ok_or(Refusal::Timestamp)?;
        let correction = corrected(header)?;
        self.answered = self.waiting.take().map(|request| Request {
            arrived: Some((instant - correction, correction.abs())),
            ..request
        });
        let wanted = interval.within(REQUEST_INTERVALS.0, REQUEST_INTERVALS.1);
        self.interval = wanted.unwrap_or(self.interval);
        Ok(())
    }

    /// Pairs the question that was answered with the first `Sync` that left the master after the
    /// question had arrived.
    fn pair(&mut self) -> Option<Exchange> {
        let request = self.answered?;
        let (sent, (master_received, _)) = (request.sent?, request.arrived?);
        let sync = self.arrivals.first_after(sent.count, master_received)?;
        let received = sync.received;
        self.answered = None;
        self.paired = Some((request, received.count));
        self.idle = Some(received.count);
        match (&mut self.unicast, &self.parent) {
            (Some(unicast), Some(parent)) => unicast.serves(parent.from),
            (None, Some(parent)) => self.masters.serves(parent),
            (_, None) => {}
        }
        self.due = self.due.map(|due| due.latest(received.count + self.apart));
        request.with(sync)
    }

    /// The newest `Sync` with the question that was paired last, if it came later than those before.
    fn further(&mut self) -> Option<Exchange> {
        let sync = self.arrivals.newest()?;
        let (request, last) = self.paired.as_mut()?;
        let later = (sync.received.count - *last).0 > 0;
        let exchange =
            request.with(sync).filter(|x| later && x.master_sent >= x.master_received)?;
        *last = sync.received.count;
        Some(exchange)
    }
}

impl Request {
    /// The exchange with a `Sync` that left after this had arrived.
    fn with(&self, sync: Arrival) -> Option<Exchange> {
        let (sent, (master_received, correction)) = (self.sent?, self.arrived?);
        let Arrival { received, left, corrected } = sync;
        let corrected = correction + corrected;
        Some(Exchange { sent, master_received, master_sent: left, received, corrected })
    }
}

/// True if an announcement went through this clock: it is its own, come back (16.2).
fn passed(message: &Message<'_>, own: ClockIdentity) -> bool {
    message.tlvs().any(|tlv| match tlv {
        Tlv::PathTrace(path) => path.chunks_exact(own.0.len()).any(|clock| clock == own.0),
        _ => false,
    })
}

/// The correction of a message.
fn corrected(header: &Header) -> Result<Span, Refusal> {
    let span = header.correction.span().ok_or(Refusal::Correction)?;
    if span.abs() > MAX_CORRECTION { Err(Refusal::Correction) } else { Ok(span) }
}
