use super::*;

#[test]
fn a_minority_has_nothing_to_say() {
    let mut net = Net::formed(&[1, 2, 3]);
    let before = net.all_read(&[1, 2, 3], 16);
    net.split(&[&[1], &[2, 3]]);
    net.settle();
    assert_eq!(net.phase(1), Phase::Outside);
    net.read(1, 16);
    net.pass(S);
    assert_eq!(net.values(1).len(), 1);
    let meanwhile = net.all_read(&[2, 3], 16);
    assert!(meanwhile.time > before.time);
    assert_eq!(meanwhile.synchronizer, Member(2));
    // It heals: 1 is let in, and its operation gets the group's next round.
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    net.pass(MS);
    assert_eq!(net.values(1).len(), 2);
    assert_eq!(net.values(1)[1].1, 2);
    assert!(net.values(1)[1].2.time > meanwhile.time);
    assert_eq!(net.engine(1).status().gaps, 2 - 1);
}

#[test]
fn a_member_stopped_and_continued_has_been_out() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 16);
    // The others form a ring of their own; what 3 sees: alone, then all at once.
    net.split(&[&[1, 2], &[3]]);
    net.join(&[1, 2, 3]);
    net.settle();
    let phases: Vec<Phase> = net.nodes[&3]
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Phase(phase) => Some(*phase),
            _ => None,
        })
        .collect();
    assert_eq!(phases[phases.len() - 3..], [Phase::Outside, Phase::Joining, Phase::Live]);
    net.all_live(&[1, 2, 3]);
}

#[test]
fn a_member_that_was_out_and_was_not_told_finds_out() {
    for first in [1, 2] {
        let mut net = Net::formed(&[1, 2, 3]);
        net.all_read(&[1, 2, 3], 16);
        // 1 hears of none of this: neither that the others were by themselves nor what they said.
        net.configure(&[2, 3], &[]);
        let alone = net.all_read(&[2, 3], 16);
        for id in [2, 3] {
            let node = net.nodes.get_mut(&id).unwrap();
            node.ring = vec![1, 2, 3];
            node.inbox.push_back(Item::Configuration(vec![1, 2, 3], vec![]));
        }
        net.deliver();
        assert_eq!(net.phase(1), Phase::Live);
        net.read(first, 16);
        net.flush(first);
        net.settle();
        net.pass(2 * MS);
        let missed = |it: &Notice| matches!(it, Notice::Missed { .. });
        assert!(net.notices(1).iter().any(missed), "{first}");
        net.all_live(&[1, 2, 3]);
        assert_eq!(net.engine(1).status().gaps, 1);
        // What it may have decided by itself meanwhile nobody else has, and nobody goes back.
        let value = net.all_read(&[1, 2, 3], 17);
        assert!(value.time > alone.time);
        for id in [2, 3] {
            assert!(!net.notices(id).iter().any(missed), "{first}");
        }
    }
}

#[test]
fn losing_a_majority_that_is_back_at_once_is_being_out() {
    let mut net = Net::formed(&[1, 2, 3]);
    // 3 sees one configuration only, in which the others are, but were lost in between.
    net.split(&[&[1, 2]]);
    net.deliver();
    net.nodes.get_mut(&3).unwrap().ring = vec![];
    net.join(&[1, 2]);
    net.configure(&[3], &[]);
    let three = net.nodes.get_mut(&3).unwrap();
    three.inbox.clear();
    three.ring = vec![];
    let (all, lost) = (members(&[1, 2, 3]), members(&[1, 2]));
    net.event(3, Event::Configuration { members: &all, lost: &lost });
    assert_eq!(net.phase(3), Phase::Joining);
}

#[test]
fn a_value_that_only_the_lost_one_saw_does_not_roll_back() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 16);
    // 3 wins a round that nobody else ever gets.
    net.read(3, 16);
    net.now += 2 * MS;
    net.flush(3);
    for id in [1, 2] {
        net.nodes.get_mut(&id).unwrap().inbox.clear();
    }
    net.step(3);
    let alone = *net.values(3).last().unwrap();
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    // The same round is decided anew by the others, for 3 has no part in it.
    let value = net.all_read(&[1, 2], 16);
    assert_eq!(alone.1, 1);
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    let after = net.all_read(&[1, 2, 3], 16);
    assert!(after.time > value.time && after.time > alone.2.time);
}

#[test]
fn a_process_started_again_is_another_life() {
    let mut net = Net::formed(&[1, 2, 3]);
    let before = net.all_read(&[1, 2, 3], 16);
    net.kill(1);
    net.settle();
    let meanwhile = net.all_read(&[2, 3], 16);
    assert!(meanwhile.time > before.time);
    net.start(1);
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    assert!(net.all_read(&[1, 2, 3], 17).time > meanwhile.time);
    // Its threads go on where the group's are.
    assert!(net.all_read(&[1, 2, 3], 16).time > meanwhile.time);
}

#[test]
fn two_newcomers_at_once() {
    let mut net = Net::formed(&[1, 2, 3]);
    let mut five = Net::new(&[1, 2, 3, 4, 5]);
    five.boot(&[1, 2, 3]);
    five.all_live(&[1, 2, 3]);
    five.start(4);
    five.start(5);
    five.join(&[1, 2, 3, 4, 5]);
    five.settle();
    five.all_live(&[1, 2, 3, 4, 5]);
    five.all_read(&[1, 2, 3, 4, 5], 16);
    net.all_read(&[1, 2, 3], 16);
}

#[test]
fn the_sender_of_a_state_dies_half_way() {
    let mut net = Net::formed(&[1, 2, 3]);
    for thread in 16..20_016 {
        net.read(1, thread);
    }
    net.settle();
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(3);
    net.deliver();
    // 1 sends its state, of which 3 gets but the first part.
    net.flush(1);
    let three = net.nodes.get_mut(&3).unwrap();
    assert!(three.inbox.len() > 1, "{}", three.inbox.len());
    three.inbox.truncate(1);
    net.nodes.get_mut(&2).unwrap().inbox.truncate(1);
    net.kill(1);
    net.settle();
    net.all_live(&[2, 3]);
    net.all_read(&[2, 3], 60_000);
}

#[test]
fn a_silent_sender_of_a_state_is_taken_over_from() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(3);
    net.deliver();
    // 1 hangs.
    net.now += MS;
    net.flush(2);
    net.deliver();
    assert_eq!(net.phase(3), Phase::Live);
    net.settle();
    net.all_live(&[1, 2, 3]);
}

#[test]
fn messages_while_joining_are_caught_up() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(3);
    net.deliver();
    net.event(2, Event::Multicast { token: 7, payload: b"seven", stamp: None });
    net.flush(2);
    net.deliver();
    assert_eq!(net.phase(3), Phase::Joining);
    net.settle();
    net.all_live(&[1, 2, 3]);
    let delivers = |net: &Net, id| {
        net.nodes[&id].actions.iter().filter(|it| matches!(it, Action::Deliver { .. })).count()
    };
    assert_eq!(delivers(&net, 3), 1);
    assert_eq!(delivers(&net, 1), 1);
}

#[test]
fn a_change_while_joining_starts_it_again() {
    let mut net = Net::formed(&[1, 2, 3, 4, 5]);
    net.kill(5);
    net.settle();
    net.start(5);
    net.join(&[1, 2, 3, 4, 5]);
    net.deliver();
    net.flush(5);
    net.deliver();
    net.split(&[&[1, 2, 3, 5], &[4]]);
    net.settle();
    net.all_live(&[1, 2, 3, 5]);
    net.all_read(&[1, 2, 3, 5], 16);
}

#[test]
fn those_with_the_latest_state_revive_it() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.split(&[&[1], &[2, 3]]);
    net.settle();
    let value = net.all_read(&[2, 3], 16);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.join(&[1, 2]);
    net.settle();
    net.all_live(&[1, 2]);
    assert!(net.notices(2).contains(&Notice::Revived { members: 1 }));
    assert_eq!(net.engine(2).status().gaps, 0);
    assert_eq!(net.engine(1).status().gaps, 1);
    assert_eq!(net.engine(2).status().threads[&Thread(16)].decided, Round(1));
    assert!(net.all_read(&[1, 2], 17).time > value.time);
    // 3 comes back with an older generation of the same state.
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
}

#[test]
fn all_isolated_go_on_together() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(2, 20);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    assert!(net.notices(1).contains(&Notice::Revived { members: 3 }));
    net.pass(MS);
    assert_eq!(net.values(2).len(), 1);
    assert!((1..=3).all(|id| net.engine(id).status().gaps == 0));
}

#[test]
fn a_group_that_lost_all_begins_above_its_floor() {
    let mut net = Net::formed(&[1, 2, 3]);
    let before = net.all_read(&[1, 2, 3], 16);
    for id in 1..=3 {
        net.kill(id);
        // All clocks have lost their time.
        net.nodes.get_mut(&id).unwrap().utc = None;
    }
    net.boot(&[1, 2]);
    net.all_live(&[1, 2]);
    let after = net.all_read(&[1, 2], 16);
    assert!(after.time > before.time);
    assert!(after.time.0 < before.time.0 + 4 * S);
    assert!(matches!(net.notices(1)[0], Notice::Began { floor: Some(_) }));
}

#[test]
fn the_layer_belows_doubt_is_enough() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.event(1, Event::Quorum { quorate: false });
    assert_eq!(net.phase(1), Phase::Outside);
    net.settle();
    net.all_live(&[2, 3]);
    assert_eq!(net.all_read(&[2, 3], 16).synchronizer, Member(2));
    net.event(1, Event::Quorum { quorate: true });
    net.settle();
    net.all_live(&[1, 2, 3]);
    // And it never lets in alone.
    net.split(&[&[1], &[2, 3]]);
    net.settle();
    net.event(1, Event::Quorum { quorate: true });
    net.settle();
    assert_eq!(net.phase(1), Phase::Outside);
}

#[test]
fn a_checkpoint_comes_with_the_values_not_yet_read() {
    let mut net = Net::new(&[1, 2, 3]);
    net.checkpoints = true;
    net.boot(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    // 2's program is at round 1 of thread 16, when two have been decided.
    net.all_read(&[1, 2], 16);
    net.read(1, 16);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.settle();
    assert_eq!(net.phase(3), Phase::Joining);
    let join = |net: &Net, id| {
        net.nodes[&id].actions.iter().rev().find_map(|action| match action {
            Action::TakeCheckpoint { join } => Some(*join),
            _ => None,
        })
    };
    assert!(join(&net, 1).is_some());
    let position = [(Thread(16), Round(1))];
    let data = vec![42; 200_000];
    let two = join(&net, 2).unwrap();
    net.event(2, Event::Checkpoint { join: two, data: &data, position: &position });
    net.pass(5 * MS);
    let installed = net.nodes[&3].actions.iter().any(|action| {
        matches!(action, Action::InstallCheckpoint { data: d, position: p }
            if *d == data && *p == position)
    });
    assert!(installed);
    net.event(3, Event::Installed);
    net.all_live(&[1, 2, 3]);
    net.read(3, 16);
    assert_eq!(net.values(3)[0], net.values(1)[1]);
    net.read(2, 16);
    net.settle();
    net.all_read(&[1, 2, 3], 16);
}

#[test]
fn an_observer_follows_but_does_not_count() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.start(9);
    net.join(&[1, 2, 3, 9]);
    net.settle();
    net.all_live(&[1, 2, 3, 9]);
    net.read(9, 16);
    let refused = Action::Reject { thread: Thread(16), why: Rejection::Observer };
    assert!(net.nodes[&9].actions.contains(&refused));
    net.event(9, Event::Multicast { token: 1, payload: b"ask", stamp: None });
    net.settle();
    assert!(net.nodes[&1].actions.iter().any(|it| matches!(it, Action::Deliver { .. })));
    net.all_live(&[1, 2, 3, 9]);
    // With one replica there is no majority.
    net.split(&[&[1, 9], &[2, 3]]);
    net.settle();
    assert_eq!((net.phase(1), net.phase(9)), (Phase::Outside, Phase::Outside));
    net.join(&[1, 2, 3, 9]);
    net.settle();
    net.all_live(&[1, 2, 3, 9]);
}

/// Two members cut off alone have each delivered its own message, at the same place and with the
/// same value: their programs have seen different things.
#[test]
fn histories_that_came_to_the_same_are_told_apart() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 16);
    for id in [1, 2] {
        net.event(id, Event::Multicast { token: 5, payload: b"five", stamp: None });
        net.flush(id);
        net.nodes.values_mut().for_each(|node| {
            let own = node.engine.as_ref().unwrap().own.member.0;
            node.inbox.retain(|item| matches!(item, Item::Message(from, _) if *from == own));
        });
    }
    net.deliver();
    let got = |net: &Net, id: u32| {
        net.nodes[&id].actions.iter().find_map(|action| match action {
            Action::Deliver { from, time, .. } => Some((*from, time.time, time.point)),
            _ => None,
        })
    };
    let (one, two) = (got(&net, 1).unwrap(), got(&net, 2).unwrap());
    assert_eq!((one.1, one.2), (two.1, two.2));
    assert_ne!(one.0, two.0);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    let gaps: Vec<u64> = [1, 2].map(|id| net.engine(id).gaps()).to_vec();
    assert_eq!(gaps, [0, 1]);
}

/// Where memories are lost, two beginnings of a group may take turns: the one that was at work last
/// goes on, not the one that began last.
#[test]
fn the_beginning_that_was_at_work_last_goes_on() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_read(&[1, 2, 3], 16);
    // 2 is alone with the first beginning; 1 and 3 begin again.
    net.kill(1);
    net.kill(3);
    net.settle();
    net.boot(&[1, 3]);
    net.all_live(&[1, 3]);
    assert!(matches!(net.notices(1)[0], Notice::Began { .. }));
    net.all_read(&[1, 3], 16);
    // 3 forgets once more, and 2 goes on with it where the first one was.
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[2, 3]);
    net.settle();
    net.all_live(&[2, 3]);
    let mut value = net.all_read(&[2, 3], 16);
    for _ in 0..10 {
        value = net.all_read(&[2, 3], 16);
    }
    let rounds = net.engine(3).status().threads[&Thread(16)].decided;
    net.kill(2);
    net.settle();
    net.join(&[1, 3]);
    net.settle();
    net.all_live(&[1, 3]);
    assert_eq!(net.engine(1).status().threads[&Thread(16)].decided, rounds);
    assert_eq!((net.engine(1).gaps(), net.engine(3).gaps()), (1, 1));
    assert!(net.all_read(&[1, 3], 16).time > value.time);
}

/// Those that had the state ready for a newcomer take part no longer, and the one that does was let
/// in after it had asked.
#[test]
fn a_join_that_nobody_serves_any_more_is_put_again() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(1);
    net.settle();
    net.event(2, Event::Quorum { quorate: false });
    net.settle();
    net.start(1);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.flush(1);
    net.deliver();
    // 2 asks, then 3 sends its state to 1, then it takes part no longer.
    net.event(2, Event::Quorum { quorate: true });
    net.flush(2);
    net.now += MS;
    net.flush(3);
    net.event(3, Event::Quorum { quorate: false });
    net.settle();
    assert_eq!(
        (net.phase(1), net.phase(2), net.phase(3)),
        (Phase::Live, Phase::Joining, Phase::Outside)
    );
    net.pass(6 * S);
    assert_eq!(net.phase(2), Phase::Live);
    net.event(3, Event::Quorum { quorate: true });
    net.settle();
    net.all_live(&[1, 2, 3]);
}

/// One that was left behind has heard that most were there, and one that went on with the others
/// has not; the latter has more for all that.
#[test]
fn one_that_went_on_has_more_than_one_left_behind() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.join(&[1, 2, 3]);
    net.deliver();
    for id in 1..=3 {
        net.flush(id);
    }
    net.deliver();
    net.all_live(&[1, 2, 3]);
    // Nobody hears the others, but that 2 hears 3.
    net.flush(3);
    net.deliver();
    net.split(&[&[1, 3], &[2]]);
    net.deliver();
    assert_eq!(net.phase(2), Phase::Outside);
    net.read(3, 16);
    net.now += 2 * MS;
    net.flush(3);
    net.deliver();
    assert_eq!(net.engine(1).status().threads[&Thread(16)].decided, Round(1));
    net.kill(1);
    net.deliver();
    net.join(&[2, 3]);
    net.settle();
    net.all_live(&[2, 3]);
    assert_eq!(net.engine(2).status().threads[&Thread(16)].decided, Round(1));
    assert_eq!((net.engine(2).gaps(), net.engine(3).gaps()), (1, 0));
}

/// Members get another list one after the other: never do those of both give values, and the new ones begin above all
/// that the old ones have given.
#[test]
fn another_list_takes_over_node_by_node() {
    for (old, new) in [(&[1, 2, 3][..], &[1, 2, 3, 4][..]), (&[1, 2, 3, 4], &[1, 2, 3])] {
        let all = [1, 2, 3, 4];
        let mut net = Net::formed(old);
        let mut newest = net.all_read(old, 16).time;
        net.group = Group::new("test", &members(new));
        // The last one first: who is new, or is to go.
        for id in all.into_iter().rev() {
            if old.contains(&id) {
                net.kill(id);
                net.settle();
            }
            let up = |net: &Net, id: u32| net.nodes.get(&id).is_some_and(|it| it.engine.is_some());
            if new.contains(&id) {
                net.start(id);
                let ring: Vec<u32> = all.into_iter().filter(|id| up(&net, *id)).collect();
                net.join(&ring);
                net.settle();
            }
            net.pass(2 * S);
            let live: Vec<u32> = all
                .into_iter()
                .filter(|id| up(&net, *id) && net.phase(*id) == Phase::Live)
                .collect();
            let is_new = |other: u32| other >= id;
            assert!(
                live.iter().all(|one| is_new(*one)) || !live.iter().any(|one| is_new(*one)),
                "{live:?} after {id}, to {new:?}"
            );
            if !live.is_empty() {
                net.all_live(&live);
                let value = net.all_read(&live, 16 + u64::from(id)).time;
                assert!(value > newest, "{value:?} after {newest:?}: {live:?}");
                newest = value;
            }
        }
        net.all_live(new);
    }
}

/// One whose settings nobody has heard yet counts until it speaks.
#[test]
fn who_is_left_with_members_of_other_settings_is_out_when_they_speak() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.kill(3);
    net.settle();
    net.group.steering_cap_ppb += 1;
    net.start(3);
    net.join(&[1, 2, 3]);
    net.deliver();
    net.kill(2);
    net.deliver();
    assert_eq!(net.phase(1), Phase::Live);
    net.settle();
    assert_ne!(net.phase(1), Phase::Live);
    net.pass(2 * S);
    assert!(net.phase(1) != Phase::Live && net.phase(3) != Phase::Live);
    // It comes with the settings of the others.
    net.start(2);
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[2, 3]);
    assert_ne!(net.phase(1), Phase::Live);
}

/// One that is just being let in counts what was heard before it was: the state may still come when
/// those that sent it have gone outside.
#[test]
fn one_that_is_let_in_too_late_is_out_like_those_that_let_it_in() {
    let mut net = Net::formed(&[1, 2, 3, 4]);
    net.group = Group::new("test", &members(&[1, 2, 3, 4, 5]));
    // 3 has not spoken since it was started with another list, and counts.
    net.kill(3);
    net.start(3);
    net.join(&[1, 2, 3, 4]);
    net.deliver();
    net.kill(2);
    net.deliver();
    let newer = std::mem::replace(&mut net.group, Group::new("test", &members(&[1, 2, 3, 4])));
    net.start(2);
    net.group = newer;
    net.join(&[1, 2, 3, 4]);
    net.deliver();
    net.kill(4);
    net.start(4);
    net.start(5);
    net.join(&[1, 2, 3, 4, 5]);
    net.deliver();
    net.flush(4);
    net.flush(2);
    net.deliver();
    assert_eq!((net.phase(1), net.phase(2)), (Phase::Live, Phase::Joining));
    // 3 speaks, and 1 sends its state before it hears that.
    net.flush(3);
    net.flush(1);
    net.deliver();
    assert_eq!(net.engine(2).status().gaps, 1);
    assert!(net.phase(1) != Phase::Live && net.phase(2) != Phase::Live);
    net.pass(2 * S);
    net.all_live(&[3, 4, 5]);
    assert!(net.phase(1) != Phase::Live && net.phase(2) != Phase::Live);
}

/// The next list before the last one has gone live: those of the first and of the third may each be
/// more than half of theirs.
#[test]
fn two_lists_that_overlap_give_one_clock_in_a_ring() {
    let mut net = Net::formed(&[1, 2, 3]);
    let mut newest = net.all_read(&[1, 2, 3], 16).time;
    let mut ring = vec![1, 2, 3];
    let steps = [(4, 4), (3, 4), (5, 5), (4, 5), (3, 5), (2, 5), (1, 5)];
    let mut lists = BTreeMap::from([(1, 3), (2, 3), (3, 3)]);
    for (id, many) in steps {
        let all: Vec<u32> = (1..=many).collect();
        net.group = Group::new("test", &members(&all));
        if lists.insert(id, many).is_some() {
            net.kill(id);
            net.settle();
        } else {
            ring.push(id);
        }
        net.start(id);
        net.join(&ring);
        net.settle();
        net.pass(2 * S);
        let live: Vec<u32> =
            ring.iter().copied().filter(|id| net.phase(*id) == Phase::Live).collect();
        let of: BTreeSet<u32> = live.iter().map(|id| lists[id]).collect();
        assert_eq!(of.len(), 1, "{live:?} of {lists:?}");
        net.all_live(&live);
        let value = net.all_read(&live, 16 + u64::from(id)).time;
        assert!(value > newest, "{value:?} after {newest:?}: {live:?}");
        newest = value;
    }
    net.all_live(&[1, 2, 3, 4, 5]);
}

/// The layer below need not tell of a process that was started anew: who speaks by our settings has
/// them, whatever was there before.
#[test]
fn one_that_comes_back_with_our_settings_counts_again() {
    let mut net = Net::formed(&[1, 2, 3]);
    let ours = net.group.clone();
    net.kill(2);
    net.settle();
    net.group.steering_cap_ppb += 1;
    net.start(2);
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 3]);
    assert_eq!(net.phase(2), Phase::Joining);
    net.group = ours;
    net.start(2);
    let two = net.nodes.get_mut(&2).unwrap();
    two.ring = vec![1, 2, 3];
    two.inbox.push_back(Item::Configuration(vec![1, 2, 3], vec![]));
    net.settle();
    net.all_live(&[1, 2, 3]);
    net.kill(3);
    // Nothing is sent: they go on, and need not revive what they had.
    net.deliver();
    net.all_live(&[1, 2]);
}
