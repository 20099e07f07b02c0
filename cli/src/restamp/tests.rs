use std::path::{Path, PathBuf};

use truechimer::Span;
use truechimer::{Count, CountSpan, CounterKind, Epoch, Hand, Instant, Made, Period, Rate};
use truechimer_capture::convert::{Change, Continuity, Identity, Used};
use truechimer_capture::sink::{CaptureFile, FileOptions, Sink};
use truechimer_capture::{
    Counted, Direction, Facts, KernelClock, Method, Packet, Quality, RawStamp, Stamped,
};
use truechimer_time::{BootId, CounterId};

use super::*;
use truechimer_command::parse;

mod others;
use truechimer_command::scratch::Scratch;

const BOOT: BootId = BootId([7; 16]);
/// 2026-11-21T22:26:40Z.
const START: i64 = 1_795_300_000;

/// A hand made at count `second` · 10⁹ of a counter that is 10 ppm fast, `off` ns ahead.
fn used(generation: u64, second: u64, off: i64) -> Used {
    let base = Count(second * 1_000_000_000);
    let period = Period::NANOSECOND.scaled(Rate::from_ppb(-10_000));
    let time = Instant::from_nanos(i128::from(START) * 1_000_000_000 + i128::from(off))
        + period.span(base - Count(0));
    Used {
        generation,
        hand: Hand {
            difference_error: Rate::from_ppb(10),
            path_bound: Span::from_micros(20),
            statistical_bound: Span::from_nanos(3001),
            growth: Rate::from_ppb(500),
            ..Hand::exact(
                CounterId { kind: CounterKind::Tsc, boot: BOOT, epoch: Epoch(3) },
                base,
                time,
                period,
                Count(1 << 60),
            )
        },
        made: Made {
            count: base,
            monotonic_ns: base.0 as i64,
            raw_ns: base.0 as i64,
            suspended_ns: 0,
            device: None,
        },
    }
}

fn change(at: u64, hand: Option<Used>) -> Change {
    Change {
        at: Count(at),
        counter: Identity {
            kind: CounterKind::Tsc,
            boot: BOOT,
            period: Period::NANOSECOND,
            resolution: CountSpan(1),
        },
        epoch: Epoch(3),
        status: hand.map(|used| used.hand.status),
        reason: hand.is_none().then(|| "no daemon".to_owned()),
        hand,
        continuity: Continuity {
            count: Count(at),
            raw_ns: at as i64,
            monotonic_ns: at as i64,
            suspended_ns: 0,
            width: CountSpan(30),
        },
    }
}

/// Stamp that the capture made of a count.
fn stamped(count: u64, used: Option<&Used>) -> Stamped {
    let counted = Counted { count: Count(count), error: CountSpan(40), epoch: Epoch(3) };
    let Some(Used { generation, hand, .. }) = used else {
        return Stamped {
            counted: Some(counted),
            unix_ns: START * 1_000_000_000 + count as i64,
            instant: None,
            bound: None,
            quality: Quality::Unsynchronised,
            generation: 0,
        };
    };
    let instant = hand.time_at(counted.count);
    let utc = hand.leaps.utc(instant);
    // As the converter has it: the count's error, 0.1 % more for the rate, 1 ns for the rounding.
    let error = hand.period.span(counted.error).0;
    let error = Span(error + (error >> 10)) + Span::from_nanos(1);
    Stamped {
        counted: Some(counted),
        unix_ns: utc.unix_nanos() as i64,
        instant: Some(instant),
        bound: Some(hand.bound_at(counted.count) + error),
        quality: Quality::Bounded,
        generation: *generation,
    }
}

/// A capture of five seconds in which the clock is lost for one, with packets of others in between.
fn capture(path: &Path) {
    let facts = Facts {
        interface: "wire".into(),
        method: Method::Packet,
        detail: "made up".into(),
        link_type: 1,
        snap_length: 200,
        stamped_by: "a test".into(),
        ring_bytes: 0,
        stamp_error: truechimer_time::CountSpan(0),
    };
    let host = Some("alpha".to_owned());
    let options = FileOptions { path: path.to_owned(), host, ..FileOptions::default() };
    let mut sink = CaptureFile::create(&facts, options).unwrap();
    for second in 1..=5u64 {
        let hand = (second != 3).then(|| used(second, second, second as i64 * 700));
        sink.change(&change(second * 1_000_000_000 + 5, hand)).unwrap();
        for n in 1..=100u64 {
            let count = second * 1_000_000_000 + n * 9_000_001;
            let packet = Packet {
                stamp: RawStamp::Clock(KernelClock::Realtime, 1),
                data: &[n as u8; 60],
                tag: None,
                length: 60,
                direction: Direction::In,
                queue: 0,
            };
            sink.packet(&packet, &stamped(count, hand.as_ref())).unwrap();
        }
    }
    sink.finish().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    truechimer_pcapng::write::packet(&mut bytes, 0, 5, &[b"not ours"], 8).end();
    // A block that nobody knows.
    bytes.extend([0x99, 0, 0, 0x80, 16, 0, 0, 0, 1, 2, 3, 4, 16, 0, 0, 0]);
    std::fs::write(path, bytes).unwrap();
}

fn restamp(words: &[&str]) -> Result<String, String> {
    let mut out = Vec::new();
    match run(&parse::options(words).unwrap(), &mut out) {
        Ok(_) => Ok(String::from_utf8(out).unwrap()),
        Err(Failure::Said(why)) => Err(why),
        Err(why) => panic!("{why:?}"),
    }
}

fn json(words: &[&str]) -> serde_json::Value {
    let text = restamp(words).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

struct Files {
    _scratch: Scratch,
    from: PathBuf,
    to: PathBuf,
}

impl Files {
    fn new() -> Files {
        let scratch = Scratch::new().unwrap();
        let (from, to) = (scratch.path().join("from.pcapng"), scratch.path().join("to.pcapng"));
        capture(&from);
        Files { _scratch: scratch, from, to }
    }

    fn names(&self) -> (&str, &str) {
        (self.from.to_str().unwrap(), self.to.to_str().unwrap())
    }
}

#[test]
fn by_the_recorded_hands_it_is_the_same_file() {
    let files = Files::new();
    let (from, to) = files.names();
    let summary = json(&["--by", "recorded", "--json", "-o", to, from]);
    assert_eq!((&summary["packets"], &summary["recorded"]), (&501.into(), &500.into()));
    assert_eq!((&summary["changed"], &summary["foreign"]), (&0.into(), &1.into()));
    assert_eq!((&summary["bounded"], &summary["kept"]), (&400.into(), &100.into()));
    assert!(std::fs::read(from).unwrap() == std::fs::read(to).unwrap());

    // Whatever was done to its times is undone; the rest was not touched.
    let mut moved = std::fs::read(from).unwrap();
    let mut blocks = Blocks::new(std::io::Cursor::new(moved.clone()));
    while let Some(block) = blocks.next_block().unwrap() {
        if block.kind == truechimer_pcapng::kind::PACKET {
            moved[block.offset as usize + 17] ^= 1;
        }
    }
    std::fs::write(to, &moved).unwrap();
    let again = json(&["--by", "recorded", "--json", "-o", to, to]);
    assert_eq!(again["changed"], 400);
    let (was, is) = (std::fs::read(from).unwrap(), std::fs::read(to).unwrap());
    let differing = was.iter().zip(&is).filter(|(a, b)| a != b).count();
    // One byte of each packet whose time is the system clock's, or of others.
    assert_eq!((was.len(), differing), (is.len(), 101));
}

#[test]
fn by_all_hands_times_get_better() {
    let files = Files::new();
    let (from, to) = files.names();
    let summary = json(&["--json", "-o", to, from]);
    assert_eq!((&summary["bounded_before"], &summary["bounded"]), (&400.into(), &500.into()));
    assert!(summary["changed"].as_u64().unwrap() > 300, "{summary}");
    assert_eq!(summary["contradicted"], 0);
    assert!(summary["largest_bound_ns"].as_u64() <= summary["largest_bound_before_ns"].as_u64());
    // The truth is known: the hands are 700, 1400, … ns ahead.
    let truth = used(0, 0, 0).hand;
    let list = restamp(&["--list", "--json", to]).unwrap();
    let mut seen = 0;
    for line in list.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let (Some(count), Some(bound)) = (row["count"].as_u64(), row["bound_ns"].as_i64()) else {
            continue;
        };
        let true_ns = truth.leaps.utc(truth.time_at(Count(count))).unix_nanos() as i64;
        let off = row["unix_ns"].as_i64().unwrap() - true_ns;
        assert!(off.abs() <= bound, "{off} ns, ± {bound}");
        seen += 1;
    }
    assert_eq!(seen, 500);
    // Done once more, nothing changes.
    let again = json(&["--json", to]);
    assert_eq!(again["changed"], 0);
}

/// Comments of a file's packets, in order.
fn comments(path: &str) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let (mut blocks, mut section) = (Blocks::new(bytes.as_slice()), Section::new());
    let mut all = Vec::new();
    while let Some(block) = blocks.next_block().unwrap() {
        if let truechimer_pcapng::Content::Packet(packet) = section.take(&block).unwrap() {
            let ours = packet.options.flatten().filter(|option| option.code == 1);
            let texts = ours.map(|option| String::from_utf8(option.value.to_vec()).unwrap());
            all.extend(texts.filter(|text| text.starts_with(comment::BEGINNING)));
        }
    }
    all
}

#[test]
fn comments_are_added_if_asked_for_and_always_kept_true() {
    let files = Files::new();
    let (from, to) = files.names();
    assert!(comments(from).is_empty());
    json(&["--by", "recorded", "--comments", "--json", "-o", to, from]);
    let recorded = comments(to);
    // Of 501 packets one is of others.
    assert_eq!(recorded.len(), 500);
    assert_eq!(
        recorded[0],
        "Truechimer: ± 23047 ns, bounded, clock synchronised, method packet, stamped realtime, \
         count 1009000001 ± 40, epoch 3"
    );
    assert_eq!(
        recorded[200],
        "Truechimer: ± ?, unsynchronised, clock none, method packet, stamped realtime, \
         count 3009000001 ± 40, epoch 3"
    );
    // Done again it is the same file, and better times have their own bounds without being asked.
    let before = std::fs::read(to).unwrap();
    json(&["--by", "recorded", "--json", "-o", to, to]);
    assert!(std::fs::read(to).unwrap() == before);
    json(&["--json", "-o", to, to]);
    let list = restamp(&["--list", "--json", to]).unwrap();
    let rows = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let bounds = rows.filter_map(|row| row["bound_ns"].as_u64());
    let said: Vec<u64> = comments(to)
        .iter()
        .map(|text| text[comment::BEGINNING.len()..].split_once(" ns").unwrap().0.parse().unwrap())
        .collect();
    assert_eq!(said, bounds.collect::<Vec<_>>());
    assert_eq!(said.len(), 500);
}

#[test]
fn the_host_is_carried_through() {
    let files = Files::new();
    let (from, to) = files.names();
    json(&["--json", "-o", to, from]);
    let bytes = std::fs::read(to).unwrap();
    let (mut blocks, mut section) = (Blocks::new(bytes.as_slice()), Section::new());
    while let Some(block) = blocks.next_block().unwrap() {
        section.take(&block).unwrap();
    }
    let described = &section.interface(0).unwrap().description;
    assert_eq!(truechimer_pcapng::records::host_of(described), Some("alpha"));
}

#[test]
fn it_is_listed_as_it_stands() {
    let files = Files::new();
    let (from, _) = files.names();
    let list = restamp(&["--list", from]).unwrap();
    let lines: Vec<_> = list.lines().collect();
    let (heads, lines) = lines.split_first().unwrap();
    for (head, value) in
        [("packet", "1"), ("± bound", "23.047 µs"), ("quality", "bounded"), ("moved", "=")]
    {
        // Words begin where their head does, numbers end where it does.
        let (head, value) = (heads.find(head).unwrap(), lines[0].find(value).unwrap());
        assert!(value + 40 > head && head + 40 > value, "{heads}\n{}", lines[0]);
    }
    let first: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(first[0], "1");
    assert!(first[1].starts_with("2026-11-21T22:26:41.00899"), "{first:?}");
    assert_eq!(first[2..], ["23.047", "µs", "bounded", "packet", "=", "1009000001", "3", "1"]);
    assert!(lines[200].contains(" - ") && lines[200].contains("unsynchronised"), "{}", lines[200]);
    assert!(lines[500].contains("foreign"), "{}", lines[500]);
    assert!(list.contains("nothing written"), "{list}");
}

#[test]
fn a_narrower_promise_is_kept_unless_it_is_refuted() {
    use truechimer_pcapng::records::{self, PacketRecord};
    let record = |quality, bound_ns| PacketRecord {
        method: 1,
        stamped_by: records::StampedBy::Realtime,
        quality,
        counted: None,
        generation: 1,
        bound_ns,
    };
    let bounded = record(records::Quality::Bounded, Some(1000));
    assert!(stamper::kept(&bounded, 50, 80, Some(1030)));
    assert!(!stamper::kept(&bounded, 50, 80, Some(1000)), "what is as good is the newer");
    assert!(!stamper::kept(&bounded, 0, 2031, Some(1030)), "both cannot hold");
    assert!(stamper::kept(&bounded, 2030, 0, Some(1030)));
    let marked = record(records::Quality::Unsynchronised, Some(1000));
    assert!(!stamper::kept(&marked, 50, 80, Some(1030)));
}

#[test]
fn what_cannot_be_restamped_is_told() {
    let files = Files::new();
    let (from, to) = files.names();
    let told = |words: &[&str]| restamp(words).unwrap_err();
    assert!(told(&["nowhere"]).starts_with("nowhere: "));
    std::fs::write(to, b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0")
        .unwrap();
    assert!(told(&[to]).ends_with(": no packets in it"));
    std::fs::write(to, b"").unwrap();
    assert!(told(&[to]).ends_with(": the file is empty"));
    let mut bytes = Vec::new();
    truechimer_pcapng::write::section(&mut bytes).text(4, "Dumpcap").end();
    truechimer_pcapng::write::interface(&mut bytes, 1, 0).end();
    truechimer_pcapng::write::packet(&mut bytes, 0, 5, &[b"x"], 1).end();
    std::fs::write(to, &bytes).unwrap();
    assert!(told(&[to]).ends_with(
        "none of its 1 packets bears a raw count (written by Dumpcap); interface 0: time by \
         nothing: no NTP exchange passed, and how far apart two interfaces can have seen one packet \
         is not known: say it with --apart if they did; its packets keep their times"
    ));
    assert!(
        told(&["--by", "recorded", "--log", "x", from]).contains("--by recorded takes no hands")
    );
    assert!(told(&["-o", "-", "--list", from]).contains("standard output cannot take both"));
    assert!(told(&["--log", to, from]).starts_with(to));
    assert!(told(&["--page", to, from]).contains(to));
    // Both may be asked for: the log's hands are taken, and then the page is looked at.
    let log = format!("{to}.log");
    let hand = serde_json::to_string(&used(0, 0, 0).hand).unwrap();
    let lines = [
        "{\"truechimer-replay\":4,\"version\":\"0.1.0\"}".into(),
        format!("{{\"hand\":{hand}}}\n"),
    ];
    std::fs::write(&log, lines.join("\n")).unwrap();
    assert!(restamp(&["--log", &log, from]).is_ok());
    assert!(told(&["--log", &log, "--page", to, from]).contains(to));
    std::fs::remove_file(log).unwrap();

    // Damage is named with its place, and leaves nothing behind.
    let mut damaged = std::fs::read(from).unwrap();
    let at = damaged.windows(6).rposition(|six| six == b"TChm\x01P").unwrap();
    damaged[at + 7] |= 0x80;
    std::fs::write(to, &damaged).unwrap();
    let out = format!("{to}.out");
    let why = told(&["-o", &out, to]);
    assert!(why.contains("block 50") && why.contains("unknown flags"), "{why}");
    assert!(!Path::new(&out).exists());
    assert_eq!(std::fs::read_dir(Path::new(to).parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn a_torn_file_is_restamped_up_to_there() {
    let files = Files::new();
    let (from, to) = files.names();
    let bytes = std::fs::read(from).unwrap();
    std::fs::write(from, &bytes[..bytes.len() / 2]).unwrap();
    let summary = json(&["--by", "recorded", "--json", "-o", to, from]);
    assert!(summary["torn"].as_str().unwrap().contains("readable up to there"), "{summary}");
    let (was, is) = (std::fs::read(from).unwrap(), std::fs::read(to).unwrap());
    assert!(is.len() < was.len() && was.starts_with(&is));
}

/// A directory that everybody may write to, and beside it a file that nobody may touch.
fn trap(files: &Files) -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let beside = files.from.parent().unwrap();
    let (open, victim) = (beside.join("open"), beside.join("victim"));
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(&victim, "precious").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o644)).unwrap();
    (open, victim)
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::symlink_metadata(path).unwrap();
    assert!(data.is_file(), "{}", path.display());
    data.mode() & 0o777
}

#[test]
fn links_that_others_have_put_lead_nowhere() {
    let files = Files::new();
    let from = files.names().0;
    let (open, victim) = trap(&files);
    let out = open.join("out.pcapng");
    let name = out.to_str().unwrap();
    let intact = || {
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(mode(&victim), 0o644);
    };

    // A symbolic link, in place of the file and on the way to it.
    std::os::unix::fs::symlink(&victim, &out).unwrap();
    std::os::unix::fs::symlink(files.from.parent().unwrap(), open.join("way")).unwrap();
    for path in [&out, &open.join("way/out.pcapng"), &open.join("way/open/out.pcapng")] {
        let why = restamp(&["-o", path.to_str().unwrap(), from]).unwrap_err();
        assert!(why.contains("is a symbolic link in a directory that other users"), "{why}");
    }
    intact();
    assert!(!files.from.with_file_name("out.pcapng").exists());

    // A hard link, and a file that everybody may read: replaced by one for its owner alone.
    std::fs::remove_file(&out).unwrap();
    std::fs::hard_link(&victim, &out).unwrap();
    json(&["--json", "-o", name, from]);
    intact();
    assert_eq!(mode(&out), 0o600);
    assert!(std::fs::read(&out).unwrap().len() > 10_000);

    // A link that is put there while the file is written is itself replaced.
    std::fs::remove_file(&out).unwrap();
    let mut written = Rewritten::create(&out).unwrap();
    written.block(b"block").unwrap();
    std::os::unix::fs::symlink(&victim, &out).unwrap();
    written.finish().unwrap();
    intact();
    assert_eq!((std::fs::read(&out).unwrap(), mode(&out)), (b"block".to_vec(), 0o600));
    // Nothing lies about beside it.
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 2, "the file and the link 'way'");
}
