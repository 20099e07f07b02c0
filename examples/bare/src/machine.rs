//! Parts of a machine: start, the SysTick timer, a way to say something and to end.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr;

use truechimer_timehands::{Counting, TickCounter};

/// Handlers that the processor calls, by the number of the exception; the first one is number 1.
#[unsafe(link_section = ".vectors")]
#[unsafe(no_mangle)]
static VECTORS: [Option<unsafe extern "C" fn()>; 15] = {
    let mut vectors = [None; 15];
    vectors[0] = Some(reset as unsafe extern "C" fn());
    vectors[1] = Some(fault as unsafe extern "C" fn());
    vectors[2] = Some(fault as unsafe extern "C" fn());
    vectors[14] = Some(systick as unsafe extern "C" fn());
    vectors
};

// Statics without a value are 0; there are no others (the linker sees to that).
global_asm!(
    ".thumb_func",
    ".global reset",
    "reset:",
    "ldr r0, =__bss_begin",
    "ldr r1, =__bss_end",
    "movs r2, #0",
    "0: cmp r0, r1",
    "bhs 1f",
    "str r2, [r0]",
    "adds r0, #4",
    "b 0b",
    "1: bl start",
    "udf #0",
);

unsafe extern "C" {
    fn reset();
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    crate::main();
    end(true)
}

extern "C" fn systick() {
    crate::tick();
}

extern "C" fn fault() {
    say(format_args!("the processor faulted"));
    end(false)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say(format_args!("{info}"));
    end(false)
}

const CONTROL: *mut u32 = 0xe000_e010 as *mut u32;
const RELOAD: *mut u32 = 0xe000_e014 as *mut u32;
const CURRENT: *mut u32 = 0xe000_e018 as *mut u32;
const INTERRUPTS: *mut u32 = 0xe000_ed04 as *mut u32;
/// "SysTick is pending" among [`INTERRUPTS`].
const TICK_PENDING: u32 = 1 << 26;

/// Arm's SysTick with an interrupt every so many counts.
pub struct SysTick {
    interval: u32,
}

impl SysTick {
    /// For an interval of at least 2 and at most 2²⁴ counts.
    pub const fn new(interval: u32) -> SysTick {
        SysTick { interval }
    }

    /// Starts it; the first tick comes at once.
    pub fn start(&self) {
        // SAFETY: these are the registers of SysTick on every Cortex-M3, and nobody else uses them.
        unsafe {
            ptr::write_volatile(RELOAD, self.interval - 1);
            ptr::write_volatile(CURRENT, 0);
            // By the processor's clock, with interrupt, running.
            ptr::write_volatile(CONTROL, 0b111);
        }
    }
}

impl TickCounter for SysTick {
    fn interval(&self) -> u32 {
        self.interval
    }

    fn counting(&self) -> Counting {
        Counting::DownToZero
    }

    fn value(&self) -> u32 {
        // SAFETY: reading this register changes nothing.
        unsafe { ptr::read_volatile(CURRENT) }
    }

    fn pending(&self) -> bool {
        // SAFETY: reading this register changes nothing.
        unsafe { ptr::read_volatile(INTERRUPTS) & TICK_PENDING != 0 }
    }
}

/// Does something with all interrupts masked; within itself too.
pub fn masked<T>(section: impl FnOnce() -> T) -> T {
    let before: u32;
    // SAFETY: it masks interrupts only, and they are as before below.
    unsafe { asm!("mrs {}, primask", "cpsid i", out(reg) before) };
    let made = section();
    // SAFETY: this was its value.
    unsafe { asm!("msr primask, {}", in(reg) before) };
    made
}

/// Waits for an interrupt, one that is masked too.
pub fn wait() {
    // SAFETY: it changes nothing.
    unsafe { asm!("wfi") };
}

/// Asks the debugger (or the emulator) for something; its answer.
fn semihost(operation: u32, argument: u32) -> u32 {
    let answer;
    // SAFETY: of the operations below one writes, into the memory that its caller lends; the others take a number or a
    // string that ends with 0, and only read it.
    unsafe { asm!("bkpt 0xab", inout("r0") operation => answer, in("r1") argument) };
    answer
}

/// Arguments that the program was started with, as one line that fits into `memory`.
pub fn command_line(memory: &mut [u8]) -> Option<&str> {
    let mut block = [memory.as_mut_ptr() as u32, memory.len() as u32];
    if semihost(0x15, block.as_mut_ptr() as u32) != 0 {
        return None;
    }
    core::str::from_utf8(memory.get(..block[1] as usize)?).ok()
}

/// Says one line of up to 126 bytes.
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 128], length: 0 };
    // What does not fit is left out.
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    semihost(0x04, line.bytes.as_ptr() as u32);
}

/// Ends the emulation, well or not.
pub fn end(well: bool) -> ! {
    semihost(0x18, if well { 0x2_0026 } else { 0x2_0023 });
    loop {
        core::hint::spin_loop();
    }
}

struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length == 126 {
                return Err(fmt::Error);
            }
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}
