//! Hands that show whether all of their fields belong together, a directory to work in, and a word
//! for what cannot run.
#![allow(dead_code)] // Each test binary uses its part.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span,
};
use truechimer_timehands::{ByRaw, Device, Hand, Likely, Made, Status};

/// A hand with every field derived from its generation.
pub fn derived(generation: u64) -> (Hand, Made) {
    let g = generation as i64;
    let period = Period::from_hz(1_000_000_000 + generation % 1000);
    let hand = Hand {
        counter: CounterId {
            kind: CounterKind::Raw,
            boot: BootId((u128::from(generation) << 7).to_be_bytes()),
            epoch: Epoch(generation as u32),
        },
        base: Count(generation),
        time: Instant::new(g % 1_000_000, !generation),
        period,
        difference: period.scaled(Rate::from_ppb(g % 5000)),
        difference_error: Rate(g % 1_000_000),
        path_bound: Span::from_nanos(g % 1_000_000),
        statistical_bound: Span::from_nanos(g % 77_777),
        disputed: Span((Span::from_nanos(g % 77_777).0 / 3) >> 32 << 32),
        growth: Rate(g % 333_333),
        imbalance: Span((Span::from_nanos(g % 1_000_000).0 >> 32 << 32) * i128::from(1 - g % 3)),
        likely: (g % 5 != 0).then_some(Likely {
            half: Span(i128::from(1 + g % 1000) << 32),
            growth: Rate(g % 99_999),
        }),
        status: if g % 2 == 0 { Status::Synchronised } else { Status::Holdover },
        leaps: Leaps {
            tai_offset: g as i32,
            known: g % 3 == 0,
            last: (g % 5 == 0).then_some(Leap { at: g, step: 1 }),
            next: (g % 7 == 0).then_some(Leap { at: -g, step: -1 }),
        },
        void_after: Count(generation.wrapping_mul(3)),
    };
    let made = Made {
        count: Count(generation),
        monotonic_ns: g,
        raw_ns: -g,
        suspended_ns: g.wrapping_mul(9),
        device: (g % 11 != 0).then_some(Device {
            bits: 1 + (generation % 64) as u32,
            by_raw: (g % 13 != 0).then_some(ByRaw {
                period: period.scaled(Rate::from_ppb(-g % 7000)),
                error: Rate(g % 444_444),
                pair: CountSpan(g % 55_555),
            }),
        }),
    };
    (hand, made)
}

/// A directory that goes with all that is in it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("timehands-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says that a test cannot run here, past the harness, which would keep it to itself.
pub fn skipped(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}
