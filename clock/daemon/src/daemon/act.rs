//! Actions that the engine wants done.

use truechimer_counter::Counter;
use truechimer_engine::{Action, Authentication, Event, Level, PtpAction, SourceId, Steer};
use truechimer_timehands::{Hand, Status};

use super::{CHORES, Daemon, has_counts};
use crate::clockbound::ClockBound;
use crate::proof::{Prepared, Session};
use crate::ptp::Carrier;
use crate::resolve::{Found, Route};

impl Daemon<'_> {
    pub(super) fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Some(log) = &mut self.log {
                log.action(&action);
            }
            self.carry_out(action);
        }
        if let Some(why) = self.log.as_mut().and_then(truechimer_replay::Log::trouble) {
            self.log = None;
            self.note(Level::Warning, &format!("the replay log ends here: {why}"));
        }
    }

    pub(super) fn carry_out(&mut self, action: Action) {
        match action {
            Action::Resolve { source, host, port, authentication, interface, family } => {
                let route = Route { interface, family };
                self.resolve(source, (&host, port), authentication, route);
            }
            Action::Send { source, to, interface, packet } => {
                let event = match self.proofs.protect(source, &packet) {
                    Ok(packet) => {
                        let waiting = self.engine.waiting(source);
                        self.net.send((source, waiting), &to, interface.as_deref(), &packet)
                    }
                    Err(error) => Some(Event::Unprotected { source, error }),
                };
                self.events.extend(event);
            }
            Action::Watch { source, kind, path, poll } => {
                self.events.extend(self.refclocks.watch(source, kind, &path, poll));
            }
            Action::Ptp(PtpAction::Listen { source, interface, transport, delay, unicast }) => {
                let carrier = Carrier { transport, delay, unicast };
                self.events.extend(self.ptp.listen(source, &interface, carrier, self.net.cards()));
            }
            Action::Ptp(PtpAction::Ask { source, to, packet }) => {
                self.events.extend(self.ptp.ask(source, to, &packet, self.net.cards()));
            }
            Action::Ptp(PtpAction::Answer { source, packet }) => {
                let events = self.ptp.answer(source, &packet, self.net.cards());
                self.events.extend(events);
            }
            Action::Ptp(PtpAction::Tell { source, to, packet }) => {
                self.events.extend(self.ptp.tell(source, to, &packet, self.net.cards()));
            }
            Action::Close { source } => {
                self.net.close(source);
                self.proofs.close(source);
                self.ptp.close(source);
                self.refclocks.close(source);
            }
            Action::Publish(hand) => self.publish(&hand),
            Action::Steer(steer) => {
                self.with_clockbound(|pages, counter| pages.before(steer, counter));
                let result = self.system_clock.steer(steer);
                if let Some(pages) = &mut self.clockbound {
                    pages.after(steer);
                }
                // One that was refused is none; a warning says so.
                let is_done = matches!(result, Some((Level::Info, _)));
                if let (Steer::Step(by), Some(audit), true) = (steer, &mut self.audit, is_done) {
                    audit.step(self.counter.read(), by);
                }
                if let Some((level, text)) = result {
                    self.note(level, &text);
                }
            }
            Action::Note { level, text } => self.note(level, &text),
        }
    }

    /// Looks a server up, and gets the keys of one that is to prove itself.
    pub(super) fn resolve(
        &mut self,
        source: SourceId,
        place: (&str, u16),
        authentication: Authentication,
        route: Route,
    ) {
        let now = self.unix_now();
        let answer = match self.proofs.prepare(source, place, authentication, route, now) {
            Ok(Prepared::Ask(exchange)) => self.resolver.begin(source, place, exchange),
            Ok(Prepared::Known(found)) => Some((source, Ok(*found))),
            Err(why) => Some((source, Err(why))),
        };
        if let Some((source, found)) = answer {
            self.found(source, found);
        }
    }

    pub(super) fn found(&mut self, source: SourceId, found: Result<Found, String>) {
        let result = found.map(|found| {
            if let Some(session) = found.session {
                let told = match &session {
                    Session::Nts(session) => Some(session.told()),
                    Session::Key(..) => None,
                };
                if self.proofs.begin(source, session)
                    && let Some(text) = told
                {
                    self.note(Level::Info, &text);
                }
            }
            found.addresses
        });
        self.events.push_back(Event::Resolved { source, result });
    }

    /// Unix time by the clock, s, if that knows it.
    fn unix_now(&self) -> Option<u64> {
        let hand = self.engine.hand();
        let now = hand.leaps.utc(hand.time_at(self.counter.read())).unix;
        u64::try_from(now).ok().filter(|_| hand.status.bound_holds())
    }

    pub(super) fn publish(&mut self, hand: &Hand) {
        if hand.counter.epoch != self.epoch {
            self.epoch = hand.counter.epoch;
            self.net.forget();
            self.ptp.forget();
            self.refclocks.forget();
            self.wander.forget();
            if let Some(out) = &mut self.sock_out {
                out.forget();
            }
            if let Some(rtc) = &mut self.rtc {
                rtc.forget();
            }
            self.events.retain(|event| !has_counts(event));
            // The old count may be years away by the new epoch's.
            self.chores = self.counter.read() + self.nominal.counts(CHORES);
            self.kept.2 = self.counter.read();
            self.retry = self.retry.in_new_epoch(self.counter.read());
            if let Some(pages) = &mut self.clockbound {
                pages.forget();
            }
        }
        let made = self.host.made();
        // A hand of counts that are over is of no use: the next event begins a new epoch.
        if let Some(made) = made
            && !self.host.has_lapsed()
        {
            if hand.status == Status::Synchronised
                && let Some(now) = self.unix_now()
                && self.proofs.clock_is_set(now)
            {
                let text = "the clock is set: certificates (NTS) are judged anew, by its dates";
                self.note(Level::Info, text);
            }
            self.record_hand(hand);
            self.page.mark(self.host.marker());
            self.page.publish(hand, &made);
            self.refresh_clockbound(hand);
        }
    }

    /// Writes the pages for clients of ClockBound, of which they know how old they are.
    pub(super) fn tell_clockbound(&mut self) {
        let hand = *self.engine.hand();
        if !self.host.is_withheld() && !self.host.has_lapsed() {
            self.refresh_clockbound(&hand);
        }
    }

    pub(super) fn refresh_clockbound(&mut self, hand: &Hand) {
        let steered = self.system_clock.is_steered();
        let marker = self.host.marker();
        self.with_clockbound(|pages, counter| {
            pages.mark(marker);
            pages.refresh(hand, counter, steered)
        });
    }

    pub(super) fn with_clockbound(
        &mut self,
        act: impl FnOnce(&mut ClockBound, Counter) -> Vec<String>,
    ) {
        let Some(pages) = &mut self.clockbound else { return };
        for text in act(pages, self.counter) {
            self.note(Level::Warning, &text);
        }
    }
}
