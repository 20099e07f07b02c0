//! Passive replication over a ring: a primary that gives checkpoints and dies.

use truechimer_group::Member;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, PATIENCE};

#[path = "../../../../group/agent/tests/agents/bed/service.rs"]
mod service;

use service::{Service, serve};

#[test]
fn a_backup_takes_over_from_the_checkpoint_of_a_primary_that_was_killed() {
    let Some(mut ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let start = |node| Agent::start(&ring, node, &["--mode", "passive", "--checkpoints"]);
    let mut agents = vec![start(1), start(2)];
    let mut one = Service::new(agents[0].attach());
    let mut two = Service::new(agents[1].attach());
    serve(&mut [&mut one, &mut two], PATIENCE, "two are live", |_| live(&agents));
    agents.push(start(3));
    let mut three = Service::new(agents[2].attach());
    let all = &mut [&mut one, &mut two, &mut three];
    serve(all, PATIENCE, "all are live", |_| live(&agents));
    for request in 0..40 {
        one.replica.multicast(&[request]).unwrap();
    }
    let all = &mut [&mut one, &mut two, &mut three];
    serve(all, PATIENCE, "all have them", |all| all.iter().all(|it| it.seen() == 40));
    let kept = |agent: &Agent| agent.report().waiting.values;
    for _ in 0..20 {
        assert_eq!(one.work(PATIENCE).synchronizer, Member(1));
    }
    let installs = [two.installs, three.installs];
    one.checkpoint();
    let backups = &mut [&mut two, &mut three];
    serve(backups, PATIENCE, "backups have its state", |all| {
        all.iter().zip(installs).all(|(it, before)| it.installs == before + 1)
    });
    for _ in 0..10 {
        one.work(PATIENCE);
    }
    serve(backups, PATIENCE, "backups keep what came since", |_| {
        agents[1..].iter().all(|agent| kept(agent) == 10)
    });

    // Corosync and all are gone at once.
    ring.kill(1);
    agents[0].kill();
    for k in 20..40 {
        let value = two.work(PATIENCE);
        assert_eq!(value.synchronizer, Member(if k < 30 { 1 } else { 2 }), "request {k}");
    }
    assert_eq!(two.done[..30], one.done);
    for _ in 20..40 {
        three.work(PATIENCE);
    }
    assert_eq!(three.done, two.done, "the other backup reads the same");

    // A new program at the first node starts from the others' state.
    ring.start(1);
    agents[0] = Agent::start(&ring, 1, &["--mode", "passive", "--checkpoints"]);
    let mut again = Service::new(agents[0].attach());
    let all = &mut [&mut again, &mut two, &mut three];
    serve(all, PATIENCE, "the first is back", |all| all[0].installs == 1 && live(&agents));
    assert_eq!(again.done, two.done);
    two.replica.multicast(&[40]).unwrap();
    let all = &mut [&mut again, &mut two, &mut three];
    serve(all, PATIENCE, "all have it", |all| all.iter().all(|it| it.seen() == 41));
    for service in [&mut two, &mut three, &mut again] {
        assert_eq!(service.work(PATIENCE).synchronizer, Member(2));
    }
    assert_eq!((&again.done, &three.done), (&two.done, &two.done));
}

fn live(agents: &[Agent]) -> bool {
    agents.iter().all(|agent| agent.try_report().is_some_and(|report| report.phase == "live"))
}
