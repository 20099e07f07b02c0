//! Reasons why an agent does not start or go on.

use std::fmt;
use std::io;

use truechimer_group::SettingsError;
use truechimer_group_client::agent::DoorError;

use crate::config::ConfigError;
use crate::transport::TransportError;

/// Reason why an agent could not start, or go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentError {
    /// The configuration is wrong.
    Config(ConfigError),
    /// The engine refuses a group's settings.
    Group {
        /// The group's name.
        group: String,
        /// Reason.
        why: SettingsError,
    },
    /// A group's transport cannot be had, and will not be by waiting.
    Transport {
        /// The group's name.
        group: String,
        /// Reason.
        why: TransportError,
    },
    /// Programs cannot be let in.
    Door {
        /// The group's name.
        group: String,
        /// Reason.
        why: DoorError,
    },
    /// State kept of an earlier life that cannot be used, or nothing can be kept.
    State(String),
    /// The system refuses what nothing goes without.
    System {
        /// Fault found.
        what: String,
        /// Reason.
        why: io::Error,
    },
}

impl fmt::Display for AgentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Config(why) => why.fmt(out),
            AgentError::Group { group, why } => write!(out, "group '{group}': {why}"),
            AgentError::Transport { group, why } => write!(out, "group '{group}': {why}"),
            AgentError::Door { group, why } => write!(out, "group '{group}': {why}"),
            AgentError::State(text) => out.write_str(text),
            AgentError::System { what, why } => write!(out, "{what}: {why}"),
        }
    }
}

impl std::error::Error for AgentError {}

impl From<ConfigError> for AgentError {
    fn from(why: ConfigError) -> AgentError {
        AgentError::Config(why)
    }
}
