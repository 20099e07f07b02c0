//! The load that is captured, and what its captures must show.

use std::fs::File;
use std::io::BufReader;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use truechimer_pcapng::Frames;

use crate::soak::ledger::Ledger;

/// First bytes of each packet of the load.
const MAGIC: &[u8; 8] = b"soakload";
/// Ethernet, IPv4 and UDP headers before them.
const HEADERS: usize = 14 + 20 + 8;
/// Pause between packets of the load.
const PAUSE: Duration = Duration::from_millis(2);
/// A packet may have waited so long in queues before it was stamped, ns.
const LATE_NS: i64 = 5_000_000_000;

const WHOLE: &str = "capture: files are whole";
const COUNTED: &str = "capture: as many packets as it says";
const TOLD: &str = "capture: nothing is lost without being told";
const TIMES: &str = "capture: the truth is within a packet's bound";

fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Sends numbered packets until the run ends. Runs in the network of the sender.
pub fn send(ledger: &Ledger, to: SocketAddr) {
    [WHOLE, COUNTED, TOLD, TIMES].iter().for_each(|check| ledger.checks(check));
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return };
    let mut number = 0_u64;
    while !ledger.ends() {
        let mut payload = [0; 64];
        let numbers = MAGIC.iter().copied().chain(number.to_be_bytes());
        let all = numbers.chain(unix_ns().to_be_bytes());
        payload.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        // A number that was not sent is used again.
        if socket.send_to(&payload, to).is_ok() {
            number += 1;
        }
        std::thread::sleep(PAUSE);
    }
    ledger.add("capture: packets sent", number);
}

/// Way in which a capture was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By SIGTERM: it says what it did.
    Asked,
    /// By SIGKILL.
    Killed,
}

/// A capture that has ended.
#[derive(Debug)]
pub struct Run {
    /// Files, in order.
    pub files: Vec<PathBuf>,
    /// All it has written on standard output and standard error.
    pub said: String,
    /// Way in which it ended.
    pub end: End,
    /// True if its disk was full meanwhile.
    pub disk_was_full: bool,
    /// When it began and ended.
    pub between: (Instant, Instant),
    /// Unix time when it ended, ns.
    pub ended_ns: i64,
}

impl Run {
    /// Unix time now, ns.
    #[must_use]
    pub fn now_ns() -> i64 {
        unix_ns()
    }
}

#[derive(Default)]
struct Found {
    packets: u64,
    /// The greatest number, and when it was sent.
    last: Option<(u64, i64)>,
    missing: Vec<Gap>,
    /// When the packet before was stamped at the earliest, Unix ns.
    stamped: Option<i64>,
}

/// Numbers that are missing between two that came.
#[derive(Clone, Debug)]
struct Gap {
    numbers: std::ops::Range<u64>,
    /// When the two were sent, Unix ns.
    sent_ns: [i64; 2],
}

impl Gap {
    fn lost(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }
}

/// Looks at what a capture has left, and removes it.
pub fn check(ledger: &Ledger, run: &Run) {
    ledger.count("capture: captures checked");
    let mut found = Found::default();
    for (n, file) in run.files.iter().enumerate() {
        let last = n + 1 == run.files.len();
        match read(ledger, file, &mut found) {
            Ok(false) => {}
            // What was under way when it was killed.
            Ok(true) if last && (run.end == End::Killed || run.disk_was_full) => {
                ledger.count("capture: torn last blocks");
            }
            Ok(true) => ledger.found(WHOLE, format!("{} is torn", file.display())),
            Err(why) => ledger.found(WHOLE, format!("{}: {why}", file.display())),
        }
        ledger.count("capture: files checked");
        let _ = std::fs::remove_file(file);
    }
    ledger.add("capture: packets in files", found.packets);
    let lines = run.said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of = |kind: &str, lines: &[Value]| {
        lines.iter().rev().find(|line| line.get("type") == Some(&kind.into())).cloned()
    };
    let lines: Vec<Value> = lines.collect();
    let summary = of("summary", &lines);
    let last = summary.clone().or_else(|| of("state", &lines)).unwrap_or(Value::Null);
    let number = |path: &str| last.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    // What the interface lost may have been of others too, whatever the filter: so much could be missing in silence.
    let lost =
        ["interface", "kernel", "ring", "writer"].map(|place| number(&format!("/lost/{place}")));
    ledger.add("capture: packets lost before the tap, of anybody, and told", lost[0]);
    let lost: u64 = lost.iter().sum();
    ledger.add("capture: packets lost, and told", lost);
    if run.end == End::Asked {
        match &summary {
            None => ledger.found(COUNTED, format!("no summary: {}", tail(&run.said))),
            Some(summary) if number("/packets") != found.packets => {
                let text = format!("{} in its files: {summary}", found.packets);
                ledger.found(COUNTED, text);
            }
            Some(_) => {}
        }
    }
    // What went missing on its way is not the capture's; what it had not told yet when it was
    // killed, up to a second old, it could not tell.
    let instant = |ns: i64| {
        let ago = Duration::from_nanos(u64::try_from(run.ended_ns - ns).unwrap_or(0));
        run.between.1.checked_sub(ago).unwrap_or(run.between.0)
    };
    let told = |gap: &&Gap| run.end == End::Asked || gap.sent_ns[1] < run.ended_ns - 1_500_000_000;
    let on_the_way = |gap: &&Gap| {
        let [from, to] = gap.sent_ns.map(instant);
        ledger.load_was_out(from, to)
    };
    let missing: u64 =
        found.missing.iter().filter(told).filter(|gap| !on_the_way(gap)).map(Gap::lost).sum();
    if missing > lost {
        let text = format!("{missing} missing, {lost} told: {:?} {last}", found.missing);
        ledger.found(TOLD, text);
    }
}

impl Found {
    /// Finds the place of a packet among those that came before. One that the kernel let others overtake, as it does while
    /// it looks for a neighbour and where two processors send, comes later than its number says: it is stamped later, too.
    fn place(&mut self, ledger: &Ledger, number: u64, sent_ns: i64) {
        let Some((before, at)) = self.last else {
            self.last = Some((number, sent_ns));
            return;
        };
        if number > before {
            if number > before + 1 {
                self.missing.push(Gap { numbers: before + 1..number, sent_ns: [at, sent_ns] });
            }
            self.last = Some((number, sent_ns));
            return;
        }
        let Some(place) = self.missing.iter().rposition(|gap| gap.numbers.contains(&number)) else {
            ledger.found(WHOLE, format!("packet {number} after {before}, a second time"));
            return;
        };
        // The gap falls into those before it and those after it.
        let gap = self.missing.remove(place);
        let rest = [gap.numbers.start..number, number + 1..gap.numbers.end];
        let rest = rest.into_iter().filter(|numbers| !numbers.is_empty());
        self.missing.extend(rest.map(|numbers| Gap { numbers, ..gap.clone() }));
        ledger.count("capture: packets overtaken on their way");
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join(" / ")
}

/// Reads a file; whether it ends in the midst of a block.
fn read(ledger: &Ledger, file: &Path, found: &mut Found) -> Result<bool, String> {
    let size = std::fs::metadata(file).map_err(|why| why.to_string())?.len();
    if size == 0 {
        // It was made, and not begun.
        return Ok(true);
    }
    let input = File::open(file).map_err(|why| why.to_string())?;
    let mut frames = Frames::new(BufReader::new(input)).map_err(|why| why.to_string())?;
    while let Some(frame) = frames.next_frame().map_err(|why| why.to_string())? {
        found.packets += 1;
        let payload = frame.data.get(HEADERS..).unwrap_or_default();
        let Some(numbers) = payload.strip_prefix(MAGIC) else { continue };
        let word = |at: usize| {
            let bytes = numbers.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_be_bytes)
        };
        let (number, sent_ns) = (word(0), word(8) as i64);
        found.place(ledger, number, sent_ns);
        let bound = frame.record.and_then(|record| record.bound_ns).map_or(0, i64::from);
        if let Some(unix_ns) = frame.unix_ns {
            if found.stamped.is_some_and(|before| unix_ns.saturating_add(bound) < before) {
                ledger
                    .found(WHOLE, format!("packet {number} was stamped before the one before it"));
            }
            found.stamped = Some(unix_ns.saturating_sub(bound));
        }
        if let (Some(unix_ns), Some(bound)) =
            (frame.unix_ns, frame.record.and_then(|record| record.bound_ns))
        {
            let bound = i64::from(bound);
            ledger.count("capture: packets with a bound");
            ledger.largest("capture: largest bound, ns", bound);
            // It was stamped after it was sent.
            let outside = (sent_ns - (unix_ns + bound)).max(unix_ns - bound - sent_ns - LATE_NS);
            if outside > 0 {
                let text = format!("{outside} ns outside ± {bound} ns: packet {number}");
                ledger.found(TIMES, text);
            }
        }
    }
    Ok(frames.torn().is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A little-endian pcap with packets of these numbers, sent at these times, s.
    fn file(name: &str, packets: &[(u64, i64)]) -> PathBuf {
        let words =
            |all: &[u32]| all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let mut bytes = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1]);
        for (number, at) in packets {
            let length = (HEADERS + 64) as u32;
            bytes.extend(words(&[*at as u32, 0, length, length]));
            let mut data = vec![0; HEADERS];
            data.extend(MAGIC);
            data.extend(number.to_be_bytes());
            data.extend((at * 1_000_000_000).to_be_bytes());
            data.resize(length as usize, 0);
            bytes.extend(data);
        }
        let path = std::env::temp_dir().join(format!("soak-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn broken(packets: &[(u64, i64)], said: &str, cut: u64) -> Vec<&'static str> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = file(&n.to_string(), packets);
        let size = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(size - cut).unwrap();
        let ledger = Ledger::new(Arc::new(AtomicBool::new(false)), false);
        let now = Instant::now();
        let run = Run {
            files: vec![path.clone()],
            said: said.to_owned(),
            end: End::Asked,
            disk_was_full: false,
            between: (now, now + Duration::from_secs(100)),
            ended_ns: 100_000_000_000,
        };
        check(&ledger, &run);
        assert!(!path.exists());
        ledger.summary().broken.into_keys().collect()
    }

    #[test]
    fn what_is_missing_torn_or_not_counted_is_found() {
        let summary = |packets: u32, ring: u32| {
            let lost = format!("{{\"kernel\":0,\"ring\":{ring},\"writer\":0}}");
            format!("{{\"type\":\"summary\",\"packets\":{packets},\"lost\":{lost}}}\n")
        };
        let all = [(1, 10), (2, 11), (3, 12)];
        assert!(broken(&all, &summary(3, 0), 0).is_empty());
        assert_eq!(broken(&all, &summary(4, 0), 0), [COUNTED]);
        assert_eq!(broken(&all, "", 0), [COUNTED]);
        assert_eq!(broken(&all, &summary(2, 0), 5), [WHOLE]);
        let holes = [(1, 10), (4, 12)];
        assert_eq!(broken(&holes, &summary(2, 1), 0), [TOLD]);
        assert!(broken(&holes, &summary(2, 2), 0).is_empty());
        assert_eq!(broken(&[(2, 10), (1, 11)], &summary(2, 0), 0), [WHOLE]);
        // Overtaken on the way: it was stamped later as well.
        assert!(broken(&[(1, 10), (3, 11), (2, 12), (4, 13)], &summary(4, 0), 0).is_empty());
        // Written in another order than stamped, or twice.
        assert_eq!(broken(&[(1, 10), (3, 12), (2, 11)], &summary(3, 0), 0), [WHOLE]);
        assert_eq!(broken(&[(1, 10), (3, 11), (3, 12)], &summary(3, 1), 0), [WHOLE]);
        assert_eq!(broken(&[(1, 10), (3, 11), (2, 12), (2, 13)], &summary(4, 0), 0), [WHOLE]);
        assert_eq!(broken(&[(1, 10), (4, 11), (2, 12), (2, 13)], &summary(4, 1), 0), [WHOLE]);
        assert_eq!(broken(&[(1, 10), (4, 11), (2, 12)], &summary(3, 0), 0), [TOLD]);
    }
}
