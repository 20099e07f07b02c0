//! Data that a chart draws.

use crate::decimate::{decimate, envelope, thin};
use crate::pool::Pool;
use crate::statistics::{quantile, sorted};
use serde_json::{Value, json};

/// A distribution in five numbers, ascending: the ends of the whiskers, of the box, and its middle.
/// In reports of clocks: percentiles 1, 25, 50, 75 and 99.
pub type FiveNumbers = [f64; 5];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Line,
    Points,
    Steps,
}

#[derive(Clone, PartialEq, Debug)]
enum Rows {
    Plain(Kind, Vec<(f64, f64)>),
    Band(Vec<(f64, f64, f64)>),
    Boxes(Vec<(f64, FiveNumbers)>),
}

/// True if a chart can have this x.
fn is_place(x: f64) -> bool {
    x.abs() < 1e18
}

/// Those of the rows that a chart can have, in the order of x. Not within what takes any iterator: a
/// program would have the sort once for each.
fn placed<T>(mut rows: Vec<T>, x: fn(&T) -> f64) -> Vec<T> {
    rows.retain(|row| is_place(x(row)));
    rows.sort_by(|a, b| x(a).total_cmp(&x(b)));
    rows
}

/// One row of numbers over x, and how it is drawn. Values are in the base unit of the chart's axes;
/// a y that is no number is a gap, an x that is none (or beyond 10^18) is
/// left out. Rows need not be in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    name: String,
    rows: Rows,
    colour: Option<usize>,
    dashed: bool,
    hidden: bool,
    behind: bool,
}

impl Series {
    fn new(name: &str, rows: Rows) -> Series {
        Series {
            name: name.to_owned(),
            rows,
            colour: None,
            dashed: false,
            hidden: false,
            behind: false,
        }
    }

    fn plain(name: &str, kind: Kind, rows: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Rows::Plain(kind, placed(rows.into_iter().collect(), |row| row.0)))
    }

    /// A line through (x, y).
    #[must_use]
    pub fn line(name: &str, rows: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain(name, Kind::Line, rows)
    }

    /// A dot at every (x, y).
    #[must_use]
    pub fn points(name: &str, rows: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain(name, Kind::Points, rows)
    }

    /// A filled line that keeps each y until the next x, as of a histogram.
    #[must_use]
    pub fn steps(name: &str, rows: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain(name, Kind::Steps, rows)
    }

    /// A shaded band of (x, low, high).
    #[must_use]
    pub fn band(name: &str, rows: impl IntoIterator<Item = (f64, f64, f64)>) -> Series {
        Series::new(name, Rows::Band(placed(rows.into_iter().collect(), |row| row.0)))
    }

    /// A box with whiskers at every x.
    #[must_use]
    pub fn boxes(name: &str, rows: impl IntoIterator<Item = (f64, FiveNumbers)>) -> Series {
        Series::new(name, Rows::Boxes(placed(rows.into_iter().collect(), |row| row.0)))
    }

    /// Drawn in this of the palette's colours (modulo their number) rather than the next; the same
    /// colour in several charts for the same thing helps.
    #[must_use]
    pub fn colour(mut self, colour: usize) -> Series {
        self.colour = Some(colour);
        self
    }

    /// Drawn dashed: what is only a reference for the rest.
    #[must_use]
    pub fn dashed(mut self) -> Series {
        self.dashed = true;
        self
    }

    /// Not drawn until the reader asks for it in the legend.
    #[must_use]
    pub fn hidden(mut self) -> Series {
        self.hidden = true;
        self
    }

    /// Never decides the range of y, unless nothing else is there.
    #[must_use]
    pub fn behind(mut self) -> Series {
        self.behind = true;
        self
    }

    /// Name of the series.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rows, least, median and greatest of its numbers (of a band: half its width; of boxes: the
    /// middles).
    pub(crate) fn summary(&self) -> (usize, [f64; 3]) {
        let values: Vec<f64> = match &self.rows {
            Rows::Plain(_, rows) => rows.iter().map(|row| row.1).collect(),
            Rows::Band(rows) => rows.iter().map(|row| (row.2 - row.1) / 2.0).collect(),
            Rows::Boxes(rows) => rows.iter().map(|row| row.1[2]).collect(),
        };
        let values = sorted(values);
        (values.len(), [0.0, 0.5, 1.0].map(|q| quantile(&values, q)))
    }

    /// Quantity that the summary is of.
    pub(crate) fn measured(&self) -> &'static str {
        match &self.rows {
            Rows::Plain(..) => "",
            Rows::Band(_) => " (half width)",
            Rows::Boxes(_) => " (medians)",
        }
    }

    /// Form that the script of the page takes. `log_x`: x needs relative, not absolute resolution.
    pub(crate) fn to_json(&self, nth: usize, most: usize, log_x: bool, pool: &mut Pool) -> Value {
        let abscissae = |xs: &mut dyn Iterator<Item = f64>, pool: &mut Pool| {
            if log_x { pool.values(xs) } else { pool.ascending(xs) }
        };
        let (kind, x, y) = match &self.rows {
            Rows::Plain(kind, rows) => {
                let (name, rows) = match kind {
                    Kind::Line => ("line", decimate(rows, most)),
                    Kind::Points => ("points", thin(rows, most.saturating_mul(2))),
                    Kind::Steps => ("steps", decimate(rows, most)),
                };
                let x = abscissae(&mut rows.iter().map(|row| row.0), pool);
                (name, x, vec![pool.values(rows.iter().map(|row| row.1))])
            }
            Rows::Band(rows) => {
                let rows = envelope(rows, most);
                let x = abscissae(&mut rows.iter().map(|row| row.0), pool);
                let low = pool.values(rows.iter().map(|row| row.1));
                ("band", x, vec![low, pool.values(rows.iter().map(|row| row.2))])
            }
            Rows::Boxes(rows) => {
                let x = abscissae(&mut rows.iter().map(|row| row.0), pool);
                let y =
                    (0..5).map(|n| pool.values(rows.iter().filter_map(|r| r.1.get(n).copied())));
                ("boxes", x, y.collect())
            }
        };
        json!({
            "name": self.name, "kind": kind, "x": x, "y": y,
            "colour": self.colour.unwrap_or(nth), "dashed": self.dashed,
            "hidden": self.hidden, "behind": self.behind,
        })
    }
}
