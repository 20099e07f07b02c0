//! Comments (`opt_comment`) that say what a packet's record says: no other registered option of a
//! packet holds it, and Wireshark's scripts reach no custom one. Their form is in
//! `docs/reference/capture-files.md`; `contrib/wireshark/truechimer.lua` reads them.

use std::fmt::Write as _;

use crate::block::MOST_BYTES;
use crate::order::{Order, filler};
use crate::records::{PacketRecord, Quality, StampedBy, method_name};
use crate::{Options, code};

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

/// Puts `text` in place of the comments of this kind in `copy`, a packet's block whose `options`
/// are given; a packet that has none gets it only if `add`.
///
/// # Errors
/// If the options are damaged, or the block would be longer than one may be.
pub fn put(
    copy: &mut Vec<u8>,
    order: Order,
    options: Options<'_>,
    text: &str,
    add: bool,
) -> Result<(), String> {
    let mut new = copy.get(..options.begin()).ok_or("options beyond the block")?.to_vec();
    let mut placed = false;
    for option in options {
        let option = option?;
        if option.code == code::COMMENT && option.value.starts_with(BEGINNING.as_bytes()) {
            if !placed {
                append(&mut new, order, text.as_bytes())?;
            }
            placed = true;
            continue;
        }
        let value = copy.get(option.at - 4..option.at + option.value.len());
        new.extend_from_slice(value.ok_or("an option beyond the block")?);
        new.extend_from_slice(filler(option.value.len()));
    }
    if !placed && !add {
        return Ok(());
    }
    if !placed {
        append(&mut new, order, text.as_bytes())?;
    }
    new.extend_from_slice(&[0; 4]);
    let length = u32::try_from(new.len() + 4).ok().filter(|length| *length <= MOST_BYTES);
    let length = order.bytes(length.ok_or("no room for a comment in its block")?);
    new.extend_from_slice(&length);
    new.get_mut(4..8).ok_or("no block")?.copy_from_slice(&length);
    *copy = new;
    Ok(())
}

/// Appends a comment as an option.
fn append(block: &mut Vec<u8>, order: Order, text: &[u8]) -> Result<(), String> {
    let length = u16::try_from(text.len()).map_err(|_| "a comment beyond 65 535 bytes")?;
    block.extend_from_slice(&order.short(code::COMMENT));
    block.extend_from_slice(&order.short(length));
    block.extend_from_slice(text);
    block.extend_from_slice(filler(text.len()));
    Ok(())
}
