//! Jitter that is bounded and even, as netem makes it: a short run is right to a fraction of it.

use truechimer_sim::{Options, Scenario, Statistics, parse_delays, simulate};

/// So many delays, s, even between 0 and 0.6 ms.
fn delays(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..500).map(|_| format!("{:.9}\n", 0.6e-3 * next())).collect()
}

/// Two minutes to settle, four to be judged; a request every four seconds. (One in twenty was off by
/// more than 100 µs, and some by 0.3 ms: queues that drain, or a server that had moved, explained
/// what was chance.)
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
        let read = |file: &str| {
            let own = if file == "forward" { 0 } else { 1000 };
            parse_delays(&delays(seed + own)).map_err(|why| why.to_string())
        };
        let scenario = Scenario::from_toml_with(&toml, read).unwrap();
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let s = Statistics::of(&[&run.trace]);
        assert!(s.error.rms_us < 80.0, "seed {seed}: {} µs RMS", s.error.rms_us);
    }
}
