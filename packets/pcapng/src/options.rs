//! The options at the end of a block.

use crate::code;
use crate::order::{Order, padding};

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opt<'a> {
    /// Code of the option, depending on the block.
    pub code: u16,
    /// Content of the option.
    pub value: &'a [u8],
    /// Where `value` begins, in bytes from the start of the block.
    pub at: usize,
}

/// The options of a block, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    order: Order,
    rest: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// The options in `bytes`, which begin `at` bytes from the start of their block.
    #[must_use]
    pub fn new(order: Order, bytes: &'a [u8], at: usize) -> Options<'a> {
        Options { order, rest: bytes, at }
    }

    /// Where those that are left begin, in bytes from the start of the block.
    #[must_use]
    pub fn begin(&self) -> usize {
        self.at
    }

    /// The first option with this code; one that stands behind damage is not found.
    #[must_use]
    pub fn find(&self, code: u16) -> Option<Opt<'a>> {
        self.map_while(Result::ok).find(|option| option.code == code)
    }

    fn take(&mut self) -> Option<Result<Opt<'a>, String>> {
        if self.rest.is_empty() {
            return None;
        }
        let read = |at| self.order.u16(self.rest, at);
        let (Some(code), Some(length)) = (read(0), read(2)) else {
            return Some(Err(format!("an option of {} bytes", self.rest.len())));
        };
        if code == code::END {
            return None;
        }
        let length = usize::from(length);
        let Some(value) = self.rest.get(4..4 + length) else {
            let there = self.rest.len() - 4;
            return Some(Err(format!("option {code} of {length} bytes where {there} are left")));
        };
        let option = Opt { code, value, at: self.at + 4 };
        // Padding may be missing after the last option of a block that somebody else wrote.
        let whole = 4 + length + padding(length);
        self.rest = self.rest.get(whole..).unwrap_or_default();
        self.at += whole;
        Some(Ok(option))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.take();
        if !matches!(next, Some(Ok(_))) {
            self.rest = &[];
        }
        next
    }
}
