//! XDP on virtual wires, with real packets.
// What panics in a test fails it.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod bed;
mod copies;
mod life;
mod taking;

use std::time::{Duration, Instant};

use bed::{FAR, NEAR, Sender, frame, monotonic, number, until, with_wire};
use truechimer_capture::filter::{Filter, FilterError};
use truechimer_capture::xdp::{Mode, StampAt, XdpCounts, XdpOptions, XdpTap};
use truechimer_capture::{Direction, KernelClock, Method, Next, RawStamp, Tap};
use truechimer_counter::{Choice, Counter};
use truechimer_testbed::lacking::{Lacking, or_skip};

/// Frames that fit the queue of a virtual wire.
const BURST: usize = 64;

fn options() -> XdpOptions {
    XdpOptions {
        ring_bytes: 4 << 20,
        ..XdpOptions::new(NEAR, Counter::open(Choice::Auto).unwrap())
    }
}

/// A packet as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Came {
    stamp: RawStamp,
    data: Vec<u8>,
    length: u32,
    queue: u16,
}

/// Takes so many packets, however long they need (a loaded machine lets them wait), and what else
/// comes right after them.
fn drain(tap: &mut (impl Tap + ?Sized), expected: usize) -> Vec<Came> {
    let mut came = Vec::new();
    let begin = Instant::now();
    loop {
        match tap.next(Duration::from_millis(20)).unwrap() {
            Next::Chunk(chunk) => {
                let before = came.len();
                chunk.for_each(&mut |packet| {
                    assert_eq!((packet.tag, packet.direction), (None, Direction::In));
                    came.push(Came {
                        stamp: packet.stamp,
                        data: packet.data.to_vec(),
                        length: packet.length,
                        queue: packet.queue,
                    });
                });
                assert_eq!(came.len() - before, chunk.len());
            }
            Next::Nothing if came.len() < expected && begin.elapsed().as_secs() < 20 => {}
            Next::Nothing => return came,
            Next::Down | Next::Up | Next::Gone => panic!("the interface has not changed"),
        }
    }
}

/// Sends frames and takes them, as many at a time as the wire can hold.
fn exchange(tap: &mut (impl Tap + ?Sized), sender: &Sender, frames: &[Vec<u8>]) -> Vec<Came> {
    exchange_some(tap, sender, frames, |_| true)
}

/// Exchanges them where only some are to come.
fn exchange_some(
    tap: &mut (impl Tap + ?Sized),
    sender: &Sender,
    frames: &[Vec<u8>],
    comes: impl Fn(&Vec<u8>) -> bool,
) -> Vec<Came> {
    let mut came = Vec::new();
    for burst in frames.chunks(BURST) {
        burst.iter().for_each(|frame| sender.send(frame).unwrap());
        came.extend(drain(tap, burst.iter().filter(|&frame| comes(frame)).count()));
    }
    came
}

/// Everything that the program saw is somewhere.
fn assert_accounted(counts: &XdpCounts) {
    let XdpCounts { seen, taken, waiting, ring_full, dropped, invalid, .. } = *counts;
    assert_eq!(seen, taken + waiting + ring_full + dropped + invalid, "{counts:?}");
}

fn lengths() -> Vec<Vec<u8>> {
    (60..=1514).step_by(7).chain([1514]).enumerate().map(|(n, l)| frame(n as u32, l)).collect()
}

fn every_length_comes_whole(mode: Mode, detail: &str) {
    let mut tap = XdpTap::open(&XdpOptions { mode, ..options() }).unwrap();
    assert_eq!(tap.facts().method, Method::Xdp);
    assert!(tap.facts().detail.starts_with(detail), "{:?}", tap.facts());
    let frames = lengths();
    let before = monotonic();
    let came = exchange(&mut tap, &Sender::on(FAR), &frames);
    let after = monotonic();
    assert_eq!(came.iter().map(|came| came.data.clone()).collect::<Vec<_>>(), frames);
    assert!(came.iter().all(|came| came.length as usize == came.data.len()));
    let mut last = before;
    for came in &came {
        let RawStamp::Clock(KernelClock::Monotonic, stamp) = came.stamp else {
            panic!("stamped by the kernel's clock: {came:?}");
        };
        assert!(last <= stamp && stamp <= after, "{last} {stamp} {after}");
        last = stamp;
    }
    let counts = tap.counts().unwrap();
    assert_accounted(&counts);
    assert_eq!((counts.seen, counts.dropped), (frames.len() as u64, 0));
    let losses = tap.losses().unwrap();
    assert_eq!((losses.received, losses.ring, losses.kernel), (frames.len() as u64, 0, 0));
}

#[test]
fn every_length_comes_whole_and_stamped_in_order() {
    with_wire(1, || every_length_comes_whole(Mode::Native, "native, copy, 1 queue"));
}

#[test]
fn generic_mode_gives_the_same() {
    with_wire(1, || every_length_comes_whole(Mode::Generic, "generic, copy, 1 queue"));
}

#[test]
fn stamps_are_counts_at_dequeue_and_by_the_perf_event() {
    with_wire(1, || {
        let counter = Counter::open(Choice::Auto).unwrap();
        for stamp in [StampAt::Dequeue, StampAt::Tsc] {
            let mut tap = match XdpTap::open(&XdpOptions { stamp, ..options() }) {
                Ok(tap) => tap,
                Err(error) if stamp == StampAt::Tsc => {
                    println!("no TSC in XDP: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let error = tap.stamp_error();
            println!("{}", tap.facts().stamped_by);
            let (sender, frames) = (Sender::on(FAR), lengths());
            let mut last = counter.fenced().read();
            for burst in frames.chunks(BURST) {
                let came = exchange(&mut tap, &sender, burst);
                let after = counter.fenced().read();
                assert_eq!(came.len(), burst.len());
                for came in &came {
                    let RawStamp::Count(count) = came.stamp else { panic!("{came:?}") };
                    // Between the counts before and after, by what is said of it.
                    assert!((count - last).0 >= -2 * error.0, "{last:?} {count:?} {error:?}");
                    assert!((after - count).0 >= -error.0, "{count:?} {after:?} {error:?}");
                    last = count;
                }
                assert_eq!(came.iter().map(|c| c.data.clone()).collect::<Vec<_>>(), burst);
            }
            assert_accounted(&tap.counts().unwrap());
        }
    });
}

#[test]
fn the_snap_length_cuts_and_the_length_is_kept() {
    with_wire(1, || {
        for (snap_length, kept) in [(96, 96), (0, 14), (1000, 1000)] {
            for stamp in [StampAt::Xdp, StampAt::Dequeue] {
                for mode in [Mode::Native, Mode::Generic] {
                    let wish = XdpOptions { snap_length, stamp, mode, ..options() };
                    let mut tap = XdpTap::open(&wish).unwrap();
                    let frames = lengths();
                    let came = exchange(&mut tap, &Sender::on(FAR), &frames);
                    assert_eq!(came.len(), frames.len());
                    for (came, sent) in came.iter().zip(&frames) {
                        assert_eq!(came.data, sent[..sent.len().min(kept)]);
                        assert_eq!(came.length as usize, sent.len());
                    }
                }
            }
        }
    });
}

#[test]
fn tags_come_inline() {
    with_wire(1, || {
        let mut tap = XdpTap::open(&options()).unwrap();
        let sender = Sender::on(FAR);
        let frames: Vec<Vec<u8>> = (0..40)
            .map(|n| {
                let plain = frame(n, 80 + n as usize);
                let tags: &[u8] = match n % 3 {
                    0 => &[0x81, 0, 0, 7],
                    1 => &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7],
                    _ => &[],
                };
                [&plain[..12], tags, &plain[12..]].concat()
            })
            .collect();
        let came = exchange(&mut tap, &sender, &frames);
        assert_eq!(came.into_iter().map(|came| came.data).collect::<Vec<_>>(), frames);
    });
}

#[test]
fn frames_longer_than_a_frame_of_memory_are_joined() {
    with_wire(1, || {
        for end in [NEAR, FAR] {
            bed::ip(&["link", "set", end, "mtu", "3400"]);
        }
        for (stamp, mode) in [
            (StampAt::Xdp, Mode::Native),
            (StampAt::Dequeue, Mode::Native),
            (StampAt::Xdp, Mode::Generic),
        ] {
            let mut tap = XdpTap::open(&XdpOptions { stamp, mode, ..options() }).unwrap();
            let frames: Vec<_> = (0..200).map(|n| frame(n, 60 + n as usize * 16)).collect();
            let came = exchange(&mut tap, &Sender::on(FAR), &frames);
            assert_eq!(came.len(), frames.len(), "{:?} {:?}", tap.facts(), tap.counts());
            for (came, sent) in came.iter().zip(&frames) {
                assert!(came.data == *sent && came.length as usize == sent.len());
                assert_ne!(came.stamp, RawStamp::Missing);
            }
            assert_accounted(&tap.counts().unwrap());
        }
    });
}

#[test]
fn an_mtu_that_the_driver_cannot_take_is_said_or_done_generically() {
    with_wire(1, || {
        for end in [NEAR, FAR] {
            bed::ip(&["link", "set", end, "mtu", "9000"]);
        }
        let error = XdpTap::open(&XdpOptions { mode: Mode::Native, ..options() }).unwrap_err();
        assert!(error.to_string().contains("MTU of 9000"), "{error}");
        let mut tap = XdpTap::open(&options()).unwrap();
        assert!(
            tap.facts().detail.contains("generic") && tap.facts().detail.contains("not native")
        );
        let frames: Vec<_> = (0..30).map(|n| frame(n, 100 + n as usize * 300)).collect();
        let came = exchange(&mut tap, &Sender::on(FAR), &frames);
        assert_eq!(came.into_iter().map(|came| came.data).collect::<Vec<_>>(), frames);
    });
}

#[test]
fn both_queues_are_taken_from() {
    with_wire(2, || {
        let mut tap = XdpTap::open(&options()).unwrap();
        assert!(tap.facts().detail.contains("2 queues"), "{:?}", tap.facts());
        let frames: Vec<_> = (0..600).map(|n| frame(n, 64)).collect();
        let mut came = exchange(&mut tap, &Sender::on(FAR), &frames);
        let of_second = came.iter().filter(|came| came.queue == 1).count();
        assert!(of_second > 100 && of_second < 500, "{of_second} of 600 in the second queue");
        let second: Vec<u32> =
            came.iter().filter(|came| came.queue == 1).map(|came| number(&came.data)).collect();
        came.sort_by_key(|came| number(&came.data));
        assert_eq!(came.into_iter().map(|came| came.data).collect::<Vec<_>>(), frames);
        assert_accounted(&tap.counts().unwrap());
        drop(tap);

        // One queue alone: what the other gets passes.
        let wish = XdpOptions { queues: Some(vec![1]), ..options() };
        let mut tap = XdpTap::open(&wish).unwrap();
        let comes = |frame: &Vec<u8>| second.contains(&number(frame));
        let came = exchange_some(&mut tap, &Sender::on(FAR), &frames, comes);
        let elsewhere = || tap.counts().unwrap().elsewhere as usize;
        until("the others have passed", || elsewhere() == 600 - of_second);
        let counts = tap.counts().unwrap();
        assert_eq!(came.len(), of_second);
        assert_eq!(counts.elsewhere as usize, 600 - of_second);
        assert!(came.iter().all(|came| came.queue == 1));
    });
}

#[test]
fn what_does_not_fit_is_counted_exactly() {
    with_wire(1, || {
        // The smallest ring: 64 frames.
        let mut tap = XdpTap::open(&XdpOptions { ring_bytes: 0, ..options() }).unwrap();
        let sender = Sender::on(FAR);
        let mut held = Vec::new();
        let (mut sent, mut delivered) = (0, 0);
        for round in 0..20_u64 {
            for _ in 0..BURST {
                sender.send(&frame(sent as u32, 100)).unwrap();
                sent += 1;
            }
            until("all seen", || tap.counts().unwrap().seen == sent);
            assert_accounted(&tap.counts().unwrap());
            // Some chunks are kept for a while, so that frames are missing.
            while let Next::Chunk(chunk) = tap.next(Duration::ZERO).unwrap() {
                delivered += chunk.len() as u64;
                held.push(chunk);
            }
            if round % 4 == 3 {
                held.clear();
            }
        }
        let counts = tap.counts().unwrap();
        println!("{counts:?}");
        assert_accounted(&counts);
        assert_eq!((counts.seen, counts.taken, counts.waiting), (sent, delivered, 0));
        assert_eq!(counts.dropped, sent - delivered);
        assert_eq!(delivered, 5 * 64, "what 64 frames can hold, each time they were free");
        let losses = tap.losses().unwrap();
        assert_eq!(losses.received, sent);
        assert_eq!((losses.ring, losses.kernel), (sent - delivered, 0));
    });
}

#[test]
fn the_filter_decides_what_is_handed_on() {
    with_wire(1, || {
        let filter = Filter::compile("udp src port 1024 or greater 1200", None, 1, 262_144);
        let lacking = |error: FilterError| Lacking(error.to_string());
        let Some(filter) = or_skip(filter.map_err(lacking)) else { return };
        let wish = XdpOptions { filter: Some(filter), snap_length: 60, ..options() };
        let mut tap = XdpTap::open(&wish).unwrap();
        let frames: Vec<_> = (0..300).map(|n| frame(n, 100 + n as usize * 4)).collect();
        let passes = |length: usize| length == 100 || length >= 1200;
        let came = exchange_some(&mut tap, &Sender::on(FAR), &frames, |frame| passes(frame.len()));
        until("all seen", || tap.counts().unwrap().seen == 300);
        while tap.counts().unwrap().waiting > 0 {
            assert_eq!(drain(&mut tap, 0), []);
        }
        let lengths: Vec<usize> = came.iter().map(|came| came.length as usize).collect();
        let wanted: Vec<usize> =
            frames.iter().map(Vec::len).filter(|&length| passes(length)).collect();
        assert_eq!(lengths, wanted);
        assert!(came.iter().all(|came| came.data.len() == 60));
        let counts = tap.counts().unwrap();
        assert_accounted(&counts);
        assert_eq!((counts.taken, counts.refused), (300, 300 - wanted.len() as u64));
        assert_eq!(tap.losses().unwrap().received, wanted.len() as u64);
    });
}
