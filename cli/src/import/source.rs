//! Servers, pools and reference clocks of chrony's as sources of ours.

use super::files::Line;
use super::{Found, Left, Part};

/// Poll intervals of chrony are powers of 2 s with these exponents; ours go from 1 to 1024 s.
const POLLS: std::ops::RangeInclusive<i32> = 0..=10;
/// Exponents of chrony's own intervals, where a line names none: 64 s, and up to 1024 s.
const DEFAULT_POLLS: (i32, i32) = (6, 10);
/// Options that say how chrony weighs, filters or starts a source, without a counterpart or a need, and what does it
/// here. These have a value.
const NEEDLESS_VALUES: [(&[&str], &str); 5] = [
    (
        &["maxdelay", "maxdelayratio", "maxdelaydevratio", "maxdelayquant", "mindelay"],
        "late packets are weighed by what their path does, not thrown away",
    ),
    (
        &["polltarget", "minsamples", "maxsamples", "filter"],
        "how long samples are worth something is worked out",
    ),
    (&["asymmetry"], "the bound allows for any, unless you state it (asymmetry, asymmetry-error)"),
    (
        &["maxunreach"],
        "silent for accept-step-after a server has no vote; one of a pool is replaced before",
    ),
    (
        &["presend", "version", "minstratum", "extfield"],
        "requests are of version 4, and say nothing",
    ),
];

/// Options of that kind that stand alone.
const NEEDLESS: [(&str, &str); 4] = [
    ("auto_offline", "a request that cannot be sent is not held against a server"),
    ("burst", "one good reply is as much as the best of several"),
    ("copy", "the daemon hands on no stratum and no reference; `truechimer serve` has its own"),
    ("online", "each server is asked unless it is `offline`"),
];

/// Takes a `server`, `pool` or `peer`.
pub(super) fn server(line: &Line, found: &mut Found) {
    let Some((host, options)) = line.rest().split_first() else {
        return found.refuse(line, "names no server");
    };
    if line.name() == "peer" {
        return found.refuse(line, "symmetric mode is not there: name it as a server if it is one");
    }
    let mut keys = Vec::new();
    let mut is_pool = line.name() == "pool";
    let (mut port, mut nts_port) = (None, None);
    let (mut minpoll, mut maxpoll, mut burst) = (None, None, false);
    let mut options = options.iter().map(|word| word.to_ascii_lowercase());
    while let Some(option) = options.next() {
        let mut number = || options.next().and_then(|value| value.parse::<f64>().ok());
        match option.as_str() {
            "noselect" | "trust" | "prefer" | "require" => keys.push(format!("{option} = true")),
            "offline" => keys.push("offline = true".to_owned()),
            "ipv4" | "ipv6" => keys.push(format!("family = \"{option}\"")),
            "xleave" => keys.push("interleaved = true".to_owned()),
            "nts" => keys.push("nts = true".to_owned()),
            "certset" => {
                if number() != Some(0.0) {
                    found.lose(
                        line,
                        "certset: all servers go by [nts] ca, or else by the system's authorities",
                    );
                }
            }
            "ntsport" => nts_port = number().map(|port| port as u32),
            "key" => match options.next().map(|value| value.parse::<u32>()) {
                Some(Ok(number @ 1..)) => keys.push(format!("key = {number}")),
                // Without its proof it would be believed whoever answers.
                _ => return found.refuse(line, "key: must be the number of a key"),
            },
            "port" => {
                port =
                    number().filter(|port| (1.0..=65535.0).contains(port)).map(|port| port as u32);
                if port.is_none() {
                    return found.refuse(line, "port: must be 1 to 65535");
                }
            }
            "maxsources" => {
                let most = number().map(|most| most.clamp(1.0, 16.0) as u32);
                keys.extend(most.filter(|_| is_pool).map(|most| format!("max-sources = {most}")));
            }
            "minpoll" | "maxpoll" => {
                let exponent = number().filter(|poll| poll.fract() == 0.0).map(|poll| poll as i32);
                if exponent.is_none() {
                    found
                        .lose(line, format!("{option}: must be a power of 2 s, as a whole number"));
                }
                *(if option == "minpoll" { &mut minpoll } else { &mut maxpoll }) = exponent;
            }
            "offset" if is_pool => {
                let _ = number();
                found.lose(line, "offset: each server of a pool has a path of its own");
            }
            "offset" => asymmetry(number(), line, &mut keys, found),
            "iburst" => burst = true,
            name => {
                let with_value = NEEDLESS_VALUES.iter().find(|(names, _)| names.contains(&name));
                let _ = with_value.and_then(|_| number());
                let alone = NEEDLESS.iter().find(|(alone, _)| *alone == name).map(|(_, why)| why);
                match with_value.map(|(_, why)| why).or(alone) {
                    Some(why) => {
                        let why = format!("{name}: {why}");
                        found.needless.push(Left { from: line.shown(), why });
                    }
                    None => {
                        let name = super::printable(name);
                        found.lose(line, format!("no option is known here by the name {name}"));
                    }
                }
            }
        }
    }
    // Of a server that proves itself the key exchange says where it is.
    if keys.iter().any(|key| key.starts_with("nts")) {
        port = nts_port;
    }
    if !burst {
        keys.push("burst = false".to_owned());
    }
    let ours = |poll: i32| 1_u32 << poll.clamp(*POLLS.start(), *POLLS.end());
    // A longest interval below the shortest is as long as that, as with chronyd.
    let shortest = minpoll.unwrap_or(DEFAULT_POLLS.0);
    let longest = maxpoll.unwrap_or(DEFAULT_POLLS.1).max(shortest);
    let mut differs = Vec::new();
    for (option, given, exponent) in [("minpoll", minpoll, shortest), ("maxpoll", maxpoll, longest)]
    {
        if let Some(given) = given.filter(|_| !POLLS.contains(&exponent)) {
            let seconds = ours(exponent);
            let below = if given < exponent { ", below minpoll" } else { "" };
            differs
                .push(format!("{option} {given}{below}: {seconds} s is written, of 1 to 1024 s"));
        }
    }
    keys.push(format!("poll = {}", ours(shortest)));
    if ours(longest) > ours(shortest) {
        keys.push(format!("max-poll = {}", ours(longest)));
    }
    let single = ["nts = true", "max-sources = 1"].map(str::to_owned);
    if is_pool && single.iter().all(|key| keys.contains(key)) {
        // One server at a time, with a certificate for that name: as `host` has it.
        is_pool = false;
        keys.retain(|key| *key != single[1]);
        differs.push(
            "a pool of one server with a certificate for the pool's name: written as host, whose name is \
             looked up again once its server is silent"
                .to_owned(),
        );
    }
    match one(line, if is_pool { "pool" } else { "host" }, (host, port), &keys, found) {
        Ok(()) => differs.into_iter().for_each(|why| found.differ(line, why)),
        Err(why) => found.refuse(line, why),
    }
}

/// Says what is wrong with a part of a configuration, without the place of it.
fn wrong(text: &str) -> Option<String> {
    let error = truechimer_daemon::config::parse(text, "it").err()?;
    let problems = error.problems().iter().map(|problem| problem.text());
    Some(super::printable(&problems.collect::<Vec<_>>().join("; ")))
}

/// Half of the path's asymmetry with the sign turned round is what chrony calls an offset.
fn asymmetry(seconds: Option<f64>, line: &Line, keys: &mut Vec<String>, found: &mut Found) {
    let Some(ns) = seconds.filter(|s| s.abs() < 0.25).map(|s| (-2e9 * s).round() as i64) else {
        return found.lose(line, "offset: an asymmetry of up to 500ms can be stated");
    };
    if ns != 0 {
        keys.push(format!("asymmetry = \"{ns}ns\""));
        let error = (ns.abs() / 2).max(1_000);
        keys.push(format!("asymmetry-error = \"{error}ns\"    # a guess: how well do you know it? The bound rests on it"));
    }
}

/// Adds a server or pool.
///
/// # Errors
/// Reason why it cannot be followed.
fn one(
    line: &Line,
    own: &str,
    (host, port): (&str, Option<u32>),
    keys: &[String],
    found: &mut Found,
) -> Result<(), String> {
    let address = match port {
        None => host.to_owned(),
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
    };
    let source = format!("[[source]]\n{own} = {}", quoted(&address));
    // Beside another: a single one may not be `noselect`.
    let by_key = keys.iter().any(|key| key.starts_with("key"));
    let file = if by_key { "key-file = \"/k\"\n" } else { "" };
    let keys_of = keys.join("\n");
    let alone = format!("{file}{source}\n{keys_of}\n[[source]]\nhost = \"other.invalid\"");
    if found.hosts.contains(&address) {
        return Err("is there already, and counts once".to_owned());
    }
    if let Some(why) = wrong(&alone) {
        return Err(why);
    }
    found.by_key |= by_key;
    found.hosts.push(address);
    let mut lines = vec![source];
    lines.extend_from_slice(keys);
    found.sources.push(Part { from: line.shown(), lines });
    Ok(())
}

/// Fate of an option without a counterpart: nothing is lost without it, something is, or the whole clock would be
/// taken for what it is not.
#[derive(Clone, Copy)]
enum Known {
    Needless,
    Lost,
    Unusable,
}

/// Options of a reference clock that have no value.
const ALONE: [&str; 7] = ["noselect", "prefer", "trust", "require", "tai", "local", "pps"];
/// Options of a reference clock that have no counterpart, and why.
const REFCLOCK_OPTIONS: [(&[&str], Known, &str); 10] = [
    (
        &["local"],
        Known::Unusable,
        "this clock is not to be taken for time, and there is no source of the rate alone",
    ),
    (
        &["pps"],
        Known::Unusable,
        "its seconds are not to be believed; name the pulse itself: refclock PPS",
    ),
    (
        &["lock"],
        Known::Lost,
        "a pulse is numbered by what all other sources say together, not by one of them",
    ),
    (
        &["width"],
        Known::Lost,
        "a wrong edge is not told by the length of the pulse: name the device of the right one",
    ),
    (&["dpoll"], Known::Needless, "a device is read as often as it takes"),
    (
        &["filter", "minsamples", "maxsamples", "maxdispersion"],
        Known::Needless,
        "how long samples are worth something is worked out",
    ),
    (&["rate"], Known::Unusable, "pulses more often than once a second are not numbered"),
    (&["maxlockage"], Known::Needless, "an edge is numbered by the time that is known then"),
    (&["stratum"], Known::Lost, "a reference clock has stratum 0"),
    (&["precision"], Known::Needless, "the noise of its samples is learnt"),
];

/// Offset of a card that shows TAI, s: UTC less TAI since 2017.
const TAI_OFFSET: f64 = -37.0;

/// Takes a `refclock`.
pub(super) fn refclock(line: &Line, found: &mut Found) {
    let [driver, device, options @ ..] = line.rest() else {
        return found.refuse(line, "names no device");
    };
    let kind = driver.to_ascii_uppercase();
    let key = match kind.as_str() {
        "PPS" => "pps",
        "PHC" => "phc",
        "SHM" => "shm",
        "SOCK" => "sock",
        _ => {
            let driver = super::printable(driver);
            return found
                .refuse(line, format!("reference clocks of the kind {driver} are not there"));
        }
    };
    let (path, options_of_device) = device.split_once(':').unwrap_or((device, ""));
    let of_device: Vec<&str> = options_of_device.split(':').filter(|o| !o.is_empty()).collect();
    // The pulses at an input of the card, not the card's own time.
    let is_input = key == "phc" && of_device.contains(&"extpps");
    let key = if is_input { "pps" } else { key };
    let is_pulse = key == "pps";
    if is_pulse && of_device.contains(&"clear") {
        return found.refuse(
            line,
            "the clear edge is not there: name the other edge's file, or turn the pulse round",
        );
    }
    let unknown = of_device.iter().find(|option| {
        let is_place = option.starts_with("pin=") || option.starts_with("channel=");
        !(["extpps", "nocrossts"].contains(*option) || is_input && is_place)
    });
    if let Some(unknown) = unknown.filter(|_| kind == "PHC") {
        let unknown = super::printable(unknown);
        return found.refuse(line, format!("{unknown}: no option of a card is known by this name"));
    }
    let place = if key == "shm" { path.to_owned() } else { quoted(path) };
    let mut lines = vec![format!("[[source]]\n{key} = {place}")];
    if is_input {
        // Unless it is said, chronyd takes the first of each.
        for name in ["pin", "channel"] {
            let given = of_device.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('='));
            match given.unwrap_or("0").parse::<u32>() {
                Ok(n) => lines.push(format!("{name} = {n}")),
                Err(_) => return found.refuse(line, format!("{name}: must be a whole number")),
            }
        }
    }
    let mut error = None;
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        let takes_value = !ALONE.contains(&word.as_str());
        // The next word may be an option, where this one is none.
        let value =
            if takes_value { words.next_if(|next| !ALONE.contains(&next.as_str())) } else { None };
        if takes_value && value.is_none() {
            let word = super::printable(word);
            found.lose(line, format!("{word}: no option that stands alone has this name"));
            continue;
        }
        match (word.as_str(), value) {
            ("offset", Some(value)) => match value.parse::<f64>() {
                Ok(seconds) if seconds.abs() < 0.5 => {
                    let ns = (seconds * 1e9).round() as i64;
                    lines.push(format!("offset = \"{ns}ns\""));
                }
                Ok(seconds) if key == "phc" && seconds == TAI_OFFSET => {
                    lines.push("scale = \"tai\"".to_owned());
                    found.differ(
                        line,
                        "offset -37: the card shows TAI: scale = \"tai\" is written, which goes along \
                         with leap seconds",
                    );
                }
                _ if key == "phc" => {
                    return found.refuse(
                        line,
                        "offset: must be less than 0.5 s; of a card that shows TAI (-37) write \
                         scale = \"tai\" in its place",
                    );
                }
                _ => return found.refuse(line, "offset: must be less than 0.5 s"),
            },
            // The default.
            ("rate", Some(value)) if value.parse() == Ok(1.0) => {}
            ("refid", Some(name)) => lines.push(format!("name = {}", quoted(name))),
            ("noselect", _) => {
                return found.refuse(line, "noselect: a reference clock is believed or left out");
            }
            ("tai", _) if !is_pulse => lines.push("scale = \"tai\"".to_owned()),
            ("trust", _) if !is_pulse => lines.push("trust = true".to_owned()),
            ("prefer" | "require", _) => lines.push(format!("{word} = true")),
            ("poll" | "delay", Some(_)) if is_pulse => {
                let why =
                    format!("{word}: every edge is taken, with the error that latency states");
                found.needless.push(Left { from: line.shown(), why });
            }
            ("poll", Some(value)) => match value.parse::<u32>() {
                // Seconds to the power of 2; chrony's default is 16 s, of samples that it takes often.
                Ok(power @ 0..=6) => lines.push(format!("poll = {}", 1u32 << power)),
                _ => found.lose(line, "poll: must be 0 to 6, which is 1 to 64 s"),
            },
            ("tai" | "trust", _) => {
                found.lose(line, format!("{word}: a pulse has its seconds from the other sources"));
            }
            ("delay", Some(value)) => {
                // Half of it is what chrony takes its error to be at the least.
                let half = value.parse::<f64>().map(|delay| (delay * 0.5e9).ceil());
                error = half.ok().filter(|ns| (1.0..=1e9).contains(ns));
                if error.is_none() {
                    found.lose(line, "delay: must be above 0 and at most 2 s");
                }
            }
            (word, _) => {
                let (known, why) =
                    REFCLOCK_OPTIONS.iter().find(|(names, ..)| names.contains(&word)).map_or(
                        (Known::Lost, "no option is known here by this name"),
                        |(_, known, why)| (*known, *why),
                    );
                let why = format!("{}: {why}", super::printable(word));
                match known {
                    Known::Unusable => return found.refuse(line, why),
                    Known::Lost => found.lose(line, why),
                    Known::Needless => found.needless.push(Left { from: line.shown(), why }),
                }
            }
        }
    }
    match (is_pulse, error) {
        (true, _) => lines.push(
            "# latency = \"10us\"    # the most by which the kernel's stamp of an edge may be late"
                .to_owned(),
        ),
        (false, Some(ns)) => lines.push(format!("error = \"{ns}ns\"")),
        (false, None) if key == "phc" => {
            lines.push("# error = \"1us\"    # the most by which it may be off: set it".to_owned());
        }
        // Nobody knows it but the user: to begin with, what sentences on a serial line need.
        (false, None) => {
            lines.push("error = \"500ms\"    # the most by which it may be off: set it".to_owned());
        }
    }
    let is_trusted = lines.iter().any(|line| line.starts_with("trust"));
    if key == "phc" && is_trusted && !lines.iter().any(|line| line.starts_with("scale")) {
        lines.push("scale = \"utc\"".to_owned());
    }
    if let Some(why) = wrong(&(lines.join("\n") + "\n[[source]]\nhost = \"a\"")) {
        return found.refuse(line, why);
    }
    if found.hosts.iter().any(|other| other == path) {
        return found.refuse(line, "is there already, and counts once");
    }
    found.hosts.push(path.to_owned());
    found.sources.push(Part { from: line.shown(), lines });
}

/// The text as a string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
