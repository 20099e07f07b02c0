//! Compares the replicas' replies.

use std::collections::BTreeMap;

use truechimer_group::Member;

/// How many requests are kept until all replicas' replies to them are known.
const KEPT: usize = 16 << 10;

/// Hashes of replies, by request and replica.
#[derive(Debug, Default)]
pub struct Compare {
    open: BTreeMap<u64, BTreeMap<Member, u64>>,
    /// Requests to which all replies that are known were the same.
    pub same: u64,
    /// Requests to which they were not.
    pub different: u64,
}

impl Compare {
    /// This replica's reply to this request has this hash. `replicas` is how many there are now.
    /// Returns what to report.
    pub fn add(
        &mut self,
        from: Member,
        request: u64,
        hash: u64,
        replicas: usize,
    ) -> Option<String> {
        let known = self.open.entry(request).or_default();
        known.insert(from, hash);
        if known.len() >= replicas.max(2) {
            let known = self.open.remove(&request)?;
            return self.judge(request, &known);
        }
        if self.open.len() > KEPT {
            let (request, known) = self.open.pop_first()?;
            return (known.len() > 1).then(|| self.judge(request, &known)).flatten();
        }
        None
    }

    fn judge(&mut self, request: u64, known: &BTreeMap<Member, u64>) -> Option<String> {
        let mut votes: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
        for (member, hash) in known {
            votes.entry(*hash).or_default().push(*member);
        }
        if votes.len() < 2 {
            self.same += 1;
            return None;
        }
        self.different += 1;
        let most = votes.values().max_by_key(|members| members.len())?.clone();
        if most.len() * 2 > known.len() {
            let others = known.keys().filter(|member| !most.contains(member));
            let others: Vec<String> = others.map(Member::to_string).collect();
            let most: Vec<String> = most.iter().map(Member::to_string).collect();
            let (others, most) = (others.join(", "), most.join(", "));
            return Some(format!(
                "the reply of replica {others} to request {request} differs from that of {most}"
            ));
        }
        Some(format!("the replicas' replies to request {request} differ from each other"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_is_named() {
        let mut compare = Compare::default();
        for member in [1, 2, 3] {
            assert_eq!(compare.add(Member(member), 16, 5, 3), None);
        }
        assert_eq!(compare.add(Member(3), 17, 5, 3), None);
        assert_eq!(compare.add(Member(2), 17, 6, 3), None);
        let report = compare.add(Member(1), 17, 5, 3).unwrap();
        assert_eq!(report, "the reply of replica 2 to request 17 differs from that of 1, 3");
        assert_eq!(compare.add(Member(1), 18, 1, 2), None);
        let report = compare.add(Member(2), 18, 2, 2).unwrap();
        assert_eq!(report, "the replicas' replies to request 18 differ from each other");
        assert_eq!((compare.same, compare.different), (1, 2));
    }

    #[test]
    fn it_keeps_only_so_many() {
        let mut compare = Compare::default();
        for request in 0..3 * KEPT as u64 {
            compare.add(Member(1), request, 0, 3);
        }
        assert_eq!(compare.open.len(), KEPT);
    }
}
