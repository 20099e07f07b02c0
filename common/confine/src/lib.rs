//! Rights that a daemon gives up once it has started: Landlock says which files and ports the process
//! may still reach, capabilities are dropped, and nothing that it could start gains any
//! (`no_new_privs`).
//!
//! ```no_run
//! use truechimer_confine::Rules;
//!
//! let mut rules = Rules::service();
//! rules.read_folder_of("/etc/example.toml".as_ref());
//! rules.write_folder_of("/run/example/page".as_ref());
//! // After everything is open, and before the first thread is started.
//! eprintln!("{}", rules.apply());
//! ```
//!
//! [`Rules::filter_calls`] adds a list of system calls, by seccomp.
//!
//! Limits that the kernel lacks are left out and said: nothing here is an error, as a clock that runs is
//! worth more than one that does not. Files that are open stay open. Landlock, filter and
//! capabilities are a thread's own: threads that are started later inherit them, those that run already keep what they
//! have.
#![forbid(unsafe_code)]

mod calls;
mod capabilities;
mod files;

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

pub use rustix::thread::CapabilitySet;

pub use calls::Unlisted;

use calls::Filtered;
use files::Landlocked;

/// Directories that every service reads: settings of the system and of its name service, libraries
/// that the name service loads, what the kernel says. Those that are not there do not matter.
const SYSTEM: [&str; 16] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/connman",
    "/run/netconfig",
    "/dev/null",
    "/dev/urandom",
];
/// Files of the name service, which may be links to elsewhere.
const NAMES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];
/// Links that are followed on one way; the kernel's own limit.
const MAX_LINKS: usize = 40;
/// Port of name servers: long answers come over TCP.
const DNS: u16 = 53;

/// Things that a process may still do when it is confined. Everything below a directory goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    devices: Vec<PathBuf>,
    tcp: Vec<u16>,
    keep: CapabilitySet,
    calls: Unlisted,
}

impl Rules {
    /// Rules of a service that asks the name service, and reads what the system says of itself.
    #[must_use]
    pub fn service() -> Rules {
        let mut rules = Rules {
            read: SYSTEM.map(PathBuf::from).to_vec(),
            write: Vec::new(),
            devices: Vec::new(),
            tcp: vec![DNS],
            keep: CapabilitySet::empty(),
            calls: Unlisted::Pass,
        };
        NAMES.iter().for_each(|path| rules.read_folder_of(path.as_ref()));
        rules
    }

    /// Allows to read the directory that this file is in, where the next file of its name will be,
    /// and those that it leads to by links, be there a file at the end yet or not. The root directory
    /// is not opened: of a file in it that file alone may be read. Of a directory that is not there
    /// yet, the first above it that is.
    pub fn read_folder_of(&mut self, path: &Path) {
        let path = absolute(path);
        for path in led_to(path) {
            let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
            let folder = folder.filter(|folder| folder.parent().is_some());
            add(&mut self.read, folder.map_or_else(|| path.clone(), Path::to_owned));
        }
    }

    /// Allows to write files in the directory that this file is in, and to make and remove them.
    pub fn write_folder_of(&mut self, path: &Path) {
        let path = absolute(path);
        if let Some(folder) = path.parent() {
            // By the name that the directory has without links: the same one twice is one.
            add(&mut self.write, folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        }
    }

    /// Allows to read this device, or all devices in this directory, and to control them (ioctl).
    pub fn device(&mut self, path: &Path) {
        add(&mut self.devices, path.to_owned());
    }

    /// Allows to read this device, to control it and to set it up.
    pub fn write_device(&mut self, path: &Path) {
        self.device(path);
        add(&mut self.write, path.to_owned());
    }

    /// Allows to connect to this TCP port.
    pub fn connect(&mut self, port: u16) {
        if !self.tcp.contains(&port) {
            self.tcp.push(port);
        }
    }

    /// Keeps these capabilities, as far as the process has them.
    pub fn keep(&mut self, capabilities: CapabilitySet) {
        self.keep |= capabilities;
    }

    /// Allows no system calls but those that services make, and says what becomes of the others.
    pub fn filter_calls(&mut self, unlisted: Unlisted) {
        self.calls = unlisted;
    }

    /// Needs beyond `self` of other rules, each in words; none if `self` covers them.
    #[must_use]
    pub fn lacking(&self, other: &Rules) -> Vec<String> {
        let covered = |path: &PathBuf, by: &[&Vec<PathBuf>]| {
            by.iter().any(|all| all.iter().any(|allowed| path.starts_with(allowed)))
        };
        let read = other.read.iter().filter(|path| !covered(path, &[&self.read, &self.write]));
        let write = other.write.iter().filter(|path| !covered(path, &[&self.write]));
        let devices = other.devices.iter().filter(|path| !covered(path, &[&self.devices]));
        let mut all: Vec<String> = read.map(|path| format!("reading {}", path.display())).collect();
        all.extend(write.map(|path| format!("writing in {}", path.display())));
        all.extend(devices.map(|path| format!("devices in {}", path.display())));
        let tcp = other.tcp.iter().filter(|port| !self.tcp.contains(port));
        all.extend(tcp.map(|port| format!("TCP port {port}")));
        all.extend(capabilities::names(other.keep - self.keep));
        all
    }

    /// Confines the calling thread, and all that it starts from now on, as far as the kernel can.
    #[must_use = "what became of it is to be told"]
    pub fn apply(&self) -> Confined {
        let privileges = rustix::thread::set_no_new_privs(true).is_ok();
        let kept = capabilities::drop_all_but(self.keep, &self.write);
        let (write, missing) = self.write.iter().cloned().partition(|path| path.exists());
        let landlocked = files::restrict(self);
        // The last, as what comes before makes calls that no service makes later.
        let filtered = calls::filter(self.calls, self.keep);
        Confined { write, missing, landlocked, kept, privileges, filtered }
    }
}

/// A path from the root. Relative ones begin where the process was at the first question: who is confined may not find
/// out any more, if it was begun in a directory that is elsewhere by its own mounts.
fn absolute(path: &Path) -> PathBuf {
    static BEGUN_IN: OnceLock<PathBuf> = OnceLock::new();
    let begun_in = BEGUN_IN.get_or_init(|| std::env::current_dir().unwrap_or_default());
    let path = begun_in.join(path);
    std::path::absolute(&path).unwrap_or(path)
}

/// A path, and where it leads by links: the next one each, and what is there in the end.
fn led_to(path: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![path.clone()];
    let mut last = path.clone();
    // A name service's settings may lead to a file that is made once the network is there.
    for _ in 0..MAX_LINKS {
        let Ok(target) = last.read_link() else { break };
        let folder = last.parent().unwrap_or(&last);
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        last = lexically(&folder.join(target));
        add(&mut all, last.clone());
    }
    if let Ok(target) = path.canonicalize() {
        add(&mut all, target);
    }
    all
}

/// Path without `..`, as far as names tell: of what is not there, nothing else does.
fn lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn add(all: &mut Vec<PathBuf>, path: PathBuf) {
    if !all.contains(&path) {
        all.push(path);
    }
}

/// Confinement that is in force, in words for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confined {
    write: Vec<PathBuf>,
    /// Directories to be written in that are not there.
    missing: Vec<PathBuf>,
    landlocked: Landlocked,
    kept: Vec<String>,
    privileges: bool,
    filtered: Filtered,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |all: &[PathBuf]| {
            all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        let below = match self.write.is_empty() {
            true => "writes no file".to_owned(),
            false => format!("writes only below {}", listed(&self.write)),
        };
        match &self.landlocked {
            Landlocked::At { level, lacks } => {
                write!(f, "sandbox: {below}, starts no program (Landlock, ABI {level}")?;
                if !lacks.is_empty() {
                    write!(f, ", which does not limit {}", lacks.join(", "))?;
                }
                f.write_str(")")?;
                if !self.missing.is_empty() {
                    let missing = listed(&self.missing);
                    write!(f, "; not in {missing}, which was not there at the start")?;
                }
            }
            Landlocked::Not(why) => {
                write!(f, "sandbox: files and programs are not limited ({why})")?
            }
        }
        match self.kept.as_slice() {
            [] => f.write_str("; no capabilities")?,
            kept => write!(f, "; capabilities kept: {}", kept.join(", "))?,
        }
        match &self.filtered {
            Filtered::Off => {}
            Filtered::To(count) => {
                write!(f, "; {count} system calls (seccomp), any other ends the process")?;
            }
            Filtered::Logged(count) => {
                write!(f, "; any other than {count} system calls is logged (seccomp)")?;
            }
            Filtered::Not(why) => write!(f, "; system calls are not limited ({why})")?,
        }
        if self.privileges { Ok(()) } else { f.write_str("; no_new_privs is refused") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules { read: Vec::new(), ..Rules::service() }
    }

    #[test]
    fn what_other_rules_need_beyond() {
        let mut old = rules();
        old.write.push("/run/a".into());
        old.read.push("/etc".into());
        let mut new = old.clone();
        new.write.push("/run/a/b".into());
        new.read.extend(["/etc/x".into(), "/run/a/c".into()]);
        assert!(old.lacking(&new).is_empty());
        new.write.push("/run/ab".into());
        new.read.push("/home".into());
        new.device("/dev".as_ref());
        new.keep(CapabilitySet::SYS_TIME);
        let lacking = ["reading /home", "writing in /run/ab", "devices in /dev", "CAP_SYS_TIME"];
        assert_eq!(old.lacking(&new), lacking);
    }

    #[test]
    fn folders_of_files() {
        let mut rules = rules();
        rules.read_folder_of("/proc/not-there/at/all".as_ref());
        rules.read_folder_of("/not-there/at/all".as_ref());
        assert_eq!(rules.read, ["/proc", "/not-there/at/all"].map(PathBuf::from));
        rules.write_folder_of("/proc/x".as_ref());
        rules.write_folder_of("/proc/./y".as_ref());
        assert_eq!(rules.write, [PathBuf::from("/proc")]);
    }

    #[test]
    fn links_to_what_is_not_there_yet() {
        let temp = std::env::temp_dir().canonicalize().unwrap();
        let folder = temp.join(format!("truechimer-led-{}", std::process::id()));
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
            led_to(folder.join(name))
        };
        let paths = |all: &[&str]| all.iter().map(|path| folder.join(path)).collect::<Vec<_>>();
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(link("near", "run/x/resolv.conf"), paths(&["near", "run/x/resolv.conf"]));
        assert_eq!(link("far", "./a/../near"), paths(&["far", "near", "run/x/resolv.conf"]));
        assert_eq!(
            link("up", "../../../../../../proc/not-there").last().unwrap(),
            Path::new("/proc/not-there")
        );
        assert_eq!(link("round", "round"), paths(&["round"; 1]));
        let mut rules = rules();
        rules.read_folder_of(&folder.join("up"));
        assert_eq!(rules.read, [folder.clone(), "/proc".into()]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_log_has_what_is_in_force_and_what_is_not() {
        let at = |level, lacks| Landlocked::At { level, lacks };
        let told = Confined {
            write: vec!["/run/a".into()],
            missing: Vec::new(),
            landlocked: at(6, Vec::new()),
            kept: Vec::new(),
            privileges: true,
            filtered: Filtered::Off,
        };
        assert_eq!(
            told.to_string(),
            "sandbox: writes only below /run/a, starts no program (Landlock, ABI 6); no capabilities"
        );
        let old = Confined { landlocked: at(3, vec!["TCP"]), ..told.clone() };
        assert!(old.to_string().contains("(Landlock, ABI 3, which does not limit TCP)"), "{old}");
        let listed = Confined { filtered: Filtered::To(9), ..told.clone() };
        let says = "; no capabilities; 9 system calls (seccomp), any other ends the process";
        assert!(listed.to_string().ends_with(says), "{listed}");
        let missing = Confined { missing: vec!["/srv/b".into()], ..told.clone() };
        assert!(missing.to_string().contains("; not in /srv/b, which was not there"), "{missing}");
        let none = Confined {
            landlocked: Landlocked::Not("this kernel has no Landlock"),
            kept: vec!["CAP_SYS_TIME".into()],
            ..told
        };
        let says = "sandbox: files and programs are not limited (this kernel has no Landlock); \
                    capabilities kept: CAP_SYS_TIME";
        assert_eq!(none.to_string(), says);
    }
}
