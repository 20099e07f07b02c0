//! Cuts what a client sends into requests: each becomes one message, with a time of its own.

use std::str::FromStr;

use crate::wire::LARGEST_PIECE;

/// Rule that tells requests apart. All bytes reach the program in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// `Resp` for a connection whose first byte is `*`, else `Bytes`.
    #[default]
    Auto,
    /// A request is a line. An unfinished one waits for its end.
    Line,
    /// A request is a RESP array of bulk strings (Redis), or a line; those that come at once (a
    /// pipeline) are one.
    Resp,
    /// A request is what comes at once.
    Bytes,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Protocol, String> {
        match name {
            "auto" => Ok(Protocol::Auto),
            "line" => Ok(Protocol::Line),
            "resp" => Ok(Protocol::Resp),
            "bytes" => Ok(Protocol::Bytes),
            _ => Err(format!("'{name}' is none of auto, line, resp and bytes")),
        }
    }
}

/// Bytes that a client has sent and that are not on their way yet.
#[derive(Debug)]
pub struct Cutter {
    protocol: Protocol,
    waiting: Vec<u8>,
}

impl Cutter {
    /// Nothing yet.
    pub fn new(protocol: Protocol) -> Cutter {
        Cutter { protocol, waiting: Vec::new() }
    }

    /// The client has sent these.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Number of bytes of an unfinished request.
    pub fn length(&self) -> usize {
        self.waiting.len()
    }

    /// The next request, of at most [`LARGEST_PIECE`] bytes: a longer one is several messages.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let first = *self.waiting.first()?;
        if self.protocol == Protocol::Auto {
            self.protocol = if first == b'*' { Protocol::Resp } else { Protocol::Bytes };
        }
        let whole = match self.protocol {
            Protocol::Auto | Protocol::Bytes => Some(self.waiting.len()),
            Protocol::Line => line(&self.waiting, 0),
            Protocol::Resp => commands(&self.waiting),
        };
        let length = whole.unwrap_or(self.waiting.len()).min(LARGEST_PIECE);
        if whole.is_none() && length < LARGEST_PIECE {
            return None;
        }
        Some(self.waiting.drain(..length).collect())
    }

    /// Takes what is left when the client ends.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let length = self.waiting.len().min(LARGEST_PIECE);
        (length > 0).then(|| self.waiting.drain(..length).collect())
    }
}

/// Where the line that begins at `from` ends.
fn line(bytes: &[u8], from: usize) -> Option<usize> {
    let at = bytes.get(from..)?.iter().position(|byte| *byte == b'\n')?;
    Some(from + at + 1)
}

/// Where the last whole command ends that is among the first [`LARGEST_PIECE`] bytes; where the
/// first one ends, if that is longer.
fn commands(bytes: &[u8]) -> Option<usize> {
    let mut whole = None;
    while let Some(rest) = bytes.get(whole.unwrap_or(0)..).filter(|rest| !rest.is_empty()) {
        let next = if rest.starts_with(b"*") { command(rest) } else { line(rest, 0) };
        let Some(next) = next else { break };
        let end = whole.unwrap_or(0) + next;
        if whole.is_some() && end > LARGEST_PIECE {
            break;
        }
        whole = Some(end);
    }
    whole
}

/// Where the RESP array at the beginning ends; the whole of what is there if it is none (the
/// program will say so).
fn command(bytes: &[u8]) -> Option<usize> {
    let (count, mut at) = match header(bytes, 0, b'*')? {
        Ok(header) => header,
        Err(()) => return Some(bytes.len()),
    };
    for _ in 0..count {
        let (length, text) = match header(bytes, at, b'$')? {
            Ok(header) => header,
            Err(()) => return Some(bytes.len()),
        };
        at = text.checked_add(length)?.checked_add(2)?;
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}

/// The number in a header line and where the line ends; none if it is not all there.
fn header(bytes: &[u8], from: usize, mark: u8) -> Option<Result<(usize, usize), ()>> {
    if bytes.get(from).is_some_and(|byte| *byte != mark) {
        return Some(Err(()));
    }
    let Some(end) = line(bytes, from) else {
        // No header is that long.
        return (bytes.len().saturating_sub(from) > 32).then_some(Err(()));
    };
    let text = bytes.get(from + 1..end).and_then(|text| std::str::from_utf8(text).ok());
    let number = text.and_then(|text| text.trim_end().parse::<i64>().ok());
    Some(match number {
        Some(number @ ..=0x2000_0000) => Ok((usize::try_from(number).unwrap_or(0), end)),
        _ => Err(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(protocol: Protocol, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut cutter = Cutter::new(protocol);
        let mut all = Vec::new();
        for piece in pieces {
            cutter.push(piece);
            all.extend(std::iter::from_fn(|| cutter.next()));
        }
        all.extend(std::iter::from_fn(|| cutter.rest()));
        assert_eq!(all.concat(), pieces.concat(), "no byte is lost");
        all
    }

    #[test]
    fn lines() {
        assert_eq!(cut(Protocol::Line, &[b"a\nb", b"c\nd"]), [&b"a\n"[..], b"bc\n", b"d"]);
    }

    #[test]
    fn redis() {
        let get = b"*2\r\n$3\r\nGET\r\n$3\r\na\nb\r\n";
        let two = [&get[..], &get[..], b"PING\r\n"].concat();
        for protocol in [Protocol::Auto, Protocol::Resp] {
            // What is whole goes at once, and the rest when it is.
            assert_eq!(cut(protocol, &[&two]), [&two[..]]);
            assert_eq!(cut(protocol, &[&two[..40], &two[40..]]), [&two[..22], &two[22..]]);
            let bytes: Vec<&[u8]> = two.chunks(1).collect();
            assert_eq!(cut(protocol, &bytes), [&get[..], get, b"PING\r\n"]);
        }
        assert_eq!(cut(Protocol::Resp, &[b"*x\r\nrest"]), [&b"*x\r\nrest"[..]]);
        assert_eq!(cut(Protocol::Resp, &[b"*1\r\n+OK\r\n"]), [&b"*1\r\n+OK\r\n"[..]]);
        assert_eq!(cut(Protocol::Resp, &[b"*0\r\n*-1\r\n"]), [&b"*0\r\n*-1\r\n"[..]]);
        // No message is longer than it may be, and none ends within a command that could be whole.
        let many = get.repeat(2 * LARGEST_PIECE / get.len());
        let lengths: Vec<usize> = cut(Protocol::Resp, &[&many]).iter().map(Vec::len).collect();
        let most = LARGEST_PIECE / get.len() * get.len();
        assert_eq!(lengths, [most, most, many.len() - 2 * most]);
    }

    #[test]
    fn whatever_comes() {
        assert_eq!(cut(Protocol::Auto, &[b"ab\nc", b"d"]), [&b"ab\nc"[..], b"d"]);
        let long = vec![b'x'; LARGEST_PIECE + 5];
        for protocol in [Protocol::Bytes, Protocol::Line, Protocol::Resp] {
            let lengths: Vec<usize> = cut(protocol, &[&long]).iter().map(Vec::len).collect();
            assert_eq!(lengths, [LARGEST_PIECE, 5]);
        }
    }
}
