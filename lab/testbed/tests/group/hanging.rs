//! A Corosync that hangs when an agent comes to it.

use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, SHORT, agree, read, restarted, until};

#[test]
fn an_agent_answers_its_programs_while_corosync_lets_it_wait() {
    let Some(mut ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    ring.kill(3);
    agents[2].wait_for("outside");
    ring.start(3);
    ring.wait_for(3, &[1, 2, 3]);
    ring.pause(3);
    // Within this it tries to connect, perhaps many times: whatever happens, it answers.
    for _ in 0..8 {
        std::thread::sleep(SHORT);
        assert_eq!(read(&replicas[2], 7, SHORT), None, "a value without a majority");
        let report = agents[2].report();
        assert!(report.phase != "live" || !report.connected_to_transport, "{report:#?}");
    }
    agree(&[&replicas[0], &replicas[1]], 1..2, 20);
    ring.cont(3);
    agents[2].wait_for("live");
}

#[test]
fn status_says_of_a_member_whose_corosync_stands_still_that_it_is_stalled() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    let gaps = agents[2].report().counts.gaps;
    ring.pause(3);
    // What it sends does not come back, and nobody tells it that it is alone.
    assert_eq!(read(&replicas[2], 1, SHORT), None, "a value from nowhere");
    until("it is called stalled", || {
        let shown = agents[2].status();
        shown.contains("status(256)") && shown.contains("3, live, but stalled: nothing delivered")
    });
    assert!(!agents[2].report().is_well());
    // To the others it is away, and they go on; their status says so, and is none that is well.
    until("the others go on without it", || agents[0].report().connected == [1, 2]);
    agree(&[&replicas[0], &replicas[1]], 2..3, 20);
    let shown = agents[0].status();
    assert!(
        shown.contains("status(256)") && shown.contains("member 3: it is not connected"),
        "{shown}"
    );
    ring.cont(3);
    agents[2].wait_until("live after a gap", |report| {
        report.phase == "live" && report.counts.gaps > gaps && report.stalled_ns.is_none()
    });
    restarted(&replicas[2]);
    agree(&replicas.iter().collect::<Vec<_>>(), 3..4, 20);
    let shown = agents[2].status();
    assert!(shown.contains("status(0)") && !shown.contains("stalled"), "{shown}");
}
