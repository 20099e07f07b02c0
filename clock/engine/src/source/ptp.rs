//! A PTP port as a source: what it asks, and what is made of its exchanges.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::iter;
use core::net::IpAddr;

use truechimer_feedforward::Exchange;
use truechimer_ntp::{LeapIndicator, MAX_ROOT_DISTANCE};
use truechimer_ptp::{Change, Exchange as PtpExchange, Flags, Grant, Master, Packet};
use truechimer_time::{Count, Instant, Leaps, Span, Stamp};

use super::schedule::CHANCE;
use super::{Clock, Heard, Source};
use crate::event::{Action, Level, SourceId};
use crate::leap::nearer_showing;
use crate::peer::Sample;
use crate::ptp::{Delay, PortDue, PtpAction, PtpConfig, Timescale, seconds_up};

/// Error that each boundary clock between grandmaster and us may add. The standard has no field for
/// it; clocks that are made for it add 0.1 µs (ITU-T G.8273.2), those in software more, and have to
/// be configured (`error`).
const STEP_ERROR: Span = Span::from_micros(1);
/// Part of a correction that may be wrong, as a power of two: transparent clocks measure how long a
/// message stayed with them by oscillators within 100 ppm (2⁻¹³ is 122 ppm).
const CORRECTION_ERROR: u32 = 13;
/// Resolution of a timestamp.
const RESOLUTION: Span = Span::from_nanos(1);
/// Around a leap second the offset that is announced may be of either side of it.
const NEAR_LEAP: Span = Span::from_secs(60);
/// Questions that a master may leave without an exchange before that is a miss: its next `Sync` may
/// be a while off.
const UNUSED: u32 = 2;
/// Seconds between exchanges at the least, as far as it goes how long they may stay away.
const LEAST_POLL: u32 = 2;

/// Reason for which a master's time is not used, in a word and for people.
type Unfit = (&'static str, String);

impl Source {
    /// Does what is due at `at`: opens the port, asks, or finds that there is no master.
    pub(super) fn act_ptp(
        &mut self,
        at: Count,
        random: &mut dyn FnMut() -> u64,
        actions: &mut Vec<Action>,
    ) {
        let nominal = self.peer.filter.nominal();
        let (Some(port), Some(config)) = (&mut self.ptp, &self.config.ptp) else { return };
        let Some(due) = port.due(at, nominal) else { return };
        let source = self.peer.id;
        let slave = port.slave(config, (at, nominal), random);
        match due {
            PortDue::Open => {
                actions.push(Action::Ptp(PtpAction::Listen {
                    source,
                    interface: self.config.host.clone(),
                    transport: config.transport,
                    delay: config.delay,
                    unicast: config.is_unicast(),
                }));
            }
            PortDue::NoMaster => self.lacks_master(actions),
            PortDue::Slave => {
                let waited = slave.is_waiting();
                let (change, request) = slave.act(at, random);
                actions
                    .extend(iter::from_fn(|| slave.signal(at, random)).map(|s| tell(source, &s)));
                if let Some(change) = change {
                    self.master_changed(&change);
                }
                if let Some(request) = request {
                    self.asks(waited, actions);
                    let (to, packet) = (request.to(), request.to_vec());
                    actions.push(Action::Ptp(PtpAction::Ask { source, to, packet }));
                }
            }
        }
    }

    /// Messages to masters for when the source is given up: what they granted is over.
    pub(crate) fn farewell(&self) -> Vec<Action> {
        let slave = self.ptp.as_ref().and_then(|port| port.slave.as_ref());
        slave.iter().flat_map(|slave| slave.farewell()).map(|s| tell(self.peer.id, &s)).collect()
    }

    /// Nobody announces itself.
    fn lacks_master(&mut self, actions: &mut Vec<Action>) {
        self.peer.tally.poll();
        let domain = self.config.ptp.as_ref().map_or(0, |ptp| ptp.domain);
        let slave = self.ptp.as_ref().and_then(|port| port.slave.as_ref());
        let asked = slave.iter().flat_map(|slave| slave.grants());
        let speaks = |address: IpAddr| {
            slave.is_some_and(|slave| slave.masters().any(|(master, _)| master.from == address))
        };
        let told: Vec<String> = asked
            .filter_map(|(address, grants)| lacking(address, grants, speaks(address)))
            .collect();
        let trouble = match told.as_slice() {
            [] => format!("no PTP master announces itself in domain {domain}"),
            told => {
                format!("no PTP master of domain {domain} serves this port: {}", told.join(", "))
            }
        };
        self.misses(trouble, actions);
    }

    /// The master is asked. `waited`: it has not answered the question before.
    fn asks(&mut self, waited: bool, actions: &mut Vec<Action>) {
        self.peer.tally.requests = self.peer.tally.requests.saturating_add(1);
        self.peer.tally.poll();
        let Some(port) = &mut self.ptp else { return };
        port.unused = port.unused.saturating_add(1);
        if port.unused > UNUSED {
            let p2p = self.config.ptp.as_ref().is_some_and(|ptp| ptp.delay == Delay::P2p);
            let trouble = if p2p {
                "the neighbour on the link does not answer Pdelay_Req, or is not the master"
            } else if waited {
                "the master does not answer Delay_Req: does it work end to end, or are packets lost?"
            } else {
                "no Sync comes from the master"
            };
            self.misses(trouble.to_owned(), actions);
        }
    }

    fn misses(&mut self, trouble: String, actions: &mut Vec<Action>) {
        let silence = self.schedule.missed();
        self.peer.tally.miss();
        if silence == Some(CHANCE) {
            let text = format!("{}: {trouble}", self.peer.name);
            actions.push(Action::Note { level: Level::Warning, text });
        }
        self.peer.trouble = Some(trouble.into());
        // Nobody answers but the master: each silence counts.
        self.schedule.answered = false;
    }

    /// Another master: what to say of it.
    fn master_changed(&mut self, change: &Change) {
        let named = |master: &Master| {
            let announce = &master.announce;
            format!(
                "{} at {} (grandmaster {}, priority {}, class {})",
                master.port,
                master.from,
                announce.grandmaster,
                announce.priority1,
                announce.quality.class
            )
        };
        self.news = Some(match change {
            Change::To(to, None) => format!("follows the PTP master {}", named(to)),
            Change::To(to, Some(before)) => {
                format!("follows the PTP master {}, no longer {}", named(to), named(before))
            }
            Change::Grandmaster(now, before) => format!(
                "the PTP master {} has another grandmaster than before: {}",
                named(now),
                before.announce.grandmaster
            ),
            Change::Lost(lost) => {
                format!("the PTP master {} is silent, and there is no other", named(lost))
            }
        });
    }

    /// A datagram came to the port. `None`: nothing but a count came of it.
    pub(crate) fn heard_ptp(
        &mut self,
        from: IpAddr,
        packet: &[u8],
        received: Option<Stamp>,
        (clock, at): (&Clock, Count),
        actions: &mut Vec<Action>,
    ) -> Option<Heard> {
        let source = self.peer.id;
        let port = self.ptp.as_mut()?;
        port.is_open(at);
        match port.slave.as_mut()?.heard(from, packet, received, at) {
            Ok(heard) => {
                if let Some(answer) = &heard.answer {
                    let packet = answer.to_vec();
                    actions.push(Action::Ptp(PtpAction::Answer { source, packet }));
                }
                if let Some(change) = &heard.change {
                    self.master_changed(change);
                }
                if let Some(further) = &heard.further {
                    self.told_further(further, clock);
                }
                Some(self.exchanged(&heard.exchange?, clock))
            }
            Err(refusal) => {
                // Anybody can send these: they are shown, and are not worth a line in the log each.
                if refusal.is_trouble() && self.peer.tally.reach == 0 {
                    self.peer.trouble = Some(refusal.to_string().into());
                }
                None
            }
        }
    }

    /// The newest answer to the neighbour left, which it is told.
    pub(crate) fn answered_ptp(&mut self, sent: Stamp) -> Option<Action> {
        let packet = self.ptp.as_mut()?.slave.as_mut()?.answered(sent)?;
        Some(tell(self.peer.id, &packet))
    }

    /// The newest question left.
    pub(crate) fn sent_ptp(&mut self, sent: Stamp, clock: &Clock) -> Option<Heard> {
        let exchange = self.ptp.as_mut()?.slave.as_mut()?.sent(sent)?;
        Some(self.exchanged(&exchange, clock))
    }

    /// The port cannot be had. Returns the trouble if it is new.
    pub(crate) fn failed_ptp(&mut self, error: &str, at: Count) -> Option<String> {
        let nominal = self.peer.filter.nominal();
        self.ptp.as_mut()?.failed(at, nominal);
        self.peer.tally.refuse("unopened");
        self.schedule.is_not_awaited();
        self.schedule.silence = self.schedule.silence.max(CHANCE);
        self.peer.note_trouble(error.to_owned())
    }

    /// An exchange is complete.
    fn exchanged(&mut self, exchange: &PtpExchange, clock: &Clock) -> Heard {
        let Some(port) = &mut self.ptp else { return Heard::Refused(None) };
        port.unused = 0;
        let (Some(master), Some(config)) = (port.master().copied(), &self.config.ptp) else {
            return Heard::Refused(None);
        };
        let poll = port.slave.as_ref().map_or(0, |slave| seconds_up(slave.interval()));
        let poll = poll.max(LEAST_POLL);
        self.peer.filter.set_poll(poll);
        let root_distance = match error_of(&master, config, exchange.corrected) {
            Ok(error) => error,
            Err(unfit) => return self.unfit(unfit),
        };
        let scale = |time| on_our_scale(time, &master, config, clock);
        let times = scale(exchange.master_received)
            .and_then(|received| Ok((received, scale(exchange.master_sent)?)));
        let (server_received, server_sent) = match times {
            Ok(times) => times,
            Err(unfit) => return self.unfit(unfit),
        };
        self.recognise_master(&master, clock);
        self.check_offset(&master, server_sent, &clock.leaps);
        let PtpExchange { sent, received, .. } = *exchange;
        let precision = Span::ZERO;
        let exchange =
            Exchange { sent, server_received, server_sent, received, root_distance, precision };
        let nominal = self.peer.filter.nominal();
        let rtt = nominal.span(received.count - sent.count) - (server_sent - server_received);
        self.drop_impossible(&exchange, rtt, nominal);
        self.schedule.silence = 0;
        let sample = Sample { exchange, reply: None, rtt: Some(rtt), smear: Span::ZERO };
        self.delivered();
        match self.filtered(sample) {
            Ok(accepted) => {
                self.peer.used(sample);
                Heard::Used(accepted)
            }
            Err(refusal) => {
                self.peer.tally.refuse(refusal.name());
                self.schedule.fails();
                Heard::Rejected(self.peer.note_trouble(refusal.to_string()))
            }
        }
    }

    /// A further `Sync` came behind an exchange. If its time cannot be used, the next exchange says so.
    fn told_further(&mut self, exchange: &PtpExchange, clock: &Clock) {
        let master = self.ptp.as_ref().and_then(|port| port.master());
        let (Some(master), Some(config)) = (master, &self.config.ptp) else { return };
        let scale = |time| on_our_scale(time, master, config, clock);
        let times = (scale(exchange.master_received), scale(exchange.master_sent));
        let (Ok(server_received), Ok(server_sent)) = times else { return };
        let Ok(root_distance) = error_of(master, config, exchange.corrected) else { return };
        let PtpExchange { sent, received, .. } = *exchange;
        let precision = Span::ZERO;
        let exchange =
            Exchange { sent, server_received, server_sent, received, root_distance, precision };
        self.peer.filter.estimator.further(&self.path.symmetric(&exchange));
    }

    /// The master says something by which its time cannot be used.
    fn unfit(&mut self, (name, text): Unfit) -> Heard {
        self.peer.tally.refuse(name);
        self.schedule.fails();
        Heard::Refused(self.peer.note_trouble(text))
    }

    /// The exchange is with this master. If the one before was with another, the path is another as
    /// well: what the source is known by goes on, unless others tell the time too.
    fn recognise_master(&mut self, master: &Master, clock: &Clock) {
        let Some(port) = &mut self.ptp else { return };
        port.leap = Some(leap_of(master.flags));
        let this = (master.port, master.from);
        let before = port.used.replace(this);
        if before.is_none_or(|(_, from)| from != master.from) {
            self.path.hear_anew(clock.ordinal);
        }
        if before.is_none_or(|before| before == this) {
            return;
        }
        port.offset_told = false;
        self.forget_path();
        let others = clock.others && !self.peer.trust.agrees();
        self.peer.filter.change_server(others, self.path.asymmetry());
        self.peer.trust.change_server();
        self.peer.trouble = None;
    }

    /// Says once that the master's UTC offset is not ours. Ours decides: on PTP's timescale its
    /// offset is not even needed.
    fn check_offset(&mut self, master: &Master, time: Instant, leaps: &Leaps) {
        let Some(port) = &mut self.ptp else { return };
        let theirs = i32::from(master.announce.utc_offset);
        let ours = [time - NEAR_LEAP, time + NEAR_LEAP].map(|near| leaps.offset_at(near));
        let differs =
            leaps.known && master.flags.has(Flags::UTC_OFFSET_VALID) && !ours.contains(&theirs);
        if differs && !port.offset_told {
            let [_, ours] = ours;
            self.news = Some(format!(
                "the PTP master announces that TAI − UTC is {theirs} s, and our list of leap seconds \
                 has {ours} s: ours is used; see that both are up to date"
            ));
        }
        port.offset_told = differs;
    }
}

/// Words for the fault of a master that is asked by address; none if it does all that it is asked for. `speaks`:
/// it announces itself.
fn lacking(address: IpAddr, grants: [Grant; 3], speaks: bool) -> Option<String> {
    let of = |state: Grant| {
        let kinds = ["Announce", "Sync", "Delay_Resp"].into_iter().zip(grants);
        kinds.filter(|(_, grant)| *grant == state).map(|(kind, _)| kind).collect::<Vec<&str>>()
    };
    let (refused, asked) = (of(Grant::Refused).join(", "), of(Grant::Asked).join(", "));
    let fault = match grants {
        _ if !refused.is_empty() => format!("refuses {refused}"),
        [Grant::Granted, ..] if !asked.is_empty() => {
            format!("does not answer requests for {asked}")
        }
        _ if !asked.is_empty() => "does not answer".to_owned(),
        _ if speaks => return None,
        _ => "grants announcements and is not heard".to_owned(),
    };
    Some(format!("{address} {fault}"))
}

/// A message to a general port.
fn tell(source: SourceId, packet: &Packet) -> Action {
    Action::Ptp(PtpAction::Tell { source, to: packet.to(), packet: packet.to_vec() })
}

/// Bound of a master's error, all in all, when so much was corrected on the way.
///
/// A master that follows a primary reference says how accurate it is (7.6.2.6). All others state an
/// accuracy that nobody vouches for, or none; the user has to, or they are not used.
fn error_of(master: &Master, config: &PtpConfig, corrected: Span) -> Result<Span, Unfit> {
    let quality = &master.announce.quality;
    let own = match (config.error, quality.accuracy().filter(|_| quality.is_reference())) {
        (Some(error), _) => error,
        (None, _) if master.flags.has(Flags::SYNCHRONIZATION_UNCERTAIN) => {
            let text = "the PTP master says that it is not sure to be synchronised";
            return Err(("uncertain", text.to_owned()));
        }
        (None, Some(accuracy)) => accuracy + STEP_ERROR * i64::from(master.announce.steps_removed),
        (None, None) => {
            let text = format!(
                "the grandmaster {} vouches for no accuracy (class {}, accuracy 0x{:02x}): set \
                 `error` to the most that its time may be off by",
                master.announce.grandmaster, quality.class, quality.accuracy
            );
            return Err(("accuracy", text));
        }
    };
    let error = own + Span(corrected.0 >> CORRECTION_ERROR) + RESOLUTION;
    if error > MAX_ROOT_DISTANCE {
        let text = format!("the PTP master's own error may be {error}; choose a better one");
        return Err(("root-distance", text));
    }
    Ok(error)
}

/// A master's time on the leap-free scale.
fn on_our_scale(
    time: Instant,
    master: &Master,
    config: &PtpConfig,
    clock: &Clock,
) -> Result<Instant, Unfit> {
    let Clock { leaps, about, .. } = clock;
    let of_utc = |seconds: i64| nearer_showing(leaps.instant(seconds, time.frac()), leaps, *about);
    let is_ptp = master.flags.has(Flags::PTP_TIMESCALE);
    match (config.timescale, is_ptp) {
        (Timescale::Ptp, false) => {
            let text = "the PTP master's timescale is an arbitrary one (ARB), not PTP's; if it tells \
                        UTC, set timescale = \"utc\"";
            Err(("arb-timescale", text.to_owned()))
        }
        (Timescale::Utc, true) => {
            let text =
                "the PTP master's timescale is PTP's, not UTC: leave out timescale = \"utc\"";
            Err(("ptp-timescale", text.to_owned()))
        }
        (Timescale::Utc, false) => Ok(of_utc(time.secs())),
        // Both begin at 1970 and leave out no second (7.2.3).
        (Timescale::Ptp, true) if leaps.known => Ok(time),
        (Timescale::Ptp, true) if master.flags.has(Flags::UTC_OFFSET_VALID) => {
            Ok(of_utc(time.secs().saturating_sub(i64::from(master.announce.utc_offset))))
        }
        (Timescale::Ptp, true) => {
            let text =
                "neither the PTP master nor a list of leap seconds here says what TAI − UTC is";
            Err(("utc-offset", text.to_owned()))
        }
    }
}

/// Leap indicator of NTP by the flags of PTP.
fn leap_of(flags: Flags) -> LeapIndicator {
    match (flags.has(Flags::LEAP_61), flags.has(Flags::LEAP_59)) {
        (true, false) => LeapIndicator::Insert,
        (false, true) => LeapIndicator::Delete,
        _ => LeapIndicator::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_told_of_by_what_it_does() {
        let told = |grants, speaks| lacking([192, 0, 2, 1].into(), grants, speaks);
        let (all, some) = (Grant::Asked, [Grant::Granted, Grant::Asked, Grant::Asked]);
        assert_eq!(told([all; 3], false).as_deref(), Some("192.0.2.1 does not answer"));
        let part = "192.0.2.1 does not answer requests for Sync, Delay_Resp";
        assert_eq!(told(some, true).as_deref(), Some(part));
        let followed_no_more = [Grant::Granted, Grant::Unwanted, Grant::Unwanted];
        assert_eq!(told(followed_no_more, true), None);
        assert!(told(followed_no_more, false).is_some_and(|text| text.ends_with("not heard")));
        let refused = told([Grant::Granted, Grant::Refused, Grant::Asked], true);
        assert_eq!(refused.as_deref(), Some("192.0.2.1 refuses Sync"));
    }
}
