//! Members that are not told, told late, or told wrongly.

use super::*;
use crate::message::{Entry, Message};
use crate::wire;

/// 5 of five has asked to be let in, and the configuration changes just as it is sent the state.
fn asked_and_cut_short() -> Net {
    let mut net = Net::formed(&[1, 2, 3, 4, 5]);
    net.kill(5);
    net.settle();
    net.start(5);
    net.join(&[1, 2, 3, 4, 5]);
    net.deliver();
    for id in [1, 2, 3, 4, 5] {
        net.flush(id);
        net.deliver();
    }
    assert!(net.engine(5).catching.is_some());
    net.kill(4);
    net.flush(1);
    while net.engine(5).catching.is_some() && net.step(5) {}
    net.flush(5);
    net
}

#[test]
fn a_state_for_an_earlier_request_does_not_make_requests_chase_answers() {
    // In the order in which the token goes round, all that is due at once.
    for order in [[1, 2, 3, 5], [5, 1, 2, 3], [2, 3, 5, 1]] {
        let mut net = asked_and_cut_short();
        let mut turns = 0;
        while net.phase(5) != Phase::Live {
            turns += 1;
            assert!(turns < 20, "{order:?}: {:#?}", net.engine(5).status());
            for id in order {
                let physical = net.reading(id).physical;
                if net.engine(id).deadline().is_some_and(|due| due <= physical) {
                    net.flush(id);
                }
            }
            net.now += MS;
            net.deliver();
        }
    }
}

/// The group's clock is ahead of UTC, as it was kept so, and is steered back; the first comes back.
#[test]
fn who_comes_back_does_not_stop_a_clock_that_is_ahead() {
    let mut net = Net::new(&[1, 2, 3]);
    for id in [1, 2, 3] {
        net.start(id);
        net.nodes.get_mut(&id).unwrap().floor = Some(START + 4 * S);
        net.start(id);
    }
    net.join(&[1, 2, 3]);
    net.settle();
    net.pass(3 * S);
    net.kill(1);
    net.settle();
    net.start(1);
    net.join(&[1, 2, 3]);
    net.settle();
    let (began, before) = (net.now, net.all_read(&[1, 2, 3], 30));
    for _ in 0..10 {
        net.pass(100 * MS);
        net.all_read(&[1, 2, 3], 30);
    }
    let after = net.all_read(&[1, 2, 3], 30);
    let elapsed = net.now - began;
    let slow = elapsed - (after.time.0 - before.time.0);
    assert!(after.time.0 > net.now + S, "it is ahead all the time");
    assert!(slow.abs() < elapsed / 1000 + 5 * MS, "{slow} ns of {elapsed}");
}

/// Lets nobody be thrown out by a member that does not vote.
#[test]
fn an_observers_header_is_no_proof_of_anything() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.start(9);
    net.join(&[1, 2, 3, 9]);
    net.settle();
    assert_eq!(net.phase(9), Phase::Live);
    let message = Message {
        group: net.engine(1).digest,
        incarnation: net.nodes[&9].lives,
        point: Point { generation: u64::MAX, index: u64::MAX },
        history: u64::MAX,
        established: false,
        entries: vec![],
    };
    let bytes = wire::encode(&message);
    for id in [1, 2, 3, 9] {
        net.nodes.get_mut(&id).unwrap().inbox.push_back(Item::Message(9, bytes.clone()));
    }
    net.settle();
    net.all_live(&[1, 2, 3]);
    assert!([1, 2, 3].iter().all(|&id| net.engine(id).gaps() == 0));
}

/// One alone knows UTC; as another comes to know it, its clock is set wrong. What that other heard
/// of it was said by the clock before.
#[test]
fn what_was_heard_of_a_clock_does_not_vouch_for_what_it_is_set_to() {
    for phase in 0..10 {
        let mut net = Net::new(&[1, 2, 3]);
        for id in [1, 2, 3] {
            net.start(id);
        }
        for id in [2, 3] {
            net.nodes.get_mut(&id).unwrap().utc = None;
        }
        net.join(&[1, 2, 3]);
        net.settle();
        net.now += phase * 100 * MS;
        net.flush(1);
        net.deliver();
        net.pass(3 * S);
        net.nodes.get_mut(&2).unwrap().utc = Some((0, MS));
        let heard = |net: &Net| {
            let report = net.engine(3).state.as_ref().unwrap().live[&Member(2)].report;
            report.is_some_and(|report| report.compared.possible.contains(0))
        };
        for _ in 0..40 {
            net.pass(100 * MS);
            if net.engine(3).is_tied() {
                break;
            }
            if heard(&net) {
                net.nodes.get_mut(&1).unwrap().utc = Some((3 * 3600 * S, MS));
            }
        }
        net.pass(5 * S);
        let off = net.all_read(&[1, 2, 3], 50).time.0 - net.now;
        assert!(off.abs() < 10 * S, "{phase}: {off} ns");
    }
}

/// From now on these hear each other alone, and nobody is told.
fn apart(net: &mut Net, parts: &[&[u32]]) {
    for part in parts {
        for &id in *part {
            net.nodes.get_mut(&id).unwrap().ring = part.to_vec();
        }
    }
}

/// A member reads in its thread 16, and what it says reaches who hears it.
fn reads(net: &mut Net, id: u32) {
    net.read(id, 16);
    net.pass(MS);
}

fn comes_in_anew(net: &Net, id: u32) -> bool {
    net.notices(id).iter().any(|it| matches!(it, Notice::Missed { .. }))
}

/// The others have not noticed anything, that one has, and all are of one mind.
fn only_one_has_come_in_anew(net: &mut Net, id: u32, others: &[u32]) {
    assert!(comes_in_anew(net, id));
    for &other in others {
        assert!(!comes_in_anew(net, other), "{other}");
    }
    let all = [&[id], others].concat();
    net.all_live(&all);
    net.all_read(&all, 30);
}

/// Corosync's synchronisation was broken off twice: nobody is told that 1 was away, and it has got
/// as many messages as the others.
#[test]
fn who_has_got_as_many_messages_but_others_comes_in_anew() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 20);
    apart(&mut net, &[&[1], &[2, 3]]);
    reads(&mut net, 1);
    reads(&mut net, 2);
    assert_eq!(net.engine(1).point(), net.engine(2).point());
    apart(&mut net, &[&[1, 2, 3]]);
    net.read(3, 20);
    net.settle();
    net.pass(20 * MS);
    only_one_has_come_in_anew(&mut net, 1, &[2, 3]);
}

/// Lets nobody be right for having more messages than the others.
#[test]
fn who_has_got_more_messages_alone_throws_nobody_out() {
    for more in 1..4 {
        let mut net = Net::formed(&[1, 2, 3]);
        net.all_read(&[1, 2, 3], 20);
        apart(&mut net, &[&[1], &[2, 3]]);
        for _ in 0..=more {
            reads(&mut net, 1);
        }
        reads(&mut net, 2);
        let value = *net.values(2).last().unwrap();
        net.read(3, 16);
        assert_eq!(net.values(3).last().unwrap(), &value);
        apart(&mut net, &[&[1, 2, 3]]);
        net.read(1, 20);
        net.settle();
        net.pass(20 * MS);
        only_one_has_come_in_anew(&mut net, 1, &[2, 3]);
    }
}

/// A member that has got something else acknowledges nothing.
#[test]
fn another_stream_as_long_is_no_acknowledgement() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 20);
    apart(&mut net, &[&[1], &[2, 3]]);
    reads(&mut net, 1);
    let (.., value) = *net.values(1).last().unwrap();
    net.event(1, Event::Commit { token: 7, point: value.point });
    reads(&mut net, 2);
    apart(&mut net, &[&[1, 2, 3]]);
    for id in [2, 3] {
        net.read(id, 20);
        net.flush(id);
    }
    net.settle();
    net.pass(20 * MS);
    let told = |net: &Net, action: Action| net.nodes[&1].actions.contains(&action);
    assert!(!told(&net, Action::Committed { token: 7 }));
    assert!(told(&net, Action::Uncommitted { token: 7 }));
    only_one_has_come_in_anew(&mut net, 1, &[2, 3]);
}

/// Two that are all there is of a majority: neither has one alone, and they go on with one's.
#[test]
fn of_two_that_differ_one_comes_in_anew() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    apart(&mut net, &[&[1], &[2]]);
    reads(&mut net, 1);
    reads(&mut net, 2);
    apart(&mut net, &[&[1, 2]]);
    net.read(1, 20);
    net.settle();
    net.pass(20 * MS);
    assert!(comes_in_anew(&net, 1) || comes_in_anew(&net, 2));
    net.all_live(&[1, 2]);
    net.all_read(&[1, 2], 30);
}

/// 2 was let in while it was away and is back, and was told of neither: its request is not a stale
/// one though it has the number of the one that was granted.
#[test]
fn who_was_let_in_and_does_not_know_is_let_in_again() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(2);
    net.settle();
    net.start(2);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(2);
    net.deliver();
    apart(&mut net, &[&[2], &[1, 3]]);
    net.settle();
    apart(&mut net, &[&[1, 2, 3]]);
    assert!(net.engine(1).state.as_ref().unwrap().live.contains_key(&Member(2)));
    assert_eq!(net.phase(2), Phase::Joining);
    net.pass(30 * S);
    net.all_live(&[1, 2, 3]);
}

/// 1 serves 3 and has left before its state is whole: 3 is not let in by that, and tells its program
/// nothing of what it has come to by that state.
#[test]
fn nothing_is_told_of_a_state_that_lets_nobody_in() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(3);
    while net.engine(3).catching.is_none() {
        assert!(net.step(3));
    }
    net.deliver();
    // After its request: a message, 1's leave and its state, in this order.
    net.event(2, Event::Multicast { token: 1, payload: b"hello", stamp: None });
    net.flush(2);
    net.deliver();
    let mut leaving = net.engine(1).clone();
    leaving.send(vec![Entry::Leave]);
    while let Some(Action::Send(bytes)) = leaving.next_action() {
        for id in [1, 2, 3] {
            net.nodes.get_mut(&id).unwrap().inbox.push_back(Item::Message(1, bytes.clone()));
        }
    }
    let gaps = net.engine(3).gaps();
    // What it had ready it sends all the same.
    net.flush(1);
    while net.step(3) {}
    assert_eq!(net.phase(3), Phase::Joining);
    assert_eq!(net.engine(3).gaps(), gaps);
    let told = |action: &Action| matches!(action, Action::Deliver { .. } | Action::Return { .. });
    assert!(!net.nodes[&3].actions.iter().any(told));
    net.settle();
    net.pass(30 * S);
    net.all_live(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 30);
}

/// 2 did not hear that 3 asks to be let in, and is let in itself: it takes 3 for live as the others
/// do.
#[test]
fn a_newcomer_knows_of_requests_that_did_not_come_to_it() {
    let mut net = Net::formed(&[1, 2, 3, 4, 5]);
    net.kill(2);
    net.kill(3);
    net.settle();
    net.start(2);
    net.start(3);
    net.join(&[1, 2, 3, 4, 5]);
    net.deliver();
    apart(&mut net, &[&[1, 3, 4, 5], &[2]]);
    net.flush(3);
    net.deliver();
    apart(&mut net, &[&[1, 2, 3, 4, 5]]);
    net.flush(2);
    net.deliver();
    net.settle();
    net.pass(20 * MS);
    assert_eq!((net.engine(2).gaps(), net.engine(3).gaps()), (1, 1));
    net.all_live(&[1, 2, 3, 4, 5]);
}

/// Both sides go on by themselves and take each other's for none of theirs: the one without a
/// majority gives in.
#[test]
fn who_is_live_alone_gives_in_to_rivals() {
    let mut net = Net::formed(&[1, 2, 3]);
    // 3 takes itself for live with 2, which has left; 1 and 2 go on without 3.
    apart(&mut net, &[&[1, 2], &[3]]);
    let lost = Item::Configuration(vec![2, 3], vec![1]);
    net.nodes.get_mut(&3).unwrap().inbox.push_back(lost);
    net.deliver();
    let join = Item::Configuration(vec![1, 2, 3], vec![]);
    net.nodes.get_mut(&3).unwrap().inbox.push_back(join);
    net.nodes.get_mut(&3).unwrap().engine.as_mut().unwrap().left(Member(2));
    for id in [1, 2] {
        let inbox = &mut net.nodes.get_mut(&id).unwrap().inbox;
        inbox.push_back(Item::Configuration(vec![1, 2], vec![3]));
        inbox.push_back(Item::Configuration(vec![1, 2, 3], vec![]));
    }
    net.deliver();
    apart(&mut net, &[&[1, 2, 3]]);
    assert!([1, 2, 3].iter().all(|&id| net.phase(id) == Phase::Live));
    net.pass(3 * S);
    only_one_has_come_in_anew(&mut net, 3, &[1, 2]);
}
