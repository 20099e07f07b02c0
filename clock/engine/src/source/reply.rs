//! Treatment of a datagram from the server.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::SocketAddr;

use truechimer_feedforward::Refusal::ServerStep;
use truechimer_feedforward::{Accepted, Exchange, Refusal as Rejected};
use truechimer_ntp::{Demand, Refusal, Timestamp};
use truechimer_time::{Count, Period, Span, Stamp};
use truechimer_timehands::Hand;

use super::interleaved::{Complete, Open};
use super::{Clock, Heard, LeapSmear, Plan, Source};
use crate::config::Asymmetry;
use crate::leap::nearer_showing;
use crate::peer::Sample;
use crate::smear::Doubt;

/// The era of NTP timestamps is chosen nearest to this Unix time (2050-01-01): right for
/// 1982–2118.
const ERA_PIVOT: i64 = 2_524_608_000;

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
        let Some(association) = &mut self.association else { return Heard::Refused(None) };
        let reply = match association.accept(packet, from) {
            Ok(reply) => reply,
            Err(refusal) => return Heard::Refused(self.refused(&refusal, (sent, received))),
        };
        let arrived = received.count;
        if self.is_of_later(sent, reply.later_requests) {
            self.peer.tally.refuse("wrong-port");
            return Heard::Refused(None);
        }
        self.recognise(from, arrived, clock);
        let Some(complete) = self.complete(Complete { sent, received, reply, clock: *clock })
        else {
            // It said when a reply left that was used already: the next says when this one did.
            self.schedule.silence = 0;
            self.served(from, arrived);
            return Heard::Refused(None);
        };
        let Complete { sent, received, reply, clock } = &complete;
        let (sent, received, reply) = (*sent, *received, *reply);
        let Clock { leaps, about, .. } = clock;
        let instant = |t: Timestamp| nearer_showing(t.to_instant(ERA_PIVOT, leaps), leaps, *about);
        let mut exchange = Exchange {
            sent,
            server_received: instant(reply.receive),
            server_sent: instant(reply.transmit),
            received,
            root_distance: reply.root_distance(),
            precision: reply.precision.span(),
        };
        let smear = self.take_off_smear(&mut exchange, clock);
        let nominal = self.peer.filter.nominal();
        let rtt = nominal.span(received.count - sent.count) - reply.residence();
        self.drop_impossible(&exchange, rtt, nominal);
        let sample = Sample { exchange, reply: Some(reply), rtt: Some(rtt), smear };
        self.delivered();
        match self.filtered(sample) {
            Ok(accepted) => {
                self.peer.used(sample);
                self.schedule.silence = 0;
                self.served(from, arrived);
                self.adapt(arrived);
                Heard::Used(accepted)
            }
            Err(refusal) => {
                self.peer.tally.refuse(refusal.name());
                self.served(from, arrived);
                self.schedule.fails();
                self.hasten(arrived);
                Heard::Rejected(self.peer.note_trouble(refusal.to_string()))
            }
        }
    }

    /// True if a request left at `sent` that was made later than the one that was answered, and of which
    /// so many were. A reply that was redirected to another request's port would otherwise seem to have
    /// come sooner than it did, and put the time where it is not.
    fn is_of_later(&self, sent: Stamp, later: usize) -> bool {
        let next = later.checked_sub(1).and_then(|place| *self.requested.get(place)?);
        next.is_some_and(|next| (sent.count + sent.error).at_or_after(next))
    }

    /// The protocol refused a datagram that came by the socket of a request with these stamps. Returns the trouble
    /// if it is new and worth telling.
    fn refused(&mut self, refusal: &Refusal, (sent, received): (Stamp, Stamp)) -> Option<String> {
        let at = received.count;
        if refusal.demand().is_some() {
            // This was the answer: nothing is missed any more.
            self.schedule.fails();
        }
        match refusal.demand() {
            Some(Demand::Stop) => self.schedule.plan = Plan::Refused(at),
            Some(Demand::SlowDown) => {
                self.schedule.slow(sent.count, at);
                self.peer.filter.set_poll(self.schedule.steady_interval());
            }
            None => {}
        }
        match refusal {
            // Anybody can send these: shown where there is nothing better to show, but not worth a
            // line in the log each.
            Refusal::WrongAddress(_)
            | Refusal::TooShort(_)
            | Refusal::WrongMode(_)
            | Refusal::BadVersion(_)
            | Refusal::WrongOrigin
            | Refusal::Duplicate
            | Refusal::Late => {
                if self.peer.tally.reach == 0 {
                    self.peer.trouble = Some(refusal.to_string().into());
                }
                None
            }
            _ => {
                self.schedule.answered = true;
                self.peer.note_trouble(refusal.to_string())
            }
        }
    }

    /// A usable reply came from this address. If it is of another machine than the one before, what
    /// the source is known by goes on with the name, unless others tell another time. What is declared
    /// of the path does not.
    fn recognise(&mut self, from: SocketAddr, at: Count, clock: &Clock) {
        let Some(news) = self.path.recognise(from, clock.ordinal) else { return };
        self.news = Some(news);
        self.forget_path();
        let others = clock.others && !self.peer.trust.agrees();
        self.peer.filter.change_server(others, self.path.asymmetry());
        self.open = Open::default();
        // What that one wanted, smeared or was held against it is not this one's doing.
        self.schedule.change_server(at);
        self.smear = LeapSmear::default();
        self.peer.trust.change_server();
        self.peer.trouble = None;
        self.peer.filter.set_poll(self.schedule.steady_interval());
    }

    /// Learns of its newest exchange how the directions of its path differ, by this hand. Returns
    /// what to tell if that is used from now on.
    pub(crate) fn learn(&mut self, hand: &Hand) -> Option<String> {
        let nominal = self.peer.filter.nominal();
        let sample = self.peer.filter.newest.as_ref()?;
        let root_distance = sample.exchange.root_distance + sample.smear;
        self.path.learn(&Exchange { root_distance, ..sample.exchange }, hand, nominal);
        if !self.config.learn_asymmetry {
            return None;
        }
        let better = self.path.better();
        let known = self.path.recall(&Exchange { root_distance, ..sample.exchange }, hand);
        let (learnt, least, when) = match (better, known) {
            (Some(learnt), _) => (learnt, self.path.least(), "learnt"),
            (None, Some(kept)) => (kept.asymmetry, Some(kept.least), "learnt before the start"),
            (None, None) => return None,
        };
        self.path.rely_on(learnt, least);
        self.peer.filter.set_asymmetry(Some(learnt));
        let Asymmetry { by, error } = learnt;
        Some(format!("asymmetry of the path to it, {when} and used from now on: {by:+} ± {error}"))
    }

    /// An asymmetry by which one direction took longer than both is not used any more. One that was
    /// learnt was of another route.
    pub(super) fn drop_impossible(&mut self, exchange: &Exchange, rtt: Span, nominal: Period) {
        if !self.path.drop_impossible(exchange, rtt, nominal) {
            return;
        }
        self.peer.filter.set_asymmetry(None);
        if self.config.learn_asymmetry {
            self.forget_path();
            self.news.get_or_insert_with(|| {
                format!("the asymmetry that was learnt is more than the whole round trip, {rtt}: the path is another")
            });
        }
    }

    /// Takes a smear off. By dead reckoning it is found, and by the clock without it that it has
    /// ended. Returns by how much the server may still be off, as it is too early to tell.
    fn take_off_smear(&mut self, exchange: &mut Exchange, clock: &Clock) -> Span {
        let nominal = self.peer.filter.nominal();
        let Clock { leaps, about, reckoned, .. } = clock;
        let by = match (about, reckoned) {
            (Some(about), _) if self.smears() => (*about, Doubt::NONE),
            (None, _) if self.smears() => {
                self.smear.go_on(exchange, leaps);
                return Span::ZERO;
            }
            (_, Some(reckoned)) => *reckoned,
            (_, None) => {
                self.smear.is_over();
                return Span::ZERO;
            }
        };
        self.smear.take_off(exchange, leaps, by, nominal)
    }

    /// Gives a sample to the filter. One that is held off is kept as the newest.
    pub(super) fn filtered(&mut self, sample: Sample) -> Result<Accepted, Rejected> {
        let filter = &mut self.peer.filter;
        let mut corrected = self.path.symmetric(&sample.exchange);
        corrected.root_distance += sample.smear;
        let heard = filter.exchange(&corrected);
        let resettles = self.smear.resettles();
        let held = matches!(heard, Err(ServerStep));
        let believed = if held && resettles { filter.estimator.believe() } else { None };
        if held || heard.is_ok() {
            self.peer.heard(sample);
        }
        let outcome = believed.map_or(heard, Ok);
        match outcome {
            Ok(Accepted::Shifted(_) | Accepted::FloorMoved(_)) => self.path.forget(),
            // Whether the server moved or its path, nobody knows.
            Ok(Accepted::Stepped(_)) => self.forget_path(),
            _ => {}
        }
        outcome
    }

    /// Works out how often the server is asked from now on.
    fn adapt(&mut self, at: Count) {
        if self.config.max_poll.is_none() {
            return;
        }
        let Some(estimate) = self.peer.estimate(at) else { return };
        let grows = |seconds: u32| estimate.growth.over(Span::from_secs(seconds.into()));
        self.schedule.adapt(grows, self.peer.filter.offset_error_bound(&estimate));
        self.peer.filter.set_poll(self.schedule.steady_interval());
    }

    /// Asks sooner: its word is in doubt.
    fn hasten(&mut self, at: Count) {
        if self.config.max_poll.is_some() {
            self.schedule.hasten(at);
            self.peer.filter.set_poll(self.schedule.steady_interval());
        }
    }

    /// The server answers who asks this often.
    fn served(&mut self, from: SocketAddr, at: Count) {
        if core::mem::take(&mut self.resolver.looked_up) {
            self.schedule.sooner(at);
        }
        self.resolver.served();
        if let Some(interval) = self.schedule.served(from) {
            self.peer.filter.set_poll(interval);
        }
    }
}
