//! Near end: the packets of a session, and what came back of each.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use truechimer_keys::Key;
use truechimer_ntp::Timestamp;
use truechimer_qos::{DifferenceClock, Measured};
use truechimer_time::{Instant, Leaps, Span};

use crate::keeper::{Source, Timed};
use crate::wire::{self, Layout, Reply, Request};
use crate::{Estimate, Format, tlv};

/// Replies to one packet that are kept; more are only counted.
const KEPT: usize = 8;

/// Reason why a datagram is no reply of this session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refused {
    /// Too short.
    Short,
    /// Without a code by the key.
    Unauthentic,
    /// Of another session, or of no packet that was sent.
    Foreign,
    /// One copy more of a reply that has come too often.
    Repeated,
}

impl Refused {
    /// Name in counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Refused::Short => "short",
            Refused::Unauthentic => "unauthentic",
            Refused::Foreign => "foreign",
            Refused::Repeated => "repeated",
        }
    }
}

/// A reply, and what it says of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Echo {
    /// Number that the reflector has given it.
    pub number: u32,
    /// From when the request left until it arrived there.
    pub forward: Measured,
    /// From when the reply left, as it says itself, until it arrived here.
    pub backward: Measured,
    /// There and back, less the time that the reflector has kept it by its own word; `None` if neither a counter nor one
    /// clock spans it here. Bounded if the reflector's clock promises a bound, which its word may be off by twice.
    pub round_trip: Option<Measured>,
    /// Time for which the reflector has kept it, by its own word.
    pub kept_ns: i64,
    /// When it arrived there, ns since 1970 by that clock.
    pub received_ns: i64,
    /// When it arrived here, ns since 1970.
    pub arrived_ns: i64,
    /// Bound of the reflector's clock; `None` if it promises none, or in a format without a time scale.
    pub far_bound_ns: Option<u64>,
    /// Hop limit with which the request arrived there; 0 if not known.
    pub hop_limit: u8,
    /// Place among all replies in the order in which they came, from 0.
    pub order: u32,
    /// Source of our time of its arrival.
    pub source: Source,
}

/// Moment at which a packet counts as sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// The middle of the call that sent it; the bound has the rest of the call in it, and not what the packet
    /// waited for afterwards.
    Call,
    /// When the kernel handed it to the interface's driver.
    Kernel,
}

/// A packet sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// Number of the packet.
    pub sequence: u32,
    /// When it left, as well as that is known.
    pub sent: Timed,
    /// Moment that `sent` is.
    pub departure: Departure,
    /// Time that it carries.
    stamp: u64,
    /// Replies, as they came.
    pub echoes: SmallVec<[Echo; 1]>,
}

/// Packets of one session.
#[derive(Clone, Debug)]
pub struct Session {
    key: Option<Key>,
    size: usize,
    identifier: u16,
    next: u32,
    probes: Vec<Probe>,
    answered: usize,
    replies: u32,
    unsent: u64,
    refused: BTreeMap<Refused, u64>,
}

impl Session {
    /// A session of packets of `size` bytes: that of the layout, or at least four more.
    #[must_use]
    pub fn new(key: Option<Key>, size: usize, identifier: u16) -> Session {
        let (probes, refused) = (Vec::new(), BTreeMap::new());
        let (next, answered, replies, unsent) = (0, 0, 0, 0);
        Session { key, size, identifier, next, probes, answered, replies, unsent, refused }
    }

    /// Layout of its packets.
    #[must_use]
    pub fn layout(&self) -> Layout {
        if self.key.is_some() { Layout::Keyed } else { Layout::Open }
    }

    /// The next packet, which is about to leave.
    #[must_use]
    pub fn ask(&mut self, at: &Timed) -> Vec<u8> {
        let (layout, stamp) = (self.layout(), at.stamp().0);
        let mut bytes = vec![0; self.size.max(layout.size())];
        let estimate = Estimate::at_least(at.stamped_bound());
        let request = Request { sequence: self.next, stamp, estimate, session: self.identifier };
        request.write(&mut bytes, layout);
        bytes.get_mut(layout.size()..).into_iter().for_each(tlv::pad);
        self.key.iter().for_each(|key| wire::seal(&mut bytes, key));
        self.probes.push(Probe {
            sequence: self.next,
            sent: *at,
            departure: Departure::Call,
            stamp,
            echoes: SmallVec::new(),
        });
        self.next = self.next.wrapping_add(1);
        bytes
    }

    /// When the newest packet left, as is known by now.
    pub fn left(&mut self, at: Timed, departure: Departure) {
        if let Some(probe) = self.probes.last_mut() {
            (probe.sent, probe.departure) = (at, departure);
        }
    }

    /// The newest packet did not leave, which is counted.
    pub fn not_left(&mut self) {
        self.unsent += 1;
        if let Some(probe) = self.probes.pop() {
            self.next = probe.sequence;
        }
    }

    /// Leaves a number out: a reflector that counts itself does not.
    pub fn skip(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Packets sent, in their order.
    #[must_use]
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Packets with an answer.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Packets that the system did not take.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Datagrams that were no replies.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<Refused, u64> {
        &self.refused
    }

    /// A datagram arrives from another address than the reflector's: it is no reply.
    pub fn foreign(&mut self) {
        self.refuse(Refused::Foreign);
    }

    fn refuse(&mut self, why: Refused) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// A datagram arrives: the place of the packet that it answers.
    ///
    /// # Errors
    /// Why it is no reply, which is counted.
    pub fn accept(
        &mut self,
        bytes: &[u8],
        arrived: &Timed,
        difference: Option<&DifferenceClock>,
    ) -> Result<usize, Refused> {
        let accepted = self.take(bytes, arrived, difference);
        if let Err(why) = accepted {
            self.refuse(why);
        }
        accepted
    }

    fn take(
        &mut self,
        bytes: &[u8],
        arrived: &Timed,
        difference: Option<&DifferenceClock>,
    ) -> Result<usize, Refused> {
        let reply = Reply::read(bytes, self.layout()).ok_or(Refused::Short)?;
        if self.key.as_ref().is_some_and(|key| !wire::is_by(bytes, key)) {
            return Err(Refused::Unauthentic);
        }
        let place =
            self.probes.binary_search_by_key(&reply.sender_sequence, |probe| probe.sequence);
        let place = place.map_err(|_| Refused::Foreign)?;
        let probe = self.probes.get_mut(place).ok_or(Refused::Foreign)?;
        // TWAMP has no identifiers of sessions.
        let ours = reply.sender_stamp == probe.stamp
            && (reply.session == 0 || reply.session == self.identifier);
        if !ours {
            return Err(Refused::Foreign);
        }
        if probe.echoes.len() >= KEPT {
            return Err(Refused::Repeated);
        }
        self.answered += usize::from(probe.echoes.is_empty());
        let echo = echo(&probe.sent, &reply, arrived, difference);
        probe.echoes.push(Echo { order: self.replies, ..echo });
        self.replies = self.replies.saturating_add(1);
        Ok(place)
    }
}

/// Moment of the far clock.
#[derive(Clone, Copy, Debug)]
struct Far {
    time: Instant,
    /// A leap second shows that time twice.
    twice: bool,
}

impl Far {
    fn read(stamp: u64, format: Format, near: &Timed) -> Option<Far> {
        let pivot = near.leaps.utc(near.time).unix;
        let time = match format {
            Format::Ntp => Timestamp(stamp).to_instant(pivot, &near.leaps),
            // Seconds since 1970 of a scale that is not said: for spans only.
            Format::Ptp => {
                let nanos = stamp & 0xffff_ffff;
                let seconds = Instant::new((stamp >> 32) as i64, 0);
                (nanos < 1_000_000_000).then(|| seconds + Span::from_nanos(nanos as i64))?
            }
        };
        let twice = format == Format::Ntp && near.leaps.again(time).is_some();
        Some(Far { time, twice })
    }
}

fn echo(
    sent: &Timed,
    reply: &Reply,
    arrived: &Timed,
    difference: Option<&DifferenceClock>,
) -> Echo {
    let format = reply.estimate.format;
    let read = |stamp| Far::read(stamp, format, arrived);
    let far = read(reply.received).zip(read(reply.stamp));
    let comparable =
        format == Format::Ntp && far.is_some_and(|(in_, out)| !in_.twice && !out.twice);
    // Its stamps are cut to 2⁻³² s, which it may not have counted.
    let cut = Span(1 << 32);
    let far_bound = reply.estimate.bound().filter(|_| comparable).map(|bound| bound + cut);
    let (in_, out) = far.map_or((arrived.time, arrived.time), |(in_, out)| (in_.time, out.time));
    let way = |from: Instant, to: Instant, near: &Timed| {
        measured(to - from, near.bound.zip(far_bound).map(|(near, far)| near + far))
    };
    let kept = out - in_;
    let both = difference.and_then(|clock| clock.span(&sent.counted, &arrived.counted));
    let by_clock = (sent.source == arrived.source).then(|| arrived.time - sent.time - kept);
    Echo {
        number: reply.sequence,
        forward: way(sent.time, in_, sent),
        backward: way(out, arrived.time, arrived),
        round_trip: round_trip(both, by_clock, kept, far_bound),
        kept_ns: kept.as_nanos_i64(),
        received_ns: unix_ns(in_, &arrived.leaps),
        arrived_ns: unix_ns(arrived.time, &arrived.leaps),
        far_bound_ns: far_bound.map(up),
        hop_limit: reply.hop_limit,
        order: 0,
        source: arrived.source,
    }
}

/// There and back: by the counter, less what the other end has kept it; else by the times of the clock, without a bound.
/// The other end's two stamps are each within its bound: what it has kept is off by twice that at the most, and by any
/// amount where it promises none.
fn round_trip(
    by_counter: Option<Measured>,
    by_clock: Option<Span>,
    kept: Span,
    far_bound: Option<Span>,
) -> Option<Measured> {
    let Some(both) = by_counter else { return by_clock.map(|span| measured(span, None)) };
    let ns = both.ns.saturating_sub(kept.as_nanos_i64());
    // `kept` is rounded to a nanosecond.
    let doubt = far_bound.map(|bound| up(bound + bound).saturating_add(1));
    let bound_ns = both.bound_ns.zip(doubt).map(|(own, doubt)| own.saturating_add(doubt));
    Some(Measured { ns, bound_ns })
}

/// A span in ns, with what rounding adds to its bound.
fn measured(span: Span, bound: Option<Span>) -> Measured {
    Measured { ns: span.as_nanos_i64(), bound_ns: bound.map(|bound| up(bound).saturating_add(1)) }
}

fn up(bound: Span) -> u64 {
    bound.as_nanos_up().max(0).unsigned_abs()
}

fn unix_ns(at: Instant, leaps: &Leaps) -> i64 {
    i64::try_from(leaps.utc(at).unix_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::nanoseconds;
    use proptest::prelude::*;
    use truechimer_keys::Algorithm;
    use truechimer_time::Leap;

    const NOW: i64 = 1_800_000_000_000_000_000;

    fn at(ns: i64, bound: i64) -> Timed {
        Timed::at_nanos(NOW + ns, bound)
    }

    fn key() -> Key {
        Key::new(1, Algorithm::Sha256, b"sixteen bytes and more").unwrap()
    }

    /// Reply to a request of this session by a clock that is `ahead` ns ahead.
    fn reply_to(request: &[u8], layout: Layout, received: &Timed, left: &Timed) -> Vec<u8> {
        let asked = Request::read(request, layout).unwrap();
        let mut bytes = request.to_vec();
        let bound = received.stamped_bound().zip(left.stamped_bound());
        let reply = Reply {
            sequence: 3,
            stamp: left.stamp().0,
            estimate: Estimate::at_least(bound.map(|(a, b)| a.max(b))),
            session: asked.session,
            received: received.stamp().0,
            sender_sequence: asked.sequence,
            sender_stamp: asked.stamp,
            sender_estimate: asked.estimate,
            hop_limit: 60,
        };
        reply.write(&mut bytes, layout);
        bytes
    }

    proptest! {
        /// Clocks that are off by no more than they say: each true delay is within the bound of what is measured.
        #[test]
        fn the_true_delays_are_within_their_bounds(
            there in 0i64..3_000_000_000, kept in 0i64..2_000_000_000, back in 0i64..3_000_000_000,
            ours in 0i64..100_000_000, theirs in 0i64..100_000_000,
            off in (-1.0f64..=1.0, -1.0f64..=1.0, -1.0f64..=1.0),
            late in 0i64..50_000,
        ) {
            let mut session = Session::new(None, 44, 5);
            let (near, far) = ((ours as f64 * off.0) as i64, (theirs as f64 * off.1) as i64);
            let request = session.ask(&at(near - late, ours));
            // The kernel says when it left.
            session.left(at(near, ours), Departure::Kernel);
            // The far clock takes a step within its bound while it has the packet.
            let then = (theirs as f64 * off.2) as i64;
            let (received, left) = (at(there + far, theirs), at(there + kept + then, theirs));
            let bytes = reply_to(&request, Layout::Open, &received, &left);
            let end = there + kept + back;
            session.accept(&bytes, &at(end + near, ours), Some(&nanoseconds())).unwrap();
            let echo = session.probes()[0].echoes[0];
            for (said, truth) in [(echo.forward, there), (echo.backward, back), (echo.round_trip.unwrap(), there + back)] {
                let bound = said.bound_ns.unwrap();
                prop_assert!(said.ns.abs_diff(truth) <= bound, "{said:?} {truth}");
            }
            // No wider than both clocks' bounds and what the field is rounded by.
            let most = (ours + theirs + theirs / 128 + 10) as u64;
            prop_assert!(echo.forward.bound_ns.unwrap() <= most);
            let most = (2 * (theirs + theirs / 128) + 10) as u64;
            prop_assert!(echo.round_trip.unwrap().bound_ns.unwrap() <= most);
            prop_assert!((echo.number, echo.hop_limit) == (3, 60));
        }
    }

    #[test]
    fn without_a_promise_at_either_end_there_is_no_bound() {
        for (ours, theirs) in [(None, Some(9)), (Some(9), None), (None, None)] {
            let timed =
                |ns, bound: Option<i64>| Timed { bound: bound.map(Span::from_nanos), ..at(ns, 0) };
            let mut session = Session::new(None, 44, 5);
            let request = session.ask(&timed(0, ours));
            let bytes = reply_to(&request, Layout::Open, &timed(500, theirs), &timed(600, theirs));
            session.accept(&bytes, &timed(1100, ours), Some(&nanoseconds())).unwrap();
            let echo = session.probes()[0].echoes[0];
            assert_eq!((echo.forward.bound_ns, echo.backward.bound_ns), (None, None));
            let round_trip = echo.round_trip.unwrap();
            assert!(round_trip.ns.abs_diff(1000) <= 2);
            // Our counter needs no promise, what the other end has kept does.
            assert_eq!(round_trip.bound_ns.is_some(), theirs.is_some());
            assert!(echo.forward.ns.abs_diff(500) <= 2 && echo.backward.ns.abs_diff(500) <= 2);
        }
    }

    #[test]
    fn without_a_counter_one_clock_spans_the_round_trip_and_two_do_not() {
        let system = |ns| Timed { source: Source::System, ..at(ns, 9) };
        let made = |arrived: Timed| {
            let mut session = Session::new(None, 44, 5);
            let request = session.ask(&at(0, 9));
            let bytes = reply_to(&request, Layout::Open, &at(500, 9), &at(600, 9));
            session.accept(&bytes, &arrived, None).unwrap();
            session.probes()[0].echoes[0].round_trip
        };
        let round_trip = made(at(1100, 9)).unwrap();
        assert!(round_trip.ns.abs_diff(1000) <= 2 && round_trip.bound_ns.is_none());
        assert_eq!(made(system(1100)), None);
    }

    /// `truechimer probe` says how much memory a million packets take.
    #[test]
    fn a_packet_with_its_first_reply_is_of_the_size_that_is_said() {
        assert!(size_of::<Probe>() <= 304, "{}", size_of::<Probe>());
        let mut session = Session::new(None, 44, 5);
        let request = session.ask(&at(0, 9));
        let bytes = reply_to(&request, Layout::Open, &at(500, 9), &at(600, 9));
        session.accept(&bytes, &at(1100, 9), None).unwrap();
        assert!(!session.probes()[0].echoes.spilled());
    }

    /// PTP's format does not say its time scale: 37 s of TAI are no delay.
    #[test]
    fn ptp_stamps_measure_the_round_trip_alone() {
        let mut session = Session::new(None, 44, 5);
        let request = session.ask(&at(0, 9));
        let mut bytes = reply_to(&request, Layout::Open, &at(0, 9), &at(0, 9));
        let mut reply = Reply::read(&bytes, Layout::Open).unwrap();
        reply.estimate.format = Format::Ptp;
        let ptp = |ns: u64| (1_800_000_037 << 32) | ns;
        (reply.received, reply.stamp) = (ptp(500), ptp(650));
        reply.write(&mut bytes, Layout::Open);
        session.accept(&bytes, &at(1100, 9), Some(&nanoseconds())).unwrap();
        let echo = session.probes()[0].echoes[0];
        assert_eq!((echo.forward.bound_ns, echo.far_bound_ns, echo.kept_ns), (None, None, 150));
        assert_eq!(echo.round_trip.map(|round| (round.ns, round.bound_ns)), Some((950, None)));
        // No nanoseconds.
        reply.stamp = ptp(1_000_000_000);
        reply.write(&mut bytes, Layout::Open);
        session.accept(&bytes, &at(1100, 9), Some(&nanoseconds())).unwrap();
        assert_eq!(session.probes()[0].echoes[1].kept_ns, 0);
    }

    #[test]
    fn a_leap_second_is_no_delay() {
        // TAI − UTC goes from 36 to 37 at `leap`.
        let leap = 1_800_000_036;
        let leaps = Leaps {
            tai_offset: 36,
            known: true,
            last: None,
            next: Some(Leap { at: leap, step: 1 }),
        };
        let timed = |ms: i64| Timed {
            time: Instant::new(leap, 0) + Span::from_millis(ms),
            leaps,
            ..Timed::at_nanos(ms * 1_000_000, 1000)
        };
        for (sent, bounded) in [(-2500, true), (-1500, false), (-500, false), (300, true)] {
            let mut session = Session::new(None, 44, 5);
            let request = session.ask(&timed(sent));
            let bytes = reply_to(&request, Layout::Open, &timed(sent + 200), &timed(sent + 250));
            session.accept(&bytes, &timed(sent + 400), Some(&nanoseconds())).unwrap();
            let echo = session.probes()[0].echoes[0];
            assert_eq!(echo.forward.bound_ns.is_some(), bounded, "{sent}: {echo:?}");
            if bounded {
                assert!(echo.forward.ns.abs_diff(200_000_000) < 5, "{sent}: {echo:?}");
                assert!(echo.backward.ns.abs_diff(150_000_000) < 5, "{sent}: {echo:?}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_and_counted() {
        let mut session = Session::new(Some(key()), 160, 5);
        let request = session.ask(&at(0, 9));
        assert!(wire::is_by(&request, &key()) && request.len() == 160);
        assert_eq!(request[112..116], [0x80, 1, 0, 44]);
        let mut good = reply_to(&request, Layout::Keyed, &at(1, 9), &at(2, 9));
        let mut accept = |bytes: &[u8]| session.accept(bytes, &at(3, 9), Some(&nanoseconds()));
        // Its own packet does not answer it, nor what is unsealed, cut or of another.
        assert_eq!(accept(&request), Err(Refused::Foreign));
        assert_eq!(accept(&good), Err(Refused::Unauthentic));
        assert_eq!(accept(&good[..80]), Err(Refused::Short));
        let resealed = |change: fn(&mut Reply)| {
            let (mut bytes, mut reply) = (good.clone(), Reply::read(&good, Layout::Keyed).unwrap());
            change(&mut reply);
            reply.write(&mut bytes, Layout::Keyed);
            wire::seal(&mut bytes, &key());
            bytes
        };
        for other in [
            resealed(|reply| reply.sender_sequence = 1),
            resealed(|reply| reply.sender_stamp ^= 1),
            resealed(|reply| reply.session = 6),
        ] {
            assert_eq!(accept(&other), Err(Refused::Foreign));
        }
        wire::seal(&mut good, &key());
        assert!((0..8).all(|_| accept(&good) == Ok(0)));
        assert_eq!(accept(&good), Err(Refused::Repeated));
        assert_eq!(session.refused()[&Refused::Foreign], 4);
        assert_eq!((session.answered(), session.probes()[0].echoes.len()), (1, 8));
    }

    proptest! {
        #[test]
        fn hostile_replies_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..120), fit: bool) {
            let mut session = Session::new(None, 44, 5);
            let request = session.ask(&at(0, 9));
            let mut bytes = bytes;
            if fit && bytes.len() >= 44 {
                bytes[14..16].copy_from_slice(&[0, 5]);
                bytes[24..28].copy_from_slice(&request[..4]);
                bytes[28..36].copy_from_slice(&request[4..12]);
                prop_assert_eq!(session.accept(&bytes, &at(5, 9), Some(&nanoseconds())), Ok(0));
            } else {
                prop_assert!(session.accept(&bytes, &at(5, 9), Some(&nanoseconds())).is_err());
            }
        }
    }
}
