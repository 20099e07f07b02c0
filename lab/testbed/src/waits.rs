//! Waiting for times by a clock, for machines where no Rust test can run: when each wait ended, by
//! true time.

use std::path::Path;
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
    let sides = [("before", Side::Before), ("best", Side::Best), ("after", Side::After)];
    let result = thread::scope(|scope| {
        let bed = &bed;
        let mut parts = vec![("utc", scope.spawn(move || bed.utc(seconds)))];
        for ((name, side), place) in sides.into_iter().zip(1..).filter(|_| every > 0) {
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
        ends.add(unix * 1_000_000_000, self.reference.now_ns(), &reading, self.look_ns);
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
            ends.add(unix_ns(&tick.reading, tick.time), now, &tick.reading, self.look_ns);
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
    fn add(&mut self, time_ns: i64, truth_ns: i64, reading: &Reading, look_ns: i64) {
        let after = truth_ns - time_ns;
        let (least, most) = self.after.unwrap_or((after, after));
        self.after = Some((least.min(after), most.max(after)));
        self.waits += 1;
        let over = unix_ns(reading, reading.latest) - time_ns;
        self.late += u64::from(over >= (look_ns - LEAD_NS).max(0));
        let bound = reading
            .bound()
            .map_or(u64::MAX, |bound| u64::try_from(bound.as_nanos_up()).unwrap_or(u64::MAX));
        self.bound_ns = self.bound_ns.max(bound);
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
