//! scratch
#![allow(clippy::unwrap_used, missing_docs)]
use truechimer_sim::*;
fn main() {
    for a in std::env::args().skip(1) {
        let (name, est) = a.split_once(':').unwrap_or((&a, "ours"));
        let s = find(name).unwrap();
        let s = if s.hours > 24.0 { s.with_hours(24.0).unwrap() } else { s };
        let estimator = match est {
            "ours" => truechimer_engine::EstimatorKind::Ours,
            "published" => truechimer_engine::EstimatorKind::Published,
            "pi" => truechimer_engine::EstimatorKind::Pi,
            _ => truechimer_engine::EstimatorKind::NtpPll,
        };
        let t = std::time::Instant::now();
        let run = simulate(&s, &Options { seed: 1, estimator, ..Options::default() }).unwrap();
        let st = Statistics::of(&[&run.trace]);
        println!(
            "{a}: rms {:.3} max {:.3} bound med {:.2} stat {:.2} outside {} of {} used {}/{} took {:?}",
            st.error.rms_us,
            st.error.max_us,
            st.bound_median_us,
            st.statistical_median_us,
            st.inside_bound.outside,
            st.inside_bound.seconds,
            st.exchanges.used,
            st.exchanges.seen,
            t.elapsed()
        );
        println!(
            "   1 s: {:.4} µs max, 1000 s: {:.4} rms {:.4} max; bounds {:.4}",
            st.one_second.error.max_us,
            st.thousand_seconds.error.rms_us,
            st.thousand_seconds.error.max_us,
            st.thousand_seconds.bound_median_us
        );
        if std::env::var_os("N").is_some() {
            continue;
        }
        for n in run.trace.notes.iter().take(30) {
            println!("   {:.1} {}", n.at, n.text);
        }
        for h in 0..24 {
            let v: Vec<_> =
                run.trace.samples.iter().filter(|x| (x.at / 3600.0) as i32 == h).collect();
            if v.is_empty() {
                continue;
            }
            let m = v
                .iter()
                .map(|x| x.error)
                .fold(0.0f64, |a, b| if b.abs() > a.abs() { b } else { a });
            let b = v.iter().map(|x| x.bound).fold(0.0f64, f64::max);
            print!(" {h}:{:.1}/{:.1}", m * 1e6, b * 1e6);
        }
        println!();
        for t in [1.0, 5.0, 10.0, 20.0, 40.0, 64.0, 80.0, 120.0, 200.0, 400.0, 1000.0] {
            if let Some(x) = run.trace.samples.iter().find(|x| x.at >= t) {
                print!(" {t}s:{:.1}/{:.1}", x.error * 1e6, x.bound * 1e6);
            }
        }
        println!();
    }
}
