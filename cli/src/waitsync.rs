//! `truechimer waitsync`: wait until the clock is good.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer::{Clock, OpenError, ReadError, Reading, Span};

use crate::failure::{Ended, Failure, Outcome};
use crate::show::json;
use crate::{args, daemon, show};

/// How the wait ended.
#[derive(Serialize)]
struct Answer {
    synchronised: bool,
    waited_ns: i64,
    status: Option<&'static str>,
    bound_ns: Option<i64>,
    max_bound_ns: Option<i64>,
    why: Option<String>,
}

/// Runs the command.
pub fn run(args: &args::Waitsync, out: &mut dyn Write) -> Ended {
    let start = Instant::now();
    let timeout = duration(args.timeout);
    let (reading, why) = wait(args, start, timeout)?;
    let why = why.map(|why| why + &by_daemon(args));
    let waited = Span::from_nanos_wide(start.elapsed().as_nanos().try_into().unwrap_or(i128::MAX));
    let bound = reading.and_then(|reading| reading.bound());
    if args.json {
        let answer = Answer {
            synchronised: why.is_none(),
            waited_ns: waited.as_nanos_i64(),
            status: reading.map(|reading| reading.status.name()),
            bound_ns: bound.map(Span::as_nanos_up),
            max_bound_ns: args.max_bound.map(Span::as_nanos_i64),
            why: why.clone(),
        };
        writeln!(out, "{}", json(&answer)?)?;
    } else {
        match (&why, bound) {
            (Some(why), _) => writeln!(out, "not synchronised after {}: {why}", args.timeout)?,
            (None, bound) => {
                let bound = bound.unwrap_or(Span::MAX).rounded_up();
                writeln!(out, "synchronised to ± {bound} after {waited}")?;
            }
        }
    }
    Ok(Outcome::of(why.is_none()))
}

/// The last reading, if there was any, and why it is not good enough, if it is not.
fn wait(
    args: &args::Waitsync,
    start: Instant,
    timeout: Duration,
) -> Result<(Option<Reading>, Option<String>), Failure> {
    let clock = match Clock::open_within(args.page.page.as_deref(), timeout) {
        Ok(clock) => clock,
        // Waited for in vain; anything else would not have become better.
        Err(why @ (OpenError::NoPage { .. } | OpenError::OtherBoot { .. }))
            if start.elapsed() >= timeout =>
        {
            return Ok((None, Some(why.to_string())));
        }
        Err(why) => return Err(Failure::Said(why.to_string())),
    };
    let left = timeout.saturating_sub(start.elapsed());
    match clock.wait_synchronised(args.max_bound, left) {
        Ok(reading) => Ok((Some(reading), None)),
        Err(error) => match error.last {
            Ok(reading) => Ok((Some(reading), Some(short_of(&reading, args.max_bound)))),
            Err(why @ ReadError::NotYet { .. }) => Ok((None, Some(why.to_string()))),
            Err(why) => Err(Failure::Said(why.to_string())),
        },
    }
}

/// Why that is, if the daemon can be asked.
fn by_daemon(args: &args::Waitsync) -> String {
    let control = args::Control { control: None };
    match daemon::ask(&args.page, &control) {
        Ok(answer) if !answer.report.reason.is_empty() => {
            format!("; {}", show::plain(&answer.report.reason))
        }
        _ => String::new(),
    }
}

/// What is missing.
fn short_of(reading: &Reading, max_bound: Option<Span>) -> String {
    match (reading.bound(), max_bound) {
        (Some(bound), Some(max_bound)) if bound > max_bound => {
            let bound = bound.rounded_up();
            format!("the status is {}, the bound {bound}: more than {max_bound}", reading.status)
        }
        (Some(bound), _) => {
            format!("the status is {}, the bound {}", reading.status, bound.rounded_up())
        }
        (None, _) => format!("the status is {}", reading.status),
    }
}

/// A span as std has it; what is too long for it is as good as for ever.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos_i64()).unwrap_or(0))
}
