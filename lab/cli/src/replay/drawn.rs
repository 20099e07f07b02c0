//! The report of a replay: what each estimator's clock did, in one page.

use truechimer_command::report;
use truechimer_report::{Cell, Chart, Page, Section, Table, Unit};
use truechimer_sim::replay::Spread;
use truechimer_time::{Instant, Span};

/// Something that the clock is held against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Against {
    /// The reference of a stamp file.
    Reference,
    /// A client without a filter.
    Naive,
    /// The clock in the log.
    Logged,
}

impl Against {
    const ALL: [Against; 3] = [Against::Reference, Against::Logged, Against::Naive];

    fn title(self) -> &'static str {
        match self {
            Against::Reference => "The clock - the reference",
            Against::Naive => "The clock - a client without a filter",
            Against::Logged => "The clock - the clock in the log",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Against::Reference => {
                "The error, by whoever stamped the same packets; positive: ahead."
            }
            Against::Naive => {
                "A client without a filter takes the reply for half of the round trip: its noise is \
                 the path's, not the clock's. Positive: the clock is ahead."
            }
            Against::Logged => {
                "At every reply that both used; positive: ahead of the logged clock."
            }
        }
    }
}

/// One estimator's clock at one reply.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    from: [Option<Span>; 3],
    bound: Option<Span>,
}

/// Run of one estimator.
#[derive(Debug)]
pub struct Drawn {
    name: String,
    points: Vec<Point>,
    spreads: Vec<(Against, Spread)>,
    used: u64,
}

impl Drawn {
    /// Nothing yet, by this name.
    pub fn new(name: &str) -> Drawn {
        Drawn { name: name.to_owned(), points: Vec::new(), spreads: Vec::new(), used: 0 }
    }

    /// Adds what the clock was then, against what there is, and its bound.
    pub fn add(&mut self, at: Instant, from: [(Against, Option<Span>); 2], bound: Option<Span>) {
        let given = |wanted| from.iter().find(|(from, _)| *from == wanted).and_then(|(_, by)| *by);
        self.points.push(Point { at, from: Against::ALL.map(given), bound });
    }

    /// The statistics, and how many replies were used.
    pub fn sum(&mut self, spreads: &[(Against, Option<Spread>)], used: u64) {
        self.spreads.extend(spreads.iter().filter_map(|(from, spread)| Some((*from, (*spread)?))));
        self.used = used;
    }

    /// Rows for a plot: seconds since `first`, and seconds.
    fn rows(&self, first: Instant, of: impl Fn(&Point) -> Option<Span>) -> Vec<(f64, f64)> {
        let value = |span: Span| span.as_picos() as f64 * 1e-12;
        let rows = self.points.iter().filter_map(|p| Some((value(p.at - first), value(of(p)?))));
        rows.collect()
    }
}

/// The page.
pub fn page(file: &str, drawn: &[Drawn]) -> Page {
    let first = drawn.iter().filter_map(|one| Some(one.points.first()?.at)).min();
    let first = first.unwrap_or_default();
    let mut section = Section::new("Clocks");
    for (n, from) in Against::ALL.into_iter().enumerate() {
        let by = |p: &Point| p.from.get(n).copied().flatten();
        let lines = drawn.iter().map(|one| (one, one.rows(first, by)));
        let lines: Vec<_> = lines.filter(|(_, rows)| !rows.is_empty()).collect();
        if !lines.is_empty() {
            let mut chart = Chart::time(from.title()).about(from.about()).y("by", Unit::Seconds);
            for (one, rows) in lines {
                chart = chart.line(&one.name, rows);
            }
            section = section.chart(chart);
        }
    }
    let mut bounds = Chart::time("Bound")
        .about("How far the clock itself says it may be off; those that promise none have no line.")
        .y("bound", Unit::Seconds)
        .log_y();
    for one in drawn {
        let rows = one.rows(first, |p| p.bound.filter(|bound| *bound > Span::ZERO));
        if !rows.is_empty() {
            bounds = bounds.line(&one.name, rows);
        }
    }
    if !bounds.is_empty() {
        section = section.chart(bounds);
    }
    let page = report::page(&format!("Replay of {file}"))
        .about("Estimators over the same exchanges.")
        .section(section.table(table(drawn)));
    highlights(page, drawn)
}

/// Adds what one wants to know first, of the first estimator.
fn highlights(page: Page, drawn: &[Drawn]) -> Page {
    let Some(one) = drawn.first() else { return page };
    let named = |what: &str| format!("{}: {what}", one.name);
    let page = page.highlight(&named("replies used"), one.used.to_string());
    let Some((from, spread)) = one.spreads.last() else { return page };
    let us = |us: f64| Cell::number(us * 1e-6, Unit::Seconds);
    page.highlight(&named(&format!("median, {}", from.title())), us(spread.median_us))
        .highlight(&named("rms"), us(spread.rms_us))
}

fn table(drawn: &[Drawn]) -> Table {
    let head = ["estimator", "against", "replies used", "median", "rms", "1 %", "99 %", "max"];
    let mut table = Table::new("How they are spread").head(head);
    let us = |us: f64| Cell::number(us * 1e-6, Unit::Seconds);
    for one in drawn {
        for (from, s) in &one.spreads {
            let numbers = [s.median_us, s.rms_us, s.p1_us, s.p99_us, s.max_us].map(us);
            let words = [Cell::text(from.title()), Cell::text(one.used.to_string())];
            table = table.row(one.name.clone(), words.into_iter().chain(numbers));
        }
    }
    table
}
