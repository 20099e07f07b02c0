//! Drivers that the fuzz target shares: any bytes, and what must hold of them.

use core::net::IpAddr;

use truechimer_ptp::{
    Announce, Body, ClockIdentity, DelayMechanism, Flags, Header, Kind, LogInterval, MASTERS,
    Message, PortIdentity, Slave, Timestamp, Tlv, Wire,
};
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};

/// Any bytes as a message: what can be read can be written and is read again, TLVs too.
pub fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    let mut buffer = [0; 2048];
    for tlv in message.tlvs() {
        let mut room = [0; 2048];
        let _ = tlv.encode(&mut room);
    }
    if bytes.len() <= buffer.len() {
        let written = message.encode(&mut buffer).unwrap();
        assert_eq!(Message::decode(written), Ok(message));
        assert_eq!(written.len(), usize::from(u16::from_be_bytes([bytes[2], bytes[3]])));
    }
}

/// A grant, or the end of one, as a script picks it.
fn signal(step: u8) -> Tlv<'static> {
    let kind = Wire::of([Kind::Announce, Kind::Sync, Kind::DelayResp][usize::from(step % 3)]);
    match step >> 6 {
        0 => Tlv::Cancel(kind),
        1 => Tlv::Acknowledge(kind),
        _ => Tlv::Grant {
            kind,
            interval: LogInterval(if step & 8 == 0 { 0 } else { step as i8 }),
            seconds: if step & 16 == 0 { 60 } else { u32::from(step) << 24 },
            renewed: true,
        },
    }
}

/// A message of one of four masters, as a script picks it.
fn probable(
    (what, step): (u8, u8),
    (sdo_id, own): (u16, PortIdentity),
    room: &mut [u8; 64],
) -> &[u8] {
    let mut tlv = [0; 16];
    let mut rest: &[u8] = &[];
    let master = what >> 6;
    let time = Timestamp { seconds: 1100 + u64::from(step), nanos: 0 };
    let body = match (what >> 3) & 7 {
        0 | 1 => Body::Announce(Announce { priority1: master, ..Announce::default() }),
        2 | 3 => Body::Sync(time),
        4 => Body::FollowUp(time),
        5 => Body::DelayResp(time, own),
        6 if step & 32 == 0 => Body::DelayResp(Timestamp::default(), own),
        6 => {
            rest = signal(step).encode(&mut tlv).unwrap();
            Body::Signaling(own)
        }
        _ if step & 16 == 0 => Body::PdelayReq(time),
        _ if step & 8 == 0 => Body::PdelayResp(time, own),
        _ => Body::PdelayRespFollowUp(time, own),
    };
    let header = Header {
        sdo_id,
        flags: if step & 1 == 0 { Flags::TWO_STEP } else { Flags::default() }.and(Flags::UNICAST),
        source: PortIdentity { clock: ClockIdentity([master; 8]), port: 1 },
        sequence: u16::from(step >> 1),
        ..Header::default()
    };
    Message { header, body, rest }.encode(room).unwrap()
}

/// Takes the signalling messages that are due: finitely many, each with a receiver.
fn signals(slave: &mut Slave, at: Count, requests: &mut Vec<(Count, IpAddr, Wire)>) {
    for _ in 0..MASTERS {
        let Some(packet) = slave.signal(at, &mut || 3) else { return };
        let to = packet.to().unwrap();
        for tlv in Message::decode(&packet).unwrap().tlvs() {
            let Tlv::Request(kind, ..) = tlv else { continue };
            let same = requests.iter().rev().find(|(_, of, one)| (*of, *one) == (to, kind));
            let apart = same.is_none_or(|(before, ..)| (at - *before).0 >= 999_999_999);
            assert!(apart, "{requests:?}");
            requests.push((at, to, kind));
        }
    }
    assert_eq!(slave.signal(at, &mut || 3), None);
}

/// A slave under a script: records of a length, what to do, and a datagram. Whatever comes, no
/// exchange runs backwards, questions are at least half a second apart, and requests for unicast
/// messages a second for each kind of each master.
pub fn slave(script: &[u8]) {
    let own = PortIdentity { clock: ClockIdentity([2, 0, 0, 0, 0, 0, 0, 1]), port: 1 };
    let mut slave = Slave::new(own, 0, Period::NANOSECOND, 7);
    if script.first().is_some_and(|first| first & 1 != 0) {
        slave = slave.by(DelayMechanism::PeerToPeer);
    }
    let mut at = Count(1 << 40);
    let first = script.first().copied().unwrap_or(0);
    let sdo_id = if first & 4 != 0 { 0x100 } else { 0 };
    slave = slave.in_profile(sdo_id);
    if first & 2 != 0 {
        let masters: [_; 4] = core::array::from_fn(|n| [10, 0, 0, n as u8].into());
        slave = slave.with_masters(&masters, at);
    }
    let mut requests: Vec<(Count, IpAddr, Wire)> = Vec::new();
    let mut asked: Option<Count> = None;
    // The newest two: clocks that are known have answers of their own.
    let mut answered: [Option<Count>; 2] = [None; 2];
    let mut rest = script;
    while let Some((&[length, what, step], after)) = rest.split_first_chunk() {
        let (raw, after) = after.split_at(usize::from(length % 80).min(after.len()));
        rest = after;
        let mut room = [0; 64];
        // Short records stand for messages that are nearly right.
        let datagram =
            if raw.len() < 8 { probable((what, step), (sdo_id, own), &mut room) } else { raw };
        // From nothing to 2.6 s, and often less than anything that is waited for.
        at = at + CountSpan(i64::from(step).pow(2) * 40_000);
        let stamp = Stamp { count: at, error: CountSpan(10), method: StampMethod::Kernel };
        let from = [10, 0, 0, what >> 6].into();
        let exchange = match what & 7 {
            0 => {
                let (_, request) = slave.act(at, &mut || u64::from(step) << 20);
                if request.is_some() {
                    let before = asked.replace(at);
                    assert!(before.is_none_or(|before| {
                        (at - before).0 >= 499_999_999 || slave.master().is_some()
                    }));
                }
                signals(&mut slave, at, &mut requests);
                slave.sent(stamp)
            }
            1 => {
                slave.new_epoch(at);
                requests.clear();
                answered = [None; 2];
                None
            }
            2 => {
                slave.unsent();
                None
            }
            what => {
                let received = (what != 3).then_some(stamp);
                let heard = slave.heard(from, datagram, received, at).unwrap_or_default();
                if heard.answer.is_some() {
                    let [newest, asked] = answered;
                    answered = [Some(at), newest];
                    assert!(asked.is_none_or(|before| (at - before).0 >= 59_999_999));
                    assert!(slave.answered(stamp).is_some());
                }
                heard.exchange
            }
        };
        if let Some(exchange) = exchange {
            assert!((exchange.received.count - exchange.sent.count).0 > 0);
            assert!(exchange.master_sent >= exchange.master_received);
        }
    }
}
