//! From text to settings.

use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use truechimer_engine::{Asymmetry, POLL_RANGE, PpsConfig, SourceConfig, StepPolicy};
use truechimer_feedforward::number::rate;
use truechimer_files::nearest;
use truechimer_time::{Rate, Span};

use super::duration;
use super::host::host_and_port;
use super::pps;
use super::{ConfigError, Place, Problem, Settings, printable};

/// Reads a configuration. `name` is what messages call the text: the path of the file.
///
/// # Errors
///
/// If the text is not TOML, or has unknown keys, values of the wrong type or out of range, or the
/// same server twice: every problem at once.
pub fn parse(text: &str, name: &str) -> Result<Settings, ConfigError> {
    let mut reader = Reader { text, name, problems: Vec::new() };
    let mut settings = Settings::default();
    match DeTable::parse(text) {
        Ok(document) => reader.document(document.get_ref(), &mut settings),
        Err(error) => {
            let line = error.span().map(|span| reader.line(span.start));
            reader.problems.push(Problem::in_file(name, line, error.message()));
        }
    }
    ConfigError::unless_empty(reader.problems).map(|()| settings)
}

/// The keys at the top, of a source, and of the system clock.
const TOP: &[&str] = &[
    "counter",
    "page",
    "control",
    "replay-log",
    "state",
    "leap-file",
    "max-wander-ppm",
    "accept-step-after",
    "max-step",
    "min-sources",
    "likely-confidence",
    "source",
    "system-clock",
];
const SOURCE: &[&str] = &[
    "host",
    "poll",
    "burst",
    "noselect",
    "asymmetry",
    "asymmetry-error",
    "pps",
    "latency",
    "offset",
    "name",
];
/// Which of a source's keys are for a pulse, and which for a server.
const OF_PPS: &[&str] = &["pps", "latency", "offset", "name"];
const OF_SERVER: &[&str] = &["host", "poll", "burst", "noselect", "asymmetry", "asymmetry-error"];
const SYSTEM_CLOCK: &[&str] = &["discipline", "step", "step-above"];
/// Every table, as it is written, with its keys.
const TABLES: [(&str, &[&str]); 3] =
    [("the top of the file", TOP), ("[[source]]", SOURCE), ("[system-clock]", SYSTEM_CLOCK)];

/// Walks the document and gathers problems.
struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    problems: Vec<Problem>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    /// The line, from 1, of a byte of the text.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|b| **b == b'\n').count()
    }

    fn problem(&mut self, offset: usize, text: impl Into<String>) {
        let line = Some(self.line(offset));
        self.problems.push(Problem { place: self.name.into(), line, text: text.into() });
    }

    fn document(&mut self, table: &DeTable<'_>, settings: &mut Settings) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "counter" => {
                    if let Some(text) = self.string("counter", value) {
                        match text.parse() {
                            Ok(choice) => settings.counter = choice,
                            Err(why) => self.wrong("counter", value, &why),
                        }
                    }
                }
                "page" => settings.page = self.path("page", value),
                "control" => settings.control = self.place("control", value),
                "replay-log" => settings.replay_log = self.path("replay-log", value),
                "state" => settings.state = self.place("state", value),
                "leap-file" => settings.leap_file = self.place("leap-file", value),
                "max-wander-ppm" => {
                    if let Some(rate) = self.max_wander(value) {
                        settings.engine.max_wander = rate;
                    }
                }
                "accept-step-after" => {
                    if let Some(span) = self.duration("accept-step-after", value, "1h") {
                        settings.engine.accept_step_after = span;
                    }
                }
                "max-step" => {
                    if let Some(limit) = self.max_step(value) {
                        settings.engine.max_step = limit;
                    }
                }
                "min-sources" => match integer(value).map(u32::try_from) {
                    Some(Ok(least @ 1..)) => settings.engine.min_sources = Some(least),
                    _ => self.wrong(
                        "min-sources",
                        value,
                        &"must be a whole number from 1 on, as in 2",
                    ),
                },
                "likely-confidence" => {
                    if let Some(doubt) = self.likely_doubt(value) {
                        settings.engine.likely_doubt = doubt;
                    }
                }
                "source" => self.sources(value, settings),
                "system-clock" => match value.get_ref().as_table() {
                    Some(table) => self.system_clock(table, settings),
                    None => self.problem(
                        value.span().start,
                        "`system-clock` must be a table: write [system-clock]",
                    ),
                },
                other => self.unknown(other, key.span().start, TABLES[0]),
            }
        }
    }

    fn system_clock(&mut self, table: &DeTable<'_>, settings: &mut Settings) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "discipline" => {
                    if let Some(on) = self.boolean("discipline", value) {
                        settings.engine.discipline = on;
                    }
                }
                "step" => match self.string("step", value).map(step_policy) {
                    Some(Ok(policy)) => settings.engine.step = policy,
                    Some(Err(why)) => self.wrong("step", value, &why),
                    None => {}
                },
                "step-above" => {
                    if let Some(span) = self.span("step-above", value, "1ms", step_above) {
                        settings.engine.step_above = span;
                    }
                }
                other => self.unknown(other, key.span().start, TABLES[2]),
            }
        }
    }

    fn sources(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(array) = value.get_ref().as_array() else {
            let text = "`source` must be a list of tables: write [[source]]";
            return self.problem(value.span().start, text);
        };
        let mut sources: Vec<(SourceConfig, usize)> = Vec::new();
        let mut pulses: Vec<(PpsConfig, usize)> = Vec::new();
        for item in array {
            let at = item.span().start;
            let Some(table) = item.get_ref().as_table() else {
                self.problem(at, "each `source` must be a table: write [[source]]");
                continue;
            };
            if table.get("pps").is_some() {
                let Some(pulse) = self.pulse(table) else { continue };
                match pulses.iter().find(|(p, _)| p.path == pulse.path || p.name == pulse.name) {
                    Some((_, first)) => self.twice(&pulse.name, at, *first),
                    None => pulses.push((pulse, at)),
                }
                continue;
            }
            let Some(source) = self.source(table, at) else { continue };
            match sources.iter().find(|(s, _)| s.host == source.host && s.port == source.port) {
                Some((_, first)) => self.twice(&source.name(), at, *first),
                None => sources.push((source, at)),
            }
        }
        if let Some((_, at)) = sources.first()
            && sources.iter().all(|(source, _)| source.no_select)
        {
            let text =
                "every server is `noselect`, so that there is none to follow: remove it from one";
            self.problem(*at, text);
        }
        settings.engine.sources = sources.into_iter().map(|(source, _)| source).collect();
        settings.engine.pps = pulses.into_iter().map(|(pulse, _)| pulse).collect();
    }

    fn twice(&mut self, name: &str, at: usize, first: usize) {
        let first = self.line(first);
        self.problem(at, format!("`{}` is a source already (line {first})", printable(name)));
    }

    /// A source that is a pulse per second.
    fn pulse(&mut self, table: &DeTable<'_>) -> Option<PpsConfig> {
        let mut pulse = PpsConfig::new("");
        let mut name = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "pps" => match self.string("pps", value).map(pps::path)? {
                    Ok(path) => pulse.path = path,
                    Err(why) => self.wrong("pps", value, &why),
                },
                "latency" => {
                    if let Some(span) = self.span("latency", value, "10us", pps::latency) {
                        pulse.latency = span;
                    }
                }
                "offset" => {
                    if let Some(span) = self.span("offset", value, "250ns", pps::offset) {
                        pulse.offset = span;
                    }
                }
                "name" => match self.string("name", value).map(pps::name)? {
                    Ok(given) => name = Some(given),
                    Err(why) => self.wrong("name", value, &why),
                },
                other if OF_SERVER.contains(&other) => self.problem(
                    key.span().start,
                    format!("`{other}` is for a server, and this source is a pulse: remove it"),
                ),
                other => self.unknown(other, key.span().start, TABLES[1]),
            }
        }
        pulse.name = name.unwrap_or_else(|| pulse.path.clone());
        (!pulse.path.is_empty()).then_some(pulse)
    }

    /// A length of time that may also be in minutes and hours, up to a week.
    fn duration(&mut self, key: &str, value: &Value<'_>, example: &str) -> Option<Span> {
        let Some(text) = value.get_ref().as_str() else {
            self.kind(key, value, &format!("a time with its unit in quotes, as in \"{example}\""));
            return None;
        };
        match duration::parse(text) {
            Ok(span) => Some(span),
            Err(why) => {
                self.wrong(key, value, &why);
                None
            }
        }
    }

    /// How far servers may move the time by themselves; `none`: without limit.
    fn max_step(&mut self, value: &Value<'_>) -> Option<Option<Span>> {
        const KEY: &str = "max-step";
        if value.get_ref().as_str() == Some("none") {
            return Some(None);
        }
        let limit = self.duration(KEY, value, "1000s")?;
        if limit < Span::from_secs(1) {
            self.wrong(KEY, value, &"must be 1s to 7d, or \"none\" for no limit");
            return None;
        }
        Some(Some(limit))
    }

    /// A length of time as text with its unit, within what `check` allows.
    fn span(
        &mut self,
        key: &str,
        value: &Value<'_>,
        example: &str,
        check: fn(Span) -> Result<Span, String>,
    ) -> Option<Span> {
        let Some(text) = value.get_ref().as_str() else {
            self.kind(key, value, &format!("a time with its unit in quotes, as in \"{example}\""));
            return None;
        };
        match text.parse::<Span>().map_err(|why| why.to_string()).and_then(check) {
            Ok(span) => Some(span),
            Err(why) => {
                self.wrong(key, value, &why);
                None
            }
        }
    }

    fn source(&mut self, table: &DeTable<'_>, at: usize) -> Option<SourceConfig> {
        let mut source = SourceConfig::new("");
        let mut named = false;
        let mut declared = (None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "host" => {
                    named = true;
                    match self.string("host", value).map(host_and_port)? {
                        Ok((host, port)) => (source.host, source.port) = (host, port),
                        Err(why) => self.wrong("host", value, &why),
                    }
                }
                "poll" => match integer(value).map(check_poll) {
                    Some(Ok(poll)) => source.poll = poll,
                    Some(Err(why)) => self.wrong("poll", value, &why),
                    None => self.kind("poll", value, "a whole number of seconds, as in 16"),
                },
                "asymmetry" => {
                    declared.0 = self.span("asymmetry", value, "120us", asymmetry).or(declared.0);
                }
                "asymmetry-error" => {
                    let span = self.span("asymmetry-error", value, "20us", asymmetry_error);
                    declared.1 = span.or(declared.1);
                }
                "noselect" => {
                    source.no_select = self.boolean("noselect", value).unwrap_or(source.no_select);
                }
                "burst" => source.burst = self.boolean("burst", value).unwrap_or(source.burst),
                other if OF_PPS.contains(&other) => self.problem(
                    key.span().start,
                    format!("`{other}` is for a pulse: add pps = \"/dev/pps0\", or remove it"),
                ),
                other => self.unknown(other, key.span().start, TABLES[1]),
            }
        }
        match (declared, table.contains_key("asymmetry"), table.contains_key("asymmetry-error")) {
            ((Some(by), Some(error)), ..) => source.asymmetry = Some(Asymmetry { by, error }),
            (_, true, false) => {
                self.problem(at, "`asymmetry` needs `asymmetry-error`: how well is it known?");
            }
            (_, false, true) => {
                self.problem(at, "`asymmetry-error` is nothing without `asymmetry`");
            }
            _ => {}
        }
        if !named {
            self.problem(at, "this source has no `host`: add host = \"ntp.example.org\"");
        }
        (!source.host.is_empty()).then_some(source)
    }

    /// A number of ppm, as a number or as text with or without the unit; never by way of a float.
    fn max_wander(&mut self, value: &Value<'_>) -> Option<Rate> {
        const KEY: &str = "max-wander-ppm";
        let parsed: Result<Rate, _> = match value.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str().parse(),
            DeValue::Float(x) => x.as_str().parse(),
            DeValue::String(text) => text.parse(),
            _ => {
                self.kind(KEY, value, "a number of ppm, as in 0.5");
                return None;
            }
        };
        match parsed {
            Ok(rate) if (MIN_WANDER..=MAX_WANDER).contains(&rate) => return Some(rate),
            Ok(_) => self.wrong(KEY, value, &"must be 0.001 to 100"),
            Err(why) => self.wrong(KEY, value, &why),
        }
        None
    }

    /// One less the confidence of likely intervals.
    fn likely_doubt(&mut self, value: &Value<'_>) -> Option<Rate> {
        const KEY: &str = "likely-confidence";
        let DeValue::Float(x) = value.get_ref() else {
            self.kind(KEY, value, "a probability, as in 0.999999");
            return None;
        };
        match x.as_str().parse::<f64>() {
            Ok(confidence) if (0.5..=MOST_CONFIDENT).contains(&confidence) => {
                // As the user has written it, without what a float adds to that.
                return Some(rate(((1.0 - confidence) * 1e12).round() / 1e12));
            }
            _ => self.wrong(KEY, value, &"must be 0.5 to 0.999999999"),
        }
        None
    }

    fn string<'v>(&mut self, key: &str, value: &'v Value<'_>) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.kind(key, value, "a string in quotes");
        }
        text
    }

    fn boolean(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        let on = value.get_ref().as_bool();
        if on.is_none() {
            self.kind(key, value, "true or false");
        }
        on
    }

    fn path(&mut self, key: &str, value: &Value<'_>) -> Option<PathBuf> {
        let text = self.string(key, value)?;
        if text.is_empty() || text.contains('\0') {
            self.wrong(key, value, &"must be a path");
            return None;
        }
        Some(PathBuf::from(text))
    }

    fn place(&mut self, key: &str, value: &Value<'_>) -> Place {
        self.path(key, value).map_or(Place::Default, Place::from)
    }

    fn wrong(&mut self, key: &str, value: &Value<'_>, why: &dyn fmt::Display) {
        let shown = self.shown(value);
        self.problem(value.span().start, format!("`{key}` = {shown}: {why}"));
    }

    fn kind(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(value.span().start, format!("`{key}` must be {wanted}, not {found}"));
    }

    /// The value as it stands in the file, cut to a sensible length.
    fn shown(&self, value: &Value<'_>) -> String {
        printable(self.text.get(value.span()).unwrap_or("…"))
    }

    fn unknown(&mut self, key: &str, offset: usize, (table, known): (&str, &[&str])) {
        let shown = printable(key);
        let elsewhere = TABLES.iter().find(|(other, keys)| *other != table && keys.contains(&key));
        let hint = if let Some((other, _)) = elsewhere {
            format!("it belongs into {other}")
        } else if let Some(near) = nearest(key, known) {
            format!("did you mean `{near}`?")
        } else {
            format!("known in {table}: {}", known.join(", "))
        };
        self.problem(offset, format!("unknown key `{shown}`; {hint}"));
    }
}

/// Limits of `max-wander-ppm`, with room for rounding: from the best ovens to crystals in a
/// draught.
const MIN_WANDER: Rate = Rate::from_ppb(1);
const MAX_WANDER: Rate = Rate(Rate::from_ppb(100_000).0 + 1);

/// The most that `likely-confidence` may be: no prior is good for more.
const MOST_CONFIDENT: f64 = 0.999_999_999;

/// A whole number in any of TOML's notations.
fn integer(value: &Value<'_>) -> Option<i128> {
    match value.get_ref() {
        DeValue::Integer(n) => {
            Some(i128::from_str_radix(n.as_str(), n.radix()).unwrap_or(i128::MAX))
        }
        _ => None,
    }
}

/// A poll interval within its range.
pub(crate) fn check_poll(seconds: i128) -> Result<u32, String> {
    u32::try_from(seconds)
        .ok()
        .filter(|s| POLL_RANGE.contains(s))
        .ok_or_else(|| format!("must be {} to {} seconds", POLL_RANGE.start(), POLL_RANGE.end()))
}

/// Half a second is more than halfway round the world.
fn asymmetry(span: Span) -> Result<Span, String> {
    if span.abs() > Span::from_millis(500) {
        return Err("must be -500ms to 500ms".into());
    }
    Ok(span)
}

fn asymmetry_error(span: Span) -> Result<Span, String> {
    if span <= Span::ZERO || span > Span::from_millis(500) {
        let why = "must be above 0s, and 500ms at most: nobody knows a path exactly, and the bound is \
                   only as true as this";
        return Err(why.into());
    }
    Ok(span)
}

fn step_policy(word: &str) -> Result<StepPolicy, String> {
    match word {
        "start" => Ok(StepPolicy::Start),
        "never" => Ok(StepPolicy::Never),
        "always" => Ok(StepPolicy::Always),
        _ => Err("must be \"start\", \"never\" or \"always\"".into()),
    }
}

fn step_above(span: Span) -> Result<Span, String> {
    let range = Span::from_micros(10)..=Span::from_secs(86_400);
    if range.contains(&span) { Ok(span) } else { Err("must be 10us to 86400s".into()) }
}
