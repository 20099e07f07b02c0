//! Plain tables: columns as wide as what stands in them.

use std::io::{self, Write};

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making.
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Table {
        Table {
            sides: columns.iter().map(|(_, side)| *side).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes it, two spaces between columns and none at the end of a line.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut widths = vec![0; self.sides.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), side) in row.iter().zip(&widths).zip(&self.sides) {
                line.push_str(&match side {
                    Side::Left => format!("{cell:<width$}  "),
                    Side::Right => format!("{cell:>width$}  "),
                });
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_script() {
        let mut table = Table::new(&[("name", Side::Left), ("span", Side::Right)]);
        table.row(vec!["a".into(), "1 µs".into()]);
        table.row(vec!["longer".into(), "-".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "name    span\na       1 µs\nlonger     -\n");
    }
}
