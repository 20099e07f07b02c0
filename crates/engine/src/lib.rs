//! What the clock does, without I/O: events in, actions out.
#![forbid(unsafe_code)]
mod config;
mod event;
mod report;
pub use config::{Config, DEFAULT_POLL, EstimatorKind, NTP_PORT, POLL_RANGE, SourceConfig};
pub use event::{Action, Event, HostCheck, Level, Saved, SourceId, Start, Steer, SystemReading};
pub use report::{Report, Selection, SourceReport};
use truechimer_time::Count;

/// The engine.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// Starts the engine; the actions are the first to do.
    #[must_use]
    pub fn new(_config: Config, _start: Start) -> (Engine, Vec<Action>) {
        todo!()
    }
    /// Takes in an event that the caller noticed at `at`, and says what to do about it.
    #[must_use]
    pub fn handle(&mut self, _at: Count, _event: Event) -> Vec<Action> {
        todo!()
    }
    /// When [`Event::Timer`] is wanted next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Count> {
        todo!()
    }
    /// What the engine knows, for `sources` and `status`.
    #[must_use]
    pub fn report(&self, _now: Count) -> Report {
        todo!()
    }
    /// What is worth keeping across boots.
    #[must_use]
    pub fn saved(&self, _now: Count) -> Option<Saved> {
        todo!()
    }
}
