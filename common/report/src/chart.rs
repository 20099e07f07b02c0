//! Charts: axes, series, views, markers.

use crate::escape::push_html;
use crate::log::Tone;
use crate::number::Unit;
use crate::pool::Pool;
use crate::series::Series;
use crate::table::{Cell, Table};
use serde_json::{Value, json};

/// Markers kept of one chart: more would be a wall.
const MOST_MARKERS: usize = 1000;

/// A vertical line at something that happened.
#[derive(Clone, PartialEq, Debug)]
pub struct Marker {
    at: f64,
    text: String,
    label: String,
    tone: Tone,
}

impl Marker {
    /// At `at` on the x axis; `text` is shown when the reader points at it.
    #[must_use]
    pub fn new(at: f64, text: &str) -> Marker {
        Marker { at, text: text.to_owned(), label: String::new(), tone: Tone::Plain }
    }

    /// With a word or two beside the line, always shown.
    #[must_use]
    pub fn label(mut self, label: &str) -> Marker {
        self.label = label.to_owned();
        self
    }

    /// Sets the tone.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Marker {
        self.tone = tone;
        self
    }
}

/// A choice of what the y axis shows; the reader picks one. Zooming into x fits y to what is seen.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    name: String,
    scale: &'static str,
    threshold: f64,
    range: Option<(f64, f64)>,
}

impl View {
    fn new(name: &str, scale: &'static str) -> View {
        View { name: name.to_owned(), scale, threshold: 0.0, range: None }
    }

    /// Everything, linear.
    #[must_use]
    pub fn all(name: &str) -> View {
        View::new(name, "linear")
    }

    /// From `low` to `high`, linear: what lies outside is cut off until the reader zooms.
    #[must_use]
    pub fn range(name: &str, low: f64, high: f64) -> View {
        let range = (low.is_finite() && high.is_finite() && low < high).then_some((low, high));
        View { range, ..View::new(name, "linear") }
    }

    /// Logarithmic; what is not positive is left out.
    #[must_use]
    pub fn log(name: &str) -> View {
        View::new(name, "log")
    }

    /// Logarithmic to both sides of zero, linear between −`threshold` and `threshold`.
    #[must_use]
    pub fn symmetric_log(name: &str, threshold: f64) -> View {
        let threshold = if threshold.is_finite() && threshold > 0.0 { threshold } else { 1e-6 };
        View { threshold, ..View::new(name, "symlog") }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "scale": self.scale, "threshold": self.threshold,
            "low": self.range.map(|r| r.0), "high": self.range.map(|r| r.1),
        })
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Axis {
    label: String,
    unit: Unit,
    log: bool,
    time: bool,
    names: Vec<String>,
}

impl Axis {
    fn to_json(&self) -> Value {
        json!({
            "label": self.label, "log": self.log, "time": self.time, "names": self.names,
            "steps": self.unit.steps(),
        })
    }
}

/// A plot with a title.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    title: String,
    about: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    views: Vec<View>,
    markers: Vec<Marker>,
    hidden_markers: usize,
}

impl Chart {
    /// Over time, s. The time charts of one section (and of those that
    /// continue it) zoom together.
    #[must_use]
    pub fn time(title: &str) -> Chart {
        let mut chart = Chart::xy(title);
        chart.x = Axis { unit: Unit::Seconds, time: true, ..Axis::default() };
        chart
    }

    /// Over anything else.
    #[must_use]
    pub fn xy(title: &str) -> Chart {
        Chart {
            title: title.to_owned(),
            about: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            series: Vec::new(),
            views: Vec::new(),
            markers: Vec::new(),
            hidden_markers: 0,
        }
    }

    /// Over named places: x = 0 is the first. For [`Series::boxes`], say.
    #[must_use]
    pub fn places<T: Into<String>>(title: &str, names: impl IntoIterator<Item = T>) -> Chart {
        let mut chart = Chart::xy(title);
        chart.x.names = names.into_iter().map(Into::into).collect();
        chart
    }

    /// Names x and its unit.
    #[must_use]
    pub fn x(mut self, label: &str, unit: Unit) -> Chart {
        self.x.label = label.to_owned();
        self.x.unit = unit;
        self
    }

    /// Names y and its unit.
    #[must_use]
    pub fn y(mut self, label: &str, unit: Unit) -> Chart {
        self.y.label = label.to_owned();
        self.y.unit = unit;
        self
    }

    /// y is one of these: 0 is the first.
    #[must_use]
    pub fn y_names<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Chart {
        self.y.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// The unit of y.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Chart {
        self.y.unit = unit;
        self
    }

    /// A logarithmic x axis; what is not positive is left out.
    #[must_use]
    pub fn log_x(mut self) -> Chart {
        self.x.log = true;
        self
    }

    /// A logarithmic y axis, and no other view.
    #[must_use]
    pub fn log_y(self) -> Chart {
        self.view(View::log("log"))
    }

    /// A sentence or two below the title, added to what was said before.
    #[must_use]
    pub fn about(mut self, text: &str) -> Chart {
        if !self.about.is_empty() {
            self.about.push(' ');
        }
        self.about.push_str(text);
        self
    }

    /// Adds a view; the first one is shown at first. Without any: everything, linear.
    #[must_use]
    pub fn view(mut self, view: View) -> Chart {
        self.views.push(view);
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    /// Adds a [`Series::line`].
    #[must_use]
    pub fn line(self, name: &str, rows: impl IntoIterator<Item = (f64, f64)>) -> Chart {
        self.with(Series::line(name, rows))
    }

    /// Adds [`Series::points`].
    #[must_use]
    pub fn points(self, name: &str, rows: impl IntoIterator<Item = (f64, f64)>) -> Chart {
        self.with(Series::points(name, rows))
    }

    /// Adds a [`Series::band`].
    #[must_use]
    pub fn band(self, name: &str, rows: impl IntoIterator<Item = (f64, f64, f64)>) -> Chart {
        self.with(Series::band(name, rows))
    }

    /// Adds a marker. After the first thousand, only those that are a [`Tone::Warning`] or worse,
    /// and no more than twice as many.
    #[must_use]
    pub fn marker(mut self, marker: Marker) -> Chart {
        let grave = matches!(marker.tone, Tone::Warning | Tone::Bad);
        let room = if grave { 2 * MOST_MARKERS } else { MOST_MARKERS };
        if marker.at.is_finite() && self.markers.len() < room {
            self.markers.push(marker);
        } else {
            self.hidden_markers += 1;
        }
        self
    }

    /// Adds markers.
    #[must_use]
    pub fn markers(self, markers: impl IntoIterator<Item = Marker>) -> Chart {
        markers.into_iter().fold(self, Chart::marker)
    }

    /// True if it has nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.summary().0 == 0)
    }

    /// For the script of the page. `group`: charts over time that zoom together.
    /// `since`: Unix ns of time 0, where it is known.
    pub(crate) fn to_json(
        &self,
        group: usize,
        since: Option<i64>,
        most: usize,
        pool: &mut Pool,
    ) -> Value {
        let series: Vec<Value> = (self.series.iter().enumerate())
            .map(|(nth, series)| series.to_json(nth, most, self.x.log, pool))
            .collect();
        let fallback = [View::all("all")];
        let views = if self.views.is_empty() { &fallback[..] } else { &self.views };
        let mut markers: Vec<&Marker> = self.markers.iter().collect();
        markers.sort_by(|a, b| a.at.total_cmp(&b.at));
        json!({
            "x": self.x.to_json(), "y": self.y.to_json(), "series": series,
            "group": self.x.time.then_some(group),
            "since": since.filter(|_| self.x.time).map(day_and_second),
            "views": views.iter().map(View::to_json).collect::<Vec<_>>(),
            "markers": markers.iter()
                .map(|m| json!([m.at, m.text, m.label, m.tone.class()])).collect::<Vec<_>>(),
        })
    }

    /// The figure, empty but for what can be read without the script.
    pub(crate) fn push(&self, out: &mut String, id: usize) {
        out.push_str(&format!(
            "<figure class=chart id=\"chart-{id}\">\n<figcaption><h3 id=\"chart-{id}-title\">"
        ));
        push_html(out, &self.title);
        out.push_str("</h3>");
        let mut about = self.about.clone();
        if self.hidden_markers > 0 {
            about.push_str(&format!(" {} more events are not marked.", self.hidden_markers));
        }
        if !about.is_empty() {
            out.push_str("<p class=about>");
            push_html(out, &about);
            out.push_str("</p>");
        }
        out.push_str(&format!(
            "</figcaption>\n<div class=tools></div>\n<div class=plot tabindex=0 role=group \
             aria-roledescription=chart aria-labelledby=\"chart-{id}-title\" \
             aria-describedby=\"chart-{id}-figures\"></div>\n\
             <details class=figures><summary>In figures</summary>\n<div id=\"chart-{id}-figures\">"
        ));
        self.figures().push(out);
        out.push_str("</div></details>\n</figure>\n");
    }

    /// Figures of the chart, for those who do not see it.
    fn figures(&self) -> Table {
        let mut table = Table::new(&format!("{}: what is drawn", self.title))
            .head(["series", "values", "least", "median", "greatest"]);
        for series in &self.series {
            let (count, values) = series.summary();
            let cells = [Cell::count(count as u64)]
                .into_iter()
                .chain(values.map(|v| Cell::number(v, self.y.unit.clone())));
            table = table.row(format!("{}{}", series.name(), series.measured()), cells);
        }
        table
    }
}

/// Seconds since the beginning as hours, minutes and seconds, as the charts have them: `14h05m30s`.
pub(crate) fn clock_time(seconds: f64) -> String {
    let tenths = (seconds.abs() * 10.0).round();
    let sign = if seconds < 0.0 && tenths > 0.0 { "−" } else { "" };
    let (hours, tenths) = ((tenths / 36000.0).floor(), tenths % 36000.0);
    let (minutes, tenths) = ((tenths / 600.0).floor(), tenths % 600.0);
    // Whole seconds, which most are, have no decimal.
    let seconds = |width: usize| {
        if tenths % 10.0 == 0.0 {
            format!("{:0width$.0}", tenths / 10.0)
        } else {
            format!("{:0width$.1}", tenths / 10.0, width = width + 2)
        }
    };
    if hours > 0.0 {
        format!("{sign}{hours:.0}h{minutes:02.0}m{}s", seconds(2))
    } else if minutes > 0.0 {
        format!("{sign}{minutes:.0}m{}s", seconds(2))
    } else {
        format!("{sign}{}\u{A0}s", seconds(1))
    }
}

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Days since 1970 and the second of the day: one number for both would lose the microseconds.
fn day_and_second(unix_ns: i64) -> (i64, f64) {
    let day = unix_ns.div_euclid(DAY * SECOND);
    (day, unix_ns.rem_euclid(DAY * SECOND) as f64 / SECOND as f64)
}

/// Time of day (UTC) `seconds` after `zero`, Unix ns, to the tenth: `09:30:12.3`; on another day than `zero`
/// with the days from there, `09:30:12.3 +1 d`.
pub(crate) fn time_of_day(zero: i64, seconds: f64) -> String {
    let (_, second) = day_and_second(zero);
    let all_tenths = ((second + seconds) * 10.0).round();
    let days = (all_tenths / (DAY as f64 * 10.0)).floor();
    let tenths = all_tenths.rem_euclid(DAY as f64 * 10.0);
    let (hours, rest) = ((tenths / 36_000.0).floor(), tenths % 36_000.0);
    let time = format!("{hours:02.0}:{:02.0}:{:04.1}", (rest / 600.0).floor(), rest % 600.0 / 10.0);
    if days == 0.0 { time } else { format!("{time} {days:+.0}\u{a0}d") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_that_of_utc() {
        // 2026-11-28 23:59:59.75 UTC
        let zero = 1_795_910_399_750_000_000;
        assert_eq!(day_and_second(zero), (20_785, 86_399.75));
        assert_eq!(time_of_day(zero, 0.0), "23:59:59.8");
        assert_eq!(time_of_day(zero, 0.25), "00:00:00.0 +1\u{a0}d");
        assert_eq!(time_of_day(zero, 86_400.0 * 3.0), "23:59:59.8 +3\u{a0}d");
        assert_eq!(time_of_day(zero, -86_399.85), "23:59:59.9 -1\u{a0}d");
        assert_eq!(time_of_day(zero, -3600.15), "22:59:59.6");
        assert_eq!(day_and_second(-1).0, -1);
    }

    #[test]
    fn times_read_like_times() {
        assert_eq!(clock_time(0.0), "0\u{A0}s");
        assert_eq!(clock_time(59.96), "1m00s");
        assert_eq!(clock_time(50_730.25), "14h05m30.3s");
        assert_eq!(clock_time(-61.0), "−1m01s");
        assert_eq!(clock_time(-0.01), "0\u{A0}s");
    }

    #[test]
    fn markers_are_limited_and_the_rest_is_counted() {
        let many = (0..5000).map(|i| {
            let tone = if i % 2 == 0 { Tone::Warning } else { Tone::Plain };
            Marker::new(f64::from(i), "x").tone(tone)
        });
        let chart = Chart::time("t").markers(many).marker(Marker::new(f64::NAN, "never"));
        assert_eq!(chart.markers.len() + chart.hidden_markers, 5001);
        assert_eq!(chart.markers.len(), 2 * MOST_MARKERS);
    }
}
