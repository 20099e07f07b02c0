//! Events: what else may have happened than queues and noise, weighed by posterior odds.
//!
//! An exchange that a hypothesis did not foretell is tried with each event that may have happened
//! just before it: the path became shorter or longer, queues had hidden the floor so far, the
//! server's time moved, was right again or began to wander, or the oscillator changed. Each is a
//! hypothesis of its own from then on, and is believed as far as it foretells what comes
//! (multiple-hypothesis tracking, Reid 1979). How likely each event is beforehand is a matter of its
//! rate ([`Constants`]).

use arrayvec::ArrayVec;

use crate::Sample;
use crate::constants::{Constants, ENOUGH, SURE};
use crate::further::Reply;
use crate::gaussian::{ALIKE, FLOORS, Gaussian, OFFSET, RATE, SERVER, STATES, unit};
use crate::hypothesis::{Event, FEW, Hypothesis, PATIENCE, QUIET, WINDOW, sums};

/// Hypotheses kept at most.
const MOST: usize = 6;
/// Changes that differ by less than this share are by the same amount: as far as a floor behind queues is known when
/// it is told.
const AS_MUCH: f64 = 0.25;
/// A day, s.
const DAY: f64 = 86400.0;

/// Hypotheses, the likeliest first.
type Hypotheses = ArrayVec<Hypothesis, MOST>;

/// Adds one, if it is among the likeliest. Together with another one that differs from it in nothing
/// that matters it takes one place.
fn insert(all: &mut Hypotheses, mut one: Hypothesis) {
    if let Some(k) = all.iter().position(|o| are_alike(o.filter.now(), one.filter.now())) {
        let other = all.remove(k);
        let log = either(other.log, one.log);
        one = if other.log > one.log { other } else { one };
        one.log = log;
    }
    let place = all.iter().position(|other| one.log > other.log).unwrap_or(all.len());
    if place < MOST {
        if all.is_full() {
            all.pop();
        }
        all.insert(place, one);
    }
}

/// Another floor of round trips, for certain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// New floor − old, s.
    pub by: f64,
    /// True if that tells of another route: a longer one. A shorter round trip may as well show what queues had
    /// hidden; and what changes by the same amount again within a day is a habit: a queue that stands now and then,
    /// a link that sleeps.
    pub is_route: bool,
}

/// Hypotheses of one source. There is always one, once [`Events::begin`] was called.
#[derive(Clone, Default, Debug)]
pub struct Events {
    all: Hypotheses,
    /// Exchanges since anything was proposed.
    quiet: usize,
    /// Newest changes of the floor, the newest last: by how much, s, and how long ago, s.
    changes: ArrayVec<(f64, f64), FEW>,
}

/// Innovation of an exchange by one hypothesis, before it takes that in.
struct Innovation {
    /// Measurement − its mean, s, by direction; positive: late.
    by: [f64; 2],
    /// Which directions are earlier than they may be.
    early: [bool; 2],
    /// Lateness of each beyond doubt, s.
    late: [f64; 2],
    /// Round trip − its floor, s, and whether it is shorter than it may be.
    trip: f64,
    short: bool,
}

impl Innovation {
    fn of(h: &Hypothesis, sample: &Sample, c: &Constants) -> Innovation {
        let law = h.filter.now();
        let (mut by, mut deviation) = ([0.0; 2], [0.0; 2]);
        for (d, sum) in sums(sample.duration).iter().enumerate().filter(|(d, _)| sample.has(*d)) {
            let known = law.project(sum);
            by[d] = sample.above[d] - known.mean;
            deviation[d] = c.early * libm::sqrt(known.variance + h.noise);
        }
        let floors = law.project(&ALIKE);
        let trip = sample.trip(law.x[RATE]).map_or(0.0, |trip| trip - floors.mean);
        let noise = floors.variance + 2.0 * h.noise;
        Innovation {
            by,
            early: [0, 1].map(|d| by[d] < -deviation[d]),
            late: [0, 1].map(|d| by[d] - deviation[d]),
            trip,
            short: trip < -c.early * libm::sqrt(noise),
        }
    }

    fn is_early(&self) -> bool {
        self.early[0] || self.early[1]
    }
}

/// Makes the hypotheses that an exchange suggests beside `parent`.
struct Proposal<'a> {
    parent: &'a Hypothesis,
    sample: &'a Sample,
    /// Time since the exchange before, s.
    gap: f64,
    seen: &'a Innovation,
    c: &'a Constants,
    new: &'a mut Hypotheses,
}

impl Proposal<'_> {
    /// The event has changed the states, at this cost (logarithm of its probability).
    fn add(&mut self, event: Event, cost: f64, change: impl Fn(&mut Gaussian)) {
        if !self.is_asked(event) {
            return;
        }
        let mut child = *self.parent;
        child.filter.each(change);
        child.age = 0;
        child.late = [[0.0; 2]; WINDOW];
        // Whatever else happens, a server that has moved is where it should not be.
        let told = event == Event::None;
        if !self.parent.is_servers() || told {
            if self.parent.event != event {
                child.witness = [0.0; 2];
            }
            child.event = event;
            child.before = self.parent.floors();
        }
        if event == Event::Wander {
            child.wander = child.filter.now().p[SERVER][SERVER];
        }
        child.log += cost;
        child.update(self.sample, self.c);
        insert(self.new, child);
    }

    fn is_asked(&self, event: Event) -> bool {
        let asked = &self.c.asked;
        match event {
            Event::None => true,
            Event::Path => asked.path,
            Event::Floor => asked.floor,
            Event::Server => asked.server,
            Event::Wander => asked.wander,
            Event::Oscillator => asked.oscillator,
        }
    }

    /// Logarithm of the probability that an event of this rate, 1/day, has happened since the
    /// exchange before.
    fn rare(&self, rate: f64) -> f64 {
        libm::log(rate * self.gap / DAY)
    }

    /// Floors have changed by about these, s, each by itself; or both alike.
    fn path(&mut self, each: [f64; 2], alike: Option<f64>) {
        let cost = self.rare(self.c.change);
        self.add(Event::Path, cost, |law| {
            for d in 0..2 {
                law.inflate(&unit(FLOORS[d]), each[d] * each[d]);
            }
        });
        if let Some(alike) = alike {
            self.add(Event::Path, cost, |law| law.inflate(&ALIKE, alike * alike));
        }
    }

    /// Adds all that may have made packets earlier than they can be: the oscillator's rate may change
    /// by `strays` by its promise; moves of the `server` are looked for or not.
    fn too_early(&mut self, strays: f64, server: bool) {
        let Innovation { by, early, trip, short, .. } = *self.seen;
        let each = [0, 1].map(|d| if early[d] || short { by[d] } else { 0.0 });
        self.path(each, (short || early[0] && early[1]).then_some(trip / 2.0));
        for d in [0, 1].into_iter().filter(|d| early[*d] && !early[1 - d]) {
            self.hidden_floor(d, by[d]);
        }
        // Neither a clock nor a server makes a round trip shorter.
        if short {
            return;
        }
        let early = by[0].min(by[1]);
        let has_moved = self.parent.event == Event::Server;
        if server && self.parent.event != Event::Wander {
            self.server(early, has_moved);
            if !has_moved {
                // Or it wanders; or the path is shared now so, now otherwise.
                let cost = self.rare(self.c.change);
                self.add(Event::Wander, cost, |law| law.inflate(&unit(SERVER), early * early));
            }
        }
        // Of a server that has moved the oscillator learns nothing.
        if !has_moved {
            self.oscillator(-early, strays);
        }
    }

    /// Queues had hidden the floor of direction `d` so far: what was taken for it is shared by both
    /// directions and the offset. One of n packets is the fastest by chance, and mostly by little.
    fn hidden_floor(&mut self, d: usize, by: f64) {
        let (n, idle) = (self.parent.laws[d].count, self.parent.idle(self.c));
        // Two waits of one law have a ratio x with the density 1/(1 + x)².
        let large = 2.0 * libm::log(1.0 - by / idle);
        let mut shared = ALIKE.map(|x| x / 2.0);
        shared[OFFSET] = if d == 0 { 0.5 } else { -0.5 };
        let cost = -libm::log(n) - n / QUIET as f64 - large;
        self.add(Event::Floor, cost, |law| law.inflate(&shared, by * by));
    }

    /// The rate has changed so that a packet is this early, s. Changes are exponential; their mean
    /// is what the oscillator promises.
    fn oscillator(&mut self, early: f64, strays: f64) {
        let Proposal { gap, .. } = *self;
        let times = (early / (strays * gap)).max(1.0);
        let by = times * strays;
        self.add(Event::Oscillator, self.rare(self.c.change) + 1.0 - times, |law| {
            law.inflate(&unit(RATE), by * by);
            law.inflate(&unit(OFFSET), by * by * gap * gap / 3.0);
        });
    }

    /// The server's time has moved by about so much, s, and perhaps not for the first time.
    fn server(&mut self, by: f64, again: bool) {
        let cost = if again { libm::log(self.c.law_change) } else { self.rare(self.c.server) };
        // Floors that are blurred, or that grow, are no witnesses.
        let still = self.parent.filter.share(|mode| !mode.blurred && mode.tide == 0);
        let cost = cost + libm::log(still.max(f64::MIN_POSITIVE));
        self.add(Event::Server, cost, |law| law.inflate(&unit(SERVER), by * by));
    }

    /// A server that had moved is right again; one that wandered does so by no more than packets wait.
    fn undone(&mut self) {
        let law = self.parent.filter.now();
        let (x, p) = (law.x[SERVER], law.p[SERVER][SERVER]);
        let back = self.seen.is_early() || x * x < self.c.early * self.c.early * p;
        let idle = self.parent.idle(self.c);
        let is_calm = self.parent.wander < idle * idle;
        let maybe = match self.parent.event {
            Event::Server => back,
            Event::Wander => is_calm && self.parent.age.is_multiple_of(PATIENCE),
            _ => false,
        };
        if maybe {
            self.add(Event::None, -libm::log(QUIET as f64), |law| law.replace(SERVER, 0.0, 0.0));
        }
    }

    /// The path has become longer, if this exchange and those before it were all late: four by much,
    /// or more of them by less. That n waits are all longer than x typical ones has the probability e⁻ⁿˣ.
    fn too_late(&mut self) {
        if !self.c.asked.longer {
            return;
        }
        let idle = [0, 1].map(|d| self.parent.laws[d].idle(self.c));
        for count in [FEW, WINDOW] {
            let least = SURE / count as f64;
            let before = &self.parent.late[..count - 1];
            let each = [0, 1].map(|d| {
                let late = before.iter().map(|late| late[d]).fold(self.seen.late[d], f64::min);
                if late > least * idle[d] { late } else { 0.0 }
            });
            if each[0] + each[1] > 0.0 {
                let both = each[0] > 0.0 && each[1] > 0.0;
                self.path(each, both.then_some((each[0] + each[1]) / 2.0));
                return;
            }
        }
    }
}

impl Events {
    /// Nothing has happened yet. In place: hypotheses are large, and small machines have small stacks.
    pub fn begin(&mut self, first: Hypothesis) {
        self.all.clear();
        self.all.push(first);
        self.quiet = 0;
        self.changes.clear();
    }

    /// The likeliest.
    pub fn best(&self) -> &Hypothesis {
        &self.all[0]
    }

    /// Does the same to the states of all.
    pub fn each(&mut self, mut f: impl FnMut(&mut Gaussian)) {
        self.all.iter_mut().for_each(|h| h.filter.each(&mut f));
    }

    /// Moves on by `dt` seconds.
    pub fn predict(&mut self, dt: f64, c: &Constants) {
        self.changes.iter_mut().for_each(|(_, ago)| *ago += dt);
        self.all.iter_mut().for_each(|h| h.predict(dt, c));
    }

    /// Only the likeliest is left, and its event is taken for granted.
    pub fn settle(&mut self) {
        self.all.truncate(1);
        (self.all[0].event, self.all[0].log) = (Event::None, 0.0);
    }

    /// Settles on the likeliest by which the server has moved, if there is one.
    pub fn settle_moved(&mut self) {
        if self.all.iter().any(|h| h.event == Event::Server) {
            self.all.retain(|h| h.event == Event::Server);
        }
        self.settle();
    }

    /// States, all hypotheses together.
    pub fn now(&self) -> Gaussian {
        if let [one] = self.all.as_slice() {
            return *one.filter.now();
        }
        Gaussian::mixture(self.all.iter().map(|h| (libm::exp(h.log), h.filter.now())))
    }

    /// Distance by which the server is ahead, s, if it has moved more likely than not.
    pub fn ahead(&self) -> Option<f64> {
        let moved = self.all.iter().filter(|h| h.event == Event::Server);
        let sum: f64 = moved.map(|h| libm::exp(h.log) * h.filter.now().x[SERVER]).sum();
        let share = self.share(|h| h.event == Event::Server);
        (share > 0.5).then(|| sum / share)
    }

    /// True if it is beyond doubt that the server has moved: a change of one direction's path looks
    /// like that, but for the other direction.
    pub fn has_moved(&self, c: &Constants) -> bool {
        // Those that are out of the question may have had as much as that takes.
        libm::exp(-SURE) + self.share(|h| !h.is_witnessed(c)) < libm::exp(-c.hold)
    }

    /// Probability of all hypotheses that are `such`, together.
    fn share(&self, such: impl Fn(&Hypothesis) -> bool) -> f64 {
        self.all.iter().filter(|h| such(h)).map(|h| libm::exp(h.log)).sum()
    }

    /// Takes in an exchange. Returns the change of the round trip's floor once that is certain.
    /// `gap` is the time since the one before, s; for the rest see [`Model::take`](crate::Model).
    pub fn take(
        &mut self,
        sample: &Sample,
        gap: f64,
        strays: f64,
        server: bool,
        c: &Constants,
    ) -> Option<Change> {
        let mut new = Hypotheses::new();
        let gap = gap.max(1.0);
        for parent in &mut self.all {
            let seen = Innovation::of(parent, sample, c);
            let mut proposal = Proposal { parent, sample, gap, seen: &seen, c, new: &mut new };
            if seen.is_early() || seen.short {
                proposal.too_early(strays, server);
            }
            proposal.undone();
            proposal.too_late();
            parent.late.rotate_right(1);
            parent.late[0] = seen.late;
            parent.update(sample, c);
        }
        self.quiet = if new.is_empty() { self.quiet.saturating_add(1) } else { 0 };
        self.sort();
        new.drain(..).for_each(|one| insert(&mut self.all, one));
        self.prune(c);
        self.path_changed()
    }

    /// Takes in replies between exchanges, each as the part `worth` of one. A server that has moved teaches
    /// nothing by them; nor do they belong to what has begun since.
    pub fn between(&mut self, replies: &[Reply], worth: f64, c: &Constants) {
        let is_old = |h: &&mut Hypothesis| h.event == Event::None || h.age > 1;
        let all = self.all.iter_mut().filter(|h| h.event != Event::Server).filter(is_old);
        all.for_each(|h| h.between(replies, worth, c));
    }

    fn path_changed(&mut self) -> Option<Change> {
        let is_pending = |h: &Hypothesis| h.event == Event::Path;
        let share = self.share(is_pending);
        let best = self.all.first().filter(|h| is_pending(h))?;
        if 1.0 - share > libm::exp(-ENOUGH) || best.age < FEW - 1 {
            return None;
        }
        let by = best.filter.now().project(&ALIKE).mean - best.before;
        for h in self.all.iter_mut().filter(|h| is_pending(h)) {
            h.event = Event::None;
        }
        let is_habit = |(other, ago): &(f64, f64)| {
            *ago < DAY && (other.abs() - by.abs()).abs() < AS_MUCH * by.abs()
        };
        let is_route = by > 0.0 && !self.changes.iter().any(is_habit);
        if self.changes.is_full() {
            self.changes.remove(0);
        }
        self.changes.push((by, 0.0));
        Some(Change { by, is_route })
    }

    /// Leaves those that are not out of the question, and lets them be certain together.
    fn prune(&mut self, c: &Constants) {
        let top = self.all[0].log;
        if self.quiet >= QUIET {
            self.all.truncate(1);
        }
        // The likeliest stays even if it is no number: the estimator begins again then.
        let mut first = true;
        self.all.retain(|h| core::mem::take(&mut first) || h.log >= top - SURE);
        // What has not shown itself by now has not happened: no event if nothing explains as much, and
        // no server's if a path does.
        let simple: [fn(&Hypothesis) -> bool; 2] =
            [|h| h.event == Event::None, |h| !h.is_servers()];
        for is_simple in simple {
            let share = |all: bool| -> f64 {
                let some = self.all.iter().filter(|h| all || is_simple(h));
                some.map(|h| libm::exp(h.log - top)).sum()
            };
            if share(false) > libm::exp(-c.told) * share(true) {
                self.all.retain(|h| is_simple(h) || h.age < PATIENCE);
            }
        }
        let unproven = |h: &&mut Hypothesis| {
            h.event == Event::Server && h.age >= PATIENCE && !h.is_witnessed(c)
        };
        self.all.iter_mut().filter(unproven).for_each(Hypothesis::blame_path);
        self.merge();
        if let [one] = self.all.as_mut_slice()
            && matches!(one.event, Event::Floor | Event::Oscillator)
        {
            // It is how things are now: a later event has to be told from that.
            one.event = Event::None;
        }
        let top = self.all[0].log;
        let sum: f64 = self.all.iter().map(|h| libm::exp(h.log - top)).sum();
        let norm = top + libm::log(sum);
        self.all.iter_mut().for_each(|h| h.log -= norm);
    }

    /// Makes one of those that differ in nothing that matters.
    fn merge(&mut self) {
        let mut k = 1;
        while k < self.all.len() {
            let law = self.all[k].filter.now();
            match self.all[..k].iter().position(|other| are_alike(other.filter.now(), law)) {
                Some(one) => {
                    self.all[one].log = either(self.all[one].log, self.all[k].log);
                    self.all.remove(k);
                }
                None => k += 1,
            }
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.all.sort_unstable_by(|a, b| b.log.total_cmp(&a.log));
    }
}

/// Logarithm of the sum of two probabilities, given theirs.
fn either(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    top + libm::log(libm::exp(a - top) + libm::exp(b - top))
}

/// True if two laws are within half a standard deviation of each other in every state.
fn are_alike(a: &Gaussian, b: &Gaussian) -> bool {
    (0..STATES).all(|i| {
        let by = a.x[i] - b.x[i];
        by * by <= 0.25 * a.p[i][i].min(b.p[i][i])
    })
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec::Vec;

    use super::*;
    use crate::delay::{Law, fitted};
    use crate::{Known, Model, Noise, States};

    /// Exchanges before anything changes in [`Seen`].
    const BEFORE: usize = 300;

    /// Response of the model to a change.
    struct Seen {
        /// Change of offset and floors at the end, s.
        offset: f64,
        floors: [f64; 2],
        /// Distance by which the server is ahead at the end, s.
        ahead: Option<f64>,
        /// Held off or not, by exchange since the change.
        held: Vec<bool>,
        /// Changes of the path that were told, s.
        told: Vec<f64>,
    }

    /// Exchanges 16 s apart, 120 of them once what requests and replies take has changed by `by`, s; by a
    /// quarter of that at first. Requests wait for `queue` s on the average, replies for 3 µs; where in their
    /// sequences the waits begin is the `phase`.
    fn changed(by: [f64; 2], queue: f64, phase: usize) -> Seen {
        let c = Constants::DEFAULT;
        let known = |mean, deviation| Known { mean, deviation };
        let (offset, rate) = (known(0.0, 1e-3), known(0.0, 1e-6));
        let mut model = Model::new(offset, rate, known(10e-3, 5e-3), Noise::of(0.3e-6), c);
        let (mut held, mut told) = (Vec::new(), Vec::new());
        let mut before = States::default();
        for k in 0..BEFORE + 120 {
            let share = [0.0, 0.25, 1.0][usize::from(k >= BEFORE) + usize::from(k > BEFORE)];
            // Exponential delays by two sequences that fill an interval evenly.
            let wait = |step: f64| -libm::log(1.0 - libm::fmod(step * (k + phase + 1) as f64, 1.0));
            let request = 10e-3 + share * by[0] + queue * wait(0.618_033_988_75);
            let reply = 10e-3 + share * by[1] + 3e-6 * wait(0.414_213_562_37);
            if k > 0 {
                model.predict(16.0);
            }
            if k == BEFORE {
                before = *model.now();
                assert_eq!(told, [], "nothing has happened yet");
            }
            let sample = Sample { above: [request, reply], duration: request + reply };
            told.extend(model.take(sample, 0.6e-6, true).map(|change| change.by));
            let is_held = model.has_moved();
            if k < BEFORE {
                assert!(!is_held, "nothing has happened yet: {k}");
            } else {
                held.push(is_held);
            }
        }
        let now = model.now();
        let floors = [0, 1].map(|d| now.floors[d] - before.floors[d]);
        Seen { offset: now.offset - before.offset, floors, ahead: model.ahead(), held, told }
    }

    /// True if both are as far as `wanted` within 10 µs.
    fn near(is: [f64; 2], wanted: [f64; 2]) -> bool {
        (0..2).all(|d| (is[d] - wanted[d]).abs() < 10e-6)
    }

    #[test]
    fn a_server_has_moved_where_both_directions_say_so() {
        for phase in (0..500).step_by(100) {
            for by in [600e-6, -600e-6] {
                let Seen { offset, floors, ahead, held, told } = changed([by, -by], 30e-6, phase);
                let why = alloc::format!("{by} {phase}: {offset} {floors:?} {ahead:?} {told:?}");
                assert!(held[1..].iter().all(|held| *held), "from the second on: {why} {held:?}");
                assert!(ahead.is_some_and(|ahead| (ahead - by).abs() < 5e-6), "{why}");
                assert!(offset.abs() < 5e-6 && near(floors, [0.0; 2]) && told.is_empty(), "{why}");
            }
        }
    }

    #[test]
    fn one_direction_by_itself_is_the_path_that_has_changed() {
        // Half of a shorter way may have been an offset from the start.
        for (by, is_offset) in [(-600e-6, 300e-6), (600e-6, 0.0)] {
            for phase in (0..500).step_by(100) {
                let Seen { offset, floors, ahead, held, told } = changed([0.0, by], 3e-3, phase);
                let why = alloc::format!("{by} {phase}: {offset} {floors:?} {told:?}");
                assert!(held.iter().all(|held| !held) && ahead.is_none(), "{why} {held:?}");
                assert!((offset - is_offset).abs() < 10e-6, "{why}");
                assert!(near(floors, [-is_offset, by + is_offset]), "{why}");
                // A floor that had been hidden is no change.
                let right = told.iter().filter(|told| (**told - by).abs() < 30e-6).count();
                assert!(right == told.len() && right == usize::from(by > 0.0), "{why}");
            }
        }
    }

    #[test]
    fn a_step_that_one_direction_says_more_of_becomes_its_floor() {
        let c = Constants::DEFAULT;
        let law = Law::new(fitted(core::iter::empty(), 1e-3, &c), 0);
        let states = Gaussian::new([0.0, 0.0, 1e-3, 1e-3, 0.2e-3], [1e-6; STATES]);
        for (witness, floors) in [([30.0, 1.0], [1.2e-3, 1e-3]), ([1.0, 30.0], [1e-3, 0.8e-3])] {
            let mut one = Hypothesis { witness, ..Hypothesis::new(states, [law; 2], 1e-12, &c) };
            one.blame_path();
            let x = one.filter.now().x;
            assert_eq!((one.event, x[SERVER]), (Event::None, 0.0));
            assert!((0..2).all(|d| (x[FLOORS[d]] - floors[d]).abs() < 1e-9), "{witness:?}: {x:?}");
        }
    }

    #[test]
    fn whoever_is_believed_is_ahead_by_what_the_hypotheses_of_that_say() {
        let c = Constants::DEFAULT;
        let law = Law::new(fitted(core::iter::empty(), 1e-3, &c), 0);
        let one = |event, ahead, share: f64| {
            let states = Gaussian::new([0.0, 0.0, 1e-3, 1e-3, ahead], [1e-6; STATES]);
            Hypothesis {
                event,
                log: libm::log(share),
                ..Hypothesis::new(states, [law; 2], 1e-12, &c)
            }
        };
        let all =
            [(Event::None, 0.0, 0.45), (Event::Server, 2e-3, 0.3), (Event::Server, 1e-3, 0.25)];
        let all = all.into_iter().map(|(event, by, share)| one(event, by, share)).collect();
        let mut events = Events { all, ..Events::default() };
        for _ in 0..2 {
            events.settle_moved();
            let ahead = events.best().filter.now().x[SERVER];
            assert!((ahead - 2e-3).abs() < 1e-9, "{ahead}");
            assert_eq!(events.best().event, Event::None, "it has happened");
        }
    }
}
