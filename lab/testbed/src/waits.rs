//! Waiting for times by a clock, for machines where no Rust test can run: when each wait ended, by
//! true time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use truechimer::{Clock, Instant, Reading, Side, Span, Timer, WaitError};
use truechimer_testbed::scale::Reference;
use truechimer_testbed::watch::median;

use crate::look::PATIENCE;

/// Time beyond what it should last that a wait may last, before that is an error.
const OVERTIME: Duration = Duration::from_secs(60);

/// Lead of a wait on the side before: it ends so long before its time, ns, as `truechimer::Side` says.
const LEAD_NS: i64 = 1_000;
/// Looks at the clock that are measured.
const LOOKS: usize = 101;
const NANOS: i64 = 1_000_000_000;

/// Sides, their names, and their numbers in other languages.
const SIDES: [(&str, Side, u8); 3] =
    [("before", Side::Before, 0), ("best", Side::Best, 1), ("after", Side::After, 2)];

/// Waits for a time in UTC, whole seconds from now; meanwhile, on each side, for every tick of a timer
/// unless `every` is 0. Prints when they ended.
pub fn waits(page: &str, reference: &str, seconds: &str, every: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is no number"));
    let reference: Reference = reference.parse()?;
    let seconds = number(seconds)?;
    let every = number(every)?;
    let clock = Clock::open_within(Some(Path::new(page)), PATIENCE)
        .map_err(|error| format!("{page}: {error}"))?;
    let begin = clock.now().map_err(|error| format!("{page}: {error}"))?;
    let bed = Bed {
        clock: &clock,
        reference,
        begin,
        last: begin.best + Span::from_secs(seconds.into()),
        timeout: Duration::from_secs(seconds.into()) + OVERTIME,
        look_ns: look_ns(&clock, reference).map_err(|error| error.to_string())?,
    };
    let result = thread::scope(|scope| {
        let bed = &bed;
        let mut parts = vec![("utc", scope.spawn(move || bed.utc(seconds)))];
        for ((name, side, _), place) in SIDES.into_iter().zip(1..).filter(|_| every > 0) {
            // Beside each other: there may be one CPU for all of them.
            let first = Span::from_micros(i64::from(every) * 1000 * place / 4);
            parts.push((name, scope.spawn(move || bed.timer(side, first, every))));
        }
        let done = parts.into_iter().map(|(name, part)| match part.join() {
            Ok(ends) => Ok((name.to_owned(), ends.map_err(|error| error.to_string())?.result())),
            Err(_) => Err(format!("{name}: it panicked")),
        });
        let look = Ok(("look_ns".to_owned(), bed.look_ns.into()));
        done.chain([look]).collect::<Result<_, String>>().map(Value::Object)
    })?;
    println!("{result:#}");
    Ok(())
}

/// Median time that a wait takes which is over when it begins, ns: one look, and a little more.
fn look_ns(clock: &Clock, reference: Reference) -> Result<i64, WaitError> {
    let past = Instant(0);
    let mut looks = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let (first, before) = (reference.now_ns(), reference.now_ns());
        clock.wait_for(past, Side::Before, Some(OVERTIME))?;
        looks.push(reference.now_ns() - before - (before - first));
    }
    Ok(median(looks.into_iter()))
}

/// Parts that all waits share.
struct Bed<'a> {
    clock: &'a Clock,
    reference: Reference,
    /// Reading before the first wait.
    begin: Reading,
    /// The last time to be waited for.
    last: Instant,
    timeout: Duration,
    /// Time that a look at the clock takes, ns.
    look_ns: i64,
}

impl Bed<'_> {
    /// One wait from the begin to the end.
    fn utc(&self, seconds: u32) -> Result<Ends, WaitError> {
        let begin = self.begin.leaps().utc(self.begin.best);
        let unix = begin.unix + i64::from(seconds);
        let reading = self.clock.wait_for_utc((unix, 0), Side::After, Some(self.timeout))?;
        let mut ends = Ends::default();
        ends.add_reading(unix * 1_000_000_000, self.reference.now_ns(), &reading, self.look_ns);
        Ok(ends)
    }

    /// Waits for `first` after the begin, and every `every` ms from then on.
    fn timer(&self, side: Side, first: Span, every: u32) -> Result<Ends, WaitError> {
        let every = Span::from_millis(every.into());
        let mut timer = Timer::new(self.clock, self.begin.best + first, every, side);
        let mut ends = Ends::default();
        loop {
            let tick = timer.tick(Some(self.timeout))?;
            let now = self.reference.now_ns();
            ends.add_reading(unix_ns(&tick.reading, tick.time), now, &tick.reading, self.look_ns);
            ends.missed += tick.missed;
            if tick.time + every > self.last {
                return Ok(ends);
            }
        }
    }
}

/// Unix time, ns.
fn unix_ns(reading: &Reading, time: Instant) -> i64 {
    i64::try_from(reading.leaps().utc(time).unix_nanos()).unwrap_or(i64::MAX)
}

/// Ends of waits of one kind.
#[derive(Default)]
struct Ends {
    /// True time just after the end − the time waited for: smallest and largest, ns.
    after: Option<(i64, i64)>,
    waits: u64,
    /// Ends whose reading shows the time to be over for longer than a look at the clock takes beyond the
    /// lead: by a moment at which nobody looked.
    late: u64,
    missed: u64,
    /// Largest bound at an end, ns.
    bound_ns: u64,
}

impl Ends {
    /// A wait for `time_ns` is over, at `truth_ns`, by this reading.
    fn add_reading(&mut self, time_ns: i64, truth_ns: i64, reading: &Reading, look_ns: i64) {
        let over = unix_ns(reading, reading.latest) - time_ns;
        self.late += u64::from(over >= (look_ns - LEAD_NS).max(0));
        let bound = reading
            .bound()
            .map_or(u64::MAX, |bound| u64::try_from(bound.as_nanos_up()).unwrap_or(u64::MAX));
        self.add(time_ns, truth_ns, bound);
    }

    /// A wait for `time_ns` is over, at `truth_ns`, by a reading of that bound.
    fn add(&mut self, time_ns: i64, truth_ns: i64, bound_ns: u64) {
        let after = truth_ns - time_ns;
        let (least, most) = self.after.unwrap_or((after, after));
        self.after = Some((least.min(after), most.max(after)));
        self.waits += 1;
        self.bound_ns = self.bound_ns.max(bound_ns);
    }

    fn result(&self) -> Value {
        json!({
            "waits": self.waits,
            "late": self.late,
            "missed": self.missed,
            "first_ns": self.after.map(|(least, _)| least),
            "last_ns": self.after.map(|(_, most)| most),
            "bound_ns": self.bound_ns,
        })
    }
}

/// Like [`waits`], by a client in another language: a program that answers questions, one a line, as
/// those of `clock/client/tests/languages.rs` do. Its ticks are `shift` ms after those.
pub fn waits_by(
    program: &str,
    shift: &str,
    [page, reference, seconds, every]: [&str; 4],
) -> Result<(), String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is no number"));
    let reference: Reference = reference.parse()?;
    let (seconds, every, shift) = (number(seconds)?, number(every)?, number(shift)?);
    let timeout_ms = (u64::from(seconds) + OVERTIME.as_secs()) * 1000;
    let mut asked = Asked::start(program, page)?;
    let begin_ns = asked.ask("now")?.get(2).copied().ok_or("no time")?;
    let end_ns = begin_ns - begin_ns.rem_euclid(NANOS) + i64::from(seconds) * NANOS;
    let result = thread::scope(|scope| {
        let utc = move || -> Result<Ends, String> {
            let answer = asked.ask(&format!("for {end_ns} 2 {timeout_ms}"))?;
            let truth_ns = reference.now_ns();
            let mut ends = Ends::default();
            ends.add(end_ns, truth_ns, bound_of(&answer, 0)?);
            Ok(ends)
        };
        let mut parts = vec![("utc", scope.spawn(utc))];
        for ((name, _, side), place) in SIDES.into_iter().zip(1..).filter(|_| every > 0) {
            let first_ns = begin_ns + (i64::from(every) * place / 4 + i64::from(shift)) * 1_000_000;
            let mut asked = Asked::start(program, page)?;
            let timer = move || -> Result<Ends, String> {
                let every_ns = i64::from(every) * 1_000_000;
                asked.ask(&format!("timer {first_ns} {every_ns} {side}"))?;
                let mut ends = Ends::default();
                loop {
                    let answer = asked.ask(&format!("tick {timeout_ms}"))?;
                    let truth_ns = reference.now_ns();
                    let [time_ns, missed, ..] = *answer else { return Err(format!("{answer:?}")) };
                    ends.add(time_ns, truth_ns, bound_of(&answer, 2)?);
                    ends.missed += u64::try_from(missed).unwrap_or(u64::MAX);
                    if time_ns + every_ns > end_ns {
                        return Ok(ends);
                    }
                }
            };
            parts.push((name, scope.spawn(timer)));
        }
        let done = parts.into_iter().map(|(name, part)| match part.join() {
            Ok(ends) => {
                Ok((name.to_owned(), ends.map_err(|why| format!("{name}: {why}"))?.result()))
            }
            Err(_) => Err(format!("{name}: it panicked")),
        });
        done.collect::<Result<_, String>>().map(Value::Object)
    })?;
    println!("{result:#}");
    Ok(())
}

/// Bound of a reading that begins at that number of an answer: its count, earliest, best, latest, bound.
fn bound_of(answer: &[i64], at: usize) -> Result<u64, String> {
    let bound = answer.get(at + 4).copied().unwrap_or(-1);
    u64::try_from(bound).map_err(|_| format!("a reading without a bound: {answer:?}"))
}

/// A program that is asked.
struct Asked {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Asked {
    /// Starts it with the clock of that page.
    fn start(program: &str, page: &str) -> Result<Asked, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{program}: no pipes"));
        };
        let mut asked = Asked { child, questions, answers: BufReader::new(answers) };
        asked.ask(&format!("open {page}"))?;
        Ok(asked)
    }

    /// Asks it, and returns the numbers of its answer; what else than `ok` is none is an error of its.
    fn ask(&mut self, question: &str) -> Result<Vec<i64>, String> {
        let mut line = String::new();
        let asked =
            writeln!(self.questions, "{question}").and_then(|()| self.answers.read_line(&mut line));
        asked.map_err(|error| format!("{question}: {error}"))?;
        if line == "ok\n" {
            return Ok(Vec::new());
        }
        // A count has all 64 bits.
        let number = |word: &str| word.parse::<i64>().or_else(|_| word.parse::<u64>().map(|_| 0));
        line.split_whitespace()
            .map(number)
            .collect::<Result<_, _>>()
            .map_err(|_| format!("{question}: {}", line.trim_end()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
