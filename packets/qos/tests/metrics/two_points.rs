use std::collections::BTreeMap;

use proptest::prelude::*;
use truechimer_qos::{
    At, Counted, DifferenceClock, Direction, Distribution, Engine, Evidence, Losses, Observation,
    Options, Reordering, Report, Severity, Way, link,
};
use truechimer_time::{Count, CountSpan, Epoch, Period, Rate};

use crate::frames::{Segment, observe, observe_going, rtp, tcp, udp, udp6};

const MS: i64 = 1_000_000;

fn options() -> Options {
    Options { points: 2, ..Options::default() }
}

fn report(engine: &mut Engine) -> Report {
    engine.finish();
    Report::of(engine, &["A".into(), "B".into()])
}

/// Passings in the order of their times: (time, point, frame).
fn run(engine: &mut Engine, mut passings: Vec<(i64, usize, Vec<u8>)>, bounds: [Option<u64>; 2]) {
    for point in [0, 1] {
        engine.watches(point, i64::MIN, i64::MAX);
    }
    passings.sort_by_key(|(ns, ..)| *ns);
    for (ns, point, frame) in passings {
        observe(engine, point, At::exact(ns, bounds[point]), &frame);
    }
}

fn of(values: &[i64]) -> Distribution {
    let mut made = Distribution::default();
    values.iter().for_each(|v| made.add(*v));
    made
}

proptest! {
    /// A stream with known fates: each packet is lost (0 copies), or arrives once or twice, late by
    /// so much. B's clock is ahead by `offset`, which may make packets seem to arrive before they
    /// leave.
    #[test]
    fn everything_as_counted_by_hand(
        fates in prop::collection::vec((prop::sample::select(vec![0, 1, 1, 1, 1, 1, 2]), 1i64..12), 1..200),
        offset in prop::sample::select(vec![0, 300 * MS, -300 * MS]),
    ) {
        let mut engine = Engine::new(Options { way: Some(Way::Forward), ..options() });
        let (mut passings, mut arrivals) = (Vec::new(), Vec::new());
        for (n, (copies, delay)) in fates.iter().enumerate() {
            let frame = udp(1, 2, (7, 8), n as u16, &(n as u32).to_be_bytes());
            let left = n as i64 * 2 * MS;
            passings.push((left, 0, frame.clone()));
            // No two packets arrive at the same time.
            let arrival = left + delay * MS + n as i64;
            for copy in 0..*copies {
                let at = arrival + i64::from(copy) * 20 * MS + offset;
                passings.push((at, 1, frame.clone()));
                if copy == 0 {
                    arrivals.push((at, n as u64));
                }
            }
        }
        run(&mut engine, passings, [Some(10), Some(20)]);
        let report = report(&mut engine);
        let path = report.flows[0].path.as_ref().unwrap();
        let flow = engine.flows().next().unwrap();
        let exact = flow.path.as_ref().unwrap();

        let delays: Vec<Option<i64>> = fates
            .iter()
            .enumerate()
            .map(|(n, (copies, delay))| (*copies > 0).then(|| delay * MS + n as i64 + offset))
            .collect();
        let known: Vec<i64> = delays.iter().flatten().copied().collect();
        prop_assert_eq!(&exact.delays, &of(&known));
        if !known.is_empty() {
            prop_assert_eq!(path.bound_max_ns, Some(30));
            prop_assert_eq!(path.pdv.max_ns, Some(known.iter().max().unwrap() - known.iter().min().unwrap()));
        }
        let neighbours: Vec<i64> = delays
            .windows(2)
            .filter_map(|pair| Some(pair[1]? - pair[0]?))
            .collect();
        prop_assert!(exact.ipdv.buckets().eq(of(&neighbours).buckets()));
        let negative = known.iter().filter(|d| **d < -30).count() as u64;
        prop_assert_eq!(path.negative, negative);

        let mut losses = Losses::default();
        delays.iter().for_each(|d| if d.is_some() { losses.arrived(1) } else { losses.lost(1) });
        prop_assert_eq!(&exact.losses, &losses);
        prop_assert_eq!(path.duplicates, fates.iter().filter(|(copies, _)| *copies == 2).count() as u64);

        arrivals.sort_unstable();
        let mut reordering = Reordering::default();
        arrivals.iter().for_each(|(at, n)| reordering.arrived(*n, *at));
        prop_assert_eq!(&exact.reordering, &reordering);

        let (mut jitter, mut before) = (0.0, None::<i64>);
        for (_, n) in &arrivals {
            let transit = delays[*n as usize].unwrap();
            if let Some(before) = before.replace(transit) {
                jitter += ((transit - before).abs() as f64 - jitter) / 16.0;
            }
        }
        if arrivals.len() > 1 {
            prop_assert!((path.jitter_ns.unwrap() - jitter).abs() < 1.0);
        }
        prop_assert_eq!((path.ambiguous, path.unseen, path.waiting), ([0; 2], [0; 2], [0; 2]));
    }
}

#[test]
fn an_unsynchronised_file_is_named() {
    let mut engine = Engine::new(options());
    let mut passings = Vec::new();
    for n in 0..100u16 {
        let frame = udp(1, 2, (7, 8), n, &n.to_be_bytes());
        let mut routed = frame.clone();
        routed[14 + 8] -= 1;
        let left = i64::from(n) * 10 * MS;
        passings.push((left, 0, frame));
        passings.push((left + MS - 50 * MS, 1, routed));
    }
    run(&mut engine, passings, [Some(5_000), None]);
    let report = report(&mut engine);
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!((path.way, path.evidence), (Some(Way::Forward), Some(Evidence::HopLimit)));
    assert_eq!((path.negative, path.delay.max_ns), (100, Some(-49 * MS)));
    assert_eq!(path.bound_max_ns, None);
    let problem = &report.notes[0];
    assert_eq!(problem.severity, Severity::Problem);
    assert!(
        problem.text.contains("49.000 ms") && problem.text.ends_with(": B"),
        "{}",
        problem.text
    );
}

#[test]
fn bounds_that_do_not_hold_are_named() {
    let mut engine = Engine::new(options());
    let frame = udp(1, 2, (7, 8), 1, b"one");
    engine.watches(0, i64::MIN, i64::MAX);
    engine.watches(1, i64::MIN, i64::MAX);
    observe_going(&mut engine, 1, At::exact(0, Some(5_000)), &frame, Direction::In);
    observe_going(&mut engine, 0, At::exact(10_001, Some(5_000)), &frame, Direction::Out);
    let report = report(&mut engine);
    // Beyond both bounds: by time it went from B to A.
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!((path.way, path.evidence), (Some(Way::Backward), Some(Evidence::Time)));
}

#[test]
fn both_ways_at_once_cannot_be() {
    let mut engine = Engine::new(options());
    let mut passings = Vec::new();
    for n in 0..10u16 {
        let left = i64::from(n) * 10 * MS;
        passings.push((left, 0, udp(1, 2, (7, 8), n, b"there")));
        passings.push((left + 51 * MS, 1, udp(1, 2, (7, 8), n, b"there")));
        passings.push((left + 5 * MS + 50 * MS, 1, udp(2, 1, (8, 7), n, b"back")));
        passings.push((left + 6 * MS, 0, udp(2, 1, (8, 7), n, b"back")));
    }
    run(&mut engine, passings, [None, None]);
    let report = report(&mut engine);
    assert!(
        report.notes.iter().any(|note| note.text.contains("both directions")),
        "{:?}",
        report.notes
    );
}

#[test]
fn packets_that_are_alike_are_ambiguous_and_numbers_help() {
    let passings = || {
        let mut passings = Vec::new();
        for n in 0..20i64 {
            // No identification; 20 ms of delay with 10 ms between packets that differ late only.
            let mut payload = [7; 80];
            payload[79] = n as u8;
            passings.push((n * 10 * MS, 0, udp6((7, 8), &payload)));
            passings.push((n * 10 * MS + 25 * MS, 1, udp6((7, 8), &payload)));
        }
        passings
    };
    let mut engine = Engine::new(options());
    run(&mut engine, passings(), [None, None]);
    let lost = report(&mut engine);
    let path = lost.flows[0].path.as_ref().unwrap();
    assert_eq!((path.ambiguous, path.delay.n, path.loss.lost), ([20, 20], 0, 0));
    let mut engine =
        Engine::new(Options { patterns: vec!["udp@79:u8".parse().unwrap()], ..options() });
    run(&mut engine, passings(), [None, None]);
    let found = report(&mut engine);
    let path = found.flows[0].path.as_ref().unwrap();
    assert_eq!((path.ambiguous, path.delay.n), ([0, 0], 20));
    assert_eq!((path.delay.min_ns, path.delay.max_ns), (Some(25 * MS), Some(25 * MS)));
    // Slow ones that never overlap are told apart by their times.
    let mut engine = Engine::new(options());
    let mut slow = Vec::new();
    for n in 0..20i64 {
        slow.push((n * 100 * MS, 0, udp6((7, 8), b"same")));
        slow.push((n * 100 * MS + MS, 1, udp6((7, 8), b"same")));
    }
    run(&mut engine, slow, [None, None]);
    let found = report(&mut engine);
    let path = found.flows[0].path.as_ref().unwrap();
    assert_eq!((path.ambiguous, path.delay.n, path.duplicates), ([0, 0], 20, 0));
}

#[test]
fn what_the_other_did_not_watch_is_no_loss() {
    let mut engine = Engine::new(options());
    // B begins at 1 s and ends at 9 s; packet 50 of those that it could see is lost.
    let mut passings = Vec::new();
    for n in 0..120i64 {
        let frame = udp(1, 2, (7, 8), n as u16, &n.to_be_bytes());
        let left = n * 100 * MS;
        if (MS * 1_000..=9_000 * MS).contains(&(left + MS)) && n != 50 {
            passings.push((left + MS, 1, frame.clone()));
        }
        passings.push((left, 0, frame));
    }
    passings.sort_by_key(|(ns, ..)| *ns);
    for (ns, point, frame) in passings {
        observe(&mut engine, point, At::exact(ns, Some(1)), &frame);
    }
    let report = report(&mut engine);
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!(path.loss.lost, 1);
    assert_eq!(path.loss.arrived, 79);
    // The first ten before B began; those after its end, and none that the end leaves open.
    assert_eq!(path.unwatched, [10, 0]);
    assert_eq!(path.recent, [30, 0]);
}

#[test]
fn too_little_memory_is_said() {
    let mut engine = Engine::new(Options { most_waiting: 50, ..options() });
    let mut passings = Vec::new();
    for n in 0..500u16 {
        passings.push((i64::from(n) * MS, 0, udp(1, 2, (7, 8), n, b"x")));
        passings.push((i64::from(n) * MS + 100 * MS, 1, udp(1, 2, (7, 8), n, b"x")));
    }
    run(&mut engine, passings, [None, None]);
    let report = report(&mut engine);
    assert!(report.given_up.waiting > 0);
    assert!(report.notes.iter().any(|note| note.text.contains("--max-waiting")));
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!(path.loss.lost, 0, "what was forgotten is not lost");
}

#[test]
fn tcp_that_is_sent_again_is_another_packet() {
    let mut engine = Engine::new(options());
    let mut ways = BTreeMap::new();
    for (n, identification) in [(0i64, 1u16), (1, 2)] {
        let mut frame = tcp(&Segment {
            ports: (1, 2),
            back: false,
            flags: "A",
            sequence: 5,
            acknowledgement: 6,
            data: 10,
            timestamps: None,
        });
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        ways.insert(n, frame);
    }
    let mut passings = vec![(0, 0, ways[&0].clone()), (300 * MS, 0, ways[&1].clone())];
    passings.push((320 * MS, 1, ways[&1].clone()));
    run(&mut engine, passings, [None, None]);
    let report = report(&mut engine);
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!((path.delay.max_ns, path.ambiguous), (Some(20 * MS), [0, 0]));
    assert_eq!(report.flows[0].seen[0].as_ref().unwrap().retransmitted, 1);
}

#[test]
fn one_counter_at_both_points_bounds_the_delay() {
    let clock = DifferenceClock { period: Period::from_hz(1_000_000_000), error: Rate::ZERO };
    for (one, bound) in [(false, 40_000), (true, 12)] {
        let mut engine = Engine::new(options());
        engine.set_clock(0, Some(clock));
        engine.set_clock(1, Some(clock));
        engine.set_one_counter(one);
        let frame = udp(1, 2, (7, 8), 1, b"x");
        for (point, ns, count) in [(0, 0, 500), (1, 8_000, 8_700)] {
            engine.observe(&Observation {
                point,
                at: At::exact(ns, Some(20_000)),
                counted: Some(Counted {
                    count: Count(count),
                    error: CountSpan(5),
                    epoch: Epoch(1),
                }),
                link_type: link::ETHERNET,
                data: &frame,
                length: frame.len() as u32,
                direction: Direction::Unknown,
            });
        }
        let report = report(&mut engine);
        let path = report.flows[0].path.as_ref().unwrap();
        assert_eq!(path.bound_max_ns, Some(bound));
        let evidence = if one { Evidence::Time } else { Evidence::UnboundedTime };
        assert_eq!((path.way, path.evidence), (Some(Way::Forward), Some(evidence)));
        let near = if one { 8_199..=8_200 } else { 8_000..=8_000 };
        assert!(near.contains(&path.delay.max_ns.unwrap()), "{path:?}");
    }
}

/// A segment of so many bytes of data.
fn segment(sequence: u32, data: usize) -> Vec<u8> {
    tcp(&Segment {
        ports: (1, 2),
        back: false,
        flags: "A",
        sequence,
        acknowledgement: 6,
        data,
        timestamps: None,
    })
}

#[test]
fn segments_that_the_card_cuts_up_are_no_losses() {
    let mut engine = Engine::new(options());
    let mut passings = Vec::new();
    for n in 0..10i64 {
        let at = n * 100 * MS;
        // A sees 4 KB, B three packets of them; a short one is the same at both.
        passings.push((at, 0, segment(n as u32 * 5_000, 4_200)));
        for part in 0..3 {
            let frame = segment(n as u32 * 5_000 + part * 1_400, 1_400);
            passings.push((at + MS + i64::from(part), 1, frame));
        }
        passings.push((at + 10 * MS, 0, segment(n as u32 * 5_000 + 4_200, 10)));
        passings.push((at + 11 * MS, 1, segment(n as u32 * 5_000 + 4_200, 10)));
    }
    run(&mut engine, passings, [None, None]);
    let report = report(&mut engine);
    let path = report.flows[0].path.as_ref().unwrap();
    assert_eq!((path.loss.lost, path.loss.arrived, path.unseen), (0, 10, [0, 0]));
    assert_eq!(path.resized, [10, 30]);
    assert!(report.notes.iter().any(|note| note.text.contains("segmentation offload")));
}

#[test]
fn captures_cut_at_different_lengths_are_told_apart() {
    for (bytes, warned) in [(32, true), (8, false)] {
        let mut engine = Engine::new(Options { identity_bytes: bytes, ..options() });
        for point in [0, 1] {
            engine.watches(point, i64::MIN, i64::MAX);
        }
        for n in 0..20u16 {
            let frame = udp(1, 2, (7, 8), n, &[n as u8; 100]);
            for point in [0, 1] {
                engine.observe(&Observation {
                    point,
                    at: At::exact(i64::from(n) * 10 * MS + point as i64, None),
                    counted: None,
                    link_type: link::ETHERNET,
                    data: if point == 0 { &frame } else { &frame[..50] },
                    length: frame.len() as u32,
                    direction: Direction::Unknown,
                });
            }
        }
        let report = report(&mut engine);
        let note = report.notes.iter().find(|note| note.text.contains("--identity-bytes 8"));
        assert_eq!(note.is_some(), warned, "{:?}", report.notes);
        let path = report.flows[0].path.as_ref().unwrap();
        assert_eq!(path.delay.n, if warned { 0 } else { 20 });
    }
}

#[test]
fn a_group_of_short_flows_has_their_delays() {
    let mut engine = Engine::new(Options { most_flows: 8, ..options() });
    let mut passings = Vec::new();
    for n in 0..40u16 {
        let at = i64::from(n) * 100 * MS;
        let frame = udp(1, 2, (40_000 + n, 123), n, b"ask");
        passings.push((at, 0, frame.clone()));
        if n != 7 {
            passings.push((at + MS, 1, frame));
        }
    }
    run(&mut engine, passings, [Some(1), Some(2)]);
    let report = report(&mut engine);
    let [group] = &report.groups[..] else { panic!("{:?}", report.groups) };
    assert_eq!(group.name, "udp 10.0.0.1:* > 10.0.0.2:123");
    // Those included that made room for others.
    assert_eq!((group.flows, &group.seen_packets[..]), (40, &[40, 39][..]));
    let [way] = &group.ways[..] else { panic!("{:?}", group.ways) };
    assert_eq!((way.arrived, way.delay.median_ns, way.bound_max_ns), (39, Some(MS), Some(3)));
    assert!(report.flows.iter().all(|flow| flow.group.as_ref() == Some(&group.name)));
}

#[test]
fn packets_that_are_alike_are_kept_within_limits() {
    let mut engine = Engine::new(Options { most_waiting: 1000, ..options() });
    let same = udp(1, 2, (7, 8), 0, b"same");
    observe(&mut engine, 0, At::exact(0, None), &udp(1, 2, (7, 8), 1, b"waits"));
    for _ in 0..1_100_000 {
        observe(&mut engine, 0, At::exact(0, None), &same);
    }
    // The one that was waited for was let go of, so that those behind it could be.
    let flow = engine.flows().next().unwrap();
    assert_eq!(flow.path.as_ref().unwrap().dropped[0], 1);
}

#[test]
fn voice_is_rated_where_the_payload_type_says_the_codec() {
    // 30 to 34 ms on the way; every tenth is lost.
    let rated = |payload_type, bound| {
        let mut engine = Engine::new(options());
        let mut passings = Vec::new();
        for n in 0..500_u16 {
            let payload = rtp(payload_type, n, u32::from(n) * 160, 0x5eed);
            let frame = udp(1, 2, (5004, 5004), n, &payload);
            let left = i64::from(n) * 20 * MS;
            passings.push((left, 0, frame.clone()));
            if n % 10 != 3 {
                passings.push((left + (30 + i64::from(n % 5)) * MS, 1, frame));
            }
        }
        run(&mut engine, passings, [Some(10), bound]);
        let path = report(&mut engine).flows[0].path.clone().unwrap();
        let median = path.quantiles[0];
        assert_eq!((median.q, path.delay.median_ns), (0.5, Some(median.ns)));
        assert!(median.low_ns.unwrap() <= median.ns && median.ns <= median.high_ns.unwrap());
        path.voice
    };
    let voice = rated(8, Some(20)).unwrap();
    assert_eq!((voice.inputs.codec.name, voice.assumed), ("g711", false));
    assert!((33.9..34.1).contains(&voice.network_ms), "{voice:?}");
    assert!((voice.inputs.delay_ms - voice.network_ms - 20.0).abs() < 1e-9);
    // A tenth is lost, and 1 % of the rest too late; as far apart as can be.
    assert!((voice.inputs.loss - (1.0 - 0.9 * 0.99)).abs() < 0.001, "{voice:?}");
    assert_eq!(voice.inputs.burst, 1.0);
    assert!((1.0..2.5).contains(&voice.mos), "{voice:?}");
    assert_eq!(rated(18, Some(20)).unwrap().inputs.codec.name, "g729a");
    assert_eq!(rated(96, Some(20)), None);
    // A clock that promises nothing.
    assert_eq!(rated(8, None), None);
}
