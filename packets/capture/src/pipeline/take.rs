//! The capture thread: moves chunks, and takes pairs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer_counter::{Counter, realtime_pair};
use truechimer_time::Count;

use super::queue::{Batch, Item, Limits, MOST_PAIRS, Pair};
use super::{Device, Options, Progress};
use crate::sink::Mark;
use crate::{Chunk, Losses, Next, Tap, TapError};

/// Time for which chunks share a pair at least.
const BETWEEN_PAIRS: Duration = Duration::from_millis(1);
/// Longest wait for packets, so that a stop is seen.
const WAIT: Duration = Duration::from_millis(100);
/// Greatest age of the last pair while nothing comes: a packet after it is then still between two
/// pairs that are not far apart.
const IDLE_PAIR: Duration = Duration::from_millis(500);
/// Interval at which the tap is asked what it lost.
const BETWEEN_LOSSES: Duration = Duration::from_millis(250);
/// Pairs are so many times as far apart as reading a card's clock took: 5 % of the thread, unless packets fill batches
/// sooner.
const DEVICE_PAIR_SHARE: u32 = 20;
/// Longest that packets wait for a pair all the same: what one reading took that was held up says nothing of the next.
const MOST_BETWEEN_PAIRS: Duration = Duration::from_millis(100);
/// The narrowest of so many readings is a pair: below 1 µs together.
const TRIES: u32 = 8;
/// A tap that was stopped and gives nothing for so long has nothing more, if its counters agree.
const SETTLED: Duration = Duration::from_millis(25);
/// Otherwise it is asked again, so often at the most.
const MOST_ASKED: u32 = 60;
/// One that still counts more after it was found complete so often takes packets on and on.
const MOST_GROWN: u32 = 4;
/// While the conversion thread is behind, so many pairs are taken as often as it is looked at,
/// and further ones more rarely.
const SOME_PAIRS: usize = 200;

/// Where batches go.
pub(super) trait Outlet {
    /// Hands it on, and if it may be the last, until the sink has it, whatever that takes. If it takes longer,
    /// `meanwhile` is called now and then. Whether it makes sense to go on; what could not be handed on has been
    /// counted.
    fn hand_on(&mut self, batch: Batch, last: bool, meanwhile: &mut dyn FnMut()) -> bool;

    /// Nothing came for a while. Whether it makes sense to go on.
    fn idle(&mut self) -> bool;
}

/// Reason why no more packets are taken.
#[derive(Debug)]
pub(super) enum Ended {
    /// There are as many as were asked for.
    Count,
    /// The time is over.
    Duration,
    /// Stopped as told.
    Stopped,
    /// The interface has vanished.
    Gone,
    /// The other side takes nothing any more.
    Refused,
    /// The tap failed.
    Failed(TapError),
}

/// The capture thread's state.
pub(super) struct Taker<'a> {
    tap: Box<dyn Tap>,
    device: Option<Device>,
    /// Chunks that come within this time share a pair.
    between: Duration,
    /// The card's clock could not be read when it was asked last.
    device_silent: bool,
    counter: Counter,
    options: &'a Options,
    progress: &'a Progress,
    limits: Limits,
    batch: Batch,
    /// When the last pair was taken.
    paired: Instant,
    /// When the tap was last asked for its losses.
    asked: Instant,
    /// The losses, as last told.
    losses: Losses,
    taken: u64,
    /// The tap had nothing when it was looked at last.
    empty: bool,
    /// The count before it was last found empty, unless a batch bears it already.
    quiet: Option<Count>,
    /// Enough are taken: all others are surplus.
    enough: bool,
}

impl<'a> Taker<'a> {
    pub fn new(
        tap: Box<dyn Tap>,
        device: Option<Device>,
        counter: Counter,
        options: &'a Options,
        progress: &'a Progress,
    ) -> Taker<'a> {
        let now = Instant::now();
        let limits = options.limits(tap.facts());
        let mut taker = Taker {
            tap,
            device,
            between: BETWEEN_PAIRS,
            device_silent: false,
            counter,
            limits,
            options,
            progress,
            batch: Batch::default(),
            paired: now,
            asked: now,
            losses: Losses::default(),
            taken: 0,
            empty: false,
            quiet: None,
            enough: false,
        };
        taker.pair();
        taker
    }

    /// Takes packets until there is a reason to end, which it returns after having stopped the tap,
    /// taken what it still held, and asked it for its final losses.
    pub fn run(&mut self, outlet: &mut dyn Outlet, stop: &AtomicBool) -> Ended {
        let until = self.options.duration.and_then(|span| Instant::now().checked_add(span));
        let mut ended = loop {
            if stop.load(Ordering::Relaxed) {
                break Ended::Stopped;
            }
            let now = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                break Ended::Duration;
            }
            if let Some(ended) = self.step(outlet, now, left.unwrap_or(WAIT).min(WAIT)) {
                break ended;
            }
        };
        if !matches!(ended, Ended::Gone | Ended::Failed(_))
            && let Err(why) = self.tap.stop()
        {
            self.progress.note(format!("what comes after the end is still counted: {why}"));
        }
        if matches!(ended, Ended::Stopped | Ended::Duration | Ended::Count) {
            ended = self.drain(outlet, ended);
        }
        // The last chunks have no pair after them yet.
        self.pair();
        let asked = self.ask();
        self.send(outlet, true);
        if let Err(error) = asked {
            let gone = matches!(ended, Ended::Gone | Ended::Failed(_));
            if !gone {
                self.progress.note(format!("what was lost is not known: {error}"));
            }
        }
        ended
    }

    /// Waits for one chunk at the most.
    fn step(&mut self, outlet: &mut dyn Outlet, now: Instant, wait: Duration) -> Option<Ended> {
        self.empty = false;
        let since = now.saturating_duration_since(self.paired);
        let owes = !self.batch.items.is_empty();
        if since >= if owes { self.between } else { IDLE_PAIR } {
            self.pair();
            if now.saturating_duration_since(self.asked) >= BETWEEN_LOSSES
                && let Err(error) = self.ask()
            {
                self.asked = now;
                self.progress.note(format!("what is lost is not known: {error}"));
            }
            if !self.send(outlet, false) {
                return Some(Ended::Refused);
            }
        }
        let wait = if owes { wait.min(self.between) } else { wait };
        let count = self.counter.read();
        let next = self.tap.next(wait);
        self.empty = matches!(next, Ok(Next::Nothing));
        let mark = match next {
            Ok(Next::Chunk(chunk)) => return self.chunk(chunk, outlet),
            Ok(Next::Nothing) => {
                self.quiet = Some(count);
                return (!outlet.idle()).then_some(Ended::Refused);
            }
            Ok(Next::Down) => {
                self.progress.down.store(true, Ordering::Relaxed);
                self.progress.downs.fetch_add(1, Ordering::Relaxed);
                Mark::Down
            }
            Ok(Next::Up) => {
                self.progress.down.store(false, Ordering::Relaxed);
                Mark::Up
            }
            Ok(Next::Gone) => Mark::Gone,
            Err(error) => return Some(Ended::Failed(error)),
        };
        self.batch.items.push(Item::Mark(mark));
        (mark == Mark::Gone).then_some(Ended::Gone)
    }

    fn chunk(&mut self, chunk: Box<dyn Chunk>, outlet: &mut dyn Outlet) -> Option<Ended> {
        let packets = chunk.len() as u64;
        if packets == 0 {
            return None;
        }
        self.taken += packets;
        self.progress.taken.fetch_add(packets, Ordering::Relaxed);
        if self.enough {
            self.progress.surplus.fetch_add(packets, Ordering::Relaxed);
            return None;
        }
        if self.batch.packets == 0 {
            self.batch.quiet = self.quiet.take();
        }
        self.batch.chunk(chunk);
        // What was dropped here, or found no room on the disk, does not count towards the number asked for.
        let Progress { dropped, unwritten, .. } = self.progress;
        let lost = dropped.load(Ordering::Relaxed) + unwritten.load(Ordering::Relaxed);
        if self.options.count.is_some_and(|count| self.taken.saturating_sub(lost) >= count.get()) {
            self.pair();
            if !self.send(outlet, true) {
                return Some(if self.progress.has(self.options.count) {
                    Ended::Count
                } else {
                    Ended::Refused
                });
            }
            // Some found no room on the disk.
            return None;
        }
        let limits = self.limits;
        let full = self.batch.items.len() * 2 >= limits.items
            || self.batch.packets.saturating_mul(2) >= limits.packets;
        if full || self.paired.elapsed() >= self.between {
            self.pair();
            if !self.send(outlet, false) {
                return Some(Ended::Refused);
            }
        }
        None
    }

    /// Fetches what the tap, which was stopped, still holds. What comes meanwhile to one that
    /// cannot be stopped is left there.
    fn drain(&mut self, outlet: &mut dyn Outlet, mut ended: Ended) -> Ended {
        let _ = self.ask();
        let mut offered = self.losses.received;
        let (mut asked, mut grown) = (0, 0);
        loop {
            if matches!(ended, Ended::Count) && !self.enough {
                self.enough = true;
                self.pair();
                self.send(outlet, true);
            }
            match self.step(outlet, Instant::now(), SETTLED) {
                None => {}
                Some(Ended::Count) => ended = Ended::Count,
                // It has what it wanted.
                Some(Ended::Refused) if self.enough && !self.empty => {}
                Some(Ended::Refused) if self.enough => return ended,
                Some(instead) => return instead,
            }
            // With something to hand on it does not wait for long.
            if !self.empty && self.known() < offered || self.empty && !self.batch.items.is_empty() {
                continue;
            }
            let failed = self.ask().is_err();
            let received = self.losses.received;
            if self.empty {
                asked += 1;
                if failed || self.known() >= received || asked >= MOST_ASKED {
                    return ended;
                }
            } else if received > offered {
                // Some were on their way.
                (offered, grown) = (received, grown + 1);
                if grown > MOST_GROWN {
                    return ended;
                }
            }
        }
    }

    /// Number of packets taken or lost.
    fn known(&self) -> u64 {
        self.taken.saturating_add(self.losses.ring).saturating_add(self.losses.kernel)
    }

    fn pair(&mut self) {
        self.paired = Instant::now();
        self.batch.pairs.push(Pair::Host(realtime_pair(self.counter, TRIES)));
        self.device_pair();
    }

    /// Reads the card's clock: what it stamped since the last time can be told only then.
    fn device_pair(&mut self) {
        let Some(device) = &mut self.device else { return };
        let began = Instant::now();
        let read = device();
        let spaced = began.elapsed().saturating_mul(DEVICE_PAIR_SHARE);
        self.between = spaced.clamp(BETWEEN_PAIRS, MOST_BETWEEN_PAIRS);
        match read {
            Ok(pair) => {
                self.batch.pairs.push(Pair::Device(pair));
                if std::mem::take(&mut self.device_silent) {
                    self.progress.note("the card's clock can be read again".to_owned());
                }
            }
            // A driver that resets its card refuses for a moment: asked again with the next pair.
            Err(why) if !std::mem::replace(&mut self.device_silent, true) => {
                self.progress.note(format!(
                    "the card's clock cannot be read ({why}): packets that it stamps have no \
                     counts until it can"
                ));
            }
            Err(_) => {}
        }
    }

    /// Asks the tap what it has lost.
    fn ask(&mut self) -> Result<(), TapError> {
        self.losses = self.tap.losses()?;
        self.asked = Instant::now();
        self.progress.lost(&self.losses);
        self.batch.losses = Some(self.losses);
        Ok(())
    }

    fn send(&mut self, outlet: &mut dyn Outlet, last: bool) -> bool {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return true;
        }
        let (mut pairs, mut paired) = (Vec::new(), self.paired);
        let goes_on = outlet.hand_on(batch, last, &mut || {
            let due = if pairs.len() < SOME_PAIRS { Duration::ZERO } else { IDLE_PAIR };
            if paired.elapsed() >= due && pairs.len() < MOST_PAIRS {
                paired = Instant::now();
                pairs.push(Pair::Host(realtime_pair(self.counter, TRIES)));
            }
        });
        self.paired = paired;
        self.batch.pairs = pairs;
        goes_on
    }
}
