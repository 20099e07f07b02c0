//! Several accounts of what has just happened.
//!
//! A packet that came too early has more than one explanation, and often the first such packet fits
//! all of them: that 10 µs are missing may be a shorter path or a clock that has gone astray. Who
//! decides at once and decides wrongly explains all that follows by a wrong floor. So each account
//! that is not out of the question is kept, in a bank of its own that learns from the exchanges to
//! come as if it were right, and is believed as far as it foretold them. What a clock does grows
//! from exchange to exchange; what a path does stays, and shows in round trips. So one account soon
//! stands alone.

use alloc::vec;
use alloc::vec::Vec;

use crate::bank::{Bank, Belief, Seen};

/// So many are kept at most: each further early packet may add some to every one of them.
const MOST: usize = 6;
/// The logarithm of the odds from which on an account is out of the question.
const SURE: f64 = 10.0;
/// After so many exchanges without a surprise the likeliest is left alone: what has not told them
/// apart by then (an offset, and a direction that differs by as much) never will.
const PATIENCE: u32 = 16;
/// Whether it is the server that has moved, or the clock that drifts, shows as long as it does.
const OPEN: u32 = 256;

/// A bank, and the logarithm of how likely it is.
#[derive(Clone, Debug)]
struct Account {
    bank: Bank,
    log: f64,
    /// What of it was taken off as our oscillator would have strayed.
    debt: f64,
}

impl Account {
    /// Takes in an exchange. What comes back is a shift that it has seen, see [`Bank::take`], and
    /// what else may have happened by this account.
    fn take(&mut self, seen: Seen, slack: f64) -> (Option<f64>, impl Iterator<Item = Account>) {
        let before = self.log;
        let (shift, others) = self.bank.take(seen, slack);
        self.log = before + self.bank.evidence();
        let debt = self.debt;
        let other = move |bank: Bank| Account { log: before + bank.evidence(), bank, debt };
        (shift, others.into_iter().map(other))
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    best: Account,
    /// The others, the likelier first.
    others: Vec<Account>,
    /// Exchanges since the last surprise.
    quiet: u32,
    /// Logarithm of how likely the newest exchange was.
    evidence: f64,
}

impl Accounts {
    /// As long as nothing happens there is one.
    pub(crate) fn new(bank: Bank) -> Accounts {
        let evidence = bank.evidence();
        Accounts {
            best: Account { bank, log: 0.0, debt: 0.0 },
            others: Vec::new(),
            quiet: 0,
            evidence,
        }
    }

    /// The likeliest.
    pub(crate) fn best(&self) -> &Bank {
        &self.best.bank
    }

    /// What is known now.
    pub(crate) fn now(&self) -> Belief {
        if self.others.is_empty() {
            return self.best.bank.now();
        }
        let all = core::iter::once(&self.best).chain(&self.others);
        Belief::mixed(all.map(|account| (libm::exp(account.log), account.bank.now())))
    }

    /// Logarithm of how likely the newest exchange was, 0 at the start.
    pub(crate) fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Nothing is open any more: the likeliest stands alone.
    pub(crate) fn settle(&mut self) {
        self.others.clear();
        self.best.log = 0.0;
    }

    /// Does the same to all of them.
    pub(crate) fn each(&mut self, mut f: impl FnMut(&mut Bank)) {
        f(&mut self.best.bank);
        self.others.iter_mut().for_each(|account| f(&mut account.bank));
    }

    /// How well it is known how far ahead the server is, s², if anybody holds that it is.
    pub(crate) fn ahead_variance(&self) -> Option<f64> {
        let mut all = core::iter::once(&self.best).chain(&self.others);
        all.find_map(|account| account.bank.ahead_variance())
    }

    /// How likely it is that the server has moved, and how far ahead it is then, s.
    pub(crate) fn ahead(&self) -> (f64, f64) {
        let all = core::iter::once(&self.best).chain(&self.others);
        let moved = all.filter_map(|account| Some((libm::exp(account.log), account.bank.ahead()?)));
        let (share, sum) = moved.fold((0.0, 0.0), |(w, sum), (v, by)| (w + v, sum + v * by));
        (share, if share > 0.0 { sum / share } else { 0.0 })
    }

    /// Takes in an exchange that has just arrived; the rate is known to `slack`. What comes back is
    /// the change of the round trip's floor, s, if it has shifted.
    pub(crate) fn take(&mut self, seen: Seen, slack: f64) -> Option<f64> {
        let (shift, new) = self.best.take(seen, slack);
        let mut new: Vec<Account> = new.collect();
        for account in &mut self.others {
            new.extend(account.take(seen, slack).1);
        }
        self.quiet = if new.is_empty() { self.quiet.saturating_add(1) } else { 0 };
        self.others.append(&mut new);
        self.charge();
        self.prune();
        shift
    }

    /// An oscillator hardly goes further than it may: where the server may have moved, accounts
    /// that would have the clock go there are the less likely the further it went.
    fn charge(&mut self) {
        let all = core::iter::once(&self.best).chain(&self.others);
        let suspects = all.filter(|account| account.bank.suspects());
        let Some(steady) = suspects.max_by(|a, b| a.log.total_cmp(&b.log)) else { return };
        let steady = steady.bank.without_past();
        for account in core::iter::once(&mut self.best).chain(&mut self.others) {
            let debt = account.bank.strayed_from(&steady);
            account.log -= debt - account.debt;
            account.debt = debt;
        }
    }

    /// Drops what will never be told apart from something likelier. Whether it is the server that
    /// has moved, or the clock that drifts, shows as long as it does.
    fn keep_the_telling(&mut self) {
        let all = core::iter::once(&self.best).chain(&self.others);
        if self.quiet >= OPEN || !all.clone().any(|account| account.bank.suspects()) {
            self.others.clear();
            return;
        }
        let mut kept = vec![self.best.bank.now()];
        self.others.retain(|account| {
            let now = account.bank.now();
            let tells = kept.iter().all(|other| now.is_apart(other));
            if tells {
                kept.push(now);
            }
            tells
        });
    }

    /// Puts the likeliest first, drops those that are out of the question, and lets the rest
    /// together be certain.
    fn prune(&mut self) {
        self.others.sort_by(|a, b| b.log.total_cmp(&a.log));
        if let Some(first) = self.others.first_mut()
            && first.log > self.best.log
        {
            core::mem::swap(first, &mut self.best);
        }
        let top = self.best.log;
        if self.quiet >= PATIENCE {
            self.keep_the_telling();
        }
        self.others.truncate(MOST - 1);
        self.others.retain(|account| account.log >= top - SURE);
        let beside: f64 = self.others.iter().map(|account| libm::exp(account.log - top)).sum();
        self.evidence = top + libm::log(1.0 + beside);
        self.best.log -= self.evidence;
        self.others.iter_mut().for_each(|account| account.log -= self.evidence);
        if self.others.is_empty() {
            // Whatever it is that it did not foretell, there is nothing else.
            self.best.log = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Known;
    use crate::parts::Parts;

    const POLL: f64 = 16.0;
    const FLOOR: f64 = 100e-6;

    /// A path of exponential queues of 10 µs (quantiles, out of order), and what is known of it
    /// after an hour and a half.
    struct World {
        accounts: Accounts,
        count: u32,
    }

    impl World {
        fn new() -> World {
            let known = |mean, deviation| Known { mean, deviation };
            let (theta, rate) = (known(0.0, 50e-6), known(0.0, 1e-6));
            let floor = known(FLOOR, FLOOR / 2.0);
            let mut bank = Bank::new(theta, rate, floor, [0.3e-6; 2], false, Parts::ALL);
            bank.expect(true, Some(0.5e-6));
            let mut world = World { accounts: Accounts::new(bank), count: 0 };
            for k in 0..340 {
                if k > 0 {
                    world.accounts.each(|bank| bank.predict(POLL));
                }
                let queues = world.queues();
                world.see(0.0, queues, 0.0);
            }
            world
        }

        fn queues(&mut self) -> [f64; 2] {
            self.count += 1;
            [2_654_435_761u32, 2_246_822_519].map(|by| {
                let share = f64::from(self.count.wrapping_mul(by) >> 16) / 65536.0;
                -10e-6 * libm::log(1.0 - share)
            })
        }

        fn see(&mut self, theta: f64, queues: [f64; 2], shorter: f64) {
            let late = [theta + FLOOR - shorter + queues[0], -theta + FLOOR - shorter + queues[1]];
            let _ = self.accounts.take(Seen { late, duration: 1e-3 }, 0.5e-6);
        }

        /// Takes in one more, where θ is `theta`, and every delay `shorter` than it was.
        fn next(&mut self, theta: f64, queues: [f64; 2], shorter: f64) {
            self.accounts.each(|bank| bank.predict(POLL));
            self.see(theta, queues, shorter);
        }
    }

    /// The first packet is 9 µs early in one direction, and the other has met a queue: it says
    /// nothing of what is shorter, or whether it is the clock.
    const FIRST: [f64; 2] = [6e-6, 30e-6];
    const SHORTER: f64 = 15e-6;

    #[test]
    fn the_exchanges_to_come_tell_a_shorter_path() {
        let mut world = World::new();
        assert!(world.accounts.others.is_empty());
        world.next(0.0, FIRST, SHORTER);
        assert!(!world.accounts.others.is_empty(), "it is not certain what has happened");
        for _ in 0..40 {
            let queues = world.queues();
            world.next(0.0, queues, SHORTER);
            let theta = world.accounts.now().theta;
            assert!(theta.abs() < 25e-6, "{theta}");
        }
        assert!(world.accounts.others.is_empty());
        let Belief { theta, floors, .. } = world.accounts.now();
        assert!(theta.abs() < 5e-6, "{theta}");
        assert!(floors.iter().all(|floor| (floor - FLOOR + SHORTER).abs() < 5e-6), "{floors:?}");
    }

    #[test]
    fn a_server_that_moves_does_not_move_the_clock() {
        for ahead in [60e-6, -90e-6] {
            let mut world = World::new();
            let mut see = |ahead: f64, count: usize| {
                for _ in 0..count {
                    let [forward, backward] = world.queues();
                    world.next(0.0, [forward + ahead, backward - ahead], 0.0);
                    let Belief { theta, floors, .. } = world.accounts.now();
                    assert!(theta.abs() < 6e-6, "{ahead}: {theta}");
                    assert!(floors.iter().all(|floor| (floor - FLOOR).abs() < 5e-6), "{floors:?}");
                }
                world.accounts.ahead()
            };
            let (share, by) = see(ahead, 40);
            assert!(share > 0.9 && (by - ahead).abs() < 8e-6, "{ahead}: {by}, {share}");
            assert_eq!(see(0.0, 3).0, 0.0, "it is right again");
        }
    }

    #[test]
    fn the_exchanges_to_come_tell_another_rate() {
        let mut world = World::new();
        let theta = |k: u32| -0.9e-6 * POLL * f64::from(k);
        world.next(theta(1), [0.0, 20e-6], 0.0);
        for k in 2..40 {
            let queues = world.queues();
            world.next(theta(k), queues, 0.0);
        }
        assert!(world.accounts.others.is_empty());
        let now = world.accounts.now();
        assert!((now.theta - theta(39)).abs() < 5e-6, "{now:?}");
        assert!((now.rate + 0.9e-6).abs() < 0.05e-6, "{now:?}");
        assert!(now.floors.iter().all(|floor| (floor - FLOOR).abs() < 3e-6), "{now:?}");
    }
}
