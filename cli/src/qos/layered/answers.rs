//! Requests and their answers: one way through the host, up and down.

use std::collections::{BTreeMap, HashMap, VecDeque};

use truechimer_capture::layers::{Journey, Layer};
use truechimer_qos::{FlowKey, parse};

/// Ethernet, which loopback looks like as well (LINKTYPE_ETHERNET).
const ETHERNET: u16 = 1;

/// Requests that a process has read and not answered, to be put together with what it sends back: the newest
/// request of a flow that was read before the call that sends, with the first packet that the process sends
/// the other way after that. Older ones of the flow and process get no answer of their own: most are parts of
/// the same request. A process that reads several requests before it answers is told of the last one only.
pub struct Answers {
    timeout_ns: u64,
    most: usize,
    /// By the answer's flow and process: the numbers of the requests, oldest first.
    waiting: HashMap<(FlowKey, u32), VecDeque<u64>>,
    /// By number, so in the order in which they came.
    requests: BTreeMap<u64, (FlowKey, Journey)>,
    number: u64,
}

impl Answers {
    /// Of requests that are waited for `timeout_ns` and at most so many.
    pub fn new(timeout_ns: i64, most: usize) -> Answers {
        Answers {
            timeout_ns: timeout_ns.max(0).unsigned_abs(),
            most: most.max(1),
            waiting: HashMap::new(),
            requests: BTreeMap::new(),
            number: 0,
        }
    }

    /// One more packet's way; those that are whole with that, or will not be.
    pub fn see(&mut self, journey: Journey) -> Vec<Journey> {
        let flow = FlowKey::of(&parse(ETHERNET, &journey.bytes));
        let newest = journey.monotonic_ns.iter().flatten().max().copied().unwrap_or(0);
        let mut whole = self.forget(newest);
        let is_sent = journey.at(Layer::Scheduler).is_some();
        match flow.filter(|_| journey.pid != 0) {
            None => whole.push(journey),
            Some(flow) if is_sent => whole.extend(self.answer(&flow, journey)),
            Some(flow) => {
                // Its flow and its times are all that is asked for later.
                let journey = Journey { bytes: Vec::new(), ..journey };
                self.number += 1;
                let key = (flow.reversed(), journey.pid);
                self.waiting.entry(key).or_default().push_back(self.number);
                self.requests.insert(self.number, (flow, journey));
            }
        }
        whole
    }

    /// The way of what is sent, with that of the request before it, behind the ways of older requests that get
    /// no answer with that.
    fn answer(&mut self, flow: &FlowKey, sent: Journey) -> Vec<Journey> {
        let key = (*flow, sent.pid);
        let read_before = |number: &&u64| {
            let (_, request) = self.requests.get(*number)?;
            Some(request.at(Layer::Application)? <= sent.at(Layer::Send)?)
        };
        let newest = self.waiting.get(&key).and_then(|numbers| {
            numbers.iter().rposition(|number| read_before(&number).unwrap_or(false))
        });
        let Some(newest) = newest else { return vec![sent] };
        let mut numbers = self.waiting.remove(&key).unwrap_or_default();
        let later = numbers.split_off(newest + 1);
        if !later.is_empty() {
            self.waiting.insert(key, later);
        }
        let mut ways: Vec<Journey> =
            numbers.iter().filter_map(|number| Some(self.requests.remove(number)?.1)).collect();
        let mut whole = sent;
        if let Some(request) = ways.pop() {
            for (at, of) in whole.monotonic_ns.iter_mut().zip(request.monotonic_ns) {
                *at = at.or(of);
            }
        }
        ways.push(whole);
        ways
    }

    fn remove(&mut self, number: u64) -> Option<Journey> {
        let (flow, journey) = self.requests.remove(&number)?;
        let key = (flow.reversed(), journey.pid);
        if let Some(numbers) = self.waiting.get_mut(&key) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.waiting.remove(&key);
            }
        }
        Some(journey)
    }

    /// Requests that get no answer any more: they were read too long ago, or there are too many.
    fn forget(&mut self, now_ns: u64) -> Vec<Journey> {
        let mut gone = Vec::new();
        while let Some((&number, (_, oldest))) = self.requests.first_key_value() {
            let read = oldest.at(Layer::Application).unwrap_or(0);
            if self.requests.len() <= self.most && now_ns.saturating_sub(read) <= self.timeout_ns {
                break;
            }
            gone.extend(self.remove(number));
        }
        gone
    }

    /// Nothing more comes: requests without an answer.
    pub fn finish(&mut self) -> Vec<Journey> {
        self.waiting.clear();
        std::mem::take(&mut self.requests).into_values().map(|(_, journey)| journey).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram between the ports of two hosts; `up`: it came in.
    fn packet(up: bool, port: u16, times: &[(Layer, u64)]) -> Journey {
        let (from, to, sport, dport) = if up { (1, 2, port, 53) } else { (2, 1, 53, port) };
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend([192, 0, 2, from, 192, 0, 2, to]);
        bytes.extend(sport.to_be_bytes().into_iter().chain(dport.to_be_bytes()));
        bytes.extend([0, 8, 0, 0]);
        let mut journey = Journey { bytes, length: 42, pid: 7, ..Journey::default() };
        for (layer, ns) in times {
            journey.monotonic_ns[*layer as usize] = Some(*ns);
        }
        journey
    }

    fn request(port: u16, ns: u64) -> Journey {
        packet(
            true,
            port,
            &[(Layer::Driver, ns), (Layer::Stack, ns + 1), (Layer::Application, ns + 9)],
        )
    }

    fn answer(port: u16, ns: u64) -> Journey {
        packet(false, port, &[(Layer::Send, ns), (Layer::Scheduler, ns + 2), (Layer::Sent, ns + 5)])
    }

    #[test]
    fn an_answer_goes_with_the_newest_request_of_its_flow() {
        let mut answers = Answers::new(1_000_000, 100);
        for (port, ns) in [(1000, 100), (2000, 110)] {
            assert!(answers.see(request(port, ns)).is_empty());
        }
        let whole = answers.see(answer(1000, 200));
        assert_eq!(whole.len(), 1);
        let at = |layer| whole[0].at(layer);
        assert_eq!(
            (at(Layer::Driver), at(Layer::Application), at(Layer::Send), at(Layer::Sent)),
            (Some(100), Some(109), Some(200), Some(205))
        );
        // A second has no request any more.
        assert_eq!(answers.see(answer(1000, 400))[0].at(Layer::Driver), None);
        assert_eq!(answers.finish().len(), 1);
    }

    #[test]
    fn a_request_in_many_segments_leaves_none_of_them_to_the_next_answer() {
        let mut answers = Answers::new(1_000_000_000, 1000);
        for segment in 0..100 {
            assert!(answers.see(request(1000, 100 + segment)).is_empty());
        }
        // One more comes after the call has begun.
        answers.see(request(1000, 291));
        let ways = answers.see(answer(1000, 250));
        let drivers: Vec<_> = ways.iter().map(|way| way.at(Layer::Driver)).collect();
        assert_eq!(drivers, (0..100).map(|segment| Some(100 + segment)).collect::<Vec<_>>());
        let sent = ways.iter().filter(|way| way.at(Layer::Sent).is_some()).count();
        assert_eq!((sent, ways[99].at(Layer::Sent)), (1, Some(255)));
        answers.see(request(1000, 400));
        let ways = answers.see(answer(1000, 500));
        assert_eq!((ways.len(), ways[1].at(Layer::Driver)), (2, Some(400)));
        assert!(answers.finish().is_empty() && answers.waiting.is_empty());
    }

    #[test]
    fn what_waits_keeps_no_bytes() {
        let mut answers = Answers::new(1_000_000, 100);
        answers.see(request(1000, 100));
        assert!(answers.finish()[0].bytes.is_empty());
    }

    #[test]
    fn what_was_begun_before_the_request_was_read_is_no_answer_to_it() {
        let mut answers = Answers::new(1_000_000, 100);
        answers.see(request(1000, 100));
        assert_eq!(answers.see(answer(1000, 105))[0].at(Layer::Driver), None);
        assert_eq!(answers.see(answer(1000, 110))[0].at(Layer::Driver), Some(100));
    }

    #[test]
    fn requests_without_an_answer_are_told_of_and_memory_is_bounded() {
        let mut answers = Answers::new(1000, 2);
        answers.see(request(1000, 100));
        answers.see(request(1001, 101));
        answers.see(request(1002, 102));
        assert_eq!(answers.see(request(1003, 103)).len(), 1, "more than two wait");
        assert_eq!(answers.see(request(1004, 5000)).len(), 3, "the others are too old");
        assert!(answers.waiting.len() <= answers.requests.len());
        assert_eq!(answers.finish().len(), 1);
        assert!(answers.waiting.is_empty() && answers.requests.is_empty());
    }
}
