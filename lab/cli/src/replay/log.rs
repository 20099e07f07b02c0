//! A replay log.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

use serde::Serialize;
use truechimer_daemon::Level;
use truechimer_estimators::Kind;
use truechimer_replay::{Happened, Heard, Options, ReplayError, Summary, What, repeat};
use truechimer_sim::replay::{Gathered, Nanos, Spread, period_s};
use truechimer_sim::stamps::Digits;
use truechimer_time::{Instant, Span, Utc};
use truechimer_timehands::Status;

use super::drawn::{Against, Drawn};
use super::{Job, Kept, Rows, list, spreads, write_facts};
use truechimer_command::show::{json, ppb};
use truechimer_command::{Ended, Failure, Outcome};

/// Decimals of a time: picoseconds.
const DECIMALS: usize = 12;

/// Message about a log that says nothing.
const EMPTY: &str = "the log holds no event yet: there is nothing to replay";

/// The first line of the CSV form.
const CSV_HEADER: &str = "line,count,time_s,event,source,outcome,selection,status,bound_ns,\
    offset_ns,skew_ppb,period_s,rtt_ns,floor_ns,source_bound_ns,deviation_ns,source_offset_ns,\
    logged_ns,text";

/// Result of a replay.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<'a> {
    Same(&'a Summary),
    Other {
        #[serde(flatten)]
        summary: &'a Summary,
        /// Clock − logged clock.
        logged: Option<Spread>,
    },
    Empty(&'a Summary),
    Differs {
        line: u64,
        field: &'a str,
        logged: &'a str,
        decided: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<&'a str>,
    },
}

/// The other clock − the logged one at the replies that were used, once it had settled.
struct Compared {
    settle: Span,
    /// At the first of them.
    first: Option<Instant>,
    gathered: Gathered,
}

impl Compared {
    fn add(&mut self, happened: &Happened) {
        let (Some(ahead), Some((time, _))) = (happened.ahead_of_logged(), happened.time) else {
            return;
        };
        let first = *self.first.get_or_insert(time);
        if time - first >= self.settle {
            self.gathered.add(ahead);
        }
    }
}

pub fn run(job: &Job<'_>, input: impl BufRead, kept: &mut Kept, out: &mut dyn Write) -> Ended {
    let args = job.args;
    for (given, option) in [
        (args.hz.is_some(), "--hz"),
        (args.stamp_error.is_some(), "--stamp-error"),
        (args.root_distance.is_some(), "--root-distance"),
        (args.poll.is_some(), "--poll"),
        (args.max_wander.is_some(), "--max-wander"),
    ] {
        if given {
            return Err(Failure::new(
                option,
                format!("is for stamp files; {} is a replay log, which says it itself", job.name),
            ));
        }
    }
    if job.rows == Rows::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    let mut compared = Compared {
        settle: Span::from_secs(i64::from(args.settle)),
        first: None,
        gathered: Gathered::default(),
    };
    let mut drawn = Drawn::new(job.estimator.map_or("the log's own", Kind::name));
    let reports = args.report.is_some();
    let mut each = |happened: &Happened| -> io::Result<()> {
        compared.add(happened);
        if let Some(taken) = &mut kept.taken {
            taken.add(happened);
        }
        if reports && let (What::Reply(heard), Some((at, _))) = (&happened.what, happened.time) {
            let naive = (Against::Naive, heard.naive_offset());
            let logged = (Against::Logged, happened.ahead_of_logged());
            drawn.add(at, [naive, logged], happened.bound);
        }
        match job.rows {
            Rows::None => Ok(()),
            Rows::Csv => writeln!(out, "{}", csv(happened).map_err(io::Error::other)?),
            Rows::Json => {
                let line = serde_json::to_string(&Line::new(happened));
                writeln!(out, "{}", line.map_err(io::Error::from)?)
            }
        }
    };
    let options = Options { method: job.estimator.map(Kind::method) };
    let done = repeat(input, options, &mut each);
    let logged = compared.gathered.spread();
    if let Ok(summary) = &done {
        drawn.sum(&[(Against::Logged, logged)], summary.used);
    }
    kept.drawn.push(drawn);
    let (answer, good) = match &done {
        Ok(summary) if summary.events == 0 => (Answer::Empty(summary), false),
        Ok(summary) if summary.estimator.is_some() => (Answer::Other { summary, logged }, true),
        Ok(summary) => (Answer::Same(summary), true),
        Err(ReplayError::Differs { line, field, logged, decided, writer }) => {
            let version = writer.as_ref().map(|writer| writer.version.as_str());
            (Answer::Differs { line: *line, field, logged, decided, version }, false)
        }
        Err(ReplayError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Err(Failure::Unread);
        }
        Err(ReplayError::Output(error)) => return Err(Failure::new("standard output", error)),
        Err(why) => return Err(job.failure(why)),
    };
    match (job.rows, &done) {
        (Rows::Csv, Ok(summary)) => {
            if summary.events == 0 {
                out.flush()?;
                truechimer_command::program::complain(&format!("{}: {EMPTY}", job.name));
            }
        }
        // The rows so far are right; that there are no more must not go unsaid.
        (Rows::Csv, Err(why)) => {
            out.flush()?;
            truechimer_command::program::complain(&format!("{}: {why}", job.name));
        }
        _ if args.json => writeln!(out, "{}", json(&answer)?)?,
        (_, Ok(summary)) if summary.events == 0 => writeln!(out, "{}: {EMPTY}", job.name)?,
        (_, Ok(summary)) => show(job, summary, logged, out)?,
        (_, Err(why)) => writeln!(out, "{}: {why}", job.name)?,
    }
    Ok(Outcome::of(good))
}

/// The summary for people.
fn show(
    job: &Job<'_>,
    summary: &Summary,
    logged: Option<Spread>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = &job.name;
    match job.estimator {
        None => writeln!(out, "{name}: every decision is the same to the last bit\n")?,
        Some(other) => {
            let other = other.name();
            writeln!(out, "{name}: the same events by the estimator '{other}'\n")?;
        }
    }
    let refused = summary.refused.iter().map(|(reason, n)| (reason, *n));
    let mut facts = vec![
        ("events", format!("{}, written by version {}", summary.events, summary.version)),
        ("decisions", format!("{}, {} of them hands", summary.actions, summary.hands)),
        ("replies", format!("{} used; refused: {}", summary.used, list(refused))),
        (
            "clock",
            format!(
                "{} disruptions, {} times in holdover, {} reloads",
                summary.disruptions, summary.holdovers, summary.reloads
            ),
        ),
    ];
    if summary.estimator.is_some() {
        let unmatched = match summary.unmatched {
            0 => "it would have sent the very requests that the log's replies answer".into(),
            n => format!(
                "it would not have sent those that {n} of the log's replies answer (it polls at \
                 other times), and goes without these replies"
            ),
        };
        facts.push(("requests", unmatched));
    }
    if summary.truncated {
        let text = "the log breaks off in the middle, as when the daemon was killed";
        facts.push(("end", text.into()));
    }
    if summary.estimator.is_some() && job.args.settle > 0 {
        let text = format!("the first {} s, of the comparison below: --settle", job.args.settle);
        facts.push(("left out", text));
    }
    write_facts(&facts, out)?;
    if summary.estimator.is_none() {
        return Ok(());
    }
    writeln!(out)?;
    spreads(&[("clock - logged", logged)], out)?;
    let text = "its published clock - the one in the log, at every reply that it used: \
                positive = it is ahead of the logged one";
    writeln!(out)?;
    write_facts(&[("", text.into())], out)
}

/// Name of an event, in one word.
fn event(what: &What) -> &'static str {
    match what {
        What::Reply(_) => "reply",
        What::Reload { .. } => "reload",
        What::Disruption => "disruption",
        What::Status { .. } => "status",
        What::Note { level: Level::Warning, .. } => "warning",
        What::Note { .. } => "note",
    }
}

/// Unix seconds.
fn unix(time: Option<(Instant, Utc)>) -> Option<String> {
    time.map(|(_, utc)| format!("{:.DECIMALS$}", Digits(Instant::new(utc.unix, utc.frac))))
}

/// Words to be said besides numbers.
fn remark(what: &What) -> Option<String> {
    match what {
        What::Reply(_) | What::Disruption => None,
        What::Reload { sources } => Some(format!("{sources} sources")),
        What::Status { from } => Some(format!("from {from}")),
        What::Note { text, .. } => Some(text.clone()),
    }
}

fn outcome(heard: &Heard) -> &str {
    heard.refused.as_deref().unwrap_or("used")
}

fn csv(happened: &Happened) -> Result<String, std::fmt::Error> {
    let Happened { line, count, time, logged: _, bound, status, what } = happened;
    let mut text =
        format!("{line},{},{},{}", count.0, unix(*time).unwrap_or_default(), event(what));
    let bound = Nanos(*bound);
    match what {
        What::Reply(heard) => {
            let skew = heard.skew.map(|skew| ppb(skew).to_string()).unwrap_or_default();
            write!(
                text,
                ",{},{},{},{status},{bound},{},{skew},{:e},{},{},{},{},{},{},",
                cell(&heard.source),
                outcome(heard),
                heard.status.name(),
                Nanos(heard.naive_offset()),
                period_s(heard.period),
                Nanos(heard.rtt),
                Nanos(heard.floor),
                Nanos(heard.bound),
                Nanos(heard.deviation),
                Nanos(heard.offset),
                Nanos(happened.ahead_of_logged())
            )?;
        }
        other => {
            let remark = remark(other).unwrap_or_default();
            write!(text, ",,,,{status},{bound},,,,,,,,,,{}", cell(&remark))?;
        }
    }
    Ok(text)
}

/// Text as a cell (RFC 4180); no control characters, whoever they are from.
fn cell(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A row of the JSON form: spans are whole picoseconds.
#[derive(Serialize)]
struct Line<'a> {
    line: u64,
    count: u64,
    time: Option<String>,
    event: &'static str,
    status: Status,
    bound_ps: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(flatten)]
    reply: Option<Reply<'a>>,
}

#[derive(Serialize)]
struct Reply<'a> {
    source: &'a str,
    outcome: &'a str,
    selection: &'static str,
    offset_ps: Option<i128>,
    skew_ppb: Option<f64>,
    period_s: f64,
    rtt_ps: Option<i128>,
    floor_ps: Option<i128>,
    source_bound_ps: Option<i128>,
    deviation_ps: Option<i128>,
    source_offset_ps: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logged_ps: Option<i128>,
}

impl Line<'_> {
    fn new(happened: &Happened) -> Line<'_> {
        let ps = |span: Option<Span>| span.map(Span::as_picos);
        Line {
            line: happened.line,
            count: happened.count.0,
            time: unix(happened.time),
            event: event(&happened.what),
            status: happened.status,
            bound_ps: ps(happened.bound),
            text: remark(&happened.what),
            reply: match &happened.what {
                What::Reply(heard) => Some(Reply {
                    source: &heard.source,
                    outcome: outcome(heard),
                    selection: heard.status.name(),
                    offset_ps: ps(heard.naive_offset()),
                    skew_ppb: heard.skew.map(ppb),
                    period_s: period_s(heard.period),
                    rtt_ps: ps(heard.rtt),
                    floor_ps: ps(heard.floor),
                    source_bound_ps: ps(heard.bound),
                    deviation_ps: ps(heard.deviation),
                    source_offset_ps: ps(heard.offset),
                    logged_ps: ps(happened.ahead_of_logged()),
                }),
                _ => None,
            },
        }
    }
}
