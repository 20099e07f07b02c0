//! Response of the model to changes of the path, the server and the oscillator. Fixed seeds.
#![allow(clippy::indexing_slicing)]

mod random;

use random::Random;
use truechimer_model::{Change, Constants, Known, Model, Noise, Sample};

/// A LAN at 16 s: floors of 100 µs, queues of 10 µs, an oscillator 5 ppm off.
struct World {
    random: Random,
    model: Model,
    time: f64,
    floors: [f64; 2],
    rate: f64,
    theta: f64,
    /// Offset of the server, s; positive: ahead.
    server: f64,
}

const FLOOR: f64 = 100e-6;
const STRAYS: f64 = 0.6e-6;

impl World {
    fn new(seed: u64) -> World {
        World::with(seed, Constants::DEFAULT)
    }

    fn with(seed: u64, constants: Constants) -> World {
        let known = |mean, deviation| Known { mean, deviation };
        World {
            random: Random(seed),
            model: Model::new(
                known(0.0, 50e-6),
                known(0.0, 25e-6),
                known(110e-6, 55e-6),
                Noise::of(0.3e-6),
                constants,
            ),
            time: 0.0,
            floors: [FLOOR; 2],
            rate: 5e-6,
            theta: 0.0,
            server: 0.0,
        }
    }

    fn sample(&mut self) -> Sample {
        let wait = [0, 1].map(|d| self.floors[d] + self.random.exponential(10e-6));
        let duration = wait[0] + wait[1];
        let ahead = self.theta + self.server;
        Sample { above: [ahead - self.rate * duration + wait[0], wait[1] - ahead], duration }
    }

    /// Goes on for so many exchanges; returns the changes of the path that were told.
    fn run(&mut self, exchanges: usize) -> Vec<f64> {
        self.changes(exchanges).iter().map(|change| change.by).collect()
    }

    /// Goes on likewise; returns the changes with what each is told as.
    fn changes(&mut self, exchanges: usize) -> Vec<Change> {
        let mut told = Vec::new();
        for _ in 0..exchanges {
            if self.time > 0.0 {
                self.model.predict(16.0);
                self.theta += self.rate * 16.0;
            }
            self.time += 16.0;
            let sample = self.sample();
            told.extend(self.model.take(sample, STRAYS, true));
        }
        told
    }

    fn error(&self) -> f64 {
        self.model.now().offset - self.theta
    }
}

#[test]
fn a_quiet_path_tells_of_nothing() {
    for seed in 1..=20 {
        let mut world = World::new(seed);
        assert_eq!(world.run(1000), [], "seed {seed}");
        assert_eq!(world.model.ahead(), None, "seed {seed}");
        assert!(world.error().abs() < 8e-6, "seed {seed}: {}", world.error());
        assert!((world.model.now().rate - 5e-6).abs() < 0.05e-6, "seed {seed}");
    }
}

#[test]
fn a_longer_or_shorter_route_moves_no_clock_and_is_told_once() {
    for (there, back) in [(900e-6, 0.0), (0.0, 900e-6), (900e-6, 900e-6), (-60e-6, 0.0)] {
        for seed in 1..=10 {
            let mut world = World::new(seed);
            let _ = world.run(400);
            world.floors = [FLOOR + there, FLOOR + back];
            let told = world.run(60);
            // Both ways alike it may pass for a queue that grows, and a shorter one for a floor that
            // was hidden: that moves no clock either.
            let least = usize::from(there != back && there >= 0.0);
            assert!((least..=1).contains(&told.len()), "{there} {back}, {seed}: {told:?}");
            let right = |by: &f64| (by - there - back).abs() < 30e-6;
            assert!(told.iter().all(right), "{there} {back}, {seed}: {told:?}");
            let floors = world.model.now().floors;
            assert!((floors[0] - FLOOR - there).abs() < 12e-6, "{there}, {seed}: {floors:?}");
            assert!((floors[1] - FLOOR - back).abs() < 12e-6, "{back}, {seed}: {floors:?}");
            assert!(world.error().abs() < 12e-6, "{there} {back}, {seed}: {}", world.error());
            assert_eq!(world.model.ahead(), None, "{there} {back}, seed {seed}");
        }
    }
}

#[test]
fn a_path_that_swings_between_two_floors_is_another_route_once() {
    // By turns for hours; a day without, and it is a new route again.
    for seed in 1..=10 {
        let mut world = World::new(seed);
        assert_eq!(world.run(400), [], "seed {seed}");
        let mut routes = Vec::new();
        for turn in 0..12 {
            let longer = turn % 2 == 0;
            world.floors[0] = FLOOR + if longer { 900e-6 } else { 0.0 };
            let told = world.changes(80);
            assert!(told.iter().all(|change| longer || !change.is_route), "shorter: {told:?}");
            routes.extend(told.iter().filter(|change| change.is_route).map(|_| turn));
        }
        assert_eq!(routes, [0], "seed {seed}");
        world.floors[0] = FLOOR + 300e-6;
        let told = world.changes(80);
        assert!(matches!(told[..], [Change { is_route: true, .. }]), "another: {told:?}");
        let _ = world.run(24 * 225);
        world.floors[0] = FLOOR + 1200e-6;
        let told = world.changes(80);
        assert!(matches!(told[..], [Change { is_route: true, .. }]), "a day later: {told:?}");
    }
}

#[test]
fn a_server_that_moves_is_known_and_so_is_its_return() {
    for by in [0.2e-3, -0.2e-3, 5e-3, -5e-3] {
        for seed in 1..=10 {
            let mut world = World::new(seed);
            let _ = world.run(400);
            world.server = by;
            assert_eq!(world.run(30), [], "{by}, seed {seed}");
            let ahead = world.model.ahead().expect("the server has moved");
            assert!((ahead - by).abs() < 15e-6, "{by}, seed {seed}: {ahead}");
            assert!(world.error().abs() < 25e-6, "{by}, seed {seed}: {}", world.error());
            world.server = 0.0;
            let _ = world.run(40);
            assert_eq!(world.model.ahead(), None, "{by}, seed {seed}");
            assert!(world.error().abs() < 15e-6, "{by}, seed {seed}: {}", world.error());
        }
    }
}

#[test]
fn an_oscillator_that_steps_is_followed() {
    for by in [0.3e-6, -1e-6, 3e-6] {
        for seed in 1..=10 {
            let mut world = World::new(seed);
            let _ = world.run(400);
            world.rate += by;
            let _ = world.run(20);
            // Five times as far as the oscillator promises, it may be the server for some minutes.
            if by.abs() <= 2.0 * STRAYS {
                assert_eq!(world.model.ahead(), None, "{by}, seed {seed}");
                assert!(world.error().abs() < 40e-6, "{by}, seed {seed}: {}", world.error());
            }
            let _ = world.run(200);
            assert_eq!(world.model.ahead(), None, "{by}, seed {seed}");
            assert!(world.error().abs() < 10e-6, "{by}, seed {seed}: {}", world.error());
        }
    }
}

/// Exchanges after a server's step of `by` from which on it is suspected, and held off.
fn suspected_and_held(seed: u64, by: f64, hold: f64) -> (Option<usize>, Option<usize>) {
    let mut world = World::with(seed, Constants::DEFAULT.with("hold", hold).expect("a constant"));
    let _ = world.run(400);
    world.server = by;
    let (mut suspected, mut held) = (None, None);
    for k in 1..=60 {
        let _ = world.run(1);
        suspected = suspected.or(world.model.ahead().map(|_| k));
        held = held.or(world.model.has_moved().then_some(k));
    }
    (suspected, held)
}

#[test]
fn a_server_is_suspected_first_and_held_off_at_the_odds_that_are_wanted() {
    // Three typical waits ahead: sooner or later it is beyond all doubt, but for high odds.
    let (mut waited, mut spared) = (0, 0);
    for seed in 1..=10 {
        let [low, usual, high] =
            [2.0, 10.0, 20.0].map(|hold| suspected_and_held(seed, 30e-6, hold));
        let suspected = low.0.expect("the server has moved");
        assert_eq!(
            [low.0, usual.0, high.0],
            [Some(suspected); 3],
            "seed {seed}: no matter of odds"
        );
        let [low, usual, high] = [low.1, usual.1, high.1].map(|held| held.unwrap_or(usize::MAX));
        assert!(suspected <= low && low <= usual && usual <= high, "seed {seed}");
        waited += usize::from(suspected < usual);
        spared += usize::from(usual < usize::MAX && high == usize::MAX);
        // Ten waits ahead it is suspected at once, and held off a few packets later.
        let (suspected, held) = suspected_and_held(seed, 100e-6, 10.0);
        assert_eq!(suspected, Some(1), "seed {seed}");
        assert!(held.is_some_and(|held| (2..=8).contains(&held)), "seed {seed}: {held:?}");
    }
    assert!(waited == 10 && spared >= 8, "{waited} {spared}");
}

#[test]
fn no_step_of_a_server_that_is_undone_stays_as_an_offset_that_nobody_tells_of() {
    for (step, away, by) in [(5e-3, 10, 1e-6), (1e-3, 10, 1e-6), (-1e-3, 10, -0.6e-6)] {
        for seed in 1..=10 {
            let mut world = World::new(seed);
            let _ = world.run(400);
            world.server = step;
            let _ = world.run(away);
            // The oscillator changes a minute before the server is right again.
            world.rate += by;
            let _ = world.run(4);
            world.server = 0.0;
            let _ = world.run(250);
            // What happened at once may be taken for a server that drifts: that is told, at least.
            let (ahead, error) = (world.model.ahead(), world.error());
            assert!(ahead.is_some() || error.abs() < 5e-6, "{step} {by}, seed {seed}: {error}");
            if step.abs() > 2e-3 {
                assert_eq!(ahead, None, "{step} {by}, seed {seed}");
            }
        }
    }
}

#[test]
fn no_number_is_too_wild() {
    for wild in [f64::NAN, f64::INFINITY, f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 1e200] {
        for at in 0..6 {
            let mut world = World::new(1);
            let _ = world.run(if at < 3 { 3 } else { 100 });
            let sample = world.sample();
            let mut above = sample.above;
            above[at % 2] = wild;
            world.model.predict(if at % 3 == 0 { wild } else { 16.0 });
            let _ = world.model.take(Sample { above, ..sample }, STRAYS, true);
            let _ = world.run(20);
            let _ = (world.model.now(), world.model.ahead());
        }
    }
}

#[test]
fn packets_of_one_direction_are_enough_for_the_rate() {
    let mut world = World::new(1);
    for _ in 0..400 {
        if world.time > 0.0 {
            world.model.predict(16.0);
            world.theta += world.rate * 16.0;
        }
        world.time += 16.0;
        let mut sample = world.sample();
        sample.above[0] = f64::INFINITY;
        assert_eq!(world.model.take(sample, STRAYS, true), None);
    }
    assert!((world.model.now().rate - 5e-6).abs() < 0.05e-6, "{:?}", world.model.now());
    assert!(world.error().abs() < 60e-6, "{}", world.error());
}

#[test]
fn a_server_that_has_wandered_may_move_again() {
    let mut seen = 0;
    for seed in 1..=50 {
        let mut world = World::new(seed);
        let _ = world.run(400);
        let mut random = Random(1000 + seed);
        for _ in 0..225 {
            // Laplace, and it is remembered for 128 s.
            world.server =
                0.88 * world.server + random.exponential(7e-6) - random.exponential(7e-6);
            let _ = world.run(1);
        }
        world.server = 0.0;
        let _ = world.run(2000);
        world.server = 100e-6;
        let _ = world.run(60);
        let ahead = world.model.ahead();
        seen += usize::from(ahead.is_some_and(|by| (by - 100e-6).abs() < 30e-6));
    }
    assert!(seen >= 40, "{seen} of 50");
}

#[test]
fn another_address_leaves_a_suspicion_behind() {
    for seed in 1..=10 {
        let mut world = World::new(seed);
        let _ = world.run(400);
        world.server = 300e-6;
        let _ = world.run(3);
        assert!(world.model.ahead().is_some(), "seed {seed}");
        // The new one is right, and its path another.
        world.server = 0.0;
        world.floors = [3.0 * FLOOR; 2];
        let sample = world.sample();
        let theta = Known { mean: world.theta, deviation: 200e-6 };
        world.model.begin_path(sample, Some(theta), Noise::of(0.3e-6));
        let _ = world.model.take(sample, STRAYS, true);
        let _ = world.run(60);
        assert!(world.error().abs() < 10e-6, "seed {seed}: {}", world.error());
        assert_eq!(world.model.ahead(), None, "seed {seed}");
    }
}
