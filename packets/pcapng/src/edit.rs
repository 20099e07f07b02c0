//! Changes to blocks that somebody else wrote: options put in place of others.

use crate::block::MOST_BYTES;
use crate::code;
use crate::options::{Opt, Options};
use crate::order::{Order, filler};
use crate::records::{self, MAGIC, PACKET_BYTES};

/// Puts one option in place of all those in `copy` that `is_it` finds: the first one's place, and no
/// second. Where there is none, it comes last if `add`. `copy` is a whole block in this byte order,
/// whose options begin at that byte.
///
/// # Errors
/// If the options are damaged, or the block would be longer than one may be.
pub fn replace(
    copy: &mut Vec<u8>,
    (order, begin): (Order, usize),
    is_it: impl Fn(&Opt<'_>) -> bool,
    (code, value): (u16, &[u8]),
    add: bool,
) -> Result<(), String> {
    let end = copy.len().saturating_sub(4);
    let (Some(front), Some(rest)) = (copy.get(..begin), copy.get(begin..end)) else {
        return Err("options beyond the block".to_owned());
    };
    let mut new = front.to_vec();
    let mut placed = false;
    for option in Options::new(order, rest, begin) {
        let option = option?;
        if !is_it(&option) {
            append(&mut new, order, option.code, option.value)?;
        } else if !placed {
            append(&mut new, order, code, value)?;
            placed = true;
        }
    }
    if !placed && !add {
        return Ok(());
    }
    if !placed {
        append(&mut new, order, code, value)?;
    }
    new.extend_from_slice(&[0; 4]);
    let length = u32::try_from(new.len() + 4).ok().filter(|length| *length <= MOST_BYTES);
    let length = order.bytes(length.ok_or("no room for another option in its block")?);
    new.extend_from_slice(&length);
    new.get_mut(4..8).ok_or("no block")?.copy_from_slice(&length);
    *copy = new;
    Ok(())
}

/// Puts a packet's record into its block, in place of the one that it has, or last.
///
/// # Errors
/// Those of [`replace`].
pub fn put_record(
    copy: &mut Vec<u8>,
    order: Order,
    begin: usize,
    record: &[u8; PACKET_BYTES],
) -> Result<(), String> {
    let value = [&order.bytes(records::ENTERPRISE), record.as_slice()].concat();
    let is_ours = |option: &Opt<'_>| {
        let record = option.value.get(4..).unwrap_or_default();
        option.code == code::CUSTOM && record.starts_with(&MAGIC) && record.get(5) == Some(&b'P')
    };
    replace(copy, (order, begin), is_ours, (code::CUSTOM, &value), true)
}

/// Appends an option.
fn append(block: &mut Vec<u8>, order: Order, code: u16, value: &[u8]) -> Result<(), String> {
    let length = u16::try_from(value.len()).map_err(|_| "an option beyond 65 535 bytes")?;
    block.extend_from_slice(&order.short(code));
    block.extend_from_slice(&order.short(length));
    block.extend_from_slice(value);
    block.extend_from_slice(filler(value.len()));
    Ok(())
}
