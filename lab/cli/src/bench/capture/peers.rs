//! The programs that are compared: how each is started, and what it says in the end.

use std::process::Command;

use truechimer_testbed::binary::system;
use truechimer_testbed::namespace::Namespace;

use crate::bench::capture::bed::{Bed, WIRE};

/// The ring that all get where the same ring is asked for, MiB.
pub const RING_MIB: u32 = 64;
/// Bytes kept of each frame at most: all of it.
pub const SNAP: u32 = 2048;

/// A way to capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Name in tables.
    pub name: &'static str,
    program: Program,
    /// Arguments beside the interface, the file and the snap length.
    arguments: &'static [&'static str],
    /// True if it attaches an XDP program to the interface.
    pub xdp: bool,
    /// True if its times have no more than microseconds.
    pub coarse: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Tcpdump,
    Dumpcap,
    Netsniff,
    Truechimer,
}

const TCPDUMP: Tool =
    Tool { name: "tcpdump", program: Program::Tcpdump, arguments: &[], xdp: false, coarse: true };
const TRUECHIMER: Tool =
    Tool { name: "", program: Program::Truechimer, arguments: &[], xdp: false, coarse: false };
const XDP: Tool = Tool { xdp: true, ..TRUECHIMER };

/// tcpdump with the ring of all.
pub const TCPDUMP_RING: &str = "tcpdump -B 64 MiB";
/// tcpdump with the ring of all and times in nanoseconds.
pub const TCPDUMP_NANO: &str = "tcpdump --nano";
/// netsniff-ng with the ring of all and times in nanoseconds.
pub const NETSNIFF_RING: &str = "netsniff-ng -S 64 MiB";
/// Our packet sockets.
pub const PACKET: &str = "truechimer packet";
/// Our packet sockets, with conversion in the thread that captures.
pub const PACKET_INLINE: &str = "truechimer packet, inline";
/// AF_XDP, stamped in XDP.
pub const XDP_STAMP: &str = "truechimer xdp";
/// AF_XDP, stamped in XDP, with conversion in the thread that captures.
pub const XDP_INLINE: &str = "truechimer xdp, inline";
/// AF_XDP, stamped as it leaves the ring.
pub const XDP_DEQUEUE: &str = "truechimer xdp, dequeue stamp";
/// Copies made in XDP.
pub const XDP_COPY: &str = "truechimer xdp-copy";

/// All of them.
#[must_use]
pub fn all() -> Vec<Tool> {
    vec![
        TCPDUMP,
        Tool { name: TCPDUMP_RING, arguments: &["-B", "65536"], ..TCPDUMP },
        Tool {
            name: TCPDUMP_NANO,
            arguments: &["-B", "65536", "--time-stamp-precision=nano"],
            coarse: false,
            ..TCPDUMP
        },
        Tool { name: "dumpcap", program: Program::Dumpcap, coarse: false, ..TCPDUMP },
        Tool {
            name: "dumpcap -B 64 MiB",
            program: Program::Dumpcap,
            arguments: &["-B", "64"],
            coarse: false,
            ..TCPDUMP
        },
        Tool {
            name: NETSNIFF_RING,
            program: Program::Netsniff,
            arguments: &["-S", "64MiB"],
            coarse: false,
            ..TCPDUMP
        },
        Tool { name: PACKET, arguments: &["--method", "packet", "--ring", "64"], ..TRUECHIMER },
        Tool {
            name: PACKET_INLINE,
            arguments: &["--method", "packet", "--ring", "64", "--inline"],
            ..TRUECHIMER
        },
        Tool { name: XDP_STAMP, arguments: &["--method", "xdp", "--take", "--ring", "64"], ..XDP },
        Tool {
            name: XDP_INLINE,
            arguments: &["--method", "xdp", "--take", "--ring", "64", "--inline"],
            ..XDP
        },
        Tool {
            name: XDP_DEQUEUE,
            arguments: &["--method", "xdp", "--take", "--ring", "64", "--stamp", "dequeue"],
            ..XDP
        },
        Tool { name: XDP_COPY, arguments: &["--method", "xdp-copy", "--ring", "64"], ..XDP },
    ]
}

impl Tool {
    /// The command that captures on the wire into `file` from `side`, on the processors `cpus`.
    #[must_use]
    pub fn command(
        &self,
        side: &Namespace,
        cpus: Option<&str>,
        truechimer: &std::path::Path,
        file: &str,
    ) -> Command {
        let program =
            self.program.package().map_or_else(|| truechimer.to_owned(), |(name, _)| system(name));
        let mut command = Bed::foremost(side, program, cpus);
        let snap = SNAP.to_string();
        match self.program {
            // Without -Z it would become a user who may not write the file.
            Program::Tcpdump => {
                command.args(["-Z", "root", "-n", "-i", WIRE, "-s", &snap, "-w", file])
            }
            Program::Dumpcap => command.args(["-q", "-i", WIRE, "-s", &snap, "-w", file]),
            // It has no snap length. Left to itself it sets the memory of all sockets (-A) and moves interrupts (-Q).
            Program::Netsniff => {
                command.args(["-s", "-A", "-Q", "-T", "0xa1b23c4d", "-i", WIRE, "-o", file])
            }
            Program::Truechimer => command.args(["capture", "-i", WIRE, "-s", &snap, "-w", file]),
        };
        command.args(self.arguments);
        command
    }

    /// Words that it prints once its file is open.
    #[must_use]
    pub fn greeting(&self) -> &'static str {
        match self.program {
            Program::Tcpdump => "listening on",
            Program::Dumpcap => "File:",
            Program::Netsniff => "Running!",
            Program::Truechimer => "capturing on",
        }
    }

    /// Number of packets that it says it lost; `None` if it does not say.
    #[must_use]
    pub fn own_word(&self, said: &str) -> Option<u64> {
        match self.program {
            Program::Tcpdump => number_before(said, "packets dropped by kernel")
                .or_else(|| number_before(said, "packet dropped by kernel")),
            Program::Dumpcap => {
                let line = said.lines().find(|line| line.contains("received/dropped"))?;
                let counts = line.rsplit_once("': ")?.1.split_whitespace().next()?;
                counts.split_once('/')?.1.parse().ok()
            }
            Program::Netsniff => number_before(said, "packets failed filter (out of space)"),
            Program::Truechimer => lost(said),
        }
    }

    /// Reason why it cannot run here: its program is not installed.
    #[must_use]
    pub fn lacking(&self) -> Option<String> {
        let (name, package) = self.program.package()?;
        let lacks = !system(name).is_file();
        lacks.then(|| format!("{name} is not installed (package {package})"))
    }
}

impl Program {
    /// Name of it, and the package that has it, unless it is ours.
    const fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Program::Tcpdump => Some(("tcpdump", "tcpdump")),
            Program::Dumpcap => Some(("dumpcap", "tshark")),
            Program::Netsniff => Some(("netsniff-ng", "netsniff-ng")),
            Program::Truechimer => None,
        }
    }
}

/// The number right before these words.
fn number_before(text: &str, words: &str) -> Option<u64> {
    text.split_once(words)?.0.split_whitespace().next_back()?.parse().ok()
}

/// The sum of the counts of the last line like `received 9, lost 0 interface, 1 kernel, 2 ring, 3 writer`.
fn lost(said: &str) -> Option<u64> {
    let line = said.lines().rfind(|line| line.starts_with("received "))?;
    let parts = line.split_once("lost ")?.1.split(&[',', ';'][..]).take(4);
    parts.map(|part| part.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        all().into_iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|tool| tool.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn their_own_words_are_understood() {
        let tcpdump = "tcpdump: listening on wire, link-type EN10MB (Ethernet)\n10 packets captured\n\
                       22 packets received by filter\n12 packets dropped by kernel\n";
        assert_eq!(tool("tcpdump").own_word(tcpdump), Some(12));
        let dumpcap = "Packets captured: 10\nPackets received/dropped on interface 'wire': 10/12 \
                       (pcap:12/dumpcap:0/flushed:0/ps_ifdrop:0) (45.5%)\n";
        assert_eq!(tool("dumpcap").own_word(dumpcap), Some(12));
        assert_eq!(tool("dumpcap").own_word("nothing"), None);
        assert_eq!(tool("tcpdump").own_word(""), None);
        let netsniff = "Running! Hang up with ^C!\n\n          19  packets incoming (0 unread on exit)\n          12  \
                        packets passed filter\n           7  packets failed filter (out of space)\n      \
                        36.8421% packet droprate\n";
        assert_eq!(tool(NETSNIFF_RING).own_word(netsniff), Some(7));
        let ours = "9 packets, 1 packets/s; lost 0 interface, 1 kernel, 4 ring, 2 writer; stamps\n\
                    received 30, lost 3 interface, 1 kernel, 14 ring, 2 writer\nmethod: tags are lost then";
        assert_eq!(tool(PACKET).own_word(ours), Some(20));
        assert_eq!(tool(PACKET).own_word("lost all"), None);
    }
}
