//! Actions that a server's schedule has due: a look-up, a request, another address.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use truechimer_ntp::Association;
use truechimer_time::Count;

use super::Source;
use super::schedule::{CHANCE, Due, MISSES_PER_ADDRESS, Plan};
use crate::authentication::Authentication;
use crate::config::SourceConfig;
use crate::event::{Action, Level};
use crate::hold_off;

impl Source {
    /// Does what is due at `at`. `random` gives fresh unguessable numbers.
    pub(crate) fn act(
        &mut self,
        at: Count,
        random: &mut dyn FnMut() -> u64,
        actions: &mut Vec<Action>,
    ) {
        if self.ptp.is_some() {
            return self.act_ptp(at, random, actions);
        }
        match self.schedule.due(at) {
            Some(Due::LookUp) => {
                self.schedule.plan = Plan::Resolving;
                let SourceConfig { host, port, authentication, interface, family, .. } =
                    self.config.clone();
                let source = self.peer.id;
                actions.push(Action::Resolve {
                    source,
                    host,
                    port,
                    authentication,
                    interface,
                    family,
                });
            }
            Some(Due::Poll) => self.poll(at, random, actions),
            Some(Due::Leave) => self.turned_away(at, random),
            Some(Due::Retry) => self.look_up(at),
            None => {}
        }
    }

    fn poll(&mut self, at: Count, random: &mut dyn FnMut() -> u64, actions: &mut Vec<Action>) {
        if self.association.as_ref().is_some_and(Association::is_waiting) {
            if let Some(silence) = self.schedule.missed() {
                self.peer.tally.miss();
                self.peer.trouble =
                    Some("no reply: server down, or packets lost or blocked".into());
                if silence == CHANCE {
                    let name = &self.peer.name;
                    let text = format!("{name}: no reply to {CHANCE} requests in a row");
                    actions.push(Action::Note { level: Level::Warning, text });
                }
            }
            // A server that refuses is there: it is left only for another of its addresses. Where
            // the network refuses there is none, or somebody forged that: it is worth no more than
            // silence, and so hurries nobody.
            let elsewhere = !self.schedule.answered || self.resolver.has_next();
            if self.schedule.misses >= MISSES_PER_ADDRESS && elsewhere {
                self.move_on(at);
                return;
            }
        }
        let more = self.useless_requests.saturating_add(1);
        self.useless_requests = if self.is_useless(at) { more } else { 0 };
        let Some(association) = &mut self.association else {
            self.schedule.plan = Plan::Resolve(at);
            return;
        };
        let packet = match self.config.interleaved {
            true => association.request_interleaved(random(), random()),
            false => association.request(random()),
        };
        let to = association.server();
        self.peer.tally.request();
        self.requested.rotate_right(1);
        self.requested[0] = Some(at);
        self.schedule.sent(at, random);
        // An exchange of keys costs the server more than all requests between: the later ones spread over the wait before the
        // next (RFC 8915 §4.2), so that keys are fetched less and less often, and a server that is back is soon heard. Only of
        // a server that has not answered since its keys came, and not before it had its chance: whoever loses a few packets is
        // asked as often as ever.
        if self.schedule.misses >= CHANCE && self.fetches_in_vain() {
            self.schedule.no_sooner(at, self.resolver.wait.next / MISSES_PER_ADDRESS, random);
        }
        let interface = self.config.interface.clone();
        actions.push(Action::Send { source: self.peer.id, to, interface, packet });
    }

    /// The address in use refused service: the next one, or whatever the name leads to now, or
    /// later.
    pub(super) fn turned_away(&mut self, at: Count, random: &mut dyn FnMut() -> u64) {
        if let Some(address) = self.address() {
            self.schedule.refused(address, at, random());
        }
        self.schedule.leave();
        if self.choose_address(0, at) {
            self.schedule.plan = Plan::Poll(at);
        } else if self.resolver.looked_up {
            self.wait_for_service(at);
        } else {
            self.look_up(at);
        }
    }

    /// Chooses the first address from this place on that does not refuse service, if there is one.
    pub(super) fn choose_address(&mut self, from: usize, at: Count) -> bool {
        let courtesy = &self.schedule.courtesy;
        let open = |address| courtesy.left_alone(address, at).is_none();
        let Some(address) = self.resolver.choose(from, open) else { return false };
        self.schedule.misses = 0;
        match &mut self.association {
            Some(association) if association.server() == address => {}
            Some(association) => association.move_to(address),
            none => *none = Some(Association::new(address)),
        }
        true
    }

    /// All addresses refuse service: until the first of them may be asked again.
    pub(super) fn wait_for_service(&mut self, at: Count) {
        let wait = self.schedule.wait_for_service(self.resolver.addresses(), at);
        self.peer.tally.reach = 0;
        self.news = Some(format!("refuses service; asked again in {}", hold_off::time(wait)));
    }

    /// The address does not answer: the next one, or look the name up again.
    fn move_on(&mut self, at: Count) {
        if self.choose_address(self.resolver.next(), at) {
            self.schedule.plan = Plan::Poll(at);
            return;
        }
        if self.fetches_in_vain() {
            self.resolver.wait.take();
        }
        self.look_up(at);
    }

    /// True while the keys that were fetched last have been of no use.
    fn fetches_in_vain(&self) -> bool {
        self.config.authentication == Authentication::Nts && self.resolver.looked_up
    }

    /// A request could not be protected: new keys, at once if a server has proven itself with the
    /// last ones, else less and less often, up to an eighth sooner by the chance `early`. Returns the trouble if it is new.
    pub(crate) fn unprotected(&mut self, error: &str, at: Count, early: u64) -> Option<String> {
        self.peer.tally.refuse("unprotected");
        self.peer.tally.unsent();
        self.schedule.undelivered();
        self.resolver.unprotected();
        let wait = if self.resolver.looked_up { self.resolver.wait.take() } else { 0 };
        self.look_up(self.schedule.about(at, wait, early));
        // That keys cannot be had says more.
        if self.resolver.failure().is_some() {
            None
        } else {
            self.peer.note_trouble(error.to_owned())
        }
    }

    /// A datagram that proves nothing. Anybody can send it: it is shown where there is nothing better
    /// to show, and not worth a line in the log.
    pub(crate) fn unauthentic(&mut self, error: &str) {
        self.peer.tally.refuse("unauthentic");
        if self.peer.tally.reach == 0 {
            self.peer.trouble = Some(error.to_owned().into());
        }
    }

    pub(super) fn look_up(&mut self, at: Count) {
        (self.schedule.misses, self.resolver.looked_up) = (0, true);
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        self.schedule.plan = Plan::Resolve(at);
    }

    /// The look-up's answer. After one that failed the next comes later and later, up to an eighth sooner by the chance
    /// `early`. Returns why it failed, if that is new.
    pub(crate) fn resolved(
        &mut self,
        result: Result<Vec<SocketAddr>, String>,
        at: Count,
        early: u64,
    ) -> Option<String> {
        if self.schedule.plan != Plan::Resolving {
            return None;
        }
        let result = match self.config.family {
            Some(family) => result.and_then(|addresses| family.of(addresses)),
            None => result,
        };
        let failure = match result {
            Ok(addresses) if addresses.is_empty() => "the name has no address".to_owned(),
            Ok(addresses) => {
                self.resolver.found(addresses);
                if self.choose_address(0, at) {
                    self.schedule.plan = Plan::Poll(at);
                } else {
                    self.wait_for_service(at);
                }
                return None;
            }
            Err(error) => error,
        };
        self.schedule.silence = self.schedule.silence.max(CHANCE);
        self.schedule.is_not_awaited();
        let doing = match self.config.authentication {
            Authentication::None => "cannot look up",
            Authentication::Nts => "no keys from",
            Authentication::Key(_) => "no key for",
        };
        let trouble = format!("{doing} {}: {failure}", self.config.host);
        self.peer.trouble = Some(trouble.into());
        self.peer.tally.refuse("unresolvable");
        let wait = self.schedule.about(at, self.resolver.wait.next, early);
        let soon = self.schedule.after(at, self.schedule.interval());
        if self.resolver.addresses().is_empty() {
            self.schedule.plan = Plan::Resolve(wait);
        } else if self.choose_address(0, at) {
            // Without a name service, what is known may yet come back: another round.
            self.schedule.plan = Plan::Poll(if wait.at_or_after(soon) { soon } else { wait });
        } else {
            self.wait_for_service(at);
        }
        self.resolver.failed(failure)
    }
}
