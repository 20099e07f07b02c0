//! Trust in a source: its status, its share in the published time, and what is held against it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use truechimer_time::Count;

use crate::bar::Bar;
use crate::cause::Cause;
use crate::report::SourceStatus;

/// Verdict of selection on a source, and what it remembers of it for the next time.
#[derive(Debug)]
pub(crate) struct Trust {
    status: SourceStatus,
    weight: Option<f64>,
    cause: Option<Cause>,
    /// True if its newest samples were found to be false, by others; until one is used again.
    pub(crate) is_newest_false: bool,
    /// True if its filter began with the time of a clock page that is not known to be its own.
    pub(crate) foreign_start: bool,
    /// Agreed with that time, by what an earlier daemon has kept.
    pub(crate) agreed: bool,
    /// When others' votes last made it believed where it had moved to.
    pub(crate) moved: Option<Count>,
    /// Reason why its hold-off does not end by itself.
    pub(crate) bar: Option<Bar>,
    /// When its hold-off ends at the latest, as others vouch for it.
    pub(crate) vouched: Option<Count>,
    /// The user has told to believe another that contradicts it: no vote until it agrees.
    pub(crate) overruled: bool,
    same: Option<SameServer>,
}

/// The server that a source turned out to be, as another source is it already.
#[derive(Debug)]
struct SameServer {
    of: String,
    told: bool,
}

impl Default for Trust {
    fn default() -> Trust {
        Trust {
            status: SourceStatus::Unreachable,
            weight: None,
            cause: None,
            is_newest_false: false,
            foreign_start: false,
            agreed: false,
            moved: None,
            bar: None,
            vouched: None,
            overruled: false,
            same: None,
        }
    }
}

impl Trust {
    pub(crate) fn status(&self) -> SourceStatus {
        self.status
    }

    pub(crate) fn is_selected(&self) -> bool {
        self.status == SourceStatus::Selected
    }

    /// True if it has a part in the published time, or leads it.
    pub(crate) fn is_part(&self) -> bool {
        matches!(self.status, SourceStatus::Combined | SourceStatus::Selected)
    }

    /// True if it agrees with the majority.
    pub(crate) fn agrees(&self) -> bool {
        self.status.agrees()
    }

    /// True if it does so with its vote, though a smear of a leap second may keep it from having a part.
    pub(crate) fn votes_with_most(&self) -> bool {
        self.agrees() || matches!(self.cause, Some(Cause::LeapSmear))
    }

    /// Sets its status, and why it has that; it has no part as yet.
    pub(crate) fn set(&mut self, status: SourceStatus, cause: Option<Cause>) {
        self.status = status;
        self.weigh(None, cause);
    }

    /// Sets its status alone.
    pub(crate) fn mark(&mut self, status: SourceStatus) {
        self.status = status;
    }

    /// Sets its share in the published time, and why it has none if it could have.
    pub(crate) fn weigh(&mut self, weight: Option<f64>, cause: Option<Cause>) {
        (self.weight, self.cause) = (weight, cause);
    }

    /// Share in the published time, 0 to 1, if it has a part.
    pub(crate) fn weight(&self) -> Option<f64> {
        self.weight
    }

    /// Cause of its status.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// True if the clock does not go where it is.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.cause, Some(Cause::Limit(..)))
    }

    /// True if it had a part in the time that was published last.
    pub(crate) fn was_part(&self) -> bool {
        self.weight.is_some()
    }

    /// True if selection has yet to decide on it, or never will.
    pub(crate) fn is_undecided(&self) -> bool {
        use Cause::{SameServer, Waiting};
        match self.status {
            SourceStatus::Unreachable => true,
            SourceStatus::Candidate | SourceStatus::Unselectable => {
                matches!(self.cause, Some(SameServer(_) | Waiting))
            }
            _ => false,
        }
    }

    /// Takes it for the server that `other` is already. Returns the trouble.
    pub(crate) fn take_for(&mut self, other: &str) -> String {
        if self.same.as_ref().is_none_or(|same| same.of != other) {
            self.same = Some(SameServer { of: other.to_owned(), told: false });
        }
        format!("the same address as {other}: counted once")
    }

    /// Takes it for a server of its own: no other source counts before it at its address. Returns whether that is new.
    pub(crate) fn take_for_itself(&mut self) -> bool {
        self.same.take().is_some()
    }

    /// The source that is its server already, if there is one.
    pub(crate) fn same_server(&self) -> Option<&str> {
        self.same.as_ref().map(|same| same.of.as_str())
    }

    /// News, once, that it is the server that another is already.
    pub(crate) fn same_server_news(&mut self) -> Option<String> {
        let same = self.same.as_mut().filter(|same| !same.told)?;
        same.told = true;
        Some(format!(
            "is at the same address as {}: the two count as one server, so this one has no vote and \
             no part in the time",
            same.of
        ))
    }

    /// Another server answers by its name: nothing is held against that one.
    pub(crate) fn change_server(&mut self) {
        (self.is_newest_false, self.moved, self.agreed) = (false, None, false);
        (self.bar, self.vouched) = (None, None);
    }

    /// The counter broke: neither is a count of before worth anything, nor what was held against
    /// what was said then.
    pub(crate) fn new_epoch(&mut self) {
        self.status = SourceStatus::Unreachable;
        (self.foreign_start, self.agreed) = (false, false);
        (self.moved, self.cause) = (None, None);
        (self.bar, self.vouched) = (None, None);
    }
}
