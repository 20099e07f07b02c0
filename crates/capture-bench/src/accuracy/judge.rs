//! What delays come to, beside the truth.

use std::collections::HashMap;

/// A datagram at one point of the path, as captured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Passed {
    /// When, Unix ns.
    pub unix_ns: i64,
    /// True time is within this of it, ns; `None` if nothing is promised.
    pub bound_ns: Option<u32>,
}

/// The datagrams at one point, by number; one that came twice is as it came first.
pub type Point = HashMap<u64, Passed>;

/// One delay beside the truth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// What our two captures say, ns.
    pub delay_ns: f64,
    /// It is right to within this, they say, ns.
    pub bound_ns: f64,
    /// What one clock says that saw both ends, ns.
    pub true_ns: f64,
}

impl Judged {
    /// Our delay − the true one, ns.
    #[must_use]
    pub fn error_ns(&self) -> f64 {
        self.delay_ns - self.true_ns
    }

    /// Whether the bound held.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.error_ns().abs() <= self.bound_ns
    }
}

/// The delays of all datagrams that all four captures have seen, and for which both of ours promise
/// something.
#[must_use]
pub fn judge(ours: [&Point; 2], theirs: [&Point; 2]) -> Vec<Judged> {
    let [first, second] = ours;
    let mut numbers: Vec<&u64> = first.keys().collect();
    numbers.sort_unstable();
    let judged = numbers.into_iter().filter_map(|number| {
        let (a, b) = (first.get(number)?, second.get(number)?);
        let (c, d) = (theirs[0].get(number)?, theirs[1].get(number)?);
        Some(Judged {
            delay_ns: b.unix_ns.wrapping_sub(a.unix_ns) as f64,
            bound_ns: f64::from(a.bound_ns?) + f64::from(b.bound_ns?),
            true_ns: d.unix_ns.wrapping_sub(c.unix_ns) as f64,
        })
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(all: &[(u64, i64, Option<u32>)]) -> Point {
        all.iter().map(|&(n, unix_ns, bound_ns)| (n, Passed { unix_ns, bound_ns })).collect()
    }

    #[test]
    fn bounds_add_up_and_what_promises_nothing_is_left_out() {
        let first =
            point(&[(1, 1000, Some(5)), (2, 2000, Some(5)), (3, 3000, None), (4, 0, Some(1))]);
        let second = point(&[(1, 1110, Some(4)), (2, 2109, Some(4)), (3, 3100, Some(4))]);
        let truth = [
            point(&[(1, 0, None), (2, 0, None), (3, 0, None)]),
            point(&[(1, 100, None), (2, 100, None), (3, 9, None)]),
        ];
        let judged = judge([&first, &second], [&truth[0], &truth[1]]);
        assert_eq!(judged.len(), 2);
        assert_eq!(judged[0], Judged { delay_ns: 110.0, bound_ns: 9.0, true_ns: 100.0 });
        assert!(!judged[0].is_inside() && judged[1].is_inside());
    }
}
