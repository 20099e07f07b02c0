//! A wire with one of our captures at its end, while a sender is at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use truechimer_capture::convert::Converter;
use truechimer_capture::packet::{PacketOptions, PacketTap};
use truechimer_capture::pipeline::{self, Progress};
use truechimer_capture::xdp::{StampAt, XdpOptions, XdpTap};
use truechimer_capture::{Tap, TapError};
use truechimer_counter::affinity::Cpus;
use truechimer_counter::{Choice, Counter, nominal, online_cpus};
use truechimer_time::Period;

use super::bed::{Bed, WIRE};
use super::keep::{Keep, Seen, Shelf};
use super::overhead::host::Place;
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;

/// Way in which packets are taken and stamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A packet socket: the kernel's stamp.
    Packet,
    /// AF_XDP.
    Xdp(StampAt),
}

/// One way to capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Method {
    /// Name, for people.
    pub name: &'static str,
    /// Way of packets and stamps.
    pub way: Way,
    /// Conversion on the capturing thread.
    pub inline: bool,
}

/// Wire, and who runs where.
#[derive(Debug)]
pub struct Wire {
    /// Both ends.
    pub bed: Bed,
    /// Place of the capture.
    pub near: Place,
    /// Period of the counter as it is known beforehand.
    pub period: Period,
    counter: Counter,
    sending: usize,
    capturing: usize,
    converting: usize,
    run: u32,
}

impl Wire {
    /// Makes the wire.
    ///
    /// # Errors
    /// Where that is not allowed.
    pub fn new() -> Result<Wire, Failure> {
        let bed = Bed::new(1)?;
        let near = Place::of(bed.receiver())?;
        let failed = |error| Failure::of("looking for a counter", error);
        let counter = Counter::open(Choice::Auto).map_err(failed)?;
        let period = nominal(counter).map_err(failed)?.period;
        let cpus: Vec<usize> =
            online_cpus().unwrap_or_default().into_iter().map(|cpu| cpu as usize).collect();
        let at = |n: usize| cpus.get(n.min(cpus.len().saturating_sub(1))).copied().unwrap_or(0);
        let (sending, capturing, converting) = (at(0), at(1), at(2));
        Ok(Wire { bed, near, period, counter, sending, capturing, converting, run: 0 })
    }

    /// Places of the sender and the threads, for people.
    pub fn places(&self) -> String {
        format!(
            "The sender has processor {}, and with it all that the kernel does on arrival; the \
             capturing thread has {}, the conversion thread {}.",
            self.sending, self.capturing, self.converting
        )
    }

    /// Processor of the sender, as programs are told it.
    pub fn sender(&self) -> String {
        self.sending.to_string()
    }

    /// Keeps the calling thread to the processor of the sender.
    ///
    /// # Errors
    /// Where that is not allowed.
    pub fn be_sender(&self) -> Result<(), Failure> {
        let failed = |error| Failure::of("keeping to a processor", error);
        Cpus::one(self.sending).apply().map(|_| ()).map_err(failed)
    }

    /// Captures at most `room` frames, whole up to `snap` bytes, while `send` sends them, which is told the number
    /// of the run. Returns those that came, in their order, and its result; or inside why the method cannot be had
    /// here.
    ///
    /// # Errors
    /// Where the sender fails, or the capture once it has begun.
    pub fn during<T>(
        &mut self,
        method: Method,
        snap: u32,
        room: u32,
        send: impl FnOnce(&Wire, u32) -> Result<T, Failure>,
    ) -> Result<Result<(Vec<Seen>, T), TapError>, Failure> {
        self.run += 1;
        let (run, this) = (self.run, &*self);
        let shelf: Shelf = Arc::new(Mutex::new(Vec::new()));
        let keep = Keep::new(run, room as usize, &shelf);
        let stop = AtomicBool::new(false);
        let (ready, opened) = channel();
        let sent = std::thread::scope(|scope| {
            let capturing = scope.spawn(|| this.capture(method, snap, keep, &ready, &stop));
            let sent = match opened.recv() {
                Ok(Ok(())) => send(this, run).map(Ok),
                Ok(Err(why)) => Ok(Err(why)),
                Err(_) => Err(Failure("the capturing thread ended early".to_owned())),
            };
            stop.store(true, Ordering::Relaxed);
            program::joined(capturing).and(sent)
        })?;
        let mut seen = shelf.lock().map_err(|_| Failure("capturing failed".to_owned()))?;
        Ok(sent.map(|sent| (std::mem::take(&mut *seen), sent)))
    }

    fn capture(
        &self,
        method: Method,
        snap: u32,
        keep: Keep,
        ready: &Sender<Result<(), TapError>>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        self.near.enter()?;
        let tap = match tap(method.way, self.counter, snap) {
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
}

/// Opens a tap on the wire.
fn tap(way: Way, counter: Counter, snap_length: u32) -> Result<Box<dyn Tap>, TapError> {
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
