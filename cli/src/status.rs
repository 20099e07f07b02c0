//! `truechimer status`: the clock, and the daemon behind it.

use std::io::Write;

use serde::Serialize;
use truechimer::{Clock, Rate, ReadBy, ReadError, Reading, Span, View};
use truechimer_daemon::control::Answer;
use truechimer_daemon::{
    CardReport, ClockBoundPage, Reason, ReasonKind, SourceReport, SourceStatus, StampTally,
};

use crate::daemon;
use crate::daemon::Control;
use crate::now::{Parts, age, was_set};
use crate::sources::{DoubtJson, ReasonJson};
use clap::Args;
use truechimer_command::clock;
use truechimer_command::clock::Page;
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without the daemon's control socket the clock page alone is shown, which says so.

Of the JSON, daemon.reason says why the clock does not go along with the server that is selected,
or, if none is, with the first that is held off, as 'truechimer sources --help' explains; null if
it does. While it is held off, the bound covers what it says as well: disputed_bound_ns is what of
statistical_bound_ns is there for that, 0 if nothing is. likely_ns is how far the time is likely to
be off, which is no promise.

Exit status: 0 the bound holds, 1 the status says that it does not, 2 error.")]
pub struct Status {
    /// Print one JSON object; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Runs the command.
pub fn run(args: &Status, out: &mut dyn Write) -> Ended {
    let clock = clock::open(&args.page)?;
    let page = Page { page: Some(clock.page().path().to_owned()) };
    let daemon = daemon::ask(&page, &args.control);
    let looked = match clock::look(&clock) {
        Ok(looked) => Some(looked),
        // A daemon that has only just started is no error, and has a status.
        Err(ReadError::NotYet { .. }) if daemon.is_ok() => None,
        Err(why) => return Err(clock::unreadable(why)),
    };
    let state = State { clock: &clock, looked, daemon: &daemon };
    if args.json {
        writeln!(out, "{}", show::json(&state.json())?)?;
    } else {
        for (name, text) in state.lines() {
            writeln!(out, "{name:<12} {text}")?;
        }
    }
    Ok(Outcome::of(looked.is_some_and(|(reading, _)| reading.status.bound_holds())))
}

/// All that is known.
struct State<'a> {
    clock: &'a Clock,
    looked: Option<(Reading, View)>,
    daemon: &'a Result<Answer, Failure>,
}

impl State<'_> {
    fn status(&self) -> &'static str {
        self.looked.map_or("unknown", |(reading, _)| reading.status.name())
    }

    /// Reason for the status: by the reader itself, or else by the daemon.
    fn reason(&self) -> Option<&str> {
        let own = self.looked.and_then(|(_, view)| view.reason);
        let daemon = || self.daemon.as_ref().ok().map(|answer| answer.report.reason.as_str());
        own.or_else(daemon).filter(|reason| !reason.is_empty())
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let reason =
            self.reason().map_or_else(String::new, |why| format!(": {}", show::plain(why)));
        let mut lines = vec![("status", format!("{}{reason}", self.status()))];
        if let Some((reading, view)) = &self.looked {
            lines.push(("time", time(reading, view)));
            if let Some(parts) = Parts::of(reading, view) {
                lines.extend(bound(&parts, view, &self.held_off()));
                lines.extend(view.likely().map(|likely| {
                    let half = likely.rounded_up();
                    ("likely", format!("± {half}, by statistics and a prior; no promise"))
                }));
            }
            lines.push(("counter", self.counter(view)));
            lines.push(("rate", self.rate(view)));
            lines.push(("leap second", leap(reading)));
            lines.push(("hand", hand(view)));
        }
        lines.push(("page", self.clock.page().path().display().to_string()));
        match self.daemon {
            Ok(answer) => {
                lines.extend(by_daemon(answer));
                lines.extend(answer.daemon.cards.iter().map(|card| ("stamps", stamps(card))));
                lines.extend(pages(&answer.daemon.clockbound).map(|text| ("clockbound", text)));
            }
            Err(Failure::Said(why)) => {
                lines.push((
                    "daemon",
                    format!("only the clock page is shown: {}", show::plain(why)),
                ));
            }
            Err(Failure::Unread) => {}
        }
        lines
    }

    fn counter(&self, view: &View) -> String {
        let id = view.hand.counter;
        let resolution = self.daemon.as_ref().ok().map_or_else(String::new, |answer| {
            format!(", resolution {}", answer.daemon.resolution)
        });
        let read = match view.read_by {
            ReadBy::Counter => String::new(),
            ReadBy::Device => ", read from the device".into(),
            ReadBy::RawClock => {
                let error = view.hand.period.span(view.error);
                format!(", read by CLOCK_MONOTONIC_RAW (± {error})")
            }
        };
        let vmclock = match view.hypervisor {
            None => "",
            Some(true) => ", vmclock heard",
            Some(false) => ", vmclock heard by the daemon alone (not readable here)",
        };
        format!(
            "{}, {}{resolution}, epoch {}{read}{vmclock}",
            id.kind,
            show::frequency(view.hand.period.hz()),
            id.epoch.0
        )
    }

    fn rate(&self, view: &View) -> String {
        let skew = self.skew().map_or_else(String::new, |skew| {
            let way = if skew < Rate::ZERO { "slow" } else { "fast" };
            format!("the counter is {} {way} of its nominal rate; ", Rate(skew.0.saturating_abs()))
        });
        let likely = view.difference_deviation.map_or_else(String::new, |deviation| {
            format!(" at most; standard deviation {deviation}")
        });
        format!("{skew}spans of time to ± {}{likely}", view.hand.difference_error)
    }

    fn skew(&self) -> Option<Rate> {
        self.daemon.as_ref().ok().and_then(|answer| answer.report.skew)
    }

    /// The servers whose samples the bound covers though they are held off, as far as the daemon
    /// says.
    fn held_off(&self) -> Vec<&str> {
        self.daemon.as_ref().map_or_else(|_| Vec::new(), |answer| disputed(&answer.report.sources))
    }

    fn json(&self) -> Json<'_> {
        let answer = self.daemon.as_ref().ok();
        let view = self.looked.map(|(_, view)| view);
        let reading = self.looked.map(|(reading, _)| reading);
        let parts = self.looked.and_then(|(reading, view)| Parts::of(&reading, &view));
        let ns = Span::as_nanos_i64;
        Json {
            status: self.status(),
            reason: self.reason(),
            best_unix_ns: reading
                .filter(|_| view.is_some_and(|v| was_set(&v)))
                .and_then(|r| i64::try_from(r.utc().unix_nanos()).ok()),
            bound_ns: parts.as_ref().map(|p| p.whole.as_nanos_up()),
            path_bound_ns: parts.as_ref().map(|p| ns(p.path)),
            statistical_bound_ns: parts.as_ref().map(|p| ns(p.statistical)),
            disputed_bound_ns: parts.as_ref().map(|p| ns(p.disputed)),
            growth_bound_ns: parts.as_ref().map(|p| ns(p.growth)),
            likely_ns: view.and_then(|v| v.likely()).map(Span::as_nanos_up),
            growth_ppb: view.map(|v| show::ppb(v.hand.growth)),
            counter: view.map(|v| v.hand.counter.kind.name()),
            counter_read_by: view.map(|v| v.read_by.name()),
            vmclock: view.and_then(|v| v.hypervisor),
            counter_hz: view.map(|v| v.hand.period.hz()),
            resolution_ns: answer.map(|a| a.daemon.resolution.as_picos() as f64 / 1e3),
            epoch: view.map(|v| v.hand.counter.epoch.0),
            skew_ppb: self.skew().map(show::ppb),
            difference_error_ppb: view.map(|view| show::ppb(view.hand.difference_error)),
            difference_deviation_ppb: view.and_then(|v| v.difference_deviation).map(show::ppb),
            tai_offset: reading.filter(|r| r.leaps().known).map(|r| r.leaps().offset_at(r.best)),
            page: self.clock.page().path().display().to_string(),
            hand: view.map(|v| v.generation),
            hand_age_ns: view.map(|v| ns(age(&v))),
            heartbeat_age_ns: view.and_then(|v| v.heartbeat_age()).map(ns),
            daemon: answer.map(|a| DaemonJson {
                version: &a.daemon.version,
                pid: a.daemon.pid,
                uptime_ns: ns(a.daemon.uptime),
                memory_bytes: a.daemon.memory,
                replay_log: a.daemon.replay_log.as_ref().map(|path| path.display().to_string()),
                system_clock: &a.daemon.system_clock,
                floods: a.daemon.floods,
                cards: &a.daemon.cards,
                clockbound: &a.daemon.clockbound,
                sources: a.report.sources.len(),
                selected: selected(a),
                reason: reason(&a.report.sources).map(ReasonJson::of),
                doubt: reason(&a.report.sources).and_then(DoubtJson::of),
            }),
        }
    }
}

fn time(reading: &Reading, view: &View) -> String {
    match reading.bound() {
        Some(bound) => format!("{} ± {}", show::utc(reading.utc()), bound.rounded_up()),
        None if was_set(view) => format!("{} (nothing is promised)", show::utc(reading.utc())),
        None => "not known".into(),
    }
}

/// The servers that are held off and that the bound covers: the one that the status is about first,
/// and none that a majority contradicts, for which nothing has to be covered.
fn disputed(sources: &[SourceReport]) -> Vec<&str> {
    let covered = |s: &&SourceReport| s.is_held_off() && s.status != SourceStatus::Falseticker;
    let mut held: Vec<&SourceReport> = sources.iter().filter(covered).collect();
    held.sort_by_key(|s| s.status != SourceStatus::Selected);
    held.into_iter().map(|s| s.name.as_str()).collect()
}

/// Parts of the bound.
fn bound(parts: &Parts, view: &View, held_off: &[&str]) -> Vec<(&'static str, String)> {
    let since = view.hand.period.span(view.count - view.hand.base).abs();
    let statistical = parts.plain_statistical();
    let path = format!("{} path: half the least round trip and the server's distance", parts.path);
    let mut lines = vec![
        ("bound", path),
        ("", format!("{statistical} statistical: stamping, queueing, drift")),
        ("", format!("{} growth: {} for {}", parts.growth, view.hand.growth, show::age(since))),
    ];
    if parts.disputed > Span::ZERO {
        let who = match held_off {
            [] => "a server".to_owned(),
            [one] => (*one).to_owned(),
            [one, others @ ..] => format!("{one} and {} more", others.len()),
        };
        let (disputed, say) = (parts.disputed, if held_off.len() > 1 { "say" } else { "says" });
        lines.push(("", format!("{disputed} disputed: to cover what {who} {say} as well")));
    }
    lines
}

fn leap(reading: &Reading) -> String {
    let leaps = reading.leaps();
    let offset = if leaps.known {
        format!("TAI - UTC = {} s", leaps.offset_at(reading.best))
    } else {
        "TAI - UTC not known".into()
    };
    match leaps.next {
        // Shown as the second before it, which is the leap second itself if one is inserted.
        Some(leap) => {
            let at = truechimer::Instant::new(leap.at.saturating_sub(1), 0);
            let what = if leap.step > 0 { "inserted" } else { "left out after" };
            format!("{offset}, one {what} at {}", show::utc(leaps.utc(at)))
        }
        None => format!("{offset}, none announced"),
    }
}

fn hand(view: &View) -> String {
    let left = view.hand.period.span(view.hand.void_after - view.count);
    let void = if !view.hand.status.bound_holds() {
        "promises nothing".into()
    } else if left.is_negative() {
        "void".into()
    } else {
        format!("void in {} if no other comes", show::age(left))
    };
    let looked = view.heartbeat_age().map_or_else(
        || "the daemon has ended".to_owned(),
        |age| format!("the daemon looked {} ago", show::age(age)),
    );
    format!("number {}, {} old, {void}; {looked}", view.generation, show::age(age(view)))
}

/// Stamps of a card, and how often the kernel's took their place.
fn stamps(card: &CardReport) -> String {
    let CardReport { interface, sent, received, .. } = card;
    let kernel = |tally: &StampTally| tally.missing + tally.stepped + tally.unfit;
    format!(
        "{interface}: {} requests and {} replies by the card, {} and {} by the kernel for want of a sound one",
        sent.hardware,
        received.hardware,
        kernel(sent),
        kernel(received)
    )
}

/// States of the pages for clients of ClockBound, if there are any.
fn pages(all: &[ClockBoundPage]) -> Option<String> {
    let one = |page: &ClockBoundPage| format!("{} {}", page.name, page.state.name());
    (!all.is_empty()).then(|| all.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn by_daemon(answer: &Answer) -> [(&'static str, String); 3] {
    let daemon = &answer.daemon;
    let is_noselect = |s: &&SourceReport| {
        s.reason.as_ref().is_some_and(|reason| reason.kind == ReasonKind::Noselect)
    };
    let (noselect, sources): (Vec<_>, Vec<_>) = answer.report.sources.iter().partition(is_noselect);
    let agreeing = sources.iter().filter(|s| s.status.agrees() && !s.is_held_off() && !s.holdover);
    let stale = match sources.iter().filter(|s| s.holdover && !s.is_held_off()).count() {
        0 => String::new(),
        stale => format!(", stale: {stale}"),
    };
    let noselect = match noselect.len() {
        0 => String::new(),
        noselect => format!(", noselect: {noselect}"),
    };
    let agreeing = agreeing.count();
    let agreeing = format!("(agreeing: {agreeing} of {}{stale}{noselect})", sources.len());
    let source = match leading(&answer.report.sources) {
        Some(s) if s.is_held_off() => {
            format!("what was known by {}, which is held off now {agreeing}", s.name)
        }
        Some(s) => format!("{} {agreeing}", s.name),
        None => format!("nobody (servers: {}{noselect})", sources.len()),
    };
    let version = format!(
        "version {}, process {}, up {}, {}.{} MiB resident",
        daemon.version,
        daemon.pid,
        show::age(daemon.uptime),
        daemon.memory >> 20,
        (daemon.memory >> 10) % 1024 * 10 / 1024,
    );
    [("follows", source), ("system clock", daemon.system_clock.clone()), ("daemon", version)]
}

/// The server that leads.
fn leading(sources: &[SourceReport]) -> Option<&SourceReport> {
    sources.iter().find(|s| s.status == SourceStatus::Selected)
}

/// Reason why the clock does not go along with the selected source, or, where none is, with the
/// first that is held off.
fn reason(sources: &[SourceReport]) -> Option<&Reason> {
    let held =
        |s: &&SourceReport| s.reason.as_ref().is_some_and(|reason| reason.kind.is_hold_off());
    let source = leading(sources).or_else(|| sources.iter().find(held));
    source.and_then(|source| source.reason.as_ref())
}

/// Name of the selected source.
fn selected(answer: &Answer) -> Option<&str> {
    leading(&answer.report.sources).map(|s| s.name.as_str())
}

#[derive(Serialize)]
struct Json<'a> {
    status: &'static str,
    reason: Option<&'a str>,
    best_unix_ns: Option<i64>,
    bound_ns: Option<i64>,
    path_bound_ns: Option<i64>,
    statistical_bound_ns: Option<i64>,
    /// Share of the statistical bound that covers words that are held off.
    disputed_bound_ns: Option<i64>,
    growth_bound_ns: Option<i64>,
    /// Likely error of the time, ns; null if nothing but the bound is known.
    likely_ns: Option<i64>,
    growth_ppb: Option<f64>,
    counter: Option<&'static str>,
    counter_read_by: Option<&'static str>,
    /// True if this user's readings hear the hypervisor; null if there is none to hear.
    vmclock: Option<bool>,
    counter_hz: Option<u64>,
    resolution_ns: Option<f64>,
    epoch: Option<u32>,
    skew_ppb: Option<f64>,
    /// Error of an interval at most, and its standard deviation.
    difference_error_ppb: Option<f64>,
    difference_deviation_ppb: Option<f64>,
    tai_offset: Option<i32>,
    page: String,
    hand: Option<u64>,
    hand_age_ns: Option<i64>,
    heartbeat_age_ns: Option<i64>,
    daemon: Option<DaemonJson<'a>>,
}

#[derive(Serialize)]
struct DaemonJson<'a> {
    version: &'a str,
    pid: u32,
    uptime_ns: i64,
    memory_bytes: u64,
    replay_log: Option<String>,
    system_clock: &'a str,
    floods: u64,
    /// Network cards that stamp.
    cards: &'a [CardReport],
    /// Pages for clients of ClockBound.
    clockbound: &'a [ClockBoundPage],
    sources: usize,
    selected: Option<&'a str>,
    /// Reason why the clock does not go along with that one, and in the words of before.
    reason: Option<ReasonJson>,
    doubt: Option<DoubtJson>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::tests::view;
    use truechimer::Status;

    #[test]
    fn stamps_of_a_card() {
        let sent = StampTally { hardware: 9, missing: 1, stepped: 2, unfit: 3 };
        let received = StampTally { hardware: 15, ..StampTally::default() };
        let card = CardReport { interface: "eth0".into(), sent, received, ..CardReport::default() };
        let text = stamps(&card);
        assert!(
            text.starts_with("eth0: 9 requests and 15 replies by the card, 6 and 0 by"),
            "{text}"
        );
    }

    #[test]
    fn pages_for_clients_of_clockbound() {
        use truechimer_daemon::ClockBoundState::{FreeRunning, Lost};
        let of = |(name, state): (&str, _)| ClockBoundPage { name: name.into(), state };
        let both = [("shm", FreeRunning), ("shm1", Lost)].map(of);
        assert_eq!(pages(&both).unwrap(), "shm free-running, shm1 lost");
        assert_eq!(pages(&[]), None);
    }

    #[test]
    fn the_bound_says_what_is_disputed_and_by_whom() {
        let told = |disputed, held_off: &[&str]| {
            let view = view(Status::Holdover, disputed);
            let reading = view.reading(view.count, view.status);
            let lines = bound(&Parts::of(&reading, &view).unwrap(), &view, held_off);
            lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>()
        };
        let ms = Span::from_millis(50);
        let lines = told(ms, &["a:123"]);
        assert_eq!(lines[1], "7.000 µs statistical: stamping, queueing, drift");
        assert_eq!(lines[3], "50.000 ms disputed: to cover what a:123 says as well");
        assert!(told(ms, &["a:123", "b:123", "c:123"])[3].contains("a:123 and 2 more say as"));
        // The page alone does not say who it is.
        assert!(told(ms, &[])[3].ends_with("to cover what a server says as well"));
        assert_eq!(told(Span::ZERO, &["a:123"]).len(), 3);
    }

    #[test]
    fn who_is_disputed_is_whom_the_status_names() {
        use crate::sources::tests;
        let source = |name: &str, status, kind| SourceReport {
            name: name.into(),
            status,
            reason: tests::reason(kind, "so"),
            ..tests::source()
        };
        use ReasonKind::{MaxStep, Outlier, StepSuspected};
        use SourceStatus::{Combined, Falseticker, Selected, Truechimer};
        let sources = [
            source("outvoted", Falseticker, StepSuspected),
            source("beside", Truechimer, MaxStep),
            source("outlier", Combined, Outlier),
            source("leads", Selected, StepSuspected),
        ];
        assert_eq!(reason(&sources).unwrap().kind, StepSuspected);
        // Where all are too far away, none is selected.
        assert_eq!(reason(&sources[1..3]).unwrap().kind, MaxStep);
        assert!(reason(&sources[2..3]).is_none());
        assert_eq!(disputed(&sources), ["leads", "beside"]);
        assert!(disputed(&sources[..1]).is_empty());
    }

    #[test]
    fn a_hand_that_promises_nothing_is_not_void_at_some_time() {
        let text = hand(&view(Status::Synchronised, Span::ZERO));
        assert!(text.contains(", void in 68 min if no other comes;"), "{text}");
        for status in [Status::Unknown, Status::Disrupted] {
            let text = hand(&view(status, Span::ZERO));
            assert!(text.contains(", promises nothing;") && !text.contains("void"), "{text}");
        }
    }
}
