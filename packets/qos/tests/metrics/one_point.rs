use proptest::prelude::*;
use truechimer_qos::{
    At, Counted, DifferenceClock, Direction, Engine, Kind, Observation, Options, Report, RtpChoice,
    link,
};
use truechimer_time::{Count, CountSpan, Epoch, Period, Rate};

use crate::frames::{Segment, echo, observe, rtp, tcp, udp};

fn at(ns: i64) -> At {
    At::exact(ns, Some(1_000))
}

fn report(engine: &mut Engine) -> Report {
    engine.finish();
    Report::of(engine, &["here".into()])
}

fn rtts(report: &Report, from: &str) -> Vec<(Kind, u64, Option<i64>, Option<u64>)> {
    let flow = report.flows.iter().find(|flow| flow.from.starts_with(from)).expect("the flow");
    let seen = flow.seen[0].as_ref().expect("seen");
    seen.rtt.iter().map(|rtt| (rtt.kind, rtt.time.n, rtt.time.max_ns, rtt.bound_max_ns)).collect()
}

#[test]
fn round_trips_of_tcp() {
    let mut engine = Engine::new(Options::default());
    let base = Segment {
        ports: (40_000, 80),
        back: false,
        flags: "A",
        sequence: 0,
        acknowledgement: 0,
        data: 0,
        timestamps: None,
    };
    for (ns, segment) in [
        (0, Segment { flags: "S", sequence: 99, timestamps: Some((1, 0)), ..base }),
        (
            700,
            Segment {
                back: true,
                flags: "SA",
                sequence: 499,
                acknowledgement: 100,
                timestamps: Some((1001, 1)),
                ..base
            },
        ),
        (900, Segment { sequence: 100, acknowledgement: 500, timestamps: Some((2, 1001)), ..base }),
        (
            1_000,
            Segment {
                sequence: 100,
                acknowledgement: 500,
                data: 50,
                timestamps: Some((3, 1001)),
                ..base
            },
        ),
        (
            1_400,
            Segment {
                back: true,
                sequence: 500,
                acknowledgement: 150,
                timestamps: Some((1002, 3)),
                ..base
            },
        ),
    ] {
        observe(&mut engine, 0, at(ns), &tcp(&segment));
    }
    let report = report(&mut engine);
    let bound = Some(2_000);
    assert_eq!(
        rtts(&report, "10.0.0.1"),
        [
            (Kind::TcpHandshake, 1, Some(700), bound),
            (Kind::TcpAck, 1, Some(400), bound),
            (Kind::TcpTimestamp, 2, Some(700), bound),
        ]
    );
    // The server's SYN is answered twice over: by ACK, and by its timestamp.
    assert_eq!(
        rtts(&report, "10.0.0.2"),
        [(Kind::TcpHandshake, 1, Some(200), bound), (Kind::TcpTimestamp, 1, Some(200), bound)]
    );
}

#[test]
fn round_trips_of_echo_dns_and_numbers() {
    let options =
        Options { patterns: vec!["udp:9000@0:be32".parse().unwrap()], ..Options::default() };
    let mut engine = Engine::new(options);
    for n in 0..3u16 {
        let ns = i64::from(n) * 10_000;
        observe(&mut engine, 0, at(ns), &echo(true, n));
        observe(&mut engine, 0, at(ns + 100 + i64::from(n)), &echo(false, n));
        let mut query = [0u8; 20];
        query[1] = n as u8;
        observe(&mut engine, 0, at(ns + 500), &udp(3, 4, (41_000, 53), n, &query));
        query[2] = 0x80;
        observe(&mut engine, 0, at(ns + 900), &udp(4, 3, (53, 41_000), n, &query));
        let number = u32::from(n).to_be_bytes();
        observe(&mut engine, 0, at(ns + 1_000), &udp(5, 6, (42_000, 9000), n, &number));
        observe(&mut engine, 0, at(ns + 1_077), &udp(6, 5, (9000, 42_000), n, &number));
    }
    // An answer nobody asked for, and a question that stays open.
    observe(&mut engine, 0, at(50_000), &echo(false, 9));
    observe(&mut engine, 0, at(60_000), &echo(true, 10));
    let report = report(&mut engine);
    assert_eq!(rtts(&report, "10.0.0.1"), [(Kind::Echo, 3, Some(102), Some(2_000))]);
    assert_eq!(rtts(&report, "10.0.0.3"), [(Kind::Dns, 3, Some(400), Some(2_000))]);
    assert_eq!(rtts(&report, "10.0.0.5"), [(Kind::Number, 3, Some(77), Some(2_000))]);
    assert!(rtts(&report, "10.0.0.6").is_empty());
}

#[test]
fn the_counter_measures_round_trips() {
    let mut engine = Engine::new(Options::default());
    engine.set_clock(
        0,
        Some(DifferenceClock { period: Period::from_hz(1_000_000_000), error: Rate::ZERO }),
    );
    // The time of day is stepped meanwhile; the count is not.
    for (count, ns, request) in [(1_000, 0, true), (6_000, -7_000_000, false)] {
        let frame = echo(request, 1);
        engine.observe(&Observation {
            point: 0,
            at: at(ns),
            counted: Some(Counted { count: Count(count), error: CountSpan(20), epoch: Epoch(3) }),
            link_type: link::ETHERNET,
            data: &frame,
            length: 98,
            direction: Direction::Unknown,
        });
    }
    let report = report(&mut engine);
    let [(Kind::Echo, 1, Some(took), Some(bound))] = rtts(&report, "10.0.0.1")[..] else {
        panic!()
    };
    assert!((4_999..=5_000).contains(&took) && (40..50).contains(&bound), "{took} {bound}");
}

#[test]
fn rtp_is_recognised_and_its_first_packets_count() {
    for (choice, is_rtp) in [
        (RtpChoice::Auto, true),
        (RtpChoice::Ports(vec![5004]), true),
        (RtpChoice::Ports(vec![5006]), false),
        (RtpChoice::Never, false),
    ] {
        let mut engine = Engine::new(Options { rtp: choice, ..Options::default() });
        for n in 0..50u16 {
            if n == 20 {
                continue;
            }
            let payload = rtp(0, 65_530u16.wrapping_add(n), 160 * u32::from(n), 0xabcd);
            observe(
                &mut engine,
                0,
                at(i64::from(n) * 20_000_000),
                &udp(1, 2, (6000, 5004), n, &payload),
            );
        }
        let report = report(&mut engine);
        let seen = report.flows[0].seen[0].as_ref().expect("seen");
        assert_eq!(seen.rtp.is_some(), is_rtp);
        if is_rtp {
            let (rtp, numbers) = (seen.rtp.as_ref().unwrap(), seen.numbers.as_ref().unwrap());
            assert_eq!((rtp.clock_hz, rtp.ssrc), (Some(8_000), 0xabcd));
            assert_eq!((numbers.loss.lost, numbers.loss.arrived), (1, 49));
            assert_eq!((rtp.jitter_max_ns, rtp.pdv.max_ns), (Some(0.0), Some(0)));
        }
    }
}

#[test]
fn two_sources_on_one_port_are_two_flows() {
    let mut engine =
        Engine::new(Options { rtp: RtpChoice::Ports(vec![5004]), ..Options::default() });
    for n in 0..20u16 {
        for ssrc in [1, 2] {
            let payload = rtp(8, n, 160 * u32::from(n), ssrc);
            observe(
                &mut engine,
                0,
                at(i64::from(n) * 20_000_000),
                &udp(1, 2, (6000, 5004), n, &payload),
            );
        }
    }
    let report = report(&mut engine);
    assert_eq!(report.flows.len(), 2);
    for flow in &report.flows {
        let numbers = flow.seen[0].as_ref().unwrap().numbers.as_ref().unwrap();
        assert_eq!((numbers.loss.lost, numbers.loss.arrived, numbers.copies), (0, 20, 0));
    }
}

#[test]
fn numbers_the_user_points_out() {
    let options =
        Options { patterns: vec!["udp:9000@2:le16".parse().unwrap()], ..Options::default() };
    let mut engine = Engine::new(options);
    for n in [0u16, 1, 2, 4, 3, 6, 6, 7] {
        let [low, high] = n.to_le_bytes();
        observe(&mut engine, 0, at(0), &udp(1, 2, (1, 9000), n, &[0, 0, low, high]));
    }
    let report = report(&mut engine);
    let numbers = report.flows[0].seen[0].as_ref().unwrap().numbers.as_ref().unwrap();
    assert_eq!((numbers.loss.lost, numbers.copies, numbers.reordering.reordered), (1, 1, 1));
}

proptest! {
    #[test]
    fn gaps_and_rates_as_counted_by_hand(
        gaps in prop::collection::vec(0i64..50_000_000, 2..200), sizes in 1usize..1200,
    ) {
        let mut engine = Engine::new(Options { bin_ns: 100_000_000, ..Options::default() });
        let frame = udp(1, 2, (7, 8), 1, &vec![0; sizes]);
        let mut now = 0;
        let mut bins = std::collections::BTreeMap::new();
        for gap in &gaps {
            now += gap;
            *bins.entry(now / 100_000_000).or_insert(0u64) += frame.len().max(60) as u64 + 24;
            observe(&mut engine, 0, at(now), &frame);
        }
        let report = report(&mut engine);
        let seen = report.flows[0].seen[0].as_ref().unwrap();
        let mut sorted = gaps[1..].to_vec();
        sorted.sort_unstable();
        prop_assert_eq!(seen.gap.min_ns, sorted.first().copied());
        prop_assert_eq!(seen.gap.max_ns, sorted.last().copied());
        prop_assert_eq!(seen.gap.median_ns, Some(sorted[sorted.len().div_ceil(2) - 1]));
        prop_assert_eq!(seen.bytes, (gaps.len() * frame.len()) as u64);
        let peak = *bins.values().max().unwrap() as f64 * 80.0;
        prop_assert!((seen.peak_wire_bits_per_s.unwrap() - peak).abs() < 1.0);
    }
}

#[test]
fn flows_beyond_the_limit_are_counted() {
    let mut engine = Engine::new(Options { most_flows: 10, ..Options::default() });
    for port in 0..100u16 {
        observe(&mut engine, 0, at(i64::from(port)), &udp(1, 2, (port + 1, 9), port, b"x"));
        observe(&mut engine, 0, at(i64::from(port)), &udp(1, 2, (50_000, 9), port, b"busy"));
    }
    let report = report(&mut engine);
    assert_eq!((report.flows.len(), report.flows_seen), (10, 101));
    assert_eq!((report.given_up.flows, report.given_up.packets), (91, 91));
    assert_eq!(report.flows[0].packets, 100, "the busy one stays");
    assert!(report.notes.iter().any(|note| note.text.contains("91 flows")));
    let totals = engine.totals();
    let all: u64 = totals.bins[0].iter().flat_map(|b| b.iter()).map(|(_, bin)| bin.packets).sum();
    assert_eq!(all, 200);
}

#[test]
fn requests_from_ever_new_ports_are_one_group_with_round_trips() {
    let mut engine = Engine::new(Options::default());
    for n in 0..50u16 {
        let ns = i64::from(n) * 1_000_000_000;
        let mut packet = [0; 48];
        (packet[0], packet[47]) = (0x23, n as u8 + 1);
        observe(&mut engine, 0, at(ns), &udp(1, 2, (40_000 + n, 123), n, &packet));
        (packet[0], packet[31]) = (0x24, n as u8 + 1);
        observe(
            &mut engine,
            0,
            at(ns + 200 + i64::from(n)),
            &udp(2, 1, (123, 40_000 + n), n, &packet),
        );
        // Some protocol or other; of every fifth nobody says which packet is the question.
        observe(&mut engine, 0, at(ns + 1_000), &udp(3, 4, (50_000 + n, 7_000), n, b"ask"));
        if n % 5 == 0 {
            observe(&mut engine, 0, at(ns + 1_100), &udp(3, 4, (50_000 + n, 7_000), n, b"ask"));
        }
        observe(&mut engine, 0, at(ns + 1_500), &udp(4, 3, (7_000, 50_000 + n), n, b"say"));
    }
    observe(&mut engine, 0, at(0), &udp(8, 9, (1_000, 2_000), 0, b"alone"));
    let report = report(&mut engine);
    let rtt = |name: &str| {
        let group = report.groups.iter().find(|group| group.name == name).expect("the group");
        let rtts = group.rtt[0].iter();
        let rtts: Vec<_> = rtts.map(|r| (r.kind, r.time.n, r.time.max_ns)).collect();
        (group.flows, rtts)
    };
    assert_eq!(report.groups.len(), 4);
    let ntp = vec![(Kind::Ntp, 50, Some(249))];
    assert_eq!(rtt("udp 10.0.0.1:* > 10.0.0.2:123"), (50, ntp));
    assert_eq!(rtt("udp 10.0.0.2:123 > 10.0.0.1:*"), (50, vec![]));
    let first = vec![(Kind::FirstAnswer, 40, Some(500))];
    assert_eq!(rtt("udp 10.0.0.3:* > 10.0.0.4:7000"), (50, first));
    let alone = report.flows.iter().find(|flow| flow.from.starts_with("10.0.0.8")).unwrap();
    assert_eq!(alone.group, None);
}
