//! A file as blocks.

use std::fmt;
use std::io::{self, Read};

use crate::error::ReadError;
use crate::order::Order;
use crate::{kind, pcap};

/// Longer blocks are taken for damage: 16 MiB, as Wireshark has it.
pub const MOST_BYTES: u32 = 16 << 20;

/// Second word of a section if read in the right byte order.
const MAGIC: u32 = 0x1a2b_3c4d;

/// One block, with all its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Type of the block.
    pub kind: u32,
    /// The byte order of its section.
    pub order: Order,
    /// Which one it is, from 1.
    pub number: u64,
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// All of it, from its type to the second of its two lengths.
    pub bytes: &'a [u8],
}

impl<'a> Block<'a> {
    /// Body between type and length at the front and length at the end.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(8..self.bytes.len().saturating_sub(4)).unwrap_or_default()
    }

    /// An error that names this block.
    #[must_use]
    pub fn damaged(&self, what: impl Into<String>) -> ReadError {
        ReadError::Damaged { block: self.number, offset: self.offset, what: what.into() }
    }
}

/// The last block is not all there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Torn {
    /// Which block (pcap: packet), from 1.
    pub block: u64,
    /// Where it begins: everything before that was read.
    pub offset: u64,
    /// Number of its bytes that are there.
    pub there: u64,
    /// Number of bytes that there should be, if it is long enough to tell.
    pub wanted: Option<u64>,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Torn { block, offset, there, wanted } = self;
        write!(f, "ends in the midst of block {block} at byte {offset}, after {there} ")?;
        match wanted {
            Some(wanted) => write!(f, "of its {wanted} bytes")?,
            None => f.write_str("bytes of it")?,
        }
        f.write_str(": readable up to there")
    }
}

/// Reads blocks, one at a time.
#[derive(Debug)]
pub struct Blocks<R> {
    input: R,
    order: Option<Order>,
    number: u64,
    offset: u64,
    buffer: Vec<u8>,
    /// Type of the block in `buffer`.
    kind: u32,
    torn: Option<Torn>,
    over: bool,
}

impl<R: Read> Blocks<R> {
    /// Reads from `input`, which should be buffered.
    pub fn new(input: R) -> Blocks<R> {
        Blocks {
            input,
            order: None,
            number: 0,
            offset: 0,
            buffer: Vec::new(),
            kind: 0,
            torn: None,
            over: false,
        }
    }

    /// The next block; `None` at the end, or where the file ends in the midst of one
    /// ([`Blocks::torn`]).
    ///
    /// # Errors
    /// If what comes is no block. Nothing more can be read then.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, ReadError> {
        Ok(if self.advance()? { self.block() } else { None })
    }

    /// Goes on to the next block, which [`Blocks::block`] gives; false where
    /// [`Blocks::next_block`] gives `None`.
    ///
    /// # Errors
    /// As [`Blocks::next_block`].
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        if self.over {
            return Ok(false);
        }
        self.over = true;
        self.buffer.clear();
        self.number += 1;
        if !self.fill(8, None)? {
            return Ok(false);
        }
        let kind = word(&self.buffer, Order::Little, 0);
        if kind == kind::SECTION {
            if !self.fill(12, None)? {
                return Ok(false);
            }
            self.order = Some(match word(&self.buffer, Order::Little, 8) {
                MAGIC => Order::Little,
                magic if magic.swap_bytes() == MAGIC => Order::Big,
                magic => {
                    return Err(
                        self.damaged(format!("byte-order magic {magic:#010x} in a section"))
                    );
                }
            });
        }
        let Some(order) = self.order else {
            return Err(ReadError::Foreign(pcap::foreign(&self.buffer)));
        };
        let (kind, length) = (word(&self.buffer, order, 0), word(&self.buffer, order, 4));
        if length % 4 != 0 || !(12..=MOST_BYTES).contains(&length) {
            let what = format!(
                "type {kind:#x} with a length of {length} bytes: must be a multiple of 4 from 12 \
                 to {MOST_BYTES}"
            );
            return Err(self.damaged(what));
        }
        if !self.fill(length as usize, Some(u64::from(length)))? {
            return Ok(false);
        }
        let again = word(&self.buffer, order, length as usize - 4);
        if again != length {
            let what = format!("type {kind:#x} is {length} bytes long, but {again} at its end");
            return Err(self.damaged(what));
        }
        self.over = false;
        self.kind = kind;
        self.offset += u64::from(length);
        Ok(true)
    }

    /// The block that [`Blocks::advance`] went to.
    #[must_use]
    pub fn block(&self) -> Option<Block<'_>> {
        let (Some(order), false) = (self.order, self.over || self.buffer.is_empty()) else {
            return None;
        };
        Some(Block {
            kind: self.kind,
            order,
            number: self.number,
            offset: self.offset - self.buffer.len() as u64,
            bytes: &self.buffer,
        })
    }

    /// Where the file ends in the midst of a block, once that has shown.
    #[must_use]
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// Number of bytes of whole blocks read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until the buffer holds `length` bytes. False at the end of the file, which is noted
    /// as torn unless the buffer is empty.
    fn fill(&mut self, length: usize, wanted: Option<u64>) -> Result<bool, ReadError> {
        let more = length.saturating_sub(self.buffer.len()) as u64;
        // No more than there is gets allocated, whatever the length says.
        let read = self.input.by_ref().take(more).read_to_end(&mut self.buffer);
        match read {
            Ok(_) if self.buffer.len() >= length => Ok(true),
            Ok(_) => {
                let there = self.buffer.len() as u64;
                if there > 0 && self.order.is_none() && self.buffer.get(..4) != Some(&SECTION_BYTES)
                {
                    return Err(ReadError::Foreign(pcap::foreign(&self.buffer)));
                }
                if there > 0 {
                    let (block, offset) = (self.number, self.offset);
                    self.torn = Some(Torn { block, offset, there, wanted });
                }
                Ok(false)
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => self.fill(length, wanted),
            Err(why) => {
                let offset = self.offset + self.buffer.len() as u64;
                Err(ReadError::Io { offset, why })
            }
        }
    }

    fn damaged(&self, what: String) -> ReadError {
        ReadError::Damaged { block: self.number, offset: self.offset, what }
    }
}

const SECTION_BYTES: [u8; 4] = kind::SECTION.to_le_bytes();

fn word(bytes: &[u8], order: Order, at: usize) -> u32 {
    order.u32(bytes, at).unwrap_or(0)
}
