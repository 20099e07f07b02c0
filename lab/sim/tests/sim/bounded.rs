//! Jitter that is bounded and even, as netem makes it: a short run is right to a fraction of it.

use truechimer_sim::{Options, Random, Scenario, Statistics, parse_delays, simulate};

/// Recording of delays that are anything from 0 to 0.6 ms alike, in s.
fn delays(seed: u64, way: &str) -> String {
    let mut random = Random::new(seed, way);
    (0..500).map(|_| format!("{:.9}\n", 0.6e-3 * random.uniform())).collect()
}

/// Two minutes to settle, four to be judged; a request every four seconds.
#[test]
fn a_short_run_behind_even_jitter_is_right() {
    for seed in 1..=100 {
        let way = |way: &str| {
            format!(
                "{way}.floor-ms = 1.7\n{way}.loss = 0.05\n\
                 {way}.queue = [{{ law.recorded.file = \"{way}\" }}]\n"
            )
        };
        let toml = format!(
            "name = \"even\"\nhours = 0.1\nwarm-up-hours = 0.034\npoll = 4\n\
             [oscillator]\nskew-ppm = 10\nwalk-per-root-s = 1e-10\n\
             [[server]]\nname = \"s\"\nroot-dispersion-us = 1\n{}{}",
            way("forward"),
            way("backward")
        );
        let read = |file: &str| parse_delays(&delays(seed, file)).map_err(|why| why.to_string());
        let scenario = Scenario::from_toml_with(&toml, read).unwrap();
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let s = Statistics::of(&[&run.trace]);
        assert!(s.error.rms_us < 80.0, "seed {seed}: {} µs RMS", s.error.rms_us);
    }
}
