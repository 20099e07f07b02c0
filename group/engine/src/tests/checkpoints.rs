//! Checkpoints that the primary gives of its own accord, and those that nobody gives.

use super::*;

fn passive(buffer: usize) -> Net {
    let mut net =
        Net::of(Group { mode: Mode::Passive, ..Group::new("test", &members(&[1, 2, 3])) });
    net.checkpoints = true;
    net.buffer = buffer;
    net.boot(&[1, 2, 3]);
    net.all_live(&[1, 2, 3]);
    assert!(net.engine(1).is_first());
    net
}

fn reads(net: &mut Net, id: u32, thread: u64, many: usize) {
    for _ in 0..many {
        net.read(id, thread);
        net.settle();
    }
}

fn gives(net: &mut Net, id: u32, data: &[u8], position: &[(u64, u64)]) {
    let position: Vec<_> = position.iter().map(|&(it, round)| (Thread(it), Round(round))).collect();
    net.event(id, Event::Checkpoint { join: 0, data, position: &position });
    net.settle();
}

fn installs(net: &Net, id: u32) -> Vec<usize> {
    let install = |action: &Action| match action {
        Action::InstallCheckpoint { data, .. } => Some(data.len()),
        _ => None,
    };
    net.nodes[&id].actions.iter().filter_map(install).collect()
}

#[test]
fn the_backups_log_begins_at_the_primarys_checkpoint() {
    let mut net = passive(1000);
    reads(&mut net, 1, 16, 100);
    reads(&mut net, 1, 17, 50);
    assert_eq!(net.engine(2).status().kept, 150);
    // Several pieces.
    gives(&mut net, 1, &vec![7; 1_000_000], &[(16, 90), (17, 50)]);
    for id in [2, 3] {
        assert_eq!(installs(&net, id), [1_000_000]);
        assert_eq!(net.engine(id).status().kept, 10);
    }
    assert!(installs(&net, 1).is_empty());
    reads(&mut net, 1, 17, 1);
    net.kill(1);
    net.settle();
    // What it reads before it has taken the checkpoint over waits for that.
    net.read(2, 16);
    net.pass(MS);
    assert!(net.values(2).is_empty());
    net.event(2, Event::Installed);
    reads(&mut net, 2, 16, 10);
    reads(&mut net, 2, 17, 2);
    let of = |thread: u64| -> Vec<(u64, u32)> {
        let values = net.values(2).into_iter().filter(|value| value.0 == thread);
        values.map(|(_, round, value)| (round, value.synchronizer.0)).collect()
    };
    let rounds: Vec<_> = (90..100).map(|round| (round, 1)).chain([(100, 2)]).collect();
    assert_eq!(of(16), rounds);
    assert_eq!(of(17), [(50, 1), (51, 2)]);
    net.all_live(&[2, 3]);
}

#[test]
fn a_backup_that_was_behind_is_not_any_more() {
    let mut net = passive(10);
    for _ in 0..20 {
        reads(&mut net, 1, 16, 30);
        let decided = net.engine(1).status().threads[&Thread(16)].decided.0;
        gives(&mut net, 1, b"state", &[(16, decided - 5)]);
        assert_eq!(net.engine(2).status().kept, 5);
    }
    net.kill(1);
    net.settle();
    net.event(2, Event::Installed);
    reads(&mut net, 2, 16, 6);
    assert_eq!(net.values(2).last().unwrap().1, 600);
    // Without one it would be.
    reads(&mut net, 2, 16, 30);
    net.event(3, Event::Installed);
    net.read(3, 16);
    let behind = Action::Reject { thread: Thread(16), why: Rejection::Behind };
    assert!(net.nodes[&3].actions.contains(&behind));
}

#[test]
fn what_a_backups_former_program_asked_is_not_answered() {
    let mut net = passive(1000);
    reads(&mut net, 1, 16, 3);
    reads(&mut net, 2, 16, 3);
    net.read(2, 16);
    net.read(2, 17);
    net.event(2, Event::Abandon { thread: Thread(17) });
    gives(&mut net, 1, b"state", &[(16, 3)]);
    let missed = Action::Reject { thread: Thread(16), why: Rejection::Missed };
    assert!(net.nodes[&2].actions.contains(&missed));
    assert!(net.engine(2).threads.all.is_empty());
    net.event(2, Event::Installed);
    reads(&mut net, 1, 16, 1);
    reads(&mut net, 1, 17, 1);
    for thread in [16, 17] {
        net.read(2, thread);
        assert_eq!(net.values(2).last(), net.values(1).iter().rev().find(|it| it.0 == thread));
    }
}

#[test]
fn only_the_primary_gives_one_and_only_the_last_counts() {
    let mut net = passive(1000);
    reads(&mut net, 1, 16, 10);
    gives(&mut net, 2, b"not the primary's", &[(16, 10)]);
    assert_eq!(net.engine(3).status().kept, 10);
    // The first is not half sent when the second comes.
    net.event(1, Event::Checkpoint { join: 0, data: &vec![1; 2_000_000], position: &[] });
    net.flush(1);
    net.deliver();
    gives(&mut net, 1, &[2; 100], &[(16, 4)]);
    assert_eq!(installs(&net, 3), [100]);
    assert_eq!(net.engine(3).status().kept, 6);
    // One that is cut off by the primary's end is none.
    net.event(1, Event::Checkpoint { join: 0, data: &vec![3; 2_000_000], position: &[] });
    net.flush(1);
    net.kill(1);
    net.settle();
    assert_eq!(installs(&net, 3), [100]);
    net.event(2, Event::Installed);
    gives(&mut net, 2, &[4; 50], &[(16, 5)]);
    assert_eq!(installs(&net, 3), [100, 50]);
}

#[test]
fn a_state_older_than_the_backups_own_is_not_taken() {
    let mut net = passive(1000);
    reads(&mut net, 1, 16, 10);
    reads(&mut net, 2, 16, 8);
    // The second would have to read two rounds again that it has read; the third has read none.
    gives(&mut net, 1, b"older", &[(16, 6)]);
    assert_eq!((installs(&net, 2).len(), installs(&net, 3).len()), (0, 1));
    assert_eq!((net.engine(2).status().kept, net.engine(3).status().kept), (2, 4));
    net.event(3, Event::Installed);
    gives(&mut net, 1, b"as old", &[(16, 8)]);
    assert_eq!((installs(&net, 2).len(), installs(&net, 3).len()), (1, 2));
    net.event(2, Event::Installed);
    net.event(3, Event::Installed);
    net.kill(1);
    net.settle();
    reads(&mut net, 2, 16, 3);
    reads(&mut net, 3, 16, 3);
    let rounds = |id: u32| net.values(id).iter().map(|value| value.1).collect::<Vec<_>>();
    assert_eq!((rounds(2), rounds(3)), ((0..11).collect(), (8..11).collect()));
}

/// The primary has had a message that the others have not, and has not found out.
#[test]
fn a_state_with_another_stream_behind_it_is_not_taken() {
    let mut net = passive(100);
    reads(&mut net, 1, 16, 1);
    net.nodes.get_mut(&1).unwrap().ring = vec![1];
    net.event(1, Event::Multicast { token: 1, payload: b"alone", stamp: None });
    net.flush(1);
    net.deliver();
    net.nodes.get_mut(&1).unwrap().ring = vec![1, 2, 3];
    assert!(net.engine(1).is_first());
    net.event(1, Event::Checkpoint { join: 0, data: b"strays", position: &[] });
    net.flush(1);
    net.deliver();
    net.settle();
    net.pass(20 * MS);
    for id in [2, 3] {
        assert!(installs(&net, id).is_empty(), "{id}");
    }
    // It comes in anew, and another's counts.
    assert_eq!(net.phase(1), Phase::Joining);
    assert!(net.engine(2).is_first());
    gives(&mut net, 2, b"sound", &[]);
    assert_eq!(installs(&net, 3), [5]);
}

#[test]
fn a_program_that_takes_none_keeps_its_log() {
    let mut net =
        Net::of(Group { mode: Mode::Passive, ..Group::new("test", &members(&[1, 2, 3])) });
    net.boot(&[1, 2, 3]);
    reads(&mut net, 1, 16, 10);
    gives(&mut net, 1, b"state", &[(16, 10)]);
    assert!(installs(&net, 2).is_empty());
    assert_eq!(net.engine(2).status().kept, 10);
}

#[test]
fn who_waits_for_a_checkpoint_that_nobody_gives_says_so() {
    let mut net = Net::new(&[1, 2, 3]);
    net.boot(&[1, 2]);
    net.checkpoints = true;
    net.start(3);
    net.join(&[1, 2, 3]);
    net.settle();
    for id in [1, 2] {
        assert!(net.notices(id).contains(&Notice::NoCheckpoint { member: Member(3) }));
    }
    net.pass(9 * S);
    assert!(net.notices(3).is_empty());
    net.pass(100 * S);
    let waits = net.notices(3);
    assert!((2..6).contains(&waits.len()), "{waits:?}");
    assert!(matches!(waits[0], Notice::NotLetIn { for_ns, checkpoint: true } if for_ns >= 10 * S));
    assert!(net.engine(3).status().joining_ns.unwrap() > 100 * S);
    net.all_live(&[1, 2]);
    net.all_read(&[1, 2], 16);
    assert!(net.engine(1).status().joining_ns.is_none());
}
