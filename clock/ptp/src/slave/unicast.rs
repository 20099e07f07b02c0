//! Unicast negotiation (16.1): masters that are known by address are asked for messages, which they
//! grant for a while.
//!
//! All are asked for `Announce`, and the one that is followed for `Sync` and `Delay_Resp` as well.
//! Nothing is used that was not granted. All that an attacker can have us send is bounded: one
//! request for each kind a second, and less the longer nothing comes of it.

use core::net::IpAddr;
use core::ops::RangeInclusive;

use truechimer_time::{Count, CountSpan, Period, Span};

use super::Packet;
use crate::masters::PassedOver;
use crate::tlv::Wire;
use crate::{
    Body, ClockIdentity, Flags, Header, Kind, LogInterval, MASTERS, Message, PortIdentity, Refusal,
    Tlv,
};

/// Seconds for which messages are asked for: the default of ITU-T G.8275.2.
const DURATION: u32 = 300;
/// Shorter grants are as good as none, s: a second request has to get through before the end.
const SHORTEST: u32 = 10;
/// Interval that is asked for: 1 s, as often as the estimator wants an exchange.
const INTERVAL: LogInterval = LogInterval(0);
/// Exponents of intervals that may be granted in its place: 1/8 s to 2 s.
const INTERVALS: RangeInclusive<i8> = -3..=1;
/// First and longest wait for what was asked for, s; it doubles in between.
const WAIT: (i64, i64) = (1, 64);
/// Messages that are granted and do not come for so long are asked for anew: the master may have forgotten.
const SILENCE: Span = Span::from_secs(10);
/// Times that a master is told of an end that it does not acknowledge.
const FAREWELLS: u8 = 3;
/// Requests for one kind of a master's messages are so far apart at the least, and so are acknowledgements
/// of one end.
const APART: Span = Span::from_secs(1);
/// Kinds of messages that are asked for, each apart.
const KINDS: [Kind; 3] = [Kind::Announce, Kind::Sync, Kind::DelayResp];
/// Port of nobody in particular: a master's is not known before it answers (16.1.1).
const ANY: PortIdentity = PortIdentity { clock: ClockIdentity([0xff; 8]), port: 0xffff };

/// State of one kind of a master's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grant {
    /// Not asked for.
    #[default]
    Unwanted,
    /// Asked for, or about to be.
    Asked,
    /// Granted.
    Granted,
    /// Refused; it is asked for again later.
    Refused,
}

impl Grant {
    /// The word for it in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Grant::Unwanted => "unwanted",
            Grant::Asked => "asked",
            Grant::Granted => "granted",
            Grant::Refused => "refused",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unwanted,
    Wanted {
        refused: bool,
    },
    /// By that port; to be renewed from then on.
    Granted {
        by: PortIdentity,
        until: Count,
        renew: Count,
        interval: LogInterval,
    },
    /// No longer wanted; the port is told so many times more.
    Ending {
        by: PortIdentity,
        left: u8,
    },
}

/// One kind of messages of one master.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Service {
    state: State,
    /// When something is sent next, unless it is unwanted.
    due: Count,
    /// Wait after the next request, s.
    wait: i64,
    /// A request waits for its answer.
    asked: bool,
    /// When the newest request was sent.
    last: Option<Count>,
    /// A port is to be told this, and since when.
    reply: Option<(Count, PortIdentity, Reply)>,
    /// The port that was told the newest of these, and when.
    ended: Option<(PortIdentity, Count)>,
}

/// Reply to what a master said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reply {
    /// The end that it said is known.
    Acknowledge,
    /// The grant is of no use.
    Cancel,
}

impl Service {
    const UNWANTED: Service = Service {
        state: State::Unwanted,
        due: Count(0),
        wait: WAIT.0,
        asked: false,
        last: None,
        reply: None,
        ended: None,
    };

    /// A service that is asked for from `at` on.
    const fn wanted(at: Count) -> Service {
        Service { state: State::Wanted { refused: false }, due: at, ..Service::UNWANTED }
    }

    /// The service, asked for from `at` on, or a second after the newest request. However often a master is
    /// left and followed, patience with it goes on.
    fn again(&self, at: Count, nominal: Period) -> Service {
        let second = nominal.counts(APART);
        let due = self.last.map_or(at, |last| at.latest(last + second));
        let longest = nominal.counts(Span::from_secs(WAIT.1));
        let forgotten = self.last.is_none_or(|last| at.at_or_after(last + longest));
        let wait = if forgotten { WAIT.0 } else { self.wait };
        Service { wait, last: self.last, ..Service::wanted(due) }
    }

    /// The service, not asked for.
    fn unwanted(&self) -> Service {
        Service { wait: self.wait, last: self.last, ..Service::UNWANTED }
    }

    fn grant(&self) -> Grant {
        match self.state {
            State::Unwanted | State::Ending { .. } => Grant::Unwanted,
            State::Wanted { refused: true } => Grant::Refused,
            State::Wanted { refused: false } => Grant::Asked,
            State::Granted { .. } => Grant::Granted,
        }
    }

    fn deadline(&self, at: Count) -> Option<Count> {
        let due = (self.state != State::Unwanted).then_some(self.due);
        let until = match self.state {
            State::Granted { until, .. } => Some(until),
            _ => None,
        };
        let all = [due, until, self.reply.map(|(since, ..)| since)];
        all.into_iter().flatten().min_by_key(|due| (*due - at).0)
    }

    /// The master grants so many seconds, or none.
    fn answered(
        &mut self,
        by: PortIdentity,
        (interval, seconds): (LogInterval, u32),
        (at, nominal): (Count, Period),
    ) -> Result<(), Refusal> {
        let wanted = matches!(self.state, State::Wanted { .. } | State::Granted { .. });
        if !self.asked || !wanted {
            return Err(Refusal::Grant);
        }
        let second = nominal.counts(APART);
        let is_absurd = seconds > 0 && !INTERVALS.contains(&interval.0);
        if seconds < SHORTEST || is_absurd {
            // A renewal that is refused leaves what was granted before.
            if let State::Wanted { refused } = &mut self.state {
                *refused = true;
                if seconds > 0 && self.ended.is_none_or(|(_, told)| at.at_or_after(told + second)) {
                    self.ended = Some((by, at));
                    self.reply = Some((at, by, Reply::Cancel));
                }
            }
            return if seconds == 0 { Ok(()) } else { Err(Refusal::Grant) };
        }
        let after = |seconds: u32| at + nominal.counts(Span::from_secs(i64::from(seconds)));
        let seconds = seconds.min(DURATION);
        // With room for several requests that are lost.
        let renew = after(seconds / 2);
        self.state = State::Granted { by, until: after(seconds), renew, interval };
        self.asked = false;
        // Longer the more often nothing came of it.
        let silence = SILENCE.max(Span::from_secs(self.wait));
        self.due = sooner(renew, at + nominal.counts(silence));
        Ok(())
    }

    /// The master ends what it granted.
    fn cancelled(&mut self, port: PortIdentity, at: Count, nominal: Period) -> Result<(), Refusal> {
        match self.state {
            State::Granted { by, .. } if by == port => {
                *self = Service {
                    state: State::Wanted { refused: true },
                    // Not at once: it has just said that it does not want to.
                    due: at + nominal.counts(Span::from_secs(self.wait)),
                    asked: false,
                    ..*self
                };
            }
            // It did not hear that we know.
            State::Wanted { .. }
                if self.ended.is_some_and(|(by, told)| {
                    by == port && at.at_or_after(told + nominal.counts(APART))
                }) => {}
            _ => return Err(Refusal::Grant),
        }
        self.ended = Some((port, at));
        self.reply = Some((at, port, Reply::Acknowledge));
        Ok(())
    }

    /// The master has taken note that a grant is over.
    fn acknowledged(&mut self, port: PortIdentity) -> Result<(), Refusal> {
        match self.state {
            State::Ending { by, .. } if by == port => *self = self.unwanted(),
            // Again, after a second word of ours; or it takes back what was of no use.
            State::Unwanted | State::Wanted { .. } => {}
            _ => return Err(Refusal::Grant),
        }
        Ok(())
    }

    /// A message of that kind was used.
    fn came(&mut self, at: Count, nominal: Period) {
        if let State::Granted { renew, .. } = self.state
            && !self.asked
        {
            self.wait = WAIT.0;
            self.due = sooner(renew, at + nominal.counts(SILENCE));
        }
    }

    /// The TLVs that are due, each with the port that it is for.
    fn act(
        &mut self,
        kind: Wire,
        at: Count,
        mut later: impl FnMut(i64) -> Count,
    ) -> [Option<(PortIdentity, Tlv<'static>)>; 2] {
        let due = at.at_or_after(self.due);
        if let State::Granted { until, .. } = self.state
            && at.at_or_after(until)
        {
            self.state = State::Wanted { refused: false };
        }
        let reply = self.reply.take().map(|(_, port, reply)| match reply {
            Reply::Acknowledge => (port, Tlv::Acknowledge(kind)),
            Reply::Cancel => (port, Tlv::Cancel(kind)),
        });
        let own = match &mut self.state {
            State::Wanted { .. } | State::Granted { .. } if due => {
                self.due = later(self.wait);
                self.wait = (self.wait * 2).min(WAIT.1);
                self.asked = true;
                self.last = Some(at);
                Some((ANY, Tlv::Request(kind, INTERVAL, DURATION)))
            }
            State::Ending { by, left } if due => {
                let by = *by;
                *left -= 1;
                if *left == 0 {
                    self.state = State::Unwanted;
                }
                self.due = later(WAIT.0);
                Some((by, Tlv::Cancel(kind)))
            }
            _ => None,
        };
        [reply, own]
    }
}

/// A master that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    address: IpAddr,
    services: [Service; KINDS.len()],
    passed_over: PassedOver,
}

/// All masters that are asked, in the user's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unicast {
    nominal: Period,
    list: [Option<Asked>; MASTERS],
    sequence: u16,
}

impl Unicast {
    /// Masters at these addresses, [`MASTERS`] at the most; asked at once. Their own use of `sequence`
    /// is apart from that of questions.
    pub(super) fn new(masters: &[IpAddr], nominal: Period, sequence: u16, at: Count) -> Unicast {
        let mut list = [None; MASTERS];
        for (place, address) in list.iter_mut().zip(masters) {
            let services = [Service::wanted(at), Service::UNWANTED, Service::UNWANTED];
            let (address, passed_over) = (address.to_canonical(), PassedOver::NEVER);
            *place = Some(Asked { address, services, passed_over });
        }
        Unicast { nominal, list, sequence }
    }

    /// Place of a master in the user's order.
    pub(crate) fn place(&self, address: IpAddr) -> usize {
        let is = |asked: &Option<Asked>| asked.is_some_and(|asked| asked.address == address);
        self.list.iter().position(is).unwrap_or(MASTERS)
    }

    /// True if a master is passed over at `at`.
    pub(crate) fn is_passed_over(&self, address: IpAddr, at: Count) -> bool {
        let of = self.list.iter().flatten().find(|asked| asked.address == address);
        of.is_some_and(|asked| asked.passed_over.is(at))
    }

    /// A master that announces itself gives nothing to tell the time by.
    pub(super) fn pass_over(&mut self, address: IpAddr, at: Count) {
        let nominal = self.nominal;
        if let Some(asked) = self.asked(address) {
            asked.passed_over.pass(at, nominal);
        }
    }

    /// A master gives all that it takes to tell the time.
    pub(super) fn serves(&mut self, address: IpAddr) {
        if let Some(asked) = self.asked(address) {
            asked.passed_over = PassedOver::NEVER;
        }
    }

    fn asked(&mut self, address: IpAddr) -> Option<&mut Asked> {
        self.list.iter_mut().flatten().find(|asked| asked.address == address)
    }

    fn services(&mut self, address: IpAddr) -> Option<&mut [Service; KINDS.len()]> {
        self.asked(address).map(|asked| &mut asked.services)
    }

    /// The service of the master at that address.
    fn service(&mut self, address: IpAddr, kind: Wire) -> Result<&mut Service, Refusal> {
        let place = KINDS.into_iter().position(|one| Wire::of(one) == kind);
        let services = self.services(address).zip(place);
        services.and_then(|(all, place)| all.get_mut(place)).ok_or(Refusal::Ungranted)
    }

    /// Checks that a message is one that was granted. Returns the interval of that: the message itself may not
    /// say it.
    pub(super) fn check(
        &mut self,
        kind: Kind,
        from: IpAddr,
        header: &Header,
        at: Count,
    ) -> Result<LogInterval, Refusal> {
        let kind = if kind == Kind::FollowUp { Kind::Sync } else { kind };
        let nominal = self.nominal;
        let service = self.service(from, Wire::of(kind))?;
        match service.state {
            State::Granted { by, until, interval, .. }
                if by == header.source
                    && header.flags.has(Flags::UNICAST)
                    && !at.at_or_after(until) =>
            {
                service.came(at, nominal);
                Ok(interval)
            }
            _ => Err(Refusal::Ungranted),
        }
    }

    /// Addresses of the masters, and what each grants of each kind.
    pub(super) fn grants(&self) -> impl Iterator<Item = (IpAddr, [Grant; KINDS.len()])> {
        let all = self.list.iter().flatten();
        all.map(|asked| (asked.address, asked.services.map(|service| service.grant())))
    }

    /// This master is followed now in place of that one.
    pub(super) fn follow(&mut self, now: Option<IpAddr>, before: Option<IpAddr>, at: Count) {
        if now == before {
            return;
        }
        let nominal = self.nominal;
        for (address, follow) in [(before, false), (now, true)] {
            let Some([_, followed @ ..]) = address.and_then(|a| self.services(a)) else { continue };
            for service in followed {
                let state = match service.state {
                    State::Granted { by, .. } => State::Ending { by, left: FAREWELLS },
                    _ => State::Unwanted,
                };
                *service = if follow {
                    service.again(at, nominal)
                } else {
                    Service { state, due: at, ..service.unwanted() }
                };
            }
        }
    }

    /// A signalling message came from that address. Each of its TLVs is gone through; the first error is
    /// returned.
    pub(super) fn heard(
        &mut self,
        from: IpAddr,
        message: &Message<'_>,
        at: Count,
    ) -> Result<(), Refusal> {
        let nominal = self.nominal;
        let port = message.header.source;
        let mut result = None;
        // However long the datagram is: more than these we cannot have waited for.
        for tlv in message.tlvs().take(2 * KINDS.len()) {
            let one = match tlv {
                Tlv::Grant { kind, interval, seconds, .. } => {
                    let granted = (interval, seconds);
                    self.service(from, kind).and_then(|s| s.answered(port, granted, (at, nominal)))
                }
                Tlv::Cancel(kind) => {
                    self.service(from, kind).and_then(|s| s.cancelled(port, at, nominal))
                }
                Tlv::Acknowledge(kind) => {
                    self.service(from, kind).and_then(|s| s.acknowledged(port))
                }
                _ => continue,
            };
            result = Some(result.unwrap_or(Ok(())).and(one));
        }
        result.unwrap_or(Err(Refusal::Unused(Kind::Signaling)))
    }

    /// When [`signal`](Unicast::signal) is wanted next.
    pub(super) fn deadline(&self, at: Count) -> Option<Count> {
        let services = self.list.iter().flatten().flat_map(|asked| asked.services);
        services.filter_map(|one| one.deadline(at)).min_by_key(|due| (*due - at).0)
    }

    /// The next message that is due, if any: to be sent to its receiver's general port.
    pub(super) fn signal(
        &mut self,
        header: Header,
        at: Count,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Packet> {
        let nominal = self.nominal;
        let mut later = |seconds: i64| {
            let wait = nominal.counts(Span::from_secs(seconds)).0.max(2);
            // At random, so that not all slaves of a master that comes back ask at once.
            let more = (random() % (wait.unsigned_abs() / 2)) as i64;
            at + CountSpan(wait + more)
        };
        for asked in self.list.iter_mut().flatten() {
            let mut tlvs = Tlvs::NONE;
            for (kind, service) in KINDS.into_iter().zip(&mut asked.services) {
                for (port, tlv) in service.act(Wire::of(kind), at, &mut later).into_iter().flatten()
                {
                    tlvs.add(port, &tlv);
                }
            }
            if tlvs.length > 0 {
                self.sequence = self.sequence.wrapping_add(1);
                return tlvs.signal(Header { sequence: self.sequence, ..header }, asked.address);
            }
        }
        None
    }

    /// Messages that end all that is granted, for when nobody listens any more.
    pub(super) fn farewell(&self, header: Header) -> impl Iterator<Item = Packet> {
        self.list.iter().flatten().zip(1..).filter_map(move |(asked, more)| {
            let mut tlvs = Tlvs::NONE;
            for (kind, service) in KINDS.into_iter().zip(asked.services) {
                if let State::Granted { by, .. } = service.state {
                    tlvs.add(by, &Tlv::Cancel(Wire::of(kind)));
                }
            }
            let sequence = self.sequence.wrapping_add(more);
            (tlvs.length > 0).then(|| tlvs.signal(Header { sequence, ..header }, asked.address))?
        })
    }

    /// The counter broke: nobody knows for how long, so all is asked for anew. What was granted goes on
    /// until that is answered.
    pub(super) fn new_epoch(&mut self, at: Count) {
        let soon = at + self.nominal.counts(SILENCE);
        for asked in self.list.iter_mut().flatten() {
            asked.passed_over.new_epoch();
        }
        for service in self.list.iter_mut().flatten().flat_map(|asked| &mut asked.services) {
            if let State::Granted { until, renew, .. } = &mut service.state {
                (*until, *renew) = (soon, at);
            }
            if let Some((since, ..)) = &mut service.reply {
                *since = at;
            }
            (service.last, service.ended) = (None, None);
            (service.due, service.wait) = (at, WAIT.0);
        }
    }
}

fn sooner(one: Count, other: Count) -> Count {
    if one.at_or_after(other) { other } else { one }
}

/// TLVs of a signalling message, and whom it is for.
struct Tlvs {
    target: PortIdentity,
    bytes: [u8; Tlvs::ROOM],
    length: usize,
}

impl Tlvs {
    /// Three requests of ten bytes each and three acknowledgements of six, which cannot all be.
    const ROOM: usize = 48;
    const NONE: Tlvs = Tlvs { target: ANY, bytes: [0; Tlvs::ROOM], length: 0 };

    fn add(&mut self, port: PortIdentity, tlv: &Tlv<'_>) {
        if port != ANY {
            self.target = port;
        }
        let room = self.bytes.get_mut(self.length..);
        self.length += room.and_then(|room| tlv.encode(room)).map_or(0, <[u8]>::len);
    }

    fn signal(&self, header: Header, to: IpAddr) -> Option<Packet> {
        let message = Message {
            header: Header { flags: Flags::UNICAST, ..header },
            body: Body::Signaling(self.target),
            rest: self.bytes.get(..self.length)?,
        };
        Packet::new(&message, Some(to))
    }
}
