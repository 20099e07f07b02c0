//! The client's end of an exchange.

use core::net::SocketAddr;

use truechimer_time::Span;

use crate::{
    HEADER_LEN, LeapIndicator, Log2, Mode, Packet, RefId, Refusal, Tally, Timestamp, VERSION,
};

/// Servers that are further than this from their reference are refused, counting half the root
/// delay, the root dispersion and the precision.
///
/// RFC 5905 §7.2 has 1 s (MAXDIST), to which it adds the growth since the last reply; 1.5 s is
/// what ntpd made of it in practice. The point is not the figure: such a server has lost its own
/// source for a day or so, and the bound that could be given for its time is of no use.
pub const MAX_ROOT_DISTANCE: Span = Span::from_millis(1500);

/// Requests whose replies are waited for at the same time. A client that asks every 2 s, as at a start, so
/// hears a server whose replies take up to 8 s.
pub const WAITING: usize = 4;

/// The precision of a request, 2³² s: nothing is said (see [`Association::request`]).
const NO_PRECISION: Log2 = Log2(32);

/// The client's side towards one server: it remembers which request waits for a reply, and counts
/// what it refused.
///
/// A reply must come from the server's address and port and give back the transmit timestamp of
/// the request, 64 random bits; with a random source port for each request (RFC 9109, the
/// socket's business) that is what keeps out everybody who cannot see the packets. Nothing in a
/// datagram that fails there has any effect but a count.
///
/// Exactly one reply to a request is accepted, the first that is valid, and none to a request that is
/// older than one that was answered, or than the [`WAITING`] newest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Association {
    server: SocketAddr,
    /// The last requests, the newest first.
    requests: [Option<Request>; WAITING],
    /// Receive timestamp of the last reply that was accepted.
    heard: Option<Timestamp>,
    refused: Tally,
}

/// A request that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    /// Transmit timestamp, which comes back as the origin of the reply.
    id: Timestamp,
    /// Token that asks for interleaved mode: its receive timestamp, which comes back as the origin then,
    /// and that of the server in the reply that it is about.
    interleaved: Option<(Timestamp, Timestamp)>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Waiting,
    Answered,
    GivenUp,
}

/// A reply that passed every check: what the server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// When the request arrived, by the server's clock; never zero.
    pub receive: Timestamp,
    /// When the reply left, by the server's clock; never zero, and before `receive` by no more
    /// than `precision`. In interleaved mode, when the one before left.
    pub transmit: Timestamp,
    /// The coming leap second; never [`LeapIndicator::Unsynchronised`].
    pub leap: LeapIndicator,
    /// The server's stratum, 1–15.
    pub stratum: u8,
    /// The server's poll field; most give back the request's.
    pub poll: Log2,
    /// The precision of the server's clock.
    pub precision: Log2,
    /// The round trip from the server to its reference clock, ≥ 0.
    pub root_delay: Span,
    /// The error that the server collected on the way from its reference clock, ≥ 0.
    pub root_dispersion: Span,
    /// Source of the server's time.
    pub reference_id: RefId,
    /// When the server's clock was last set or corrected; may be anything.
    pub reference_timestamp: Timestamp,
    /// The version of the reply, 3 or 4.
    pub version: u8,
    /// In interleaved mode the receive timestamp of the reply before that `transmit` belongs to; `None`
    /// in basic mode, where it is this one's.
    pub interleaved: Option<Timestamp>,
    /// Number of bytes after the header (extension fields and the like) that were passed over.
    pub unread: usize,
    /// Number of requests that were made after the one that it answers, below [`WAITING`]. The moment at which
    /// that one left is before the next was made: who takes another one's is misled.
    pub later_requests: usize,
}

/// A datagram that answers a request.
struct Answer {
    packet: Packet,
    unread: usize,
    /// Place of the request among the last ones.
    place: usize,
    interleaved: Option<Timestamp>,
}

impl Reply {
    /// Time that the server says it had the request, ≥ 0. It may say more than the whole round trip
    /// took: the caller, who knows that, checks.
    #[must_use]
    pub fn residence(&self) -> Span {
        self.transmit.since(self.receive).max(Span::ZERO)
    }

    /// Most that the server's clock may be off its reference, in either direction: half the root
    /// delay (which hides any asymmetry on the way), the root dispersion and the precision.
    #[must_use]
    pub fn root_distance(&self) -> Span {
        self.root_delay.half() + self.root_dispersion + self.precision.span()
    }
}

impl Association {
    /// An association with the server at that address and port.
    #[must_use]
    pub const fn new(server: SocketAddr) -> Association {
        Association { server, requests: [None; WAITING], heard: None, refused: Tally::NONE }
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> SocketAddr {
        self.server
    }

    /// Goes over to another address of the server. Every request so far is given up; the counts
    /// stay.
    pub fn move_to(&mut self, server: SocketAddr) {
        *self = Association { refused: self.refused, ..Association::new(server) };
    }

    /// True while the newest request waits for its reply.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.requests[0].is_some_and(|request| request.fate == Fate::Waiting)
    }

    /// Number of the newest requests that wait for their replies: all others are answered or given up.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let waits = |request: &&Option<Request>| request.is_some_and(|r| r.fate == Fate::Waiting);
        self.requests.iter().take_while(waits).count()
    }

    /// Replies refused so far.
    #[must_use]
    pub const fn refused(&self) -> &Tally {
        &self.refused
    }

    /// Makes a request to send to the server. Those before it go on waiting, as far as they do.
    ///
    /// `random` becomes the transmit timestamp. It must be fresh for every request and nobody
    /// else may be able to guess it: it is the secret that a reply must know. (Zero would mean "no
    /// timestamp" and is replaced.)
    ///
    /// The packet says nothing of the client, neither its time nor how good its clock is: all but
    /// version, mode and transmit timestamp is zero, and the precision 32, as
    /// draft-ietf-ntp-data-minimization recommends.
    #[must_use]
    pub fn request(&mut self, random: u64) -> [u8; HEADER_LEN] {
        self.make(random, None)
    }

    /// Makes a request, as [`Association::request`], whose reply may say when the reply before it
    /// left, exactly (interleaved mode, RFC 9769), if there was one. A server that does not do that
    /// answers as ever; [`Reply::interleaved`] tells which.
    ///
    /// `other` is a second number like `random`. What the packet says beside is the server's own receive
    /// timestamp of before, by which whoever sees both can tell that they are of one client.
    #[must_use]
    pub fn request_interleaved(&mut self, random: u64, other: u64) -> [u8; HEADER_LEN] {
        self.make(random, Some(Timestamp(other)))
    }

    fn make(&mut self, random: u64, other: Option<Timestamp>) -> [u8; HEADER_LEN] {
        let id = Timestamp(if random == 0 { u64::MAX } else { random });
        // One that is like the other asks for basic mode, and zero is none.
        let fit = |other: Timestamp| !other.is_unknown() && other != id;
        let other = other.map(|other| if fit(other) { other } else { Timestamp(id.0 ^ 1 << 63) });
        let other = other.map(|other| if fit(other) { other } else { Timestamp(1) });
        let interleaved = other.zip(self.heard);
        let request = Request { id, interleaved, fate: Fate::Waiting };
        self.requests.rotate_right(1);
        self.requests[0] = Some(request);
        let (other, named) = interleaved.unwrap_or_default();
        Packet {
            version: VERSION,
            mode: Mode::Client,
            precision: NO_PRECISION,
            origin_timestamp: named,
            receive_timestamp: other,
            transmit_timestamp: id,
            ..Packet::default()
        }
        .encode()
    }

    /// Stops waiting: a reply that still comes is refused as [`Refusal::Late`]. For when a reply
    /// would be of no use any more, as after a suspend.
    pub fn give_up(&mut self) {
        self.give_up_from(0);
    }

    /// Gives up the request at this place among the last ones, and all before it.
    fn give_up_from(&mut self, place: usize) {
        for request in self.requests.iter_mut().skip(place).flatten() {
            if request.fate == Fate::Waiting {
                request.fate = Fate::GivenUp;
            }
        }
    }

    /// Takes in a datagram that came from `from`.
    ///
    /// # Errors
    /// The first check that it failed. The association is then as it was, apart from the counts,
    /// with one exception: a reply that makes a [`Demand`](crate::Demand) is the answer to its
    /// request, so that a copy of it does not demand again.
    pub fn accept(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Reply, Refusal> {
        let answer = self.answer(datagram, from);
        let result = answer.as_ref().map_err(|refusal| *refusal).and_then(Answer::reply);
        if let Ok(reply) = &result {
            self.heard = Some(reply.receive);
        }
        if let Err(refusal) = result {
            self.refused.add(refusal);
        }
        let is_answered = |refusal: Refusal| refusal.demand().is_some();
        if let Ok(answer) = answer
            && result.err().is_none_or(is_answered)
        {
            self.answered(answer.place);
        }
        result
    }

    /// The request at this place is answered: what comes to those before it would be late.
    fn answered(&mut self, place: usize) {
        if let Some(Some(request)) = self.requests.get_mut(place) {
            request.fate = Fate::Answered;
        }
        self.give_up_from(place);
    }

    /// The datagram, if it answers a request that waits.
    fn answer(&self, datagram: &[u8], from: SocketAddr) -> Result<Answer, Refusal> {
        if !same_peer(from, self.server) {
            return Err(Refusal::WrongAddress(from));
        }
        let short = Refusal::TooShort(datagram.len());
        let (packet, rest) = Packet::decode(datagram).ok_or(short)?;
        if packet.mode != Mode::Server {
            return Err(Refusal::WrongMode(packet.mode));
        }
        // Versions 3 and 4 have the same header; servers that speak only 3 are still about.
        if !matches!(packet.version, 3 | VERSION) {
            return Err(Refusal::BadVersion(packet.version));
        }
        let (place, interleaved) = self.check_origin(packet.origin_timestamp)?;
        Ok(Answer { packet, unread: rest.len(), place, interleaved })
    }

    /// RFC 5905 §8: "bogus" is a wrong origin here, and "duplicate" goes by the request rather
    /// than by the server's transmit timestamp, so that it holds for any second reply.
    /// Returns the place of the request, and the receive timestamp that an answer in interleaved mode is
    /// about.
    fn check_origin(&self, origin: Timestamp) -> Result<(usize, Option<Timestamp>), Refusal> {
        let named = |(place, request): (usize, &Option<Request>)| {
            let request = (*request)?;
            let named = request.interleaved.filter(|(other, _)| *other == origin);
            let named = named.map(|(_, named)| Some(named));
            let named = named.or((request.id == origin).then_some(None))?;
            Some((request.fate, (place, named)))
        };
        let requests = self.requests.iter().enumerate();
        let (fate, asked) = requests.filter_map(named).next().ok_or(Refusal::WrongOrigin)?;
        match fate {
            Fate::Waiting => Ok(asked),
            Fate::Answered => Err(Refusal::Duplicate),
            Fate::GivenUp => Err(Refusal::Late),
        }
    }
}

impl Answer {
    /// The reply, if it is a good one.
    fn reply(&self) -> Result<Reply, Refusal> {
        let Answer { packet, unread, place, interleaved } = *self;
        check_kiss(&packet)?;
        if packet.leap == LeapIndicator::Unsynchronised {
            return Err(Refusal::Unsynchronised);
        }
        if !(1..=15).contains(&packet.stratum) {
            return Err(Refusal::Stratum(packet.stratum));
        }
        if packet.receive_timestamp.is_unknown() || packet.transmit_timestamp.is_unknown() {
            return Err(Refusal::ZeroTimestamp);
        }
        let reply = Reply {
            receive: packet.receive_timestamp,
            transmit: packet.transmit_timestamp,
            leap: packet.leap,
            stratum: packet.stratum,
            poll: packet.poll,
            precision: packet.precision,
            root_delay: packet.root_delay.span(),
            root_dispersion: packet.root_dispersion.span(),
            reference_id: packet.reference_id,
            reference_timestamp: packet.reference_timestamp,
            version: packet.version,
            interleaved,
            unread,
            later_requests: place,
        };
        // Servers fill the bits below their precision with random ones (RFC 5905 §6), in either
        // timestamp by itself: a quick answer then seems to leave before the question came.
        let blur = reply.precision.span();
        let received = interleaved.unwrap_or(reply.receive);
        // The reply before left before this request came.
        let late = interleaved.is_some() && reply.transmit.since(reply.receive) > blur;
        if late || reply.transmit.since(received) < -blur {
            return Err(Refusal::TransmitBeforeReceive);
        }
        let distance = reply.root_distance();
        if distance > MAX_ROOT_DISTANCE {
            return Err(Refusal::RootDistance(distance));
        }
        Ok(reply)
    }
}

/// The kiss-o'-death, RFC 5905 §7.4. `INIT` and `STEP` are what ntpd says of itself while it is
/// not synchronised.
fn check_kiss(packet: &Packet) -> Result<(), Refusal> {
    if packet.stratum != 0 {
        return Ok(());
    }
    Err(match packet.reference_id.ascii() {
        Some("DENY") => Refusal::KissDeny,
        Some("RSTR") => Refusal::KissRestrict,
        Some("RATE") => Refusal::KissRate,
        Some("INIT" | "STEP") => Refusal::Unsynchronised,
        Some(_) => Refusal::KissOther(packet.reference_id),
        None => return Ok(()),
    })
}

/// True if two addresses are the same end point. What IPv6 adds to it beside address and port does
/// not count where one side leaves it open.
fn same_peer(a: SocketAddr, b: SocketAddr) -> bool {
    let scope = |address| match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    a.port() == b.port()
        && a.ip().to_canonical() == b.ip().to_canonical()
        && (scope(a) == scope(b) || scope(a) == 0 || scope(b) == 0)
}
