//! The path to a server: whose it is, and how its directions differ as the user has declared.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;

use truechimer_feedforward::Exchange;
use truechimer_time::{CountSpan, Period, Span};
use truechimer_timehands::Hand;

use super::canonical;
use super::learnt::{KeptPath, Learning, Learnt, Recall, Recalled};
use crate::config::Asymmetry;
use crate::peer::Filter;

/// The path to the server that answers.
#[derive(Debug)]
pub(super) struct Path {
    /// Address whose replies the filter was given last.
    heard_from: Option<SocketAddr>,
    /// Ordinal of the event since which it is heard from that address.
    heard_since: Option<u64>,
    /// Address whose path is declared.
    declared_at: Option<SocketAddr>,
    /// Declaration of the user about it.
    declared: Option<Asymmetry>,
    /// Part of that which is used: nothing, if it is of another path or cannot be.
    used: Option<Asymmetry>,
    /// The round trip that the declaration cannot be true of.
    impossible: Option<Span>,
    /// The user has been told what is wrong with it.
    told: bool,
    /// Memory of its delays.
    learning: Learning,
    /// Least round trip of the route that `used` was learnt of, if it was.
    least: Option<Span>,
    /// Unix time of the newest exchange, s, if the clock knew the time.
    heard_at: Option<i64>,
    /// Knowledge of the daemon before, which has yet to prove true.
    recall: Option<Recall>,
}

impl Path {
    pub(super) fn new(declared: Option<Asymmetry>) -> Path {
        Path {
            heard_from: None,
            heard_since: None,
            declared_at: None,
            declared,
            used: declared,
            impossible: None,
            told: false,
            learning: Learning::default(),
            least: None,
            heard_at: None,
            recall: None,
        }
    }

    /// Hears what a daemon before knew of it.
    pub(super) fn remember(&mut self, kept: KeptPath) {
        self.recall = Recall::new(kept);
    }

    /// Path for the next daemon: if its asymmetry was learnt.
    pub(super) fn kept(&self, server: &str) -> Option<KeptPath> {
        let used = || {
            let (asymmetry, least, address) = (self.used?, self.least?, self.heard_from?);
            let unix = self.heard_at?;
            Some(KeptPath { server: server.to_owned(), address, asymmetry, least, unix })
        };
        used().or_else(|| self.recall.as_ref().map(|recall| recall.path().clone()))
    }

    /// Asymmetry that is declared of it and used.
    pub(super) fn asymmetry(&self) -> Option<Asymmetry> {
        self.used
    }

    /// Takes over another declaration. Returns whether it is another.
    pub(super) fn redeclare(&mut self, declared: Option<Asymmetry>) -> bool {
        if declared == self.declared {
            return false;
        }
        (self.declared, self.used, self.impossible) = (declared, declared, None);
        self.least = None;
        (self.declared_at, self.told) = (self.heard_from, false);
        true
    }

    /// A usable reply came from this address by the event with this ordinal. If the one before came from another, it is
    /// another machine and another path: returns what to tell of that.
    pub(super) fn recognise(&mut self, from: SocketAddr, ordinal: u64) -> Option<String> {
        let from = canonical(from);
        let declared_at = *self.declared_at.get_or_insert(from);
        let before = self.heard_from.replace(from);
        if before != Some(from) {
            self.hear_anew(ordinal);
        }
        let before = before.filter(|before| *before != from)?;
        let mut news = format!("answers from {from} now, another server than {before}");
        self.used = self.declared.filter(|_| from == declared_at);
        if self.declared.is_some() && self.used.is_none() {
            news += "; the declared asymmetry is not of the path to it, and not used";
        }
        (self.impossible, self.told) = (None, false);
        Some(news)
    }

    /// Address that the last usable reply came from, if any came.
    pub(super) fn heard_from(&self) -> Option<SocketAddr> {
        self.heard_from
    }

    /// Takes note of the event by which another server than before is heard, or one for the first time.
    pub(super) fn hear_anew(&mut self, ordinal: u64) {
        self.heard_since = Some(ordinal);
    }

    /// Ordinal of the event since which it is heard from its address, if it ever was.
    pub(super) fn heard_since(&self) -> Option<u64> {
        self.heard_since
    }

    /// Forgets the delays of what was another path.
    pub(super) fn forget(&mut self) {
        (self.learning, self.recall) = (Learning::default(), None);
    }

    /// Learns of this exchange, as it came, how the directions differ, by what this hand knows.
    pub(super) fn learn(&mut self, exchange: &Exchange, hand: &Hand, nominal: Period) {
        if hand.status.bound_holds() {
            self.heard_at = Some(hand.leaps.utc(hand.time_at(exchange.received.count)).unix);
        }
        self.learning.take(exchange, hand, nominal);
    }

    /// Takes over what was learnt, of a route with this least round trip.
    pub(super) fn rely_on(&mut self, learnt: Asymmetry, least: Option<Span>) {
        (self.declared, self.used, self.impossible) = (Some(learnt), Some(learnt), None);
        (self.declared_at, self.told) = (self.heard_from, false);
        (self.least, self.recall) = (least, None);
    }

    /// Least round trip of the route that its exchanges show.
    pub(super) fn least(&self) -> Option<Span> {
        self.learning.least()
    }

    /// The path of before the start, once this exchange shows that the route is still that one.
    pub(super) fn recall(&mut self, exchange: &Exchange, hand: &Hand) -> Option<KeptPath> {
        let Exchange { sent, server_received, server_sent, received, .. } = exchange;
        let (recall, unix) = (self.recall.as_mut()?, self.heard_at?);
        let round_trip =
            hand.period.span(received.count - sent.count) - (*server_sent - *server_received);
        let stamps = CountSpan(sent.error.0.saturating_add(received.error.0));
        let is_there = self.used.is_none() && self.heard_from == Some(recall.path().address);
        let found = match is_there {
            true => recall.take(round_trip, hand.period.span(stamps).abs(), unix),
            false => Recalled::Other,
        };
        match found {
            Recalled::NotYet => None,
            Recalled::Same => self.recall.take().map(|recall| recall.path().clone()),
            Recalled::Other => {
                self.recall = None;
                None
            }
        }
    }

    /// Asymmetry that its exchanges show.
    pub(super) fn learnt(&self) -> Option<Learnt> {
        self.learning.learnt()
    }

    /// That, where it is worth declaring: it is twice as well known as what is declared, or that
    /// cannot be true; and better known than what a daemon before knew, until that is tried.
    pub(super) fn better(&self) -> Option<Asymmetry> {
        let Asymmetry { by, error } = self.learnt()?.asymmetry;
        if self.recall.as_ref().is_some_and(|recall| recall.path().asymmetry.error <= error) {
            return None;
        }
        let better = self.used.is_none_or(|used| {
            error < used.error.half() || (by - used.by).abs() > error + used.error
        });
        better.then_some(Asymmetry { by, error })
    }

    /// The exchange as it would be if both directions took as long as each other.
    pub(super) fn symmetric(&self, exchange: &Exchange) -> Exchange {
        let half = self.used.map_or(Span::ZERO, |asymmetry| asymmetry.by.half());
        Exchange {
            server_received: exchange.server_received - half,
            server_sent: exchange.server_sent - half,
            ..*exchange
        }
    }

    /// A declaration by which one direction took longer than both together is a mistake, and no
    /// longer used. Returns whether that shows now.
    pub(super) fn drop_impossible(
        &mut self,
        exchange: &Exchange,
        rtt: Span,
        nominal: Period,
    ) -> bool {
        let Exchange { sent, received, .. } = exchange;
        let stamps = nominal.span(CountSpan(sent.error.0.saturating_add(received.error.0)));
        let least = rtt + stamps.abs();
        // One that took less than no time at all has stamps that are wrong.
        let impossible = |a: &Asymmetry| !least.is_negative() && a.by.abs() - a.error > least;
        let drops = self.used.as_ref().is_some_and(impossible);
        if drops {
            (self.used, self.impossible) = (None, Some(rtt));
        }
        drops
    }

    /// Reason why the declared asymmetry is not relied upon, if so.
    pub(super) fn trouble(&self, filter: &Filter) -> Option<String> {
        let Asymmetry { by, error } = self.declared?;
        if let Some(rtt) = self.impossible {
            return Some(format!(
                "the declared asymmetry, {by:+} ± {error}, is more than the whole round trip, {rtt}: \
                 it is not used"
            ));
        }
        filter.estimator.contradicts_asymmetry().then(|| {
            "the path is no longer as declared (asymmetry): it is no longer relied upon".into()
        })
    }

    /// That, once.
    pub(super) fn news(&mut self, filter: &Filter) -> Option<String> {
        let trouble = self.trouble(filter).filter(|_| !self.told)?;
        self.told = true;
        Some(trouble)
    }
}
