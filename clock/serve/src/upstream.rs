//! Source behind the clock that is served: what the page does not say.

use truechimer_ntp::RefId;

/// The source that the clock follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// Stratum: 0 for a reference clock, such as a pulse per second, 1 to 15 for a server.
    pub stratum: u8,
    /// Name in replies.
    pub reference_id: RefId,
}

impl Upstream {
    /// The stratum of who follows it.
    #[must_use]
    pub fn served_stratum(&self) -> u8 {
        self.stratum.saturating_add(1)
    }
}
