//! The Ethernet controller, a LAN9118 or LAN9220: frames out, and frames in, each with the count at which the interrupt
//! found it.

use truechimer_time::Count;

use crate::counter;
use crate::registers::ETHERNET;
use crate::shared::Shared;

/// The longest frame, without its check sequence, bytes.
pub const LONGEST: usize = 1514;
/// Frames that wait for the program at most.
const WAITING: usize = 4;
/// Bytes of the check sequence at a frame's end.
const CHECK: usize = 4;

const RX_DATA: usize = 0x00;
const TX_DATA: usize = 0x20;
const RX_STATUS: usize = 0x40;
const TX_STATUS: usize = 0x48;
const IRQ_CFG: usize = 0x54;
const INT_STS: usize = 0x58;
const INT_EN: usize = 0x5c;
const BYTE_TEST: usize = 0x64;
const FIFO_INT: usize = 0x68;
const TX_CFG: usize = 0x70;
const HW_CFG: usize = 0x74;
const RX_FIFO_INF: usize = 0x7c;
const TX_FIFO_INF: usize = 0x80;
const MAC_CSR_CMD: usize = 0xa4;
const MAC_CSR_DATA: usize = 0xa8;

/// Registers behind [`MAC_CSR_CMD`].
const MAC_CR: u32 = 1;
const ADDRH: u32 = 2;
const ADDRL: u32 = 3;
const MII_ACC: u32 = 6;
const MII_DATA: u32 = 7;

/// Value of [`BYTE_TEST`] once the controller is awake.
const AWAKE: u32 = 0x8765_4321;
/// Frames wait, in [`INT_STS`] and [`INT_EN`].
const RECEIVED: u32 = 1 << 3;

/// A frame that came.
pub struct Frame {
    /// All of it but the check sequence.
    bytes: [u8; LONGEST],
    /// Number of these.
    length: usize,
    /// A count after its arrival.
    received: Count,
}

impl Frame {
    /// Nothing yet.
    pub const fn new() -> Frame {
        Frame { bytes: [0; LONGEST], length: 0, received: Count(0) }
    }

    /// The frame, without its check sequence.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// A count after its arrival.
    pub fn received(&self) -> Count {
        self.received
    }
}

struct Queue {
    frames: [Frame; WAITING],
    first: usize,
    held: usize,
}

static QUEUE: Shared<Queue> =
    Shared::new(Queue { frames: [const { Frame::new() }; WAITING], first: 0, held: 0 });

/// Wakes the controller and lets it send and receive; its address.
pub fn start() -> [u8; 6] {
    while ETHERNET.read(BYTE_TEST) != AWAKE {}
    // Frames are sent once they are whole; of the memory 5 KiB are for them.
    ETHERNET.write(HW_CFG, 1 << 20 | 5 << 16);
    // Any frame interrupts; the line is driven, and high when it does.
    ETHERNET.write(FIFO_INT, 0);
    ETHERNET.write(IRQ_CFG, 1 << 8 | 1 << 4 | 1);
    ETHERNET.write(INT_STS, u32::MAX);
    ETHERNET.write(INT_EN, RECEIVED);
    // The transceiver finds out what the other end can do: register 0 of number 1.
    set(MII_DATA, 0x1200);
    set(MII_ACC, 1 << 11 | 1 << 1);
    ETHERNET.write(TX_CFG, 1 << 1);
    // Sends, receives, in both directions at a time.
    set(MAC_CR, 1 << 20 | 1 << 3 | 1 << 2);
    let [low, high] = [ADDRL, ADDRH].map(get).map(u32::to_le_bytes);
    [low[0], low[1], low[2], low[3], high[0], high[1]]
}

fn set(register: u32, value: u32) {
    ETHERNET.write(MAC_CSR_DATA, value);
    command(register);
}

fn get(register: u32) -> u32 {
    command(1 << 30 | register);
    ETHERNET.read(MAC_CSR_DATA)
}

fn command(command: u32) {
    ETHERNET.write(MAC_CSR_CMD, 1 << 31 | command);
    while ETHERNET.read(MAC_CSR_CMD) & 1 << 31 != 0 {}
}

/// The controller's interrupt: takes all frames from it.
pub fn interrupt() {
    ETHERNET.write(INT_STS, RECEIVED);
    QUEUE.with(|queue| {
        while ETHERNET.read(RX_FIFO_INF) >> 16 & 0xff != 0 {
            queue.fetch();
        }
    });
}

impl Queue {
    /// Takes one frame from the controller. One with an error, or that nothing is left for, is lost.
    fn fetch(&mut self) {
        let status = ETHERNET.read(RX_STATUS);
        // The frame is here: it came before this.
        let received = counter::now();
        let whole = (status >> 16 & 0x3fff) as usize;
        let length = whole.saturating_sub(CHECK);
        let is_good = status & 1 << 15 == 0 && length <= LONGEST && self.held < WAITING;
        let place = (self.first + self.held) % WAITING;
        let mut chunks = self.frames[place].bytes[..if is_good { length } else { 0 }].chunks_mut(4);
        for _ in 0..whole.div_ceil(4) {
            let word = ETHERNET.read(RX_DATA).to_le_bytes();
            if let Some(chunk) = chunks.next() {
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
        }
        if is_good {
            self.frames[place].length = length;
            self.frames[place].received = received;
            self.held += 1;
        }
    }
}

/// Takes the oldest frame, if one came.
pub fn take(into: &mut Frame) -> bool {
    QUEUE.with(|queue| {
        if queue.held == 0 {
            return false;
        }
        core::mem::swap(into, &mut queue.frames[queue.first]);
        queue.first = (queue.first + 1) % WAITING;
        queue.held -= 1;
        true
    })
}

/// Says if a frame waits to be taken.
pub fn waits() -> bool {
    QUEUE.with(|queue| queue.held > 0)
}

/// Sends a frame, without its check sequence, which the controller adds; a count before it left. One that there is no
/// room for is lost, as on any network.
pub fn send(frame: &[u8]) -> Count {
    while ETHERNET.read(TX_FIFO_INF) >> 16 & 0xff != 0 {
        ETHERNET.read(TX_STATUS);
    }
    let length = frame.len() as u32;
    let room = ETHERNET.read(TX_FIFO_INF) & 0xffff;
    let fits = room >= length.next_multiple_of(4) + 8;
    let before = counter::now();
    if fits {
        // A frame of one piece.
        ETHERNET.write(TX_DATA, 1 << 13 | 1 << 12 | length);
        ETHERNET.write(TX_DATA, length);
        for chunk in frame.chunks(4) {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            ETHERNET.write(TX_DATA, u32::from_le_bytes(word));
        }
    }
    before
}
