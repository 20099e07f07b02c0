//! Bounds against clocks whose truth is known.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use truechimer_ntp::{LeapIndicator, Log2, Mode, Packet, Short, Timestamp};
use truechimer_qos::{link, parse};
use truechimer_scale::{Anchor, By, Limits, Line, Scale, Scales, Sighting};

/// 2026-11-27, Unix ns.
const START: i64 = 1_795_737_600_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// A clock: what it shows at a true time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead: i64,
    rate_ppb: i64,
}

impl Clock {
    fn shows(self, true_ns: i64) -> i64 {
        let drift = i128::from(true_ns - START) * i128::from(self.rate_ppb) / 1_000_000_000;
        true_ns + self.ahead + i64::try_from(drift).unwrap()
    }
}

fn clock() -> impl Strategy<Value = Clock> {
    let ahead = prop_oneof![Just(0), Just(37 * SECOND), Just(-START), -SECOND..SECOND];
    (ahead, -400_000i64..400_000).prop_map(|(ahead, rate_ppb)| Clock { ahead, rate_ppb })
}

fn timestamp(true_ns: i64) -> Timestamp {
    let (seconds, nanos) = (true_ns.div_euclid(SECOND), true_ns.rem_euclid(SECOND));
    Timestamp::from_unix(seconds, ((nanos as u128) << 64).div_euclid(SECOND as u128) as u64)
}

/// An IPv4 packet of UDP.
fn datagram(from: [u8; 4], to: [u8; 4], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    out.extend((28 + payload.len() as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    out.extend(from);
    out.extend(to);
    for word in [ports[0], ports[1], 8 + payload.len() as u16, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(payload);
    out
}

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [192, 0, 2, 2];

/// Request and reply of an exchange, with true times: asked, received, sent.
fn exchange(times: [i64; 3], nonce: u64) -> [Vec<u8>; 2] {
    exchange_with(SERVER, times, nonce)
}

fn exchange_with(server: [u8; 4], times: [i64; 3], nonce: u64) -> [Vec<u8>; 2] {
    let request = Packet {
        version: 4,
        mode: Mode::Client,
        transmit_timestamp: Timestamp(nonce | 1),
        ..Packet::default()
    };
    let reply = Packet {
        version: 4,
        mode: Mode::Server,
        stratum: 1,
        precision: Log2(-20),
        root_dispersion: Short(7),
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: timestamp(times[1]),
        transmit_timestamp: timestamp(times[2]),
        ..Packet::default()
    };
    [
        datagram(CLIENT, server, [4000, 123], &request.encode()),
        datagram(server, CLIENT, [123, 4000], &reply.encode()),
    ]
}

/// Polls of a server whose clock is off by `off`, at true times, seen by a clock.
fn polls(server: [u8; 4], off: i64, times: impl IntoIterator<Item = i64>) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    for now in times {
        let received = now + 200_000 + off;
        let [request, reply] =
            exchange_with(server, [received, received, received + 5_000], now as u64);
        all.push((now, request));
        all.push((now + 400_000, reply));
    }
    all
}

/// The scale of one interface that saw these packets.
fn watch(mut packets: Vec<(i64, Vec<u8>)>, shows: impl Fn(i64) -> i64) -> Scale {
    packets.sort();
    let mut scales = Scales::new(None);
    for (true_ns, bytes) in &packets {
        take(&mut scales, 0, shows(*true_ns), bytes);
    }
    scales.solve(Limits::default()).0.remove(&(1, 0)).unwrap()
}

/// Counts of packets that are bounded, and that are contradicted: one every 10 ms between two true
/// times, none of them wrong.
fn judge(scale: &mut Scale, shows: impl Fn(i64) -> i64, [from, to]: [i64; 2]) -> [usize; 2] {
    let (mut bounded, mut contradicted) = (0, 0);
    for true_ns in (from..to).step_by(10_000_000) {
        let told = scale.next(shows(true_ns));
        let Some((middle, bound)) = told.middle() else { continue };
        let at = (true_ns - START) as f64 / 1e9;
        assert!(middle.abs_diff(true_ns) <= bound + 1, "at {at}: {} ± {bound}", middle - true_ns);
        bounded += 1;
        contradicted += usize::from(told.contradicted);
        assert!(told.contradicted || bound < 100_000_000, "at {at}: ± {bound}");
    }
    [bounded, contradicted]
}

fn seconds(all: impl IntoIterator<Item = i64>) -> Vec<i64> {
    all.into_iter().map(|s| START + s * SECOND).collect()
}

fn take(scales: &mut Scales, interface: u32, at: i64, bytes: &[u8]) {
    let sighting = Sighting { place: (1, interface), at, unit_ns: 1, bound_ns: None };
    scales.packet(sighting, &parse(link::RAW, bytes));
}

#[test]
fn stamps_at_both_ends_of_64_bits_are_no_exchange() {
    let mut scales = Scales::new(None);
    let [request, reply] = exchange([START, START + 1, START + 2], 1);
    take(&mut scales, 0, i64::MIN + 5, &request);
    take(&mut scales, 0, i64::MAX - 5, &reply);
    let scale = scales.solve(Limits::default()).0.remove(&(1, 0)).unwrap();
    assert_eq!((scale.anchors(), scale.is_told()), (1, false));
}

proptest! {
    #[test]
    fn truth_lies_within_whatever_the_clock(
        clock in clock(),
        gaps in proptest::collection::vec((1i64..64, 1i64..20_000_000, 1i64..20_000_000), 1..12),
        asked in proptest::collection::vec(-0.5f64..1.5, 1..20),
        wander: bool,
    ) {
        let mut scales = Scales::new(None);
        let mut now = START;
        for (n, (gap, there, back)) in gaps.iter().enumerate() {
            now += gap * SECOND;
            let times = [now, now + there, now + there + 5_000];
            let [request, reply] = exchange(times, n as u64 * 1000 + 1);
            take(&mut scales, 0, clock.shows(now), &request);
            take(&mut scales, 0, clock.shows(times[2] + back), &reply);
        }
        let limits = Limits { wander_ppb: wander.then_some(0), ..Limits::default() };
        let mut solved = scales.solve(limits).0;
        let scale = solved.get_mut(&(1, 0)).unwrap();
        prop_assert_eq!((scale.by(), scale.breaks()), (By::Ntp, 0));
        prop_assert_eq!(scale.anchors(), 2 * gaps.len());
        let mut times: Vec<i64> =
            asked.iter().map(|part| START + ((now - START) as f64 * part) as i64).collect();
        times.sort_unstable();
        for true_ns in times {
            let told = scale.next(clock.shows(true_ns));
            let (middle, bound) = told.middle().unwrap();
            // To the nearest ns, as the clock shows whole ones.
            prop_assert!(middle.abs_diff(true_ns) <= bound + 1, "{middle} {true_ns} {bound}");
            prop_assert!(!told.contradicted);
        }
    }

    #[test]
    fn a_rate_that_keeps_to_its_average_narrows(rate_ppb in -400_000i64..400_000) {
        let clock = Clock { ahead: 5, rate_ppb };
        let anchors: Vec<_> = (0..10).map(|n| {
            let true_ns = START + n * 64 * SECOND;
            Anchor::between(clock.shows(true_ns), true_ns - 50_000, true_ns + 50_000)
        }).collect();
        let wide = Line::new(anchors.clone(), Limits::default());
        let narrow = Line::new(anchors, Limits { wander_ppb: Some(1_000), ..Limits::default() });
        let true_ns = START + 96 * SECOND;
        let [wide, narrow] = [wide, narrow].map(|line| {
            let (middle, bound) = line.at(clock.shows(true_ns)).middle().unwrap();
            assert!(middle.abs_diff(true_ns) <= bound + 1);
            bound
        });
        prop_assert!(narrow < 200_000 && wide > 10 * narrow, "{narrow} {wide}");
    }

    #[test]
    fn any_anchors_do_no_harm(
        anchors in proptest::collection::vec(any::<(i64, Option<i64>, Option<i64>)>(), 0..20),
        rate_ppb: i64,
        wander_ppb: Option<i64>,
        at: i64,
    ) {
        let anchors: Vec<_> = anchors
            .into_iter()
            .map(|(at, earliest, latest)| Anchor { at, earliest, latest })
            .collect();
        let told = Line::new(anchors, Limits { rate_ppb, wander_ppb }).at(at);
        if let (Some(earliest), Some(latest)) = (told.earliest, told.latest) {
            prop_assert!(earliest <= latest);
        }
        let _ = told.middle();
    }

    #[test]
    fn any_packets_do_no_harm(
        packets in proptest::collection::vec(
            (0u32..3, any::<i64>(), proptest::collection::vec(any::<u8>(), 48..60), any::<bool>()),
            0..20,
        ),
        apart: Option<u64>,
    ) {
        let mut scales = Scales::new(apart);
        for (interface, at, payload, reply) in &packets {
            let ports = if *reply { [123, 4000] } else { [4000, 123] };
            take(&mut scales, *interface, *at, &datagram(CLIENT, SERVER, ports, payload));
        }
        for scale in scales.solve(Limits::default()).0.values_mut() {
            let _ = (scale.next(5), scale.ends(), scale.breaks());
        }
    }
}

#[test]
fn one_interface_tells_the_others_time_if_somebody_knows_how_far_apart() {
    let clocks = [(0, 20_000), (37 * SECOND, -3_000), (-START, 90_000)]
        .map(|(ahead, rate_ppb)| Clock { ahead, rate_ppb });
    let solve = |apart| {
        let mut scales = Scales::new(apart);
        for n in 0..20 {
            let now = START + n * SECOND;
            for (bytes, delay) in exchange([now, now + 100_000, now + 110_000], n as u64 * 1000 + 1)
                .iter()
                .zip([0, 300_000])
            {
                take(&mut scales, 0, clocks[0].shows(now + delay), bytes);
            }
            // What it forwards passes the second 40 µs later, and the third 70 µs after that.
            let data = datagram(CLIENT, [198, 51, 100, 1], [5, 6], &n.to_le_bytes());
            for (interface, delay) in [(0, 0), (1, 40_000), (2, 110_000)] {
                // The third does not see what the first sees, but what the second does.
                let other = datagram(CLIENT, [198, 51, 100, 1], [7, 8], &n.to_le_bytes());
                let at = clocks[interface].shows(now + 500_000 + delay);
                let interface = u32::try_from(interface).unwrap();
                match interface {
                    0 => take(&mut scales, interface, at, &data),
                    1 => {
                        take(&mut scales, interface, at, &data);
                        take(&mut scales, interface, at, &other);
                    }
                    _ => take(&mut scales, interface, at, &other),
                }
            }
        }
        scales.solve(Limits::default()).0
    };
    let alone = solve(None);
    let by = |solved: &std::collections::BTreeMap<_, truechimer_scale::Scale>| {
        solved.values().map(|scale| scale.by()).collect::<Vec<_>>()
    };
    assert_eq!(by(&alone), [By::Ntp, By::Nothing, By::Nothing]);
    assert!(!alone[&(1, 1)].is_told());
    let mut solved = solve(Some(80_000));
    assert_eq!(by(&solved), [By::Ntp, By::Shared, By::Shared]);
    for (interface, clock) in clocks.iter().enumerate() {
        let scale = solved.get_mut(&(1, interface as u32)).unwrap();
        for n in 0..20 {
            let true_ns = START + n * SECOND + 610_000;
            let told = scale.next(clock.shows(true_ns));
            let (middle, bound) = told.middle().unwrap();
            assert!(middle.abs_diff(true_ns) <= bound, "{interface} {middle} {true_ns} ± {bound}");
            assert!(bound < 1_500_000 && !told.contradicted, "{interface} {bound}");
        }
    }
}

#[test]
fn packets_with_known_times_tell_the_others() {
    let clock = Clock { ahead: 37 * SECOND, rate_ppb: 0 };
    let mut scales = Scales::new(Some(1_000));
    for n in 0..5u8 {
        let true_ns = START + i64::from(n) * SECOND;
        let bytes = datagram(CLIENT, SERVER, [5, 6], &[n]);
        let ours = Sighting { place: (1, 0), at: true_ns + 100, unit_ns: 1, bound_ns: Some(200) };
        scales.packet(ours, &parse(link::RAW, &bytes));
        take(&mut scales, 1, clock.shows(true_ns + 900), &bytes);
        // One that passes twice tells nothing, whatever it is taken for.
        for interface in [0, 0, 1] {
            take(&mut scales, interface, true_ns, &datagram(CLIENT, SERVER, [9, 9], &[n]));
        }
    }
    let mut solved = scales.solve(Limits::default()).0;
    assert_eq!(solved[&(1, 0)].by(), By::Known);
    let scale = solved.get_mut(&(1, 1)).unwrap();
    assert_eq!((scale.by(), scale.anchors()), (By::Shared, 5));
}

#[test]
fn steps_and_lies_are_breaks_and_the_bound_covers_both_sides() {
    // Stepped forward by a second half-way: no stamp goes back.
    let clock =
        |true_ns: i64| if true_ns < START + 50 * SECOND { true_ns } else { true_ns + SECOND };
    let anchors: Vec<_> = (0..10)
        .map(|n| START + n * 10 * SECOND + SECOND)
        .map(|true_ns| Anchor::between(clock(true_ns), true_ns - 1000, true_ns + 1000))
        .collect();
    let line = Line::new(anchors, Limits::default());
    assert_eq!((line.breaks(), line.anchors()), (1, 10));
    for n in 0..1000 {
        let true_ns = START + n * SECOND / 10;
        let told = line.at(clock(true_ns));
        assert!(told.earliest.unwrap() <= true_ns && told.latest.unwrap() >= true_ns);
        assert_eq!(told.contradicted, (400..=520).contains(&n), "{n}");
    }
    // Stepped back: each stretch of the file has its own line.
    let mut scales = Scales::new(None);
    let back =
        |true_ns: i64| if true_ns < START + 50 * SECOND { true_ns } else { true_ns - 37 * SECOND };
    for n in 0..10u64 {
        let now = START + n as i64 * 10 * SECOND;
        let [request, reply] = exchange([now, now + 1000, now + 2000], n * 1000 + 1);
        take(&mut scales, 0, back(now), &request);
        take(&mut scales, 0, back(now + 3000), &reply);
    }
    let mut solved = scales.solve(Limits::default()).0;
    let scale = solved.get_mut(&(1, 0)).unwrap();
    assert_eq!(scale.breaks(), 1);
    for n in 0..1000 {
        let true_ns = START + n * SECOND / 10;
        let (middle, bound) = scale.next(back(true_ns)).middle().unwrap();
        assert!(middle.abs_diff(true_ns) <= bound, "{n}");
    }
}

#[test]
fn servers_without_time_and_replies_alone_tell_no_time() {
    let now = START;
    let replies = [
        |reply: &mut Packet| reply.leap = LeapIndicator::Unsynchronised,
        |reply: &mut Packet| reply.stratum = 0,
        |reply: &mut Packet| reply.stratum = 16,
        |reply: &mut Packet| reply.transmit_timestamp = Timestamp(0),
        |reply: &mut Packet| reply.root_dispersion = Short(u32::MAX),
        |reply: &mut Packet| reply.version = 1,
    ];
    for (n, spoil) in replies.iter().enumerate() {
        let [request, reply] = exchange([now, now + 5, now + 6], 77);
        let (mut packet, _) = Packet::decode(&reply[28..]).unwrap();
        spoil(&mut packet);
        let reply = datagram(SERVER, CLIENT, [123, 4000], &packet.encode());
        let mut scales = Scales::new(None);
        take(&mut scales, 0, now, &request);
        take(&mut scales, 0, now + 10, &reply);
        let solved = scales.solve(Limits::default()).0;
        assert_eq!(solved[&(1, 0)].by(), By::Nothing, "{n}");
    }
    // A reply whose request nobody saw: true time is after it was sent, and that is all.
    let [_, reply] = exchange([now, now + 5, now + 6], 77);
    let mut scales = Scales::new(None);
    take(&mut scales, 0, now, &reply);
    let mut solved = scales.solve(Limits::default()).0;
    let scale = solved.get_mut(&(1, 0)).unwrap();
    assert!(!scale.is_told());
    let told = scale.next(now);
    assert!(told.latest.is_none() && told.earliest.unwrap() <= now + 6);
}

#[test]
fn a_step_right_after_a_reply_is_covered_whichever_way_it_goes() {
    for step in [-SECOND * 99 / 100, -SECOND / 2, -SECOND / 10, SECOND / 2] {
        for after_ms in [1, 300, 7_000] {
            let begin = START + 48 * SECOND + after_ms * 1_000_000;
            let shows = |true_ns: i64| true_ns + if true_ns < begin { 0 } else { step };
            let times = seconds((0..8).map(|n| n * 16));
            let mut scale = watch(polls(SERVER, 0, times), shows);
            assert_eq!(scale.breaks(), 1, "{step}");
            let [bounded, contradicted] = judge(&mut scale, shows, [START, START + 112 * SECOND]);
            assert_eq!(bounded, 11_200);
            // From the exchange before the step to that after it, and as much as it can go back.
            assert!((1_590..=1_900).contains(&contradicted), "{step} {contradicted}");
        }
    }
}

const LIAR: [u8; 4] = [192, 0, 2, 66];

#[test]
fn a_lie_that_makes_a_run_of_its_own_covers_what_others_say() {
    let shows = |true_ns| true_ns;
    let window = [START, START + 112 * SECOND];
    for off in [-5 * SECOND, -SECOND / 4, 37_000_000, 2 * SECOND] {
        let good = || polls(SERVER, 0, seconds((0..8).map(|n| n * 16)));
        // Between two polls of the good server: twice, and as a burst, and much longer than that.
        for (lies, most) in [
            (vec![50, 60], 2_000),
            (vec![50, 52, 54, 56, 58], 2_000),
            ((1..10).map(|n| n * 10).collect(), 10_000),
        ] {
            for liar in [LIAR, SERVER] {
                let lies = polls(liar, off, seconds(lies.clone()));
                let is_short = most == 2_000;
                // Who speaks for the good server for long is taken for it.
                if liar == SERVER && !is_short {
                    continue;
                }
                let mut scale = watch([good(), lies].concat(), shows);
                assert!(scale.breaks() > 0, "{off}");
                let [bounded, contradicted] = judge(&mut scale, shows, window);
                assert_eq!(bounded, 11_200, "{off}");
                assert!((800..=most).contains(&contradicted), "{off} {contradicted}");
            }
        }
    }
}

#[test]
fn a_step_that_all_servers_show_is_one_and_they_bound_the_time_before_and_after() {
    let begin = START + 50 * SECOND;
    let shows = |true_ns: i64| true_ns + if true_ns < begin { 37 * SECOND } else { 0 };
    let servers = (0..4u8).flat_map(|n| {
        polls([192, 0, 2, 10 + n], 0, seconds((0..8).map(move |m| m * 16 + i64::from(n) * 2)))
    });
    let ahead = |true_ns: i64| 74 * SECOND - shows(true_ns) + 2 * true_ns - 2 * START;
    for forward in [false, true] {
        let shows = |true_ns: i64| if forward { ahead(true_ns) } else { shows(true_ns) };
        let mut scale = watch(servers.clone().collect(), shows);
        assert_eq!(scale.breaks(), 1);
        let [bounded, contradicted] = judge(&mut scale, shows, [START, START + 112 * SECOND]);
        assert_eq!(bounded, 11_200);
        // From the last exchange of any server before it to the first of the last one after it.
        assert!(contradicted <= 3_200, "{contradicted}");
    }
}

#[test]
fn one_reply_without_its_request_takes_no_bound_away_from_far() {
    let shows = |true_ns| true_ns;
    let mut lie = polls(LIAR, SECOND, seconds([50]));
    lie.remove(0);
    let good = polls(SERVER, 0, seconds((0..8).map(|n| n * 16)));
    let mut scale = watch([good, lie].concat(), shows);
    let [bounded, contradicted] = judge(&mut scale, shows, [START, START + 112 * SECOND]);
    assert!((9_400..11_200).contains(&bounded), "{bounded}");
    assert_eq!(contradicted, 0);
}

#[test]
fn the_unit_of_the_interface_that_tells_is_in_the_bound_of_the_other() {
    const UNIT: i64 = 1_000_000;
    let mut scales = Scales::new(Some(1_000));
    let mut see = |interface, unit_ns: i64, true_ns: i64, bytes: &[u8]| {
        let at = true_ns.div_euclid(unit_ns) * unit_ns;
        let sighting = Sighting { place: (1, interface), at, unit_ns, bound_ns: None };
        scales.packet(sighting, &parse(link::RAW, bytes));
    };
    let mut times = Vec::new();
    for n in 0..200 {
        // All phases of a unit.
        let now = START + n * SECOND / 4 + n * UNIT / 200;
        let [request, reply] = exchange([now + 900, now + 900, now + 900], n as u64 * 1000 + 1);
        see(0, UNIT, now, &request);
        see(0, UNIT, now + 1_000, &reply);
        let data = datagram(CLIENT, [198, 51, 100, 1], [5, 6], &n.to_le_bytes());
        see(0, UNIT, now + 2_000, &data);
        see(1, 1, now + 2_000, &data);
        times.push(now + 2_000);
    }
    let mut solved = scales.solve(Limits { rate_ppb: 10, wander_ppb: None }).0;
    assert_eq!(solved[&(1, 0)].breaks(), 0);
    let scale = solved.get_mut(&(1, 1)).unwrap();
    assert_eq!((scale.by(), scale.breaks(), scale.anchors()), (By::Shared, 0, 200));
    for true_ns in times {
        let (middle, bound) = scale.next(true_ns).middle().unwrap();
        assert!(middle.abs_diff(true_ns) <= bound, "{} ± {bound}", middle - true_ns);
    }
}

#[test]
fn a_packet_that_too_many_interfaces_saw_tells_none_of_them_and_is_counted() {
    let mut scales = Scales::new(Some(1_000));
    for n in 0..50i64 {
        let now = START + n * SECOND;
        let data = datagram(CLIENT, [198, 51, 100, 1], [5, 6], &n.to_le_bytes());
        let known = Sighting { place: (1, 0), at: now, unit_ns: 1, bound_ns: Some(100) };
        scales.packet(known, &parse(link::RAW, &data));
        // By turns all of them, and two, so that each tells the next.
        let all = if n == 0 { 1..2_000 } else { n as u32..n as u32 + 1 };
        all.for_each(|interface| take(&mut scales, interface, now, &data));
        let next = datagram(CLIENT, [198, 51, 100, 1], [7, 8], &n.to_le_bytes());
        take(&mut scales, n as u32 + 100, now, &next);
        take(&mut scales, n as u32 + 101, now, &next);
    }
    let (solved, left_out) = scales.solve(Limits::default());
    assert_eq!((left_out.wide, left_out.late), (1, 0));
    assert!((1..50).all(|n| solved[&(1, n)].by() == By::Shared));
    assert!((50..2_000).all(|n| !solved[&(1, n)].is_told()));
}

#[test]
fn servers_that_differ_by_less_than_the_rate_leaves_open_differ_between_polls_too() {
    // Ahead by up to 31 ms half-way between polls, and right at each: within what the rate allows.
    let shows = |true_ns: i64| {
        let since = (true_ns - START).rem_euclid(64 * SECOND);
        true_ns + since.min(64 * SECOND - since) * 98 / 100_000
    };
    let both = |off, late: i64| {
        polls(if off == 0 { SERVER } else { LIAR }, off, {
            let times = seconds((0..4).map(|n| n * 64));
            times.into_iter().map(move |now| now + late).collect::<Vec<_>>()
        })
    };
    for off in [20_000_000, -20_000_000] {
        let mut scale = watch([both(0, 0), both(off, 10_000_000)].concat(), shows);
        let [bounded, contradicted] =
            judge(&mut scale, shows, [START + SECOND, START + 191 * SECOND]);
        assert_eq!((bounded, contradicted), (19_000, 19_000), "{off}");
    }
}
