//! Journeys of a packet through several layers of one host: driver, stack, socket, application, and down
//! again.
//!
//! Small BPF programs at the kernel's own tracepoints say when a packet passed; nothing of the
//! application is changed or asked. [`Follow`] puts what they say together.
//!
//! | layer | seen when |
//! |---|---|
//! | driver | the driver hands the packet to the stack (`napi_gro_receive_entry` and its like) |
//! | stack | its processing begins (`netif_receive_skb`), maybe on another processor: here packet sockets get it |
//! | socket | the receiving socket is told that there is something (`sk_data_ready`) |
//! | application | a read of it returns (`sock_recv_length`); of a stream, bytes are taken out of it (`skb_copy_datagram_iovec`) |
//! | send | a program's call that sends begins (`sys_enter` of `sendto`, `sendmsg`, `sendmmsg`, `write`, `writev`) |
//! | scheduler | the packet enters the interface's queue (`net_dev_queue`) |
//! | transmit | the driver is given it (`net_dev_start_xmit`) |
//! | sent | the driver has it, and it is the card's (`net_dev_xmit`) |
//!
//! All times are `CLOCK_MONOTONIC`, which is slewed but never stepped: differences of them are good
//! to 500 ppm whatever the system clock does.
//!
//! Of what a program sends the call is told in which it enters the queue: of a stream that may be a later
//! one than that which wrote the bytes, or none. An acknowledgement that comes while a process is in a call
//! that may send, writing to a file say, may send a stream's next bytes: they count as that call's. What the
//! kernel cuts into packets below the queue, or drops in it, is left out ([`Unfollowed::unsent`]).
//!
//! Watching slows the whole host: each call that begins and ends, and each buffer that is freed, runs a program.
//!
//! Datagrams are followed one by one; of a fragmented one, the fragment that completed it. A read
//! is told by what stands first in the socket's queue before it: where several threads read one
//! socket at the very same moment nobody can tell who got what, and those are counted
//! ([`Unfollowed::mixed`]) and left out. Reports of several processors can cross: now and then (2
//! in 6000 at full rate on a busy machine) a read is told of the wrong one. Of a stream, the
//! segments are followed that the kernel did not merge with others before they were read; looking
//! at one (`MSG_PEEK`) counts as reading it.

mod datagrams;
mod event;
mod journey;
mod program;

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

pub use event::{Event, What};
pub use journey::{Follow, Journey, Layer, Unfollowed};
use program::{NoPrograms, Programs, Whose};

use crate::TapError;
use crate::bpf::interface_index;

/// Memory for what the programs say, in bytes: 25 000 packets.
const RING_BYTES: u32 = 4 << 20;
/// Number of records that are looked at before [`Layers::next`] returns, however fast more come.
const MOST_RECORDS: usize = 16_384;
/// The network namespace of this thread.
const NETWORK: &str = "/proc/thread-self/ns/net";

/// Watches the packets that come in by an interface on their way up, and those that leave by it on their
/// way down.
///
/// Everything is taken away when this is dropped, or when the process ends in whatever way.
pub struct Layers {
    programs: Programs,
    follow: Follow,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (links, follow) = (self.programs.links(), &self.follow);
        f.debug_struct("Layers").field("links", &links).field("follow", follow).finish()
    }
}

impl Layers {
    /// Begins to watch an interface of this thread's network namespace.
    ///
    /// # Errors
    /// Where the kernel has no such tracepoints or does not say where its fields are
    /// (`/sys/kernel/btf/vmlinux`), and where the capabilities are missing (`cap_bpf`,
    /// `cap_perfmon`).
    pub fn open(interface: &str) -> Result<Layers, TapError> {
        let failed = |why: String, mend: Option<String>| TapError {
            doing: format!("watching the layers of {interface}"),
            why,
            mend,
        };
        let index = interface_index(interface).map_err(|error| failed(error.to_string(), None))?;
        let network = fs::metadata(NETWORK)
            .map_err(|error| failed(format!("{NETWORK}: {error}"), None))?
            .ino();
        let network = u32::try_from(network)
            .map_err(|_| failed(format!("{NETWORK} has the odd number {network}"), None))?;
        let programs = Programs::start(Whose { interface: index, network }, RING_BYTES);
        let programs = programs.map_err(|error| match error {
            NoPrograms::Types(error) => failed(
                error.to_string(),
                Some("a kernel from 6.3 on with CONFIG_DEBUG_INFO_BTF has all it takes".into()),
            ),
            NoPrograms::Bpf(error) => failed(error.to_string(), None),
        })?;
        Ok(Layers { programs, follow: Follow::default() })
    }

    /// Waits until a packet has come through, `timeout` at the most, and calls `each` with those
    /// that have.
    ///
    /// # Errors
    /// Where the kernel's records cannot be read.
    pub fn next(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(Journey),
    ) -> Result<(), TapError> {
        let failed = |error: crate::bpf::BpfError| TapError {
            doing: "reading what was seen of the layers".into(),
            why: error.to_string(),
            mend: None,
        };
        let ring = self.programs.ring();
        ring.wait(timeout).map_err(failed)?;
        let follow = &mut self.follow;
        ring.consume_some(MOST_RECORDS, |record| {
            if let Some(journey) = Event::parse(record).and_then(|event| follow.see(event)) {
                each(journey);
            }
        })
        .map_err(failed)?;
        Ok(())
    }

    /// Packets that could not be followed so far.
    #[must_use]
    pub fn unfollowed(&self) -> Unfollowed {
        self.follow.unfollowed()
    }

    /// Number of records that found no room because they were not read fast enough.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn lost(&self) -> Result<u64, TapError> {
        self.programs.lost().map_err(|error| TapError {
            doing: "asking what was lost of the layers".into(),
            why: error.to_string(),
            mend: None,
        })
    }
}
