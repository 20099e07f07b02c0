//! BPF from Rust alone: programs are assembled here, loaded through bpf(2), and gone with the
//! process.
//!
//! * [`Asm`] writes a program: registers, labels, loads, stores, helper calls.
//! * [`Program`] is one that the kernel took; a refusal brings the verifier's log.
//! * [`Map`] and [`RingBuffer`] are what programs and processes share.
//! * [`Link`] attaches a program. It is a file descriptor: dropping it detaches, and so does the
//!   end of the process, however it ends.
//! * [`Btf`] knows the kernel's structures: where a member lies on the running kernel.
//! * [`Tsc`] gives programs the bare time stamp counter, through the `msr` perf event.
//! * [`probe`] says what the kernel has.
//!
//! Errors say what was tried, why it did not work, and which capability would mend it.

mod asm;
mod btf;
mod encode;
mod error;
mod helper;
mod interface;
mod link;
mod live;
mod map;
mod perf;
pub mod probe;
mod program;
mod ring;
mod shared;
mod sys;

pub use asm::{Asm, Label};
pub use btf::{Btf, BtfError, Member};
pub use encode::{Alu, AsmError, Cond, Instruction, Operand, Reg, Size};
pub use error::BpfError;
pub use helper::Helper;
pub use interface::interface_index;
pub use link::{Gate, Link, XdpMode};
pub use live::LiveFrames;
pub use map::Map;
pub use perf::{Base, Tsc};
pub use program::{Hook, Program, ProgramKind, Ran};
pub use ring::RingBuffer;
