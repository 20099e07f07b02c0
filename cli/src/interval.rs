//! `truechimer interval`: how long it was from one moment of a script to another.

use std::io::Write;

use clap::Args;
use serde::Serialize;
use truechimer::{Moment, Span};
use truechimer_command::clock::{self, Page};
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_time::BootId;

/// Options of `truechimer interval`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without FROM it prints this moment, as one word to keep. With it, how long that was ago, and with TO
how long it was from the one to the other: by the difference clock, which no correction of the time
disturbs. The true length is within the bound of what is printed; starting this program twice takes
some milliseconds, which are part of the length. A moment is good until the counter loses its
continuity (a boot, a suspend), and says of which boot it is.

Examples:
  from=$(truechimer interval); make; truechimer interval $from
  truechimer interval --json $from $to

Exit status: 0 done, 2 error (no clock page, a moment of another boot, say).")]
pub struct Interval {
    /// The first moment, as this command printed it
    #[arg(value_name = "FROM", value_parser = moment)]
    pub from: Option<Kept>,
    /// The second moment [default: now]
    #[arg(value_name = "TO", value_parser = moment)]
    pub to: Option<Kept>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
}

/// Moment in JSON.
#[derive(Serialize)]
struct Now {
    moment: String,
}

/// Answer in JSON.
#[derive(Serialize)]
struct Answer {
    /// Length, ns; negative if the second moment came first.
    elapsed_ns: i64,
    /// The true length is within this of it, ns.
    bound_ns: i64,
}

/// Runs the command.
pub fn run(args: &Interval, out: &mut dyn Write) -> Ended {
    let clock = clock::open(&args.page)?;
    let moment = clock.moment().map_err(|why| clock::unreadable_at(&clock, why))?;
    let boot = clock.view().map_err(|why| clock::unreadable_at(&clock, why))?.hand.counter.boot;
    let now = Kept { moment, boot: tag(boot) };
    let Some(from) = args.from else {
        match args.json {
            true => writeln!(out, "{}", show::json(&Now { moment: now.word() })?)?,
            false => writeln!(out, "{}", now.word())?,
        }
        return Ok(Outcome::Good);
    };
    let to = args.to.unwrap_or(now);
    let refused = |why: String| Failure::new("these moments cannot be compared", why);
    for (kept, which) in [(from, "the first"), (to, "the second")] {
        if kept.boot != now.boot {
            return Err(refused(format!(
                "{which} is of another boot of this machine, or of another machine"
            )));
        }
    }
    let elapsed = clock.elapsed(from.moment, to.moment).map_err(|why| refused(why.to_string()))?;
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

/// A moment, and the boot that it is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    moment: Moment,
    /// Tag of the boot.
    boot: u32,
}

impl Kept {
    /// One word, of which [`moment`] makes it again.
    fn word(self) -> String {
        let [count, stretch] = self.moment.to_words();
        format!("{count:x}.{stretch:x}.{:08x}", self.boot)
    }
}

/// Part of a boot's identity that tells it from others: one of four thousand million is like it.
fn tag(BootId([a, b, c, d, ..]): BootId) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

fn moment(text: &str) -> Result<Kept, String> {
    let none = || "not a moment that 'truechimer interval' printed".to_owned();
    let number = |text: &str| {
        let digits = text.bytes().all(|b| b.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| digits)
    };
    let mut words = text.splitn(3, '.');
    let mut next = || words.next().map(number);
    let (count, stretch, boot) = (next().flatten(), next().flatten(), next());
    let moment =
        count.zip(stretch).and_then(|(count, stretch)| Moment::from_words([count, stretch]));
    match (moment, boot) {
        (Some(_), None) => Err("a moment of an earlier release, which does not say of which boot \
                                it is: begin anew"
            .to_owned()),
        (Some(moment), Some(boot)) => {
            let boot = boot.and_then(|boot| u32::try_from(boot).ok()).ok_or_else(none)?;
            Ok(Kept { moment, boot })
        }
        (None, _) => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_word_there_and_back() {
        let words = [u64::MAX, 0x3_0000_0001];
        let boot = tag(BootId([0, 0xb1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]));
        let one = Kept { moment: Moment::from_words(words).unwrap(), boot };
        assert_eq!(one.word(), "ffffffffffffffff.300000001.00b10203");
        assert_eq!(moment(&one.word()), Ok(one));
        for wrong in [
            "",
            ".",
            "..",
            "1",
            "1.",
            "+1.1.1",
            "1.1.",
            "1.1.1.1",
            "10000000000000000.1.1",
            "1.ffff.1",
            "x.1.1",
            "1.é.1",
            "1.1.100000000",
            "1.1.-1",
            "1.ffff",
        ] {
            let why = moment(wrong).unwrap_err();
            assert!(why.starts_with("not a moment"), "{wrong}: {why}");
        }
        assert!(moment("ffffffffffffffff.300000001").unwrap_err().contains("earlier release"));
    }
}
