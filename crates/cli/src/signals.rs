//! Signals as flags: nothing else happens in a handler.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Set by TERM and INT. A second one of them ends the process at once.
pub fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // Registered first, so that it sees the flag as it was before this signal.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|why| Failure::new("cannot handle signals", why))?;
    }
    Ok(flag)
}

/// Set by HUP.
pub fn reload() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&flag))
        .map_err(|why| Failure::new("cannot handle signals", why))?;
    Ok(flag)
}
