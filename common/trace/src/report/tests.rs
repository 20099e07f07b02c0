//! Reports of all sorts of runs.

use super::*;
use crate::{Exchanged, Interval, Noted};
use truechimer_engine::Level;
use truechimer_timehands::Status;

/// A made-up run of so many seconds.
fn trace(seconds: u32) -> Trace {
    let wave = |n: u32| f64::from(n * 7919 % 1009) / 1009.0 - 0.5;
    let sample = |n: u32| Sample {
        at: f64::from(n),
        error: wave(n) * 4e-6,
        bound: 200e-6,
        imbalance: 0.0,
        likely: None,
        statistical: 10e-6,
        status: if n < 2 { Status::Unknown } else { Status::Synchronised },
        rate_error: wave(n) * 1e-9,
        skew: 37e-6,
        second: (n > 2).then_some(Interval { error: wave(n) * 1e-9, bound: 1e-6, deviation: 1e-7 }),
        thousand: (n > 1002).then_some(Interval {
            error: wave(n) * 1e-7,
            bound: 1e-5,
            deviation: 1e-6,
        }),
    };
    let exchange = |n: u32| Exchanged {
        at: f64::from(n),
        source: (n / 16 % 2) as usize,
        rtt: 300e-6 + wave(n).abs() * 1e-4,
        floor: 300e-6,
        forward: 150e-6,
        backward: 150e-6,
        true_delays: Some((149e-6, 151e-6)),
        used: !n.is_multiple_of(48),
        selected: (n / 16).is_multiple_of(2),
    };
    let note = |at, level, text: &str| Noted { at, level, text: text.to_owned() };
    Trace {
        title: "made-up".into(),
        about: "Nobody measured this.".into(),
        estimator: "ours".into(),
        seed: Some(7),
        parameters: vec![("poll".into(), "16 s".into()), ("</script>".into(), "\"'&".into())],
        begun: 1_800_000_000,
        warm_up: f64::from(seconds) / 4.0,
        honest: true,
        sources: vec!["a".into(), "<b onclick=\"alert(1)\">".into()],
        samples: (0..seconds).map(sample).collect(),
        exchanges: (0..seconds).step_by(16).map(exchange).collect(),
        notes: vec![
            note(10.0, Level::Info, "selected a"),
            note(20.0, Level::Warning, "</script><script>alert('x')</script>"),
            note(30.0, Level::Debug, "of no weight"),
        ],
        system: Vec::new(),
    }
}

fn rendered(traces: &[Trace]) -> String {
    let runs: Vec<Shown<'_>> = traces.iter().map(|t| (t, Statistics::of(&[t]))).collect();
    page(&runs, "truechimer-lab simulate made-up --seed 7").render()
}

/// The data for the script, which has to be what the script can read.
fn data(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("<script type=\"application/json\" id=data>").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn one_run_shows_everything_and_hostile_names_stay_text() {
    let page = rendered(&[trace(5000)]);
    for part in [
        "made-up: ours",
        "Error within its bound",
        "Round trips: a",
        "truth inside the bound",
        "selected a",
        "status: synchronised",
        "truechimer-lab simulate made-up --seed 7",
        "&lt;b onclick=&quot;alert(1)&quot;&gt;",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<b onclick"));
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(data(&page)["charts"].as_array().unwrap().len() >= 10);
    assert_eq!(page, rendered(&[trace(5000)]));
}

#[test]
fn several_estimators_stand_side_by_side() {
    let mut other = trace(2000);
    other.estimator = "published".into();
    let page = rendered(&[trace(2000), other.clone()]);
    assert!(page.contains("made-up: ours, published"));
    assert!(page.contains("<th scope=col class=number>published</th>"));
    assert!(page.contains("Errors on identical packets"));
    other.title = "another".into();
    let page = rendered(&[trace(2000), other]);
    assert!(page.contains("2 scenarios") && page.contains("another: the clock against the truth"));
}

#[test]
fn traces_without_much_in_them_have_a_report() {
    let mut nameless = trace(100);
    nameless.sources.clear();
    let mut unknown = trace(3000);
    for sample in &mut unknown.samples {
        sample.error = f64::NAN;
        sample.rate_error = f64::NAN;
        sample.skew = f64::NAN;
        (sample.second, sample.thousand) = (None, None);
    }
    unknown.exchanges.iter_mut().for_each(|e| e.true_delays = None);
    let mut nothing = trace(3000);
    for sample in &mut nothing.samples {
        (sample.error, sample.bound, sample.statistical) = (f64::NAN, f64::NAN, f64::NAN);
        sample.status = Status::Unknown;
    }
    for exchange in &mut nothing.exchanges {
        (exchange.rtt, exchange.floor) = (f64::NAN, f64::INFINITY);
        (exchange.forward, exchange.backward) = (f64::NAN, f64::NAN);
        exchange.source = 99;
    }
    let mut many = trace(100);
    many.sources = (0..40).map(|n| format!("server {n}")).collect();
    for trace in [Trace::default(), trace(1), trace(3), nameless, unknown, nothing, many] {
        let page = rendered(&[trace]);
        assert!(data(&page)["charts"].is_array());
    }
    assert!(rendered(&[]).contains("No runs"));
}

#[test]
fn a_day_and_more_stays_small() {
    let page = rendered(&[trace(28 * 3600)]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn what_leaves_the_bound_is_said() {
    let mut trace = trace(1000);
    trace.samples[500].error = 1.0;
    let page = rendered(&[trace]);
    assert!(page.contains("outside the bound for 1 reading, by up to 1.00\u{A0}s"));
    assert!(page.contains("outside the bound</th>"), "no points in the charts");
    assert!(page.contains("class=\"number bad\""));
}
