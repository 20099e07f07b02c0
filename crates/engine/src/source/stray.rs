//! A server whose time moves against our counter by more than an oscillator promises to stray.

use super::Source;

impl Source {
    /// What the user should know of that, while it is so.
    pub(super) fn stray_trouble(&self) -> Option<String> {
        self.estimator.strays().then(|| {
            "it drifts against our counter by more than max-wander-ppm allows, by its own fault or our \
             oscillator's: the bound covers both, until it comes back or for accept-step-after"
                .into()
        })
    }

    /// The same, once as it begins, and that it is over.
    pub(crate) fn news_of_straying(&mut self) -> Option<String> {
        let trouble = self.stray_trouble();
        if trouble.is_some() == self.stray_told {
            return None;
        }
        self.stray_told = trouble.is_some();
        let over =
            || "it no longer drifts by more than max-wander-ppm allows, or is believed".into();
        Some(trouble.unwrap_or_else(over))
    }
}
