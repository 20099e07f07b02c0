//! The paper's worked example: three replicas, physical clocks from 8:10 to 8:55, in the published
//! order.
//!
//! The published figure itself was not at hand when this was written. What is checked is the
//! published *algorithm*, step by step, on an example made like it: the same replicas, the same span
//! of physical clocks, each replica the synchronizer of one round. (The published text names the
//! wrong replica in its last line and counts 8:60 as a time; neither is repeated here.) The expected
//! figures below were worked out by hand from the algorithm's text.

use super::*;

const MINUTE: i64 = 60 * S;

/// 8 o'clock and so many minutes, as minutes.
const fn at(minutes: i64) -> i64 {
    (8 * 60 + minutes) * MINUTE
}

/// One row: who is the synchronizer, the three physical clocks when they are read, the group's clock
/// that comes of it, and the three offsets after, in minutes.
struct Row {
    synchronizer: u32,
    physical: [i64; 3],
    group: i64,
    offsets: [i64; 3],
}

const EXAMPLE: [Row; 3] = [
    // All offsets are 0 at first: replica 1's clock becomes the group's.
    Row { synchronizer: 1, physical: [10, 15, 25], group: 10, offsets: [0, -5, -15] },
    // Replica 2 proposes 8:30 − 0:05.
    Row { synchronizer: 2, physical: [40, 30, 35], group: 25, offsets: [-15, -5, -10] },
    // Replica 3 proposes 8:50 − 0:10.
    Row { synchronizer: 3, physical: [55, 45, 50], group: 40, offsets: [-15, -5, -10] },
];

#[test]
fn the_worked_example() {
    let group = Group { order: Order::Published, ..Group::new("paper", &members(&[1, 2, 3])) };
    let mut net = Net::of(group);
    for id in 1..=3 {
        net.start(id);
        let node = net.nodes.get_mut(&id).unwrap();
        node.utc = None;
        node.physical = -START;
    }
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    for (round, row) in EXAMPLE.iter().enumerate() {
        for (id, minutes) in (1..).zip(row.physical) {
            net.nodes.get_mut(&id).unwrap().physical = at(minutes) - net.now;
            net.read(id, 16);
        }
        // The synchronizer's message goes first; the others have not sent any.
        let now = net.reading(row.synchronizer);
        let engine = net.nodes.get_mut(&row.synchronizer).unwrap().engine.as_mut().unwrap();
        let waits = engine.own.stagger_ns;
        engine.own.stagger_ns = 0;
        engine.flush(now);
        engine.own.stagger_ns = waits;
        net.act(row.synchronizer);
        net.deliver();
        for (id, (physical, offset)) in (1..).zip(row.physical.iter().zip(row.offsets)) {
            let (thread, number, value) = *net.values(id).last().unwrap();
            assert_eq!((thread, number), (16, round as u64));
            assert_eq!(value.synchronizer, Member(row.synchronizer), "round {round}");
            assert_eq!(value.time.0, at(row.group), "round {round}, replica {id}");
            let status = net.engine(id).status();
            assert_eq!(status.offset_ns, Some(offset * MINUTE), "round {round}, replica {id}");
            assert_eq!(value.time.0 - at(*physical), offset * MINUTE);
            assert_eq!(status.duplicates, 0);
        }
    }
}

/// What the paper does not say: across threads its clock goes back, and ours does not.
#[test]
fn across_threads_the_published_order_goes_back() {
    for order in [Order::Published, Order::Monotone] {
        let group = Group { order, ..Group::new("paper", &members(&[1, 2, 3])) };
        let mut net = Net::of(group);
        for id in 1..=3 {
            net.start(id);
            let node = net.nodes.get_mut(&id).unwrap();
            node.utc = None;
            node.physical = -START + i64::from(id) * S;
        }
        net.join(&[1, 2, 3]);
        net.settle();
        // Replica 1 is behind: what it proposes for thread B comes after thread A's by replica 3.
        net.read(3, 16);
        net.read(1, 17);
        net.now += 2 * MS;
        net.flush(3);
        net.flush(1);
        net.deliver();
        let (.., a) = net.values(3)[0];
        let (.., b) = net.values(1)[0];
        assert!(a.point < b.point);
        assert_eq!(b.time < a.time, order == Order::Published);
    }
}
