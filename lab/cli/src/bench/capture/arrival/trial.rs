//! One method, one sender, one run.

use std::time::Duration;

use truechimer_capture::{RawStamp, TapError};
use truechimer_time::Period;

use super::{PERIOD_NS, RATE, SIZE, Source, sender};
use crate::bench::capture::generator;
use crate::bench::capture::keep::Seen;
use crate::bench::capture::overhead::host::{Place, Urgent};
use crate::bench::capture::wire::{Method, Way, Wire};
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::stats::Spread;

/// A tap that was just opened gets so much time before the first frame, and so much after the last.
const SETTLE: Duration = Duration::from_millis(150);
/// Enough for any frame here.
const SNAP: u32 = 256;
/// Frames at the start of a run that are not looked at: caches, and the first conversion's pairs.
const LEAD: u64 = 200;
/// A sender that is within so much of the period has kept to it, ns.
pub const KEPT: f64 = 1000.0;

/// Wire, and the sender's place at its other end.
#[derive(Debug)]
pub struct Trials {
    /// Wire.
    pub wire: Wire,
    far: Place,
}

/// Result of one run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// |inter-arrival time − period| of times as written, ns; one value for each pair of frames
    /// that follow each other.
    pub precision: Vec<f64>,
    /// Precision of frames that were sent within [`KEPT`] of the period.
    pub kept: Spread,
    /// The share of these.
    pub kept_share: f64,
    /// Precision of raw stamps.
    pub raw: Spread,
    /// |inter-arrival time − inter-send time|, ns.
    pub own: Spread,
    /// |change of inter-arrival time|, ns.
    pub change: Spread,
    /// |inter-send time − period|, ns.
    pub sender: Spread,
    /// Frames that did not come.
    pub lost: u64,
    /// Frames sent.
    pub sent: u64,
}

impl Trials {
    /// Makes the wire.
    ///
    /// # Errors
    /// Where that is not allowed.
    pub fn new() -> Result<Trials, Failure> {
        let wire = Wire::new()?;
        let far = Place::of(wire.bed.sender())?;
        Ok(Trials { wire, far })
    }

    /// Runs it. Inside: why the method cannot be used here.
    ///
    /// # Errors
    /// Where the sender fails.
    pub fn run(
        &mut self,
        source: Source,
        method: Method,
        frames: u32,
    ) -> Result<Result<Trial, TapError>, Failure> {
        let far = &self.far;
        let came = self.wire.during(method, SNAP, frames, |wire, run| {
            std::thread::sleep(SETTLE);
            let sent = send(wire, far, source, method, run, frames);
            std::thread::sleep(SETTLE);
            sent
        })?;
        Ok(came.map(|(seen, sent)| judge(&seen, sent, self.wire.period)))
    }
}

fn send(
    wire: &Wire,
    far: &Place,
    source: Source,
    method: Method,
    run: u32,
    frames: u32,
) -> Result<u64, Failure> {
    let _urgent = Urgent::here();
    match source {
        Source::Wire => {
            let work = || {
                let _urgent = Urgent::here();
                far.enter()?;
                wire.be_sender()?;
                sender::send(run, frames)
            };
            std::thread::scope(|scope| scope.spawn(work).join())
                .map_err(|_| Failure("the sender ended early".to_owned()))?
        }
        Source::Driver => {
            let program = match method.way {
                Way::Packet => 0,
                Way::Xdp(_) => wire.bed.xdp_program()?.unwrap_or(0),
            };
            let order = generator::Order {
                rate: f64::from(RATE),
                burst: 1,
                timed: true,
                run,
                program,
                ..generator::Order::new(generator::Source::Driver, SIZE, frames)
            };
            Ok(order.send(&wire.bed, &wire.sender())?.frames)
        }
    }
}

/// Works out the result of a run from its frames.
fn judge(seen: &[Seen], sent: u64, counter: Period) -> Trial {
    let raw = |seen: &Seen| match seen.raw {
        RawStamp::Count(count) => count.0,
        RawStamp::Clock(_, ns) => ns.cast_unsigned(),
        RawStamp::Missing => 0,
    };
    let raw_ns = |from: &Seen, to: &Seen| {
        let passed = raw(to).wrapping_sub(raw(from)).cast_signed();
        match to.raw {
            RawStamp::Count(_) => {
                counter.span(truechimer_time::CountSpan(passed)).as_picos() as f64 / 1e3
            }
            _ => passed as f64,
        }
    };
    let period = PERIOD_NS as f64;
    let (mut precision, mut raws, mut own, mut sender, mut change, mut kept) =
        (vec![], vec![], vec![], vec![], vec![], vec![]);
    let mut last: Option<f64> = None;
    for (from, to) in seen.iter().zip(seen.iter().skip(1)) {
        if to.number != from.number + 1 || from.number < LEAD {
            last = None;
            continue;
        }
        let between = (to.unix_ns - from.unix_ns) as f64;
        let between_sends = to.sent_ns.wrapping_sub(from.sent_ns).cast_signed() as f64;
        precision.push((between - period).abs());
        raws.push(raw_ns(from, to) - period);
        own.push(between - between_sends);
        sender.push(between_sends - period);
        if (between_sends - period).abs() <= KEPT {
            kept.push(between - period);
        }
        change.extend(last.map(|last| between - last));
        last = Some(between);
    }
    Trial {
        kept_share: kept.len() as f64 / precision.len() as f64,
        kept: Spread::of(kept),
        precision,
        raw: Spread::of(raws),
        own: Spread::of(own),
        change: Spread::of(change),
        sender: Spread::of(sender),
        lost: sent.saturating_sub(seen.len() as u64),
        sent,
    }
}
