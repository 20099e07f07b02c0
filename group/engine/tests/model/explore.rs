//! All ways that a case can go.

use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasherDefault;

use crate::check::Violation;
use crate::world::{Print, Step, World, print};

/// States by their prints.
pub type Prints = HashSet<u64, BuildHasherDefault<Print>>;

/// States between two words of how far it is.
const WORD: usize = 1_000_000;

/// Counts of what was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Different states.
    pub states: usize,
    /// Steps taken between them.
    pub steps: usize,
    /// States where nothing went on by itself, from which progress was checked.
    pub quiet: usize,
    /// Of those, where nothing at all was left to do.
    pub ends: usize,
    /// The longest way.
    pub longest: usize,
}

/// A way to a state that must not be.
#[derive(Debug)]
pub struct Found {
    pub violation: Violation,
    pub trace: Vec<Step>,
    pub seen: Seen,
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} after {} states, by", self.violation, self.seen.states)?;
        for step in &self.trace {
            writeln!(out, "  {step:?}")?;
        }
        Ok(())
    }
}

/// Goes through all states that can be reached from `start`. At most `most` of them: a case that
/// has more is an error, for nothing would be shown by a part of it.
pub fn explore(start: World, most: usize) -> Result<Seen, Box<Found>> {
    let mut seen = Seen::default();
    let mut visited = Prints::default();
    let mut settling = Prints::default();
    visited.insert(print(&start));
    let mut trace = Vec::new();
    let steps = start.steps();
    let mut stack = vec![(Some(start), steps)];
    let found = |violation, trace: &[Step], seen| {
        Err(Box::new(Found { violation, trace: trace.to_vec(), seen }))
    };
    while let Some((world, steps)) = stack.last_mut() {
        let Some(step) = steps.pop() else {
            stack.pop();
            trace.pop();
            continue;
        };
        // The last way out takes the state itself.
        let taken = if steps.is_empty() { world.take() } else { world.clone() };
        let Some(mut next) = taken else { unreachable!("taken by the last step alone") };
        trace.push(step);
        seen.steps += 1;
        if let Err(violation) = next.take(step) {
            return found(violation, &trace, seen);
        }
        if !visited.insert(print(&next)) {
            trace.pop();
            continue;
        }
        if visited.len() > most {
            return found(Violation::TooMany(most), &trace, seen);
        }
        seen.states = visited.len();
        if seen.states.is_multiple_of(WORD) {
            println!("  {seen:?}");
        }
        seen.longest = seen.longest.max(trace.len());
        let steps = next.steps();
        if next.quiet() {
            seen.quiet += 1;
            seen.ends += usize::from(steps.is_empty());
            let mut settled = next.clone();
            let settles = settled.settle_by(&mut settling);
            let agreed = settles.and_then(|new| if new { settled.read_all() } else { Ok(()) });
            if let Err(violation) = agreed {
                return found(violation, &trace, seen);
            }
        }
        stack.push((Some(next), steps));
    }
    Ok(seen)
}

/// Tells what happened on a way, step by step.
pub fn tell(start: &World, trace: &[Step]) -> String {
    let mut world = start.clone();
    world.told = Some(Vec::new());
    let mut end = None;
    for &step in trace {
        if let Err(violation) = world.take(step) {
            end = Some(violation);
        }
    }
    let mut lines = world.told.unwrap_or_default();
    lines.extend(end.map(|violation| violation.to_string()));
    lines.join("\n")
}
