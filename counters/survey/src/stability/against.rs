//! Reference that a counter is compared with, as it is written on a command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use truechimer_counter::Choice;

/// A reference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Against {
    /// `CLOCK_MONOTONIC_RAW`: the kernel's clocksource, unsteered.
    #[default]
    Raw,
    /// `CLOCK_REALTIME`: the same, steered by whoever keeps the system's time.
    Realtime,
    /// An NTP server: host and port.
    Ntp(String, u16),
    /// The pulses of a PPS device, or of a plain file.
    Pps(PathBuf),
    /// A PTP hardware clock.
    Phc(PathBuf),
    /// Nothing: a phase file is analysed instead.
    File(PathBuf),
    /// Another counter.
    Counter(String, Choice),
}

impl Against {
    /// True if it can be read whenever one likes (the others have a pace of their own, or ask for
    /// manners).
    #[must_use]
    pub fn is_local(&self) -> bool {
        !matches!(self, Against::Ntp(..) | Against::Pps(_))
    }
}

impl FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Against, String> {
        let (kind, rest) =
            text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let rest = rest.filter(|rest| !rest.is_empty());
        match (kind.to_ascii_lowercase().as_str(), rest) {
            ("raw", None) => Ok(Against::Raw),
            ("realtime", None) => Ok(Against::Realtime),
            ("ntp", Some(server)) => ntp(server),
            ("ntp", None) => Err("an NTP server is named as in ntp:192.0.2.7".into()),
            ("pps", path) => Ok(Against::Pps(path.unwrap_or("/dev/pps0").into())),
            ("phc", path) => Ok(Against::Phc(path.unwrap_or("/dev/ptp0").into())),
            ("file", Some(path)) => Ok(Against::File(path.into())),
            ("file", None) => Err("a phase file is named as in file:day.phase".into()),
            ("counter", Some(name)) => {
                let choice =
                    Choice::from_str(&name.to_ascii_lowercase()).map_err(|why| why.to_string())?;
                Ok(Against::Counter(name.to_ascii_lowercase(), choice))
            }
            ("counter", None) => Err("another counter is named as in counter:hpet".into()),
            _ => {
                Err("must be raw, realtime, ntp:HOST[:PORT], pps[:PATH], phc[:PATH], file:PATH or \
                      counter:NAME"
                    .into())
            }
        }
    }
}

/// `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`; a bare IPv6 address has colons of its own.
fn ntp(server: &str) -> Result<Against, String> {
    let (host, port) = if let Some(rest) = server.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the ']' after the address is missing")?;
        (host, port.strip_prefix(':').or(port.is_empty().then_some("123")))
    } else if server.matches(':').count() == 1 {
        server.split_once(':').map_or((server, Some("123")), |(host, port)| (host, Some(port)))
    } else {
        (server, Some("123"))
    };
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port > 0);
    let port = port.ok_or("the port must be a number from 1 to 65535")?;
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    Ok(Against::Ntp(host.to_owned(), port))
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Against::Raw => f.write_str("raw"),
            Against::Realtime => f.write_str("realtime"),
            Against::Ntp(host, port) if host.contains(':') => write!(f, "ntp:[{host}]:{port}"),
            Against::Ntp(host, port) => write!(f, "ntp:{host}:{port}"),
            Against::Pps(path) => write!(f, "pps:{}", path.display()),
            Against::Phc(path) => write!(f, "phc:{}", path.display()),
            Against::File(path) => write!(f, "file:{}", path.display()),
            Against::Counter(name, _) => write!(f, "counter:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        for (text, shown) in [
            ("RAW", "raw"),
            ("Realtime", "realtime"),
            ("NTP:ntp.example.org", "ntp:ntp.example.org:123"),
            ("ntp:127.0.0.1:11123", "ntp:127.0.0.1:11123"),
            ("ntp:::1", "ntp:[::1]:123"),
            ("ntp:[::1]:99", "ntp:[::1]:99"),
            ("PPS", "pps:/dev/pps0"),
            ("pps:/Dev/PPS1", "pps:/Dev/PPS1"),
            ("PHC:/dev/ptp3", "phc:/dev/ptp3"),
            ("FILE:a:b", "file:a:b"),
            ("counter:raw", "counter:raw"),
        ] {
            let against: Against = text.parse().unwrap();
            assert_eq!(against.to_string(), shown);
            assert_eq!(shown.parse(), Ok(against));
        }
    }

    #[test]
    fn others_are_refused_with_a_hint() {
        for (text, says) in [
            ("", "must be raw"),
            ("raw:x", "must be raw"),
            ("NTP", "ntp:192.0.2.7"),
            ("ntp:", "ntp:192.0.2.7"),
            ("ntp:a:0", "port"),
            ("ntp:[::1", "']'"),
            ("ntp::99", "host"),
            ("file:", "file:day.phase"),
            ("counter:sundial", "sundial"),
        ] {
            let why = text.parse::<Against>().unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
