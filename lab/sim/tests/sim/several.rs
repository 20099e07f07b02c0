//! Several servers: a minority that lies is found out and moves nothing, those that agree are
//! combined, and whoever comes or goes leaves the time where it is.

use truechimer_engine::SourceStatus;
use truechimer_sim::{Options, Random, Run, Scenario, Statistics, find, parse_delays, simulate};

const HOUR: f64 = 3600.0;
/// When the catalogue's servers begin to lie, and for how long, s.
const FOUR: f64 = 4.0 * HOUR;
const LONG: f64 = 2.0 * HOUR;
/// A server on the LAN puts the time into an interval of at least half its round trip to each side.
const LAN: f64 = 110e-6;

/// Runs a scenario of the catalogue. The bound has to hold in every second.
fn run(name: &str, hours: f64) -> Run {
    run_as(name, hours, 1)
}

/// Runs it with another seed.
fn run_as(name: &str, hours: f64, seed: u64) -> Run {
    let scenario = find(name).unwrap().with_hours(hours).unwrap();
    let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
    let inside = Statistics::of(&[&run.trace]).inside_bound;
    assert!(inside.seconds as f64 > 0.99 * 3600.0 * hours, "{name}: {inside:?}");
    assert_eq!(inside.outside, 0, "{name}: {inside:?}");
    run
}

/// The largest error from `from` to `to`, s.
fn worst(run: &Run, from: f64, to: f64) -> f64 {
    let within = run.trace.samples.iter().filter(|s| (from..to).contains(&s.at));
    within.map(|s| s.error.abs()).fold(0.0, f64::max)
}

/// The largest change of the error within a second from `from` on, s.
fn largest_step(run: &Run, from: f64) -> f64 {
    let pairs = run.trace.samples.windows(2).filter(|pair| pair[0].at > from);
    pairs.map(|pair| (pair[1].error - pair[0].error).abs()).fold(0.0, f64::max)
}

/// The share of the time from `from` to `to` for which a source was taken for one of these.
fn taken_for(run: &Run, source: &str, parts: &[SourceStatus], from: f64, to: f64) -> f64 {
    let source = run.trace.sources.iter().position(|name| name == source).unwrap();
    let marks: Vec<_> = run.marks.iter().filter(|mark| mark.source == source).collect();
    let until = |i: usize| marks.get(i + 1).map_or(f64::INFINITY, |next| next.at).min(to);
    let held = marks.iter().enumerate().filter(|(_, mark)| parts.contains(&mark.status));
    held.map(|(i, mark)| (until(i) - mark.at.max(from)).max(0.0)).sum::<f64>() / (to - from)
}

/// Number of times that `source` was taken for something else from `from` on.
fn changes(run: &Run, source: &str, from: f64) -> usize {
    let source = run.trace.sources.iter().position(|name| name == source).unwrap();
    run.marks.iter().filter(|mark| mark.source == source && mark.at > from).count()
}

const USED: [SourceStatus; 2] = [SourceStatus::Selected, SourceStatus::Combined];

/// They are not believed while they lie, nor at any moment moves the time because they begin or
/// end.
#[test]
fn liars_that_can_be_told_are_falsetickers_and_move_nothing() {
    for (name, liars) in [
        ("liar-1ms", &["liar"][..]),
        ("liars-two-of-five", &["liar", "accomplice"]),
        ("liar-ramp", &["liar"]),
    ] {
        let run = run(name, 8.0);
        for liar in liars {
            let marked = |parts: &[SourceStatus], from, to| taken_for(&run, liar, parts, from, to);
            let lying = marked(&[SourceStatus::Falseticker], FOUR, FOUR + LONG);
            assert!(lying > 0.99, "{name}: {liar} was marked for {lying} of the time");
            assert!(marked(&USED, HOUR, FOUR) > 0.9, "{name}: honest until then");
            let after = FOUR + LONG + 120.0;
            assert!(marked(&USED, after, 8.0 * HOUR) > 0.9, "{name}: and soon after");
            assert!(changes(&run, liar, FOUR) < 8, "{name}: {:?}", run.marks);
        }
        assert!(worst(&run, 600.0, 8.0 * HOUR) < 15e-6, "{name}");
        assert!(largest_step(&run, 600.0) < 10e-6, "{name}");
    }
}

/// The catalogue's older ones: the near liar that RADclock follows, and one that never told the
/// truth.
#[test]
fn a_near_liar_is_not_followed() {
    for (name, from) in [("liar-of-three", 16.0 * HOUR), ("liar-from-the-start", 600.0)] {
        let hours = from / HOUR + 2.0;
        let run = run(name, hours);
        let lying = taken_for(&run, "liar", &[SourceStatus::Falseticker], from, hours * HOUR);
        assert!(lying > 0.99, "{name}: {lying}");
        assert!(worst(&run, 600.0, hours * HOUR) < 15e-6, "{name}");
    }
}

/// Within what the honest ones leave open nobody can tell a lie for certain: such a liar is left
/// out as improbable, and never moves the time beyond what the honest ones allow.
#[test]
fn liars_within_the_bounds_have_little_say() {
    for (name, liars) in
        [("liar-100us", &["liar"][..]), ("liars-two-of-five-100us", &["liar", "accomplice"])]
    {
        let run = run(name, 8.0);
        for liar in liars {
            let used = taken_for(&run, liar, &USED, FOUR + 120.0, FOUR + LONG);
            assert!(used < 0.35, "{name}: {liar} had a part for {used} of the time");
        }
        assert!(worst(&run, 600.0, 8.0 * HOUR) < 25e-6, "{name}");
        assert!(largest_step(&run, 600.0) < 15e-6, "{name}");
    }
    // How far it gets before the others tell is a matter of luck: their queues, and when they are
    // asked.
    let creeps: Vec<_> = (1..=5).map(|seed| run_as("liar-creeps", 12.0, seed)).collect();
    let mut far: Vec<_> = creeps.iter().map(|run| worst(run, 600.0, 12.0 * HOUR)).collect();
    far.sort_by(f64::total_cmp);
    assert!(far[2] < LAN / 3.0 && far[4] < LAN * 2.0 / 3.0, "{far:?}");
    for run in &creeps {
        let late = taken_for(run, "liar", &USED, FOUR + 1.0 * HOUR, FOUR + 6.0 * HOUR);
        assert!(late < 0.01, "{late}");
    }
    // It claims to be better than anybody; nobody believes it more for that.
    let boasts = run("liar-boasts", 8.0);
    assert!(worst(&boasts, 600.0, 8.0 * HOUR) < 15e-6);
}

#[test]
fn a_server_that_lies_now_and_then_is_believed_in_between() {
    let run = run("liar-again", 8.0);
    for n in 0..9 {
        let from = FOUR + 1200.0 * f64::from(n);
        let lying = taken_for(&run, "liar", &[SourceStatus::Falseticker], from, from + 600.0);
        let right = taken_for(&run, "liar", &USED, from + 620.0, from + 1200.0);
        assert!(lying > 0.95 && right > 0.9, "{n}: {lying} {right}");
    }
    assert!(worst(&run, 600.0, 8.0 * HOUR) < 15e-6);
    assert!(largest_step(&run, 600.0) < 10e-6);
}

#[test]
fn a_server_without_its_reference_has_no_say() {
    let run = run("reference-lost", 9.0);
    let used = taken_for(&run, "lost", &USED, FOUR + 3.1 * HOUR, FOUR + 4.0 * HOUR);
    assert!(used < 0.01, "it says itself that it is not synchronised: {used}");
    assert!(taken_for(&run, "lost", &USED, FOUR + 4.1 * HOUR, 9.0 * HOUR) > 0.9);
    assert!(worst(&run, 600.0, 9.0 * HOUR) < 15e-6);
    assert!(largest_step(&run, 600.0) < 10e-6);
}

/// Two far servers lean by 3 ms to the same side; the near one has taught how much.
#[test]
fn what_a_near_server_has_taught_outlives_it() {
    let dies = run("near-dies", 9.0);
    assert!(worst(&dies, 600.0, FOUR) < 10e-6);
    assert!(worst(&dies, FOUR, 9.0 * HOUR) < 300e-6, "not the 3 ms that they lean by");
    assert!(largest_step(&dies, 600.0) < 60e-6);
    assert!(worst(&dies, 8.3 * HOUR, 9.0 * HOUR) < 15e-6, "and back");
}

#[test]
fn a_better_server_that_comes_later_is_glided_to() {
    let late = run("near-comes-late", 5.0);
    assert!(worst(&late, HOUR, 3.0 * HOUR) > 2e-3);
    assert!(worst(&late, 3.5 * HOUR, 5.0 * HOUR) < 20e-6);
    // 3 ms, in steps of a few seconds of a glide of some minutes.
    let (first, most) = (largest_step(&late, 600.0), worst(&late, HOUR, 3.0 * HOUR));
    assert!(first < most / 8.0, "{first} of {most}");
}

/// Where a second source tells, the offset does not move.
#[test]
fn a_shift_of_one_direction_is_told_by_the_second_server() {
    for name in ["shift-second-tells", "shift-up-second-tells"] {
        let run = run(name, 8.0);
        assert!(worst(&run, 600.0, 8.0 * HOUR) < 15e-6, "{name}");
        assert!(largest_step(&run, 600.0) < 10e-6, "{name}");
    }
}

/// A leap second is right to the count, and nobody who smears it has a part.
#[test]
fn servers_that_smear_are_not_mixed_with_those_that_do_not() {
    let (begin, end) = (2.0 * HOUR, 26.0 * HOUR);
    for (name, smearing) in [
        ("smear-of-four", &["smearing"][..]),
        ("smear-two-of-three", &["smearing", "too"]),
        ("smear-two-of-three-deleted", &["smearing", "too"]),
    ] {
        let run = run(name, 27.0);
        assert!(worst(&run, 600.0, 27.0 * HOUR) < 15e-6, "{name}");
        for server in smearing {
            let known = taken_for(&run, server, &[SourceStatus::Unselectable], begin + 300.0, end);
            assert!(known > 0.99, "{name}: {server}: {known}");
            let used = taken_for(&run, server, &USED, begin + 60.0, end);
            assert!(used < 0.001, "{name}: {server}: {used}");
            assert!(taken_for(&run, server, &USED, end + 120.0, 27.0 * HOUR) > 0.9, "{name}");
        }
    }
    let far = run("smear-far-of-three", 27.0);
    assert!(taken_for(&far, "far", &[SourceStatus::Unselectable], begin + HOUR, end) > 0.99);
    assert!(worst(&far, 600.0, 27.0 * HOUR) < 15e-6);
}

/// Where all smear, their smear is taken off once it is known for one. Until then, for a minute or
/// two, the time may go along, and the bound has room for it.
#[test]
fn where_all_servers_smear_the_smear_is_taken_off() {
    for name in ["smear-alone", "smear-all"] {
        let run = run(name, 27.0);
        let known = 2.0 * HOUR + 150.0;
        assert!(worst(&run, 600.0, 2.0 * HOUR) < 15e-6, "{name}");
        assert!(worst(&run, 2.0 * HOUR, known) < 1.5e-3, "{name}");
        // What it made of the rate takes two minutes more to be forgotten.
        let settled = known + 120.0;
        assert!(worst(&run, known, settled) < 40e-6, "{name}");
        assert!(worst(&run, settled, 27.0 * HOUR) < 15e-6, "{name}");
        let widest = |from: f64, to: f64| {
            let within = run.trace.samples.iter().filter(|s| (from..to).contains(&s.at));
            within.map(|s| s.bound).fold(0.0, f64::max)
        };
        let noon = 2.0 * HOUR;
        // By the time that it is known it has come to a millisecond: so far the newest reply may be
        // off, and so far away is it.
        let first = widest(noon, noon + 600.0);
        assert!(first < 2.0e-3, "{name}: {first}");
        // From then on a thousandth of the smear is left.
        let later = widest(noon + 600.0, noon + HOUR);
        assert!(later < 0.3e-3, "{name}: {later}");
    }
}

/// A far one takes half an hour to be known for it. Until then it carries the clock along, and the
/// bound covers that. If the rate is known for two hours only, that may last all day, and the bound
/// covers it until the day is over and the server is right again.
#[test]
fn a_far_server_that_smears_alone_stays_within_the_bound() {
    let far = find("smear-far-of-three").unwrap();
    for (before, hours, known) in [(0.0, 27.0, false), (10.0, 8.0, true)] {
        let mut scenario = far.clone().with_hours(hours + before).unwrap();
        scenario.servers.retain(|server| server.name == "far");
        scenario.begin -= (before * HOUR) as i64;
        let run = simulate(&scenario, &Options { seed: 1, ..Options::default() }).unwrap();
        let inside = Statistics::of(&[&run.trace]).inside_bound;
        assert!(inside.seconds > 28_000 && inside.outside == 0, "{before}: {inside:?}");
        let late = worst(&run, (4.0 + before) * HOUR, (8.0 + before) * HOUR);
        assert_eq!(late < 1e-3, known, "{before}: {late}");
    }
}

/// Others that are worse take nothing from what the nearest gives: alone it comes to 1.18 µs.
#[test]
fn far_servers_do_not_make_a_near_one_worse() {
    for (name, limit) in [("near-and-far", 1.2e-6), ("five-servers", 1.3e-6)] {
        let mut squares = (0.0, 0.0);
        for seed in 1..=2 {
            let scenario = find(name).unwrap();
            let from = scenario.warm_up_hours * HOUR;
            let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
            assert_eq!(Statistics::of(&[&run.trace]).inside_bound.outside, 0, "{name}");
            for sample in run.trace.samples.iter().filter(|s| s.at > from) {
                squares = (squares.0 + sample.error * sample.error, squares.1 + 1.0);
            }
        }
        let rms = f64::sqrt(squares.0 / squares.1);
        assert!(rms < limit, "{name}: {rms}");
    }
}

#[test]
fn a_second_that_is_left_out_is_left_out() {
    let run = run("leap-deleted", 15.0);
    assert!(worst(&run, 600.0, 15.0 * HOUR) < 15e-6);
}

/// Of five servers, far ones that lean by milliseconds have next to no say.
#[test]
fn the_nearest_counts_at_long_polls_too() {
    for seed in 1..=3 {
        let scenario = find("five-servers-256").unwrap().with_hours(10.0).unwrap();
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        assert_eq!(Statistics::of(&[&run.trace]).inside_bound.outside, 0, "seed {seed}");
        let late = worst(&run, 2.0 * HOUR, 10.0 * HOUR);
        assert!(late < 80e-6, "seed {seed}: {late}");
    }
}

/// Two servers on a quiet wire, replies late by some µs. After a quarter of an hour the first falls silent and
/// the other is heard for the first time. What that one says at first is a few µs off, and the time does not go by it.
#[test]
fn first_replies_of_a_newcomer_do_not_move_a_clock_that_knew_better() {
    let server = |name: &str, silent: &[(u32, u32)]| {
        let silent = silent
            .iter()
            .map(|(from, to)| format!("[[server.silence]]\nfrom-s = {from}\nto-s = {to}\n"));
        format!(
            "[[server]]\nname = \"{name}\"\nstratum = 1\nroot-delay-us = 0.0\nroot-dispersion-us = 1.0\n\
             precision = -25\nresidence-us = 20.0\n{}\
             [server.forward]\nfloor-ms = 0.017\n[server.backward]\nfloor-ms = 0.017\n\
             [[server.backward.queue]]\nwhen = \"always\"\nlaw.recorded.file = \"late\"\n",
            silent.collect::<String>()
        )
    };
    let toml = format!(
        "name = \"change\"\nhours = 0.3\nwarm-up-hours = 0.05\npoll = 1\nburst = true\n\
         [oscillator]\nskew-ppm = 4.0\nwalk-per-root-s = 0.000000001\n{}{}",
        server("first", &[(900, 100_000)]),
        server("second", &[(0, 900)])
    );
    for seed in 1..=12 {
        // As interrupts come: evenly up to 15 µs.
        let mut random = Random::new(seed, "late");
        let late = (0..4096).map(|_| format!("{:.9}\n", 15e-6 * random.uniform()));
        let late: String = late.collect();
        let read = |_: &str| parse_delays(&late).map_err(|why| why.to_string());
        let scenario = Scenario::from_toml_with(&toml, read).unwrap();
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let before = worst(&run, 720.0, 900.0);
        assert!(before < 0.6e-6, "{seed}: {before}");
        let after = worst(&run, 900.0, 1080.0);
        assert!(after < 1e-6, "{seed}: {before} before, {after} after");
    }
}
