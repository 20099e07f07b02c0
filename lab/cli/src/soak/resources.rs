//! Memory, open files and zombies of the bed's processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use truechimer_ntp::WAITING;

use crate::soak::ledger::Ledger;
use crate::soak::world::SERVERS;

/// Time between looks.
const EVERY: Duration = Duration::from_secs(2);
/// A life that is shorter than this says nothing about growth.
const LEAST_LIFE: f64 = 90.0;
/// The share of a life after which everything is warm.
const WARM: f64 = 0.25;
/// Memory may have grown by this share after that, and by [`SLACK_KIB`].
const MOST_GROWTH: f64 = 1.05;
/// Room for what is allocated once, late: a thread's first use of memory is 2 MiB of the allocator's.
const SLACK_KIB: u64 = 4096;
/// Open files may have grown by so many: the daemon has a socket for each request that waits for its
/// reply, some for each server, and none while it cannot send; and one connection that is being answered.
const SLACK_FILES: u64 = (SERVERS * WAITING) as u64 + 1;

const MEMORY: &str = "resources: memory does not grow";
const FILES: &str = "resources: open files do not grow";
const ZOMBIES: &str = "resources: no zombies";

/// One look at a process.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Look {
    /// Since it was seen first, s.
    at: f64,
    own_kib: u64,
    files: u64,
}

/// Watches until the run ends.
pub fn watch(ledger: &Ledger) {
    [MEMORY, FILES, ZOMBIES].iter().for_each(|check| ledger.checks(check));
    let mut lives: BTreeMap<(String, u32), (Instant, Vec<Look>)> = BTreeMap::new();
    let mut zombies: BTreeMap<u32, u32> = BTreeMap::new();
    let mut longest = 0.0_f64;
    while !ledger.ends() {
        std::thread::sleep(EVERY);
        let running = ledger.processes();
        for (name, pid) in &running {
            let life = lives.entry((name.clone(), *pid));
            let (began, looks) = life.or_insert_with(|| (Instant::now(), Vec::new()));
            if let Some((own_kib, files)) = usage(*pid) {
                looks.push(Look { at: began.elapsed().as_secs_f64(), own_kib, files });
            }
        }
        // Judged when it is over.
        let over = |(name, pid): &(String, u32)| running.get(name) != Some(pid);
        let ended: Vec<_> = lives.keys().filter(|key| over(key)).cloned().collect();
        for key in ended {
            if let Some((_, looks)) = lives.remove(&key) {
                longest = longest.max(judge(ledger, &key.0, &looks));
            }
        }
        find_zombies(ledger, &running, &mut zombies);
    }
    // What lives until the end counts most.
    for ((name, _), (_, looks)) in &lives {
        longest = longest.max(judge(ledger, name, looks));
    }
    ledger.largest("resources: longest life judged, s", longest as i64);
}

/// Memory of its own (not the program's text, nor what it shares with others), KiB, and open files.
fn usage(pid: u32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib = line.split_whitespace().next()?.parse().ok()?;
    Some((kib, std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64))
}

/// Says what has grown in a life, and how long a life it could judge.
fn judge(ledger: &Ledger, name: &str, looks: &[Look]) -> f64 {
    let Some(last) = looks.last().filter(|last| last.at >= LEAST_LIFE) else { return 0.0 };
    ledger.count("resources: lives judged");
    let least = |from: f64, to: f64, of: fn(&Look) -> u64| {
        let part = |look: &&Look| (from * last.at..=to * last.at).contains(&look.at);
        looks.iter().filter(part).map(of).min()
    };
    let grown = |of: fn(&Look) -> u64| Some((least(WARM, WARM + 0.2, of)?, least(0.8, 1.0, of)?));
    if let Some((before, after)) = grown(|look| look.own_kib) {
        ledger.largest("resources: largest growth of memory, KiB", after as i64 - before as i64);
        if after as f64 > before as f64 * MOST_GROWTH + SLACK_KIB as f64 {
            let text = format!("{name}: from {before} to {after} KiB in {:.0} s", last.at);
            ledger.found(MEMORY, text);
        }
    }
    if let Some((before, after)) = grown(|look| look.files)
        && after > before + SLACK_FILES
    {
        ledger.found(FILES, format!("{name}: from {before} to {after} in {:.0} s", last.at));
    }
    last.at
}

/// A child that has ended, and that one of the bed's processes has not waited for in two looks.
fn find_zombies(ledger: &Ledger, running: &BTreeMap<String, u32>, seen: &mut BTreeMap<u32, u32>) {
    let mut now = BTreeMap::new();
    for (name, parent) in running {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')) {
                let times = seen.get(&child).copied().unwrap_or(0) + 1;
                now.insert(child, times);
                if times == 3 {
                    ledger.violation(ZOMBIES, format!("{name} leaves process {child}"));
                }
            }
        }
    }
    *seen = now;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn broken(looks: &[Look]) -> Vec<&'static str> {
        let ledger = Ledger::new(Arc::new(AtomicBool::new(false)), false);
        judge(&ledger, "it", looks);
        ledger.summary().broken.into_keys().collect()
    }

    #[test]
    fn growth_is_told_from_warming_up() {
        let life = |kib: fn(u64) -> u64, files: fn(u64) -> u64| -> Vec<Look> {
            (0..=100)
                .map(|n| Look { at: n as f64 * 2.0, own_kib: kib(n), files: files(n) })
                .collect()
        };
        assert!(broken(&life(|n| 10_000 + 2_000 * n.min(20), |n| 10 + n % 7)).is_empty());
        assert_eq!(broken(&life(|n| 10_000 + 100 * n, |_| 10)), [MEMORY]);
        assert_eq!(broken(&life(|_| 10_000, |n| 10 + n / 2)), [FILES]);
        let mut short = life(|n| 10_000 + 5_000 * n, |n| n);
        short.truncate(40);
        assert!(broken(&short).is_empty(), "80 s say nothing");
    }

    #[test]
    fn usage_of_this_process_is_known() {
        let (kib, files) = usage(std::process::id()).unwrap();
        assert!(kib > 100 && files >= 3, "{kib} KiB, {files} files");
    }
}
