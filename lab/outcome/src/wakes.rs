//! A control for figures that depend on when processes are woken: how late that is here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::stats::{quantile, show_ns};
use crate::verdict::Control;

/// Length of each sleep of the thread.
const NAP: Duration = Duration::from_millis(2);
/// One wake-up in a hundred may be later than this, ns: a thread that waits for nothing but a timer
/// is woken within some tens of µs where a processor is free for it.
const MOST_LATE_NS: f64 = 1e6;
/// Fewer wake-ups than this say nothing.
const LEAST_WAKES: usize = 100;

/// A thread that sleeps and looks at how late it is woken, for as long as a measurement takes.
#[derive(Debug)]
pub struct Wakes {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<f64>>>,
}

impl Wakes {
    /// Starts it. Where threads cannot be made, it says so in the end.
    #[must_use]
    pub fn start() -> Wakes {
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let watch = move || {
            let mut late = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let due = Instant::now() + NAP;
                thread::sleep(NAP);
                late.push(due.elapsed().as_nanos() as f64);
            }
            late
        };
        let thread = thread::Builder::new().name("wakes".to_owned()).spawn(watch).ok();
        Wakes { end, thread }
    }

    /// Ends it, and judges the machine by it.
    ///
    /// # Errors
    /// Where the machine was too busy for figures that depend on wake-ups.
    pub fn end(mut self) -> Control {
        self.end.store(true, Ordering::Relaxed);
        let late = self.thread.take().and_then(|thread| thread.join().ok());
        judged(&late.unwrap_or_default())
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// By how late each wake-up was, ns.
fn judged(late: &[f64]) -> Control {
    if late.len() < LEAST_WAKES {
        return Err(format!("too short a run: {} wake-ups of a sleeping thread", late.len()));
    }
    let p99 = quantile(late, 0.99);
    if p99 <= MOST_LATE_NS {
        return Ok(());
    }
    Err(format!(
        "this machine is busy: a thread that slept was woken {} late once in a hundred times",
        show_ns(p99)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_wakes_are_a_busy_machine() {
        let mut late = vec![60e3; 1000];
        // One stall is none.
        late[500] = 50e6;
        assert_eq!(judged(&late), Ok(()));
        late[..20].fill(4e6);
        let why = judged(&late).unwrap_err();
        assert!(why.starts_with("this machine is busy") && why.contains("4.00 ms late"), "{why}");
        assert!(judged(&late[..50]).unwrap_err().starts_with("too short"));
    }

    #[test]
    fn it_looks_and_ends() {
        let wakes = Wakes::start();
        thread::sleep(Duration::from_millis(20));
        // However busy this machine is: a word comes.
        assert!(wakes.end().is_err_and(|why| !why.is_empty()));
    }
}
