//! What a misspelt name was meant to be.

/// The known name that `name` was most likely meant to be, if any is near.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase().replace('_', "-");
    let begins = |k: &str| name.len() > 2 && k.starts_with(name.as_str());
    known
        .iter()
        .map(|k| (if begins(k) { 1 } else { edits(&name, k) }, *k))
        .filter(|(d, k)| *d <= 1 + k.len() / 4)
        .min()
        .map(|(_, k)| k)
}

/// How many letters to insert, delete or replace to get from `a` to `b`.
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
        for (a, b, n) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("lan", "wan", 1)]
        {
            assert_eq!(edits(a, b), n, "{a} {b}");
            assert_eq!(edits(b, a), n, "{b} {a}");
        }
    }

    #[test]
    fn only_the_near_is_offered() {
        let known = ["lan", "wan", "leap-second", "server-step-1ms"];
        assert_eq!(nearest("lam", &known), Some("lan"));
        assert_eq!(nearest("leap", &known), Some("leap-second"));
        assert_eq!(nearest("Server_Step_1ms", &known), Some("server-step-1ms"));
        assert_eq!(nearest("nothing-like-it", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }
}
