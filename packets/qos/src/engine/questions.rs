//! Questions, and the answers that come back to the same point.

use super::{Engine, Observation};
use crate::flow::FlowKey;
use crate::rtt::{Kind, Stamp, dns, ntp};
use crate::{Parsed, Transport};

impl Engine {
    pub(super) fn questions_and_answers(
        &mut self,
        packet: &Observation<'_>,
        parsed: &Parsed<'_>,
        key: &FlowKey,
        number: u64,
        pattern: Option<(usize, u64)>,
        stamp: Stamp,
    ) {
        let point = packet.point;
        let clock = self.clocks.get(point).copied().flatten();
        let clock = clock.as_ref();
        match parsed.transport {
            Transport::Tcp(tcp) => {
                if let Some(seen) = self.flows.by_number(number).and_then(|f| f.seen_mut(point)) {
                    seen.tcp.sent(&tcp, stamp);
                    seen.retransmitted = seen.tcp.retransmitted;
                }
                let asker = self.flows.find(&key.reversed());
                if let Some(seen) = asker.and_then(|flow| flow.seen_mut(point)) {
                    let answered = seen.tcp.answered(&tcp);
                    if let Some((syn, asked)) = answered.acknowledged {
                        let kind = if syn { Kind::TcpHandshake } else { Kind::TcpAck };
                        seen.rtt(kind).add(&asked, &stamp, clock);
                    }
                    if let Some(asked) = answered.echoed {
                        seen.rtt(Kind::TcpTimestamp).add(&asked, &stamp, clock);
                    }
                }
            }
            Transport::Echo { request, sequence, .. } => {
                if request {
                    self.ask(point, Kind::Echo, number, sequence.into(), stamp);
                } else {
                    self.answer(point, Kind::Echo, key, sequence.into(), stamp);
                }
            }
            Transport::Udp { source, destination } => {
                let ports = (source, destination);
                let known = match dns(ports, parsed.payload) {
                    Some((id, answer)) => Some((Kind::Dns, u64::from(id), answer)),
                    None => {
                        ntp(ports, parsed.payload).map(|(stamp, answer)| (Kind::Ntp, stamp, answer))
                    }
                };
                match known {
                    Some((kind, id, true)) => drop(self.answer(point, kind, key, id, stamp)),
                    Some((kind, id, false)) => self.ask(point, kind, number, id, stamp),
                    None if pattern.is_none() => self.first_answer(point, key, number, stamp),
                    None => {}
                }
            }
            Transport::Other => {}
        }
        if let Some((_, id)) = pattern
            && !self.answer(point, Kind::Number, key, id, stamp)
        {
            self.ask(point, Kind::Number, number, id, stamp);
        }
    }

    fn ask(&mut self, point: usize, kind: Kind, flow: u64, id: u64, stamp: Stamp) {
        let question = (point as u8, kind, flow, id);
        self.serial += 1;
        // One asked again is answered at the earliest from the first time on: of which, nobody
        // knows, so that it is timed from the last and only if that is what is left.
        self.questions.insert(question, (self.serial, stamp));
        self.question_ages.push_back((stamp.at.unix_ns, question, self.serial));
    }

    fn answer(&mut self, point: usize, kind: Kind, key: &FlowKey, id: u64, stamp: Stamp) -> bool {
        let clock = self.clocks.get(point).copied().flatten();
        let Some(asker) = self.flows.find(&key.reversed()) else { return false };
        let question = (point as u8, kind, asker.number, id);
        let Some((_, asked)) = self.questions.remove(&question) else { return false };
        if let Some(seen) = asker.seen_mut(point) {
            seen.rtt(kind).add(&asked, &stamp, clock.as_ref());
        }
        true
    }

    /// Takes the round trip, if this is the first packet back, and one alone asked for it.
    fn first_answer(&mut self, point: usize, key: &FlowKey, number: u64, stamp: Stamp) {
        let clock = self.clocks.get(point).copied().flatten();
        let here = self.flows.by_number(number).filter(|flow| flow.rtp.is_none());
        if here.and_then(|flow| flow.seen_mut(point)).and_then(|seen| seen.only()).is_none() {
            return;
        }
        let asker = self.flows.find(&key.reversed()).filter(|asker| asker.number < number);
        let Some(seen) = asker.and_then(|flow| flow.seen_mut(point)) else { return };
        let Some(asked) = seen.only() else { return };
        let took = stamp.since(&asked, clock.as_ref()).0.ns;
        if (0..=self.options.timeout_ns).contains(&took) {
            seen.rtt(Kind::FirstAnswer).add(&asked, &stamp, clock.as_ref());
        }
    }
}
