use super::super::LONGEST_MESSAGE;
use super::*;

fn member(number: u32) -> Member {
    Member(number)
}

fn members(numbers: &[u32]) -> Vec<Member> {
    numbers.iter().copied().map(Member).collect()
}

fn configuration(now: &[u32], lost: &[u32]) -> Incoming {
    Incoming::Configuration { members: members(now), lost: members(lost) }
}

fn message(from: u32, text: &str) -> Incoming {
    Incoming::Message { from: member(from), bytes: text.as_bytes().to_vec() }
}

fn received(local: &mut Local) -> Vec<Incoming> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        local.receive(&mut all).unwrap();
        if all.len() == before {
            return all;
        }
    }
}

/// Three members that have received their configurations.
fn three(hub: &Hub) -> [Local; 3] {
    let mut all = [1, 2, 3].map(|number| hub.join(member(number)).unwrap());
    for local in &mut all {
        received(local);
    }
    all
}

/// True if poll(2) would wake; what has rung so far is forgotten.
fn rings(local: &Local) -> bool {
    (&local.bell).read(&mut [0; 64]).is_ok_and(|n| n > 0)
}

#[test]
fn all_get_the_same_in_the_same_order() {
    let hub = Hub::new();
    let mut all = three(&hub);
    for round in 0..100 {
        for local in &mut all {
            let text = format!("{round} of {}", local.member());
            assert_eq!(local.send(text.as_bytes()), Ok(Sent::Taken));
        }
    }
    let [first, others @ ..] = &mut all;
    let expected = received(first);
    assert_eq!(expected.len(), 300);
    for local in others {
        assert_eq!(received(local), expected);
    }
}

#[test]
fn members_come_and_go() {
    let hub = Hub::new();
    let mut one = hub.join(member(1)).unwrap();
    assert_eq!(one.send(b"too early"), Ok(Sent::Later));
    assert_eq!(received(&mut one), [configuration(&[1], &[])]);
    let two = hub.join(member(2)).unwrap();
    assert_eq!(received(&mut one), [configuration(&[1, 2], &[])]);
    let again = hub.join(member(2)).unwrap_err();
    assert!(again.what.contains("member 2"), "{again}");
    drop(two);
    assert_eq!(received(&mut one), [configuration(&[1], &[])]);
    let mut two = hub.join(member(2)).unwrap();
    received(&mut one);
    hub.crash(member(2));
    assert_eq!(received(&mut one), [configuration(&[1], &[2])]);
    assert!(two.receive(&mut Vec::new()).is_err_and(|error| error.passing));
}

#[test]
fn the_dead_are_told_that_they_are_alone() {
    let hub = Hub::new();
    let mut all = three(&hub);
    hub.crash(member(3));
    let mut last = Vec::new();
    assert!(all[2].receive(&mut last).is_err());
    assert_eq!(last, [configuration(&[3], &[1, 2])]);
    assert!(all[2].send(b"from the dead").is_err());
    // A later life is another member's life, whatever becomes of the old handle.
    let mut again = hub.join(member(3)).unwrap();
    let [one, two, dead] = all;
    drop(dead);
    assert_eq!(received(&mut again), [configuration(&[1, 2, 3], &[])]);
    drop((one, two));
}

#[test]
fn a_cut_ring_goes_on_in_parts() {
    let hub = Hub::new();
    let [mut one, mut two, mut three] = three(&hub);
    assert_eq!(one.send(b"before"), Ok(Sent::Taken));
    hub.cut(&[&members(&[1, 2])]);
    assert_eq!(one.send(b"here"), Ok(Sent::Taken));
    assert_eq!(three.send(b"there"), Ok(Sent::Taken));
    hub.heal();
    assert_eq!(two.send(b"after"), Ok(Sent::Taken));
    let here = [
        message(1, "before"),
        configuration(&[1, 2], &[3]),
        message(1, "here"),
        configuration(&[1, 2, 3], &[]),
        message(2, "after"),
    ];
    assert_eq!(received(&mut one), here);
    assert_eq!(received(&mut two), here);
    let there = [
        message(1, "before"),
        configuration(&[3], &[1, 2]),
        message(3, "there"),
        configuration(&[1, 2, 3], &[]),
        message(2, "after"),
    ];
    assert_eq!(received(&mut three), there);
}

#[test]
fn a_stranded_member_gets_what_no_other_does() {
    let hub = Hub::new();
    let [mut one, mut two, _three] = three(&hub);
    hub.strand(member(1));
    assert_eq!(one.send(b"nobody hears"), Ok(Sent::Taken));
    hub.cut(&[&members(&[1])]);
    hub.heal();
    assert_eq!(one.send(b"again"), Ok(Sent::Taken));
    assert_eq!(received(&mut one)[0], message(1, "nobody hears"));
    let rest = received(&mut two);
    assert_eq!(rest[0], configuration(&[2, 3], &[1]));
    assert_eq!(rest.last(), Some(&message(1, "again")));
}

#[test]
fn a_held_member_gets_all_of_it_later() {
    let hub = Hub::new();
    let [mut one, mut two, _three] = three(&hub);
    hub.hold(member(2));
    assert_eq!(one.send(b"first"), Ok(Sent::Taken));
    assert_eq!(received(&mut one), [message(1, "first")]);
    assert!(!rings(&two));
    assert_eq!(received(&mut two), []);
    hub.release(member(2));
    assert!(rings(&two));
    assert_eq!(received(&mut two), [message(1, "first")]);
}

#[test]
fn a_member_that_does_not_receive_holds_up_the_senders() {
    let hub = Hub::new();
    let [mut one, mut two, _three] = three(&hub);
    let large = vec![7; LONGEST_MESSAGE];
    let mut taken = 0;
    while one.send(&large).unwrap() == Sent::Taken {
        taken += 1;
        received(&mut one);
        assert!(taken < 1000, "no end of room");
    }
    assert!(taken > 10);
    assert_eq!(received(&mut two).len(), taken);
    // The third still has all of it.
    assert_eq!(one.send(&large), Ok(Sent::Later));
    assert!(
        one.send(&vec![7; LONGEST_MESSAGE + 1]).is_err_and(|error| error.what.contains("parts"))
    );
}

#[test]
fn the_bell_rings_until_all_is_taken() {
    let hub = Hub::new();
    let [mut one, mut two, _three] = three(&hub);
    for _ in 0..MOST_AT_ONCE + 1 {
        assert_eq!(one.send(b"more"), Ok(Sent::Taken));
    }
    let mut some = Vec::new();
    two.receive(&mut some).unwrap();
    assert_eq!(some.len(), MOST_AT_ONCE);
    assert!(rings(&two));
    two.receive(&mut some).unwrap();
    assert_eq!(some.len(), MOST_AT_ONCE + 1);
    assert!(!rings(&two));
}
