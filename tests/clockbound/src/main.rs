//! The unmodified clients of ClockBound 1.x, 2.x and 3.x, beside a truth that is a line over
//! `CLOCK_MONOTONIC_RAW`, as `truechimer-testbed serve` serves it.
//!
//!     clockbound-clients CLIENT PAGE SECONDS READINGS UNIX_S[+PPB|-PPB][,leap=UNIX_S]
//!
//! CLIENT is 1, 2, 3, or `yugabyte`: what YugabyteDB does with a client 1.x. The client is opened
//! once and stays open, whatever its daemon does. Prints one line of JSON: how many readings there
//! were, of how many a bound was promised, how many of those do not contain the truth (`broken`), how
//! often each status was seen, each change of it with its second, and what errors there were.
//!
//!     clockbound-clients yugabyte-start PAGE SECONDS
//!
//! Start of YugabyteDB, before it serves (its `clockbound_clock.cc` of commit b957a60f; its limit is 120 s):
//! prints `started`, `waited` if it did so not at once, or why it ended.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Number of readings made in one go.
const BURST: u32 = 100;
/// The widest error at which YugabyteDB goes on: half of its default `max_clock_skew_usec`, ns.
const YUGABYTE_MOST: i128 = 250_000_000;

/// The widest error at which it starts, and in which it takes its time for the present: its default
/// `clockbound_clock_error_estimate_usec`, ns.
const YUGABYTE_ESTIMATE: i128 = 2_500_000;

/// A reading: earliest and latest, ns since 1970, and the status by its name.
type Reading = Result<(i128, i128, String), String>;

/// A client that was opened.
type Client = Box<dyn FnMut() -> Reading>;

fn nanos(secs: i64, nanos: i64) -> i128 {
    i128::from(secs) * 1_000_000_000 + i128::from(nanos)
}

fn text(why: impl Debug) -> String {
    format!("{why:?}").replace('"', "'")
}

fn open(client: &str, page: &str) -> Result<Client, String> {
    Ok(match client {
        "1" => {
            let mut client =
                clock_bound_client_1::ClockBoundClient::new_with_path(page).map_err(text)?;
            Box::new(move || {
                let now = client.now().map_err(text)?;
                let [earliest, latest] =
                    [now.earliest, now.latest].map(|t| nanos(t.tv_sec(), t.tv_nsec()));
                Ok((earliest, latest, format!("{:?}", now.clock_status)))
            })
        }
        "2" => {
            let mut client =
                clock_bound_client_2::ClockBoundClient::new_with_path(page).map_err(text)?;
            Box::new(move || {
                let now = client.now().map_err(text)?;
                let [earliest, latest] =
                    [now.earliest, now.latest].map(|t| nanos(t.tv_sec(), t.tv_nsec()));
                Ok((earliest, latest, format!("{:?}", now.clock_status)))
            })
        }
        "3" => {
            let mut client = clock_bound::Client::new_with_path(page).map_err(text)?;
            Box::new(move || {
                let now = client.now().map_err(text)?;
                let [earliest, latest] =
                    [now.earliest, now.latest].map(|t| nanos(t.tv_sec(), t.tv_nsec()));
                Ok((earliest, latest, format!("{:?}", now.clock_status)))
            })
        }
        "yugabyte" => {
            let mut client = open("1", page)?;
            Box::new(move || {
                // Any error is the end of the request, and Unknown is one.
                let (earliest, latest, status) = client()?;
                if status == "Unknown" {
                    return Ok((earliest, latest, "unavailable".into()));
                }
                let error = yugabyte_error(earliest, latest);
                Ok(match () {
                    () if earliest > latest => (earliest, latest, "anomaly".into()),
                    () if error > YUGABYTE_MOST => (earliest, latest, "unavailable".into()),
                    // It warns of that, and serves.
                    () if status == "FreeRunning" => (earliest, latest, "warned".into()),
                    () => (earliest, latest, "served".into()),
                })
            })
        }
        other => return Err(format!("no client `{other}`")),
    })
}

/// Half of an interval, ns, in whole microseconds as YugabyteDB counts them.
fn yugabyte_error(earliest: i128, latest: i128) -> i128 {
    let [earliest_us, latest_us] = [earliest, latest].map(|t| t.div_euclid(1_000));
    (latest_us - earliest_us + 1).div_euclid(2) * 1_000
}

/// Start of YugabyteDB: looks once a second until the time is good, for so long at most.
fn yugabyte_start(page: &str, seconds: &str) -> Result<String, String> {
    let limit = Duration::from_secs(seconds.parse().map_err(text)?);
    // A page that cannot be opened ends it at once, as an error does.
    let mut client = open("1", page)?;
    let begun = Instant::now();
    let mut waited = false;
    loop {
        let (earliest, latest, status) = client()?;
        let error = yugabyte_error(earliest, latest);
        let why = match status.as_str() {
            "Synchronized" if error <= YUGABYTE_ESTIMATE => {
                return Ok(if waited { "waited" } else { "started" }.into());
            }
            "Synchronized" => format!("an error of {error} ns"),
            status => format!("the clock is {status}"),
        };
        if begun.elapsed() >= limit {
            return Err(format!("gave up: {why}"));
        }
        waited = true;
        sleep(Duration::from_secs(1));
    }
}

/// A line over the raw clock.
struct Line {
    unix_s: i128,
    ppb: i128,
    /// Unix second before which a second is inserted.
    leap: Option<i128>,
}

impl Line {
    fn parse(text: &str) -> Option<Line> {
        let (text, leap) = match text.split_once(",leap=") {
            Some((text, leap)) => (text, Some(leap.parse().ok()?)),
            None => (text, None),
        };
        let sign = text.get(1..)?.find(['+', '-']).map(|at| at + 1);
        let (unix, ppb) = text.split_at(sign.unwrap_or(text.len()));
        let ppb = if ppb.is_empty() { 0 } else { ppb.parse().ok()? };
        Some(Line { unix_s: unix.parse().ok()?, ppb, leap })
    }

    /// The truth now, ns since 1970.
    fn now(&self) -> i128 {
        let raw = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW);
        let raw = raw.map_or(0, |raw| nanos(raw.tv_sec(), raw.tv_nsec()));
        let smooth = self.unix_s * 1_000_000_000 + raw + raw * self.ppb / 1_000_000_000;
        let is_over = self.leap.is_some_and(|at| smooth >= at * 1_000_000_000);
        if is_over { smooth - 1_000_000_000 } else { smooth }
    }
}

fn run(arguments: &[String]) -> Result<String, String> {
    let (client, page, seconds, readings, line) = match arguments {
        [start, page, seconds] if start == "yugabyte-start" => return yugabyte_start(page, seconds),
        [client, page, seconds, readings, line] => (client, page, seconds, readings, line),
        _ => {
            let usage = "usage: clockbound-clients 1|2|3|yugabyte PAGE SECONDS READINGS LINE, or \
                         clockbound-clients yugabyte-start PAGE SECONDS";
            return Err(usage.into());
        }
    };
    let line = Line::parse(line).ok_or("no line")?;
    let wanted: u32 = readings.parse().map_err(text)?;
    let length = Duration::from_secs_f64(seconds.parse().map_err(text)?);
    let begun = Instant::now();
    let mut client = loop {
        match open(client, page) {
            Ok(client) => break client,
            Err(why) if begun.elapsed() > Duration::from_secs(10) => return Err(why),
            Err(_) => sleep(Duration::from_millis(20)),
        }
    };
    println!("opened");
    let begun = Instant::now();
    let (mut count, mut promised, mut broken, mut errors) = (0u32, 0u32, 0u32, 0u32);
    let (mut worst, mut widest, mut first_error) = (0i128, 0i128, String::new());
    let mut statuses: BTreeMap<String, u32> = BTreeMap::new();
    let mut changes: Vec<String> = Vec::new();
    let mut last = String::new();
    while begun.elapsed() < length || count < wanted {
        for _ in 0..BURST {
            let before = line.now();
            let reading = client();
            let after = line.now();
            count += 1;
            let status = match reading {
                Err(why) => {
                    errors += 1;
                    if first_error.is_empty() {
                        first_error = why;
                    }
                    "error".to_owned()
                }
                Ok((earliest, latest, status)) => {
                    let good = ["Synchronized", "FreeRunning", "served", "warned"];
                    if good.contains(&status.as_str()) {
                        promised += 1;
                        widest = widest.max(latest - earliest);
                        // The truth was in between at some moment between the two.
                        let off = (earliest - after).max(before - latest);
                        worst = worst.max(off);
                        broken += u32::from(off > 0);
                    }
                    status
                }
            };
            if status != last {
                let at = begun.elapsed().as_secs_f64();
                changes.push(format!("[{at:.3},\"{status}\"]"));
                last.clone_from(&status);
            }
            *statuses.entry(status).or_default() += 1;
        }
        // Spread over the time that there is.
        let due = length.mul_f64(f64::from(count) / f64::from(wanted.max(1)));
        sleep(due.min(length).saturating_sub(begun.elapsed()));
    }
    let statuses: Vec<String> = statuses.iter().map(|(s, n)| format!("\"{s}\":{n}")).collect();
    Ok(format!(
        "{{\"readings\":{count},\"promised\":{promised},\"broken\":{broken},\"worst_ns\":{worst},\
         \"widest_ns\":{widest},\"errors\":{errors},\"error\":\"{first_error}\",\
         \"statuses\":{{{}}},\"changes\":[{}]}}",
        statuses.join(","),
        changes.join(",")
    ))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
