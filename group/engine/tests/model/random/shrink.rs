//! A run that fails, made shorter: what it can do without is left out.

use std::mem::discriminant;

use super::{Act, Done, Run};
use crate::check::Violation;
use crate::world::Step;

impl Run {
    /// True if this can happen here. After what was left out, much cannot.
    fn may(&mut self, act: &Act) -> bool {
        let world = &mut self.world;
        let lives = |node: usize| world.nodes[node].engine.is_some();
        let clear = !world.budget.slow || !world.doubtful();
        match *act {
            Act::Mend | Act::Heal => true,
            Act::Crash { node, .. } => clear && lives(node),
            Act::Start { node } => clear && !lives(node) && !world.network.links[node].syncing,
            Act::Part { ref here, .. } => {
                let ring = world.network.ring(here[0]);
                clear && here.len() < ring.len() && here.iter().all(|node| ring.contains(node))
            }
            Act::Take(step) => match step {
                Step::Pass { .. } => true,
                Step::Timer { node } => {
                    let engine = world.nodes[node].engine.as_ref();
                    engine.is_some_and(|engine| engine.deadline().is_some())
                }
                Step::Start { node, .. } | Step::Causal { node, .. } => world.nodes[node].live,
                Step::End { node } => world.nodes[node].live && world.nodes[node].program,
                Step::Give { node } => lives(node),
                Step::Quorum { node, quorate } => {
                    clear && lives(node) && world.nodes[node].doubts == quorate
                }
                Step::Sync { node } | Step::Again { node } => {
                    world.network.syncing().contains(&node)
                }
                step => {
                    world.budget.multicasts = 1;
                    world.budget.early_timers = 1;
                    let may = world.all().contains(&step);
                    world.budget.early_timers = 0;
                    may
                }
            },
        }
    }

    /// Does all of that which can be done, and what comes of it.
    fn again(&mut self, all: &[Done]) -> Result<(), Violation> {
        for (act, commits) in all {
            if self.may(act) {
                let budget = &mut self.world.budget;
                (budget.multicasts, budget.early_timers, budget.agains) = (1, 1, 1);
                budget.commits = *commits;
                if matches!(act, Act::Mend) {
                    budget.early_timers = 0;
                }
                let outcome = self.act(act.clone());
                self.world.budget.early_timers = 0;
                outcome?;
            }
        }
        Ok(())
    }
}

/// The shortest run found that fails in this manner, and how it does.
pub fn shortest(
    mut done: Vec<Done>,
    violation: Violation,
    new: impl Fn() -> Run,
) -> (Run, Violation) {
    let fails = |done: &[Done]| -> Option<(Run, Violation)> {
        let mut run = new();
        let found = run.again(done).err()?;
        (discriminant(&found) == discriminant(&violation)).then_some((run, found))
    };
    let mut best = fails(&done).expect("the same again");
    let mut piece = done.len() / 2;
    while piece > 0 {
        let mut at = 0;
        let before = done.len();
        while at < done.len() {
            let end = (at + piece).min(done.len());
            let rest: Vec<Done> = done[..at].iter().chain(&done[end..]).cloned().collect();
            match fails(&rest) {
                Some(shorter) => {
                    best = shorter;
                    done.clone_from(&best.0.done);
                }
                None => at = end,
            }
        }
        if done.len() == before || piece > 1 {
            piece /= 2;
        }
    }
    println!("{} steps are enough", done.len());
    best
}
