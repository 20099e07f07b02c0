//! Messages of the group on the wire: what tcpdump at a node saw, each counted once.
//!
//! Corosync hands a message to each other node by itself (udpu, knet), so a node sees its own
//! messages several times and those of others once, and again where one was sent again. Each of the
//! group's messages begins with `TCGR` (docs/explanation/group.md), names its sender's life and its first
//! entry. Encrypted knet cannot be read like this.

use std::collections::HashSet;
use std::path::Path;

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::process::{Process, Signal};

use crate::bench::group::bed::Bed;

/// Beginning of a message.
const MAGIC: &[u8; 4] = b"TCGR";
/// From there to the sender's incarnation, to the first entry's kind.
const INCARNATION: usize = 14;
const FIRST_KIND: usize = 51;
/// Part that tells two messages of one sender apart, in the first entry: kind, thread, round.
const TOLD_APART: usize = FIRST_KIND + 1 + 16;
/// The kind of an entry that is a proposal.
const PROPOSAL: u8 = 1;

/// Wait for what is still on its way in the end.
const AFTER: std::time::Duration = std::time::Duration::from_millis(500);

/// Traffic on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Different messages of the group that propose a round's value.
    pub proposals: u64,
    /// Different messages of the group that do not: reports of clocks and the like.
    pub others: u64,
}

/// A capture that runs.
#[derive(Debug)]
pub struct Sniffer {
    process: Process,
    file: std::path::PathBuf,
}

impl Sniffer {
    /// Starts one at a node; its files have names of their own.
    ///
    /// # Errors
    /// Where tcpdump is missing.
    pub fn start(bed: &Bed, node: u32, name: &str) -> Result<Sniffer, Failure> {
        let file = bed.ring().dir().join(&format!("{name}.pcap"));
        let tcpdump = truechimer_testbed::binary::system("tcpdump");
        if !tcpdump.is_file() {
            return Err(Failure("tcpdump is missing: install the package of that name".to_owned()));
        }
        let mut command = bed.command(node, &tcpdump);
        command.args(["-Z", "root", "-n", "-i", "eth0", "-s", "0", "-B", "65536"]);
        // Else what came last would be lost with the kernel's unfinished block.
        command.args(["--immediate-mode", "-w"]);
        command.arg(&file).arg("udp");
        let mut process = Process::start(command, &bed.ring().dir().join(&format!("{name}.log")));
        process.expect_output("listening on", std::time::Duration::from_secs(20));
        Ok(Sniffer { process, file })
    }

    /// Ends it, and counts.
    ///
    /// # Errors
    /// Where tcpdump lost packets, or its file cannot be read.
    pub fn finish(mut self) -> Result<Seen, Failure> {
        std::thread::sleep(AFTER);
        self.process.signal(Signal::Term);
        if self.process.wait(std::time::Duration::from_secs(20)).is_none() {
            return Err(Failure("tcpdump does not end".to_owned()));
        }
        let said = self.process.output();
        if !said.contains("\n0 packets dropped by kernel") {
            return Err(Failure(format!("tcpdump lost packets: {}", said.trim())));
        }
        count(&self.file)
    }
}

fn count(path: &Path) -> Result<Seen, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::of(path.display(), error))?;
    packets(&bytes).map(|all| seen(&all)).map_err(|what| Failure::of(path.display(), what))
}

/// The packets of a file in tcpdump's classic form, of this machine's byte order.
fn packets(bytes: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let (head, mut rest) = bytes.split_at_checked(24).ok_or("no head")?;
    if head.first_chunk() != Some(&0xa1b2_c3d4_u32.to_ne_bytes()) {
        return Err("no capture of this machine");
    }
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (head, body) = rest.split_at_checked(16).ok_or("it ends in a packet's head")?;
        let length = head.get(8..12).and_then(|b| b.first_chunk()).ok_or("no length")?;
        let length = u32::from_ne_bytes(*length) as usize;
        let (packet, after) = body.split_at_checked(length).ok_or("it ends in a packet")?;
        all.push(packet);
        rest = after;
    }
    Ok(all)
}

fn seen(packets: &[&[u8]]) -> Seen {
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    let mut seen = Seen { packets: packets.len() as u64, ..Seen::default() };
    for packet in packets {
        let places = packet.windows(MAGIC.len()).enumerate();
        for (at, _) in places.filter(|(_, four)| *four == MAGIC) {
            let Some(message) = packet.get(at..) else { continue };
            let end = TOLD_APART.min(message.len());
            let Some(own) = message.get(INCARNATION..end) else { continue };
            let Some(&kind) = message.get(FIRST_KIND) else { continue };
            // What tells a proposal apart is its round; other messages, where they were sent.
            let key = match kind {
                PROPOSAL => {
                    let life = own.get(..8).unwrap_or_default();
                    let round = own.get(FIRST_KIND - INCARNATION..).unwrap_or_default();
                    [life, round].concat()
                }
                _ => own.to_vec(),
            };
            if known.insert(key) {
                *(if kind == PROPOSAL { &mut seen.proposals } else { &mut seen.others }) += 1;
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(life: u64, index: u64, kind: u8, round: u64) -> Vec<u8> {
        let mut all = MAGIC.to_vec();
        all.extend([1, 0]);
        all.extend([9; 8]);
        all.extend(life.to_le_bytes());
        all.extend(1_u64.to_le_bytes());
        all.extend(index.to_le_bytes());
        all.extend([7; 8]);
        all.push(1);
        all.extend(1_u32.to_le_bytes());
        all.push(kind);
        all.extend(16_u64.to_le_bytes());
        all.extend(round.to_le_bytes());
        all.extend([0; 30]);
        all
    }

    fn file(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut all = 0xa1b2_c3d4_u32.to_ne_bytes().to_vec();
        all.extend([0; 20]);
        for packet in packets {
            all.extend([0; 8]);
            all.extend((packet.len() as u32).to_ne_bytes());
            all.extend((packet.len() as u32).to_ne_bytes());
            all.extend(packet);
        }
        all
    }

    #[test]
    fn each_message_counts_once() {
        let head = vec![0xff; 70];
        let packet =
            |messages: &[Vec<u8>]| [vec![head.clone()], messages.to_vec()].concat().concat();
        let one = message(5, 10, PROPOSAL, 1);
        let file = file(&[
            packet(std::slice::from_ref(&one)),
            // To the other node, and again.
            packet(std::slice::from_ref(&one)),
            // Two in one packet: another sender's of the same round, and a report.
            packet(&[message(6, 10, PROPOSAL, 1), message(6, 10, 5, 0)]),
            packet(&[message(5, 11, PROPOSAL, 2)]),
            packet(&[]),
        ]);
        let found = seen(&packets(&file).unwrap());
        assert_eq!(found, Seen { packets: 5, proposals: 3, others: 1 });
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        assert!(packets(&[0; 10]).is_err());
        assert!(packets(&[0; 30]).is_err());
        let whole = file(&[vec![1; 50]]);
        assert!(packets(&whole[..whole.len() - 1]).is_err());
        assert!(packets(&whole[..whole.len() - 60]).is_err());
    }
}
