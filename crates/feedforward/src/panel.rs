//! What several ideas of the path say together.
//!
//! On most paths some packets meet no queue at all, and the fastest are worth most: the floor under
//! the delays is *sharp*. On some (radio links, several queues in a row) hardly any packet does;
//! the floor is *blurred*, and many ordinary packets are worth more than a few stragglers. And
//! where requests and replies wait *alike*, their middle is worth most however long the queue.
//!
//! Each is believed as far as it foretold what came. One that is left behind takes over the clock
//! of the others.

use crate::accounts::Accounts;
use crate::bank::{Bank, Belief, Seen};
use crate::even::Even;
use crate::filter::Known;
use crate::parts::Parts;
use crate::past::INTERVAL;
use crate::trend::Trend;

/// Logarithm of how likely a blurred floor is beforehand, beside a sharp one ...
const SOFT_PRIOR: f64 = -2.0;
/// ... and that what counts is how alike the queues are, beside either.
const EVEN_PRIOR: f64 = -6.0;
/// While round trips change steadily, floors have a say only if so many exchanges came without
/// (an hour at 16 s): else nothing tells the clock's rate from a queue that grows.
const PROVEN: u32 = 256;
/// Memory of which of them foretold better, exchanges.
const MEMORY: f64 = 64.0;
/// However badly a blurred floor foretold, it is soon believed again if it does better.
const SOFT_MOST: f64 = 8.0;
/// What a single exchange says of it at most. Some in a row must agree: on the most blurred of
/// paths one packet or two look sharp now and then; and that something has happened on a sharp path
/// is the price of either idea, which only one of them has paid at first.
const SOFT_STEP: f64 = 2.0;
/// What floors of this path usually are is remembered for so many exchanges: an hour at 16 s.
const USUALLY: f64 = 256.0;
/// The same for like queues; and how much a single exchange may say of them. Several must agree.
const EVEN_MOST: f64 = 12.0;
const EVEN_STEP: f64 = 1.0;
/// Within so many exchanges a shift is the one that has been told.
const SAME_SHIFT: u32 = 16;
/// The logarithm of the odds of what is left out.
const NEVER: f64 = -100.0;
/// From here on one of two ideas is certain ...
const SURE: f64 = 5.0;
/// ... and the other follows it, if their clocks are so many standard deviations apart.
const APART: f64 = 6.0;
/// ... or if it knows so many times less: it may be anywhere by the time that it is believed again.
const VAGUE: f64 = 100.0;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    sharp: Accounts,
    soft: Accounts,
    even: Even,
    /// Logarithms of how much likelier the blurred floor is than the sharp one, and like queues
    /// than either.
    soft_log: f64,
    even_log: f64,
    /// The former as it usually is.
    usually_soft: f64,
    noise: [f64; 2],
    parts: Parts,
    /// Exchanges since the path was last said to have shifted.
    since_shift: u32,
    trend: Trend,
    /// How many exchanges came while round trips did not change steadily.
    calm: u32,
    /// Round trips change steadily, and too little is known from before.
    doubtful: bool,
    /// For how long they have not, and the filters have been the same, s.
    certain_for: f64,
    /// How far our rate may stray, if steps of the server are to be told from that.
    strays: Option<f64>,
    now: Belief,
}

impl Panel {
    /// Knows so much before the first exchange; `noise` is that of either direction's stamps, s.
    pub(crate) fn new(
        theta: Known,
        rate: Known,
        floor: Known,
        noise: [f64; 2],
        parts: Parts,
    ) -> Panel {
        let bank = |soft| Accounts::new(Bank::new(theta, rate, floor, noise, soft, parts));
        let sharp = bank(false);
        Panel {
            now: sharp.now(),
            sharp,
            soft: bank(true),
            even: Even::new(theta, rate, floor, noise),
            soft_log: SOFT_PRIOR,
            even_log: EVEN_PRIOR,
            usually_soft: SOFT_PRIOR,
            noise,
            parts,
            since_shift: SAME_SHIFT,
            trend: Trend::new(),
            calm: 0,
            doubtful: false,
            certain_for: 0.0,
            strays: None,
        }
    }

    /// What is known now.
    pub(crate) fn now(&self) -> &Belief {
        &self.now
    }

    /// Steps of the server are to be told from what our clock does, whose rate may stray so far.
    pub(crate) fn hold_out(&mut self, strays: Option<f64>) {
        self.strays = strays;
    }

    /// Moves on by `dt` seconds, to the arrival of the next exchange.
    pub(crate) fn predict(&mut self, dt: f64) {
        self.certain_for = if self.trend.steady() { 0.0 } else { self.certain_for + dt };
        self.even.predict(dt);
        self.each(|bank| bank.predict(dt));
    }

    /// Takes in an exchange that has just arrived, and whose round trip exceeds the smallest of
    /// late by `excess` seconds (negative: it is smaller); the rate is known to `slack`. What comes
    /// back is the change of the round trip's floor, s, if it has shifted.
    pub(crate) fn take(&mut self, seen: Seen, slack: f64, excess: f64) -> Option<f64> {
        self.trend.push(seen.late.iter().sum::<f64>() + self.now.rate * seen.duration);
        let steady = self.trend.steady();
        self.calm = self.calm.saturating_add(u32::from(!steady));
        self.doubtful = steady && self.calm < PROVEN && self.parts.like_queues;
        let sharp = self.soft_log < 0.0;
        // Where floors are blurred, queues that are alike count, or nothing is certain, floors do
        // not tell. Now and then some packets in a row look sharp on the most blurred of paths, so
        // it takes more than what is likely just now.
        let blurred = self.soft_log >= SOFT_STEP || self.usually_soft >= 0.0;
        let tells = !blurred && self.even_log < 0.0 && !self.doubtful;
        let steps = self.strays.filter(|_| tells);
        self.sharp.each(|bank| bank.expect(sharp, steps));
        self.soft.each(|bank| bank.expect(false, steps));
        let soft_leads = self.soft_log > 0.0;
        let shift = self.banks(soft_leads).0.take(seen, slack);
        if self.ahead().is_some() {
            // What the server says is nothing to learn from.
            self.combine();
            return None;
        }
        let other_shift = self.banks(soft_leads).1.take(seen, slack);
        let better = (self.soft.evidence() - self.sharp.evidence()).clamp(-SOFT_STEP, SOFT_STEP);
        let log = self.soft_log + (SOFT_PRIOR - self.soft_log) / MEMORY + better;
        self.soft_log = if self.parts.blurred { log.clamp(-SOFT_MOST, SOFT_MOST) } else { NEVER };
        self.usually_soft += (self.soft_log - self.usually_soft) / USUALLY;
        // Later on a floor is renewed by what the old one forgot, and teaches nothing new.
        let early = self.doubtful || !self.sharp.best().started();
        self.even.take(seen, if early { excess } else { excess.max(0.0) });
        let best = if self.soft_log > 0.0 { &self.soft } else { &self.sharp };
        let better = (self.even.evidence() - best.evidence()).clamp(-EVEN_STEP, EVEN_STEP);
        let log = self.even_log + (EVEN_PRIOR - self.even_log) / MEMORY + better;
        self.even_log =
            if self.parts.like_queues { log.clamp(-EVEN_MOST, EVEN_MOST) } else { NEVER };
        self.follow(seen, slack);
        self.combine();
        // One of the two may see it first; the other's word is no news then.
        self.since_shift = self.since_shift.saturating_add(1);
        let shift = shift.or(other_shift).filter(|_| self.since_shift > SAME_SHIFT)?;
        self.since_shift = 0;
        Some(shift)
    }

    /// How far ahead the server is, s, if its time has moved.
    pub(crate) fn ahead(&self) -> Option<f64> {
        let ((a, by), (b, other)) = (self.sharp.ahead(), self.soft.ahead());
        let soft = share(self.soft_log);
        let (a, b) = (a * (1.0 - soft), b * soft);
        (a + b > 0.5).then(|| (a * by + b * other) / (a + b))
    }

    /// The server is believed, which is `by` ahead: floors and laws stay.
    pub(crate) fn go_ahead(&mut self, by: f64) {
        let variance = self.sharp.ahead_variance().or(self.soft.ahead_variance()).unwrap_or(0.0);
        for accounts in [&mut self.sharp, &mut self.soft] {
            accounts.settle();
            accounts.each(|bank| bank.go_ahead(by, variance));
        }
        self.even.go_ahead(by, variance);
        self.combine();
    }

    /// Whether what is known of the last 1000 s is as good as what is known of now: round trips did
    /// not change steadily, so that a queue that grows is no drift of the clock, and no filter is
    /// new.
    pub(crate) fn knows_past(&self) -> bool {
        self.certain_for >= INTERVAL
    }

    /// See [`Bank::refute`].
    pub(crate) fn refute(&mut self, by: f64, slack: f64) {
        self.even.refute(by, slack);
        self.each(|bank| bank.refute(by, slack));
    }

    /// The offset is less by `by`, and the path shared otherwise: no measurement shows the
    /// difference.
    pub(crate) fn turn(&mut self, by: f64) {
        self.even.turn(by);
        self.each(|bank| bank.turn(by));
    }

    /// The exchange to come is with another server, over another path. θ is `theta` by its
    /// standard, or none if it stays what it was; the floors are its own in any case.
    pub(crate) fn begin_path(&mut self, seen: Seen, theta: Option<Known>) {
        let (was, rate) = (self.now.theta, self.now.rate);
        let rtt = (seen.late[0] + seen.late[1] + rate * seen.duration).max(0.0);
        let floor = |late: f64| Known {
            mean: late,
            deviation: late.abs() / 4.0 + self.noise[0] + self.noise[1],
        };
        let floors = match theta {
            Some(_) => [floor(rtt / 2.0); 2],
            None => [floor(seen.late[0] + rate * seen.duration - was), floor(seen.late[1] + was)],
        };
        let noise = self.noise;
        for accounts in [&mut self.sharp, &mut self.soft] {
            accounts.settle();
            accounts.each(|bank| bank.begin_path(floors, theta, noise, rtt));
        }
        self.even.begin_path(rtt, theta, noise);
        (self.soft_log, self.even_log) = (SOFT_PRIOR, EVEN_PRIOR);
        self.usually_soft = SOFT_PRIOR;
        (self.trend, self.calm, self.doubtful, self.since_shift) = (Trend::new(), 0, false, 0);
        self.combine();
    }

    /// See [`Bank::confine`].
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        self.even.confine(low, high);
        self.each(|bank| bank.confine(low, high));
    }

    /// See [`Bank::lost`]. Exchanges beyond all reason may also have led out of what a double
    /// holds.
    pub(crate) fn lost(&self) -> bool {
        let Belief { theta, rate, theta_var, rate_var, .. } = self.now;
        if ![theta, rate, theta_var, rate_var].iter().all(|x| x.is_finite()) {
            return true;
        }
        if self.soft_log > 0.0 { self.soft.best().lost() } else { self.sharp.best().lost() }
    }

    /// The one whose word counts, and the other.
    fn banks(&mut self, soft_leads: bool) -> (&mut Accounts, &mut Accounts) {
        match soft_leads {
            false => (&mut self.sharp, &mut self.soft),
            true => (&mut self.soft, &mut self.sharp),
        }
    }

    fn each(&mut self, mut f: impl FnMut(&mut Bank)) {
        self.sharp.each(&mut f);
        self.soft.each(&mut f);
        self.combine();
    }

    /// Whoever is left behind goes on from the other's clock.
    fn follow(&mut self, seen: Seen, slack: f64) {
        self.turn_the_other();
        let (floored, even) = (self.floored(), self.even.now());
        let apart = (floored.theta - even.theta).abs();
        let sure = self.doubtful || self.even_log > SURE;
        let vague = sure && floored.theta_var > VAGUE * VAGUE * even.theta_var;
        if !vague && apart <= APART * libm::sqrt(floored.theta_var + even.theta_var) {
            return;
        }
        if self.even_log < -SURE && !sure {
            self.even.follow(&floored);
        } else if sure && self.sharp.best().started() {
            let known = |mean, variance| Known { mean, deviation: 2.0 * libm::sqrt(variance) };
            let rtt = (seen.late.iter().sum::<f64>() + even.rate * seen.duration).max(0.0);
            let floor = Known { mean: rtt / 2.0, deviation: rtt / 4.0 };
            for (bank, soft) in [(&mut self.sharp, false), (&mut self.soft, true)] {
                let theta = known(even.theta, even.theta_var);
                let rate = known(even.rate, even.rate_var);
                let anew = Bank::new(theta, rate, floor, self.noise, soft, self.parts);
                *bank = Accounts::new(anew);
                let _ = bank.take(seen, slack);
            }
            // They have no past yet.
            self.certain_for = 0.0;
        }
    }

    /// Of the two that know floors, the one that surely is the worse may have taken for floors what
    /// the clock did. Its packets do not tell the difference: it is where the other has it.
    fn turn_the_other(&mut self) {
        let (sharp, soft) = (self.sharp.now(), self.soft.now());
        let by = sharp.theta - soft.theta;
        if by.abs() <= APART * libm::sqrt(sharp.theta_var + soft.theta_var) {
            return;
        }
        if self.soft_log > SURE {
            self.sharp.each(|bank| bank.turn(by));
        } else if self.soft_log < -SURE {
            self.soft.each(|bank| bank.turn(-by));
        }
    }

    /// What the two that know floors say.
    fn floored(&self) -> Belief {
        let soft = share(self.soft_log);
        let both = [(1.0 - soft, self.sharp.now()), (soft, self.soft.now())];
        Belief::mixed(both.into_iter())
    }

    fn combine(&mut self) {
        if self.ahead().is_some() {
            self.now = self.floored();
            return;
        }
        let (floored, mut even) = (self.floored(), self.even.now());
        even.floors = floored.floors;
        let share = if self.doubtful { 1.0 } else { share(self.even_log) };
        self.now = Belief::mixed([(1.0 - share, floored), (share, even)].into_iter());
    }
}

/// The probability that belongs to the logarithm of the odds.
fn share(log: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-log))
}
