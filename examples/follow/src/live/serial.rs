//! Serial lines of which only the moment of a byte matters.

use truechimer_time::Count;

use crate::counter;
use crate::registers::{Device, SERIAL};
use crate::shared::Shared;

const DATA: usize = 0x0;
const STATE: usize = 0x4;
const CONTROL: usize = 0x8;
const CLEAR: usize = 0xc;
const DIVIDER: usize = 0x10;

/// A byte waits, in [`STATE`].
const RECEIVED: u32 = 1 << 1;
/// Sends, receives, and interrupts for what is received, in [`CONTROL`].
const RUN: u32 = 0b1011;
/// The interrupt of a byte received, in [`CLEAR`].
const RECEIPT: u32 = 1 << 1;
/// Cycles of a bit: 115200 baud.
const BAUD: u32 = (counter::HZ / 115_200) as u32;

/// The newest byte.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Count at which the interrupt began: after the byte, and so after its first edge.
    pub count: Count,
    /// The byte.
    pub byte: u8,
    /// Bytes that had come then.
    pub sequence: u32,
}

/// The serial line of this number: its interrupt stamps each byte, and sends it back, so that the other end knows how
/// late that was at the most.
pub struct Line<const NUMBER: usize> {
    newest: Shared<Option<Mark>>,
    received: Shared<u32>,
}

impl<const NUMBER: usize> Line<NUMBER> {
    const DEVICE: Device = SERIAL[NUMBER];

    /// A line on which nothing came yet.
    pub const fn new() -> Self {
        Line { newest: Shared::new(None), received: Shared::new(0) }
    }

    /// Starts it.
    pub fn start(&self) {
        Self::DEVICE.write(DIVIDER, BAUD);
        Self::DEVICE.write(CONTROL, RUN);
    }

    /// The line's interrupt.
    pub fn interrupt(&self) {
        let count = counter::now();
        Self::DEVICE.write(CLEAR, RECEIPT);
        while Self::DEVICE.read(STATE) & RECEIVED != 0 {
            let byte = Self::DEVICE.read(DATA) as u8;
            let sequence = self.received.with(|received| {
                *received = received.wrapping_add(1);
                *received
            });
            self.newest.with(|newest| *newest = Some(Mark { count, byte, sequence }));
            Self::DEVICE.write(DATA, u32::from(byte));
        }
    }

    /// The newest byte, once.
    pub fn take(&self) -> Option<Mark> {
        self.newest.with(Option::take)
    }

    /// Says if a byte waits to be taken.
    pub fn waits(&self) -> bool {
        self.newest.with(|newest| newest.is_some())
    }
}
