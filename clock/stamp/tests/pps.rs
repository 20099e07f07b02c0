//! Edges from a plain file, as sysfs shows them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use truechimer_counter::{Choice, Counter, nominal, realtime_pair, resolution};
use truechimer_stamp::pps::{Edge, EdgeLog, Pps, PpsError};
use truechimer_time::Span;

/// A file of one line, gone with the value.
struct Line(PathBuf);

impl Line {
    fn new(name: &str) -> Line {
        let name = format!("truechimer-pps-{}-{name}", std::process::id());
        Line(std::env::temp_dir().join(name))
    }

    /// Replaced at once, so that nobody sees half of it.
    fn show(&self, content: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn each_edge_is_told_once_and_old_ones_never() {
    let line = Line::new("once");
    line.show("1700000000.000000007#41\n");
    let mut pps = Pps::open(&line.0).unwrap();
    assert_eq!(pps.path(), line.0);
    assert_eq!(pps.fetch().unwrap(), None, "from before");
    line.show("1700000001.000000008#42\n");
    let edge = Edge { sequence: 42, unix_ns: 1_700_000_001_000_000_008 };
    assert_eq!(pps.fetch().unwrap(), Some(edge));
    assert_eq!(pps.fetch().unwrap(), None);
    // Its writer is at work on it.
    fs::File::create(&line.0).unwrap();
    assert_eq!(pps.fetch().unwrap(), None);
    line.show("1700000001.000000008#42\n");
    assert_eq!(pps.fetch().unwrap(), None, "the same again");
    fs::OpenOptions::new().write(true).open(&line.0).unwrap().write_all(b"x").unwrap();
    let why = pps.fetch().unwrap_err().to_string();
    assert!(why.contains("once") && why.contains("SECONDS.NANOSECONDS#SEQUENCE"), "{why}");
    fs::remove_file(&line.0).unwrap();
    assert!(matches!(pps.fetch(), Err(PpsError::System { .. })));
}

#[test]
fn waiting_ends_with_an_edge_or_in_time() {
    let line = Line::new("wait");
    line.show("0.000000000#0\n");
    let mut pps = Pps::open(&line.0).unwrap();
    assert_eq!(pps.wait(Duration::from_millis(25)).unwrap(), None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(40));
            line.show("5.000000000#1\n");
        });
        let edge = pps.wait(Duration::from_secs(600)).unwrap();
        assert_eq!(edge, Some(Edge { sequence: 1, unix_ns: 5_000_000_000 }));
    });
}

#[test]
fn what_shows_no_edges_is_refused_by_name() {
    for (path, part) in [
        ("/nowhere/pps0", "/nowhere/pps0 cannot be opened"),
        ("/", "neither a device nor a plain file"),
        ("/dev/null", "not a PPS device"),
        ("/proc/version", "/proc/version shows"),
    ] {
        let why = Pps::open(Path::new(path)).unwrap_err().to_string();
        assert!(why.contains(part), "{path}: {why}");
    }
    let endless = Line::new("endless");
    endless.show(&"9".repeat(100_000));
    let why = Pps::open(&endless.0).unwrap_err().to_string();
    assert!(why.contains("no end of line") && why.len() < 300, "{why}");
}

#[test]
fn a_stamp_of_now_becomes_the_count_of_now() {
    let counter = Counter::open(Choice::Auto).unwrap();
    let period = nominal(counter).unwrap().period;
    let mut log = EdgeLog::new(counter, period, resolution(counter));
    log.look();
    log.look();
    let truth = realtime_pair(counter, 8);
    let stamp = log.stamp(&Edge { sequence: 1, unix_ns: truth.unix_ns }).unwrap();
    assert!((stamp.count + stamp.error).at_or_after(truth.before), "{stamp:?} {truth:?}");
    assert!(truth.after.at_or_after(stamp.count - stamp.error), "{stamp:?} {truth:?}");
    let old = SystemTime::now() - Duration::from_secs(60);
    let old = old.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let old = Edge { sequence: 2, unix_ns: old as i64 };
    assert!(log.stamp(&old).is_err(), "{}", Span::from_nanos(old.unix_ns));
}
