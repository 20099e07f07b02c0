//! From text to settings.

use truechimer_config::{ConfigError, DeTable, DeValue, Place, Reader, Table, Value, whole};

use super::{Link, Listen, Membership, Settings, UtcSource};
use super::{names, values};

/// Reads a configuration. `name` is what messages call the text: the path of the file.
///
/// # Errors
/// If the text is not TOML, or has unknown keys, values of the wrong type or out of range, or the
/// same group twice: every problem at once.
pub fn parse(text: &str, name: &str) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    let walk = |reader: &mut Reader<'_>, top: &DeTable<'_>| document(reader, top, &mut settings);
    truechimer_config::parse(text, name, &TABLES, walk).map(|()| settings)
}

const TOP: &[&str] =
    &["directory", "state", "page", "system-clock", "realtime", "metrics", "group"];
const METRICS: &[&str] = &["listen"];
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
    "link",
];
const LINK: &[&str] = &["owner", "group", "mode"];
/// Every table, as it is written, with its keys.
const TABLES: [Table<'_>; 4] = [
    ("the top of the file", TOP),
    ("[[group]]", GROUP),
    ("[metrics]", METRICS),
    ("`link` of a group", LINK),
];

fn document(reader: &mut Reader<'_>, table: &DeTable<'_>, settings: &mut Settings) {
    let mut page = None;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "directory" => settings.directory = reader.path("directory", value),
            "state" => {
                settings.state = reader.path("state", value).map_or(Place::Default, Place::from);
            }
            "page" => {
                page = reader.path("page", value);
                let place = page.clone().map(Place::from);
                settings.utc = match place {
                    Some(Place::None) => Some(UtcSource::None),
                    _ => Some(UtcSource::Page(page.clone())),
                };
            }
            "system-clock" => {
                if let Some(ns) = reader.text_of("system-clock", value, values::system_clock) {
                    settings.utc = Some(UtcSource::SystemClock { bound_ns: ns as i64 });
                }
            }
            "realtime" => match whole(value) {
                Some(n) => match u8::try_from(n).ok().filter(|n| values::REAL_TIME.contains(n)) {
                    Some(n) => settings.real_time = Some(n),
                    None => reader.wrong("realtime", value, "must be 1 to 99"),
                },
                None => reader.kind("realtime", value, "a priority, as in 10"),
            },
            "metrics" => {
                settings.metrics =
                    reader.table("metrics", value).and_then(|table| metrics(reader, table));
            }
            "group" => groups(reader, value, settings),
            other => reader.unknown(other, key.span().start, TABLES[0]),
        }
    }
    if let (Some(_), Some(clock)) = (&page, table.get("system-clock")) {
        let text = "`page` and `system-clock` exclude each other: remove one";
        reader.problem(clock.span().start, text);
    }
}

/// Place where metrics are served, if anywhere.
fn metrics(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Listen> {
    let mut listen = None;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "listen" => listen = reader.text_of("listen", value, str::parse),
            other => reader.unknown(other, key.span().start, TABLES[2]),
        }
    }
    listen
}

fn groups(reader: &mut Reader<'_>, value: &Value<'_>, settings: &mut Settings) {
    for (at, table) in reader.tables("group", value) {
        let Some(group) = group(reader, table, at) else { continue };
        let name = &group.group.name;
        if settings.groups.iter().any(|other| other.group.name == *name) {
            reader.problem(at, format!("group `{name}` is there twice: remove one"));
        } else {
            settings.groups.push(group);
        }
    }
}

fn group(reader: &mut Reader<'_>, table: &DeTable<'_>, at: usize) -> Option<Membership> {
    let mut made = Membership::new("");
    let mut local = None;
    for (key, value) in table {
        let key_name = key.get_ref().as_ref();
        let group = &mut made.group;
        match key_name {
            "name" => set(&mut group.name, reader.text_of("name", value, values::name)),
            "members" => set(&mut group.universe, members(reader, value)),
            "local" => match whole(value).map(values::local) {
                Some(Ok(count)) => local = Some(count),
                Some(Err(why)) => reader.wrong("local", value, why),
                None => reader.kind("local", value, "a number of members, as in 3"),
            },
            "mode" => set(&mut group.mode, reader.text_of("mode", value, values::mode)),
            "order" => set(&mut group.order, reader.text_of("order", value, values::order)),
            "rotate" => set(&mut group.rotate, reader.boolean("rotate", value)),
            "steering-cap-ppm" => set(&mut group.steering_cap_ppb, steering_cap(reader, value)),
            "steering-time" => {
                let read = reader.text_of("steering-time", value, values::steering_time);
                set(&mut group.steering_time_ns, read);
            }
            "horizon" => {
                set(&mut group.horizon_ns, reader.text_of("horizon", value, values::horizon));
            }
            "lease" => set(&mut group.lease_ns, reader.text_of("lease", value, values::lease)),
            "causal-horizon" => {
                let read = reader.text_of("causal-horizon", value, values::causal_horizon);
                set(&mut group.causal_horizon_ns, read);
            }
            "stagger" => {
                set(&mut made.stagger_ns, reader.text_of("stagger", value, values::stagger));
            }
            "gather" => {
                set(&mut made.gather_ns, reader.text_of("gather", value, values::gather));
            }
            "report-interval" => {
                let read = reader.text_of("report-interval", value, values::report_interval);
                set(&mut made.report_ns, read);
            }
            "buffer" => set(&mut made.buffer, buffer(reader, value)),
            "without-utc" => set(&mut made.without_utc, reader.boolean("without-utc", value)),
            "checkpoints" => set(&mut made.checkpoints, reader.boolean("checkpoints", value)),
            "link" => match value.get_ref().as_table() {
                Some(table) => made.link = link(reader, table),
                None => {
                    let text = "`link` must be a table: write link = { group = \"…\" }";
                    reader.problem(value.span().start, text);
                }
            },
            other => reader.unknown(other, key.span().start, TABLES[1]),
        }
    }
    if table.get("name").is_none() {
        reader.problem(at, "this group has no `name`: add name = \"…\"");
    }
    if let Some(count) = local {
        made = made.local(count);
    }
    (!made.group.name.is_empty()).then_some(made)
}

/// Owner, group and mode of a group's socket.
fn link(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Link {
    let mut link = Link::default();
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "owner" => link.owner = number_of(reader, "owner", value, names::user),
            "group" => link.group = number_of(reader, "group", value, names::group),
            "mode" => link.mode = reader.text_of("mode", value, values::permissions),
            other => reader.unknown(other, key.span().start, TABLES[3]),
        }
    }
    link
}

/// A user or group, by its name or number.
fn number_of(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    named: fn(&str) -> Result<u32, String>,
) -> Option<u32> {
    match whole(value) {
        Some(number) => {
            let read = u32::try_from(number).ok().filter(|number| *number < u32::MAX);
            reader.checked(key, value, read.ok_or_else(|| "must be 0 to 4294967294".to_owned()))
        }
        None => reader.text_of(key, value, named),
    }
}

fn members(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Vec<truechimer_group::Member>> {
    let numbers: Option<Vec<i128>> =
        value.get_ref().as_array().and_then(|array| array.iter().map(whole).collect());
    let Some(numbers) = numbers else {
        reader.kind("members", value, "a list of node ids, as in [1, 2, 3]");
        return None;
    };
    reader.checked("members", value, values::universe(numbers.into_iter()))
}

/// A number of ppm, as a number or as text; never by way of a float.
fn steering_cap(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<u32> {
    const KEY: &str = "steering-cap-ppm";
    let read = match value.get_ref() {
        DeValue::Integer(n) if n.radix() == 10 => values::steering_cap(n.as_str()),
        DeValue::Float(x) => values::steering_cap(x.as_str()),
        DeValue::String(text) => values::steering_cap(text),
        _ => {
            reader.kind(KEY, value, "a number of ppm, as in 500");
            return None;
        }
    };
    reader.checked(KEY, value, read)
}

fn buffer(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<usize> {
    let Some(number) = whole(value) else {
        reader.kind("buffer", value, "a number of values, as in 1048576");
        return None;
    };
    let (least, most) = (values::BUFFER.start(), values::BUFFER.end());
    let read = usize::try_from(number)
        .ok()
        .filter(|n| values::BUFFER.contains(n))
        .ok_or_else(|| format!("must be {least} to {most}"));
    reader.checked("buffer", value, read)
}

/// Sets what was read well.
fn set<T>(place: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *place = value;
    }
}
