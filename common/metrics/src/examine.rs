//! Readers of the text and of what is written about it, for the tests of whoever has families: a
//! released name is a contract.

use std::collections::{BTreeMap, BTreeSet};

use crate::family::PREFIX;

/// A text of metrics as a reader of OpenMetrics takes it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Told {
    /// Samples by name and labels.
    pub samples: BTreeMap<String, f64>,
    /// Names of the families, each with its suffix.
    pub families: BTreeSet<String>,
}

/// Reads a text of OpenMetrics.
///
/// # Panics
/// If it is none: a sample outside its family, a name that lacks its unit, something twice.
#[must_use]
pub fn read(text: &str) -> Told {
    let mut told = Told::default();
    let (mut name, mut suffixes): (String, &[&str]) = (String::new(), &[]);
    assert!(text.ends_with("\n# EOF\n"), "no end:\n{text}");
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match *words.as_slice() {
            ["#", "TYPE", family, kind] => {
                suffixes = suffixes_of(kind);
                family.clone_into(&mut name);
                let shown = if kind == "histogram" { "" } else { suffixes.first().unwrap_or(&"") };
                let new = told.families.insert(format!("{family}{shown}"));
                assert!(new, "twice: {family}");
            }
            ["#", "UNIT", family, unit] => assert!(family.ends_with(&format!("_{unit}")), "{line}"),
            ["#", ..] => {}
            _ => {
                let (sample, value) = line.rsplit_once(' ').unwrap_or((line, ""));
                let bare = sample.split('{').next().unwrap_or_default();
                let suffix = bare.strip_prefix(&name);
                assert!(suffix.is_some_and(|suffix| suffixes.contains(&suffix)), "{line}");
                let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
                let new = told.samples.insert(sample.to_owned(), value).is_none();
                assert!(new, "twice: {sample}");
            }
        }
    }
    told
}

fn suffixes_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "info" => &["_info"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count"],
        _ => panic!("no kind of ours: {kind}"),
    }
}

/// The names of metrics that rows of a table in Markdown begin with.
#[must_use]
pub fn documented(markdown: &str) -> BTreeSet<String> {
    let rows = markdown.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names.filter(|name| name.starts_with(PREFIX)).map(str::to_owned).collect()
}

/// The names of families that rules or a dashboard ask for.
#[must_use]
pub fn asked_for(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let prefix = format!("{PREFIX}_");
    let names = words.filter(|word| word.starts_with(&prefix));
    let family = |name: &str| {
        // Histograms are asked for by their parts; nothing else of ours ends so.
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
    };
    names.map(family).collect()
}

/// Holds the families of a program to what is written of those that are its own.
///
/// # Panics
/// If the reference lacks one or has another, or if one of `users`, rules or a dashboard, asks for
/// one that there is not, or for none at all.
pub fn hold_to(
    families: &BTreeSet<String>,
    is_own: impl Fn(&str) -> bool,
    reference: &str,
    users: &[&str],
) {
    let own = |mut names: BTreeSet<String>| {
        names.retain(|name| is_own(name));
        names
    };
    assert_eq!(&own(documented(reference)), families, "the reference, and what there is");
    for user in users {
        let asked_for = own(asked_for(user));
        let unknown: Vec<_> = asked_for.difference(families).collect();
        assert!(unknown.is_empty(), "asked for, and not there: {unknown:?}");
        assert!(!asked_for.is_empty(), "nothing is asked for in {user:.100}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_stand() {
        let rows = "| name |\n| `truechimer_a_seconds` | s |\n| `other` |\n`truechimer_b` | c |\n";
        assert_eq!(documented(rows), BTreeSet::from(["truechimer_a_seconds".to_owned()]));
        let rule = "rate(truechimer_a_seconds_bucket{x=\"truechimer\"}[1h]) > truechimer:b:max";
        assert_eq!(asked_for(rule), BTreeSet::from(["truechimer_a_seconds".to_owned()]));
    }

    #[test]
    #[should_panic(expected = "truechimer_b 1")]
    fn a_sample_outside_its_family_is_noticed() {
        let _ = read("# TYPE truechimer_a gauge\ntruechimer_b 1\n# EOF\n");
    }
}
