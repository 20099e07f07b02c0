//! The engine's method where an estimator is compared.

use truechimer_engine::{Beginning, Candidate, Method, RENEW_AFTER, SourceId};
use truechimer_feedforward::Estimator;
use truechimer_time::{Count, Period, Span};

use crate::Kind;
use crate::prefer::{Path, Preferred};

/// Every source gets an estimator of one kind.
#[derive(Debug)]
pub(crate) struct Comparison {
    kind: Kind,
    preferred: Preferred,
}

impl Comparison {
    pub(crate) fn new(kind: Kind) -> Comparison {
        Comparison { kind, preferred: Preferred::default() }
    }
}

impl Method for Comparison {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn estimator(&self, beginning: &Beginning) -> Box<dyn Estimator> {
        self.kind.estimator(beginning)
    }

    fn combines(&self) -> bool {
        self.kind.is_bounded()
    }

    fn takes_pulses(&self) -> bool {
        self.kind.row().takes_pulses()
    }

    fn renew_after(&self, estimator: &dyn Estimator) -> Span {
        self.kind.row().renew_after(estimator).unwrap_or(RENEW_AFTER)
    }

    fn polls(&self, estimator: &mut dyn Estimator, seconds: u32) {
        self.kind.row().set_poll(estimator, seconds);
    }

    /// By the penalties of their paths, if all have one.
    fn prefer(
        &mut self,
        candidates: &[Candidate<'_>],
        sources: usize,
        at: Count,
        nominal: Period,
    ) -> Option<SourceId> {
        let path = |c: &Candidate<'_>| {
            let penalty = self.kind.row().penalty(c.estimator, at)?;
            Some(Path { id: c.source, stamps: c.used, penalty })
        };
        let paths = candidates.iter().map(path).collect::<Option<Vec<Path>>>()?;
        self.preferred.choose(&paths, sources, at, nominal)
    }
}
