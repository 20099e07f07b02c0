//! One thing that is wrong with a scenario, as serde or a value says it.

use core::fmt;

use serde::de::Error;
use truechimer_config::{nearest, printable};

use crate::ScenarioError;

#[derive(Debug)]
pub(super) enum Fault {
    /// A key that must be there.
    Missing(&'static str),
    /// Without its place: an unknown key or kind, or what a type says of its value.
    Said(String),
    At(ScenarioError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing(field) => write!(f, "`{field}` is missing"),
            Fault::Said(what) => f.write_str(what),
            Fault::At(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(what: T) -> Fault {
        Fault::Said(what.to_string())
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::Missing(field)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Fault {
        unknown("key", field, known)
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Fault {
        unknown("kind", variant, known)
    }
}

/// Of those that are known the nearest one comes first.
fn unknown(what: &str, found: &str, known: &[&str]) -> Fault {
    let near = nearest(found, known).map(|near| format!("; did you mean `{near}`?"));
    let near = near.as_deref().unwrap_or(".");
    let found = printable(found);
    Fault::Said(format!("unknown {what} `{found}`{near} Known are: {}", known.join(", ")))
}
