//! Budgets of what users may ask for: nobody's haste is at another's cost.
//!
//! The daemon's own user and root come first and have budgets of their own. All others share what
//! the daemon can spare, each up to a part of it, and whoever has asked for the least of late comes
//! first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Budget of a user at once: a connection costs one, and so does an answer. Half of what was spent
/// is forgotten each second, so that this half can be spent each second for long.
const PER_USER: u32 = 64;
/// Budget of the daemon's own user, and of root.
const PER_OWNER: u32 = 256;
/// Budget of all other users together in a second.
const ALL_USERS: u32 = 256;

/// Budget as spent of late, and by whom.
#[derive(Debug)]
pub(super) struct Budget {
    /// The user that the daemon runs as.
    own: u32,
    spent: BTreeMap<u32, u32>,
    /// Rest that those who are not owners may still spend in this second.
    left: u32,
}

impl Budget {
    pub(super) fn new(own: u32) -> Budget {
        Budget { own, spent: BTreeMap::new(), left: ALL_USERS }
    }

    /// True if this user may change what the daemon does, and is served first.
    pub(super) fn is_owner(&self, user: u32) -> bool {
        user == 0 || user == self.own
    }

    fn spent(&self, user: u32) -> u32 {
        self.spent.get(&user).copied().unwrap_or(0)
    }

    /// True if this user may spend anything now.
    pub(super) fn allows(&self, user: u32) -> bool {
        match self.is_owner(user) {
            true => self.spent(user) < PER_OWNER,
            false => self.left > 0 && self.spent(user) < PER_USER,
        }
    }

    /// Takes the cost of one connection or answer; `false` if there is not that much.
    pub(super) fn spend(&mut self, user: u32) -> bool {
        if !self.allows(user) {
            return false;
        }
        if !self.is_owner(user) {
            self.left = self.left.saturating_sub(1);
        }
        *self.spent.entry(user).or_insert(0) += 1;
        true
    }

    /// Rank by which users are served: the least comes first.
    pub(super) fn rank(&self, user: u32) -> (Reverse<bool>, u32) {
        (Reverse(self.is_owner(user)), self.spent(user))
    }

    /// A second has passed.
    pub(super) fn refill(&mut self) {
        self.left = ALL_USERS;
        // Whoever spends nothing is forgotten: there are never more than have spent of late.
        self.spent.retain(|_, spent| {
            *spent /= 2;
            *spent > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 500;

    /// Spends as much as this user can get at once.
    fn all(budget: &mut Budget, user: u32) -> u32 {
        (0..10_000).take_while(|_| budget.spend(user)).count() as u32
    }

    #[test]
    fn one_user_uses_up_no_more_than_its_own() {
        let mut budget = Budget::new(OWN);
        assert_eq!(all(&mut budget, 1000), PER_USER);
        assert!(!budget.allows(1000));
        assert_eq!(all(&mut budget, 1001), PER_USER);
        for _ in 0..100 {
            budget.refill();
            assert_eq!(all(&mut budget, 1000), PER_USER / 2, "for ever");
            assert!(budget.allows(1002) && budget.spend(1002));
        }
    }

    #[test]
    fn however_many_users_there_are_the_owners_have_theirs() {
        let mut budget = Budget::new(OWN);
        for _ in 0..100 {
            let others: u32 = (1000..70_000).map(|user| all(&mut budget, user)).sum();
            assert_eq!(others, ALL_USERS);
            assert!(budget.allows(0) && budget.allows(OWN) && !budget.allows(70_000));
            let owners = [0, OWN].map(|user| all(&mut budget, user));
            assert!(owners.iter().all(|spent| *spent >= PER_OWNER / 2), "{owners:?}");
            // Nobody is remembered for long, and so not too many.
            assert!(budget.spent.len() < 3 * ALL_USERS as usize, "{}", budget.spent.len());
            budget.refill();
        }
        for _ in 0..10 {
            budget.refill();
        }
        assert!(budget.spent.is_empty());
    }

    #[test]
    fn who_asks_rarely_comes_first() {
        let mut budget = Budget::new(OWN);
        for user in [1000, 1001, 1002] {
            (0..user - 990).for_each(|_| assert!(budget.spend(user)));
        }
        (0..200).for_each(|_| assert!(budget.spend(0)));
        let mut users = [1002, 1000, 7, 0, 1001, OWN];
        users.sort_by_key(|user| budget.rank(*user));
        assert_eq!(users, [OWN, 0, 7, 1000, 1001, 1002]);
        // After many of haste have used up a second, the next begins with whoever waited.
        let hasty: u32 = (2000..2100).map(|user| all(&mut budget, user)).sum();
        assert!(hasty <= ALL_USERS);
        assert!(!budget.allows(7));
        budget.refill();
        let mut users = [2000, 2001, 7];
        users.sort_by_key(|user| budget.rank(*user));
        assert_eq!((users[0], budget.allows(7)), (7, true));
    }
}
