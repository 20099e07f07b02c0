//! Signals as flags: nothing else happens in a handler.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::flag;

use crate::Failure;

/// Exit code by which a shell tells of a command that INT ended.
const INTERRUPTED: i32 = 128 + SIGINT;

/// Set by TERM and INT, in any order and number: what ends in order has ended well. Only a second
/// INT (Ctrl-C, and again, because it takes too long) ends the process at once.
pub fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let (flag, pressed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // Registered first, so that it sees its flag as it was before this signal.
    flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&pressed))
        .and_then(|_| flag::register(SIGINT, pressed))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&flag)))
        .and_then(|_| flag::register(SIGTERM, Arc::clone(&flag)))
        .map_err(|why| Failure::new("cannot handle signals", why))?;
    Ok(flag)
}

/// Set by TERM, INT and HUP; the second TERM or INT ends the process at once. For those who write
/// files that should be whole: a full disk quota is an error of the write, and no signal. HUP stays
/// ignored where it was (nohup).
pub fn finish() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let failed = |why| Failure::new("cannot handle signals", why);
    for signal in [SIGTERM, SIGINT] {
        // Registered first, as above.
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))
            .and_then(|_| flag::register(signal, Arc::clone(&flag)))
            .map_err(failed)?;
    }
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, Arc::clone(&flag)).map_err(failed)?;
    }
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(failed)?;
    Ok(flag)
}

/// Set by TERM, INT and HUP, as often as they come: for those who have something to put back, and
/// look at the flag every few milliseconds. HUP stays ignored where it was (nohup).
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGTERM, SIGINT].into_iter().chain(hang_up) {
        flag::register(signal, Arc::clone(&flag))
            .map_err(|why| Failure::new("cannot handle signals", why))?;
    }
    Ok(flag)
}

/// Nothing happens on TSTP (Ctrl-Z) from now on.
pub fn no_stop() -> Result<(), Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    flag::register(SIGTSTP, flag)
        .map(drop)
        .map_err(|why| Failure::new("cannot handle signals", why))
}

/// True if this process was started with a signal ignored; false where the kernel does not tell.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signal >= 1 && mask.checked_shr(signal as u32 - 1).is_some_and(|mask| mask & 1 == 1)
}

/// Set by HUP.
pub fn reload() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&flag))
        .map_err(|why| Failure::new("cannot handle signals", why))?;
    Ok(flag)
}
