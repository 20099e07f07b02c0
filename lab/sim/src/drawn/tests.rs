//! Drawn paths do what their parameters say, and the same whenever they are asked.

use super::part::{MS, Packet, US, next};
use super::*;
use crate::{Scenario, find};

/// Packets for the law of a part.
const PACKETS: u64 = 4000;

/// The parts of a path-day of this technology, whichever `wanted` likes, with its draws.
fn drawn(
    draw: impl Fn(&mut Drawing, f64) -> Ways,
    wanted: impl Fn(&Drawing) -> bool,
) -> (Ways, Drawing) {
    let all = (0..1000).map(|seed| {
        let mut d = Drawing::new(seed);
        (draw(&mut d, 86_400.0), d)
    });
    all.into_iter().find(|(_, d)| wanted(d)).unwrap()
}

/// The value drawn for a parameter.
fn value(d: &Drawing, part: &str, name: &str) -> f64 {
    let drew = d.drew.iter().find(|drew| drew.part == part && drew.range.name == name);
    drew.unwrap_or_else(|| panic!("{part}: {name}: {:?}", d.drew)).value
}

/// When packets come and how long they take, s, lost ones left out.
fn passages(way: &mut Way) -> Vec<(f64, f64)> {
    let passage = |number: u64| {
        let t = 100.0 + number as f64 * 21.5003;
        Some((t, way.pass(Packet { number, begun: t }, t)? - t))
    };
    (0..PACKETS).filter_map(passage).collect()
}

fn sorted_delays(way: &mut Way) -> Vec<f64> {
    truechimer_report::sorted(passages(way).into_iter().map(|(_, delay)| delay))
}

fn is_on_grid(t: f64, period: f64) -> bool {
    let turns = t / period;
    (turns - libm::rint(turns)).abs() * period < 1e-9
}

#[test]
fn a_day_is_a_function_of_seed_and_number() {
    for number in 0..Technology::ALL.len() as u64 {
        let day = Day::new(7, number, 16, 2.0);
        let (a, b) = (day.realise(), day.realise());
        assert_eq!(a.exchanges, b.exchanges);
        assert_eq!(a.drew, b.drew);
        assert!(a.exchanges.len() > 300, "{}: {}", day.technology.name(), a.exchanges.len());
        let other = Day::new(8, number, 16, 2.0).realise();
        assert_ne!(a.exchanges, other.exchanges);
        let later = Day::new(7, number + Technology::ALL.len() as u64, 16, 2.0).realise();
        assert_eq!(later.day.technology, day.technology);
        assert_ne!(a.exchanges, later.exchanges);
    }
}

#[test]
fn days_take_turns_and_names_are_known() {
    let all = Technology::ALL.len() as u64;
    assert_eq!(Day::numbers(3, None), [0, 1, 2]);
    assert_eq!(Day::numbers(2, Some(Technology::Gpon)), [2, 2 + all]);
    for number in Day::numbers(3, Some(Technology::Leo)) {
        assert_eq!(Day::new(1, number, 16, 24.0).technology, Technology::Leo);
    }
    for technology in Technology::ALL {
        assert_eq!(Technology::named(technology.name()), Ok(technology));
        let ranges = technology.ranges();
        for (n, range) in ranges.iter().enumerate() {
            assert!(range.reason.len() > 8, "{range:?}");
            assert!(ranges.iter().take(n).all(|other| other.name != range.name), "{range:?}");
        }
    }
    assert!(Technology::named("isdn").unwrap_err().contains("ethernet"));
}

#[test]
fn what_is_drawn_lies_in_its_range() {
    for number in 0..60 {
        let realised = Day::new(3, number, 16, 0.2).realise();
        let known = [realised.day.technology.ranges(), common_ranges()].concat();
        for Drew { part, range, value } in &realised.drew {
            let (low, high) = range.limits();
            assert!((low..=high).contains(value), "{part}: {range:?}: {value}");
            let nested = [Technology::Wifi, Technology::Gpon, Technology::Docsis];
            let documented = known.contains(range)
                || nested.iter().any(|technology| technology.ranges().contains(range));
            assert!(documented, "{part}: {range:?}");
        }
    }
}

#[test]
fn ranges_are_filled() {
    let even = Range { name: "x", unit: "", values: Values::Even(2.0, 4.0), reason: "" };
    let log = Range { values: Values::Log(0.01, 100.0), ..even };
    let one = Range { values: Values::OneOf(&[5.0, 5.0, 7.0]), ..even };
    let all = |range: &Range| -> Vec<f64> {
        (0..2000).map(|seed| Drawing::new(seed).draw("p", range)).collect()
    };
    let share = |values: &[f64], of: fn(f64) -> bool| {
        values.iter().filter(|v| of(**v)).count() as f64 / values.len() as f64
    };
    assert!((share(&all(&even), |v| v < 2.5) - 0.25).abs() < 0.04);
    assert!((share(&all(&log), |v| v < 0.1) - 0.25).abs() < 0.04);
    assert!((share(&all(&one), |v| v == 5.0) - 2.0 / 3.0).abs() < 0.04);
}

/// Condition 2 of the bound: within the promise, walk included.
#[test]
fn oscillators_keep_their_promise() {
    for number in 0..200 {
        let mut d = Drawing::new(number);
        let oscillator = surroundings::oscillator(&mut d, 86_400.0);
        oscillator.check().unwrap();
        surroundings::host(&mut d).check().unwrap();
        let lan = find("lan").unwrap();
        // The walk's four standard deviations take the other half.
        let quiet = OscillatorSpec { walk_per_root_s: 0.0, ..oscillator.clone() };
        let half = Scenario { oscillator: quiet, max_wander_ppm: 0.27, ..lan.clone() };
        assert_eq!(half.broken_conditions(), Vec::<String>::new(), "{oscillator:?}");
        let walk = OscillatorSpec {
            walk_per_root_s: oscillator.walk_per_root_s,
            ..OscillatorSpec::default()
        };
        let half = Scenario { oscillator: walk, max_wander_ppm: 0.24, ..lan };
        assert_eq!(half.broken_conditions(), Vec::<String>::new(), "{oscillator:?}");
    }
}

/// Stamps are of the truth to within what is declared, and in order.
#[test]
fn servers_are_right_and_exchanges_causal() {
    for number in 0..36 {
        let realised = Day::new(5, number, 16, 1.0).realise();
        let distance = realised.declared.root_distance.unwrap();
        let mut before = 0.0;
        for Passed { stamped, at, delays } in &realised.exchanges {
            assert!(delays.iter().all(|delay| *delay > 0.0), "{number}: {delays:?}");
            assert!(stamped.received.at_or_after(stamped.sent) && *at > before);
            assert!(stamped.server_sent >= stamped.server_received);
            let sent = stamped.reference.unwrap().sent;
            let arrived = sent + span(delays[0]);
            let off = (stamped.server_received - arrived).abs();
            assert!(off <= distance + Span::from_nanos(2), "{number}: {off:?} {distance:?}");
            before = *at;
        }
    }
}

#[test]
fn lines_have_their_floor_and_their_queues() {
    let (mut ways, d) = drawn(line::alone, |d| value(d, "line", "changes of route") == 0.0);
    let floor = value(&d, "line", "fibre, one way") * MS;
    let delays = sorted_delays(&mut ways.there);
    let queue = value(&d, "line there", "queues in routers") * US;
    let hops = value(&d, "line there", "routers with a queue");
    assert!(delays[0] >= floor && delays[0] < floor + 0.2 * (hops + 1.0) * queue);
    // At half of the full load the median of a gamma law, and that of none and of full load.
    let median = delays[delays.len() / 2] - floor;
    assert!(median > 0.01 * hops * queue && median < hops * queue, "{median} {queue} {hops}");
    let lost = PACKETS as usize - delays.len();
    let loss = value(&d, "line there", "loss") * PACKETS as f64;
    assert!((lost as f64 - loss).abs() < 5.0 * loss.sqrt() + 2.0, "{lost} {loss}");
    let back = floor * (1.0 + value(&d, "line", "asymmetry of the route"));
    assert!(sorted_delays(&mut ways.back)[0] >= back);
}

#[test]
fn routes_change_when_it_is_said() {
    let (mut ways, d) = drawn(line::alone, |d| value(d, "line", "changes of route") == 2.0);
    assert_eq!(ways.changes.len(), 2);
    let mut floors = [
        value(&d, "line", "fibre, one way") * MS,
        value(&d, "line", "fibre, one way")
            * MS
            * (1.0 + value(&d, "line", "asymmetry of the route")),
    ];
    let all = [passages(&mut ways.there), passages(&mut ways.back)];
    let mut from = 0.0;
    let end = Change { at: 86_400.0, by: [0.0; 2], cause: Cause::Route };
    for change in ways.changes.iter().chain([&end]) {
        for ((floor, by), passages) in floors.iter_mut().zip(change.by).zip(&all) {
            let within = passages.iter().filter(|(t, _)| (from..change.at).contains(t));
            let least = within.map(|(_, delay)| *delay).fold(f64::INFINITY, f64::min);
            assert!(least >= *floor - 1e-12 && least < *floor + 0.5 * MS, "{least} {floor}");
            *floor += by;
        }
        from = change.at;
    }
}

#[test]
fn cable_waits_for_maps_and_frames() {
    const UP: &str = "cable up";
    let (mut ways, d) = drawn(docsis::draw, |d| value(d, UP, "proactive grants") == 0.0);
    let [cycle, frame] = ["MAP cycle", "OFDMA frame"].map(|name| value(&d, UP, name) * MS);
    let plant = value(&d, "cable down", "plant and interleaver, downstream") * MS;
    let grants = value(&d, UP, "request to grant");
    let phase = d.phase("cable frame", frame);
    for (t, delay) in passages(&mut ways.there) {
        assert!(is_on_grid(t + delay - plant / 2.0 - phase, frame), "{t} {delay}");
    }
    let delays = sorted_delays(&mut ways.there);
    let least = (grants - 1.0) * cycle + frame + plant / 2.0;
    assert!(delays[0] >= least && delays[0] < least + cycle, "{} {least}", delays[0]);
    // Half need no more than request, map, place in the cycle and frame.
    assert!(delays[delays.len() / 2] < least + 3.0 * cycle + frame);
    assert!(sorted_delays(&mut ways.back)[0] >= plant);
}

#[test]
fn optical_slots_lie_on_the_grid_of_frames() {
    const UP: &str = "optical up";
    let (mut ways, d) = drawn(gpon::draw, |d| value(d, UP, "assured slot in each cycle") == 1.0);
    let cycle = value(&d, UP, "allocation cycle") * 125.0 * US;
    let fibre = value(&d, UP, "fibre, one way") * US;
    let phase = d.phase(UP, cycle);
    let all = passages(&mut ways.there);
    for (t, delay) in &all {
        assert!(is_on_grid(t + delay - fibre - phase, 125.0 * US), "{t} {delay}");
    }
    // Uniform within the cycle but for those that found no room.
    let within = all.iter().filter(|(_, delay)| *delay <= fibre + cycle).count() as f64;
    let early = all.iter().filter(|(_, delay)| *delay <= fibre + cycle / 4.0).count() as f64;
    assert!(within > 0.75 * all.len() as f64);
    assert!((early / within - 0.25).abs() < 0.05, "{early} {within}");
}

#[test]
fn mobile_networks_keep_to_their_slots() {
    let still = |d: &Drawing| {
        value(d, "radio up", "handovers") == 0.0
            && value(d, "radio up", "connection released between requests") == 0.0
    };
    let (mut ways, d) = drawn(lte::draw, still);
    let far = value(&d, "cell 1", "a cell's backhaul") * MS;
    let request = value(&d, "radio up", "scheduling request period") * MS;
    let grant = value(&d, "radio up", "request to transmission") * MS;
    for (t, delay) in passages(&mut ways.there) {
        assert!(is_on_grid(t + delay - far, 1.0 * MS), "{t} {delay}");
    }
    let delays = sorted_delays(&mut ways.there);
    let least = far + grant + 3.0 * MS;
    assert!(delays[0] >= least && delays[0] < least + 2.0 * MS + 0.1 * request, "{}", delays[0]);
    // Failed transmissions come 8 ms later.
    let (mut ways, d) = drawn(nr::draw, |d| {
        still(d)
            && value(d, "radio up", "slot") == 0.5
            && value(d, "radio down", "DRX cycle") == 0.0
    });
    let far = value(&d, "cell 1", "a cell's backhaul") * MS;
    let length = value(&d, "radio up", "TDD pattern");
    let upstream = libm::rint(value(&d, "radio up", "slots upstream") * length).max(1.0);
    for (way, is_up) in [(&mut ways.there, true), (&mut ways.back, false)] {
        for (t, delay) in passages(way) {
            // Without backhaul, slot and decoding: when the transmission began.
            let begun = t + delay - 1.0 * MS - if is_up { far } else { 0.0 };
            assert!(is_on_grid(begun, 0.5 * MS), "{t} {delay}");
            let place = libm::fmod(libm::rint(begun / (0.5 * MS)), length);
            assert_eq!(place >= length - upstream, is_up, "{t} {delay}");
        }
    }
}

#[test]
fn a_radio_that_sleeps_answers_on_its_cycle() {
    let sleeps = |d: &Drawing| {
        value(d, "radio down", "DRX cycle") > 0.0 && value(d, "radio up", "handovers") == 0.0
    };
    let (mut ways, d) = drawn(lte::draw, sleeps);
    let cycle = value(&d, "radio down", "DRX cycle") * MS;
    let phase = d.phase("radio sleep", cycle);
    let mut on_cycle = 0;
    for number in 0..500 {
        let t = 50.0 + number as f64 * 16.0007;
        let came = ways.back.pass(Packet { number, begun: t - 0.3 }, t).unwrap();
        let far = value(&d, "cell 1", "a cell's backhaul") * MS;
        let on = next(t + far, cycle, phase);
        assert!(came >= on, "{t} {came} {on}");
        on_cycle += usize::from(came < on + 5.0 * MS);
    }
    assert!(on_cycle > 250, "{on_cycle}");
}

#[test]
fn wifi_contends_and_dozes() {
    let quiet = |d: &Drawing| {
        value(d, "air", "between background scans") == 0.0 && value(d, "air", "power save") == 1.0
    };
    let (mut ways, d) = drawn(wifi::draw, quiet);
    let airtime = value(&d, "air up", "own frame") * US;
    let delays = sorted_delays(&mut ways.there);
    let least = airtime + 34.0 * US;
    assert!(delays[0] >= least - 1e-9 && delays[0] < least + 100.0 * US, "{}", delays[0]);
    let beacon = value(&d, "air", "listen interval") * 102.4 * MS;
    let phase = d.phase("beacons", beacon);
    for number in 0..200 {
        let t = 50.0 + number as f64 * 16.0007;
        let Some(came) = ways.back.pass(Packet { number, begun: t - 1.0 }, t) else { continue };
        assert!(came > next(t, beacon, phase), "{t} {came}");
    }
}

#[test]
fn satellites_change_every_15_s_for_both_ways() {
    let (mut ways, d) = drawn(leo::draw, |_| true);
    assert!((ways.changes.len() as f64 - 5760.0).abs() < 2.0);
    let phase = d.phase("satellite", 15.0);
    assert!(ways.changes.iter().all(|c| is_on_grid(c.at - phase, 15.0) && c.by[0] == c.by[1]));
    let outage = value(&d, "satellite", "lost after a handover") * MS;
    let least = value(&d, "satellite", "shortest range, one way") * MS;
    for way in [&mut ways.there, &mut ways.back] {
        for (t, delay) in passages(way) {
            let since = t - next(t, 15.0, phase) + 15.0;
            assert!(since >= outage || since > 14.999_999, "{t}");
            assert!(delay >= least, "{delay}");
        }
    }
    // What is sent at the same time has the same propagation, and a queue of its own.
    let there = passages(&mut ways.there);
    let back = passages(&mut ways.back);
    let mean = |all: &[(f64, f64)]| truechimer_report::mean(all.iter().map(|(_, delay)| delay));
    assert!((mean(&there) - mean(&back)).abs() < 25.0 * MS);
}

#[test]
fn interrupts_wait_no_longer_than_they_may() {
    let (mut ways, d) =
        drawn(interrupts::draw, |d| value(d, "host", "timer begins with the packet") == 0.0);
    let coalesced = value(&d, "host", "interrupts apart at least") * US;
    let exit = value(&d, "host", "deepest idle state's exit") * US;
    let delays = sorted_delays(&mut ways.back);
    assert!(delays[0] > 0.0 && delays[0] < 0.1 * coalesced + 4.0 * US);
    let most = coalesced + exit.max(3.0 * US);
    assert!(delays[delays.len() - 1 - delays.len() / 100] < most + 5.0 * US);
    let wake = value(&d, "host", "link wakes up") * US;
    assert!(sorted_delays(&mut ways.there)[PACKETS as usize / 2] < wake + 2.0 * US);
}

#[test]
fn standing_queues_stand() {
    let one_way = |d: &Drawing| {
        value(d, "queue", "directions") == 1.0 && value(d, "queue", "queue when low") > 0.5
    };
    let (mut ways, d) = drawn(bufferbloat::draw, one_way);
    assert!(sorted_delays(&mut ways.back)[PACKETS as usize * 9 / 10] < 0.1 * MS);
    let [begin, end] = [&ways.changes[0], &ways.changes[1]];
    assert_eq!(begin.by[0], -end.by[0]);
    assert_eq!(begin.by[1], 0.0);
    let ramp = value(&d, "queue 1", "time to fill");
    let rough = value(&d, "queue", "slow scatter");
    let full = begin.by[0] / value(&d, "queue", "queue when low");
    for (t, delay) in passages(&mut ways.there) {
        if t > begin.at + ramp && t < end.at {
            assert!(delay >= begin.by[0] * (1.0 - 5.0 * rough).max(0.0), "{t} {delay}");
            assert!(delay < full * (1.0 + 5.0 * rough) + 1.0 * MS, "{t} {delay}");
        } else if t < begin.at {
            assert!(delay < 1.0 * MS, "{t} {delay}");
        }
    }
}

#[test]
fn jitter_hardly_meets_its_floor() {
    let rare = |d: &Drawing| value(d, "jitter", "rarity of the floor") > 3.0;
    let (mut ways, d) =
        drawn(jitter::draw, |d| rare(d) && value(d, "jitter", "sway of the width") == 0.0);
    let width = value(&d, "jitter", "width") * MS;
    let delays = sorted_delays(&mut ways.there);
    assert!(delays[0] > 0.0 && delays[delays.len() - 1] <= width);
    let near = delays.iter().filter(|delay| **delay < 0.05 * width).count() as f64;
    assert!(near < 0.01 * PACKETS as f64, "{near}");
    let (a, b) =
        (value(&d, "jitter", "rarity of the floor"), value(&d, "jitter", "rarity of the ceiling"));
    let mean = truechimer_report::mean(&delays);
    assert!((mean / width - a / (a + b)).abs() < 0.02, "{mean} {width}");
}

#[test]
fn coarse_stamps_are_within_their_quantum() {
    let mut random = Random::new(1, "stamps");
    let mut kinds = [0; 2];
    for seed in 0..30 {
        let mut d = Drawing::new(seed);
        let stamping = quantised::draw(&mut d);
        let quantum = span(stamping.quantum());
        let blurred = value(&d, "server", "cut, rounded, blurred") == 2.0;
        kinds[usize::from(blurred)] += 1;
        for n in 0..200 {
            let at = Instant::new(BEGIN, 0) + span(n as f64 * 16.000_37);
            let stamp = stamping.stamp(at, &mut random);
            assert!((stamp - at).abs() <= quantum, "{stamping:?}");
            // To within NTP's own resolution.
            let over = stamp.0.rem_euclid(quantum.0);
            assert!(blurred || over.min(quantum.0 - over) <= 1 << 32, "{stamping:?} {over}");
        }
    }
    assert!(kinds.iter().all(|count| *count > 3), "{kinds:?}");
}

#[test]
fn requests_begin_close_together() {
    let gaps: Vec<u32> = (0..32).map(|n| interval(n, 64)).collect();
    assert_eq!(gaps[..12], [2, 2, 2, 2, 2, 2, 2, 4, 4, 4, 8, 8]);
    assert_eq!(gaps[22..], [8, 16, 16, 16, 16, 32, 32, 32, 32, 64]);
    assert!((0..100).all(|n| interval(n, 1) == 1));
}
