//! Every scenario that has a name: well formed, found, the same after a trip through its text; and
//! the bound holds in each in which it has to.

use std::collections::BTreeSet;
use std::sync::Mutex;

use truechimer_sim::{Options, Scenario, Statistics, catalogue, find, simulate};

#[test]
fn names_are_unique_and_texts_are_one_line() {
    let all = catalogue();
    let names: BTreeSet<_> = all.iter().map(|s| s.name.clone()).collect();
    assert_eq!(names.len(), all.len());
    for scenario in &all {
        assert_eq!(scenario.check(), Ok(()), "{}", scenario.name);
        assert!(!scenario.about.is_empty() && scenario.about.len() < 100, "{}", scenario.about);
        assert_eq!(find(&scenario.name).as_ref(), Ok(scenario));
    }
}

#[test]
fn the_nearest_name_is_offered() {
    let near = |name: &str| find(name).unwrap_err().nearest;
    assert_eq!(near("lam").as_deref(), Some("lan"));
    assert_eq!(near("lan-burst-down").as_deref(), Some("lan-bursts-down"));
    assert_eq!(near("liar-of").as_deref(), Some("liar-of-three"));
    assert_eq!(near("no such thing at all"), None);
    let message = find("leap-secnd").unwrap_err().to_string();
    assert_eq!(message, "there is no scenario `leap-secnd`; did you mean `leap-second`?");
}

#[test]
fn each_comes_back_from_its_text() {
    for scenario in catalogue() {
        let text = scenario.to_toml();
        let back =
            Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", scenario.name));
        assert_eq!(back, scenario, "{text}");
    }
}

/// Honesty as said before a run is what shows in the run.
#[test]
fn the_bound_holds_wherever_it_has_to() {
    let all = Mutex::new(catalogue());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = all.lock().unwrap().pop();
                    let Some(scenario) = next else { break };
                    assert_bounded(scenario);
                }
            });
        }
    });
}

fn assert_bounded(scenario: Scenario) {
    let scenario =
        if scenario.hours > 19.0 { scenario.with_hours(19.0).unwrap() } else { scenario };
    let run = simulate(&scenario, &Options { seed: 7, ..Options::default() }).unwrap();
    assert_eq!(run.honest, scenario.honest(), "{}", scenario.name);
    assert_eq!(run.trace.honest, scenario.is_honest());
    let statistics = Statistics::of(&[&run.trace]);
    let inside = statistics.inside_bound;
    let name = &scenario.name;
    let hours = scenario.hours;
    assert!(inside.seconds as f64 > hours * 3600.0 * 0.9, "{name}: {inside:?}");
    if scenario.must_hold() {
        // Until the daemon's next look, a break of the counter is not known of.
        let breaks = scenario.host.jumps.len() + scenario.host.suspends.len();
        assert!(inside.outside <= breaks, "{name}: {inside:?}");
        let (max, bound) = (statistics.error.max_us, statistics.bound_median_us);
        assert!(breaks > 0 || max < 1e6 && bound < 1e6, "{name}: {max} {bound}");
    }
}
