//! Attacks: no attack that leaves an honest majority of the servers that vote moves the clock out
//! of its bound, and the others show that the test can tell. Few of them, under a fixed seed:
//! `simulate attacks` has as many as one likes.

use truechimer_engine::AuthenticationMode;
use truechimer_sim::attack::{Attack, Judged, Kind, judge, judge_scenario};
use truechimer_sim::{Options, Scenario, simulate};

/// The first so many attacks of a kind, of a seed that is not that of the page.
fn some(kind: Kind, attacks: u64) -> Vec<Attack> {
    Attack::numbers(attacks, Some(kind)).into_iter().map(|n| Attack::new(20_261, n)).collect()
}

fn judged(kind: Kind, attacks: u64) -> Vec<Judged> {
    some(kind, attacks).iter().map(|attack| judge(attack).unwrap()).collect()
}

#[test]
fn an_honest_majority_keeps_the_clock_within_its_bound() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.leaves_majority()) {
        let all = judged(kind, 5);
        let stands = all.iter().filter(|row| row.must_hold).count();
        // Combined, servers may be cut off for a while, and then nothing is promised.
        assert!(kind == Kind::Combined || stands == all.len(), "{}", kind.name());
        for row in &all {
            assert_eq!(row.outside_s, 0, "{row:?}");
            assert!(row.promised_s > 3000, "a time, and a bound: {row:?}");
        }
    }
}

/// Two of five servers with proof are bought, and three are held up by 3.2 s from before the start, longer than until the next
/// request: two of these are honest.
#[test]
fn servers_that_are_held_up_at_the_start_are_heard_all_the_same() {
    let row = judge(&Attack::new(1, 44_247)).unwrap();
    assert!(row.must_hold && row.outside_s == 0, "{row:?}");
}

/// A delay in one direction moves the clock by half of it at most, and the bound has room for it.
#[test]
fn a_delay_that_is_hidden_is_in_the_bound() {
    let mut hidden = 0;
    // Of the page's seed, among whose first are some that go undiscovered.
    for number in Attack::numbers(12, Some(Kind::DelaySlow)) {
        let row = judge(&Attack::new(1, number)).unwrap();
        let (error, bound) = (row.largest_us.unwrap(), row.widest_us.unwrap());
        assert!(error <= bound, "{row:?}");
        hidden += usize::from(error > 0.5 * bound);
    }
    assert!(hidden > 0, "no attack was any good");
}

/// Without an honest majority the truth is outside: the same judge sees it.
#[test]
fn without_a_majority_the_bound_is_broken() {
    for kind in [Kind::BoughtHalf, Kind::BoughtMajority, Kind::Unproven, Kind::PoolHalf] {
        let all = judged(kind, 8);
        let outside: Vec<&Judged> = all.iter().filter(|row| row.outside_s > 0).collect();
        assert!(!outside.is_empty(), "{}: {all:?}", kind.name());
        // A lie within what the server claims is none.
        assert!(outside.iter().all(|row| !row.must_hold), "{}: {outside:?}", kind.name());
    }
}

/// Plain servers that turn are held by the fence, and by nothing else.
#[test]
fn without_the_fence_plain_servers_move_the_clock() {
    let mut outside = [0, 0];
    for attack in some(Kind::PlainTurn, 12) {
        for (n, mode) in [AuthenticationMode::Mix, AuthenticationMode::Ignore].iter().enumerate() {
            let (mut scenario, _) = attack.scenario();
            scenario.authentication = *mode;
            let row = judge_scenario(&attack, &scenario).unwrap();
            outside[n] += usize::from(row.outside_s > 0);
        }
    }
    assert!(outside[0] == 0 && outside[1] > 0, "{outside:?}");
}

/// An attack is a scenario: the file says all of it.
#[test]
fn an_attack_can_be_written_down() {
    for kind in Kind::ALL {
        let (scenario, _) = some(kind, 1)[0].scenario();
        scenario.check().unwrap();
        let again = truechimer_sim::Scenario::from_toml(&scenario.to_toml()).unwrap();
        assert_eq!(again, scenario, "{}", kind.name());
    }
}

/// Numbers of kinds that were added later leave those of before what they were.
#[test]
fn an_attack_keeps_its_number() {
    for (number, kind) in [
        (0, Kind::DelayRequests),
        (16, Kind::Unproven),
        (17, Kind::DelayRequests),
        (44_247, Kind::Combined),
        (17 << 32, Kind::Redirect),
        ((17 << 32) + 1, Kind::Redirect),
        (19 << 32, Kind::PoolHalf),
    ] {
        assert_eq!(Attack::new(1, number).kind, kind, "{number}");
    }
    // The later kinds take no turns.
    let all: Vec<u64> = (0..34).collect();
    assert_eq!(Attack::numbers(34, None), all);
    let of = |kinds: &[Kind]| -> Vec<u64> {
        kinds.iter().flat_map(|kind| Attack::numbers(2, Some(*kind))).collect()
    };
    let mut own = of(&Kind::ALL[..17]);
    own.sort_unstable();
    assert_eq!(own, all, "one kind's numbers are those that it has among all");
    assert!(of(&Kind::ALL[17..]).iter().all(|number| number >> 32 >= 17));
}

/// A newcomer of a pool is asked at its own address, and not at that of the silent one whose place it takes.
#[test]
fn a_pools_newcomer_answers() {
    let mut text = "name = \"mine\"\npool = 3\nhours = 1.0\nwarm-up-hours = 0.0\n".to_owned();
    for name in ["a", "b", "c", "d", "e"] {
        text += &format!("[[server]]\nname = {name:?}\n");
        if name == "a" {
            text += "[[server.silence]]\nfrom-s = 0\nto-s = 3600\n";
        }
    }
    let run = simulate(&Scenario::from_toml(&text).unwrap(), &Options::default()).unwrap();
    let took = run.trace.notes.iter().filter(|note| note.text.contains("takes the place of"));
    let took: Vec<&str> = took.map(|note| note.text.as_str()).collect();
    assert_eq!(took.len(), 1, "{took:?}");
    assert!(took[0].contains("192.0.2.4:123 takes the place of 192.0.2.1:123"), "{took:?}");
}

/// Keys that no server of a pool can have are refused, and not left out in silence.
#[test]
fn a_pool_has_servers_of_a_pool_alone() {
    let (scenario, _) = some(Kind::PoolHalf, 1)[0].scenario();
    for change in [
        |s: &mut truechimer_sim::Scenario| s.servers[0].proof = true,
        |s: &mut truechimer_sim::Scenario| s.servers[0].poll = Some(16),
        |s: &mut truechimer_sim::Scenario| s.adaptive = Some([16, 64]),
    ] {
        let mut other = scenario.clone();
        change(&mut other);
        let why = judge_scenario(&some(Kind::PoolHalf, 1)[0], &other).unwrap_err();
        assert!(why.to_string().contains("pool: goes with neither"), "{why}");
    }
}
