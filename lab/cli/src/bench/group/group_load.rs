//! Runs a [`Load`] at every member, and says what it took.

use std::path::PathBuf;

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::process::Process;

use crate::bench::group::bed::Bed;
use crate::bench::group::load::{Done, Load, Sample};
use crate::bench::group::serve;

/// The counts of all agents together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Rounds that were decided (as node 1 has it).
    pub rounds: u64,
    /// Messages sent, of all kinds.
    pub messages: u64,
    /// Proposals sent.
    pub proposals: u64,
    /// Operations that needed no proposal.
    pub suppressed: u64,
    /// Proposals that came too late (as node 1 has it).
    pub duplicates: u64,
}

impl Counts {
    /// Counts since those.
    #[must_use]
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            rounds: self.rounds - before.rounds,
            messages: self.messages - before.messages,
            proposals: self.proposals - before.proposals,
            suppressed: self.suppressed - before.suppressed,
            duplicates: self.duplicates - before.duplicates,
        }
    }
}

/// Result of a load.
#[derive(Debug)]
pub struct Loaded {
    /// Figures of each program, node 1 first.
    pub nodes: Vec<Done>,
    /// Counts of the agents meanwhile, in all and at each member.
    pub counts: Counts,
    /// Counts of each member, node 1 first.
    pub members: Vec<Counts>,
}

impl Loaded {
    /// All readings of a node.
    pub fn samples(&self, node: usize) -> impl Iterator<Item = &Sample> {
        self.nodes.get(node - 1).into_iter().flat_map(|done| &done.threads).flatten()
    }
}

/// Counts of a node's agent so far.
///
/// # Errors
/// Where it does not tell.
pub fn counts(bed: &mut Bed, node: u32) -> Result<Counts, Failure> {
    let report = bed.report(node)?;
    let count = |name: &str| report.pointer(&format!("/counts/{name}"))?.as_u64();
    let counts = || {
        Some(Counts {
            rounds: count("rounds")?,
            messages: count("messages_sent")?,
            proposals: count("proposals_sent")?,
            suppressed: count("suppressed")?,
            duplicates: count("duplicates")?,
        })
    };
    counts().ok_or_else(|| Failure("the agent's status lacks its counts".to_owned()))
}

impl Bed {
    /// Starts a load's program at a node.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_load(&self, node: u32, load: &Load) -> Result<(Process, PathBuf), Failure> {
        let out = self.ring().dir().join(&format!("load{}-{node}.json", load.first));
        let args = load.arguments(&self.place(node), &out);
        Ok((self.program(node, &format!("load{node}"), args)?, out))
    }

    /// Runs a load at all members at once, and waits for it to end.
    ///
    /// # Errors
    /// Where one fails.
    pub fn load(&mut self, load: &Load) -> Result<Loaded, Failure> {
        let start = self.ring().dir().join(&format!("start{}", load.first));
        let load = Load { start: Some(start.clone()), ..load.clone() };
        let mut programs = Vec::new();
        let members = self.members();
        for node in 1..=members {
            programs.push((node, self.start_load(node, &load)?));
        }
        self.wait_for_programs(members)?;
        let mut before = Vec::new();
        for node in 1..=members {
            before.push(counts(self, node)?);
        }
        std::fs::write(&start, "").map_err(|error| Failure::of(start.display(), error))?;
        let mut nodes = Vec::new();
        for (node, (process, out)) in &mut programs {
            self.wait_for_end(*node, process)?;
            nodes.push(serve::read::<Done>(out)?);
        }
        let mut each = Vec::new();
        for (node, before) in (1..=members).zip(before) {
            let after = counts(self, node)?;
            each.push(after.since(before));
        }
        let first = each.first().copied().unwrap_or_default();
        let sum = |of: fn(&Counts) -> u64| each.iter().map(of).sum();
        let counts = Counts {
            rounds: first.rounds,
            messages: sum(|c| c.messages),
            proposals: sum(|c| c.proposals),
            suppressed: sum(|c| c.suppressed),
            duplicates: first.duplicates,
        };
        Ok(Loaded { nodes, counts, members: each })
    }
}
