//! Packets that an interface lost before any tap could see them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::message;

/// Types of message by `linux/rtnetlink.h`, which `libc` lacks for musl.
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
/// Length of `struct if_stats_msg`.
const BODY: usize = 12;
/// `IFLA_STATS_LINK_64`, which has a `struct rtnl_link_stats64`.
const LINK_64: u16 = 1;
/// Indices of its fields.
const DROPPED: usize = 6;
const MISSED: usize = 15;
/// More than an answer takes.
const BUFFER: usize = 4096;

/// Losses that are before a tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// The card's, for want of buffers (`rx_missed_errors`). An XDP program's packets may count as
    /// dropped though they came to the tap.
    Program,
    /// Also the driver's and the backlog's (`rx_dropped`).
    Stack,
}

/// Counts what an interface loses from now on. Needs no privilege.
///
/// The kernel is asked on a thread of its own: it answers under the lock of all network configuration, for which
/// whoever takes packets must not wait.
#[derive(Debug)]
pub(crate) struct Drops {
    lost: Arc<AtomicU64>,
    /// A question, until the last one is asked. The thread ends with it.
    asking: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Drops {
    /// Of the interface of this number; `None` for all together (0), and where the kernel does not tell.
    pub(crate) fn open(index: u32, before: Before) -> Option<Drops> {
        let counter = Counter::open(index, before)?;
        Drops::asking(move || counter.ask())
    }

    fn asking(ask: impl Fn() -> io::Result<u64> + Send + 'static) -> Option<Drops> {
        let first = ask().ok()?;
        let lost = Arc::new(AtomicU64::new(0));
        let (sender, questions) = mpsc::sync_channel(1);
        let so_far = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("drops".into()).spawn(move || {
            // Never goes back, also where the driver begins anew or the interface is gone.
            for now in questions.into_iter().filter_map(|()| ask().ok()) {
                so_far.fetch_max(now.saturating_sub(first), Ordering::Relaxed);
            }
        });
        Some(Drops { lost, asking: Some((sender, thread.ok()?)) })
    }

    /// Packets that were lost as the kernel last said; it is asked anew.
    pub(crate) fn lost(&self) -> u64 {
        if let Some((sender, _)) = &self.asking {
            // Where it has not answered yet it is asked already.
            let _ = sender.try_send(());
        }
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends the count, with all until now: waits for the kernel.
    pub(crate) fn end(&mut self) {
        if let Some((sender, thread)) = self.asking.take() {
            let _ = sender.try_send(());
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Counter of an interface.
struct Counter {
    socket: OwnedFd,
    index: u32,
    before: Before,
}

impl Counter {
    fn open(index: u32, before: Before) -> Option<Counter> {
        if index == 0 {
            return None;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Of netlink's protocols the one that is none to rustix: `NETLINK_ROUTE`.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).ok()?;
        Some(Counter { socket, index, before })
    }

    /// Packets lost since the interface was made.
    fn ask(&self) -> io::Result<u64> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request(self.index), SendFlags::empty(), &kernel)?;
        let mut buffer = [0; BUFFER];
        // The kernel answers before it returns.
        let (bytes, _) = recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        let answer = buffer.get(..bytes).unwrap_or_default();
        let counts = counts(answer, self.index);
        let [missed, dropped] = counts.ok_or(io::ErrorKind::InvalidData)?;
        Ok(match self.before {
            Before::Program => missed,
            Before::Stack => missed.saturating_add(dropped),
        })
    }
}

fn request(index: u32) -> Vec<u8> {
    let mut bytes = (message::HEADER as u32 + BODY as u32).to_ne_bytes().to_vec();
    bytes.extend(RTM_GETSTATS.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes.extend(index.to_ne_bytes());
    bytes.extend((1u32 << (LINK_64 - 1)).to_ne_bytes());
    bytes
}

/// Missed and dropped packets of an interface, as an answer has them.
fn counts(bytes: &[u8], index: u32) -> Option<[u64; 2]> {
    message::messages(bytes).find_map(|(kind, body)| {
        let &[_, _, _, _, i0, i1, i2, i3, ..] = body.first_chunk::<BODY>()?;
        if kind != RTM_NEWSTATS || u32::from_ne_bytes([i0, i1, i2, i3]) != index {
            return None;
        }
        let fields = message::attributes(body.get(BODY..)?).find(|(kind, _)| *kind == LINK_64)?.1;
        let count = |field: usize| {
            let bytes = fields.get(8 * field..)?.first_chunk::<8>()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        Some([count(MISSED)?, count(DROPPED)?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_tells() {
        let loopback = Link::named("lo").unwrap().index;
        for before in [Before::Program, Before::Stack] {
            let mut drops = Drops::open(loopback, before).unwrap();
            drops.end();
            assert_eq!(drops.lost(), 0);
        }
        assert!(Drops::open(0, Before::Stack).is_none());
        assert!(Drops::open(0x7fff_fff0, Before::Stack).is_none());
    }

    #[test]
    fn whoever_takes_packets_does_not_wait_for_the_kernel() {
        let (answer, answers) = mpsc::channel();
        let answers = std::sync::Mutex::new(answers);
        answer.send(Ok(100)).unwrap();
        let ask = move || answers.lock().unwrap().recv().unwrap();
        let mut drops = Drops::asking(ask).unwrap();
        // Nothing is answered, however often it is asked.
        assert!((0..10).all(|_| drops.lost() == 0));
        for said in [Ok(107), Err(io::ErrorKind::WouldBlock.into()), Ok(3)] {
            answer.send(said).unwrap();
        }
        drops.end();
        assert_eq!(drops.lost(), 7);
    }

    #[test]
    fn the_count_ends_with_all_until_then() {
        let count = Arc::new(AtomicU64::new(5));
        let now = Arc::clone(&count);
        let mut drops = Drops::asking(move || Ok(now.load(Ordering::Relaxed))).unwrap();
        assert_eq!(drops.lost(), 0);
        count.store(9, Ordering::Relaxed);
        drops.end();
        count.store(20, Ordering::Relaxed);
        drops.end();
        assert_eq!(drops.lost(), 4);
    }

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let answer = |index: u32, fields: u64| {
            let stats: Vec<u8> = (0..fields).flat_map(u64::to_ne_bytes).collect();
            let length = (message::HEADER + BODY + 4 + stats.len()) as u32;
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(RTM_NEWSTATS.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend([0; 4]);
            bytes.extend(index.to_ne_bytes());
            bytes.extend([1, 0, 0, 0]);
            bytes.extend((4 + stats.len() as u16).to_ne_bytes());
            bytes.extend(LINK_64.to_ne_bytes());
            bytes.extend(stats);
            bytes
        };
        assert_eq!(counts(&answer(7, 25), 7), Some([15, 6]));
        assert_eq!(counts(&answer(7, 25), 8), None);
        assert_eq!(counts(&answer(7, 15), 7), None);
    }

    proptest! {
        #[test]
        fn whatever_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = counts(&bytes, 1);
        }
    }
}
