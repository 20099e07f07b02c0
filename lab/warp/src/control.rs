//! The stamps in a message's control data.

use libc::{SCM_TIMESTAMPING, SO_TIMESTAMP, SO_TIMESTAMPNS, SOL_SOCKET};

/// The types that the `_NEW` socket options give (the same layout on 64-bit machines).
const TIMESTAMP_NEW: i32 = 63;
const TIMESTAMPNS_NEW: i32 = 64;
const TIMESTAMPING_NEW: i32 = 65;

/// Length of the header of one piece of control data: length, level, type.
const HEADER: usize = 16;

/// Replaces every software stamp in `control` by what `warp` makes of it (both Unix ns).
/// Malformed data is left as it is.
pub fn warp_stamps(control: &mut [u8], mut warp: impl FnMut(i64) -> i64) {
    let mut rest = control;
    while let Some((length, level, kind)) = header(rest) {
        if length < HEADER || length > rest.len() {
            return;
        }
        let (piece, after) = rest.split_at_mut(length.next_multiple_of(8).min(rest.len()));
        let fraction = match kind {
            _ if level != SOL_SOCKET => None,
            SCM_TIMESTAMPING | TIMESTAMPING_NEW | SO_TIMESTAMPNS | TIMESTAMPNS_NEW => Some(1),
            SO_TIMESTAMP | TIMESTAMP_NEW => Some(1_000),
            _ => None,
        };
        if let (Some(unit), Some(stamp)) = (fraction, piece.get_mut(HEADER..HEADER + 16)) {
            warp_one(stamp, unit, &mut warp);
        }
        rest = after;
    }
}

/// Seconds and a fraction in units of `unit` ns; all zero means that there is no such stamp.
fn warp_one(stamp: &mut [u8], unit: i64, warp: &mut impl FnMut(i64) -> i64) {
    let (Some(secs), Some(fraction)) = (word(stamp, 0), word(stamp, 8)) else { return };
    if (secs, fraction) == (0, 0) {
        return;
    }
    let warped = warp(secs.wrapping_mul(1_000_000_000).wrapping_add(fraction.wrapping_mul(unit)));
    let parts = [warped.div_euclid(1_000_000_000), warped.rem_euclid(1_000_000_000) / unit];
    for (place, part) in stamp.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_ne_bytes());
    }
}

fn header(control: &[u8]) -> Option<(usize, i32, i32)> {
    let length = usize::try_from(word(control, 0)?).ok()?;
    let half = |at: usize| control.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
    Some((length, half(8)?, half(12)?))
}

fn word(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..at + 8)?.try_into().ok().map(i64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(level: i32, kind: i32, words: &[i64]) -> Vec<u8> {
        let mut bytes = (HEADER + 8 * words.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    }

    #[test]
    fn only_software_stamps_change() {
        let pieces = |at: [i64; 2]| {
            [
                piece(0, 8, &[7, 7]),
                piece(SOL_SOCKET, SCM_TIMESTAMPING, &[at[0], at[1], 0, 0, 5, 6]),
                piece(SOL_SOCKET, SCM_TIMESTAMPING, &[0, 0, 0, 0, 5, 6]),
            ]
            .concat()
        };
        let mut control = pieces([100, 999_999_990]);
        warp_stamps(&mut control, |t| t + 20);
        assert_eq!(control, pieces([101, 10]));
        warp_stamps(&mut control, |t| t - 20);
        assert_eq!(control, pieces([100, 999_999_990]));
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut noise = 1u64;
        for length in 0..200usize {
            let mut control: Vec<u8> = (0..length)
                .map(|_| {
                    noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (noise >> 60) as u8
                })
                .collect();
            warp_stamps(&mut control, |t| t.wrapping_add(1));
        }
    }
}
