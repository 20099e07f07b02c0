//! Delays, judged by the truth.

use std::collections::HashMap;

use truechimer_report::mean;

/// A datagram at one point of the path, as captured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Passed {
    /// When, Unix ns.
    pub unix_ns: i64,
    /// True time is within this of it, ns; `None` if nothing is promised.
    pub bound_ns: Option<u32>,
    /// The counter, if that was recorded.
    pub count: Option<u64>,
}

/// The datagrams at one point, by number; one that came twice is as it came first.
pub type Point = HashMap<u64, Passed>;

/// One delay beside the truth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// Delay by our two captures, ns.
    pub delay_ns: f64,
    /// Bound of its error, by their own word, ns.
    pub bound_ns: f64,
    /// Delay by one clock that saw both ends, ns.
    pub true_ns: f64,
}

impl Judged {
    /// Our delay − the true one, ns.
    #[must_use]
    pub fn error_ns(&self) -> f64 {
        self.delay_ns - self.true_ns
    }

    /// True if the bound held.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.error_ns().abs() <= self.bound_ns
    }
}

/// Source of the true delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// The system clock's stamps of the same packets at both ends, in the same places.
    Stamps,
    /// The counter that both ends share, at the rate that the system clock gives it: where the
    /// packets are stamped elsewhere than the system clock's stamps are taken.
    Counts,
}

/// The delays of all datagrams that all four captures have seen, and for which both of ours promise
/// something.
#[must_use]
pub fn judge(by: Judge, ours: [&Point; 2], theirs: [&Point; 2]) -> Vec<Judged> {
    let [first, second] = ours;
    let period_ns = period(first, theirs[0]);
    let mut numbers: Vec<&u64> = first.keys().collect();
    numbers.sort_unstable();
    let judged = numbers.into_iter().filter_map(|number| {
        let (a, b) = (first.get(number)?, second.get(number)?);
        let (c, d) = (theirs[0].get(number)?, theirs[1].get(number)?);
        let true_ns = match by {
            Judge::Stamps => d.unix_ns.wrapping_sub(c.unix_ns) as f64,
            Judge::Counts => b.count?.wrapping_sub(a.count?).cast_signed() as f64 * period_ns?,
        };
        Some(Judged {
            delay_ns: b.unix_ns.wrapping_sub(a.unix_ns) as f64,
            bound_ns: f64::from(a.bound_ns?) + f64::from(b.bound_ns?),
            true_ns,
        })
    });
    judged.collect()
}

/// Ns of the system clock in a count: the slope of its stamps over the counts (least squares).
fn period(ours: &Point, theirs: &Point) -> Option<f64> {
    let pairs = ours.iter().filter_map(|(n, a)| Some((a.count?, theirs.get(n)?.unix_ns)));
    let pairs: Vec<(u64, i64)> = pairs.collect();
    let (count, ns) = pairs.iter().min()?;
    let from_first = pairs
        .iter()
        .map(|(c, t)| (c.wrapping_sub(*count).cast_signed() as f64, t.wrapping_sub(*ns) as f64));
    let all: Vec<(f64, f64)> = from_first.collect();
    let (x, y) = (mean(all.iter().map(|p| p.0)), mean(all.iter().map(|p| p.1)));
    let above: f64 = all.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let below: f64 = all.iter().map(|p| (p.0 - x).powi(2)).sum();
    (below > 0.0).then_some(above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(all: &[(u64, i64, Option<u32>)]) -> Point {
        all.iter()
            .map(|&(n, unix_ns, bound_ns)| (n, Passed { unix_ns, bound_ns, count: None }))
            .collect()
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
        let judged = judge(Judge::Stamps, [&first, &second], [&truth[0], &truth[1]]);
        assert_eq!(judged.len(), 2);
        assert_eq!(judged[0], Judged { delay_ns: 110.0, bound_ns: 9.0, true_ns: 100.0 });
        assert!(!judged[0].is_inside() && judged[1].is_inside());
    }

    #[test]
    fn counts_judge_at_the_rate_of_the_system_clock() {
        let ours = |delay: u64| -> Point {
            let passed = |n: u64| Passed {
                unix_ns: (n * 1000 + delay * 2) as i64 + 7,
                bound_ns: Some(10),
                count: Some(n * 500 + delay),
            };
            (1..50).map(|n| (n, passed(n))).collect()
        };
        let theirs: Point = (1..50)
            .map(|n| (n, Passed { unix_ns: n as i64 * 1000, bound_ns: None, count: None }))
            .collect();
        let judged = judge(Judge::Counts, [&ours(0), &ours(300)], [&theirs, &theirs]);
        assert_eq!(judged.len(), 49);
        assert!(judged.iter().all(|one| (one.true_ns - 600.0).abs() < 1e-6), "{:?}", judged[0]);
        assert!(period(&Point::new(), &theirs).is_none());
    }
}
