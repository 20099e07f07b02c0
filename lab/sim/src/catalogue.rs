//! All scenarios that have a name.

mod entries;

use core::fmt;

use truechimer_config::nearest;

use crate::scenario::Scenario;

/// There is no scenario of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownScenario {
    /// Name that was asked for.
    pub name: String,
    /// Name that it was most likely meant to be.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String = self
            .name
            .chars()
            .take(60)
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        write!(f, "there is no scenario `{name}`")?;
        match &self.nearest {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownScenario {}

/// All of them, in the order of a table.
#[must_use]
pub fn catalogue() -> Vec<Scenario> {
    entries::all()
}

/// The scenario of this name.
///
/// # Errors
/// If there is none; with the nearest name there is.
pub fn find(name: &str) -> Result<Scenario, UnknownScenario> {
    let all = catalogue();
    let names: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
    let nearest = nearest(name, &names).map(str::to_owned);
    let found = all.into_iter().find(|scenario| scenario.name == name);
    found.ok_or_else(|| UnknownScenario { name: name.to_owned(), nearest })
}
