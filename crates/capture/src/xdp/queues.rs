//! Which receive queues an interface has.

use std::fs;

use super::calls::Asker;

/// More than any card has.
const MOST: u32 = 1024;

/// The receive queues in use, as far as can be told: by the driver, by sysfs, else the first.
pub(super) fn of(asker: &Asker, interface: &str, index: u32) -> Vec<u32> {
    let told = asker.queues(interface).ok().filter(|&count| count > 0);
    let count = told.or_else(|| listed(interface, index)).unwrap_or(1);
    (0..count.min(MOST)).collect()
}

/// How many sysfs lists. It may be another network namespace's, which the number tells in all but
/// unlucky cases; a queue too few or too many does no harm (its packets pass, its socket idles).
fn listed(interface: &str, index: u32) -> Option<u32> {
    let place = format!("/sys/class/net/{interface}");
    let number = fs::read_to_string(format!("{place}/ifindex")).ok()?;
    if number.trim().parse() != Ok(index) {
        return None;
    }
    let entries = fs::read_dir(format!("{place}/queues")).ok()?;
    let count = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("rx-")))
        .count();
    u32::try_from(count).ok().filter(|&count| count > 0)
}
