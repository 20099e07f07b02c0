//! The paper's worked example: three replicas, physical clocks from 8:10 to 8:55, in the published
//! order.
//!
//! The published figure itself was not at hand when this was written. What is checked is the
//! published *algorithm*, step by step, on an example made like it: the same replicas, the same
//! span of physical clocks, each replica the synchronizer of one round. (The published text names
//! the wrong replica in its last line and counts 8:60 as a time; neither is repeated here.) The
//! expected figures below were worked out by hand from the algorithm's text.

use super::*;

const MINUTE: i64 = 60 * S;

/// 8 o'clock and so many minutes, as minutes.
const fn at(minutes: i64) -> i64 {
    (8 * 60 + minutes) * MINUTE
}

/// One row: who is the synchronizer, the three physical clocks when they are read, the group's
/// clock that comes of it, and the three offsets after, in minutes.
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

/// Readings as before, and the last synchronizer has an offset forward: its 8:55 and 0:05 are 9:00,
/// not 8:60.
const OVER_THE_HOUR: [Row; 3] = [
    // Replica 3's clock becomes the group's.
    Row { synchronizer: 3, physical: [10, 15, 25], group: 25, offsets: [15, 10, 0] },
    // Replica 2 proposes 8:30 + 0:10.
    Row { synchronizer: 2, physical: [40, 30, 35], group: 40, offsets: [0, 10, 5] },
    // Replica 3 proposes 8:55 + 0:05.
    Row { synchronizer: 3, physical: [45, 50, 55], group: 60, offsets: [15, 10, 5] },
];

/// Three replicas as published, all clocks and offsets at their own zero.
fn published() -> Net {
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
    net
}

/// One round: all read their physical clocks, and the message of one comes first. The others have
/// not sent any.
fn round(net: &mut Net, synchronizer: u32, physical: [i64; 3]) {
    for (id, minutes) in (1..).zip(physical) {
        net.nodes.get_mut(&id).unwrap().physical = at(minutes) - net.now;
        net.read(id, 16);
    }
    let now = net.reading(synchronizer);
    let engine = net.nodes.get_mut(&synchronizer).unwrap().engine.as_mut().unwrap();
    let waits = engine.own.stagger_ns;
    engine.own.stagger_ns = 0;
    engine.flush(now);
    engine.own.stagger_ns = waits;
    net.act(synchronizer);
    net.deliver();
}

/// The round gave this to all.
fn gave(net: &Net, number: usize, row: &Row) {
    let mut points = BTreeSet::new();
    for (id, (physical, offset)) in (1..).zip(row.physical.iter().zip(row.offsets)) {
        let (thread, round, value) = *net.values(id).last().unwrap();
        assert_eq!((thread, round), (16, number as u64));
        assert_eq!(value.synchronizer, Member(row.synchronizer), "round {number}");
        assert_eq!(value.time.0, at(row.group), "round {number}, replica {id}");
        points.insert(value.point);
        let status = net.engine(id).status();
        assert_eq!(status.offset_ns, Some(offset * MINUTE), "round {number}, replica {id}");
        assert_eq!(value.time.0 - at(*physical), offset * MINUTE);
        assert_eq!(status.duplicates, 0);
    }
    assert_eq!(points.len(), 1);
}

#[test]
fn the_worked_example() {
    for example in [EXAMPLE, OVER_THE_HOUR] {
        let mut net = published();
        for (number, row) in example.iter().enumerate() {
            round(&mut net, row.synchronizer, row.physical);
            gave(&net, number, row);
        }
    }
    // There is no minute 60.
    assert_eq!(at(60), 9 * 60 * MINUTE);
}

/// Agreement for any synchronizers: the figures from the two lines of the published algorithm, done
/// by themselves. Who is named as synchronizer can be checked by them: its offset, and only its, is
/// the one that the round cannot have changed.
#[test]
fn any_synchronizers() {
    let readings = [[10, 15, 25], [40, 30, 35], [55, 45, 50]];
    for choice in 0..27 {
        let mut net = published();
        let mut offsets = [0; 3];
        for (number, physical) in readings.into_iter().enumerate() {
            let synchronizer = choice / 3usize.pow(number as u32) % 3;
            let group = physical[synchronizer] + offsets[synchronizer];
            let before = offsets[synchronizer];
            offsets = physical.map(|physical| group - physical);
            assert_eq!(offsets[synchronizer], before);
            let synchronizer = synchronizer as u32 + 1;
            round(&mut net, synchronizer, physical);
            gave(&net, number, &Row { synchronizer, physical, group, offsets });
        }
    }
}

/// Case that the paper leaves out: across threads its clock goes back, and ours does not.
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
