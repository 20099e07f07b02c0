//! Which receive queues an interface has.

use std::collections::BTreeSet;
use std::fs;

use super::XdpOptions;
use super::attach::Place;
use crate::tap::TapError;
use truechimer_stamp::interface::Asker;

/// More than any card has.
const MOST: u32 = 1024;

/// Those that are asked for, ascending, each once.
pub(super) fn wanted(options: &XdpOptions, place: &Place) -> Result<Vec<u32>, TapError> {
    let numbers: Vec<u32> = match &options.queues {
        Some(numbers) => BTreeSet::from_iter(numbers.iter().copied()).into_iter().collect(),
        None => of(&place.asker, &options.interface, place.link.index),
    };
    if numbers.is_empty() {
        return Err(TapError {
            doing: format!("opening AF_XDP sockets on {}", options.interface),
            why: "no queue was named".to_owned(),
            mend: None,
        });
    }
    Ok(numbers)
}

/// The receive queues in use, as far as can be told: by the driver, by sysfs, else the first.
pub(super) fn of(asker: &Asker, interface: &str, index: u32) -> Vec<u32> {
    let told = asker.queues(interface).ok().filter(|&count| count > 0);
    let count = told.or_else(|| listed(interface, index)).unwrap_or(1);
    (0..count.min(MOST)).collect()
}

/// Number of queues that sysfs lists. It may be another network namespace's, which the interface's
/// number tells in all but unlucky cases; a queue too few or too many does no harm (its packets
/// pass, its socket idles).
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
