//! How the directions of the server's path differ, as far as the user has declared it.

use truechimer_feedforward::Exchange;
use truechimer_time::{CountSpan, Span};

use super::Source;
use crate::config::Asymmetry;

impl Source {
    /// The exchange as it would be if both directions took as long as each other.
    pub(super) fn symmetric(&self, exchange: &Exchange) -> Exchange {
        let half = self.asymmetry.map_or(Span::ZERO, |asymmetry| asymmetry.by.half());
        Exchange {
            server_received: exchange.server_received - half,
            server_sent: exchange.server_sent - half,
            ..*exchange
        }
    }

    /// A declaration by which one direction took longer than both together is a mistake.
    pub(super) fn drop_impossible_asymmetry(&mut self, exchange: &Exchange, residence: Span) {
        let Exchange { sent, received, .. } = exchange;
        let rtt = self.nominal.span(received.count - sent.count) - residence;
        let stamps = self.nominal.span(CountSpan(sent.error.0.saturating_add(received.error.0)));
        let impossible = |a: &Asymmetry| a.by.abs() - a.error > rtt + stamps.abs();
        if self.asymmetry.as_ref().is_some_and(impossible) {
            self.asymmetry = None;
            self.impossible = Some(rtt);
            self.estimator.set_asymmetry(None);
        }
    }

    /// Why the declared asymmetry is not relied upon, if so.
    pub(super) fn asymmetry_trouble(&self) -> Option<String> {
        let declared = self.config.asymmetry?;
        if let Some(rtt) = self.impossible {
            let Asymmetry { by, error } = declared;
            return Some(format!(
                "the declared asymmetry, {by:+} ± {error}, is more than the whole round trip, {rtt}: \
                 it is not used"
            ));
        }
        self.estimator.contradicts_asymmetry().then(|| {
            "the path is no longer as declared (asymmetry): it is no longer relied upon".into()
        })
    }

    /// The same, once.
    pub(crate) fn news_of_asymmetry(&mut self) -> Option<String> {
        let trouble = self.asymmetry_trouble().filter(|_| !self.asymmetry_told)?;
        self.asymmetry_told = true;
        Some(trouble)
    }
}
