//! Copies of packets, which pass.

use std::time::Duration;

use super::bed::{FAR, NEAR, Sender, frame, ip, monotonic, until, with_wire};
use super::{BURST, exchange, lengths, options};
use truechimer_capture::xdp::{CopyCounts, Mode, StampAt, XdpCopyTap, XdpOptions};
use truechimer_capture::{KernelClock, Method, Next, RawStamp, Tap};

/// Number of packets that the network stack got at the near end.
fn passed() -> u64 {
    let text = ip(&["-j", "-s", "link", "show", NEAR]);
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    rows[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
}

#[test]
fn copies_are_whole_stamped_and_the_packets_pass() {
    with_wire(2, || {
        for (mode, snap_length) in
            [(Mode::Native, 262_144), (Mode::Generic, 262_144), (Mode::Native, 96)]
        {
            let wish = XdpOptions { mode, snap_length, ..options() };
            let mut tap = XdpCopyTap::open(&wish).unwrap();
            assert_eq!(tap.facts().method, Method::XdpCopy);
            let heard = Heard::on(NEAR);
            let frames = lengths();
            let before = monotonic();
            let mut came = exchange(&mut tap, &Sender::on(FAR), &frames);
            let after = monotonic();
            // Two queues: each in order, the ring buffer in the order of the copies.
            assert_eq!(came.len(), frames.len());
            let stamps: Vec<i64> = came
                .iter()
                .map(|came| match came.stamp {
                    RawStamp::Clock(KernelClock::Monotonic, stamp) => stamp,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(stamps.iter().all(|&stamp| before <= stamp && stamp <= after));
            came.sort_by_key(|came| came.length);
            let mut sent = frames.clone();
            sent.sort_by_key(Vec::len);
            for (came, sent) in came.iter().zip(&sent) {
                assert_eq!(came.length as usize, sent.len());
                assert_eq!(came.data.len(), sent.len().min(snap_length as usize));
                assert_eq!(came.data[..42], sent[..42]);
            }
            assert_eq!(heard.count(frames.len()), frames.len(), "all of them passed");
            let counts = tap.counts().unwrap();
            let all = frames.len() as u64;
            assert_eq!(counts, CopyCounts { seen: all, taken: all, refused: 0, lost: 0 });
        }
    });
}

#[test]
fn what_does_not_fit_is_counted_exactly() {
    with_wire(1, || {
        let mut tap = XdpCopyTap::open(&XdpOptions { ring_bytes: 0, ..options() }).unwrap();
        let sender = Sender::on(FAR);
        let mut sent = 0;
        for _ in 0..30 {
            for _ in 0..BURST {
                sender.send(&frame(sent as u32, 1000)).unwrap();
                sent += 1;
            }
            until("all seen", || tap.counts().unwrap().seen == sent);
        }
        let mut taken = 0;
        while let Next::Chunk(chunk) = tap.next(Duration::ZERO).unwrap() {
            taken += chunk.len() as u64;
        }
        let counts = tap.counts().unwrap();
        println!("{counts:?}");
        assert!(counts.lost > 0 && taken > 0);
        assert_eq!((counts.seen, counts.taken + counts.lost), (sent, sent));
        assert_eq!(counts.taken, taken);
        let losses = tap.losses().unwrap();
        assert_eq!((losses.received, losses.ring, losses.kernel), (sent, counts.lost, 0));
        until("all of them passed", || passed() >= sent);
    });
}

#[test]
fn copies_have_no_stamp_at_dequeue() {
    with_wire(1, || {
        let wish = XdpOptions { stamp: StampAt::Dequeue, ..options() };
        let error = XdpCopyTap::open(&wish).unwrap_err().to_string();
        assert!(error.contains("stamped where they are made"), "{error}");
    });
}

/// A packet tap beside it, which hears what passes.
pub struct Heard(std::cell::RefCell<truechimer_capture::packet::PacketTap>);

impl Heard {
    pub fn on(interface: &str) -> Heard {
        use truechimer_capture::packet::{PacketOptions, PacketTap};
        Heard(PacketTap::open(&PacketOptions::new(interface)).unwrap().into())
    }

    pub fn count(&self, expected: usize) -> usize {
        super::drain(&mut *self.0.borrow_mut(), expected).len()
    }
}
