//! Unicast negotiation: what is asked for, granted, renewed and ended, and what is not believed.

use proptest::prelude::*;
use truechimer_ptp::{
    Body, Change, Flags, Grant, Kind, LogInterval, PortIdentity, Refusal, Tlv, Wire,
};
use truechimer_time::{Count, Span};

use crate::path::{Bad, Bed, Master, OWN, SECOND, stamp, time};

const GRANTED: [Grant; 3] = [Grant::Granted; 3];
const ANNOUNCED: [Grant; 3] = [Grant::Granted, Grant::Unwanted, Grant::Unwanted];

fn grants(bed: &Bed) -> Vec<[Grant; 3]> {
    bed.slave.grants().map(|(_, grants)| grants).collect()
}

fn tally(bed: &Bed, refusal: Refusal) -> u64 {
    bed.slave.refused().of(refusal)
}

fn grant(kind: Kind, interval: i8, seconds: u32) -> Tlv<'static> {
    let interval = LogInterval(interval);
    Tlv::Grant { kind: Wire::of(kind), interval, seconds, renewed: true }
}

#[test]
fn all_are_asked_for_announcements_and_the_best_for_the_time() {
    let mut bed =
        Bed::unicast(vec![Master::unicast(1, 128), Master::unicast(2, 100)], Bad::default(), 1);
    bed.run(10);
    assert_eq!(bed.slave.master().unwrap().port, bed.masters[1].port);
    assert_eq!(grants(&bed), [ANNOUNCED, GRANTED]);
    // Renewed before they end, each time once: by far fewer messages than seconds.
    bed.run(3000);
    assert!(bed.exchanges.len() > 2000, "{}", bed.exchanges.len());
    bed.hold();
    // Whichever is heard of first, and no change after that.
    assert!(
        bed.changes
            .iter()
            .all(|(when, change)| { matches!(change, Change::To(..)) && *when < 1004 * SECOND })
    );
    let to = bed.masters[1].from;
    assert!((20 * 3..24 * 3).contains(&bed.told("request", to)), "{}", bed.told("request", to));
    assert_eq!(bed.told("cancel", to), 0);
    assert!(bed.signals.windows(2).all(|two| two[1].0 - two[0].0 < 170 * SECOND));
}

#[test]
fn equally_good_masters_are_followed_in_the_users_order() {
    // By its identity alone the second would be the better.
    let masters = vec![Master::unicast(2, 128), Master::unicast(1, 128)];
    let mut bed = Bed::unicast(masters, Bad::default(), 2);
    bed.run(20);
    assert_eq!(bed.slave.master().unwrap().port, bed.masters[0].port);
}

#[test]
fn another_master_takes_over_and_what_was_granted_is_ended() {
    let masters = vec![Master::unicast(1, 100), Master::unicast(2, 128)];
    let mut bed = Bed::unicast(masters, Bad::default(), 3);
    bed.run(10);
    let (first, second) = (bed.masters[0].from, bed.masters[1].from);
    bed.masters[1].announce.priority1 = 50;
    bed.run(10);
    assert_eq!(bed.slave.master().unwrap().from, second);
    // Both kinds once, as it is acknowledged.
    assert_eq!((bed.told("cancel", first), bed.told("cancel", second)), (2, 0));
    assert_eq!(grants(&bed), [ANNOUNCED, GRANTED]);
    // One that is gone is told three times, and no more.
    bed.masters[1].alive = false;
    bed.run(30);
    assert_eq!(bed.slave.master().unwrap().from, first);
    assert_eq!(bed.told("cancel", second), 6);
    let before = bed.exchanges.len();
    bed.run(10);
    assert!(bed.exchanges.len() > before + 5);
    bed.hold();
}

#[test]
fn a_master_that_forgot_its_grants_is_asked_anew() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 4);
    bed.run(30);
    bed.masters[0].granted.clear();
    bed.run(20);
    let before = bed.exchanges.len();
    bed.run(10);
    assert!(bed.exchanges.len() > before + 5, "{:?}", bed.signals);
    assert_eq!(grants(&bed), [GRANTED]);
}

#[test]
fn refusals_and_silence_are_met_with_patience() {
    for answer in [None, Some((0, 0)), Some((0, 9)), Some((-20, 300)), Some((5, 300))] {
        let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 5);
        bed.masters[0].grants = answer;
        bed.masters[0].alive = answer.is_some();
        bed.run(1000);
        // 1, 2, 4 and so on to 64 s and half of it.
        let asked = bed.told("request", bed.masters[0].from);
        assert!((14..26).contains(&asked), "{answer:?}: {asked}");
        let expected = if answer.is_none() { Grant::Asked } else { Grant::Refused };
        assert_eq!(grants(&bed)[0][0], expected, "{answer:?}");
        assert!(bed.slave.master().is_none() && bed.exchanges.is_empty());
        // And it is followed once it grants.
        (bed.masters[0].grants, bed.masters[0].alive) = (Some((0, u32::MAX)), true);
        bed.run(100);
        assert_eq!(grants(&bed), [GRANTED], "{answer:?}");
        bed.run(400);
        // However long it says, it is asked again in time.
        assert!(bed.told("request", bed.masters[0].from) >= asked + 6);
    }
}

#[test]
fn a_grant_that_brings_nothing_is_asked_for_less_and_less_often() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 6);
    let from = bed.masters[0].from;
    for _ in 0..1000 {
        bed.run(1);
        bed.masters[0].granted.clear();
    }
    assert!((10..40).contains(&bed.told("request", from)), "{}", bed.told("request", from));
}

#[test]
fn a_master_may_end_what_it_granted() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 7);
    bed.run(10);
    let (master, now) = (bed.masters[0].clone(), Count(bed.now));
    let cancel = master.signal(&Tlv::Cancel(Wire::of(Kind::Sync)), OWN);
    assert!(bed.slave.heard(master.from, &cancel, None, now).is_ok());
    assert_eq!(grants(&bed)[0][1], Grant::Refused);
    bed.run(1);
    assert_eq!(bed.told("acknowledge", master.from), 1);
    bed.run(10);
    assert_eq!(grants(&bed), [GRANTED]);
    // A flood of them is answered no more often than asked: nobody is a mirror.
    for _ in 0..1000 {
        let _ = bed.slave.heard(master.from, &cancel, None, Count(bed.now));
    }
    bed.run(1);
    assert_eq!(bed.told("acknowledge", master.from), 2);
    assert_eq!(tally(&bed, Refusal::Grant), 999);
    bed.run(10);
    let farewell: Vec<_> = bed.slave.farewell().collect();
    assert_eq!(farewell.len(), 1);
    let message = truechimer_ptp::Message::decode(&farewell[0]).unwrap();
    let all = [Kind::Announce, Kind::Sync, Kind::DelayResp].map(|kind| Tlv::Cancel(Wire::of(kind)));
    assert!(message.tlvs().eq(all));
    assert_eq!(farewell[0].to(), Some(master.from));
}

/// Forged grants and ends, and messages of masters that were not asked, change nothing.
#[test]
fn what_was_not_asked_for_or_granted_has_no_effect() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 8);
    bed.run(10);
    let master = bed.masters[0].clone();
    let stranger = Master::unicast(9, 0);
    let other_port = Master { port: PortIdentity { port: 2, ..master.port }, ..master.clone() };
    let multicast = Master { grants: None, ..master.clone() };
    let sync = |of: &Master| of.message(Body::Sync(time(1)), 9, 0, Flags::default());
    for (from, bytes, why) in [
        (stranger.from, stranger.announcement(), Refusal::Ungranted),
        (stranger.from, sync(&stranger), Refusal::Ungranted),
        (stranger.from, sync(&master), Refusal::Ungranted),
        (master.from, other_port.announcement(), Refusal::Ungranted),
        (master.from, multicast.announcement(), Refusal::Ungranted),
        (stranger.from, stranger.signal(&grant(Kind::Sync, 0, 300), OWN), Refusal::Ungranted),
        (master.from, master.signal(&grant(Kind::Sync, 0, 300), OWN), Refusal::Grant),
        (master.from, master.signal(&grant(Kind::Sync, 0, 0), OWN), Refusal::Grant),
        (master.from, master.signal(&grant(Kind::Sync, 0, 300), master.port), Refusal::ForOthers),
        (master.from, other_port.signal(&Tlv::Cancel(Wire::of(Kind::Sync)), OWN), Refusal::Grant),
        (
            master.from,
            master.signal(&Tlv::Cancel(Wire::of(Kind::Sync)), other_port.port),
            Refusal::ForOthers,
        ),
        (master.from, master.signal(&Tlv::Acknowledge(Wire::of(Kind::Sync)), OWN), Refusal::Grant),
        (master.from, master.signal(&grant(Kind::PdelayResp, 0, 60), OWN), Refusal::Ungranted),
        (
            master.from,
            master.signal(&Tlv::Other(3, &[1, 2]), OWN),
            Refusal::Unused(Kind::Signaling),
        ),
    ] {
        let before = bed.slave.clone();
        let heard = bed.slave.heard(from, &bytes, Some(stamp(bed.now)), Count(bed.now));
        assert_eq!(heard, Err(why), "{bytes:?}");
        assert!(bed.slave.grants().eq(before.grants()) && bed.slave.master() == before.master());
    }
    let signals = bed.signals.len();
    bed.run(10);
    assert_eq!(bed.signals.len(), signals, "nobody is asked or told for it");
    bed.hold();
}

#[test]
fn a_break_of_the_counter_asks_for_all_anew() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 9);
    bed.run(10);
    let asked = bed.told("request", bed.masters[0].from);
    bed.slave.new_epoch(Count(bed.now));
    bed.run(5);
    assert_eq!(bed.told("request", bed.masters[0].from), asked + 3);
    assert!(bed.changes.len() == 1 && grants(&bed) == [GRANTED]);
}

/// A master that announces itself and gives no time is left for one that does, and tried again later.
#[test]
fn a_master_that_gives_no_time_is_passed_over() {
    for mute in [false, true] {
        let masters = vec![Master::unicast(1, 100), Master::unicast(2, 128)];
        let mut bed = Bed::unicast(masters, Bad::default(), 10);
        (bed.masters[0].announces_only, bed.masters[0].mute) = (!mute, mute);
        bed.run(60);
        assert_eq!(bed.slave.master().unwrap().port, bed.masters[1].port, "{mute}");
        assert!(bed.exchanges.len() > 15, "{mute}: {}", bed.exchanges.len());
        bed.run(3540);
        // Each trial costs half a minute, and the next is later: 300 s, 600 s, 1200 s.
        assert!(bed.exchanges.len() > 3000, "{mute}: {}", bed.exchanges.len());
        assert!((6..=8).contains(&bed.changes.len()), "{mute}: {:?}", bed.changes);
        (bed.masters[0].announces_only, bed.masters[0].mute) = (false, false);
        bed.run(4900);
        assert_eq!(bed.slave.master().unwrap().port, bed.masters[0].port, "{mute}");
        bed.hold();
    }
    // One that is alone is not left.
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 11);
    bed.masters[0].mute = true;
    bed.run(60);
    assert_eq!(bed.changes.len(), 1);
    bed.masters[0].mute = false;
    bed.run(120);
    assert!(bed.exchanges.len() > 40, "{}", bed.exchanges.len());
}

/// An outage of all is nobody's fault: the best is back soon after it, whichever is followed then.
#[test]
fn an_outage_of_all_masters_does_not_keep_the_best_away() {
    for length in (320..420).step_by(10) {
        let masters = vec![Master::unicast(1, 100), Master::unicast(2, 128)];
        let mut bed = Bed::unicast(masters, Bad::default(), 15);
        bed.run(60);
        bed.masters.iter_mut().for_each(|master| master.mute = true);
        bed.run(length);
        bed.masters.iter_mut().for_each(|master| master.mute = false);
        bed.run(700);
        let best = bed.masters[0].port;
        assert_eq!(bed.slave.master().unwrap().port, best, "{length} s: {:?}", bed.changes);
        bed.hold();
    }
}

/// Forged announcements by which now the one and now the other master is the best: requests and ends stay few.
#[test]
fn a_choice_that_is_forged_to_and_fro_draws_few_messages() {
    let masters = vec![Master::unicast(1, 100), Master::unicast(2, 101)];
    let mut bed = Bed::unicast(masters, Bad::default(), 12);
    bed.run(10);
    let (first, second) = (bed.masters[0].clone(), bed.masters[1].from);
    let told = |bed: &Bed| {
        let of = |name| bed.told(name, first.from) + bed.told(name, second);
        of("request") + of("cancel")
    };
    let (before, changes) = (told(&bed), bed.changes.len());
    for n in 0..60 {
        for priority1 in [200, 1] {
            let mut forged = first.clone();
            (forged.sequence, forged.announce.priority1) = (5000 + n, priority1);
            bed.send(first.from, forged.announcement(), false, u64::from(priority1) * 1_000_000);
        }
        bed.run(1);
    }
    assert!(bed.changes.len() - changes <= 13, "{:?}", bed.changes);
    assert!(told(&bed) - before <= 13 * 6, "{}", told(&bed) - before);
}

/// Unicast messages do not say their interval: that of the grant counts.
#[test]
fn a_granted_interval_decides_when_a_master_is_lost() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 13);
    bed.masters[0].grants = Some((1, 300));
    bed.run(10);
    assert_eq!(bed.slave.interval(), Span::from_secs(2));
    bed.masters[0].alive = false;
    bed.run(4);
    bed.masters[0].alive = true;
    bed.run(10);
    assert_eq!(bed.changes.len(), 1, "{:?}", bed.changes);
}

/// An end that the master says again is acknowledged again; a grant of no use is given back; an error in one
/// part of a message takes nothing from the others.
#[test]
fn ends_and_grants_of_no_use_are_answered() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 14);
    bed.run(10);
    let master = bed.masters[0].clone();
    let mut rest = Vec::new();
    for tlv in [Tlv::Cancel(Wire::of(Kind::PdelayResp)), Tlv::Cancel(Wire::of(Kind::Sync))] {
        rest.extend_from_slice(tlv.encode(&mut [0; 32]).unwrap());
    }
    let one = master.signal(&Tlv::Cancel(Wire::of(Kind::Sync)), OWN);
    let message = truechimer_ptp::Message::decode(&one).unwrap();
    let both = truechimer_ptp::Message { rest: &rest, ..message };
    let both = both.encode(&mut [0; 128]).unwrap().to_vec();
    let heard = bed.slave.heard(master.from, &both, None, Count(bed.now));
    assert_eq!((heard, grants(&bed)[0][1]), (Err(Refusal::Ungranted), Grant::Refused));
    // It goes on refusing, and did not hear us.
    bed.masters[0].announces_only = true;
    bed.run(2);
    assert_eq!(bed.told("acknowledge", master.from), 1);
    for _ in 0..10 {
        let _ = bed.slave.heard(master.from, &one, None, Count(bed.now));
    }
    bed.run(2);
    assert_eq!(bed.told("acknowledge", master.from), 2);
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 15);
    bed.masters[0].grants = Some((0, 9));
    bed.run(10);
    assert!((2..6).contains(&bed.told("cancel", master.from)), "{:?}", bed.signals);
}

/// A grant that is cut short, or whose length is another, is none; nor is a management message.
#[test]
fn a_grant_in_pieces_is_none() {
    let mut bed = Bed::unicast(vec![Master::unicast(1, 100)], Bad::default(), 16);
    bed.masters[0].alive = false;
    bed.run(1);
    let master = bed.masters[0].clone();
    let asked = grants(&bed);
    assert_eq!(asked[0][0], Grant::Asked);
    let whole = master.signal(&grant(Kind::Announce, 0, 300), OWN);
    let tlv = whole.len() - 12;
    let mut ways: Vec<Vec<u8>> = (0..whole.len()).map(|cut| whole[..cut].to_vec()).collect();
    ways.extend((34..whole.len()).map(|cut| {
        let mut short = whole[..cut].to_vec();
        short[3] = cut as u8;
        short
    }));
    ways.extend([0_u16, 1, 6, 7, 9, 0xffff].map(|length| {
        let mut odd = whole.clone();
        odd[tlv + 2..tlv + 4].copy_from_slice(&length.to_be_bytes());
        odd
    }));
    let mut managed = whole.clone();
    managed[0] = managed[0] & 0xf0 | 0x0d;
    ways.push(managed);
    for bytes in ways {
        let at = Count(bed.now);
        let refusal = bed.slave.heard(master.from, &bytes, None, at).unwrap_err();
        let unused = [Refusal::Unused(Kind::Signaling), Refusal::Ungranted];
        let is_unused = unused.contains(&refusal) || matches!(refusal, Refusal::Malformed(_));
        assert!(is_unused, "{bytes:?}: {refusal:?}");
        assert_eq!(grants(&bed), asked, "{bytes:?}");
    }
    assert!(bed.slave.heard(master.from, &whole, None, Count(bed.now)).is_ok());
    assert_eq!(grants(&bed)[0][0], Grant::Granted);
}

proptest! {
    /// Loss, copies and disorder delay what is granted and never falsify an exchange; requests stay few.
    #[test]
    fn every_exchange_is_true(
        seed: u64,
        loss in 0..40_u64,
        copies in 0..40_u64,
        queues in [0..2_000_000_000_u64, 0..800_000_000_u64],
        seconds in 10_u32..400,
    ) {
        let bad = Bad { loss, copies, queues, residence: 0 };
        let mut masters = vec![Master::unicast(1, 100), Master::unicast(2, 128)];
        masters.iter_mut().for_each(|master| master.grants = Some((0, seconds)));
        let mut bed = Bed::unicast(masters, bad, seed);
        bed.run(240);
        bed.hold();
        for master in &bed.masters {
            // A grant is renewed at half of its time, and each renewal takes seven requests at the worst; without any
            // answer there are ten in 240 s.
            let most = 3 * 7 * (2 * 240 / (seconds as usize) + 2);
            prop_assert!(bed.told("request", master.from) <= most.min(3 * 240 / 2));
        }
        let quiet = loss < 10 && queues.iter().all(|queue| *queue < 100_000_000);
        prop_assert!(!quiet || bed.exchanges.len() > 100, "{}", bed.exchanges.len());
    }
}
