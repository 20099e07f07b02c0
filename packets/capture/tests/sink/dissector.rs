//! Fields that the dissector for Wireshark makes of our comments, as tshark has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use truechimer_capture::Quality;
use truechimer_capture::sink::{CaptureFile, FileOptions, Sink};
use truechimer_pcapng::{comment, write};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_timehands::Status;

use crate::made::{Scratch, change, facts, frame, packet, stamped};
use crate::options;

const FIELDS: [&str; 8] =
    ["bound", "quality", "status", "method", "stamped", "count", "count_error", "epoch"];

/// Standard output of tshark with the dissector; `None` where there is no tshark.
fn tshark(file: &Path, words: &[&str]) -> Option<String> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let script = script.join("../../contrib/wireshark/truechimer.lua");
    let mut command = Command::new("tshark");
    command.args(["-n", "-X"]).arg(format!("lua_script:{}", script.display()));
    let output = command.arg("-r").arg(file).args(words).output();
    let output = or_skip(output.map_err(|_| Lacking("tshark is not here".to_owned())))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Values of all fields, and whether a comment was malformed, packet by packet.
fn fields(file: &Path) -> Option<Vec<String>> {
    let names = FIELDS.map(|name| format!("truechimer.{name}"));
    let mut words = vec!["-T", "fields", "-E", "separator=|"];
    for name in names.iter().map(String::as_str).chain(["truechimer.malformed"]) {
        words.extend(["-e", name]);
    }
    let text = tshark(file, &words)?;
    Some(text.lines().map(str::to_owned).collect())
}

/// A capture of ours: a bound, no clock, and no count.
fn ours(path: &Path, packet_comments: bool) {
    let options = FileOptions { packet_comments, ..options(path) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    let data = frame(100);
    sink.change(&change(10, Some(Status::Holdover), Some(5))).unwrap();
    sink.packet(&packet(&data), &stamped(1)).unwrap();
    sink.change(&change(20, None, None)).unwrap();
    let unbounded = stamped(2);
    let unbounded = truechimer_capture::Stamped {
        quality: Quality::Unsynchronised,
        bound: None,
        instant: None,
        generation: 0,
        ..unbounded
    };
    sink.packet(&packet(&data), &unbounded).unwrap();
    let uncounted =
        truechimer_capture::Stamped { quality: Quality::Uncounted, counted: None, ..unbounded };
    sink.packet(&packet(&data), &uncounted).unwrap();
    sink.finish().unwrap();
}

#[test]
fn bounds_are_fields_of_wireshark() {
    let scratch = Scratch::new();
    let file = scratch.file("a.pcapng");
    ours(&file, true);
    let Some(found) = fields(&file) else { return };
    let one = stamped(1);
    let counted = one.counted.unwrap();
    let bound = truechimer_capture::sink::bound_ns(one.bound.unwrap()).unwrap();
    let (count, error, epoch) = (counted.count.0, counted.error.0, counted.epoch.0);
    let two = stamped(2).counted.unwrap();
    assert_eq!(
        found,
        [
            format!("{bound}|bounded|holdover|packet|realtime|{count}|{error}|{epoch}|"),
            format!(
                "|unsynchronised|none|packet|realtime|{}|{}|{}|",
                two.count.0, two.error.0, two.epoch.0
            ),
            "|uncounted|none|packet|realtime||||".to_owned(),
        ]
    );
    // In filters and columns.
    let numbers = |filter: &str| {
        tshark(&file, &["-Y", filter, "-T", "fields", "-e", "frame.number"]).unwrap()
    };
    assert_eq!(numbers(&format!("truechimer.bound >= {bound}")), "1\n");
    assert_eq!(numbers(&format!("truechimer.bound > {bound}")), "");
    assert_eq!(numbers("truechimer && !truechimer.bound"), "2\n3\n");
    assert_eq!(numbers("truechimer.status == \"none\" && truechimer.count"), "2\n");
    let column = "gui.column.format:\"Bound\",\"%Cus:truechimer.bound\"";
    assert!(tshark(&file, &["-o", column]).unwrap().starts_with(&bound.to_string()));
}

#[test]
fn packets_without_comments_have_no_fields() {
    let scratch = Scratch::new();
    let file = scratch.file("a.pcapng");
    ours(&file, false);
    let Some(found) = fields(&file) else { return };
    assert_eq!(found, ["||||||||"; 3]);
    // The older format has no comments at all.
    let pcap = scratch.file("a.pcap");
    let mut bytes = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0".to_vec();
    for word in [5u32, 6, 60, 60] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([0xff; 60]);
    std::fs::write(&pcap, bytes).unwrap();
    assert_eq!(fields(&pcap).unwrap(), ["||||||||"]);
}

#[test]
fn hostile_comments_are_named_and_nothing_else() {
    let good = ["5 ns, bounded", "5 ns, bounded, of-later thing, epoch 4294967295"];
    let many = format!("5 ns, bounded{}", ", x y".repeat(3000));
    let long = format!("{} ns, bounded", "9".repeat(60_000));
    let bad = [
        "",
        "8 ns",
        "-5 ns, bounded",
        "0x5 ns, bounded",
        "4294967295 ns, bounded",
        "5 ns, unsynchronised",
        "? ns, bounded",
        "5 ns, bounded, count 18446744073709551616 ± 5",
        "5 ns, bounded, count 5",
        "5 ns, bounded, count 5 ± 1e3",
        "5 ns, bounded, epoch 1, epoch 1",
        "5 ns, bounded, epoch 4294967296",
        "5 ns, bounded, clock %s%n%1000000000d",
        "5 ns, bounded, method ../../etc",
        "5 ns, bounded,",
        &many,
        &long,
    ];
    let mut bytes = Vec::new();
    write::section(&mut bytes).end();
    write::interface(&mut bytes, 1, 0).end();
    let (empty, whole) = ([].as_slice(), [0xff; 60].as_slice());
    for (n, text) in good.iter().chain(&bad).enumerate() {
        // Also with no byte of the packet itself, and with bytes that are no text.
        let data = if n % 2 == 0 { whole } else { empty };
        let text = [comment::BEGINNING.as_bytes(), text.as_bytes()].concat();
        write::packet(&mut bytes, 0, 5, &[data], 60).option(1, &text).end();
    }
    let text = [comment::BEGINNING.as_bytes(), b"\xff\0\xfe ns, bounded"].concat();
    write::packet(&mut bytes, 0, 5, &[whole], 60).option(1, &text).end();
    write::packet(&mut bytes, 0, 5, &[whole], 60).comment("Truechimer: a person's word").end();
    // A good one behind a bad one is taken; of two good ones the first.
    let second = ["x", "7 ns, bounded", "8 ns, bounded"].map(|t| [comment::BEGINNING, t].concat());
    let block = write::packet(&mut bytes, 0, 5, &[whole], 60);
    second.iter().fold(block, |block, text| block.comment(text)).end();

    let scratch = Scratch::new();
    let file = scratch.file("hostile.pcapng");
    std::fs::write(&file, bytes).unwrap();
    let Some(found) = fields(&file) else { return };
    let (first, rest) = found.split_at(good.len());
    assert_eq!(first, ["5|bounded|||||||", "5|bounded||||||4294967295|"]);
    let (named, last) = rest.split_at(bad.len());
    for (line, text) in named.iter().zip(bad) {
        assert_eq!(line, "||||||||1", "{}", text.get(..60).unwrap_or(text));
    }
    assert_eq!(last, ["||||||||1", "||||||||", "7|bounded|||||||"]);
}
