//! Families of metrics, and the text of all of them.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, prometheus_text, text as openmetrics,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use truechimer_time::Span;

use crate::Form;

/// Beginning of every name.
pub(crate) const PREFIX: &str = "truechimer";

/// Labels of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// Metrics of one name.
#[derive(Clone, Debug)]
pub struct Family {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Spread(Histogram),
}

impl Family {
    /// Metrics with labels. The name is without `truechimer`, unit and suffix; the unit may be empty.
    #[must_use]
    pub fn of(
        kind: MetricType,
        name: &'static str,
        unit: &str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) -> Family {
        let unit = (!unit.is_empty()).then(|| Unit::Other(unit.into()));
        let samples = samples.into_iter().map(|(labels, n)| (labels, Value::Number(n))).collect();
        Family { name, unit, help, kind, samples }
    }

    /// A gauge of the whole, with or without a value.
    #[must_use]
    pub fn gauge(
        name: &'static str,
        unit: &str,
        help: &'static str,
        value: impl Into<Option<f64>>,
    ) -> Family {
        let samples = value.into().map(|value| (Vec::new(), value));
        Family::of(MetricType::Gauge, name, unit, help, samples)
    }

    /// A counter of the whole, with or without a value.
    #[must_use]
    pub fn counter(
        name: &'static str,
        help: &'static str,
        value: impl Into<Option<f64>>,
    ) -> Family {
        let samples = value.into().map(|value| (Vec::new(), value));
        Family::of(MetricType::Counter, name, "", help, samples)
    }

    /// Counters, one for each word of a label.
    #[must_use]
    pub fn counts<'a>(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        counts: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Family {
        let sample = |(word, n): (&str, u64)| (vec![(label, word.to_owned())], n as f64);
        Family::of(MetricType::Counter, name, "", help, counts.into_iter().map(sample))
    }

    /// State set as gauges: 1 for the word that holds, 0 for the others.
    #[must_use]
    pub fn states<'a>(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        words: impl IntoIterator<Item = &'a str>,
        holds: &str,
    ) -> Family {
        let sample = |word: &str| (vec![(label, word.to_owned())], number(word == holds));
        Family::of(MetricType::Gauge, name, "", help, words.into_iter().map(sample))
    }

    /// Facts in words, each in a label.
    #[must_use]
    pub fn info(
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = Labels>,
    ) -> Family {
        let samples = samples.into_iter().map(|labels| (labels, 1.0));
        Family::of(MetricType::Info, name, "", help, samples)
    }

    /// Histograms with labels.
    #[must_use]
    pub fn histograms(
        name: &'static str,
        unit: &str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, Histogram)>,
    ) -> Family {
        let none: [(Labels, f64); 0] = [];
        let spread = |(labels, histogram)| (labels, Value::Spread(histogram));
        Family {
            samples: samples.into_iter().map(spread).collect(),
            ..Family::of(MetricType::Histogram, name, unit, help, none)
        }
    }
}

/// Counts of values by size.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    /// Upper limits, ascending, infinity last, and how many values are below that and not below the
    /// one before.
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl Histogram {
    /// Without values yet. The limits are ascending; infinity comes by itself.
    #[must_use]
    pub fn new(limits: &[f64]) -> Histogram {
        let limits = limits.iter().copied().chain([f64::INFINITY]);
        Histogram { buckets: limits.map(|limit| (limit, 0)).collect(), sum: 0.0 }
    }

    /// Takes a value in; what is no number is left out.
    pub fn add(&mut self, value: f64) {
        if let Some((_, count)) = self.buckets.iter_mut().find(|(limit, _)| value <= *limit) {
            *count = count.saturating_add(1);
            self.sum += value;
        }
    }

    fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for Family { name, unit, help, kind, samples } in &self.0 {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
            for (labels, value) in samples {
                match kind {
                    MetricType::Info => family.encode_info(labels)?,
                    _ if labels.is_empty() => value.encode(*kind, &mut family)?,
                    _ => value.encode(*kind, &mut family.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, kind: MetricType, encoder: &mut MetricEncoder<'_>) -> std::fmt::Result {
        let none: Option<&Exemplar<Labels, f64>> = None;
        match (self, kind) {
            (Value::Spread(all), _) => {
                encoder.encode_histogram::<Labels>(all.sum, all.count(), &all.buckets, None)
            }
            (Value::Number(value), MetricType::Counter) => encoder.encode_counter(value, none),
            (Value::Number(value), _) => encoder.encode_gauge(value),
        }
    }
}

/// The text in this form.
#[must_use]
pub fn text(families: Vec<Family>, form: Form) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    let encoded = match form {
        Form::Plain => prometheus_text::encode(&mut text, &registry),
        Form::OpenMetrics => openmetrics::encode(&mut text, &registry),
    };
    // A string takes all that is written to it.
    debug_assert!(encoded.is_ok());
    text
}

/// A span in seconds.
#[must_use]
pub fn seconds(span: Span) -> f64 {
    span.0 as f64 / 2f64.powi(64)
}

/// 1 for yes, 0 for no.
#[must_use]
pub fn number(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::read;

    fn families() -> Vec<Family> {
        let mut waits = Histogram::new(&[1e-3, 0.25]);
        [0.5e-3, 1e-3, 0.1, 7.0, f64::NAN].into_iter().for_each(|value| waits.add(value));
        let group = |name: &str| vec![("group", name.to_owned())];
        vec![
            Family::gauge("bound", "seconds", "Half-width", 1e-6),
            Family::gauge("likely", "seconds", "No promise", None),
            Family::counter("requests", "Requests that came", 7.0),
            Family::counts("refused", "Refusals", "reason", [("short", 2), ("mode", 0)]),
            Family::states("status", "Status", "status", ["good", "bad"], "bad"),
            Family::info("build", "The program", [vec![("version", "\"}\n\\".to_owned())]]),
            Family::of(MetricType::Counter, "taken", "bytes", "Bytes", [(group("a"), 9.0)]),
            Family::histograms("wait", "seconds", "Waits", [(group("a"), waits)]),
        ]
    }

    #[test]
    fn names_have_prefix_unit_and_suffix_and_labels_are_escaped() {
        let told = read(&text(families(), Form::OpenMetrics));
        for (name, value) in [
            ("truechimer_bound_seconds", 1e-6),
            ("truechimer_requests_total", 7.0),
            ("truechimer_build_info{version=\"\\\"}\\n\\\\\"}", 1.0),
            ("truechimer_refused_total{reason=\"short\"}", 2.0),
            ("truechimer_refused_total{reason=\"mode\"}", 0.0),
            ("truechimer_status{status=\"good\"}", 0.0),
            ("truechimer_status{status=\"bad\"}", 1.0),
            ("truechimer_taken_bytes_total{group=\"a\"}", 9.0),
            ("truechimer_wait_seconds_bucket{le=\"0.001\",group=\"a\"}", 2.0),
            ("truechimer_wait_seconds_bucket{le=\"0.25\",group=\"a\"}", 3.0),
            ("truechimer_wait_seconds_bucket{le=\"+Inf\",group=\"a\"}", 4.0),
            ("truechimer_wait_seconds_count{group=\"a\"}", 4.0),
        ] {
            assert_eq!(told.samples.get(name), Some(&value), "{name} in {told:#?}");
        }
        let sum = told.samples["truechimer_wait_seconds_sum{group=\"a\"}"];
        assert!((sum - 7.1015).abs() < 1e-9, "{sum}");
        assert!(!told.samples.keys().any(|name| name.contains("likely")));
        assert!(told.families.contains("truechimer_likely_seconds"), "{told:#?}");
    }

    #[test]
    fn the_older_text_format_has_the_same() {
        let plain = text(families(), Form::Plain);
        assert!(!plain.contains("# UNIT") && !plain.contains("# EOF"), "{plain}");
        let samples = plain.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples, read(&text(families(), Form::OpenMetrics)).samples.len());
    }
}
