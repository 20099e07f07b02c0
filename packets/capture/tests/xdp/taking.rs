//! Packets that the program copies and takes away, and frames that are used again.

use std::time::Duration;

use super::bed::{FAR, NEAR, Sender, frame, ip, monotonic, number, until, with_wire};
use super::copies::Heard;
use super::life::is_gone;
use super::{BURST, drain, exchange, exchange_some, lengths, options};
use truechimer_capture::filter::{Filter, FilterError};
use truechimer_capture::xdp::{Mode, StampAt, XdpOptions, XdpTap, open};
use truechimer_capture::{KernelClock, Method, Next, RawStamp, Tap};
use truechimer_testbed::lacking::{Lacking, or_skip};

#[test]
fn a_wire_without_zero_copy_is_copied_from_and_nothing_passes() {
    with_wire(1, || {
        for (mode, stamp) in [
            (Mode::Native, StampAt::Xdp),
            (Mode::Generic, StampAt::Xdp),
            (Mode::Native, StampAt::Dequeue),
        ] {
            let mut tap = open(&XdpOptions { mode, stamp, ..options() }).unwrap();
            assert_eq!(tap.facts().method, Method::Xdp);
            assert!(tap.facts().detail.contains("copied by the program"), "{:?}", tap.facts());
            let (sender, frames, heard) = (Sender::on(FAR), lengths(), Heard::on(NEAR));
            let counter = options().counter.fenced();
            let (before, first) = (monotonic(), counter.read());
            let came = exchange(&mut *tap, &sender, &frames);
            let (after, last) = (monotonic(), counter.read());
            assert_eq!(came.iter().map(|came| came.data.clone()).collect::<Vec<_>>(), frames);
            for came in &came {
                match (stamp, came.stamp) {
                    (StampAt::Xdp, RawStamp::Clock(KernelClock::Monotonic, at)) => {
                        assert!(before <= at && at <= after);
                    }
                    (StampAt::Dequeue, RawStamp::Count(count)) => {
                        assert!((count - first).0 >= 0 && (last - count).0 >= 0);
                    }
                    other => panic!("{other:?}"),
                }
            }
            let losses = tap.losses().unwrap();
            assert_eq!((losses.received, losses.ring, losses.kernel), (frames.len() as u64, 0, 0));
            assert_eq!(heard.count(0), 0, "the host got none of them");
            tap.stop().unwrap();
            sender.send(&frame(1, 100)).unwrap();
            assert_eq!(heard.count(1), 1, "and gets them again");
        }
    });
}

#[test]
fn what_the_copies_have_no_room_for_is_lost_and_counted() {
    with_wire(1, || {
        let mut tap = open(&XdpOptions { ring_bytes: 0, ..options() }).unwrap();
        let (sender, heard) = (Sender::on(FAR), Heard::on(NEAR));
        let (mut sent, mut taken) = (0_u64, 0);
        for _ in 0..30 {
            for _ in 0..BURST {
                sender.send(&frame(sent as u32, 1000)).unwrap();
                sent += 1;
            }
            // The wire's own queue is short.
            std::thread::sleep(Duration::from_millis(2));
        }
        while let Next::Chunk(chunk) = tap.next(Duration::from_millis(50)).unwrap() {
            taken += chunk.len() as u64;
        }
        until("all are accounted for", || tap.losses().unwrap().received == sent);
        let losses = tap.losses().unwrap();
        assert!(taken > 0 && losses.ring > 0, "{taken} {losses:?}");
        assert_eq!((taken + losses.ring, losses.kernel), (sent, 0));
        assert_eq!(heard.count(0), 0, "what is lost has not passed either");
    });
}

#[test]
fn one_queue_of_several_is_copied_from_and_the_other_passes() {
    with_wire(2, || {
        let sender = Sender::on(FAR);
        let frames: Vec<_> = (0..300).map(|n| frame(n, 64)).collect();
        let mut tap = open(&options()).unwrap();
        assert!(tap.facts().detail.contains("2 queues"), "{:?}", tap.facts());
        let came = exchange(&mut *tap, &sender, &frames);
        let first: Vec<u32> =
            came.iter().filter(|came| came.queue == 0).map(|came| number(&came.data)).collect();
        assert!(!first.is_empty() && first.len() < frames.len());
        drop(tap);

        let mut tap = open(&XdpOptions { queues: Some(vec![0]), ..options() }).unwrap();
        assert!(tap.facts().detail.contains("copied by the program"), "{:?}", tap.facts());
        let heard = Heard::on(NEAR);
        let comes = |frame: &Vec<u8>| first.contains(&number(frame));
        let came = exchange_some(&mut *tap, &sender, &frames, comes);
        assert_eq!(came.iter().map(|came| number(&came.data)).collect::<Vec<_>>(), first);
        let others = frames.len() - first.len();
        assert_eq!(heard.count(others), others, "the others have passed");
        drop((tap, heard));
        let error = open(&XdpOptions { queues: Some(vec![7]), ..options() }).map(|_| ());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("queue 7") && error.contains("ethtool -l"), "{error}");
        is_gone();
    });
}

#[test]
fn copies_are_filtered_and_cut() {
    with_wire(1, || {
        let filter = Filter::compile("greater 1200", None, 1, 262_144);
        let lacking = |error: FilterError| Lacking(error.to_string());
        let Some(filter) = or_skip(filter.map_err(lacking)) else { return };
        let wish = XdpOptions { filter: Some(filter), snap_length: 60, ..options() };
        let mut tap = open(&wish).unwrap();
        let frames = lengths();
        let came = exchange_some(&mut *tap, &Sender::on(FAR), &frames, |frame| frame.len() >= 1200);
        let wanted: Vec<_> = frames.iter().filter(|frame| frame.len() >= 1200).collect();
        assert_eq!(came.len(), wanted.len());
        for (came, sent) in came.iter().zip(wanted) {
            assert_eq!((came.length as usize, &came.data[..]), (sent.len(), &sent[..60]));
        }
    });
}

/// Frames keep what was in them: the notes of a packet that was cut are no notes of the short one
/// that comes into the same frame after it.
#[test]
fn old_notes_are_not_taken_for_new_ones() {
    with_wire(1, || {
        for stamp in [StampAt::Dequeue, StampAt::Xdp] {
            let wish = XdpOptions { snap_length: 96, ring_bytes: 0, stamp, ..options() };
            let mut tap = XdpTap::open(&wish).unwrap();
            let sender = Sender::on(FAR);
            // Every frame is used several times, by packets that are cut and by others.
            for (n, length) in [1400, 80, 1000, 95, 96, 97, 60].into_iter().enumerate() {
                let frames: Vec<_> = (0..64).map(|m| frame(n as u32 * 64 + m, length)).collect();
                let came = exchange(&mut tap, &sender, &frames);
                assert_eq!(came.len(), 64);
                for (came, sent) in came.iter().zip(&frames) {
                    assert_eq!(
                        (came.length as usize, &came.data[..]),
                        (length, &sent[..length.min(96)])
                    );
                    assert_ne!(came.stamp, RawStamp::Missing);
                }
            }
        }
    });
}

/// Where packets take several frames, each of those is lost or given back with the others.
#[test]
fn packets_of_several_frames_are_counted_exactly_too() {
    with_wire(1, || {
        for end in [NEAR, FAR] {
            ip(&["link", "set", end, "mtu", "3400"]);
        }
        let mut tap = XdpTap::open(&XdpOptions { ring_bytes: 0, ..options() }).unwrap();
        let sender = Sender::on(FAR);
        let (mut sent, mut delivered) = (0_u64, 0);
        for round in 0..12 {
            for n in 0..BURST {
                sender.send(&frame(sent as u32, if n % 2 == 0 { 100 } else { 3000 })).unwrap();
                sent += 1;
            }
            until("all seen", || tap.counts().unwrap().seen == sent);
            let mut held = Vec::new();
            while let Next::Chunk(chunk) = tap.next(Duration::ZERO).unwrap() {
                delivered += chunk.len() as u64;
                held.push(chunk);
            }
            let losses = tap.losses().unwrap();
            assert_eq!((losses.received, losses.ring, losses.kernel), (sent, sent - delivered, 0));
            assert!(losses.ring > 0, "64 frames cannot hold them ({round})");
        }
        assert_eq!(drain(&mut tap, 0), []);
    });
}
