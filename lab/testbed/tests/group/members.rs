//! Members that are added and removed while the others' programs read.

use std::sync::atomic::{AtomicBool, Ordering};

use truechimer_group_client::{Began, Replica};
use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, PATIENCE, agree, read, until};

/// The thread that reads all the time.
const ALWAYS: u64 = 10;
/// All that there will be.
const ALL: [&str; 2] = ["--members", "1,2,3,4"];

/// Has each replica read while something is done: all values are the same, and never go back.
fn while_all_read<T>(replicas: &[Replica], at_least: usize, what: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let (done, all) = std::thread::scope(|scope| {
        let reader = |replica| {
            let over = &over;
            scope.spawn(move || {
                let mut values = Vec::new();
                while !over.load(Ordering::Relaxed) || values.len() < at_least {
                    values.push(read(replica, ALWAYS, PATIENCE).expect("a value in time"));
                }
                values
            })
        };
        let readers: Vec<_> = replicas.iter().map(reader).collect();
        let done = what();
        over.store(true, Ordering::Relaxed);
        let all: Vec<Vec<i64>> =
            readers.into_iter().map(|reader| reader.join().expect("it read")).collect();
        (done, all)
    });
    let most = all.iter().max_by_key(|values| values.len()).expect("some read");
    assert!(most.is_sorted_by(|a, b| a < b), "the time goes back");
    for values in &all {
        assert!(values.len() >= at_least && **values == most[..values.len()], "values differ");
    }
    // So that each has read as often as the others, whatever comes next.
    std::thread::scope(|scope| {
        for (replica, values) in replicas.iter().zip(&all) {
            let rest = &most[values.len()..];
            scope.spawn(move || {
                for value in rest {
                    assert_eq!(read(replica, ALWAYS, PATIENCE), Some(*value));
                }
            });
        }
    });
    done
}

/// Writes the ring's node list of so many nodes at each, and has it read by those that run.
fn node_list(ring: &Ring, whole: &str, nodes: u32, reload: bool) {
    let node = |n: u32| format!("nodeid: {n}\n");
    let mut list = String::new();
    for part in whole.split_inclusive("    }\n") {
        let is_left_out = (nodes + 1..=4).any(|n| part.contains(&node(n)));
        let kept = if is_left_out { part.split("    node {").next() } else { Some(part) };
        list.push_str(kept.unwrap_or_default());
    }
    assert_eq!(list.matches("nodeid: ").count(), nodes as usize, "{list}");
    for n in 1..=4 {
        std::fs::write(ring.configuration(n), &list).unwrap();
    }
    if reload {
        let output = ring.command(1, binary::system("corosync-cfgtool")).arg("-R").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Three of the four that `members` names, on a ring of three nodes; the fourth node is added, and taken away again.
#[test]
fn a_member_that_is_named_is_added_and_removed_while_the_others_read() {
    let settings = Settings { nodes: 4, ..Settings::brisk() };
    let Some(mut ring) = or_skip(Ring::bare(&settings)) else { return };
    let whole = std::fs::read_to_string(ring.configuration(1)).unwrap();
    node_list(&ring, &whole, 3, false);
    (1..=3).for_each(|node| ring.start(node));
    (1..=3).for_each(|node| ring.wait_for(node, &[1, 2, 3]));
    let agents: Vec<_> = (1..=3).map(|node| Agent::start(&ring, node, &ALL)).collect();
    agents.iter().for_each(|agent| agent.wait_for("live"));
    let replicas = Agent::attach_all(&agents);
    let (mut fourth, late) = while_all_read(&replicas, 200, || {
        node_list(&ring, &whole, 4, true);
        ring.start(4);
        ring.wait_for(1, &[1, 2, 3, 4]);
        let fourth = Agent::start(&ring, 4, &ALL);
        fourth.wait_for("live");
        let late = fourth.attach();
        // It reads what comes from then on.
        until("its program begins", || matches!(late.began(), Began::Together | Began::Late));
        (fourth, late)
    });
    // What nobody has read yet all read alike.
    let four: Vec<&Replica> = replicas.iter().chain([&late]).collect();
    let grown = agree(&four, 20..22, 200);
    let newest = *grown.values().max().unwrap();
    drop(late);
    while_all_read(&replicas, 200, || {
        fourth.stop();
        ring.stop(4);
        node_list(&ring, &whole, 3, true);
        ring.wait_for(1, &[1, 2, 3]);
        until("the others know", || {
            agents.iter().all(|agent| agent.report().connected == [1, 2, 3])
        });
    });
    let three: Vec<&Replica> = replicas.iter().collect();
    let shrunk = agree(&three, 30..32, 200);
    assert!(shrunk.values().all(|value| *value > newest), "never back");
    assert!(agents.iter().all(|agent| agent.report().phase == "live"));
}

/// Agents of one list make room for those of another, node by node: none of them give values side by side, and the time
/// does not go back.
#[test]
fn another_list_takes_over_node_by_node() {
    let settings = Settings { nodes: 4, ..Settings::brisk() };
    for (old, new) in [("1,2,3", "1,2,3,4"), ("1,2,3,4", "1,2,3")] {
        let Some(ring) = or_skip(Ring::up(&settings)) else { return };
        let [old_nodes, new_nodes] = [old, new]
            .map(|list| list.split(',').map(|n| n.parse().unwrap()).collect::<Vec<u32>>());
        let start = |node: u32, list: &str| Agent::start(&ring, node, &["--members", list]);
        let mut olds: Vec<Agent> = old_nodes.iter().map(|node| start(*node, old)).collect();
        let mut news: Vec<Agent> = Vec::new();
        let (mut newest, mut thread) = (0, 0);
        for node in [0, 4, 3, 2, 1] {
            if let Some(at) = olds.iter().position(|agent| agent.node == node) {
                olds.remove(at).stop();
            }
            if new_nodes.contains(&node) {
                news.push(start(node, new));
            }
            let has = |agents: &[Agent], list: &[u32]| agents.len() > list.len() / 2;
            let (by_old, by_new) = (has(&olds, &old_nodes), has(&news, &new_nodes));
            assert!(!(by_old && by_new), "lists that differ by one have no two majorities");
            for (agents, live) in [(&olds, by_old), (&news, by_new)] {
                for agent in agents {
                    agent.wait_until("it stands as it should", |report| {
                        (report.phase == "live") == live
                    });
                }
            }
            let live = if by_old { &olds } else { &news };
            if by_old || by_new {
                let replicas = Agent::attach_all(live);
                let replicas: Vec<&Replica> = replicas.iter().collect();
                let values = agree(&replicas, thread..thread + 2, 50);
                assert!(values.values().all(|value| *value > newest), "back, after {node}");
                newest = *values.values().max().unwrap();
                thread += 2;
            }
            // Rounds were had meanwhile: whoever is not to be live had the time to become so.
            for agent in olds.iter().chain(&news) {
                let may = (by_old || by_new) && live.iter().any(|one| one.node == agent.node);
                assert!(may || agent.report().phase != "live", "{}, after {node}", agent.node);
            }
        }
        assert!(olds.is_empty() && news.len() == new_nodes.len());
    }
}
