//! Members of two versions of the protocol in one ring.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

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

/// Members are upgraded and downgraded, killed and started, parted and brought together, in random order: at most one
/// version gives values at a time, wherever, and they do not go back.
#[test]
fn whatever_happens_one_version_at_most_gives_values_and_none_goes_back() {
    let mut begun = [0; 2];
    for seed in 0..150 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |below: u64| random.next_u64() % below;
        let all: Vec<u32> = (1..=3 + draw(3) as u32).collect();
        let mut net = Net::formed(&all);
        for id in &all {
            let off = draw(2000) as i64 * MS - S;
            net.nodes.get_mut(id).unwrap().utc = Some((off, 2 * S));
        }
        let mut newest = GroupTime(0);
        // Which part of the ring each is in.
        let mut parts: BTreeMap<u32, u64> = all.iter().map(|id| (*id, 0)).collect();
        let mut story = Vec::new();
        for thread in 16..56 {
            let id = all[draw(all.len() as u64) as usize];
            let what = draw(8);
            match what {
                // More often than not on from the old version.
                0..=3 => {
                    net.version = VERSION + u16::from(what > 0);
                    if net.nodes[&id].engine.is_some() {
                        net.kill(id);
                        net.settle();
                    }
                    net.start(id);
                }
                4 if net.nodes[&id].engine.is_some() => net.kill(id),
                5 => parts.values_mut().for_each(|part| *part = draw(2)),
                6 => parts.values_mut().for_each(|part| *part = 0),
                _ => net.pass(draw(20) as i64 * S),
            }
            story.push((id, what));
            for part in 0..2 {
                let is_in = |id: &u32| parts[id] == part && net.nodes[id].engine.is_some();
                let ring: Vec<u32> = all.iter().copied().filter(is_in).collect();
                if !ring.is_empty() && ring.iter().any(|id| net.nodes[id].ring != ring) {
                    net.configure(&ring, &[]);
                }
            }
            net.settle();
            net.pass(20 * MS);
            let up = |id: &u32| net.nodes[id].engine.is_some();
            let up: Vec<u32> = all.iter().copied().filter(up).collect();
            let live = live(&net, &up);
            let versions: BTreeSet<u16> = live.iter().map(|id| net.nodes[id].version).collect();
            assert!(versions.len() < 2, "{live:?}, {seed}: {story:?}");
            assert!(live.is_empty() || live.len() * 2 > all.len(), "{live:?}, {seed}: {story:?}");
            let Some(version) = versions.first() else { continue };
            begun[usize::from(*version == VERSION)] += 1;
            net.all_live(&live);
            let value = net.all_read(&live, thread).time;
            let back = newest.0 - value.0;
            assert!(value > newest, "{back} ns back at {live:?}, {seed}: {story:?}");
            newest = value;
        }
    }
    assert!(begun.iter().all(|times| *times > 300), "{begun:?}");
}
