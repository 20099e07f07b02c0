//! Facts about this machine's counters from the kernel and the processor.

use std::fs;

use truechimer_time::BootId;

use crate::choose::{Facts, Flags};
use crate::error::CounterError;
use crate::kept::Kept;
use crate::read;

const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// The clocksource that the kernel keeps time by (`tsc`, `kvm-clock`, `hpet`, …), if `/sys` says.
/// Another one under `CLOCK_MONOTONIC_RAW` changes its slope: that begins a new epoch.
#[must_use]
pub fn clocksource() -> Option<String> {
    static CURRENT: Kept =
        Kept::new("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let text = CURRENT.read()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The clocksources that the kernel would keep time by, if `/sys` says. One that it found
/// unstable is not among them.
#[must_use]
pub fn available_clocksources() -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("{CLOCKSOURCES}/available_clocksource")).ok()?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// This boot of this machine.
///
/// # Errors
/// Where `/proc` is missing or says something else than a UUID.
pub fn boot_id() -> Result<BootId, CounterError> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| CounterError::NoBootId(error.to_string()))?;
    parse_uuid(text.trim())
        .map(BootId)
        .ok_or_else(|| CounterError::NoBootId(format!("'{}' is not a UUID", text.trim())))
}

/// All that the choice of a counter depends on.
pub(crate) fn facts() -> Facts {
    Facts {
        native: read::NATIVE,
        invariant: read::tsc_invariant(),
        flags: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| parse_flags(&text)),
        arm_hz: read::arm_hz(),
        clocksource: clocksource(),
        available: available_clocksources(),
        raw_error: read::clock(libc::CLOCK_MONOTONIC_RAW)
            .err()
            .map(|error| error.raw_os_error().unwrap_or(0)),
        raw_shift: fs::read_to_string("/proc/self/timens_offsets")
            .ok()
            .and_then(|text| parse_shift(&text))
            .unwrap_or(0),
    }
}

/// The first processor's flags in `/proc/cpuinfo`; `None` where there is no such line.
fn parse_flags(cpuinfo: &str) -> Option<Flags> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let has = |flag| line.split_whitespace().any(|word| word == flag);
    Some(Flags { constant: has("constant_tsc"), nonstop: has("nonstop_tsc") })
}

/// Offset of the monotonic clocks by a time namespace, in ns: the line `monotonic SECONDS NANOS` of
/// `/proc/self/timens_offsets`.
fn parse_shift(offsets: &str) -> Option<i64> {
    let mut words =
        offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let (secs, nanos) = (words.next()?.parse::<i64>().ok()?, words.next()?.parse::<i64>().ok()?);
    Some(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// The sixteen bytes of `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.bytes().filter(|b| *b != b'-').map(|b| (b as char).to_digit(16));
    for byte in &mut bytes {
        *byte = (digits.next()?? << 4 | digits.next()??) as u8;
    }
    (text.len() == 36 && digits.next().is_none()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_ids_are_uuids() {
        let id = parse_uuid("106f97a8-4741-40d9-bc9e-9f9c5e284809").unwrap();
        assert_eq!((id[0], id[15]), (0x10, 0x09));
        for bad in ["", "106f97a8", "106f97a8-4741-40d9-bc9e-9f9c5e28480x", "0"] {
            assert_eq!(parse_uuid(bad), None, "{bad}");
        }
        assert_eq!(parse_uuid(&"0".repeat(36)), None);
        assert_eq!(boot_id(), boot_id());
    }

    #[test]
    fn flags_are_whole_words() {
        let text = "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc_s3\n";
        assert_eq!(parse_flags(text), Some(Flags { constant: true, nonstop: false }));
        assert_eq!(parse_flags("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn a_time_namespace_shows() {
        assert_eq!(parse_shift("monotonic           0         0\nboottime 0 0\n"), Some(0));
        assert_eq!(parse_shift("monotonic  -2  500000000\n"), Some(-1_500_000_000));
        assert_eq!(parse_shift("monotonic 9223372036854775807 0\n"), Some(i64::MAX));
        assert_eq!(parse_shift("boottime 1 0\n"), None);
        assert_eq!(parse_shift("monotonic x 0\n"), None);
    }
}
