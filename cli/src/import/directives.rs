//! Each of chrony's directives: where it goes, or why it goes nowhere. chrony.conf(5) of chrony 4.

use std::net::IpAddr;

use super::files::Line;
use super::source::{quoted, refclock, server};
use super::{Found, Left, Part};

/// Directives that nobody needs here, and why.
const NEEDLESS: [(&[&str], &str); 10] = [
    (
        &["driftfile", "dumpdir", "dumponexit"],
        "the daemon keeps its rate and what it knows by itself (state)",
    ),
    (
        &["log", "logdir", "logbanner", "rawmeasurements"],
        "[audit] keeps a record of the bound, the sources and what happened, for 'truechimer audit'; \
         replay-log has every packet",
    ),
    (&["pidfile", "user"], "the unit of systemd says that"),
    (
        &["sched_priority"],
        "nothing here has a priority of its own, as the kernel stamps the packets; the unit of systemd has RestrictRealtime=yes",
    ),
    (&["ntsprocesses"], "'truechimer serve' has --threads"),
    (
        &["cmdport", "cmdallow", "cmddeny", "cmdratelimit", "bindcmdaddress", "bindcmddevice"],
        "commands go over a socket file on this machine (control), and over no network",
    ),
    (
        &["corrtimeratio", "maxdrift", "maxupdateskew", "clockprecision", "maxlockage"],
        "the counter is not steered; what the system clock gets is worked out",
    ),
    (
        &[
            "stratumweight",
            "combinelimit",
            "reselectdist",
            "maxdistance",
            "maxjitter",
            "minsamples",
            "maxsamples",
            "refresh",
        ],
        "sources are weighed by what they are worth, and a majority decides",
    ),
    (
        &["rtcsync", "rtconutc", "hwclockfile"],
        "with discipline = true the kernel keeps the real-time clock",
    ),
    (&["clientloglimit", "noclientlog"], "'truechimer serve' keeps no log of its clients"),
];

/// Directives that have no counterpart, and what is lost.
const LOST: [(&[&str], &str); 14] = [
    (
        &["ntsdumpdir", "ntsrefresh", "ntsrotate", "maxntsconnections", "ntsratelimit", "ntsaeads"],
        "cookies are kept beside the state, and 'truechimer serve' has --nts-cookie-keys; \
         algorithms are agreed on by themselves",
    ),
    (&["ntsntpserver", "ntsca"], "there is nothing like it"),
    (&["dscp"], "requests and answers are sent without a class (DSCP 0)"),
    (
        &["leapsecmode"],
        "with discipline = true the kernel inserts leap seconds; there is no other way",
    ),
    (
        &["maxslewrate"],
        "how fast the system clock is brought to the time is worked out ([system-clock] step says from where on it is stepped)",
    ),
    (
        &["hwtstimeout", "ptpport", "ptpdomain"],
        "stamps of cards are taken if they have come by the time of the reply, and NTP goes by its own port",
    ),
    (
        &["binddevice", "bindacqaddress", "acquisitionport"],
        "the daemon asks from any port; 'truechimer serve --listen' says where servers listen",
    ),
    (&["bindacqdevice"], "that is `interface`, in each [[source]]"),
    (
        &["rtcfile", "rtcdevice", "rtcautotrim"],
        "the real-time clock is read at the start and not measured",
    ),
    (
        &["local"],
        "a clock without a source serves no time: 'truechimer serve' says that it is not synchronised",
    ),
    (
        &["manual", "settime"],
        "nobody types the time in; 'truechimer accept' takes your word for a server",
    ),
    (
        &["initstepslew"],
        "the first reading comes within a second; [system-clock] step says what it does",
    ),
    (
        &["broadcast", "fallbackdrift", "smoothtime", "tempcomp", "ntpsigndsocket"],
        "there is nothing like it",
    ),
    (
        &["mailonchange", "logchange"],
        "the log tells of each step and hold-off, and [metrics] has alert rules (docs/use/alerts.md)",
    ),
];

/// Names of all directives in the two tables.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NEEDLESS.iter().chain(&LOST).flat_map(|(names, _)| *names).copied()
}

/// Puts a directive where it belongs.
pub(super) fn take(line: &Line, found: &mut Found) {
    let first = line.rest().first().map(String::as_str);
    match line.name() {
        "server" | "pool" | "peer" => server(line, found),
        "refclock" => refclock(line, found),
        "minsources" => match first.and_then(|n| n.parse::<u32>().ok()) {
            Some(least @ 1..=1000) => found.top(line, format!("min-sources = {least}")),
            _ => found.lose(line, "min-sources: must be a whole number, 1 to 1000"),
        },
        "authselectmode" => authentication(line, first, found),
        "maxclockerror" => match first.and_then(|ppm| ppm.parse::<f64>().ok()) {
            Some(ppm) if (0.001..=100.0).contains(&ppm) => {
                found.top(line, format!("max-wander-ppm = {ppm}"));
            }
            _ => found.lose(line, "max-wander-ppm: must be 0.001 to 100"),
        },
        "maxchange" => match first.and_then(|s| s.parse::<f64>().ok()) {
            Some(seconds) if (1.0..=604_800.0).contains(&seconds) => {
                found.top(line, format!("max-step = \"{seconds}s\""));
            }
            _ => found.lose(line, "max-step: must be 1s to 7d"),
        },
        "ntstrustedcerts" => authorities(line, found),
        "nosystemcert" => found.nosystemcert = Some(line.shown()),
        "lock_all" => found.top(
            line,
            "lock-memory = true    # what it takes of the unit of systemd: docs/use/service.md"
                .to_owned(),
        ),
        "sourcedir" => folder(line, found),
        "port" => match first.and_then(|port| port.parse::<u16>().ok()) {
            // The last one counts.
            Some(port) => found.served_port = Some((port, line.shown())),
            None => found.lose(line, "must be 0 to 65535"),
        },
        "nocerttimecheck" => match first.and_then(|n| n.parse::<u32>().ok()) {
            Some(times) => {
                found.forget_nts("unset-clock");
                if times > 0 {
                    found.nts(line, "unset-clock = true".to_owned());
                }
            }
            None => found.lose(line, "must be a whole number"),
        },
        "keyfile" => match first {
            Some(_) if found.key_file.is_some() => found.lose(line, "is there already"),
            Some(path) if path.starts_with('/') => {
                found.top(line, format!("key-file = {}", quoted(path)));
                found.key_file = Some(path.to_owned());
            }
            _ => found.lose(line, "names no file by its whole path"),
        },
        "bindaddress" => match first.and_then(|address| address.parse::<IpAddr>().ok()) {
            Some(address) => {
                let is_twin = |(other, _): &mut (IpAddr, _)| other.is_ipv4() == address.is_ipv4();
                let outdone = found.bound.extract_if(.., is_twin);
                let why = || "a later line counts".to_owned();
                found.needless.extend(outdone.map(|(_, from)| Left { from, why: why() }));
                found.bound.push((address, line.shown()));
            }
            None => found.lose(line, "must be an address"),
        },
        "ntsservercert" | "ntsserverkey" | "ntsport" => match first {
            Some(value) => {
                let option = match line.name() {
                    "ntsservercert" => "--nts-cert",
                    "ntsserverkey" => "--nts-key",
                    _ => "--nts-port",
                };
                found.serve.push(format!("{option} {value}"));
            }
            None => found.lose(line, "has no value"),
        },
        "leapseclist" => match first {
            Some(path) => found.top(line, format!("leap-file = {}", quoted(path))),
            None => found.lose(line, "names no file"),
        },
        "leapsectz" => found.needless.push(Left {
            from: line.shown(),
            why: "the list of leap seconds that comes with the time zones is read (leap-file)"
                .to_owned(),
        }),
        "makestep" => makestep(line, found),
        "hwtimestamp" => cards(line, found),
        "allow" | "deny" => access(line, found),
        "ratelimit" => found
            .lose(line, "'truechimer serve' has --rate and --burst, 16 a second and 64 at once"),
        name => {
            let by = |table: &[(&[&str], &str)]| {
                let row = table.iter().find(|(names, _)| names.contains(&name));
                row.map(|(_, why)| Left { from: line.shown(), why: (*why).to_owned() })
            };
            match (by(&NEEDLESS), by(&LOST)) {
                (Some(left), _) => found.needless.push(left),
                (None, Some(left)) => found.lost.push(left),
                (None, None) => {
                    found.lose(line, "no directive of chrony's is known here by that name")
                }
            }
        }
    }
}

/// A file of authorities, for servers of a set of them: there is one for all here.
fn authorities(line: &Line, found: &mut Found) {
    let (set, path) = match line.rest() {
        [path] => ("0", path),
        [set, path] => (set.as_str(), path),
        _ => return found.lose(line, "names no file"),
    };
    match set.parse::<u32>() {
        Ok(0) => found.nts(line, format!("ca = {}", quoted(path))),
        Ok(set) => found.lose(
            line,
            format!(
                "for servers with certset {set} only; [nts] ca would be for all, in place of the \
                 system's authorities"
            ),
        ),
        Err(_) => found.lose(line, "the set of certificates must be a number"),
    }
}

/// A folder of sources, whose files were read where they last.
fn folder(line: &Line, found: &mut Found) {
    const OURS: &str = "what comes and goes, as by DHCP, is for source-dir, whose files have \
                        [[source]]: truechimer-dispatcher fills it for NetworkManager";
    match line.read {
        0 => found.lose(line, format!("no file was there (none is read below /run); {OURS}")),
        n => {
            let files = if n == 1 { "file was" } else { "files were" };
            found.differ(line, format!("{n} {files} read, once (none below /run); {OURS}"));
        }
    }
}

/// Cards that stamp: all lines together are one key.
fn cards(line: &Line, found: &mut Found) {
    const KEY: &str = "hardware-stamps = ";
    const MORE: &str =
        "    # the unit of systemd takes truechimer-hardware-stamps.conf as a drop-in";
    let Some((name, options)) = line.rest().split_first() else {
        return found.lose(line, "names no interface");
    };
    // As long as the kernel lets one be called.
    if name != "*"
        && (name.len() > 15 || name.contains(|c: char| c == '*' || c == '/' || c.is_control()))
    {
        return found.lose(line, "hardware-stamps: must name an interface, or all by *");
    }
    if !options.is_empty() {
        found.card_options.push(line.shown());
    }
    let own = |part: &Part| part.lines.iter().any(|line| line.starts_with(KEY));
    let others = found.top.iter().position(own).map(|at| found.top.remove(at).lines.concat());
    let names = others.as_deref().and_then(|line| line.strip_prefix(KEY)?.strip_suffix(MORE));
    let quoted = quoted(name);
    let value = match names {
        Some("\"auto\"") => "\"auto\"".to_owned(),
        _ if name == "*" => "\"auto\"".to_owned(),
        Some(names) => format!("{}, {quoted}]", names.trim_end_matches(']')),
        None => format!("[{quoted}]"),
    };
    found.top(line, format!("{KEY}{value}{MORE}"));
}

fn makestep(line: &Line, found: &mut Found) {
    let numbers: Option<Vec<f64>> = line.rest().iter().map(|word| word.parse().ok()).collect();
    let Some([above, times]) = numbers.as_deref() else {
        return found.lose(line, "makestep has two numbers");
    };
    let above = above.clamp(1e-5, 86_400.0);
    let step = match *times {
        times if times < 0.0 => "always",
        0.0 => "never",
        _ => "start",
    };
    let lines = vec![format!("step = \"{step}\""), format!("step-above = \"{}\"", in_units(above))];
    found.system_clock.retain(|part| !part.lines.iter().any(|line| line.starts_with("step")));
    found.system_clock.push(Part { from: line.shown(), lines });
}

/// A length of time in the largest unit that has it in whole numbers, from seconds: rounded to us.
fn in_units(seconds: f64) -> String {
    let micros = (seconds * 1e6).round() as u64;
    let units = [(1_000_000, "s"), (1000, "ms"), (1, "us")];
    let (size, unit) =
        units.into_iter().find(|(size, _)| micros.is_multiple_of(*size)).unwrap_or(units[2]);
    format!("{}{unit}", micros / size)
}

fn access(line: &Line, found: &mut Found) {
    let words: Vec<&str> =
        line.rest().iter().map(String::as_str).filter(|word| *word != "all").collect();
    let everybody = ["0.0.0.0/0", "::/0"].map(str::to_owned);
    let prefixes = match words.as_slice() {
        [] => everybody.to_vec(),
        [one] => match prefix(one) {
            Some(prefix) => vec![prefix],
            None => {
                return found
                    .lose(line, "'truechimer serve' takes addresses and prefixes, no names");
            }
        },
        _ => return found.lose(line, "one address or prefix each"),
    };
    found.serve.extend(prefixes.iter().map(|prefix| format!("--{} {prefix}", line.name())));
}

/// A prefix as chrony writes it: 10, 10.1 or 10.1.2.3/24 too, and bits beyond its length.
fn prefix(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let length = length.map(str::parse::<u32>).transpose().ok()?;
    if let Ok(address) = address.parse::<std::net::Ipv6Addr>() {
        let length = length.unwrap_or(128).min(128);
        let kept = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        let address = std::net::Ipv6Addr::from_bits(address.to_bits() & kept);
        return Some(format!("{address}/{length}"));
    }
    let parts: Vec<u8> = address.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if parts.len() > 4 {
        return None;
    }
    let length = length.unwrap_or(8 * parts.len() as u32).min(32);
    let whole: Vec<u8> = parts.into_iter().chain([0; 4]).take(4).collect();
    let bits =
        u32::from_be_bytes(whole.try_into().ok()?) & u32::MAX.checked_shl(32 - length).unwrap_or(0);
    Some(format!("{}/{length}", std::net::Ipv4Addr::from_bits(bits)))
}

/// Part of servers without proof.
fn authentication(line: &Line, mode: Option<&str>, found: &mut Found) {
    let part = match mode.map(str::to_ascii_lowercase).as_deref() {
        Some("require") => "\"require\"",
        Some("prefer") => "\"require\"    # leave it out if no server has nts = true or a key",
        Some("mix") => "\"mix\"",
        Some("ignore") => "\"ignore\"",
        _ => return found.lose(line, "must be require, prefer, mix or ignore"),
    };
    found.top(line, format!("authentication = {part}"));
}
