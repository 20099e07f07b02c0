//! Metrics for Prometheus and others that read OpenMetrics: `GET /metrics` over HTTP, from a TCP or
//! a Unix socket.
//!
//! The daemon's one thread serves them in its loop, as it does the control socket: it never waits
//! for a client, makes the text anew only after a look at the host's clocks, and takes only so many
//! connections and pieces of requests until the next one. Names and meanings are in docs/reference/metrics.md.

mod request;
mod server;
mod text;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(crate) use server::Server;
pub(crate) use text::Snapshot;

/// Where metrics are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A TCP port; 0: one that the system chooses.
    At(SocketAddr),
    /// A Unix socket of this name.
    Socket(PathBuf),
}

impl Listen {
    /// The name of a Unix socket.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Listen::At(_) => None,
            Listen::Socket(path) => Some(path),
        }
    }
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Listen, &'static str> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(Listen::Socket(text.into()));
        }
        text.parse().map(Listen::At).map_err(|_| {
            "must be an address with a port, as in \"127.0.0.1:9924\" or \"[::1]:9924\", or a path \
             from / on"
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::At(address) => address.fmt(f),
            Listen::Socket(path) => path.display().fmt(f),
        }
    }
}
