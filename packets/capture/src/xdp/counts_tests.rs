//! Tests of the counts, without a kernel.

use super::*;

fn counts(seen: u64, taken: u64, waiting: u64) -> XdpCounts {
    XdpCounts { seen, taken, waiting, ..XdpCounts::default() }
}

fn rested(astray: &mut Astray) {
    astray.since -= Duration::from_secs(1);
}

#[test]
fn packets_on_their_way_are_not_lost() {
    let mut astray = Astray::new();
    assert_eq!(astray.note(&counts(1000, 700, 100), 1, false), 0, "200 may be on their way");
    assert_eq!(astray.note(&counts(1000, 700, 100), 1, false), 0, "and still");
    assert_eq!(astray.note(&counts(2000, 1500, 0), 1, false), 244, "500 cannot be, all of them");
    assert_eq!(astray.note(&counts(2000, 1600, 0), 1, false), 244, "what is lost is lost");
    rested(&mut astray);
    assert_eq!(
        astray.note(&counts(2000, 1600, 0), 1, false),
        400,
        "nothing moves: nothing is on its way"
    );
    assert_eq!(astray.note(&counts(2100, 2100, 0), 1, false), 400, "never goes back");
}

#[test]
fn nothing_is_on_its_way_once_the_program_is_gone() {
    let mut astray = Astray::new();
    assert_eq!(astray.note(&counts(1000, 997, 0), 1, false), 0);
    assert_eq!(astray.note(&counts(1010, 1007, 0), 1, true), 3, "to the packet, at once");
}

#[test]
fn losses_add_up() {
    let counts = XdpCounts {
        seen: 1000,
        taken: 600,
        refused: 100,
        waiting: 50,
        ring_full: 30,
        dropped: 200,
        fill_empty: 180,
        invalid: 10,
        elsewhere: 5,
        unnoted: 7,
    };
    assert_eq!(counts.unaccounted(), 1000 - 600 - 50 - 30 - 200 - 10);
    let losses = counts.losses(110);
    assert_eq!(losses.ring, 30 + 180);
    assert_eq!(losses.kernel, 20 + 10 + 7 + 110);
    assert_eq!(losses.received, 600 - 100 + losses.ring + losses.kernel);
}
