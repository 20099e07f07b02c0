//! Replies that a client has not read yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// The most bytes of a piece: how finely their age is known.
const PIECE: usize = 64 << 10;

/// Bytes for a client, oldest first, in pieces.
#[derive(Debug, Default)]
pub struct Unread {
    /// Each with the moment at which its first byte came, by the caller's clock.
    pieces: VecDeque<(u64, Vec<u8>)>,
    /// Bytes of the first piece that are written already.
    written: usize,
    length: usize,
}

impl Unread {
    /// Adds bytes at this moment.
    pub fn push(&mut self, bytes: &[u8], now: u64) {
        self.length += bytes.len();
        for part in bytes.chunks(PIECE) {
            match self.pieces.back_mut() {
                Some((_, piece)) if piece.len() + part.len() <= PIECE => piece.extend(part),
                _ => self.pieces.push_back((now, part.into())),
            }
        }
    }

    /// Number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// True if all was written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// When the oldest byte came, or an older one of its piece; none if there is none.
    pub fn since(&self) -> Option<u64> {
        self.pieces.front().map(|(since, _)| *since)
    }

    /// Writes as much as is taken without waiting.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, to: &mut impl Write) -> io::Result<()> {
        while let Some((_, piece)) = self.pieces.front() {
            match to.write(piece.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => {
                    self.length -= length;
                    self.written += length;
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
            if self.written == piece.len() {
                self.pieces.pop_front();
                self.written = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes at a time, and so many in all.
    struct Slow(usize, usize, Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.0).min(self.1 - self.2.len());
            if length == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.2.extend(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_come_out_in_order_and_their_age_is_known() {
        let mut unread = Unread::default();
        unread.push(b"", 1);
        assert_eq!((unread.is_empty(), unread.since()), (true, None));
        let text: Vec<u8> = (0..4 * PIECE).map(|n| (n % 251) as u8).collect();
        for (at, part) in text.chunks(1000).enumerate() {
            unread.push(part, at as u64);
        }
        assert_eq!((unread.length(), unread.since()), (text.len(), Some(0)));
        let mut to = Slow(777, PIECE - 1, Vec::new());
        unread.write(&mut to).unwrap();
        assert_eq!(unread.since(), Some(65), "65 parts are a piece");
        to.1 = 2 * PIECE;
        unread.write(&mut to).unwrap();
        assert_eq!((unread.length(), unread.since()), (2 * PIECE, Some(130)));
        to.1 = text.len();
        unread.write(&mut to).unwrap();
        assert_eq!((unread.length(), unread.since()), (0, None));
        assert!(to.2 == text);
    }
}
