//! Members of two versions of the protocol in one ring.

use super::*;
use crate::wire::VERSION;

/// Starts a node by another version, in the ring that there is.
fn upgrade(net: &mut Net, id: u32, all: &[u32]) {
    net.version = VERSION + 1;
    if net.nodes[&id].engine.is_some() {
        net.kill(id);
        net.settle();
    }
    net.start(id);
    net.join(all);
    net.settle();
}

fn live(net: &Net, ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|id| net.phase(*id) == Phase::Live).collect()
}

/// Those of the old version go on as long as they are a majority, those of the new one as soon as they are. Where that
/// is neither nobody does. The clocks that the old ones go by in the end are ahead of the others'.
#[test]
fn an_upgrade_node_by_node_has_one_clock_that_does_not_go_back() {
    for (all, order) in [
        (&[1, 2, 3][..], [1, 2, 3, 0, 0]),
        (&[1, 2, 3], [3, 2, 1, 0, 0]),
        (&[1, 2, 3, 4], [4, 1, 3, 2, 0]),
        (&[1, 2, 3, 4, 5], [2, 4, 1, 5, 3]),
    ] {
        let order = &order[..all.len()];
        let mut net = Net::formed(all);
        for (late, id) in (0..).zip(order) {
            net.nodes.get_mut(id).unwrap().utc = Some((late * 400 * MS, 2 * S));
        }
        let mut newest = GroupTime(0);
        let mut thread = 16;
        let mut read = |net: &mut Net, ids: &[u32]| {
            if ids.is_empty() {
                return;
            }
            net.all_live(ids);
            let value = net.all_read(ids, thread).time;
            assert!(value > newest, "{} ns back: {ids:?} of {order:?}", newest.0 - value.0);
            (newest, thread) = (value, thread + 1);
        };
        for (many, id) in (1..).zip(order) {
            // So that what those that were upgraded before have kept is of long ago.
            net.pass(40 * S);
            let by = live(&net, all);
            read(&mut net, &by);
            upgrade(&mut net, *id, all);
            let by = live(&net, all);
            read(&mut net, &by);
            let (new, old) = order.split_at(many);
            let mut wanted = match (old.len() * 2 > all.len(), new.len() * 2 > all.len()) {
                (true, _) => old.to_vec(),
                (_, true) => new.to_vec(),
                _ => Vec::new(),
            };
            wanted.sort_unstable();
            assert_eq!(by, wanted, "after {id} of {order:?}");
        }
        let told = |from: &u32| {
            // As it has it who speaks what this code does not.
            let notice = Notice::Version { from: Member(*from), version: VERSION + 1 };
            net.notices(order[0]).contains(&notice)
        };
        assert!(order[1..].iter().any(told), "{order:?}");
        net.all_live(all);
    }
}

/// The ring falls apart in the middle of it, and what a majority of neither version has gives no values.
#[test]
fn a_part_of_the_ring_goes_on_only_with_a_majority_of_one_version() {
    let all = [1, 2, 3, 4, 5];
    let mut net = Net::formed(&all);
    let before = net.all_read(&all, 16).time;
    upgrade(&mut net, 1, &all);
    upgrade(&mut net, 2, &all);
    assert_eq!(live(&net, &all), [3, 4, 5]);
    // A majority is connected, and none of it is of one version.
    net.split(&[&[1, 3, 4], &[2, 5]]);
    net.settle();
    net.pass(20 * S);
    assert_eq!(live(&net, &all), []);
    net.split(&[&[3, 4, 5], &[1, 2]]);
    net.settle();
    net.pass(20 * S);
    assert_eq!(live(&net, &all), [3, 4, 5]);
    let during = net.all_read(&[3, 4, 5], 17).time;
    assert!(during > before);
    net.kill(4);
    upgrade(&mut net, 4, &[1, 2, 4]);
    net.pass(2 * S);
    assert_eq!(live(&net, &all), [1, 2, 4]);
    assert!(net.all_read(&[1, 2, 4], 18).time > during);
}
