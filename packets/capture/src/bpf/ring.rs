//! Ring buffers: records from programs to one reader, in order, from all CPUs.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::error::BpfError;
use super::map::{Map, RING_BUFFER};
use super::shared::Shared;

/// A record is still being written.
const BUSY: u32 = 1 << 31;
/// A record was given up.
const DISCARD: u32 = 1 << 30;
/// Bytes before each record.
const HEADER: u64 = 8;

/// A ring buffer and its reader.
#[derive(Debug)]
pub struct RingBuffer {
    map: Map,
    /// Position of the reader.
    consumer: Shared,
    /// A page that says how far the writers are, then the data, twice in a row.
    producer: Shared,
    page: u64,
    size: u64,
}

impl RingBuffer {
    /// One of at least this many bytes: rounded up to a power of two of whole pages.
    pub fn new(bytes: u32) -> Result<RingBuffer, BpfError> {
        let page = rustix::param::page_size();
        let doing = || format!("making a ring buffer of {bytes} bytes");
        let least = u32::try_from(page).unwrap_or(4096);
        let size = bytes.max(least).checked_next_power_of_two();
        let size = size.ok_or_else(|| BpfError::ours(doing(), "too large"))?;
        let map = Map::make("ring buffer", RING_BUFFER, 0, 0, size)?;
        let shared = |offset: usize, len: usize, writable: bool| {
            Shared::map(map.as_fd(), offset, len, writable)
                .map_err(|error| BpfError::system(doing(), &error, "cap_bpf"))
        };
        let whole = (size as usize).checked_mul(2).and_then(|data| data.checked_add(page));
        let whole = whole.ok_or_else(|| BpfError::ours(doing(), "too large"))?;
        Ok(RingBuffer {
            consumer: shared(0, page, true)?,
            producer: shared(page, whole, false)?,
            page: page as u64,
            size: u64::from(size),
            map,
        })
    }

    /// The map that programs write to.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Calls `each` with every record that is there, oldest first, and returns how many they were.
    ///
    /// # Errors
    /// Where what the kernel wrote makes no sense.
    pub fn consume(&mut self, each: impl FnMut(&[u8])) -> Result<usize, BpfError> {
        self.consume_some(usize::MAX, each)
    }

    /// Consumes `most` records at the most: programs may write faster than they are read.
    ///
    /// # Errors
    /// As [`RingBuffer::consume`].
    pub fn consume_some(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, BpfError> {
        let mut at = self.consumer.load();
        let mut records = 0;
        loop {
            let end = self.producer.load();
            if at >= end || records >= most {
                return Ok(records);
            }
            while at < end && records < most {
                let place = usize::try_from(self.page + (at & (self.size - 1)));
                let header = place.ok().and_then(|place| self.producer.header(place));
                let header = header.ok_or_else(broken)?;
                if header & BUSY != 0 {
                    return Ok(records);
                }
                let len = u64::from(header & !(BUSY | DISCARD));
                if len > self.size {
                    return Err(broken());
                }
                if header & DISCARD == 0 {
                    let start = usize::try_from(self.page + (at & (self.size - 1)) + HEADER);
                    let record =
                        start.ok().and_then(|start| self.producer.bytes(start, len as usize));
                    each(record.ok_or_else(broken)?);
                    records += 1;
                }
                at += (len + HEADER).next_multiple_of(8);
                self.consumer.store(at);
            }
        }
    }

    /// Waits until there is a record, `timeout` at most; says whether there is.
    pub fn wait(&self, timeout: Duration) -> Result<bool, BpfError> {
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut [PollFd::new(&self.map, PollFlags::IN)], timeout.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(why) => Err(BpfError::system("waiting for a ring buffer", &why.into(), "cap_bpf")),
        }
    }
}

fn broken() -> BpfError {
    BpfError::ours("reading a ring buffer", "its records make no sense")
}
