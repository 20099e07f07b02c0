//! Outcome of a run.

use std::collections::BTreeMap;

use serde_json::json;
use truechimer_outcome::outcome::{Goal, Grid, Outcome};
use truechimer_outcome::stats::median;
use truechimer_report::Unit;

use crate::soak::ledger::{Done, Ledger};

/// The report.
#[must_use]
pub fn outcome(ledger: &Ledger, seed: u64) -> Outcome {
    let all = ledger.summary();
    let seconds = ledger.began.elapsed().as_secs_f64();
    let goals = all.broken.iter().map(|(check, times)| {
        Goal::counted(check, "always", format!("{times} violations"), *times == 0)
    });
    let mut by_kind: BTreeMap<&str, Vec<&Done>> = BTreeMap::new();
    for done in &all.done {
        by_kind.entry(done.kind).or_default().push(done);
    }
    let mut faults = Grid::new(
        "Faults, and the time from the end of each until all was well again",
        ["fault", "times", "beside another", "lasted, s in all", "median, s", "longest, s"],
    );
    for (kind, done) in &by_kind {
        // One that is beside another ends before it, perhaps.
        let alone = done.iter().filter(|done| !done.with_another);
        let times: Vec<f64> = alone.filter_map(|done| done.recovered).collect();
        let longest = times.iter().copied().fold(f64::NAN, f64::max);
        faults.row([
            (*kind).to_owned(),
            done.len().to_string(),
            done.iter().filter(|done| done.with_another).count().to_string(),
            format!("{:.0}", done.iter().map(|done| done.lasted).sum::<f64>()),
            figure(median(times.iter().copied())),
            figure(longest),
        ]);
    }
    let mut counts = Grid::new("Counts", ["what", "how many"]);
    for (what, n) in &all.counts {
        counts.row([(*what).to_owned(), n.to_string()]);
    }
    let mut largest = Grid::new("Largest", ["what", "value"]);
    for (what, value) in &all.largest {
        largest.row(quantity(what, *value));
    }
    let mut grids = vec![faults, counts, largest];
    if !all.violations.is_empty() {
        let mut grid = Grid::new("Violations, the first of them", ["at, s", "invariant", "seen"]);
        for violation in all.violations.iter().take(20) {
            grid.row([
                format!("{:.1}", violation.at),
                violation.check.to_owned(),
                violation.text.chars().take(300).collect(),
            ]);
        }
        grids.push(grid);
    }
    Outcome {
        headline: Vec::new(),
        name: "soak",
        title: "Under faults".to_owned(),
        about: vec![format!(
            "{} faults in {seconds:.0} s, from seed {seed}. Times until all is well are of faults \
             that were alone in force.",
            all.done.len()
        )],
        goals: goals.collect(),
        grids,
        figures: Vec::new(),
        json: json!({
            "seed": seed,
            "seconds": seconds,
            "counts": all.counts,
            "largest": all.largest,
            "broken": all.broken,
            "violations": all.violations.iter().map(|v| json!({
                "at_s": v.at, "invariant": v.check, "seen": v.text,
            })).collect::<Vec<_>>(),
            "faults": all.done.iter().map(|d| json!({
                "fault": d.kind, "at_s": d.at, "lasted_s": d.lasted, "recovered_s": d.recovered,
                "beside_another": d.with_another,
            })).collect::<Vec<_>>(),
        }),
    }
}

fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { "–".to_owned() }
}

/// Row of a quantity whose name ends with its unit: whole ns in the unit that suits them.
fn quantity(what: &str, value: i64) -> [String; 2] {
    match what.rsplit_once(", ") {
        Some((what, "ns")) => [what.to_owned(), Unit::Seconds.show(value as f64 * 1e-9, 3)],
        Some((what, unit)) => [what.to_owned(), format!("{value} {unit}")],
        None => [what.to_owned(), value.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_that_suit_them() {
        let plain = |row: [String; 2]| row.join(": ").replace('\u{a0}', " ");
        assert_eq!(
            plain(quantity("page: largest bound, ns", 23_343_871)),
            "page: largest bound: 23.3 ms"
        );
        assert_eq!(plain(quantity("resources: growth, KiB", -8)), "resources: growth: -8 KiB");
        assert_eq!(plain(quantity("things", 3)), "things: 3");
    }
}
