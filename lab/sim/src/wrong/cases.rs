//! The cases: what happens beside a lone server, on which path, and whether the server is wrong.

use serde::{Deserialize, Serialize};

use crate::oscillator;
use crate::path::{Law, PathSpec, Queue, Shift, When};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::server::{Lie, Ramp, ServerSpec, Step};

/// For how long at least the server is honest before, s: two hours.
const HISTORY_S: f64 = 7200.0;
/// Length of most of what happens, s: ten minutes.
const LASTS_S: f64 = 600.0;
/// For how long a run goes on after the longest wait that the settings allow for, s.
const REST_S: f64 = 1800.0;
/// A step that comes back late does so this long after it may have been believed, s.
const LATE_S: f64 = 1200.0;
/// A server that is wrong again and again is so this often, this long, this far apart, s.
const AGAIN: (u32, f64, f64) = (4, 300.0, 900.0);
/// Queues that begin and end are so many times as long as those that were there, and at least
/// this long on the average, ms.
const LONGER_QUEUE: (f64, f64) = (10.0, 1.0);

/// Steps of the server, ms.
const STEPS_MS: [f64; 9] = [0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0];
/// Those that come back late, or again and again, ms.
const RETURNS_MS: [f64; 2] = [1.0, 10.0];
/// Those beside a change of the request's path, ms.
const WITH_ROUTE_MS: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];
/// Ramps of the server, ppm.
const RAMPS_PPM: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0];
/// Errors of the server from the start on, ms.
const STARTS_MS: [f64; 2] = [1.0, 100.0];
/// Steps of the oscillator, ppm.
const OSCILLATOR_PPM: [f64; 8] = [0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0];
/// Changes of the route, µs.
const ROUTES_US: [f64; 7] = [10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 5000.0];
/// Jumps of the counter, ms.
const JUMPS_MS: [f64; 3] = [0.3, 10.0, 1000.0];

/// A path to the server: the same both ways.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Way {
    /// One word.
    pub name: &'static str,
    /// Least delay of a packet, ms.
    pub floor_ms: f64,
    /// Delay in queues, ms: the mean of an exponential distribution.
    pub queue_ms: f64,
    /// An error above this counts as astray, µs: well above what an undisturbed clock of today is
    /// off by. Ten minutes without a server may come to that as well, far away.
    pub right_us: f64,
}

/// The paths.
pub const WAYS: [Way; 3] = [
    Way { name: "lan", floor_ms: 0.1, queue_ms: 0.01, right_us: 30.0 },
    Way { name: "4ms", floor_ms: 2.0, queue_ms: 0.3, right_us: 100.0 },
    Way { name: "36ms", floor_ms: 18.0, queue_ms: 1.0, right_us: 150.0 },
];

/// Kind of case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The server's time steps, and is right again after ten minutes.
    Step,
    /// The server's time steps for good.
    StepForGood,
    /// The server's time steps, and comes back once that may have been believed; or does so again
    /// and again.
    StepReturns,
    /// The server's time steps while the request's path changes by as much, ten minutes.
    StepWithRoute,
    /// The server's time runs away for ten minutes, and is right again at once.
    Ramp,
    /// The server's time is wrong from the start on, for ten minutes.
    Start,
    /// The server is honest, and the oscillator's frequency steps for good.
    Oscillator,
    /// The server is honest, and nothing happens, or something does on the way.
    Honest,
    /// The server is honest, and the counter jumps.
    Jump,
}

impl Group {
    /// All of them, those with a wrong server first.
    pub const ALL: [Group; 9] = [
        Group::Step,
        Group::StepForGood,
        Group::StepReturns,
        Group::StepWithRoute,
        Group::Ramp,
        Group::Start,
        Group::Oscillator,
        Group::Honest,
        Group::Jump,
    ];

    /// Name, one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Group::Step => "step",
            Group::StepForGood => "step-for-good",
            Group::StepReturns => "step-returns",
            Group::StepWithRoute => "step-with-route",
            Group::Ramp => "ramp",
            Group::Start => "start",
            Group::Oscillator => "oscillator",
            Group::Honest => "honest",
            Group::Jump => "jump",
        }
    }

    /// Description in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Group::Step => "The server's time steps, and is right again after ten minutes",
            Group::StepForGood => "The server's time steps for good",
            Group::StepReturns => {
                "The server's time steps, and is right again 20 minutes after it may have been \
                 believed; or is wrong for 5 minutes in every 15, four times"
            }
            Group::StepWithRoute => {
                "The server's time steps while requests take longer by as much, for ten minutes"
            }
            Group::Ramp => {
                "The server's time runs away for ten minutes, and is right again at once"
            }
            Group::Start => "The server's time is wrong for the first ten minutes",
            Group::Oscillator => "The server is honest; the oscillator's frequency steps for good",
            Group::Honest => "The server is honest; nothing happens, or something does on the way",
            Group::Jump => {
                "The server is honest; the counter jumps, and nothing shows it, or the host's \
                 clocks do"
            }
        }
    }

    /// True if the server is right all the time.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        matches!(self, Group::Oscillator | Group::Honest | Group::Jump)
    }
}

/// Event of a case.
#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    Step { ms: f64 },
    StepForGood { ms: f64 },
    StepLate { ms: f64 },
    StepAgain { ms: f64 },
    StepWithRoute { ms: f64 },
    Ramp { ppm: f64 },
    Start { ms: f64 },
    Oscillator { ppm: f64 },
    Nothing,
    Route { us: f64, both: bool },
    Queue { both: bool, lasts_s: f64 },
    Jump { ms: f64, seen: bool },
}

/// A case.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Name, one word.
    pub name: String,
    /// Kind of case.
    pub group: Group,
    what: What,
}

/// One run of a case on a path: the scenario and its times. All are in s since the start.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// All that happens.
    pub scenario: Scenario,
    /// Kind of case.
    pub group: Group,
    /// When it begins. From here on the clock is looked at.
    pub from: f64,
    /// When it is over: the server is right again, or ten minutes have passed.
    pub to: f64,
    /// Until when the error counts as that of the time between: `to`, or when what the server says
    /// may be believed, if that is sooner.
    pub until: f64,
    /// By how much the server's time stays off, s; 0 if it does not.
    pub stays: f64,
    /// When the host's clocks show that the counter has jumped.
    pub epoch: Option<f64>,
    /// [`Way::right_us`], in s.
    pub right: f64,
}

/// All cases, in the order of [`Group::ALL`].
#[must_use]
pub fn cases() -> Vec<Case> {
    let case = |name: String, group, what| Case { name, group, what };
    let step = |ms| case(format!("step-{ms}ms"), Group::Step, What::Step { ms });
    let for_good =
        |ms| case(format!("step-{ms}ms-for-good"), Group::StepForGood, What::StepForGood { ms });
    let late =
        |ms| case(format!("step-{ms}ms-late-back"), Group::StepReturns, What::StepLate { ms });
    let again = |ms| case(format!("step-{ms}ms-again"), Group::StepReturns, What::StepAgain { ms });
    let with_route = |ms| {
        case(format!("step-{ms}ms-with-route"), Group::StepWithRoute, What::StepWithRoute { ms })
    };
    let ramp = |ppm| case(format!("ramp-{ppm}ppm"), Group::Ramp, What::Ramp { ppm });
    let start = |ms| case(format!("start-{ms}ms"), Group::Start, What::Start { ms });
    let oscillator =
        |ppm| case(format!("oscillator-{ppm}ppm"), Group::Oscillator, What::Oscillator { ppm });
    let route = |both: bool| {
        let ways = if both { "both" } else { "one" };
        move |us| case(format!("route-{ways}-{us}us"), Group::Honest, What::Route { us, both })
    };
    let queue = |both: bool, minutes: f64| {
        let ways = if both { "both" } else { "one" };
        let what = What::Queue { both, lasts_s: 60.0 * minutes };
        case(format!("queue-{ways}-{minutes}min"), Group::Honest, what)
    };
    let jump = |ms| case(format!("jump-{ms}ms"), Group::Jump, What::Jump { ms, seen: false });
    let mut all: Vec<Case> = Vec::new();
    all.extend(STEPS_MS.map(step));
    all.extend(STEPS_MS.map(for_good));
    all.extend(RETURNS_MS.map(late));
    all.extend(RETURNS_MS.map(again));
    all.extend(WITH_ROUTE_MS.map(with_route));
    all.extend(RAMPS_PPM.map(ramp));
    all.extend(STARTS_MS.map(start));
    all.extend(OSCILLATOR_PPM.map(oscillator));
    all.push(case("nothing".into(), Group::Honest, What::Nothing));
    all.extend(ROUTES_US.map(route(false)));
    all.extend(ROUTES_US.map(route(true)));
    all.extend([queue(false, 10.0), queue(true, 10.0), queue(false, 60.0), queue(true, 60.0)]);
    all.extend(JUMPS_MS.map(jump));
    all.push(case("jump-10ms-seen".into(), Group::Jump, What::Jump { ms: 10.0, seen: true }));
    all
}

impl Case {
    /// The run of this case over `way` under `seed`, with that [`Scenario::accept_step_after_s`].
    ///
    /// Odd seeds go ahead (a server, an oscillator) or become longer (a route), even ones behind or
    /// shorter, where the path is long enough for that. What happens in one direction does so on
    /// the request's for seeds 1, 2, 5, 6 … and on the reply's for the others.
    #[must_use]
    pub fn setup(&self, way: &Way, seed: u64, accept_step_after_s: f64) -> Setup {
        let path = PathSpec::exponential(way.floor_ms, way.queue_ms);
        let server = ServerSpec::symmetric("lone", path);
        let mut scenario = Scenario::new(&format!("{}-{}", self.name, way.name), "", vec![server]);
        scenario.about = self.group.about().into();
        scenario.accept_step_after_s = accept_step_after_s;
        scenario.warm_up_hours = 0.0;
        // What was known for less than `accept-step-after` is held for no longer than that. And
        // not always at the same moment between two requests.
        let phase = f64::from(scenario.poll) * Random::new(seed, "begins").uniform();
        let from = HISTORY_S.max(accept_step_after_s) + phase;
        let mut setup = Setup {
            scenario,
            group: self.group,
            from,
            to: from + LASTS_S,
            until: from + LASTS_S,
            stays: 0.0,
            epoch: None,
            right: way.right_us * 1e-6,
        };
        let sign = if seed % 2 == 1 { 1.0 } else { -1.0 };
        self.happens(&mut setup, way, sign, (seed / 2).is_multiple_of(2));
        // By then what is held off in the end has been believed.
        let end = setup.to + accept_step_after_s.max(LASTS_S) + REST_S;
        setup.scenario.hours = end / 3600.0;
        setup
    }

    fn happens(&self, setup: &mut Setup, way: &Way, sign: f64, request: bool) {
        let Setup { scenario, from, to, .. } = setup;
        let (begin, end) = (*from, *to);
        let accept = scenario.accept_step_after_s;
        let Scenario { servers, oscillator, host, .. } = scenario;
        let Some(server) = servers.first_mut() else { return };
        match self.what {
            What::Nothing => {}
            What::Step { ms } => server.lies.push(lie(begin, end, sign * ms)),
            What::StepForGood { ms } => {
                server.steps.push(Step { at_s: begin, by_ms: sign * ms });
                setup.stays = sign * ms * 1e-3;
                (setup.to, setup.until) = (begin + accept.max(LASTS_S), begin + accept);
            }
            What::StepLate { ms } => {
                setup.to = begin + accept + LATE_S;
                setup.until = begin + accept;
                server.lies.push(lie(begin, setup.to, sign * ms));
            }
            What::StepAgain { ms } => {
                let (times, lasts, apart) = AGAIN;
                let begins = (0..times).map(|n| begin + apart * f64::from(n));
                server.lies.extend(begins.map(|at| lie(at, at + lasts, sign * ms)));
                setup.to = begin + apart * f64::from(times - 1) + lasts;
                setup.until = setup.to;
            }
            What::StepWithRoute { ms } => {
                server.lies.push(lie(begin, end, sign * ms));
                let longer = Shift { at_s: begin, by_ms: ms, until_s: Some(end) };
                server.forward.shifts.push(longer);
            }
            What::Ramp { ppm } => {
                server.ramps.push(Ramp { from_s: begin, to_s: end, ppm: sign * ppm });
                let back = -sign * ppm * (end - begin) * 1e-3;
                server.steps.push(Step { at_s: end, by_ms: back });
            }
            What::Start { ms } => {
                (setup.from, setup.to, setup.until) = (0.0, LASTS_S, LASTS_S);
                server.lies.push(lie(0.0, LASTS_S, sign * ms));
            }
            What::Oscillator { ppm } => {
                oscillator.steps.push(oscillator::Step { at_s: begin, ppm: sign * ppm });
            }
            What::Route { us, both } => {
                let ms = 1e-3 * us;
                let sign = if ms < way.floor_ms { sign } else { 1.0 };
                let shift = Shift { at_s: begin, by_ms: sign * ms, until_s: None };
                ways(server, both, request).for_each(|path| path.shifts.push(shift));
            }
            What::Queue { both, lasts_s } => {
                setup.to = begin + lasts_s;
                setup.until = setup.to;
                let (times, least) = LONGER_QUEUE;
                let law = Law::Exponential { mean_ms: (times * way.queue_ms).max(least) };
                let when = When::Between { from_s: begin, to_s: setup.to };
                let queue = Queue { law, when };
                ways(server, both, request).for_each(|path| path.queues.push(queue.clone()));
            }
            What::Jump { ms, seen } => {
                let by_s = sign * ms * 1e-3;
                host.jumps.push(crate::host::Jump { at_s: begin, by_s, raw_too: !seen });
                setup.epoch = seen.then_some(begin);
            }
        }
    }
}

fn lie(from_s: f64, to_s: f64, by_ms: f64) -> Lie {
    Lie { from_s, to_s, by_ms }
}

/// The request's way, the reply's, or both.
fn ways(server: &mut ServerSpec, both: bool, request: bool) -> impl Iterator<Item = &mut PathSpec> {
    let ServerSpec { forward, backward, .. } = server;
    let chosen = [both || request, both || !request];
    [forward, backward].into_iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(path, _)| path)
}
