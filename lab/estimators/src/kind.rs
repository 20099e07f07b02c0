//! One estimator of the table, whatever its type.

use core::any::Any;
use core::fmt;

use serde::{Serialize, Serializer};
use truechimer_engine::{Beginning, Method};
use truechimer_feedforward::Estimator;
use truechimer_time::{Count, Span};

use crate::comparison::Comparison;
use crate::{Compared, OURS, TABLE};

/// A line of the table: an estimator's name, what it is, and how to make one.
#[derive(Clone, Copy, Debug)]
pub struct Row<E> {
    name: &'static str,
    about: &'static str,
    make: fn(&Beginning) -> E,
    bounded: bool,
    pulses: bool,
}

impl<E> Row<E> {
    /// An estimator that is called `name` on the command line; `about` is a line for the help.
    ///
    /// Its bound promises nothing, so that one server is followed at a time, and it takes pulses.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, make: fn(&Beginning) -> E) -> Row<E> {
        Row { name, about, make, bounded: false, pulses: true }
    }

    /// Marks its bound as one that holds: several servers are combined by the agreement of their
    /// bounds, and a simulation fails where the truth is outside.
    #[must_use]
    pub const fn bounded(self) -> Row<E> {
        Row { bounded: true, ..self }
    }

    /// Marks it as one that works by round trips, and takes no pulses per second.
    #[must_use]
    pub const fn without_pulses(self) -> Row<E> {
        Row { pulses: false, ..self }
    }
}

/// An estimator that can be compared.
#[derive(Clone, Copy)]
pub struct Kind(&'static dyn AnyRow);

impl Kind {
    /// The estimator of this line, be it in the table or not. It has to be `Clone` for studies in
    /// which several things happen to copies of one clock.
    #[must_use]
    pub const fn of<E: Compared + Clone>(row: &'static Row<E>) -> Kind {
        Kind(row)
    }

    /// The one of this name in the table.
    #[must_use]
    pub fn find(name: &str) -> Option<Kind> {
        TABLE.iter().copied().find(|kind| kind.name() == name)
    }

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Description in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.0.about()
    }

    /// True if its bound is a promise.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        self.0.is_bounded()
    }

    /// A new one.
    #[must_use]
    pub fn estimator(self, beginning: &Beginning) -> Box<dyn Estimator> {
        self.0.estimator(beginning)
    }

    /// Another one that knows what this one does; `None` if this one is of another kind.
    #[must_use]
    pub fn copy(self, estimator: &dyn Estimator) -> Option<Box<dyn Estimator>> {
        self.0.copy(estimator)
    }

    /// A method for the engine, by which every source gets one.
    #[must_use]
    pub fn method(self) -> Box<dyn Method> {
        Box::new(Comparison::new(self))
    }

    /// Result of [`Compared::poll_advice`] for an estimator of this kind.
    #[must_use]
    pub fn poll_advice(self, estimator: &dyn Estimator) -> Option<u32> {
        self.0.poll_advice(estimator)
    }

    pub(crate) fn row(self) -> &'static dyn AnyRow {
        self.0
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Kind {}

impl Default for Kind {
    fn default() -> Kind {
        OURS
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A line of whatever type. Questions about an estimator of another type have the answer of one
/// that leaves [`Compared`] as it is.
pub(crate) trait AnyRow: Sync {
    fn name(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn is_bounded(&self) -> bool;
    fn takes_pulses(&self) -> bool;
    fn estimator(&self, beginning: &Beginning) -> Box<dyn Estimator>;
    fn copy(&self, estimator: &dyn Estimator) -> Option<Box<dyn Estimator>>;
    fn set_poll(&self, estimator: &mut dyn Estimator, seconds: u32);
    fn poll_advice(&self, estimator: &dyn Estimator) -> Option<u32>;
    fn renew_after(&self, estimator: &dyn Estimator) -> Option<Span>;
    fn penalty(&self, estimator: &dyn Estimator, at: Count) -> Option<Span>;
}

impl<E: Compared + Clone> AnyRow for Row<E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn is_bounded(&self) -> bool {
        self.bounded
    }

    fn takes_pulses(&self) -> bool {
        self.pulses
    }

    fn estimator(&self, beginning: &Beginning) -> Box<dyn Estimator> {
        Box::new((self.make)(beginning))
    }

    fn copy(&self, estimator: &dyn Estimator) -> Option<Box<dyn Estimator>> {
        Some(Box::new(own::<E>(estimator)?.clone()))
    }

    fn set_poll(&self, estimator: &mut dyn Estimator, seconds: u32) {
        let estimator: &mut dyn Any = estimator;
        if let Some(estimator) = estimator.downcast_mut::<E>() {
            estimator.set_poll(seconds);
        }
    }

    fn poll_advice(&self, estimator: &dyn Estimator) -> Option<u32> {
        own::<E>(estimator)?.poll_advice()
    }

    fn renew_after(&self, estimator: &dyn Estimator) -> Option<Span> {
        Some(own::<E>(estimator)?.renew_after())
    }

    fn penalty(&self, estimator: &dyn Estimator, at: Count) -> Option<Span> {
        own::<E>(estimator)?.penalty(at)
    }
}

fn own<E: Estimator>(estimator: &dyn Estimator) -> Option<&E> {
    let estimator: &dyn Any = estimator;
    estimator.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NTP_PLL, PI, PUBLISHED};
    use truechimer_feedforward::{ACCEPT_STEP_AFTER, RatePrior, Settings};
    use truechimer_time::{CountSpan, Period, Rate};

    fn beginning(poll: u32) -> Beginning {
        let period = Period::NANOSECOND;
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(500),
            accept_step_after: ACCEPT_STEP_AFTER,
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period, error: Rate::from_ppb(500_000) };
        Beginning { settings, rate, time: None, poll }
    }

    #[test]
    fn names_are_unlike_and_lead_back() {
        for (k, kind) in TABLE.iter().enumerate() {
            assert_eq!(TABLE.iter().position(|other| other == kind), Some(k));
            assert_eq!(Kind::find(kind.name()), Some(*kind));
            assert!(!kind.about().is_empty() && !kind.about().contains('\n'));
            assert_eq!(kind.method().name(), kind.name());
        }
        assert_eq!((TABLE[0], Kind::default()), (OURS, OURS));
        assert_eq!(Kind::find("nobody"), None);
    }

    #[test]
    fn an_estimator_is_asked_what_only_its_kind_knows() {
        let mut pll = NTP_PLL.estimator(&beginning(64));
        assert_eq!(NTP_PLL.poll_advice(pll.as_ref()), Some(64));
        NTP_PLL.row().set_poll(pll.as_mut(), 128);
        assert_eq!(NTP_PLL.poll_advice(pll.as_ref()), Some(128));
        assert_eq!(NTP_PLL.row().renew_after(pll.as_ref()), Some(Span::from_secs(1)));
        let copy = NTP_PLL.copy(pll.as_ref());
        assert_eq!(copy.and_then(|copy| NTP_PLL.poll_advice(copy.as_ref())), Some(128));
        assert!(PI.copy(pll.as_ref()).is_none());
        // Of another kind, it is as one that has nothing to say.
        PI.row().set_poll(pll.as_mut(), 32);
        assert_eq!(NTP_PLL.poll_advice(pll.as_ref()), Some(128));
        assert_eq!(PUBLISHED.row().penalty(pll.as_ref(), Count(0)), None);
        assert_eq!(OURS.row().renew_after(pll.as_ref()), None);
    }
}
