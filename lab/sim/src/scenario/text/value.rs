//! A value of a document, with its place: what is wrong with it is said in the words of somebody
//! who writes a scenario.

use core::cell::Cell;
use core::fmt;
use core::fmt::Write as _;
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use truechimer_config::whole;
use truechimer_engine::POLL_RANGE;

use super::fault::Fault;
use super::{line_of, without_controls};
use crate::ScenarioError;
use crate::limits::must_be;

/// Letters of a value that are shown, at most.
const SHOWN: usize = 40;

/// A text, and the keys of the scenario itself once they were asked for.
pub(super) struct Document<'a> {
    pub text: &'a str,
    pub keys: Cell<&'static [&'static str]>,
}

/// A value of a document. The document itself is the one to which there is no way.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub document: &'a Document<'a>,
    pub value: &'a Spanned<DeValue<'a>>,
    pub way: Option<&'a Way<'a>>,
}

/// The way to a value: its last step, and the way to what it is in.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub above: Option<&'a Way<'a>>,
    pub step: Step<'a>,
}

/// One step of a way.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    /// An entry of a list, from 1.
    Entry(usize),
}

impl<'a> Way<'a> {
    /// `server 2: forward: queue 1: law`.
    pub fn name(&self) -> String {
        let mut name = self.above.map(Way::name).unwrap_or_default();
        let _ = match self.step {
            Step::Key(key) if name.is_empty() => write!(name, "{key}"),
            Step::Key(key) => write!(name, ": {key}"),
            Step::Entry(n) => write!(name, " {n}"),
        };
        name
    }

    /// `server.forward.queue`, as a table's heading has it.
    fn heading(&self) -> String {
        let above = self.above.map(Way::heading).unwrap_or_default();
        match self.step {
            Step::Key(key) if above.is_empty() => key.to_owned(),
            Step::Key(key) => format!("{above}.{key}"),
            Step::Entry(_) => above,
        }
    }

    /// The last key.
    fn key(&self) -> &'a str {
        match (self.step, self.above) {
            (Step::Key(key), _) => key,
            (Step::Entry(_), above) => above.map_or("", Way::key),
        }
    }
}

impl<'a> Value<'a> {
    /// Something is wrong with this value.
    pub fn fault(&self, what: impl fmt::Display) -> Fault {
        let name = self.way.map(Way::name).unwrap_or_default();
        let shown = match self.value.get_ref() {
            DeValue::Table(_) => String::new(),
            _ => format!(" = {}", excerpt(self.document.text, &self.value.span())),
        };
        self.fault_at(self.value.span().start, &format!("{name}{shown}: {what}"))
    }

    /// Something is wrong at the byte `at` of the text.
    pub fn fault_at(&self, at: usize, what: &str) -> Fault {
        let line = Some(line_of(self.document.text, at));
        Fault::At(ScenarioError { line, what: without_controls(what) })
    }

    /// Gives what has no place yet that of this value.
    pub fn placed(&self, fault: Fault) -> Fault {
        match (fault, self.way) {
            (Fault::Missing("server"), None) => {
                self.fault_at(0, "no server: there must be at least one [[server]]")
            }
            (Fault::Missing(field), None) => {
                self.fault_at(0, &format!("`{field}` is missing; it stands above the first table"))
            }
            (Fault::Missing(field), Some(_)) => self.fault(format!("`{field}` is missing")),
            (Fault::Said(what), _) => self.fault(what),
            (placed @ Fault::At(_), _) => placed,
        }
    }

    /// Not what it must be.
    fn not(&self, wanted: impl fmt::Display) -> Fault {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number that is not whole",
            DeValue::Boolean(_) => "a truth value",
            DeValue::Datetime(_) => "a date or a time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        // A text may be meant as a value, without its quotation marks.
        let bare = match self.value.get_ref() {
            DeValue::String(text) => text.trim(),
            _ => "",
        };
        let is_one = bare.parse::<f64>().is_ok() || bare.parse::<bool>().is_ok();
        let mend = if is_one { "; leave out the quotation marks" } else { "" };
        self.fault(format!("must be {wanted}, found {found}{mend}"))
    }

    pub fn whole<T: TryFrom<i128>>(&self) -> Result<T, Fault> {
        match self.value.get_ref() {
            DeValue::Integer(_) => whole(self.value)
                .and_then(|number| T::try_from(number).ok())
                .ok_or_else(|| self.fault(self.range())),
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number) if libm::rint(number) == number && number.abs() < 1e15 => {
                    let whole = "must be a whole number without point or exponent";
                    Err(self.fault(format!("{whole}: {}", number as i64)))
                }
                _ => Err(self.fault("must be a whole number")),
            },
            _ => Err(self.not("a whole number")),
        }
    }

    pub fn number(&self) -> Result<f64, Fault> {
        match self.value.get_ref() {
            DeValue::Integer(_) => Ok(whole(self.value).unwrap_or(i128::MAX) as f64),
            DeValue::Float(float) => {
                float.as_str().parse().map_err(|_| self.fault("must be a number"))
            }
            _ => Err(self.not("a number")),
        }
    }

    pub fn boolean(&self) -> Result<bool, Fault> {
        self.value.get_ref().as_bool().ok_or_else(|| self.not("true or false"))
    }

    pub fn text(&self) -> Result<&'a str, Fault> {
        self.value.get_ref().as_str().ok_or_else(|| self.not("text in quotation marks"))
    }

    /// A list, of so many entries if that is given.
    pub fn list(&self, length: Option<usize>) -> Result<&'a [Spanned<DeValue<'a>>], Fault> {
        let heading = self.way.map(Way::heading).unwrap_or_default();
        match (self.value.get_ref(), length) {
            (DeValue::Array(array), None) => Ok(array),
            (DeValue::Array(array), Some(n)) if array.len() == n => Ok(array),
            (DeValue::Array(_), Some(n)) => Err(self.fault(format!("must be a list of {n}"))),
            (_, Some(n)) => Err(self.not(format_args!("a list of {n}"))),
            (DeValue::Table(_), None) => Err(self.fault(format!(
                "must be a list: write [[{heading}]], in two pairs of brackets, for each"
            ))),
            _ => Err(self.fault(format!(
                "must be a list of tables: write [[{heading}]] and its keys below, for each"
            ))),
        }
    }

    /// The table that a structure is made of.
    pub fn table(&self) -> Result<&'a DeTable<'a>, Fault> {
        if let DeValue::Table(table) = self.value.get_ref() {
            return Ok(table);
        }
        let heading = self.way.map(Way::heading).unwrap_or_default();
        let is_entry = matches!(self.way, Some(Way { step: Step::Entry(_), .. }));
        let first = self.value.get_ref().as_array().and_then(|array| array.first());
        Err(match first {
            Some(first) if first.get_ref().is_table() => self.fault_at(
                first.span().start,
                &format!(
                    "{} 1: must be a single table: write [{heading}], in one pair of brackets",
                    self.way.map(Way::name).unwrap_or_default()
                ),
            ),
            _ if is_entry => {
                self.not(format_args!("a table (write [[{heading}]], its keys below)"))
            }
            _ => self.not(format_args!("a table (write [{heading}], its keys below)")),
        })
    }

    /// The kind's word, and what comes with it, of something of which there are several kinds.
    pub fn kind(
        &self,
        kinds: &[&str],
    ) -> Result<(&'a str, Option<&'a Spanned<DeValue<'a>>>), Fault> {
        let table = match self.value.get_ref() {
            DeValue::String(word) => return Ok((word, None)),
            DeValue::Table(table) => Some(table),
            _ => None,
        };
        let one_of = format!("one of: {}", kinds.join(", "));
        let mut entries = table.into_iter().flatten();
        match (entries.next(), entries.next()) {
            (Some((word, value)), None) => Ok((word.get_ref(), Some(value))),
            (Some(_), Some(_)) => Err(self.fault(format!(
                "must be a single {one_of}; another one goes into a table of its own"
            ))),
            (None, _) => Err(self.fault(format!("must be {one_of}"))),
        }
    }

    /// A kind that has keys, without them.
    pub fn has_keys(&self, word: &str) -> Fault {
        let key = self.way.map_or("", Way::key);
        self.fault(format!(
            "has keys of its own: write {key}.{word} = {{ … }} with them in the braces"
        ))
    }

    /// Says what a whole number must be that does not fit into its type. Those with few bits are
    /// known by their keys.
    fn range(&self) -> String {
        let (low, high) = match self.way.map_or("", Way::key) {
            "poll" | "adaptive" => (f64::from(*POLL_RANGE.start()), f64::from(*POLL_RANGE.end())),
            "stratum" => crate::server::STRATA,
            "precision" => crate::server::PRECISIONS,
            "counter-hz" => crate::host::COUNTER_HZ,
            _ => return "too small or too large".to_owned(),
        };
        must_be(low, high)
    }
}

/// Text that stands there, if it is short.
pub(super) fn excerpt(text: &str, span: &Range<usize>) -> String {
    let all = text.get(span.clone()).unwrap_or("");
    let mut shown: String = all.chars().take(SHOWN).collect();
    if shown.len() < all.len() {
        shown.push('…');
    }
    shown
}
