//! Long runs with many faults, each from its seed.

use std::rc::Rc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_group::{Member, Mode};

use crate::check::Violation;
use crate::network::Fate;
use crate::world::{Budget, Case, Mutation, Node, Shared, Step, World};

mod shrink;

/// Acts of a run, one after the other.
#[derive(Clone, Debug)]
enum Act {
    Take(Step),
    Crash { node: usize, fate: Fate },
    Part { here: Vec<usize>, fate: Fate, there: Fate, late: bool },
    Heal,
    Start { node: usize },
    Mend,
}

/// An act, and how many commits may be asked for with it.
type Done = (Act, u8);

/// Lines that are kept of what happened, and those of them that are shown if all was done.
const MOST_TOLD: usize = 20_000;
const SHOWN: usize = 800;

struct Run {
    world: World,
    /// All that was done.
    done: Vec<Done>,
    random: ChaCha8Rng,
    faults: usize,
    crashes: bool,
    /// True if the layer below says now and then that there is no majority.
    doubts: bool,
}

impl Run {
    fn new(seed: u64, case: Case, crashes: bool, doubts: bool, slow: bool) -> Run {
        let many = Budget {
            rounds: u64::MAX,
            reads: None,
            crashes: 0,
            restarts: 0,
            parts: 0,
            heals: 0,
            late: false,
            slow,
            agains: 0,
            early_timers: 0,
            multicasts: 0,
            commits: 0,
            starts: 0,
        };
        let all: Vec<usize> = (0..case.nodes).collect();
        let world = World::formed(&Rc::new(case), many, &all)
            .unwrap_or_else(|why| panic!("seed {seed}: does not form: {why}"));
        let random = ChaCha8Rng::seed_from_u64(seed);
        Run { world, done: Vec::new(), random, faults: 0, crashes, doubts }
    }

    fn act(&mut self, act: Act) -> Result<(), Violation> {
        self.done.push((act.clone(), self.world.budget.commits));
        match act {
            Act::Take(step) => {
                self.note(String::new());
                return self.world.take(step);
            }
            Act::Crash { node, fate } => {
                self.note(format!("crash of node {}, {fate:?}", node + 1));
                self.world.crash(node, fate);
            }
            Act::Part { here, fate, there, late } => {
                self.note(format!("part of {here:?}, {fate:?}, {there:?}, late {late}"));
                self.world.part(&here, fate, there, late);
            }
            Act::Heal => {
                self.note("heal".into());
                self.world.network.heal();
            }
            Act::Start { node } => {
                self.note(format!("start of node {}", node + 1));
                return self.world.start(node);
            }
            Act::Mend => return self.mend(),
        }
        Ok(())
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end.max(1) as u64) as usize
    }

    fn fate(&mut self) -> Fate {
        if self.below(2) == 0 { Fate::Kept } else { Fate::Lost }
    }

    fn note(&mut self, what: String) {
        let told = self.world.told.get_or_insert_default();
        told.push(what);
        // The last things that happened.
        told.drain(..told.len().saturating_sub(MOST_TOLD));
    }

    fn step(&mut self) -> Result<(), Violation> {
        if self.below(40) == 0 {
            return self.fault();
        }
        if self.below(40) == 0 {
            return self.causal();
        }
        let case = &self.world.case;
        if case.checkpoints && case.group.mode == Mode::Passive && self.below(40) == 0 {
            let nodes = self.world.nodes.len();
            let node = self.below(nodes);
            return self.act(Act::Take(Step::Give { node }));
        }
        if self.world.case.starts && self.below(30) == 0 {
            return self.program();
        }
        self.world.budget.multicasts = u8::from(self.below(8) == 0);
        self.world.budget.commits = u8::from(self.below(8) == 0);
        let mut steps = self.world.all();
        let waits = steps.is_empty() || self.below(10) == 0;
        let step = if waits {
            // Mostly less than a stagger, now and then seconds.
            let most = if self.below(50) == 0 { 3_000_000_000 } else { 300_000 };
            let ns = self.below(most) as i64;
            let due = self.world.due();
            match due.get(self.below(due.len())) {
                Some(&node) => Step::Timer { node },
                None => Step::Pass { ns },
            }
        } else {
            steps.swap_remove(self.below(steps.len()))
        };
        self.world.budget.early_timers = 1;
        let outcome = self.act(Act::Take(step));
        self.world.budget.early_timers = 0;
        outcome
    }

    /// A program starts or ends somewhere.
    fn program(&mut self) -> Result<(), Violation> {
        let node = self.below(self.world.nodes.len());
        let here = &self.world.nodes[node];
        let there = here.program;
        if !here.live || !self.world.case.counts(node) {
            return Ok(());
        }
        let step = match self.below(4) {
            0 if there => Step::End { node },
            // One that waits for more than come would wait for ever.
            together => Step::Start { node, together: u8::from(together == 1) },
        };
        self.act(Act::Take(step))
    }

    /// A message that another group's clock has stamped: mostly a little ahead, now and then by
    /// seconds, or so far that it is refused.
    fn causal(&mut self) -> Result<(), Violation> {
        let node = self.below(self.world.nodes.len());
        if !self.world.nodes[node].live {
            return Ok(());
        }
        let ahead = match self.below(20) {
            0 => 30_000_000_000,
            1 => self.below(6_000_000_000) as i64,
            _ => self.below(3_000_000) as i64 - 500_000,
        };
        self.act(Act::Take(Step::Causal { node, ahead }))
    }

    fn fault(&mut self) -> Result<(), Violation> {
        // One after the other: where several were cut off at different times and nobody has found
        // out yet, nobody could say who is right.
        if self.world.budget.slow && self.world.doubtful() {
            return Ok(());
        }
        self.faults += 1;
        if self.world.budget.slow && self.below(2) == 0 {
            return self.slip();
        }
        let nodes = self.world.nodes.len();
        let node = self.below(nodes);
        match self.below(if self.doubts { 6 } else { 4 }) {
            0 if self.crashes && self.world.nodes[node].engine.is_some() => {
                let fate = self.fate();
                self.act(Act::Crash { node, fate })?;
            }
            1 => self.part_somewhere(true)?,
            4 | 5 if self.world.nodes[node].engine.is_some() => {
                let quorate = self.world.nodes[node].doubts;
                self.act(Act::Take(Step::Quorum { node, quorate }))?;
            }
            2 => self.act(Act::Heal)?,
            _ => {
                let waits = self.world.network.links[node].syncing;
                if self.world.nodes[node].engine.is_none() && !waits {
                    self.act(Act::Start { node })?;
                }
            }
        }
        Ok(())
    }

    /// Some nodes are away from the others for a while, and are back before a synchronisation has
    /// told all of them.
    fn slip(&mut self) -> Result<(), Violation> {
        self.part_somewhere(false)?;
        let told = self.below(3);
        for _ in 0..self.below(12) {
            let mut steps = self.world.all();
            steps.retain(|step| !matches!(step, Step::Sync { .. }));
            if let Some(&step) = steps.get(self.below(steps.len())) {
                self.act(Act::Take(step))?;
            }
        }
        let syncing = self.world.network.syncing();
        if let Some(&node) = syncing.get(told) {
            self.act(Act::Take(Step::Sync { node }))?;
        }
        self.act(Act::Heal)?;
        for node in self.world.network.syncing() {
            self.world.budget.agains = 1;
            self.act(Act::Take(Step::Again { node }))?;
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), Violation> {
        self.note(String::new());
        self.world.take(step)
    }

    fn part_somewhere(&mut self, late: bool) -> Result<(), Violation> {
        let nodes = self.world.nodes.len();
        let node = self.below(nodes);
        let ring = self.world.network.ring(node);
        let mut here: Vec<usize> = Vec::new();
        for other in ring.iter().copied() {
            if self.below(2) == 0 {
                here.push(other);
            }
        }
        if !here.is_empty() && here.len() < ring.len() {
            let (fate, there) = (self.fate(), self.fate());
            let late = late && self.below(2) == 0;
            self.act(Act::Part { here, fate, there, late })?;
        }
        Ok(())
    }

    /// All come together and up again: everything ends, and everybody is let in.
    fn mend(&mut self) -> Result<(), Violation> {
        self.note("mend".into());
        self.world.network.heal();
        for node in self.world.network.syncing() {
            self.take(Step::Sync { node })?;
        }
        for node in 0..self.world.nodes.len() {
            if self.world.nodes[node].doubts {
                self.world.take(Step::Quorum { node, quorate: true })?;
            }
            if self.world.nodes[node].engine.is_none() {
                self.world.start(node)?;
            }
        }
        self.world.settle()?;
        if self.world.budget.slow {
            self.world.read_all()?;
        } else {
            self.world.all_found_out()?;
        }
        self.world.history.trim();
        Ok(())
    }

    fn go(&mut self, steps: usize) -> Result<(), Violation> {
        for step in 1..=steps {
            self.step()?;
            if step % 500 == 0 {
                self.act(Act::Mend)?;
            }
        }
        self.act(Act::Mend)
    }
}

fn case(seed: u64) -> Case {
    let nodes = if seed % 3 == 2 { 5 } else { 3 };
    let observers = usize::from(seed % 7 > 4);
    let mut case =
        Case { nodes: nodes + observers, threads: 1 + seed % 4, tick: 1, ..Case::small() };
    case.stalls = true;
    case.group.universe = (1..=nodes as u32).map(Member).collect();
    case.group.mode = match seed % 5 {
        3 => Mode::SemiActive,
        4 => Mode::Passive,
        _ => Mode::Active,
    };
    case.group.lease_ns = (seed % 2) * 1000;
    case.group.rotate = seed % 4 == 1;
    case.stagger_ns = [0, 400_000][seed as usize / 2 % 2];
    case.report_ns = 1_000_000_000;
    case.utc = seed % 6 != 5;
    case.checkpoints = seed % 9 > 5;
    // Where only the first proposes, all wait for it while it has no program.
    case.starts = seed.is_multiple_of(2) && !case.checkpoints && case.group.mode == Mode::Active;
    case
}

fn runs(seeds: std::ops::Range<u64>, steps: usize, slow: bool) {
    runs_of(case, seeds, steps, slow);
}

/// Runs these cases. Returns how often members have heard that a program is fenced.
fn runs_of(
    case: impl Fn(u64) -> Case,
    seeds: std::ops::Range<u64>,
    steps: usize,
    slow: bool,
) -> u64 {
    let mut fenced = 0;
    for seed in seeds {
        let mut run = Run::new(seed, case(seed), true, seed % 8 > 4, slow);
        if let Err(mut violation) = run.go(steps) {
            let mut shown = SHOWN;
            if std::env::var_os("TRUECHIMER_MODEL_SHRINK").is_some() {
                let new = || Run::new(seed, case(seed), true, seed % 8 > 4, slow);
                (run, violation) = shrink::shortest(run.done, violation, new);
                shown = MOST_TOLD;
            }
            let stand = |(k, node): (usize, &Shared<Node>)| {
                format!("node {}: live {}, cut off {}", k + 1, node.live, node.excluded)
            };
            let stand: Vec<String> = run.world.nodes.iter().enumerate().map(stand).collect();
            let mut told = run.world.told.unwrap_or_default();
            told.drain(..told.len().saturating_sub(shown));
            told.extend(stand);
            panic!("seed {seed}: {violation}\nthe last steps:\n{}", told.join("\n"));
        }
        println!(
            "seed {seed}: {} faults, {} operations stand",
            run.faults,
            run.world.history.stood()
        );
        fenced += run.world.fenced;
    }
    fenced
}

#[test]
fn random_runs() {
    runs(0..24, 3_000, false);
}

#[test]
fn random_runs_where_not_all_are_told() {
    runs(0..24, 3_000, true);
}

/// A case in which one of the programs that count reads unlike all others, and programs start and
/// end or take checkpoints.
fn with_one_odd(seed: u64) -> Case {
    let mut case = case(seed);
    case.odd = Some(seed as usize / 3 % case.group.universe.len());
    case.group.mode = Mode::Active;
    case.starts = !case.checkpoints;
    case
}

#[test]
fn whoever_reads_unlike_is_fenced_and_nobody_else_whatever_happens() {
    let found = runs_of(with_one_odd, 0..16, 3_000, false);
    let slow = runs_of(with_one_odd, 16..24, 3_000, true);
    println!("{found} and {slow} words of fences");
    assert!(found > 30 && slow > 300, "{found} {slow}");
}

/// The only one with the latest values had heard nobody since the group had changed, when all were
/// told that they had no majority: with its state goes on whoever is left.
#[test]
fn the_latest_values_go_on() {
    runs(1_054..1_055, 20_000, false);
}

/// A program starts while another has a value that is lost with its member; an observer has yet to
/// hear that a group has begun anew; what was sent before a change takes seconds to come; one that
/// is cut off is told that a majority had what is older than the group's new beginning.
#[test]
fn what_is_lost_or_late_is_no_fault() {
    for seed in [1_036, 1_108, 1_321, 1_625] {
        runs(seed..seed + 1, 20_000, false);
    }
}

/// A program that reads unlike is fenced for one round; the others read its next ones after that.
#[test]
fn later_rounds_of_one_that_was_fenced_fence_nobody_else() {
    runs_of(with_one_odd, 1_213..1_214, 20_000, true);
}

/// A message comes with the vote that fences a program, whose member leaves and may then go on with
/// what it has; and an observer gets one that was sent before a group began anew, and of which no
/// member is left to know.
#[test]
fn who_is_fenced_leaves_at_the_end_of_a_message() {
    for seed in [1_015, 1_167] {
        runs_of(with_one_odd, seed..seed + 1, 20_000, false);
    }
    for seed in [1_084, 1_204] {
        runs_of(with_one_odd, seed..seed + 1, 20_000, true);
    }
}

/// One that was cut off has another round at the place of which the others say by which call they
/// have read theirs: it has no word there.
#[test]
fn who_strays_judges_no_rounds_of_others() {
    runs_of(with_one_odd, 1_097..1_098, 20_000, true);
}

/// One of five is fenced and leaves, and the others have gone two ways in pairs: on goes the pair
/// whose way the fenced one had come, as a majority had acknowledged what is there.
#[test]
fn of_two_pairs_the_one_goes_on_that_a_majority_was_with() {
    runs_of(with_one_odd, 1_007..1_008, 20_000, true);
}

/// A program's start and a newcomer's state while somebody strays; a state from one that has left
/// by the time it is whole; a checkpoint from a primary that strays.
#[test]
fn who_strays_leads_nobody_astray() {
    for seed in [1_012, 1_041, 1_172, 1_304] {
        runs(seed..seed + 1, 20_000, true);
    }
}

/// Which seeds a long run takes: `FIRST` or `FIRST..END` of the environment's
/// `TRUECHIMER_MODEL_SEEDS`, or all of its own.
fn seeds(own: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("TRUECHIMER_MODEL_SEEDS") else { return own };
    let (first, end) = text.split_once("..").unwrap_or((&text, ""));
    let number = |text: &str| {
        text.parse().unwrap_or_else(|_| panic!("TRUECHIMER_MODEL_SEEDS: {text:?} is no number"))
    };
    number(first)..if end.is_empty() { own.end } else { number(end) }
}

#[test]
#[ignore = "many minutes: scripts/test long"]
fn longer_random_runs() {
    runs(seeds(1_000..1_400), 20_000, false);
}

#[test]
#[ignore = "many minutes: scripts/test long"]
fn longer_random_runs_where_not_all_are_told() {
    runs(seeds(1_000..1_400), 20_000, true);
}

#[test]
#[ignore = "many minutes: scripts/test long"]
fn longer_random_runs_with_one_odd() {
    runs_of(with_one_odd, seeds(1_000..1_400), 20_000, false);
}

#[test]
#[ignore = "many minutes: scripts/test long"]
fn longer_random_runs_with_one_odd_where_not_all_are_told() {
    runs_of(with_one_odd, seeds(1_000..1_400), 20_000, true);
}

/// Finds what only a long run shows: a floor that is forgotten lets time go back when all have
/// died.
#[test]
fn a_forgotten_floor_is_found() {
    let all_die = |mutation| -> Result<(), Violation> {
        let case = Case { mutation, threads: 1, ..Case::small() };
        let mut run = Run::new(7, case, true, false, false);
        for _ in 0..20 {
            for _ in 0..100 {
                run.step()?;
            }
            run.mend()?;
            for node in 0..3 {
                run.world.crash(node, Fate::Lost);
                // UTC is set back while nobody lives.
                run.world.nodes[node].set_back(60_000_000_000);
            }
            run.mend()?;
        }
        Ok(())
    };
    all_die(None).unwrap();
    let violation = all_die(Some(Mutation::ForgetFloor)).unwrap_err();
    assert!(matches!(violation, Violation::CrossThread(_) | Violation::RollBack(_)), "{violation}");
}
