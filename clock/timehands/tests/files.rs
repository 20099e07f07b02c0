//! Files at a page's path, and what becomes of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::fs::{self, File, Permissions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use common::{Scratch, derived, skipped};
use truechimer_time::{Count, CountSpan, CounterKind, Epoch};
use truechimer_timehands::{
    Glance, Hand, Kept, Made, Mended, PageError, PageReader, PageWriter, Status, layout,
};

/// A page with one hand in it, and no writer.
fn page(path: &Path) {
    let (hand, made) = derived(1);
    PageWriter::create(path).unwrap().publish(&hand, &made);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_published_is_read() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    assert_eq!(writer.last_hand(), None);
    assert_eq!(fs::metadata(&path).unwrap().len(), layout::SIZE as u64);
    assert_eq!(mode(&path), 0o644);

    let reader = PageReader::open(&path).unwrap();
    assert_eq!((reader.read(), reader.heartbeat()), (None, Count(0)));
    assert!(reader.tended());
    assert_eq!(reader.writer(), Some(std::process::id()));
    for generation in 1..=100 {
        let (hand, made) = derived(generation);
        assert_eq!(writer.publish(&hand, &made), generation);
        assert_eq!(reader.newest(), Ok(Some((generation, hand, made))));
        assert_eq!(writer.last_hand(), Some((hand, made)));
        assert_eq!(reader.heartbeat(), made.count);
    }
    writer.heartbeat(Count(12345));
    assert_eq!(reader.heartbeat(), Count(12345));
    drop(writer);
    assert!(!reader.tended());
    assert_eq!(reader.read(), Some(left(100)));
}

/// Hand that the writer of hand `generation` leaves.
fn left(generation: u64) -> (Hand, Made) {
    let (hand, made) = derived(generation);
    (Hand { status: Status::Holdover, ..hand }, made)
}

/// Readers of a page whose writer ended need not wait for its silence.
#[test]
fn a_writer_that_ends_says_so() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let reader = PageReader::open(&path).unwrap();
    let (mut hand, mut made) = derived(22);
    // A counter that is no device, and the day's most usual hand.
    (hand.status, made.device) = (Status::Synchronised, None);
    writer.publish(&hand, &made);
    drop(writer);
    let holdover = Hand { status: Status::Holdover, ..hand };
    assert_eq!(reader.newest(), Ok(Some((2, holdover, made))));
    // Nobody relies on that heartbeat at any count that may come, by the oldest rules.
    let silence = reader.heartbeat() - made.count;
    assert_eq!(silence.0, i64::MIN);
    for later in [0, 1, 1 << 40, 1 << 61] {
        let count = made.count + CountSpan(later);
        let look = reader.ring().look().unwrap();
        assert!(
            !Glance(look.words(), look.beside()).stands_at(count, reader.heartbeat().0),
            "{later}"
        );
    }
    // One that says nothing itself changes nothing in that, however often.
    for _ in 0..3 {
        let writer = PageWriter::create(&path).unwrap();
        assert_eq!(writer.last_hand(), Some((holdover, made)));
        drop(writer);
        assert_eq!(reader.newest(), Ok(Some((2, holdover, made))));
        assert_eq!((reader.heartbeat() - made.count).0, i64::MIN);
    }
    // The next goes on from there, and what promised nothing promises no more at the end.
    for status in [Status::Unknown, Status::Disrupted] {
        let mut writer = PageWriter::create(&path).unwrap();
        writer.publish(&Hand { status, ..hand }, &made);
        assert_eq!(reader.heartbeat(), made.count);
        drop(writer);
        assert_eq!(reader.read().unwrap().0.status, status);
    }
    // A device is counted on from where it was kept.
    let (hand, made) = derived(24);
    let mut writer = PageWriter::create(&path).unwrap();
    writer.publish(&hand, &made);
    let kept = Kept { wide: Count(1 << 50), at_ns: 77 };
    writer.keep(kept);
    drop(writer);
    assert_eq!((reader.kept(), reader.read()), (Some(kept), Some(left(24))));
}

/// A writer that panics ends like any other, a forked copy of it says nothing.
#[test]
fn a_panic_is_an_end_too() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let (hand, made) = derived(2);
    writer.publish(&hand, &made);
    let died = std::thread::spawn(move || {
        let _writer = writer;
        // Nothing is printed.
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(died.join().is_err());
    assert_eq!(PageReader::open(&path).unwrap().read(), Some(left(2)));
}

#[test]
fn nobody_continues_from_counts_of_another_row() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let reader = PageReader::open(&path).unwrap();
    let (mut hand, made) = derived(1);
    writer.publish(&hand, &made);
    assert_eq!(reader.kept(), None);
    let kept = Kept { wide: Count(1 << 50), at_ns: 77 };
    writer.keep(kept);
    assert_eq!((reader.kept(), reader.heartbeat()), (Some(kept), kept.wide));
    // Within a row of counts hands and heartbeats come and go.
    writer.publish(&hand, &made);
    assert_eq!(reader.kept(), Some(Kept { wide: made.count, ..kept }));
    hand.counter.epoch = Epoch(7);
    writer.publish(&hand, &made);
    assert_eq!(reader.kept(), None);
    writer.keep(kept);
    // A successor finds what was kept, and spoils it only by publishing something else.
    drop(writer);
    let mut writer = PageWriter::create(&path).unwrap();
    assert_eq!((writer.last_kept(), reader.kept()), (Some(kept), Some(kept)));
    writer.publish(&hand, &made);
    assert_eq!(reader.kept(), Some(Kept { wide: made.count, ..kept }));
    drop(writer);
    let mut writer = PageWriter::create(&path).unwrap();
    hand.counter.kind = CounterKind::Tsc;
    writer.publish(&hand, &made);
    assert_eq!(reader.kept(), None);
}

#[test]
fn a_successor_goes_on_in_the_same_file() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    let reader = PageReader::open(&path).unwrap();
    for generation in 2..=30 {
        let mut writer = PageWriter::create(&path).unwrap();
        assert_eq!(writer.last_hand(), Some(left(generation - 1)));
        let (hand, made) = derived(generation);
        let before = reader.ring().generation();
        assert_eq!(writer.publish(&hand, &made), before + 1);
        assert_eq!(reader.newest(), Ok(Some((before + 1, hand, made))));
    }
}

#[test]
fn a_second_writer_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let first = PageWriter::create(&path).unwrap();
    let error = PageWriter::create(&path).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(&error, PageError::Locked { pid: Some(p), .. } if *p == pid), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("clock") && text.contains(&pid.to_string()), "{text}");
    drop(first);
    PageWriter::create(&path).unwrap();
}

/// Copies such as a process that is just being started has until it becomes another program.
#[test]
fn a_copy_of_the_descriptor_keeps_no_successor_out() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let writer = PageWriter::create(&path).unwrap();
    let copies = [&path, &scratch.join("clock.lock")].map(|path| {
        let open = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == *path);
        let ours = fs::read_dir("/proc/self/fd").unwrap().flatten().find(open).unwrap();
        let number: libc::c_int = ours.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: the writer lives, and so its descriptor is open.
        unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().unwrap()
    });
    drop(writer);
    let writer = PageWriter::create(&path).unwrap();
    assert!(PageReader::open(&path).unwrap().tended());
    drop((writer, copies));
}

/// A process that was forked off with a writer in it does not give its parent's lock away.
#[test]
fn a_forked_copy_of_a_writer_leaves_the_lock() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let writer = PageWriter::create(&path).unwrap();
    // SAFETY: the child only frees, unmaps and closes what it has, and ends without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        drop(writer);
        // SAFETY: it does not return.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: our child, and nobody is told how it ended.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    assert!(matches!(PageWriter::create(&path), Err(PageError::Locked { .. })));
    drop(writer);
}

/// A lock on the whole file, as anyone can take it who can open it like that.
fn locked(file: File, kind: libc::c_int) -> File {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    // SAFETY: a valid lock structure on a file that is open.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) }, 0);
    file
}

#[test]
fn a_readers_lock_keeps_no_writer_out() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    let outsider = locked(File::open(&path).unwrap(), libc::F_RDLCK);
    let writer = PageWriter::create(&path).unwrap();
    let refused = PageWriter::create(&path).unwrap_err();
    assert!(matches!(refused, PageError::Locked { .. }), "and one is enough: {refused}");
    // All that it does is to hide who writes, until it goes.
    let reader = PageReader::open(&path).unwrap();
    writer.heartbeat(Count(1));
    assert!(!reader.tended());
    drop(outsider);
    writer.heartbeat(Count(2));
    assert!(reader.tended());
    // Now nobody gets one any more.
    assert!(matches!(PageWriter::create(&path), Err(PageError::Locked { .. })));
}

/// A daemon that knows of no lock beside the page holds the page's own.
#[test]
fn a_daemon_of_before_is_not_joined() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    let before = File::options().read(true).write(true).open(&path).unwrap();
    let before = locked(before, libc::F_WRLCK);
    assert!(matches!(PageWriter::create(&path), Err(PageError::Locked { .. })));
    drop(before);
    drop(PageWriter::create(&path).unwrap());
}

#[test]
fn the_lock_is_its_owners_alone() {
    let scratch = Scratch::new();
    let (path, lock) = (scratch.join("clock"), scratch.join("clock.lock"));
    drop(PageWriter::create(&path).unwrap());
    assert_eq!(mode(&lock), 0o600);
    // Nothing that others could have put there, or could open, is used, changed or removed.
    let refused = |why: &str| {
        let error = PageWriter::create(&path).unwrap_err();
        assert!(matches!(error, PageError::ForeignLock { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("clock.lock") && text.contains(why), "{text}");
        fs::symlink_metadata(&lock).unwrap()
    };
    chmod(&lock, 0o640);
    assert_eq!(refused("mode 0640").permissions().mode() & 0o777, 0o640);
    chmod(&lock, 0o600);
    fs::hard_link(&lock, scratch.join("other")).unwrap();
    refused("another name");
    fs::remove_file(&lock).unwrap();
    symlink(scratch.join("other"), &lock).unwrap();
    assert!(refused("not a regular file").is_symlink());
    fs::remove_file(&lock).unwrap();
    symlink(scratch.join("nowhere"), &lock).unwrap();
    refused("not a regular file");
    assert!(!scratch.join("nowhere").exists());
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    refused("not a regular file");
    fs::remove_dir(&lock).unwrap();
    drop(PageWriter::create(&path).unwrap());
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } != 0 {
        skipped("the_lock_is_its_owners_alone: only root can make a stranger's");
        return;
    }
    std::os::unix::fs::chown(&lock, Some(4321), None).unwrap();
    refused("belongs to user 4321");
    // Where all may write, as in /tmp, the kernel itself may refuse to open it.
    chmod(scratch.path(), 0o1777);
    refused("belongs to user 4321");
}

#[test]
fn nothing_there() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    assert!(matches!(PageReader::open(&path), Err(PageError::Missing { .. })));
    assert!(!path.exists());
    // Only a default place has its directory made.
    let deep = scratch.join("no/clock");
    assert!(matches!(PageWriter::create(deep), Err(PageError::System { .. })));
}

/// Errors of reader and writer for a file with this content; it has to be there unchanged after.
fn refused(content: &[u8]) -> (PageError, PageError) {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    fs::write(&path, content).unwrap();
    chmod(&path, 0o600);
    let seen = PageWriter::examine(&path).map_err(|why| why.to_string());
    let errors = (PageReader::open(&path).unwrap_err(), PageWriter::create(&path).unwrap_err());
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(mode(&path), 0o600);
    if matches!(errors.1, PageError::Foreign { .. }) && !content.starts_with(&[0; 8]) {
        assert!(!scratch.join("clock.lock").exists(), "nothing is put beside it");
        assert_eq!(seen, Err(errors.1.to_string()), "who only looks sees it too");
    }
    errors
}

/// The bytes of a page with one hand, after a change.
fn changed(change: impl Fn(&File)) -> Vec<u8> {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    change(&File::options().write(true).open(&path).unwrap());
    fs::read(&path).unwrap()
}

#[test]
fn files_that_are_no_pages_are_left_alone() {
    let text = vec![b'x'; layout::SIZE];
    let errors = refused(&text);
    assert!(matches!(errors, (PageError::Foreign { .. }, PageError::Foreign { .. })), "{errors:?}");
    // Of the other byte order.
    let swapped = changed(|file| file.write_all_at(&layout::MAGIC.to_be_bytes(), 0).unwrap());
    let errors = refused(&swapped);
    assert!(matches!(errors, (PageError::Foreign { .. }, PageError::Foreign { .. })), "{errors:?}");
    // Without the magic, but not what a writer that was cut short leaves.
    let beheaded = changed(|file| file.write_all_at(&[0; 8], 0).unwrap());
    let errors = refused(&beheaded);
    assert!(matches!(errors, (PageError::Unfinished { .. }, PageError::Foreign { .. })));
}

#[test]
fn short_and_long_files_are_refused() {
    for length in [1, 100, layout::SIZE - 1] {
        let errors = refused(&vec![0; length]);
        assert!(matches!(errors, (PageError::Unfinished { .. }, PageError::Foreign { .. })));
    }
    // Something else altogether, as anybody's file of text.
    for content in [&b"x"[..], b"root:*:19000:0:99999:7:::\n"] {
        let errors = refused(content);
        assert!(matches!(errors, (PageError::Foreign { .. }, PageError::Foreign { .. })));
    }
    let cut = changed(|file| file.set_len(100).unwrap());
    assert!(matches!(refused(&cut).0, PageError::Unfinished { length: 100, .. }));
    // The page of a version with more to it; to a reader only what the header says matters.
    let mut long = changed(|file| file.write_all_at(&2u32.to_ne_bytes(), 8).unwrap());
    long.resize(2 * layout::SIZE, 0);
    let errors = refused(&long);
    assert!(matches!(errors, (PageError::Version { found: 2, .. }, PageError::Foreign { .. })));
}

#[test]
fn other_versions_are_refused() {
    for version in [0u32, 2, u32::MAX] {
        let page = changed(|file| file.write_all_at(&version.to_ne_bytes(), 8).unwrap());
        let (reader, writer) = refused(&page);
        assert!(matches!(reader, PageError::Version { found, .. } if found == version));
        assert!(matches!(writer, PageError::Version { found, .. } if found == version));
        assert!(reader.to_string().contains(&format!("version {version}")), "{reader}");
    }
}

#[test]
fn a_header_that_contradicts_itself_is_refused() {
    for offset in [12, 16, 20, 24, 28] {
        let page = changed(|file| file.write_all_at(&7u32.to_ne_bytes(), offset).unwrap());
        let errors = refused(&page);
        assert!(matches!(errors, (PageError::Damaged { .. }, PageError::Damaged { .. })));
    }
}

#[test]
fn what_was_left_unfinished_is_finished() {
    let scratch = Scratch::new();
    let (whole, path) = (scratch.join("whole"), scratch.join("clock"));
    drop(PageWriter::create(&whole).unwrap());
    let whole = fs::read(whole).unwrap();
    // Nothing, zeros, and the header up to each of its words.
    let mut cases = vec![vec![], vec![0; layout::SIZE]];
    for words in 1..=3 {
        let mut page = vec![0; layout::SIZE];
        page[8..8 + 8 * words].copy_from_slice(&whole[8..8 + 8 * words]);
        cases.push(page);
    }
    for content in cases {
        fs::write(&path, content).unwrap();
        assert!(matches!(PageReader::open(&path), Err(PageError::Unfinished { .. })));
        drop(PageWriter::create(&path).unwrap());
        assert_eq!(PageReader::open(&path).unwrap().read(), None);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn damaged_hands_are_never_time() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    // A generation that is not there; a sequence that no slot knows; a period of 0.
    for (offset, word) in [(layout::HANDS_OFFSET + layout::HAND_SIZE, 9u64), (64, 77)] {
        page(&path);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&word.to_ne_bytes(), offset as u64).unwrap();
        let reader = PageReader::open(&path).unwrap();
        assert_eq!((reader.read(), reader.newest().unwrap_err().field), (None, "generation"));
        fs::remove_file(&path).unwrap();
    }
    page(&path);
    let file = File::options().write(true).open(&path).unwrap();
    let period = layout::HANDS_OFFSET + layout::HAND_SIZE + 32;
    file.write_all_at(&[0; 16], period as u64).unwrap();
    let reader = PageReader::open(&path).unwrap();
    assert_eq!((reader.read(), reader.newest().unwrap_err().field), (None, "period"));
    // A daemon that finds that starts afresh and mends it.
    let mut writer = PageWriter::create(&path).unwrap();
    assert_eq!(writer.last_hand(), None);
    let (hand, made) = derived(2);
    assert_eq!(writer.publish(&hand, &made), 2);
    assert_eq!(reader.read(), Some((hand, made)));
}

#[test]
fn a_sequence_at_its_end_goes_on() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&u64::MAX.to_ne_bytes(), 64).unwrap();
    let mut writer = PageWriter::create(&path).unwrap();
    let reader = PageReader::open(&path).unwrap();
    for n in 0..20 {
        let (hand, made) = derived(n);
        writer.publish(&hand, &made);
        assert_eq!(reader.read(), Some((hand, made)));
    }
}

#[test]
fn things_that_are_no_files_are_refused() {
    let scratch = Scratch::new();
    let (target, link) = (scratch.join("clock"), scratch.join("link"));
    page(&target);
    symlink(&target, &link).unwrap();
    assert!(matches!(PageWriter::create(&link), Err(PageError::NotAFile { .. })));
    assert_eq!(PageReader::open(&link).unwrap().read(), Some(derived(1)));

    assert!(matches!(PageWriter::create(scratch.path()), Err(PageError::NotAFile { .. })));
    assert!(matches!(PageReader::open(scratch.path()), Err(PageError::NotAFile { .. })));

    let fifo = scratch.join("fifo");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o644) }, 0);
    assert!(matches!(PageReader::open(&fifo), Err(PageError::NotAFile { .. })));
    assert!(matches!(PageWriter::create(&fifo), Err(PageError::NotAFile { .. })));
}

#[test]
fn a_page_that_anybody_may_write_is_not_trusted() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    for mode in [0o646, 0o664, 0o666] {
        chmod(&path, mode);
        let error = PageReader::open(&path).unwrap_err();
        assert!(matches!(error, PageError::Writable { mode: m, .. } if m == mode), "{error}");
    }
    // A daemon puts that right when it starts.
    drop(PageWriter::create(&path).unwrap());
    assert_eq!(mode(&path), 0o644);
    PageReader::open(&path).unwrap();
}

#[test]
fn the_pages_of_strangers_are_not_trusted() {
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } != 0 {
        skipped("the_pages_of_strangers_are_not_trusted: only root can make such pages");
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    page(&path);
    std::os::unix::fs::chown(&path, Some(4321), None).unwrap();
    let stranger = PageError::Owner { path: path.clone(), owner: 4321 }.to_string();
    assert_eq!(PageReader::open(&path).unwrap_err().to_string(), stranger);
    assert_eq!(PageWriter::create(&path).unwrap_err().to_string(), stranger);
    // In a directory of the stranger's own it is the page of a daemon that runs as that user.
    std::os::unix::fs::chown(scratch.path(), Some(4321), None).unwrap();
    assert_eq!(PageReader::open(&path).unwrap().read(), Some(derived(1)));
    assert_eq!(PageWriter::create(&path).unwrap_err().to_string(), stranger);
}

/// Newest hand of a page, as a reader finds it.
fn read(reader: &PageReader) -> Option<(u64, Hand, Made)> {
    reader.newest().unwrap()
}

#[test]
fn a_page_that_was_shortened_is_made_whole_under_its_readers() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let reader = PageReader::open(&path).unwrap();
    let (hand, made) = derived(1);
    writer.publish(&hand, &made);
    assert_eq!(writer.tend().unwrap(), None);
    let mut generation = 1;
    let mut longer = fs::read(&path).unwrap();
    longer.push(b'\n');
    let strange = scratch.join("strange");
    drop(PageWriter::create(&strange).unwrap());
    let strange = fs::read(&strange).unwrap();
    // As `: > clock`, `echo no > clock`, `echo >> clock`, `cp other clock` and the like do.
    for content in [
        &b""[..],
        b"no\n",
        &[0xff; 200],
        &[0; layout::SIZE - 1],
        &[0; layout::SIZE],
        &[0xff; layout::SIZE + 9],
        &longer,
        &strange,
    ] {
        fs::write(&path, content).unwrap();
        assert_eq!(writer.tend().unwrap(), Some(Mended::Content));
        assert_eq!(fs::metadata(&path).unwrap().len(), layout::SIZE as u64);
        generation += 1;
        assert_eq!(read(&reader), Some((generation, hand, made)));
        assert_eq!(reader.heartbeat(), Count(0), "nobody has looked at the world since");
        assert_eq!(writer.tend().unwrap(), None);
        // It is a page as one that was never touched.
        let (bytes, other) = (fs::read(&path).unwrap(), scratch.join("other"));
        let mut fresh = PageWriter::create(&other).unwrap();
        for _ in 0..generation {
            fresh.publish(&hand, &made);
        }
        fresh.heartbeat(Count(0));
        let fresh_bytes = fs::read(&other).unwrap();
        let tail = layout::BESIDE_OFFSET + 8 * layout::BESIDE_SIZE;
        assert!(bytes[..128] == fresh_bytes[..128] && bytes[tail..] == fresh_bytes[tail..]);
        drop(fresh);
        fs::remove_file(&other).unwrap();
        assert_eq!(read(&PageReader::open(&path).unwrap()), Some((generation, hand, made)));
        writer.publish(&hand, &made);
        generation += 1;
        assert_eq!(
            (read(&reader), reader.heartbeat()),
            (Some((generation, hand, made)), made.count)
        );
    }
    // Its end writes, too.
    fs::write(&path, "").unwrap();
    drop(writer);
    assert_eq!(reader.read().unwrap().0.status, Status::Holdover);
}

#[test]
fn a_page_that_was_removed_is_made_anew_and_the_old_one_written_on() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let mut readers = vec![PageReader::open(&path).unwrap()];
    let (hand, made) = derived(2);
    writer.publish(&hand, &made);
    let moved = scratch.join("moved");
    for round in 0..7 {
        match round % 2 {
            0 => fs::remove_file(&path).unwrap(),
            _ => fs::rename(&path, &moved).unwrap(),
        }
        assert_eq!(writer.tend().unwrap(), Some(Mended::Name));
        assert_eq!((writer.tend().unwrap(), mode(&path)), (None, 0o644));
        readers.push(PageReader::open(&path).unwrap());
        assert!(readers.last().unwrap().tended());
        let generation = writer.publish(&hand, &made);
        // Not for ever: the oldest hear that nobody tends their page any more.
        let (old, new) = readers.split_at(readers.len().saturating_sub(5));
        for reader in new {
            assert_eq!(read(reader), Some((generation, hand, made)), "{round}");
            assert_eq!(reader.heartbeat(), made.count);
        }
        for reader in old {
            assert_eq!(reader.read().unwrap().0.status, Status::Holdover, "{round}");
            assert!(!reader.tended());
        }
    }
    assert!(!scratch.join("clock.new").exists());
    // One that was moved away and shortened there ends nobody.
    fs::rename(&path, &moved).unwrap();
    assert_eq!(writer.tend().unwrap(), Some(Mended::Name));
    fs::write(&moved, "").unwrap();
    assert_eq!(writer.tend().unwrap(), None);
    writer.publish(&hand, &made);
    drop(writer);
    assert_eq!(PageReader::open(&path).unwrap().read().unwrap().0.status, Status::Holdover);
}

#[test]
fn what_takes_the_pages_place_is_named_and_left_alone() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let reader = PageReader::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    for _ in 0..2 {
        let why = writer.tend().unwrap_err();
        assert!(matches!(why, PageError::Replaced { .. }), "{why:?}");
        assert!(why.to_string().contains("remove it"), "{why}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let (hand, made) = derived(1);
    writer.publish(&hand, &made);
    assert_eq!(read(&reader), Some((1, hand, made)));
    fs::remove_file(&path).unwrap();
    assert_eq!(writer.tend().unwrap(), Some(Mended::Name));
    // The one that lost its name is made whole all the same.
    let reader = PageReader::open(&path).unwrap();
    let moved = scratch.join("moved");
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "mine").unwrap();
    fs::write(&moved, "").unwrap();
    assert!(matches!(writer.tend(), Err(PageError::Replaced { .. })));
    let generation = writer.publish(&hand, &made);
    assert_eq!(read(&reader), Some((generation, hand, made)));
}

/// Where [`a_full_disk_leaves_nothing_behind`] starts this program again: a small tmpfs.
const FULL: &str = "TIMEHANDS_TEST_FULL";

/// Plays the part of a daemon on a full disk. As an ordinary test it does nothing.
#[test]
fn on_a_full_disk() {
    let Some(disk) = std::env::var_os(FULL) else { return };
    let disk = Path::new(&disk);
    let path = disk.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let (hand, made) = derived(1);
    writer.publish(&hand, &made);
    let reader = PageReader::open(&path).unwrap();
    // One memory page is all there is room for.
    let second = disk.join("second");
    let why = PageWriter::create(&second).unwrap_err();
    assert!(why.to_string().contains("No space left"), "{why}");
    // Somebody removes the page, which goes on taking up the room.
    fs::remove_file(&path).unwrap();
    assert!(writer.tend().unwrap_err().to_string().contains("No space left"));
    writer.publish(&hand, &made);
    assert_eq!(read(&reader), Some((2, hand, made)));
    // No page, no half of one: the locks alone, which take no room.
    let mut left: Vec<_> = fs::read_dir(disk).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["clock.lock", "second.lock"]);
    drop((writer, reader));

    // Somebody shortens the page, and somebody else takes the room: nothing is written to it.
    let mut writer = PageWriter::create(&path).unwrap();
    writer.publish(&hand, &made);
    fs::write(&path, "").unwrap();
    let filler = disk.join("filler");
    fs::write(&filler, [1; layout::SIZE]).unwrap();
    assert!(writer.tend().unwrap_err().to_string().contains("No space left"));
    writer.publish(&hand, &made);
    writer.heartbeat(Count(5));
    writer.keep(Kept { wide: Count(5), at_ns: 5 });
    writer.deviate(None);
    writer.follow(None);
    assert_eq!((writer.last_heartbeat(), writer.last_kept()), (Count(0), None));
    fs::remove_file(&filler).unwrap();
    assert_eq!(writer.tend().unwrap(), Some(Mended::Content));
    let generation = writer.publish(&hand, &made);
    assert_eq!(read(&PageReader::open(&path).unwrap()), Some((generation, hand, made)));
    fs::write(&path, "").unwrap();
    fs::write(&filler, [1; layout::SIZE]).unwrap();
    drop(writer);
    println!("the disk was full");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let script = r#"mount -t tmpfs -o size=4k none "$0" || exit 77; exec "$@""#;
    let done = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(scratch.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "on_a_full_disk", "--nocapture"])
        .env(FULL, scratch.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    if done.status.code() == Some(77) || String::from_utf8_lossy(&done.stderr).contains("unshare") {
        skipped("a_full_disk_leaves_nothing_behind: no tmpfs may be mounted in a namespace");
        return;
    }
    assert!(done.status.success() && said.contains("the disk was full"), "{done:?}");
}
