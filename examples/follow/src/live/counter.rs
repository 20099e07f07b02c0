//! The raw counter: the board's, of 32 bits at 25 MHz, made 64 bits wide.

use truechimer_time::Count;

use crate::registers::BOARD;
use crate::shared::Shared;

/// Counts in a second.
pub const HZ: u64 = 25_000_000;
/// Register: counts up by one with each cycle, if nothing divides them.
const COUNTER: usize = 0x18;
/// Register: cycles for a count, less one.
const PRESCALE: usize = 0x1c;
/// Where counting begins: counts from before the start are none below 0.
const FIRST: u64 = 1 << 32;

/// Counts since the start, as last read.
static KEPT: Shared<u64> = Shared::new(0);

/// Lets it run undivided.
pub fn start() {
    BOARD.write(PRESCALE, 0);
}

/// The count now. Somebody has to ask at least once in a roll-over, 171 s: the main loop does.
pub fn now() -> Count {
    KEPT.with(|kept| {
        let ahead = BOARD.read(COUNTER).wrapping_sub(*kept as u32);
        *kept += u64::from(ahead);
        Count(FIRST + *kept)
    })
}

/// The count of which these are the lower 32 bits, less than a roll-over ago.
pub fn recent(low: u32) -> Count {
    let now = now().0;
    Count(now - u64::from((now as u32).wrapping_sub(low)))
}
