//! A campaign's files, and the verdict over them: records of each life, and a log of what was done.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use truechimer_outcome::outcome::Failure;

use super::record::Reader;
use super::verify::{LifeId, Verdict, Verifier, Window};

/// The log's name: a JSON object on each line.
pub const LOG: &str = "log.json";

/// The name of a life's records.
#[must_use]
pub fn name(node: u32, life: u32) -> String {
    format!("node{node}-life{life:05}.records")
}

/// Which life a file is of; none if it is no such file.
fn parse(name: &str) -> Option<(u32, u32)> {
    let (node, life) = name.strip_prefix("node")?.strip_suffix(".records")?.split_once("-life")?;
    Some((node.parse().ok()?, life.parse().ok()?))
}

/// The verdict over the files of one ring's campaign.
///
/// # Errors
/// Where a file cannot be read or is none of a campaign.
pub fn verify(dir: &Path) -> Result<Verdict, Failure> {
    let failed = |error: std::io::Error| Failure::of(dir.display(), error);
    let mut verifier = Verifier::default();
    let mut lives: BTreeMap<(u32, u32), LifeId> = BTreeMap::new();
    let mut names: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().to_str().and_then(parse));
    }
    names.sort_unstable();
    for (node, life) in names {
        let path = dir.join(name(node, life));
        let failed = |error: &dyn std::fmt::Display| Failure::of(path.display(), error);
        let file = File::open(&path).map_err(|error| failed(&error))?;
        let id = verifier.life(node, life);
        lives.insert((node, life), id);
        let mut reader = Reader::new(file);
        reader.read(|record| verifier.record(id, &record)).map_err(|broken| failed(&broken))?;
    }
    let log = dir.join(LOG);
    let file = File::open(&log).map_err(|error| Failure::of(log.display(), error))?;
    for (n, line) in BufReader::new(file).lines().enumerate() {
        let place = || format!("{} line {}", log.display(), n + 1);
        let line = line.map_err(|error| Failure::of(place(), error))?;
        let entry: Value =
            serde_json::from_str(&line).map_err(|error| Failure::of(place(), error))?;
        let number = |name: &str| entry.get(name).and_then(Value::as_i64);
        let small = |name: &str| number(name).and_then(|n| u32::try_from(n).ok());
        if let (Some(from), Some(to)) = (number("from"), number("to")) {
            verifier.allow(Window { from, to, node: small("node") });
        } else if let (Some(node), Some(life), Some(at)) =
            (small("ended"), small("life"), number("at"))
        {
            // A program that could not even attach left no records.
            if let Some(id) = lives.get(&(node, life)) {
                verifier.ended(*id, at);
            }
        } else {
            return Err(Failure::of(place(), "neither a window nor an end"));
        }
    }
    Ok(verifier.finish())
}

#[cfg(test)]
mod tests {
    use truechimer_group::{Agreed, GroupTime, Member, Point};

    use super::*;
    use crate::bench::group::failover::record::{Record, What};
    use crate::bench::group::failover::verify::Kind;

    #[test]
    fn files_come_to_the_same_verdict() {
        let dir = std::env::temp_dir().join(format!("truechimer-kept-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let record = |index: u64, time: i64| {
            let value = Agreed {
                time: GroupTime(time),
                utc: None,
                synchronizer: Member(1),
                point: Point { generation: 1, index },
            };
            let what = What::Value { thread: 16, round: index, value };
            Record { began: 10, done: 20, what }.encode()
        };
        let write = |life: u32, records: &[[u8; 96]]| {
            std::fs::write(dir.join(name(1, life)), records.concat()).unwrap();
        };
        write(0, &[record(1, 100), record(2, 200)]);
        write(1, &[record(3, 300)]);
        let log = "{\"from\":5,\"to\":30,\"node\":1,\"step\":\"x\"}\n{\"ended\":1,\"life\":0,\"at\":25}\n";
        std::fs::write(dir.join(LOG), log).unwrap();
        let verdict = verify(&dir).unwrap();
        assert_eq!(verdict.violations, []);
        assert_eq!((verdict.tally.rounds, verdict.tally.lives), (3, 2));
        write(1, &[record(3, 200)]);
        let kinds: Vec<Kind> = verify(&dir).unwrap().violations.iter().map(|v| v.kind).collect();
        assert_eq!(kinds, [Kind::RollBack, Kind::RollBack]);
        std::fs::write(dir.join(LOG), "{\"from\":5}\n").unwrap();
        assert!(verify(&dir).unwrap_err().0.contains("line 1"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(parse(&name(3, 70_000)), Some((3, 70_000)));
        assert_eq!(parse("node3.records"), None);
    }
}
