//! Memory that the program takes. Of the stack, what nobody has written to still has its paint.

use core::arch::asm;
use core::ptr::{self, addr_of, addr_of_mut};

use truechimer_engine::Engine;

use crate::heap::HEAP;
use crate::machine::say;

/// Value that nobody writes by chance.
const PAINT: u32 = 0x5ca1_ab1e;
/// Bytes below the stack pointer that the painter itself may use.
const OWN: usize = 256;

unsafe extern "C" {
    /// The end of the statics, where the stack ends.
    static mut __bss_end: u32;
    /// Where it begins.
    static mut __stack_top: u32;
    /// The end of code and constants, which begin at 0.
    static __flash_end: u32;
}

fn end() -> *mut u32 {
    addr_of_mut!(__bss_end)
}

/// Paints all that is not in use yet.
pub fn paint() {
    let here: usize;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, sp", out(reg) here) };
    let words = (here - OWN).saturating_sub(end() as usize) / size_of::<u32>();
    for word in 0..words {
        // SAFETY: these words lie between the statics and the part of the stack that is in use.
        unsafe { ptr::write_volatile(end().add(word), PAINT) };
    }
}

/// Sees that the stack has not met the statics.
///
/// # Panics
/// If it has.
pub fn check() {
    // SAFETY: see `used`.
    assert!(unsafe { ptr::read_volatile(end()) } == PAINT, "the stack has met the statics");
}

/// Most of the stack that was ever in use since it was painted, and all of it, bytes.
fn used() -> (usize, usize) {
    let all = addr_of_mut!(__stack_top) as usize - end() as usize;
    // SAFETY: reading memory of the stack changes nothing, and the loop ends at what is in use.
    let is_painted = |word: &usize| unsafe { ptr::read_volatile(end().add(*word)) == PAINT };
    let free = (0..all / size_of::<u32>()).take_while(is_painted).count();
    (all - free * size_of::<u32>(), all)
}

/// Says all of it.
pub fn tell() {
    check();
    let (heap, engine, (stack, all), flash) =
        (HEAP.most(), size_of::<Engine>(), used(), addr_of!(__flash_end) as usize);
    say(format_args!(
        "bytes at most: heap {heap}, engine {engine}, stack {stack} of {all}; {flash} of flash"
    ));
}
