//! Members that were out of the majority: what their programs from before get, and what not.

use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Rejection, Thread};
use truechimer_group_client::link::{Outside, ReadError};
use truechimer_group_client::{Began, CommitError, Event, NextError, Options, Replica};

const MISSED: Result<i64, ReadError> = Err(ReadError::Rejected(Rejection::Missed));

fn three(bed: &Bed) -> (Vec<Running>, Vec<Replica>) {
    let agents = (1..=3).map(|member| bed.agent(member)).collect();
    // One that is let in later begins where the others are by then.
    all_live(bed);
    (agents, (1..=3).map(|member| bed.attach(member)).collect())
}

fn all_live(bed: &Bed) {
    until("all are live", || (1..=3).all(|member| bed.report(member).phase == "live"));
}

/// One reading of a thread.
fn read(replica: &Replica, n: u64) -> Result<i64, ReadError> {
    let clock = replica.thread(Thread(Thread::FIRST.0 + n));
    clock.now(Call::Group, Some(PATIENCE)).map(|value| value.time.0)
}

/// Reads the same thread so many times at each of them; the readings must be the same.
#[track_caller]
fn agree(replicas: &[&Replica], n: u64, rounds: usize) -> Vec<i64> {
    let all: Vec<Vec<i64>> = replicas
        .iter()
        .map(|replica| (0..rounds).map(|_| read(replica, n).unwrap()).collect())
        .collect();
    assert!(all.iter().all(|values| *values == all[0]), "they differ: {all:?}");
    all[0].clone()
}

/// Messages that a replica gets until there is an error or `count` have come.
fn messages(replica: &Replica, count: usize) -> Result<Vec<Vec<u8>>, NextError> {
    let end = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < end, "not in time: {all:?}");
        if let Some(Event::Delivered(message)) = replica.next(Some(PATIENCE))? {
            all.push(message.payload);
        }
    }
    Ok(all)
}

fn live(bed: &Bed, member: u32, gaps: u64) {
    until("it is live again, with a gap", || {
        let report = bed.report(member);
        report.phase == "live" && report.counts.gaps > gaps
    });
}

/// Cuts it off from the others and brings it back, without any of them taking its time.
fn blink(bed: &Bed, member: u32) {
    let gaps = bed.report(member).counts.gaps;
    bed.hub.cut(&[&[Member(member)]]);
    bed.hub.heal();
    live(bed, member, gaps);
}

#[test]
fn after_a_gap_nothing_comes_until_the_program_has_started_anew() {
    let bed = Bed::new();
    let (agents, replicas) = three(&bed);
    let all: Vec<&Replica> = replicas.iter().collect();
    agree(&all, 0, 10);
    agree(&all, 1, 10);
    replicas[1].multicast(b"one").unwrap();
    assert_eq!(messages(&replicas[0], 1).unwrap(), [b"one"]);
    let point = replicas[0].thread(Thread(Thread::FIRST.0)).now(Call::Group, None).unwrap().point;
    agree(&all[1..], 0, 1);

    let gaps = bed.report(1).counts.gaps;
    bed.hub.cut(&[&[Member(1)]]);
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    // One thread asks while it is outside, the other at no time.
    let during = thread::scope(|scope| {
        let pending = scope.spawn(|| read(&replicas[0], 0));
        until("it asks", || bed.report(1).waiting.operations > 0);
        let during = [agree(&all[1..], 0, 50), agree(&all[1..], 1, 50)];
        replicas[1].multicast(b"two").unwrap();
        messages(&replicas[2], 2).unwrap();
        bed.hub.heal();
        assert_eq!(pending.join().unwrap(), MISSED);
        during
    });
    live(&bed, 1, gaps);
    assert!(bed.report(1).programs.missed);
    replicas[1].multicast(b"three").unwrap();
    messages(&replicas[2], 1).unwrap();
    for n in [1, 0, 1, 2] {
        assert_eq!(read(&replicas[0], n), MISSED, "thread {n}");
    }
    assert!(matches!(messages(&replicas[0], 1), Err(NextError::Missed)));
    assert!(matches!(replicas[0].commit(point, Some(PATIENCE)), Err(CommitError::Missed)));

    // Neither time nor being outside again makes up for it.
    blink(&bed, 1);
    assert_eq!(read(&replicas[0], 1), MISSED);
    assert!(matches!(messages(&replicas[0], 1), Err(NextError::Missed)));

    replicas[0].restarted().unwrap();
    assert!(!bed.report(1).programs.missed);
    let after = [agree(&all, 0, 10), agree(&all, 1, 10)];
    assert!(after[0][0] > during[0][49] && after[1][0] > during[1][49]);
    replicas[1].multicast(b"four").unwrap();
    assert_eq!(messages(&replicas[0], 1).unwrap(), [b"four"], "what it has missed stays missed");
    let point = replicas[0].thread(Thread(Thread::FIRST.0)).now(Call::Group, None).unwrap().point;
    agree(&all[1..], 0, 1);
    replicas[0].commit(point, Some(PATIENCE)).unwrap();
    drop(agents);
}

#[test]
fn a_gap_that_nobody_saw_is_a_gap() {
    let bed = Bed::new();
    let (agents, replicas) = three(&bed);
    let all: Vec<&Replica> = replicas.iter().collect();
    agree(&all, 0, 10);
    for replica in &all[..2] {
        // No operation was under way, and the phase is what it was.
        let member = replica.attached().member.0;
        blink(&bed, member);
        assert_eq!(read(replica, 0), MISSED);
        replica.restarted().unwrap();
        agree(&all, 0, 10);
    }
    // A program that comes after it has missed nothing of its own.
    blink(&bed, 3);
    assert_eq!(read(&replicas[2], 0), MISSED);
    let mut replicas = replicas;
    drop(replicas.pop());
    until("the program is gone", || bed.report(3).programs.family.is_none());
    let next = bed.attach(3);
    next.restarted().unwrap();
    until("it begins beside the others", || next.began() == Began::Late);
    agree(&[&replicas[0], &replicas[1], &next], 0, 10);
    drop(agents);
}

#[test]
fn where_nobody_went_on_nothing_was_missed() {
    let bed = Bed::new();
    let (agents, replicas) = three(&bed);
    let all: Vec<&Replica> = replicas.iter().collect();
    let before = agree(&all, 0, 10);
    replicas[0].multicast(b"one").unwrap();
    for replica in &all {
        assert_eq!(messages(replica, 1).unwrap(), [b"one"]);
    }
    let gaps: Vec<u64> = (1..=3).map(|member| bed.report(member).counts.gaps).collect();
    bed.hub.cut(&[&[Member(1)], &[Member(2)], &[Member(3)]]);
    until("all are outside", || (1..=3).all(|member| bed.report(member).phase == "outside"));
    let waited = thread::scope(|scope| {
        let pending: Vec<_> = all.iter().map(|replica| scope.spawn(|| read(replica, 0))).collect();
        until("all ask", || (1..=3).all(|member| bed.report(member).waiting.operations > 0));
        bed.hub.heal();
        pending.into_iter().map(|pending| pending.join().unwrap().unwrap()).collect::<Vec<_>>()
    });
    assert!(waited[0] > before[9] && waited.iter().all(|value| *value == waited[0]));
    let after: Vec<u64> = (1..=3).map(|member| bed.report(member).counts.gaps).collect();
    assert_eq!(gaps, after);
    // The very next round, and the very next message.
    let clock = replicas[0].thread(Thread(Thread::FIRST.0));
    let reports: Vec<_> = (1..=3).map(|member| bed.report(member)).collect();
    assert!(reports.iter().all(|report| !report.programs.missed), "{reports:#?}");
    agree(&all, 0, 10);
    assert_eq!(clock.rounds().0, 21);
    replicas[2].multicast(b"two").unwrap();
    for replica in &all {
        assert_eq!(messages(replica, 1).unwrap(), [b"two"]);
    }
    drop(agents);
}

#[test]
fn a_program_that_resumes_goes_on_at_the_groups_present_rounds() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent(member)).collect();
    all_live(&bed);
    let resume = Options { outside: Outside::Resume, ..Options::default() };
    let one = Replica::attach_with(&bed.place("test", 1), &resume).unwrap();
    let (two, three) = (bed.attach(2), bed.attach(3));
    agree(&[&one, &two, &three], 0, 10);
    let gaps = bed.report(1).counts.gaps;
    bed.hub.cut(&[&[Member(1)]]);
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    thread::scope(|scope| {
        // Whether it asks while it is outside or after: it waits, then gets the present.
        let clock = one.thread(Thread(Thread::FIRST.0));
        let short = Some(Duration::from_millis(100));
        assert_eq!(clock.now(Call::Group, short).unwrap_err(), ReadError::Late);
        let during = agree(&[&two, &three], 0, 50);
        let pending = scope.spawn(|| read(&one, 1));
        until("it asks", || bed.report(1).waiting.operations > 0);
        bed.hub.heal();
        live(&bed, 1, gaps);
        let resumed = pending.join().unwrap();
        assert!(resumed.unwrap() > during[49]);
    });
    agree(&[&two, &three], 1, 1);
    agree(&[&one, &two, &three], 0, 10);
    agree(&[&one, &two, &three], 1, 10);
    drop(agents);
}

/// A program that counts messages: does what its events ask until it has got so many messages, or a
/// checkpoint.
fn serve(replica: &Replica, state: &mut Vec<u8>, until_installed: bool, length: usize) {
    let end = Instant::now() + PATIENCE;
    while until_installed || state.len() < length {
        assert!(Instant::now() < end, "not in time: {state:?}");
        match replica.next(Some(Duration::from_millis(5))).unwrap() {
            Some(Event::Delivered(message)) => state.extend(message.payload),
            Some(Event::CheckpointWanted { join }) => replica.checkpoint(join, state).unwrap(),
            Some(Event::Install { data, .. }) => {
                *state = data;
                if until_installed {
                    return;
                }
                replica.installed().unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn a_checkpoint_closes_the_gap() {
    let bed = Bed::new();
    let with = |member| bed.agent_with(member, |membership| membership.checkpoints = true);
    let agents: Vec<_> = (1..=3).map(with).collect();
    let replicas: Vec<_> = (1..=3).map(|member| bed.attach(member)).collect();
    let mut states = [const { Vec::new() }; 3];
    let all_live = || (1..=3).all(|member| bed.report(member).phase == "live");
    let serve_all = |states: &mut [Vec<u8>; 3], length: usize| {
        thread::scope(|scope| {
            for (replica, state) in replicas.iter().zip(states) {
                scope.spawn(move || serve(replica, state, false, length));
            }
        });
    };
    // Members that come later than the others take over a state that is empty.
    let end = Instant::now() + PATIENCE;
    while !all_live() {
        assert!(Instant::now() < end, "not in time");
        for (replica, state) in replicas.iter().zip(&mut states) {
            match replica.next(Some(Duration::from_millis(5))).unwrap() {
                Some(Event::CheckpointWanted { join }) => replica.checkpoint(join, state).unwrap(),
                Some(Event::Install { .. }) => replica.installed().unwrap(),
                _ => {}
            }
        }
    }
    replicas[0].multicast(b"a").unwrap();
    serve_all(&mut states, 1);
    agree(&replicas.iter().collect::<Vec<_>>(), 0, 10);

    let gaps = bed.report(1).counts.gaps;
    bed.hub.cut(&[&[Member(1)]]);
    until("member 1 has noticed", || bed.report(1).phase == "outside");
    replicas[1].multicast(b"b").unwrap();
    thread::scope(|scope| {
        let [_, two, three] = &mut states;
        scope.spawn(|| serve(&replicas[1], two, false, 2));
        scope.spawn(|| serve(&replicas[2], three, false, 2));
    });
    agree(&[&replicas[1], &replicas[2]], 0, 50);
    bed.hub.heal();
    thread::scope(|scope| {
        let [one, two, three] = &mut states;
        // They go on serving until it has what it needs.
        scope.spawn(|| serve(&replicas[1], two, false, 3));
        scope.spawn(|| serve(&replicas[2], three, false, 3));
        serve(&replicas[0], one, true, 0);
        assert_eq!(*one, b"ab");
        assert_eq!(read(&replicas[0], 0), MISSED, "before it has taken its state over");
        replicas[1].multicast(b"c").unwrap();
        replicas[0].installed().unwrap();
        serve(&replicas[0], one, false, 3);
    });
    live(&bed, 1, gaps);
    assert!(states.iter().all(|state| state == b"abc"), "{states:?}");
    agree(&replicas.iter().collect::<Vec<_>>(), 0, 10);
    drop(agents);
}
