//! `truechimer waitsync`: wait until the clock is good.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use truechimer::{Clock, OpenError, ReadError, Reading, Span, Status};

use crate::daemon;
use crate::daemon::Control;
use clap::Args;
use truechimer_command::clock::Page;
use truechimer_command::parse;
use truechimer_command::show;
use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer waitsync`.
#[derive(Args, Debug)]
#[command(after_help = "\
A clock page that is not there yet is waited for. Where a daemon that has ended left one, all places
are looked at again for one that a daemon tends, as long as it takes. At the timeout it says of which
page what is missing, and why by its daemon's word, if that answers within 0.2 s (its control socket
beside the page).

A server's own root distance and half of the round trip to it are part of the bound: over the
Internet some 5 to 50 ms remain, on a LAN some 100 us. Without --max-bound nothing is asked of the
bound: a clock that is synchronised is enough, however wide it is. Where a server's time has moved
and is held off, the bound covers both until that is decided; what is there for that only is named.

This clock is synchronised before the system clock is: one that is steered is read and stepped up to
a second later, and slewed for hours where no step is allowed. Who reads the system clock, as what
is ordered after time-sync.target does, waits with --system-clock.

Examples:
  truechimer waitsync && truechimer now
  truechimer waitsync --max-bound 500us --timeout 2s || echo not yet
  truechimer waitsync --system-clock 10ms && date

Exit status: 0 synchronised (within --max-bound), 1 not before the timeout, 2 error.")]
pub struct Waitsync {
    /// Largest bound to accept [default: any bound will do]
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, allow_hyphen_values = true)]
    pub max_bound: Option<Span>,
    /// Wait also until the system clock is that close to this one, whoever steers it
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, allow_hyphen_values = true)]
    pub system_clock: Option<Span>,
    /// Time to wait
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    #[arg(value_parser = parse::not_negative, allow_hyphen_values = true)]
    pub timeout: Span,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
}

/// End of the wait, as JSON has it.
#[derive(Serialize)]
struct Answer {
    synchronised: bool,
    waited_ns: i64,
    status: Option<&'static str>,
    bound_ns: Option<i64>,
    disputed_bound_ns: Option<i64>,
    max_bound_ns: Option<i64>,
    system_offset_ns: Option<i64>,
    why: Option<String>,
}

/// Time between two looks at the system clock.
const LOOKS: Duration = Duration::from_millis(20);

/// Time after which a page that no daemon tends is looked for anew.
const AGAIN: Duration = Duration::from_millis(200);

/// State after a wait.
#[derive(Default)]
struct Seen {
    reading: Option<Reading>,
    /// Lead of the system clock over this one, if that matters; negative: it is behind.
    ahead: Option<Span>,
    /// Part of the bound that is there as samples are held off.
    disputed: Option<Span>,
    /// Fault that is left.
    why: Option<String>,
    /// Time until then.
    waited: Duration,
}

/// Runs the command.
pub fn run(args: &Waitsync, out: &mut dyn Write) -> Ended {
    let start = Instant::now();
    let timeout = duration(args.timeout);
    let Seen { reading, ahead, disputed, why, waited } = wait(args, start, timeout)?;
    let waited = Span::from_nanos_wide(waited.as_nanos().try_into().unwrap_or(i128::MAX));
    let bound = reading.and_then(|reading| reading.bound());
    if args.json {
        let answer = Answer {
            synchronised: why.is_none(),
            waited_ns: waited.as_nanos_i64(),
            status: reading.map(|reading| reading.status.name()),
            bound_ns: bound.map(Span::as_nanos_up),
            disputed_bound_ns: disputed.map(Span::as_nanos_up),
            max_bound_ns: args.max_bound.map(Span::as_nanos_i64),
            system_offset_ns: ahead.map(Span::as_nanos_i64),
            why: why.clone(),
        };
        writeln!(out, "{}", json(&answer)?)?;
    } else {
        match (&why, bound) {
            (Some(why), _) => {
                let is_synchronised =
                    reading.is_some_and(|reading| reading.status == Status::Synchronised);
                let short = if is_synchronised { "not good enough" } else { "not synchronised" };
                writeln!(out, "{short} after {}: {why}", args.timeout)?;
            }
            (None, bound) => {
                writeln!(out, "{}", good(bound.unwrap_or(Span::MAX), disputed, waited))?;
            }
        }
    }
    Ok(Outcome::of(why.is_none()))
}

/// Waits until all is good, or for the timeout, and says which.
fn wait(args: &Waitsync, start: Instant, timeout: Duration) -> Result<Seen, Failure> {
    let short = |reading, page: Option<&Path>, why: String| {
        let at = page.map_or_else(String::new, |page| format!("{}: ", page.display()));
        let waited = start.elapsed();
        let why = at + &why + &by_daemon(args, page);
        Ok(Seen { reading, why: Some(why), waited, ..Seen::default() })
    };
    let mut clock = match Clock::open_within(args.page.page.as_deref(), timeout) {
        Ok(clock) => clock,
        // Waited for in vain; anything else would not have become better.
        Err(why @ (OpenError::NoPage { .. } | OpenError::OtherBoot { .. }))
            if start.elapsed() >= timeout =>
        {
            return short(None, None, why.to_string());
        }
        Err(why) => return Err(Failure::Said(why.to_string())),
    };
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let reading = match clock.wait_synchronised(args.max_bound, left.min(AGAIN)) {
            Ok(reading) => reading,
            Err(_) if left > AGAIN => {
                clock = tended_instead(&clock, &args.page).unwrap_or(clock);
                continue;
            }
            Err(error) => match error.last {
                Ok(reading) => {
                    let disputed = disputed(&clock, &reading);
                    let missing = short_of(&reading, args.max_bound)
                        + &held_off(disputed)
                        + &because(&clock, &reading);
                    let seen = short(Some(reading), Some(clock.page().path()), missing)?;
                    return Ok(Seen { disputed, ..seen });
                }
                Err(why @ ReadError::NotYet { .. }) => {
                    return short(None, Some(clock.page().path()), why.to_string());
                }
                Err(why) => return Err(Failure::Said(why.to_string())),
            },
        };
        let Some(most) = args.system_clock else {
            return Ok(seen_good(&clock, reading, start));
        };
        let (reading, ahead) = beside_system(&clock)?;
        // A later one than what was waited for: no worse is told.
        if !is_good(&reading, args.max_bound) {
            continue;
        }
        let seen = Seen { ahead: Some(ahead), ..seen_good(&clock, reading, start) };
        if ahead.abs() <= most {
            return Ok(seen);
        }
        if start.elapsed() >= timeout {
            let by = ahead.abs().rounded_up();
            let way = if ahead < Span::ZERO { "behind" } else { "ahead" };
            let why = format!("the system clock is {by} {way}: more than {most}");
            return Ok(Seen { why: Some(why), ..seen });
        }
        std::thread::sleep(LOOKS);
    }
}

/// Good news, with what is doubtful about it.
fn good(bound: Span, disputed: Option<Span>, waited: Span) -> String {
    let news = format!("synchronised to ± {} after {waited}", bound.rounded_up());
    let see = if held_off(disputed).is_empty() { "" } else { ": see truechimer status" };
    news + &held_off(disputed) + see
}

/// Words for what of a bound is there as a server is held off.
fn held_off(disputed: Option<Span>) -> String {
    let disputed = disputed.filter(|&disputed| disputed > Span::ZERO);
    disputed.map_or_else(String::new, |disputed| {
        format!("; {} of it for a server that is held off", disputed.rounded_up())
    })
}

/// Part of the bound of this reading that is there as a server is held off.
fn disputed(clock: &Clock, reading: &Reading) -> Option<Span> {
    // Another hand may have come since.
    let bound = reading.bound()?;
    clock.view().ok()?.disputed().map(|disputed| disputed.min(bound))
}

/// State after a wait for this reading.
fn seen_good(clock: &Clock, reading: Reading, start: Instant) -> Seen {
    let disputed = disputed(clock, &reading);
    Seen { reading: Some(reading), disputed, waited: start.elapsed(), ..Seen::default() }
}

/// Clock of a page that a daemon tends, where none tends this one.
fn tended_instead(clock: &Clock, page: &Page) -> Option<Clock> {
    if clock.page().tended() {
        return None;
    }
    let found = page.page.as_deref().map_or_else(Clock::open, Clock::open_at).ok()?;
    found.page().tended().then_some(found)
}

/// Synchronised, with a bound that is asked for.
fn is_good(reading: &Reading, max_bound: Option<Span>) -> bool {
    let bound = reading.bound();
    reading.status == Status::Synchronised
        && max_bound.is_none_or(|most| bound.is_some_and(|bound| bound <= most))
}

/// A reading, and how far the system clock was ahead of it then: by as little as its readings before
/// and after allow.
fn beside_system(clock: &Clock) -> Result<(Reading, Span), Failure> {
    let before = system();
    let reading = clock.now().map_err(|why| Failure::Said(why.to_string()))?;
    let (ours, after) = (reading.utc().unix_nanos(), system());
    // Set back meanwhile, it is looked at as it is.
    let nearest = ours.clamp(before.min(after), after);
    Ok((reading, Span::from_nanos_wide(nearest - ours)))
}

/// The system clock, Unix time in ns.
fn system() -> i128 {
    let nanos = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    }
}

/// Reason for that, if the daemon of this page can be asked; without one, the daemon that is meant.
fn by_daemon(args: &Waitsync, page: Option<&Path>) -> String {
    let control = Control { control: None };
    let page = page.map_or_else(|| args.page.clone(), |page| Page { page: Some(page.into()) });
    match daemon::ask_at_once(&page, &control) {
        Ok(answer) if !answer.report.reason.is_empty() => {
            format!("; {}", show::plain(&answer.report.reason))
        }
        _ => String::new(),
    }
}

/// Reason why the reading is of another status than the daemon published, if it still is.
fn because(clock: &Clock, reading: &Reading) -> String {
    let view = clock.view().ok().filter(|view| view.status == reading.status);
    let reason = view.and_then(|view| view.reason);
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

/// Names what is missing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_off_is_named() {
        let told = |disputed| good(Span::from_millis(700), disputed, Span::from_secs(1));
        let plain = "synchronised to ± 700.000 ms after 1.000 s";
        assert_eq!(told(None), plain);
        assert_eq!(told(Some(Span::ZERO)), plain);
        assert_eq!(
            told(Some(Span::from_micros(699_001))),
            format!(
                "{plain}; 699.001 ms of it for a server that is held off: see truechimer status"
            )
        );
    }
}
