//! Which address of the server is asked: the next one when one is dead or refuses service, and what
//! the name leads to when all are.

use std::net::SocketAddr;

use truechimer_ntp::Association;
use truechimer_time::Count;

use super::{CHANCE, Plan, RESOLVE_RETRY, Source, courtesy};
use crate::doubt;
use crate::ramp::Ramp;

impl Source {
    /// The address in use refused service: the next one, or whatever the name leads to now, or
    /// later.
    pub(super) fn turned_away(&mut self, at: Count, random: &mut dyn FnMut() -> u64) {
        if let Some(address) = self.address() {
            self.courtesy.refuse(address, at, self.nominal, random());
        }
        (self.ramp, self.misses) = (Ramp::NONE, 0);
        if self.choose_address(0, at) {
            self.plan = Plan::Poll(at);
        } else if self.looked_up {
            self.wait_for_service(at);
        } else {
            self.look_up(at);
        }
    }

    /// Chooses the first address from this one on that does not refuse service, if there is one.
    pub(super) fn choose_address(&mut self, from: usize, at: Count) -> bool {
        let open = |address: &SocketAddr| self.courtesy.left_alone(*address, at).is_none();
        let addresses = self.addresses.iter().enumerate().skip(from);
        let Some((index, &address)) = addresses.into_iter().find(|(_, address)| open(address))
        else {
            return false;
        };
        (self.address_index, self.misses) = (index, 0);
        match &mut self.association {
            Some(association) if association.server() == address => {}
            Some(association) => association.move_to(address),
            none => *none = Some(Association::new(address)),
        }
        true
    }

    /// All addresses refuse service: until the first of them may be asked again.
    pub(super) fn wait_for_service(&mut self, at: Count) {
        let until = |address: &SocketAddr| self.courtesy.left_alone(*address, at);
        let soonest = self.addresses.iter().filter_map(until).min_by_key(|due| (*due - at).0);
        let due = soonest.unwrap_or(at + self.nominal.counts(courtesy::RETRY));
        (self.plan, self.reach, self.chances) = (Plan::Retry(due), 0, 0);
        let wait = self.nominal.span(due - at);
        self.news = Some(format!("refuses service; asked again in {}", doubt::time(wait)));
    }

    /// The address does not answer: the next one, or look the name up again.
    pub(super) fn move_on(&mut self, at: Count) {
        if self.choose_address(self.address_index + 1, at) {
            self.plan = Plan::Poll(at);
        } else {
            self.look_up(at);
        }
    }

    pub(super) fn look_up(&mut self, at: Count) {
        (self.misses, self.looked_up) = (0, true);
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        self.plan = Plan::Resolve(at);
    }

    /// The look-up's answer. Returns why it failed, if that is new.
    pub(crate) fn resolved(
        &mut self,
        result: Result<Vec<SocketAddr>, String>,
        at: Count,
    ) -> Option<String> {
        if self.plan != Plan::Resolving {
            return None;
        }
        let failure = match result {
            Ok(addresses) if addresses.is_empty() => "the name has no address".to_owned(),
            Ok(addresses) => {
                (self.resolve_wait, self.unresolvable) = (RESOLVE_RETRY.0, None);
                // Only a source whose addresses have all failed is looked up again: begin anew.
                self.addresses = addresses;
                if self.choose_address(0, at) {
                    self.plan = Plan::Poll(at);
                } else {
                    self.wait_for_service(at);
                }
                return None;
            }
            Err(error) => error,
        };
        self.silence = self.silence.max(CHANCE);
        self.chances = 0;
        self.trouble = Some(format!("cannot look up {}: {failure}", self.config.host));
        *self.refused.entry("unresolvable".into()).or_insert(0) += 1;
        let (wait, soon) = (self.after(at, self.resolve_wait), self.after(at, self.interval()));
        if self.addresses.is_empty() {
            self.plan = Plan::Resolve(wait);
        } else if self.choose_address(0, at) {
            // Without a name service, what is known may yet come back: another round.
            self.plan = Plan::Poll(if wait.at_or_after(soon) { soon } else { wait });
        } else {
            self.wait_for_service(at);
        }
        self.resolve_wait = (self.resolve_wait * 2).min(RESOLVE_RETRY.1);
        let new = self.unresolvable.as_ref() != Some(&failure);
        self.unresolvable = Some(failure);
        self.unresolvable.clone().filter(|_| new)
    }
}
