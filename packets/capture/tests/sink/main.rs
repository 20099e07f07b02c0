//! Capture files, as our reader and as other people's programs see them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod dissector;
mod hard_times;
mod hostile;
mod made;
mod tools;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use made::*;
use truechimer_capture::sink::{CaptureFile, FileOptions, Mark, Sink, several};
use truechimer_capture::{Facts, Losses, Method, Packet};
use truechimer_pcapng::records::{self, Record};
use truechimer_pcapng::{Blocks, Content, Frames, Section, code};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_timehands::Status;

/// All records, comments and packets of a file, in order and in words.
fn story(path: &Path) -> Vec<String> {
    let mut blocks = Blocks::new(BufReader::new(File::open(path).unwrap()));
    let mut section = Section::new();
    let mut story = Vec::new();
    while let Some(block) = blocks.next_block().unwrap() {
        let (what, options) = match section.take(&block).unwrap() {
            Content::Section(options) => ("section", options),
            Content::Interface(_, options) => ("interface", options),
            Content::Packet(packet) => ("packet", packet.options),
            Content::Statistics(_, options) => ("statistics", options),
            Content::Other => panic!("only blocks that all programs know"),
        };
        story.push(what.to_owned());
        for option in options {
            let option = option.unwrap();
            match option.code {
                code::COMMENT => story.push(String::from_utf8(option.value.to_vec()).unwrap()),
                code::CUSTOM => match records::read(option.value).unwrap().unwrap() {
                    Record::Packet(record) => assert!(record.counted.is_some()),
                    Record::Change(json) => {
                        let change: truechimer_capture::convert::Change =
                            serde_json::from_str(json).unwrap();
                        let hand = change.hand.map(|used| used.generation);
                        story.push(format!("change at {} to {hand:?}", change.at.0));
                    }
                    Record::Mark(mark) => story.push(format!("{:?} {}", mark.kind, mark.value)),
                    Record::Unknown { .. } => panic!("unknown"),
                },
                _ => {}
            }
        }
    }
    assert_eq!(blocks.torn(), None);
    story
}

fn options(path: &Path) -> FileOptions {
    FileOptions { path: path.to_owned(), ..FileOptions::default() }
}

#[test]
fn a_capture_is_what_was_captured() {
    let scratch = Scratch::new();
    let path = scratch.file("a.pcapng");
    let options = FileOptions {
        filter: Some("udp port 9876".into()),
        comments: vec!["clock: made up".into()],
        ..options(&path)
    };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let data = frame(150);
    for n in 0..3 {
        sink.packet(&packet(&data), &stamped(n * 1_000_001)).unwrap();
    }
    sink.change(&change(20, None, None)).unwrap();
    sink.mark(Mark::Down).unwrap();
    sink.packet(&packet(&data), &stamped(4_000_000)).unwrap();
    sink.change(&change(30, Some(Status::Holdover), Some(6))).unwrap();
    sink.losses(&Losses { received: 9, ring: 2, kernel: 1, interface: 0 }, 2);
    let written = sink.finish().unwrap();
    assert_eq!((written.packets, written.unwritten, written.files), (4, 0, 1));
    assert_eq!(written.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(written.file.as_deref(), Some(path.as_path()));

    assert_eq!(
        story(&path),
        [
            "section",
            "clock: made up",
            "interface",
            "method packet (ring of 1 MiB), stamped by kernel at arrival (CLOCK_REALTIME)",
            "change at 10 to Some(5)",
            "packet",
            "packet",
            "packet",
            "packet",
            "no clock: times are the system clock's from here on (no daemon)",
            "change at 20 to Some(5)",
            "Down 0",
            "wire went down before this",
            "statistics",
            "times of packets so far: 4 within a bound (at most ± 23.000 µs)",
            "clock: holdover from here on",
            "change at 30 to Some(6)",
        ]
    );
    let mut frames = Frames::new(BufReader::new(File::open(&path).unwrap())).unwrap();
    let mut times = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        assert_eq!(frame.data, data);
        let record = frame.record.unwrap();
        assert_eq!((record.method, record.generation, record.bound_ns), (1, 5, Some(23_000)));
        times.push(frame.unix_ns.unwrap() - START);
    }
    assert_eq!(times, [0, 1_000_001, 2_000_002, 4_000_000]);

    if let Some(lines) = tshark(&path, &["frame.time_epoch", "frame.len", "udp.dstport"]) {
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], "1795300000.001000001\t150\t9876");
    }
    if let Some(text) = capinfos(&path) {
        for line in [
            "Number of packets:   4",
            "nanoseconds (9)",
            "Name = wire",
            "Filter string = udp port 9876",
            "Number of stat entries = 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}

#[test]
fn a_stream_says_what_it_lacks_before_it_ends() {
    let scratch = Scratch::new();
    let path = scratch.file("lacking.pcapng");
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    for n in 0..3 {
        sink.packet(&packet(&frame(150)), &stamped(n)).unwrap();
        sink.losses(&Losses { received: 9, ring: 2, kernel: 1, interface: 5 }, 4);
        sink.flush().unwrap();
    }
    sink.finish().unwrap();
    let mut blocks = Blocks::new(BufReader::new(File::open(&path).unwrap()));
    let (mut section, mut told, mut packets) = (Section::new(), Vec::new(), 0);
    while let Some(block) = blocks.next_block().unwrap() {
        match section.take(&block).unwrap() {
            Content::Packet(_) => packets += 1,
            Content::Statistics(s, _) => told.push((packets, s.dropped, s.system_dropped)),
            _ => {}
        }
    }
    // Once when there is something to say, and at the end.
    assert_eq!(told, [(1, Some(6), Some(6)), (3, Some(6), Some(6))]);
}

#[test]
fn a_row_of_files_leaves_the_row_before_as_it_is() {
    let scratch = Scratch::new();
    let options =
        || FileOptions { rotate_bytes: Some(1 << 30), ..options(&scratch.file("row.pcapng")) };
    let mut files = Vec::new();
    for packets in 1..=3 {
        let mut sink = CaptureFile::create(&facts(), options()).unwrap();
        for n in 0..packets {
            sink.packet(&packet(&frame(150)), &stamped(n)).unwrap();
        }
        files.push(sink.finish().unwrap().file.unwrap());
    }
    // Begun within a second, or in three of them.
    for (packets, file) in (1..=3).zip(&files) {
        let found = story(file).iter().filter(|what| *what == "packet").count();
        assert_eq!(found, packets, "{file:?} of {:?}", scratch.names());
    }
    assert_eq!(scratch.names().len(), 3);
}

#[test]
fn several_interfaces_write_one_file() {
    let scratch = Scratch::new();
    let path = scratch.file("both.pcapng");
    let card = Facts { interface: "card".into(), method: Method::Hardware, ..facts() };
    let (mut parts, whole) = several(&[facts(), card], options(&path)).unwrap();
    for (part, (generation, packets)) in parts.iter_mut().zip([(5, 3), (6, 2)]) {
        part.change(&change(10, Some(Status::Synchronised), Some(generation))).unwrap();
        for n in 0..packets {
            part.packet(&packet(&frame(150)), &stamped(10 * generation + n)).unwrap();
        }
        part.losses(&Losses { received: packets + 2, ring: 2, ..Losses::default() }, generation);
        part.flush().unwrap();
        assert_eq!(part.written().packets, packets);
    }
    // The one goes away; the other goes on.
    parts[0].mark(Mark::Gone).unwrap();
    let written = parts[0].finish().unwrap();
    assert_eq!((written.packets, written.file.as_deref()), (3, Some(path.as_path())));
    parts[1].packet(&packet(&frame(150)), &stamped(90)).unwrap();
    assert_eq!(parts[1].finish().unwrap().packets, 3);
    let account = whole.written();
    assert_eq!(account.iter().map(|one| one.packets).collect::<Vec<_>>(), [3, 3]);
    assert!(account.iter().all(|one| one.bytes == std::fs::metadata(&path).unwrap().len()));

    let mut blocks = Blocks::new(BufReader::new(File::open(&path).unwrap()));
    let (mut section, mut times, mut told) = (Section::new(), Vec::new(), Vec::new());
    while let Some(block) = blocks.next_block().unwrap() {
        match section.take(&block).unwrap() {
            Content::Packet(p) => times.push((p.interface, section.nanos(&p).unwrap() - START)),
            Content::Statistics(s, _) => told.push((s.interface, s.system_dropped, s.delivered)),
            _ => {}
        }
    }
    let names: Vec<_> = section.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["wire", "card"]);
    assert_eq!(times, [(0, 50), (0, 51), (0, 52), (1, 60), (1, 61), (1, 90)]);
    // Each with its own losses, in the end once each.
    assert_eq!(told[told.len() - 2..], [(0, Some(7), Some(3)), (1, Some(8), Some(3))]);
    let story = story(&path);
    for part in ["change at 10 to Some(5)", "change at 10 to Some(6)", "wire is gone before this"] {
        assert_eq!(story.iter().filter(|what| *what == part).count(), 1, "{part}: {story:?}");
    }
    if let Some(lines) = tshark(&path, &["frame.interface_name", "frame.time_epoch"]) {
        assert_eq!(lines[3], "card\t1795300000.000000060");
    }
}

#[test]
fn several_interfaces_write_a_row_of_files() {
    let scratch = Scratch::new();
    let options =
        FileOptions { rotate_bytes: Some(20 << 10), ..options(&scratch.file("row.pcapng")) };
    let card = Facts { interface: "card".into(), method: Method::Hardware, ..facts() };
    let (mut parts, whole) = several(&[facts(), card], options).unwrap();
    for (part, generation) in parts.iter_mut().zip([5, 6]) {
        part.change(&change(10, Some(Status::Synchronised), Some(generation))).unwrap();
    }
    for n in 0..300 {
        // The second has a third of the packets.
        for part in parts.iter_mut().take(if n % 3 == 0 { 2 } else { 1 }) {
            part.packet(&packet(&frame(150)), &stamped(n)).unwrap();
        }
    }
    parts.iter_mut().for_each(|part| drop(part.finish().unwrap()));
    let names = scratch.names();
    let mut found = [Vec::new(), Vec::new()];
    for name in &names {
        // Each can be read alone: it has both interfaces and their clocks at its head, and both statistics in the end.
        let path = scratch.file(name);
        let mut blocks = Blocks::new(BufReader::new(File::open(&path).unwrap()));
        let (mut section, mut told) = (Section::new(), Vec::new());
        while let Some(block) = blocks.next_block().unwrap() {
            match section.take(&block).unwrap() {
                Content::Packet(p) => {
                    found[p.interface as usize].push(section.nanos(&p).unwrap() - START);
                }
                Content::Statistics(s, _) => told.push((s.interface, s.delivered)),
                _ => {}
            }
        }
        let interfaces: Vec<_> = section.interfaces().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(interfaces, ["wire", "card"], "{name}");
        let so_far = found.each_ref().map(|times| Some(times.len() as u64));
        assert_eq!(told, [(0, so_far[0]), (1, so_far[1])], "{name}");
        let story = story(&path);
        for part in ["change at 10 to Some(5)", "change at 10 to Some(6)"] {
            assert_eq!(story.iter().filter(|what| *what == part).count(), 1, "{name}: {story:?}");
        }
    }
    assert_eq!(found[0], (0..300).collect::<Vec<_>>());
    assert_eq!(found[1], (0..300).step_by(3).collect::<Vec<_>>());
    for (written, found) in whole.written().iter().zip(&found) {
        assert_eq!((written.packets, written.files), (found.len() as u64, names.len() as u64));
    }
    assert!(names.len() > 3, "{names:?}");
}

/// Packets of a compressed file, by zstd; `None`, and a word about it, where there is none.
fn unpacked(path: &Path) -> Option<Vec<i64>> {
    let output = std::process::Command::new("zstd").arg("-dcq").arg(path).output();
    let output = or_skip(output.map_err(|_| Lacking("zstd is not here".into())))?;
    assert!(output.status.success(), "{output:?}");
    let mut frames = Frames::new(&output.stdout[..]).unwrap();
    let mut times = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        times.push(frame.unix_ns.unwrap() - START);
    }
    assert_eq!(frames.torn(), None);
    Some(times)
}

#[test]
fn compressed_files_in_a_row_are_whole_each() {
    let scratch = Scratch::new();
    let zstd = std::process::Command::new("zstd").arg("-V").output();
    if or_skip(zstd.map_err(|_| Lacking("zstd is not here".into()))).is_none() {
        return;
    }
    let options = FileOptions {
        zstd: Some(1),
        rotate_bytes: Some(20 << 10),
        ..options(&scratch.file("row.pcapng.zst"))
    };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let mut n = 0;
    // Until there are some: what zstd has written by now is its own affair.
    while sink.written().files < 4 {
        for _ in 0..2000 {
            sink.packet(&packet(&frame(150)), &stamped(n)).unwrap();
            n += 1;
        }
        sink.flush().unwrap();
        assert!(n < 20_000_000, "never another file");
    }
    let written = sink.finish().unwrap();
    assert_eq!((written.packets, written.unwritten), (n, 0));
    let names = scratch.names();
    assert!(names.iter().all(|name| name.ends_with(".pcapng.zst")), "{names:?}");
    assert_eq!(names.len() as u64, written.files);
    let length = |name: &String| std::fs::metadata(scratch.file(name)).unwrap().len();
    assert_eq!(names.iter().map(length).sum::<u64>(), written.bytes);
    let mut times = Vec::new();
    for name in &names {
        times.extend(unpacked(&scratch.file(name)).unwrap());
    }
    assert_eq!(times, (0..n as i64).collect::<Vec<_>>());
}

#[test]
fn compression_that_ends_is_an_error_that_names_the_file() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let tell: fn(&str) = |text| TOLD.lock().unwrap().push(text.to_owned());
    let why = {
        let full = options(Path::new("/dev/full"));
        let options = FileOptions { zstd: Some(3), tell: Some(tell), ..full };
        let Some(mut sink) =
            or_skip(CaptureFile::create(&facts(), options).map_err(|why| Lacking(why.to_string())))
        else {
            return;
        };
        sink.packet(&packet(&frame(150)), &stamped(0)).unwrap();
        sink.finish().unwrap_err().to_string()
    };
    assert!(why.starts_with("/dev/full: compressing: zstd ended with exit status"), "{why}");
    let told = TOLD.lock().unwrap().concat();
    assert!(told.contains("counting the packets that are there, in up to "), "{told}");
    assert!(told.starts_with("/dev/full: zstd ended") && told.contains("bytes unpacked"), "{told}");
    let standard = FileOptions { zstd: Some(3), ..options(Path::new("-")) };
    let why = CaptureFile::create(&facts(), standard).unwrap_err().to_string();
    assert!(why.contains("standard output"), "{why}");
}

#[test]
fn tags_are_put_back_where_they_were() {
    let scratch = Scratch::new();
    let path = scratch.file("tags.pcapng");
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    let (long, short) = (frame(200), frame(60));
    let tag = Some([0x81, 0, 0, 42]);
    let tiny = [1u8; 8];
    for data in [&short[..], &long[..], &tiny[..]] {
        sink.packet(&Packet { tag, ..packet(data) }, &stamped(1)).unwrap();
    }
    sink.finish().unwrap();
    let mut frames = Frames::new(BufReader::new(File::open(&path).unwrap())).unwrap();
    let first = frames.next_frame().unwrap().unwrap();
    assert_eq!(first.data, [&short[..12], &[0x81, 0, 0, 42], &short[12..]].concat());
    assert_eq!(first.length, 64);
    // No longer than asked for, but for its length on the wire.
    let second = frames.next_frame().unwrap().unwrap();
    assert_eq!(second.data, [&long[..12], &[0x81, 0, 0, 42], &long[12..196]].concat());
    assert_eq!(second.length, 204);
    // Nothing to put it into.
    let third = frames.next_frame().unwrap().unwrap();
    assert_eq!((third.data, third.length), (&tiny[..], 12));
    if let Some(lines) = tshark(&path, &["vlan.id", "udp.dstport"]) {
        assert_eq!(lines[..2], ["42\t9876", "42\t9876"]);
    }
}

#[test]
fn the_state_of_the_clock_is_repeated() {
    let scratch = Scratch::new();
    let path = scratch.file("long.pcapng");
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let data = frame(60);
    for n in 0..2500 {
        sink.packet(&packet(&data), &stamped(n)).unwrap();
    }
    let bytes = sink.finish().unwrap().bytes;
    let changes = story(&path).iter().filter(|line| line.starts_with("change")).count();
    // At the beginning, and with the packets that begin each further 64 KiB.
    assert_eq!(changes as u64, 1 + bytes / (64 << 10));
}

#[test]
fn a_row_of_files_each_complete_in_itself() {
    let scratch = Scratch::new();
    let path = scratch.file("row.pcapng");
    let options = FileOptions { rotate_bytes: Some(20_000), keep: Some(3), ..options(&path) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let data = frame(150);
    for n in 0..500 {
        if n == 450 {
            sink.change(&change(20, Some(Status::Synchronised), Some(6))).unwrap();
        }
        sink.packet(&packet(&data), &stamped(n)).unwrap();
        sink.flush().unwrap();
    }
    let written = sink.finish().unwrap();
    assert_eq!(written.packets, 500);
    let names = scratch.names();
    assert_eq!(names.len(), 3, "{names:?}");
    let last = format!("row_{:05}_", written.files);
    assert!(names[2].starts_with(&last) && names[2].ends_with(".pcapng"), "{names:?}");
    let mut packets = Vec::new();
    for name in &names {
        let path = scratch.file(name);
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(length < 21_500, "{name} is {length} bytes long");
        let story = story(&path);
        assert!(story[3].starts_with("change at"), "{story:?}");
        let mut frames = Frames::new(BufReader::new(File::open(&path).unwrap())).unwrap();
        while let Some(frame) = frames.next_frame().unwrap() {
            packets.push(frame.unix_ns.unwrap() - START);
        }
    }
    // The last of them, and none of those is missing.
    let first = packets[0];
    assert_eq!(packets, (first..500).collect::<Vec<_>>());
    assert!(story(&scratch.file(&names[2]))[3] == "change at 20 to Some(6)");
}

#[test]
fn a_file_without_packets_is_never_too_large() {
    let scratch = Scratch::new();
    let path = scratch.file("small.pcapng");
    let options = FileOptions { rotate_bytes: Some(1), ..options(&path) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(1, None, None)).unwrap();
    for _ in 0..10 {
        sink.flush().unwrap();
    }
    assert_eq!(sink.written().files, 1);
    for n in 0..3 {
        sink.packet(&packet(&frame(60)), &stamped(n)).unwrap();
        sink.flush().unwrap();
    }
    sink.finish().unwrap();
    let there = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!((sink.written().files, there), (4, 4));
}

/// Whenever its writer was killed.
#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let scratch = Scratch::new();
    let path = scratch.file("cut.pcapng");
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    sink.change(&change(1, Some(Status::Synchronised), Some(1))).unwrap();
    for n in 0..5 {
        sink.packet(&packet(&frame(60 + n)), &stamped(n as u64)).unwrap();
    }
    sink.finish().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut ends = vec![0];
    let mut blocks = truechimer_pcapng::Blocks::new(whole.as_slice());
    let mut section = truechimer_pcapng::Section::new();
    let mut packets = vec![0];
    while let Some(block) = blocks.next_block().unwrap() {
        let is_packet = block.kind == truechimer_pcapng::kind::PACKET;
        section.take(&block).unwrap();
        ends.push(block.offset as usize + block.bytes.len());
        packets.push(packets.last().unwrap() + usize::from(is_packet));
    }
    assert_eq!((*ends.last().unwrap(), *packets.last().unwrap()), (whole.len(), 5));
    for length in 4..=whole.len() {
        let last = ends.iter().rposition(|end| *end <= length).unwrap();
        let mut frames = truechimer_pcapng::Frames::new(&whole[..length]).unwrap();
        let mut found = 0;
        while let Some(frame) = frames.next_frame().unwrap() {
            assert!(frame.record.is_some());
            found += 1;
        }
        assert_eq!((found, frames.torn().is_none()), (packets[last], ends[last] == length));
    }
    for length in 0..4 {
        assert!(truechimer_pcapng::Frames::new(&whole[..length]).is_err());
    }
}

#[test]
fn a_row_by_time_goes_on_without_packets() {
    let scratch = Scratch::new();
    let path = scratch.file("quiet");
    let options = FileOptions { rotate_after: Some(Duration::ZERO), ..options(&path) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    // Nothing is begun before the clock is known.
    sink.flush().unwrap();
    sink.change(&change(10, None, None)).unwrap();
    sink.flush().unwrap();
    sink.flush().unwrap();
    let written = sink.finish().unwrap();
    assert_eq!((written.files, scratch.names().len()), (3, 3));
    for name in scratch.names() {
        assert_eq!(story(&scratch.file(&name))[0], "section");
    }
}

#[test]
fn no_file_is_begun_after_the_last_and_none_is_deleted() {
    let scratch = Scratch::new();
    let path = scratch.file("hours");
    let last = Some(2);
    let options = FileOptions { rotate_after: Some(Duration::ZERO), last, ..options(&path) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, None, None)).unwrap();
    for _ in 0..5 {
        sink.flush().unwrap();
    }
    assert_eq!((sink.finish().unwrap().files, scratch.names().len()), (2, 2));
}

#[test]
fn what_cannot_hold_a_capture_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let refused =
        |path: &Path| CaptureFile::create(&facts(), options(path)).unwrap_err().to_string();
    let told = refused(&scratch.0);
    assert!(told.ends_with("is a directory: name a file in it"), "{told}");
    assert!(told.starts_with(&scratch.0.display().to_string()), "{told}");
    let told = refused(&scratch.file("none/a.pcapng"));
    assert!(told.contains("none/a.pcapng: opening: "), "{told}");
    let row = FileOptions { rotate_bytes: Some(1), ..options(Path::new("-")) };
    let told = CaptureFile::create(&facts(), row).unwrap_err().to_string();
    assert!(told.contains("cannot be a row of files"), "{told}");

    // An old file is overwritten, and keeps its permissions; a new one is private.
    let (old, new) = (scratch.file("old"), scratch.file("new"));
    std::fs::write(&old, vec![b'x'; 10_000]).unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
    for path in [&old, &new] {
        CaptureFile::create(&facts(), options(path)).unwrap().finish().unwrap();
        assert_eq!(story(path)[0], "section");
    }
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&old), mode(&new)), (0o640, 0o600));
}

#[test]
fn a_pipe_gets_its_packets_at_once() {
    let scratch = Scratch::new();
    let path = scratch.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut file = File::open(path).unwrap();
            let mut bytes = vec![0; 4096];
            let mut there = 0;
            // Until the packet is there: it comes without the file's being closed.
            while there < 600 {
                there += file.read(&mut bytes[there..]).unwrap();
            }
            bytes.truncate(there);
            bytes
        })
    };
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    let data = frame(150);
    let mut sent = 0;
    while sent < 600 {
        sink.packet(&packet(&data), &stamped(0)).unwrap();
        sink.flush().unwrap();
        sent = sink.written().bytes;
    }
    let bytes = reader.join().unwrap();
    assert!(Frames::new(bytes.as_slice()).unwrap().next_frame().unwrap().is_some());
    // Nobody reads any more.
    let mut ended = None;
    for _ in 0..10_000 {
        if let Err(why) = sink.packet(&packet(&data), &stamped(0)).and_then(|_| sink.flush()) {
            ended = Some(why);
            break;
        }
    }
    assert!(matches!(ended, Some(truechimer_capture::sink::SinkError::Closed)), "{ended:?}");
    assert!(sink.finish().is_ok());
}

#[test]
fn two_captures_do_not_share_a_file() {
    let scratch = Scratch::new();
    let path = scratch.file("one.pcapng");
    let mut first = CaptureFile::create(&facts(), options(&path)).unwrap();
    first.change(&change(10, None, None)).unwrap();
    let data = frame(100);
    first.packet(&packet(&data), &stamped(1)).unwrap();
    first.flush().unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let second = CaptureFile::create(&facts(), options(&path)).unwrap_err().to_string();
    assert!(second.contains("one.pcapng") && second.contains("another capture"), "{second}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "nothing was emptied");
    first.finish().unwrap();
    drop(first);
    CaptureFile::create(&facts(), options(&path)).unwrap();
}
