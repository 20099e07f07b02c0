//! What members are not told, told late, or told wrongly.

use super::*;
use crate::message::Message;
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

/// Whoever does not vote can throw nobody out.
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
