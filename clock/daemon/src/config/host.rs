//! Host and port of a server, as people write them.

use std::net::{Ipv4Addr, Ipv6Addr};

use truechimer_config::printable;

/// Takes `HOST`, `HOST:PORT`, `IPV6`, `[IPV6]` or `[IPV6]:PORT` apart; the port is `None` if none
/// is given. Names are only checked for what can never be one.
pub(crate) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let text = text.trim();
    if let Some((scheme, host)) = text.split_once("://") {
        return Err(format!(
            "without `{}://`: write \"{}\"",
            printable(scheme),
            printable(host.trim_end_matches('/'))
        ));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("the closing ] is missing")?;
        if !is_ipv6(host) {
            return Err(format!("`{}` is not an IPv6 address", printable(host)));
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("after ] only a port may follow, as in [::1]:123".into()),
        }
    } else if is_ipv6(text) {
        (text, None)
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("write IPv6 addresses with a port as [::1]:123".into());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("the name or address is missing".into());
    }
    // The last part of no name is a number (RFC 1123, 2.1).
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|b| b.is_ascii_digit());
    if is_number && !is_ipv6(host) && host.parse::<Ipv4Addr>().is_err() {
        return Err(format!("`{}` is no IPv4 address, as 192.0.2.7 is", printable(host)));
    }
    if !is_ipv6(host) && !is_name(host) {
        return Err(format!("`{}` is neither a name nor an address", printable(host)));
    }
    let number = |port: &str| {
        let number = port.parse().ok().filter(|number| *number != 0);
        number.ok_or_else(|| format!("port `{}` must be 1 to 65535", printable(port)))
    };
    Ok((host.into(), port.map(number).transpose()?))
}

/// An IPv6 address, with or without a zone (`fe80::1%eth0`).
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
    let zone_ok = !zone.is_empty() && zone.len() < 16 && zone.bytes().all(|b| b.is_ascii_graphic());
    address.parse::<Ipv6Addr>().is_ok() && zone_ok && !zone.contains('/')
}

fn is_name(text: &str) -> bool {
    text.len() <= 253
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_apart() {
        for (text, host, port) in [
            ("ntp.example.org", "ntp.example.org", None),
            ("ntp.example.org:1123", "ntp.example.org", Some(1123)),
            (" 192.0.2.7 ", "192.0.2.7", None),
            ("7.pool.example.org.", "7.pool.example.org.", None),
            ("192.0.2.7:65535", "192.0.2.7", Some(65535)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[::1]:1123", "::1", Some(1123)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("fe80::1%eth0.100", "fe80::1%eth0.100", None),
            ("::ffff:192.0.2.7", "::ffff:192.0.2.7", None),
            ("[64:ff9b::192.0.2.33]:123", "64:ff9b::192.0.2.33", Some(123)),
            ("[fe80::1%eth0]:99", "fe80::1%eth0", Some(99)),
        ] {
            assert_eq!(host_and_port(text), Ok((host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn what_can_be_no_server_says_why() {
        for (text, why) in [
            ("", "the name or address is missing"),
            (":123", "the name or address is missing"),
            ("host:", "port `` must be 1 to 65535"),
            ("host:0", "port `0` must be"),
            ("host:65536", "port `65536` must be"),
            ("host:-1", "port `-1` must be"),
            ("[::1", "the closing ] is missing"),
            ("[::1]123", "after ] only a port"),
            ("[host]:123", "`host` is not an IPv6 address"),
            ("2001:db8::1::7:123", "as [::1]:123"),
            ("fe80::1%", "as [::1]:123"),
            ("two words", "`two words` is neither"),
            ("10.99.0.999", "`10.99.0.999` is no IPv4 address"),
            ("10.99.0:123", "`10.99.0` is no IPv4 address"),
            ("time.123.", "`time.123.` is no IPv4 address"),
            ("-option", "`-option` is neither"),
            ("https://host/", "without `https://`: write \"host\""),
            ("a\u{7}b", "`a\u{fffd}b` is neither"),
        ] {
            let found = host_and_port(text).unwrap_err();
            assert!(found.contains(why), "{text:?}: {found}");
        }
    }
}
