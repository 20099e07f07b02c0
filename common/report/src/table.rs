//! Tables of text and numbers.

use crate::escape::push_html;
use crate::log::Tone;
use crate::number::Unit;

/// Most characters of a text that stays in one line however narrow the window is: "97.916 %", "hold-off".
const SHORT: usize = 10;
/// Characters from which a text gets some width in a narrow window, for which the table scrolls.
const LONG: usize = 30;

/// Content of one cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    content: Content,
    tone: Tone,
}

#[derive(Clone, PartialEq, Debug)]
enum Content {
    Text(String),
    Number { value: f64, unit: Unit, digits: usize },
}

impl Cell {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { content: Content::Text(text.into()), tone: Tone::Plain }
    }

    /// A number in its base unit, shown with three digits; not a number is a dash.
    #[must_use]
    pub fn number(value: f64, unit: Unit) -> Cell {
        Cell { content: Content::Number { value, unit, digits: 3 }, tone: Tone::Plain }
    }

    /// A whole number.
    #[must_use]
    pub fn count(value: u64) -> Cell {
        Cell::number(value as f64, Unit::None).digits(15)
    }

    /// Nothing to say: a dash.
    #[must_use]
    pub fn missing() -> Cell {
        Cell::number(f64::NAN, Unit::None)
    }

    /// Sets the significant digits; of a whole number, those after the point are left out.
    #[must_use]
    pub fn digits(mut self, wanted: usize) -> Cell {
        if let Content::Number { digits, .. } = &mut self.content {
            *digits = wanted;
        }
        self
    }

    /// Sets the tone.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }

    /// Writes it as text, in its own step of the unit or in the one given.
    fn shown(&self, step: Option<&(f64, String)>) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Number { value, unit, digits } => {
                // A whole number has no digits after the point.
                let places = format!("{:.0}", value.abs()).len();
                let digits = if *unit == Unit::None && value.fract() == 0.0 {
                    (*digits).min(places)
                } else {
                    *digits
                };
                match step {
                    Some(step) => unit.show_in(*value, digits, step),
                    None => unit.show(*value, digits),
                }
            }
        }
    }

    fn quantity(&self) -> Option<(f64, &Unit)> {
        match &self.content {
            Content::Number { value, unit, .. } => Some((*value, unit)),
            Content::Text(_) => None,
        }
    }

    pub(crate) fn push(&self, out: &mut String, tag: &str, step: Option<&(f64, String)>) {
        let kind = match &self.content {
            Content::Number { .. } => "number ",
            Content::Text(text) => match text.chars().count() {
                ..=SHORT => "short ",
                LONG.. => "long ",
                _ => "",
            },
        };
        out.push_str(&format!("<{tag} class=\"{kind}{}\">", self.tone.class()));
        push_html(out, &self.shown(step));
        out.push_str(&format!("</{tag}>"));
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::text(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::text(text)
    }
}

/// Which numbers are shown with the same prefix, so that they compare at a glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Share {
    /// Each has its own.
    #[default]
    None,
    /// Those of a row that have the same unit.
    Rows,
    /// Those of a column that have the same unit.
    Columns,
}

/// A table with a caption, a head, and a name for every row.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    caption: String,
    head: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
    share: Share,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(caption: &str) -> Table {
        Table {
            caption: caption.to_owned(),
            head: Vec::new(),
            rows: Vec::new(),
            share: Share::None,
        }
    }

    /// The names of the columns; the first stands above the names of the rows.
    #[must_use]
    pub fn head<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Table {
        self.head = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a row. A row shorter than others is filled up with empty cells.
    #[must_use]
    pub fn row<T: Into<Cell>>(
        mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = T>,
    ) -> Table {
        self.rows.push((name.into(), cells.into_iter().map(Into::into).collect()));
        self
    }

    /// Which numbers share a prefix.
    #[must_use]
    pub fn share(mut self, share: Share) -> Table {
        self.share = share;
        self
    }

    /// True if it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The step that the number in this cell shares with its row or column.
    fn step(&self, row: usize, column: usize) -> Option<(f64, String)> {
        let cell = |r: usize, c: usize| self.rows.get(r).and_then(|(_, cells)| cells.get(c));
        let (value, unit) = cell(row, column)?.quantity()?;
        let across = |r: usize, c: usize| cell(r, c).and_then(Cell::quantity);
        let beside: Vec<(f64, &Unit)> = match self.share {
            Share::None => return None,
            Share::Rows => {
                (0..self.rows.get(row)?.1.len()).filter_map(|c| across(row, c)).collect()
            }
            Share::Columns => (0..self.rows.len()).filter_map(|r| across(r, column)).collect(),
        };
        let alike: Vec<f64> = beside
            .into_iter()
            .filter(|(other, its)| *its == unit && other.is_finite() && *other != 0.0)
            .map(|(other, _)| other.abs())
            .collect();
        let greatest = alike.iter().copied().fold(0.0, f64::max);
        let least = alike.iter().copied().fold(f64::INFINITY, f64::min);
        // Numbers too far apart do not compare at a glance anyhow.
        let close = greatest > 0.0 && greatest / least < 100.0;
        (close && value.is_finite()).then(|| unit.step_for(greatest))
    }

    pub(crate) fn push(&self, out: &mut String) {
        let width = self.rows.iter().map(|(_, cells)| cells.len() + 1).max().unwrap_or(0);
        let width = width.max(self.head.len());
        // A column is one of numbers if its first cell holds one.
        let numeric = |column: usize| {
            let mut cells =
                self.rows.iter().filter_map(|(_, cells)| cells.get(column.checked_sub(1)?));
            cells.next().is_some_and(|cell| cell.quantity().is_some())
        };
        out.push_str("<div class=wide><table><caption>");
        push_html(out, &self.caption);
        out.push_str("</caption>\n");
        if !self.head.is_empty() {
            out.push_str("<thead><tr>");
            for column in 0..width {
                let class = if numeric(column) { " class=number" } else { "" };
                out.push_str(&format!("<th scope=col{class}>"));
                push_html(out, self.head.get(column).map_or("", String::as_str));
                out.push_str("</th>");
            }
            out.push_str("</tr></thead>\n");
        }
        out.push_str("<tbody>\n");
        for (r, (name, cells)) in self.rows.iter().enumerate() {
            out.push_str("<tr><th scope=row>");
            push_html(out, name);
            out.push_str("</th>");
            for column in 1..width {
                match cells.get(column - 1) {
                    Some(cell) => cell.push(out, "td", self.step(r, column - 1).as_ref()),
                    None => out.push_str("<td></td>"),
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(table: &Table) -> String {
        let mut out = String::new();
        table.push(&mut out);
        out.replace('\u{A0}', " ")
    }

    #[test]
    fn rows_share_a_prefix_when_asked() {
        let cells = || [980e-9, 1.02e-6, f64::NAN].map(|v| Cell::number(v, Unit::Seconds));
        let own = rendered(&Table::new("t").row("median", cells()));
        assert!(
            own.contains(">980 ns<") && own.contains(">1.02 µs<") && own.contains(">–<"),
            "{own}"
        );
        let shared = rendered(&Table::new("t").row("median", cells()).share(Share::Rows));
        assert!(shared.contains(">0.980 µs<") && shared.contains(">1.02 µs<"), "{shared}");
        let far = [1e-9, 1.0].map(|v| Cell::number(v, Unit::Seconds));
        let far = rendered(&Table::new("t").row("x", far).share(Share::Rows));
        assert!(far.contains(">1.00 ns<") && far.contains(">1.00 s<"), "{far}");
    }

    #[test]
    fn hostile_text_stays_text_and_rows_are_filled_up() {
        let table = Table::new("<i>").head(["\"a\"", "b", "c"]).row("</table>", ["<b>"]);
        let html = rendered(&table);
        assert!(!html.contains("<i>") && !html.contains("<b>"), "{html}");
        assert_eq!(html.matches("</table>").count(), 1);
        assert!(html.contains("<td></td></tr>"));
    }

    #[test]
    fn texts_are_marked_by_their_length() {
        let long = "version 0.1.0 on the counter tsc";
        let html = rendered(&Table::new("t").row("n", ["97.916 %", "23 h 13 min 0 s", long]));
        assert!(
            html.contains("<td class=\"short plain\">97.916 %</td><td class=\"plain\">23 h"),
            "{html}"
        );
        assert!(html.contains(&format!("<td class=\"long plain\">{long}<")), "{html}");
    }

    #[test]
    fn whole_numbers_have_no_decimals() {
        let html = rendered(&Table::new("t").row("n", [Cell::count(100_800), Cell::count(0)]));
        assert!(html.contains(">100\u{202F}800<") && html.contains(">0<"), "{html}");
    }
}
