//! Troubles that a member's report tells of: at which member, and why.

use std::time::Duration;

use crate::bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Mode, Rejection, Thread};
use truechimer_group_agent::Trouble;
use truechimer_group_client::link::{ReadError, Together};
use truechimer_group_client::{Options, Replica};

fn all(bed: &Bed, mode: Mode) -> Vec<Running> {
    let agent = |member| bed.agent_with(member, |membership| membership.group.mode = mode);
    let agents = (1..=3).map(agent).collect();
    until("all are live", || (1..=3).all(|member| bed.report(member).phase == "live"));
    until("all is well", || (1..=3).all(|member| bed.report(member).troubles().is_empty()));
    agents
}

/// The troubles that a member's agent knows, once one of them is of this kind.
#[track_caller]
fn with(bed: &Bed, at: u32, kind: &str) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    until(kind, || {
        troubles = bed.report(at).troubles();
        troubles.iter().any(|trouble| trouble.kind == kind)
    });
    troubles
}

fn of(member: u32, kind: &'static str, why: &str) -> Trouble {
    Trouble { member, kind, why: why.to_owned() }
}

#[test]
fn who_is_out_or_away_is_named() {
    let bed = Bed::new();
    let agents = all(&bed, Mode::Active);
    bed.hub.cut(&[&[Member(3)]]);
    let why = "no majority of the members: 1 of 3 are connected, without 1, 2";
    assert_eq!(with(&bed, 3, "outside"), [of(3, "outside", why)]);
    assert_eq!(with(&bed, 1, "away"), [of(3, "away", "it is not connected")]);
    assert!(bed.report(1).is_well(), "the others have times");
    bed.hub.heal();
    until("all is well again", || bed.report(1).troubles().is_empty());
    drop(agents);
}

#[test]
fn a_member_that_waits_for_its_program_is_not_said_to_lack_a_majority() {
    let bed = Bed::new();
    let start = |member| bed.agent_with(member, |membership| membership.checkpoints = true);
    let agents: Vec<Running> = (1..=3).map(start).collect();
    let replicas: Vec<_> = (1..=2).map(|member| bed.attach(member)).collect();
    let troubles = with(&bed, 3, "outside");
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(troubles[0].why.contains("as long as its program is not there"), "{troubles:?}");
    // It has no majority to lack: the others are one.
    until("two are connected", || bed.report(1).connected == [1, 2]);
    drop(replicas);
    drop(agents);
}

#[test]
fn a_member_without_the_state_is_named_by_itself_and_by_the_others() {
    let bed = Bed::new();
    let start = |member: u32| bed.agent_with(member, |membership| membership.checkpoints = true);
    let agents = vec![start(1), start(2)];
    // Programs that give no checkpoints: whoever comes later waits.
    let mut replicas: Vec<_> = (1..=2).map(|member| bed.attach(member)).collect();
    until("two are live", || {
        (1..=2).map(|member| bed.report(member)).all(|one| one.phase == "live" && one.timed)
    });
    let late = start(3);
    replicas.push(bed.attach(3));
    let own = with(&bed, 3, "stateless");
    assert_eq!((own[0].member, own.len()), (3, 1));
    assert!(
        own[0].why.starts_with("it lacks the group's state, and waits to be let in"),
        "{own:?}"
    );
    let untimed = || bed.report(1).troubles().iter().any(|trouble| trouble.kind == "untimed");
    until("the group's clock is tied to UTC", || !untimed());
    let others = with(&bed, 1, "stateless");
    assert_eq!(others, [of(3, "stateless", "it is connected and lacks the group's state")]);
    drop((agents, late, replicas));
}

#[test]
fn a_blocked_backup_is_told_whom_it_waits_for() {
    for (mode, name) in [(Mode::SemiActive, "semi-active"), (Mode::Passive, "passive")] {
        let bed = Bed::new();
        let agents = all(&bed, mode);
        let replicas = [1, 2].map(|member| bed.attach(member));
        until("both programs read, and the third member has none", || {
            let members = bed.report(3).members;
            members.iter().all(|it| it.live && it.program == (it.member != 3))
        });
        let first = bed.report(3).first.unwrap();
        let backup = 3 - first;
        let [primary, replica] = [first, backup].map(|it| &replicas[it as usize - 1]);
        let clock = replica.thread(Thread::FIRST);
        let reader = std::thread::spawn(move || clock.now(Call::Group, Some(PATIENCE)).unwrap());
        let troubles = with(&bed, backup, "blocked");
        assert_eq!((troubles[0].member, troubles.len()), (backup, 1));
        let why = format!(
            "this member is a backup in the mode {name}: member {first} has been the primary"
        );
        assert!(troubles[0].why.contains(&why), "{troubles:?}");
        assert!(troubles[0].why.ends_with("have work, and is it not stuck?"), "{troubles:?}");
        let value = primary.thread(Thread::FIRST).now(Call::Group, Some(PATIENCE)).unwrap();
        assert_eq!(reader.join().unwrap().time, value.time);
        until("it is blocked no more", || bed.report(backup).troubles().is_empty());
        drop((agents, replicas));
    }
}

#[test]
fn a_program_that_is_gone_and_one_that_has_missed_something_are_told() {
    let bed = Bed::new();
    let agents = all(&bed, Mode::Active);
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    let read = |at: usize| {
        replicas[at].thread(Thread::FIRST).now(Call::Group, Some(PATIENCE)).map(|value| value.time)
    };
    let first: Vec<_> = (0..3).map(|at| read(at).unwrap()).collect();
    assert!(first.iter().all(|time| *time == first[0]));
    // The third is out while the others go on.
    bed.hub.cut(&[&[Member(3)]]);
    with(&bed, 3, "outside");
    read(0).unwrap();
    read(1).unwrap();
    bed.hub.heal();
    let missed = with(&bed, 3, "missed");
    assert!(missed.iter().all(|trouble| trouble.member == 3), "{missed:?}");
    let refused = replicas[2].thread(Thread::FIRST).now(Call::Group, Some(Duration::from_secs(9)));
    assert!(matches!(refused, Err(ReadError::Rejected(_))), "{refused:?}");
    // The second's program ends, and the first's goes on.
    let mut replicas = replicas;
    drop(replicas.remove(1));
    let gone = with(&bed, 2, "gone");
    // That of the third gets nothing, and goes nowhere.
    assert!(gone.contains(&of(2, "gone", "its program is gone, and those of member 1 go on")));
    assert!(gone.contains(&of(3, "missed", "its program has missed part of what the group did")));
    // Programs may end.
    drop(replicas);
    until("all have ended", || bed.report(2).troubles().is_empty());
    drop(agents);
}

#[test]
fn a_program_that_waits_for_others_and_one_that_began_beside_them_are_told() {
    let bed = Bed::new();
    let agents = all(&bed, Mode::Active);
    let two = Options { together: Together::Count(2), ..Options::default() };
    let start = |member| Replica::attach_with(&bed.place("test", member), &two).unwrap();
    let read = |replica: &Replica| {
        replica.thread(Thread::FIRST).now(Call::Group, Some(PATIENCE)).unwrap().time
    };
    let first = start(1);
    let other = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&first));
        let why = "programs of other members, which it starts with, have not started";
        let blocked = with(&bed, 1, "blocked");
        assert!(blocked.len() == 1 && blocked[0].why.ends_with(why), "{blocked:?}");
        let other = start(2);
        assert_eq!(read(&other), reader.join().unwrap());
        other
    });
    until("nobody waits", || (1..=3).all(|member| bed.report(member).troubles().is_empty()));
    let late = bed.attach(3);
    let why = "its program began while those of other members were running, and lacks what they \
               had read: it needs their state, or all are to be started together";
    assert_eq!(with(&bed, 3, "stateless"), [of(3, "stateless", why)]);
    // It takes the others' next rounds for something else: who is right is not known yet.
    let call = |replica: &Replica, call| {
        replica.thread(Thread::FIRST).now(call, Some(PATIENCE)).unwrap();
    };
    (0..2).for_each(|_| call(&late, Call::Time));
    (0..2).for_each(|_| call(&first, Call::Group));
    let mut diverged = with(&bed, 1, "diverged");
    let all = [1, 3].map(|member| bed.report(member));
    let late_ones: Vec<u32> =
        all.iter().filter(|one| one.is_late()).map(|one| one.member).collect();
    diverged.iter_mut().for_each(|trouble| trouble.blame(&late_ones));
    let cause =
        "; the likely cause is the program of member 3, which began without the others' state";
    assert!(diverged[0].why.contains("no majority can tell"), "{diverged:?}");
    assert!(diverged[0].why.ends_with(cause), "{diverged:?}");
    (0..2).for_each(|_| call(&other, Call::Group));
    until("the late one is fenced", || with(&bed, 1, "diverged").iter().all(|it| it.member == 3));
    drop(late);
    with(&bed, 3, "gone");
    drop((first, other));
    until("all have ended", || bed.report(3).troubles().is_empty());
    drop(agents);
}

#[test]
fn a_program_that_differs_is_fenced_and_told_by_all_as_long_as_it_runs() {
    let bed = Bed::new();
    let agents = all(&bed, Mode::Active);
    let mut replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    let read = |at: usize, call| {
        replicas[at].thread(Thread::FIRST).now(call, Some(PATIENCE)).unwrap();
    };
    read(0, Call::Group);
    read(2, Call::Group);
    read(1, Call::Time);
    let judged = "its program has differed from a majority's for ";
    for at in 1..=3 {
        let is_judged = |at| bed.report(at).troubles().iter().any(|t| t.why.starts_with(judged));
        until("a majority has read as far", || is_judged(at));
        let diverged = with(&bed, at, "diverged");
        let known: Vec<u32> = diverged.iter().map(|trouble| trouble.member).collect();
        assert_eq!(known, [2], "as member {at} has it: {diverged:?}");
        let why = &diverged[0].why;
        assert!(why.starts_with(judged), "{why}");
        assert!(why.contains("read round 0 of thread 10 by time, and they by "), "{why}");
    }
    // No values, no service; and the others go on.
    let refused = replicas[1].thread(Thread::FIRST).now(Call::Group, Some(PATIENCE));
    assert_eq!(refused, Err(ReadError::Rejected(Rejection::Missed)));
    let clock = |at: usize| replicas[at].thread(Thread::FIRST).now(Call::Group, Some(PATIENCE));
    assert_eq!(clock(0).unwrap().time, clock(2).unwrap().time);
    assert!(
        agents[0].lines().iter().any(|line| line.contains("program of node 2 does other work"))
    );
    // It says that it begins anew, with a state that is known: that of all its agent has heard, which is to be as much.
    let heard = |member| bed.report(member).counts.rounds;
    until("member 2 has heard what the others read", || heard(2) >= heard(1).max(heard(3)));
    replicas[1].restarted().unwrap();
    until("nobody differs", || (1..=3).all(|at| bed.report(at).troubles().is_empty()));
    let all: Vec<_> = (0..3).map(|at| clock(at).unwrap().time).collect();
    assert!(all.iter().all(|time| *time == all[0]), "{all:?}");
    read(0, Call::Group);
    read(2, Call::Group);
    read(1, Call::Time);
    with(&bed, 1, "diverged");
    drop(replicas.remove(1));
    with(&bed, 2, "gone");
    let troubles = bed.report(2).troubles();
    assert!(troubles.iter().all(|trouble| trouble.kind != "diverged"), "{troubles:?}");
    drop((replicas, agents));
}
