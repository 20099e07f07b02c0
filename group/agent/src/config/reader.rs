//! From text to settings.

use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use truechimer_files::nearest;

use super::values;
use super::{ConfigError, Membership, Place, Problem, Settings, UtcSource};
use crate::text::printable;

/// Reads a configuration. `name` is what messages call the text: the path of the file.
///
/// # Errors
/// If the text is not TOML, or has unknown keys, values of the wrong type or out of range, or the
/// same group twice: every problem at once.
pub fn parse(text: &str, name: &str) -> Result<Settings, ConfigError> {
    let mut reader = Reader { text, name, problems: Vec::new() };
    let mut settings = Settings::default();
    match DeTable::parse(text) {
        Ok(document) => reader.document(document.get_ref(), &mut settings),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.problem(at, error.message());
        }
    }
    ConfigError::unless_empty(reader.problems).map(|()| settings)
}

const TOP: &[&str] = &["directory", "state", "page", "system-clock", "realtime", "group"];
const GROUP: &[&str] = &[
    "name",
    "members",
    "local",
    "mode",
    "order",
    "rotate",
    "steering-cap-ppm",
    "steering-time",
    "horizon",
    "lease",
    "causal-horizon",
    "stagger",
    "gather",
    "report-interval",
    "buffer",
    "checkpoints",
    "without-utc",
];
/// Every table, as it is written, with its keys.
const TABLES: [(&str, &[&str]); 2] = [("the top of the file", TOP), ("[[group]]", GROUP)];

/// Walks the document and gathers problems.
struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    problems: Vec<Problem>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    fn problem(&mut self, offset: usize, text: impl Into<String>) {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        let line = Some(1 + before.iter().filter(|b| **b == b'\n').count());
        self.problems.push(Problem { place: self.name.into(), line, text: text.into() });
    }

    fn document(&mut self, table: &DeTable<'_>, settings: &mut Settings) {
        let mut page = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "directory" => settings.directory = self.path("directory", value),
                "state" => {
                    settings.state = self.path("state", value).map_or(Place::Default, Place::from);
                }
                "page" => {
                    page = self.path("page", value);
                    let place = page.clone().map(Place::from);
                    settings.utc = match place {
                        Some(Place::None) => Some(UtcSource::None),
                        _ => Some(UtcSource::Page(page.clone())),
                    };
                }
                "system-clock" => {
                    if let Some(ns) = self.text_of("system-clock", value, values::system_clock) {
                        settings.utc = Some(UtcSource::SystemClock { bound_ns: ns as i64 });
                    }
                }
                "realtime" => match whole(value) {
                    Some(n) => match u8::try_from(n).ok().filter(|n| values::REAL_TIME.contains(n))
                    {
                        Some(n) => settings.real_time = Some(n),
                        None => self.wrong("realtime", value, &"must be 1 to 99"),
                    },
                    None => self.kind("realtime", value, "a priority, as in 10"),
                },
                "group" => self.groups(value, settings),
                other => self.unknown(other, key.span().start, TABLES[0]),
            }
        }
        if let (Some(_), Some(clock)) = (&page, table.get("system-clock")) {
            let text = "`page` and `system-clock` exclude each other: remove one";
            self.problem(clock.span().start, text);
        }
    }

    fn groups(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(array) = value.get_ref().as_array() else {
            let text = "`group` must be a list of tables: write [[group]]";
            return self.problem(value.span().start, text);
        };
        for item in array {
            let at = item.span().start;
            let Some(table) = item.get_ref().as_table() else {
                self.problem(at, "each `group` must be a table: write [[group]]");
                continue;
            };
            let Some(group) = self.group(table, at) else { continue };
            let name = &group.group.name;
            if settings.groups.iter().any(|other| other.group.name == *name) {
                self.problem(at, format!("group `{name}` is there twice: remove one"));
            } else {
                settings.groups.push(group);
            }
        }
    }

    fn group(&mut self, table: &DeTable<'_>, at: usize) -> Option<Membership> {
        let mut made = Membership::new("");
        let mut local = None;
        for (key, value) in table {
            let key_name = key.get_ref().as_ref();
            let group = &mut made.group;
            match key_name {
                "name" => set(&mut group.name, self.text_of("name", value, values::name)),
                "members" => set(&mut group.universe, self.members(value)),
                "local" => match whole(value).map(values::local) {
                    Some(Ok(count)) => local = Some(count),
                    Some(Err(why)) => self.wrong("local", value, &why),
                    None => self.kind("local", value, "a number of members, as in 3"),
                },
                "mode" => set(&mut group.mode, self.text_of("mode", value, values::mode)),
                "order" => set(&mut group.order, self.text_of("order", value, values::order)),
                "rotate" => set(&mut group.rotate, self.boolean("rotate", value)),
                "steering-cap-ppm" => set(&mut group.steering_cap_ppb, self.steering_cap(value)),
                "steering-time" => {
                    let read = self.text_of("steering-time", value, values::steering_time);
                    set(&mut group.steering_time_ns, read);
                }
                "horizon" => {
                    set(&mut group.horizon_ns, self.text_of("horizon", value, values::horizon));
                }
                "lease" => set(&mut group.lease_ns, self.text_of("lease", value, values::lease)),
                "causal-horizon" => {
                    let read = self.text_of("causal-horizon", value, values::causal_horizon);
                    set(&mut group.causal_horizon_ns, read);
                }
                "stagger" => {
                    set(&mut made.stagger_ns, self.text_of("stagger", value, values::stagger));
                }
                "gather" => {
                    set(&mut made.gather_ns, self.text_of("gather", value, values::gather));
                }
                "report-interval" => {
                    let read = self.text_of("report-interval", value, values::report_interval);
                    set(&mut made.report_ns, read);
                }
                "buffer" => set(&mut made.buffer, self.buffer(value)),
                "without-utc" => set(&mut made.without_utc, self.boolean("without-utc", value)),
                "checkpoints" => set(&mut made.checkpoints, self.boolean("checkpoints", value)),
                other => self.unknown(other, key.span().start, TABLES[1]),
            }
        }
        if table.get("name").is_none() {
            self.problem(at, "this group has no `name`: add name = \"…\"");
        }
        if let Some(count) = local {
            made = made.local(count);
        }
        (!made.group.name.is_empty()).then_some(made)
    }

    fn members(&mut self, value: &Value<'_>) -> Option<Vec<truechimer_group::Member>> {
        let numbers: Option<Vec<i128>> =
            value.get_ref().as_array().and_then(|array| array.iter().map(whole).collect());
        let Some(numbers) = numbers else {
            self.kind("members", value, "a list of node ids, as in [1, 2, 3]");
            return None;
        };
        self.checked("members", value, values::universe(numbers.into_iter()))
    }

    /// A number of ppm, as a number or as text; never by way of a float.
    fn steering_cap(&mut self, value: &Value<'_>) -> Option<u32> {
        const KEY: &str = "steering-cap-ppm";
        let read = match value.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => values::steering_cap(n.as_str()),
            DeValue::Float(x) => values::steering_cap(x.as_str()),
            DeValue::String(text) => values::steering_cap(text),
            _ => {
                self.kind(KEY, value, "a number of ppm, as in 500");
                return None;
            }
        };
        self.checked(KEY, value, read)
    }

    fn buffer(&mut self, value: &Value<'_>) -> Option<usize> {
        let Some(number) = whole(value) else {
            self.kind("buffer", value, "a number of values, as in 1048576");
            return None;
        };
        let (least, most) = (values::BUFFER.start(), values::BUFFER.end());
        let read = usize::try_from(number)
            .ok()
            .filter(|n| values::BUFFER.contains(n))
            .ok_or_else(|| format!("must be {least} to {most}"));
        self.checked("buffer", value, read)
    }

    /// What a string means.
    fn text_of<T>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        meaning: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.kind(key, value, "a string in quotes");
            return None;
        };
        self.checked(key, value, meaning(text))
    }

    fn checked<T>(&mut self, key: &str, value: &Value<'_>, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.wrong(key, value, &why)).ok()
    }

    fn boolean(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        let on = value.get_ref().as_bool();
        if on.is_none() {
            self.kind(key, value, "true or false");
        }
        on
    }

    fn path(&mut self, key: &str, value: &Value<'_>) -> Option<PathBuf> {
        self.text_of(key, value, |text| match text {
            "" => Err("must be a path".to_owned()),
            text if text.contains('\0') => Err("must be a path".to_owned()),
            text => Ok(PathBuf::from(text)),
        })
    }

    fn wrong(&mut self, key: &str, value: &Value<'_>, why: &dyn fmt::Display) {
        let shown = printable(self.text.get(value.span()).unwrap_or("…"));
        self.problem(value.span().start, format!("`{key}` = {shown}: {why}"));
    }

    fn kind(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(value.span().start, format!("`{key}` must be {wanted}, not {found}"));
    }

    fn unknown(&mut self, key: &str, offset: usize, (table, known): (&str, &[&str])) {
        let elsewhere = TABLES.iter().find(|(other, keys)| *other != table && keys.contains(&key));
        let hint = match (elsewhere, nearest(key, known)) {
            (Some((other, _)), _) => format!("it belongs into {other}"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("known in {table}: {}", known.join(", ")),
        };
        self.problem(offset, format!("unknown key `{}`; {hint}", printable(key)));
    }
}

/// Sets what was read well.
fn set<T>(place: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *place = value;
    }
}

/// A whole number in any of TOML's notations.
fn whole(value: &Value<'_>) -> Option<i128> {
    match value.get_ref() {
        DeValue::Integer(n) => {
            Some(i128::from_str_radix(n.as_str(), n.radix()).unwrap_or(i128::MAX))
        }
        _ => None,
    }
}
