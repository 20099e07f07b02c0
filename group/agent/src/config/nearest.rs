//! What a misspelt key was meant to be.

/// The known key that is most like `key`, if one is like enough: of the pairs of neighbouring
/// characters in both, more than half are in common (Dice's coefficient).
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let key = key.to_lowercase().replace('_', "-");
    let likeness = |other: &str| {
        let (ours, mut theirs) = (pairs(&key), pairs(other));
        let all = ours.len() + theirs.len();
        let common = ours.iter().filter(|pair| {
            let at = theirs.iter().position(|other| other == *pair);
            at.map(|at| theirs.swap_remove(at)).is_some()
        });
        2_000 * common.count() / all.max(1)
    };
    if key.len() > 64 {
        return None;
    }
    known.iter().map(|k| (likeness(k), *k)).filter(|(like, _)| *like > 500).max().map(|(_, k)| k)
}

/// Neighbouring characters, with the edges of the word.
fn pairs(word: &str) -> Vec<(char, char)> {
    let framed: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
    framed.iter().copied().zip(framed.iter().copied().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_near() {
        let known = ["name", "members", "steering-time", "steering-cap-ppm", "outside", "mode"];
        for (key, near) in [
            ("member", Some("members")),
            ("nam", Some("name")),
            ("Mode", Some("mode")),
            ("steering_time", Some("steering-time")),
            ("steering-cap", Some("steering-cap-ppm")),
            ("stratum", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, &known), near, "{key}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }
}
