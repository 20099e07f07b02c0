//! The data set comparison: its order, and where the standard breaks ties.

use std::cmp::Ordering;

use proptest::prelude::*;
use truechimer_ptp::{Announce, ClockIdentity, ClockQuality, DataSet, PortIdentity};

fn set(change: impl Fn(&mut DataSet)) -> DataSet {
    let clock = |n| ClockIdentity([n; 8]);
    let mut set = DataSet {
        announce: Announce {
            priority1: 128,
            quality: ClockQuality { class: 6, accuracy: 0x21, variance: 100 },
            priority2: 128,
            grandmaster: clock(5),
            ..Announce::default()
        },
        sender: PortIdentity { clock: clock(5), port: 1 },
        receiver: PortIdentity { clock: clock(9), port: 1 },
    };
    change(&mut set);
    set
}

/// Each field decides before all that follow it (figure 34).
#[test]
fn the_fields_decide_in_the_order_of_the_standard() {
    type Change = fn(&mut DataSet, u8);
    let fields: [Change; 6] = [
        |s, n| s.announce.priority1 = n,
        |s, n| s.announce.quality.class = n,
        |s, n| s.announce.quality.accuracy = n,
        |s, n| s.announce.quality.variance = n.into(),
        |s, n| s.announce.priority2 = n,
        |s, n| s.announce.grandmaster = ClockIdentity([n; 8]),
    ];
    for (place, field) in fields.iter().enumerate() {
        // The better by this field is the worse by all behind it.
        let with = |own: u8, behind: u8| {
            set(|set| {
                // Two clocks.
                set.announce.grandmaster = ClockIdentity([100 + behind; 8]);
                field(set, own);
                for later in &fields[place + 1..] {
                    later(set, behind);
                }
            })
        };
        let (better, worse) = (with(1, 20), with(2, 10));
        assert_eq!(better.compare(&worse), Ordering::Less, "field {place}");
        assert_eq!(worse.compare(&better), Ordering::Greater, "field {place}");
    }
}

/// One grandmaster by two ways (figure 35): the shorter, then the sender's identity.
#[test]
fn of_two_ways_to_one_grandmaster_the_shorter_is_taken() {
    let way = |steps, sender| {
        set(|set| {
            set.announce.steps_removed = steps;
            set.sender = PortIdentity { clock: ClockIdentity([sender; 8]), port: 1 };
        })
    };
    assert_eq!(way(1, 8).compare(&way(3, 2)), Ordering::Less);
    assert_eq!(way(1, 8).compare(&way(2, 2)), Ordering::Less);
    assert_eq!(way(2, 3).compare(&way(2, 2)), Ordering::Greater);
    assert_eq!(way(2, 2).compare(&way(2, 2)), Ordering::Equal);
    // What the grandmaster says of itself does not matter then.
    let mut boasts = way(2, 2);
    boasts.announce.priority1 = 0;
    assert_eq!(boasts.compare(&way(1, 3)), Ordering::Greater);
    // A longer way that leads back to the receiver is an error, not a worse way.
    let mut own = way(2, 2);
    own.receiver = own.sender;
    assert_eq!(own.compare(&way(1, 2)), Ordering::Equal);
}

proptest! {
    #[test]
    fn the_order_is_one(fields in proptest::collection::vec(any::<[u8; 9]>(), 3)) {
        let of = |f: &[u8; 9]| set(|set| {
            set.announce.priority1 = f[0] % 2;
            set.announce.quality.class = f[1] % 2;
            set.announce.quality.accuracy = f[2] % 2;
            set.announce.quality.variance = (f[3] % 2).into();
            set.announce.priority2 = f[4] % 2;
            set.announce.grandmaster = ClockIdentity([f[5] % 8; 8]);
            set.announce.steps_removed = (f[6] % 4).into();
            set.sender = PortIdentity { clock: ClockIdentity([f[7] % 4; 8]), port: (f[8] % 2).into() };
        });
        let [a, b, c] = [of(&fields[0]), of(&fields[1]), of(&fields[2])];
        prop_assert_eq!(a.compare(&b), b.compare(&a).reverse());
        // One clock tells one thing of itself: only then the comparison is an order.
        let coherent = a.announce.grandmaster != b.announce.grandmaster
            && b.announce.grandmaster != c.announce.grandmaster
            && a.announce.grandmaster != c.announce.grandmaster;
        if coherent && a.compare(&b) == Ordering::Less && b.compare(&c) == Ordering::Less {
            prop_assert_eq!(a.compare(&c), Ordering::Less);
        }
    }
}
