//! A server's smear of a leap second: found, and taken off its replies.

use truechimer_feedforward::Exchange;
use truechimer_time::{Instant, Leaps, Period, Span};

use crate::smear::{self, Doubt, Smear};

/// Replies after its smear was found that may contradict what was known before.
const RESETTLES: u32 = 32;

/// Knowledge of whether one server smears.
#[derive(Debug, Default)]
pub(super) struct LeapSmear {
    smear: Smear,
    /// Number of more replies that may contradict what was known before a smear was found.
    resettles: u32,
}

impl LeapSmear {
    /// True if it smears a leap second.
    pub(super) fn is_found(&self) -> bool {
        self.smear.is_found()
    }

    /// True if it is too early to tell if it smears.
    pub(super) fn is_open(&self) -> bool {
        self.smear.is_open()
    }

    /// True if what it says may come of a smear.
    pub(super) fn is_plausible(&self) -> bool {
        self.smear.is_plausible()
    }

    /// No leap second is near.
    pub(super) fn is_over(&mut self) {
        self.smear = Smear::default();
    }

    /// A reply was looked at. Returns whether it may contradict what was known: what was made of
    /// its replies before its smear was known has no claim to be held.
    pub(super) fn resettles(&mut self) -> bool {
        let resettles = self.resettles > 0;
        self.resettles = self.resettles.saturating_sub(1);
        resettles
    }

    /// Looks whether the server smears a leap second, and takes the smear off if it does. `about`
    /// is the time of the arrival, without the smear. What comes back is by how much the server may
    /// still be off, as it is too early to tell.
    pub(super) fn take_off(
        &mut self,
        exchange: &mut Exchange,
        leaps: &Leaps,
        (about, doubt): (Instant, Doubt),
        nominal: Period,
    ) -> Span {
        let away = nominal.span(exchange.received.count - exchange.sent.count);
        let rtt = away - (exchange.server_sent - exchange.server_received);
        let off = exchange.server_sent + rtt.half() - about;
        let expected = smear::expected(leaps, about);
        let was = self.is_found();
        self.smear.look(off, rtt, doubt, expected);
        if self.is_found() && !was {
            self.resettles = RESETTLES;
        }
        self.correct(exchange, off, expected);
        self.smear.doubt(expected)
    }

    /// Takes the smear off the first replies after the counter broke, when there is no other clock
    /// than the server's own: it is off by half a second at most, by which a smear changes by less
    /// than 6 µs.
    pub(super) fn go_on(&mut self, exchange: &mut Exchange, leaps: &Leaps) {
        let expected = smear::expected(leaps, exchange.server_sent);
        self.smear.survive(expected);
        self.correct(exchange, expected.unwrap_or(Span::ZERO), expected);
    }

    /// Takes off what is known to be smeared of a server that is `off` from our clock.
    fn correct(&self, exchange: &mut Exchange, off: Span, expected: Option<Span>) {
        if let Some((by, rough)) = self.smear.correction(off, expected) {
            exchange.server_received = exchange.server_received - by;
            exchange.server_sent = exchange.server_sent - by;
            exchange.root_distance += rough;
        }
    }
}
