//! PTP masters, each alone with a port of the daemon on a network of its own.
//!
//! A master announces itself with each `Sync`, in one step; its path is that of the server's replies, and
//! questions take that of the requests.

use truechimer_engine::{Event, PtpEvent, SourceId};
use truechimer_ptp::{
    Announce, Body, ClockIdentity, ClockQuality, Flags, Header, LogInterval, Message, PortIdentity,
    Timestamp,
};
use truechimer_time::{Instant, Stamp, StampMethod};

use super::daemon::address;
use super::{Happening, World};

/// Port of every master.
const PORT: PortIdentity = PortIdentity { clock: ClockIdentity([1; 8]), port: 1 };

/// A message of PTP between a master and its port.
#[derive(Debug)]
pub(super) struct Passing {
    source: usize,
    packet: Vec<u8>,
    place: Place,
}

/// Place where it is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At the master: a question.
    Master,
    /// At the host's interface; stamped if it is an event message.
    Host { event: bool },
    /// In the program's hands.
    Program(Option<Stamp>),
}

impl Passing {
    /// True while the question is on its way to the master.
    pub(super) fn is_question(&self) -> bool {
        matches!(self.place, Place::Master)
    }
}

impl World<'_> {
    /// A master announces itself, and says what time it is.
    pub(super) fn sync(&mut self, t: f64, source: usize, sequence: u16) {
        let interval = self.scenario.servers.get(source).and_then(|server| server.ptp_sync_s);
        let Some(interval) = interval else { return };
        let next = Happening::Sync { source, sequence: sequence.wrapping_add(1) };
        self.queue.push(t + interval, next);
        let Some(told) = self.told(t, source) else { return };
        let announce = Announce {
            utc_offset: self.truth.leaps.tai_offset as i16,
            quality: ClockQuality { class: 248, accuracy: 0xfe, variance: 0xffff },
            grandmaster: PORT.clock,
            ..Announce::default()
        };
        let every = LogInterval(libm::ceil(libm::log2(interval)) as i8);
        self.reach(t, source, (sequence, every), Body::Announce(announce));
        self.reach(t, source, (sequence, every), Body::Sync(told));
    }

    /// Time of a master at `t`, as a timestamp.
    fn told(&mut self, t: f64, source: usize) -> Option<Timestamp> {
        let origin = self.truth.origin;
        let told: Instant = self.servers.get_mut(source)?.first_mut()?.told(t, origin)?;
        let seconds = u64::try_from(told.secs()).ok()?;
        let nanos = (told.as_nanos().rem_euclid(1_000_000_000)) as u32;
        Some(Timestamp { seconds, nanos })
    }

    /// A message of a master sets out for the host at `t`.
    fn reach(
        &mut self,
        t: f64,
        source: usize,
        (sequence, interval): (u16, LogInterval),
        body: Body,
    ) {
        let header = Header {
            flags: Flags::PTP_TIMESCALE.and(Flags::UTC_OFFSET_VALID),
            source: PORT,
            sequence,
            interval,
            ..Header::default()
        };
        let event = body.kind().is_event();
        let mut room = [0; 128];
        let Some(packet) = (Message { header, body, rest: &[] }).encode(&mut room) else { return };
        let server = self.servers.get_mut(source).and_then(|machines| machines.first_mut());
        let Some(server) = server else { return };
        for at in server.backward.pass(t).arrivals() {
            let place = Place::Host { event };
            self.queue.push(at, Happening::Ptp(Passing { source, packet: packet.to_vec(), place }));
        }
    }

    /// A question leaves the host.
    pub(super) fn ask(&mut self, t: f64, source: SourceId, packet: Vec<u8>) {
        let number = self.requests;
        self.requests += 1;
        let departure = self.host.send(number, t);
        self.first_request.get_or_insert(departure.wire);
        if let Some(daemon) = &mut self.daemon {
            let sent = PtpEvent::Sent { source, sent: departure.stamp, answer: false };
            daemon.events.push_back(Event::Ptp(sent));
        }
        let source = source.0 as usize;
        let server = self.servers.get_mut(source).and_then(|machines| machines.first_mut());
        let Some(server) = server else { return };
        for at in server.forward.pass(departure.wire).arrivals() {
            let packet = packet.clone();
            let passing = Passing { source, packet, place: Place::Master };
            self.queue.push(at, Happening::Ptp(passing));
        }
    }

    /// A message has come as far as it says.
    pub(super) fn pass(&mut self, t: f64, passing: Passing) {
        let Passing { source, packet, place } = passing;
        match place {
            Place::Master => {
                let Some(told) = self.told(t, source) else { return };
                let Ok(Message { header, body: Body::DelayReq(_), .. }) = Message::decode(&packet)
                else {
                    return;
                };
                // It wants a question a second at the most.
                let answers = (header.sequence, LogInterval(0));
                self.reach(t, source, answers, Body::DelayResp(told, header.source));
            }
            Place::Host { event } => {
                let number = self.requests;
                self.requests += 1;
                let came = self.host.count(t);
                let arrival = self.host.receive(number, false, t);
                let mut stamp = arrival.stamp;
                if stamp.method == StampMethod::User {
                    // It came before it was read, and nothing more is known of when.
                    stamp.error = (stamp.count - came).abs();
                }
                let place = Place::Program(event.then_some(stamp));
                let passing = Passing { source, packet, place };
                self.queue.push(arrival.woken.max(arrival.stamped), Happening::Ptp(passing));
            }
            Place::Program(received) => self.heard(t, source, packet, received),
        }
    }

    /// The daemon reads a message.
    fn heard(&mut self, t: f64, source: usize, packet: Vec<u8>, received: Option<Stamp>) {
        if self.daemon.is_none() {
            return;
        }
        self.check(t);
        let (id, from) = (SourceId(source as u32), address(source, 0).ip());
        let message = PtpEvent::Message { source: id, from, received, packet };
        self.handle(t, Event::Ptp(message));
        self.keep_exchange(t, source);
        self.drain(t);
        self.set_alarm(t);
    }

    /// Keeps an exchange for the trace, if one was used.
    fn keep_exchange(&mut self, t: f64, source: usize) {
        let Some((said, used)) = self.reported(t, source) else { return };
        let Some(rtt) = said.rtt.filter(|_| used) else { return };
        self.keep_one(t, source, &said, used, rtt, [rtt.half(); 2]);
    }
}
