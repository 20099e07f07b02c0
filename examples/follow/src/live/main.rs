//! A microcontroller that follows a server: the engine, with a network and a pulse per second.
//!
//! Requests go out, and replies come in, through the board's Ethernet controller; each reply is stamped in raw counts
//! by the controller's interrupt, each request just before it is handed to the controller. A byte on the second serial
//! line is a pulse: the interrupt stamps it. A byte on the first asks something (`?` the time then, `s` the sources,
//! `q` an end); answers come by semihosting.
//!
//! ```text
//! qemu-system-arm -machine mps2-an385 -display none -monitor none -nic user,model=lan9118 \
//!     -serial stdio -serial unix:PULSES -chardev file,id=said,path=/dev/stderr \
//!     -semihosting-config enable=on,target=native,chardev=said,arg=live,arg=10.0.2.2:123,arg=SEED,arg=POLL,arg=LATENCY \
//!     -kernel target/thumbv7m-none-eabi/release/live
//! ```
//!
//! SEED is a random number, as the board makes none; POLL is in seconds, LATENCY in µs: the most by which a pulse is
//! stamped late.
#![no_std]
#![no_main]

extern crate alloc;

mod clock;
mod counter;
#[path = "../heap.rs"]
mod heap;
mod lan9118;
#[path = "../../../bare/src/machine.rs"]
mod machine;
#[path = "../memory.rs"]
mod memory;
mod network;
mod registers;
mod serial;
mod shared;

use core::net::SocketAddr;

use clock::Clock;
use machine::{SysTick, end, masked, say};
use network::{Memory, Network};
use registers::INTERRUPTS;
use serial::Line;
use truechimer_time::Span;

/// The machine's address: the one that QEMU's own network gives to its first guest.
const ADDRESS: [u8; 4] = [10, 0, 2, 15];
/// Cycles after which the program looks whether anything is due: 1 ms. (QEMU looks for a reply to a new socket no sooner
/// than anything else happens: that is in the round trip, which is seldom less.)
const LOOK: u32 = 25_000;

/// Numbers of the board's interrupts.
const ASKED: usize = 0;
const PULSE: usize = 2;
const FRAME: usize = 13;

static TIMER: SysTick = SysTick::new(LOOK);
static QUESTIONS: Line<0> = Line::new();
static PULSES: Line<1> = Line::new();

/// Handlers of the board's interrupts, after the processor's own.
#[used]
#[unsafe(link_section = ".vectors.external")]
static EXTERNAL: [Option<extern "C" fn()>; 32] = {
    let mut vectors = [None; 32];
    vectors[ASKED] = Some(asked as extern "C" fn());
    vectors[PULSE] = Some(pulse as extern "C" fn());
    vectors[FRAME] = Some(frame as extern "C" fn());
    vectors
};

extern "C" fn asked() {
    QUESTIONS.interrupt();
}

extern "C" fn pulse() {
    PULSES.interrupt();
}

extern "C" fn frame() {
    lan9118::interrupt();
}

/// Wakes the program.
fn tick() {}

/// Values from the command line.
struct Arguments {
    server: SocketAddr,
    seed: u64,
    poll: u32,
    latency: Span,
}

impl Arguments {
    fn parse(line: &str) -> Option<Arguments> {
        let mut words = line.split_ascii_whitespace().skip(1);
        Some(Arguments {
            server: words.next()?.parse().ok()?,
            seed: words.next()?.parse().ok()?,
            poll: words.next()?.parse().ok()?,
            latency: Span::from_micros(words.next()?.parse().ok()?),
        })
    }
}

fn main() {
    memory::paint();
    let mut line = [0; 128];
    let arguments = machine::command_line(&mut line).and_then(Arguments::parse);
    let Some(arguments) = arguments else {
        say(format_args!("usage: live SERVER:PORT SEED POLL_S LATENCY_US"));
        end(false)
    };
    counter::start();
    let memory = alloc::boxed::Box::leak(alloc::boxed::Box::new(Memory::new()));
    let network = Network::start(ADDRESS, arguments.seed, memory);
    QUESTIONS.start();
    PULSES.start();
    TIMER.start();
    INTERRUPTS.write(0, 1 << ASKED | 1 << PULSE | 1 << FRAME);
    let mut clock = Clock::start(network, &arguments);
    loop {
        clock.run();
        memory::check();
        if let Some(mark) = PULSES.take() {
            clock.pulse(mark);
        }
        match QUESTIONS.take() {
            Some(mark) if mark.byte == b'q' => break,
            Some(mark) if mark.byte == b's' => clock.tell_sources(),
            Some(mark) => clock.tell_time(mark.count),
            None => sleep(),
        }
    }
    memory::tell();
}

/// Waits for an interrupt, unless one has left something.
fn sleep() {
    masked(|| {
        if !lan9118::waits() && !PULSES.waits() && !QUESTIONS.waits() {
            machine::wait();
        }
    });
}
