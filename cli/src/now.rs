//! `truechimer now`: the time, with its bound.

use std::io::Write;

use serde::Serialize;
use truechimer::{Clock, Instant, Reading, Span, Status, View};

use crate::daemon;
use clap::Args;
use truechimer_command::clock;
use truechimer_command::clock::Page;
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer now`.
#[derive(Args, Debug)]
#[command(after_help = "\
True time lies between earliest and latest while the status is synchronised or holdover.

While a server is held off, as its time has moved by more than it may, the bound may have to cover
both what was known and what it says now: 'disputed' is what is there for that only. Of the JSON
it is disputed_bound_ns, which is contained in statistical_bound_ns; 0 if nothing is disputed.

'likely' (likely_ns) is how far best is likely to be off, by statistics and a prior for asymmetry,
at likely-confidence. It promises nothing: who waits until a time is over goes by the bound.

While the clock is not synchronised the daemon is asked why, if it answers beside the clock page
('reason' of the JSON, null while it is synchronised).

Exit status: 0 the bound holds, 1 the status says that it does not (unknown, disrupted),
2 error (no clock page, say).")]
pub struct Now {
    /// Print one JSON object; times are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    /// TAI instead of UTC
    #[arg(long)]
    pub tai: bool,
    #[command(flatten)]
    pub page: Page,
}

/// Runs the command.
pub fn run(args: &Now, out: &mut dyn Write) -> Ended {
    let clock = clock::open(&args.page)?;
    let (reading, view) = clock::look(&clock).map_err(|why| clock::unreadable_at(&clock, why))?;
    let scale = Scale::of(args.tai, &reading)?;
    let why = why(&clock, &view);
    if args.json {
        writeln!(out, "{}", scale.json(&reading, &view, why.as_deref())?)?;
    } else {
        write_text(&scale, &reading, &view, why.as_deref(), out)?;
    }
    Ok(Outcome::of(reading.status.bound_holds()))
}

/// Reason for a status that is not synchronised: by the reader itself, or else by the daemon, as far as
/// it can be asked at once.
fn why(clock: &Clock, view: &View) -> Option<String> {
    if let Some(own) = view.reason {
        return Some(own.to_owned());
    }
    let status = Some(view.status).filter(|status| *status != Status::Synchronised)?;
    daemon::reason(clock.page().path(), status)
}

/// On which scale times are shown.
enum Scale {
    Utc(truechimer::Leaps),
    Tai,
}

impl Scale {
    fn of(tai: bool, reading: &Reading) -> Result<Scale, Failure> {
        let leaps = reading.leaps();
        match (tai, leaps.known) {
            (false, _) => Ok(Scale::Utc(leaps)),
            (true, true) => Ok(Scale::Tai),
            (true, false) => Err(Failure::new(
                "TAI is not known",
                "the daemon found no list of leap seconds that is still good; update tzdata, or \
                 set leap-file in its configuration",
            )),
        }
    }

    fn text(&self, at: Instant) -> String {
        match self {
            Scale::Utc(leaps) => show::utc(leaps.utc(at)),
            Scale::Tai => show::tai(at) + " TAI",
        }
    }

    /// Nanoseconds since 1970, rounded down.
    fn nanos(&self, at: Instant) -> i64 {
        let nanos = match self {
            Scale::Utc(leaps) => leaps.utc(at).unix_nanos(),
            Scale::Tai => {
                (at.0 >> 64) * 1_000_000_000
                    + ((u128::from(at.frac()) * 1_000_000_000) >> 64) as i128
            }
        };
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    fn json(&self, reading: &Reading, view: &View, why: Option<&str>) -> Result<String, Failure> {
        let holds = reading.status.bound_holds();
        let latest = show::round_up(reading.latest);
        let parts = Parts::of(reading, view);
        let common = Common {
            status: reading.status.name(),
            reason: why.map(str::to_owned),
            bound_ns: parts.as_ref().map(|p| p.whole.as_nanos_up()),
            path_bound_ns: parts.as_ref().map(|p| p.path.as_nanos_i64()),
            statistical_bound_ns: parts.as_ref().map(|p| p.statistical.as_nanos_i64()),
            disputed_bound_ns: parts.as_ref().map(|p| p.disputed.as_nanos_i64()),
            growth_bound_ns: parts.as_ref().map(|p| p.growth.as_nanos_i64()),
            likely_ns: view.likely().map(Span::as_nanos_up),
            count: reading.count.0,
            counter: view.hand.counter.kind.name(),
            counter_read_by: view.read_by.name(),
            epoch: view.hand.counter.epoch.0,
            hand_age_ns: age(view).as_nanos_i64(),
            tai_offset: reading.leaps().known.then(|| reading.leaps().offset_at(reading.best)),
            leap_next: reading.leaps().next.map(|leap| LeapJson { at: leap.at, step: leap.step }),
        };
        let best = was_set(view).then(|| self.nanos(reading.best));
        let earliest = holds.then(|| self.nanos(reading.earliest));
        let latest_ns = holds.then(|| self.nanos(latest));
        let text = |at| holds.then(|| self.text(at));
        match self {
            Scale::Utc(_) => show::json(&UtcJson {
                best_unix_ns: best,
                earliest_unix_ns: earliest,
                latest_unix_ns: latest_ns,
                best_utc: was_set(view).then(|| self.text(reading.best)),
                earliest_utc: text(reading.earliest),
                latest_utc: text(latest),
                common,
            }),
            Scale::Tai => show::json(&TaiJson {
                best_tai_ns: best,
                earliest_tai_ns: earliest,
                latest_tai_ns: latest_ns,
                common,
            }),
        }
    }
}

/// Parts of the bound.
pub struct Parts {
    /// All of it.
    pub whole: Span,
    /// Half the least round trip and the server's own root distance.
    pub path: Span,
    /// Stamping, queueing, drift, when the hand was made, and what is disputed.
    pub statistical: Span,
    /// Part of that which is there only because a word that is held off has to be covered as well.
    pub disputed: Span,
    /// Growth since.
    pub growth: Span,
}

impl Parts {
    /// `None` while nothing is promised.
    pub fn of(reading: &Reading, view: &View) -> Option<Parts> {
        let whole = reading.bound()?;
        let (path, statistical) = (view.hand.path_bound, view.hand.statistical_bound);
        let disputed = view.disputed()?;
        Some(Parts { whole, path, statistical, disputed, growth: whole - path - statistical })
    }

    /// The statistical part without what is disputed.
    pub fn plain_statistical(&self) -> Span {
        self.statistical - self.disputed
    }
}

/// True if the hand in force comes from any server at all, so that its time means something.
pub fn was_set(view: &View) -> bool {
    view.hand.status != Status::Unknown
}

/// The time since the hand in force was made.
pub fn age(view: &View) -> Span {
    view.hand.period.span(view.count - view.made.count)
}

fn write_text(
    scale: &Scale,
    reading: &Reading,
    view: &View,
    why: Option<&str>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut line = |name: &str, text: &str| writeln!(out, "{name:<9} {text}");
    if let Some(parts) = Parts::of(reading, view) {
        line("earliest", &scale.text(reading.earliest))?;
        line("best", &scale.text(reading.best))?;
        line("latest", &scale.text(show::round_up(reading.latest)))?;
        let disputed = match parts.disputed {
            Span::ZERO => String::new(),
            disputed => format!(" + disputed {disputed}"),
        };
        line(
            "bound",
            &format!(
                "± {} = path {} + statistical {}{disputed} + growth {}",
                parts.whole.rounded_up(),
                parts.path,
                parts.plain_statistical(),
                parts.growth
            ),
        )?;
        if let Some(likely) = view.likely() {
            line("likely", &format!("± {}, by statistics; no promise", likely.rounded_up()))?;
        }
    } else {
        let best = scale.text(reading.best);
        let best = if was_set(view) { best + " (nothing is promised)" } else { "not known".into() };
        line("best", &best)?;
    }
    let why = why.map_or_else(String::new, |reason| format!(": {}", show::plain(reason)));
    line("status", &format!("{}{why}", reading.status))?;
    line(
        "by",
        &format!(
            "a hand {} old; count {} of counter {}, epoch {}",
            show::age(age(view)),
            reading.count.0,
            view.hand.counter.kind,
            view.hand.counter.epoch.0
        ),
    )
}

#[derive(Serialize)]
struct UtcJson {
    best_unix_ns: Option<i64>,
    earliest_unix_ns: Option<i64>,
    latest_unix_ns: Option<i64>,
    best_utc: Option<String>,
    earliest_utc: Option<String>,
    latest_utc: Option<String>,
    #[serde(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct TaiJson {
    best_tai_ns: Option<i64>,
    earliest_tai_ns: Option<i64>,
    latest_tai_ns: Option<i64>,
    #[serde(flatten)]
    common: Common,
}

/// Fields that are the same on every scale; what is not promised is null.
#[derive(Serialize)]
struct Common {
    status: &'static str,
    /// Reason for a status other than synchronised.
    reason: Option<String>,
    bound_ns: Option<i64>,
    path_bound_ns: Option<i64>,
    statistical_bound_ns: Option<i64>,
    /// Share of the statistical bound that covers words that are held off.
    disputed_bound_ns: Option<i64>,
    growth_bound_ns: Option<i64>,
    /// Likely error of `best`, ns, which is no promise; null if nothing but the bound is known.
    likely_ns: Option<i64>,
    count: u64,
    counter: &'static str,
    counter_read_by: &'static str,
    epoch: u32,
    hand_age_ns: i64,
    tai_offset: Option<i32>,
    leap_next: Option<LeapJson>,
}

/// A leap second to come.
#[derive(Serialize)]
struct LeapJson {
    /// The second of the leap-free scale at which it has happened.
    at: i64,
    step: i8,
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use truechimer::{Count, CountSpan, ReadBy};
    use truechimer_time::{BootId, CounterId, CounterKind, Epoch, Period, Rate};
    use truechimer_timehands::{Hand, Likely, Made};

    const US: fn(i64) -> Span = Span::from_micros;

    /// View of a reader a second after a hand was made of which so much is disputed.
    pub fn view(status: Status, disputed: Span) -> View {
        let base = Count(5_000_000_000);
        let hand = Hand {
            path_bound: US(100),
            statistical_bound: US(7) + disputed,
            disputed,
            growth: Rate::from_ppb(1000),
            status,
            ..Hand::exact(
                CounterId { kind: CounterKind::Raw, boot: BootId([1; 16]), epoch: Epoch(2) },
                base,
                Instant::new(1_800_000_000, 0),
                Period::NANOSECOND,
                base + CountSpan(4_096_000_000_000),
            )
        };
        let at = |count| Made { count, monotonic_ns: 5, raw_ns: 5, suspended_ns: 0, device: None };
        let count = base + CountSpan(1_000_000_000);
        let (error, read_by) = (CountSpan::ZERO, ReadBy::Counter);
        let (generation, made, heartbeat) = (3, at(base), count);
        View {
            count,
            error,
            read_by,
            generation,
            hand,
            made,
            heartbeat,
            difference_deviation: None,
            hypervisor: None,
            status,
            reason: None,
        }
    }

    fn told(status: Status, disputed: Span) -> (String, serde_json::Value) {
        let view = view(status, disputed);
        let reading = view.reading(view.count, status);
        let scale = Scale::Utc(reading.leaps());
        let mut text = Vec::new();
        write_text(&scale, &reading, &view, None, &mut text).unwrap();
        let json = serde_json::from_str(&scale.json(&reading, &view, None).unwrap()).unwrap();
        (String::from_utf8(text).unwrap(), json)
    }

    #[test]
    fn what_is_disputed_is_shown_apart() {
        let (text, json) = told(Status::Holdover, Span::from_millis(50));
        let parts = "± 50.108 ms = path 100.000 µs + statistical 7.000 µs + disputed 50.000 ms \
                     + growth 1.000 µs\n";
        assert!(text.contains(parts), "{text}");
        let names = ["bound_ns", "path_bound_ns", "statistical_bound_ns", "disputed_bound_ns"];
        let ns = names.map(|name| json[name].as_i64().unwrap());
        assert_eq!(ns[1..], [100_000, 50_007_000, 50_000_000]);
        assert!((50_108_000..50_108_005).contains(&ns[0]), "{json}");
        let (text, json) = told(Status::Synchronised, Span::ZERO);
        assert!(text.contains("statistical 7.000 µs + growth") && !text.contains("disputed"));
        assert_eq!(json["disputed_bound_ns"], 0);
        let (text, json) = told(Status::Unknown, Span::ZERO);
        assert!(!text.contains("disputed") && json["disputed_bound_ns"].is_null(), "{text}");
    }

    #[test]
    fn what_is_likely_stands_beside_the_bound() {
        let (text, json) = told(Status::Synchronised, Span::ZERO);
        assert!(!text.contains("likely") && json["likely_ns"].is_null(), "{text}");
        let mut view = view(Status::Synchronised, Span::ZERO);
        view.hand.likely = Some(Likely { half: US(10), growth: Rate::from_ppb(100) });
        let tell = |view: &View| {
            let reading = view.reading(view.count, view.status);
            let scale = Scale::Utc(reading.leaps());
            let mut text = Vec::new();
            write_text(&scale, &reading, view, None, &mut text).unwrap();
            let json: serde_json::Value =
                serde_json::from_str(&scale.json(&reading, view, None).unwrap()).unwrap();
            (String::from_utf8(text).unwrap(), json)
        };
        let (text, json) = tell(&view);
        assert!(text.contains("likely    ± 10.100 µs, by statistics; no promise\n"), "{text}");
        let ns = json["likely_ns"].as_i64().unwrap();
        assert!((10_100..10_105).contains(&ns), "{json}");
        // Never wider than the bound, and nothing where nothing is promised.
        view.hand.likely = Some(Likely { half: US(500), growth: Rate::ZERO });
        assert!(tell(&view).1["likely_ns"].is_null());
        view.hand.likely = Some(Likely { half: US(10), growth: Rate::ZERO });
        view.status = Status::Disrupted;
        assert!(tell(&view).1["likely_ns"].is_null());
    }

    #[test]
    fn the_interval_reaches_as_far_as_it_does_on_either_side() {
        let mut view = view(Status::Synchronised, Span::ZERO);
        view.hand.imbalance = US(-40);
        let reading = view.reading(view.count, view.status);
        // 108 µs by the second that has passed.
        assert_eq!((reading.best - reading.earliest).rounded_up(), US(108).rounded_up());
        let after = (reading.latest - reading.best).as_nanos_i64();
        assert!((67_990..68_010).contains(&after), "{after}");
        assert_eq!(reading.bound(), Some(reading.best - reading.earliest));
    }
}
