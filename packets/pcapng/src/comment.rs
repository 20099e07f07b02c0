//! Comments (`opt_comment`) that say what a packet's record says: no other registered option of a
//! packet holds it, and Wireshark's scripts reach no custom one. Their form is in
//! `docs/reference/capture-files.md`; `contrib/wireshark/truechimer.lua` reads them.

use std::fmt::Write as _;

use crate::edit::replace;
use crate::order::Order;
use crate::records::{PacketRecord, Quality, StampedBy, method_name};
use crate::{Opt, code};

/// Beginning of every such comment.
pub const BEGINNING: &str = "Truechimer: ± ";

/// Epoch of a count that no clock page told.
const NO_EPOCH: u32 = u32::MAX;

/// Comment of a packet. `clock`: status of the clock as it was captured, `none` where there was
/// no clock; `None` where nobody knows.
#[must_use]
pub fn text(record: &PacketRecord, clock: Option<&str>) -> String {
    let PacketRecord { method, stamped_by, quality, counted, bound_ns, .. } = *record;
    let mut text = match bound_ns {
        Some(ns) => format!("{BEGINNING}{ns} ns, "),
        None => format!("{BEGINNING}?, "),
    };
    text.push_str(match quality {
        Quality::Bounded => "bounded",
        Quality::Unsynchronised => "unsynchronised",
        Quality::Uncounted => "uncounted",
    });
    let stamped = match stamped_by {
        StampedBy::Counter => "counter",
        StampedBy::Realtime => "realtime",
        StampedBy::Monotonic => "monotonic",
        StampedBy::Device => "device",
        StampedBy::Unknown => "unknown",
        StampedBy::Nothing => "nothing",
    };
    // Writing to a string cannot fail.
    if let Some(clock) = clock {
        let _ = write!(text, ", clock {clock}");
    }
    let _ = write!(text, ", method {}, stamped {stamped}", method_name(method));
    if let Some((count, error, epoch)) = counted {
        let _ = write!(text, ", count {} ± {}", count.0, error.0);
        if epoch.0 != NO_EPOCH {
            let _ = write!(text, ", epoch {}", epoch.0);
        }
    }
    text
}

/// Puts `text` in place of the comments of this kind in `copy`, a packet's block whose options begin
/// at `begin`; a packet that has none gets it only if `add`.
///
/// # Errors
/// Those of [`replace`].
pub fn put(
    copy: &mut Vec<u8>,
    order: Order,
    begin: usize,
    text: &str,
    add: bool,
) -> Result<(), String> {
    let is_ours = |option: &Opt<'_>| {
        option.code == code::COMMENT && option.value.starts_with(BEGINNING.as_bytes())
    };
    replace(copy, (order, begin), is_ours, (code::COMMENT, text.as_bytes()), add)
}
