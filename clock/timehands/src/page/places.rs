//! Where the page is.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use super::map;

/// Names the page for daemon and readers alike.
pub const VARIABLE: &str = "TRUECHIMER_PAGE";
/// The page of the machine's own daemon.
pub const SYSTEM: &str = "/run/truechimer/clock";

/// Where a reader looks if it is not told, in this order: `$TRUECHIMER_PAGE` and nowhere else if
/// that is set, or else `$XDG_RUNTIME_DIR/truechimer/clock`, then `/run/truechimer/clock`.
///
/// A program that runs with more rights than whoever started it (setuid, setgid, file
/// capabilities) looks at `/run/truechimer/clock` only, whatever the environment says.
#[must_use]
pub fn for_readers() -> Vec<PathBuf> {
    Named::by_environment().for_readers()
}

/// Where a daemon puts its page if it is not told: `$TRUECHIMER_PAGE` if that is set, or else
/// `/run/truechimer/clock` for root, `$XDG_RUNTIME_DIR/truechimer/clock` for anyone else. The
/// environment counts for nothing where it does not for [`for_readers`].
#[must_use]
pub fn for_daemon() -> PathBuf {
    Named::by_environment().for_daemon(map::effective_user())
}

/// Page's place by the environment.
#[derive(Default)]
struct Named {
    /// The page itself.
    page: Option<PathBuf>,
    /// The page of the user's own daemon.
    own: Option<PathBuf>,
}

impl Named {
    fn by_environment() -> Named {
        Named::by(env::var_os(VARIABLE), env::var_os("XDG_RUNTIME_DIR"), map::is_privileged())
    }

    /// By the two variables. As the XDG base directory specification has it, a directory that is
    /// not absolute is ignored.
    fn by(page: Option<OsString>, runtime: Option<OsString>, privileged: bool) -> Named {
        if privileged {
            return Named::default();
        }
        Named {
            page: page.filter(|path| !path.is_empty()).map(PathBuf::from),
            own: runtime
                .map(PathBuf::from)
                .filter(|directory| directory.is_absolute())
                .map(|directory| directory.join("truechimer/clock")),
        }
    }

    fn for_readers(self) -> Vec<PathBuf> {
        match self.page {
            Some(path) => vec![path],
            None => self.own.into_iter().chain([PathBuf::from(SYSTEM)]).collect(),
        }
    }

    fn for_daemon(self, user: u32) -> PathBuf {
        let own = self.own.filter(|_| user != 0);
        self.page.or(own).unwrap_or_else(|| PathBuf::from(SYSTEM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(page: &str, runtime: &str, privileged: bool) -> Named {
        Named::by(Some(page.into()), Some(runtime.into()), privileged)
    }

    #[test]
    fn the_environment_names_the_page() {
        let own = "/run/user/7/truechimer/clock";
        assert_eq!(
            named("there", "/run/user/7", false).for_readers(),
            ["there"].map(PathBuf::from)
        );
        assert_eq!(named("", "/run/user/7", false).for_readers(), [own, SYSTEM].map(PathBuf::from));
        assert_eq!(named("", "run", false).for_readers(), [PathBuf::from(SYSTEM)]);
        assert_eq!(named("there", "/run/user/7", false).for_daemon(0), PathBuf::from("there"));
        assert_eq!(named("", "/run/user/7", false).for_daemon(7), PathBuf::from(own));
        assert_eq!(named("", "/run/user/7", false).for_daemon(0), PathBuf::from(SYSTEM));
        assert_eq!(Named::by(None, None, false).for_daemon(7), PathBuf::from(SYSTEM));
    }

    #[test]
    fn with_more_rights_than_its_starter_a_program_does_not_listen_to_the_environment() {
        let named = || named("there", "/run/user/7", true);
        assert_eq!(named().for_readers(), [PathBuf::from(SYSTEM)]);
        assert_eq!(named().for_daemon(7), PathBuf::from(SYSTEM));
    }
}
