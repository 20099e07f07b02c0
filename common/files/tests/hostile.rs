//! Traps that somebody else may have put in place of a file, a directory or a socket.
//!
//! A directory that everybody may write stands for one of another user's: the rule is the same for
//! both. Where this runs as root, another user's own directory is tried as well.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{
    FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::net;
use truechimer_files::{Access, Durable, Entry, create, link, make_folder, remove, write};

/// Another user's number.
const OTHER: u32 = 54_321;

/// A directory of this test's, removed at the end.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("truechimer-files-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Temp(path)
    }

    /// Directories that others can change.
    fn shared(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = [0o777, 0o1777]
            .map(|mode| {
                let path = self.0.join(format!("{mode:o}"));
                fs::create_dir(&path).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                path
            })
            .into();
        if is_root() {
            let theirs = self.0.join("theirs");
            fs::create_dir(&theirs).unwrap();
            chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
            let group = self.0.join("group");
            fs::create_dir(&group).unwrap();
            chown(&group, Some(0), Some(OTHER)).unwrap();
            fs::set_permissions(&group, Permissions::from_mode(0o775)).unwrap();
            all.extend([theirs, group]);
        }
        all
    }

    /// A file that nobody may touch, in a directory of ours.
    fn victim(&self) -> PathBuf {
        let path = self.0.join("victim");
        fs::write(&path, "precious").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Makes it the other user's, where that can be done.
fn given_away(path: &Path) {
    if is_root() {
        lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
}

fn intact(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    assert_eq!(fs::metadata(victim).unwrap().mode() & 0o7777, 0o600);
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = Entry::at(path)?.replace(0o640)?;
    new.write_all(text.as_bytes())?;
    new.commit(Durable::Yes)
}

fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, truechimer_files::Bound)> {
    Entry::itself(path)?.listen(mode)
}

/// Every way to write to `path`; what came of it.
fn all_ways(path: &Path) -> Vec<(&'static str, io::Result<()>)> {
    let open = |access| Entry::at(path)?.open(access, 0o600)?.write_all(b"ruined");
    vec![
        ("create", create(path, 0o600).and_then(|mut file| file.write_all(b"ruined"))),
        ("write", write(path, "ruined")),
        ("open", open(Access::Write)),
        ("open to read and write", open(Access::ReadWrite)),
        ("append", open(Access::ReadAppend)),
        ("new", open(Access::New)),
        ("replace", replace(path, "ruined")),
    ]
}

#[test]
fn no_link_is_followed_where_others_can_put_one() {
    let temp = Temp::new();
    let victim = temp.victim();
    for folder in temp.shared() {
        let path = folder.join("report");
        symlink(&victim, &path).unwrap();
        given_away(&path);
        for (way, result) in all_ways(&path) {
            let why = result.expect_err(way);
            assert_eq!(why.kind(), ErrorKind::PermissionDenied, "{way}: {why}");
            assert!(why.to_string().contains("'report' is a symbolic link in a"), "{way}: {why}");
        }
        // Neither is one that leads to nothing, which would be made elsewhere.
        let nothing = temp.0.join("nothing");
        fs::remove_file(&path).unwrap();
        symlink(&nothing, &path).unwrap();
        for (way, result) in all_ways(&path) {
            result.expect_err(way);
        }
        assert!(fs::symlink_metadata(&nothing).is_err());
        // It can be removed, and what it leads to stays.
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        remove(&path).unwrap();
        assert!(fs::symlink_metadata(&path).is_err());
        intact(&victim);
    }
}

#[test]
fn nor_is_one_on_the_way() {
    let temp = Temp::new();
    let victim = temp.victim();
    for folder in temp.shared() {
        let way = folder.join("way");
        symlink(&temp.0, &way).unwrap();
        given_away(&way);
        for path in [way.join("victim"), way.join("../way/victim"), way.join("new")] {
            for (name, result) in all_ways(&path) {
                let why = result.expect_err(name);
                assert!(why.to_string().contains("'way' is a symbolic link"), "{name}: {why}");
            }
            remove(&path).unwrap_err();
            link(&path, Path::new("/")).unwrap_err();
            make_folder(&path.join("more"), 0o777).unwrap_err();
            bind(&path, 0o666).unwrap_err();
        }
        assert!(!temp.0.join("new").exists());
        intact(&victim);
    }
}

#[test]
fn links_of_ones_own_are_followed() {
    let temp = Temp::new();
    fs::create_dir(temp.0.join("real")).unwrap();
    // Another test may bind a socket just now, and have no umask.
    fs::set_permissions(temp.0.join("real"), Permissions::from_mode(0o755)).unwrap();
    symlink("real", temp.0.join("way")).unwrap();
    symlink("../way/file", temp.0.join("real/short")).unwrap();
    let path = temp.0.join("way/short");
    write(&path, "one").unwrap();
    assert_eq!(fs::read_to_string(temp.0.join("real/file")).unwrap(), "one");
    replace(&path, "two").unwrap();
    assert_eq!(fs::read_to_string(temp.0.join("real/file")).unwrap(), "two");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    symlink("turn", temp.0.join("round")).unwrap();
    symlink("round", temp.0.join("turn")).unwrap();
    let why = write(&temp.0.join("round"), "").unwrap_err();
    assert_eq!(why.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
}

#[test]
fn what_is_open_can_be_named() {
    let temp = Temp::new();
    let (mut end, begin) = std::io::pipe().unwrap();
    use std::os::fd::AsRawFd;
    let number = begin.as_raw_fd();
    for path in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
        write(Path::new(&path), "x").unwrap();
        let mut got = [0; 1];
        end.read_exact(&mut got).unwrap();
    }
    let folder = fs::File::open(&temp.0).unwrap();
    let path = format!("/proc/self/fd/{}/file", folder.as_raw_fd());
    write(Path::new(&path), "x").unwrap();
    assert_eq!(fs::read_to_string(temp.0.join("file")).unwrap(), "x");
    write(Path::new("/dev/null"), "x").unwrap();
}

#[test]
fn a_hard_link_is_not_written_through() {
    let temp = Temp::new();
    let victim = temp.victim();
    for folder in temp.shared() {
        let path = folder.join("report");
        fs::hard_link(&victim, &path).unwrap();
        for (way, result) in all_ways(&path) {
            match way {
                "replace" => {
                    result.unwrap();
                    fs::remove_file(&path).unwrap();
                    fs::hard_link(&victim, &path).unwrap();
                }
                _ => {
                    let why = result.expect_err(way).to_string();
                    assert!(way == "new" || why.contains("a hard link"), "{way}: {why}");
                }
            }
        }
        fs::remove_file(&path).unwrap();
        intact(&victim);
    }
}

#[test]
fn another_users_file_or_pipe_is_not_written_to() {
    if !is_root() {
        // Past the harness, which would keep it to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED another user's files: this needs root");
        return;
    }
    let temp = Temp::new();
    for folder in temp.shared() {
        let path = folder.join("capture");
        fs::write(&path, "theirs").unwrap();
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        for (way, result) in all_ways(&path).into_iter().filter(|(way, _)| *way != "replace") {
            let why = result.expect_err(way).to_string();
            assert!(way == "new" || why.contains("belongs to user 54321"), "{way}: {why}");
        }
        // All ways but the last were refused; that one has put a file of ours in its place.
        assert_eq!(fs::read_to_string(&path).unwrap(), "ruined");
        assert_eq!(fs::metadata(&path).unwrap().uid(), 0);
        fs::remove_file(&path).unwrap();
        // Nor is a pipe, at which an ordinary open would wait for ever.
        pipe(&path);
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        let why = create(&path, 0o600).unwrap_err().to_string();
        assert!(why.contains("belongs to user 54321"), "{why}");
    }
}

/// Of an absolute path the working directory is no part. (`sudo -u ann truechimer run` in root's
/// home: "cannot make the clock page: Permission denied".)
#[test]
fn the_working_directory_need_not_be_readable() {
    let temp = Temp::new();
    let path = temp.shared()[0].join("file");
    let closed = temp.0.join("closed");
    fs::create_dir(&closed).unwrap();
    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
    // In a thread, as the rest of this process goes on as root where it is root.
    let made = std::thread::spawn(move || {
        if is_root() {
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(OTHER)).unwrap();
        }
        fs::read_dir(".").unwrap_err();
        create(&path, 0o600).map(drop)
    });
    made.join().unwrap().unwrap();
    std::env::set_current_dir(before).unwrap();
}

fn pipe(path: &Path) {
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

#[test]
fn ones_own_pipe_is_written_to_wherever_it_is() {
    let temp = Temp::new();
    for folder in temp.shared() {
        let path = folder.join("pipe");
        pipe(&path);
        let mut reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        create(&path, 0o600).unwrap().write_all(b"x").unwrap();
        reader.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn a_file_is_replaced_whole_with_its_mode_and_nothing_is_left() {
    let temp = Temp::new();
    let path = temp.0.join("state");
    for text in ["one", "two"] {
        replace(&path, text).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    }
    let mut half = Entry::at(&path).unwrap().replace(0o600).unwrap();
    half.write_all(b"hal").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    assert_eq!(fs::read_dir(&temp.0).unwrap().count(), 2);
    drop(half);
    Entry::at(&path).unwrap().try_replace().unwrap();
    assert_eq!(
        Entry::at(&temp.0).unwrap().try_replace().unwrap_err().kind(),
        ErrorKind::IsADirectory
    );
    assert_eq!(fs::read_dir(&temp.0).unwrap().count(), 1);
    // The name may be as long as names can be, and end anywhere.
    let long = temp.0.join("ä".repeat(127));
    replace(&long, "long").unwrap();
    assert_eq!(fs::read_to_string(&long).unwrap(), "long");
}

#[test]
fn directories_are_made_with_their_mode() {
    let temp = Temp::new();
    let path = temp.0.join("a/b/c");
    let new = make_folder(&path, 0o700).unwrap().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    new.set_permissions(Permissions::from_mode(0o750)).unwrap();
    assert!(make_folder(&path, 0o777).unwrap().is_none());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750, "it was there");
    fs::write(path.join("file"), "").unwrap();
    assert_eq!(
        make_folder(&path.join("file"), 0o700).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
    assert!(make_folder(Path::new("/"), 0o700).unwrap().is_none());
}

#[test]
fn a_socket_whose_listener_hangs_is_not_waited_for() {
    let temp = Temp::new();
    let path = temp.0.join("control");
    let (hung, _bound) = bind(&path, 0o666).unwrap();
    // Until its queue is full, where the next one would wait without end.
    let caller = || {
        let flags = net::SocketFlags::NONBLOCK;
        let family = net::AddressFamily::UNIX;
        let socket = net::socket_with(family, net::SocketType::STREAM, flags, None).unwrap();
        let address = net::SocketAddrUnix::new(&path).unwrap();
        net::connect(&socket, &address).is_ok().then_some(socket)
    };
    let callers: Vec<_> = std::iter::from_fn(caller).collect();
    assert!(!callers.is_empty());
    let told = truechimer_files::listen(&path, 0o666).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::AddrInUse, "{told}");
    assert!(told.to_string().contains("another daemon answers"), "{told}");
    drop(hung);
    let (_listener, _name) = truechimer_files::listen(&path, 0o666).unwrap();
    drop(callers);
}

#[test]
fn a_socket_has_its_mode_and_its_name_goes_with_it() {
    let temp = Temp::new();
    let mut folders = temp.shared();
    folders.push(temp.0.clone());
    for folder in folders {
        for mode in [0o600, 0o666, 0o660] {
            let path = folder.join("control");
            let (listener, bound) = bind(&path, mode).unwrap();
            let there = fs::symlink_metadata(&path).unwrap();
            assert!(there.file_type().is_socket());
            assert_eq!(there.mode() & 0o7777, mode);
            UnixStream::connect(&path).unwrap();
            assert_eq!(bind(&path, mode).unwrap_err().kind(), ErrorKind::AddrInUse);
            assert!(Entry::itself(&path).unwrap().is_socket().unwrap());
            drop((listener, bound));
            assert!(!path.exists());
        }
        // A link, or anything else, is not bound through, and what has come instead stays.
        let (victim, path) = (temp.victim(), folder.join("trap"));
        symlink(&victim, &path).unwrap();
        assert_eq!(bind(&path, 0o666).unwrap_err().kind(), ErrorKind::AddrInUse);
        fs::remove_file(&path).unwrap();
        symlink(temp.0.join("nothing"), &path).unwrap();
        assert_eq!(bind(&path, 0o666).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(!Entry::itself(&path).unwrap().is_socket().unwrap());
        fs::remove_file(&path).unwrap();
        let bound = bind(&path, 0o666).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(bound);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        intact(&victim);
    }
}

/// Somebody who puts a link in place of a socket as soon as it is there never gets a file's mode
/// changed.
#[test]
fn a_link_in_place_of_a_new_socket_changes_no_mode() {
    let temp = Temp::new();
    let victim = temp.victim();
    let folder = temp.shared().remove(0);
    let path = folder.join("control");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let trap = folder.join("trap");
            while !stop.load(Ordering::Relaxed) {
                let _ = symlink(&victim, &trap);
                if path.exists() {
                    let _ = fs::rename(&trap, &path);
                }
            }
        });
        for _ in 0..300 {
            let _ = fs::remove_file(&path);
            let _ = bind(&path, 0o666);
        }
        stop.store(true, Ordering::Relaxed);
    });
    intact(&victim);
}

#[test]
fn a_link_is_replaced_and_nothing_else() {
    let temp = Temp::new();
    let path = temp.0.join("plugin");
    link(&path, Path::new("/one")).unwrap();
    link(&path, Path::new("/two")).unwrap();
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("/two"));
    fs::remove_file(&path).unwrap();
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    assert_eq!(link(&path, Path::new("/")).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

fn lock(path: &Path) -> io::Result<Option<truechimer_files::Lock>> {
    Entry::at(path)?.lock()
}

#[test]
fn a_lock_is_one_process_s_and_its_file_goes_with_it() {
    let temp = Temp::new();
    let mut folders = temp.shared();
    folders.push(temp.0.clone());
    for folder in folders {
        let path = folder.join("day.phases");
        let held = lock(&path).unwrap().unwrap();
        let file = folder.join("day.phases.lock");
        let there = fs::symlink_metadata(&file).unwrap();
        assert_eq!((there.mode() & 0o7777, there.is_file()), (0o600, true));
        assert!(lock(&path).unwrap().is_none());
        drop(held);
        assert!(fs::symlink_metadata(&file).is_err());
        // One that was left by a process that was killed.
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let held = lock(&path).unwrap().unwrap();
        // Removed by hand, it is nobody's any more.
        fs::remove_file(&file).unwrap();
        let other = lock(&path).unwrap().unwrap();
        drop(held);
        assert!(file.exists(), "the other's");
        drop(other);
        assert!(!file.exists());
    }
}

#[test]
fn a_file_that_others_could_lock_is_none() {
    let temp = Temp::new();
    let victim = temp.victim();
    for folder in temp.shared() {
        let (path, file) = (folder.join("log"), folder.join("log.lock"));
        symlink(&victim, &file).unwrap();
        let why = lock(&path).unwrap_err().to_string();
        assert!(why.contains("'log.lock'") && why.contains("symbolic link"), "{why}");
        fs::remove_file(&file).unwrap();
        fs::hard_link(&victim, &file).unwrap();
        let why = lock(&path).unwrap_err().to_string();
        assert!(why.contains("a hard link"), "{why}");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let why = lock(&path).unwrap_err().to_string();
        assert!(why.contains("can be opened by others (mode 0640)"), "{why}");
        if is_root() {
            given_away(&file);
            let why = lock(&path).unwrap_err().to_string();
            assert!(why.contains("belongs to user 54321"), "{why}");
        }
        intact(&victim);
    }
}
