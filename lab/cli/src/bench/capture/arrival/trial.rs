//! One method, one sender, one run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use truechimer_capture::convert::Converter;
use truechimer_capture::packet::{PacketOptions, PacketTap};
use truechimer_capture::pipeline::{self, Progress};
use truechimer_capture::xdp::{XdpOptions, XdpTap};
use truechimer_capture::{RawStamp, Tap, TapError};
use truechimer_counter::affinity::Cpus;
use truechimer_counter::{Choice, Counter, nominal, online_cpus};
use truechimer_time::Period;

use super::keep::{Keep, Seen, Shelf};
use super::{Method, PERIOD_NS, RATE, SIZE, Source, Way, sender};
use crate::bench::capture::bed::{Bed, WIRE};
use crate::bench::capture::generator;
use crate::bench::capture::overhead::host::{Place, Urgent};
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

/// The wire and who runs where.
#[derive(Debug)]
pub struct Trials {
    bed: Bed,
    near: Place,
    far: Place,
    counter: Counter,
    period: Period,
    sending: usize,
    capturing: usize,
    converting: usize,
    run: u32,
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
        let bed = Bed::new(1)?;
        let (near, far) = (Place::of(bed.receiver())?, Place::of(bed.sender())?);
        let failed = |error| Failure::of("looking for a counter", error);
        let counter = Counter::open(Choice::Auto).map_err(failed)?;
        let period = nominal(counter).map_err(failed)?.period;
        let cpus: Vec<usize> =
            online_cpus().unwrap_or_default().into_iter().map(|cpu| cpu as usize).collect();
        let at = |n: usize| cpus.get(n.min(cpus.len().saturating_sub(1))).copied().unwrap_or(0);
        let (sending, capturing, converting) = (at(0), at(1), at(2));
        Ok(Trials { bed, near, far, counter, period, sending, capturing, converting, run: 0 })
    }

    /// Places of the sender and the threads, for people.
    pub fn places(&self) -> String {
        format!(
            "The sender has processor {}, and with it all that the kernel does on arrival; the \
             capturing thread has {}, the conversion thread {}.",
            self.sending, self.capturing, self.converting
        )
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
        self.run += 1;
        let (run, this) = (self.run, &*self);
        let shelf: Shelf = Arc::new(Mutex::new(Vec::new()));
        let keep = Keep::new(run, frames as usize, &shelf);
        let stop = AtomicBool::new(false);
        let (ready, opened) = channel();
        let sent = std::thread::scope(|scope| {
            let capturing = scope.spawn(|| this.capture(method, keep, &ready, &stop));
            let sent = match opened.recv() {
                Ok(Ok(())) => {
                    std::thread::sleep(SETTLE);
                    let sent = this.send(source, method, run, frames);
                    std::thread::sleep(SETTLE);
                    sent.map(Ok)
                }
                Ok(Err(why)) => Ok(Err(why)),
                Err(_) => Err(Failure("the capturing thread ended early".to_owned())),
            };
            stop.store(true, Ordering::Relaxed);
            let ended = capturing.join().map_err(|_| Failure("capturing failed".to_owned()))?;
            ended.and(sent)
        })?;
        let sent = match sent {
            Ok(sent) => sent,
            Err(why) => return Ok(Err(why)),
        };
        let seen = shelf.lock().map_err(|_| Failure("capturing failed".to_owned()))?;
        Ok(Ok(self.judge(&seen, sent)))
    }

    fn capture(
        &self,
        method: Method,
        keep: Keep,
        ready: &Sender<Result<(), TapError>>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        self.near.enter()?;
        let tap = match tap(method.way, self.counter, SNAP) {
            Ok(tap) => tap,
            Err(why) => {
                let _ = ready.send(Err(why));
                return Ok(());
            }
        };
        let converter = Converter::new(self.counter, None)
            .map_err(|error| Failure::of("making a converter", error))?;
        let _ = ready.send(Ok(()));
        let options = pipeline::Options {
            inline: method.inline,
            capture_cpu: Some(self.capturing),
            convert_cpu: Some(self.converting),
            ..pipeline::Options::default()
        };
        let progress = Progress::default();
        let summary =
            pipeline::run(tap, None, converter, Box::new(keep), &options, stop, &progress);
        if summary.end.is_good() { Ok(()) } else { Err(Failure::of(method.name, summary.end)) }
    }

    fn send(&self, source: Source, method: Method, run: u32, frames: u32) -> Result<u64, Failure> {
        let _urgent = Urgent::here();
        match source {
            Source::Wire => {
                let work = || {
                    let _urgent = Urgent::here();
                    self.far.enter()?;
                    Cpus::one(self.sending)
                        .apply()
                        .map_err(|error| Failure::of("keeping to a processor", error))?;
                    sender::send(run, frames)
                };
                std::thread::scope(|scope| scope.spawn(work).join())
                    .map_err(|_| Failure("the sender ended early".to_owned()))?
            }
            Source::Driver => {
                let program = match method.way {
                    Way::Packet => 0,
                    Way::Xdp(_) => self.bed.xdp_program()?.unwrap_or(0),
                };
                let order = generator::Order {
                    rate: f64::from(RATE),
                    burst: 1,
                    timed: true,
                    run,
                    program,
                    ..generator::Order::new(generator::Source::Driver, SIZE, frames)
                };
                Ok(order.send(&self.bed, &self.sending.to_string())?.frames)
            }
        }
    }

    /// Works out the result of a run from its frames.
    fn judge(&self, seen: &[Seen], sent: u64) -> Trial {
        let raw = |seen: &Seen| match seen.raw {
            RawStamp::Count(count) => count.0,
            RawStamp::Clock(_, ns) => ns.cast_unsigned(),
            RawStamp::Missing => 0,
        };
        let raw_ns = |from: &Seen, to: &Seen| {
            let passed = raw(to).wrapping_sub(raw(from)).cast_signed();
            match to.raw {
                RawStamp::Count(_) => {
                    self.period.span(truechimer_time::CountSpan(passed)).as_picos() as f64 / 1e3
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
}

/// Opens a tap on the wire.
///
/// # Errors
/// Where that way cannot be had here.
pub fn tap(way: Way, counter: Counter, snap_length: u32) -> Result<Box<dyn Tap>, TapError> {
    match way {
        Way::Packet => {
            let options = PacketOptions { snap_length, ..PacketOptions::new(WIRE) };
            Ok(Box::new(PacketTap::open(&options)?))
        }
        Way::Xdp(stamp) => {
            let options =
                XdpOptions { snap_length, stamp, take: true, ..XdpOptions::new(WIRE, counter) };
            Ok(Box::new(XdpTap::open(&options)?))
        }
    }
}
