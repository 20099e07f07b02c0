//! Configurations in words: which sources one has, and in what two differ, by the names and units of the file.

use std::collections::BTreeMap;

use serde::Serialize;
use truechimer_engine::{
    Asymmetry, Authentication, Config, PtpConfig, RefClockConfig, RefClockKind, SourceConfig,
};
use truechimer_time::Rate;

/// Values by the names of their keys. A key that is left out is not set.
type Keys = BTreeMap<&'static str, String>;

/// Configuration in words: its sources.
pub(crate) fn configured(config: &Config) -> String {
    let names: Vec<String> = sources(config).into_iter().map(|(name, _)| name).collect();
    match names.is_empty() {
        true => "no sources".into(),
        false => format!("sources {}", names.join(", ")),
    }
}

/// Difference of two configurations in words, key by key.
pub(crate) fn difference(old: &Config, new: &Config) -> String {
    let mut changes = changed("", &general(old), &general(new));
    let (old, new) = (sources(old), sources(new));
    let find = |all: &[(String, Keys)], name: &str| {
        all.iter().find(|(other, _)| other == name).map(|(_, keys)| keys.clone())
    };
    for (name, keys) in &new {
        match find(&old, name) {
            Some(before) => changes.extend(changed(&format!("{name} "), &before, keys)),
            None => changes.push(format!("{name} added")),
        }
    }
    let gone = old.iter().filter(|(name, _)| find(&new, name).is_none());
    changes.extend(gone.map(|(name, _)| format!("{name} removed")));
    if changes.is_empty() { "nothing that counts here changed".into() } else { changes.join("; ") }
}

/// Words on each key whose value is another.
fn changed(of: &str, old: &Keys, new: &Keys) -> Vec<String> {
    let value = |keys: &Keys, key| keys.get(key).cloned().unwrap_or_else(|| "not set".into());
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let keys = new.keys().chain(gone).map(|key| (key, value(old, *key), value(new, *key)));
    let changes = keys.filter(|(_, old, new)| old != new);
    changes.map(|(key, old, new)| format!("{of}{key}: {old} → {new}")).collect()
}

/// Keys that are of no source.
fn general(config: &Config) -> Keys {
    let Config {
        sources: _,
        refclocks: _,
        max_wander,
        accept_step_after,
        max_step,
        min_sources,
        authentication,
        likely_doubt,
        discipline,
        step,
        step_above,
    } = config;
    let confidence = 1_000_000_000_000 - likely_doubt.as_ppt();
    let mut keys = Keys::from([
        ("max-wander-ppm", ppm(*max_wander)),
        ("accept-step-after", accept_step_after.to_string()),
        ("authentication", word(authentication)),
        ("likely-confidence", trimmed(&format!("0.{confidence:012}"))),
        ("[system-clock] discipline", discipline.to_string()),
        ("[system-clock] step", word(step)),
        ("[system-clock] step-above", step_above.to_string()),
    ]);
    keys.insert("max-step", max_step.map_or_else(|| "none".into(), |span| span.to_string()));
    keys.extend(min_sources.map(|number| ("min-sources", number.to_string())));
    keys
}

/// Sources in the order of the configuration: the name of each, and its keys.
fn sources(config: &Config) -> Vec<(String, Keys)> {
    let servers = config.sources.iter().map(|source| (source.name(), server(source)));
    let refclocks = config.refclocks.iter().map(|clock| (clock.name.clone(), refclock(clock)));
    servers.chain(refclocks).collect()
}

fn server(source: &SourceConfig) -> Keys {
    let SourceConfig {
        host: _,
        port: _,
        poll,
        max_poll,
        family,
        interface,
        burst,
        interleaved,
        asymmetry,
        learn_asymmetry,
        authentication,
        no_select,
        trust,
        prefer,
        require,
        ptp,
        pool,
        offline,
        origin,
    } = source;
    let mut keys = Keys::from([
        ("poll", poll.to_string()),
        ("burst", burst.to_string()),
        ("interleaved", interleaved.to_string()),
        ("nts", matches!(authentication, Authentication::Nts).to_string()),
        ("noselect", no_select.to_string()),
        ("trust", trust.to_string()),
        ("prefer", prefer.to_string()),
        ("require", require.to_string()),
        ("offline", offline.to_string()),
        ("origin", origin.name().into()),
    ]);
    keys.extend(max_poll.map(|seconds| ("max-poll", seconds.to_string())));
    keys.extend(family.map(|family| ("family", word(&family))));
    keys.extend(interface.clone().map(|interface| ("interface", interface)));
    keys.extend(learn_asymmetry.then(|| ("asymmetry", "learn".into())));
    if let Some(Asymmetry { by, error }) = asymmetry {
        keys.extend([("asymmetry", by.to_string()), ("asymmetry-error", error.to_string())]);
    }
    keys.extend(authentication.key().map(|number| ("key", number.to_string())));
    keys.extend(pool.map(|number| ("max-sources", number.to_string())));
    keys.extend(ptp.as_ref().map(port).unwrap_or_default());
    keys
}

fn port(ptp: &PtpConfig) -> Keys {
    let PtpConfig { domain, profile, timescale, transport, delay, masters, error } = ptp;
    let masters: Vec<String> = masters.iter().map(ToString::to_string).collect();
    let mut keys = Keys::from([
        ("domain", domain.to_string()),
        ("profile", word(profile)),
        ("timescale", word(timescale)),
        ("transport", word(transport)),
        ("delay", word(delay)),
        ("masters", format!("[{}]", masters.join(", "))),
    ]);
    keys.extend(error.map(|error| ("error", error.to_string())));
    keys
}

fn refclock(clock: &RefClockConfig) -> Keys {
    let RefClockConfig {
        kind,
        path,
        name: _,
        error,
        pulse_error,
        offset,
        poll,
        scale,
        trust,
        prefer,
        require,
    } = clock;
    let is_pulse = *kind == RefClockKind::Pulse;
    let mut keys = Keys::from([
        (if is_pulse { "pps" } else { kind.name() }, path.clone()),
        ("offset", offset.to_string()),
        ("poll", poll.to_string()),
        ("scale", word(scale)),
        ("trust", trust.to_string()),
        ("prefer", prefer.to_string()),
        ("require", require.to_string()),
        ("error", if is_pulse { pulse_error } else { error }.to_string()),
    ]);
    keys.extend(is_pulse.then(|| ("latency", error.to_string())));
    keys
}

/// Word of the configuration for a choice.
pub(super) fn word(choice: &impl Serialize) -> String {
    serde_json::to_string(choice).unwrap_or_default().trim_matches('"').into()
}

fn ppm(rate: Rate) -> String {
    let ppt = rate.as_ppt();
    trimmed(&format!("{}.{:06}", ppt / 1_000_000, (ppt % 1_000_000).abs()))
}

/// Decimal number without zeros at its end.
fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').into()
}
