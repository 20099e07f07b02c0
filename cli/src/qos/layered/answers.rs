//! Requests and their answers: one way through the host, up and down.

use std::collections::{BTreeMap, HashMap, VecDeque};

use truechimer_capture::layers::{Journey, Layer};
use truechimer_qos::{FlowKey, parse};

/// Ethernet, which loopback looks like as well (LINKTYPE_ETHERNET).
const ETHERNET: u16 = 1;

/// Requests that a process has read and not answered, to be put together with what it sends back: the oldest
/// request of a flow with the first packet that the process sends the other way after it has read it. A
/// process that answers in another order than it is asked is told wrongly.
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
            Some(flow) if is_sent => whole.push(self.answer(&flow, journey)),
            Some(flow) => {
                self.number += 1;
                let key = (flow.reversed(), journey.pid);
                self.waiting.entry(key).or_default().push_back(self.number);
                self.requests.insert(self.number, (flow, journey));
            }
        }
        whole
    }

    /// The way of what is sent, with that of the request before it.
    fn answer(&mut self, flow: &FlowKey, sent: Journey) -> Journey {
        let begun = sent.at(Layer::Send);
        let oldest = self.waiting.get(&(*flow, sent.pid)).and_then(VecDeque::front).copied();
        let Some(number) = oldest else { return sent };
        let read =
            self.requests.get(&number).and_then(|(_, request)| request.at(Layer::Application));
        if begun.zip(read).is_none_or(|(begun, read)| begun < read) {
            return sent;
        }
        let Some(request) = self.remove(number) else { return sent };
        let mut whole = sent;
        for (at, of) in whole.monotonic_ns.iter_mut().zip(request.monotonic_ns) {
            *at = at.or(of);
        }
        whole
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
    fn an_answer_goes_with_the_oldest_request_of_its_flow() {
        let mut answers = Answers::new(1_000_000, 100);
        for (port, ns) in [(1000, 100), (2000, 110), (1000, 120)] {
            assert!(answers.see(request(port, ns)).is_empty());
        }
        let whole = answers.see(answer(1000, 200));
        assert_eq!(whole.len(), 1);
        let at = |layer| whole[0].at(layer);
        assert_eq!(
            (at(Layer::Driver), at(Layer::Application), at(Layer::Send), at(Layer::Sent)),
            (Some(100), Some(109), Some(200), Some(205))
        );
        let second = answers.see(answer(1000, 300));
        assert_eq!(second[0].at(Layer::Driver), Some(120));
        // A third has no request any more.
        assert_eq!(answers.see(answer(1000, 400))[0].at(Layer::Driver), None);
        assert_eq!(answers.finish().len(), 1);
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
