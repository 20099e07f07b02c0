//! Values of a document, and what is wrong with them.

use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
pub use toml::de::{DeTable, DeValue};

use crate::{ConfigError, Place, Problem, nearest, printable, syntax};

/// A value with its place in the text.
pub type Value<'i> = Spanned<DeValue<'i>>;
/// A table as it is written (`[[source]]`), and its keys.
pub type Table<'t> = (&'t str, &'t [&'t str]);

/// Reads a text with `walk`, which gives every problem to the reader. `name` is what messages call
/// the text: the path of the file. `tables` are all that there are.
///
/// # Errors
/// If the text is not TOML, or there was any problem: all of them at once.
pub fn parse(
    text: &str,
    name: &str,
    tables: &[Table<'_>],
    walk: impl FnOnce(&mut Reader<'_>, &DeTable<'_>),
) -> Result<(), ConfigError> {
    let mut reader = Reader { text, name, tables, problems: Vec::new() };
    let (document, faults) = DeTable::parse_recoverable(text);
    match faults.is_empty() {
        true => walk(&mut reader, document.get_ref()),
        false => syntax::told(text, faults).for_each(|(at, what)| reader.problem(at, what)),
    }
    ConfigError::unless_empty(reader.problems)
}

/// Reads values, and gathers problems. What cannot be read is `None`, and a problem.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    tables: &'a [Table<'a>],
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The line, from 1, of a byte of the text.
    #[must_use]
    pub fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|b| **b == b'\n').count()
    }

    /// Something is wrong at a byte of the text.
    pub fn problem(&mut self, offset: usize, text: impl Into<String>) {
        let line = Some(self.line(offset));
        self.problems.push(Problem::in_file(self.name, line, text));
    }

    /// A value that its key cannot have.
    pub fn wrong(&mut self, key: &str, value: &Value<'_>, why: impl fmt::Display) {
        let shown = printable(self.text.get(value.span()).unwrap_or("…"));
        self.problem(value.span().start, format!("`{key}` = {shown}: {why}"));
    }

    /// A value of another kind than the `wanted` one.
    pub fn kind(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(value.span().start, format!("`{key}` must be {wanted}, not {found}"));
    }

    /// A key that the table does not have.
    pub fn unknown(&mut self, key: &str, offset: usize, (table, known): Table<'_>) {
        let mut others = self.tables.iter().filter(|(other, _)| *other != table);
        let elsewhere = others.find(|(_, keys)| keys.contains(&key));
        let hint = match (elsewhere, nearest(key, known)) {
            // Such as `page` for `pages`, which is a slip rather than one in the wrong place.
            (Some((other, _)), Some(near)) if near.starts_with(key) || key.starts_with(near) => {
                format!("did you mean `{near}`? (`{key}` belongs into {other})")
            }
            (Some((other, _)), _) => format!("it belongs into {other}"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("known in {table}: {}", known.join(", ")),
        };
        self.problem(offset, format!("unknown key `{}`; {hint}", printable(key)));
    }

    /// A meaning that was found, or what is wrong with the value.
    pub fn checked<T, E: fmt::Display>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        read: Result<T, E>,
    ) -> Option<T> {
        read.map_err(|why| self.wrong(key, value, why)).ok()
    }

    /// A string, and what it means.
    pub fn text_of<T, E: fmt::Display>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        meaning: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.text_like(key, value, "a string in quotes", meaning)
    }

    /// A string of a kind that `wanted` describes, and what it means.
    pub fn text_like<T, E: fmt::Display>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        wanted: &str,
        meaning: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.kind(key, value, wanted);
            return None;
        };
        self.checked(key, value, meaning(text))
    }

    /// A truth value.
    pub fn boolean(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        let on = value.get_ref().as_bool();
        if on.is_none() {
            self.kind(key, value, "true or false");
        }
        on
    }

    /// A path.
    pub fn path(&mut self, key: &str, value: &Value<'_>) -> Option<PathBuf> {
        self.text_of(key, value, |text| match text {
            text if text.is_empty() || text.contains('\0') => Err("must be a path"),
            text => Ok(PathBuf::from(text)),
        })
    }

    /// A path from the root, so that it does not hang on where a program was started.
    pub fn absolute(&mut self, key: &str, value: &Value<'_>) -> Option<PathBuf> {
        let path = self.path(key, value)?;
        if !path.is_absolute() {
            self.wrong(key, value, "must begin with /");
            return None;
        }
        Some(path)
    }

    /// A path, or the word `none`.
    pub fn place(&mut self, key: &str, value: &Value<'_>) -> Place {
        self.path(key, value).map_or(Place::Default, Place::from)
    }

    /// The table `[name]`.
    pub fn table<'v, 'i>(&mut self, name: &str, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let text = format!("`{name}` must be a table: write [{name}]");
            self.problem(value.span().start, text);
        }
        table
    }

    /// Each table of a list, `[[name]]`, with its place in the text.
    pub fn tables<'v, 'i>(
        &mut self,
        name: &str,
        value: &'v Value<'i>,
    ) -> Vec<(usize, &'v DeTable<'i>)> {
        let Some(array) = value.get_ref().as_array() else {
            let text = format!("`{name}` must be a list of tables: write [[{name}]]");
            self.problem(value.span().start, text);
            return Vec::new();
        };
        let (mut tables, mut last) = (Vec::new(), None);
        for item in array {
            let at = item.span().start;
            match item.get_ref().as_table() {
                Some(table) => tables.push((at, table)),
                None => {
                    let line = self.line(at);
                    if last.replace(line) != Some(line) {
                        let text = format!("each `{name}` must be a table: write [[{name}]]");
                        self.problem(at, text);
                    }
                }
            }
        }
        tables
    }
}

/// A whole number in any of TOML's notations.
#[must_use]
pub fn whole(value: &Value<'_>) -> Option<i128> {
    match value.get_ref() {
        DeValue::Integer(n) => {
            Some(i128::from_str_radix(n.as_str(), n.radix()).unwrap_or(i128::MAX))
        }
        _ => None,
    }
}
