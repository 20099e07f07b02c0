//! Keys of a PTP port.

use std::net::{IpAddr, Ipv4Addr};
use truechimer_config::{DeTable, Reader, Value, whole};

use truechimer_engine::{
    Delay, PTP_ERROR_LIMIT, PTP_MASTERS_LIMIT, Profile, PtpConfig, SourceConfig, Timescale,
    Transport,
};
use truechimer_time::Span;

use super::asymmetry::Declared;
use super::foreign::unknown;
use super::reader::{TABLES, span};
use super::server::wish;

/// Keys of a source that are for PTP alone.
pub(super) const KEYS: &[&str] =
    &["ptp", "domain", "transport", "delay", "profile", "masters", "error", "timescale"];
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
    let profiled = table.get("profile").and_then(|value| value.get_ref().as_str());
    if profiled == Some(Profile::Ieee8021as.name()) {
        // It has no other.
        (ptp.transport, ptp.delay) = (Transport::Ethernet, Delay::P2p);
    }
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
            "profile" => {
                let read = reader.text_of("profile", value, profile);
                ptp.profile = read.unwrap_or(ptp.profile);
            }
            "masters" => ptp.masters = masters(reader, value),
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
    if let Err(text) = fits(&ptp) {
        reader.problem(at, text);
    }
    declared.put(reader, &mut source);
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

fn profile(text: &str) -> Result<Profile, String> {
    let all = [Profile::Default, Profile::Ieee8021as];
    all.into_iter()
        .find(|profile| profile.name() == text)
        .ok_or_else(|| "must be \"default\" or \"802.1as\" (gPTP)".into())
}

/// Addresses of masters.
fn masters(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<IpAddr> {
    const KEY: &str = "masters";
    let mut masters = Vec::new();
    let Some(list) = value.get_ref().as_array() else {
        reader.kind(KEY, value, "a list of addresses, as in [\"192.0.2.1\"]");
        return masters;
    };
    if !(1..=PTP_MASTERS_LIMIT).contains(&list.len()) {
        let why =
            format!("must have 1 to {PTP_MASTERS_LIMIT} addresses; leave it out for multicast");
        reader.wrong(KEY, value, why);
    }
    for one in list {
        let address = |text: &str| match text.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) if masters.contains(&ip) => Err("is there twice"),
            Ok(ip) if !ip.is_multicast() && !ip.is_unspecified() && ip != Ipv4Addr::BROADCAST => {
                Ok(ip)
            }
            _ => Err("must be the address of a master, as \"192.0.2.1\" or \"2001:db8::1\""),
        };
        masters.extend(reader.text_of(KEY, one, address));
    }
    masters
}

/// Checks what a profile, and masters that are asked by address, go with.
fn fits(ptp: &PtpConfig) -> Result<(), &'static str> {
    let over_ipv4 = ptp.transport == Transport::Udp4;
    let as_802_1as = (ptp.transport, ptp.delay) == (Transport::Ethernet, Delay::P2p);
    if ptp.profile == Profile::Ieee8021as && ptp.is_unicast() {
        return Err(
            "`masters` are of no use to profile = \"802.1as\", which has no unicast: leave out one of them",
        );
    }
    if ptp.profile == Profile::Ieee8021as && ptp.domain != 0 {
        return Err(
            "profile = \"802.1as\" is in domain 0 here: leave out `domain` (others share one measurement of the \
             link, CMLDS, which is not there)",
        );
    }
    if ptp.profile == Profile::Ieee8021as && !as_802_1as {
        return Err(
            "profile = \"802.1as\" is over Ethernet and peer to peer: leave out `transport` and `delay`",
        );
    }
    if !ptp.is_unicast() {
        return Ok(());
    }
    if ptp.delay == Delay::P2p {
        return Err("`masters` are asked end to end: leave out delay = \"p2p\"");
    }
    if ptp.transport == Transport::Ethernet {
        return Err("`masters` are asked over UDP: leave out transport = \"ethernet\"");
    }
    if ptp.masters.iter().any(|master| master.is_ipv4() != over_ipv4) {
        return Err(
            "all `masters` must have addresses of the port's transport: IPv4 with \"udp4\", IPv6 with transport = \
             \"udp6\"; make another source of the others",
        );
    }
    Ok(())
}

/// Two ports by the same protocol on one interface: datagrams to our own address come to one of them alone.
pub(super) fn shares(one: &SourceConfig, other: &SourceConfig) -> bool {
    let (Some(a), Some(b)) = (&one.ptp, &other.ptp) else { return false };
    let protocol = |ptp: &PtpConfig| match ptp.transport {
        Transport::Udp6Link => Transport::Udp6,
        transport => transport,
    };
    one.host == other.host && protocol(a) == protocol(b) && (a.is_unicast() || b.is_unicast())
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
    use std::net::IpAddr;

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
            ..PtpConfig::default()
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
    fn masters_may_be_asked_by_address() {
        let text = "
            [[source]]
            ptp = \"eth0\"
            masters = [\"192.0.2.1\", \"::ffff:192.0.2.2\"]
            [[source]]
            ptp = \"eth0\"
            transport = \"udp6\"
            masters = [\"2001:db8::1\"]
            [[source]]
            ptp = \"eth0\"
            transport = \"ethernet\"
        ";
        let sources = parse(text, "t").unwrap().engine.sources;
        let masters = |of: usize| sources[of].ptp.as_ref().unwrap().masters.clone();
        assert_eq!(masters(0), [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from));
        assert_eq!((masters(1).len(), masters(2).len()), (1, 0));
        let names: Vec<_> = sources.iter().map(SourceConfig::name).collect();
        assert_eq!(names, ["ptp:eth0/unicast", "ptp:eth0/udp6/unicast", "ptp:eth0/ethernet"]);
    }

    #[test]
    fn a_profile_brings_its_transport_and_mechanism() {
        let text = "[[source]]\nptp = \"eth0\"\nprofile = \"802.1as\"";
        let sources = parse(text, "t").unwrap().engine.sources;
        assert_eq!(sources[0].name(), "ptp:eth0/ethernet/802.1as");
        assert_eq!(sources[0].ptp.as_ref().unwrap().delay, Delay::P2p);
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
            ("ptp = \"eth0\"\nmasters = \"192.0.2.1\"", "must be a list of addresses"),
            ("ptp = \"eth0\"\nprofile = \"gptp\"", "or \"802.1as\""),
            ("ptp = \"eth0\"\ndelay = \"e2e\"\nprofile = \"802.1as\"", "leave out `transport`"),
            ("ptp = \"eth0\"\nprofile = \"802.1as\"\ndomain = 1", "leave out `domain`"),
            ("ptp = \"eth0\"\nprofile = \"802.1as\"\nmasters = [\"192.0.2.1\"]", "has no unicast"),
            ("ptp = \"eth0\"\nmasters = [\"255.255.255.255\"]", "the address of a master"),
            ("ptp = \"eth0\"\nmasters = []", "1 to 8 addresses"),
            ("ptp = \"eth0\"\nmasters = [\"224.0.1.129\"]", "the address of a master"),
            ("ptp = \"eth0\"\nmasters = [\"master.example\"]", "the address of a master"),
            ("ptp = \"eth0\"\nmasters = [\"192.0.2.1\", \"192.0.2.1\"]", "is there twice"),
            ("ptp = \"eth0\"\nmasters = [\"2001:db8::1\"]", "IPv6 with transport = \"udp6\""),
            ("ptp = \"eth0\"\nmasters = [\"192.0.2.1\"]\ndelay = \"p2p\"", "leave out delay"),
            (
                "ptp = \"eth0\"\nmasters = [\"192.0.2.1\"]\ntransport = \"ethernet\"",
                "leave out transport",
            ),
            (
                "ptp = \"eth0\"\n[[source]]\nptp = \"eth0\"\ndomain = 4\nmasters = [\"192.0.2.1\"]",
                "has to be the only one",
            ),
            ("host = \"a\"\ndomain = 1", "add ptp = \"eth0\""),
            ("ptp = \"eth0\"\n[[source]]\nptp = \"eth0\"", "is a source already"),
        ] {
            let why = parse(&format!("[[source]]\n{text}"), "t").unwrap_err().to_string();
            assert!(why.contains(told), "{text}: {why}");
        }
    }
}
