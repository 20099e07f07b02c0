//! How a PTP port is written.

use truechimer_config::{DeTable, Reader, Value, whole};
use truechimer_engine::{Delay, PTP_ERROR_LIMIT, PtpConfig, SourceConfig, Timescale, Transport};
use truechimer_time::Span;

use super::asymmetry::Declared;
use super::foreign::unknown;
use super::reader::{TABLES, span};
use super::server::wish;

/// Keys of a source that are for PTP alone.
pub(super) const KEYS: &[&str] = &["ptp", "domain", "transport", "delay", "error", "timescale"];
/// Keys of other sources that mean nothing to a PTP port.
const OF_OTHERS: &[&str] = &[
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
    "pps",
    "latency",
    "offset",
    "name",
];
/// The longest name of a network interface, in bytes (IFNAMSIZ − 1).
const NAME: usize = 15;

/// A source that is a PTP port.
pub(super) fn port(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    at: usize,
) -> Option<SourceConfig> {
    let mut source = SourceConfig::ptp("");
    let mut ptp = PtpConfig::default();
    let mut declared = Declared::default();
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "ptp" => source.host = reader.text_of("ptp", value, interface).unwrap_or_default(),
            "domain" => ptp.domain = domain(reader, value).unwrap_or(ptp.domain),
            "transport" => {
                let read = reader.text_of("transport", value, transport);
                ptp.transport = read.unwrap_or(ptp.transport);
            }
            "delay" => ptp.delay = reader.text_of("delay", value, delay).unwrap_or(ptp.delay),
            "error" => ptp.error = span(reader, "error", value, "1us", error).or(ptp.error),
            "timescale" => {
                let read = reader.text_of("timescale", value, timescale);
                ptp.timescale = read.unwrap_or(ptp.timescale);
            }
            key if declared.take(reader, key, value) => {}
            key if wish(reader, key, value, &mut source) => {}
            other if OF_OTHERS.contains(&other) => reader.problem(
                key.span().start,
                format!("`{other}` is for a server or a pulse, and this source is PTP: remove it"),
            ),
            other => unknown(reader, other, key.span().start, TABLES[1]),
        }
    }
    declared.put(reader, at, &mut source);
    source.ptp = Some(ptp);
    (!source.host.is_empty()).then_some(source)
}

/// The name of a network interface.
pub(super) fn interface(text: &str) -> Result<String, String> {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != '/';
    if text.is_empty() || text.len() > NAME || !text.chars().all(plain) {
        return Err("must be a network interface, as \"eth0\" (see 'ip link')".into());
    }
    Ok(text.to_owned())
}

/// The number of a domain (7.1).
fn domain(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<u8> {
    match whole(value).map(u8::try_from) {
        Some(Ok(domain @ 0..=239)) => Some(domain),
        _ => {
            reader.wrong("domain", value, "must be a whole number from 0 to 239");
            None
        }
    }
}

fn transport(text: &str) -> Result<Transport, String> {
    let all = [Transport::Udp4, Transport::Udp6, Transport::Udp6Link, Transport::Ethernet];
    all.into_iter().find(|transport| transport.name() == text).ok_or_else(|| {
        "must be \"udp4\", \"udp6\", \"udp6-link\" (masters that listen on the link alone) or \"ethernet\"".into()
    })
}

fn delay(text: &str) -> Result<Delay, String> {
    match text {
        "e2e" => Ok(Delay::E2e),
        "p2p" => Ok(Delay::P2p),
        _ => Err("must be \"e2e\" (end to end) or \"p2p\" (peer to peer)".into()),
    }
}

fn error(span: Span) -> Result<Span, String> {
    if span.is_negative() || span > PTP_ERROR_LIMIT {
        return Err(format!("must be 0ns to {PTP_ERROR_LIMIT}"));
    }
    Ok(span)
}

fn timescale(text: &str) -> Result<Timescale, String> {
    match text {
        "ptp" => Ok(Timescale::Ptp),
        "utc" => Ok(Timescale::Utc),
        _ => Err("must be \"ptp\" or \"utc\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse;
    use truechimer_engine::{Asymmetry, Delay, PtpConfig, SourceConfig, Timescale, Transport};
    use truechimer_time::Span;

    #[test]
    fn a_port_stands_among_the_sources() {
        let text = "
            [[source]]
            ptp = \"eth0\"
            [[source]]
            ptp = \"eth0\"
            domain = 24
            transport = \"udp6-link\"
            delay = \"p2p\"
            timescale = \"utc\"
            error = \"50us\"
            noselect = true
            trust = true
            prefer = true
            require = true
            asymmetry = \"1us\"
            asymmetry-error = \"100ns\"
        ";
        let sources = parse(text, "t").unwrap().engine.sources;
        let ptp = PtpConfig {
            domain: 24,
            transport: Transport::Udp6Link,
            timescale: Timescale::Utc,
            delay: Delay::P2p,
            error: Some(Span::from_micros(50)),
        };
        let by = Asymmetry { by: Span::from_micros(1), error: Span::from_nanos(100) };
        let second = SourceConfig {
            ptp: Some(ptp),
            no_select: true,
            trust: true,
            prefer: true,
            require: true,
            asymmetry: Some(by),
            ..SourceConfig::ptp("eth0")
        };
        assert_eq!(sources, [SourceConfig::ptp("eth0"), second]);
    }

    #[test]
    fn mistakes_are_told_with_their_mend() {
        for (text, told) in [
            ("ptp = \"\"", "must be a network interface"),
            ("ptp = \"eth0\"\ndomain = 255", "0 to 239"),
            ("ptp = \"eth0\"\ntransport = \"l2\"", "or \"ethernet\""),
            ("ptp = \"eth0\"\ndelay = \"none\"", "(peer to peer)"),
            ("ptp = \"eth0\"\nerror = \"2s\"", "must be 0ns to 1"),
            ("ptp = \"eth0\"\ntimescale = \"tai\"", "\"ptp\" or \"utc\""),
            ("ptp = \"eth0\"\nhost = \"a\"", "this source is PTP"),
            ("host = \"a\"\ndomain = 1", "add ptp = \"eth0\""),
            ("ptp = \"eth0\"\n[[source]]\nptp = \"eth0\"", "is a source already"),
        ] {
            let why = parse(&format!("[[source]]\n{text}"), "t").unwrap_err().to_string();
            assert!(why.contains(told), "{text}: {why}");
        }
    }
}
