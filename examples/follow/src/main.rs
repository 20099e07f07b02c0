//! The whole engine on a microcontroller: it follows a made-up server in simulated time, over a
//! change of route and an outage, within 256 KiB of memory, and publishes the very hands that it
//! does elsewhere (`bed::STORY`).
//!
//! ```text
//! qemu-system-arm -machine mps2-an385 -nographic -semihosting-config enable=on,target=native \
//!     -icount shift=4 -kernel target/thumbv7m-none-eabi/release/follow
//! ```
#![no_std]
#![no_main]

extern crate alloc;

#[path = "../../../clock/engine/tests/bed/mod.rs"]
mod bed;
#[allow(dead_code)]
mod heap;
#[allow(dead_code)]
#[path = "../../bare/src/machine.rs"]
mod machine;
mod memory;

use alloc::boxed::Box;

use bed::{Bed, STORY, Watcher, story};
use machine::{SysTick, say};
use truechimer_engine::{Action, Event, Standard};
use truechimer_time::Count;
use truechimer_timehands::TickCounter;

/// Counts of the timer until it begins anew.
const INTERVAL: u32 = 1 << 24;
/// Instructions in a count of 25 MHz, where each takes 16 ns (`-icount shift=4`): twice as many.
const TWICE_INSTRUCTIONS: u64 = 5;

static TIMER: SysTick = SysTick::new(INTERVAL);

/// The timer has begun anew.
fn tick() {}

/// Counts what a reply costs.
#[derive(Default)]
struct Cost {
    from: u32,
    replies: u64,
    all: u64,
    most: u64,
}

impl Watcher for Cost {
    fn before(&mut self) {
        self.from = TIMER.value();
    }

    fn after(&mut self, _: Count, event: &Event, _: &[Action]) {
        let counts = self.from.wrapping_sub(TIMER.value()) % INTERVAL;
        if matches!(event, Event::Reply { .. }) {
            let instructions = u64::from(counts) * TWICE_INSTRUCTIONS / 2;
            self.replies += 1;
            self.all += instructions;
            self.most = self.most.max(instructions);
        }
    }
}

fn main() {
    memory::paint();
    TIMER.start();
    let mut cost = Cost::default();
    let bed: Bed = story(Box::new(Standard), &mut cost);
    let Bed { replies, hands, digest, .. } = bed;
    say(format_args!(
        "{replies} replies, {hands} hands, digest {digest:#018x}, {} off",
        bed.error()
    ));
    let thousands = |instructions: u64| instructions / 1000;
    let (mean, most) = (thousands(cost.all / cost.replies), thousands(cost.most));
    say(format_args!("a reply takes {mean} thousand instructions, {most} at most"));
    memory::tell();
    assert_eq!(digest, STORY, "the hands differ from those of other machines");
}
