//! Captures of ours and of others, and what reads them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_pcapng::Frames;
use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::Lacking;
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::{Process, Signal, is_root};
use truechimer_testbed::temp::Dir;

use super::traffic::{LAST_WORDS, SENDER};

/// Checks that a program of the system is installed.
pub fn installed(name: &str) -> Result<(), Lacking> {
    match Command::new(binary::system(name)).arg("--version").output() {
        Ok(_) => Ok(()),
        Err(why) => Err(Lacking(format!("{name}: {why}"))),
    }
}

/// A program that captures.
pub struct Capture {
    pub process: Process,
    pub file: PathBuf,
}

/// `truechimer capture -i wire -w FILE` with these further arguments, once it captures.
pub fn truechimer(network: &Namespace, dir: &Dir, name: &str, arguments: &[&str]) -> Capture {
    let file = dir.join(&format!("{name}.pcapng"));
    let mut command = network.command(binary::truechimer());
    command.args(["capture", "-i", "wire", "--ring", "8", "-w"]).arg(&file).args(arguments);
    ready(command, dir, name, file)
}

/// A command that runs `truechimer capture` in some way, once it captures.
pub fn ready(command: Command, dir: &Dir, name: &str, file: PathBuf) -> Capture {
    let json = command.get_args().any(|argument| argument == "--json");
    let mut process = Process::start(command, &dir.join(&format!("{name}.log")));
    process.expect_output(if json { "\"type\":\"start\"" } else { "capturing on" }, SOON);
    Capture { process, file }
}

/// `tcpdump -w FILE FILTER`, once it captures; dumpcap where tcpdump cannot run, as it insists on
/// becoming another user, which there is none of in a user namespace.
pub fn theirs(network: &Namespace, dir: &Dir, name: &str, filter: &str) -> Capture {
    let file = dir.join(&format!("{name}.theirs.pcap"));
    let log = dir.join(&format!("{name}.theirs.log"));
    if is_root() {
        let mut command = network.command(binary::system("tcpdump"));
        // Not --immediate-mode: its ring has room for a dozen packets, and it loses some.
        command.args(["-i", "wire", "-U", "-B", "8192", "--nano", "-Z", "root", "-w"]);
        let mut process = Process::start(with(command, &file, &[filter]), &log);
        process.expect_output("listening on", SOON);
        return Capture { process, file };
    }
    let mut command = network.command(binary::system("dumpcap"));
    command.args(["-i", "wire", "-P", "-w"]);
    let mut process = Process::start(with(command, &file, &["-f", filter]), &log);
    process.expect_output("File:", SOON);
    Capture { process, file }
}

fn with(mut command: Command, file: &Path, arguments: &[&str]) -> Command {
    command.arg(file).args(arguments);
    command
}

impl Capture {
    /// Waits until the file has the last frame of [`super::traffic::last`], ends the program, and
    /// returns how it ended.
    pub fn end(&mut self) -> ExitStatus {
        self.until_last();
        self.process.signal(Signal::Term);
        self.ended()
    }

    pub fn until_last(&mut self) {
        self.until(LAST_WORDS);
    }

    /// Waits until the file has these bytes.
    pub fn until(&mut self, words: &[u8]) {
        let end = Instant::now() + SOON;
        while !self.has(words) {
            let late = Instant::now() >= end;
            assert!(
                self.process.is_running() && !late,
                "{:?} is not in {}:\n{}",
                String::from_utf8_lossy(words),
                self.file.display(),
                self.process.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// True if the file has these bytes by now.
    pub fn has(&self, words: &[u8]) -> bool {
        let bytes = std::fs::read(&self.file).unwrap_or_default();
        bytes.windows(words.len()).any(|window| window == words)
    }

    pub fn ended(&mut self) -> ExitStatus {
        match self.process.wait(SOON) {
            Some(status) => status,
            None => panic!("does not end:\n{}", self.process.output()),
        }
    }

    /// The packets in its file.
    pub fn packets(&self) -> Vec<Packet> {
        packets(&self.file)
    }

    /// The summary that `--json` prints.
    pub fn summary(&self) -> Value {
        let output = self.process.output();
        let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut summaries = lines.filter(|object| object["type"] == "summary");
        summaries.next().unwrap_or_else(|| panic!("no summary:\n{output}"))
    }
}

/// A packet in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub unix_ns: i64,
    pub length: u32,
    pub data: Vec<u8>,
    pub record: Option<truechimer_pcapng::records::PacketRecord>,
}

/// The packets in a file of pcap or pcapng.
pub fn packets(file: &Path) -> Vec<Packet> {
    let input = BufReader::new(File::open(file).unwrap());
    let mut frames = Frames::new(input).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        packets.push(Packet {
            unix_ns: frame.unix_ns.unwrap(),
            length: frame.length,
            data: frame.data.to_vec(),
            record: frame.record,
        });
    }
    packets
}

/// Those that this test has sent.
pub fn ours(packets: &[Packet]) -> Vec<Packet> {
    packets.iter().filter(|packet| packet.data.get(6..12) == Some(&SENDER)).cloned().collect()
}

/// Number of packets that tshark finds in a file, with whatever it says on standard error.
pub fn tshark(file: &Path) -> (usize, String) {
    let mut command = Command::new(binary::system("tshark"));
    command.args(["-n", "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-r"]);
    let output = command.arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (String::from_utf8_lossy(&output.stdout).lines().count(), errors)
}

/// Fields of a file's packets, as tshark prints them with these options.
pub fn fields(file: &Path, options: &[&str]) -> String {
    let mut command = Command::new(binary::system("tshark"));
    let output = command.args(["-n", "-T", "fields"]).args(options).arg("-r").arg(file).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

/// Number of packets that tcpdump finds in a file, with whatever it says on standard error.
pub fn tcpdump_reads(file: &Path) -> (usize, String) {
    let mut command = Command::new(binary::system("tcpdump"));
    let output = command.args(["-n", "-t", "-r"]).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // Further lines of a packet are indented.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().filter(|line| !line.starts_with(['\t', ' '])).count(), errors)
}

/// Both find so many.
pub fn assert_readable(file: &Path, packets: usize) {
    for (reader, (found, errors)) in [("tshark", tshark(file)), ("tcpdump", tcpdump_reads(file))] {
        assert_eq!(found, packets, "{reader} of {}: {errors}", file.display());
    }
}
