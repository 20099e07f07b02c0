//! The slave: whom it follows, what it makes of messages in any order, and what it refuses.

use proptest::prelude::*;
use truechimer_ptp::{Body, Change, DelayMechanism, Flags, Message, PortIdentity, Refusal, Tlv};
use truechimer_time::Count;

use crate::path::{Bad, Bed, Master, OWN, SECOND, stamp, time};

fn tally(bed: &Bed, refusal: Refusal) -> u64 {
    bed.slave.refused().of(refusal)
}

#[test]
fn a_master_is_followed_after_two_announcements_and_asked() {
    for one_step in [false, true] {
        let master = Master { one_step, ..Master::new(1, 128) };
        let mut bed = Bed::new(vec![master.clone()], Bad::default(), 1);
        bed.run(1);
        assert!(bed.slave.master().is_none() && bed.asked.is_empty(), "one is not enough");
        bed.run(60);
        assert_eq!(bed.slave.master().unwrap().port, master.port);
        assert!(matches!(bed.changes[..], [(_, Change::To(_, None))]));
        // About one a second, never closer than half of one.
        assert!((50..70).contains(&bed.asked.len()), "{}", bed.asked.len());
        assert!(bed.asked.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 2));
        assert!(bed.exchanges.len() > 35, "{}", bed.exchanges.len());
        bed.hold();
        // Nothing but the time of a master that had yet to be believed.
        let early = |refusal: &Refusal| *refusal == Refusal::NotParent;
        assert!(bed.refusals.len() <= 4 && bed.refusals.iter().all(early), "{:?}", bed.refusals);
    }
}

/// Messages between questions go with the one before, each `Sync` once and in its order.
#[test]
fn every_sync_behind_an_exchange_is_a_further_one() {
    for bad in
        [Bad::default(), Bad { queues: [200_000_000, 1_000_000], copies: 20, ..Bad::default() }]
    {
        let mut bed = Bed::new(vec![Master::new(1, 128)], bad, 3);
        bed.syncs = 8;
        bed.run(60);
        let used = bed.further.len() + bed.exchanges.len();
        assert!(bed.asked.len() < 70 && used > 240, "{} {used}", bed.asked.len());
        let mut last = Count(0);
        for (before, further) in &bed.further {
            let of = bed.exchanges[before - 1];
            assert_eq!((further.sent, further.master_received), (of.sent, of.master_received));
            assert!(further.master_sent >= further.master_received);
            let newest = last.latest(of.received.count);
            assert!((further.received.count - newest).0 > 0, "{further:?}");
            last = further.received.count;
        }
        bed.hold();
    }
}

#[test]
fn the_better_master_is_taken_and_the_other_kept_for_when_it_is_lost() {
    let (first, second) = (Master::new(1, 100), Master::new(2, 128));
    let mut bed = Bed::new(vec![first.clone(), second.clone()], Bad::default(), 2);
    bed.run(10);
    assert_eq!(bed.slave.master().unwrap().port, first.port);
    assert_eq!(bed.slave.masters().filter(|(_, qualified)| *qualified).count(), 2);
    bed.masters[0].alive = false;
    let lost_at = bed.now;
    bed.run(10);
    assert_eq!(bed.slave.master().unwrap().port, second.port);
    let (when, change) = bed.changes.last().unwrap();
    assert!(matches!(change, Change::To(to, Some(_)) if to.port == second.port));
    // Three intervals after its last word, which came at the last second's beginning.
    assert!((SECOND..4 * SECOND).contains(&(when - lost_at)));
    let before = bed.exchanges.len();
    bed.run(10);
    assert!(bed.exchanges.len() > before);
    bed.masters[1].alive = false;
    bed.run(10);
    assert!(matches!(bed.changes.last(), Some((_, Change::Lost(_)))));
    let asked = bed.asked.len();
    bed.run(10);
    assert_eq!(bed.asked.len(), asked, "nobody is asked");
    // And back.
    bed.masters[0].alive = true;
    bed.run(10);
    assert_eq!(bed.slave.master().unwrap().port, first.port);
    bed.hold();
}

#[test]
fn alternate_masters_and_those_too_far_away_are_no_masters() {
    let mut bed = Bed::new(vec![], Bad::default(), 3);
    let mut master = Master::new(1, 1);
    for n in 0..10 {
        master.sequence = n;
        let body = Body::Announce(master.announce);
        let alternate = master.message(body, n, 0, Flags::ALTERNATE_MASTER);
        bed.send(master.from, alternate, false, 0);
        let mut far = Master::new(2, 1);
        (far.sequence, far.announce.steps_removed) = (n, 255);
        bed.send(far.from, far.announcement(), false, 0);
        bed.run(1);
    }
    assert!(bed.slave.master().is_none());
    assert_eq!(tally(&bed, Refusal::NotParent), 10);
    assert_eq!(tally(&bed, Refusal::TooFar), 10);
}

#[test]
fn a_change_of_the_grandmaster_behind_a_boundary_clock_is_told() {
    let mut bed = Bed::new(vec![Master::new(1, 128)], Bad::default(), 4);
    bed.run(5);
    let old = bed.masters[0].announce.grandmaster;
    bed.masters[0].announce.grandmaster.0[0] ^= 1;
    bed.run(2);
    let Some((_, Change::Grandmaster(now, before))) = bed.changes.last() else { panic!() };
    assert_eq!(before.announce.grandmaster, old);
    assert_ne!(now.announce.grandmaster, old);
}

/// Messages with a known port's name from elsewhere change nothing.
#[test]
fn forged_messages_have_no_effect() {
    let mut bed = Bed::new(vec![Master::new(1, 128)], Bad::default(), 5);
    bed.run(5);
    let master = bed.masters[0].clone();
    let elsewhere = [203, 0, 113, 9].into();
    let mut forged = master.clone();
    forged.announce.priority1 = 0;
    forged.sequence = 77;
    let from_own = PortIdentity { port: 2, ..OWN };
    for (bytes, why) in [
        (forged.announcement(), Refusal::WrongAddress),
        (master.message(Body::Sync(time(1)), 9, 0, Flags::default()), Refusal::WrongAddress),
        (
            master.message(Body::DelayResp(time(1), OWN), 9, 0, Flags::default()),
            Refusal::WrongAddress,
        ),
        (Master { port: from_own, ..master.clone() }.announcement(), Refusal::Own),
    ] {
        let before = bed.slave.clone();
        let at = Count(bed.now);
        assert_eq!(bed.slave.heard(elsewhere, &bytes, Some(stamp(bed.now)), at), Err(why));
        assert_eq!(bed.slave.refused().of(why), before.refused().of(why) + 1);
        assert_eq!(bed.slave.master(), before.master());
    }
    // And from the right address: an answer to nobody, to another, and a copy.
    let at = bed.now;
    for (body, sequence, why) in [
        (Body::DelayResp(time(at), OWN), 0x1234, Refusal::Stray),
        (Body::DelayResp(time(at), master.port), 0x1234, Refusal::ForOthers),
        (Body::Sync(time(at)), master.sequence, Refusal::Duplicate),
    ] {
        let bytes = master.message(body, sequence, 0, Flags::default());
        assert_eq!(bed.slave.heard(master.from, &bytes, Some(stamp(at)), Count(at)), Err(why));
    }
    bed.run(5);
    bed.hold();
}

/// Names made up by the thousand push out neither the master nor an alternate.
#[test]
fn a_flood_of_masters_pushes_out_nobody_who_is_qualified() {
    let (first, second) = (Master::new(1, 100), Master::new(2, 128));
    let mut bed = Bed::new(vec![first.clone(), second], Bad::default(), 6);
    bed.run(5);
    for n in 0..5000_u32 {
        let mut made_up = Master::new(3, 0);
        made_up.port.clock.0[..4].copy_from_slice(&n.to_be_bytes());
        bed.send(made_up.from, made_up.announcement(), false, 0);
        if n % 500 == 0 {
            bed.run(1);
        }
    }
    bed.run(1);
    assert_eq!(bed.slave.master().unwrap().port, first.port);
    assert_eq!(bed.slave.masters().filter(|(_, qualified)| *qualified).count(), 2);
}

/// Nor do names that announce themselves often enough keep out a better master.
#[test]
fn a_table_full_of_worse_masters_has_room_for_a_better_one() {
    let second = Master::new(2, 128);
    let mut bed = Bed::new(vec![second.clone()], Bad::default(), 16);
    let worse: Vec<Master> = (10..17).map(|n| Master::new(n, 200)).collect();
    bed.masters.extend(worse.into_iter().map(|master| Master { mute: true, ..master }));
    bed.run(5);
    assert_eq!(bed.slave.masters().filter(|(_, qualified)| *qualified).count(), 8);
    assert_eq!(bed.slave.master().unwrap().port, second.port);
    let first = Master::new(1, 100);
    bed.masters.push(first.clone());
    bed.run(5);
    assert_eq!(bed.slave.master().unwrap().port, first.port);
    assert!(bed.slave.masters().any(|(master, _)| master.port == second.port));
    // One that is worse than all has no place.
    bed.masters.push(Master { mute: true, ..Master::new(30, 255) });
    let refused = tally(&bed, Refusal::TooMany);
    bed.run(5);
    assert!(tally(&bed, Refusal::TooMany) >= refused + 5);
    bed.hold();
}

/// A master that announces itself to all and gives no time is left for one that does, and tried again later.
#[test]
fn a_master_that_gives_no_time_is_passed_over() {
    let masters = vec![Master::new(1, 100), Master::new(2, 128)];
    let mut bed = Bed::new(masters, Bad::default(), 17);
    bed.masters[0].mute = true;
    bed.run(60);
    assert_eq!(bed.slave.master().unwrap().port, bed.masters[1].port);
    assert!(bed.exchanges.len() > 15, "{}", bed.exchanges.len());
    bed.run(3540);
    // Each trial costs half a minute, and the next is later: 300 s, 600 s, 1200 s.
    assert!(bed.exchanges.len() > 3000, "{}", bed.exchanges.len());
    assert!((6..=8).contains(&bed.changes.len()), "{:?}", bed.changes);
    bed.masters[0].mute = false;
    bed.run(4900);
    assert_eq!(bed.slave.master().unwrap().port, bed.masters[0].port);
    bed.hold();
    // One that is alone is not left.
    let mut bed = Bed::new(vec![Master { mute: true, ..Master::new(1, 100) }], Bad::default(), 18);
    bed.run(60);
    assert_eq!(bed.changes.len(), 1);
    bed.masters[0].mute = false;
    bed.run(120);
    assert!(bed.exchanges.len() > 40, "{}", bed.exchanges.len());
}

#[test]
fn a_master_that_wants_few_questions_is_not_passed_over() {
    let slow = Master { questions: 5, ..Master::new(1, 100) };
    let mut bed = Bed::new(vec![slow, Master::new(2, 128)], Bad::default(), 19);
    bed.run(1200);
    assert_eq!(bed.slave.interval(), truechimer_time::Span::from_secs(32));
    assert!(bed.exchanges.len() > 20, "{}", bed.exchanges.len());
    assert_eq!(bed.changes.len(), 1, "{:?}", bed.changes);
}

/// Devices of IEEE 1588-2008 may drop a minor version that they do not know.
#[test]
fn a_master_is_asked_in_its_own_minor_version() {
    for minor_version in [0, 1, 7] {
        let master = Master { minor_version, ..Master::new(1, 128) };
        let mut bed = Bed::new(vec![master], Bad::default(), 20);
        bed.run(10);
        assert!(bed.exchanges.len() > 3, "{minor_version}: {}", bed.exchanges.len());
    }
}

#[test]
fn a_break_of_the_counter_keeps_the_master_and_forgets_the_stamps() {
    let mut bed = Bed::new(vec![Master::new(1, 100)], Bad::default(), 7);
    bed.run(5);
    bed.slave.new_epoch(Count(bed.now));
    let changes = bed.changes.len();
    bed.run(5);
    assert_eq!(bed.changes.len(), changes);
    assert!(bed.slave.master().is_some() && bed.exchanges.len() > 4);
}

/// A correction that no path can have is refused, and so is a time that is none.
#[test]
fn impossible_corrections_and_times_are_refused() {
    let mut bed = Bed::new(vec![Master::new(1, 100)], Bad::default(), 8);
    bed.run(5);
    let (master, at) = (bed.masters[0].clone(), bed.now);
    let sync = master.message(Body::Sync(time(at)), 1, 2 * SECOND, Flags::default());
    let heard = bed.slave.heard(master.from, &sync, Some(stamp(at)), Count(at));
    assert_eq!(heard, Err(Refusal::Correction));
    let none = truechimer_ptp::Timestamp { seconds: 1, nanos: 1_000_000_000 };
    let sync = master.message(Body::Sync(none), 2, 0, Flags::default());
    let heard = bed.slave.heard(master.from, &sync, Some(stamp(at)), Count(at));
    assert_eq!(heard, Err(Refusal::Timestamp));
}

fn peer_to_peer(mut bed: Bed) -> Bed {
    bed.slave = bed.slave.by(DelayMechanism::PeerToPeer);
    bed
}

/// The neighbour on the link is asked in place of the master, and is believed if it is the master.
#[test]
fn a_neighbour_that_is_the_master_is_as_good_as_it() {
    let bad = Bad { loss: 10, copies: 10, queues: [300_000, 400_000], residence: 0 };
    let mut bed = peer_to_peer(Bed::new(vec![Master::new(1, 128)], bad, 9));
    bed.run(120);
    assert!(bed.exchanges.len() > 60, "{}", bed.exchanges.len());
    bed.hold();
}

/// A clock of the neighbour's own that runs ahead of the master's by little is in the round trip: no bound
/// is narrower than what it is off by.
#[test]
fn a_neighbour_that_is_a_little_ahead_of_the_master_breaks_no_bound() {
    for ahead in [1, 30, 90].map(|millis| millis * 1_000_000) {
        let bad = Bad { queues: [50_000, 50_000], ..Bad::default() };
        let mut bed = peer_to_peer(Bed::new(vec![Master::new(1, 128)], bad, 9));
        bed.neighbour = (None, ahead);
        bed.run(60);
        assert!(bed.exchanges.len() > 20, "{ahead}: {}", bed.exchanges.len());
        bed.hold();
        for exchange in &bed.exchanges {
            let away = (exchange.received.count - exchange.sent.count).0;
            let held = (exchange.master_sent - exchange.master_received).as_nanos();
            assert!(i128::from(away) - held >= i128::from(ahead), "{exchange:?}");
        }
    }
}

/// A transparent clock's answer, and one by a clock of its own, bound nothing.
#[test]
fn a_neighbour_that_is_not_the_master_is_not_used() {
    let stranger = PortIdentity { clock: truechimer_ptp::ClockIdentity([0x77; 8]), port: 3 };
    for neighbour in [(Some(stranger), 0), (None, 400_000_000), (None, 70 * 365 * 86_400 * SECOND)]
    {
        let mut bed = peer_to_peer(Bed::new(vec![Master::new(1, 128)], Bad::default(), 10));
        bed.neighbour = neighbour;
        bed.run(30);
        assert!(bed.exchanges.is_empty(), "{neighbour:?}");
        assert!(tally(&bed, Refusal::Neighbour) > 20, "{neighbour:?}");
    }
}

/// Turnaround times are enough for the delay of a link (11.4.2), and do not say when a question arrived.
#[test]
fn a_neighbour_that_says_only_how_long_it_took_is_told_apart() {
    for one_step in [true, false] {
        let mut bed = peer_to_peer(Bed::new(vec![Master::new(1, 128)], Bad::default(), 10));
        bed.turnaround = Some(one_step);
        bed.run(30);
        assert!(bed.exchanges.is_empty());
        assert!(tally(&bed, Refusal::Turnaround) > 20, "{one_step}");
        assert_eq!(tally(&bed, Refusal::Correction) + tally(&bed, Refusal::Neighbour), 0);
    }
}

/// The neighbour's own questions are answered by the counter, and not more often than any profile asks.
#[test]
fn a_neighbour_is_answered() {
    let mut bed = peer_to_peer(Bed::new(vec![], Bad::default(), 11));
    bed.slave = bed.slave.in_profile(0x100);
    let (master, stranger) = (Master::new(1, 128), Master::new(2, 128));
    let of_profile = |bytes: &[u8]| {
        let mut message = Message::decode(bytes).unwrap();
        message.header.sdo_id = 0x100;
        message.encode(&mut [0; 128]).unwrap().to_vec()
    };
    for sequence in 1..4 {
        let announcement = Master { sequence, ..master.clone() }.announcement();
        let (bytes, at) = (of_profile(&announcement), Count(bed.now));
        bed.slave.heard(master.from, &bytes, None, at).unwrap();
    }
    let at = bed.now;
    let question = |of: &Master| of.message(Body::PdelayReq(time(0)), 77, 3, Flags::default());
    let ask_of = |slave: &mut truechimer_ptp::Slave, of: &Master, received, at: u64| {
        slave.heard(of.from, &of_profile(&question(of)), received, Count(at))
    };
    let ask =
        |slave: &mut truechimer_ptp::Slave, received, at| ask_of(slave, &master, received, at);
    assert_eq!(ask(&mut bed.slave, None, at), Err(Refusal::NoStamp));
    let answer = ask(&mut bed.slave, Some(stamp(at)), at).unwrap().answer.unwrap();
    let Message { header, body, .. } = Message::decode(&answer).unwrap();
    assert_eq!((header.sequence, header.flags), (77, Flags::TWO_STEP));
    assert_eq!(body, Body::PdelayResp(time(at), master.port));
    let follow = bed.slave.answered(stamp(at + 5000)).unwrap();
    let Message { header, body, .. } = Message::decode(&follow).unwrap();
    // What transparent clocks added to the question goes back with it.
    assert_eq!((header.sequence, header.correction.0), (77, 3 << 16));
    assert_eq!(body, Body::PdelayRespFollowUp(time(at + 5000), master.port));
    assert_eq!(bed.slave.answered(stamp(at)), None);
    let soon = at + 59_000_000;
    let unused = Refusal::Unused(truechimer_ptp::Kind::PdelayReq);
    assert_eq!(ask(&mut bed.slave, Some(stamp(soon)), soon), Err(unused));
    let later = at + 61_000_000;
    assert!(ask(&mut bed.slave, Some(stamp(later)), later).unwrap().answer.is_some());
    // A flood of others' questions takes nothing from the master: neither its answer nor when that left.
    let mut answers = 0;
    for step in 0..100 {
        let at = later + step * 1_000_000;
        let heard = ask_of(&mut bed.slave, &stranger, Some(stamp(at)), at);
        answers += usize::from(heard.is_ok());
        if step == 10 {
            let follow = bed.slave.answered(stamp(at)).unwrap();
            let body = Message::decode(&follow).unwrap().body;
            assert_eq!(body, Body::PdelayRespFollowUp(time(at), master.port));
        }
        assert_eq!(ask(&mut bed.slave, Some(stamp(at)), at).is_ok(), step == 60);
    }
    assert!((1..=2).contains(&answers), "{answers}");
    // Somebody else answers it as well: two answers would be a fault to it.
    let other = Master::new(3, 128);
    let body = Body::PdelayResp(time(at), master.port);
    let another = of_profile(&other.message(body, 78, 0, Flags::TWO_STEP));
    let at = later + SECOND;
    let heard = bed.slave.heard(other.from, &another, Some(stamp(at)), Count(at));
    assert_eq!(heard, Err(Refusal::ForOthers));
    for (after, answers) in [(1, false), (599, false), (600, true)] {
        let at = at + after * SECOND;
        assert_eq!(ask(&mut bed.slave, Some(stamp(at)), at).is_ok(), answers, "{after}");
    }
    // Only 802.1AS has a neighbour answered: there may be another program that does so.
    let mut plain = peer_to_peer(Bed::new(vec![], Bad::default(), 12)).slave;
    let heard = plain.heard(master.from, &question(&master), Some(stamp(later)), Count(later));
    assert_eq!(heard, Err(unused));
}

/// An announcement that went through us is none; other TLVs are skipped.
#[test]
fn a_loop_is_no_master_and_unknown_tlvs_are_skipped() {
    let mut bed = Bed::new(vec![], Bad::default(), 13);
    let master = Master::new(1, 128);
    let with = |tlvs: &[Tlv<'_>]| {
        let mut rest = Vec::new();
        tlvs.iter().for_each(|tlv| rest.extend_from_slice(tlv.encode(&mut [0; 64]).unwrap()));
        let plain = master.announcement();
        let message = Message { rest: &rest, ..Message::decode(&plain).unwrap() };
        message.encode(&mut [0; 256]).unwrap().to_vec()
    };
    let at = bed.now;
    let other = [1; 8];
    for path in [OWN.clock.0.to_vec(), [other, OWN.clock.0].concat()] {
        let bytes = with(&[Tlv::Other(3, &[0; 28]), Tlv::PathTrace(&path)]);
        assert_eq!(bed.slave.heard(master.from, &bytes, None, Count(at)), Err(Refusal::Own));
    }
    // Information of 802.1AS, a path without us, one that is cut off.
    let bytes =
        with(&[Tlv::Other(3, &[0; 28]), Tlv::PathTrace(&other), Tlv::PathTrace(&other[..5])]);
    assert!(bed.slave.heard(master.from, &bytes, None, Count(at)).is_ok());
}

#[test]
fn a_profile_hears_its_own_messages_alone() {
    let mut bed = Bed::new(vec![], Bad::default(), 14);
    bed.slave = bed.slave.in_profile(0x100);
    let master = Master::new(1, 128);
    let plain = master.announcement();
    let at = Count(bed.now);
    assert_eq!(bed.slave.heard(master.from, &plain, None, at), Err(Refusal::Profile(0)));
    let mut message = Message::decode(&plain).unwrap();
    message.header.sdo_id = 0x100;
    let bytes = message.encode(&mut [0; 128]).unwrap().to_vec();
    assert!(bed.slave.heard(master.from, &bytes, None, at).is_ok());
}

/// Messages that manage a clock, cut short anywhere and with any lengths in them, do nothing to a slave.
#[test]
fn management_and_signalling_do_nothing_to_a_multicast_slave() {
    let mut bed = Bed::new(vec![Master::new(1, 128)], Bad::default(), 21);
    bed.run(10);
    let master = bed.masters[0].clone();
    let grant = Tlv::Grant {
        kind: truechimer_ptp::Wire::of(truechimer_ptp::Kind::Sync),
        interval: truechimer_ptp::LogInterval(0),
        seconds: 300,
        renewed: true,
    };
    for body in [Body::Management, Body::Signaling(OWN)] {
        let mut rest = vec![0xff; 14];
        // MANAGEMENT (0x0001) that sets PRIORITY1, then a grant.
        rest.extend_from_slice(Tlv::Other(1, &[0x20, 0x05, 1, 0]).encode(&mut [0; 16]).unwrap());
        rest.extend_from_slice(grant.encode(&mut [0; 16]).unwrap());
        let plain = master.message(body, 1, 0, Flags::default());
        let message = Message { rest: &rest, ..Message::decode(&plain).unwrap() };
        let whole = message.encode(&mut [0; 128]).unwrap().to_vec();
        let mut ways: Vec<Vec<u8>> = (0..=whole.len()).map(|cut| whole[..cut].to_vec()).collect();
        // Cut short, and saying so.
        ways.extend((34..=whole.len()).map(|cut| {
            let mut short = whole[..cut].to_vec();
            short[3] = cut as u8;
            short
        }));
        for place in 34..whole.len() - 1 {
            for length in [1, 3, 7, 0xffff_u16] {
                let mut odd = whole.clone();
                odd[place..place + 2].copy_from_slice(&length.to_be_bytes());
                ways.push(odd);
            }
        }
        let before = bed.slave.clone();
        for bytes in ways {
            let at = Count(bed.now);
            let refusal = bed.slave.heard(master.from, &bytes, None, at).unwrap_err();
            let is_unused = matches!(refusal, Refusal::Unused(_) | Refusal::Malformed(_));
            assert!(is_unused, "{bytes:?}: {refusal:?}");
        }
        let mut after = bed.slave.clone();
        assert_eq!(after.master(), before.master());
        assert_eq!(after.deadline(Count(bed.now)), before.deadline(Count(bed.now)));
        assert_eq!(after.signal(Count(bed.now), &mut || 1), None);
    }
    let before = bed.exchanges.len();
    bed.run(10);
    assert!(bed.exchanges.len() > before + 4);
    bed.hold();
}

proptest! {
    /// Queues in either direction, a transparent clock, loss, copies and any order in
    /// which messages come leave what an exchange says true.
    #[test]
    fn every_exchange_is_true(
        seed: u64,
        loss in 0..40_u64,
        copies in 0..40_u64,
        queues in [0..2_000_000_000_u64, 0..800_000_000_u64],
        residence in 0..500_000_000_u64,
        one_step: bool,
    ) {
        let master = Master { one_step, ..Master::new(1, 100) };
        let bad = Bad { loss, copies, queues, residence };
        let mut bed = Bed::new(vec![master, Master::new(2, 128)], bad, seed);
        bed.run(120);
        bed.hold();
        let quiet = loss < 10 && queues.iter().all(|queue| *queue < 100_000_000);
        prop_assert!(!quiet || bed.exchanges.len() > 40, "{}", bed.exchanges.len());
        prop_assert!(bed.asked.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 2 || loss > 0));
    }
}
