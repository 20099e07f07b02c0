//! One kind of stamp, frames of one size at one gap.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use truechimer_capture::bpf::{LiveFrames, interface_index};
use truechimer_capture::{RawStamp, TapError};
use truechimer_report::median;
use truechimer_time::{CountSpan, Period};

use super::Gap;
use crate::bench::capture::bed::WIRE;
use crate::bench::capture::frame::frame;
use crate::bench::capture::generator::{Generator, Recipe, program};
use crate::bench::capture::keep::Seen;
use crate::bench::capture::overhead::host::{Urgent, monotonic_ns};
use crate::bench::capture::overhead::series::Block;
use crate::bench::capture::wire::{Method, Way, Wire};
use truechimer_outcome::outcome::Failure;

/// A tap that was just opened gets so much time before the first frame, and so much after the last.
const SETTLE: Duration = Duration::from_millis(150);
/// All of any frame here.
const SNAP: u32 = 2048;
/// Frames at the start that are not looked at: caches, and the first conversion's pairs.
const LEAD: u64 = 5;
/// Sleep ends so much early, and the rest is waited for awake, ns.
const AWAKE: u64 = 150_000;

/// Result of one run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Stamp as it was taken less the time at which the frame was sent, less the line through the run, ns.
    pub delays: Block,
    /// Time as it would be written less that at which the frame was sent, less the run's median, ns.
    pub written: Block,
    /// Processor time of the capturing and the converting thread for each frame, ns.
    pub cpu_ns: f64,
    /// Frames that did not come.
    pub lost: u64,
    /// Frames sent.
    pub sent: u64,
}

/// Result of sending.
struct Sent {
    frames: u64,
    /// Processor time of all threads but the sender, ns.
    cpu_ns: f64,
}

/// Runs one kind of stamp. Inside: why that cannot be had here.
///
/// # Errors
/// Where the sender fails.
pub fn run(
    wire: &mut Wire,
    kind: Method,
    size: usize,
    gap: Gap,
) -> Result<Result<Trial, TapError>, Failure> {
    let came = wire.during(kind, SNAP, gap.frames, |wire, run| {
        let work = || send(wire, kind.way, run, size, gap);
        std::thread::scope(|scope| scope.spawn(work).join())
            .map_err(|_| Failure("the sender ended early".to_owned()))?
    })?;
    Ok(came.map(|(seen, sent)| judge(&seen, &sent, wire.period)))
}

/// Has the kernel make the frames one by one, in the driver's place, from a thread of its own.
fn send(wire: &Wire, way: Way, run: u32, size: usize, gap: Gap) -> Result<Sent, Failure> {
    let failed = |error| Failure::of("making frames", error);
    let program = match way {
        Way::Packet => None,
        Way::Xdp(_) => wire.bed.xdp_program()?,
    };
    let _urgent = Urgent::here();
    wire.near.enter()?;
    wire.be_sender()?;
    let way = program.map_or(program::Way::Stack, program::Way::Attached);
    let recipe = Recipe { way, gap_ns: 0, burst: 1, timed: true };
    let generator = Generator::load(&recipe).map_err(failed)?;
    let bytes = frame(size, run);
    let ingress = interface_index(WIRE).map_err(failed)?;
    let live = LiveFrames { frame: &bytes, ingress, repeat: 1, batch: 1 };
    std::thread::sleep(SETTLE);
    let before = others_ns();
    let mut due = monotonic_ns() + gap.ns;
    for _ in 0..gap.frames {
        let mut now = monotonic_ns();
        if let Some(rest) = due.checked_sub(now + AWAKE) {
            std::thread::sleep(Duration::from_nanos(rest));
            now = monotonic_ns();
        }
        while now < due {
            std::hint::spin_loop();
            now = monotonic_ns();
        }
        generator.program.run_live(&live).map_err(failed)?;
        // Late ones are not made up for: the gap never gets shorter.
        due = now + gap.ns;
    }
    std::thread::sleep(SETTLE);
    let cpu_ns = others_ns() - before;
    let tally = generator.tally().map_err(failed)?;
    if tally.astray > 0 {
        return Err(Failure(format!("{} frames met no program", tally.astray)));
    }
    Ok(Sent { frames: tally.frames, cpu_ns })
}

/// Processor time that all threads of this process but the calling one have used, ns.
fn others_ns() -> f64 {
    let of = |id| {
        let time = clock_gettime(id);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    of(ClockId::ProcessCPUTime) - of(ClockId::ThreadCPUTime)
}

/// Works out the result of a run from its frames.
fn judge(seen: &[Seen], sent: &Sent, period: Period) -> Trial {
    let delay = |seen: &Seen| seen.unix_ns.wrapping_sub(seen.sent_ns.cast_signed());
    let (mut delays, mut written) = (Block::default(), Block::default());
    if let Some(first) = seen.first() {
        for seen in seen.iter().filter(|seen| seen.number >= LEAD) {
            let at = seen.sent_ns.wrapping_sub(first.sent_ns) as f64;
            written.cost.push(delay(seen).wrapping_sub(delay(first)) as f64);
            written.at.push(at);
            delays.cost.extend(passed(first.raw, seen.raw, period).map(|passed| passed - at));
            delays.at.push(at);
        }
    }
    // The counter's rate and the clock's differ, and by another amount in each run.
    level(&delays.at, &mut delays.cost);
    let middle = median(&written.cost);
    written.cost.iter_mut().for_each(|delay| *delay -= middle);
    Trial {
        delays,
        written,
        cpu_ns: sent.cpu_ns / (seen.len() as f64).max(1.0),
        lost: sent.frames.saturating_sub(seen.len() as u64),
        sent: sent.frames,
    }
}

/// Time between two stamps, ns.
fn passed(from: RawStamp, to: RawStamp, period: Period) -> Option<f64> {
    match (from, to) {
        (RawStamp::Count(from), RawStamp::Count(to)) => {
            let counts = CountSpan(to.0.wrapping_sub(from.0).cast_signed());
            Some(period.span(counts).as_picos() as f64 / 1e3)
        }
        (RawStamp::Clock(_, from), RawStamp::Clock(_, to)) => Some(to.wrapping_sub(from) as f64),
        _ => None,
    }
}

/// Takes the line of least squares off.
fn level(at: &[f64], values: &mut [f64]) {
    let (middle, mean) = (truechimer_report::mean(at), truechimer_report::mean(&*values));
    let pairs = || at.iter().zip(&*values).map(|(at, value)| (at - middle, value - mean));
    let square: f64 = pairs().map(|(at, _)| at * at).sum();
    let both: f64 = pairs().map(|(at, value)| at * value).sum();
    let slope = if square > 0.0 { both / square } else { 0.0 };
    for (at, value) in at.iter().zip(values) {
        *value -= mean + slope * (at - middle);
    }
}

#[cfg(test)]
mod tests {
    use truechimer_time::Count;

    use super::*;

    #[test]
    fn delays_are_those_of_the_stamps() {
        let seen: Vec<Seen> = (0..15_u64)
            .filter(|number| *number != 9)
            .map(|number| Seen {
                number,
                sent_ns: 1000 * number,
                unix_ns: 1_700_000_000_000_000_000 + (1000 * number + number % 2 * 30) as i64,
                // A counter of 1 GHz that is fast by 1 %.
                raw: RawStamp::Count(Count(500 + 1010 * number + number % 2 * 30)),
            })
            .collect();
        let trial = judge(&seen, &Sent { frames: 15, cpu_ns: 28_000.0 }, Period::NANOSECOND);
        assert_eq!((trial.lost, trial.sent, trial.cpu_ns), (1, 15, 2000.0));
        assert_eq!(trial.delays.cost.len(), 9, "five lead, one is lost");
        for (block, near) in [(&trial.written, 1e-9), (&trial.delays, 8.0)] {
            let (least, most) = truechimer_outcome::stats::range(&block.cost);
            assert!((most - least - 30.0).abs() < near, "{trial:?}");
        }
        let none = judge(&[], &Sent { frames: 3, cpu_ns: 5.0 }, Period::NANOSECOND);
        assert_eq!((none.lost, none.delays.cost.len()), (3, 0));
    }
}
