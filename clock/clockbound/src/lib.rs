//! The pages of shared memory that clients of [ClockBound](https://github.com/aws/clock-bound)
//! read, in their three layouts: so that programs which know that library find this clock.
//!
//! * [`Record`] is what one of them says, and [`Layout::encode`] makes its bytes.
//! * [`Page`] is the file: made whole, locked against a second writer, and written in the way that
//!   its readers expect. It is written by `pwrite(2)`, which shares the kernel's pages with whoever
//!   maps the file: nothing is mapped here, so that nothing that others do to the file can end the
//!   writer.
//!
//! Layouts and meanings are ClockBound's: its protocol document for clients 1.x and 2.x, and the
//! source of `clock-bound` 3.0.0-rc.0 for 3.x.
//!
//! Not here: the bound itself, which is the daemon's, and a reader: those are ClockBound's clients.
#![forbid(unsafe_code)]

mod layout;
mod page;

pub use layout::{Layout, Record, Status};
pub use page::{Lost, Page, PageError};
