//! Nodes, agents, Corosync and the network fail and come back.

use truechimer_group::{Call, Refusal, Rejection};
use truechimer_group_client::link::ReadError;
use truechimer_group_client::{Event, NextError, Replica};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::process::Signal;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, PATIENCE, SHORT, agree, number, read, restarted};

fn ring() -> Option<Ring> {
    or_skip(Ring::up(&Settings::brisk()))
}

/// The greatest value.
fn last(values: &crate::agents::Values) -> i64 {
    values.values().copied().max().unwrap()
}

#[test]
fn a_killed_agent_is_done_without_and_comes_back() {
    let Some(ring) = ring() else { return };
    let mut agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let before = last(&agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 100));
    agents[0].kill();
    // The two others go on at once: the first in the order of proposing is gone.
    let survivors = [&replicas[1], &replicas[2]];
    let during = agree(&survivors, 0..2, 100);
    assert!(*during.values().min().unwrap() > before, "the clock has gone back");
    assert!(replicas[0].thread(number(0)).now(Call::Group, None).is_err());
    agents[0] = Agent::start(&ring, 1, &[]);
    agents[0].wait_for("live");
    let again = agents[0].attach();
    restarted(&again);
    let after = agree(&[&again, &replicas[1], &replicas[2]], 0..2, 100);
    assert!(*after.values().min().unwrap() > last(&during), "the clock has gone back");

    // One that leaves in good order is missed even less.
    agents[2].stop();
    let rest = agree(&[&again, &replicas[1]], 0..2, 100);
    assert!(*rest.values().min().unwrap() > last(&after));
}

#[test]
fn a_minority_never_advances_and_rejoins_when_the_ring_is_whole() {
    let Some(ring) = ring() else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let before = last(&agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 50));
    let gaps = agents[2].report().counts.gaps;
    ring.partition(&[&[1, 2], &[3]]);
    let majority = [&replicas[0], &replicas[1]];
    let during = agree(&majority, 0..1, 200);
    assert!(*during.values().min().unwrap() > before);
    agents[2].wait_for("outside");
    let stands = agents[2].report();
    for _ in 0..3 {
        assert_eq!(read(&replicas[2], 1, SHORT), None, "a value without a majority");
    }
    let still = agents[2].report();
    assert_eq!((stands.last, stands.counts.rounds), (still.last, still.counts.rounds));
    ring.heal();
    agents[2].wait_until("live after a gap", |r| r.phase == "live" && r.counts.gaps > gaps);
    restarted(&replicas[2]);
    let after = agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 200);
    assert!(*after.values().min().unwrap() > last(&during), "the clock has gone back");

    // Nobody has a majority: all wait, and go on where they were.
    ring.partition(&[&[1], &[2], &[3]]);
    for agent in &agents {
        agent.wait_for("outside");
    }
    assert_eq!(read(&replicas[0], 2, SHORT), None, "a value without a majority");
    ring.heal();
    for agent in &agents {
        agent.wait_for("live");
    }
    for replica in &replicas {
        restarted(replica);
    }
    let end = agree(&replicas.iter().collect::<Vec<_>>(), 3..4, 50);
    assert!(*end.values().min().unwrap() > last(&after), "the clock has gone back");
}

#[test]
fn a_node_that_was_stopped_has_missed_something_and_knows_it() {
    let Some(ring) = ring() else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    // Its Corosync stands still, and with it all that it could have said.
    let gaps = agents[1].report().counts.gaps;
    ring.pause(2);
    let others = [&replicas[0], &replicas[2]];
    let during = agree(&others, 0..1, 100);
    ring.cont(2);
    agents[1].wait_until("live after a gap", |r| r.phase == "live" && r.counts.gaps > gaps);
    // None of its threads asked for anything meanwhile; none goes on as if nothing had been.
    for n in [0, 7, 0] {
        let result = replicas[1].thread(number(n)).now(Call::Group, Some(PATIENCE));
        assert_eq!(result, Err(ReadError::Rejected(Rejection::Missed)), "thread {n}");
    }
    let next = loop {
        match replicas[1].next(Some(PATIENCE)) {
            Ok(Some(Event::Phase(_))) => {}
            other => break other,
        }
    };
    assert!(matches!(next, Err(NextError::Missed)), "{next:?}");
    restarted(&replicas[1]);
    let after = agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 100);
    assert!(*after.values().min().unwrap() > last(&during), "the clock has gone back");

    // The agent stands still: the ring waits for nobody's programs.
    agents[0].process.signal(Signal::Stop);
    let others = [&replicas[1], &replicas[2]];
    let during = agree(&others, 1..2, 100);
    agents[0].process.signal(Signal::Continue);
    let late = agree(&[&replicas[0]], 1..2, 100);
    assert_eq!(late, during, "it was away, but is told all of it");
}

#[test]
fn corosync_stopping_under_an_agent_is_waited_out() {
    let Some(mut ring) = ring() else { return };
    let mut agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    for kill in [false, true] {
        let gaps = agents[0].report().counts.gaps;
        if kill {
            ring.kill(1);
        } else {
            ring.stop(1);
        }
        agents[0].wait_until("out of the ring", |report| {
            report.phase == "outside" && !report.connected_to_transport
        });
        assert_eq!(read(&replicas[0], 9, SHORT), None, "a value without Corosync");
        let others = [&replicas[1], &replicas[2]];
        let during = agree(&others, 0..1, 100);
        ring.start(1);
        agents[0].wait_until("live after a gap", |r| r.phase == "live" && r.counts.gaps > gaps);
        restarted(&replicas[0]);
        let after = agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
        assert!(*after.values().min().unwrap() > last(&during), "the clock has gone back");
    }
    let said = agents[0].process.output();
    assert!(said.contains("this member is out of the group"), "{said}");
    // Nobody is in its way when it is to end meanwhile.
    ring.stop(1);
    agents[0].wait_for("outside");
    agents[0].stop();
    // And it may start before Corosync does.
    let mut early = Agent::start(&ring, 1, &[]);
    early.process.expect_output("trying again", PATIENCE);
    ring.start(1);
    early.wait_for("live");
}

#[test]
fn all_may_die_and_the_clock_does_not_go_back() {
    let Some(ring) = ring() else { return };
    let mut agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let before = last(&agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 50));
    drop(replicas);
    for agent in &mut agents {
        agent.kill();
    }
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let after = agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 50);
    assert!(*after.values().min().unwrap() > before, "the clock has gone back");
}

/// A message that a member sends while it is cut off comes to nobody: its sender is told so, and may send another when it
/// has begun anew.
#[test]
fn what_is_sent_by_a_member_that_is_cut_off_is_refused() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    ring.cut(3);
    agents[2].wait_for("outside");
    let late = replicas[2].multicast(b"late").unwrap();
    // The refusal of the one, or the delivery of the other, whatever else there is.
    let next = |replica: &Replica| loop {
        match replica.next(Some(PATIENCE)) {
            Ok(Some(Event::Refused { token, why })) => return Err((token, why)),
            Ok(Some(Event::Delivered(message))) => return Ok(message.payload),
            Ok(Some(_)) => {}
            Err(NextError::Missed) => restarted(replica),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next(&replicas[2]), Err((late, Refusal::Outside)));
    ring.plug(3);
    agents[2].wait_for("live");
    restarted(&replicas[2]);
    replicas[2].multicast(b"new").unwrap();
    for replica in &replicas {
        assert_eq!(next(replica).as_deref(), Ok(&b"new"[..]));
    }
}

/// Five members bear the loss of two nodes, with all that runs there, and not of a third.
#[test]
fn five_members_go_on_without_two_and_stand_without_three() {
    const FIVE: [&str; 2] = ["--members", "1,2,3,4,5"];
    let Some(mut ring) = or_skip(Ring::up(&Settings { nodes: 5, ..Settings::brisk() })) else {
        return;
    };
    let mut agents: Vec<_> = (1..=5).map(|node| Agent::start(&ring, node, &FIVE)).collect();
    agents.iter().for_each(|agent| agent.wait_for("live"));
    let mut replicas: Vec<Option<Replica>> =
        Agent::attach_all(&agents).into_iter().map(Some).collect();
    let these = |replicas: &[Option<Replica>], first: u64, rounds| {
        agree(&replicas.iter().flatten().collect::<Vec<_>>(), first..first + 2, rounds)
    };
    let mut newest = last(&these(&replicas, 0, 50));
    let kill = |node: u32, ring: &mut Ring, agents: &mut [Agent], replicas: &mut [Option<_>]| {
        ring.kill(node);
        agents[node as usize - 1].kill();
        replicas[node as usize - 1] = None;
    };
    // The first in the order of proposing and the last, and two in the middle.
    for (turn, lost) in (1..).zip([[1, 5], [2, 3]]) {
        for node in lost {
            kill(node, &mut ring, &mut agents, &mut replicas);
        }
        let during = these(&replicas, 10 * turn, 100);
        assert!(*during.values().min().unwrap() > newest, "back without {lost:?}");
        for node in lost {
            ring.start(node);
            agents[node as usize - 1] = Agent::start(&ring, node, &FIVE);
        }
        for node in lost {
            let agent = &agents[node as usize - 1];
            agent.wait_for("live");
            let replica = agent.attach();
            restarted(&replica);
            replicas[node as usize - 1] = Some(replica);
        }
        let after = these(&replicas, 10 * turn + 2, 50);
        assert!(*after.values().min().unwrap() > last(&during), "back with {lost:?} again");
        newest = last(&after);
    }
    for node in [4, 1, 2] {
        kill(node, &mut ring, &mut agents, &mut replicas);
    }
    for node in [3, 5] {
        agents[node - 1].wait_for("outside");
        let replica = replicas[node - 1].as_ref().unwrap();
        assert_eq!(read(replica, 50, SHORT), None, "a value by two of five");
        let why = agents[node - 1].report().troubles()[0].why.clone();
        assert_eq!(why, "no majority of the members: 2 of 5 are connected, without 1, 2, 4");
    }
    // One more is a majority again.
    ring.start(2);
    agents[1] = Agent::start(&ring, 2, &FIVE);
    for node in [2, 3, 5] {
        agents[node - 1].wait_for("live");
    }
    replicas[1] = Some(agents[1].attach());
    replicas.iter().flatten().for_each(restarted);
    let end = these(&replicas, 60, 50);
    assert!(*end.values().min().unwrap() > newest, "the clock has gone back");
}
