//! Mask of what no two programs can have the same in their replies, and no request can depend on:
//! left out where replies are compared.
//!
//! PostgreSQL tells each client its process and a random key (`BackendKeyData`), for cancelling. Redis tells it the
//! connection's number in its answer to `HELLO`: programs that have started at other times, or are asked by clients that
//! only read, have had other connections. That is looked for in any requests that contain the word, as it is not known here
//! which are of RESP: in other protocols' replies nothing is like that.

/// The code of a start-up packet of version 3.0, and those that ask for encryption first.
const POSTGRESQL: [u32; 3] = [196_608, 80_877_103, 80_877_104];
/// Part of Redis' answer to `HELLO` before the number, in either version of RESP; for the `?` there is any byte.
const HELLO: &[u8] = b"$5\r\nproto\r\n:?\r\n$2\r\nid\r\n:";

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
    /// Redis' replies, where one is to `HELLO`: so many bytes of what comes before the number were read.
    Hello(usize),
    /// In the number.
    Number,
}

impl Mask {
    /// The connection's first request says which protocol it is; any may be a `HELLO`.
    pub fn asked(&mut self, request: &[u8]) {
        if *self == Mask::Unknown {
            let code = request.get(4..8).and_then(|code| <[u8; 4]>::try_from(code).ok());
            let known = code.is_some_and(|code| POSTGRESQL.contains(&u32::from_be_bytes(code)));
            *self = if known { Mask::Between } else { Mask::None };
        }
        if *self == Mask::None && has_hello(request) {
            *self = Mask::Hello(0);
        }
    }

    /// Makes of replies, from that byte on, what is to be compared of them.
    pub fn apply(&mut self, bytes: &mut Vec<u8>, from: usize) {
        match self {
            Mask::Unknown | Mask::None => {}
            Mask::Hello(_) | Mask::Number => {
                // Numbers may have other lengths.
                let replies = bytes.split_off(from.min(bytes.len()));
                bytes.extend(replies.into_iter().filter(|byte| !self.is_number(*byte)));
            }
            _ => self.hide(bytes.get_mut(from..).unwrap_or_default()),
        }
    }

    /// Of Redis' replies, whether the next byte is one of a connection's number.
    fn is_number(&mut self, byte: u8) -> bool {
        let is_digit = *self == Mask::Number && byte.is_ascii_digit();
        if !is_digit {
            let read = if let Mask::Hello(read) = *self { read } else { 0 };
            let fits = HELLO.get(read).is_some_and(|next| *next == byte || *next == b'?');
            let read = if fits { read + 1 } else { usize::from(HELLO.first() == Some(&byte)) };
            *self = if read == HELLO.len() { Mask::Number } else { Mask::Hello(read) };
        }
        is_digit
    }

    /// Hides what PostgreSQL's replies have of a key.
    fn hide(&mut self, bytes: &mut [u8]) {
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
                _ => return,
            };
        }
    }
}

/// True if it contains that word.
fn has_hello(request: &[u8]) -> bool {
    let is_there = |at| request.get(at..at + 5).is_some_and(|w| w.eq_ignore_ascii_case(b"HELLO"));
    memchr::memchr2_iter(b'H', b'h', request).any(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\0\0\0\x08\0\x03\0\0";

    fn masked(request: &[u8], replies: &[u8], pieces: usize) -> Vec<u8> {
        let mut mask = Mask::default();
        mask.asked(request);
        mask.asked(b"later ones say nothing");
        let mut masked = Vec::new();
        for piece in replies.chunks(pieces) {
            let from = masked.len();
            masked.extend(piece);
            mask.apply(&mut masked, from);
        }
        masked
    }

    #[test]
    fn the_numbers_of_rediss_connections_are_left_out_and_nothing_else() {
        let hello = |id: &str| {
            format!(
                "+OK\r\n%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
                 $5\r\nproto\r\n:3\r\n$2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n:12\r\n$2\r\nid\r\n:5\r\n"
            )
        };
        for request in [&b"HELLO 3\r\n"[..], b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n"] {
            for pieces in 1..hello("12").len() {
                let masked = |id| masked(request, hello(id).as_bytes(), pieces);
                assert_eq!(String::from_utf8(masked("12")).unwrap(), hello(""));
                assert_eq!(masked("7"), masked("4711"));
            }
        }
        assert_eq!(masked(b"GET a\r\n", hello("7").as_bytes(), 9), hello("7").as_bytes());
        // Said later, after other requests.
        let mut mask = Mask::default();
        mask.asked(b"*1\r\n$4\r\nPING\r\n");
        mask.asked(b"*1\r\n$5\r\nHELLO\r\n");
        let mut replies = hello("7").into_bytes();
        mask.apply(&mut replies, 0);
        assert_eq!(replies, hello("").into_bytes());
        assert_eq!(masked(START, hello("7").as_bytes(), 9).len(), hello("7").len());
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
