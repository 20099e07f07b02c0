//! Floor that the group's clock was never ahead of, kept across the deaths of all members.
//!
//! One small file for each member of a group. It is written beside and renamed, and forced to the
//! disk, by a thread of its own: the loop never waits for a disk. What depends on a floor that has
//! not reached the disk waits in the loop ([`Floor::kept`]).

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use truechimer_files::{Durable, Entry, make_folder};
use truechimer_group::{Digest, Member};

use crate::sys;

/// The largest file that is read, bytes.
const LARGEST: u64 = 4096;
/// The year 2200, ns since 1970: no clock is ahead of it.
const FAR: i64 = 7_258_118_400_000_000_000;
/// After a failure, the disk is tried again no sooner than this.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Contents of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Kept {
    format: u32,
    group: String,
    member: u32,
    floor_ns: i64,
    check: u64,
}

const FORMAT: u32 = 1;

impl Kept {
    fn new(group: &str, member: Member, floor_ns: i64) -> Kept {
        let mut kept =
            Kept { format: FORMAT, group: group.into(), member: member.0, floor_ns, check: 0 };
        kept.check = kept.sum();
        kept
    }

    /// FNV-1a over the fields: tells a damaged file, not a forged one.
    fn sum(&self) -> u64 {
        let text = format!("{} {} {} {}", self.format, self.group, self.member, self.floor_ns);
        Digest::of(text.as_bytes()).0
    }
}

/// The file of a member of a group in a state directory.
pub(crate) fn path(directory: &Path, group: &str, member: Member) -> PathBuf {
    directory.join(group).join(format!("{member}.floor"))
}

/// Loads what was kept there; `None` if nothing was.
///
/// # Errors
/// If there is a file that cannot be read, is damaged, or is not this member's. The reason says
/// what to do.
pub(crate) fn load(path: &Path, group: &str, member: Member) -> Result<Option<i64>, String> {
    let wrong = |why: &str| {
        format!(
            "{}: {why}; the group's clock could go back behind times it has told: put a good copy \
             there, or remove the file if no program remembers times of this group",
            path.display()
        )
    };
    let text = match truechimer_config::read(path, LARGEST) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(wrong(&why.to_string())),
    };
    let kept: Kept =
        serde_json::from_str(&text).map_err(|why| wrong(&format!("is damaged ({why})")))?;
    if kept.format != FORMAT {
        return Err(wrong(&format!("is of format {}, and this agent writes 1", kept.format)));
    }
    if kept.check != kept.sum() {
        return Err(wrong("is damaged (its check does not fit)"));
    }
    if kept.group != group || kept.member != member.0 {
        let theirs = truechimer_config::printable(&kept.group);
        return Err(wrong(&format!(
            "is of member {} of group '{theirs}', not of member {member} of '{group}'",
            kept.member
        )));
    }
    if !(0..=FAR).contains(&kept.floor_ns) {
        return Err(wrong(&format!("`floor-ns` = {} is no time of this age", kept.floor_ns)));
    }
    Ok(Some(kept.floor_ns))
}

/// Writes it so that it is on the disk, whole or not at all, when this returns.
fn save(path: &Path, kept: &Kept) -> io::Result<()> {
    let mut line = serde_json::to_vec(kept)?;
    line.push(b'\n');
    let mut new = Entry::at(path)?.replace(0o644)?;
    new.write_all(&line)?;
    new.commit(Durable::Yes)
}

/// The keeper of one member's floor.
pub(crate) struct Floor {
    /// The highest that was asked for.
    wanted: Option<i64>,
    /// `None`: nothing is kept, and nothing waits.
    writer: Option<Writer>,
}

struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    done: OwnedFd,
    /// Value on the disk; [`NOTHING`] if there is none. Looked at for each value.
    kept: AtomicI64,
}

/// Below every time.
const NOTHING: i64 = i64::MIN;

#[derive(Default)]
struct State {
    wanted: Option<i64>,
    failed: Option<String>,
    stop: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Floor {
    /// Keeps nothing: if all members die, the group's clock may go back.
    pub(crate) fn nowhere() -> Floor {
        Floor { wanted: None, writer: None }
    }

    /// Keeps it in this file, which held `kept` at the start. The directory is made if need be.
    ///
    /// # Errors
    /// If the directory cannot be made or written to, or there can be no thread.
    pub(crate) fn at(
        path: &Path,
        group: &str,
        member: Member,
        kept: Option<i64>,
    ) -> io::Result<Floor> {
        if let Some(directory) = path.parent() {
            make_folder(directory, 0o755)?;
            // Now rather than at the first value.
            Entry::at(path)?.try_replace()?;
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State { wanted: kept, ..State::default() }),
            changed: Condvar::new(),
            done: sys::event_counter()?,
            kept: AtomicI64::new(kept.unwrap_or(NOTHING)),
        });
        let (path, group, theirs) = (path.to_owned(), group.to_owned(), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("truechimer-keep".into())
            .spawn(move || write(&theirs, &path, &group, member))?;
        let writer = Writer { shared, thread: Some(thread) };
        Ok(Floor { wanted: kept, writer: Some(writer) })
    }

    /// Descriptor that tells poll(2) that more has reached the disk.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.writer.as_ref().map(|writer| writer.shared.done.as_raw_fd())
    }

    /// Asks for a floor to be kept, soon.
    pub(crate) fn keep(&mut self, floor: i64) {
        if self.wanted.is_some_and(|wanted| wanted >= floor) {
            return;
        }
        self.wanted = Some(floor);
        if let Some(writer) = &self.writer {
            writer.shared.state().wanted = Some(floor);
            writer.shared.changed.notify_one();
        }
    }

    /// True if a value may be used: the floor on the disk is not below it.
    pub(crate) fn covers(&self, value: i64) -> bool {
        match &self.writer {
            Some(writer) => writer.shared.kept.load(Acquire) >= value,
            None => true,
        }
    }

    /// True if a value, or the highest floor that was asked for if that is lower, is on the disk.
    pub(crate) fn covers_if_asked(&self, value: i64) -> bool {
        self.wanted.is_none_or(|wanted| self.covers(value.min(wanted)))
    }

    /// The highest that is on the disk.
    pub(crate) fn kept(&self) -> Option<i64> {
        let kept = self.writer.as_ref().map(|writer| writer.shared.kept.load(Acquire));
        kept.filter(|kept| *kept != NOTHING)
    }

    /// Reason why it could not be written, once.
    pub(crate) fn failure(&self) -> Option<String> {
        self.writer.as_ref().and_then(|writer| writer.shared.state().failed.take())
    }

    /// Takes note of the wake-up of [`Floor::fd`].
    pub(crate) fn wake(&self) {
        if let Some(writer) = &self.writer {
            let mut count = [0; 8];
            // Empty already, at worst.
            let _ = read(&writer.shared.done, &mut count);
        }
    }

    /// Ends with exactly this kept, as nothing was ever beyond it: the next start need not begin
    /// some seconds ahead.
    pub(crate) fn settle(mut self, last: i64) {
        if let Some(writer) = &self.writer {
            writer.shared.state().wanted = Some(last);
        }
        self.finish();
    }

    fn finish(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        writer.shared.state().stop = true;
        writer.shared.changed.notify_one();
        if let Some(thread) = writer.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.finish();
    }
}

fn read(fd: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    use std::io::Read;
    File::from(fd.try_clone()?).read(into)
}

/// The thread: writes what is wanted and not kept, until told to stop.
fn write(shared: &Shared, path: &Path, group: &str, member: Member) {
    let mut state = shared.state();
    loop {
        match state.wanted {
            Some(wanted) if shared.kept.load(Acquire) != wanted => {
                drop(state);
                let result = save(path, &Kept::new(group, member, wanted));
                state = shared.state();
                match result {
                    Ok(()) => shared.kept.store(wanted, Release),
                    Err(why) => {
                        state.failed = Some(format!("{}: {why}", path.display()));
                        if state.stop {
                            return;
                        }
                        state = shared
                            .changed
                            .wait_timeout(state, AGAIN)
                            .unwrap_or_else(PoisonError::into_inner)
                            .0;
                    }
                }
                if let Ok(mut file) = shared.done.try_clone().map(File::from) {
                    let _ = file.write_all(&1_u64.to_ne_bytes());
                }
            }
            _ if state.stop => return,
            _ => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NAME: &str = "ledger";
    const ONE: Member = Member(1);

    /// A path of its own, whose directory is removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let directory = format!("truechimer-floor-{}-{name}", std::process::id());
            Place(path(&std::env::temp_dir().join(directory), NAME, ONE))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let directory = self.0.parent().and_then(Path::parent).unwrap();
            let _ = fs::remove_dir_all(directory);
        }
    }

    /// Waits, without end, until the disk has it.
    fn settled(floor: &Floor, value: i64) {
        while !floor.covers(value) {
            sys::poll(&mut [sys::readable(floor.fd().unwrap())], 1_000_000_000).unwrap();
            floor.wake();
        }
    }

    #[test]
    fn what_is_kept_is_found_again_and_covers_what_is_below() {
        let place = Place::new("again");
        assert_eq!(load(&place.0, NAME, ONE), Ok(None));
        let mut floor = Floor::at(&place.0, NAME, ONE, None).unwrap();
        assert!(!floor.covers(0), "nothing is kept yet");
        floor.keep(1_000);
        settled(&floor, 1_000);
        assert!(floor.covers(999) && !floor.covers(1_001));
        floor.keep(500);
        floor.keep(2_000);
        settled(&floor, 2_000);
        assert_eq!((floor.kept(), load(&place.0, NAME, ONE)), (Some(2_000), Ok(Some(2_000))));
        floor.settle(1_500);
        assert_eq!(load(&place.0, NAME, ONE), Ok(Some(1_500)), "what it came to in the end");
        let again = Floor::at(&place.0, NAME, ONE, Some(1_500)).unwrap();
        assert!(again.covers(1_500) && !again.covers(1_501));
    }

    #[test]
    fn what_was_asked_for_is_on_the_disk_at_the_end() {
        let place = Place::new("end");
        let mut floor = Floor::at(&place.0, NAME, ONE, None).unwrap();
        floor.keep(7);
        drop(floor);
        assert_eq!(load(&place.0, NAME, ONE), Ok(Some(7)));
    }

    #[test]
    fn no_file_that_is_not_ours_and_whole_is_believed() {
        let place = Place::new("hostile");
        fs::create_dir_all(place.0.parent().unwrap()).unwrap();
        let good = serde_json::to_string(&Kept::new(NAME, ONE, 5_000)).unwrap();
        for (text, says) in [
            (String::new(), "is damaged"),
            ("\0".repeat(100), "is damaged"),
            (good.replace("5000", "6000"), "its check does not fit"),
            (good.replace("\"format\":1", "\"format\":2"), "is of format 2"),
            (good.replace('}', ",\"more\":1}"), "is damaged"),
            (serde_json::to_string(&Kept::new("other", ONE, 5)).unwrap(), "of group 'other'"),
            (serde_json::to_string(&Kept::new(NAME, Member(2), 5)).unwrap(), "of member 2"),
            (serde_json::to_string(&Kept::new(NAME, ONE, -5)).unwrap(), "is no time of this age"),
            (serde_json::to_string(&Kept::new(NAME, ONE, i64::MAX)).unwrap(), "is no time of"),
            ("x".repeat(5_000), "is larger than 4096 bytes"),
        ] {
            fs::write(&place.0, &text).unwrap();
            let why = load(&place.0, NAME, ONE).unwrap_err();
            assert!(why.contains(says) && why.contains("1.floor: "), "{why}");
            assert!(why.contains("or remove the file"), "{why}");
        }
        fs::write(&place.0, &good).unwrap();
        assert_eq!(load(&place.0, NAME, ONE), Ok(Some(5_000)));
    }

    #[test]
    fn a_disk_that_does_not_take_it_is_told_and_tried_again() {
        let place = Place::new("full");
        let mut floor = Floor::at(&place.0, NAME, ONE, None).unwrap();
        let directory = place.0.parent().unwrap();
        fs::remove_dir_all(directory).unwrap();
        floor.keep(9);
        let mut why = None;
        while why.is_none() {
            sys::poll(&mut [sys::readable(floor.fd().unwrap())], 1_000_000_000).unwrap();
            floor.wake();
            why = floor.failure();
        }
        assert!(why.unwrap().contains("No such file") && !floor.covers(9));
        fs::create_dir_all(directory).unwrap();
        settled(&floor, 9);
    }

    #[test]
    fn nowhere_keeps_nothing_and_holds_nothing_up() {
        let mut floor = Floor::nowhere();
        floor.keep(5);
        assert!(floor.covers(i64::MAX) && floor.kept().is_none() && floor.fd().is_none());
    }
}
