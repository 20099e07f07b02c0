//! Programs that have their turn on one stage, as far as they work here.

use crate::bench::capture::generator::Order;
use crate::bench::capture::options::Options;
use crate::bench::capture::peers::{self, Tool};
use crate::bench::capture::trial::{Stage, Trial};
use truechimer_outcome::outcome::Failure;

/// The stage and those who may enter it.
#[derive(Debug)]
pub struct Contest<'a> {
    /// Settings of the measurement.
    pub options: &'a Options,
    /// Where.
    pub stage: Stage,
    tools: Vec<Tool>,
    /// Those that did not work, and why.
    failed: Vec<(&'static str, Failure)>,
}

impl<'a> Contest<'a> {
    /// With all programs that are wanted.
    ///
    /// # Errors
    /// Where the bed cannot be made.
    pub fn new(options: &'a Options) -> Result<Contest<'a>, Failure> {
        let tools: Vec<Tool> =
            peers::all().into_iter().filter(|tool| options.wants(tool.name)).collect();
        let lacking = tools.iter().filter_map(|tool| Some((tool.name, Failure(tool.lacking()?))));
        let failed: Vec<_> = lacking.collect();
        for (_, failure) in &failed {
            options.say(&format!("left out: {failure}"));
        }
        let stage = Stage::new(1, &options.truechimer)?;
        Ok(Contest { options, stage, tools, failed })
    }

    /// The tools of these names that are wanted and work, in this order.
    #[must_use]
    pub fn tools(&self, names: &[&str]) -> Vec<Tool> {
        let works = |name: &&&str| self.failed.iter().all(|(failed, _)| failed != *name);
        let named = |name: &&str| self.tools.iter().find(|tool| tool.name == *name).cloned();
        names.iter().filter(works).filter_map(named).collect()
    }

    /// A trial, as [`Stage::trial`]; a tool that fails twice in a row is given up.
    pub fn trial(&mut self, tool: &Tool, order: &Order, keep: bool) -> Option<Trial> {
        if self.failed.iter().any(|(name, _)| *name == tool.name) {
            return None;
        }
        let trial = self.stage.trial(tool, order, keep);
        let trial = trial.or_else(|_| self.stage.trial(tool, order, keep));
        match trial {
            Ok(trial) => Some(trial),
            Err(failure) => {
                self.options.say(&format!("given up: {failure}"));
                self.failed.push((tool.name, failure));
                None
            }
        }
    }

    /// Measurements that could not be made, and why, for people.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let first = |failure: &Failure| failure.0.lines().next().unwrap_or_default().to_owned();
        let mut all: Vec<String> = self.failed.iter().map(|(_, failure)| first(failure)).collect();
        // One program has several settings.
        all.dedup();
        (!all.is_empty()).then(|| format!("Not measured here: {}.", all.join("; ")))
    }
}
