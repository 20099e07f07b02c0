use super::*;

fn group(change: impl Fn(&mut Group)) -> Group {
    let mut group = Group::new("test", &members(&[1, 2, 3]));
    change(&mut group);
    group
}

#[test]
fn only_the_primary_proposes_when_semi_active() {
    for mode in [Mode::SemiActive, Mode::Passive] {
        let mut net = Net::of(group(|it| it.mode = mode));
        net.boot(&[1, 2, 3]);
        assert!(net.engine(1).is_first() && !net.engine(2).is_first());
        net.read(2, 16);
        net.read(3, 16);
        net.pass(S);
        assert!(net.values(2).is_empty());
        net.read(1, 16);
        net.settle();
        assert_eq!(net.values(2)[0].2.synchronizer, Member(1));
        // A backup that takes over sends.
        net.read(2, 16);
        net.read(3, 16);
        net.kill(1);
        net.settle();
        assert!(net.engine(2).is_first());
        assert_eq!(net.values(3)[1].2.synchronizer, Member(2));
        // And stays the primary when the first comes back.
        net.start(1);
        net.join(&[1, 2, 3]);
        net.settle();
        net.all_live(&[1, 2, 3]);
        assert!(net.engine(2).is_first() && !net.engine(1).is_first());
    }
}

#[test]
fn a_passive_backup_reads_what_the_primary_read() {
    let mut net = Net::of(group(|it| it.mode = Mode::Passive));
    net.boot(&[1, 2, 3]);
    for _ in 0..5 {
        net.read(1, 16);
        net.settle();
    }
    net.kill(1);
    net.settle();
    for _ in 0..5 {
        net.read(2, 16);
    }
    let before: Vec<_> = net.values(2).iter().map(|value| value.2.synchronizer).collect();
    assert_eq!(before, [Member(1); 5]);
    net.read(2, 16);
    net.settle();
    assert_eq!(net.values(2)[5].2.synchronizer, Member(2));
    assert!(net.values(2)[5].2.time > net.values(2)[4].2.time);
}

#[test]
fn reads_during_a_message_are_leased() {
    let mut net = Net::formed(&[1, 2, 3]);
    for token in 0..3 {
        net.event(2, Event::Multicast { token, payload: b"request", stamp: None });
    }
    net.settle();
    let delivered = |net: &Net, id: u32| -> Vec<(u64, i64, i64)> {
        let delivered = |it: &Action| match it {
            Action::Deliver { token, time, lease_end, .. } => {
                Some((*token, time.time.0, *lease_end))
            }
            _ => None,
        };
        net.nodes[&id].actions.iter().filter_map(delivered).collect()
    };
    let at_one = delivered(&net, 1);
    assert_eq!(at_one.len(), 3);
    assert_eq!(at_one, delivered(&net, 2));
    assert_eq!(at_one, delivered(&net, 3));
    for (earlier, later) in at_one.iter().zip(&at_one[1..]) {
        assert_eq!(earlier.2, earlier.1 + 1000);
        assert!(later.1 > earlier.2);
    }
    assert!(net.all_read(&[1, 2, 3], 16).time.0 > at_one[2].2);
}

#[test]
fn a_message_from_the_future_waits_for_it() {
    let mut net = Net::formed(&[1, 2, 3]);
    let stamp = net.now + S;
    net.event(2, Event::Multicast { token: 1, payload: b"later", stamp: Some(stamp) });
    net.event(2, Event::Multicast { token: 2, payload: b"behind it", stamp: None });
    net.event(3, Event::Multicast { token: 3, payload: b"at once", stamp: None });
    net.settle();
    let tokens = |net: &Net| -> Vec<(u64, i64)> {
        let delivered = |it: &Action| match it {
            Action::Deliver { token, time, .. } => Some((*token, time.time.0)),
            _ => None,
        };
        net.nodes[&1].actions.iter().filter_map(delivered).collect()
    };
    assert_eq!(tokens(&net).iter().map(|it| it.0).collect::<Vec<_>>(), [3]);
    assert_eq!(net.engine(3).status().held, 2);
    // A newcomer holds it too.
    net.kill(1);
    net.settle();
    net.start(1);
    net.join(&[1, 2, 3]);
    net.settle();
    net.all_live(&[1, 2, 3]);
    // Nobody reads anything: the waiting message itself makes the group's clock go on.
    net.pass(2 * S);
    assert_eq!(tokens(&net).iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2]);
    assert!(tokens(&net)[0].1 >= stamp);
    net.all_live(&[1, 2, 3]);
}

#[test]
fn a_message_from_too_far_ahead_is_refused_everywhere() {
    let mut net = Net::formed(&[1, 2, 3]);
    let stamp = Some(net.now + 60 * S);
    net.event(2, Event::Multicast { token: 1, payload: b"no", stamp });
    net.settle();
    let refused = Action::Refused { token: 1, why: Refusal::StampTooFarAhead };
    assert!(net.nodes[&2].actions.contains(&refused));
    let delivered = |it: &Action| matches!(it, Action::Deliver { .. });
    assert!(!net.nodes.values().any(|node| node.actions.iter().any(delivered)));
    net.all_live(&[1, 2, 3]);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut net = Net::formed(&[1, 2, 3]);
    net.event(
        1,
        Event::Multicast { token: 1, payload: &vec![0; LARGEST_PAYLOAD + 1], stamp: None },
    );
    let refused = Action::Refused { token: 1, why: Refusal::TooMuch };
    assert!(net.nodes[&1].actions.contains(&refused));
    net.event(1, Event::Multicast { token: 2, payload: b"x", stamp: None });
    net.split(&[&[1], &[2, 3]]);
    net.settle();
    let refused = Action::Refused { token: 2, why: Refusal::Outside };
    assert!(net.nodes[&1].actions.contains(&refused));
    net.event(1, Event::Multicast { token: 3, payload: b"x", stamp: None });
    let refused = Action::Refused { token: 3, why: Refusal::Outside };
    assert!(net.nodes[&1].actions.contains(&refused));
}

#[test]
fn settings_are_checked() {
    let engine = |change: &dyn Fn(&mut Group)| {
        Engine::new(group(change), Own::new(Member(1), 1)).map(|_| ()).unwrap_err()
    };
    assert_eq!(engine(&|it| it.name = "a b".into()), SettingsError::Name);
    assert_eq!(engine(&|it| it.universe = members(&[2, 1])), SettingsError::Universe);
    assert_eq!(engine(&|it| it.universe = vec![]), SettingsError::Universe);
    assert_eq!(engine(&|it| it.steering_time_ns = 0), SettingsError::Time);
    let other = group(|it| it.lease_ns += 1);
    assert_ne!(other.digest(), group(|_| {}).digest());
}
