//! Tables of reference clocks in the file.

use truechimer_config::{DeTable, Reader, Value, printable, whole};
use truechimer_engine::{REFCLOCK_POLL_RANGE, RefClockConfig, RefClockKind, Scale};
use truechimer_stamp::pps::card::Input;
use truechimer_stamp::shm;
use truechimer_time::Span;

use super::foreign::unknown;
use super::reader::{TABLES, span};
use super::server::OF_SERVER;

/// The keys that say what kind of reference clock a source is, and what each is called.
pub(super) const KINDS: [(&str, RefClockKind, &str); 5] = [
    ("pps", RefClockKind::Pulse, "a pulse"),
    ("phc", RefClockKind::Phc, "a card's clock"),
    ("shm", RefClockKind::Shm, "a segment of shared memory"),
    ("sock", RefClockKind::Sock, "a socket for samples"),
    ("vmclock", RefClockKind::Vmclock, "the hypervisor's time"),
];
/// The keys of reference clocks alone.
pub(super) const OF_REFCLOCK: &[&str] = &[
    "pps", "phc", "shm", "sock", "vmclock", "latency", "error", "offset", "scale", "name",
    "channel", "pin",
];

/// A source that is a reference clock, by the first of the keys that say so.
pub(super) fn refclock(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    at: usize,
) -> Option<RefClockConfig> {
    let (own, kind, what) = *KINDS.iter().find(|(key, ..)| table.contains_key(*key))?;
    let is_pulse = kind == RefClockKind::Pulse;
    let mut config = match kind {
        RefClockKind::Pulse => RefClockConfig::pulse(""),
        _ => RefClockConfig::new(kind, "", Span::ZERO),
    };
    let mut named = None;
    let (mut channel, mut pin) = (None, None);
    for (key, value) in table {
        let start = key.span().start;
        match key.get_ref().as_ref() {
            key if key == own => {
                config.path = place(reader, key, value, kind).unwrap_or_default();
            }
            key if KINDS.iter().any(|(other, ..)| *other == key) => reader.problem(
                start,
                format!("`{key}` and `{own}` are two sources: write a [[source]] for each"),
            ),
            "latency" if is_pulse => {
                if let Some(span) = span(reader, "latency", value, "10us", latency) {
                    config.error = span;
                }
            }
            "latency" => reader.problem(
                start,
                format!("`latency` is for a pulse, and this source is {what}: that is `error`"),
            ),
            "error" if is_pulse => {
                if let Some(span) = span(reader, "error", value, "50ns", error) {
                    config.pulse_error = span;
                }
            }
            "error" => {
                if let Some(span) = span(reader, "error", value, "10us", error) {
                    config.error = span;
                }
            }
            "channel" | "pin" if is_pulse => {
                let key = key.get_ref().as_ref();
                match whole(value).map(u32::try_from) {
                    Some(Ok(number)) if number <= INPUTS => {
                        *if key == "pin" { &mut pin } else { &mut channel } = Some(number);
                    }
                    Some(_) => reader.wrong(key, value, "must be 0 to 127"),
                    None => reader.kind(key, value, "a whole number, as in 0"),
                }
            }
            key @ ("channel" | "pin") => reader.problem(
                start,
                format!("`{key}` is for a pulse at a card, and this source is {what}: remove it"),
            ),
            "offset" => {
                if let Some(span) = span(reader, "offset", value, "250ns", offset) {
                    config.offset = span;
                }
            }
            "name" => named = reader.text_of("name", value, name),
            "poll" if !is_pulse => match whole(value).map(u32::try_from) {
                Some(Ok(poll)) if REFCLOCK_POLL_RANGE.contains(&poll) => config.poll = poll,
                Some(_) => reader.wrong("poll", value, "must be 1 to 64 seconds for this source"),
                None => reader.kind("poll", value, "a whole number of seconds, as in 1"),
            },
            "scale" if !is_pulse => {
                if let Some(found) = reader.text_of("scale", value, scale) {
                    config.scale = found;
                }
            }
            "trust" if !is_pulse => {
                config.trust = reader.boolean("trust", value).unwrap_or_default();
            }
            "prefer" => config.prefer = reader.boolean("prefer", value).unwrap_or_default(),
            "require" => config.require = reader.boolean("require", value).unwrap_or_default(),
            key @ ("scale" | "trust") => reader.problem(
                start,
                format!("`{key}` is not for a pulse, which does not say which second it is"),
            ),
            other if OF_SERVER.contains(&other) => reader.problem(
                start,
                format!("`{other}` is for a server, and this source is {what}: remove it"),
            ),
            other => unknown(reader, other, start, TABLES[1]),
        }
    }
    if matches!(kind, RefClockKind::Shm | RefClockKind::Sock) && !table.contains_key("error") {
        let text =
            "this source has no `error`: add error = \"10us\", the most by which it may be off";
        reader.problem(at, text);
    }
    if config.trust && config.scale == Scale::Auto && kind != RefClockKind::Vmclock {
        let text = "`trust` needs `scale`: add scale = \"utc\" or \"tai\", as nobody else may be there \
                    to tell";
        reader.problem(at, text);
    }
    if channel.is_some() || pin.is_some() {
        if Input::is_meant(&config.path) {
            let device = config.path.as_str().into();
            config.path = Input { device, channel: channel.unwrap_or(0), pin }.to_string();
        } else {
            let text = "`channel` and `pin` are of a card: pps = \"/dev/ptp0\", or remove them";
            reader.problem(at, text);
        }
    }
    let path = config.path.clone();
    config.name =
        named.unwrap_or(if kind == RefClockKind::Shm { format!("shm{path}") } else { path });
    (!config.path.is_empty()).then_some(config)
}

/// Where it is read.
fn place(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    kind: RefClockKind,
) -> Option<String> {
    match kind {
        RefClockKind::Pulse => reader.text_of(key, value, path),
        RefClockKind::Phc => reader.text_of(key, value, card),
        RefClockKind::Sock => reader.text_of(key, value, socket),
        RefClockKind::Vmclock => reader.text_of(key, value, device),
        RefClockKind::Shm => match whole(value).map(u8::try_from) {
            Some(Ok(unit)) if shm::UNITS.contains(&unit) => Some(unit.to_string()),
            Some(_) => {
                reader.wrong(key, value, "must be 0 to 15");
                None
            }
            None => {
                reader.kind(key, value, "the number of a segment, as in 0");
                None
            }
        },
    }
}

fn card(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err("must be a device, a clock's name or an interface, as \"/dev/ptp0\", \
                    \"KVM virtual PTP\" or \"eth0\""
            .into());
    }
    Ok(text.to_owned())
}

/// The path of a vmclock.
fn device(text: &str) -> Result<String, String> {
    if !text.starts_with('/') || text.chars().any(char::is_control) {
        return Err("must be a path from / on, as \"/dev/vmclock0\"".into());
    }
    Ok(text.to_owned())
}

/// The longest path that a socket may have, bytes.
const SOCKET: usize = 107;

fn socket(text: &str) -> Result<String, String> {
    if !text.starts_with('/') || text.len() > SOCKET || text.chars().any(char::is_control) {
        return Err(format!(
            "must be a path from / on of up to {SOCKET} bytes, as \"/run/truechimer/gps.sock\""
        ));
    }
    Ok(text.to_owned())
}

fn scale(word: &str) -> Result<Scale, String> {
    match word {
        "auto" => Ok(Scale::Auto),
        "utc" => Ok(Scale::Utc),
        "tai" => Ok(Scale::Tai),
        _ => Err(format!("must be \"auto\", \"utc\" or \"tai\", not {}", printable(word))),
    }
}

/// The highest number of a card's channel or pin.
const INPUTS: u32 = 127;
/// The most that a reference clock may be off.
const ERROR: (Span, Span) = (Span::from_nanos(1), Span::from_secs(1));

fn error(span: Span) -> Result<Span, String> {
    if span < ERROR.0 || span > ERROR.1 {
        return Err("must be 1ns to 1s: the most by which it may be off".into());
    }
    Ok(span)
}

/// The least and the most that stamps may be late.
const LATENCY: (Span, Span) = (Span::from_nanos(100), Span::from_millis(100));
/// A pulse that is half a second off begins no second.
const OFFSET: Span = Span::from_millis(500);
/// The longest name, in letters.
const NAME: usize = 63;

/// The path of a device or plain file.
pub(crate) fn path(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("must be a path, as \"/dev/pps0\" or \"/sys/class/pps/pps0/assert\"".into());
    }
    Ok(text.to_owned())
}

fn latency(span: Span) -> Result<Span, String> {
    if span < LATENCY.0 || span > LATENCY.1 {
        return Err("must be 100ns to 100ms: the most by which a stamp may be late".into());
    }
    Ok(span)
}

fn offset(span: Span) -> Result<Span, String> {
    if span.abs() >= OFFSET {
        return Err("must be less than 500ms, either way".into());
    }
    Ok(span)
}

fn name(text: &str) -> Result<String, String> {
    let fits = text.chars().count() <= NAME;
    let is_plain = text.chars().all(|c| !c.is_control() && !c.is_whitespace());
    if text.is_empty() || !fits || !is_plain {
        return Err(format!("must be one word of up to {NAME} letters"));
    }
    Ok(text.to_owned())
}
