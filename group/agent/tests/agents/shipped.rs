//! Configuration files that the project ships must be right.

use truechimer_group::Member;
use truechimer_group_agent::config::{Membership, Place, UtcSource, parse};

#[test]
fn the_documented_file_is_right_and_complete() {
    let name = "docs/reference/truechimer-group.toml";
    let text = include_str!("../../../../docs/reference/truechimer-group.toml");
    let settings = parse(text, name).expect("as it stands");
    assert_eq!(settings.groups, [Membership::new("ledger")]);
    // Every key in a comment is a key, with a value that is allowed, and its default.
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with("[[") => format!("{rest}\n"),
            Some(rest) if rest.starts_with(char::is_lowercase) && rest.contains(" = ") => {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let full = parse(&uncommented, name).expect("with its defaults spelt out");
    let mut ledger = Membership::new("ledger");
    ledger.group.universe = (1..=3).map(Member).collect();
    assert_eq!(full.groups, [ledger, Membership::new("demo").local(3)]);
    assert_eq!(full.utc, Some(UtcSource::Page(Some("/run/truechimer/clock".into()))));
    assert_eq!(full.state, Place::At("/var/lib/truechimer/group".into()));
    assert_eq!(full.metrics, Some("127.0.0.1:9926".parse().expect("an address")));
    assert_eq!((full.directory, full.real_time), (Some("/run/truechimer/group".into()), Some(10)));
}
