//! Keys for how the directions of a source's path differ.

use truechimer_config::{Reader, Value};
use truechimer_engine::{Asymmetry, SourceConfig};
use truechimer_time::Span;

use super::reader::span;

/// Words of the user on it.
#[derive(Default)]
pub(super) struct Declared {
    by: Option<Span>,
    error: Option<Span>,
    learn: bool,
    /// Places of both keys in the text, of those that are there.
    at: [Option<usize>; 2],
}

impl Declared {
    /// Reads a key of it; whether it is one.
    pub(super) fn take(&mut self, reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> bool {
        let at = Some(value.span().start);
        match key {
            "asymmetry" if value.get_ref().as_str() == Some("learn") => self.learn = true,
            "asymmetry" => {
                self.at[0] = at;
                self.by = span(reader, key, value, "120us", by);
            }
            "asymmetry-error" => {
                self.at[1] = at;
                self.error = span(reader, key, value, "20us", error);
            }
            _ => return false,
        }
        true
    }

    /// Gives it to the source: both keys have to be there or none, and what is learnt has an error of
    /// its own.
    pub(super) fn put(self, reader: &mut Reader<'_>, source: &mut SourceConfig) {
        source.learn_asymmetry = self.learn;
        source.asymmetry = self.by.zip(self.error).map(|(by, error)| Asymmetry { by, error });
        match self.at {
            [Some(at), None] => {
                reader.problem(at, "`asymmetry` needs `asymmetry-error`: how well is it known?");
            }
            [None, Some(at)] if self.learn => reader.problem(
                at,
                "`asymmetry-error` is for a declared asymmetry, and this one is learnt: remove it",
            ),
            [None, Some(at)] => {
                reader.problem(at, "`asymmetry-error` is nothing without `asymmetry`");
            }
            [Some(_), Some(_)] | [None, None] => {}
        }
    }
}

/// Half a second is more than halfway round the world.
fn by(span: Span) -> Result<Span, String> {
    if span.abs() > Span::from_millis(500) {
        return Err("must be -500ms to 500ms, or \"learn\"".into());
    }
    Ok(span)
}

fn error(span: Span) -> Result<Span, String> {
    if span <= Span::ZERO || span > Span::from_millis(500) {
        let why = "must be above 0s, and 500ms at most: nobody knows a path exactly, and the bound is \
                   only as true as this";
        return Err(why.into());
    }
    Ok(span)
}
