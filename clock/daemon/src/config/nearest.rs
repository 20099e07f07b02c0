//! What a misspelt key was meant to be.

/// The known key that `key` was most likely meant to be, if any is near.
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let key = key.to_lowercase().replace('_', "-");
    known
        .iter()
        .map(|k| (distance(&key, k), *k))
        .filter(|(d, k)| *d <= 1 + k.len() / 3)
        .min()
        .map(|(_, k)| k)
}

/// How many characters to insert, delete or replace to get from `a` to `b`. `a` is taken to be
/// hopeless if it is very long.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = row.get(j).map_or(0, |d| d + usize::from(x != *y));
            let deleted = row.get(j + 1).map_or(0, |d| d + 1);
            let inserted = next.get(j).map_or(0, |d| d + 1);
            next.push(replaced.min(deleted).min(inserted));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_near() {
        let known = ["host", "poll", "burst", "replay-log", "max-wander-ppm"];
        for (key, near) in [
            ("pol", Some("poll")),
            ("hots", Some("host")),
            ("Burst", Some("burst")),
            ("replay_log", Some("replay-log")),
            ("max-wander", Some("max-wander-ppm")),
            ("stratum", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, &known), near, "{key}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }

    #[test]
    fn distances_count_edits() {
        for (a, b, edits) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ä", "a", 1)]
        {
            assert_eq!(distance(a, b), edits);
        }
    }
}
