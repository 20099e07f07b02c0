//! Watching a clock from the command line: for machines where no Rust test can run.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use truechimer::{Clock, ReadError, Reading};
use truechimer_testbed::figures::figures;
use truechimer_testbed::scale::Reference;
use truechimer_testbed::watch::Sample;

/// Readings each time, of which the one with the narrowest truth counts for the figures. That the
/// bound holds is asked of all.
const TRIES: usize = 3;
/// Longest time for a clock to appear.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Watches the clock at `page` and prints what it came to.
pub fn look(page: &str, reference: &str, seconds: &str, every: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let reference: Reference = reference.parse()?;
    let time = Duration::from_secs(number(seconds)?);
    let every = Duration::from_millis(number(every)?);
    let clock = Clock::open_within(Some(Path::new(page)), PATIENCE)
        .map_err(|error| format!("{page}: {error}"))?;

    let mut seen = Seen::default();
    let start = Instant::now();
    while start.elapsed() < time {
        let mut best: Option<Sample> = None;
        for _ in 0..TRIES {
            let mut look = Sample::look(&clock, || reference.now_ns(), start);
            if let Ok((sample, reading)) = &mut look {
                sample.truth = reference.at_ns(reading.count).map_or(sample.truth, |at| (at, at));
            }
            seen.readings += 1;
            seen.change(start, &clock, &look);
            match look {
                Ok((sample, _)) => {
                    seen.judge(&sample);
                    if best.is_none_or(|best| sample.width_ns() < best.width_ns()) {
                        best = Some(sample);
                    }
                }
                Err(_) => seen.refused += 1,
            }
        }
        seen.samples.extend(best);
        sleep(every);
    }
    println!("{:#}", Value::Object(seen.result()));
    Ok(())
}

/// Observations so far.
#[derive(Default)]
struct Seen {
    samples: Vec<Sample>,
    /// Each change of status and epoch, from when on, s.
    changes: Vec<(f64, Value)>,
    readings: u64,
    /// Readings with a bound.
    promised: u64,
    /// Readings whose bound did not hold.
    broken: u64,
    /// Readings that were refused.
    refused: u64,
    /// When a bound was broken first and last, s.
    broken_between: Option<(f64, f64)>,
    worst_outside_ns: i64,
}

impl Seen {
    fn judge(&mut self, sample: &Sample) {
        if !sample.status.bound_holds() {
            return;
        }
        self.promised += 1;
        let outside = sample.outside_ns();
        if outside > 0 {
            let at = sample.at.as_secs_f64();
            self.broken += 1;
            self.broken_between = Some((self.broken_between.map_or(at, |(first, _)| first), at));
            self.worst_outside_ns = self.worst_outside_ns.max(outside);
        }
    }

    fn change(
        &mut self,
        start: Instant,
        clock: &Clock,
        look: &Result<(Sample, Reading), ReadError>,
    ) {
        let now = match look {
            Ok((sample, _)) => {
                let epoch = clock.moment().map_or(Value::Null, |moment| moment.epoch.0.into());
                json!({ "status": sample.status.to_string(), "epoch": epoch })
            }
            Err(error) => json!({ "refused": error.to_string() }),
        };
        if self.changes.last().is_none_or(|(_, last)| *last != now) {
            self.changes.push((start.elapsed().as_secs_f64(), now));
        }
    }

    fn result(&self) -> Map<String, Value> {
        let kept = (self.promised - self.broken) as f64 / self.promised.max(1) as f64;
        let changes = self
            .changes
            .iter()
            .map(|(at, what)| with(what.clone(), json!({ "at_s": (at * 1e3).round() / 1e3 })));
        with(
            figures(&self.samples),
            json!({
                "readings": self.readings,
                "promised": self.promised,
                "broken": self.broken,
                "broken_for_s": self.broken_between.map_or(0.0, |(first, last)| last - first),
                "worst_outside_ns": self.worst_outside_ns,
                "refused": self.refused,
                "inside_share": if self.promised == 0 { Value::Null } else { kept.into() },
                "changes": changes.map(Value::Object).collect::<Vec<_>>(),
            }),
        )
    }
}

/// Two objects as one.
fn with(one: Value, other: Value) -> Map<String, Value> {
    let mut all = Map::new();
    for value in [one, other] {
        if let Value::Object(fields) = value {
            all.extend(fields);
        }
    }
    all
}
