//! Reports of all commands that make one, as a reader has them: heads, headlines, and in a browser at three widths, light and
//! dark.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::headless::{self, Folder};
use crate::support::{Dir, Process, truechimer};

/// Packets of one UDP flow as a pcap file (nanoseconds, Ethernet): one each 20 ms from second 100 on, so much later, but for
/// those that were lost; each has its number as payload.
fn capture(path: &Path, later_ns: u64, hops: u8, lost: &[u32]) {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for number in (0..100_u32).filter(|number| !lost.contains(number)) {
        let jitter = u64::from(number * 7919 % 31) * 10_000;
        let at = 100_000_000_000 + u64::from(number) * 20_000_000 + later_ns + jitter;
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, hops, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[16 + 2..16 + 4].copy_from_slice(&(number as u16).to_be_bytes());
        frame.extend([0x1f, 0x90, 0x23, 0x28, 0, 12, 0, 0]);
        frame.extend(number.to_be_bytes());
        let length = frame.len() as u32;
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

/// Makes a report by these words, in the folder, and looks at it.
fn looks_right(folder: &Folder, words: &[&str], facts: &[&str], empty: usize) {
    let page = folder.0.join("page.html").display().to_string();
    let answer = truechimer(&[words, &[&page]].concat());
    assert!(answer.code < 2, "{words:?}: {answer:?}");
    headless::headed(&fs::read_to_string(page).unwrap(), facts);
    let Some(browser) = headless::browser() else { return };
    headless::looks_right(&browser, folder, "page.html", empty);
}

const MEASURED: [&str; 3] = ["host", "time", "clock"];

#[test]
fn those_of_counters() {
    let folder = Folder::new("counters");
    let bench = ["counters", "bench", "--reads", "2k", "--report"];
    looks_right(&folder, &bench, &MEASURED, 0);
    let latency = ["counters", "latency", "--seconds", "0.5", "--report"];
    looks_right(&folder, &latency, &MEASURED, 0);
    let stability = ["counters", "stability", "--duration", "1s", "--interval", "10ms", "--report"];
    looks_right(&folder, &stability, &MEASURED, 0);
    let page = folder.0.join("page.html").display().to_string();
    let all = truechimer(&["counters", "report", &page, "--minutes", "0.1", "--reads", "2k"]);
    assert_eq!(all.code, 0, "{all:?}");
    headless::headed(&fs::read_to_string(page).unwrap(), &MEASURED);
    let Some(browser) = headless::browser() else { return };
    headless::looks_right(&browser, &folder, "page.html", 0);
}

#[test]
fn that_of_the_demonstration() {
    let folder = Folder::new("demo");
    // On a busy machine the clock may need longer to synchronise.
    let page = folder.0.join("page.html").display().to_string();
    let shown =
        |seconds: &&str| truechimer(&["demo", "--seconds", seconds, "--report", &page]).code < 2;
    assert!(["3", "30", "120"].iter().any(shown), "no report");
    headless::headed(&fs::read_to_string(&page).unwrap(), &["host", "time"]);
    let Some(browser) = headless::browser() else { return };
    // There is no distribution of 1000 s within so short a time.
    headless::looks_right(&browser, &folder, "page.html", 1);
}

#[test]
fn that_of_a_check_of_stamps() {
    let folder = Folder::new("check");
    let words = ["capture", "check", "lo", "--duration", "300ms", "--interval", "5ms", "--html"];
    let page = folder.0.join("page.html").display().to_string();
    let answer = truechimer(&[&words[..], &[&page]].concat());
    if answer.code == 2 && answer.err.contains("CAP_NET_RAW") {
        // Past the harness, which would keep it to itself.
        let lack = "SKIPPED report on stamps in a browser: this takes CAP_NET_RAW";
        let _ = writeln!(std::io::stderr(), "{lack}");
        return;
    }
    looks_right(&folder, &words, &["host", "time", "interface", "clock"], 0);
}

#[test]
fn those_of_packets() {
    let folder = Folder::new("packets");
    let [a, b] = ["a.pcap", "b.pcap"].map(|name| folder.0.join(name));
    capture(&a, 0, 64, &[]);
    capture(&b, 5_000_000, 63, &[7, 8, 30]);
    let [a, b] = [a, b].map(|path| path.display().to_string());
    looks_right(&folder, &["qos", &b, "--sequence", "udp:9000@0:be32", "--html"], &["time"], 0);
    looks_right(&folder, &["qos", &a, &b, "--html"], &["time"], 0);
}

#[test]
fn that_of_a_path() {
    let (dir, folder) = (Dir::new(), Folder::new("probe"));
    let mut reflector = Process::start(
        &dir,
        "reflector",
        &["probe", "reflect", "--listen", "127.0.0.1:0", "--open"],
    );
    reflector.wait_for("127.0.0.1:");
    let said = reflector.output();
    let port = said
        .split("127.0.0.1:")
        .nth(1)
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap();
    let to = format!("127.0.0.1:{port}");
    let words = ["probe", "-c", "40", "-i", "5ms", "--page", "/nowhere/clock", &to, "--html"];
    // Without a clock there is no delay of either way, and three charts say so.
    looks_right(&folder, &words, &MEASURED, 3);
}
