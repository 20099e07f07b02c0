//! Search for the name that a misspelt one was meant to be.

/// The known name that `name` was most likely meant to be, if any is near: at most one letter and a
/// third of its own different, or `name` as its beginning. Capitals are as good as small letters
/// and `_` as good as `-`.
pub fn nearest<'k, K: AsRef<str>>(name: &str, known: &'k [K]) -> Option<&'k str> {
    // Of very long nonsense not even the distance is asked for.
    if name.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let name = plain(name);
    let distance = |other: &str| {
        let begins = name.len() > 2 && other.starts_with(&name);
        if begins { 1 } else { edits(&name, other) }
    };
    known
        .iter()
        .map(|k| (distance(&plain(k.as_ref())), k.as_ref()))
        .filter(|(d, k)| *d <= 1 + k.len() / 3)
        .min()
        .map(|(_, k)| k)
}

/// Number of letters to insert, delete or replace to get from `a` to `b`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let (mut left, mut above_left) = (i + 1, i);
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let here = (above_left + usize::from(x != y)).min(left + 1).min(*cell + 1);
            above_left = *cell;
            *cell = here;
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("lan", "wan", 1),
            ("ä", "a", 1),
        ] {
            assert_eq!(edits(a, b), n, "{a} {b}");
            assert_eq!(edits(b, a), n, "{b} {a}");
        }
    }

    #[test]
    fn only_the_near_is_offered() {
        let keys = ["host", "poll", "burst", "replay-log", "max-wander-ppm"];
        let of_groups = ["name", "members", "steering-time", "steering-cap-ppm", "outside", "mode"];
        let scenarios = ["lan", "wan", "leap-second", "server-step-1ms"];
        let sources = ["tsc", "hpet", "acpi_pm", "kvm-clock"];
        for (known, name, near) in [
            (&keys[..], "pol", Some("poll")),
            (&keys, "hots", Some("host")),
            (&keys, "Burst", Some("burst")),
            (&keys, "replay_log", Some("replay-log")),
            (&keys, "max-wander", Some("max-wander-ppm")),
            (&keys, "stratum", None),
            (&of_groups, "member", Some("members")),
            (&of_groups, "nam", Some("name")),
            (&of_groups, "steering-cap", Some("steering-cap-ppm")),
            (&of_groups, "stratum", None),
            (&scenarios, "lam", Some("lan")),
            (&scenarios, "leap", Some("leap-second")),
            (&scenarios, "Server_Step_1ms", Some("server-step-1ms")),
            (&scenarios, "nothing-like-it", None),
            (&sources, "tcs", Some("tsc")),
            (&sources, "htep", Some("hpet")),
            (&sources, "acpi-pm", Some("acpi_pm")),
            (&sources, "acpipm", Some("acpi_pm")),
            (&sources, "kvmclock", Some("kvm-clock")),
            (&sources, "jiffies", None),
            (&sources, "xenon-clock", None),
            (&sources, "", None),
            (&[], "tsc", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), &keys), None);
    }
}
