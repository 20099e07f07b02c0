//! Far end: what becomes of a datagram.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use truechimer_keys::Key;
use truechimer_ntp::Timestamp;
use truechimer_serve::{Limiter, Rate, Table};
use truechimer_time::Span;

use crate::keeper::Timed;
use crate::wire::{self, Layout, Reply, Request, TWAMP_LEN};
use crate::{Estimate, Format, tlv};

/// Senders whose packets are counted: some 2 MiB.
const SESSIONS: usize = 16_384;
/// Ports below are services' own; what comes from one is an answer to somebody who claimed to be us.
const SERVICES: u16 = 1024;

/// Rules on who is answered, and how.
#[derive(Debug, Default)]
pub struct Access {
    /// Keys by any of which a packet with authentication is answered.
    pub keys: Vec<Key>,
    /// Packets without authentication are answered too.
    pub open: bool,
    /// Rate at which one address is answered; `None`: as often as it asks.
    pub rate: Option<Rate>,
    /// Rate at which all addresses together are answered; `None`: no limit.
    pub total: Option<Rate>,
    /// Replies have the sender's numbers instead of ones of their own (RFC 8762 section 4, stateless).
    pub stateless: bool,
    /// Makes the limits' table unpredictable.
    pub seed: u64,
}

/// Reason why a datagram is not answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ignored {
    /// Too short for a reply that is no longer.
    Short,
    /// Without a code by a key that is known here.
    Unauthentic,
    /// A reflector's own packet: two reflectors must not answer each other.
    Reflected,
    /// From the port of a service, or of this reflector.
    Port,
    /// With a code by a key, and sent so long ago or so far ahead that it is recorded: both clocks promise a bound.
    Stale,
    /// Beyond the rate.
    Limited,
}

impl Ignored {
    /// Name in counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ignored::Short => "short",
            Ignored::Unauthentic => "unauthentic",
            Ignored::Reflected => "reflected",
            Ignored::Port => "port",
            Ignored::Stale => "stale",
            Ignored::Limited => "limited",
        }
    }
}

/// Packets of synchronised senders are answered for so long: who overhears one can have it answered, to any address,
/// no longer.
const FRESH: Span = Span::from_secs(60);
/// Address under which all with a key are counted together.
const KEYED: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
/// Address under which all others are.
const OPEN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Reflector of test packets, without I/O.
#[derive(Debug)]
pub struct Reflector {
    access: Access,
    ports: Vec<u16>,
    limiter: Option<Limiter>,
    total: Option<Limiter>,
    /// Numbers of the next replies.
    sessions: Table<(SocketAddr, u16, Layout), u32>,
}

impl Reflector {
    /// A reflector at these ports.
    #[must_use]
    pub fn new(access: Access, ports: &[u16]) -> Reflector {
        let limiter = |rate: Option<Rate>| rate.map(|rate| Limiter::new(rate, access.seed));
        let (limiter, total) = (limiter(access.rate), limiter(access.total));
        Reflector { access, ports: ports.to_vec(), limiter, total, sessions: Table::new(SESSIONS) }
    }

    /// Answer to a datagram that arrived then, without the time at which it leaves. `now` is in ns, of a clock that does
    /// not go back.
    ///
    /// # Errors
    /// Why there is none.
    pub fn answer(
        &self,
        datagram: &[u8],
        from: SocketAddr,
        hop_limit: Option<u8>,
        arrived: &Timed,
        now: u64,
    ) -> Result<Prepared<'_>, Ignored> {
        if datagram.len() < TWAMP_LEN {
            return Err(Ignored::Short);
        }
        if from.port() < SERVICES || self.ports.contains(&from.port()) {
            return Err(Ignored::Port);
        }
        let key = self.key(datagram)?;
        let layout = if key.is_some() { Layout::Keyed } else { Layout::Open };
        if wire::looks_reflected(datagram, layout) {
            return Err(Ignored::Reflected);
        }
        let request = Request::read(datagram, layout).ok_or(Ignored::Short)?;
        if key.is_some() && is_stale(&request, arrived) {
            return Err(Ignored::Stale);
        }
        let all = if key.is_some() { KEYED } else { OPEN };
        for (limiter, address) in [(&self.limiter, from.ip()), (&self.total, all)] {
            if limiter.as_ref().is_some_and(|limiter| !limiter.allows(address, now)) {
                return Err(Ignored::Limited);
            }
        }
        let reply = Reply {
            sequence: self.number((from, request.session, layout), &request, now),
            stamp: 0,
            estimate: Estimate::NONE,
            session: request.session,
            received: arrived.stamp().0,
            sender_sequence: request.sequence,
            sender_stamp: request.stamp,
            sender_estimate: request.estimate,
            hop_limit: hop_limit.unwrap_or(0),
        };
        let mut bytes = datagram.to_vec();
        if let Some(extensions) = bytes.get_mut(layout.size()..) {
            tlv::reflect(extensions, request.sequence, reply.sequence, key);
        }
        Ok(Prepared { bytes, reply, layout, key, arrived: *arrived })
    }

    /// Key by which a datagram has authentication; none for one without, if those are answered.
    fn key(&self, datagram: &[u8]) -> Result<Option<&Key>, Ignored> {
        let keyed = datagram.len() >= Layout::Keyed.size();
        let key = self.access.keys.iter().find(|key| keyed && wire::is_by(datagram, key));
        let plain =
            self.access.open && (self.access.keys.is_empty() || !wire::looks_keyed(datagram));
        if key.is_some() || plain { Ok(key) } else { Err(Ignored::Unauthentic) }
    }

    /// Number of the next reply in the session of this request. The layout is part of the session: who has no key takes
    /// no number of one with keys.
    fn number(&self, session: (SocketAddr, u16, Layout), request: &Request, now: u64) -> u32 {
        if self.access.stateless {
            return request.sequence;
        }
        let next = |next: &mut u32| std::mem::replace(next, next.wrapping_add(1));
        self.sessions.with(session, now, || 0, next).unwrap_or(request.sequence)
    }
}

/// True of a request that says it was sent long ago, or will be: both clocks would have to be wrong.
fn is_stale(request: &Request, arrived: &Timed) -> bool {
    let Estimate { synchronised, format, .. } = request.estimate;
    if !synchronised || format != Format::Ntp || arrived.bound.is_none() {
        return false;
    }
    let now = arrived.leaps.utc(arrived.time).unix;
    let sent = Timestamp(request.stamp).to_instant(now, &arrived.leaps);
    (arrived.time - sent).abs() > FRESH
}

/// A reply that is yet to leave.
#[derive(Debug)]
pub struct Prepared<'k> {
    bytes: Vec<u8>,
    reply: Reply,
    layout: Layout,
    key: Option<&'k Key>,
    arrived: Timed,
}

impl Prepared<'_> {
    /// The reply as it leaves at this moment: as long as the request.
    #[must_use]
    pub fn leave(mut self, at: &Timed) -> Vec<u8> {
        let bounds = self.arrived.stamped_bound().zip(at.stamped_bound());
        self.reply.estimate = Estimate::at_least(bounds.map(|(arrived, left)| arrived.max(left)));
        self.reply.stamp = at.stamp().0;
        self.reply.write(&mut self.bytes, self.layout);
        if let Some(key) = self.key {
            wire::seal(&mut self.bytes, key);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_keys::Algorithm;

    const NOW: i64 = 1_800_000_000_000_000_000;

    fn key(secret: &[u8]) -> Key {
        Key::new(1, Algorithm::Sha256, secret).unwrap()
    }

    fn keyed() -> Vec<Key> {
        vec![key(b"the first of two"), key(b"the second of two")]
    }

    fn at(ns: i64) -> Timed {
        Timed::at_nanos(NOW + ns, 1000)
    }

    fn request(sequence: u32, layout: Layout, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let (stamp, estimate) = (at(-50).stamp().0, Estimate::at_least(at(-50).bound));
        Request { sequence, stamp, estimate, session: 9 }.write(&mut bytes, layout);
        bytes
    }

    fn from(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn answer(reflector: &Reflector, bytes: &[u8]) -> Result<Vec<u8>, Ignored> {
        let prepared = reflector.answer(bytes, from("192.0.2.1:40000"), Some(61), &at(0), 0)?;
        Ok(prepared.leave(&at(700)))
    }

    #[test]
    fn an_answer_has_all_times_and_numbers_of_its_own() {
        let reflector = Reflector::new(Access { open: true, ..Access::default() }, &[862]);
        for (n, sequence) in [5, 7, 6].into_iter().enumerate() {
            let bytes = answer(&reflector, &request(sequence, Layout::Open, 44)).unwrap();
            let reply = Reply::read(&bytes, Layout::Open).unwrap();
            let sent = Request::read(&request(sequence, Layout::Open, 44), Layout::Open).unwrap();
            assert_eq!((reply.sequence, reply.sender_sequence), (n as u32, sequence));
            assert_eq!((reply.sender_stamp, reply.sender_estimate), (sent.stamp, sent.estimate));
            assert_eq!((reply.received, reply.stamp), (at(0).stamp().0, at(700).stamp().0));
            assert_eq!((reply.hop_limit, reply.session, bytes.len()), (61, 9, 44));
            assert!(reply.estimate.bound() >= at(0).bound && reply.estimate.synchronised);
        }
        let stateless = Access { open: true, stateless: true, ..Access::default() };
        let bytes = answer(&Reflector::new(stateless, &[]), &request(5, Layout::Open, 44)).unwrap();
        assert_eq!(Reply::read(&bytes, Layout::Open).unwrap().sequence, 5);
    }

    #[test]
    fn a_clock_that_promises_nothing_says_so() {
        let reflector = Reflector::new(Access { open: true, ..Access::default() }, &[]);
        let unknown = Timed { bound: None, ..at(0) };
        let bytes = request(0, Layout::Open, 44);
        let peer = from("192.0.2.1:40000");
        let prepared = reflector.answer(&bytes, peer, None, &unknown, 0).unwrap();
        let reply = Reply::read(&prepared.leave(&at(1)), Layout::Open).unwrap();
        assert_eq!((reply.estimate, reply.hop_limit), (Estimate::NONE, 0));
    }

    #[test]
    fn who_has_no_key_is_not_answered() {
        let seal = |secret: &[u8], length| {
            let mut bytes = request(0, Layout::Keyed, length);
            wire::seal(&mut bytes, &key(secret));
            bytes
        };
        let access = |open| Access { keys: keyed(), open, ..Access::default() };
        let closed = Reflector::new(access(false), &[]);
        for secret in [b"the first of two".as_slice(), b"the second of two"] {
            let bytes = answer(&closed, &seal(secret, 112)).unwrap();
            assert!(wire::is_by(&bytes, &key(secret)) && bytes.len() == 112);
        }
        let refused = Err(Ignored::Unauthentic);
        for bytes in [
            seal(b"a third, unknown", 112),
            request(0, Layout::Keyed, 112),
            request(0, Layout::Open, 44),
            request(0, Layout::Open, 112),
            seal(b"the first of two", 112)[..111].to_vec(),
        ] {
            assert_eq!(answer(&closed, &bytes), refused);
        }
        // Open beside keys: those without are answered, forged ones are not.
        let both = Reflector::new(access(true), &[]);
        assert!(answer(&both, &request(0, Layout::Open, 200)).is_ok());
        assert_eq!(answer(&both, &seal(b"a third, unknown", 112)), refused);
        // Neither: nobody.
        let none = Reflector::new(Access::default(), &[]);
        assert_eq!(answer(&none, &request(0, Layout::Open, 44)), refused);
    }

    #[test]
    fn who_has_no_key_takes_no_number_of_who_has_one() {
        let reflector =
            Reflector::new(Access { keys: keyed(), open: true, ..Access::default() }, &[]);
        let number = |layout, bytes: &[u8]| {
            Reply::read(&answer(&reflector, bytes).unwrap(), layout).unwrap().sequence
        };
        let open = request(0, Layout::Open, 44);
        let mut sealed = request(0, Layout::Keyed, 112);
        wire::seal(&mut sealed, &key(b"the first of two"));
        for n in 0..3 {
            assert_eq!(number(Layout::Keyed, &sealed), n);
            assert_eq!(number(Layout::Open, &open), n);
        }
    }

    #[test]
    fn reflectors_do_not_answer_each_other() {
        for keys in [Vec::new(), keyed()] {
            let open = keys.is_empty();
            let layout = if open { Layout::Open } else { Layout::Keyed };
            let access = Access { keys: keys.clone(), open, ..Access::default() };
            let reflector = Reflector::new(access, &[10_862]);
            let mut bytes = request(1, layout, 150);
            keys.first().into_iter().for_each(|key| wire::seal(&mut bytes, key));
            let reply = answer(&reflector, &bytes).unwrap();
            assert_eq!(answer(&reflector, &reply), Err(Ignored::Reflected));
            // Nor anything from a service's port, or their own.
            for port in [7, 19, 53, 123, 862, 1023, 10_862] {
                let peer = SocketAddr::new([192, 0, 2, 1].into(), port);
                let answered = reflector.answer(&bytes, peer, None, &at(0), 0);
                assert_eq!(answered.err(), Some(Ignored::Port), "{port}");
            }
        }
    }

    #[test]
    fn an_address_gets_no_more_than_its_rate() {
        let rate = Some(Rate { per_second: 10, burst: 3 });
        let access = Access { keys: keyed(), open: true, rate, ..Access::default() };
        let reflector = Reflector::new(access, &[]);
        let bytes = request(0, Layout::Open, 44);
        let answered = |peer: &str, ms: u64| {
            reflector.answer(&bytes, from(peer), None, &at(0), ms * 1_000_000).err()
        };
        // Of whatever port, and what has no right counts for nothing.
        let forged = request(0, Layout::Keyed, 112);
        assert!((0..9).all(|_| answer(&reflector, &forged) == Err(Ignored::Unauthentic)));
        for port in 0..3 {
            assert_eq!(answered(&format!("192.0.2.1:4000{port}"), 0), None);
        }
        assert_eq!(answered("192.0.2.1:40009", 0), Some(Ignored::Limited));
        assert_eq!(
            (answered("192.0.2.2:40000", 0), answered("192.0.2.1:40000", 100)),
            (None, None)
        );
        let more = (0..1000).filter(|ms| answered("192.0.2.1:40000", 101 + ms).is_none()).count();
        assert!((9..=10).contains(&more), "{more}");
    }

    #[test]
    fn all_addresses_together_get_no_more_than_the_total() {
        let (rate, total) =
            (Rate { per_second: 100, burst: 100 }, Rate { per_second: 10, burst: 5 });
        let access =
            Access { open: true, rate: Some(rate), total: Some(total), ..Access::default() };
        let reflector = Reflector::new(access, &[]);
        let bytes = request(0, Layout::Open, 44);
        let answered = |n: u64, ns: u64| {
            let peer = from(&format!("192.0.2.{n}:40000"));
            reflector.answer(&bytes, peer, None, &at(0), ns).is_ok()
        };
        assert_eq!((1..=50).filter(|n| answered(*n, 0)).count(), 5);
        let later = (1..=1000).filter(|n| answered(n % 200 + 1, n * 1_000_000)).count();
        assert!((9..=11).contains(&later), "{later}");
    }

    #[test]
    fn senders_without_a_key_take_nothing_of_those_with_one() {
        let total = Some(Rate { per_second: 10, burst: 5 });
        let access = Access { keys: keyed(), open: true, total, ..Access::default() };
        let reflector = Reflector::new(access, &[]);
        let mut sealed = request(0, Layout::Keyed, 112);
        wire::seal(&mut sealed, &key(b"the first of two"));
        let answered = |n: u64, bytes: &[u8]| {
            let peer = from(&format!("192.0.2.{n}:40000"));
            reflector.answer(bytes, peer, None, &at(0), 0).is_ok()
        };
        let open = request(0, Layout::Open, 44);
        assert_eq!((1..=200).filter(|n| answered(*n, &open)).count(), 5);
        assert_eq!((1..=200).filter(|n| answered(*n, &sealed)).count(), 5);
    }

    #[test]
    fn a_recorded_request_is_answered_for_a_minute() {
        let sealed = |synchronised: bool| {
            let mut bytes = request(0, Layout::Keyed, 112);
            if !synchronised {
                let stamp = at(-50).stamp().0;
                let request = Request { sequence: 0, stamp, estimate: Estimate::NONE, session: 9 };
                request.write(&mut bytes, Layout::Keyed);
            }
            wire::seal(&mut bytes, &key(b"the first of two"));
            bytes
        };
        let reflector =
            Reflector::new(Access { keys: keyed(), open: true, ..Access::default() }, &[]);
        let at_second = |bytes: &[u8], arrived: &Timed| {
            reflector.answer(bytes, from("192.0.2.1:40000"), None, arrived, 0).err()
        };
        let second = 1_000_000_000;
        for (after, refused) in
            [(0, false), (59, false), (-59, false), (61, true), (-61, true), (1_000_000_000, true)]
        {
            let found = at_second(&sealed(true), &at(after * second));
            assert_eq!(found, refused.then_some(Ignored::Stale), "{after}");
        }
        // Where a clock promises nothing, and of packets that anybody can make, age says nothing.
        let nothing = Timed { bound: None, ..at(3600 * second) };
        assert_eq!(at_second(&sealed(true), &nothing), None);
        assert_eq!(at_second(&sealed(false), &at(3600 * second)), None);
        assert_eq!(at_second(&request(0, Layout::Open, 44), &at(3600 * second)), None);
    }

    /// TWAMP Light: packets of 41 bytes or more, padded with anything, are answered in their own length.
    #[test]
    fn twamp_light_is_answered_and_what_is_shorter_is_not() {
        let reflector = Reflector::new(Access { open: true, ..Access::default() }, &[]);
        for length in 0..41 {
            assert_eq!(
                answer(&reflector, &request(3, Layout::Open, 44)[..length]),
                Err(Ignored::Short)
            );
        }
        for (length, fill) in [(41, 0u8), (43, 0x5a), (44, 0xff), (142, 0x11), (1400, 0)] {
            let mut bytes = vec![fill; length];
            bytes[..14].copy_from_slice(&request(3, Layout::Open, 44)[..14]);
            let answer = answer(&reflector, &bytes).unwrap();
            let reply = Reply::read(&answer, Layout::Open).unwrap();
            assert_eq!((answer.len(), reply.sender_sequence), (length, 3));
        }
    }

    proptest! {
        #[test]
        fn nothing_longer_than_what_came_leaves(
            bytes in prop::collection::vec(any::<u8>(), 0..300), port: u16, open: bool, sealed: bool,
        ) {
            let reflector = Reflector::new(Access { keys: keyed(), open, ..Access::default() }, &[862]);
            let mut bytes = bytes;
            if sealed {
                wire::seal(&mut bytes, &key(b"the first of two"));
            }
            let peer = SocketAddr::new([192, 0, 2, 1].into(), port);
            if let Ok(prepared) = reflector.answer(&bytes, peer, None, &at(0), 0) {
                prop_assert!(open || sealed);
                prop_assert_eq!(prepared.leave(&at(1)).len(), bytes.len());
            }
        }
    }
}
