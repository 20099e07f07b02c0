//! Filters in tcpdump's language, by libpcap.
//!
//! libpcap is loaded when the first filter is compiled, so that neither the build nor a capture
//! without a filter needs it. What it gives is classic BPF code, which the kernel runs for a
//! packet socket ([`Filter::attach`]) and [`Filter::matches`] for packets that never met one.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

mod code;
mod library;
mod machine;
mod socket;

pub use code::Instruction;
pub(crate) use code::{beside, keeping, op, uncooked};
use library::{Handle, Refusal};
pub(crate) use socket::{attach, exchange};

/// Link type of Linux's cooked header, version 2: what is captured on `any`.
pub const LINKTYPE_LINUX_SLL2: u16 = 276;
/// Link type of bare IP packets.
pub const LINKTYPE_RAW: u16 = 101;

/// A compiled filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    text: String,
    link_type: u16,
    code: Vec<Instruction>,
}

impl Filter {
    /// Compiles `text`, in the language of pcap-filter(7), for packets of `link_type` (as
    /// tcpdump.org numbers them: 1 is Ethernet) of which `snap_length` bytes are kept.
    ///
    /// With an interface, for the kernel to run on its packets: the code is that of tcpdump on
    /// that interface, VLAN tags being where Linux has them; takes the right to capture there.
    /// Without one, for packets with their tags inline: AF_XDP, files.
    ///
    /// # Errors
    /// Without libpcap, where the text is not understood, where the interface may not be captured
    /// from.
    pub fn compile(
        text: &str,
        interface: Option<&str>,
        link_type: u16,
        snap_length: u32,
    ) -> Result<Filter, FilterError> {
        let library = library::get()?;
        let handle = match interface {
            Some(interface) => Handle::live(library, interface, link_type, snap_length)?,
            None => Handle::dead(library, link_type, snap_length)?,
        };
        let code = handle.compile(text).map_err(|refusal| match refusal {
            Refusal::Text(message) => {
                let place = place(text, |part| match handle.compile(part) {
                    Err(Refusal::Text(message)) => Some(message),
                    _ => None,
                });
                FilterError::Text { text: text.to_owned(), place, message }
            }
            Refusal::Other(why) => why,
        })?;
        Ok(Filter { text: text.to_owned(), link_type, code })
    }

    /// Text that it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The link type it is for.
    #[must_use]
    pub fn link_type(&self) -> u16 {
        self.link_type
    }

    /// Code of the filter.
    #[must_use]
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// True if a packet of `original_length` bytes on the wire, of which there are `bytes`, passes.
    /// For filters compiled without an interface: what only the kernel knows of a packet is taken
    /// to be nothing.
    #[must_use]
    pub fn matches(&self, bytes: &[u8], original_length: u32) -> bool {
        machine::run(&self.code, bytes, original_length) != 0
    }

    /// Puts the filter on a packet socket in such a way that nothing comes through that came
    /// before it.
    ///
    /// # Errors
    /// As the kernel has it.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        socket::attach(socket, &self.code)
    }
}

/// Reason why there is no filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterError {
    /// libpcap is not installed, or is none.
    NoLibrary {
        /// The loader's words.
        why: String,
    },
    /// The text is no filter.
    Text {
        /// The text.
        text: String,
        /// Where in it the trouble is, in bytes; `None` if that cannot be told. The text's length
        /// if something is missing at its end.
        place: Option<usize>,
        /// libpcap's words.
        message: String,
    },
    /// The interface cannot be captured from.
    Interface {
        /// Name of the interface.
        interface: String,
        /// libpcap's words.
        why: String,
        /// Remedy.
        mend: Option<String>,
    },
    /// libpcap does what it should not.
    Library {
        /// Fault.
        why: String,
    },
}

impl FilterError {
    fn library(why: &str) -> FilterError {
        FilterError::Library { why: why.to_owned() }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::NoLibrary { why } => write!(
                f,
                "filters need libpcap: {why}; install it: `apt install libpcap0.8` (Debian, \
                 Ubuntu; libpcap0.8t64 on recent ones) or `dnf install libpcap` (Fedora)"
            ),
            FilterError::Text { text, place: Some(place), message } => {
                let (before, after) = text.split_at_checked(*place).unwrap_or((text, ""));
                if after.is_empty() {
                    write!(f, "{message}, at the end of {text:?}")
                } else {
                    write!(f, "{message}, at {after:?} after {before:?}")
                }
            }
            FilterError::Text { text, place: None, message } => {
                write!(f, "{message}, in {text:?}")
            }
            FilterError::Interface { interface, why, mend } => {
                write!(f, "compiling a filter for {interface}: {why}")?;
                mend.iter().try_for_each(|mend| write!(f, "; {mend}"))
            }
            FilterError::Library { why } => write!(f, "libpcap: {why}"),
        }
    }
}

impl std::error::Error for FilterError {}

/// Where `text` goes wrong, given what is wrong with any part of it.
///
/// libpcap does not say. But it reads from left to right, and stops at the first word that cannot
/// follow: so the words are given to it one more at a time, with a number behind them that is too
/// large for it. As long as it complains about that, it had no quarrel with what came before.
/// Versions before 1.10 let the number pass: then there is no place.
fn place(text: &str, complaint: impl Fn(&str) -> Option<String>) -> Option<usize> {
    const NEVER: &str = "99999999999999";
    let is_that = |said: String| said.contains(NEVER);
    if !complaint(NEVER).is_some_and(is_that) {
        return None;
    }
    let begins = |(at, c): (usize, char), before: Option<char>| {
        let word = |c: char| c.is_alphanumeric() || "-_.:\\".contains(c);
        let follows = before.is_some_and(|before| word(before) && word(c));
        (!c.is_whitespace() && !follows).then_some(at)
    };
    let mut before = None;
    let mut starts = Vec::new();
    for (at, c) in text.char_indices() {
        starts.extend(begins((at, c), before));
        before = Some(c);
    }
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    for (start, end) in starts.iter().copied().zip(ends) {
        let part = text.get(..end)?;
        if !complaint(&format!("{part} {NEVER}")).is_some_and(is_that) {
            return Some(start);
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests;
