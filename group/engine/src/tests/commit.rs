use super::*;

fn done(net: &Net, id: u32) -> Vec<Action> {
    let about = |it: &&Action| matches!(it, Action::Committed { .. } | Action::Uncommitted { .. });
    net.nodes[&id].actions.iter().filter(about).cloned().collect()
}

#[test]
fn a_reply_waits_for_a_majority() {
    let mut net = Net::formed(&[1, 2, 3]);
    let value = net.all_read(&[1, 2, 3], 16);
    net.event(1, Event::Commit { token: 5, point: value.point });
    // Somebody has asked and was answered, for nothing else came.
    net.settle();
    net.pass(2 * MS);
    assert_eq!(done(&net, 1), [Action::Committed { token: 5 }]);
    net.event(1, Event::Commit { token: 6, point: value.point });
    assert_eq!(done(&net, 1)[1..], [Action::Committed { token: 6 }]);
}

#[test]
fn messages_that_come_anyway_acknowledge() {
    let mut net = Net::formed(&[1, 2, 3]);
    let value = net.all_read(&[1, 2, 3], 16);
    net.event(1, Event::Commit { token: 5, point: value.point });
    assert!(done(&net, 1).is_empty());
    let before = net.engine(1).status().messages_sent;
    net.event(2, Event::Multicast { token: 1, payload: b"x", stamp: None });
    net.settle();
    assert_eq!(done(&net, 1), [Action::Committed { token: 5 }]);
    assert_eq!(net.engine(1).status().messages_sent, before);
}

#[test]
fn what_a_member_cut_off_saw_alone_is_not_committed() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(3, 16);
    net.now += 2 * MS;
    net.flush(3);
    for id in [1, 2] {
        net.nodes.get_mut(&id).unwrap().inbox.clear();
    }
    net.step(3);
    let (.., value) = net.values(3)[0];
    net.event(3, Event::Commit { token: 1, point: value.point });
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    assert_eq!(done(&net, 3), [Action::Uncommitted { token: 1 }]);
    net.event(3, Event::Commit { token: 2, point: value.point });
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    // A place from before the gap is not known here any more.
    net.event(3, Event::Commit { token: 3, point: value.point });
    assert_eq!(done(&net, 3).len(), 3);
    assert!(done(&net, 3).iter().all(|it| matches!(it, Action::Uncommitted { .. })));
}

#[test]
fn a_newcomer_that_is_not_live_is_no_witness() {
    let mut net = Net::new(&[1, 2, 3]);
    net.checkpoints = true;
    net.boot(&[1, 2]);
    net.start(3);
    net.join(&[1, 2, 3]);
    net.settle();
    // 3 waits for a checkpoint that nobody makes; 2 dies.
    net.kill(2);
    net.settle();
    assert_eq!((net.phase(1), net.phase(3)), (Phase::Live, Phase::Joining));
    net.read(1, 16);
    net.settle();
    let (.., value) = net.values(1)[0];
    net.event(1, Event::Commit { token: 1, point: value.point });
    net.pass(3 * S);
    assert!(done(&net, 1).is_empty());
}

#[test]
fn the_confirmed_state_is_revived_not_the_longer_one() {
    let mut net = Net::formed(&[1, 2, 3]);
    // 3 is about to be cut off: of what 1 sends it gets nothing, but its own two messages.
    for thread in [30, 31] {
        net.read(3, thread);
        net.now += 2 * MS;
        net.flush(3);
        for id in [1, 2] {
            net.nodes.get_mut(&id).unwrap().inbox.clear();
        }
    }
    let three: Vec<Item> = net.nodes.get_mut(&3).unwrap().inbox.drain(..).collect();
    net.read(1, 16);
    net.flush(1);
    net.nodes.get_mut(&3).unwrap().inbox.clear();
    net.deliver();
    let (.., value) = net.values(1)[0];
    net.event(1, Event::Commit { token: 1, point: value.point });
    net.event(2, Event::Multicast { token: 2, payload: b"ack", stamp: None });
    net.flush(2);
    net.nodes.get_mut(&3).unwrap().inbox.clear();
    net.deliver();
    // Its two come to it only when it is alone, as Totem does with what follows a gap.
    net.nodes.get_mut(&3).unwrap().inbox = three.into();
    net.deliver();
    assert_eq!(done(&net, 1), [Action::Committed { token: 1 }]);
    assert!(net.engine(3).point() >= net.engine(1).point());
    // All fall apart; then the one that committed is not there.
    net.split(&[&[1], &[2], &[3]]);
    net.deliver();
    net.join(&[2, 3]);
    net.settle();
    net.all_live(&[2, 3]);
    assert_eq!(net.engine(3).status().gaps, 1);
    assert_eq!(net.engine(2).status().threads[&Thread(16)].decided, Round(1));
    net.read(2, 16);
    assert_eq!(net.values(2)[0].2, value);
}
