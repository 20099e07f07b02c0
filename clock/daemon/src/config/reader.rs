//! From text to settings.

use std::collections::BTreeMap;

use truechimer_clockbound::Layout;
use truechimer_config::{
    ConfigError, DeTable, DeValue, Place, Problem, Reader, Table, Value, printable, whole,
};
use truechimer_engine::{AuthenticationMode, RefClockConfig, SourceConfig, StepPolicy};
use truechimer_feedforward::number::rate;
use truechimer_time::{Rate, Span};

use super::Settings;
use super::authentication::nts;
use super::duration;
use super::foreign::{self, unknown};
use super::hardware_stamps;
use super::ptp;
use super::refclock::{KINDS, refclock};
use super::server::server;
use crate::audit;
use crate::clockbound::Wanted;
use truechimer_metrics::Listen;

/// Reads a configuration. `name` is what messages call the text: the path of the file.
///
/// # Errors
///
/// If the text is not TOML, or has unknown keys, values of the wrong type or out of range, or the
/// same server twice: every problem at once.
pub fn parse(text: &str, name: &str) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    let walk = |reader: &mut Reader<'_>, top: &DeTable<'_>| {
        document(reader, top, &mut settings);
        lines(reader, "", top, &mut settings.lines);
    };
    match truechimer_config::parse(text, name, &TABLES, walk) {
        Err(_) if foreign::is_of_chrony(text) => {
            let hint = "a configuration of chrony's: `truechimer import-chrony FILE` prints what stands for it here";
            ConfigError::unless_empty(vec![Problem::in_file(name, None, hint)])?;
            Ok(settings)
        }
        read => read.map(|()| settings),
    }
}

/// The keys at the top, of a source, and of the system clock.
const TOP: &[&str] = &[
    "counter",
    "page",
    "control",
    "replay-log",
    "state",
    "sock-out",
    "key-file",
    "source-dir",
    "leap-file",
    "max-wander-ppm",
    "accept-step-after",
    "max-step",
    "min-sources",
    "authentication",
    "likely-confidence",
    "sandbox",
    "seccomp",
    "lock-memory",
    "hardware-stamps",
    "vmclock",
    "source",
    "system-clock",
    "clockbound",
    "metrics",
    "audit",
    "nts",
];
const SOURCE: &[&str] = &[
    "host",
    "pool",
    "max-sources",
    "poll",
    "max-poll",
    "family",
    "interface",
    "offline",
    "interleaved",
    "burst",
    "noselect",
    "nts",
    "key",
    "asymmetry",
    "asymmetry-error",
    "pps",
    "phc",
    "shm",
    "sock",
    "vmclock",
    "latency",
    "error",
    "offset",
    "scale",
    "trust",
    "prefer",
    "require",
    "name",
    "channel",
    "pin",
    "ptp",
    "domain",
    "transport",
    "delay",
    "timescale",
];
const SYSTEM_CLOCK: &[&str] = &["discipline", "step", "step-above"];
const CLOCKBOUND: &[&str] = &["pages", "directory", "vmclock"];
const METRICS: &[&str] = &["listen"];
const NTS: &[&str] = &["ca", "unset-clock"];
const AUDIT: &[&str] = &["directory", "interval", "max-mb"];
/// Every table, as it is written, with its keys.
pub(super) const TABLES: [Table<'_>; 7] = [
    ("the top of the file", TOP),
    ("[[source]]", SOURCE),
    ("[system-clock]", SYSTEM_CLOCK),
    ("[clockbound]", CLOCKBOUND),
    ("[metrics]", METRICS),
    ("[audit]", AUDIT),
    ("[nts]", NTS),
];

fn document(reader: &mut Reader<'_>, table: &DeTable<'_>, settings: &mut Settings) {
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "counter" => {
                if let Some(choice) = reader.text_of("counter", value, str::parse) {
                    settings.counter = choice;
                }
            }
            "page" => settings.page = reader.path("page", value),
            "control" => settings.control = reader.place("control", value),
            "replay-log" => settings.replay_log = reader.path("replay-log", value),
            "state" => settings.state = reader.place("state", value),
            "sock-out" => settings.sock_out = reader.absolute("sock-out", value),
            "key-file" => settings.key_file = reader.absolute("key-file", value),
            "source-dir" => settings.source_dir = reader.absolute("source-dir", value),
            "leap-file" => settings.leap_file = reader.place("leap-file", value),
            "max-wander-ppm" => {
                if let Some(rate) = max_wander(reader, value) {
                    settings.engine.max_wander = rate;
                }
            }
            "accept-step-after" => {
                if let Some(span) = duration_of(reader, "accept-step-after", value, "1h") {
                    settings.engine.accept_step_after = span;
                }
            }
            "max-step" => {
                if let Some(limit) = max_step(reader, value) {
                    settings.engine.max_step = limit;
                }
            }
            "min-sources" => match whole(value).map(u32::try_from) {
                Some(Ok(least @ 1..)) => settings.engine.min_sources = Some(least),
                _ => {
                    reader.wrong("min-sources", value, "must be a whole number from 1 on, as in 2")
                }
            },
            "authentication" => {
                if let Some(part) = reader.text_like("authentication", value, MODES, authentication)
                {
                    settings.engine.authentication = part;
                }
            }
            "sandbox" => {
                if let Some(on) = reader.boolean("sandbox", value) {
                    settings.sandbox = on;
                }
            }
            "seccomp" => {
                if let Some(fate) = reader.text_of("seccomp", value, str::parse) {
                    settings.seccomp = fate;
                }
            }
            "lock-memory" => {
                if let Some(on) = reader.boolean("lock-memory", value) {
                    settings.lock_memory = on;
                }
            }
            "hardware-stamps" => {
                if let Some(wanted) = hardware_stamps::read(reader, value) {
                    settings.hardware_stamps = wanted;
                }
            }
            "vmclock" => {
                settings.vmclock = match reader.place("vmclock", value) {
                    Place::At(path) if path.as_os_str() == "auto" => Place::Default,
                    place => place,
                };
            }
            "likely-confidence" => {
                if let Some(doubt) = likely_doubt(reader, value) {
                    settings.engine.likely_doubt = doubt;
                }
            }
            "source" => {
                let found = sources(reader, value, table.contains_key("key-file"));
                let Sources { servers, refclocks } = found;
                if let Some((_, at)) = servers.first()
                    && servers.iter().all(|(source, _)| source.no_select)
                {
                    let text = "every server is `noselect`, so that there is none to follow: remove it \
                                from one";
                    reader.problem(*at, text);
                }
                if let Some((_, at)) = servers.iter().find(|(source, _)| source.require) {
                    settings.lines.insert("source.require".into(), reader.line(*at));
                }
                settings.engine.sources = servers.into_iter().map(|(source, _)| source).collect();
                settings.engine.refclocks = refclocks.into_iter().map(|(clock, _)| clock).collect();
            }
            "system-clock" => {
                if let Some(table) = reader.table("system-clock", value) {
                    system_clock(reader, table, settings);
                }
            }
            "metrics" => {
                settings.metrics =
                    reader.table("metrics", value).and_then(|table| metrics(reader, table));
            }
            "nts" => {
                if let Some(table) = reader.table("nts", value) {
                    nts(reader, table, settings);
                }
            }
            "audit" => {
                let at = value.span().start;
                settings.audit =
                    reader.table("audit", value).and_then(|table| audit(reader, table, at));
            }
            // Below, when it is known whether anybody keeps the system clock.
            "clockbound" => {}
            other => unknown(reader, other, key.span().start, TABLES[0]),
        }
    }
    if let Some(value) = table.get("clockbound")
        && let Some(table) = reader.table("clockbound", value)
    {
        settings.clockbound = clockbound(reader, table, value.span().start, settings);
    }
}

/// True if all keys of a table are known.
pub(super) fn knows((_, keys): Table<'_>, table: &DeTable<'_>) -> bool {
    table.iter().all(|(key, _)| keys.contains(&key.get_ref().as_ref()))
}

/// Lines of all keys of a table and of those within it.
fn lines(
    reader: &Reader<'_>,
    before: &str,
    table: &DeTable<'_>,
    found: &mut BTreeMap<String, usize>,
) {
    for (key, value) in table {
        let name = format!("{before}{}", key.get_ref());
        if let Some(table) = value.get_ref().as_table() {
            lines(reader, &format!("{name}."), table, found);
        }
        found.insert(name, reader.line(key.span().start));
    }
}

/// The pages for clients of ClockBound.
fn clockbound(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    at: usize,
    settings: &Settings,
) -> Option<Wanted> {
    let directory = Wanted::DIRECTORY.into();
    let mut wanted = Wanted { pages: Vec::new(), directory, vmclock: false };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "pages" => wanted.pages = pages(reader, value, settings.engine.discipline),
            "directory" => {
                if let Some(path) = reader.absolute("directory", value) {
                    wanted.directory = path;
                }
            }
            "vmclock" => {
                wanted.vmclock = reader.boolean("vmclock", value).unwrap_or_default();
            }
            other => unknown(reader, other, key.span().start, TABLES[3]),
        }
    }
    if !table.contains_key("pages") {
        reader.problem(at, "[clockbound] has no `pages`: add pages = [\"shm1\"]");
    }
    (!wanted.pages.is_empty()).then_some(wanted)
}

fn pages(reader: &mut Reader<'_>, value: &Value<'_>, discipline: bool) -> Vec<Layout> {
    const KEY: &str = "pages";
    let mut pages = Vec::new();
    let Some(names) = value.get_ref().as_array() else {
        reader.kind(KEY, value, "a list, as in [\"shm1\"]");
        return pages;
    };
    if names.is_empty() {
        reader.wrong(KEY, value, "must name at least one of \"shm\", \"shm0\" and \"shm1\"");
    }
    for name in names {
        let page = |text: &str| {
            let page = Layout::ALL.into_iter().find(|layout| layout.name() == text);
            let page =
                page.ok_or("must be \"shm\" (clients 1.x), \"shm0\" (2.x) or \"shm1\" (3.x)")?;
            if pages.contains(&page) {
                return Err("is there twice");
            }
            if page.bounds_system_clock() && !discipline {
                return Err("bounds the error of the system clock, which nobody keeps: add \
                     discipline = true to [system-clock], or leave this page out");
            }
            Ok(page)
        };
        if let Some(page) = reader.text_of(KEY, name, page) {
            pages.push(page);
        }
    }
    pages
}

/// Where metrics are served, if anywhere.
fn metrics(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Listen> {
    let mut listen = None;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "listen" => listen = reader.text_of("listen", value, str::parse),
            other => unknown(reader, other, key.span().start, TABLES[4]),
        }
    }
    listen
}

/// The record for `truechimer audit`, if one is wanted.
fn audit(reader: &mut Reader<'_>, table: &DeTable<'_>, at: usize) -> Option<audit::Wanted> {
    use audit::Wanted;
    let mut directory = None;
    let (mut interval, mut max_mb) = (Wanted::INTERVAL, Wanted::MAX_MB);
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "directory" => directory = reader.absolute("directory", value),
            "interval" => match duration_of(reader, "interval", value, "1min") {
                Some(span) if (Span::from_secs(1)..=Span::from_secs(3600)).contains(&span) => {
                    interval = span;
                }
                Some(_) => reader.wrong("interval", value, "must be 1s to 1h"),
                None => {}
            },
            "max-mb" => match whole(value).map(u64::try_from) {
                Some(Ok(mb @ 1..=1_000_000)) => max_mb = mb,
                _ => reader.wrong("max-mb", value, "must be a whole number from 1 to 1000000"),
            },
            other => unknown(reader, other, key.span().start, TABLES[5]),
        }
    }
    // One that is not known may be meant as that.
    if !table.is_empty() && !table.contains_key("directory") && knows(TABLES[5], table) {
        let text = "[audit] has no `directory`: add directory = \"/var/lib/truechimer/audit\"";
        reader.problem(at, text);
    }
    directory.map(|directory| Wanted { directory, interval, max_mb })
}

fn system_clock(reader: &mut Reader<'_>, table: &DeTable<'_>, settings: &mut Settings) {
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "discipline" => {
                if let Some(on) = reader.boolean("discipline", value) {
                    settings.engine.discipline = on;
                }
            }
            "step" => {
                if let Some(policy) = reader.text_like("step", value, STEPS, step_policy) {
                    settings.engine.step = policy;
                }
            }
            "step-above" => {
                if let Some(span) = span(reader, "step-above", value, "1ms", step_above) {
                    settings.engine.step_above = span;
                }
            }
            other => unknown(reader, other, key.span().start, TABLES[2]),
        }
    }
}

/// The sources of a document, each with the place where it begins.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) servers: Vec<(SourceConfig, usize)>,
    pub(super) refclocks: Vec<(RefClockConfig, usize)>,
}

/// Reads every [[source]]; `has_key_file`: symmetric keys are kept somewhere.
pub(super) fn sources(reader: &mut Reader<'_>, value: &Value<'_>, has_key_file: bool) -> Sources {
    let mut found = Sources::default();
    for (at, table) in reader.tables("source", value) {
        if KINDS.iter().any(|(key, ..)| table.contains_key(*key)) {
            let Some(new) = refclock(reader, table, at) else { continue };
            let twin = |old: &RefClockConfig| old.is_same_clock(&new) || old.name == new.name;
            match found.refclocks.iter().find(|(old, _)| twin(old)) {
                Some((_, first)) => twice(reader, &new.name, at, *first),
                None => found.refclocks.push((new, at)),
            }
            continue;
        }
        let read = if table.get("ptp").is_some() { ptp::port } else { server };
        let Some(source) = read(reader, table, at) else { continue };
        match found.servers.iter().find(|(s, _)| s.name() == source.name()) {
            Some((_, first)) => twice(reader, &source.name(), at, *first),
            None => {
                if found.servers.iter().any(|(other, _)| ptp::shares(other, &source)) {
                    let text = "a PTP port with `masters` has to be the only one by its protocol on an interface: \
                                name all masters in one, or use another interface or transport";
                    reader.problem(at, text);
                }
                found.servers.push((source, at));
            }
        }
    }
    let by_key = found.servers.iter().find(|(source, _)| source.authentication.key().is_some());
    if let (Some((_, at)), false) = (by_key, has_key_file) {
        let text = "`key` takes a file of keys: add key-file = \"/etc/truechimer.keys\" at the top";
        reader.problem(*at, text);
    }
    found
}

fn twice(reader: &mut Reader<'_>, name: &str, at: usize, first: usize) {
    let first = reader.line(first);
    reader.problem(at, format!("`{}` is a source already (line {first})", printable(name)));
}

/// A length of time that may also be in minutes and hours, up to a week.
fn duration_of(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    example: &str,
) -> Option<Span> {
    reader.text_like(key, value, &with_unit(example), duration::parse)
}

fn with_unit(example: &str) -> String {
    format!("a time with its unit in quotes, as in \"{example}\"")
}

/// Span by which servers may move the time by themselves; `none`: without limit.
fn max_step(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Option<Span>> {
    const KEY: &str = "max-step";
    if value.get_ref().as_str() == Some("none") {
        return Some(None);
    }
    let limit = duration_of(reader, KEY, value, "1000s")?;
    if limit < Span::from_secs(1) {
        reader.wrong(KEY, value, "must be 1s to 7d, or \"none\" for no limit");
        return None;
    }
    Some(Some(limit))
}

/// A length of time as text with its unit, within what `check` allows.
pub(super) fn span(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    example: &str,
    check: fn(Span) -> Result<Span, String>,
) -> Option<Span> {
    let read = |text: &str| text.parse::<Span>().map_err(|why| why.to_string()).and_then(check);
    reader.text_like(key, value, &with_unit(example), read)
}

/// A number of ppm, as a number or as text with or without the unit; never by way of a float.
fn max_wander(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Rate> {
    const KEY: &str = "max-wander-ppm";
    let parsed: Result<Rate, _> = match value.get_ref() {
        DeValue::Integer(n) if n.radix() == 10 => n.as_str().parse(),
        DeValue::Float(x) => x.as_str().parse(),
        DeValue::String(text) => text.parse(),
        _ => {
            reader.kind(KEY, value, "a number of ppm, as in 0.5");
            return None;
        }
    };
    match parsed {
        Ok(rate) if (MIN_WANDER..=MAX_WANDER).contains(&rate) => return Some(rate),
        Ok(_) => reader.wrong(KEY, value, "must be 0.001 to 100"),
        Err(why) => reader.wrong(KEY, value, why),
    }
    None
}

/// One less the confidence of likely intervals.
fn likely_doubt(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Rate> {
    const KEY: &str = "likely-confidence";
    let DeValue::Float(x) = value.get_ref() else {
        reader.kind(KEY, value, "a probability, as in 0.999999");
        return None;
    };
    match x.as_str().parse::<f64>() {
        Ok(confidence) if (0.5..=MOST_CONFIDENT).contains(&confidence) => {
            // As the user has written it, without what a float adds to that.
            return Some(rate(((1.0 - confidence) * 1e12).round() / 1e12));
        }
        _ => reader.wrong(KEY, value, "must be 0.5 to 0.999999999"),
    }
    None
}

/// Limits of `max-wander-ppm`, with room for rounding: from the best ovens to crystals in a
/// draught.
const MIN_WANDER: Rate = Rate::from_ppb(1);
const MAX_WANDER: Rate = Rate(Rate::from_ppb(100_000).0 + 1);

/// The most that `likely-confidence` may be: no prior is good for more.
const MOST_CONFIDENT: f64 = 0.999_999_999;

/// Words of `authentication`, and those of `step`.
const MODES: &str = "\"mix\", \"require\" or \"ignore\"";
const STEPS: &str = "\"start\", \"never\" or \"always\"";

fn authentication(word: &str) -> Result<AuthenticationMode, String> {
    match word {
        "mix" => Ok(AuthenticationMode::Mix),
        "require" => Ok(AuthenticationMode::Require),
        "ignore" => Ok(AuthenticationMode::Ignore),
        _ => Err(format!("must be {MODES}")),
    }
}

fn step_policy(word: &str) -> Result<StepPolicy, String> {
    match word {
        "start" => Ok(StepPolicy::Start),
        "never" => Ok(StepPolicy::Never),
        "always" => Ok(StepPolicy::Always),
        _ => Err(format!("must be {STEPS}")),
    }
}

fn step_above(span: Span) -> Result<Span, String> {
    let range = Span::from_micros(10)..=Span::from_secs(86_400);
    if range.contains(&span) { Ok(span) } else { Err("must be 10us to 86400s".into()) }
}
