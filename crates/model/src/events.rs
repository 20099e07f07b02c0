//! Events: what else may have happened than queues and noise, weighed by posterior odds.
//!
//! A packet that the likeliest hypothesis did not foretell is tried with each event that may have
//! happened just before it: the path changed, the server's time moved, the oscillator changed, or
//! what an earlier event did was undone. Each is a hypothesis of its own from then on and is
//! believed as far as it foretells what comes. The rates of events say how likely each is
//! beforehand.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use alloc::vec::Vec;

use crate::Sample;
use crate::constants::Constants;
use crate::gaussian::{ALIKE, FLOORS, Gaussian, OFFSET, RATE, SERVER, STATES, unit};
use crate::hypothesis::{Event, Hypothesis, WINDOW, sums};

/// Hypotheses kept at most.
const MOST: usize = 6;
/// Exchanges within which a path that changed is not thought to have changed again.
const SETTLING: u32 = 16;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Events {
    /// The likeliest first.
    all: Vec<Hypothesis>,
    /// Exchanges since anything was proposed.
    quiet: u32,
}

impl Events {
    pub fn new(first: Hypothesis) -> Events {
        Events { all: alloc::vec![first], quiet: 0 }
    }

    pub fn all(&self) -> &[Hypothesis] {
        &self.all
    }

    pub fn best(&self) -> &Hypothesis {
        &self.all[0]
    }

    pub fn each(&mut self, mut f: impl FnMut(&mut Gaussian)) {
        self.all.iter_mut().for_each(|h| h.filter.each(&mut f));
    }

    pub fn predict(&mut self, dt: f64, c: &Constants) {
        self.all.iter_mut().for_each(|h| h.predict(dt, c));
    }

    /// Only the likeliest is left, and its event is taken for granted.
    pub fn settle(&mut self) {
        self.all.truncate(1);
        self.all[0].event = Event::None;
        self.all[0].log = 0.0;
    }

    pub fn now(&self) -> Gaussian {
        if self.all.len() == 1 {
            return self.all[0].filter.now();
        }
        let laws: Vec<(f64, Gaussian)> =
            self.all.iter().map(|h| (libm::exp(h.log), h.filter.now())).collect();
        Gaussian::mixture(laws.iter().map(|(w, law)| (*w, law)))
    }

    /// How far ahead the server is, if it has moved more likely than not.
    pub fn ahead(&self) -> Option<f64> {
        let (mut share, mut sum) = (0.0, 0.0);
        for h in self.all.iter().filter(|h| h.event == Event::Server) {
            let w = libm::exp(h.log);
            share += w;
            sum += w * h.filter.now().x[SERVER];
        }
        (share > 0.5).then(|| sum / share)
    }

    pub fn take(&mut self, sample: &Sample, strays: f64, server: bool, c: &Constants) -> Option<f64> {
        let mut new: Vec<Hypothesis> = Vec::new();
        for i in 0..self.all.len() {
            let latest = self.propose(&self.all[i], sample, (strays, server), &mut new, c);
            let h = &mut self.all[i];
            h.late.rotate_right(1);
            h.late[0] = latest;
            let _ = h.update(sample, c);
        }
        self.quiet = if new.is_empty() { self.quiet.saturating_add(1) } else { 0 };
        self.all.append(&mut new);
        self.prune(c);
        self.path_changed()
    }

    /// The change of the round trip's floor, s, once it is certain that the path has changed.
    fn path_changed(&mut self) -> Option<f64> {
        let pending = |h: &&Hypothesis| h.event == Event::Path;
        let share: f64 = self.all.iter().filter(pending).map(|h| libm::exp(h.log)).sum();
        let best = self.all.first().filter(pending)?;
        if share < 0.99 || best.age < 3 {
            return None;
        }
        let by = floors(best) - (best.before[0] + best.before[1]);
        for h in self.all.iter_mut().filter(|h| h.event == Event::Path) {
            h.event = Event::None;
        }
        Some(by)
    }

    fn propose(
        &self,
        h: &Hypothesis,
        sample: &Sample,
        (strays, server): (f64, bool),
        new: &mut Vec<Hypothesis>,
        c: &Constants,
    ) -> [f64; 2] {
        let law = h.filter.now();
        let idle = h.idle(c);
        let (mut by, mut early, mut latest) = ([0.0; 2], [false; 2], [0.0; 2]);
        for (d, sum) in sums(sample.duration).iter().enumerate() {
            let known = law.project(sum);
            by[d] = sample.above[d] - known.mean;
            let deviation = libm::sqrt(known.variance + h.laws[d].noise);
            early[d] = by[d] < -c.early * deviation;
            latest[d] = by[d] - c.early * deviation;
        }
        let rtt = law.project(&ALIKE);
        let trip = sample.above[0] + sample.above[1] + law.x[RATE] * sample.duration - rtt.mean;
        let short = trip < -c.early * libm::sqrt(rtt.variance + h.laws[0].noise + h.laws[1].noise);
        let begins = |event: Event, cost: f64, change: &dyn Fn(&mut Gaussian)| {
            let mut child = *h;
            child.filter.each(|law| change(law));
            child.age = 0;
            child.late = [[0.0; 2]; WINDOW];
            // What a server that has moved does besides leaves it where it should not be.
            if h.event != Event::Server || matches!(event, Event::Oscillator | Event::None) {
                child.event = event;
                child.before = FLOORS.map(|i| law.x[i]);
            }
            child.log += cost;
            let _ = child.update(sample, c);
            child
        };
        let any_early = early[0] || early[1];
        let square = |x: f64| x * x;
        if any_early || short {
            let changed = [0, 1].map(|d| if early[d] || short { square(by[d]) } else { 0.0 });
            new.push(begins(Event::Path, c.path, &|law| {
                for d in 0..2 {
                    law.p[FLOORS[d]][FLOORS[d]] += changed[d];
                }
            }));
        }
        if early[0] && early[1] || short {
            let both = square(trip / 2.0);
            new.push(begins(Event::Path, c.path, &|law| law.inflate(&ALIKE, both)));
        }
        if any_early && !short {
            let most = square(by[0].min(by[1]));
            if server {
                // Floors that are blurred, or that grow, are no witnesses.
                let sharp = (1.0 - h.filter.blurred()) * (1.0 - h.filter.tide());
                let cost = if h.event == Event::Server { c.server_again } else { c.server };
                let cost = cost + c.witness * libm::log(sharp.max(1e-9));
                new.push(begins(Event::Server, cost, &|law| law.inflate(&unit(SERVER), most)));
            }
            let dt = h.filter.gap.max(1.0);
            new.push(begins(Event::Oscillator, c.oscillator, &|law| {
                law.inflate(&unit(RATE), square(strays));
                law.inflate(&unit(OFFSET), square(strays * dt) / 3.0);
            }));
        }
        let ahead = law.x[SERVER] * law.x[SERVER];
        if h.event == Event::Server && (any_early || ahead < square(c.early) * law.p[SERVER][SERVER]) {
            let child = begins(Event::None, c.undone, &|law| law.replace(SERVER, 0.0, 0.0));
            new.push(child);
        }
        let least = [0, 1].map(|d| h.late.iter().map(|l| l[d]).fold(latest[d], f64::min));
        let late = least.map(|least| least > c.late * idle);
        let young = self.all.iter().any(|h| h.event == Event::Path && h.age < SETTLING);
        if (late[0] || late[1]) && !any_early && !young {
            let changed = [0, 1].map(|d| if late[d] { square(least[d]) } else { 0.0 });
            new.push(begins(Event::Path, c.path, &|law| {
                for d in 0..2 {
                    law.p[FLOORS[d]][FLOORS[d]] += changed[d];
                }
            }));
            if late[0] && late[1] {
                let both = square((least[0] + least[1]) / 2.0);
                new.push(begins(Event::Path, c.path, &|law| law.inflate(&ALIKE, both)));
            }
        }
        latest
    }

    /// What differs in nothing that matters is one.
    fn merge(&mut self) {
        let laws: Vec<Gaussian> = self.all.iter().map(|h| h.filter.now()).collect();
        let mut kept: Vec<usize> = Vec::new();
        for i in 0..self.all.len() {
            match kept.iter().find(|k| alike(&laws[**k], &laws[i])) {
                Some(k) => self.all[*k].log = either(self.all[*k].log, self.all[i].log),
                None => kept.push(i),
            }
        }
        let mut i = 0;
        self.all.retain(|_| {
            i += 1;
            kept.contains(&(i - 1))
        });
        self.all.sort_by(|a, b| b.log.total_cmp(&a.log));
    }

    fn prune(&mut self, c: &Constants) {
        self.all.sort_by(|a, b| b.log.total_cmp(&a.log));
        let top = self.all[0].log;
        self.all.truncate(if f64::from(self.quiet) >= c.patience { 1 } else { MOST });
        let mut first = true;
        self.all.retain(|h| core::mem::take(&mut first) || h.log >= top - c.sure);
        if self.all[0].log < top + c.told && self.all.len() > 1 {
            // What has not been told apart by now never will be: nothing has happened.
            let old = |h: &Hypothesis| h.event != Event::None && f64::from(h.age) >= c.patience;
            if self.all.iter().any(|h| !old(h)) && self.all[1].log > top - c.told {
                self.all.retain(|h| !old(h));
            }
        }
        self.merge();
        let top = self.all[0].log;
        let sum: f64 = self.all.iter().map(|h| libm::exp(h.log - top)).sum();
        let norm = top + libm::log(sum);
        self.all.iter_mut().for_each(|h| h.log -= norm);
    }
}

/// Logarithm of the sum of two probabilities.
fn either(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    top + libm::log(libm::exp(a - top) + libm::exp(b - top))
}

/// Whether two laws say the same.
fn alike(a: &Gaussian, b: &Gaussian) -> bool {
    (0..STATES).all(|i| {
        let by = a.x[i] - b.x[i];
        by * by <= 0.25 * a.p[i][i].min(b.p[i][i])
    })
}

fn floors(h: &Hypothesis) -> f64 {
    let law = h.filter.now();
    law.x[FLOORS[0]] + law.x[FLOORS[1]]
}
