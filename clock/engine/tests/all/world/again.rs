//! Daemons that start again with what the last one left.

use truechimer_engine::{Config, Engine, Saved, SourceStatus, Start};
use truechimer_time::{CountSpan, Span};
use truechimer_timehands::{Hand, Status};

use super::{HONEST, Server, World, address, config, start};

pub const MS: fn(i64) -> Span = Span::from_millis;

/// A clock that has followed these servers for an hour: its last hand, and what it would have
/// saved.
pub fn left(servers: &[(&str, Server)]) -> (World, Hand, Option<Saved>) {
    let mut world = begun(start(), servers);
    world.run(3600);
    let (hand, saved) = (*world.hand(), world.engine.saved(world.now));
    (world, hand, saved)
}

/// The next daemon, ten seconds later, with these servers.
pub fn again(
    before: &World,
    hand: Hand,
    saved: Option<Saved>,
    servers: &[(&str, Server)],
) -> World {
    let at = before.now + CountSpan(10_000_000_000);
    begun(Start { at, warm: Some(hand), saved, ..start() }, servers)
}

pub fn begun(start: Start, servers: &[(&str, Server)]) -> World {
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    begun_with(config(&names), start, servers)
}

/// Begins it with this configuration.
pub fn begun_with(config: Config, start: Start, servers: &[(&str, Server)]) -> World {
    let mut world = World::new(&[], start.clone());
    world.hands.clear();
    world.servers.extend(servers.iter().map(|(name, server)| (address(name), *server)));
    let (engine, actions) = Engine::new(config, start);
    world.engine = engine;
    world.carry_out(actions);
    world
}

pub fn off(ms: i64) -> Server {
    Server { offset: MS(ms), ..HONEST }
}

/// The statuses that were published, one after the other.
pub fn statuses(world: &World) -> Vec<Status> {
    let mut all: Vec<Status> = world.hands.iter().map(|hand| hand.status).collect();
    all.dedup();
    all
}

pub fn selections(world: &World) -> Vec<SourceStatus> {
    world.engine.report(world.now).sources.iter().map(|source| source.status).collect()
}
