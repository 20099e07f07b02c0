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
/// Height of what a name, or the title, goes on with below its first line.
const MORE_HEIGHT: f64 = 14.0;
/// Size of the text.
const EM: f64 = 12.0;
/// Room for a name of the legend, and for the title.
const NAME_ROOM: f64 = RIGHT - 34.0 - 4.0;
const TITLE_ROOM: f64 = WIDTH - LEFT - 8.0;
/// Widenings of the picture, of which the least is taken that has room for all names beside the lines.
const WIDER: [f64; 4] = [0.0, 40.0, 80.0, 120.0];
/// Half of the last number below the axis, which a legend that comes down to it leaves room for.
const NUMBER: f64 = 24.0;
/// Widening of letters that are bold.
const BOLD: f64 = 1.12;
/// A line of more points than this is drawn without dots.
const MOST_DOTS: usize = 170;
/// Colours that are told apart by most eyes: as many as a campaign has kinds of fail-overs.
const COLOURS: [&str; 10] = [
    "#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#555555", "#bcbd22",
    "#17becf", "#000000",
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
        let Legend { names, begins, left, wider } = Legend::of(lines.iter().map(|(name, _)| *name));
        let height = begins.last().map_or(HEIGHT, |end| HEIGHT.max(*end));
        // A title of several lines begins above the picture of others.
        let title = broken(&self.title, TITLE_ROOM / EM / BOLD);
        let above = (title.len() - 1) as f64 * MORE_HEIGHT;
        let raised = if above > 0.0 { format!(" y=\"-{above}\"") } else { String::new() };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {} {} {}\" \
             font-family=\"sans-serif\" font-size=\"{EM}\">\n\
             <rect{raised} width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>\n",
            0.0 - above,
            WIDTH + wider,
            height + above,
            18.0 - above,
            lines_at(LEFT, &title)
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
        let lines = lines.iter().map(|(_, points)| points).zip(COLOURS.iter().cycle());
        for ((points, colour), (name, begin)) in lines.zip(names.iter().zip(&begins)) {
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
            let at = begin + 8.0;
            put(format_args!(
                "<path d=\"M{:.0} {at:.0}h18\" stroke=\"{colour}\" stroke-width=\"3\"/>\n\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>\n",
                right + left,
                right + left + 24.0,
                at + 4.0,
                lines_at(right + left + 24.0, name)
            ));
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Names of the lines, one below the other.
#[derive(Default)]
struct Legend {
    /// Each in as many lines as it takes.
    names: Vec<Vec<String>>,
    /// Height at which each begins, and at last the end of all.
    begins: Vec<f64>,
    /// Distance from the lines.
    left: f64,
    /// Width that it takes beyond the usual.
    wider: f64,
}

impl Legend {
    fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Legend {
        let mut legend = Legend::default();
        for wider in WIDER {
            legend = Legend::within(wider, names.clone());
            if legend.begins.last().is_none_or(|end| *end <= HEIGHT) {
                break;
            }
        }
        legend
    }

    fn within<'a>(wider: f64, names: impl Iterator<Item = &'a str>) -> Legend {
        let names: Vec<_> = names.map(|name| broken(name, (NAME_ROOM + wider) / EM)).collect();
        let mut at = TOP;
        let ends = names.iter().map(|lines| {
            at += LINE_HEIGHT + (lines.len() - 1) as f64 * MORE_HEIGHT;
            at
        });
        let begins = std::iter::once(TOP).chain(ends).collect();
        let aside = if at > HEIGHT - BOTTOM { NUMBER } else { 0.0 };
        Legend { names, begins, left: 10.0 + aside, wider: wider + aside }
    }
}

/// Content of a text that goes on below itself.
fn lines_at(x: f64, lines: &[String]) -> String {
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        let line = escaped(line);
        // Nothing fails in memory.
        let _ = match n {
            0 => write!(out, "{line}"),
            _ => write!(out, "<tspan x=\"{x}\" dy=\"{MORE_HEIGHT}\">{line}</tspan>"),
        };
    }
    out
}

/// Text in lines that are no wider than `room` (in ems) in any usual font; at least one. A word alone that is wider is
/// broken.
fn broken(text: &str, room: f64) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + width(" ") + width(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        while let Some((kept, rest)) = cut(&line, room) {
            lines.push(kept);
            line = rest;
        }
    }
    lines.push(line);
    lines
}

/// The two parts of a line that is too wide; none of one that is not.
fn cut(line: &str, room: f64) -> Option<(String, String)> {
    let mut so_far = 0.0;
    let over = line.char_indices().find(|(at, c)| {
        so_far += width_of(*c);
        so_far > room && *at > 0
    });
    let (kept, rest) = line.split_at_checked(over?.0)?;
    Some((kept.to_owned(), rest.to_owned()))
}

/// Width of a text in ems, as wide fonts have it (DejaVu Sans, Verdana).
fn width(text: &str) -> f64 {
    text.chars().map(width_of).sum()
}

fn width_of(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '|' | '.' | ',' | ':' | ';' | '\'' | '!' => 0.34,
        ' ' | '(' | ')' | '[' | ']' | 'f' | 't' | 'r' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
        '−' | '+' | '=' | '±' | '×' | '÷' | '<' | '>' | '→' => 0.84,
        'A'..='Z' => 0.79,
        c if c.is_ascii() => 0.64,
        _ => 1.0,
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
    // A longer one lies over the axis' name.
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
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
            [0.0, 0.05, 20.0, 5e3, 2e6, 1e-3, 1e-4, 1e-5].map(number),
            ["0", "0.05", "20", "5000", "2e6", "0.001", "1e-4", "1e-5"]
        );
    }

    #[test]
    fn names_and_titles_too_long_for_their_room_go_on_below() {
        assert_eq!(
            broken("kernel's stamp (packet), converted at once", 13.0),
            ["kernel's stamp", "(packet), converted at", "once"]
        );
        assert_eq!(broken("short", 13.0), ["short"]);
        assert_eq!(broken("", 13.0), [""]);
        for line in broken(&"abcdefghij".repeat(9), 13.0) {
            assert!(width(&line) <= 13.0, "{line}");
        }
        let line = |name: &str| (name.to_owned(), vec![(1.0, 1.0)]);
        let plot = |title: &str, lines: usize| Plot {
            title: title.to_owned(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            lines: (0..lines).map(|_| line("one whose name is longer than its room")).collect(),
        };
        let few = plot("t", 2).svg();
        assert!(few.contains("viewBox=\"0 0 760 380\""), "{few}");
        assert!(few.contains(">one whose name is<tspan x=\"604\" dy=\"14\">"), "{few}");
        // The second begins below the first, which has two lines.
        assert!(
            few.contains("<text x=\"604\" y=\"46\"") && few.contains("<text x=\"604\" y=\"77\""),
            "{few}"
        );
        // Names beside each other's lines, and a title of two lines.
        let many = plot(&"title ".repeat(30), 14).svg();
        assert!(
            many.contains("viewBox=\"0 -14 880 394\"") && many.contains("<rect y=\"-14\""),
            "{many}"
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
