//! Mask of what no two programs can have the same in their replies, and no request can depend on:
//! left out where replies are compared.
//!
//! PostgreSQL tells each client its process and a random key (`BackendKeyData`), for cancelling.

/// The code of a start-up packet of version 3.0, and those that ask for encryption first.
const POSTGRESQL: [u32; 3] = [196_608, 80_877_103, 80_877_104];

/// Where one connection's replies stand.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mask {
    /// Nothing was asked yet.
    #[default]
    Unknown,
    /// Nothing is to be left out.
    None,
    /// PostgreSQL's replies: between two messages.
    Between,
    /// After an `N`: the answer to a wish for encryption, or the beginning of a notice.
    Refusal,
    /// Of that kind; so many bytes of its length were read, which is this so far.
    Length(u8, u8, u32),
    /// Of that kind, so many bytes are left.
    Body(u8, u32),
}

impl Mask {
    /// The connection's first request says which protocol it is.
    pub fn asked(&mut self, request: &[u8]) {
        if *self == Mask::Unknown {
            let code = request.get(4..8).and_then(|code| <[u8; 4]>::try_from(code).ok());
            let known = code.is_some_and(|code| POSTGRESQL.contains(&u32::from_be_bytes(code)));
            *self = if known { Mask::Between } else { Mask::None };
        }
    }

    /// Replies, as they are to be compared: of the same length.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        if matches!(self, Mask::Unknown | Mask::None) {
            return;
        }
        for byte in bytes {
            *self = match *self {
                Mask::Refusal if *byte == 0 => Mask::Length(b'N', 1, 0),
                Mask::Between | Mask::Refusal if *byte == b'N' => Mask::Refusal,
                Mask::Between | Mask::Refusal => Mask::Length(*byte, 0, 0),
                Mask::Length(kind, read, length) => {
                    let length = length << 8 | u32::from(*byte);
                    match (read, length) {
                        (..3, _) => Mask::Length(kind, read + 1, length),
                        (_, ..=4) => Mask::Between,
                        _ => Mask::Body(kind, length - 4),
                    }
                }
                Mask::Body(kind, left) => {
                    if kind == b'K' {
                        *byte = 0;
                    }
                    if left > 1 { Mask::Body(kind, left - 1) } else { Mask::Between }
                }
                Mask::Unknown | Mask::None => return,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\0\0\0\x08\0\x03\0\0";

    fn masked(request: &[u8], replies: &[u8], pieces: usize) -> Vec<u8> {
        let mut mask = Mask::default();
        mask.asked(request);
        mask.asked(b"later ones say nothing");
        let mut replies = replies.to_vec();
        replies.chunks_mut(pieces).for_each(|piece| mask.apply(piece));
        replies
    }

    #[test]
    fn postgresqls_keys_are_left_out_and_nothing_else() {
        let replies =
            b"NNR\0\0\0\x08\0\0\0\0N\0\0\0\x05KK\0\0\0\x0cabcdefghZ\0\0\0\x05KI\0\0\0\x04";
        let wanted =
            b"NNR\0\0\0\x08\0\0\0\0N\0\0\0\x05KK\0\0\0\x0c\0\0\0\0\0\0\0\0Z\0\0\0\x05KI\0\0\0\x04";
        for pieces in 1..replies.len() {
            assert_eq!(masked(START, replies, pieces), wanted);
        }
        let other = b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(masked(other, replies, 7), replies);
        assert_eq!(masked(b"short", replies, 7), replies);
    }

    #[test]
    fn whatever_comes_is_read_without_harm() {
        for length in [0_u32, 3, 4, 5, u32::MAX] {
            let mut replies = b"K".to_vec();
            replies.extend(length.to_be_bytes());
            replies.extend([7; 9]);
            assert_eq!(masked(START, &replies, 2).len(), replies.len());
        }
    }
}
