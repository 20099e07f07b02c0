//! A sink that keeps what it is given, to be compared with what was sent.

use std::sync::{Arc, Mutex};

use truechimer_capture::convert::Change;
use truechimer_capture::sink::{Mark, Sink, SinkError, Written};
use truechimer_capture::{Losses, Packet, RawStamp, Stamped};

use super::frame::marked;

/// One of our frames, as it came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    /// Number of the frame.
    pub number: u64,
    /// When it was sent, `CLOCK_MONOTONIC`, ns.
    pub sent_ns: u64,
    /// Time of the frame, as it would be written, Unix ns.
    pub unix_ns: i64,
    /// Stamp of the frame, before conversion.
    pub raw: RawStamp,
}

/// Where they are in the end.
pub type Shelf = Arc<Mutex<Vec<Seen>>>;

/// Keeps the frames of one run.
#[derive(Debug)]
pub struct Keep {
    run: u32,
    seen: Vec<Seen>,
    shelf: Shelf,
    written: Written,
}

impl Keep {
    /// With room for so many.
    #[must_use]
    pub fn new(run: u32, room: usize, shelf: &Shelf) -> Keep {
        let seen = Vec::with_capacity(room);
        Keep { run, seen, shelf: Arc::clone(shelf), written: Written::default() }
    }
}

impl Sink for Keep {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        if let Some(mark) = marked(packet.data).filter(|mark| mark.run == self.run) {
            self.seen.push(Seen {
                number: mark.number,
                sent_ns: mark.sent_ns,
                unix_ns: stamped.unix_ns,
                raw: packet.stamp,
            });
        }
        self.written.packets += 1;
        Ok(true)
    }

    fn change(&mut self, _: &Change) -> Result<(), SinkError> {
        Ok(())
    }

    fn mark(&mut self, _: Mark) -> Result<(), SinkError> {
        Ok(())
    }

    fn losses(&mut self, _: &Losses, _: u64) {}

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        if let Ok(mut shelf) = self.shelf.lock() {
            shelf.append(&mut self.seen);
        }
        Ok(self.written.clone())
    }
}
