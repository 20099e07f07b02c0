//! Names that lead to several servers.

use std::net::SocketAddr;

use proptest::prelude::*;
use truechimer_engine::{
    Config, Engine, Event, ReasonKind, SourceConfig, SourceReport, SourceStatus,
};
use truechimer_time::{Count, Span};
use truechimer_timehands::Status;

use crate::world::{HONEST, Server, World, address, config, start};

/// A world with one pool, at whose name these servers are.
fn pool(servers: &[&str], size: u32) -> World {
    let mut world = World::new(&[], start());
    world.names.insert("pool".into(), servers.iter().map(|host| address(host)).collect());
    world.servers = servers.iter().map(|host| (address(host), HONEST)).collect();
    world.event(Event::Configure(of(size)));
    world
}

fn of(size: u32) -> Config {
    let sources = vec![SourceConfig { pool: Some(size), ..SourceConfig::new("pool") }];
    Config { sources, ..Config::default() }
}

fn rows(world: &World) -> Vec<SourceReport> {
    world.engine.report(world.now).sources
}

fn addresses(world: &World) -> Vec<SocketAddr> {
    rows(world).iter().filter_map(|row| row.address).collect()
}

fn looked_up(world: &World) -> Vec<Count> {
    let all = world.log.iter();
    let all = all.filter(|(_, event)| {
        matches!(event, Event::Resolved { result, .. }
        if result.as_ref().map_or(true, |found| found.len() > 1))
    });
    all.map(|(at, _)| *at).collect()
}

#[test]
fn a_name_becomes_several_servers_by_one_look_up() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5"], 4);
    world.run(300);
    world.assert_true();
    assert_eq!(addresses(&world), ["s1", "s2", "s3", "s4"].map(address));
    assert_eq!(looked_up(&world).len(), 1);
    let row = |id| world.engine.source_report(id, world.now).unwrap().name;
    let names: Vec<_> = rows(&world).into_iter().map(|row| row.name).collect();
    assert!(world.engine.servers().map(row).eq(names), "in the order of the report");
    for row in rows(&world) {
        assert_eq!(row.pool.as_deref(), Some("pool:123"));
        assert_eq!(row.name, row.address.unwrap().to_string());
        assert!(row.vote && row.status.agrees());
    }
}

#[test]
fn one_that_dies_is_replaced_once_and_what_answers_stays() {
    let mut world = pool(&["s1", "s2", "s3", "s4"], 3);
    world.run(300);
    world.server("s2").up = false;
    world.run(1000);
    world.assert_true();
    assert_eq!(addresses(&world), ["s1", "s3", "s4"].map(address));
    let told: Vec<_> = world.notes.iter().filter(|n| n.contains("takes the place of")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("pool:123: 192.0.2.4:123 takes the place of 192.0.2.2:123"));
    // The next that dies finds no address: the name is looked up, and the one that answers again is
    // not taken before its time.
    world.server("s3").up = false;
    world.server("s2").up = true;
    world.run(3000);
    assert_eq!(addresses(&world), ["s1", "s3", "s4"].map(address));
    world.run(14_400);
    assert_eq!(addresses(&world), ["s1", "s4", "s2"].map(address));
    world.assert_true();
}

/// Newcomers that do not answer cost no vote: there are three at all times, and they agree.
#[test]
fn one_that_falls_silent_keeps_its_vote_until_another_has_answered() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5"], 3);
    for host in ["s4", "s5"] {
        world.server(host).up = false;
    }
    world.run(300);
    world.server("s2").up = false;
    let names = |world: &World| -> Vec<String> {
        rows(world).into_iter().filter(|row| row.vote).map(|row| row.name).collect()
    };
    let before = names(&world);
    let mut tried = Vec::new();
    for _ in 0..1000 {
        world.run(1);
        assert_eq!(names(&world), before, "three have a vote, and s2 is one of them");
        let agree = rows(&world).iter().filter(|row| row.vote && row.status.agrees()).count();
        assert_eq!(agree, 3);
        let beside: Vec<SourceReport> = rows(&world).into_iter().filter(|row| !row.vote).collect();
        assert!(beside.len() <= 1, "one at a time: {beside:?}");
        for row in beside {
            assert_eq!(row.pool.as_deref(), Some("pool:123"));
            tried.push((row.name, row.status, row.reason.map(|reason| reason.kind)));
        }
    }
    // Neither of those that are down is tried again and again.
    for host in ["s4", "s5"] {
        let name = address(host).to_string();
        let seconds = tried.iter().filter(|row| row.0 == name).count();
        assert!((1..120).contains(&seconds), "{name}: {seconds}");
    }
    let told = (SourceStatus::Unselectable, Some(ReasonKind::OnTrial));
    assert!(tried.iter().any(|(_, status, reason)| (*status, *reason) == told), "{tried:?}");
    // Four hours later they are tried again, and one has come back.
    world.server("s4").up = true;
    for _ in 0..14_400 {
        world.run(1);
        assert_eq!(names(&world).len(), 3);
    }
    assert_eq!(addresses(&world), ["s1", "s3", "s4"].map(address));
    assert!(rows(&world).iter().all(|row| row.status.agrees()));
    world.assert_true();
}

/// Runs second by second until a note says that.
fn until(world: &mut World, what: &str) {
    for _ in 0..2000 {
        if world.notes.iter().any(|note| note.contains(what)) {
            return;
        }
        world.run(1);
    }
    panic!("no note of {what}: {:#?}", world.notes);
}

/// A pool of three that is asked slowly and without a burst, beside these sources, with one of its servers silent and
/// another, which is silent too, on trial.
fn on_trial(beside: &[SourceConfig]) -> World {
    let mut world = World::new(&[], start());
    world.interrupted = true;
    world.names.insert("pool".into(), ["s1", "s2", "s3", "s4"].map(address).to_vec());
    for host in ["s1", "s2", "s3", "s4"] {
        world.servers.insert(address(host), HONEST);
    }
    for source in beside.iter().filter(|source| source.host != "nowhere") {
        world.names.insert(source.host.clone(), vec![address(&source.host)]);
        world.servers.insert(address(&source.host), HONEST);
    }
    let pool = SourceConfig { pool: Some(3), poll: 64, burst: false, ..SourceConfig::new("pool") };
    let sources = [&[pool], beside].concat();
    world.event(Event::Configure(Config { sources, ..Config::default() }));
    world.run(600);
    for host in ["s2", "s4"] {
        world.server(host).up = false;
    }
    until(&mut world, "192.0.2.4:123 is asked too, as 192.0.2.2:123 is of no use");
    world
}

/// The one whose place it was to take has answered, and its own address is free for the next time.
#[test]
fn one_on_trial_is_not_needed_if_the_other_comes_back() {
    let mut world = on_trial(&[]);
    world.server("s2").up = true;
    until(&mut world, "192.0.2.4:123 is not needed any more");
    world.run(100);
    assert_eq!(addresses(&world), ["s1", "s2", "s3"].map(address));
    assert!(rows(&world).iter().all(|row| row.vote && row.status.agrees()));
    // It is not left alone, as one is that was of no use.
    world.server("s2").up = false;
    world.server("s4").up = true;
    until(&mut world, "192.0.2.4:123 takes the place of 192.0.2.2:123");
    assert_eq!(addresses(&world), ["s1", "s3", "s4"].map(address));
    world.assert_true();
}

/// A source that is led to the newcomer's address is that server already: the silent one keeps its vote.
#[test]
fn one_on_trial_is_left_if_another_source_is_led_to_its_server() {
    let moving = SourceConfig { poll: 4, ..SourceConfig::new("s9") };
    let mut world = on_trial(&[moving]);
    world.server("s9").up = false;
    world.names.insert("s9".into(), vec![address("s4")]);
    until(&mut world, "192.0.2.4:123 is left: another source is that server");
    world.server("s4").up = true;
    for _ in 0..100 {
        world.run(1);
        let of_pool = rows(&world).into_iter().filter(|row| row.pool.is_some() && row.vote);
        assert_eq!(of_pool.count(), 3, "{:#?}", world.notes);
    }
    let named = rows(&world).into_iter().find(|row| row.name == "s9:123").unwrap();
    assert_eq!(named.address, Some(address("s4")));
    assert!(named.vote && named.status.agrees(), "{named:?}");
    world.assert_true();
}

/// One whose address was not looked up yet is at nobody's server, not at that of a source without an address.
#[test]
fn one_on_trial_is_not_taken_for_a_source_without_an_address() {
    let mut world = on_trial(&[SourceConfig::new("nowhere")]);
    world.server("s4").up = true;
    until(&mut world, "192.0.2.4:123 takes the place of 192.0.2.2:123");
    world.assert_true();
}

/// One that lies is no better than one that is silent, and one that answers again stays.
#[test]
fn one_on_trial_is_left_if_it_lies_or_is_silent() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5"], 3);
    world.run(300);
    world.server("s4").offset = Span::from_millis(80);
    world.server("s5").up = false;
    world.server("s2").up = false;
    until(&mut world, "192.0.2.4:123 is left: it contradicts the clock");
    assert!(!world.notes.iter().any(|note| note.contains("takes the place")));
    until(&mut world, "192.0.2.5:123 is asked too, as 192.0.2.2:123 is of no use");
    world.server("s2").up = true;
    until(&mut world, "192.0.2.5:123 is left: it does not answer");
    world.run(300);
    assert_eq!(addresses(&world), ["s1", "s2", "s3"].map(address));
    assert!(rows(&world).iter().all(|row| row.vote && row.status.agrees()));
    world.assert_true();
}

#[test]
fn a_falseticker_is_replaced() {
    let mut world = pool(&["s1", "s2", "s3", "s4"], 3);
    world.server("s2").offset = Span::from_millis(80);
    world.run(600);
    world.assert_true();
    assert_eq!(addresses(&world), ["s1", "s3", "s4"].map(address));
    assert!(rows(&world).iter().all(|row| row.status.agrees()));
    let left = world.notes.iter().find(|n| n.contains("takes the place of 192.0.2.2:123")).unwrap();
    assert!(left.contains("from where the majority agrees"), "{left}");
}

#[test]
fn without_a_network_nothing_is_thrown_away() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5", "s6"], 3);
    world.run(600);
    let before = addresses(&world);
    let bound = world.hand().bound_at(world.now);
    world.servers.values_mut().for_each(|server| server.up = false);
    world.run(2000);
    assert_eq!(addresses(&world), before);
    assert_eq!(world.hand().status, Status::Holdover);
    assert!(world.hand().bound_at(world.now) < bound + Span::from_millis(3), "it is known still");
    world.servers.values_mut().for_each(|server| server.up = true);
    world.run(100);
    world.assert_true();
    assert_eq!(addresses(&world), before);
}

#[test]
fn those_that_never_answered_make_room_at_once() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5"], 3);
    for host in ["s1", "s2"] {
        world.server(host).up = false;
    }
    world.event(Event::Configure(config(&[])));
    world.event(Event::Configure(of(3)));
    world.run(60);
    world.assert_true();
    assert_eq!(addresses(&world), ["s3", "s4", "s5"].map(address));
    assert_eq!(looked_up(&world).len(), 2, "once for each configuration");
}

/// A pool that has fewer servers than are wanted, or only bad ones, is looked up ever more rarely.
#[test]
fn look_ups_are_few() {
    let mut world = pool(&["s1", "s2"], 4);
    world.run_days(3);
    let at = looked_up(&world);
    assert!(at.len() < 30, "{} in three days", at.len());
    let gaps: Vec<i64> = at.windows(2).map(|w| (w[1] - w[0]).0 / 1_000_000_000).collect();
    assert_eq!(gaps[..8], [128, 256, 512, 1024, 2048, 4096, 8192, 14_400], "{gaps:?}");
    assert!(gaps[8..].iter().all(|gap| *gap == 14_400));
}

#[test]
fn a_name_that_leads_nowhere_is_tried_again_and_told() {
    let mut world = World::new(&[], start());
    world.nameless = true;
    world.run(1);
    world.event(Event::Configure(of(4)));
    world.run(600);
    let all = rows(&world);
    assert_eq!(
        (all.len(), &*all[0].name, all[0].status),
        (1, "pool:123", SourceStatus::Unreachable)
    );
    assert!(all[0].trouble.as_ref().unwrap().contains("cannot look up pool"), "{:?}", all[0]);
    assert!(world.engine.report(world.now).reason.contains("cannot look up pool"));
    assert_eq!(world.notes.iter().filter(|n| n.contains("cannot look up")).count(), 1);
    world.nameless = false;
    world.names.insert("pool".into(), vec![address("s1"), address("s2"), address("s3")]);
    for host in ["s1", "s2", "s3"] {
        world.servers.insert(address(host), HONEST);
    }
    world.run(1100);
    world.assert_true();
    assert_eq!(rows(&world).len(), 3);
}

#[test]
fn an_address_that_is_asked_already_is_not_taken_twice() {
    let mut world = World::new(&["s1"], start());
    world.names.insert("pool".into(), ["s1", "s2", "s3"].map(address).to_vec());
    for host in ["s2", "s3"] {
        world.servers.insert(address(host), HONEST);
    }
    world.run(30);
    let mut both = of(4);
    both.sources.insert(0, SourceConfig::new("s1"));
    world.event(Event::Configure(both.clone()));
    world.run(300);
    world.assert_true();
    assert_eq!(addresses(&world), ["s1", "s2", "s3"].map(address));
    assert_eq!(rows(&world).iter().filter(|row| row.pool.is_some()).count(), 2);
    // A server of the pool that is named by itself goes on as that, without beginning anew.
    both.sources.push(SourceConfig::new("192.0.2.2"));
    let accepted = rows(&world)[1].accepted;
    world.event(Event::Configure(both));
    let row = rows(&world).into_iter().find(|row| row.name == "192.0.2.2:123").unwrap();
    assert_eq!((row.pool, row.accepted), (None, accepted));
}

/// A server of a pool that the user names as well is that by itself, and the pool takes another.
#[test]
fn one_that_is_named_comes_before_a_pools() {
    let mut world = pool(&["s1", "s2", "s3", "s4"], 3);
    world.run(300);
    let mut both = of(3);
    both.sources.insert(0, SourceConfig::new("s1"));
    world.event(Event::Configure(both));
    world.run(600);
    world.assert_true();
    let rows = rows(&world);
    let named = rows.iter().find(|row| row.name == "s1:123").unwrap();
    assert!(named.status.agrees() && named.reason.is_none(), "{named:?}");
    let members = rows.iter().filter(|row| row.pool.is_some());
    let members: Vec<_> = members.filter_map(|row| row.address).collect();
    assert_eq!(members, ["s2", "s3", "s4"].map(address));
}

#[test]
fn another_size_keeps_what_is_known() {
    let mut world = pool(&["s1", "s2", "s3", "s4", "s5"], 4);
    world.run(300);
    let accepted = rows(&world)[0].accepted;
    world.event(Event::Configure(of(2)));
    assert_eq!(addresses(&world), ["s1", "s2"].map(address));
    world.run(30);
    world.event(Event::Configure(of(5)));
    world.run(60);
    assert_eq!(addresses(&world), ["s1", "s2", "s3", "s4", "s5"].map(address));
    assert!(rows(&world)[0].accepted > accepted);
    world.event(Event::Configure(config(&["s1"])));
    assert_eq!(rows(&world).len(), 1);
    world.assert_true();
}

#[test]
fn one_server_beside_a_pool_waits_for_it() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s9"), Server { offset: Span::from_millis(90), ..HONEST });
    for host in ["s1", "s2", "s3"] {
        world.servers.insert(address(host), HONEST);
    }
    world.names.insert("pool".into(), ["s1", "s2", "s3"].map(address).to_vec());
    let mut both = of(3);
    both.sources.insert(0, SourceConfig::new("s9"));
    world.event(Event::Configure(both));
    world.run(60);
    world.assert_true();
    assert_eq!(rows(&world)[0].status, SourceStatus::Falseticker);
}

#[test]
fn who_is_offline_is_not_asked_until_he_is_back() {
    let mut world = pool(&["s1", "s2", "s3"], 3);
    world.run(300);
    let mut off = of(3);
    off.sources[0].offline = true;
    world.event(Event::Configure(off));
    let (sent, found) = (world.sent.len(), looked_up(&world).len());
    world.run(20_000);
    assert_eq!((world.sent.len(), looked_up(&world).len()), (sent, found));
    let row = &rows(&world)[0];
    assert!(row.trouble.as_ref().unwrap().starts_with("offline"), "{row:?}");
    assert_eq!(world.hand().status, Status::Holdover);
    world.event(Event::Configure(of(3)));
    assert_eq!(world.sent.len(), sent + 3, "each once, at once");
    world.run(60);
    world.assert_true();
    assert_eq!(addresses(&world), ["s1", "s2", "s3"].map(address));
}

/// Behaviour of a pool's server from then on.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Dies,
    Lies(i64),
    Refuses,
    Heals,
}

fn fates() -> impl Strategy<Value = Vec<(u8, u32, Fate)>> {
    let fate = prop_oneof![
        2 => Just(Fate::Dies),
        2 => (-400_i64..400).prop_map(Fate::Lies),
        1 => Just(Fate::Refuses),
        3 => Just(Fate::Heals),
    ];
    proptest::collection::vec((1_u8..=9, 10_u32..900, fate), 1..12)
}

proptest! {
    /// Whatever happens to a minority, the bound holds, no address is asked by two, there are never
    /// more servers than are wanted, and the same events give the same again.
    #[test]
    fn a_pool_is_what_it_says(fates in fates(), size in 3_u32..=5) {
        let hosts: Vec<String> = (1..=9).map(|n| format!("s{n}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut world = pool(&hosts, size);
        world.run(200);
        let mut bad = Vec::new();
        for (host, seconds, fate) in fates {
            let name = format!("s{host}");
            // One at a time: a majority of the followed ones is honest.
            let server = match fate {
                Fate::Heals => {
                    bad.retain(|other| *other != host);
                    HONEST
                }
                _ if !bad.is_empty() && bad != [host] => continue,
                Fate::Dies => Server { up: false, ..HONEST },
                Fate::Lies(ms) => Server { offset: Span::from_millis(ms), ..HONEST },
                Fate::Refuses => Server { kiss: Some(*b"DENY"), ..HONEST },
            };
            if !matches!(fate, Fate::Heals) {
                bad = vec![host];
            }
            *world.server(&name) = server;
            for _ in 0..seconds / 10 {
                world.run(10);
                let asked = addresses(&world);
                let vote = rows(&world).iter().filter(|row| row.vote).count();
                prop_assert!(vote <= size as usize, "{asked:?}");
                prop_assert!(asked.len() <= size as usize + 1, "{asked:?}");
                let twice = asked.iter().any(|one| asked.iter().filter(|a| *a == one).count() > 1);
                prop_assert!(!twice, "{asked:?}");
                if world.hand().status == Status::Synchronised {
                    world.assert_true();
                }
            }
        }
        world.run(400);
        prop_assert!(rows(&world).iter().filter(|row| row.status.agrees()).count() >= 2);
        let (mut engine, _) = Engine::new(config(&[]), start());
        for (at, event) in &world.log {
            let _ = engine.handle(*at, event.clone());
        }
        prop_assert_eq!(engine.report(world.now), world.engine.report(world.now));
    }
}

/// Only for its type: an engine that starts with a pool asks for nothing but the name.
#[test]
fn the_first_thing_is_one_look_up() {
    let (engine, actions) = Engine::new(of(4), start());
    let looks: Vec<_> = actions
        .iter()
        .filter(|a| matches!(a, truechimer_engine::Action::Resolve { host, .. } if host == "pool"))
        .collect();
    assert_eq!(looks.len(), 1, "{actions:?}");
    assert_eq!(engine.next_deadline(), None, "it waits for the answer");
}
