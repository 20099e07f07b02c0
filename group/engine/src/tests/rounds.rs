use super::*;

#[test]
fn all_get_the_same_value_for_one_message() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.all_live(&[1, 2, 3]);
    let before: u64 = (1..=3).map(|id| net.engine(id).status().messages_sent).sum();
    let value = net.all_read(&[1, 2, 3], 16);
    let after: u64 = (1..=3).map(|id| net.engine(id).status().messages_sent).sum();
    assert_eq!(after - before, 1);
    assert_eq!(value.synchronizer, Member(1));
    assert!((value.time.0 - START).abs() < S);
    assert_eq!(net.engine(2).status().suppressed, 1);
    let next = net.all_read(&[1, 2, 3], 16);
    assert!(next.time > value.time);
}

#[test]
fn many_threads_share_a_message() {
    let mut net = Net::formed(&[1, 2, 3]);
    let before = net.engine(1).status().messages_sent;
    for thread in 16..116 {
        for id in 1..=3 {
            net.read(id, thread);
        }
    }
    net.settle();
    assert_eq!(net.engine(1).status().messages_sent, before + 1);
    assert_eq!(net.engine(1).status().proposals_sent, 100);
    let mut times: Vec<i64> = net.values(3).iter().map(|value| value.2.time.0).collect();
    assert_eq!(times.len(), 100);
    times.dedup();
    assert_eq!(times.len(), 100);
    assert!(times.is_sorted());
    net.all_live(&[1, 2, 3]);
}

#[test]
fn the_next_in_rank_proposes_when_the_first_does_not() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(2, 16);
    net.read(3, 16);
    net.settle();
    assert!(net.values(2).is_empty());
    net.pass(MS / 2);
    assert_eq!(net.values(2)[0].2.synchronizer, Member(2));
    assert_eq!(net.values(3).len(), 1);
    // The slow one finds it in its buffer.
    net.read(1, 16);
    assert_eq!(net.values(1), net.values(2));
    assert_eq!(net.engine(1).status().proposals_sent, 0);
}

#[test]
fn later_proposals_are_duplicates() {
    let mut net = Net::formed(&[1, 2, 3]);
    for id in 1..=3 {
        net.read(id, 16);
    }
    net.now += 5 * MS;
    for id in (1..=3).rev() {
        net.flush(id);
    }
    net.settle();
    for id in 1..=3 {
        assert_eq!(net.values(id).len(), 1);
        assert_eq!(net.values(id)[0].2.synchronizer, Member(3));
        assert_eq!(net.engine(id).status().duplicates, 2);
    }
}

#[test]
fn who_proposed_for_nothing_waits_longer_until_the_ring_changes() {
    let mut net = Net::formed(&[1, 2, 3]);
    for (thread, waits) in [(16, 400_000), (17, 500_000), (18, 600_000)] {
        net.read(2, thread);
        let due = net.engine(2).deadline().unwrap() - net.reading(2).physical;
        assert_eq!(due, waits);
        // The first one's operation begins late, and both messages are on the way.
        net.now += 2 * waits;
        net.read(1, thread);
        net.flush(1);
        net.flush(2);
        net.settle();
        assert_eq!(net.engine(2).status().duplicates, thread - 15);
    }
    // The first one's own duplicates are no sign that it should wait.
    assert_eq!(net.engine(1).stagger, crate::stagger::Stagger::default());
    net.configure(&[2, 3], &[1]);
    net.settle();
    net.read(3, 20);
    let due = net.engine(3).deadline().unwrap() - net.reading(3).physical;
    assert_eq!(due, 400_000, "the second of two");
}

#[test]
fn the_order_of_proposers_rotates_if_asked() {
    let mut net = Net::of(Group { rotate: true, ..Group::new("test", &members(&[1, 2, 3])) });
    net.boot(&[1, 2, 3]);
    let winners: Vec<u32> = (0..6).map(|_| net.all_read(&[1, 2, 3], 16).synchronizer.0).collect();
    assert_eq!(winners, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_round_given_up_is_consumed() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(1, 16);
    net.event(1, Event::Abandon { thread: Thread(16) });
    // The others have not given it up: their first is round 0, which 1 has to propose too.
    net.read(1, 16);
    net.settle();
    assert_eq!(net.values(1).iter().map(|value| value.1).collect::<Vec<_>>(), [1]);
    net.read(2, 16);
    net.read(2, 16);
    assert_eq!(net.values(2).iter().map(|value| value.1).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(net.values(2)[1], net.values(1)[0]);
}

#[test]
fn different_work_is_noticed() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(1, 16);
    net.settle();
    net.event(2, Event::Read { thread: Thread(16), call: Call::Time });
    let divergence = Notice::Divergence {
        thread: Thread(16),
        round: Round(0),
        theirs: Call::Group,
        ours: Call::Time,
        synchronizer: Member(1),
    };
    assert!(net.notices(2).contains(&divergence));
}

#[test]
fn a_thread_has_one_operation_at_a_time() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.read(2, 16);
    net.read(2, 16);
    let busy = Action::Reject { thread: Thread(16), why: Rejection::Busy };
    assert!(net.nodes[&2].actions.contains(&busy));
    net.pass(MS);
    assert_eq!(net.values(2).len(), 1);
}

#[test]
fn a_program_too_far_behind_is_told() {
    let mut net = Net::new(&[1, 2, 3]);
    net.buffer = 10;
    net.boot(&[1, 2, 3]);
    for _ in 0..12 {
        net.all_read(&[1, 2], 16);
    }
    assert!(net.engine(3).status().kept <= 10);
    net.read(3, 16);
    let behind = Action::Reject { thread: Thread(16), why: Rejection::Behind };
    assert!(net.nodes[&3].actions.contains(&behind));
    net.event(3, Event::Restarted);
    net.all_read(&[1, 2, 3], 16);
}

#[test]
fn foreign_messages_are_told_and_ignored() {
    let mut net = Net::formed(&[1, 2, 3]);
    let mut other = Net::of(Group::new("other", &members(&[1, 2, 3])));
    other.start(2);
    other.join(&[2]);
    other.deliver();
    let mut bytes = Vec::new();
    // Not a majority: no join; so its first message comes with the others.
    other.start(1);
    other.join(&[1, 2]);
    other.deliver();
    let now = other.reading(2);
    let engine = other.nodes.get_mut(&2).unwrap().engine.as_mut().unwrap();
    engine.flush(now);
    while let Some(action) = engine.next_action() {
        if let Action::Send(sent) = action {
            bytes = sent;
        }
    }
    assert!(!bytes.is_empty());
    for id in 1..=3 {
        net.event(id, Event::Delivered { from: Member(2), bytes: b"hello" });
        net.event(id, Event::Delivered { from: Member(2), bytes: &bytes });
    }
    let notices = net.notices(1);
    assert!(notices.contains(&Notice::OtherGroup { from: Member(2) }), "{notices:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Malformed { .. })));
    assert_eq!(net.engine(1).status().foreign, 2);
    net.all_read(&[1, 2, 3], 16);
    net.all_live(&[1, 2, 3]);
}
