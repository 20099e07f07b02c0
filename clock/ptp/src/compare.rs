//! Best of two masters: the data set comparison of the best master clock algorithm (9.3.4).

use core::cmp::Ordering;

use crate::{Announce, PortIdentity};

/// Description of a master, with the port that it came from, as figure 34 and 35 compare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSet {
    /// The grandmaster and the way to it.
    pub announce: Announce,
    /// The port that sent the description.
    pub sender: PortIdentity,
    /// The port that received it.
    pub receiver: PortIdentity,
}

impl DataSet {
    /// Order of two masters: [`Ordering::Less`] if this one is the better, also if only by topology.
    /// [`Ordering::Equal`] where the standard has an error: one message seen twice, or one of the
    /// receiver's own.
    #[must_use]
    pub fn compare(&self, other: &DataSet) -> Ordering {
        let (a, b) = (&self.announce, &other.announce);
        if a.grandmaster == b.grandmaster {
            return self.compare_paths(other);
        }
        self.compare_quality(other).then(a.grandmaster.cmp(&b.grandmaster))
    }

    /// Order of two masters by what their grandmasters say of themselves, whichever they are.
    pub(crate) fn compare_quality(&self, other: &DataSet) -> Ordering {
        let (a, b) = (&self.announce, &other.announce);
        a.priority1
            .cmp(&b.priority1)
            .then(a.quality.class.cmp(&b.quality.class))
            .then(a.quality.accuracy.cmp(&b.quality.accuracy))
            .then(a.quality.variance.cmp(&b.quality.variance))
            .then(a.priority2.cmp(&b.priority2))
    }

    /// Order of two ways to one grandmaster (figure 35).
    fn compare_paths(&self, other: &DataSet) -> Ordering {
        let (a, b) = (self.announce.steps_removed, other.announce.steps_removed);
        match (a.abs_diff(b), a.cmp(&b)) {
            (0, _) => {
                self.sender.cmp(&other.sender).then(self.receiver.port.cmp(&other.receiver.port))
            }
            // The longer way is worse, but for one that leads back to the receiver itself.
            (1, Ordering::Greater) if self.receiver == self.sender => Ordering::Equal,
            (1, Ordering::Less) if other.receiver == other.sender => Ordering::Equal,
            (_, order) => order,
        }
    }
}
