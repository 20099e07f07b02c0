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
    has: [bool; 2],
}

impl Declared {
    /// Reads a key of it; whether it is one.
    pub(super) fn take(&mut self, reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> bool {
        match key {
            "asymmetry" if value.get_ref().as_str() == Some("learn") => self.learn = true,
            "asymmetry" => {
                self.has[0] = true;
                self.by = span(reader, key, value, "120us", by);
            }
            "asymmetry-error" => {
                self.has[1] = true;
                self.error = span(reader, key, value, "20us", error);
            }
            _ => return false,
        }
        true
    }

    /// Gives it to the source, whose table is at `at`: both keys have to be there or none, and
    /// what is learnt has an error of its own.
    pub(super) fn put(self, reader: &mut Reader<'_>, at: usize, source: &mut SourceConfig) {
        source.learn_asymmetry = self.learn;
        match (self.by, self.error, self.has) {
            (Some(by), Some(error), _) => source.asymmetry = Some(Asymmetry { by, error }),
            (.., [true, false]) => {
                reader.problem(at, "`asymmetry` needs `asymmetry-error`: how well is it known?");
            }
            (.., [false, true]) if self.learn => reader.problem(
                at,
                "`asymmetry-error` is for a declared asymmetry, and this one is learnt: remove it",
            ),
            (.., [false, true]) => {
                reader.problem(at, "`asymmetry-error` is nothing without `asymmetry`");
            }
            _ => {}
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
