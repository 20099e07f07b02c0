//! Outcome of a measurement: goals, tables, plots, for people and programs.

use std::fmt::{self, Write};

use serde_json::{Value, json};
use truechimer_report::{Cell, Chart, Section, Table, Tone};

use crate::interval::Interval;
use crate::plot::Plot;
use crate::verdict::{Control, Verdict};

/// Reason why something cannot be measured here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(pub String);

impl Failure {
    /// `doing` did not work, for `why`.
    pub fn of(doing: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure(format!("{doing}: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Something that was to be reached.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// Subject: "packet at 64 bytes, against tcpdump with the same ring".
    pub name: String,
    /// Figure to be reached: "≥ 0.95 ×".
    pub wanted: String,
    /// Figure that was reached.
    pub measured: String,
    /// Verdict on it.
    pub verdict: Verdict,
}

impl Goal {
    /// A ratio that was to be at least `wanted`, over the rounds.
    #[must_use]
    pub fn at_least(name: &str, wanted: f64, ratio: &Interval) -> Goal {
        Goal {
            name: name.to_owned(),
            wanted: format!("≥ {wanted} ×"),
            measured: times(ratio),
            verdict: Verdict::at_least(wanted, ratio),
        }
    }

    /// A ratio that was to be at most `wanted`, over the rounds.
    #[must_use]
    pub fn at_most(name: &str, wanted: f64, ratio: &Interval) -> Goal {
        Goal {
            name: name.to_owned(),
            wanted: format!("≤ {wanted} ×"),
            measured: times(ratio),
            verdict: Verdict::at_most(wanted, ratio),
        }
    }

    /// Something counted: no figure that a busy machine makes worse.
    #[must_use]
    pub fn counted(name: &str, wanted: &str, measured: impl fmt::Display, met: bool) -> Goal {
        Goal {
            name: name.to_owned(),
            wanted: wanted.to_owned(),
            measured: measured.to_string(),
            verdict: Verdict::of(met),
        }
    }

    /// Adds what was compared.
    #[must_use]
    pub fn note(mut self, note: &str) -> Goal {
        self.measured = format!("{}; {note}", self.measured);
        self
    }

    /// Open where this control did not come out as it should have.
    #[must_use]
    pub fn under(mut self, control: &Control) -> Goal {
        self.verdict = self.verdict.under(control);
        self
    }
}

/// A ratio for people.
#[must_use]
pub fn times(ratio: &Interval) -> String {
    ratio.text(|value| format!("{value:.2} ×"))
}

/// A table of words and figures; the first column names the row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Grid {
    /// Subject of the grid.
    pub caption: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows, each as long as `head`.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// One without rows.
    #[must_use]
    pub fn new<T: Into<String>>(caption: &str, head: impl IntoIterator<Item = T>) -> Grid {
        let head = head.into_iter().map(Into::into).collect();
        Grid { caption: caption.to_owned(), head, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let mut widths = vec![0; lines().map(Vec::len).max().unwrap_or(0)];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = format!("{}\n", self.caption);
        for line in lines() {
            let mut row = String::from(" ");
            for (n, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let _ = match n {
                    0 => write!(row, " {cell:width$}"),
                    _ => write!(row, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(out, "{}", row.trim_end());
        }
        out
    }

    fn markdown(&self) -> String {
        let row = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut out = format!("{}\n\n{}", self.caption, row(&self.head));
        let rule = (0..self.head.len()).map(|n| if n == 0 { "---|" } else { "---:|" });
        let _ = writeln!(out, "|{}", rule.collect::<String>());
        out.extend(self.rows.iter().map(|cells| row(cells)));
        out
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&self.caption).head(self.head.iter().map(String::as_str));
        for row in &self.rows {
            let (name, cells) = row.split_first().map_or(("", &[][..]), |(n, c)| (n.as_str(), c));
            let cells = cells.iter().enumerate().map(|(n, cell)| match cell.parse() {
                Ok(count) if self.counts(n + 1) => Cell::count(count),
                _ => Cell::text(cell.as_str()),
            });
            table = table.row(name, cells);
        }
        table
    }

    /// True if a column has whole numbers and nothing else.
    fn counts(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.all(|cell| cell.parse::<u64>().is_ok())
    }
}

/// A picture: one of ours, which also goes into a text as SVG, or any that a report can show.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// Lines and points.
    Plot(Plot),
    /// For the HTML report only.
    Chart(Box<Chart>),
}

/// Outcome of one measurement.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The word by which the command line knows it.
    pub name: &'static str,
    /// Subject of the measurement.
    pub title: String,
    /// Method, and what it can and cannot show; a paragraph each.
    pub about: Vec<String>,
    /// Headline of a report: up to three names, each with its figure.
    pub headline: Vec<(String, String)>,
    /// Goals to be reached.
    pub goals: Vec<Goal>,
    /// The figures.
    pub grids: Vec<Grid>,
    /// Pictures of these figures.
    pub figures: Vec<Figure>,
    /// JSON of the same, for programs.
    pub json: Value,
}

impl Outcome {
    /// True if nothing that was to be reached was missed, as far as this run can judge.
    #[must_use]
    pub fn is_met(&self) -> bool {
        !self.goals.iter().any(|goal| goal.verdict.is_missed())
    }

    fn goals(&self) -> Option<Grid> {
        let mut grid = Grid::new("Goals", ["goal", "wanted", "measured", ""]);
        for goal in &self.goals {
            let Goal { name, wanted, measured, verdict } = goal;
            grid.row([name, wanted, measured, &verdict.text()]);
        }
        (!grid.rows.is_empty()).then_some(grid)
    }

    fn all_grids(&self) -> impl Iterator<Item = Grid> {
        self.grids.iter().cloned().chain(self.goals())
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.title, "=".repeat(self.title.chars().count()));
        for paragraph in &self.about {
            let _ = writeln!(out, "{}", wrapped(paragraph, 100));
        }
        for grid in self.all_grids() {
            let _ = writeln!(out, "\n{}", grid.text().trim_end());
        }
        out
    }

    /// For a document; pictures are named `NAME-N.svg`.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("## {}\n", self.title);
        for paragraph in &self.about {
            let _ = writeln!(out, "\n{}", wrapped(paragraph, 100));
        }
        for (file, plot) in self.plots() {
            let _ = writeln!(out, "\n![{}]({file})", plot.title);
        }
        for grid in self.all_grids() {
            let _ = write!(out, "\n{}", grid.markdown());
        }
        out
    }

    /// The pictures that go into a document, with the names of their files.
    pub fn plots(&self) -> impl Iterator<Item = (String, &Plot)> {
        let plots = self.figures.iter().filter_map(|figure| match figure {
            Figure::Plot(plot) => Some(plot),
            Figure::Chart(_) => None,
        });
        plots.enumerate().map(|(n, plot)| (format!("{}-{}.svg", self.name, n + 1), plot))
    }

    /// For a report.
    #[must_use]
    pub fn section(&self) -> Section {
        let mut section = Section::new(&self.title);
        for paragraph in &self.about {
            section = section.text(paragraph);
        }
        for figure in &self.figures {
            section = section.chart(match figure {
                Figure::Plot(plot) => plot.chart(),
                Figure::Chart(chart) => (**chart).clone(),
            });
        }
        for grid in &self.grids {
            section = section.table(grid.table());
        }
        let mut goals = Table::new("Goals").head(["goal", "wanted", "measured", ""]);
        for goal in &self.goals {
            let tone = match goal.verdict {
                Verdict::Met => Tone::Good,
                Verdict::NotMet => Tone::Bad,
                Verdict::Open(_) => Tone::Plain,
            };
            let cells = [&goal.wanted, &goal.measured].map(|text| Cell::text(text.as_str()));
            let verdict = Cell::text(goal.verdict.text()).tone(tone);
            goals = goals.row(goal.name.as_str(), cells.into_iter().chain([verdict]));
        }
        section.table(goals)
    }

    /// Headline of a report on these: that of the only one, if it has one, else how the goals came out.
    #[must_use]
    pub fn headline(outcomes: &[Outcome]) -> Vec<(String, Cell)> {
        if let [one] = outcomes
            && !one.headline.is_empty()
        {
            let text =
                |(name, value): &(String, String)| (name.clone(), Cell::text(value.as_str()));
            return one.headline.iter().map(text).collect();
        }
        let goals = || outcomes.iter().flat_map(|outcome| &outcome.goals);
        let count = |which: fn(&Verdict) -> bool| goals().filter(|g| which(&g.verdict)).count();
        let missed = count(|verdict| *verdict == Verdict::NotMet);
        let tone = if missed > 0 { Tone::Bad } else { Tone::Plain };
        let text = |count: usize| Cell::text(count.to_string());
        vec![
            ("goals met".to_owned(), text(count(|verdict| *verdict == Verdict::Met))),
            ("goals missed".to_owned(), text(missed).tone(tone)),
            ("not to be judged here".to_owned(), text(count(|v| matches!(v, Verdict::Open(_))))),
        ]
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let goals: Vec<Value> = self
            .goals
            .iter()
            .map(|Goal { name, wanted, measured, verdict }| {
                json!({
                    "goal": name, "wanted": wanted, "measured": measured, "met": verdict.met(),
                    "verdict": verdict.text(),
                })
            })
            .collect();
        json!({ "measurement": self.name, "about": self.about, "goals": goals, "figures": self.json })
    }
}

/// `text` in lines of at most `width` characters.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let mut grid = Grid::new("Rates", ["tool", "Mpps"]);
        grid.row(["a|b", "1.5"]);
        grid.row(["longer", "12.25"]);
        Outcome {
            name: "rate",
            title: "Rates".to_owned(),
            about: vec!["one two".to_owned()],
            goals: vec![
                Goal::at_least("a", 2.0, &Interval::of(&[2.5; 6])),
                Goal::at_most("b", 1.0, &Interval::of(&[])),
            ],
            grids: vec![grid],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_report_has_a_headline() {
        let told = |outcomes: &[Outcome]| -> Vec<String> {
            Outcome::headline(outcomes).into_iter().map(|(name, _)| name).collect()
        };
        let goals = ["goals met", "goals missed", "not to be judged here"];
        assert_eq!(told(&[outcome()]), goals);
        let own = Outcome { headline: vec![("rate".into(), "1 Mpps".into())], ..outcome() };
        assert_eq!(told(std::slice::from_ref(&own)), ["rate"]);
        assert_eq!(told(&[own, outcome()]), goals);
    }

    #[test]
    fn a_goal_that_could_not_be_judged_is_neither_met_nor_missed() {
        let mut outcome = outcome();
        assert!(outcome.is_met());
        assert!(outcome.text().contains("not measured  cannot judge: not measured\n"));
        assert_eq!(outcome.to_json()["goals"][1]["met"], Value::Null);
        outcome.goals.push(Goal::at_least("c", 2.0, &Interval::of(&[1.99; 5])));
        assert!(outcome.is_met(), "five rounds decide nothing");
        let missed = Goal::at_least("d", 2.0, &Interval::of(&[1.99; 6]));
        outcome.goals.push(missed.clone().under(&Err("busy".to_owned())));
        assert!(outcome.is_met() && outcome.text().contains("cannot judge: busy"));
        outcome.goals.push(missed);
        assert!(!outcome.is_met());
        assert!(outcome.text().contains("NOT MET"));
        assert_eq!(outcome.to_json()["goals"][4]["met"], false);
    }

    #[test]
    fn tables_line_up_and_escape() {
        let outcome = outcome();
        assert!(outcome.text().contains("  tool     Mpps\n  a|b       1.5\n  longer  12.25\n"));
        let markdown = outcome.markdown();
        assert!(markdown.contains("| tool | Mpps |\n|---|---:|\n| a\\|b | 1.5 |\n"), "{markdown}");
    }

    #[test]
    fn reports_group_the_digits_of_counts() {
        let mut grid = Grid::new("t", ["", "sent", "lost", "share"]);
        grid.row(["a", "23343871", "12345", "10000"]);
        grid.row(["b", "0", "–", "0.5"]);
        let mut page = Outcome { grids: vec![grid], ..outcome() };
        page.figures.clear();
        let html = truechimer_report::Page::new("t").section(page.section()).render();
        let columns = ["class=number>sent<", "scope=col>lost<", "scope=col>share<"];
        assert!(columns.iter().all(|part| html.contains(part)), "{html}");
        let cells = [">23\u{202F}343\u{202F}871<", ">12345<", ">10000<", "scope=col>goal<"];
        assert!(cells.iter().all(|part| html.contains(part)), "{html}");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("aaa bb  c dddd", 6), "aaa bb\nc dddd");
        assert_eq!(wrapped("toolongaword x", 4), "toolongaword\nx");
    }
}
