//! Running the daemon: start, loop, end.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use truechimer_clockbound::PageError as ClockBoundError;
use truechimer_counter::CounterError;
use truechimer_engine::Level;
use truechimer_notify::Service;
use truechimer_timehands::PageError;

use crate::config::{ConfigError, Settings};
use crate::daemon::Daemon;
use crate::options::Options;

/// Reasons why the daemon could not start, or go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum DaemonError {
    /// The configuration is wrong.
    Config(ConfigError),
    /// The counter cannot be used.
    Counter(CounterError),
    /// The clock page cannot be written.
    Page(PageError),
    /// Somebody else decides where the path of the clock page leads.
    PagePlace {
        /// The page.
        path: PathBuf,
        /// Obstacle on the way.
        why: io::Error,
    },
    /// A page for clients of ClockBound cannot be written.
    ClockBound(ClockBoundError),
    /// Pages for clients of ClockBound are not for this machine as it is.
    NoClockBound {
        /// Reason, for people.
        reason: String,
    },
    /// The counter has become useless while the daemon ran.
    CounterLost {
        /// Event that did it.
        reason: String,
    },
    /// The system refuses what nothing goes without.
    System {
        /// Service that was refused.
        what: &'static str,
        /// Error of the operating system.
        why: io::Error,
    },
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DaemonError::Config(error) => error.fmt(f),
            DaemonError::Counter(error) => error.fmt(f),
            DaemonError::Page(error) => error.fmt(f),
            DaemonError::PagePlace { path, why } => {
                write!(f, "cannot make the clock page {}: {why}", path.display())
            }
            DaemonError::ClockBound(error) => error.fmt(f),
            DaemonError::NoClockBound { reason } => f.write_str(reason),
            DaemonError::CounterLost { reason } => write!(
                f,
                "{reason}; restart with --counter raw (--counter auto, the default, chooses it \
                 by itself)"
            ),
            DaemonError::System { what, why } => write!(f, "{what}: {why}"),
        }
    }
}

impl std::error::Error for DaemonError {}

impl DaemonError {
    /// Names the line of the key that is at fault, if it stands in a file.
    fn placed(self, settings: &Settings) -> DaemonError {
        let key = match &self {
            DaemonError::Counter(_) => "counter",
            DaemonError::Page(_) | DaemonError::PagePlace { .. } => "page",
            DaemonError::ClockBound(ClockBoundError::NoDirectory { .. }) => "clockbound.directory",
            DaemonError::ClockBound(_) | DaemonError::NoClockBound { .. } => "clockbound.pages",
            DaemonError::Config(_)
            | DaemonError::CounterLost { .. }
            | DaemonError::System { .. } => {
                return self;
            }
        };
        let problem = settings.line(key).map(|_| settings.problem(key, self.to_string()));
        match ConfigError::unless_empty(problem.into_iter().collect()) {
            Err(placed) => DaemonError::Config(placed),
            Ok(()) => self,
        }
    }
}

impl From<ConfigError> for DaemonError {
    fn from(error: ConfigError) -> DaemonError {
        DaemonError::Config(error)
    }
}

impl From<CounterError> for DaemonError {
    fn from(error: CounterError) -> DaemonError {
        DaemonError::Counter(error)
    }
}

impl From<PageError> for DaemonError {
    fn from(error: PageError) -> DaemonError {
        DaemonError::Page(error)
    }
}

/// Runs the daemon on this thread until `stop` is set.
///
/// `stop` and `reload` are looked at whenever something happens, and once a second at the latest;
/// a signal whose handler sets one of them ends the wait at once. `reload` is cleared and the
/// configuration read again, with the same options on top; if that fails the old one stays in
/// force. `service` is told when the clock page is there, and on every turn that the loop goes on.
/// `notes` gets what a user should hear, one line at a time, and must not block.
///
/// The clock page is where the options or the configuration say, or else at
/// [`truechimer_timehands::places::for_daemon`].
///
/// # Errors
/// If the configuration is wrong, the counter cannot be used, or another daemon writes the page.
/// Once it runs, next to nothing stops it: servers, network, disk and system clock may fail. What
/// does is a counter that the kernel finds unstable, or that stands still.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    reload: &AtomicBool,
    service: &mut Service,
    notes: &mut dyn FnMut(Level, &str),
) -> Result<(), DaemonError> {
    let settings = options.settings()?;
    let mut daemon = Daemon::start(settings.clone(), notes).map_err(|why| why.placed(&settings))?;
    daemon.reads_again_by(options);
    service.ready();
    while !stop.load(Ordering::Relaxed) {
        if reload.swap(false, Ordering::Relaxed) {
            service.reloading();
            // The log says what came of it.
            let _ = daemon.read_again();
            service.ready();
        }
        service.alive();
        if let Err(why) = daemon.turn() {
            daemon.finish();
            return Err(why);
        }
    }
    service.stopping();
    daemon.finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_the_counter_hears_how_to_go_on() {
        let reason = "the kernel has found the TSC unstable".to_owned();
        let told = DaemonError::CounterLost { reason: reason.clone() }.to_string();
        assert!(told.starts_with(&reason) && told.contains("restart with --counter raw"), "{told}");
    }
}
