//! Registers of the board's devices (Arm MPS2, AN385).

use core::ptr;

/// A device's registers, of 32 bits each.
#[derive(Clone, Copy)]
pub struct Device(usize);

/// Counters and lights of the board.
pub const BOARD: Device = Device(0x4002_8000);
/// The Ethernet controller.
pub const ETHERNET: Device = Device(0x4020_0000);
/// Serial lines.
pub const SERIAL: [Device; 2] = [Device(0x4000_4000), Device(0x4000_5000)];
/// The processor's interrupt controller: which interrupts are let through.
pub const INTERRUPTS: Device = Device(0xe000_e100);

impl Device {
    /// Reads the register at this offset in bytes.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: a `Device` can only be one of those above, whose registers are no memory of the program's.
        unsafe { ptr::read_volatile((self.0 + offset) as *const u32) }
    }

    /// Writes the register at this offset in bytes.
    pub fn write(&self, offset: usize, value: u32) {
        // SAFETY: see `read`; no device here writes to the program's memory.
        unsafe { ptr::write_volatile((self.0 + offset) as *mut u32, value) };
    }
}
