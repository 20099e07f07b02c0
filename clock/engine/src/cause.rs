//! Causes of a source's status: what selection, the gate and the schedule found, in detail.

use alloc::string::String;
use core::fmt;

use truechimer_time::{Rate, Span};

use crate::bar::Bar;
use crate::report::ReasonKind;

/// The cause of a source's status. Spans are never negative, except of [`Cause::Limit`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The name cannot be looked up.
    NoAddress,
    /// No keys could be had for it.
    NoKeys,
    /// Nothing usable came in answer to its requests, or from a reference clock.
    NoReply,
    /// Refuses service.
    KissCode,
    /// Not asked, by the user's word.
    Offline,
    /// Nothing usable from it for so long.
    Stale(Span),
    /// And for so long that the others are believed without it.
    TimedOut(Span),
    /// Only asked and shown, as configured.
    NoSelect,
    /// Carries no proof, which is required.
    Unauthenticated,
    /// None of those that it is believed within has an estimate.
    Unvouched,
    /// Server that this other source is already.
    SameServer(String),
    /// Asked beside a server of its pool, whose place it takes once it has answered.
    OnTrial,
    /// Smears a leap second, and votes; no part beside one that does not and agrees.
    LeapSmear,
    /// The user has told to believe another, which it contradicts.
    Overruled,
    /// Others have yet to answer.
    Waiting,
    /// No majority agrees on anything; so far away is the nearest of those that it contradicts.
    NoMajority(Option<Span>),
    /// A source without a vote that meets neither those that have one nor most of the others.
    MeetsNobody,
    /// The interval is so far from where the majority agrees.
    Outvoted(Span),
    /// That of its newest samples, which are held off, is.
    NewestOutvoted(Span),
    /// The last samples were found to be there.
    LastOutvoted,
    /// Contradicts the one that leads, by so much.
    ContradictsSelected(String, Span),
    /// Runs at another rate than a majority of the servers, by at least so much.
    RateDiffers(Rate),
    /// Within the majority's interval, but so far from where most of the others probably are.
    Outlier(Span),
    /// A step of its time, and what it was before had no part.
    StepWithoutPart,
    /// The clock does not go where it is by itself: so far off what was known, if anything was.
    Limit(Bar, Option<Span>),
}

impl Cause {
    /// The word for it.
    pub(crate) fn kind(&self) -> ReasonKind {
        match self {
            Cause::NoAddress => ReasonKind::NoAddress,
            Cause::NoKeys => ReasonKind::NoKeys,
            Cause::NoReply => ReasonKind::NoReply,
            Cause::KissCode => ReasonKind::KissCode,
            Cause::Offline => ReasonKind::Offline,
            Cause::Stale(_) | Cause::TimedOut(_) => ReasonKind::Stale,
            Cause::NoSelect => ReasonKind::Noselect,
            Cause::Unauthenticated => ReasonKind::Unauthenticated,
            Cause::Unvouched => ReasonKind::Unvouched,
            Cause::SameServer(_) => ReasonKind::SameServer,
            Cause::OnTrial => ReasonKind::OnTrial,
            Cause::LeapSmear => ReasonKind::LeapSmear,
            Cause::Overruled => ReasonKind::Overruled,
            Cause::Waiting => ReasonKind::Waiting,
            Cause::NoMajority(_) => ReasonKind::NoMajority,
            Cause::MeetsNobody
            | Cause::Outvoted(_)
            | Cause::NewestOutvoted(_)
            | Cause::LastOutvoted => ReasonKind::Outvoted,
            Cause::ContradictsSelected(..) => ReasonKind::ContradictsSelected,
            Cause::RateDiffers(_) => ReasonKind::RateDiffers,
            Cause::Outlier(_) => ReasonKind::Outlier,
            Cause::StepWithoutPart => ReasonKind::StepSuspected,
            Cause::Limit(bar, _) => bar.reason(),
        }
    }

    /// By how much it is off, where that is known.
    pub(crate) fn by(&self) -> Option<Span> {
        match self {
            Cause::Outvoted(by)
            | Cause::NewestOutvoted(by)
            | Cause::ContradictsSelected(_, by)
            | Cause::Outlier(by) => Some(*by),
            Cause::NoMajority(by) | Cause::Limit(_, by) => *by,
            _ => None,
        }
    }

    /// True if it keeps a source from being selected, or from that as yet, whatever else is held
    /// against it.
    pub(crate) fn comes_first(&self) -> bool {
        use Cause::{NoSelect, OnTrial, Overruled, SameServer, Unauthenticated, Waiting};
        matches!(self, NoSelect | Unauthenticated | SameServer(_) | OnTrial | Overruled | Waiting)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoAddress => f.write_str("its name cannot be looked up"),
            Cause::NoKeys => f.write_str("there are no keys for it"),
            Cause::NoReply => f.write_str("nothing usable has come from it"),
            Cause::KissCode => f.write_str("it refuses service"),
            Cause::Offline => f.write_str("offline, by your word: not asked"),
            Cause::Stale(age) => write!(f, "nothing usable from it for {age}"),
            Cause::TimedOut(age) => {
                write!(f, "nothing usable from it for {age}: no vote until it answers again")
            }
            Cause::NoSelect => f.write_str("noselect, as configured"),
            Cause::Unauthenticated => {
                f.write_str("it does not prove who it is, and authentication = \"require\"")
            }
            Cause::Unvouched => {
                f.write_str("no source that is authenticated or trusted vouches for it yet")
            }
            Cause::SameServer(of) => write!(f, "the same address as {of}: counted once"),
            Cause::OnTrial => {
                f.write_str("asked beside a server of its pool, whose place it takes once it has answered")
            }
            Cause::LeapSmear => f.write_str(
                "it smears the leap second, and another that agrees does not: it votes, and has no part",
            ),
            Cause::Overruled => f.write_str("it contradicts the one that you have accepted"),
            Cause::Waiting => f.write_str("other servers have yet to answer"),
            Cause::NoMajority(None) => f.write_str("no majority agrees at all"),
            Cause::NoMajority(Some(by)) => {
                write!(f, "no majority agrees; the nearest that it contradicts is {by} away")
            }
            Cause::MeetsNobody => f.write_str("it meets no majority"),
            Cause::Outvoted(by) => write!(f, "it is {by} from where the majority agrees"),
            Cause::NewestOutvoted(by) => {
                write!(f, "what it says now is {by} from where the majority agrees")
            }
            Cause::LastOutvoted => {
                f.write_str("what it said last was not where the majority agrees")
            }
            Cause::ContradictsSelected(name, by) => {
                write!(f, "it contradicts {name}, which is selected, by {by}")
            }
            Cause::RateDiffers(by) => write!(f, "its rate is {by} from where the majority's is"),
            Cause::Outlier(by) => {
                write!(f, "outlier: it is {by} from where most of the others probably are")
            }
            Cause::StepWithoutPart => {
                f.write_str("its time has moved, and what it said before had no part")
            }
            Cause::Limit(_, Some(by)) => write!(f, "held off: it is {by:+} off what was known"),
            Cause::Limit(_, None) => {
                f.write_str("held off: the clock has no time by its word alone")
            }
        }
    }
}
