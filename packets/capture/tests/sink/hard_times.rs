//! A disk that is full, and a program that is killed. Both take a process of their own: this test
//! program, started once more.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use truechimer_capture::sink::{CaptureFile, FileOptions, Sink, SinkError, several};
use truechimer_pcapng::Frames;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_timehands::Status;

use super::{change, facts, frame, options, packet, stamped, story, tshark};
use crate::made::Scratch;

/// Names the directory that the process is to work in.
const DIRECTORY: &str = "TRUECHIMER_TEST_SINK";

/// The directory to work in, if this is the calling test's own process.
fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Arguments and environment by which this test program runs the calling test once more, to work
/// in this directory.
fn again(command: &mut Command, directory: &Path) {
    let thread = std::thread::current();
    let name = thread.name().expect("tests have names");
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    command.env(DIRECTORY, directory);
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn packets(path: &Path) -> (Vec<i64>, bool) {
    let mut frames = Frames::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut times = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        times.push(frame.unix_ns.unwrap() - super::START);
    }
    (times, frames.torn().is_some())
}

fn fill_a_disk(directory: &Path) {
    let (path, ballast) = (directory.join("full.pcapng"), directory.join("ballast"));
    std::fs::write(&ballast, vec![0; 300 << 10]).unwrap();
    let mut sink = CaptureFile::create(&facts(), options(&path)).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let data = frame(150);
    let mut sent = 0;
    let mut send = |sink: &mut CaptureFile, many| {
        for _ in 0..many {
            sink.packet(&packet(&data), &stamped(sent)).unwrap();
            sent += 1;
        }
        sent
    };
    send(&mut sink, 5000);
    let full = sink.written().clone();
    assert!(full.unwritten > 0, "{full:?}");
    let trouble = full.trouble.unwrap();
    assert!(trouble.starts_with(&path.display().to_string()), "{trouble}");
    // What is there can be read already.
    let (there, torn) = packets(&path);
    assert_eq!((there.len() as u64, torn), (full.packets, false));
    assert_eq!(there, (0..there.len() as i64).collect::<Vec<_>>());
    // Nothing changes while there is no space, whatever comes.
    std::thread::sleep(Duration::from_millis(1100));
    send(&mut sink, 10);
    assert!(sink.written().trouble.is_some());
    // Then there is.
    std::fs::remove_file(&ballast).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let sent = send(&mut sink, 100);
    assert_eq!(sink.written().trouble, None);
    let written = sink.finish().unwrap();
    assert_eq!(written.packets + written.unwritten, sent);
    let (after, torn) = packets(&path);
    assert_eq!((after.len() as u64, torn), (written.packets, false));
    assert!(after.ends_with(&(sent as i64 - 100..sent as i64).collect::<Vec<_>>()));
    let told = format!("Unwritten {}", written.unwritten);
    assert!(story(&path).contains(&told), "{told}");
    if let Some(lines) = tshark(&path, &["frame.time_epoch"]) {
        assert_eq!(lines.len() as u64, written.packets);
    }
    println!("filled and freed");
}

/// Runs the calling test once more, in a file system of half a MiB that nobody else sees, and which it says
/// `said` of in the end.
fn in_little_room(said: &str) {
    let scratch = Scratch::new();
    let script = r#"mount -t tmpfs -o size=512k none "$0" && exec "$@""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "sh", "-c", script]).arg(&scratch.0).arg(this());
    again(&mut unshare, &scratch.0);
    let output = unshare.output().unwrap();
    let [out, why] = [&output.stdout, &output.stderr].map(|told| String::from_utf8_lossy(told));
    if why.contains("unshare: ") || why.contains("mount: ") {
        let lacking = Lacking(format!("no file system of our own: {}", why.trim()));
        let _: Option<()> = or_skip(Err(lacking));
        return;
    }
    assert!(output.status.success() && out.contains(said), "{out}{why}");
}

#[test]
fn a_full_disk_costs_only_what_does_not_fit() {
    match directory() {
        Some(directory) => fill_a_disk(&directory),
        None => in_little_room("filled and freed"),
    }
}

fn fill_a_disk_by_a_row(directory: &Path) {
    let options = FileOptions {
        rotate_bytes: Some(100 << 10),
        keep: Some(20),
        ..options(&directory.join("row.pcapng"))
    };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let data = frame(150);
    for n in 0..20_000 {
        sink.packet(&packet(&data), &stamped(n)).unwrap();
    }
    let written = sink.finish().unwrap();
    assert_eq!((written.packets, written.unwritten, written.trouble), (20_000, 0, None));
    assert!(written.files > 20, "{}", written.files);
    let mut names: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    // As many as there is room for, and of those all.
    assert!((3..20).contains(&names.len()), "{names:?}");
    let mut there = Vec::new();
    for name in &names {
        let (times, torn) = packets(name);
        assert!(!torn, "{name:?}");
        there.extend(times);
    }
    assert_eq!(there, (20_000 - there.len() as i64..20_000).collect::<Vec<_>>());
    println!("the last are kept");
}

#[test]
fn a_row_of_files_makes_room_for_itself() {
    match directory() {
        Some(directory) => fill_a_disk_by_a_row(&directory),
        None => in_little_room("the last are kept"),
    }
}

/// Begins five files, each with some packets, of a row that keeps them; their sink and their names.
fn a_row(directory: &Path) -> (CaptureFile, Vec<PathBuf>) {
    let options = FileOptions {
        rotate_after: Some(Duration::ZERO),
        last: Some(6),
        keep: Some(20),
        ..options(&directory.join("row.pcapng"))
    };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    let mut names = Vec::new();
    for n in 0..5 {
        names.push(sink.written().file.clone().unwrap());
        sink.packet(&packet(&frame(150)), &stamped(n)).unwrap();
        if n < 4 {
            sink.flush().unwrap();
        }
    }
    assert_eq!(sink.written().files, 5);
    (sink, names)
}

/// Fills the last file of a row with more than there is room for; what it tells.
fn fill_the_last(sink: &mut CaptureFile) -> String {
    while sink.written().unwritten == 0 {
        sink.packet(&packet(&frame(150)), &stamped(9)).unwrap();
        assert!(sink.written().packets < 100_000, "never full");
    }
    sink.written().trouble.clone().unwrap()
}

fn a_file_as_long_as_it_may_be(directory: &Path) {
    let (mut sink, names) = a_row(directory);
    let trouble = fill_the_last(&mut sink);
    assert!(trouble.contains("File too large"), "{trouble}");
    // The next one begins at its time, and has what comes then.
    std::thread::sleep(Duration::from_millis(1100));
    sink.flush().unwrap();
    sink.packet(&packet(&frame(150)), &stamped(7)).unwrap();
    let written = sink.finish().unwrap();
    assert_eq!((written.files, written.trouble), (6, None));
    assert_eq!(packets(&written.file.unwrap()), (vec![7], false));
    assert!(names.iter().all(|name| name.exists()), "{names:?}");
    println!("all are there");
}

#[test]
fn a_file_that_is_too_large_costs_no_older_one() {
    if let Some(directory) = directory() {
        return a_file_as_long_as_it_may_be(&directory);
    }
    let scratch = Scratch::new();
    let mut limited = Command::new("sh");
    // In units of 512 bytes. The signal would end it.
    limited.args(["-c", r#"trap "" XFSZ; ulimit -f 200; exec "$0" "$@""#]).arg(this());
    again(&mut limited, &scratch.0);
    let output = limited.output().unwrap();
    let [out, why] = [&output.stdout, &output.stderr].map(|told| String::from_utf8_lossy(told));
    assert!(output.status.success() && out.contains("all are there"), "{out}{why}");
}

/// Somebody else has the older files under another name, so that nothing is freed.
fn a_row_that_others_have(directory: &Path) {
    let (mut sink, names) = a_row(directory);
    for (n, name) in names.iter().enumerate() {
        std::fs::hard_link(name, directory.join(format!("kept-{n}"))).unwrap();
    }
    std::fs::write(directory.join("ballast"), vec![0; 300 << 10]).unwrap();
    fill_the_last(&mut sink);
    let there: Vec<bool> = names.iter().map(|name| name.exists()).collect();
    assert_eq!(there, [false, true, true, true, true]);
    println!("one is gone");
}

#[test]
fn a_row_of_files_gives_up_no_more_than_helps() {
    match directory() {
        Some(directory) => a_row_that_others_have(&directory),
        None => in_little_room("one is gone"),
    }
}

/// Sinks of two interfaces.
fn two(path: &Path) -> [Box<dyn Sink>; 2] {
    let (parts, _) = several(&[facts(), facts()], options(path)).unwrap();
    let mut parts: [Box<dyn Sink>; 2] = parts.try_into().map_err(|_| "not two").unwrap();
    for part in &mut parts {
        part.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
    }
    parts
}

fn end_one_of_two_on_a_full_disk(directory: &Path) {
    let path = directory.join("two.pcapng");
    let [mut first, mut second] = two(&path);
    for n in 0..500 {
        first.packet(&packet(&frame(150)), &stamped(n)).unwrap();
    }
    std::fs::write(directory.join("ballast"), vec![0; 480 << 10]).unwrap();
    let written = first.finish().unwrap();
    assert!(written.unwritten > 0 && written.trouble.is_some(), "{written:?}");
    assert_eq!(written.packets + written.unwritten, 500);
    assert_eq!(packets(&path).0.len() as u64, written.packets);
    std::fs::remove_file(directory.join("ballast")).unwrap();
    let last = second.finish().unwrap();
    assert_eq!((last.packets, last.unwritten), (0, 0));
    assert_eq!(packets(&path).0.len() as u64, written.packets);
    println!("the first knew");
}

#[test]
fn one_of_several_ends_with_all_that_it_gave() {
    match directory() {
        Some(directory) => end_one_of_two_on_a_full_disk(&directory),
        None => in_little_room("the first knew"),
    }
}

fn fill_a_disk_by_two_twice(directory: &Path) {
    let path = directory.join("two.pcapng");
    let ballasts = [(200, "first"), (100, "second")].map(|(kib, name)| {
        let ballast = directory.join(name);
        std::fs::write(&ballast, vec![0; kib << 10]).unwrap();
        ballast
    });
    let mut parts = two(&path);
    let mut send = |which: usize, many| {
        for _ in 0..many {
            parts[which].packet(&packet(&frame(150)), &stamped(1)).unwrap();
        }
    };
    // Both lose packets. Then there is room for the mark of the one, and of the other with some packets.
    send(0, 3000);
    send(1, 10);
    for (ballast, many) in ballasts.iter().rev().zip([1500, 100]) {
        std::fs::remove_file(ballast).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
        send(0, 1);
        send(1, many);
    }
    let written = parts.map(|mut part| part.finish().unwrap());
    assert!(written.iter().all(|one| one.unwritten > 0), "{written:?}");
    let lost: u64 = written.iter().map(|one| one.unwritten).sum();
    let story = story(&path);
    let marks = story.iter().filter_map(|what| what.strip_prefix("Unwritten "));
    let marks: Vec<u64> = marks.map(|lost| lost.parse().unwrap()).collect();
    assert_eq!((marks.iter().sum::<u64>(), marks.len()), (lost, 3), "{marks:?}");
    println!("told once");
}

#[test]
fn each_packet_that_a_full_disk_costs_is_in_one_mark() {
    match directory() {
        Some(directory) => fill_a_disk_by_two_twice(&directory),
        None => in_little_room("told once"),
    }
}

/// A frame that cannot be compressed.
fn noise(seed: u64) -> Vec<u8> {
    let mut data = frame(150);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in &mut data[42..] {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state.to_le_bytes()[4];
    }
    data
}

/// Packets of each of two interfaces that zstd finds in what is there of these files.
fn found(files: &[PathBuf]) -> [u64; 2] {
    let mut packets = [0; 2];
    for file in files {
        let output = Command::new("zstd").args(["-q", "-d", "-c"]).arg(file).output().unwrap();
        let Ok(mut frames) = Frames::new(&output.stdout[..]) else { continue };
        while let Ok(Some(frame)) = frames.next_frame() {
            packets[frame.interface as usize] += 1;
        }
    }
    packets
}

/// Sends two interfaces' packets into compressed files until that fails, or so many are sent: by a full disk
/// in the midst, or as a file ends.
fn compress_on_a_full_disk(directory: &Path, name: &str, row: bool, most: u64) {
    let directory = directory.join(name);
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("full.pcapng.zst");
    // A row by time: zstd takes in megabytes before it writes, so that a size says nothing of what is there.
    let rotate_after = row.then_some(Duration::ZERO);
    let options = FileOptions { zstd: Some(1), rotate_after, ..options(&path) };
    let (mut parts, whole) = several(&[facts(), facts()], options).unwrap();
    let mut sent = [0, 0];
    let failed = (0..most).try_for_each(|n| {
        for (number, (part, sent)) in (0..).zip(parts.iter_mut().zip(&mut sent)) {
            assert!(
                part.packet(&packet(&noise(2 * n + number)), &stamped(1))?,
                "there is room, or an error"
            );
            *sent += 1;
            if n % 100 == 99 {
                part.flush()?;
            }
        }
        Ok(())
    });
    assert_eq!(failed.is_ok(), sent[0] == most, "{sent:?}");
    let mut failed = Vec::from_iter(failed.err());
    failed.extend(parts.iter_mut().filter_map(|part| part.finish().err()));
    let told = failed.iter().filter(|why| why.to_string().contains("compressing: zstd ")).count();
    assert_eq!(told, 1, "{name}: {failed:?}");
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!row || files.len() > 2, "{files:?}");
    let account = whole.written();
    let there: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    for (number, one) in account.iter().enumerate() {
        assert!(one.unwritten > 0 && one.packets > 0, "{one:?}");
        assert_eq!(one.packets + one.unwritten, sent[number]);
        assert_eq!((one.packets, one.bytes), (found(&files)[number], there), "{name}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn compress_on_full_disks(directory: &Path) {
    compress_on_a_full_disk(directory, "midst", false, 100_000);
    compress_on_a_full_disk(directory, "end", false, 3000);
    compress_on_a_full_disk(directory, "row", true, 100_000);
    println!("each is known");
}

#[test]
fn what_compression_loses_that_ends_badly_is_counted() {
    let zstd = Command::new("zstd").arg("-V").output();
    if or_skip(zstd.map_err(|_| Lacking("zstd is not here".into()))).is_none() {
        return;
    }
    match directory() {
        Some(directory) => compress_on_full_disks(&directory),
        None => in_little_room("each is known"),
    }
}

#[test]
fn one_of_several_is_told_why_nothing_can_be_written() {
    let [mut first, mut second] = two(Path::new("/dev/full"));
    first.packet(&packet(&frame(60)), &stamped(0)).unwrap();
    assert!(matches!(first.flush(), Err(SinkError::Failed { .. })));
    let why = second.packet(&packet(&frame(60)), &stamped(0));
    assert!(matches!(why, Err(SinkError::Elsewhere)), "{why:?}");
    assert!(matches!(second.flush(), Err(SinkError::Elsewhere)));
    drop(first);
    assert_eq!(second.finish().unwrap().packets, 0);
}

#[test]
fn several_end_at_the_same_moment() {
    let scratch = Scratch::new();
    for round in 0..300 {
        let parts = two(&scratch.file(&round.to_string()));
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for mut part in parts {
                let together = &together;
                scope.spawn(move || {
                    part.packet(&packet(&frame(60)), &stamped(1)).unwrap();
                    together.wait();
                    assert_eq!(part.finish().unwrap().packets, 1);
                });
            }
        });
    }
}

#[test]
fn a_device_that_is_always_full_is_named() {
    let mut sink = CaptureFile::create(&facts(), options(Path::new("/dev/full"))).unwrap();
    sink.packet(&packet(&frame(60)), &stamped(0)).unwrap();
    let told = sink.flush().unwrap_err();
    assert!(matches!(&told, SinkError::Failed { .. }));
    assert!(told.to_string().starts_with("/dev/full: writing: "), "{told}");
    assert_eq!((sink.written().packets, sink.written().unwritten), (0, 1));
}

fn write_for_ever(directory: &Path) {
    let mut sink = CaptureFile::create(&facts(), options(&directory.join("killed"))).unwrap();
    let data = frame(150);
    for n in 0.. {
        sink.packet(&packet(&data), &stamped(n)).unwrap();
        if n % 100 == 0 {
            sink.flush().unwrap();
        }
    }
}

#[test]
fn killed_in_the_midst_it_can_be_read() {
    if let Some(directory) = directory() {
        return write_for_ever(&directory);
    }
    let scratch = Scratch::new();
    let path = scratch.file("killed");
    let mut command = Command::new(this());
    again(&mut command, &scratch.0);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 1 << 20 {
        std::thread::sleep(Duration::from_millis(1));
        assert!(child.try_wait().unwrap().is_none(), "it writes for ever");
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let (times, torn) = packets(&path);
    assert!(times.len() > 1000);
    assert_eq!(times, (0..times.len() as i64).collect::<Vec<_>>());
    // tshark calls a torn file an error, and reads it all the same.
    if !torn && let Some(lines) = tshark(&path, &["frame.time_epoch"]) {
        assert_eq!(lines.len(), times.len());
    }
}
