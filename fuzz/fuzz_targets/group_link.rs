//! The link between programs and the group's agent: packets of either side, greetings, and the
//! words of a slot, as anybody may have written them.
#![no_main]

use truechimer_group_client::agent::News;
use truechimer_group_client::message::{self, Hello, ToAgent, limit_to_agent, limit_to_program};
use truechimer_group_client::packet::{Assembly, header};

const CHECKPOINT: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = (Hello::of(bytes), message::greeting(bytes));

    // The words of a slot. What is a request or an answer goes back to the same words.
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let mut next = || words.next().unwrap_or(0);
    let request = std::array::from_fn(|_| next());
    if let Ok((thread, call, outside)) = message::request(&request) {
        assert_eq!(message::request_words(thread, call, outside), request);
    }
    let answer = std::array::from_fn(|_| next());
    if let Ok(result) = message::answer(&answer) {
        assert_eq!(message::answer(&message::answer_words(&result)), Ok(result));
    }

    // Packets: each of a kind, a flag and as many bytes as the input says.
    type Limit = fn(u16, usize) -> Option<usize>;
    for limit in [limit_to_agent as Limit, limit_to_program] {
        let mut assembly = Assembly::new(limit, CHECKPOINT);
        let mut rest = bytes;
        while let [kind, flags, length, more @ ..] = rest {
            let (body, after) = more.split_at(more.len().min(usize::from(*length)));
            rest = after;
            let mut packet = header((*kind).into(), (*flags & 1).into(), body.len()).to_vec();
            packet.extend_from_slice(body);
            let Ok(complete) = assembly.take(&packet) else { break };
            let Some((kind, body)) = complete else { continue };
            assert!(body.len() <= limit(kind, CHECKPOINT).unwrap());
            if let Ok(message) = ToAgent::of(kind, &body) {
                check(message.packets(), limit_to_agent, (kind, &body));
            }
            if let Ok(news) = News::of(kind, &body) {
                check(news.packets(), limit_to_program, (kind, &body));
            }
        }
        let _ = assembly.take(bytes);
    }
});

/// A message that was understood is sent as it came.
fn check(packets: Vec<Vec<u8>>, limit: fn(u16, usize) -> Option<usize>, came: (u16, &[u8])) {
    let mut assembly = Assembly::new(limit, CHECKPOINT);
    let mut again = packets.iter().filter_map(|packet| assembly.take(packet).unwrap());
    let (kind, body) = again.next().unwrap();
    assert_eq!((kind, &*body), came);
}
