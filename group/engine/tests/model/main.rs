//! The engine, model-checked: all interleavings of small cases, over a network that gives what
//! Corosync gives and no more, and long random runs of larger ones.
//!
//! What must hold: all replicas get the same value in the same round; time goes forward for each
//! thread and, in the default order, for the whole group in the order of delivery, over fail-overs
//! too; nobody gets a second value in a round; nobody without a majority gets any; and operations
//! end while a majority lives. The longer cases are not run by themselves:
//!
//! ```text
//! cargo test --release -p truechimer-group --test model -- --ignored --nocapture
//! ```
//!
//! The longer random runs take their seeds from `TRUECHIMER_MODEL_SEEDS`, if that is set: `1016`
//! begins with that one, `1000..1200` takes those up to the end, which is left out. With
//! `TRUECHIMER_MODEL_SHRINK` set, one that fails is made as short as can be and all of it is told.

// An index out of range is a failed test.
#![allow(clippy::indexing_slicing)]

mod check;
mod explore;
mod network;
mod random;
mod world;

use std::rc::Rc;

use truechimer_group::{Mode, Order};

use check::Violation;
use explore::{Found, Seen, explore, tell};
use network::Fate;
use world::{Budget, Case, Mutation, Step, World};

fn go(
    name: &str,
    case: Case,
    budget: Budget,
    up: &[usize],
    most: usize,
) -> Result<Seen, Box<Found>> {
    let start = formed(&Rc::new(case), budget, up);
    let began = std::time::Instant::now();
    let seen = explore(start, most)?;
    println!("{name}: {seen:?}, {:?}", began.elapsed());
    Ok(seen)
}

fn formed(case: &Rc<Case>, budget: Budget, up: &[usize]) -> World {
    World::formed(case, budget, up).unwrap_or_else(|why| panic!("does not form: {why}"))
}

/// All states that can be reached from there are as they must be.
fn shows(name: &str, start: World, most: usize) {
    match explore(start.clone(), most) {
        Ok(seen) => println!("{name}: {seen:?}"),
        Err(found) => panic!("{name}: {found}\n{}", tell(&start, &found.trace)),
    }
}

/// All states of the case are as they must be.
fn holds(name: &str, case: Case, budget: Budget, up: &[usize], most: usize) {
    let start = formed(&Rc::new(case.clone()), budget.clone(), up);
    match go(name, case, budget, up, most) {
        Ok(seen) => assert!(seen.ends > 0, "{name} never ends: {seen:?}"),
        Err(found) => panic!("{name}: {found}\n{}", tell(&start, &found.trace)),
    }
}

/// More states than any case here has.
const LIMIT: usize = 400_000;

const ALL: &[usize] = &[0, 1, 2];

#[test]
fn two_threads_in_all_orders() {
    holds("threads", Case::small(), Budget { rounds: 1, ..Budget::NONE }, ALL, LIMIT);
}

/// Threads are forgotten and go on at any moment.
#[test]
fn more_threads_than_are_remembered() {
    let mut case = Case { nodes: 2, stagger_ns: 1000, ..Case::small() };
    case.group.universe.truncate(2);
    case.group.threads = 1;
    holds("forgotten", case, Budget { rounds: 2, ..Budget::NONE }, &[0, 1], LIMIT);
}

/// One thread, all replicas propose at once.
fn one() -> Case {
    Case { threads: 1, ..Case::small() }
}

/// One thread, and only the first replica proposes while it lives.
fn ranked() -> Case {
    Case { threads: 1, stagger_ns: 1000, ..Case::small() }
}

#[test]
fn a_crash_at_any_moment() {
    let budget = Budget { rounds: 1, crashes: 1, ..Budget::NONE };
    holds("crash", one(), budget.clone(), ALL, LIMIT);
    holds("crash, ranked", ranked(), budget, ALL, LIMIT);
}

#[test]
fn a_newcomer_at_any_moment() {
    let budget = Budget { rounds: 1, restarts: 1, ..Budget::NONE };
    holds("join", ranked(), budget, &[0, 1], LIMIT);
}

#[test]
fn a_partition_at_any_moment() {
    let budget = Budget { rounds: 1, parts: 1, ..Budget::NONE };
    holds("partition", one(), budget, ALL, LIMIT);
}

#[test]
fn a_node_that_goes_on_in_a_dead_ring() {
    let budget = Budget { rounds: 1, parts: 1, late: true, ..Budget::NONE };
    holds("dead ring", ranked(), budget, ALL, LIMIT);
}

/// A process dies at any moment and starts again at any later one; so many reads in all, besides
/// those at the end, from where all is quiet.
fn restart(reads: u8) -> Budget {
    Budget { rounds: 1, reads: Some(reads), crashes: 1, restarts: 1, ..Budget::NONE }
}

#[test]
fn a_restart_at_any_moment() {
    holds("restart", ranked(), restart(0), ALL, LIMIT);
}

/// One node is parted from the others at any moment, and comes back at any later one.
fn partition(reads: u8) -> Budget {
    Budget { rounds: 1, reads: Some(reads), parts: 1, heals: 1, late: true, ..Budget::NONE }
}

#[test]
fn a_partition_and_its_end_at_any_moment() {
    holds("partition and heal", ranked(), partition(0), ALL, LIMIT);
}

/// A node that was away comes back at any moment, with what it has kept.
#[test]
fn a_partition_that_heals_at_any_moment() {
    for node in [0, 2] {
        let budget = Budget { rounds: 1, parts: 1, heals: 1, ..Budget::NONE };
        let mut start = formed(&Rc::new(ranked()), budget, ALL);
        let (here, there) = (Fate::Kept, Fate::Kept);
        start.take(Step::Part { node, here, there, late: false }).unwrap();
        start.settle().unwrap();
        shows(&format!("heal of node {}", node + 1), start, LIMIT);
    }
}

/// Corosync's own synchronisation is broken off: nodes were away from each other, are together
/// again, and not all of them, or none, are told.
fn untold(reads: u8) -> Budget {
    let once = Budget { reads: Some(reads), parts: 1, heals: 1, ..Budget::NONE };
    Budget { rounds: 1, slow: true, agains: 1, ..once }
}

/// Two replicas have proposed, and one node is parted from the others.
fn parted(node: usize, reads: u8) -> World {
    let mut start = formed(&Rc::new(one()), untold(2 + reads), ALL);
    let (here, there) = (Fate::Lost, Fate::Lost);
    let both = [0, 1].map(|node| [Step::Read { node, thread: 0 }, Step::Flush { node }]);
    for step in both.into_iter().flatten().chain([Step::Part { node, here, there, late: false }]) {
        start.take(step).unwrap_or_else(|why| panic!("{step:?}: {why}"));
    }
    start
}

/// Fates of what was on its way: delivered on the node's side alone (1), on the others' (2), on
/// both or on none; the others are told or not, who was parted is not.
const UNTOLD: [(bool, u8); 5] = [(false, 0), (false, 1), (false, 2), (false, 3), (true, 3)];

/// World where it has come to that, and the node is back.
fn back(node: usize, told: bool, ordered: u8, reads: u8) -> World {
    let mut start = parted(node, reads);
    let others: Vec<usize> = ALL.iter().copied().filter(|&other| other != node).collect();
    let mut steps = Vec::new();
    if ordered & 1 != 0 {
        steps.push(Step::Order { node });
    }
    if ordered & 2 != 0 {
        steps.extend(others.iter().map(|&node| Step::Order { node }));
    }
    if told {
        steps.push(Step::Sync { node: others[0] });
    }
    for step in steps.into_iter().chain([Step::Heal, Step::Again { node }]) {
        start.take(step).unwrap_or_else(|why| panic!("{step:?}: {why}"));
    }
    start
}

#[test]
fn nodes_that_are_not_told() {
    for node in [0, 2] {
        for (told, ordered) in UNTOLD {
            // With more reads there are more states than can be gone through here.
            let start = back(node, told, ordered, if told { 0 } else { 3 });
            shows(&format!("untold, node {}, {told}, {ordered}", node + 1), start, LIMIT);
        }
    }
}

#[test]
fn messages_that_carry_time() {
    let budget = Budget { rounds: 1, multicasts: 1, ..Budget::NONE };
    holds("riding", one(), budget, ALL, LIMIT);
}

#[test]
fn replies_wait_for_a_majority() {
    let budget = Budget { rounds: 1, commits: 2, ..Budget::NONE };
    holds("commit", one(), budget, ALL, LIMIT);
}

/// Programs start at any moment, at any member, after or in place of others.
fn starts(starts: u8) -> Budget {
    Budget { rounds: 1, reads: Some(1), starts, ..Budget::NONE }
}

#[test]
fn programs_that_start_at_any_moment() {
    holds("starts", Case { starts: true, ..ranked() }, starts(3), ALL, LIMIT);
    let crash = Budget { crashes: 1, ..starts(1) };
    holds("a start and a crash", Case { starts: true, ..ranked() }, crash, ALL, LIMIT);
}

#[test]
fn a_primary_that_dies() {
    for mode in [Mode::SemiActive, Mode::Passive] {
        let mut case = one();
        case.group.mode = mode;
        let budget = Budget { rounds: 1, crashes: 1, ..Budget::NONE };
        holds(&format!("{mode:?}"), case, budget, ALL, LIMIT);
    }
}

#[test]
fn proposals_by_rank() {
    let budget = Budget { rounds: 1, early_timers: 1, ..Budget::NONE };
    holds("rank", ranked(), budget, ALL, LIMIT);
}

fn published() -> Case {
    let mut case = Case::small();
    case.group.order = Order::Published;
    case
}

#[test]
fn as_published_one_thread_goes_forward() {
    let case = Case { threads: 1, ..published() };
    holds("published", case, Budget { rounds: 2, ..Budget::NONE }, ALL, LIMIT);
}

/// And, read closely, the published algorithm does not even keep one thread from going back where
/// there are others: all threads share the offset, and another thread's older proposal, delivered
/// late, draws it back.
#[test]
fn as_published_time_goes_back_for_a_thread_too() {
    let mut case = Case { across: true, nodes: 2, ..published() };
    case.group.universe.truncate(2);
    let start = formed(&Rc::new(case), Budget { rounds: 2, ..Budget::NONE }, &[0, 1]);
    let found = explore(start.clone(), LIMIT).expect_err("no roll-back found");
    println!("{found}\n{}", tell(&start, &found.trace));
    assert!(matches!(found.violation, Violation::RollBack(_)), "{found}");
}

/// The weakness of the published algorithm: one thread's earlier proposal is delivered after
/// another thread's later one.
#[test]
fn as_published_time_goes_back_from_thread_to_thread() {
    let start = formed(&Rc::new(published()), Budget { rounds: 1, ..Budget::NONE }, ALL);
    let found = explore(start.clone(), LIMIT).expect_err("no roll-back found");
    println!("{found}\n{}", tell(&start, &found.trace));
    assert!(matches!(found.violation, Violation::CrossThread(_)), "{found}");
}

/// The checks see each of these faults of the layers below.
#[test]
fn deliberate_faults_are_found() {
    let found = |mutation, budget: Budget, up: &[usize]| {
        let case = Case { threads: 1, mutation: Some(mutation), ..Case::small() };
        match go("fault", case, budget, up, LIMIT) {
            Ok(seen) => panic!("{mutation:?} is not found: {seen:?}"),
            Err(found) => {
                println!("{mutation:?}: {found}");
                found.violation
            }
        }
    };
    let plain = Budget { rounds: 1, ..Budget::NONE };
    let violation = found(Mutation::Swap, plain.clone(), ALL);
    assert!(matches!(violation, Violation::Disagreement(_)), "{violation}");
    let violation = found(Mutation::Miss, plain, ALL);
    assert!(matches!(violation, Violation::Disagreement(_) | Violation::Stuck(_)), "{violation}");
    let once = Budget { rounds: 1, parts: 1, ..Budget::NONE };
    let violation = found(Mutation::HideLoss, once, ALL);
    assert!(matches!(violation, Violation::Minority(_)), "{violation}");
}

/// A node that was away and is told of the merged ring only goes on with what it had.
#[test]
fn a_hidden_absence_is_found() {
    let absent = |mutation| {
        let case = Case { mutation, ..ranked() };
        let budget = Budget { rounds: 1, parts: 1, heals: 1, ..Budget::NONE };
        let mut world = formed(&Rc::new(case), budget, ALL);
        let (here, there) = (Fate::Lost, Fate::Lost);
        world.take(Step::Part { node: 2, here, there, late: true })?;
        world.take(Step::Deliver { node: 0 })?;
        world.take(Step::Deliver { node: 1 })?;
        world.take(Step::Read { node: 0, thread: 0 })?;
        world.take(Step::Flush { node: 0 })?;
        world.take(Step::Order { node: 0 })?;
        world.take(Step::Deliver { node: 0 })?;
        world.take(Step::Heal)?;
        world.settle()?;
        for node in [1, 2] {
            world.take(Step::Read { node, thread: 0 })?;
        }
        world.settle()
    };
    absent(None).unwrap();
    let violation = absent(Some(Mutation::HideAbsence)).unwrap_err();
    println!("{violation}");
    assert!(
        matches!(violation, Violation::Disagreement(_) | Violation::Minority(_)),
        "{violation}"
    );
}

mod longer {
    use super::*;

    const LIMIT: usize = 60_000_000;

    #[test]
    #[ignore = "many minutes: scripts/test long"]
    fn more_threads_than_are_remembered() {
        let mut case = Case { threads: 3, ..Case::small() };
        case.group.threads = 1;
        holds("forgotten", case.clone(), Budget { rounds: 1, ..Budget::NONE }, ALL, LIMIT);
        case.threads = 2;
        let budget = Budget { rounds: 2, crashes: 1, ..Budget::NONE };
        let case = Case { stagger_ns: 1000, ..case };
        holds("forgotten, with a crash", case, budget, ALL, LIMIT);
    }

    #[test]
    fn programs_that_start_at_any_moment() {
        let crash = Budget { crashes: 1, ..starts(2) };
        holds("starts and crash", Case { starts: true, ..ranked() }, crash, ALL, LIMIT);
    }

    #[test]
    fn two_threads_and_a_crash() {
        let case = Case { threads: 2, ..ranked() };
        let budget = Budget { rounds: 1, crashes: 1, ..Budget::NONE };
        holds("threads and crash", case, budget, ALL, LIMIT);
    }

    /// With one read while things happen, by any replica at any moment. With as many as there are
    /// rounds there are more states than can be gone through.
    #[test]
    #[ignore = "many minutes: scripts/test long"]
    fn a_restart_at_any_moment() {
        holds("restart", ranked(), restart(1), ALL, LIMIT);
    }

    #[test]
    #[ignore = "many minutes: scripts/test long"]
    fn a_partition_and_its_end_at_any_moment() {
        holds("partition and heal", ranked(), partition(1), ALL, LIMIT);
    }

    /// And somebody reads in between, or waits for a majority.
    #[test]
    #[ignore = "many minutes: scripts/test long"]
    fn nodes_that_are_not_told() {
        for node in [0, 1, 2] {
            for (told, ordered) in UNTOLD {
                let name = format!("node {}, {told}, {ordered}", node + 1);
                let mut start = back(node, told, ordered, u8::from(told));
                // With both there are more states than can be gone through.
                start.budget.commits = if told { 0 } else { 2 };
                shows(&format!("untold, {name}"), start, LIMIT);
            }
        }
    }

    #[test]
    fn replies_over_a_partition() {
        let budget = Budget { rounds: 1, commits: 1, parts: 1, late: true, ..Budget::NONE };
        holds("commit and partition", ranked(), budget, ALL, LIMIT);
    }

    #[test]
    #[ignore = "many minutes: scripts/test long"]
    fn a_group_forms_in_any_order() {
        let case = Rc::new(ranked());
        let start = World::new(&case, Budget { rounds: 1, restarts: 3, ..Budget::NONE });
        match explore(start.clone(), LIMIT) {
            Ok(seen) => println!("forming: {seen:?}"),
            Err(found) => panic!("{found}\n{}", tell(&start, &found.trace)),
        }
    }
}
