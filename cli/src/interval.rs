//! `truechimer interval`: how long it was from one moment of a script to another.

use std::io::Write;

use clap::Args;
use serde::Serialize;
use truechimer::{Moment, Span};
use truechimer_command::clock::{self, Page};
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer interval`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without FROM it prints this moment, as one word to keep. With it, how long that was ago, and with TO
how long it was from the one to the other: by the difference clock, which no correction of the time
disturbs. The true length is within the bound of what is printed; starting this program twice takes
some milliseconds, which are part of the length. A moment is good until the counter loses its
continuity (a boot, a suspend).

Examples:
  from=$(truechimer interval); make; truechimer interval $from
  truechimer interval --json $from $to

Exit status: 0 done, 2 error (no clock page, a moment of another boot, say).")]
pub struct Interval {
    /// The first moment, as this command printed it
    #[arg(value_name = "FROM", value_parser = moment)]
    pub from: Option<Moment>,
    /// The second moment [default: now]
    #[arg(value_name = "TO", value_parser = moment)]
    pub to: Option<Moment>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
}

/// Answer in JSON.
#[derive(Serialize)]
struct Answer {
    /// How long, ns; negative if the second moment came first.
    elapsed_ns: i64,
    /// The true length is within this of it, ns.
    bound_ns: i64,
}

/// Runs the command.
pub fn run(args: &Interval, out: &mut dyn Write) -> Ended {
    let clock = clock::open(&args.page)?;
    let now = clock.moment().map_err(clock::unreadable)?;
    let Some(from) = args.from else {
        writeln!(out, "{}", word(now))?;
        return Ok(Outcome::Good);
    };
    let elapsed = clock.elapsed(from, args.to.unwrap_or(now));
    let elapsed = elapsed.map_err(|why| Failure::new("these moments cannot be compared", why))?;
    let ns = elapsed.span.as_nanos_i64();
    // Whole nanoseconds are an error of their own.
    let bound = elapsed.bound + (elapsed.span - Span::from_nanos(ns)).abs();
    if args.json {
        let answer = Answer { elapsed_ns: ns, bound_ns: bound.as_nanos_up() };
        writeln!(out, "{}", show::json(&answer)?)?;
    } else {
        let sign = if ns < 0 { "-" } else { "" };
        let (seconds, rest) =
            (ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000);
        writeln!(out, "{sign}{seconds}.{rest:09} s ± {bound}")?;
    }
    Ok(Outcome::Good)
}

/// A moment as one word.
fn word(moment: Moment) -> String {
    let [count, stretch] = moment.to_words();
    format!("{count:x}.{stretch:x}")
}

fn moment(text: &str) -> Result<Moment, String> {
    let words = text.split_once('.').and_then(|(count, stretch)| {
        let number = |text: &str| {
            let digits = text.bytes().all(|b| b.is_ascii_hexdigit());
            u64::from_str_radix(text, 16).ok().filter(|_| digits)
        };
        Moment::from_words([number(count)?, number(stretch)?])
    });
    words.ok_or_else(|| "not a moment that 'truechimer interval' printed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_word_there_and_back() {
        let one = Moment::from_words([u64::MAX, 0x3_0000_0001]).unwrap();
        assert_eq!(word(one), "ffffffffffffffff.300000001");
        assert_eq!(moment(&word(one)), Ok(one));
        for wrong in
            ["", ".", "1", "1.", "+1.1", "1.1.1", "10000000000000000.1", "1.ffff", "x.1", "1.é"]
        {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
