//! Remains of our records after Wireshark's tools.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use truechimer_capture::sink::{CaptureFile, FileOptions, Sink};
use truechimer_pcapng::records::{self, Record};
use truechimer_pcapng::{Blocks, Content, Section, code};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_timehands::Status;

use crate::made::{Scratch, change, facts, frame, packet, stamped};
use crate::options;

/// Numbers of packets, of those that bear our record, and of states of the clock in the file; the
/// interfaces' with them.
fn left(path: &Path) -> (usize, usize, usize) {
    let mut blocks = Blocks::new(BufReader::new(File::open(path).unwrap()));
    let (mut section, mut left) = (Section::new(), (0, 0, 0));
    while let Some(block) = blocks.next_block().unwrap() {
        let options = match section.take(&block).unwrap() {
            Content::Packet(packet) => {
                left.0 += 1;
                packet.options
            }
            Content::Interface(_, options) => options,
            _ => continue,
        };
        for option in options.map(Result::unwrap).filter(|option| option.code == code::CUSTOM) {
            match records::read(option.value).unwrap() {
                Some(Record::Packet(_)) => left.1 += 1,
                Some(Record::Change(_)) => left.2 += 1,
                _ => {}
            }
        }
    }
    left
}

/// Hosts of the interfaces of a file, in order.
fn hosts(path: &Path) -> Vec<String> {
    let mut blocks = Blocks::new(BufReader::new(File::open(path).unwrap()));
    let mut section = Section::new();
    while let Some(block) = blocks.next_block().unwrap() {
        section.take(&block).unwrap();
    }
    let host = |interface: &truechimer_pcapng::Interface| {
        records::host_of(&interface.description).unwrap().to_owned()
    };
    section.interfaces().iter().map(host).collect()
}

/// Runs one of Wireshark's tools; what it prints.
fn ran(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = or_skip(output.map_err(|_| Lacking(format!("{} is not here", words[0]))))?;
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn hosts_are_told_apart_after_the_tools_of_others() {
    let scratch = Scratch::new();
    let [one, two, out] = ["one", "two", "out"].map(|name| scratch.file(name));
    for (path, host) in [(&one, "alpha"), (&two, "beta")] {
        // Interfaces of the same name.
        let options = FileOptions { host: Some(host.into()), ..options(path) };
        let mut sink = CaptureFile::create(&facts(), options).unwrap();
        sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
        sink.packet(&packet(&frame(150)), &stamped(1)).unwrap();
        sink.finish().unwrap();
    }
    assert_eq!(hosts(&one), ["alpha"]);
    let [one, two, to] = [&one, &two, &out].map(|path| path.to_str().unwrap());
    for (words, expected) in [
        (&["editcap", one, to][..], &["alpha"][..]),
        (&["tshark", "-r", one, "-w", to], &["alpha"]),
        (&["mergecap", "-w", to, one, two], &["alpha", "beta"]),
        (&["mergecap", "-I", "any", "-w", to, one, two], &["alpha", "beta"]),
    ] {
        if ran(words).is_some() {
            assert_eq!(hosts(&out), expected, "{words:?}");
        }
    }
    if let Some(said) = ran(&["capinfos", one]) {
        assert!(said.contains("Description = host alpha"), "{said}");
    }
    let fields = ["tshark", "-r", one, "-T", "fields", "-e", "frame.interface_description"];
    if let Some(said) = ran(&fields) {
        assert_eq!(said, "host alpha\n");
    }
}

#[test]
fn records_survive_the_tools_of_others() {
    let scratch = Scratch::new();
    let (one, two, out) =
        (scratch.file("one.pcapng"), scratch.file("two.pcapng"), scratch.file("out.pcapng"));
    for (path, interface) in [(&one, "left"), (&two, "right")] {
        let facts = truechimer_capture::Facts { interface: interface.into(), ..facts() };
        let mut sink = CaptureFile::create(&facts, options(path)).unwrap();
        sink.change(&change(10, Some(Status::Synchronised), Some(5))).unwrap();
        let data = frame(150);
        for n in 0..10 {
            if n == 7 {
                sink.change(&change(20, Some(Status::Synchronised), Some(6))).unwrap();
            }
            sink.packet(&packet(&data), &stamped(n)).unwrap();
        }
        sink.finish().unwrap();
    }
    assert_eq!(left(&one), (10, 10, 2));
    let (one, two, to) = (one.to_str().unwrap(), two.to_str().unwrap(), out.to_str().unwrap());
    for (words, expected) in [
        (&["editcap", one, to][..], (10, 10, 2)),
        (&["editcap", "-s", "60", "-r", one, to, "2-4"], (3, 3, 1)),
        (&["mergecap", "-w", to, one, two], (20, 20, 4)),
        (&["tshark", "-r", one, "-w", to], (10, 10, 2)),
        (&["tshark", "-r", one, "-Y", "frame.number > 7", "-w", to], (3, 3, 2)),
    ] {
        if ran(words).is_some() {
            assert_eq!(left(&out), expected, "{words:?}");
        }
    }
}
