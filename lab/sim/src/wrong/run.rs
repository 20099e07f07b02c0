//! One run: what an estimator makes of a case, and what of that counts.

use truechimer_estimators::Kind;
use truechimer_feedforward::number::seconds;
use truechimer_feedforward::{Accepted, Estimate, Estimator, Refusal};

use super::cases::{Case, Setup, Way};
use super::exchanges::{Exchanges, Heard};
use crate::coverage::Coverage;
use crate::scenario::ScenarioError;
use crate::stamps::{Declared, Stamped};

/// A clock is near a server that stays wrong if it is within this share of what that is wrong by.
const NEAR: f64 = 0.25;

/// Outcome of one run. Errors are those of the clock, read once a second, in s.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// Time from its beginning until the first exchange was held off while the server was wrong, s.
    pub held_after: Option<f64>,
    /// ... or the exchanges were first seen to break what the oscillator promises.
    pub doubted_after: Option<f64>,
    /// The largest error from the beginning until `until`; NaN where that is no time at all.
    pub during: f64,
    /// The largest error after the end; NaN where the server stays wrong.
    pub after: f64,
    /// For how many seconds the truth was outside of the bound, where that was promised.
    pub outside: usize,
    /// Time from the end (of an honest server: from the beginning) until the error came to stay
    /// below `right`, s; to the end of the run where it never did. NaN where the server stays
    /// wrong.
    pub right_after: f64,
    /// Time from the beginning until the clock went over to a server that stays wrong, s; `None`
    /// also where that is too little to show.
    pub believed_after: Option<f64>,
    /// The longest time for which a server that was right was held off, s.
    pub held_honest: f64,
    /// Coverage of the truth by the likely intervals, in the same seconds.
    pub likely: Coverage,
    /// True if the clock was led astray: an error beyond `right`, or, of a server that stays wrong,
    /// believed before `accept-step-after`.
    pub misled: bool,
}

/// Event in a run, for whoever reads one.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// When, s since what the case is about began.
    pub at: f64,
    /// Error of the clock then, s; NaN where there is none.
    pub error: f64,
    /// Bound of that error, s; NaN where there is none.
    pub bound: f64,
    /// Event, in words.
    pub what: String,
}

/// Record of one run beside its outcome.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Record {
    /// In the order of time.
    pub events: Vec<Event>,
    /// The exchanges, as a stamp file has them.
    pub stamps: Vec<Stamped>,
    /// Declarations that hold of all of them.
    pub declared: Declared,
}

/// Runs a case under a seed, the one that its setup was made with.
///
/// # Errors
/// If the scenario makes no sense.
pub fn run(setup: &Setup, kind: Kind, seed: u64) -> Result<Outcome, ScenarioError> {
    Ok(recorded(setup, kind, seed)?.0)
}

/// Runs it like [`run`], and records all that happened.
///
/// # Errors
/// As [`run`].
pub fn recorded(setup: &Setup, kind: Kind, seed: u64) -> Result<(Outcome, Record), ScenarioError> {
    let mut run = Run::new(setup, kind, seed)?;
    run.go();
    Ok((run.outcome(), run.record))
}

/// Runs some cases over a path under a seed. The honest time before is the same for all of them,
/// and worked out once.
///
/// # Errors
/// If a scenario makes no sense.
pub fn run_all(
    cases: &[Case],
    way: &Way,
    accept_step_after_s: f64,
    kind: Kind,
    seed: u64,
) -> Result<Vec<Outcome>, ScenarioError> {
    let setups: Vec<Setup> =
        cases.iter().map(|case| case.setup(way, seed, accept_step_after_s)).collect();
    // Before it begins, any of those that begin late is as good as the others.
    let late = setups.iter().find(|setup| setup.from > 0.0);
    let before = late.map(|setup| Before::new(setup, kind, seed)).transpose()?;
    let outcome = |setup: &Setup| match before.as_ref().filter(|before| before.to == setup.from) {
        Some(before) => before.go_on(setup, seed),
        None => run(setup, kind, seed),
    };
    setups.iter().map(outcome).collect()
}

/// The time before anything happens.
struct Before {
    /// Until when, s.
    to: f64,
    /// Number of exchanges heard by then.
    heard: usize,
    kind: Kind,
    estimator: Box<dyn Estimator>,
    held_since: Option<f64>,
    strays: bool,
}

impl Before {
    fn new(setup: &Setup, kind: Kind, seed: u64) -> Result<Before, ScenarioError> {
        let mut run = Run::new(setup, kind, seed)?;
        let mut heard = 0;
        while let Some(next) = run.exchanges.next_heard().filter(|next| next.at < setup.from) {
            run.hear(&next);
            heard += 1;
        }
        let Run { estimator, held_since, strays, .. } = run;
        Ok(Before { to: setup.from, heard, kind, estimator, held_since, strays })
    }

    fn go_on(&self, setup: &Setup, seed: u64) -> Result<Outcome, ScenarioError> {
        let Some(estimator) = self.kind.copy(self.estimator.as_ref()) else {
            return run(setup, self.kind, seed);
        };
        let mut exchanges = Exchanges::new(&setup.scenario, seed)?;
        for _ in 0..self.heard {
            exchanges.next_heard();
        }
        let mut run = Run::with(setup, exchanges, estimator);
        (run.held_since, run.strays) = (self.held_since, self.strays);
        run.go();
        Ok(run.outcome())
    }
}

struct Run<'s> {
    setup: &'s Setup,
    exchanges: Exchanges,
    estimator: Box<dyn Estimator>,
    /// When the server was first held off in a row, s.
    held_since: Option<f64>,
    strays: bool,
    is_outside: bool,
    /// The newest second in which the error was not below `right`.
    last_off: f64,
    /// The newest second in which the clock was not near a server that stays wrong.
    last_true: f64,
    /// The newest second in which there was a clock.
    last_read: f64,
    outcome: Outcome,
    record: Record,
}

impl<'s> Run<'s> {
    fn new(setup: &'s Setup, kind: Kind, seed: u64) -> Result<Run<'s>, ScenarioError> {
        let exchanges = Exchanges::new(&setup.scenario, seed)?;
        let estimator = kind.estimator(&exchanges.beginning());
        Ok(Run::with(setup, exchanges, estimator))
    }

    fn with(setup: &'s Setup, exchanges: Exchanges, estimator: Box<dyn Estimator>) -> Run<'s> {
        let largest = |counts: bool| if counts { 0.0 } else { f64::NAN };
        Run {
            estimator,
            held_since: None,
            strays: false,
            is_outside: false,
            last_off: setup.from,
            last_true: setup.from,
            last_read: setup.from,
            outcome: Outcome {
                during: largest(setup.until > setup.from),
                after: largest(setup.stays == 0.0),
                ..Outcome::default()
            },
            record: Record::default(),
            exchanges,
            setup,
        }
    }

    fn go(&mut self) {
        // The half of each second, as in [`crate::world`].
        let mut second = libm::floor(self.setup.from) + 0.5;
        let end = self.setup.scenario.hours * 3600.0;
        let mut epoch = self.setup.epoch;
        while let Some(heard) = self.exchanges.next_heard() {
            while second < heard.at.min(end) {
                if epoch.is_some_and(|at| at <= second) {
                    self.new_epoch(&mut epoch);
                }
                if second >= self.setup.from {
                    self.read(second);
                }
                second += 1.0;
            }
            if epoch.is_some_and(|at| at <= heard.at) {
                // Its request may have left by the counter as it was.
                self.new_epoch(&mut epoch);
            } else {
                self.hear(&heard);
            }
        }
        self.release(end, false);
    }

    fn new_epoch(&mut self, epoch: &mut Option<f64>) {
        if let Some(at) = epoch.take() {
            self.estimator.new_epoch();
            self.note(at, "new epoch".into());
        }
    }

    /// True if the server is wrong at `t`.
    fn is_wrong(&self, t: f64) -> bool {
        let over = self.setup.stays == 0.0 && t >= self.setup.to;
        !self.setup.group.is_honest() && t >= self.setup.from && !over
    }

    fn hear(&mut self, heard: &Heard) {
        let t = heard.at;
        if self.record.stamps.is_empty() {
            self.record.declared = self.exchanges.declared(heard);
        }
        self.record.stamps.push(self.exchanges.stamped(heard));
        let result = self.estimator.exchange(&heard.exchange);
        match result {
            Err(Refusal::ServerStep) => self.hold(t),
            Err(other) => self.note(t, format!("not used: {other}")),
            Ok(accepted) => {
                self.release(t, true);
                self.tell(t, accepted);
            }
        }
        let strays = self.estimator.strays();
        if strays != self.strays {
            self.strays = strays;
            let what = if strays { "seen to stray" } else { "strays no longer" };
            self.note(t, format!("oscillator or server {what}: the bound covers both"));
        }
        if self.is_wrong(t) && (strays || result == Err(Refusal::ServerStep)) {
            self.outcome.doubted_after.get_or_insert(t - self.setup.from);
        }
    }

    fn hold(&mut self, t: f64) {
        if self.is_wrong(t) {
            self.outcome.held_after.get_or_insert(t - self.setup.from);
        }
        if self.held_since.is_none() {
            self.held_since = Some(t);
            let count = self.exchanges.count(t);
            let doubt = self.estimator.doubt(count);
            let step = doubt.map_or(String::new(), |d| format!(", {:+}", d.step));
            self.note(t, format!("held off: server-step{step}"));
        }
    }

    /// The hold ends, if there is one.
    fn release(&mut self, t: f64, used: bool) {
        let Some(since) = self.held_since.take() else { return };
        // Only the part of it counts in which the server was right.
        let (from, to) = (self.setup.from, self.setup.to);
        let before = t.min(from) - since;
        let honest = if self.setup.group.is_honest() {
            t - since
        } else if self.setup.stays != 0.0 {
            before
        } else {
            before.max(t - since.max(to))
        };
        self.outcome.held_honest = self.outcome.held_honest.max(honest);
        let what = if used { "used again" } else { "still held off at the end" };
        self.note(t, format!("{what}, after {:.0} s", t - since));
    }

    fn tell(&mut self, t: f64, accepted: Accepted) {
        match accepted {
            Accepted::Refined => {}
            Accepted::Shifted(by) => self.note(t, format!("route: round trip {by:+}")),
            Accepted::FloorMoved(by) => self.note(t, format!("floor: round trip {by:+}")),
            Accepted::Stepped(by) => self.note(t, format!("the time steps by {by:+}")),
        }
    }

    /// Error of the clock at `t`, s, and what it says of itself.
    fn reading(&mut self, t: f64) -> Option<(f64, Estimate)> {
        let count = self.exchanges.count(t);
        let estimate = self.estimator.estimate(count)?;
        Some((seconds(estimate.time - self.exchanges.truth(t)), estimate))
    }

    fn read(&mut self, t: f64) {
        let Some((error, estimate)) = self.reading(t) else { return };
        let Setup { until, to, stays, right, .. } = *self.setup;
        let size = error.abs();
        let outcome = &mut self.outcome;
        if t < until {
            outcome.during = outcome.during.max(size);
        } else if t >= to && stays == 0.0 {
            outcome.after = outcome.after.max(size);
        }
        self.last_read = t;
        if size >= right {
            self.last_off = t;
        }
        if (error - stays).abs() > right.max(NEAR * stays.abs()) {
            self.last_true = t;
        }
        // Once what a wrong server says may be believed, nothing can tell.
        let counts = t < until || stays == 0.0 && t >= to;
        let [before, after] = estimate.reach().map(seconds);
        let is_outside = counts && (error > before || -error > after);
        if counts {
            self.outcome.likely.read(error, &estimate);
        }
        self.outcome.outside += usize::from(is_outside);
        if is_outside != self.is_outside {
            self.is_outside = is_outside;
            let what = if is_outside { "outside of" } else { "inside" };
            self.note(t, format!("the truth is {what} the bound"));
        }
    }

    fn note(&mut self, t: f64, what: String) {
        let told = self.reading(t).map(|(error, e)| (error, seconds(e.bound)));
        let (error, bound) = told.unwrap_or((f64::NAN, f64::NAN));
        self.record.events.push(Event { at: t - self.setup.from, error, bound, what });
    }

    fn outcome(&self) -> Outcome {
        let Setup { from, to, stays, right, group, ref scenario, .. } = *self.setup;
        let mut outcome = self.outcome.clone();
        let off = |begin: f64| (self.last_off - begin).max(0.0);
        outcome.right_after = if group.is_honest() { off(from) } else { off(to) };
        if stays != 0.0 {
            outcome.right_after = f64::NAN;
        }
        let shows = stays.abs() > 2.0 * right;
        if shows && self.last_true < self.last_read {
            outcome.believed_after = Some(self.last_true - from);
        }
        // What goes by the clock may be believed some exchanges before or after that.
        let too_soon = scenario.accept_step_after_s - 4.0 * f64::from(scenario.poll);
        outcome.misled = match outcome.believed_after {
            Some(after) => after < too_soon,
            None => stays == 0.0 && outcome.during.max(outcome.after) > right,
        };
        outcome
    }
}
