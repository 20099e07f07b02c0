//! Shares of the two directions in what was lost and doubled.

use std::collections::BTreeSet;

use truechimer_qos::Losses;

/// Numbers beyond those of the packets sent that a reflector may have given to copies; with more they mean nothing.
const COPIES: u64 = 1 << 16;

/// Losses and copies on the way there and back, told by the numbers that a reflector gives its replies.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shares {
    /// The reflector numbers its replies itself, from 0. If not, `forward` and `backward` are empty.
    pub numbered: bool,
    /// Fate of requests on their way there, up to the last that was answered.
    pub forward: Losses,
    /// Fate of replies on their way back, in the order in which they left.
    pub backward: Losses,
    /// Fate of requests there and back, up to the last that was answered.
    pub whole: Losses,
    /// Requests without an answer after the last that was answered: nobody knows how far they came.
    pub undetermined: u64,
    /// Copies of requests that the reflector has answered too.
    pub forward_copies: u64,
    /// Copies of replies.
    pub backward_copies: u64,
}

/// Stretch of requests without an answer, before one with one.
#[derive(Clone, Copy, Debug)]
struct Gap {
    missing: u64,
    /// Of them those that were answered, and the answer was lost.
    answered: u64,
}

impl Shares {
    /// Shares of requests in the order of sending: the number of each, and those of the replies to it as they came.
    ///
    /// Each number that the reflector has used and that did not come is a reply lost. It belongs to a request without an
    /// answer sent before those whose replies have higher numbers, else to any without an answer; where there is none it
    /// was the reply to a copy. Within a stretch of requests without an answer those that did not arrive are taken for
    /// the first, as nobody knows.
    ///
    /// A reflector may have counted before this session. The first request with an answer tells from where on: no number
    /// is above its request's unless there was something before, which a copy or an overtaking at the very start feigns.
    #[must_use]
    pub fn of<'r>(requests: impl IntoIterator<Item = (u32, &'r [u32])>) -> Shares {
        let requests: Vec<_> = requests.into_iter().collect();
        let mut shares = Shares::default();
        let answered = |(_, replies): &(u32, &[u32])| !replies.is_empty();
        let end = requests.iter().rposition(answered).map_or(0, |last| last + 1);
        let (known, tail) = requests.split_at(end);
        shares.undetermined = tail.len() as u64;
        known.iter().for_each(|request| {
            if answered(request) { shares.whole.arrived(1) } else { shares.whole.lost(1) }
        });
        let replies = || {
            known.iter().flat_map(|(sequence, replies)| {
                replies.iter().map(move |number| (*sequence, *number))
            })
        };
        let distinct: BTreeSet<(u32, u32)> = replies().collect();
        shares.backward_copies = replies().count() as u64 - distinct.len() as u64;
        let used: BTreeSet<u32> = distinct.iter().map(|(_, number)| *number).collect();
        let complete = shares.whole.lost == 0;
        let own = complete || distinct.iter().any(|(sequence, number)| sequence != number);
        let sane = used.len() == distinct.len();
        let (Some(last), true, true) = (used.last().copied(), own, sane) else { return shares };
        // Later requests tell nothing of the start: each loss on the way there lowers the numbers of those behind it.
        let begin =
            distinct.first().map_or(0, |(sequence, number)| number.saturating_sub(*sequence));
        let first = begin.min(used.first().copied().unwrap_or(begin));
        if u64::from(last - first) > known.len() as u64 + COPIES {
            return shares;
        }
        shares.numbered = true;
        let unseen: Vec<u32> = (first..=last).filter(|number| !used.contains(number)).collect();
        shares.share(known, &unseen);
        for number in first..=last {
            match used.contains(&number) {
                true => shares.backward.arrived(1),
                false => shares.backward.lost(1),
            }
        }
        let answers = known.iter().filter(|request| answered(request)).count();
        shares.forward_copies += (distinct.len() - answers) as u64;
        shares
    }

    /// Shares out the numbers that did not come among the requests without an answer.
    fn share(&mut self, known: &[(u32, &[u32])], unseen: &[u32]) {
        let (mut gaps, mut missing, mut taken) = (Vec::new(), 0, 0);
        for (_, replies) in known {
            let Some(number) = replies.iter().min() else {
                missing += 1;
                continue;
            };
            let before = unseen.partition_point(|unseen| unseen < number) as u64;
            let answered = before.saturating_sub(taken).min(missing);
            taken += answered;
            gaps.push(Gap { missing, answered });
            missing = 0;
        }
        let mut left = unseen.len() as u64 - taken;
        for gap in &mut gaps {
            let more = left.min(gap.missing - gap.answered);
            gap.answered += more;
            left -= more;
        }
        self.forward_copies = left;
        for Gap { missing, answered } in gaps {
            self.forward.lost(missing - answered);
            self.forward.arrived(answered + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(requests: &[(u32, &[u32])]) -> Shares {
        Shares::of(requests.iter().copied())
    }

    /// Lost there, lost back, copies there, copies back, undetermined.
    fn counts(shares: &Shares) -> [u64; 5] {
        let Shares { forward, backward, forward_copies, backward_copies, undetermined, .. } =
            shares;
        [forward.lost, backward.lost, *forward_copies, *backward_copies, *undetermined]
    }

    #[test]
    fn each_loss_has_its_direction() {
        // 1 is lost there, the reply to 3 on its way back, 5 somewhere.
        let shares = of(&[(0, &[0]), (1, &[]), (2, &[1]), (3, &[]), (4, &[3]), (5, &[])]);
        assert!(shares.numbered);
        assert_eq!(counts(&shares), [1, 1, 0, 0, 1]);
        assert_eq!((shares.forward.arrived, shares.backward.arrived), (4, 3));
        // A copy of 1 there, a copy of the reply to 2 back.
        let shares = of(&[(0, &[0]), (1, &[1, 2]), (2, &[3, 3])]);
        assert_eq!(counts(&shares), [0, 0, 1, 1, 0]);
        // The reply to a copy is lost.
        assert_eq!(counts(&of(&[(0, &[0]), (1, &[2]), (2, &[3])])), [0, 1, 1, 0, 0]);
        // 1 arrives after 2, and its reply is lost.
        let shares = of(&[(0, &[0]), (1, &[]), (2, &[1]), (3, &[3])]);
        assert_eq!(counts(&shares), [0, 1, 0, 0, 0]);
        // It has counted before: from 700 on.
        let shares = of(&[(0, &[700]), (1, &[]), (2, &[702]), (3, &[])]);
        assert_eq!(counts(&shares), [0, 1, 0, 0, 1]);
        // The same with losses there, and one of each.
        let shares = of(&[(0, &[700]), (1, &[]), (2, &[701]), (3, &[702])]);
        assert_eq!(counts(&shares), [1, 0, 0, 0, 0]);
        let shares = of(&[(0, &[700]), (1, &[]), (2, &[701]), (3, &[]), (4, &[703])]);
        assert_eq!(counts(&shares), [1, 1, 0, 0, 0]);
        // The first two change places.
        assert_eq!(counts(&of(&[(0, &[701]), (1, &[700]), (2, &[702])])), [0, 0, 0, 0, 0]);
        assert_eq!(of(&[]), Shares { numbered: false, ..Shares::default() });
    }

    #[test]
    fn a_reflector_without_numbers_is_told_by_the_one_left_out() {
        // Number 3 was never sent: whoever counts gives 3 to what follows, or less.
        let replied = of(&[(0, &[0]), (1, &[]), (2, &[2]), (4, &[4])]);
        assert!(!replied.numbered);
        assert_eq!((replied.whole.lost, replied.whole.arrived), (1, 3));
        let all_lost_back = of(&[(0, &[0]), (1, &[]), (2, &[2]), (4, &[3])]);
        assert_eq!((all_lost_back.numbered, counts(&all_lost_back)[1]), (true, 1));
    }

    #[test]
    fn numbers_that_make_no_sense_are_not_believed() {
        for requests in [[(0, [0].as_slice()), (1, &[u32::MAX])], [(0, &[4]), (1, &[4])]] {
            assert!(!of(&requests).numbered);
        }
    }

    #[derive(Clone, Copy, Debug)]
    struct Fate {
        there: bool,
        back: bool,
        copied_back: bool,
    }

    proptest! {
        /// Whatever is lost, and with replies doubled: both counts are exact if the last is answered, and of a reflector
        /// that has counted before also the first.
        #[test]
        fn counts_are_exact(
            before in prop_oneof![Just(0u32), 1u32..1_000_000],
            fates in prop::collection::vec((prop::bool::weighted(0.8), prop::bool::weighted(0.8), any::<bool>()), 1..300),
        ) {
            let mut fates: Vec<_> = fates
                .into_iter()
                .map(|(there, back, copied_back)| Fate { there, back, copied_back })
                .collect();
            let answered = Fate { there: true, back: true, copied_back: false };
            fates.push(answered);
            if before > 0 {
                fates.insert(0, answered);
            }
            let (mut next, mut replies) = (before, Vec::new());
            for fate in &fates {
                let mut numbers = Vec::new();
                if fate.there {
                    let copies = usize::from(fate.back) * (1 + usize::from(fate.copied_back));
                    numbers = vec![next; copies];
                    next += 1;
                }
                replies.push(numbers);
            }
            let last = replies.len() - 1;
            // The number before the last is left out.
            let sequence = |n: usize| n as u32 + u32::from(n == last);
            let requests = replies.iter().enumerate().map(|(n, replies)| (sequence(n), replies.as_slice()));
            let shares = Shares::of(requests);
            let lost_there = fates.iter().filter(|fate| !fate.there).count() as u64;
            let lost_back = fates.iter().filter(|fate| fate.there && !fate.back).count() as u64;
            let copied = fates.iter().filter(|fate| fate.there && fate.back && fate.copied_back).count();
            prop_assert!(shares.numbered);
            prop_assert_eq!(counts(&shares), [lost_there, lost_back, 0, copied as u64, 0]);
            prop_assert_eq!(shares.forward.arrived, fates.len() as u64 - lost_there);
        }

        #[test]
        fn hostile_numbers_do_no_harm(
            replies in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u32>(), 0u32..50], 0..3), 0..60),
        ) {
            let requests = replies.iter().enumerate().map(|(n, replies)| (n as u32, replies.as_slice()));
            let shares = Shares::of(requests);
            prop_assert_eq!(shares.whole.lost + shares.whole.arrived + shares.undetermined, replies.len() as u64);
        }
    }
}
