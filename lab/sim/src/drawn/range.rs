//! Parameters that are drawn for a path-day: their ranges, and the reason for each.

use crate::random::Random;

/// A parameter of a path-day, drawn anew for each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// Name, without its unit; unique within a technology.
    pub name: &'static str,
    /// Unit; empty for plain numbers and shares.
    pub unit: &'static str,
    /// Distribution of the parameter.
    pub values: Values,
    /// Reason or source of the range.
    pub reason: &'static str,
}

/// Distribution of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Values {
    /// Uniform between the two.
    Even(f64, f64),
    /// Log-uniform between the two, both above 0.
    Log(f64, f64),
    /// One of these, each as likely as its place is frequent.
    OneOf(&'static [f64]),
}

impl Range {
    /// The value at `u` in (0, 1] of the distribution.
    fn at(&self, u: f64) -> f64 {
        match self.values {
            Values::Even(low, high) => low + u * (high - low),
            Values::Log(low, high) => low * libm::exp(u * libm::log(high / low)),
            Values::OneOf(values) => {
                let place = libm::ceil(u * values.len() as f64) as usize;
                values.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
            }
        }
    }

    /// The least and the greatest value.
    #[must_use]
    pub fn limits(&self) -> (f64, f64) {
        match self.values {
            Values::Even(low, high) | Values::Log(low, high) => (low, high),
            Values::OneOf(values) => {
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                    (low.min(*v), high.max(*v))
                })
            }
        }
    }
}

/// A parameter's value on a path-day.
#[derive(Clone, PartialEq, Debug)]
pub struct Drew {
    /// Part of the path that it belongs to.
    pub part: String,
    /// The parameter.
    pub range: Range,
    /// Value of the parameter.
    pub value: f64,
}

/// The draws of one path-day: each by a stream of its own, named after part and parameter, so that
/// a parameter more or less changes no other.
#[derive(Debug)]
pub(crate) struct Drawing {
    seed: u64,
    /// All parameters drawn so far.
    pub(crate) drew: Vec<Drew>,
}

impl Drawing {
    pub(crate) fn new(seed: u64) -> Drawing {
        Drawing { seed, drew: Vec::new() }
    }

    /// The value of a parameter of this part: the same whenever it is asked for.
    pub(crate) fn draw(&mut self, part: &str, range: &Range) -> f64 {
        let known = self.drew.iter().find(|drew| drew.part == part && drew.range == *range);
        if let Some(drew) = known {
            return drew.value;
        }
        let value = range.at(self.stream(&format!("{part}/{}", range.name)).uniform());
        self.drew.push(Drew { part: part.to_owned(), range: *range, value });
        value
    }

    /// Draws a yes or no: 1 is yes.
    pub(crate) fn is(&mut self, part: &str, range: &Range) -> bool {
        self.draw(part, range) > 0.5
    }

    /// A stream of random numbers of its own for this part.
    pub(crate) fn stream(&self, part: &str) -> Random {
        Random::new(self.seed, &format!("drawn/{part}"))
    }

    /// A moment within a period, s: where a network's own grid lies.
    pub(crate) fn phase(&self, part: &str, period: f64) -> f64 {
        period * self.stream(&format!("{part}/phase")).uniform()
    }
}
