//! Runs of the same seed are the same; and every estimator sees the same packets.

use truechimer_estimators::{Kind, NTP_PLL, OURS, PI, PUBLISHED, TABLE};
use truechimer_sim::{Options, Run, Scenario, find, simulate, simulate_alike, write_stamps};

fn run(scenario: &Scenario, estimator: Kind, seed: u64) -> Run {
    simulate(scenario, &Options { estimator, seed, poll_plan: None }).unwrap()
}

#[test]
fn a_seed_decides_everything() {
    for name in ["lan-bursts-both", "five-servers", "noisy-host", "suspend", "server-wander"] {
        let scenario = find(name).unwrap().with_hours(17.5).unwrap();
        let first = run(&scenario, OURS, 5);
        assert!(first == run(&scenario, OURS, 5), "{name}: not twice the same");
        let other = run(&scenario, OURS, 6);
        assert!(first.stamps != other.stamps, "{name}: another seed, the same packets");
    }
}

/// A scenario that went through its text is the same in all that it does.
#[test]
fn text_changes_nothing() {
    let scenario = find("wifi").unwrap().with_hours(5.0).unwrap();
    let again = Scenario::from_toml(&scenario.to_toml()).unwrap();
    assert!(run(&scenario, OURS, 1) == run(&again, OURS, 1));
}

#[test]
fn all_estimators_see_the_same_packets() {
    for (name, hours) in [
        ("lan", 5.0),
        ("lan-poll-1024", 12.0),
        ("outage", 18.5),
        ("five-servers-256", 6.0),
        ("noisy-host", 17.0),
        ("user-stamps", 3.0),
        ("server-restart", 17.0),
        ("server-refuses", 18.0),
        ("cold-restart", 17.0),
        ("wifi", 3.0),
        ("lan-adaptive", 8.0),
    ] {
        let scenario = find(name).unwrap().with_hours(hours).unwrap();
        let packets = TABLE.iter().map(|kind| {
            let run = simulate_alike(&scenario, *kind, 11).unwrap();
            let seen: Vec<_> =
                run.trace.exchanges.iter().map(|e| (e.source, e.true_delays)).collect();
            assert_eq!(run.trace.estimator, kind.name());
            (run.stamps, seen)
        });
        let packets: Vec<_> = packets.collect();
        assert!(!packets[0].1.is_empty());
        for (kind, other) in TABLE.iter().zip(&packets) {
            assert!(*other == packets[0], "{name}: {kind:?} saw other packets");
        }
    }
}

/// Poll intervals that one estimator chose can be given to another one.
#[test]
fn a_poll_plan_is_repeated() {
    let scenario = find("lan-adaptive").unwrap().with_hours(8.0).unwrap();
    let chosen = run(&scenario, NTP_PLL, 2);
    assert!(!chosen.poll_plan.0.is_empty(), "it never chose another");
    let plan = Some(chosen.poll_plan.clone());
    let options = Options { estimator: OURS, seed: 2, poll_plan: plan };
    let repeated = simulate(&scenario, &options).unwrap();
    assert_eq!(repeated.poll_plan, chosen.poll_plan);
    assert_eq!(repeated.stamps, chosen.stamps);
}

#[test]
fn stamps_are_those_of_the_packets() {
    let scenario = find("lan").unwrap().with_hours(1.0).unwrap();
    let run = run(&scenario, OURS, 1);
    assert_eq!(run.stamps.len(), 1);
    assert_eq!(run.stamps[0].len(), run.trace.exchanges.len());
    for (stamped, exchange) in run.stamps[0].iter().zip(&run.trace.exchanges) {
        let reference = stamped.reference.unwrap();
        let forward = (stamped.server_received - reference.sent).as_nanos() as f64 * 1e-9;
        let (there, _) = exchange.true_delays.unwrap();
        // The stamp's own error is at most 100 ns.
        assert!((forward - there).abs() <= 102e-9, "{forward} {there}");
        assert!(there >= 100e-6 - 1e-9);
        assert_eq!(reference.sent.secs() / 1_000_000, 1800, "Unix seconds");
    }
    let mut text = String::new();
    write_stamps(&run.stamps[0], &mut text).unwrap();
    assert!(text.lines().count() >= run.stamps[0].len());
}

/// Sums that every machine, and every build of the same code, has to come to: change a figure here
/// only together with the estimator that it is of. (The whole samples and stamps go into it.)
#[test]
fn every_build_comes_to_the_same() {
    let found = EXPECTED.map(|(name, kind, _)| {
        let scenario = find(name).unwrap().with_hours(2.0).unwrap();
        let run = simulate_alike(&scenario, kind, 5).unwrap();
        let mut sum = Checksum(0xcbf2_9ce4_8422_2325);
        for sample in &run.trace.samples {
            let s = [sample.error, sample.bound, sample.rate_error, sample.skew];
            s.iter().for_each(|value| sum.add(value.to_bits()));
        }
        for stamp in run.stamps.iter().flatten() {
            sum.add(stamp.received.0 ^ stamp.server_sent.0 as u64);
        }
        (name, kind, format!("{:016x}", sum.0))
    });
    let expected = EXPECTED.map(|(name, kind, sum)| (name, kind, sum.to_owned()));
    assert_eq!(found, expected);
}

/// FNV-1a over 64-bit words.
struct Checksum(u64);

impl Checksum {
    fn add(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

const EXPECTED: [(&str, Kind, &str); 8] = [
    ("wifi", OURS, "f20a9d146b73b015"),
    ("wifi", PUBLISHED, "e7c12b71175a0186"),
    ("wifi", PI, "3366ae8832dd8ad6"),
    ("wifi", NTP_PLL, "58426d80cbd4d377"),
    ("five-servers", OURS, "59d96d06b215d9a0"),
    ("five-servers", PUBLISHED, "b33c42f8a8c9efc0"),
    ("five-servers", PI, "8b9bfed26566fb14"),
    ("five-servers", NTP_PLL, "008360b4d6975ad2"),
];
