//! The command on files of which everything is known.

use std::fs;
use std::path::PathBuf;

use super::{Qos, run};
use truechimer_command::parse;
use truechimer_command::{Failure, Outcome};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("truechimer-qos-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A capture (pcap) of 100 numbered packets every 100 ms, `late` ns later, without some.
    fn capture(&self, name: &str, late: i64, hop_limit: u8, lost: &[u32]) -> String {
        let mut file = Vec::new();
        for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 101] {
            file.extend(word.to_le_bytes());
        }
        for n in (0..100u32).filter(|n| !lost.contains(n)) {
            let ns = 1_700_000_000_000_000_000 + i64::from(n) * 100_000_000 + late;
            let mut packet = vec![0x45, 0, 0, 32, 0, n as u8, 0, 0, hop_limit, 17, 0, 0];
            packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0x23, 0x28, 0, 12, 0, 0]);
            packet.extend(n.to_be_bytes());
            for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, 32, 32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(packet);
        }
        let path = self.0.join(name);
        fs::write(&path, file).unwrap();
        path.display().to_string()
    }
}

/// A capture (pcapng) of 100 numbered packets every 100 ms but for some, which ends with what each of the
/// writers says: counts of drops in statistics, or a mark before a packet.
fn said_to_lack(folder: &Folder, name: &str, lost: &[u32], says: &[Says]) -> String {
    use truechimer_pcapng::records::{Mark, MarkKind};
    use truechimer_pcapng::{code, write};
    let mut file = Vec::new();
    write::section(&mut file).end();
    write::interface(&mut file, 101, 0).end();
    for n in (0..100u32).filter(|n| !lost.contains(n)) {
        let mut packet = vec![0x45, 0, 0, 32, 0, n as u8, 0, 0, 64, 17, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0x23, 0x28, 0, 12, 0, 0]);
        packet.extend(n.to_be_bytes());
        let ns = 1_700_000_000_000_000_000 + i64::from(n) * 100_000_000;
        let block = write::packet(&mut file, 0, ns, &[&packet], 32);
        let marks = says.iter().filter_map(|says| match says {
            Says::Mark(at, kind, value) if *at == n => Some((*kind, *value)),
            _ => None,
        });
        let mark = |(kind, value): (MarkKind, u64)| Mark { kind, unix_ns: ns, value }.encode();
        marks.fold(block, |block, said| block.record(&mark(said))).end();
    }
    for says in says {
        if let Says::Statistics(interface, system) = says {
            let block = write::statistics(&mut file, 0, 0);
            let block = block.count(code::DROPPED, *interface);
            block.count(code::SYSTEM_DROPPED, *system).end();
        }
    }
    let path = folder.0.join(name);
    fs::write(&path, file).unwrap();
    path.display().to_string()
}

enum Says {
    Statistics(u64, u64),
    Mark(u32, truechimer_pcapng::records::MarkKind, u64),
}

#[test]
fn what_a_capture_lacks_is_no_loss_of_the_path_without_a_word() {
    use truechimer_pcapng::records::MarkKind;
    let folder = Folder::new("lacks");
    let a = said_to_lack(&folder, "a.pcapng", &[], &[Says::Statistics(0, 0)]);
    let warnings = |b: &str| {
        let (_, json) = output(&[&a, b, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["flows"][0]["path"]["loss"]["lost"], 3);
        let notes = json["notes"].as_array().unwrap().clone();
        let texts = notes.iter().map(|note| note["text"].as_str().unwrap().to_owned());
        let about_bounds = "no packet's time has a bound";
        texts
            .filter(|text| text.starts_with("b.") && !text.contains(about_bounds))
            .collect::<Vec<_>>()
    };
    let lost = [7, 8, 30];
    // Statistics count from the beginning, and a mark counts what they count as well.
    for says in [
        vec![Says::Statistics(0, 2), Says::Statistics(1, 2)],
        vec![Says::Mark(9, MarkKind::Unwritten, 2), Says::Mark(31, MarkKind::Unwritten, 1)],
        vec![Says::Mark(9, MarkKind::Unwritten, 2), Says::Statistics(0, 3)],
    ] {
        let told = warnings(&said_to_lack(&folder, "b.pcapng", &lost, &says));
        assert!(
            matches!(told.as_slice(), [one] if one.contains("up to 3 passed there")),
            "{told:?}"
        );
    }
    let told = warnings(&said_to_lack(&folder, "b.pcapng", &lost, &[Says::Statistics(0, 0)]));
    assert!(told.is_empty(), "{told:?}");
    let down = said_to_lack(&folder, "b.pcapng", &lost, &[Says::Mark(31, MarkKind::Down, 0)]);
    let told = warnings(&down);
    assert!(matches!(told.as_slice(), [one] if one.contains("went down 1 time")), "{told:?}");
}

fn parsed(words: &[&str]) -> Qos {
    parse::options(words).unwrap()
}

fn output(words: &[&str]) -> (Outcome, String) {
    let mut out = Vec::new();
    let outcome = run(&parsed(words), &mut out).unwrap();
    (outcome, String::from_utf8(out).unwrap())
}

#[test]
fn two_files_give_one_way_delays_and_losses() {
    let folder = Folder::new("delays");
    let a = folder.capture("a.pcap", 0, 64, &[]);
    let b = folder.capture("b.pcap", 5_000_000, 63, &[7, 8, 30]);
    let (outcome, text) = output(&[&a, &b, "--assume", "20us,30us"]);
    assert_eq!(outcome, Outcome::Good);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for part in
        ["1 > 2", "97", "3 (3.00%)", "5.00 ms", "± 50.0 µs", "10.0.0.1:8080 > 10.0.0.2:9000"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (_, json) = output(&[&a, &b, "--json", "--assume", "20us"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let path = &json["flows"][0]["path"];
    assert_eq!(path["delay"]["median_ns"], 5_000_000);
    assert_eq!((&path["loss"]["lost"], &path["loss"]["longest_run"]), (&3.into(), &2.into()));
    assert_eq!((&path["bound_max_ns"], &path["evidence"]), (&40_000.into(), &"hop-limit".into()));
    let (_, csv) = output(&[&a, &b, "--csv"]);
    let columns = |line: &str| line.split(',').count();
    let head = columns(csv.lines().next().unwrap());
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.lines().all(|line| columns(line) == head), "{csv}");
    let (_, series) = output(&[&a, &b, "--csv", "--series", "--interval", "5s"]);
    assert!(series.lines().filter(|line| line.contains(",between,")).count() >= 2, "{series}");
}

#[test]
fn losses_that_are_not_decided_yet_have_no_chart() {
    let folder = Folder::new("undecided");
    let a = folder.capture("a.pcap", 0, 64, &[]);
    let page = folder.0.join("page.html").display().to_string();
    for (lost, drawn) in [(vec![7, 8, 30], true), (vec![85], false)] {
        let b = folder.capture("b.pcap", 5_000_000, 63, &lost);
        output(&[&a, &b, "--html", &page]);
        let page = fs::read_to_string(&page).unwrap();
        assert_eq!(page.contains("Losses over time"), drawn, "{lost:?}");
        let title = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
        assert!(title.starts_with("From ") && title.ends_with(", and back"), "{title}");
        assert!(page.contains("<dt>host</dt><dd>not told</dd>"), "{page}");
        // Of files the clock during the run is not known.
        assert!(page.contains("<dt>stamps</dt>") && !page.contains("<dt>clock</dt>"));
    }
}

/// A capture (pcapng) of ten packets, `late` ns later, at an interface of this description, by us or by others.
fn described(folder: &Folder, name: &str, late: i64, description: &str, ours: bool) -> String {
    use truechimer_capture::convert::{Change, Continuity, Identity};
    use truechimer_pcapng::{code, records, write};
    use truechimer_time::{BootId, Count, CountSpan, CounterKind, Epoch, Period};
    let identity = Identity {
        kind: CounterKind::Tsc,
        boot: BootId([7; 16]),
        period: Period::NANOSECOND,
        resolution: CountSpan(1),
    };
    let continuity = Continuity {
        count: Count(0),
        raw_ns: 0,
        monotonic_ns: 0,
        suspended_ns: 0,
        width: CountSpan(30),
    };
    let change = Change {
        at: Count(0),
        counter: identity,
        epoch: Epoch(3),
        status: None,
        reason: None,
        hand: None,
        continuity,
    };
    let record = records::change(&serde_json::to_string(&change).unwrap());
    let mut file = Vec::new();
    write::section(&mut file).end();
    let interface = write::interface(&mut file, 101, 0).option(code::RESOLUTION, &[9]);
    let interface = interface.text(code::DESCRIPTION, description);
    if ours { interface.record(&record) } else { interface }.end();
    for n in 0..10u32 {
        let mut packet = vec![0x45, 0, 0, 32, 0, n as u8, 0, 0, 64, 17, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0x23, 0x28, 0, 12, 0, 0]);
        packet.extend(n.to_be_bytes());
        let ns = 1_700_000_000_000_000_000 + i64::from(n) * 100_000_000 + late;
        write::packet(&mut file, 0, ns, &[&packet], 32).end();
    }
    let path = folder.0.join(name);
    fs::write(&path, file).unwrap();
    path.display().to_string()
}

#[test]
fn the_page_names_the_hosts_that_files_of_ours_name() {
    let folder = Folder::new("hosts");
    let page = folder.0.join("page.html").display().to_string();
    let told = |files: &[&str]| {
        output(&[files, &["--html", &page]].concat());
        let page = fs::read_to_string(&page).unwrap();
        page.split("<dt>host</dt><dd>").nth(1).unwrap().split("</dd>").next().unwrap().to_owned()
    };
    let file = |name: &str, late: i64, description: &str| {
        described(&folder, name, late, description, true)
    };
    let (alpha, beta) = (file("a", 0, "host alpha"), file("b", 5_000_000, "host beta"));
    let (again, without) = (file("again", 5_000_000, "host alpha"), file("none", 0, "host "));
    // Whatever others describe so, it is no word of ours.
    let theirs = described(&folder, "theirs", 0, "host uplink", false);
    assert_eq!(told(&[&alpha]), "alpha");
    assert_eq!(told(&[&alpha, &beta]), "a: alpha; b: beta");
    assert_eq!(told(&[&alpha, &again]), "alpha");
    assert_eq!(told(&[&without]), "not told");
    assert_eq!(told(&[&theirs, &beta]), "theirs: not told; b: beta");
    // One after the other in one file.
    let both = folder.0.join("both").display().to_string();
    fs::write(&both, [&theirs, &alpha, &beta].map(|path| fs::read(path).unwrap()).concat())
        .unwrap();
    assert_eq!(told(&[&both]), "alpha, beta, not told");
}

#[test]
fn the_tile_counts_flows_that_are_not_shown_as_well() {
    let folder = Folder::new("tile");
    let packets: Vec<Said> =
        (0..150u16).map(|n| ((1, 4000 + n % 30), (2, 7000 + n % 30), u32::from(n))).collect();
    let file = conversations(&folder, &packets);
    let path = folder.0.join("page.html").display().to_string();
    output(&[&file, "--top", "5", "--html", &path]);
    let page = fs::read_to_string(path).unwrap();
    assert!(page.contains("<h1>Packets at "), "{page}");
    let tile = page.split("<dt>flows</dt>").nth(1).unwrap().split("</dd>").next().unwrap();
    assert!(tile.ends_with(">30"), "{tile}");
}

#[test]
fn a_clock_that_is_wrong_is_said_and_is_the_exit_status() {
    let folder = Folder::new("clock");
    let a = folder.capture("a.pcap", 0, 64, &[]);
    let b = folder.capture("b.pcap", -9_000_000, 63, &[]);
    let (outcome, text) = output(&[&a, &b]);
    assert_eq!(outcome, Outcome::Bad);
    assert!(text.contains("problem: 100 of 100 packets"), "{text}");
    // In that direction all is well.
    assert_eq!(output(&[&b, &a, "--direction", "forward"]).0, Outcome::Good);
}

#[test]
fn numbers_in_one_file_and_a_page() {
    let folder = Folder::new("numbers");
    let b = folder.capture("b.pcap", 0, 63, &[7, 8, 30]);
    let page = folder.0.join("page.html").display().to_string();
    let (_, text) = output(&[&b, "--sequence", "udp:9000@0:be32", "-v", "--html", &page]);
    assert!(text.contains("lost          3 (3.00%) of 100, in 2 runs"), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("10.0.0.1:8080") && page.contains("Time between packets"));
    let none = output(&[&b, "--flow", "10.9.9.9"]).1;
    assert!(none.contains("no flow has '10.9.9.9' in its name (--flow)"), "{none}");
    assert!(!none.contains("\nudp"), "{none}");
}

/// Source and destination (host, port), and when in ms.
type Said = ((u8, u16), (u8, u16), u32);

/// A capture (pcap) of UDP packets.
fn conversations(folder: &Folder, packets: &[Said]) -> String {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for ((from, source), (to, destination), ms) in packets {
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, *from];
        packet.extend([10, 0, 0, *to]);
        packet.extend(source.to_be_bytes());
        packet.extend(destination.to_be_bytes());
        packet.extend([0, 12, 0, 0, 1, 2, 3, 4]);
        for word in [1_700_000_000 + ms / 1000, ms % 1000 * 1_000_000, 32, 32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    let path = folder.0.join("conversations.pcap");
    fs::write(&path, file).unwrap();
    path.display().to_string()
}

#[test]
fn many_small_flows_are_few_rows() {
    let folder = Folder::new("small");
    let mut packets = Vec::new();
    for n in 0..60u16 {
        let ms = u32::from(n) * 1000;
        packets.push(((1, 40_000 + n), (2, 7000), ms));
        packets.push(((2, 7000), (1, 40_000 + n), ms + 3));
        // Each of these is all by itself.
        packets.push(((3, 9), (n as u8 + 50, 1900), ms + 5));
    }
    (0..5).for_each(|n| packets.push(((7, 5000), (8, 6000), 59_100 + n)));
    let file = conversations(&folder, &packets);
    let (_, text) = output(&[&file]);
    let rows = [
        "udp 10.0.0.1:* > 10.0.0.2:7000 (60 flows)\n       60           -        -    60  3.00 ms  3.00 ms",
        "udp 10.0.0.2:7000 > 10.0.0.1:* (60 flows)",
        "udp 10.0.0.7:5000 > 10.0.0.8:6000",
        "… and 60 more flows of one or two packets each, 60 packets: --top 0 shows all",
    ];
    for row in rows {
        assert!(text.contains(row), "{row} in {text}");
    }
    // Nobody numbers anything here.
    assert!(!text.contains("lost") && !text.contains("jitter"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("udp")).count(), 3, "{text}");
    let rows = |words: &[&str]| output(words).1.lines().filter(|l| l.starts_with("udp")).count();
    assert_eq!(rows(&[&file, "--ungrouped", "--top", "0"]), 181);
    assert_eq!(rows(&[&file, "--top", "0"]), 63);
    assert_eq!(rows(&[&file, "--top", "2"]), 2);
    assert_eq!(rows(&[&file, "--flow", "10.0.0.2:7000"]), 2);
    assert_eq!(rows(&[&file, "--flow", ":40003"]), 2);
    assert_eq!(output(&[&file, "--csv", "--top", "0"]).1.lines().count(), 182);
    let (_, json) = output(&[&file, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["flows"], 60);
    assert_eq!(json["groups"][0]["rtt"][0][0]["kind"], "first-answer");
    let page = folder.0.join("page.html").display().to_string();
    output(&[&file, "--html", &page]);
    assert!(fs::read_to_string(page).unwrap().contains("10.0.0.2:7000 (60 flows)"));
}

/// The line of figures below the first flow's name.
fn figures(text: &str) -> Vec<String> {
    let mut lines = text.lines().skip_while(|line| !line.contains(" > "));
    let line = lines.nth(1).expect("a flow and its figures");
    line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn a_lone_first_answer_is_no_round_trip_of_its_flow() {
    let folder = Folder::new("answer");
    let mut packets: Vec<Said> = (0..5).map(|n| ((1, 5000), (2, 7000), n * 20)).collect();
    packets.insert(1, ((2, 7000), (1, 5000), 7));
    let file = conversations(&folder, &packets);
    let (_, text) = output(&[&file]);
    assert!(!text.contains("rtt") && !text.contains("7.00 ms"), "{text}");
    let (_, csv) = output(&[&file, "--csv"]);
    assert!(!csv.contains("first answer"), "{csv}");
    // Whoever wants to know is told what it is.
    let (_, text) = output(&[&file, "-v"]);
    assert!(text.contains("UDP, first answer: min 7.00 ms") && text.contains("(1)"), "{text}");
}

#[test]
fn jitter_is_of_all_packets_not_of_the_last() {
    let folder = Folder::new("jitter");
    // RTP of 8 kHz every 20 ms; one packet of many is 12 ms late: J rises to 12 / 16 ms, then to
    // 1.453 ms, as the next one is on time again, and has all but vanished 100 packets later.
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..120u32 {
        let ms = n * 20 + if n == 10 { 12 } else { 0 };
        let mut packet = vec![0x45, 0, 0, 40, 0, n as u8, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
        packet.extend([10, 0, 0, 2, 0x13, 0x8c, 0x13, 0x8c, 0, 20, 0, 0, 0x80, 0]);
        packet.extend((n as u16).to_be_bytes());
        packet.extend((n * 160).to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        for word in [1_700_000_000 + ms / 1000, ms % 1000 * 1_000_000, 40, 40] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    let path = folder.0.join("rtp.pcap");
    fs::write(&path, file).unwrap();
    let name = path.display().to_string();
    let (_, text) = output(&[&name, "--rtp", "5004"]);
    let cells = figures(&text);
    assert!(cells.contains(&"1.45 ms".to_owned()), "the greatest: {text}");
    let (_, json) = output(&[&name, "--rtp", "5004", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rtp = &json["flows"][0]["seen"][0]["rtp"];
    assert!(rtp["jitter_ns"].as_f64().unwrap() < 10_000.0, "{rtp}");
    let mean = rtp["jitter_mean_ns"].as_f64().unwrap();
    let shown = super::screen::span(Some(mean as i64)).replace('\u{a0}', " ");
    assert!(cells.contains(&shown), "{shown} in {text}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new("errors");
    let path = folder.0.join("no.pcap");
    fs::write(&path, "no capture at all").unwrap();
    let name = path.display().to_string();
    for (words, part) in [
        (vec![name.as_str()], "no.pcap"),
        (vec!["/nonexistent.pcap"], "nonexistent"),
        (vec![name.as_str(), "--between", "a"], "--between"),
    ] {
        match run(&parsed(&words), &mut Vec::new()) {
            Err(Failure::Said(why)) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    for words in [
        &["x", "--rtp", "many"][..],
        &["x", "--rtp-clock", "200=8000"],
        &["x", "--rtp-clock", "0"],
        &["x", "--sequence", "udp@0"],
        &["x", "-i", "lo"],
    ] {
        assert!(parse::options::<Qos>(words).is_err(), "{words:?}");
    }
    match run(&parsed(&[]), &mut Vec::new()) {
        Err(Failure::Said(why)) => assert!(why.contains("name a capture"), "{why}"),
        other => panic!("{other:?}"),
    }
}
