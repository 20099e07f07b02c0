//! Why a source has no part in the published time.

use std::fmt;

use truechimer_time::{Rate, Span};

use crate::report::DoubtKind;

/// See the module's text. Spans are never negative.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// No majority agrees on anything; so far away is the nearest of those that it contradicts.
    NoMajority(Option<Span>),
    /// A pulse that meets no majority.
    MeetsNone,
    /// Its interval is so far from where the majority agrees.
    Apart(Span),
    /// What it says now, and its estimator does not believe, is.
    NewsApart(Span),
    /// What it said last was not there.
    LastApart,
    /// It contradicts whoever is followed, by so much.
    Contradicts(String, Span),
    /// Within the majority's interval, but so far from where most of the others probably are.
    Improbable(Span),
    /// Its time has moved, and what it was before had no part.
    Torn,
    /// It runs at another rate than a majority of the servers, by at least so much.
    OtherRate(Rate),
    /// Nothing usable from it for so long.
    Silent(Span),
    /// And for so long that the others are believed without it.
    Lapsed(Span),
    /// It smears a leap second, and others do not.
    Smears,
    /// It is so far off what was known, or nothing was known, and the clock does not go there by
    /// itself.
    Held(Option<Span>),
    /// The user has told to believe another, which it contradicts.
    Overruled,
}

impl Why {
    /// Of which kind the doubt is.
    pub(crate) fn kind(&self) -> DoubtKind {
        match self {
            Why::NoMajority(_) => DoubtKind::NoMajority,
            Why::MeetsNone
            | Why::Apart(_)
            | Why::NewsApart(_)
            | Why::LastApart
            | Why::Overruled => DoubtKind::Falseticker,
            Why::Contradicts(..) | Why::Torn | Why::OtherRate(_) => DoubtKind::Contradiction,
            Why::Improbable(_) => DoubtKind::Improbable,
            Why::Silent(_) | Why::Lapsed(_) => DoubtKind::Silent,
            Why::Smears => DoubtKind::Smear,
            Why::Held(_) => DoubtKind::Held,
        }
    }

    /// By how much it is off, where that is known.
    pub(crate) fn by(&self) -> Option<Span> {
        match self {
            Why::Apart(by) | Why::NewsApart(by) | Why::Contradicts(_, by) | Why::Improbable(by) => {
                Some(*by)
            }
            Why::NoMajority(by) | Why::Held(by) => *by,
            Why::MeetsNone
            | Why::LastApart
            | Why::Torn
            | Why::OtherRate(_)
            | Why::Silent(_)
            | Why::Lapsed(_)
            | Why::Smears
            | Why::Overruled => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NoMajority(None) => f.write_str("no majority agrees at all"),
            Why::NoMajority(Some(by)) => {
                write!(f, "no majority agrees; the nearest that it contradicts is {by} away")
            }
            Why::MeetsNone => f.write_str("it meets no majority"),
            Why::Apart(by) => write!(f, "it is {by} from where the majority agrees"),
            Why::NewsApart(by) => {
                write!(f, "what it says now is {by} from where the majority agrees")
            }
            Why::LastApart => f.write_str("what it said last was not where the majority agrees"),
            Why::Contradicts(name, by) => {
                write!(f, "it contradicts {name}, which is followed, by {by}")
            }
            Why::Improbable(by) => {
                write!(f, "it is {by} from where most of the others probably are")
            }
            Why::Torn => f.write_str("its time has moved, and what it said before had no part"),
            Why::OtherRate(by) => {
                write!(f, "its rate is {by} from where the majority's is")
            }
            Why::Silent(age) => write!(f, "nothing usable from it for {age}"),
            Why::Lapsed(age) => {
                write!(f, "nothing usable from it for {age}: no vote until it answers again")
            }
            Why::Smears => f.write_str("it smears the leap second; others do not"),
            Why::Held(Some(by)) => write!(f, "held off: it is {by:+} off what was known"),
            Why::Held(None) => f.write_str("held off: the clock has no time by its word alone"),
            Why::Overruled => f.write_str("it contradicts the one that you have accepted"),
        }
    }
}
