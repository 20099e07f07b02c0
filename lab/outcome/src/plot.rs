//! Plots of lines over one axis: as SVG for documents, as charts for reports.

use std::fmt::Write;

use truechimer_report::{Chart, Series, Unit};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
const LINE_HEIGHT: f64 = 17.0;
/// A line of more points than this is drawn without dots.
const MOST_DOTS: usize = 170;
/// Colours that are told apart by most eyes.
const COLOURS: [&str; 9] = [
    "#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#555555", "#bcbd22",
    "#17becf",
];

/// An axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Quantity that it counts, in which unit.
    pub label: String,
    /// True if it is logarithmic: what is not positive is left out then.
    pub log: bool,
}

impl Axis {
    /// A linear one.
    #[must_use]
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), log: false }
    }

    /// A logarithmic one.
    #[must_use]
    pub fn log(label: &str) -> Axis {
        Axis { label: label.to_owned(), log: true }
    }

    fn place(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }
}

/// A plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Subject of the plot.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The lines: name and points, in the order of x.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The stretch of values that an axis shows, and the marks on it.
struct Scale {
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Plot {
    /// Chart of it for a report.
    #[must_use]
    pub fn chart(&self) -> Chart {
        let mut chart =
            Chart::xy(&self.title).x(&self.x.label, Unit::None).y(&self.y.label, Unit::None);
        if self.x.log {
            chart = chart.log_x();
        }
        if self.y.log {
            chart = chart.log_y();
        }
        for (name, points) in &self.lines {
            chart = chart.with(Series::line(name, points.iter().copied()));
        }
        chart
    }

    /// SVG of the plot.
    #[must_use]
    pub fn svg(&self) -> String {
        let shown = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().copied().filter(|p| self.x.shows(p.0) && self.y.shows(p.1)).collect()
        };
        let lines: Vec<(&str, Vec<(f64, f64)>)> =
            self.lines.iter().map(|(name, points)| (name.as_str(), shown(points))).collect();
        let points = || lines.iter().flat_map(|(_, points)| points);
        let across = scale(&self.x, points().map(|p| p.0));
        let up = scale(&self.y, points().map(|p| p.1));
        let along = |axis: &Axis, scale: &Scale, value: f64| {
            (axis.place(value) - scale.low) / (scale.high - scale.low)
        };
        let x = |value| LEFT + along(&self.x, &across, value) * (WIDTH - LEFT - RIGHT);
        let y = |value| HEIGHT - BOTTOM - along(&self.y, &up, value) * (HEIGHT - TOP - BOTTOM);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        let mut put = |line: std::fmt::Arguments<'_>| {
            // Nothing fails in memory.
            let _ = out.write_fmt(line);
        };
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for &mark in &across.marks {
            let at = x(mark);
            put(format_args!(
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
                bottom + 16.0,
                number(mark)
            ));
        }
        for &mark in &up.marks {
            let at = y(mark);
            put(format_args!(
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>\n",
                LEFT - 6.0,
                at + 4.0,
                number(mark)
            ));
        }
        put(format_args!(
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" stroke=\"#888\" fill=\"none\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escaped(&self.x.label),
            (TOP + bottom) / 2.0,
            escaped(&self.y.label),
        ));
        for (n, ((name, points), colour)) in lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let path: Vec<String> =
                points.iter().map(|p| format!("{:.1} {:.1}", x(p.0), y(p.1))).collect();
            if !path.is_empty() {
                put(format_args!(
                    "<path d=\"M{}\" stroke=\"{colour}\" stroke-width=\"1.6\" fill=\"none\"/>\n",
                    path.join("L")
                ));
            }
            for p in points.iter().filter(|_| points.len() <= MOST_DOTS) {
                let (x, y) = (x(p.0), y(p.1));
                put(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>\n"
                ));
            }
            let at = TOP + 8.0 + n as f64 * LINE_HEIGHT;
            put(format_args!(
                "<path d=\"M{:.0} {at:.0}h18\" stroke=\"{colour}\" stroke-width=\"3\"/>\n\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>\n",
                right + 10.0,
                right + 34.0,
                at + 4.0,
                escaped(name)
            ));
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Round marks around all values.
fn scale(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if axis.log {
        return logarithmic(low, high);
    }
    let (low, high) = if low <= high { (low.min(0.0), high.max(0.0)) } else { (0.0, 1.0) };
    let step = round_step(high - low);
    let (low, high) = ((low / step).floor(), (high / step).ceil().max((low / step).floor() + 1.0));
    let marks = (0..=(high - low) as u32).map(|n| (low + f64::from(n)) * step).collect();
    Scale { low: low * step, high: high * step, marks }
}

/// Whole decades, with 2 and 5 marked where there are few.
fn logarithmic(low: f64, high: f64) -> Scale {
    let (low, high) = if low <= high { (low.log10(), high.log10()) } else { (0.0, 1.0) };
    let low = low.floor();
    let high = high.ceil().max(low + 1.0);
    let factors: &[f64] = if high - low < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = (0..=(high - low) as u32).map(|n| 10_f64.powf(low + f64::from(n)));
    let marks = decades.flat_map(|decade| factors.iter().map(move |factor| decade * factor));
    Scale { low, high, marks: marks.filter(|mark| mark.log10() <= high + 1e-9).collect() }
}

/// 1, 2 or 5 times a power of ten: four to ten of them make `range`.
fn round_step(range: f64) -> f64 {
    if range <= 0.0 || !range.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf((range / 4.0).log10().floor());
    match range / 4.0 / power {
        ..2.0 => power,
        2.0..5.0 => 2.0 * power,
        _ => 5.0 * power,
    }
}

/// A mark's number: `0.05`, `20`, `5000`, `1e6`.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_hold_all_values() {
        let marks = |axis: &Axis, values: &[f64]| scale(axis, values.iter().copied()).marks;
        assert_eq!(marks(&Axis::linear(""), &[0.3, 3.9]), [0., 0.5, 1., 1.5, 2., 2.5, 3., 3.5, 4.]);
        assert_eq!(marks(&Axis::linear(""), &[]).len(), 6);
        assert_eq!(marks(&Axis::linear(""), &[0.0, 0.0]), [0.0, 1.0]);
        let log = marks(&Axis::log(""), &[3.0, 40.0]);
        assert_eq!(
            log.iter().map(|v| v.round()).collect::<Vec<_>>(),
            [1., 2., 5., 10., 20., 50., 100.]
        );
        assert_eq!(marks(&Axis::log(""), &[1e-3, 1e3]).len(), 7);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.05, 20.0, 5e3, 2e6, 1e-5].map(number),
            ["0", "0.05", "20", "5000", "2e6", "1e-5"]
        );
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let plot = Plot {
            title: "a < b".to_owned(),
            x: Axis::linear("x"),
            y: Axis::log("y"),
            lines: vec![("one".to_owned(), vec![(0.0, 0.0), (1.0, 10.0), (2.0, f64::NAN)])],
        };
        let svg = plot.svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
    }
}
