//! Truechimer: its page, at the count of the moment.

use std::time::Duration;

use truechimer::Clock;
use truechimer_outcome::outcome::Failure;
use truechimer_testbed::binary;
use truechimer_testbed::daemon::{Daemon, Setup};

use super::{Follower, OURS, Said};
use crate::compare::bed::{Bed, SERVER};
use crate::compare::moment::{Counters, Moment};

/// Time that the daemon has to make its page.
const START: Duration = Duration::from_secs(20);

/// The daemon with default settings but for the poll interval.
#[derive(Debug)]
pub struct Truechimer {
    clock: Clock,
    _daemon: Daemon,
}

impl Truechimer {
    /// Starts it.
    ///
    /// # Errors
    /// If it makes no page.
    pub fn start(bed: &Bed, poll: u32) -> Result<Truechimer, Failure> {
        binary::find("truechimer").map_err(|lacking| Failure(lacking.0))?;
        let servers = vec![format!("{SERVER}:123")];
        let network = Some(&bed.net.client);
        let mut daemon = Setup { network, servers, poll, ..Setup::new(&bed.dir, "") }.start();
        let clock = Clock::open_within(Some(&daemon.page), START).map_err(|why| {
            let running = if daemon.process.is_running() { "runs" } else { "has ended" };
            let said = daemon.process.output();
            Failure(format!("the daemon, which {running}: {why}\n{said}"))
        })?;
        Ok(Truechimer { clock, _daemon: daemon })
    }
}

impl Follower for Truechimer {
    fn name(&self) -> &str {
        OURS
    }

    fn ask(&mut self, _: &Counters) {}

    fn said(&mut self, counters: &Counters, moment: &Moment) -> Option<Said> {
        let view = self.clock.view().ok()?;
        // Both count by what `auto` chooses: else the daemon's counts mean nothing here.
        if view.hand.counter.kind != counters.native.kind() {
            return None;
        }
        let reading = view.reading(moment.count, view.status_at(moment.count));
        let unix_ns = i64::try_from(reading.utc().unix_nanos()).ok()?;
        let bound_ns = reading.bound().map(|bound| bound.as_picos() as f64 * 1e-3);
        // Without a bound it says nothing at all.
        bound_ns.map(|_| Said { unix_ns, bound_ns })
    }
}
