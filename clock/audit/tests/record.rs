//! Records that are written, damaged and read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use truechimer_audit::{
    Account, Chain, Event, Fault, Found, Gap, Hash, Interval, Kind, Limits, Line, ReadError,
    SourceState, Sources, Time, Torn, Writer, file_name, files, is_written, read,
};

const DAY: i64 = 1_795_737_600_000_000_000;
const SECOND: i64 = 1_000_000_000;
const LARGE: Limits = Limits { total_bytes: 64 << 20 };

/// A directory that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("truechimer-audit-{name}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&folder.0);
        folder
    }

    fn file(&self, number: u64) -> PathBuf {
        self.0.join(file_name(number))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn interval(second: i64, for_s: i64, bound_ns: Option<u64>) -> Line {
    Line::Interval(Interval {
        to: Time(DAY + second * SECOND),
        for_ns: for_s * SECOND,
        count: 7,
        status: if bound_ns.is_some() { "synchronised" } else { "unknown" }.into(),
        bound_ns,
        source: bound_ns.map(|_| "a:123".into()),
        root_distance_ns: Some(1_000),
        by_system_clock: false,
    })
}

fn event(second: i64, kind: Kind, torn: Option<Torn>) -> Line {
    Line::Event(Event {
        at: Time(DAY + second * SECOND),
        count: 7,
        kind,
        text: "because".into(),
        bound_ns: Some(5),
        by_system_clock: false,
        step_ns: None,
        torn,
        interval_ns: None,
    })
}

fn written(folder: &Path, limits: Limits, lines: impl IntoIterator<Item = Line>) -> Hash {
    let (mut writer, found) = Writer::open(folder, limits, "0").unwrap();
    assert!(found.is_empty(), "{found:?}");
    for line in lines {
        writer.append(&line).unwrap();
    }
    writer.hash().unwrap().clone()
}

fn chain(folder: &Path) -> Chain {
    read(folder, None, &mut |_| {}).unwrap()
}

#[test]
fn what_is_written_is_read_over_restarts_and_files() {
    let folder = Folder::new("plain");
    let limits = Limits { total_bytes: 64_000 };
    let mut last = Hash::none();
    for start in 0..3 {
        let lines = (1..20).map(|n| interval(start * 1_200 + n * 60, 60, Some(9)));
        last = written(&folder.0, limits, lines.chain([event(start * 1_200, Kind::Stop, None)]));
    }
    let mut lines = Vec::new();
    let chain = read(&folder.0, Some(&last), &mut |line| lines.push(line.unwrap())).unwrap();
    assert!(chain.is_whole() && chain.contains == Some(true), "{chain:?}");
    assert_eq!((&chain.last, chain.first_file, chain.files), (&last, 1, 2));
    assert!(chain.torn.is_empty());
    let intervals = lines.iter().filter(|line| matches!(line, Line::Interval(_)));
    assert_eq!(intervals.count(), 57);
    let other = read(&folder.0, Some(&Hash::of(b"other")), &mut |_| {}).unwrap();
    assert!(!other.is_whole() && other.faults.is_empty());
    for number in [1, 2] {
        assert_eq!(fs::metadata(folder.file(number)).unwrap().permissions().mode() & 0o777, 0o640);
    }
    assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn a_record_is_never_larger_than_it_may_be() {
    let folder = Folder::new("limit");
    let limits = Limits { total_bytes: 40_000 };
    let (mut writer, _) = Writer::open(&folder.0, limits, "0").unwrap();
    let (mut removed, mut largest) = (Vec::new(), 0);
    for n in 1..2_000 {
        removed.extend(writer.append(&interval(n * 60, 60, Some(9))).unwrap());
        let sizes = files(&folder.0).unwrap().into_iter();
        largest =
            sizes.map(|(_, path)| fs::metadata(path).unwrap().len()).sum::<u64>().max(largest);
    }
    assert!((30_000..=40_000).contains(&largest), "{largest}");
    assert_eq!(removed[..2], [file_name(1), file_name(2)]);
    let chain = chain(&folder.0);
    assert!(chain.is_whole() && chain.first_file == removed.len() as u64 + 1, "{chain:?}");
}

#[test]
fn nobody_else_writes_it_meanwhile() {
    let folder = Folder::new("lock");
    let (_writer, _) = Writer::open(&folder.0, LARGE, "0").unwrap();
    let why = Writer::open(&folder.0, LARGE, "0").unwrap_err().to_string();
    assert!(why.contains("another daemon writes"), "{why}");
}

/// Whoever may read the lock's file sees it; what a daemon that was killed has left is locked by nobody.
#[test]
fn whether_somebody_writes_it_is_seen() {
    let folder = Folder::new("written");
    assert_eq!(is_written(&folder.0), Some(false));
    let (writer, _) = Writer::open(&folder.0, LARGE, "0").unwrap();
    assert_eq!(is_written(&folder.0), Some(true));
    drop(writer);
    fs::write(folder.0.join("record.lock"), "").unwrap();
    assert_eq!(is_written(&folder.0), Some(false));
    fs::remove_file(folder.0.join("record.lock")).unwrap();
    std::os::unix::fs::symlink("record-000001.jsonl", folder.0.join("record.lock")).unwrap();
    assert_eq!(is_written(&folder.0), None);
}

/// Lines of older versions lack some fields, and those of newer ones may have more.
#[test]
fn lines_of_other_versions_are_read() {
    let bytes = bytes();
    let mut scan = truechimer_audit::Scan::new(None);
    scan.file(1, &bytes, true, &mut |_| {}).unwrap();
    let mut last = scan.finish().last;
    let mut text = String::from_utf8(bytes).unwrap();
    let at = Time(DAY + 700 * SECOND);
    let start = r#""count":7,"kind":"start","text":"","bound_ns":null"#;
    let source = r#""name":"a","address":null,"status":"selected","stratum":1,"reference":null,"root_distance_ns":1"#;
    for content in [
        format!("{{\"event\":{{\"at\":\"{at}\",{start}}}"),
        format!("{{\"event\":{{\"at\":\"{at}\",{start},\"interval_ns\":5,\"new\":[1]}}"),
        format!("{{\"sources\":{{\"at\":\"{at}\",\"list\":[{{{source}}}]}}"),
        format!(
            "{{\"sources\":{{\"at\":\"{at}\",\"list\":[{{{source},\"reason\":\"stale\",\"new\":1}}]}}"
        ),
    ] {
        last = last.next(content.as_bytes());
        text += &format!("{content},\"hash\":\"{last}\"}}\n");
    }
    let mut lines = Vec::new();
    let mut scan = truechimer_audit::Scan::new(None);
    scan.file(1, text.as_bytes(), true, &mut |line| lines.push(line.unwrap())).unwrap();
    assert!(scan.finish().is_whole());
    let [.., Line::Event(old), Line::Event(new), Line::Sources(before), Line::Sources(after)] =
        &lines[..]
    else {
        panic!("{lines:?}")
    };
    assert_eq!((old.interval_ns, new.interval_ns), (None, Some(5)));
    let reason = |sources: &Sources| sources.list[0].reason.clone();
    assert_eq!((reason(before), reason(after).as_deref()), (None, Some("stale")));
}

#[test]
fn a_torn_line_is_told_and_is_no_forgery() {
    let folder = Folder::new("torn");
    written(&folder.0, LARGE, (1..5).map(|n| interval(n * 60, 60, Some(9))));
    let path = folder.file(1);
    let whole = fs::read(&path).unwrap();
    let begins = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in begins + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let before = chain(&folder.0);
        assert!(before.is_whole() && before.torn.len() == 1 && !before.torn[0].is_told);
        let (mut writer, found) = Writer::open(&folder.0, LARGE, "0").unwrap();
        let [Found::Torn(torn)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(torn.bytes, (cut - begins) as u64);
        // It may end before it has said so.
        drop(writer);
        (writer, _) = Writer::open(&folder.0, LARGE, "0").unwrap();
        writer.append(&event(300, Kind::Torn, Some(torn.clone()))).unwrap();
        writer.append(&interval(400, 60, Some(9))).unwrap();
        let after = chain(&folder.0);
        assert!(after.is_whole() && after.torn.len() == 1 && after.torn[0].is_told, "{after:?}");
        assert_eq!(after.lines, 6);
        // But what is left of it is not to be changed either.
        let mut bytes = fs::read(&path).unwrap();
        bytes[begins] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(!chain(&folder.0).is_whole());
    }
}

#[test]
fn a_file_without_a_line_is_begun_anew() {
    let folder = Folder::new("empty");
    let last = written(&folder.0, LARGE, [interval(60, 60, Some(9))]);
    for text in ["", "{\"record\":{\"for"] {
        fs::write(folder.file(2), text).unwrap();
        assert!(chain(&folder.0).is_whole());
        let (writer, found) = Writer::open(&folder.0, LARGE, "0").unwrap();
        assert_eq!(found, [Found::Empty(file_name(2))]);
        assert_eq!(writer.hash(), Some(&last));
        assert!(!folder.file(2).exists());
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new("bad");
    let failed = || read(&folder.0, None, &mut |_| {}).unwrap_err();
    let said = failed().to_string();
    assert!(said.contains("No such file") && said.contains("[audit]"), "{said}");
    fs::create_dir(&folder.0).unwrap();
    assert!(matches!(failed(), ReadError::Empty(_)));
    let path = folder.file(1);
    for foreign in ["", "hello\n", "{}\n", "{\"record\":{\"format\":1}}\n", "\u{0}\u{1}\n"] {
        fs::write(&path, foreign).unwrap();
        assert!(matches!(failed(), ReadError::Foreign(_)), "{foreign}");
    }
    fs::write(&path, "{\"record\":{\"format\":2,\"new\":0},\"hash\":\"0\"}\n").unwrap();
    assert!(failed().to_string().contains("has format 2, and this program knows 1"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(matches!(failed(), ReadError::Io(..)));
    assert!(Writer::open(&folder.0, LARGE, "0").is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(failed(), ReadError::Io(..)));
}

#[test]
fn a_missing_or_renamed_file_is_found() {
    let folder = Folder::new("missing");
    let lines = (1..200).map(|n| interval(n * 60, 60, Some(9)));
    written(&folder.0, Limits { total_bytes: 80_000 }, lines);
    assert!(chain(&folder.0).is_whole() && chain(&folder.0).files > 3);
    let kept = fs::read(folder.file(2)).unwrap();
    fs::remove_file(folder.file(2)).unwrap();
    assert!(chain(&folder.0).faults[0].text.contains("record-000002.jsonl is missing"));
    fs::rename(folder.file(3), folder.file(2)).unwrap();
    let text = chain(&folder.0).faults[0].text.clone();
    assert!(text.contains("it was renamed"), "{text}");
    fs::rename(folder.file(2), folder.file(3)).unwrap();
    fs::write(folder.file(2), kept).unwrap();
    assert!(chain(&folder.0).is_whole());
}

/// Whoever removes all files up to a hash that was kept can begin a new chain with its name.
#[test]
fn a_hash_that_is_only_named_is_not_found() {
    let folder = Folder::new("named");
    let lines = (1..200).map(|n| interval(n * 60, 60, Some(9)));
    written(&folder.0, Limits { total_bytes: 80_000 }, lines);
    let second = fs::read_to_string(folder.file(2)).unwrap();
    let header: serde_json::Value = serde_json::from_str(second.lines().next().unwrap()).unwrap();
    let kept: Hash = header["record"]["previous"].as_str().unwrap().parse().unwrap();
    let found = || read(&folder.0, Some(&kept), &mut |_| {}).unwrap();
    assert!(found().is_whole() && found().contains == Some(true) && !found().is_named);
    fs::remove_file(folder.file(1)).unwrap();
    let chain = found();
    assert!(chain.faults.is_empty() && !chain.is_whole(), "{chain:?}");
    assert!(chain.contains == Some(false) && chain.is_named, "{chain:?}");
}

/// Whoever makes up a record can write any hash at the end of a line: it has to be that line's, and all before
/// it has to fit.
#[test]
fn a_hash_after_a_place_that_does_not_fit_is_not_found() {
    let folder = Folder::new("forged");
    let lines = (1..20).map(|n| interval(n * 60, 60, Some(9)));
    written(&folder.0, Limits { total_bytes: 80_000 }, lines);
    let path = folder.file(1);
    let whole = fs::read_to_string(&path).unwrap();
    let kept: Hash = read(&folder.0, None, &mut |_| {}).unwrap().last;
    let found = || read(&folder.0, Some(&kept), &mut |_| {}).unwrap();
    assert!(found().is_whole() && found().contains == Some(true));
    // A line before it was changed.
    fs::write(&path, whole.replacen("\"bound_ns\":9,", "\"bound_ns\":8,", 1)).unwrap();
    let chain = found();
    assert!(chain.contains == Some(false) && chain.is_after_fault, "{chain:?}");
    // Another record, and a line of rubbish that bears it.
    let (begin, end) = (whole.lines().next().unwrap(), format!("{{}},\"hash\":\"{kept}\"}}"));
    fs::write(&path, format!("{begin}\n{end}\n")).unwrap();
    let chain = found();
    assert!(chain.contains == Some(false) && chain.fault_count == 1, "{chain:?}");
}

#[test]
fn a_full_disk_is_an_error_and_no_more() {
    let folder = Folder::new("full");
    let (mut writer, _) = Writer::open(&folder.0, LARGE, "0").unwrap();
    writer.append(&interval(60, 60, Some(9))).unwrap();
    // A directory that is gone is as good: the file itself goes on, the next one cannot be begun.
    let small = Folder::new("gone");
    let (mut gone, _) = Writer::open(&small.0, Limits { total_bytes: 800 }, "0").unwrap();
    fs::remove_dir_all(&small.0).unwrap();
    assert!((0..9).any(|n| gone.append(&interval(n * 60, 60, Some(9))).is_err()));
    assert!(gone.hash().is_none() && gone.append(&interval(0, 60, None)).is_err());
}

/// A record of a few lines as bytes, made once.
fn bytes() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let make = || {
        let folder = Folder::new("bytes");
        let lines = (1..9).map(|n| interval(n * 60, 60, Some(9)));
        written(&folder.0, LARGE, lines.chain([event(600, Kind::Status, None)]));
        fs::read(folder.file(1)).unwrap()
    };
    BYTES.get_or_init(make).clone()
}

/// True if somebody who reads the record hears of it: broken, torn, no record, or another last hash
/// than the one that was kept.
fn shows(bytes: &[u8], last: &Hash) -> bool {
    let mut scan = truechimer_audit::Scan::new(Some(last));
    match scan.file(1, bytes, true, &mut |_| {}) {
        Err(_) => true,
        Ok(()) => {
            let chain = scan.finish();
            !chain.is_whole() || !chain.torn.is_empty()
        }
    }
}

fn last(bytes: &[u8]) -> Hash {
    let mut scan = truechimer_audit::Scan::new(None);
    scan.file(1, bytes, true, &mut |_| {}).unwrap();
    let chain = scan.finish();
    assert!(chain.is_whole() && chain.torn.is_empty());
    chain.last
}

proptest! {
    #[test]
    fn any_changed_byte_shows(at in any::<prop::sample::Index>(), by in 1u8..=255) {
        let mut bytes = bytes();
        let last = last(&bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(shows(&bytes, &last), "byte {at}");
    }

    #[test]
    fn any_byte_that_is_removed_or_put_in_shows(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = bytes();
        let last = last(&whole);
        let at = at.index(whole.len());
        let (mut less, mut more) = (whole.clone(), whole.clone());
        less.remove(at);
        prop_assert!(shows(&less, &last), "without byte {at}");
        more.insert(at, byte);
        prop_assert!(shows(&more, &last), "byte {at}");
    }

    #[test]
    fn any_line_that_is_removed_repeated_or_moved_shows(a in 0usize..10, b in 0usize..10) {
        let whole = bytes();
        let last = last(&whole);
        let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
        prop_assert_eq!(lines.len(), 10);
        let (mut less, mut more, mut swapped) = (lines.clone(), lines.clone(), lines.clone());
        less.remove(a);
        prop_assert!(shows(&less.concat(), &last), "without line {a}");
        more.insert(b, lines[a]);
        prop_assert!(shows(&more.concat(), &last), "line {a} again at {b}");
        swapped.swap(a, b);
        prop_assert!(a == b || shows(&swapped.concat(), &last), "lines {a} and {b}");
    }

    /// Any bytes are read without a panic, and none are taken for a record.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut scan = truechimer_audit::Scan::new(None);
        let read = scan.file(1, &bytes, true, &mut |_| {});
        prop_assert!(read.is_err());
    }

    /// The account is exact: as if every second had been looked at.
    #[test]
    fn shares_are_exact(
        stretches in proptest::collection::vec((1i64..90, 0i64..40, proptest::option::of(1u64..500)), 1..60),
        from in 0i64..900, length in 1i64..3_000, limit in 1u64..500,
    ) {
        let mut account =
            Account::new(Time(DAY + from * SECOND), Time(DAY + (from + length) * SECOND));
        let (mut at, mut seconds) = (0, Vec::new());
        for (long, gap, bound) in stretches {
            seconds.extend(std::iter::repeat_n(None, gap as usize));
            seconds.extend(std::iter::repeat_n(Some(bound), long as usize));
            at += gap + long;
            account.take(interval(at, long, bound));
        }
        seconds.resize(4_000, None);
        let span = &seconds[from as usize..(from + length) as usize];
        let count = |good: &dyn Fn(&Option<Option<u64>>) -> bool| {
            span.iter().filter(|second| good(second)).count() as i64 * SECOND
        };
        prop_assert_eq!(account.recorded_ns(), count(&|s| s.is_some()));
        prop_assert_eq!(account.bounded_ns(), count(&|s| s.flatten().is_some()));
        let within = count(&|s| s.flatten().is_some_and(|bound| bound <= limit));
        prop_assert_eq!(account.shares(&[limit])[0].within_ns, within);
        let gaps: i64 = account.gaps().iter().map(Gap::length_ns).sum();
        prop_assert_eq!(gaps + account.recorded_ns(), account.length_ns());
        let mut bounds: Vec<u64> = span.iter().filter_map(|s| s.flatten()).collect();
        bounds.sort_unstable();
        prop_assert_eq!(account.percentile_ns(100), bounds.last().copied());
        let median = (!bounds.is_empty()).then(|| bounds[(bounds.len() - 1) / 2]);
        prop_assert_eq!(account.percentile_ns(50), median);
        prop_assert_eq!(account.worst().and_then(|p| p.bound_ns), bounds.last().copied());
    }
}

/// Time without a line is set apart where lines there do not fit, and what comes later is not judged.
#[test]
fn a_gap_with_lines_that_do_not_fit_is_broken() {
    let fault = Fault { file: String::new(), line: 2, text: String::new() };
    let mut account = Account::new(Time(DAY), Time(DAY + 1_000 * SECOND));
    account.take(interval(100, 100, Some(1)));
    account.take(interval(300, 100, Some(1)));
    account.read(Err(&fault));
    account.read(Ok(interval(500, 100, Some(1))));
    account.read(Err(&fault));
    let gaps = |account: &Account| -> Vec<(i64, i64, bool)> {
        let second = |time: Time| (time.0 - DAY) / SECOND;
        let gaps = account.gaps().into_iter();
        gaps.map(|gap| (second(gap.from), second(gap.to), gap.is_broken)).collect()
    };
    assert_eq!(gaps(&account), [(100, 200, false), (300, 400, true), (500, 1_000, true)]);
    assert_eq!(account.broken_ns(), 600 * SECOND);
    account.judge(Time(DAY + 350 * SECOND));
    assert_eq!(gaps(&account), [(100, 200, false), (300, 350, true)]);
    assert_eq!((account.length_ns(), account.judged_ns()), (1_000 * SECOND, 350 * SECOND));
    assert_eq!(account.bounded_ns(), 200 * SECOND);
}

#[test]
fn a_clock_that_was_set_back_is_believed_from_then_on() {
    let mut account = Account::new(Time(DAY), Time(DAY + 1_000 * SECOND));
    account.take(interval(100, 100, Some(1)));
    // Ahead by a year, and back again.
    account.take(interval(31_536_000, 31_535_900, None));
    account.take(interval(31_536_060, 60, None));
    account.take(interval(200, -31_535_860, None));
    account.take(interval(260, 60, Some(3)));
    assert_eq!(account.bounded_ns(), 160 * SECOND);
    assert_eq!(account.recorded_ns(), 260 * SECOND);
    let gap =
        Gap { from: Time(DAY + 260 * SECOND), to: Time(DAY + 1_000 * SECOND), is_broken: false };
    assert_eq!(account.gaps(), [gap]);
}

#[test]
fn a_line_may_be_added_by_hand_only_with_its_hash() {
    let folder = Folder::new("hand");
    written(&folder.0, LARGE, [interval(60, 60, Some(9))]);
    let mut file = fs::OpenOptions::new().append(true).open(folder.file(1)).unwrap();
    file.write_all(b"{\"event\":{}}\n").unwrap();
    assert_eq!(chain(&folder.0).faults[0].line, 3);
    // The daemon does not go on from there.
    let (_writer, found) = Writer::open(&folder.0, LARGE, "0").unwrap();
    assert_eq!(found, [Found::Foreign(file_name(1))]);
    assert!(folder.file(2).exists());
}

#[test]
fn intervals_of_centuries_add_up() {
    let long = |to, for_ns| {
        let Line::Interval(one) = interval(0, 1, Some(1)) else { panic!("no interval") };
        Line::Interval(Interval { to: Time(to), for_ns, ..one })
    };
    let mut account = Account::new(Time(i64::MIN), Time(i64::MAX));
    for line in [long(-1, i64::MAX), long(i64::MAX, i64::MAX), long(i64::MIN, i64::MIN)] {
        account.take(line);
    }
    assert_eq!(account.length_ns(), i64::MAX);
    assert_eq!((account.recorded_ns(), account.bounded_ns()), (i64::MAX, i64::MAX));
    assert_eq!(account.shares(&[1])[0].within_ns, i64::MAX);
    assert_eq!(account.by_status().values().sum::<i64>(), i64::MAX);
    assert_eq!(account.by_source().values().map(|(length, _)| length).sum::<i64>(), i64::MAX);
    assert_eq!(account.worst().map(|piece| piece.from), Some(Time(0)));
}

#[test]
fn the_last_number_of_all_is_an_error() {
    let folder = Folder::new("numbers");
    fs::create_dir(&folder.0).unwrap();
    fs::write(folder.file(u64::MAX), "no line of a record\n").unwrap();
    let why = Writer::open(&folder.0, LARGE, "0").unwrap_err().to_string();
    assert_eq!(why, "record-18446744073709551615.jsonl: no number is left after it");
}

#[test]
fn a_source_is_as_it_was_seen_until_the_next_look() {
    let source = |name: &str, stratum| SourceState {
        name: name.into(),
        address: None,
        status: "selected".into(),
        stratum: Some(stratum),
        reference: None,
        root_distance_ns: Some(1),
        reason: None,
    };
    let seen_at = |second, list| Line::Sources(Sources { at: Time(DAY + second * SECOND), list });
    let mut account = Account::new(Time(DAY), Time(DAY + 1_000 * SECOND));
    for line in [
        seen_at(-50, vec![source("a", 1)]),
        interval(100, 200, Some(1)),
        seen_at(100, vec![source("a", 2), source("b", 3)]),
        interval(300, 200, Some(1)),
        // Nobody looks from 300 to 600.
        interval(700, 100, Some(1)),
        seen_at(700, vec![source("b", 3)]),
        interval(1_000, 300, Some(1)),
    ] {
        account.take(line);
    }
    let seen = account.sources();
    let second = |time: Time| (time.0 - DAY) / SECOND;
    let spans: Vec<_> = seen
        .iter()
        .map(|seen| (seen.name.as_str(), seen.stratum, second(seen.first), second(seen.last)))
        .collect();
    assert_eq!(
        spans,
        [("a", Some(1), 0, 100), ("a", Some(2), 100, 300), ("b", Some(3), 100, 1_000)]
    );
    let times: Vec<i64> = seen.iter().map(|seen| seen.time_ns / SECOND).collect();
    assert_eq!(times, [100, 200, 500]);
}

/// After a restart a source is blank for a moment; that is no row beside the one of before.
#[test]
fn rows_of_a_source_do_not_overlap_after_a_restart() {
    let source = |status: &str, stratum: Option<u8>| SourceState {
        name: "a".into(),
        address: stratum.map(|_| "192.0.2.1:123".into()),
        status: status.into(),
        stratum,
        reference: None,
        root_distance_ns: None,
        reason: None,
    };
    let seen_at = |second, status, stratum| {
        let (at, list) = (Time(DAY + second * SECOND), vec![source(status, stratum)]);
        Line::Sources(Sources { at, list })
    };
    let mut account = Account::new(Time(DAY), Time(DAY + 1_000 * SECOND));
    for line in [
        seen_at(0, "unreachable", None),
        seen_at(1, "selected", Some(1)),
        interval(500, 500, Some(1)),
        interval(1_000, 490, Some(1)),
        seen_at(510, "unreachable", None),
        seen_at(512, "selected", Some(1)),
    ] {
        account.take(line);
    }
    let seen = account.sources();
    let [blank, known] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((blank.last, blank.time_ns), (Time(DAY + SECOND), SECOND));
    assert_eq!((known.first, known.last), (blank.last, Time(DAY + 1_000 * SECOND)));
    assert_eq!((known.time_ns, known.statuses.len()), (989 * SECOND, 2));
}

/// Statuses, words and sources of a record that somebody made up, by the thousand: each is counted once, in the order in
/// which they come.
#[test]
fn any_number_of_statuses_is_told_apart() {
    const MANY: i64 = 5_000;
    let source = |name: String, status: i64| SourceState {
        name,
        address: None,
        status: format!("status {status}"),
        stratum: Some(1),
        reference: None,
        root_distance_ns: None,
        reason: Some(format!("reason {}", status % 7)),
    };
    let mut account = Account::new(Time(DAY), Time(DAY + 2 * MANY * SECOND));
    for second in 0..2 * MANY {
        let list = vec![source("a".into(), second % MANY), source(format!("b{second}"), 1)];
        account.take(Line::Sources(Sources { at: Time(DAY + second * SECOND), list }));
        let Line::Interval(one) = interval(second + 1, 1, Some(1)) else { panic!("no interval") };
        account.take(Line::Interval(Interval { status: format!("word {}", second % MANY), ..one }));
    }
    let seen = account.sources();
    assert_eq!(seen.len() as i64, 1 + 2 * MANY);
    let statuses = &seen[0].statuses;
    assert_eq!((seen[0].name.as_str(), statuses.len() as i64), ("a", MANY));
    for (n, it) in (0..).zip(statuses) {
        assert_eq!((it.status.as_str(), it.time_ns), (format!("status {n}").as_str(), 2 * SECOND));
    }
    assert!(seen[1..].iter().all(|seen| seen.statuses.len() == 1 && seen.time_ns == SECOND));
    let by_status = account.by_status();
    assert_eq!(by_status.len() as i64, MANY);
    assert!(by_status.values().all(|ns| *ns == 2 * SECOND));
}
