//! Figures that were kept of the estimator `ours` as it was before its statistics became a model:
//! complete, and nothing is lost.

use std::collections::BTreeSet;

use truechimer_estimators::OURS;
use truechimer_sim::figures::{Case, Figure, Record, cases, measure, parse};

/// Seeds of each scenario in the file.
const SEEDS: usize = 5;

fn kept() -> Vec<Record> {
    parse(include_str!("../../frozen/ours-2026-11.jsonl")).unwrap()
}

#[test]
fn every_scenario_is_in_the_file() {
    let kept = kept();
    let names: BTreeSet<&str> = kept.iter().map(|record| record.scenario.as_str()).collect();
    assert_eq!(names.len(), kept.len(), "none is there twice");
    for case in cases().unwrap() {
        let name = &case.scenario.name;
        let record = kept.iter().find(|record| record.scenario == *name);
        let record = record.unwrap_or_else(|| panic!("{name} is not there"));
        assert_eq!(record.seeds, case.seeds(SEEDS).count(), "{name}");
        assert_eq!((record.estimator.as_str(), record.hours), ("ours", case.scenario.hours));
        let first = case.figures[0];
        let values = record.values(first);
        let is_start = first == Figure::Below500UsS;
        assert!(is_start || values.iter().all(|v| v.is_some_and(|v| v > 0.0)), "{name}: {first:?}");
    }
}

/// Of one seed; `truechimer-lab simulate figures --against` judges all of them.
#[test]
fn what_was_kept_is_not_lost() {
    let kept = kept();
    let is_short =
        |case: &Case| ["growing-queue-both", "cold-start"].contains(&&*case.scenario.name);
    let short: Vec<Case> = cases().unwrap().into_iter().filter(is_short).collect();
    assert_eq!(short.len(), 2);
    for case in short {
        let figures = measure(&case, OURS, 1).unwrap();
        let now = Record::new(&case, OURS, &[figures]);
        let then = kept.iter().find(|record| record.scenario == case.scenario.name).unwrap();
        for figure in [
            Figure::RmsUs,
            Figure::SecondUs,
            Figure::BoundUs,
            Figure::Below100UsS,
            Figure::OutsideS,
        ] {
            let [now, then] = [&now, then].map(|record| record.values(figure)[0].unwrap());
            assert!(now <= 1.3 * then, "{}: {figure:?}: {now}, {then}", case.scenario.name);
        }
    }
}
