//! The errors of the system clock and of clocks of ours, one by one, beside a truth that is known exactly.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use truechimer::{Clock, Moment};
use truechimer_stamp::ptp::Beside;
use truechimer_time::{Count, CounterKind};

use crate::card_clock::CardClock;
use crate::look::PATIENCE;

/// Prints for each reading the ms since the first, the system clock − truth in ns, and of each page the error and the
/// bound in ns as `ERROR:BOUND`, or `-:-` where it has no bound.
pub fn errors(truth: [&str; 2], seconds: &str, every: &str, pages: &[&str]) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let (time, every) =
        (Duration::from_secs(number(seconds)?), Duration::from_millis(number(every)?));
    let truth = CardClock::open(truth[0], truth[1])?;
    let clocks = pages.iter().map(|page| open(page)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    while start.elapsed() < time {
        let at = start.elapsed().as_millis();
        let failed = |error: std::io::Error| error.to_string();
        let [unix, system] = truth.beside(Beside::Realtime).map_err(failed)?;
        let raw = truth.beside(Beside::Raw).map_err(failed)?;
        let shown: Vec<String> = clocks.iter().map(|clock| error(clock, raw)).collect();
        println!("{at} {} {}", system - unix, shown.join(" "));
        sleep(every);
    }
    Ok(())
}

fn open(page: &str) -> Result<Clock, String> {
    let clock = Clock::open_within(Some(Path::new(page)), PATIENCE)
        .map_err(|error| format!("{page}: {error}"))?;
    match clock.moment() {
        Ok(Moment { kind: CounterKind::Raw, .. }) => Ok(clock),
        Ok(moment) => {
            Err(format!("{page}: its counter is {:?}, and no clock of the kernel's", moment.kind))
        }
        Err(error) => Err(format!("{page}: {error}")),
    }
}

/// Error of a clock and its bound when the raw clock shows `raw`.
fn error(clock: &Clock, [unix, raw]: [i64; 2]) -> String {
    let read = || {
        let mut moment = clock.moment().ok()?;
        moment.count = Count(u64::try_from(raw).ok()?);
        let reading = clock.time_of(moment).ok()?;
        let bound = reading.bound()?.as_nanos();
        let best = reading.leaps().utc(reading.best).unix_nanos();
        Some(format!("{}:{bound}", best - i128::from(unix)))
    };
    read().unwrap_or_else(|| "-:-".to_owned())
}
