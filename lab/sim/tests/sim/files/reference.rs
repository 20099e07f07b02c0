//! docs/reference/scenarios.md against the code: its examples are read, it has every key, and its ranges and
//! defaults are those of the code.

use truechimer_engine::{AuthenticationMode, StepPolicy};
use truechimer_sim::host::{HostSpec, Jump, Load, RequestDelay, StampLaw, StampSpec, Suspend};
use truechimer_sim::oscillator::{self, OscillatorSpec, Sine};
use truechimer_sim::path::{Law, Outage, PathSpec, Queue, Shift, When};
use truechimer_sim::pps::PpsSpec;
use truechimer_sim::scenario::{Change, LeapSpec, ResolveSpec, Restart};
use truechimer_sim::server::{
    self, Forgery, Lapse, Lie, Refuse, ServerRestart, ServerSpec, Stretch, Wander, Warned, Warning,
};
use truechimer_sim::system_clock::{Set, SystemClockSpec};
use truechimer_sim::{AddressSpec, Scenario, ScenarioError, parse_delays};

const REFERENCE: &str = include_str!("../../../../../docs/reference/scenarios.md");

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml_with(text, |_| parse_delays("0.001").map_err(|e| e.to_string()))
}

/// A scenario that has everything: no field is left to a default here, so that a new one is
/// missed by the compiler.
fn everything() -> Scenario {
    let (from_s, to_s, at_s) = (10.0, 20.0, 30.0);
    let queue = |law: Law, when: When| Queue { law, when };
    let queues = vec![
        queue(Law::Constant { ms: 1.0 }, When::Always),
        queue(
            Law::Exponential { mean_ms: 1.0 },
            When::Bursts { first_s: 1.0, length_s: 2.0, period_s: 3.0 },
        ),
        queue(
            Law::Gamma { shape: 1.0, scale_ms: 1.0 },
            When::Daily { peak_s: 1.0, low: 0.5, period_s: 7.0 },
        ),
        queue(
            Law::Lomax { shape: 1.0, scale_ms: 1.0, cap_ms: Some(1.0) },
            When::Between { from_s, to_s },
        ),
        queue(
            Law::Recorded { file: "x".into(), delays: None },
            When::Ramp { from_s, to_s, until_s: Some(30.0) },
        ),
    ];
    let forward = PathSpec {
        floor_ms: 5.0,
        loss: 0.1,
        duplication: 0.1,
        reordering: 0.1,
        held_back_ms: 1.0,
        queues,
        shifts: vec![Shift { at_s, by_ms: 1.0, until_s: Some(40.0) }],
        outages: vec![Outage { from_s, to_s }],
    };
    let server = ServerSpec {
        name: "server".into(),
        poll: Some(32),
        ptp_sync_s: Some(1.0),
        stratum: 2,
        root_delay_us: 1.5,
        root_dispersion_us: 1.5,
        precision: -20,
        quantum_us: 1.5,
        residence_us: 1.5,
        residence_jitter_us: 1.5,
        offset_ms: 1.5,
        smears: true,
        announces: false,
        proof: true,
        steps: vec![server::Step { at_s, by_ms: 1.0 }],
        ramps: vec![server::Ramp { from_s, to_s, ppm: 1.0 }],
        lies: vec![Lie { from_s, to_s, by_ms: 1.0 }],
        wander: Some(Wander { us_per_root_s: 1.0, honest: true }),
        restarts: vec![ServerRestart { at_s, silent_s: 1.0, unsynchronised_s: 1.0 }],
        silences: vec![Stretch { from_s, to_s }],
        lapses: vec![Lapse { from_s, lost_s: 1.0, silent_s: 1.0, ppm: 1.0, claimed_ppm: 1.0 }],
        declared_asymmetry_us: Some(1.0),
        declared_error_us: 1.0,
        refusals: vec![Refuse { from_s, to_s, code: "RATE".into() }],
        warnings: vec![Warning { from_s, to_s, leap: Warned::Insert }],
        replays: vec![Stretch { from_s, to_s }],
        forgeries: vec![Forgery {
            from_s,
            to_s,
            by_ms: 1.0,
            code: Some("RATE".into()),
            on_path: false,
        }],
        own_address_until_s: Some(1.0),
        leads_to: Some("server".into()),
        addresses: vec![AddressSpec { from_s, to_s: Some(to_s), machine: Box::default() }],
        forward: forward.clone(),
        backward: PathSpec::default(),
    };
    Scenario {
        name: "all".into(),
        about: "everything".into(),
        hours: 20.0,
        warm_up_hours: 2.0,
        poll: 64,
        adaptive: Some([16, 64]),
        burst: false,
        max_wander_ppm: 1.5,
        accept_step_after_s: 600.0,
        max_step_s: 86400.0,
        min_sources: Some(3),
        pool: Some(4),
        authentication: AuthenticationMode::Require,
        begin: 1_800_000_001,
        leap_list: false,
        leap: Some(LeapSpec { midnight: 1_814_400_000, inserted: false }),
        resolve: ResolveSpec { takes_s: 1.0, fails_until_s: 2.0 },
        changes: vec![Change { at_s, poll: Some(64), max_wander_ppm: Some(1.0) }],
        restarts: vec![Restart { at_s, gap_s: 1.0, warm: false, saved_rate: false }],
        oscillator: OscillatorSpec {
            skew_ppm: 1.0,
            walk_per_root_s: 1e-9,
            white_frequency_at_1s: 1e-9,
            flicker_phase_at_1s: 1e-9,
            white_phase_at_1s: 1e-9,
            sines: vec![Sine { amplitude_ppm: 1.0, period_s: 100.0, phase_deg: 1.0 }],
            ramps: vec![oscillator::Ramp { from_s, to_s, ppm: 1.0 }],
            steps: vec![oscillator::Step { at_s, ppm: 1.0 }],
        },
        system_clock: Some(SystemClockSpec {
            offset_ms: 1.0,
            skew_ppm: 1.0,
            frequency_ppm: 1.0,
            step: StepPolicy::Always,
            step_above_ms: 2.0,
            noise_ns: 1.0,
            sets: vec![Set { at_s, by_ms: 1.0 }],
        }),
        host: HostSpec {
            counter_hz: 1_000_000_000,
            tick_ms: 2.0,
            wake_us: 2.0,
            stamps: StampSpec {
                law: StampLaw::User,
                noise_ns: 1.0,
                stated_ns: 1.0,
                outliers: 0.1,
                outlier_us: 1.0,
                send_us: 1.0,
                receive_us: 1.0,
                held_up: 0.1,
                held_up_ms: 1.0,
            },
            loads: vec![Load { from_s, to_s, factor: 2.0, stalls: 0.1, stall_ms: 1.0 }],
            suspends: vec![Suspend { from_s, to_s, counter_stops: true }],
            jumps: vec![Jump { at_s, by_s: 1.0, raw_too: true }],
            request_delays: vec![RequestDelay { from_s, to_s, by_us: 1.0 }],
        },
        servers: vec![server],
        pulses: vec![PpsSpec {
            name: "p".into(),
            latency_us: 20.5,
            late_us: 2.5,
            offset_ms: 1.5,
            loss: 0.1,
            ramps: vec![server::Ramp { from_s, to_s, ppm: 1.0 }],
            lies: vec![Lie { from_s, to_s, by_ms: 1.0 }],
            silences: vec![Stretch { from_s, to_s }],
        }],
    }
}

/// A row of one of the reference's tables.
#[derive(Debug)]
struct Row {
    /// The table's heading in a file, in brackets; nothing above the first one.
    heading: String,
    key: String,
    range: String,
    default: String,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut section = "";
    for line in REFERENCE.lines() {
        if line.starts_with('#') {
            section = line.split('`').nth(1).unwrap_or("");
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, key, _, range, default, _, _] = cells[..] else { continue };
        let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`')) else {
            continue;
        };
        // `law.gamma.shape` stands in a table of its own when a scenario is printed.
        let (heading, key) = match key.rsplit_once('.') {
            Some((above, key)) => (format!("[{}.{above}]", section.trim_matches(['[', ']'])), key),
            None => (section.to_owned(), key),
        };
        // A whole table, whose keys stand in that table's own rows.
        if range.starts_with("as `[[") {
            continue;
        }
        let [key, range, default] = [key, range, default].map(str::to_owned);
        rows.push(Row { heading, key, range, default });
    }
    rows
}

/// The line, from 0, of a key under the first heading like this.
fn place(text: &str, heading: &str, key: &str) -> Option<usize> {
    let mut current = "";
    let begins = format!("{key} = ");
    text.lines().position(|line| {
        if line.starts_with('[') {
            current = line;
        }
        current == heading && line.starts_with(&begins)
    })
}

/// The text with another line at this place, or none.
fn changed(text: &str, at: usize, line: Option<String>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match line {
        Some(line) => lines[at] = line,
        None => drop(lines.remove(at)),
    }
    lines.join("\n")
}

#[test]
fn every_example_is_a_scenario() {
    let blocks: Vec<&str> = REFERENCE
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 4);
    for block in blocks {
        let scenario = Scenario::from_toml(block).unwrap_or_else(|why| panic!("{why}\n{block}"));
        truechimer_sim::simulate(
            &scenario.with_hours(0.2).unwrap(),
            &truechimer_sim::Options::default(),
        )
        .unwrap();
    }
}

/// Every key and every kind is in a table, and nothing else is.
#[test]
fn every_key_is_explained() {
    let text = everything().to_toml();
    assert_eq!(read(&text).unwrap().to_toml(), text);
    let rows = rows();
    let mut heading = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            heading = line;
        }
        // The two directions are alike, and so are machines; `when = "always"` is the default.
        let Some((key, _)) = line.split_once(" = ") else { continue };
        if heading.contains("backward") || heading.contains(".machine") || key == "when" {
            continue;
        }
        let found = rows.iter().filter(|row| row.heading == heading && row.key == key).count();
        assert_eq!(found, 1, "{heading} {key}");
    }
    for Row { heading, key, .. } in rows {
        assert!(place(&text, &heading, &key).is_some(), "{heading} {key} is no key");
    }
}

#[test]
fn ranges_are_true() {
    let text = everything().to_toml();
    let mut checked = 0;
    for Row { heading, key, range, .. } in rows() {
        let at = place(&text, &heading, &key).unwrap();
        let range = if range == "time" { "0 to 316000000" } else { range.as_str() };
        let Some((low, high)) = range.split_once(" to ") else { continue };
        let (Ok(least), Ok(most)) = (low.parse::<f64>(), high.parse::<f64>()) else { continue };
        let says = |low: &str, high: &str| format!("must be between {low} and {high}");
        let says = [says(low, high), says(&least.to_string(), &most.to_string())];
        for value in [least - 1.0, most + 1.0 + most.abs() / 10.0] {
            let value = value.floor();
            let error = read(&changed(&text, at, Some(format!("{key} = {value}")))).unwrap_err();
            let is_said = says.iter().any(|says| error.what.ends_with(says));
            assert!(is_said, "{heading} {key}: {range}: {error}");
            assert_eq!(error.line, Some(at + 1), "{heading} {key}: {error}");
        }
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn defaults_are_true() {
    let text = everything().to_toml();
    for Row { heading, key, default, .. } in rows() {
        let at = place(&text, &heading, &key).unwrap();
        let read = read(&changed(&text, at, None));
        if default == "needed" {
            let error = read.expect_err(&key);
            assert!(error.what.ends_with(" is missing") || error.what.contains("is missing;"));
            assert!(error.what.contains(&format!("`{key}`")), "{heading} {key}: {error}");
            continue;
        }
        let again = read.unwrap_or_else(|why| panic!("{heading} {key}: {why}")).to_toml();
        let found = place(&again, &heading, &key).map(|at| {
            let line = again.lines().nth(at).unwrap();
            line.split_once(" = ").unwrap().1.to_owned()
        });
        let found = found.as_deref().unwrap_or("none");
        let same = found == default
            || found.parse::<f64>().ok().is_some_and(|found| default.parse() == Ok(found));
        assert!(same, "{heading} {key}: {found}, not {default}");
    }
}
