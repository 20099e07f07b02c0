//! Parts of attacks, and the hosts, servers and paths that they are made on.

mod prior;

use crate::drawn::Range;
use crate::drawn::range::Drawing;
use crate::path::{Law, Outage, PathSpec, Queue, When};
use crate::scenario::{LeapSpec, Scenario};
use crate::server::{Forgery, Lie, Ramp, Refuse, ServerSpec, Stretch, Warned, Warning};
use prior as p;

/// The midnight at the end of January 2027, as Unix time: months end where leap seconds come.
const MONTH_ENDS: i64 = 1_801_440_000;

/// Servers that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Surroundings {
    /// One or more that prove who they are, and perhaps plain ones.
    Any,
    /// Three proven ones or more.
    Several,
    /// An even number of proven ones.
    Even,
    /// Proven ones, and two plain ones or more.
    Mixed,
    /// Plain ones alone.
    Plain,
    /// Plain ones of one name, of which some are followed at a time.
    Pool,
}

/// A part of an attack: a change of the scenario that needs no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    DelayRequests,
    DelayReplies,
    DelayBoth,
    DelaySlow,
    DelayOnOff,
    Replay,
    Reorder,
    Forged,
    Leap,
    Kiss,
    BoughtMinority,
    BoughtHalf,
    BoughtMajority,
    Start,
    PlainTurn,
    Redirect,
    PoolMinority,
    PoolHalf,
}

/// Those that may come together: each leaves an honest majority with proof.
const TOGETHER: [Part; 11] = [
    Part::DelayRequests,
    Part::DelayReplies,
    Part::DelaySlow,
    Part::DelayOnOff,
    Part::Replay,
    Part::Reorder,
    Part::Forged,
    Part::Leap,
    Part::Kiss,
    Part::BoughtMinority,
    Part::PlainTurn,
];

/// Several parts at once.
pub(super) fn several(d: &mut Drawing) -> Vec<Part> {
    let mut random = d.stream("together");
    let share = d.draw("together", &p::TOGETHER);
    let mut parts: Vec<Part> = TOGETHER.into_iter().filter(|_| random.chance(share)).collect();
    if d.is("together", &p::FROM_START) {
        parts.push(Part::Start);
    }
    for part in [Part::BoughtMinority, Part::DelaySlow] {
        if parts.len() < 2 && !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

/// A host, its servers and paths.
pub(super) fn surroundings(kind: Surroundings, d: &mut Drawing) -> Scenario {
    let plain = d.draw("servers", &p::PLAIN) as usize;
    let (proven, plain) = match kind {
        Surroundings::Any => (d.draw("servers", &p::PROVEN) as usize, plain),
        Surroundings::Several => (d.draw("servers", &p::PROVEN_SEVERAL) as usize, plain),
        Surroundings::Even => (d.draw("servers", &p::PROVEN_EVEN) as usize, plain),
        Surroundings::Mixed => (d.draw("servers", &p::PROVEN) as usize, plain.max(2)),
        Surroundings::Plain => (0, d.draw("servers", &p::PLAIN_ALONE) as usize),
        Surroundings::Pool => (0, d.draw("servers", &p::POOL) as usize),
    };
    let mut servers = Vec::new();
    for n in 0..proven + plain {
        let proof = n < proven;
        let name = if proof { format!("n{}", n + 1) } else { format!("p{}", n + 1 - proven) };
        servers.push(ServerSpec { proof, ..server(d, &name) });
    }
    let mut scenario = Scenario::new("attack", "", servers);
    if kind == Surroundings::Pool {
        scenario.pool = Some(d.draw("servers", &p::FOLLOWED) as u32);
    }
    scenario.hours = d.draw("run", &p::HOURS);
    scenario.warm_up_hours = 0.0;
    scenario.poll = d.draw("run", &p::POLL) as u32;
    scenario.oscillator.skew_ppm = d.draw("host", &p::SKEW);
    scenario.oscillator.walk_per_root_s = d.draw("host", &p::WALK);
    scenario
}

/// An honest server.
fn server(d: &mut Drawing, name: &str) -> ServerSpec {
    let (floor, queue) = (d.draw(name, &p::FLOOR), d.draw(name, &p::QUEUE));
    let leans = d.draw(name, &p::LEANS);
    let claims = d.draw(name, &p::ROOT);
    let off = d.draw(name, &p::OFF);
    ServerSpec {
        root_dispersion_us: claims,
        offset_ms: 1e-3 * claims * off,
        forward: PathSpec::exponential(floor * (1.0 + leans), queue),
        backward: PathSpec::exponential(floor * (1.0 - leans), queue),
        ..ServerSpec::symmetric(name, PathSpec::default())
    }
}

/// When a part of an attack is on, s.
fn window(d: &mut Drawing, part: &str, scenario: &Scenario) -> (f64, f64) {
    let length = 3600.0 * scenario.hours;
    let before = d.is(part, &p::BEFORE);
    let (begins, lasts) = (d.draw(part, &p::BEGINS), d.draw(part, &p::LASTS));
    let from = if before { 0.0 } else { begins * length };
    (from, (from + lasts * length).min(length))
}

/// The servers that the attacker reaches: at least one.
fn reached<'s>(d: &mut Drawing, part: &str, s: &'s mut Scenario) -> Vec<&'s mut ServerSpec> {
    let share = d.draw(part, &p::REACHES);
    let mut random = d.stream(&format!("{part}/reach"));
    let hit: Vec<bool> = s.servers.iter().map(|_| random.chance(share)).collect();
    let none = !hit.contains(&true);
    let all = s.servers.iter_mut().zip(hit).enumerate();
    all.filter(|(n, (_, hit))| *hit || none && *n == 0).map(|(_, (server, _))| server).collect()
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::DelayRequests | Part::DelayReplies | Part::DelayBoth => "delay",
            Part::DelaySlow => "slow",
            Part::DelayOnOff => "on-off",
            Part::Replay => "replay",
            Part::Reorder => "reorder",
            Part::Forged => "forged",
            Part::Leap => "leap",
            Part::Kiss => "kiss",
            Part::BoughtMinority | Part::BoughtHalf | Part::BoughtMajority => "bought",
            Part::Start => "start",
            Part::PlainTurn => "plain",
            Part::Redirect => "redirect",
            Part::PoolMinority | Part::PoolHalf => "pool",
        }
    }

    /// Does it to a scenario.
    pub(super) fn apply(self, d: &mut Drawing, s: &mut Scenario) {
        let part = self.name();
        let (from_s, to_s) = window(d, part, s);
        let voters = s.servers.iter().filter(|server| server.proof).count();
        match self {
            Part::DelayRequests | Part::DelayReplies | Part::DelayBoth => {
                let ms = d.draw(part, &p::DELAY);
                let law = if d.is(part, &p::STEADY) {
                    Law::Constant { ms }
                } else {
                    Law::Exponential { mean_ms: ms }
                };
                let queue = Queue { law, when: When::Between { from_s, to_s } };
                let ways = (self != Part::DelayReplies, self != Part::DelayRequests);
                reached(d, part, s).into_iter().for_each(|server| hold(server, ways, &queue));
            }
            Part::DelaySlow => {
                let ms = 1e-3 * d.draw(part, &p::SLOW) * (to_s - from_s);
                let until_s = d.is(part, &p::RELEASED).then_some(to_s);
                let when = When::Ramp { from_s, to_s, until_s };
                let queue = Queue { law: Law::Constant { ms }, when };
                let requests = d.is(part, &p::REQUESTS);
                let ways = (requests, !requests);
                reached(d, part, s).into_iter().for_each(|server| hold(server, ways, &queue));
            }
            Part::DelayOnOff => {
                let (period_s, share) = (d.draw(part, &p::PERIOD), d.draw(part, &p::SHARE));
                let length_s = period_s * share;
                let when = When::Bursts { first_s: from_s, length_s, period_s };
                let queue = Queue { law: Law::Constant { ms: d.draw(part, &p::DELAY) }, when };
                let requests = d.is(part, &p::REQUESTS);
                let ways = (requests, !requests);
                reached(d, part, s).into_iter().for_each(|server| hold(server, ways, &queue));
            }
            Part::Replay => {
                for server in reached(d, part, s) {
                    server.replays.push(Stretch { from_s, to_s });
                }
            }
            Part::Reorder => {
                let (twice, held) = (d.draw(part, &p::TWICE), d.draw(part, &p::OVERTAKEN));
                let (loss, held_back_ms) = (d.draw(part, &p::LOST), d.draw(part, &p::HELD));
                for server in reached(d, part, s) {
                    for path in [&mut server.forward, &mut server.backward] {
                        path.duplication = twice;
                        path.reordering = held;
                        path.held_back_ms = held_back_ms;
                        path.loss = loss;
                    }
                }
            }
            Part::Forged => {
                let by_ms = signed(d, part, &p::LIE);
                let on_path = voters == 0 || d.is(part, &p::ON_PATH);
                let forgery = Forgery { from_s, to_s, by_ms, code: None, on_path };
                if voters == 0 {
                    s.servers.iter_mut().for_each(|server| server.forgeries.push(forgery.clone()));
                } else {
                    for server in reached(d, part, s) {
                        server.forgeries.push(forgery.clone());
                    }
                }
            }
            Part::Kiss => {
                let place = d.draw(part, &p::CODE) as usize;
                let code = ["RATE", "DENY", "RSTR"].get(place).copied().unwrap_or("RATE");
                let on_path = d.is(part, &p::ON_PATH);
                let forgery =
                    Forgery { from_s, to_s, by_ms: 0.0, code: Some(code.to_owned()), on_path };
                for server in reached(d, part, s) {
                    server.forgeries.push(forgery.clone());
                    if !server.proof {
                        server.refusals.push(Refuse { from_s, to_s, code: code.to_owned() });
                    }
                }
            }
            Part::Leap => leap(d, s, voters, (from_s, to_s)),
            Part::BoughtMinority => lie(d, part, s, (from_s, to_s), |n, _| n < minority(voters)),
            Part::BoughtHalf => lie(d, part, s, (from_s, to_s), |n, _| n < voters / 2),
            Part::BoughtMajority => lie(d, part, s, (from_s, to_s), |n, _| n < voters / 2 + 1),
            Part::Redirect => redirect(d, s, voters, from_s),
            Part::PoolMinority => {
                // The one that is silent keeps its vote until another has answered, if it ever had one.
                let silent = usize::from(from_s <= 0.0);
                let followed = s.pool.unwrap_or(0) as usize;
                let bought = some(d, s, minority(followed.saturating_sub(silent)));
                lie(d, part, s, (from_s, to_s), |n, _| bought.get(n) == Some(&true));
                let honest = s.servers.iter_mut().zip(&bought).find(|(_, bought)| !**bought);
                if let Some((server, _)) = honest {
                    server.silences.push(Stretch { from_s, to_s });
                }
            }
            Part::PoolHalf => {
                let bought = some(d, s, s.servers.len() / 2);
                lie(d, part, s, (from_s, to_s), |n, _| bought.get(n) == Some(&true));
            }
            Part::PlainTurn => lie(d, part, s, (from_s, to_s), |_, server| !server.proof),
            Part::Start => {
                let by_ms = signed(d, part, &p::FAR_LIE);
                let until = d.draw(part, &p::LATE).min(to_s.max(1.0));
                let end = 3600.0 * s.hours;
                for server in &mut s.servers {
                    if server.proof {
                        server.forward.outages.push(Outage { from_s: 0.0, to_s: until });
                    } else {
                        server.lies.push(Lie { from_s: 0.0, to_s: end, by_ms });
                    }
                }
            }
        }
    }
}

/// The most of so many servers with proof that leave an honest majority.
fn minority(voters: usize) -> usize {
    voters.saturating_sub(1) / 2
}

/// Holds packets back on the way there, back, or both.
fn hold(server: &mut ServerSpec, (there, back): (bool, bool), queue: &Queue) {
    if there {
        server.forward.queues.push(queue.clone());
    }
    if back {
        server.backward.queues.push(queue.clone());
    }
}

/// A size with a sign.
fn signed(d: &mut Drawing, part: &str, size: &Range) -> f64 {
    let ahead = d.is(part, &p::AHEAD);
    let size = d.draw(part, size);
    if ahead { size } else { -size }
}

/// Has those servers lie that `bought` says, by their number.
fn lie(
    d: &mut Drawing,
    part: &str,
    s: &mut Scenario,
    (from_s, to_s): (f64, f64),
    bought: impl Fn(usize, &ServerSpec) -> bool,
) {
    let (together, ramps) = (d.is(part, &p::TOGETHER_LIE), d.is(part, &p::RAMPS));
    let near = d.is(part, &p::NEAR);
    for (n, server) in s.servers.iter_mut().enumerate() {
        if !bought(n, server) {
            continue;
        }
        let own = if together { part.to_owned() } else { format!("{part} {}", server.name) };
        if ramps {
            let ppm = signed(d, &own, &p::RAMP);
            server.ramps.push(Ramp { from_s, to_s, ppm });
        } else {
            let by_ms = signed(d, &own, &p::LIE);
            server.lies.push(Lie { from_s, to_s, by_ms });
        }
        if near {
            // As good as any that there is.
            let path = PathSpec::exponential(p::NEAREST_MS, p::NEAREST_MS / 10.0);
            server.root_dispersion_us = 1.0;
            server.offset_ms = 0.0;
            let keep = |old: &PathSpec| PathSpec {
                queues: path.queues.iter().chain(old.queues.iter().skip(1)).cloned().collect(),
                floor_ms: path.floor_ms,
                ..old.clone()
            };
            server.forward = keep(&server.forward);
            server.backward = keep(&server.backward);
        }
    }
}

/// Number of servers of a pool, by chance.
fn some(d: &Drawing, s: &Scenario, most: usize) -> Vec<bool> {
    let mut random = d.stream("pool/bought");
    let mut places: Vec<(u64, usize)> =
        (0..s.servers.len()).map(|place| (random.bits(), place)).collect();
    places.sort_unstable();
    places.truncate(most);
    (0..s.servers.len()).map(|n| places.iter().any(|(_, place)| *place == n)).collect()
}

/// Has a minority of those with proof lie, and after a while fall silent and lead to honest ones' addresses.
fn redirect(d: &mut Drawing, s: &mut Scenario, voters: usize, from_s: f64) {
    let end = 3600.0 * s.hours;
    let bought = minority(voters);
    lie(d, "redirect", s, (from_s, end), |n, _| n < bought);
    let at = from_s + d.draw("redirect", &p::LEADS) * (end - from_s);
    let honest: Vec<String> =
        s.servers.iter().take(voters).skip(bought).map(|server| server.name.clone()).collect();
    for (server, honest) in s.servers.iter_mut().take(bought).zip(honest) {
        server.silences.push(Stretch { from_s: at, to_s: end });
        (server.own_address_until_s, server.leads_to) = (Some(at), Some(honest));
    }
}

/// Announcements of a leap second by a minority of those with proof and all others.
fn leap(d: &mut Drawing, s: &mut Scenario, voters: usize, (from_s, to_s): (f64, f64)) {
    let length = 3600.0 * s.hours;
    let midnight = d.draw("leap", &p::MIDNIGHT) * length;
    s.begin = MONTH_ENDS - midnight as i64;
    s.leap_list = false;
    let inserted = d.is("leap", &p::INSERTED);
    let real = d.is("leap", &p::REAL);
    s.leap = real.then_some(LeapSpec { midnight: MONTH_ENDS, inserted });
    let leap = match (real, inserted) {
        (true, _) => Warned::Nothing,
        (false, true) => Warned::Insert,
        (false, false) => Warned::Delete,
    };
    for (n, server) in s.servers.iter_mut().enumerate() {
        if !server.proof || n < minority(voters) {
            server.warnings.push(Warning { from_s, to_s, leap });
        }
    }
}

/// See [`super::ranges`].
pub(super) fn ranges() -> Vec<(&'static str, &'static str, Vec<Range>)> {
    p::all()
}
