//! The disturbance: what happens to the clock whatever the process does.
//!
//! Written as comma-separated settings, for example
//! `epoch=1767225600000000000,offset=3s,rate=80ppm,toggle=500ppm/3ms,steps=1ms..1s/700ms,seed=7`:
//!
//! * `epoch`: host time in Unix ns from which all else is counted. Before it there is none.
//! * `offset`: added from the epoch on.
//! * `rate`: the clock gains this much.
//! * `toggle`: a slew by that rate whose sign changes every so often.
//! * `steps`: in each such interval, at a moment of its own, the clock jumps to a new offset with
//!   a magnitude between the two, either way.
//! * `seed`: of the steps.

use crate::ahead::Ahead;

/// A parsed disturbance. All zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    epoch_ns: i64,
    offset_ns: i64,
    rate_ppb: i64,
    toggle: Option<Toggle>,
    steps: Option<Steps>,
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Toggle {
    ppb: i64,
    every_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Steps {
    smallest_ns: i64,
    largest_ns: i64,
    every_ns: i64,
}

impl Schedule {
    /// Reads the settings, or says which of them makes no sense.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let mut schedule = Schedule::default();
        for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            schedule.set(setting).ok_or_else(|| format!("cannot make sense of `{setting}`"))?;
        }
        Ok(schedule)
    }

    fn set(&mut self, setting: &str) -> Option<()> {
        let (key, value) = setting.split_once('=')?;
        match key {
            "epoch" => self.epoch_ns = value.parse().ok()?,
            "offset" => self.offset_ns = nanos(value)?,
            "rate" => self.rate_ppb = ppb(value)?,
            "seed" => self.seed = value.parse().ok()?,
            "toggle" => {
                let (rate, every) = value.split_once('/')?;
                self.toggle = Some(Toggle { ppb: ppb(rate)?, every_ns: interval(every)? });
            }
            "steps" => {
                let (range, every) = value.split_once('/')?;
                let (smallest, largest) = range.split_once("..")?;
                let (smallest_ns, largest_ns) = (interval(smallest)?, interval(largest)?);
                if smallest_ns > largest_ns {
                    return None;
                }
                self.steps = Some(Steps { smallest_ns, largest_ns, every_ns: interval(every)? });
            }
            _ => return None,
        }
        Some(())
    }

    /// The disturbance at host time `real_ns` (Unix ns).
    #[must_use]
    pub fn at(&self, real_ns: i64) -> Ahead {
        let since = real_ns.saturating_sub(self.epoch_ns);
        if since < 0 {
            return Ahead::default();
        }
        let toggled = self.toggle.map_or(0, |toggle| toggle.offset_after(since));
        let stepped = self.steps.map_or(0, |steps| steps.offset_after(since, self.seed));
        Ahead { slewed: scaled(since, self.rate_ppb) + toggled, stepped: self.offset_ns + stepped }
    }
}

impl Toggle {
    /// A triangle: up for one interval, down again in the next.
    fn offset_after(self, since: i64) -> i64 {
        let phase = since % self.every_ns.saturating_mul(2);
        scaled(if phase < self.every_ns { phase } else { 2 * self.every_ns - phase }, self.ppb)
    }
}

impl Steps {
    fn offset_after(self, since: i64, seed: u64) -> i64 {
        let interval = since / self.every_ns;
        // The step of each interval comes somewhere in its first half.
        let moment = (mix(seed ^ 1, interval) % (self.every_ns.unsigned_abs() / 2).max(1)) as i64;
        let stepped = since % self.every_ns >= moment;
        self.level(if stepped { interval } else { interval - 1 }, seed)
    }

    /// The offset that the step of this interval leads to; every power of two between the limits
    /// is as likely as any other.
    fn level(self, interval: i64, seed: u64) -> i64 {
        if interval < 0 {
            return 0;
        }
        let draw = mix(seed, interval);
        let ratio = self.largest_ns as f64 / self.smallest_ns as f64;
        let magnitude = self.smallest_ns as f64 * ratio.powf((draw >> 1) as f64 / 2f64.powi(63));
        if draw & 1 == 0 { magnitude as i64 } else { -(magnitude as i64) }
    }
}

/// `ns` · `ppb` / 10⁹.
fn scaled(ns: i64, ppb: i64) -> i64 {
    (i128::from(ns) * i128::from(ppb)).div_euclid(1_000_000_000) as i64
}

/// A random number that depends on both arguments only (splitmix64's finaliser).
fn mix(seed: u64, n: i64) -> u64 {
    let mut x = seed.wrapping_add((n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn nanos(text: &str) -> Option<i64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(number.len()..)? {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

fn interval(text: &str) -> Option<i64> {
    nanos(text).filter(|&ns| ns > 0)
}

fn ppb(text: &str) -> Option<i64> {
    match text.strip_suffix("ppb") {
        Some(number) => number.parse().ok(),
        None => text.strip_suffix("ppm")?.parse::<i64>().ok()?.checked_mul(1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: i64 = 1_767_225_600_000_000_000;
    const SECOND: i64 = 1_000_000_000;

    impl Schedule {
        fn offset_at(&self, real_ns: i64) -> i64 {
            self.at(real_ns).total()
        }
    }

    fn schedule(settings: &str) -> Schedule {
        Schedule::parse(&format!("epoch={EPOCH},{settings}")).unwrap()
    }

    #[test]
    fn offset_and_rate_add_up_from_the_epoch() {
        let s = schedule("offset=3s,rate=80ppm");
        let after_a_second = Ahead { slewed: 80_000, stepped: 3 * SECOND };
        assert_eq!(s.at(EPOCH + SECOND), after_a_second);
        assert_eq!(s.offset_at(EPOCH - 1), 0);
        assert_eq!(s.offset_at(EPOCH), 3 * SECOND);
        assert_eq!(s.offset_at(EPOCH + 100 * SECOND), 3 * SECOND + 8_000_000);
    }

    #[test]
    fn toggling_never_leaves_its_triangle_nor_exceeds_its_rate() {
        let s = schedule("toggle=500ppm/3ms");
        let mut before = 0;
        for step in 0..100_000 {
            let now = s.offset_at(EPOCH + step * 1_000);
            assert!((0..=1_500).contains(&now), "{now}");
            assert!((now - before).abs() <= 1, "a jump at step {step}");
            before = now;
        }
        assert_eq!(s.offset_at(EPOCH + 3_000_000), 1_500);
        assert_eq!(s.offset_at(EPOCH + 6_000_000), 0);
    }

    #[test]
    fn one_step_an_interval_within_its_range() {
        let s = schedule("steps=1ms..1s/100ms,seed=5");
        let mut levels = Vec::new();
        for millis in 0..10_000 {
            let level = s.offset_at(EPOCH + millis * 1_000_000);
            if levels.last() != Some(&level) {
                levels.push(level);
            }
        }
        assert!((100..=101).contains(&levels.len()), "{}", levels.len());
        assert!(levels.iter().skip(1).all(|l| (1_000_000..=SECOND).contains(&l.abs())));
        assert!(levels.iter().any(|&l| l > 0) && levels.iter().any(|&l| l < 0));
    }

    #[test]
    fn nonsense_is_named() {
        for bad in
            ["offset", "offset=3", "rate=1s", "toggle=1ppm", "steps=2s..1s/1s", "toggle=1ppm/0s"]
        {
            assert_eq!(Schedule::parse(bad), Err(format!("cannot make sense of `{bad}`")));
        }
        assert_eq!(Schedule::parse(""), Ok(Schedule::default()));
    }
}
