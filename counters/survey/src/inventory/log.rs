//! The kernel's log, as far as it concerns clocks: what was registered, measured, and given up.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde::Serialize;

use super::sources::{open, plain};

/// Of the log no more than this is looked at …
const RECORDS: usize = 200_000;
const BYTES: u64 = 32 << 20;
/// … and of what concerns clocks no more than this is kept.
const LINES: usize = 300;
const WIDTH: usize = 400;

/// Log of the kernel on clocks since it was booted.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Log {
    /// True if the log still begins with the boot; what was before its beginning is not known.
    pub complete: bool,
    /// Clocksources as they were registered, by name.
    pub registered: BTreeMap<String, Registered>,
    /// Changes of the clocksource in use, oldest first.
    pub switches: Vec<Switch>,
    /// Clocksources that were given up.
    pub unstable: Vec<Unstable>,
    /// The TSC's frequency as first found, kHz.
    pub tsc_khz: Option<f64>,
    /// TSC's frequency after it was measured for a second against HPET or ACPI PM timer, kHz.
    pub tsc_refined_khz: Option<f64>,
    /// Number of times that the watchdog had to read again, or passed a check over as the machine
    /// was busy.
    pub watchdog_disturbed: u32,
    /// Faults that the kernel finds with the firmware in this respect.
    pub firmware_bugs: Vec<String>,
    /// All lines about clocks, as they are, oldest first.
    pub lines: Vec<Line>,
}

/// One line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// Microseconds since boot.
    pub at_us: u64,
    /// Text of the line.
    pub text: String,
}

/// Registration of a clocksource by the kernel.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Registered {
    /// The counter's width.
    pub bits: u32,
    /// Frequency in Hz, worked out from the two limits that the kernel prints (the most
    /// counts, and how long it may be idle: half of their time with 11 % to spare for slewing),
    /// to about 10⁻⁷.
    pub hz: f64,
}

/// The kernel changed to another clocksource.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Switch {
    /// Microseconds since boot.
    pub at_us: u64,
    /// Which it changed to.
    pub to: String,
}

/// A clocksource that the kernel gave up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unstable {
    /// Microseconds since boot.
    pub at_us: u64,
    /// Which.
    pub name: String,
    /// Reason, in the kernel's words.
    pub why: String,
}

impl Log {
    /// Reads it: the device `/dev/kmsg`, or a file of what was read from there or from `dmesg`.
    ///
    /// # Errors
    /// Why it cannot be read, and what would help.
    pub fn read(path: &Path) -> Result<Log, String> {
        let failed = |why: std::io::Error| {
            let help = match why.kind() {
                ErrorKind::PermissionDenied => " (it takes root or CAP_SYSLOG)",
                _ => "",
            };
            format!("{}: {}{help}", path.display(), plain(&why))
        };
        let file = open(path).map_err(failed)?;
        let kind = file.metadata().map_err(failed)?.file_type();
        let records =
            if kind.is_char_device() { device(file) } else { plain_file(file) }.map_err(failed)?;
        Ok(Log::parse(records.iter().map(String::as_str)))
    }

    /// Reads these records. Each is one line: `PRIORITY,NUMBER,MICROSECONDS,…;TEXT` or
    /// `[SECONDS] TEXT`.
    pub fn parse<'a>(records: impl IntoIterator<Item = &'a str>) -> Log {
        let mut log = Log::default();
        for (n, record) in records.into_iter().enumerate() {
            let Some((number, at_us, text)) = parse_record(record) else { continue };
            if n == 0 {
                log.complete = number.map_or(at_us == 0, |number| number == 0);
            }
            if !concerns(text) {
                continue;
            }
            // However often the same is said before, what comes last may matter most.
            let line = Line { at_us, text: unescape(text) };
            log.take(&line);
            if log.lines.len() < LINES {
                log.lines.push(line);
            }
        }
        log
    }

    /// Entry of this clocksource among those that were given up, if it is there.
    #[must_use]
    pub fn given_up(&self, name: &str) -> Option<&Unstable> {
        self.unstable.iter().find(|unstable| unstable.name == name)
    }

    fn take(&mut self, line: &Line) {
        let text = line.text.as_str();
        let lower = text.to_ascii_lowercase();
        if let Some((name, registered)) = parse_registered(text) {
            if self.registered.len() < LINES {
                self.registered.insert(name.to_owned(), registered);
            }
        } else if let Some(to) = after(text, "Switched to clocksource ") {
            if self.switches.len() >= LINES {
                self.switches.remove(0);
            }
            self.switches.push(Switch { at_us: line.at_us, to: first_word(to) });
        } else if let Some(rest) = after(text, "Marking clocksource '") {
            let (name, why) = rest.split_once('\'').unwrap_or((rest, ""));
            let why = after(why, "because ").unwrap_or(why);
            self.give_up(line.at_us, name, why);
        } else if let Some(why) = after(text, "Marking TSC unstable due to ") {
            self.give_up(line.at_us, "tsc", why);
        } else if lower.contains("turning off tsc clock") {
            self.give_up(line.at_us, "tsc", text);
        } else if let Some(khz) = frequency(text, "Refined TSC clocksource calibration: ") {
            self.tsc_refined_khz = Some(khz);
        } else if let Some(khz) = frequency(text, "tsc: Detected ") {
            // The processor's own clock comes first, the TSC after it where it is another.
            if self.tsc_khz.is_none() || text.contains(" TSC") {
                self.tsc_khz = Some(khz);
            }
        } else if lower.contains("retried") || lower.contains("skipping watchdog check") {
            self.watchdog_disturbed = self.watchdog_disturbed.saturating_add(1);
        }
        let firmware = lower.contains("[firmware bug]") || lower.contains("tsc adjust");
        if firmware && self.firmware_bugs.len() < LINES {
            self.firmware_bugs.push(line.text.clone());
        }
    }

    fn give_up(&mut self, at_us: u64, name: &str, why: &str) {
        // The same event has several lines; the first one about it says most.
        if self.given_up(name).is_none() && self.unstable.len() < LINES {
            let why = why.trim().trim_end_matches(['.', ':']).to_owned();
            self.unstable.push(Unstable { at_us, name: name.to_owned(), why });
        }
    }
}

/// The records of the device: every read gives one. It never waits for another.
fn device(mut file: File) -> std::io::Result<Vec<String>> {
    let mut records = Vec::new();
    let mut buffer = [0; 8192];
    for n in 0..RECORDS {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                let record = String::from_utf8_lossy(bytes);
                // Lines after the first are about the device that spoke.
                let line = record.lines().next().unwrap_or_default();
                if n == 0 || concerns(line) {
                    records.push(line.to_owned());
                }
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => break,
            // Overwritten while it was read: the next read goes on at the oldest.
            Err(why) if why.raw_os_error() == Some(libc::EPIPE) => {}
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(records)
}

fn plain_file(file: File) -> std::io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().take(RECORDS).map(str::to_owned).collect())
}

/// Number (if it has one), microseconds and text of a record.
fn parse_record(record: &str) -> Option<(Option<u64>, u64, &str)> {
    if let Some(rest) = record.strip_prefix('[') {
        let (at, text) = rest.split_once(']')?;
        let (secs, fraction) = at.trim().split_once('.')?;
        let micros = format!("{fraction:0<6}");
        let micros: u64 = micros.get(..6)?.parse().ok()?;
        let at_us = secs.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?;
        return Some((None, at_us, text.strip_prefix(' ').unwrap_or(text)));
    }
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',').skip(1);
    let number = head.next()?.parse().ok()?;
    Some((Some(number), head.next()?.parse().ok()?, text))
}

/// True if a line is about clocks. The command line, which may name them, is not.
fn concerns(text: &str) -> bool {
    const ABOUT: [&str; 10] = [
        "clocksource",
        "tsc",
        "hpet",
        "kvm-clock",
        "kvmclock",
        "pm-timer",
        "pm timer",
        "arch_timer",
        "sched_clock",
        "timekeeping",
    ];
    let lower = text.to_ascii_lowercase();
    !lower.contains("command line") && ABOUT.iter().any(|word| contains_word(&lower, word))
}

/// True if the word is there and does not begin in the middle of another.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(char::is_alphabetic)
    })
}

/// `\xNN` as the byte it stands for, and nothing that would upset a terminal.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let byte = escape.get(2..4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                out.push(if byte.is_ascii_graphic() { char::from(byte) } else { ' ' });
                rest = escape.get(4..).unwrap_or_default();
            }
            None => {
                out.push_str("\\x");
                rest = escape.get(2..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    out.trim().chars().take(WIDTH).map(clean).collect()
}

fn after<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    text.split_once(what).map(|(_, rest)| rest)
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// `… 2596.120 MHz …` after `what`, in kHz.
fn frequency(text: &str, what: &str) -> Option<f64> {
    let (number, _) = after(text, what)?.split_once(" MHz")?;
    let mhz: f64 = number.trim().parse().ok()?;
    (mhz > 0.0 && mhz < 1e5).then_some(mhz * 1e3)
}

/// `clocksource: NAME: mask: 0x… max_cycles: 0x…, max_idle_ns: N ns`.
fn parse_registered(text: &str) -> Option<(&str, Registered)> {
    let (name, rest) = after(text, "clocksource: ")?.split_once(": mask: ")?;
    let hex = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let (mask, rest) = rest.split_once(" max_cycles: ")?;
    let (cycles, rest) = rest.split_once(',')?;
    let idle_ns: f64 = after(rest, "max_idle_ns: ")?.split_whitespace().next()?.parse().ok()?;
    let (mask, cycles) = (hex(mask)?, hex(cycles)? as f64);
    let bits = 64 - mask.leading_zeros();
    // The kernel says half of the time of so many counts, taken 11 % too short.
    let hz = cycles * 0.89 / (2.0 * idle_ns * 1e-9);
    (hz.is_finite() && hz > 0.0).then_some((name, Registered { bits, hz }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64, relative: f64) -> bool {
        (a / b - 1.0).abs() < relative
    }

    #[test]
    fn a_pc_that_gave_up_its_tsc() {
        let log = Log::parse([
            "5,0,0,-;Linux version 6.1.0",
            "6,1,0,-;Command line: tsc=reliable clocksource=hpet",
            "6,2,0,-;tsc: Fast TSC calibration using PIT",
            "6,3,17,-;tsc: Detected 2400.000 MHz processor",
            "6,4,18,-;tsc: Detected 2399.000 MHz TSC",
            "6,5,20,-;clocksource: hpet: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 133484882848 ns",
            "6,6,30,-;clocksource: acpi_pm: mask: 0xffffff max_cycles: 0xffffff, max_idle_ns: 2085701024 ns",
            "6,7,40,-;tsc: Refined TSC clocksource calibration: 2399.981 MHz",
            "6,8,50,-;clocksource: Switched to clocksource tsc",
            "4,9,60,-;clocksource: timekeeping watchdog on CPU3: hpet wd-tsc-wd excessive read-back delay of 60000ns vs. limit of 50000ns, wd-wd read-back delay only 9000ns, attempt 2, marking tsc unstable",
            "4,10,61,-;clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "6,11,62,-;tsc: Marking TSC unstable due to clocksource watchdog",
            "6,12,63,-;clocksource: Switched to clocksource hpet",
            "6,13,64,-;usb 1-1: etscape matches nothing",
            "not a record",
        ]);
        assert!(log.complete);
        assert_eq!((log.tsc_khz, log.tsc_refined_khz), (Some(2_399_000.0), Some(2_399_981.0)));
        let hpet = log.registered["hpet"];
        assert!(hpet.bits == 32 && close(hpet.hz, 14_318_180.0, 1e-6), "{hpet:?}");
        let pm = log.registered["acpi_pm"];
        assert!(pm.bits == 24 && close(pm.hz, 3_579_545.0, 1e-6), "{pm:?}");
        let unstable =
            Unstable { at_us: 61, name: "tsc".into(), why: "the skew is too large".into() };
        assert_eq!(log.unstable, [unstable]);
        let switches: Vec<&str> = log.switches.iter().map(|switch| switch.to.as_str()).collect();
        assert_eq!(switches, ["tsc", "hpet"]);
        assert_eq!(log.lines.len(), 11, "neither the command line nor etscape");
    }

    #[test]
    fn frequencies_come_out_of_the_limits() {
        // As this kernel prints them for a TSC of 2596.12 MHz, for nanoseconds, and for 250 Hz.
        for (line, hz, bits) in [
            (
                "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x256bead120a, max_idle_ns: 440795214554 ns",
                2_596_120_000.0,
                64,
            ),
            (
                "clocksource: kvm-clock: mask: 0xffffffffffffffff max_cycles: 0x1cd42e4dffb, max_idle_ns: 881590591483 ns",
                1e9,
                64,
            ),
            (
                "clocksource: jiffies: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 7645041785100000 ns",
                250.0,
                32,
            ),
        ] {
            let (_, registered) = parse_registered(line).unwrap();
            assert!(close(registered.hz, hz, 3e-7), "{registered:?} is not {hz}");
            assert_eq!(registered.bits, bits);
        }
        for bad in [
            "clocksource: a: mask: 0xff max_cycles: 0xff, max_idle_ns: 0 ns",
            "clocksource: a: mask: ff max_cycles: 0xff, max_idle_ns: 1 ns",
            "clocksource: a: mask: 0xff",
        ] {
            assert_eq!(parse_registered(bad), None, "{bad}");
        }
    }

    #[test]
    fn other_forms() {
        let log = Log::parse([
            "[    1.250000] TSC synchronization [CPU#0 -> CPU#1]:",
            "[    1.250001] Measured 3456 cycles TSC warp between CPUs, turning off TSC clock.",
            "[    1.25] tsc: Marking TSC unstable due to check_tsc_sync_source failed",
            "[   12.000000] [Firmware Bug]: TSC ADJUST differs within socket(s), fixing all errors",
            "[   13.000000] clocksource: timekeeping watchdog on CPU1: hpet retried 2 times before success",
        ]);
        assert!(!log.complete);
        assert!(log.unstable[0].why.starts_with("Measured 3456 cycles"));
        assert_eq!((log.unstable.len(), log.watchdog_disturbed), (1, 1));
        assert_eq!(log.firmware_bugs.len(), 1);
        assert_eq!(log.lines[0].at_us, 1_250_000);
    }

    #[test]
    fn what_is_said_again_and_again_hides_nothing() {
        let again = "4,9,60,-;clocksource: timekeeping watchdog on CPU3: hpet retried 2 times before success";
        let last = [
            "6,11,62,-;tsc: Marking TSC unstable due to clocksource watchdog",
            "6,12,63,-;clocksource: Switched to clocksource hpet",
        ];
        let log = Log::parse(std::iter::repeat_n(again, 1000).chain(last));
        assert_eq!((log.lines.len(), log.watchdog_disturbed), (LINES, 1000));
        assert_eq!(log.given_up("tsc").unwrap().why, "clocksource watchdog");
        assert_eq!(log.switches.last().unwrap().to, "hpet");
        let names: Vec<String> = (0..1000)
            .map(|n| format!("6,1,1,-;clocksource: Marking clocksource 'x{n}' as unstable because"))
            .collect();
        assert_eq!(Log::parse(names.iter().map(String::as_str)).unstable.len(), LINES);
    }

    #[test]
    fn escapes_become_harmless() {
        assert_eq!(unescape("a\\x0ab\\x1b[31m\\x5c\\xzz\\x"), "a b [31m\\\\xzz\\x");
        assert_eq!(unescape("a\u{1b}x"), "a x");
        assert_eq!(unescape(&"é".repeat(1000)).chars().count(), WIDTH);
    }

    proptest! {
        #[test]
        fn any_record_is_read(records in proptest::collection::vec("\\PC{0,120}", 0..8)) {
            let _ = Log::parse(records.iter().map(String::as_str));
        }

        #[test]
        fn near_misses_do_not_upset_it(
            name in "[a-z_]{0,12}", mask in "0?x?[0-9a-f]{0,20}", cycles in "0x[0-9a-f]{0,20}",
            idle in "[-0-9a-z.]{0,25}",
        ) {
            let line = format!(
                "6,0,0,-;clocksource: {name}: mask: {mask} max_cycles: {cycles}, max_idle_ns: {idle} ns"
            );
            for registered in Log::parse([line.as_str()]).registered.values() {
                prop_assert!(registered.hz > 0.0 && registered.bits <= 64);
            }
        }

        #[test]
        fn what_the_kernel_prints_gives_its_frequency(khz in 1_000u64..8_000_000) {
            // As the kernel works the limits out, with mult of 22 to 24 bits as it chooses.
            let shift = 22 + (khz as f64 / 1e6).log2().floor() as i32;
            let mult = (1e6 * 2f64.powi(shift) / khz as f64).round();
            let most = (mult * 0.11).floor();
            let cycles = (2f64.powi(63) / (mult + most)).floor();
            let idle = (cycles * (mult - most) / 2f64.powi(shift)).floor() / 2.0;
            let line = format!(
                "clocksource: x: mask: 0xffffffffffffffff max_cycles: {:#x}, max_idle_ns: {} ns",
                cycles as u64, idle as u64
            );
            let (_, registered) = parse_registered(&line).unwrap();
            prop_assert!(close(registered.hz, khz as f64 * 1e3, 1e-6), "{registered:?}");
        }

        #[test]
        fn no_log_is_too_long(n in 0usize..2000) {
            let record = "6,7,40,-;tsc: again";
            prop_assert!(Log::parse((0..n).map(|_| record)).lines.len() <= LINES);
        }
    }
}
