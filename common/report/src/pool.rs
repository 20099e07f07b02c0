//! The arrays of a page: each once, however many charts show it.

use crate::number::{exponent, power_of_ten, push_compact};
use std::collections::BTreeMap;

/// Significant digits of a plotted value.
const DIGITS: usize = 5;

/// Encoded arrays, in the order in which they came first.
#[derive(Default)]
pub(crate) struct Pool {
    known: BTreeMap<String, usize>,
    arrays: Vec<String>,
}

impl Pool {
    fn keep(&mut self, encoded: String) -> usize {
        if let Some(&known) = self.known.get(&encoded) {
            return known;
        }
        let index = self.arrays.len();
        self.arrays.push(encoded.clone());
        self.known.insert(encoded, index);
        index
    }

    /// Values that are spread over magnitudes: `{"e": scale, "v": [...]}`, each × 10^scale.
    pub(crate) fn values(&mut self, values: impl Iterator<Item = f64>) -> usize {
        let values: Vec<f64> = values.collect();
        let mut sizes: Vec<f64> =
            values.iter().map(|v| v.abs()).filter(|v| v.is_finite() && *v > 0.0).collect();
        let middle = sizes.len() / 2;
        let scale = if sizes.is_empty() {
            0
        } else {
            // So that a value of middling size is an integer of `DIGITS` digits.
            exponent(*sizes.select_nth_unstable_by(middle, f64::total_cmp).1) - 4
        };
        let mut out = format!("{{\"e\":{scale},\"v\":[");
        for (i, &value) in values.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            push_compact(&mut out, value, DIGITS, scale);
        }
        out.push_str("]}");
        self.keep(out)
    }

    /// Ascending finite values at a fixed resolution of at least a ten-millionth of their range:
    /// `{"q": digits, "d": [...]}`, differences in 10^digits, the first from `o`.
    pub(crate) fn ascending(&mut self, values: impl Iterator<Item = f64>) -> usize {
        let values: Vec<f64> = values.collect();
        let (first, last) = match (values.first(), values.last()) {
            (Some(&first), Some(&last)) => (first, last),
            _ => (0.0, 0.0),
        };
        let range = last - first;
        let digits = if range > 0.0 && range.is_finite() { exponent(range) - 7 } else { 0 };
        let quantum = power_of_ten(digits);
        let mut out = format!("{{\"o\":{first:e},\"q\":{digits},\"d\":[");
        let mut before = 0.0;
        for (i, &value) in values.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            let step = ((value - first) / quantum).round();
            out.push_str(&format!("{}", step - before));
            before = step;
        }
        out.push_str("]}");
        self.keep(out)
    }

    /// The arrays as one JSON array.
    pub(crate) fn into_json(self) -> String {
        format!("[{}]", self.arrays.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_arrays_are_kept_once() {
        let mut pool = Pool::default();
        let a = pool.values([1e-6, f64::NAN, -2e-6].into_iter());
        let b = pool.ascending([0.0, 0.5, 1.0].into_iter());
        assert_eq!(pool.values([1e-6, f64::NAN, -2e-6].into_iter()), a);
        assert_ne!(a, b);
        assert_eq!(
            pool.into_json(),
            r#"[{"e":-10,"v":[1e4,null,-2e4]},{"o":0e0,"q":-7,"d":[0,5000000,5000000]}]"#
        );
    }

    #[test]
    fn odd_arrays_are_valid_json() {
        let mut pool = Pool::default();
        pool.values([].into_iter());
        pool.values([f64::NAN, f64::INFINITY].into_iter());
        pool.values([0.0, -0.0, 1e300, 1e-300].into_iter());
        pool.ascending([].into_iter());
        pool.ascending([1.7e9, 1.7e9].into_iter());
        pool.ascending([-1e300, 1e300].into_iter());
        let json: serde_json::Value = serde_json::from_str(&pool.into_json()).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 6);
    }
}
