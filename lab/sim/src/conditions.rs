//! Effects of a scenario on the promise of the bound, and what of it a shortened run never reaches.

use crate::oscillator::{Oscillator, OscillatorSpec};
use crate::path::{PathSpec, When};
use crate::scenario::Scenario;
use crate::server::{ServerSpec, is_absent};

/// Largest relative error of the counter's nominal rate (docs/explanation/bound.md, condition 2).
const RATE: f64 = 500e-6;
/// The rate is looked at so often, s.
const LOOK: f64 = 60.0;
/// Over how many looks the oscillator's recent mean is taken there: minutes to 2.8 hours.
const RECENT: [usize; 5] = [5, 15, 30, 60, LONGEST];
const LONGEST: usize = 168;
/// Number of standard deviations that counts as never.
const NEVER: f64 = 4.0;

impl Scenario {
    /// Which of the conditions of the bound do not hold all the time, in words; none: the truth
    /// must be inside it in every second.
    #[must_use]
    pub fn broken_conditions(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let honest = self.honest_voters();
        // Of a pool whichever are followed; who is silent from the start has no vote that it could keep.
        let silent = || self.absences().iter().filter(|absences| is_absent(absences, 0.0)).count();
        let followed = self.pool.map_or(honest.len(), |size| {
            (size as usize).min(honest.len()).saturating_sub(silent())
        });
        let wrong = honest.iter().filter(|honest| !**honest).count();
        if wrong > 0 && wrong * 2 >= followed {
            broken.push("a server is wrong by more than it claims, and no majority is not".into());
        } else if !self.has_honest_word() {
            let text = "a server is wrong by more than it claims, and for a while no majority of those \
                        that answer is not";
            broken.push(text.into());
        }
        if self.leaps_unannounced() {
            let text = "a leap second comes that neither a list nor a majority of the servers, honest \
                        ones, announces";
            broken.push(text.into());
        }
        if !self.servers.iter().all(|server| server.is_as_declared()) {
            broken.push("an asymmetry is declared that the path has not".into());
        }
        if !self.pulses.iter().all(|pulse| pulse.is_harmless()) {
            broken.push("a pulse is off by more than its latency, and may be believed".into());
        }
        if self.host.jumps.iter().any(|jump| jump.raw_too) {
            broken.push("the counter jumps and nothing in the machine shows it".into());
        } else if !self.is_unbroken() {
            let text =
                "the counter breaks; until the daemon looks, for up to a second, nobody knows";
            broken.push(text.into());
        }
        broken.extend(self.broken_by_oscillator());
        broken
    }

    /// True if a majority of the servers that answer is honest, all the time. Who is wrong once has
    /// a say all the time: the word of a server that falls silent counts on for an hour, ever
    /// wider, and so agrees with whomever; then it counts no more, as long as others speak.
    pub(crate) fn has_honest_word(&self) -> bool {
        let honest = self.honest_voters();
        let wrong = honest.iter().filter(|honest| !**honest).count();
        let right = self.absences();
        // Fewest answer at the beginning of somebody's absence.
        let begins = right.iter().flatten().map(|(from, _)| *from);
        let length = self.hours * 3600.0;
        wrong == 0
            || begins
                .chain([0.0])
                .filter(|t| *t < length)
                .all(|t| right.iter().filter(|absences| !is_absent(absences, t)).count() > wrong)
    }

    /// Times at which the honest ones of those that vote do not answer.
    fn absences(&self) -> Vec<Vec<(f64, f64)>> {
        let most = self.changes.iter().filter_map(|change| change.poll);
        let most = most.chain(self.adaptive.map(|[_, high]| high)).max().unwrap_or(0);
        let voters = self.servers.iter().zip(self.voters()).filter(|(_, votes)| *votes);
        let honest = voters.map(|(server, _)| server).zip(self.honest_voters());
        let honest = honest.filter(|(_, honest)| *honest);
        honest.map(|(s, _)| s.absences(s.poll.unwrap_or(self.poll).max(most).into())).collect()
    }

    /// True if a leap second comes of which the daemon can learn neither by a list nor for sure by
    /// the servers.
    pub(crate) fn leaps_unannounced(&self) -> bool {
        let length = self.hours * 3600.0;
        let comes = self.leap_second().is_some_and(|leap| leap.at < length);
        let voters = self.servers.iter().zip(self.voters()).filter(|(_, votes)| *votes);
        let servers = voters.map(|(server, _)| server).zip(self.honest_voters());
        let announce = servers.clone().filter(|(s, honest)| *honest && s.announces && !s.smears);
        comes && !self.leap_list && announce.count() * 2 <= servers.count()
    }

    /// Condition 2: the rate, and how far it strays from its recent mean.
    fn broken_by_oscillator(&self) -> Option<String> {
        let spec = &self.oscillator;
        let max_wander = self.max_wander_ppm * 1e-6;
        let longest = LONGEST as f64 * LOOK;
        if NEVER * spec.walk_per_root_s * libm::sqrt(longest / 3.0) > max_wander {
            return Some("the oscillator walks further than max-wander-ppm".into());
        }
        let quiet = OscillatorSpec {
            walk_per_root_s: 0.0,
            white_frequency_at_1s: 0.0,
            flicker_phase_at_1s: 0.0,
            white_phase_at_1s: 0.0,
            ..spec.clone()
        };
        let mut oscillator = Oscillator::new(&quiet, 0);
        // What it had gained at each look, the newest last.
        let mut gained: Vec<f64> = Vec::new();
        for n in 0..=(self.hours * 3600.0 / LOOK) as u64 {
            let t = n as f64 * LOOK;
            let (rate, now) = (oscillator.skew_at(t), oscillator.phase_at(t));
            if rate.abs() > RATE {
                return Some("the counter is more than 500 ppm from its nominal rate".into());
            }
            for looks in RECENT {
                let before = gained.len().checked_sub(looks).and_then(|then| gained.get(then));
                let strays = |then: &f64| {
                    let mean = (now - then) / (looks as f64 * LOOK);
                    (rate - mean).abs() > max_wander
                };
                if before.is_some_and(strays) {
                    return Some("the oscillator strays further than max-wander-ppm".into());
                }
            }
            gained.push(now);
        }
        None
    }

    /// When those of the things that happen in it begin that lie after its end, as when it was
    /// shortened; hours.
    #[must_use]
    pub fn not_reached(&self) -> Vec<f64> {
        let begin = self.beginnings().into_iter().map(|at| at / 3600.0);
        begin.filter(|at| *at >= self.hours).collect()
    }

    /// When everything begins that happens at a time of its own, s.
    fn beginnings(&self) -> Vec<f64> {
        let mut all: Vec<f64> = Vec::new();
        all.extend(self.leap.map(|leap| (leap.midnight - self.begin) as f64));
        all.extend(self.changes.iter().map(|c| c.at_s));
        all.extend(self.restarts.iter().map(|r| r.at_s));
        all.extend(self.oscillator.ramps.iter().map(|r| r.from_s));
        all.extend(self.oscillator.steps.iter().map(|s| s.at_s));
        let host = &self.host;
        all.extend(host.loads.iter().map(|l| l.from_s));
        all.extend(host.suspends.iter().map(|s| s.from_s));
        all.extend(host.jumps.iter().map(|j| j.at_s));
        all.extend(host.request_delays.iter().map(|d| d.from_s));
        all.extend(self.pulses.iter().flat_map(|pulse| pulse.beginnings()));
        for server in &self.servers {
            all.extend(server.addresses.iter().map(|a| a.from_s));
            server.machines().for_each(|machine| all.extend(of_server(machine)));
        }
        all
    }
}

fn of_server(server: &ServerSpec) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    all.extend(server.steps.iter().map(|s| s.at_s));
    all.extend(server.ramps.iter().map(|r| r.from_s));
    all.extend(server.lies.iter().map(|l| l.from_s));
    all.extend(server.restarts.iter().map(|r| r.at_s));
    all.extend(server.silences.iter().map(|s| s.from_s));
    all.extend(server.refusals.iter().map(|r| r.from_s));
    all.extend(beginnings(&server.forward));
    all.extend(beginnings(&server.backward));
    all
}

fn beginnings(path: &PathSpec) -> Vec<f64> {
    let queue = |when: When| match when {
        When::Always | When::Daily { .. } => None,
        When::Bursts { first_s, .. } => Some(first_s),
        When::Between { from_s, .. } | When::Ramp { from_s, .. } => Some(from_s),
    };
    let queues = path.queues.iter().filter_map(|q| queue(q.when));
    let shifts = path.shifts.iter().filter(|s| s.by_ms != 0.0).map(|s| s.at_s);
    queues.chain(shifts).chain(path.outages.iter().map(|o| o.from_s)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{catalogue, find};

    #[test]
    fn conditions_are_broken_where_something_breaks_them() {
        for (name, says) in [
            ("server-step-150ms", "wrong by more than it claims"),
            ("counter-jump-hidden", "nothing in the machine shows"),
            ("suspend-stops-counter", "the counter breaks"),
            ("oscillator-step-1ppm", "strays further"),
        ] {
            let broken = find(name).unwrap().broken_conditions();
            assert!(broken.iter().any(|b| b.contains(says)), "{name}: {broken:?}");
        }
        for name in ["lan", "wan", "temperature", "liar-of-three", "suspend", "outage"] {
            assert_eq!(find(name).unwrap().broken_conditions(), Vec::<String>::new(), "{name}");
        }
        let with = |change: fn(&mut Scenario)| {
            let mut scenario = find("lan").unwrap();
            change(&mut scenario);
            scenario.broken_conditions()
        };
        let unannounced = |s: &mut Scenario| s.servers[0].announces = false;
        let mut leap = find("leap-second-announced").unwrap();
        assert_eq!(leap.broken_conditions(), Vec::<String>::new());
        unannounced(&mut leap);
        assert!(leap.broken_conditions()[0].contains("nor a majority"));
        assert!(!leap.must_hold());
        leap.leap_list = true;
        assert_eq!(leap.broken_conditions(), Vec::<String>::new());
        assert!(with(|s| s.oscillator.walk_per_root_s = 1e-8)[0].contains("walks"));
        assert!(with(|s| s.oscillator.skew_ppm = -600.0)[0].contains("500 ppm"));
        assert!(with(|s| s.max_wander_ppm = 0.05)[0].contains("walks"));
    }

    #[test]
    fn who_says_nothing_is_no_part_of_a_majority() {
        let file = |more: &str| {
            let head =
                "name = \"mine\"\n[[server]]\nname = \"a\"\n[[server]]\nname = \"b\"\n[[server]]\n";
            Scenario::from_toml(&format!("{head}name = \"c\"\n{more}")).unwrap()
        };
        let lie = "[[server.lie]]\nfrom-s = 50000\nto-s = 60000\nby-ms = 3\n";
        let rest = "[[server]]\nname = \"d\"\n[[server.silence]]\nfrom-s = 9\nto-s = 90\n";
        assert!(file(lie).must_hold());
        assert!(file(&format!("{lie}{rest}")).must_hold(), "two of three say what is right");
        for gone in [
            "[[server.silence]]\nfrom-s = 9\nto-s = 90\n",
            "[[server.restart]]\nat-s = 9\nsilent-s = 9\n",
            "[[server.refuse]]\nfrom-s = 9\nto-s = 90\ncode = \"DENY\"\n",
            "[[server.lapse]]\nfrom-s = 9\nlost-s = 9\nsilent-s = 9\nppm = 1\nclaimed-ppm = 1\n",
            "[[server.backward.outage]]\nfrom-s = 9\nto-s = 90\n",
        ] {
            let alone = format!("[[server]]\nname = \"d\"\n{gone}[[server]]\nname = \"e\"\n{lie}");
            let scenario = file(&format!("{lie}{alone}"));
            assert_eq!(scenario.honest().iter().filter(|honest| **honest).count(), 3);
            let broken = scenario.broken_conditions();
            assert!(broken[0].contains("that answer"), "{gone}: {broken:?}");
            assert!(!scenario.must_hold(), "{gone}");
        }
        // A silence of who is right does no harm where nobody is wrong.
        assert!(file("[[server.silence]]\nfrom-s = 9\nto-s = 90\n").must_hold());
    }

    /// Of three that are followed, one that is silent later keeps its vote until another has answered; one that is silent
    /// from the start never had one.
    #[test]
    fn who_is_silent_from_the_start_is_no_part_of_a_pools_majority() {
        let of = |from_s: u32| {
            let mut text = "name = \"mine\"\npool = 3\n".to_owned();
            for name in ["a", "b", "c", "d", "e"] {
                text += &format!("[[server]]\nname = {name:?}\n");
                match name {
                    "a" => text += &format!("[[server.silence]]\nfrom-s = {from_s}\nto-s = 9000\n"),
                    "b" => text += "[[server.lie]]\nfrom-s = 500\nto-s = 600\nby-ms = 3\n",
                    _ => {}
                }
            }
            Scenario::from_toml(&text).unwrap()
        };
        assert!(of(400).must_hold(), "{:?}", of(400).broken_conditions());
        assert!(of(0).broken_conditions()[0].contains("no majority is not"));
    }

    #[test]
    fn a_shortened_scenario_says_what_it_misses() {
        for scenario in catalogue() {
            assert!(scenario.not_reached().is_empty(), "{}", scenario.name);
        }
        let outage = find("outage").unwrap().with_hours(6.0).unwrap();
        assert_eq!(outage.not_reached().len(), 2, "both directions");
        let shift = find("shift-up-forward").unwrap().with_hours(6.0).unwrap();
        assert_eq!(shift.not_reached().len(), 1);
    }
}
