//! A clock that no correction of the time moves.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64, fence};

use truechimer_time::Span;

use crate::clock::Clock;
use crate::error::ReadError;
use crate::reading::{Elapsed, Moment};

/// A moment at which the kernel's clock of the time since boot was read, and the latest uptime
/// given out. Threads never wait for each other here: the one that comes first sets the anchor, and
/// those that come meanwhile go by an anchor of their own.
pub(crate) struct Uptime {
    /// Even: the rest is whole. Odd: some thread is changing it. 0: there is none yet.
    version: AtomicU64,
    moment: [AtomicU64; 2],
    boot_ns: AtomicI64,
    /// Error bound of `boot_ns` against what the kernel's clock read at the moment, ns.
    width_ns: AtomicI64,
    /// The latest that was given out, ns.
    latest: AtomicI64,
}

/// Point that uptime is counted from.
#[derive(Clone, Copy)]
struct Anchor {
    moment: Moment,
    boot_ns: i64,
    width_ns: i64,
}

impl Uptime {
    pub fn new() -> Uptime {
        let zero = || AtomicU64::new(0);
        let (boot_ns, width_ns, latest) = (0.into(), 0.into(), i64::MIN.into());
        Uptime { version: zero(), moment: [zero(), zero()], boot_ns, width_ns, latest }
    }

    /// The uptime by this clock.
    pub fn of(&self, clock: &Clock) -> Result<Elapsed, ReadError> {
        let now = clock.moment()?;
        let (version, anchor) = self.anchor();
        let anchor = match anchor {
            Some(anchor) if same_stretch(anchor.moment, now) => anchor,
            _ => self.anew(clock, version)?,
        };
        // One that was made just now is later than `now`, by microseconds.
        let since = clock.elapsed(anchor.moment, now)?;
        let plain = Span::from_nanos(anchor.boot_ns) + since.span;
        let nanos = plain.as_nanos_i64();
        let latest = self.latest.fetch_max(nanos, Relaxed).max(nanos);
        let span = if latest > nanos { Span::from_nanos(latest) } else { plain };
        let stood = (span - plain).abs();
        Ok(Elapsed { span, bound: since.bound + stood + Span::from_nanos(anchor.width_ns) })
    }

    fn anchor(&self) -> (u64, Option<Anchor>) {
        let version = self.version.load(Acquire);
        let words = self.moment.each_ref().map(|word| word.load(Relaxed));
        let (boot_ns, width_ns) = (self.boot_ns.load(Relaxed), self.width_ns.load(Relaxed));
        fence(Acquire);
        let whole = version & 1 == 0 && version != 0 && self.version.load(Relaxed) == version;
        let moment = Moment::from_words(words).filter(|_| whole);
        (version, moment.map(|moment| Anchor { moment, boot_ns, width_ns }))
    }

    /// A new anchor, which all go by from now on unless another thread is about to set one.
    fn anew(&self, clock: &Clock, version: u64) -> Result<Anchor, ReadError> {
        let (moment, boot_ns, width) = clock.boot_time()?;
        let width_ns = width.as_nanos_up();
        let odd = version | 1;
        if odd != version && self.version.compare_exchange(version, odd, Acquire, Relaxed).is_ok() {
            // What a reader sees of these, it sees after the odd version.
            fence(Release);
            for (place, word) in self.moment.iter().zip(moment.to_words()) {
                place.store(word, Relaxed);
            }
            self.boot_ns.store(boot_ns, Relaxed);
            self.width_ns.store(width_ns, Relaxed);
            self.version.store(odd.wrapping_add(1), Release);
        }
        Ok(Anchor { moment, boot_ns, width_ns })
    }
}

fn same_stretch(one: Moment, other: Moment) -> bool {
    (one.kind, one.epoch) == (other.kind, other.epoch)
}
