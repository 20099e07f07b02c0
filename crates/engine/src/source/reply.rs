//! What a datagram from the server comes to, and whether it is smeared.

use std::net::SocketAddr;

use truechimer_feedforward::Exchange;
use truechimer_feedforward::Refusal::ServerStep;
use truechimer_ntp::{Demand, Refusal, Timestamp};
use truechimer_time::{Instant, Leaps, Span, Stamp};

use super::{Clock, ERA_PIVOT, Heard, Last, Plan, RESETTLES, Source};
use crate::leap::later_reading;
use crate::report::Selection;
use crate::smear::Smear;
use crate::{doubt, smear};

impl Source {
    /// A datagram came.
    pub(crate) fn heard(
        &mut self,
        from: SocketAddr,
        sent: Stamp,
        received: Stamp,
        packet: &[u8],
        clock: &Clock,
    ) -> Heard {
        let Clock { leaps, about, reckoned, others } = clock;
        let Some(association) = &mut self.association else { return Heard::Refused(None) };
        let reply = match association.accept(packet, from) {
            Ok(reply) => reply,
            Err(refusal) => {
                if refusal.demand().is_some() {
                    // This was the answer: nothing is missed any more.
                    self.chances = self.chances.saturating_sub(1);
                }
                match refusal.demand() {
                    Some(Demand::Stop) => self.plan = Plan::Refused(received.count),
                    Some(Demand::SlowDown) => self.slow(received.count),
                    None => {}
                }
                let trouble = refusal.to_string();
                return Heard::Refused(match refusal {
                    // Anybody can send these: shown where there is nothing better to show, but
                    // not worth a line in the log each.
                    Refusal::WrongAddress(_)
                    | Refusal::TooShort(_)
                    | Refusal::WrongMode(_)
                    | Refusal::BadVersion(_)
                    | Refusal::WrongOrigin
                    | Refusal::Duplicate
                    | Refusal::Late => {
                        if self.reach == 0 {
                            self.trouble = Some(trouble);
                        }
                        None
                    }
                    _ => {
                        self.answered = true;
                        self.note_trouble(trouble)
                    }
                });
            }
        };
        self.recognise(from, received.count, *others);
        let instant = |t: Timestamp| later_reading(t.to_instant(ERA_PIVOT, leaps), leaps, *about);
        let mut exchange = Exchange {
            sent,
            server_received: instant(reply.receive),
            server_sent: instant(reply.transmit),
            received,
            root_distance: reply.root_distance(),
        };
        // By dead reckoning a smear is found, and by the clock without it that it has ended.
        let smear = match (about, reckoned) {
            (Some(about), _) if self.smears() => {
                self.unsmear(&mut exchange, leaps, *about, Span::ZERO)
            }
            (None, _) if self.smears() => {
                self.go_on_unsmearing(&mut exchange, leaps);
                Span::ZERO
            }
            (_, Some((clock, doubt))) => self.unsmear(&mut exchange, leaps, *clock, *doubt),
            (_, None) => {
                self.smear = Smear::default();
                Span::ZERO
            }
        };
        let residence = reply.residence();
        self.drop_impossible_asymmetry(&exchange, residence);
        let mut corrected = self.symmetric(&exchange);
        corrected.root_distance += smear;
        let heard = self.estimator.exchange(&corrected);
        // What was made of its replies before its smear was known has no claim to be held.
        let held = matches!(heard, Err(ServerStep)) && self.resettles > 0;
        self.resettles = self.resettles.saturating_sub(1);
        let believed = if held { self.estimator.believe() } else { None };
        let rtt = self.nominal.span(received.count - sent.count) - residence;
        if matches!(heard, Ok(_) | Err(ServerStep)) {
            self.newest = Some(Last { reply, exchange, rtt, smear });
            self.reach |= 1;
        }
        match believed.map_or(heard, Ok) {
            Ok(accepted) => {
                self.last = self.newest;
                self.accepted = self.accepted.saturating_add(1);
                (self.misses, self.silence, self.answered) = (0, 0, true);
                self.served(from);
                self.trouble = None;
                Heard::Used(accepted)
            }
            Err(refusal) => {
                *self.refused.entry(refusal.name().into()).or_insert(0) += 1;
                (self.misses, self.answered) = (0, true);
                self.served(from);
                self.chances = self.chances.saturating_sub(1);
                let text = self.note_trouble(refusal.to_string());
                let doubt = self.estimator.doubt(received.count);
                let utc = about.map(|about| leaps.utc(about));
                Heard::Doubted(text.map(|text| match doubt {
                    Some(doubt) => {
                        let outvoted = self.selection == Selection::Falseticker;
                        let who = (&*self.config.name(), self.bar.as_ref());
                        doubt::told(&doubt, who, received.count, self.nominal, utc, outvoted)
                    }
                    None => text,
                }))
            }
        }
    }

    /// The server answers who asks this often.
    fn served(&mut self, from: SocketAddr) {
        self.looked_up = false;
        self.courtesy.served(from, self.steady_interval());
    }

    /// Looks whether the server smears a leap second, and takes the smear off if it does. `about`
    /// is the time of the arrival, without the smear. What comes back is by how much the server may
    /// still be off, as it is too early to tell.
    pub(super) fn unsmear(
        &mut self,
        exchange: &mut Exchange,
        leaps: &Leaps,
        about: Instant,
        doubt: Span,
    ) -> Span {
        let away = self.nominal.span(exchange.received.count - exchange.sent.count);
        let rtt = away - (exchange.server_sent - exchange.server_received);
        let off = exchange.server_sent + rtt.half() - about;
        let expected = smear::expected(leaps, about);
        let was = self.smear.is_found();
        self.smear.look(off, rtt, doubt, expected);
        if self.smear.is_found() && !was {
            self.resettles = RESETTLES;
        }
        self.take_off(exchange, off, expected);
        self.smear.doubt(expected)
    }

    /// The same of the first replies after the counter broke, when there is no other clock than the
    /// server's own: it is off by half a second at most, by which a smear changes by less than 6
    /// µs.
    fn go_on_unsmearing(&mut self, exchange: &mut Exchange, leaps: &Leaps) {
        let expected = smear::expected(leaps, exchange.server_sent);
        self.smear.survive(expected);
        self.take_off(exchange, expected.unwrap_or(Span::ZERO), expected);
    }

    /// Takes off what is known to be smeared of a server that is `off` from our clock.
    fn take_off(&self, exchange: &mut Exchange, off: Span, expected: Option<Span>) {
        if let Some((by, rough)) = self.smear.correction(off, expected) {
            exchange.server_received = exchange.server_received - by;
            exchange.server_sent = exchange.server_sent - by;
            exchange.root_distance += rough;
        }
    }

    /// Whether it smears a leap second.
    pub(crate) fn smears(&self) -> bool {
        self.smear.is_found()
    }

    /// Whether it is too early to tell if it smears.
    pub(crate) fn may_yet_smear(&self) -> bool {
        self.smear.is_open()
    }

    /// Whether what it says may come of a smear.
    pub(crate) fn may_smear(&self) -> bool {
        self.smear.is_plausible()
    }
}
