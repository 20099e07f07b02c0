use super::*;

/// Passes `seconds`, with one read by all in each; the greatest distance from true time after the
/// first half, ns.
fn drift(net: &mut Net, seconds: i64, ppb: &[(u32, i64)]) -> i64 {
    let mut worst = 0;
    let begin = net.now;
    let origin: Vec<i64> = ppb.iter().map(|(id, _)| net.nodes[id].physical).collect();
    for second in 0..seconds {
        net.now = begin + second * S;
        for (&(id, ppb), origin) in ppb.iter().zip(&origin) {
            net.nodes.get_mut(&id).unwrap().physical = origin + second * ppb;
        }
        net.settle();
        let ids: Vec<u32> = ppb.iter().map(|it| it.0).collect();
        let value = net.all_read(&ids, 16);
        if second > seconds / 2 {
            worst = worst.max((value.time.0 - net.now).abs());
        }
    }
    worst
}

#[test]
fn the_clock_follows_utc_whatever_the_oscillators_do() {
    let mut net = Net::formed(&[1, 2, 3]);
    let worst = drift(&mut net, 300, &[(1, 80_000), (2, -40_000), (3, 10_000)]);
    assert!(worst < 4 * MS, "{worst} ns");
    assert!(net.engine(1).status().steering_ppb < 0);
}

#[test]
fn as_published_it_drifts() {
    let group = Group { order: Order::Published, ..Group::new("test", &members(&[1, 2, 3])) };
    let mut net = Net::of(group);
    net.boot(&[1, 2, 3]);
    let first = net.all_read(&[1, 2, 3], 16).time.0 - net.now;
    let begin = net.now;
    drift(&mut net, 300, &[(1, 80_000), (2, -40_000), (3, 10_000)]);
    let last = net.all_read(&[1, 2, 3], 16).time.0 - net.now;
    let expected = (net.now - begin) * 80 / 1_000_000;
    assert!((last - first - expected).abs() < 4 * MS, "{} {expected}", last - first);
}

#[test]
fn clocks_that_differ_do_not_push_each_other_ahead() {
    let mut group = Group::new("test", &members(&[1, 2, 3]));
    group.rotate = true;
    let mut net = Net::of(group);
    net.way = MS / 10;
    let apart = [(1, 3 * MS), (2, -2 * MS), (3, MS / 2)];
    for (id, off) in apart {
        net.start(id);
        net.nodes.get_mut(&id).unwrap().utc = Some((off, 20 * MS));
    }
    net.join(&[1, 2, 3]);
    net.settle();
    for _ in 0..1000 {
        net.all_read(&[1, 2, 3], 16);
    }
    let views = |net: &Net| -> Vec<i64> {
        let ahead = |id| net.engine(id).view(net.reading(id)).unwrap().0 - net.now;
        (1..=3).map(ahead).collect()
    };
    let within = |net: &Net, range: std::ops::RangeInclusive<i64>| {
        let views = views(net);
        assert!(views.iter().all(|view| range.contains(view)), "{views:?} ns ahead");
    };
    within(&net, -2 * MS..=3 * MS);
    // And in time it is where the median is.
    net.pass(60 * S);
    within(&net, 0..=MS);
}

#[test]
fn a_wild_clock_is_suspected_and_wins_no_round() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.pass(2 * S);
    // 1 has UTC wrong by an hour, and says it is sure.
    net.nodes.get_mut(&1).unwrap().utc = Some((3600 * S, MS));
    net.pass(3 * S);
    let suspect = Notice::Suspect { member: Member(1), suspected: true };
    for id in 1..=3 {
        assert!(net.notices(id).contains(&suspect));
    }
    let value = net.all_read(&[1, 2, 3], 16);
    assert_eq!(value.synchronizer, Member(2));
    assert!((value.time.0 - net.now).abs() < 10 * MS);
    // Where it alone reads the clock goes on, as far as the others' last reports go.
    for _ in 0..5 {
        net.pass(S);
        net.read(1, 17);
        net.pass(2 * MS);
        let (.., value) = *net.values(1).last().unwrap();
        assert_eq!(value.synchronizer, Member(1));
        assert_eq!(value.utc, None, "what its clock says is no bound");
        let off = value.time.0 - net.now;
        assert!((-1100 * MS..10 * MS).contains(&off), "{off}");
    }
    // It comes back.
    net.nodes.get_mut(&1).unwrap().utc = Some((0, MS));
    net.pass(3 * S);
    assert_eq!(net.all_read(&[1, 2, 3], 16).synchronizer, Member(1));
}

#[test]
fn a_wild_clock_that_a_group_begins_with_is_found_out() {
    for (wild, hours) in [(1, 3), (3, 3), (1, -3)] {
        let mut net = Net::new(&[1, 2, 3]);
        for id in 1..=3 {
            net.start(id);
        }
        net.nodes.get_mut(&wild).unwrap().utc = Some((hours * 3600 * S, MS));
        net.join(&[1, 2, 3]);
        net.settle();
        for _ in 0..5 {
            net.all_read(&[1, 2, 3], 16);
            net.pass(S);
        }
        let suspect = Notice::Suspect { member: Member(wild), suspected: true };
        assert!(
            net.notices(2).contains(&suspect),
            "{wild} {hours}: {:#?}",
            net.engine(2).status().members
        );
        let value = net.all_read(&[1, 2, 3], 16);
        assert_ne!(value.synchronizer, Member(wild));
        assert!((value.time.0 - net.now).abs() < 6 * S, "{}", value.time.0 - net.now);
        // What it takes the group's clock to be is no longer what its own says.
        let view = net.engine(wild).view(net.reading(wild)).unwrap().0;
        assert!((view - net.now).abs() < 6 * S, "{}", view - net.now);
        // And it comes back.
        net.nodes.get_mut(&wild).unwrap().utc = Some((0, MS));
        net.pass(4 * S);
        let pardon = Notice::Suspect { member: Member(wild), suspected: false };
        if (value.time.0 - net.now).abs() < S {
            assert!(net.notices(2).contains(&pardon), "{wild} {hours}");
        }
    }
}

#[test]
fn a_jump_of_the_physical_clock_is_cut() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.pass(2 * S);
    let before = net.all_read(&[1, 2, 3], 16);
    net.nodes.get_mut(&1).unwrap().physical += 3600 * S;
    net.read(1, 16);
    net.settle();
    let (.., value) = *net.values(1).last().unwrap();
    assert!(value.time > before.time);
    assert!(value.time.0 < net.now + 6 * S, "{}", value.time.0 - net.now);
    assert!(net.engine(2).status().cuts > 0);
    assert!(net.notices(2).iter().any(|it| matches!(it, Notice::Cut { from: Member(1), .. })));
    // It does not lead the others astray.
    net.pass(10 * S);
    net.read(2, 16);
    net.read(3, 16);
    net.read(2, 16);
    net.read(3, 16);
    net.pass(2 * MS);
    let (.., value) = *net.values(2).last().unwrap();
    assert!(value.time.0 < net.now + 6 * S, "{}", value.time.0 - net.now);
}

#[test]
fn without_utc_the_group_runs_free_and_is_set_once_it_is_known() {
    let mut net = Net::new(&[1, 2, 3]);
    for id in 1..=3 {
        net.start(id);
        net.nodes.get_mut(&id).unwrap().utc = None;
    }
    net.join(&[1, 2, 3]);
    net.settle();
    let free = net.all_read(&[1, 2, 3], 16);
    assert_eq!((free.utc, free.error_bound()), (None, None));
    assert!(!net.engine(1).is_tied() && !net.engine(2).status().tied);
    assert!(free.time.0 < START / 2);
    net.pass(S);
    assert!(net.all_read(&[1, 2, 3], 16).time > free.time);
    for id in 1..=3 {
        net.nodes.get_mut(&id).unwrap().utc = Some((0, MS));
    }
    net.pass(3 * S);
    let tied = net.all_read(&[1, 2, 3], 16);
    assert!((tied.time.0 - net.now).abs() < 10 * MS, "{}", tied.time.0 - net.now);
    assert!(net.engine(1).is_tied() && net.engine(2).status().tied);
    let ahead = |it: &&Notice| matches!(it, Notice::Tied { ahead_ns } if *ahead_ns > START / 2);
    assert_eq!(net.notices(3).iter().filter(ahead).count(), 1, "told, and once");
    net.all_live(&[1, 2, 3]);
}

#[test]
fn the_error_bound_reaches_from_the_value_to_the_farther_end() {
    use crate::types::{Agreed, Bound, GroupTime, Point};
    let value = |time, earliest, latest| Agreed {
        time: GroupTime(time),
        utc: Some(Bound { earliest, latest }),
        synchronizer: Member(1),
        point: Point::default(),
    };
    assert_eq!(value(100, 90, 105).error_bound(), Some(10));
    assert_eq!(value(100, 99, 130).error_bound(), Some(30));
    assert_eq!(value(200, 90, 110).error_bound(), Some(110), "ahead of all of it");
    assert_eq!(value(50, 90, 110).error_bound(), Some(60), "behind all of it");
    assert_eq!(value(i64::MAX, i64::MIN, 0).error_bound(), Some(i64::MAX));
}

#[test]
fn an_unsynchronised_member_proposes_last() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.nodes.get_mut(&1).unwrap().utc = None;
    net.pass(2 * S);
    let value = net.all_read(&[1, 2, 3], 16);
    assert_eq!(value.synchronizer, Member(2));
    assert!(value.utc.is_some());
}

#[test]
fn the_clock_never_goes_back_over_fail_overs() {
    let mut net = Net::formed(&[1, 2, 3]);
    // The one that takes over has a slow clock.
    net.nodes.get_mut(&2).unwrap().utc = Some((-4 * MS, 10 * MS));
    let mut last = net.all_read(&[1, 2, 3], 16);
    for turn in 0..6 {
        let away = 1 + turn % 3;
        let rest: Vec<u32> = (1..=3).filter(|&id| id != away).collect();
        net.split(&[&[away], &rest]);
        net.settle();
        let value = net.all_read(&rest, 16);
        assert!(value.time > last.time);
        net.join(&[1, 2, 3]);
        net.settle();
        last = net.all_read(&[1, 2, 3], 16);
        assert!(last.time > value.time);
        net.all_live(&[1, 2, 3]);
    }
}

#[test]
fn the_floor_is_kept_before_the_value_is_used() {
    let mut net = Net::formed(&[1, 2, 3]);
    for _ in 0..20 {
        net.pass(S / 2);
        net.all_read(&[1, 2, 3], 16);
    }
    for id in 1..=3 {
        let mut floor = i64::MIN;
        let mut kept = 0;
        for action in &net.nodes[&id].actions {
            match action {
                Action::Keep { floor: next } => {
                    floor = *next;
                    kept += 1;
                }
                Action::Return { value, .. } => assert!(value.time.0 <= floor),
                _ => {}
            }
        }
        assert!((2..=14).contains(&kept), "{kept}");
    }
}

/// Hours from the truth at the beginning, however the members come together and their messages
/// meet.
#[test]
fn a_wild_clock_is_found_out_in_whatever_order_a_group_forms() {
    for seed in 0..600u64 {
        let mut random = Random::new(seed);
        let ids = [1, 2, 3];
        let wild = ids[random.below(3) as usize];
        let hours = if random.below(2) == 0 { 3 } else { -3 };
        let mut net = Net::new(&ids);
        for id in random.shuffled(ids) {
            net.start(id);
            let honest = random.below(2 * MS as u64) as i64 - MS;
            let off = if id == wild { hours * 3600 * S } else { honest };
            net.nodes.get_mut(&id).unwrap().utc = Some((off, MS));
        }
        // One by one, or some at once.
        let order = random.shuffled(ids);
        let mut there = 0;
        while there < 3 {
            there += 1 + random.below(3 - there as u64) as usize;
            net.join(&order[..there]);
            for _ in 0..random.below(20) {
                random.stir(&mut net, &ids);
            }
        }
        for turn in 0..300 {
            random.stir(&mut net, &ids);
            if turn % 100 == 0 {
                net.settle();
                net.pass(S);
            }
        }
        net.settle();
        net.pass(3 * S);
        let report = net.engine(2).status().members;
        for member in &report {
            assert_eq!(member.suspect, member.member == Member(wild), "{seed}: {report:#?}");
        }
        // A proposal may be as far ahead as that, once.
        net.pass(70 * S);
        let value = net.all_read(&ids, 99);
        assert_ne!(value.synchronizer, Member(wild), "{seed}");
        let off = value.time.0 - net.now;
        assert!(off.abs() < 100 * MS, "{seed}: {off} ns");
        net.all_live(&ids);
    }
}

/// Order of events, by a seed.
struct Random(rand_chacha::ChaCha8Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(rand_core::SeedableRng::seed_from_u64(seed))
    }

    fn below(&mut self, end: u64) -> u64 {
        rand_core::Rng::next_u64(&mut self.0) % end
    }

    fn shuffled(&mut self, mut ids: [u32; 3]) -> [u32; 3] {
        for last in (1..3).rev() {
            ids.swap(last, self.below(last as u64 + 1) as usize);
        }
        ids
    }

    /// Something happens at one of them: a message comes, what is due is sent, its program reads,
    /// or time goes by.
    fn stir(&mut self, net: &mut Net, ids: &[u32; 3]) {
        let id = ids[self.below(3) as usize];
        match self.below(8) {
            0..4 => drop(net.step(id)),
            4..6 => {
                let physical = net.reading(id).physical;
                if net.engine(id).deadline().is_some_and(|due| due <= physical) {
                    net.flush(id);
                }
            }
            6 => net.read(id, 16 + self.below(2)),
            _ => net.now += self.below(300 * MS as u64) as i64,
        }
    }
}
