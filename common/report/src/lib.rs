//! Reports as one self-contained HTML page: tables, plots, notes.
//!
//! A [`Page`] has [`Section`]s; a section has text, [`Table`]s, [`Chart`]s and logs of [`Entry`]s.
//! [`Page::render`] gives a page that needs nothing but itself: style, script and data are inline,
//! and its content security policy forbids it to load anything. The same page gives the same bytes.
//!
//! Values are given in base units (seconds, ratios, hertz) and shown with the prefix that suits
//! them. Text is text: whatever is in it, it is shown and never becomes markup or script.
//!
//! The means, medians and quantiles of all crates are here too.
//!
//! Not here: what a figure means; who reports says that.
#![forbid(unsafe_code)]

mod assets;
mod chart;
mod decimate;
mod escape;
mod histogram;
mod log;
mod number;
mod page;
mod pool;
mod series;
mod statistics;
mod table;

pub use chart::{Chart, Marker, View};
pub use decimate::{decimate, envelope, thin};
pub use histogram::Histogram;
pub use log::{Entry, Tone};
pub use number::Unit;
pub use page::{Page, Section};
pub use series::{FiveNumbers, Series};
pub use statistics::{mean, median, percentile, quantile, rms, sorted};
pub use table::{Cell, Share, Table};
