//! tshark finds our interfaces in its list, and captures by them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::Process;
use truechimer_testbed::temp::Dir;

use super::bed;
use super::tools;
use super::traffic::{OURS, inject, number, numbered};

/// A program of a user whose settings are in `home`.
fn of(home: &Dir, network: &Namespace, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = network.command(program);
    command.env("HOME", home.join("")).env_remove("XDG_CONFIG_HOME");
    command
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Our fields of each packet, as the user's tshark has them.
fn fields(home: &Dir, network: &Namespace, file: &Path, words: &[&str]) -> Vec<String> {
    let mut command = of(home, network, binary::system("tshark"));
    command.args(["-n", "-T", "fields", "-E", "separator=|"]).args(words);
    for field in ["count", "quality", "status", "method"] {
        command.args(["-e", &format!("truechimer.{field}")]);
    }
    let output = command.arg("-r").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_captures_by_our_interfaces() {
    const WANTED: u32 = 20;
    let Some((net, dir)) = bed() else { return };
    let install =
        of(&dir, &net.client, binary::truechimer()).args(["extcap", "--install"]).output();
    let install = install.unwrap();
    assert!(install.status.success(), "{}", said(&install));
    let tshark = binary::system("tshark");
    let list = of(&dir, &net.client, &tshark).arg("-D").output().unwrap();
    assert!(said(&list).contains("truechimer-wire (Truechimer: wire)"), "{}", said(&list));

    let file = dir.join("tshark.pcapng");
    let count = WANTED.to_string();
    let mut command = of(&dir, &net.client, &tshark);
    command.args(["-i", "truechimer-wire", "-f", OURS, "-c", &count]).arg("-w").arg(&file);
    let mut process = Process::start(command, &dir.join("tshark.log"));
    process.expect_output("Capturing on", SOON);
    // It says so before our program has begun: more come than are wanted.
    let mut next = 0;
    let end = Instant::now() + SOON;
    while process.is_running() {
        assert!(Instant::now() < end, "{}", process.output());
        inject(&net.server, &[numbered(next, 300)]);
        next += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = process.wait(SOON).unwrap();
    assert!(ended.success(), "{}", process.output());
    let packets = tools::packets(&file);
    assert_eq!(packets.len(), WANTED as usize, "{}", process.output());
    for packet in &packets {
        // Wireshark keeps what we write beyond the format's own.
        assert!(packet.record.is_some(), "its count is kept: {packet:?}");
        assert_eq!(packet.length as usize, numbered(0, 300).len());
    }
    let numbers: Vec<u32> = packets.iter().map(|packet| number(&packet.data)).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{numbers:?}");
    assert_eq!(tools::tshark(&file).0, WANTED as usize);

    // The dissector that was laid with it makes fields of what is known of each packet.
    let counts = fields(&dir, &net.client, &file, &[]);
    let expected = packets.iter().map(|packet| {
        let (count, ..) = packet.record.unwrap().counted.unwrap();
        format!("{}|unsynchronised|none|packet", count.0)
    });
    assert_eq!(counts, expected.collect::<Vec<_>>());
    let middle = counts[5].split_once('|').unwrap().0;
    let later = fields(&dir, &net.client, &file, &["-Y", &format!("truechimer.count > {middle}")]);
    assert_eq!(later, counts[6..]);
    let removed =
        of(&dir, &net.client, binary::truechimer()).args(["extcap", "--uninstall"]).output();
    let removed = removed.unwrap();
    assert!(removed.status.success(), "{}", said(&removed));
    let list = of(&dir, &net.client, &tshark).arg("-D").output().unwrap();
    assert!(!said(&list).contains("truechimer"), "{}", said(&list));
}
