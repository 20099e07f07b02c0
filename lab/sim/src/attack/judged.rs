//! Outcome of an attack.

use serde::{Deserialize, Serialize};
use truechimer_engine::Level;
use truechimer_trace::{Sample, Statistics};

use super::{Attack, beside};
use crate::scenario::{Scenario, ScenarioError};
use crate::world::{Options, Run, simulate};

/// Outcome of an attack. Errors are clock − truth, once a second, where a bound was promised.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Number of the attack.
    pub attack: u64,
    /// Seed that it counts under.
    pub seed: u64,
    /// Kind of attack.
    pub kind: String,
    /// True if the conditions of the bound held: an honest majority of those that vote, reachable.
    pub must_hold: bool,
    /// Servers with proof, and plain ones.
    pub servers: [usize; 2],
    /// Seconds between requests.
    pub poll_s: u32,
    /// Seconds with a promised bound, and those of them with the truth outside.
    pub promised_s: usize,
    /// See `promised_s`.
    pub outside_s: usize,
    /// By how much the truth was outside at most, µs; 0 if never.
    pub exceeded_us: f64,
    /// The largest error, µs; null if there never was a bound.
    pub largest_us: Option<f64>,
    /// Median of the bound, µs.
    pub bound_us: Option<f64>,
    /// The largest bound, µs.
    pub widest_us: Option<f64>,
    /// Share of the readings that said `synchronised`, 0 to 1.
    pub synchronised: f64,
    /// Different warnings in the log, without names and numbers, the most frequent first.
    pub warnings: Vec<String>,
    /// Largest error of the model of chrony, µs; null if it never had a time.
    pub chrony_us: Option<f64>,
    /// The largest error beyond its own root distance, µs; 0 if never.
    pub chrony_beyond_us: f64,
    /// Median of its root distance, µs.
    pub chrony_claim_us: Option<f64>,
    /// Largest error of the trimmed mean of all sources, µs; null below three of them.
    pub trimmed_us: Option<f64>,
}

/// Runs an attack.
///
/// # Errors
/// Never, as long as the drawn scenarios make sense.
pub fn judge(attack: &Attack) -> Result<Judged, ScenarioError> {
    judge_scenario(attack, &attack.scenario().0)
}

/// Runs an attack with something changed in its scenario.
///
/// # Errors
/// Mistakes in it.
pub fn judge_scenario(attack: &Attack, scenario: &Scenario) -> Result<Judged, ScenarioError> {
    let options = Options { seed: attack.packet_seed(), ..Options::default() };
    let run = simulate(scenario, &options)?;
    Ok(judged(attack, scenario, &run))
}

fn judged(attack: &Attack, scenario: &Scenario, run: &Run) -> Judged {
    let samples = &run.trace.samples;
    let promised = || samples.iter().filter(|sample| sample.status.bound_holds());
    let statistics = Statistics::of(&[&run.trace]);
    let inside = statistics.inside_bound;
    let most = |of: fn(&Sample) -> f64| {
        promised().map(of).fold(None, |most: Option<f64>, x| Some(x.max(most.unwrap_or(x))))
    };
    let synchronised = statistics.seconds_by_status.synchronised;
    let proven = scenario.servers.iter().filter(|server| server.proof).count();
    let us = |seconds: Option<f64>| seconds.map(|s| 1e6 * s);
    let known = |figure: f64| figure.is_finite().then_some(figure);
    let others = beside(scenario, run);
    Judged {
        attack: attack.number,
        seed: attack.seed,
        kind: attack.kind.name().to_owned(),
        must_hold: scenario.broken_conditions().is_empty(),
        servers: [proven, scenario.servers.len() - proven],
        poll_s: scenario.poll,
        promised_s: inside.seconds,
        outside_s: inside.outside,
        exceeded_us: inside.exceeded_us,
        largest_us: us(most(|s| s.error.abs())),
        bound_us: known(statistics.bound_median_us),
        widest_us: us(most(|s| s.bound)),
        synchronised: synchronised as f64 / samples.len().max(1) as f64,
        warnings: warnings(scenario, run),
        chrony_us: known(others.chrony_us),
        chrony_beyond_us: others.chrony_beyond_us,
        chrony_claim_us: known(others.chrony_claim_us),
        trimmed_us: known(others.trimmed_us),
    }
}

/// The warnings of the log without names and numbers, the most frequent first.
fn warnings(scenario: &Scenario, run: &Run) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for note in run.trace.notes.iter().filter(|note| note.level == Level::Warning) {
        let text = plain(&note.text, scenario);
        match found.iter_mut().find(|(_, known)| *known == text) {
            Some((times, _)) => *times += 1,
            None => found.push((1, text)),
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(_, text)| text).collect()
}

/// A line of the log with `…` for every server and every number.
fn plain(text: &str, scenario: &Scenario) -> String {
    let mut text = text.to_owned();
    for server in &scenario.servers {
        text = text.replace(&format!("{}:123", server.name), "…");
    }
    let mut out = String::new();
    for letter in text.chars() {
        let number = letter.is_ascii_digit() || letter == '.' && out.ends_with('…');
        if !number {
            out.push(letter);
        } else if !out.ends_with('…') {
            out.push('…');
        }
    }
    out
}
