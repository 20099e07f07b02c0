//! A connection under any bytes: what the fuzz target `control_request` and a test drive.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use truechimer_engine::{Config, Report};
use truechimer_time::{Count, Span};

use super::{Accepted, Answer, Budget, Client, Handler, MAX_REQUEST};
use crate::changes::{Change, Changes};
use crate::control::{Changed, DaemonInfo, Reloaded};

/// The most sources that can be added.
const MOST: usize = 64;

/// A daemon that has little to say, and whose sources can be changed.
#[derive(Default)]
struct Terse {
    changes: Changes,
}

impl Handler for Terse {
    fn report(&mut self) -> Answer {
        let daemon = DaemonInfo {
            version: "0".into(),
            pid: 1,
            counter: String::new(),
            resolution: Span::ZERO,
            uptime: Span::ZERO,
            memory: 0,
            page: "/page".into(),
            replay_log: None,
            state: None,
            system_clock: String::new(),
            floods: 0,
            cards: Vec::new(),
            clockbound: Vec::new(),
        };
        let (reason, sources) = (String::new(), Vec::new());
        let at = Count(0);
        let report = Report { at, hand: None, skew: None, reason, disputed: None, sources };
        Answer { daemon, report }
    }

    fn reload(&mut self) -> Result<Reloaded, String> {
        Err("the new one is wrong".into())
    }

    fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String> {
        let accepted = source.ok_or("which one?")?.to_owned();
        Ok(Accepted { accepted, status: String::new() })
    }

    fn change(&mut self, change: Change, source: Option<&str>) -> Result<Changed, String> {
        let mut there = Config::default();
        self.changes.apply(&mut there);
        let changed = self.changes.make(change, source, &there, true)?;
        let mut config = Config::default();
        self.changes.apply(&mut config);
        assert!(config.sources.len() <= MOST, "{} sources", config.sources.len());
        Ok(Changed { changed })
    }
}

/// Feeds a connection these bytes in pieces, the length of each being in the byte before it: never
/// more is kept than a request, and each line is answered by a line of JSON.
///
/// # Panics
/// If not, or where the system gives no pair of sockets.
pub fn check(bytes: &[u8]) {
    let (mut near, stream) = UnixStream::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("a socket can be asked not to wait");
    stream.set_nonblocking(true).expect("a socket can be asked not to wait");
    let (input, output) = (Vec::new(), Vec::new());
    let may_change = bytes.len() % 2 == 1;
    let mut client = Client { stream, user: 0, may_change, input, output, active: Count(0) };
    let (mut budget, mut daemon) = (Budget::new(0), Terse::default());
    let (mut rest, mut said, mut lines) = (bytes, Vec::new(), 0);
    while let [length, more @ ..] = rest {
        let (piece, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        if near.write_all(piece).is_err() {
            break;
        }
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
        let mut over = false;
        for turn in 0..4 {
            budget.refill();
            over |= client.serve(Count(turn), &mut budget, &mut daemon).is_err();
        }
        assert!(client.input.len() <= MAX_REQUEST, "{} bytes kept", client.input.len());
        let _ = near.read_to_end(&mut said);
        if over {
            break;
        }
    }
    let answers = said.strip_suffix(b"\n").map(|said| said.split(|byte| *byte == b'\n'));
    let answers: Vec<&[u8]> = answers.into_iter().flatten().collect();
    assert!(answers.len() <= lines, "{} answers to {lines} lines", answers.len());
    for answer in answers {
        let value = serde_json::from_slice::<serde_json::Value>(answer);
        assert!(value.is_ok_and(|value| value.is_object()), "{}", answer.escape_ascii());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces with their lengths: requests, and what is nearly one.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let request = prop_oneof![
            Just(&b"{\"verb\":\"report\"}\n"[..]),
            Just(&b"{\"verb\":\"accept\",\"source\":\"a\\\"b\"}\n"[..]),
            Just(&b"{\"verb\":\"reload\"}"[..]),
            Just(
                &b"{\"verb\":\"add\",\"source\":\"[[source]]\\nhost = \\\"a\\\"\\nnts = true\"}\n"
                    [..]
            ),
            Just(&b"{\"verb\":\"add\",\"source\":\"[[source]]\\nkey = [[\"}\n"[..]),
            Just(&b"{\"verb\":\"delete\",\"source\":\"a:4460\"}\n"[..]),
            Just(&b"\n\n"[..]),
            Just(&b"{\"verb\":\"version\",\"x\":[[[["[..]),
        ];
        let piece = prop_oneof![
            request.prop_map(<[u8]>::to_vec),
            proptest::collection::vec(any::<u8>(), 0..255),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| {
            pieces.iter().flat_map(|piece| [&[piece.len() as u8][..], piece].concat()).collect()
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_hung_up_on(bytes in pieces()) {
            check(&bytes);
        }
    }

    #[test]
    fn good_requests_are_answered_through_it() {
        check(b"\x12{\"verb\":\"report\"}\n\x13{\"verb\":\"version\"}\n");
    }
}
