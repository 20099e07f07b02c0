//! Packets with raw counts: taking them, turning counts into time, writing them down.
//!
//! * A [`Tap`] takes packets off an interface by one method and hands them on in [`Chunk`]s, each
//!   packet with its [`RawStamp`]: [`packet`] (packet sockets), [`xdp`] (AF_XDP).
//! * A [`Converter`](convert) turns raw stamps into counts and counts into time.
//! * A [`sink`] writes what comes of it.
//! * The [`pipeline`] runs the first on one thread and the other two on another.
//!
//! Not here: what packets mean (`truechimer-qos`), the format of files (`truechimer-pcapng`), and the clock (`truechimer`). Nothing
//! drops silently: what found no room is counted.
#![deny(unsafe_code)]

mod ask;
mod pace;
mod tap;

pub mod bpf;
pub mod check;
pub mod choose;
pub mod convert;
pub mod filter;
pub mod hardware;
pub mod layers;
pub mod link;
pub mod packet;
pub mod pipeline;
pub mod place;
pub mod restamp;
pub mod sink;
pub mod xdp;

pub use tap::{
    Chunk, Counted, Direction, Facts, KernelClock, Losses, Method, Next, Packet, Quality, RawStamp,
    Stamped, Tap, TapError,
};
