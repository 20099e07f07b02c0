//! Where agents' sockets are: `DIR/NAME/ID.sock`.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use truechimer_group::{LONGEST_NAME, Member};

use crate::sys;

/// Names the directory for agents and programs alike.
pub const VARIABLE: &str = "TRUECHIMER_GROUP_DIR";
/// The directory of the machine's own agents.
pub const SYSTEM: &str = "/run/truechimer/group";
/// Directory entries that are looked at before a directory is taken for something else.
const MOST_ENTRIES: usize = 4096;

/// Which agent a program means.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Where {
    /// The directory; none: [`directories`].
    pub directory: Option<PathBuf>,
    /// The group's name.
    pub group: String,
    /// Which member; none: the only one that there is.
    pub member: Option<Member>,
}

/// Reason why there is no such place.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// Not a name for a group.
    Name(String),
    /// No agent of that group.
    None {
        /// Of which group.
        group: String,
        /// Of which member, if that was said.
        member: Option<Member>,
        /// Those of the group that have one there.
        others: Vec<Member>,
        /// Where it was looked for.
        directories: Vec<PathBuf>,
    },
    /// Several, and it was not said which.
    Several {
        /// Of which group.
        group: String,
        /// Which there are.
        members: Vec<Member>,
    },
    /// A directory cannot be read.
    Directory {
        /// Which.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
}

impl fmt::Display for PlaceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Name(name) => write!(
                out,
                "'{}' is no name for a group: 1 to {LONGEST_NAME} of a-z A-Z 0-9 . _ -, not \
                 beginning with a dot",
                name.escape_debug()
            ),
            PlaceError::None { group, member, others, directories } => {
                write!(out, "there is no agent of the group '{group}'")?;
                if let Some(member) = member {
                    write!(out, " for member {member}")?;
                }
                for (i, directory) in directories.iter().enumerate() {
                    let word = if i == 0 { " in" } else { " or" };
                    write!(out, "{word} {}", directory.display())?;
                }
                match others.as_slice() {
                    [] => {}
                    [one] => write!(out, ", only one for member {one}")?,
                    several => {
                        out.write_str(", only those for the members ")?;
                        list(several, out)?;
                    }
                }
                if let (Some(_), [one]) = (member, others.as_slice()) {
                    return write!(out, "; leave --member out to use member {one}'s");
                }
                write!(out, "; start one with 'truechimer group agent --group {group}'")
            }
            PlaceError::Several { group, members } => {
                write!(out, "there are agents of the group '{group}' for several members (")?;
                list(members, out)?;
                out.write_str("): say which with --member, or in a program with `Where::member`")
            }
            PlaceError::Directory { path, error } => {
                write!(out, "cannot read {}: {error}", path.display())
            }
        }
    }
}

fn list(members: &[Member], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, member) in members.iter().enumerate() {
        write!(out, "{}{member}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl std::error::Error for PlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlaceError::Directory { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Where programs look if they are not told, in this order: `$TRUECHIMER_GROUP_DIR` and nowhere
/// else if that is set, or else `$XDG_RUNTIME_DIR/truechimer/group`, then `/run/truechimer/group`.
///
/// A program that runs with more rights than whoever started it (setuid, setgid, file
/// capabilities) looks at the last only, whatever the environment says.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    Named::by_environment().for_programs()
}

/// Where an agent puts its sockets if it is not told: `$TRUECHIMER_GROUP_DIR` if that is set, or
/// else `/run/truechimer/group` for root, `$XDG_RUNTIME_DIR/truechimer/group` for anyone else.
#[must_use]
pub fn directory_for_agent() -> PathBuf {
    Named::by_environment().for_agent(rustix::process::geteuid().as_raw())
}

/// Words of the environment.
#[derive(Default)]
struct Named {
    directory: Option<PathBuf>,
    own: Option<PathBuf>,
}

impl Named {
    fn by_environment() -> Named {
        match sys::is_privileged() {
            true => Named::default(),
            false => Named::by(env::var_os(VARIABLE), env::var_os("XDG_RUNTIME_DIR")),
        }
    }

    fn by(directory: Option<OsString>, runtime: Option<OsString>) -> Named {
        Named {
            directory: directory.filter(|path| !path.is_empty()).map(PathBuf::from),
            own: runtime
                .map(PathBuf::from)
                .filter(|directory| directory.is_absolute())
                .map(|directory| directory.join("truechimer/group")),
        }
    }

    fn for_programs(self) -> Vec<PathBuf> {
        match self.directory {
            Some(path) => vec![path],
            None => self.own.into_iter().chain([PathBuf::from(SYSTEM)]).collect(),
        }
    }

    fn for_agent(self, user: u32) -> PathBuf {
        let own = self.own.filter(|_| user != 0);
        self.directory.or(own).unwrap_or_else(|| PathBuf::from(SYSTEM))
    }
}

/// True if a group may have this name: 1 to 64 of `a-z A-Z 0-9 . _ -`, not beginning with a dot.
#[must_use]
pub fn valid_group(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(allowed)
}

/// The socket of a member's agent.
#[must_use]
pub fn socket_in(directory: &Path, group: &str, member: Member) -> PathBuf {
    directory.join(group).join(format!("{member}.sock"))
}

impl Where {
    /// The group's only member here, in the usual places.
    #[must_use]
    pub fn group(name: &str) -> Where {
        Where { directory: None, group: name.into(), member: None }
    }

    /// The socket: `DIR/NAME/ID.sock`. That there is one does not say that an agent listens.
    ///
    /// # Errors
    /// If there is none, or several and no member is named.
    pub fn socket(&self) -> Result<PathBuf, PlaceError> {
        if !valid_group(&self.group) {
            return Err(PlaceError::Name(self.group.clone()));
        }
        let directories = self.directory.clone().map_or_else(directories, |one| vec![one]);
        let mut others = Vec::new();
        for directory in &directories {
            let mut members = members(&directory.join(&self.group))?;
            others.extend_from_slice(&members);
            members.retain(|member| self.member.is_none_or(|wanted| wanted == *member));
            match *members {
                [] => {}
                [member] => return Ok(socket_in(directory, &self.group, member)),
                _ => {
                    return Err(PlaceError::Several { group: self.group.clone(), members });
                }
            }
        }
        others.sort_unstable();
        others.dedup();
        let (group, member) = (self.group.clone(), self.member);
        Err(PlaceError::None { group, member, others, directories })
    }
}

/// Members that have sockets in a group's directory, ascending.
///
/// # Errors
/// If it is there but cannot be read.
pub fn members(directory: &Path) -> Result<Vec<Member>, PlaceError> {
    let fail = |error| PlaceError::Directory { path: directory.into(), error };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut members = Vec::new();
    for entry in entries.take(MOST_ENTRIES) {
        let name = entry.map_err(fail)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".sock"));
        let member = number.and_then(|number| number.parse().ok()).filter(|number| *number != 0);
        members.extend(member.map(Member));
    }
    members.sort_unstable();
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_directory() {
        let named = |directory: &str, runtime: &str| {
            Named::by(Some(directory.into()), Some(runtime.into()))
        };
        let own = "/run/user/7/truechimer/group";
        assert_eq!(named("there", "/run/user/7").for_programs(), [PathBuf::from("there")]);
        assert_eq!(named("", "/run/user/7").for_programs(), [own, SYSTEM].map(PathBuf::from));
        assert_eq!(named("", "run").for_programs(), [PathBuf::from(SYSTEM)]);
        assert_eq!(named("", "/run/user/7").for_agent(7), PathBuf::from(own));
        assert_eq!(named("", "/run/user/7").for_agent(0), PathBuf::from(SYSTEM));
        assert_eq!(named("there", "/run/user/7").for_agent(0), PathBuf::from("there"));
        assert_eq!(Named::default().for_programs(), [PathBuf::from(SYSTEM)]);
    }

    #[test]
    fn names_stay_within_their_directory() {
        for name in ["a", "A.b-c_9", &"x".repeat(64)] {
            assert!(valid_group(name), "{name}");
        }
        for name in ["", ".", "..", ".x", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(!valid_group(name), "{name}");
            assert!(matches!(Where::group(name).socket(), Err(PlaceError::Name(_))));
        }
    }

    #[test]
    fn the_only_member_need_not_be_named() {
        let directory = env::temp_dir().join(format!("truechimer-place-{}", std::process::id()));
        let group = directory.join("g");
        fs::create_dir_all(&group).unwrap();
        let at = |member: Option<u32>| {
            let member = member.map(Member);
            Where { directory: Some(directory.clone()), group: "g".into(), member }
        };
        let none = at(None).socket().unwrap_err().to_string();
        assert!(none.contains("truechimer group agent --group g"), "{none}");
        for name in ["3.sock", "0.sock", "x.sock", "3.sock.old", "3"] {
            fs::write(group.join(name), "").unwrap();
        }
        assert_eq!(at(None).socket().unwrap(), group.join("3.sock"));
        let other = at(Some(4)).socket().unwrap_err().to_string();
        assert!(other.contains(", only one for member 3; leave --member out"), "{other}");
        fs::write(group.join("12.sock"), "").unwrap();
        let several = at(None).socket().unwrap_err().to_string();
        assert!(several.contains("(3, 12): say which"), "{several}");
        assert_eq!(at(Some(12)).socket().unwrap(), group.join("12.sock"));
        let other = at(Some(4)).socket().unwrap_err().to_string();
        assert!(other.contains(" for member 4 in "), "{other}");
        assert!(other.contains(", only those for the members 3, 12; start one with"), "{other}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
