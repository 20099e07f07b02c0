//! Long absences of server or daemon while the oscillator drifts: the promise has to age with them,
//! and nobody may be locked out when they are over. Each of these once broke it.

use truechimer_sim::{Options, Scenario, Statistics, simulate};

/// The bound held in every second, and at the end the clock is right again.
fn comes_back(toml: &str) {
    let scenario = Scenario::from_toml(toml).unwrap();
    assert_eq!(scenario.broken_conditions(), Vec::<String>::new());
    for seed in 1..=3 {
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let s = Statistics::of(&[&run.trace]);
        assert!(s.inside_bound.seconds > 40_000, "{:?}", s.inside_bound);
        for inside in [s.inside_bound, s.one_second.inside_bound, s.thousand_seconds.inside_bound] {
            assert_eq!(inside.outside, 0, "{}, seed {seed}: {inside:?}", scenario.name);
        }
        let last = run.trace.samples.last().unwrap();
        assert!(last.error.abs() < 1e-3, "{}, seed {seed}: {last:?}", scenario.name);
    }
}

#[test]
fn a_server_that_was_silent_for_half_a_day() {
    comes_back(
        "name = \"silence\"\nhours = 60\npoll = 1024\n\
         [[oscillator.ramp]]\nfrom-s = 14400\nto-s = 57600\nppm = 3\n\
         [[server]]\nname = \"s\"\nforward.floor-ms = 0.1\nbackward.floor-ms = 0.1\n\
         [[server.silence]]\nfrom-s = 21600\nto-s = 64800\n",
    );
}

#[test]
fn a_night_without_a_server_in_a_daily_cycle() {
    comes_back(
        "name = \"night\"\nhours = 30\npoll = 16\n\
         [[oscillator.sine]]\namplitude-ppm = 1\nperiod-s = 86400\nphase-deg = 180\n\
         [[server]]\nname = \"s\"\nforward.floor-ms = 0.1\nbackward.floor-ms = 0.1\n\
         [[server.silence]]\nfrom-s = 18000\nto-s = 61200\n",
    );
}

#[test]
fn a_clock_page_that_nobody_tended_for_ten_hours() {
    comes_back(
        "name = \"page\"\nhours = 20\npoll = 1024\nburst = false\n\
         [[restart]]\nat-s = 20000\ngap-s = 36000\nwarm = true\n\
         [[oscillator.ramp]]\nfrom-s = 14400\nto-s = 72000\nppm = 5\n\
         [[server]]\nname = \"s\"\nforward.floor-ms = 0.01\nbackward.floor-ms = 0.01\n",
    );
}
