//! A member of the group that says what no member says.

use proptest::prelude::*;

use super::*;
use crate::message::{Entry, Join, Message, Part, Standing, Time};
use crate::wire;

/// Sends the message from member 2 to everybody, in order.
fn says(net: &mut Net, message: &Message) {
    let bytes = wire::encode(message);
    for id in net.nodes[&2].ring.clone() {
        net.nodes.get_mut(&id).unwrap().inbox.push_back(Item::Message(2, bytes.clone()));
    }
}

/// Makes it a message of the present life of member 2, if `incarnation`.
fn of_two(net: &Net, message: Message, incarnation: bool) -> Message {
    let engine = net.engine(2);
    let life = if incarnation { engine.own.incarnation } else { message.incarnation };
    Message { group: engine.digest, incarnation: life, ..message }
}

/// The others agree, and go on when it is gone.
fn others_go_on(net: &mut Net) {
    net.pass(20 * MS);
    net.kill(2);
    net.settle();
    net.pass(20 * S);
    net.all_live(&[1, 3]);
    let mut last = i64::MIN;
    for thread in [16, 17, 16] {
        let value = net.all_read(&[1, 3], thread).time.0;
        assert!(value > last, "{value} after {last}");
        last = value;
    }
}

proptest! {
    #[test]
    fn nothing_it_says_stops_the_others(
        seeds in prop::collection::vec((any::<u64>(), any::<bool>(), any::<bool>()), 1..40),
        passive: bool,
    ) {
        let mut group = Group::new("test", &members(&[1, 2, 3]));
        group.mode = if passive { Mode::Passive } else { Mode::Active };
        let mut net = Net::of(group);
        net.checkpoints = passive;
        // In the passive mode it is the primary.
        net.boot(if passive { &[2] } else { &[1, 2, 3] });
        if passive {
            net.start(1);
            net.start(3);
            net.join(&[1, 2, 3]);
            net.settle();
        }
        for (seed, ours, together) in seeds {
            let message = of_two(&net, wire::tests::message(seed), ours);
            says(&mut net, &message);
            net.deliver();
            if together {
                net.read(1, 16);
                net.pass(MS);
            }
        }
        net.pass(20 * MS);
        net.kill(2);
        net.settle();
        for id in [1, 3] {
            if net.engine(id).phase() == Phase::Live {
                net.event(id, Event::Restarted);
            }
        }
        let live = |net: &Net, id| net.phase(id) == Phase::Live;
        net.pass(20 * S);
        if !passive || live(&net, 1) && live(&net, 3) {
            net.all_live(&[1, 3]);
            let first = net.all_read(&[1, 3], 16).time;
            prop_assert!(net.all_read(&[1, 3], 16).time > first);
        }
    }

    #[test]
    fn no_state_that_it_gives_stops_a_newcomer(seed: u64, after in prop::collection::vec(any::<u64>(), 0..10)) {
        let mut net = Net::formed(&[1, 2, 3]);
        net.kill(3);
        net.settle();
        net.start(3);
        net.join(&[1, 2, 3]);
        net.deliver();
        net.flush(3);
        net.deliver();
        let serving = &net.engine(1).transfers.ready[&Member(3)];
        let mut transfer = wire::tests::transfer(seed);
        // One in which the newcomer becomes live.
        transfer.snapshot.live = net.engine(1).state.as_ref().unwrap().snapshot().live;
        transfer.joins = net.engine(1).place.joins.clone().into_iter().collect();
        let part = Part {
            joiner: Member(3),
            incarnation: serving.incarnation,
            number: serving.number,
            attempt: serving.attempt,
            at: serving.at,
            part: 0,
            parts: 1,
            time: Time { group: i64::MAX, utc: None, last: i64::MIN },
            bytes: wire::encode_transfer(&transfer),
        };
        let entries = vec![Entry::State(part)];
        let message = of_two(&net, Message { entries, ..wire::tests::message(0) }, true);
        says(&mut net, &message);
        net.deliver();
        prop_assert!(net.engine(3).counts.gaps > 0);
        for seed in after {
            let message = of_two(&net, wire::tests::message(seed), true);
            says(&mut net, &message);
            net.deliver();
            net.read(3, 16);
            net.pass(MS);
        }
        // Its state is worthless, as that which it was given; it starts anew.
        net.kill(3);
        net.settle();
        net.start(3);
        net.join(&[1, 2, 3]);
        net.pass(20 * MS);
    }
}

#[test]
fn a_standing_that_cannot_be_does_not_stop_those_who_go_on() {
    let mut net = Net::formed(&[1, 2, 3]);
    let before = net.all_read(&[1, 2, 3], 16);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.start(2);
    net.join(&[1, 2, 3]);
    net.deliver();
    let point = Point { generation: wire::FARTHEST - 1, index: wire::FARTHEST - 1 };
    let standing = Standing {
        epoch: i64::MIN,
        established: 0,
        confirmed: 0,
        point,
        history: 0,
        outnumbered: false,
        last: i64::MAX,
        digest: 0,
    };
    let join = Join {
        number: 1,
        attempt: 1,
        standing: Some(standing),
        floor: Some(i64::MAX),
        report: None,
        checkpoint: false,
        drained: false,
        fence: None,
    };
    let entries = vec![Entry::Join(join)];
    let message = Message { point: Point::default(), entries, ..wire::tests::message(0) };
    let message = of_two(&net, message, true);
    says(&mut net, &message);
    for id in [1, 3] {
        net.flush(id);
    }
    net.deliver();
    net.all_live(&[1, 3]);
    assert!(net.all_read(&[1, 3], 16).time > before.time);
    others_go_on(&mut net);
}

#[test]
fn no_time_is_so_late_that_the_clock_stops() {
    let mut net = Net::new(&[1, 2, 3]);
    for id in 1..=3 {
        net.start(id);
        // Nobody knows the time, and a disk says nonsense.
        net.nodes.get_mut(&id).unwrap().utc = None;
    }
    net.nodes.get_mut(&2).unwrap().floor = Some(i64::MAX);
    net.start(2);
    net.join(&[1, 2, 3]);
    net.settle();
    let first = net.all_read(&[1, 2, 3], 16).time;
    assert!(net.all_read(&[1, 2, 3], 16).time > first);
    net.all_live(&[1, 2, 3]);
}

#[test]
fn a_wild_clock_at_a_change_of_the_configuration_is_bounded() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.pass(2 * S);
    let before = net.all_read(&[1, 2, 3], 16);
    net.kill(3);
    net.deliver();
    // The machine was asleep, and its clock comes back wrong: nobody has reported yet.
    net.nodes.get_mut(&1).unwrap().physical += 1_000_000 * S;
    net.read(1, 16);
    net.flush(1);
    net.deliver();
    let (.., value) = *net.values(1).last().unwrap();
    assert!(value.time > before.time);
    assert!(value.time.0 < net.now + 66 * S, "{}", value.time.0 - net.now);
}

#[test]
fn nobody_acknowledges_what_is_not_there_yet() {
    let mut net = Net::formed(&[1, 2, 3]);
    let value = net.all_read(&[1, 2, 3], 16);
    let point = Point { generation: value.point.generation, index: u64::MAX };
    let message = Message { point, established: true, entries: vec![], ..wire::tests::message(0) };
    let message = of_two(&net, message, true);
    says(&mut net, &message);
    net.deliver();
    let heard = net.engine(1).status().members[1].heard;
    assert!(heard.is_none_or(|heard| heard <= net.engine(1).point()), "{heard:?}");
    others_go_on(&mut net);
}

#[test]
fn one_sender_does_not_take_all_the_room_for_messages_from_the_future() {
    let mut net = Net::formed(&[1, 2, 3]);
    let stamp = Some(net.now + 5 * S);
    for token in 0..3000 {
        net.event(2, Event::Multicast { token, payload: b"x", stamp });
    }
    net.settle();
    assert_eq!(net.engine(1).status().held, 1024);
    net.event(3, Event::Multicast { token: 1, payload: b"later", stamp });
    net.settle();
    assert_eq!(net.engine(1).status().held, 1025);
    net.kill(2);
    // What it sent is delivered in time though it is gone.
    net.pass(6 * S);
    assert_eq!(net.engine(1).status().held, 0);
    let delivered = |it: &&Action| matches!(it, Action::Deliver { .. });
    assert_eq!(net.nodes[&1].actions.iter().filter(delivered).count(), 1025);
    net.all_live(&[1, 3]);
}
