//! Tables of servers, and of pools of servers, in the file.

use truechimer_config::{DeTable, Reader, Value, whole};
use truechimer_engine::{
    Authentication, DEFAULT_MAX_SOURCES, Family, MAX_SOURCES_RANGE, NTP_PORT, NTS_PORT, POLL_RANGE,
    SourceConfig,
};

use super::asymmetry::Declared;
use super::authentication::Proof;
use super::foreign::unknown;
use super::host::host_and_port;
use super::ptp;
use super::reader::{TABLES, knows};
use super::refclock::OF_REFCLOCK;

/// Keys of a source that are for a server.
pub(super) const OF_SERVER: &[&str] = &[
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
];

/// A source that is a server, or a pool of servers.
pub(super) fn server(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    at: usize,
) -> Option<SourceConfig> {
    let mut source = SourceConfig::new("");
    let (mut named, mut port, mut most) = (false, None, DEFAULT_MAX_SOURCES);
    let mut proof = Proof::default();
    let (mut longest, mut knows_poll): (Option<(u32, usize)>, bool) = (None, true);
    let mut declared = Declared::default();
    let (own, is_pool) = if table.contains_key("pool") { ("pool", true) } else { ("host", false) };
    for (key, value) in table {
        let start = key.span().start;
        match key.get_ref().as_ref() {
            key if key == own => {
                named = true;
                if value.get_ref().as_array().is_some() {
                    reader.problem(start, format!("`{own}` names one: write a [[source]] for each"));
                } else if let Some((host, given)) = reader.text_of(own, value, host_and_port) {
                    (source.host, port) = (host, given);
                }
            }
            "host" => {
                let text = "`host` and `pool` are two sources: write a [[source]] for each";
                reader.problem(start, text);
            }
            "max-sources" if is_pool => most = max_sources(reader, value).unwrap_or(most),
            "max-sources" => {
                reader.problem(start, "`max-sources` is for a pool: write pool, not host");
            }
            key @ ("nts" | "asymmetry" | "asymmetry-error") if is_pool => {
                let why = match key {
                    "nts" => "each of its servers would need a certificate for the pool's name",
                    _ => "each of its servers has a path of its own",
                };
                let text = format!("`{key}` is not for a pool: {why}; name the server with host");
                reader.problem(start, text);
            }
            "poll" => match whole(value).map(check_poll) {
                Some(Ok(poll)) => source.poll = poll,
                wrong => {
                    knows_poll = false;
                    match wrong {
                        Some(Err(why)) => reader.wrong("poll", value, why),
                        _ => reader.kind("poll", value, "a whole number of seconds, as in 16"),
                    }
                }
            },
            "max-poll" => match whole(value).map(check_poll) {
                Some(Ok(poll)) => longest = Some((poll, start)),
                Some(Err(why)) => reader.wrong("max-poll", value, why),
                None => reader.kind("max-poll", value, "a whole number of seconds, as in 256"),
            },
            "interleaved" => {
                let wanted = reader.boolean("interleaved", value);
                source.interleaved = wanted.unwrap_or(source.interleaved);
            }
            "interface" => {
                source.interface = reader.text_of("interface", value, ptp::interface);
            }
            "offline" => {
                source.offline = reader.boolean("offline", value).unwrap_or(source.offline);
            }
            "family" => source.family = reader.text_like("family", value, FAMILIES, family),
            key if declared.take(reader, key, value) => {}
            key if wish(reader, key, value, &mut source) => {}
            name @ ("nts" | "key") => proof.take(reader, name, value),
            "burst" => source.burst = reader.boolean("burst", value).unwrap_or(source.burst),
            other if OF_REFCLOCK.contains(&other) => reader.problem(
                start,
                format!(
                    "`{other}` is for a reference clock: add `pps`, `phc`, `shm` or `sock`, or remove it"
                ),
            ),
            other if ptp::KEYS.contains(&other) => reader.problem(
                start,
                format!("`{other}` is for PTP: add ptp = \"eth0\", or remove it"),
            ),
            other => unknown(reader, other, start, TABLES[1]),
        }
    }
    match longest {
        Some((longest, at)) if longest < source.poll && knows_poll => {
            let text = format!("`max-poll` = {longest} is less than `poll`, {}", source.poll);
            reader.problem(at, text);
        }
        _ => source.max_poll = longest.map(|(longest, _)| longest),
    }
    source.pool = is_pool.then_some(most);
    declared.put(reader, &mut source);
    source.authentication = proof.kind(reader);
    let exchange = source.authentication == Authentication::Nts;
    source.port = port.unwrap_or(if exchange { NTS_PORT } else { NTP_PORT });
    // A key that is not known may be meant as that.
    if !named && knows(TABLES[1], table) {
        reader.problem(at, "this source has no `host`: add host = \"ntp.example.org\", or a pool");
    }
    (!source.host.is_empty()).then_some(source)
}

/// Words of `family`.
const FAMILIES: &str = "\"ipv4\" or \"ipv6\"";

fn family(word: &str) -> Result<Family, String> {
    match word {
        "ipv4" => Ok(Family::Ipv4),
        "ipv6" => Ok(Family::Ipv6),
        _ => Err(format!("must be {FAMILIES}")),
    }
}

/// The most servers of a pool.
fn max_sources(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<u32> {
    match whole(value).map(u32::try_from) {
        Some(Ok(most)) if MAX_SOURCES_RANGE.contains(&most) => Some(most),
        _ => {
            let (least, most) = (MAX_SOURCES_RANGE.start(), MAX_SOURCES_RANGE.end());
            let text = format!("must be a whole number from {least} to {most}");
            reader.wrong("max-sources", value, text);
            None
        }
    }
}

/// Reads what the user wants of a server or a PTP port; whether the key says that.
pub(super) fn wish(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    source: &mut SourceConfig,
) -> bool {
    let wish = match key {
        "trust" => &mut source.trust,
        "prefer" => &mut source.prefer,
        "require" => &mut source.require,
        "noselect" => &mut source.no_select,
        _ => return false,
    };
    *wish = reader.boolean(key, value).unwrap_or(*wish);
    true
}

/// A poll interval within its range.
pub(crate) fn check_poll(seconds: i128) -> Result<u32, String> {
    u32::try_from(seconds)
        .ok()
        .filter(|s| POLL_RANGE.contains(s))
        .ok_or_else(|| format!("must be {} to {} seconds", POLL_RANGE.start(), POLL_RANGE.end()))
}
