//! Spread of values, in memory that has a limit.

use serde::Serialize;
use truechimer_time::Span;

/// Number of values that are kept. Beyond, every second is dropped, and so on.
const KEPT: usize = 1 << 20;

/// Spread of spans, in µs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Number of spans.
    pub count: u64,
    /// The percentiles were made of one of so many.
    pub every: u64,
    /// The middle one.
    pub median_us: f64,
    /// Between the quartiles.
    pub iqr_us: f64,
    /// 1 % are less.
    pub p1_us: f64,
    /// 99 % are less.
    pub p99_us: f64,
    /// Root of the mean square of all.
    pub rms_us: f64,
    /// The largest magnitude of all.
    pub max_us: f64,
}

/// Spans that are still coming.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// One of `every`, in ps.
    kept: Vec<i64>,
    count: u64,
    every: u64,
    squares: f64,
    largest: f64,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered { kept: Vec::new(), count: 0, every: 1, squares: 0.0, largest: 0.0 }
    }
}

impl Gathered {
    /// One more.
    pub fn add(&mut self, span: Span) {
        let ps = span.as_picos();
        let us = ps as f64 / 1e6;
        self.squares += us * us;
        self.largest = if us.abs() > self.largest { us.abs() } else { self.largest };
        if self.count.is_multiple_of(self.every) {
            if self.kept.len() == KEPT {
                let mut nth = 0;
                self.kept.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.every *= 2;
            }
            if self.count.is_multiple_of(self.every) {
                let limit = i128::from(i64::MAX);
                self.kept.push(i64::try_from(ps.clamp(-limit, limit)).unwrap_or(i64::MAX));
            }
        }
        self.count += 1;
    }

    /// Spread of the values; `None` of none.
    #[must_use]
    pub fn spread(mut self) -> Option<Spread> {
        if self.kept.is_empty() {
            return None;
        }
        self.kept.sort_unstable();
        let (count, last) = (self.count, self.kept.len() - 1);
        let at = |percent: usize| {
            let index = (last * percent + 50) / 100;
            self.kept.get(index).map_or(0.0, |&ps| ps as f64 / 1e6)
        };
        Some(Spread {
            count,
            every: self.every,
            median_us: at(50),
            iqr_us: at(75) - at(25),
            p1_us: at(1),
            p99_us: at(99),
            rms_us: libm::sqrt(self.squares / count as f64),
            max_us: self.largest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_spread() {
        let mut gathered = Gathered::default();
        for us in -50..=50 {
            gathered.add(Span::from_micros(us));
        }
        let spread = gathered.spread().unwrap();
        assert_eq!((spread.count, spread.every), (101, 1));
        assert_eq!((spread.median_us, spread.iqr_us), (0.0, 50.0));
        assert_eq!((spread.p1_us, spread.p99_us, spread.max_us), (-49.0, 49.0, 50.0));
        assert!((spread.rms_us - 29.154_759_474_226_5).abs() < 1e-9);
        assert_eq!(Gathered::default().spread(), None);
    }

    #[test]
    fn memory_has_a_limit() {
        let mut gathered = Gathered::default();
        let n = 5 * KEPT as u64 / 2;
        for i in 0..n {
            gathered.add(Span::from_nanos(i as i64));
        }
        assert!(gathered.kept.len() <= KEPT && gathered.kept.capacity() <= 2 * KEPT);
        let spread = gathered.spread().unwrap();
        assert_eq!((spread.count, spread.every), (n, 4));
        let ratio = spread.median_us / (n as f64 / 2e3);
        assert!((ratio - 1.0).abs() < 1e-5, "{ratio}");
        assert_eq!(spread.max_us, (n - 1) as f64 / 1e3);
    }
}
