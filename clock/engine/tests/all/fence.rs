//! Servers without proof beside servers with it: a fence that those cannot move the clock out of.

use crate::world::again::{MS, begun_with, off, selections};
use crate::world::{HONEST, Server, World, address, config, start};
use proptest::prelude::*;
use truechimer_engine::SourceStatus::{
    Candidate, Falseticker, Selected, Unreachable, Unselectable,
};
use truechimer_engine::{
    Authentication, AuthenticationMode, Config, Event, ReasonKind, SourceConfig,
};
use truechimer_ntp::LeapIndicator;
use truechimer_time::Span;
use truechimer_timehands::Status;

const DOWN: Server = Server { up: false, ..HONEST };
/// Far away, by a path of which one direction takes longer.
const FAR: Server = Server { delay: 9_000_000, back: 6_000_000, ..HONEST };

/// Those whose names begin with `n` prove who they are.
fn mixed(hosts: &[&str], authentication: AuthenticationMode) -> Config {
    let mut config = Config { authentication, ..config(hosts) };
    for source in &mut config.sources {
        if source.host.starts_with('n') {
            source.authentication = Authentication::Nts;
        }
    }
    config
}

fn fenced(servers: &[(&str, Server)]) -> World {
    let hosts: Vec<&str> = servers.iter().map(|(host, _)| *host).collect();
    begun_with(mixed(&hosts, AuthenticationMode::Mix), start(), servers)
}

/// The truth is in the published interval, if one is published.
fn holds(world: &World) -> bool {
    let (error, [before, after]) = (world.error(), world.hand().reach_at(world.now));
    !world.hand().status.bound_holds() || (error <= before && -error <= after)
}

fn kinds(world: &World) -> Vec<Option<ReasonKind>> {
    let sources = world.engine.report(world.now).sources;
    sources.into_iter().map(|source| source.reason.map(|reason| reason.kind)).collect()
}

#[test]
fn a_majority_without_proof_moves_nothing() {
    for by in [MS(-3), MS(50), Span::from_secs(86_400)] {
        let liar = Server { offset: by, ..HONEST };
        let mut world = fenced(&[("n1", HONEST), ("s2", liar), ("s3", liar), ("s4", liar)]);
        world.run(3600);
        world.assert_true();
        assert!(world.hand().bound() < MS(1), "{}", world.hand().bound());
        assert_eq!(selections(&world), [Selected, Falseticker, Falseticker, Falseticker]);
        assert_eq!(kinds(&world)[1..], [Some(ReasonKind::Outvoted); 3]);
    }
}

/// They agree for hours, and then go where they like, all together.
#[test]
fn those_without_proof_that_turn_are_left_behind() {
    let servers = ["s2", "s3", "s4"].map(|host| (host, HONEST));
    let mut world = fenced(&[&[("n1", FAR)][..], &servers].concat());
    world.run(7200);
    world.assert_true();
    assert!(world.error().abs() < MS(1), "the near ones lead: {}", world.error());
    assert!(world.hand().bound() > MS(7), "by the far one alone: {}", world.hand().bound());
    let parts = selections(&world);
    assert!(parts.contains(&Selected) && parts.iter().all(|s| s.agrees()), "{parts:?}");
    for host in ["s2", "s3", "s4"] {
        world.server(host).offset = MS(100);
    }
    for _ in 0..300 {
        world.run(30);
        assert!(holds(&world), "{}", world.error());
        assert!(world.error().abs() < MS(8), "{}", world.error());
    }
    assert_eq!(selections(&world), [Selected, Falseticker, Falseticker, Falseticker]);
    world.assert_true();
    // Right again, and within the fence at once.
    for host in ["s2", "s3", "s4"] {
        world.server(host).offset = Span::ZERO;
    }
    world.run(600);
    world.assert_true();
    assert!(selections(&world).iter().all(|status| status.agrees()), "{:?}", selections(&world));
}

/// Until the first reply with proof nobody else has a say: whoever holds that one back gains none.
#[test]
fn there_is_no_time_before_the_first_with_proof() {
    let mut world = fenced(&[("n1", DOWN), ("s2", off(20)), ("s3", off(20)), ("s4", off(20))]);
    world.run(3600);
    assert!(world.hands.iter().all(|hand| hand.status == Status::Unknown));
    assert_eq!(selections(&world), [Unreachable, Candidate, Candidate, Candidate]);
    assert_eq!(kinds(&world)[1..], [Some(ReasonKind::Unvouched); 3]);
    let reason = world.engine.report(world.now).reason;
    assert!(reason.contains("n1:123: no reply"), "{reason}");
    world.server("n1").up = true;
    // Silent since its keys came, an hour ago: it is asked every 128 s at least by now.
    world.run(130);
    world.assert_true();
    assert_eq!(selections(&world)[0], Selected);
}

/// While none with proof answers the bound grows, and the others stay within.
#[test]
fn a_fence_that_falls_silent_grows_and_stands() {
    let servers = ["s2", "s3", "s4"].map(|host| (host, HONEST));
    let mut world = fenced(&[&[("n1", HONEST)][..], &servers].concat());
    world.run(7200);
    world.assert_true();
    let bound = world.hand().bound();
    world.server("n1").up = false;
    for _ in 0..100 {
        world.run(360);
        assert!(holds(&world), "{}", world.error());
    }
    let report = world.engine.report(world.now);
    assert_eq!(world.hand().status, Status::Holdover, "{}", report.reason);
    assert!(report.reason.starts_with("no usable reply from n1:123 for"), "{}", report.reason);
    assert!(world.hand().bound() > bound * 4, "{}", world.hand().bound());
    assert!(world.error().abs() < Span::from_micros(200), "the others keep it: {}", world.error());
    for host in ["s2", "s3", "s4"] {
        world.server(host).offset = Span::from_secs(3);
    }
    world.run(7200);
    assert!(holds(&world), "{}", world.error());
    assert_eq!(selections(&world)[1..], [Falseticker; 3]);
    world.server("n1").up = true;
    world.run(600);
    world.assert_true();
}

#[test]
fn where_proof_is_required_nobody_else_has_a_part() {
    let servers = [("n1", HONEST), ("s2", HONEST), ("s3", HONEST)];
    let wanted = mixed(&["n1", "s2", "s3"], AuthenticationMode::Require);
    let mut world = begun_with(wanted, start(), &servers);
    world.run(600);
    world.assert_true();
    assert_eq!(selections(&world), [Selected, Unselectable, Unselectable]);
    assert_eq!(kinds(&world)[1..], [Some(ReasonKind::Unauthenticated); 2]);
    // And none of it at all without one that proves itself.
    let plain = mixed(&["s2", "s3"], AuthenticationMode::Require);
    let mut world = begun_with(plain, start(), &servers[1..]);
    world.run(600);
    assert_eq!(world.hand().status, Status::Unknown);
}

#[test]
fn where_proof_is_ignored_the_majority_decides() {
    let liars = ["s2", "s3"].map(|host| (host, off(50)));
    let servers = [&[("n1", HONEST)][..], &liars].concat();
    let ignored = mixed(&["n1", "s2", "s3"], AuthenticationMode::Ignore);
    let mut world = begun_with(ignored.clone(), start(), &servers);
    world.run(600);
    assert!((world.error() - MS(50)).abs() < MS(1), "{}", world.error());
    assert_eq!(selections(&world)[0], Falseticker);
    // A log of before there was a fence repeats without.
    let text = serde_json::to_string(&ignored).unwrap();
    let before = text.replace("\"authentication\":\"ignore\",", "");
    assert_ne!(before, text);
    assert_eq!(serde_json::from_str::<Config>(&before).unwrap(), ignored);
    // With the configuration read again the fence stands, against what was known as well.
    world.event(Event::Configure(mixed(&["n1", "s2", "s3"], AuthenticationMode::Mix)));
    world.run(600);
    world.assert_true();
    assert_eq!(selections(&world)[1..], [Falseticker; 2]);
}

/// A server that the user trusts is a fence as proof is, wherever it lies.
#[test]
fn others_have_no_vote_beside_those_that_are_trusted() {
    let hosts = ["s1", "n2", "s3", "s4"];
    let mut trusting = mixed(&hosts, AuthenticationMode::Ignore);
    trusting.sources[0].trust = true;
    let servers = [("s1", HONEST), ("n2", off(30)), ("s3", off(30)), ("s4", off(30))];
    let mut world = begun_with(trusting.clone(), start(), &servers);
    world.run(3600);
    world.assert_true();
    assert_eq!(selections(&world), [Selected, Falseticker, Falseticker, Falseticker]);
    // Two that are fences and contradict each other leave no time, whoever sides with one.
    trusting.authentication = AuthenticationMode::Mix;
    let mut world = begun_with(trusting, start(), &servers);
    world.run(600);
    assert_eq!(world.hand().status, Status::Unknown);
}

/// An address that is named again, without proof, takes no vote away.
#[test]
fn one_with_proof_is_not_taken_for_its_twin_without() {
    let twin = SourceConfig { authentication: Authentication::Nts, ..SourceConfig::new("n1") };
    let mut wanted = config(&["s1", "s2", "s3"]);
    wanted.sources.push(twin);
    let servers = [("s1", HONEST), ("s2", off(40)), ("s3", off(40))];
    let mut world = begun_with(wanted, start(), &servers);
    world.run(600);
    world.assert_true();
    let kinds = kinds(&world);
    assert_eq!((kinds[0], kinds[3]), (Some(ReasonKind::SameServer), None), "{kinds:?}");
}

/// A bought server goes silent, and its name, or its exchange of keys, leads to an honest server: its stale word takes no
/// vote away from that, whether that one answers by its name or not.
#[test]
fn a_name_that_is_led_to_an_honest_server_takes_no_vote_from_it() {
    let lie = Span::from_micros(60);
    let liar = Server { offset: lie, delay: 5_000, back: 5_000, ..HONEST };
    for answers in [false, true] {
        let mut world = fenced(&[("n1", liar), ("n2", HONEST), ("n3", HONEST)]);
        world.run(600);
        world.assert_true();
        world.server("n1").up = false;
        world.names.insert("n1".into(), vec![address("n2")]);
        world.deaf = (!answers).then(|| "n1".to_owned());
        for _ in 0..40 {
            world.run(30);
            world.assert_true();
        }
        let rows = world.engine.report(world.now).sources;
        assert_eq!(rows[0].address, Some(address("n2")));
        let same = answers.then_some(ReasonKind::SameServer);
        assert_eq!(kinds(&world)[1..], [None, None], "{answers}: the honest ones vote");
        assert_eq!(kinds(&world)[0].filter(|kind| *kind == ReasonKind::SameServer), same);
    }
}

/// The counter breaks, and whoever holds the honest server's first reply back answers the bought one's request there: that
/// was heard at this address later, and stays the one that does not count.
#[test]
fn a_name_that_was_led_there_takes_no_vote_after_a_break_either() {
    let mut world = fenced(&[("n1", HONEST), ("n2", HONEST), ("n3", HONEST)]);
    world.run(600);
    world.server("n1").up = false;
    world.names.insert("n1".into(), vec![address("n2")]);
    world.run(1200);
    let same = Some(ReasonKind::SameServer);
    assert_eq!(kinds(&world), [same, None, None]);
    world.deaf = Some("n2".to_owned());
    world.event(Event::Disruption { reason: "a test".into() });
    world.run(20);
    assert_eq!(kinds(&world), [None, Some(ReasonKind::NoReply), None], "alone at that address");
    world.deaf = None;
    for _ in 0..20 {
        world.run(60);
        world.assert_true();
    }
    assert_eq!(kinds(&world), [same, None, None]);
}

/// Texts send nobody to a source without a vote, where something is held off.
#[test]
fn one_without_a_vote_cannot_be_accepted() {
    let near = ["s2", "s3", "s4"].map(|host| (host, HONEST));
    let mut world = fenced(&[&[("n1", FAR)][..], &near].concat());
    world.run(3600);
    world.assert_true();
    let refused = world.engine.acceptable(Some("s2"), world.now).unwrap_err();
    assert_eq!(refused, "s2 has no vote, and so is not followed; those that have one: n1:123");
    let far = Span::from_secs(2000);
    for host in ["n1", "s2", "s3", "s4"] {
        world.server(host).offset = far;
    }
    for seconds in [600, 7200] {
        world.run(seconds);
        assert!(world.error().abs() < MS(20), "{}", world.error());
        let report = world.engine.report(world.now);
        assert!(report.reason.contains("truechimer accept n1:123"), "{}", report.reason);
        for (source, votes) in report.sources.iter().zip([true, false, false, false]) {
            let told = source.trouble.as_ref().is_some_and(|t| t.contains("truechimer accept"));
            assert_eq!((source.vote, told), (votes, votes), "{source:#?}");
        }
    }
    let source = world.engine.acceptable(Some("n1"), world.now).unwrap();
    world.event(Event::Accept { source });
    world.run(60);
    assert!((world.error() - far).abs() < MS(8), "{}", world.error());
}

/// A leap second that is only announced without proof is none.
#[test]
fn no_leap_second_is_believed_without_proof() {
    let warns = Server { leap: LeapIndicator::Insert, ..HONEST };
    let mut world = fenced(&[("n1", HONEST), ("s2", warns), ("s3", warns), ("s4", warns)]);
    world.run(600);
    assert!(world.hand().leaps.next.is_none(), "{:?}", world.hand().leaps);
    let mut world = fenced(&[("n1", warns), ("s2", HONEST), ("s3", HONEST), ("s4", HONEST)]);
    world.run(600);
    assert!(world.hand().leaps.next.is_some(), "{:?}", world.hand().leaps);
}

/// Behaviour for a while of a server that proves nothing, and whether each that does answers.
type Phase = (i64, i64, u8, [bool; 3]);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]
    /// Whatever those without proof say together, one by one or in turns, and however many they
    /// are: the published interval holds the truth as long as most of those with proof are honest.
    #[test]
    fn the_bound_holds_however_those_without_proof_lie(
        (authentic, liars, turned) in (1usize..=3, 1usize..=5, any::<bool>()),
        phases in prop::collection::vec((-40_000_000i64..40_000_000, -500_000i64..500_000, any::<u8>(),
            any::<[bool; 3]>()), 1..6),
        delays in prop::collection::vec((50_000i64..20_000_000, 50_000i64..20_000_000), 8),
    ) {
        let phases: Vec<Phase> = phases;
        let names = ["n1", "n2", "n3", "s4", "s5", "s6", "s7", "s8"];
        let server = |n: usize| Server { delay: delays[n].0, back: delays[n].1, ..HONEST };
        let liars = 3..3 + liars;
        let of_fence = 0..authentic;
        let all: Vec<usize> = of_fence.clone().chain(liars.clone()).collect();
        let servers: Vec<(&str, Server)> = all.iter().map(|n| (names[*n], server(*n))).collect();
        let mut world = fenced(&servers);
        for (offset, skew, together, up) in phases {
            for n in liars.clone() {
                let apart = if together & (1 << n) == 0 { n as i64 * 3_000_000 } else { 0 };
                let server = world.server(names[n]);
                server.offset = Span::from_nanos(offset + apart);
                server.skew = skew;
            }
            for n in of_fence.clone() {
                world.server(names[n]).up = up[n];
            }
            if authentic == 3 && turned {
                // One of three with proof lies as they do.
                world.server("n3").offset = Span::from_nanos(offset);
            }
            for _ in 0..20 {
                world.run(15);
                prop_assert!(holds(&world), "{} {:?}", world.error(), world.hand());
            }
        }
        for n in of_fence {
            world.server(names[n]).up = true;
        }
        world.run(600);
        prop_assert!(holds(&world), "{} {:?}", world.error(), world.hand());
        prop_assert_eq!(world.hand().status, Status::Synchronised);
    }
}
