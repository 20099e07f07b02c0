//! Reasons why the clock does not go where servers put it.

use alloc::format;
use alloc::string::String;
use core::fmt;

use truechimer_time::{Date, Span};

use crate::report::ReasonKind;

/// A reason that only the user's word, more servers, or time ([`Bar::Undecided`]) can lift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bar {
    /// So few say so, of at least so many.
    TooFew {
        /// Number of those that say so.
        agree: usize,
        /// `min-sources`.
        least: usize,
    },
    /// None of those that are required says so.
    Required,
    /// So few of those that say so have been believed by now; a majority would be so many.
    Undecided {
        /// Number of those that are believed.
        said: usize,
        /// Number that makes a majority.
        majority: usize,
    },
    /// On the servers' word alone the time would have moved by more than this.
    TooFar {
        /// `max-step`.
        limit: Span,
    },
    /// Earlier than the program: released at that Unix time, s.
    BeforeRelease(i64),
    /// The kernel's clocks, which tell how much time has passed since the counter broke, have not
    /// been read since: they are within a second.
    Unchecked,
    /// Far off what a witness on this machine says; positive: ahead of that.
    Unlikely {
        /// Distance from what the witness says.
        by: Span,
        /// The witness.
        witness: Witness,
    },
}

/// A clock of this machine that servers cannot reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Witness {
    /// The real-time clock.
    Rtc,
    /// The time at which the state was saved last, or that was known before the machine was moved.
    Saved,
    /// Knowledge from before the counter broke, and the kernel's clocks since.
    Kernel,
}

impl Bar {
    /// True if `other` is no news beside it: how far off a time is changes with each reply.
    pub(crate) fn is_like(&self, other: &Bar) -> bool {
        match (self, other) {
            (Bar::Unlikely { witness, .. }, Bar::Unlikely { witness: other, .. }) => {
                witness == other
            }
            _ => self == other,
        }
    }
}

impl Bar {
    /// The word for it.
    pub(crate) fn reason(&self) -> ReasonKind {
        match self {
            Bar::TooFew { .. } => ReasonKind::MinSources,
            Bar::Required => ReasonKind::Require,
            Bar::Undecided { .. } => ReasonKind::MajorityPending,
            Bar::TooFar { .. } => ReasonKind::MaxStep,
            Bar::BeforeRelease(_) | Bar::Unchecked | Bar::Unlikely { .. } => {
                ReasonKind::Implausible
            }
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::TooFew { agree, least } => {
                let say = if *agree == 1 { "says" } else { "say" };
                write!(f, "only {agree} of min-sources = {least} {say} so")
            }
            Bar::Required => f.write_str("no source with require = true says so"),
            Bar::Undecided { said, majority } => {
                write!(f, "believed there so far: {said}, of a majority of {majority}")
            }
            Bar::TooFar { limit } => write!(
                f,
                "servers alone would then have moved the time by more than max-step ({limit})"
            ),
            Bar::BeforeRelease(built) => {
                let Date { year, month, .. } = Date::of(built.div_euclid(86_400));
                write!(f, "that is before this program was released (in {year}-{month:02})")
            }
            Bar::Unchecked => {
                f.write_str("the kernel's clocks have yet to be read since the break")
            }
            Bar::Unlikely { by, witness } => {
                let witness = match witness {
                    Witness::Rtc => "the machine's real-time clock",
                    Witness::Saved => "the time that was saved or known last",
                    Witness::Kernel => "what the kernel's clocks say has passed since the break",
                };
                write!(f, "that is {by:+} off {witness}")
            }
        }
    }
}

/// Remedies for the user, where a server's word is held off against what was known.
pub(crate) fn remedies(name: &str) -> String {
    format!("; to believe it now: {}, or truechimer run --fresh", remedy(name))
}

/// Remedy where nothing was known that could be forgotten.
pub(crate) fn remedy(name: &str) -> String {
    format!("truechimer accept {name}")
}
