//! TCP ports for programs that have to be told one.

use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::process;
use std::sync::Mutex;

/// Below those that the kernel takes for connections (`ip_local_port_range`).
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// Locks of the ports that this process has given away, until it ends.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Ports of this machine, `count` of them, that are free, and that no other test is told while this process lives.
///
/// A port that is found by binding to any, and let go again, may be another test's before the program has it: then
/// one test's program answers the other's clients.
///
/// # Panics
/// If there are not so many.
pub fn free(count: usize) -> Vec<u16> {
    let folder = env::temp_dir().join("truechimer-ports");
    fs::create_dir_all(&folder).expect("a folder for locks");
    let mut held = HELD.lock().expect("no test panics here");
    let begin = process::id() as usize * 97;
    let all = (0..RANGE.len()).map(|n| RANGE.start + ((begin + n) % RANGE.len()) as u16);
    let found = all.filter(|port| {
        let Ok(file) = File::create(folder.join(port.to_string())) else { return false };
        let is_free = file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", *port)).is_ok();
        if is_free {
            held.push(file);
        }
        is_free
    });
    let ports: Vec<u16> = found.take(count).collect();
    assert_eq!(ports.len(), count, "free ports from {RANGE:?}");
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_told_twice() {
        let (mut all, more) = (free(20), free(20));
        all.extend(more);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40);
    }
}
