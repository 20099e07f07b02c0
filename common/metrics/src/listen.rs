//! Places to listen on.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Place where metrics are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A TCP port; 0: one that the system chooses.
    At(SocketAddr),
    /// A Unix socket of this name.
    Socket(PathBuf),
}

impl Listen {
    /// The name of a Unix socket.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
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

/// Words for an error of [`Server::bind`](crate::Server::bind), with the mend: `option` is the key or
/// option that names the place.
#[must_use]
pub fn unbound(listen: &Listen, why: &io::Error, option: &str) -> String {
    let mend = match (listen, why.kind()) {
        (Listen::At(_), ErrorKind::AddrInUse) => {
            "somebody else listens there: choose another port with"
        }
        (Listen::Socket(_), ErrorKind::AddrInUse) => {
            "end that one first, or choose another path with"
        }
        (Listen::Socket(_), ErrorKind::AlreadyExists) => {
            "move that away if nobody needs it, or choose another path with"
        }
        (Listen::Socket(_), ErrorKind::NotFound) => {
            "make its directory, or choose another path with"
        }
        _ => "mend",
    };
    format!("no metrics: {listen}: {why}; {mend} {option}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_shown() {
        for text in ["127.0.0.1:9924", "[::1]:9924", "/run/m"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "9924", "localhost:9924", "run/m", "127.0.0.1", "/a\0b", "127.0.0.1:x"] {
            assert!(text.parse::<Listen>().unwrap_err().contains("a path from / on"), "{text}");
        }
    }

    #[test]
    fn each_obstacle_comes_with_a_mend() {
        let says = |place: &str, kind: ErrorKind| {
            unbound(&place.parse().unwrap(), &kind.into(), "--metrics")
        };
        for (place, kind, mend) in [
            ("127.0.0.1:1", ErrorKind::AddrInUse, "choose another port with --metrics"),
            ("127.0.0.1:1", ErrorKind::PermissionDenied, "mend --metrics"),
            ("/m", ErrorKind::AddrInUse, "end that one first"),
            ("/m", ErrorKind::AlreadyExists, "move that away"),
            ("/m", ErrorKind::NotFound, "make its directory"),
        ] {
            let told = says(place, kind);
            assert!(told.starts_with(&format!("no metrics: {place}: ")), "{told}");
            assert!(told.contains(mend) && told.ends_with("--metrics"), "{told}");
        }
    }
}
