//! Several agents in one process, on the local transport, with real programs' threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use crate::bed::{Bed, PATIENCE, until};
use truechimer_group::{Call, Member, Thread};
use truechimer_group_client::link::{Outside, ReadError, Role};
use truechimer_group_client::{Began, Options, Replica};

/// A program's thread, by number.
fn number(n: u64) -> Thread {
    Thread(Thread::FIRST.0 + n)
}

/// Says that this program starts without a checkpoint, and waits until that is known.
fn restarted(replica: &Replica) {
    replica.restarted().unwrap();
    replica.status(PATIENCE).unwrap().expect("in time");
}

/// Values by thread and round.
type Values = BTreeMap<(u64, usize), i64>;

/// Lets each of the replicas read so many rounds in so many threads, all at once.
fn read_all(replicas: &[&Replica], threads: u64, rounds: usize) -> Vec<Values> {
    let values: Vec<Mutex<Values>> = replicas.iter().map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for (replica, values) in replicas.iter().zip(&values) {
            for n in 0..threads {
                scope.spawn(move || {
                    let clock = replica.thread(number(n));
                    for round in 0..rounds {
                        let value = clock.now(Call::Group, Some(PATIENCE)).unwrap();
                        values.lock().unwrap().insert((n, round), value.time.0);
                    }
                });
            }
        }
    });
    values.into_iter().map(|values| values.into_inner().unwrap()).collect()
}

#[test]
fn threads_at_all_members_read_the_same_and_never_go_back() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    // One that comes in later begins where the others are by then.
    until("all are live", || (1..=3).all(|member| bed.report(member).phase == "live"));
    let all = read_all(&replicas.iter().collect::<Vec<_>>(), 4, 200);
    assert_eq!(all[0].len(), 800);
    assert!(all.iter().all(|values| *values == all[0]), "the members differ");
    for n in 0..4 {
        let of_thread: Vec<i64> = all[0].range((n, 0)..(n + 1, 0)).map(|(_, time)| *time).collect();
        assert!(of_thread.windows(2).all(|pair| pair[0] < pair[1]), "thread {n} went back");
    }
    let mut distinct: Vec<i64> = all[0].values().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 800, "monotone for the whole group");
    let report = bed.report(2);
    assert_eq!(report.phase, "live");
    assert!(report.counts.rounds >= 800, "{report:?}");
    assert_eq!(report.members.iter().filter(|member| member.live).count(), 3, "{report:?}");
    drop(agents);
}

#[test]
fn a_minority_waits_or_fails_and_never_gets_a_value() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    let (one, two) = (bed.attach(1), bed.attach(2));
    read_all(&[&one, &two], 1, 10);
    let gaps = bed.report(1).counts.gaps;
    bed.hub.cut(&[&[Member(1)]]);
    let alone = one.thread(number(0));
    let short = std::time::Duration::from_millis(300);
    assert!(matches!(alone.now(Call::Group, Some(short)), Err(ReadError::Late)));
    let others = two.thread(number(0)).now(Call::Group, Some(PATIENCE)).unwrap();
    assert!(others.time.0 > 0, "the majority goes on");
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    bed.hub.heal();
    until("member 1 is live again", || bed.report(1).phase == "live");
    assert!(bed.report(1).counts.gaps > gaps, "it has missed something");
    // It comes back to the group's thread at the group's place.
    restarted(&one);
    let both = read_all(&[&one, &two], 1, 10);
    assert_eq!(both[0], both[1]);
    assert!(both[0][&(0, 0)] > others.time.0);

    // The same for a program that will not wait.
    drop((one, alone));
    let failing = Options { outside: Outside::Fail, ..Options::default() };
    let one = Replica::attach_with(&bed.place("test", 1), &failing).unwrap();
    bed.hub.cut(&[&[Member(1)]]);
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    let result = one.thread(number(5)).now(Call::Group, Some(PATIENCE));
    assert!(matches!(result, Err(ReadError::Rejected(_))), "{result:?}");
    drop(agents);
}

#[test]
fn a_program_that_goes_leaves_nothing_behind() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    let (one, two) = (bed.attach(1), bed.attach(2));
    read_all(&[&one, &two], 1, 5);
    bed.hub.cut(&[&[Member(1)]]);
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    // Its readings wait for the majority when it goes.
    thread::scope(|scope| {
        for n in 0..8 {
            let clock = one.thread(number(n));
            let patience = std::time::Duration::from_millis(200);
            scope.spawn(move || {
                assert!(matches!(clock.now(Call::Group, Some(patience)), Err(ReadError::Late)));
            });
        }
    });
    drop(one);
    until("its readings are gone", || bed.report(1).waiting.operations == 0);
    bed.hub.heal();
    until("member 1 is live again", || bed.report(1).phase == "live");
    let next = bed.attach(1);
    restarted(&next);
    until("it begins beside the other", || next.began() == Began::Late);
    let both = read_all(&[&next, &two], 1, 20);
    assert_eq!(both[0], both[1], "the next program takes up the group's place");
    drop(agents);
}

#[test]
fn an_agent_that_stops_tells_its_programs_and_keeps_its_floor() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    let values = read_all(&replicas.iter().collect::<Vec<_>>(), 1, 10);
    let last = *values[0].values().max().unwrap();
    for agent in agents {
        agent.stop();
    }
    for replica in &replicas {
        let result = replica.thread(number(0)).now(Call::Group, Some(PATIENCE));
        assert!(matches!(result, Err(ReadError::Gone)), "{result:?}");
    }
    // All have died: what comes after goes on after what was before.
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    let again = read_all(&replicas.iter().collect::<Vec<_>>(), 1, 1);
    assert!(again[0][&(0, 0)] > last, "{} is not after {last}", again[0][&(0, 0)]);
    drop(agents);
}

#[test]
fn one_agent_may_have_all_members_of_a_group_and_several_groups() {
    let bed = Bed::new();
    let agent = bed.local("all", 3);
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach_to("all", member)).collect();
    let values = read_all(&replicas.iter().collect::<Vec<_>>(), 2, 50);
    assert!(values.iter().all(|one| *one == values[0]));
    let family = replicas[1].family();
    let readers = Options { role: Role::Reader, family, ..Options::default() };
    let reader = Replica::attach_with(&bed.place("all", 2), &readers).unwrap();
    reader.thread(number(77)).now(Call::Group, Some(PATIENCE)).unwrap();
    agent.stop();
}

#[test]
fn a_second_agent_of_the_same_member_is_refused() {
    let bed = Bed::new();
    let agent = bed.agent(1);
    let why = bed.refused(1, &bed.dir.join("state"));
    assert!(why.contains("another agent is member 1 of group 'test'"), "{why}");
    let why = bed.refused(1, &bed.dir.join("elsewhere"));
    assert!(why.contains("member 1") || why.contains("1.sock"), "{why}");
    agent.stop();
}

#[test]
fn other_settings_under_the_same_name_are_kept_out() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=2).map(|member| bed.agent(member)).collect();
    let other = bed.agent_with(3, |membership| membership.group.lease_ns += 1);
    until("two are live", || (1..=2).all(|member| bed.report(member).phase == "live"));
    until("it was noticed", || {
        bed.report(1).notices.iter().any(|notice| notice.kind == "other-settings")
    });
    assert_ne!(bed.report(3).phase, "live");
    until("it says so itself", || {
        other.lines().iter().any(|line| line.contains("has other settings"))
    });
    drop(agents);
}
