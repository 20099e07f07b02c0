//! Drift of a group's clock from UTC over days, simulated: the published algorithm, and steered.
//!
//! The real engines of the replicas, in virtual time, over a simulated ordered network: every
//! replica's physical clock has a rate of its own that wanders with the hour of the day, its
//! operations start some hundred µs apart from the others', and the first replica is nearer to the
//! network, so that it wins most rounds. Its clock drives the group's, which is the drift that the
//! paper reports; with [`Tie::Steered`] the members' reports of UTC take it away.
//!
//! Nothing is random but by the seed: the same plan gives the same series everywhere.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use truechimer_group::{
    Action, Bound, Call, Engine, Event, Group, Member, Order, Own, Reading, SettingsError, Thread,
    Utc,
};

/// Setting of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Length, s.
    pub seconds: u64,
    /// Time between readings of the group's clock by all replicas, ms.
    pub every_ms: u64,
    /// Time between samples of the series, s.
    pub sample_s: u64,
    /// The replicas' clocks.
    pub clocks: Vec<Clock>,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// A replica's clocks and its distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// Rate error of the physical clock: positive = fast, parts in 10⁹.
    pub rate_ppb: i64,
    /// Amplitude of its daily swing, parts in 10⁹.
    pub swing_ppb: i64,
    /// Largest error of its UTC, ns: the bound that it claims, and holds.
    pub bound_ns: i64,
    /// The least time that a message takes to or from it, ns.
    pub latency_ns: i64,
}

/// Way in which the group's clock is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// Tie as published: proposals as they are, no reports of UTC.
    Published,
    /// Monotone in the order of delivery, and steered to the median of the members' UTC.
    Steered,
}

/// The group's clock at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// True time since the start, s.
    pub seconds: f64,
    /// The group's clock − true time, ns, by the median of the live members' views of it.
    pub group_ns: i64,
    /// The least of the views − true time, ns.
    pub least_ns: i64,
    /// The greatest, ns.
    pub most_ns: i64,
    /// True if each member's view is within what that member's own clock then said of UTC.
    pub within: bool,
    /// The share of rounds that the first replica has won since the last sample.
    pub first_won: f64,
}

impl Default for Plan {
    /// Three replicas for three days: physical clocks 20 parts in 10⁶ fast to 15 slow, UTC known to
    /// 1 ms, the fast one nearest.
    fn default() -> Plan {
        let clock = |rate_ppb, latency_ns| Clock {
            rate_ppb,
            swing_ppb: 1_000,
            bound_ns: 1_000_000,
            latency_ns,
        };
        Plan {
            seconds: 3 * 86_400,
            every_ms: 1_000,
            sample_s: 300,
            clocks: vec![clock(20_000, 40_000), clock(-15_000, 60_000), clock(3_000, 70_000)],
            seed: 1,
        }
    }
}

/// UTC at the start, ns since 1970.
const START: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
/// Before this the group forms, ns.
const FORMING: i64 = 10 * SECOND;

/// The series of the group's offset from true time.
///
/// # Errors
/// If the plan makes settings that the engine does not take (no clocks, for instance).
pub fn simulate(plan: &Plan, tie: Tie) -> Result<Vec<Sample>, SettingsError> {
    let mut world = World::new(plan, tie)?;
    world.form();
    if tie == Tie::Published {
        // UTC has set the clock at the start; the published algorithm never hears of it again.
        world.nodes.iter_mut().for_each(|node| node.utc = false);
    }
    let end = FORMING + i64::try_from(plan.seconds).unwrap_or(i64::MAX / SECOND - 100) * SECOND;
    let every = i64::try_from(plan.every_ms.max(1)).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    let sample = i64::try_from(plan.sample_s.max(1)).unwrap_or(i64::MAX).saturating_mul(SECOND);
    let mut samples = Vec::new();
    let (mut next_read, mut next_sample) = (FORMING, FORMING + sample);
    while next_read.min(next_sample) <= end {
        if next_read < next_sample {
            world.run_until(next_read);
            for node in 0..world.nodes.len() {
                let delay = world.random.between(60_000, 400_000);
                world.wake(next_read + delay, node, What::Read);
            }
            next_read = next_read.saturating_add(every);
        } else {
            world.run_until(next_sample);
            samples.extend(world.sample());
            next_sample = next_sample.saturating_add(sample);
        }
    }
    Ok(samples)
}

struct World {
    now: i64,
    order: u64,
    events: BinaryHeap<Reverse<(i64, u64, usize, What)>>,
    nodes: Vec<Node>,
    random: Random,
    rounds: u64,
    first: u64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Timer,
    Read,
    Arrival,
}

struct Node {
    clock: Clock,
    engine: Engine,
    /// Deliveries that have been ordered and are under way to it.
    coming: VecDeque<Coming>,
    last_arrival: i64,
    /// When it is to be woken for its engine's deadline.
    alarm: Option<i64>,
    waits: bool,
    utc: bool,
}

#[derive(Clone)]
enum Coming {
    Message(usize, std::rc::Rc<[u8]>),
    Configuration,
}

impl Node {
    /// The physical clock at a true time, ns.
    fn physical(&self, now: i64) -> i64 {
        let steady = i128::from(now) * i128::from(self.clock.rate_ppb) / 1_000_000_000;
        // The integral of a daily sine.
        let day = 86_400e9 / std::f64::consts::TAU;
        let swing = self.clock.swing_ppb as f64 * 1e-9 * day * (1.0 - (now as f64 / day).cos());
        now + steady as i64 + swing as i64
    }

    /// By how much its UTC is off at a true time, ns: well within its bound, and wandering.
    fn error(&self, now: i64) -> i64 {
        let hour = 3_600e9 + self.clock.latency_ns as f64 * 1e7;
        let wave = (now as f64 / hour * std::f64::consts::TAU).sin();
        (self.clock.bound_ns as f64 * 0.4 * wave) as i64
    }

    fn reading(&self, now: i64) -> Reading {
        let best = START + now + self.error(now);
        let bound =
            Bound { earliest: best - self.clock.bound_ns, latest: best + self.clock.bound_ns };
        Reading { physical: self.physical(now), utc: self.utc.then_some(Utc { best, bound }) }
    }
}

impl World {
    fn new(plan: &Plan, tie: Tie) -> Result<World, SettingsError> {
        let universe: Vec<Member> = (1..).take(plan.clocks.len()).map(Member).collect();
        let mut group = Group::new("drift", &universe);
        if tie == Tie::Published {
            group.order = Order::Published;
            group.steering_cap_ppb = 0;
        }
        let node = |(member, clock): (&Member, &Clock)| {
            Ok(Node {
                clock: *clock,
                engine: Engine::new(group.clone(), Own::new(*member, 1))?,
                coming: VecDeque::new(),
                last_arrival: 0,
                alarm: None,
                waits: false,
                utc: true,
            })
        };
        let nodes: Result<Vec<Node>, SettingsError> =
            universe.iter().zip(&plan.clocks).map(node).collect();
        Ok(World {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            nodes: nodes?,
            random: Random(plan.seed),
            rounds: 0,
            first: 0,
        })
    }

    fn form(&mut self) {
        for node in 0..self.nodes.len() {
            self.send(node, Coming::Configuration);
        }
        self.run_until(FORMING);
    }

    fn wake(&mut self, at: i64, node: usize, what: What) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, node, what)));
    }

    /// One thing goes to one member, not before what was ordered before it.
    fn send(&mut self, to: usize, what: Coming) {
        let from = match what {
            Coming::Message(from, _) => self.latency(from),
            Coming::Configuration => 0,
        };
        let late = self.random.between(0, 30_000);
        let way = self.latency(to);
        if let Some(node) = self.nodes.get_mut(to) {
            let at = (self.now + from + way + late).max(node.last_arrival + 1);
            node.last_arrival = at;
            node.coming.push_back(what);
            self.wake(at, to, What::Arrival);
        }
    }

    fn latency(&self, node: usize) -> i64 {
        self.nodes.get(node).map_or(0, |node| node.clock.latency_ns)
    }

    fn run_until(&mut self, end: i64) {
        while let Some(&Reverse((at, ..))) = self.events.peek()
            && at <= end
        {
            let Some(Reverse((at, _, node, what))) = self.events.pop() else { break };
            self.now = at;
            self.happen(node, &what);
            self.after(node);
        }
        self.now = end;
    }

    fn happen(&mut self, at: usize, what: &What) {
        let now = self.now;
        let all: Vec<Member> = (1..).take(self.nodes.len()).map(Member).collect();
        let Some(node) = self.nodes.get_mut(at) else { return };
        let reading = node.reading(now);
        match what {
            // An earlier one has taken its place.
            What::Timer if node.alarm != Some(now) => {}
            What::Timer => {
                node.alarm = None;
                node.engine.handle(reading, Event::Timer);
            }
            What::Read if !node.waits => {
                node.waits = true;
                let read = Event::Read { thread: Thread::FIRST, call: Call::Group };
                node.engine.handle(reading, read);
            }
            What::Read => {}
            What::Arrival => match node.coming.pop_front() {
                Some(Coming::Message(from, bytes)) => {
                    let from = all.get(from).copied().unwrap_or(Member(1));
                    node.engine.handle(reading, Event::Delivered { from, bytes: &bytes });
                }
                Some(Coming::Configuration) => {
                    let event = Event::Configuration { members: &all, lost: &[] };
                    node.engine.handle(reading, event);
                }
                None => {}
            },
        }
    }

    /// Does what the engine wants.
    fn after(&mut self, at_node: usize) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(at_node) else { return };
        let reading = node.reading(now);
        node.engine.flush(reading);
        let mut sent = Vec::new();
        while let Some(action) = node.engine.next_action() {
            match action {
                Action::Send(bytes) => sent.push(bytes),
                Action::Return { value, .. } => {
                    node.waits = false;
                    self.rounds += 1;
                    self.first += u64::from(value.synchronizer == Member(1));
                }
                Action::Reject { .. } => node.waits = false,
                _ => {}
            }
        }
        if let Some(deadline) = node.engine.deadline() {
            // The physical clock is off by far less than one part in a thousand; and nobody comes
            // sooner than a process can be woken.
            let wait = deadline.saturating_sub(reading.physical).max(0);
            let at = now.saturating_add(wait).saturating_add(wait / 1000).saturating_add(20_000);
            if node.alarm.is_none_or(|alarm| at < alarm) {
                node.alarm = Some(at);
                self.wake(at, at_node, What::Timer);
            }
        }
        for bytes in sent {
            let bytes: std::rc::Rc<[u8]> = bytes.into();
            for to in 0..self.nodes.len() {
                self.send(to, Coming::Message(at_node, std::rc::Rc::clone(&bytes)));
            }
        }
    }

    fn sample(&mut self) -> Option<Sample> {
        let now = self.now;
        let mut within = true;
        let mut views = Vec::new();
        for node in &self.nodes {
            let view = node.engine.view(node.reading(now))?.0;
            let off = node.error(now).abs();
            views.push(view - START - now);
            within &= (view - START - now - node.error(now)).abs() <= node.clock.bound_ns;
            debug_assert!(off <= node.clock.bound_ns);
        }
        views.sort_unstable();
        let rounds = std::mem::take(&mut self.rounds);
        let first = std::mem::take(&mut self.first);
        Some(Sample {
            seconds: (now - FORMING) as f64 / 1e9,
            group_ns: truechimer_report::percentile(&views, 50)?,
            least_ns: *views.first()?,
            most_ns: *views.last()?,
            within,
            first_won: first as f64 / rounds.max(1) as f64,
        })
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        least + ((z ^ (z >> 31)) % (most - least).max(1) as u64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hours, a round every minute, which the reports of clocks (each second) do not ask for.
    fn plan() -> Plan {
        Plan { seconds: 7_200, every_ms: 60_000, sample_s: 120, ..Plan::default() }
    }

    #[test]
    fn steered_it_stays_within_the_bounds() {
        let samples = simulate(&plan(), Tie::Steered).unwrap();
        assert_eq!(samples.len(), 60);
        // The first minutes are for the physical clocks' rates to be learnt.
        let late = samples.iter().filter(|sample| sample.seconds > 600.0);
        for sample in late {
            assert!(sample.within, "{sample:?}");
            assert!(sample.least_ns.abs().max(sample.most_ns.abs()) < 1_000_000, "{sample:?}");
        }
    }

    #[test]
    fn as_published_it_drifts() {
        let samples = simulate(&plan(), Tie::Published).unwrap();
        let last = samples.last().unwrap();
        assert!(last.first_won > 0.5, "{last:?}");
        // 20 parts in 10⁶ are 0.14 s in two hours.
        assert!(last.group_ns.abs() > 50_000_000, "{last:?}");
        assert!(!last.within, "{last:?}");
    }

    #[test]
    fn the_same_plan_gives_the_same_series() {
        let plan = Plan { seconds: 300, sample_s: 30, ..plan() };
        let one = simulate(&plan, Tie::Steered);
        assert_eq!(one, simulate(&plan, Tie::Steered));
        let other = simulate(&Plan { seed: 2, ..plan }, Tie::Steered);
        assert_ne!(one.unwrap(), other.unwrap(), "the seed counts");
    }
}
