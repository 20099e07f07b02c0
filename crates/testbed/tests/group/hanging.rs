//! A Corosync that hangs when an agent comes to it.

use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, SHORT, agree, read};

#[test]
fn an_agent_answers_its_programs_while_corosync_lets_it_wait() {
    let Some(mut ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let replicas: Vec<_> = agents.iter().map(Agent::attach).collect();
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
