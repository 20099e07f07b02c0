//! Pages as files: what is in their place, and what others do to them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use truechimer_clockbound::{Layout, Lost, Page, Record, Status};
use truechimer_time::Period;

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("tc-cb-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(n: i64) -> Record {
    Record {
        count: n as u64,
        as_of: n,
        void_after: n,
        bound: n,
        drift: 1,
        period: Period::NANOSECOND,
        disruptions: n as u64,
        vmclock: None,
        status: Status::Synchronized,
    }
}

fn generation(page: &[u8]) -> u16 {
    u16::from_ne_bytes([page[14], page[15]])
}

#[test]
fn a_new_page_is_whole_and_says_unknown() {
    let dir = Dir::new("new");
    for layout in Layout::ALL {
        let page = Page::create(&dir.0, layout).unwrap();
        let bytes = fs::read(page.path()).unwrap();
        assert_eq!((bytes.len(), generation(&bytes)), (layout.size(), 2));
        assert!(!page.is_continued());
        let mode = fs::metadata(page.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "everybody may read it, and nobody else write");
        let status = match layout {
            Layout::One => 64,
            Layout::Two => 68,
            Layout::Three => 92,
        };
        assert_eq!(bytes[status..status + 4], [0; 4]);
    }
    // Nothing else is left there: locks go with their pages.
    let names: Vec<_> = fs::read_dir(&dir.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn the_generation_is_never_0_and_readers_stay_with_a_page_that_is_taken_over() {
    let dir = Dir::new("generation");
    let mut page = Page::create(&dir.0, Layout::Two).unwrap();
    let reader = fs::File::open(page.path()).unwrap();
    let now = || {
        let mut bytes = [0; 80];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        (generation(&bytes), i64::from_ne_bytes(bytes[48..56].try_into().unwrap()))
    };
    for n in 0..33_000 {
        page.publish(&record(n)).unwrap();
        let (generation, bound) = now();
        assert!(generation != 0 && generation % 2 == 0 && bound == n, "{generation}: {bound}");
    }
    let (before, _) = now();
    drop(page);
    let mut page = Page::create(&dir.0, Layout::Two).unwrap();
    assert!(page.is_continued());
    assert_eq!(now(), (before, 32_999), "a restart changes nothing by itself");
    page.publish(&record(7)).unwrap();
    assert_eq!(now(), (before + 2, 7));
}

#[test]
fn whoever_was_killed_half_way_leaves_nothing_that_stays() {
    let dir = Dir::new("half");
    let path = Page::create(&dir.0, Layout::One).unwrap().path().to_owned();
    let odd = Layout::One.header(77);
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&odd, 0).unwrap();
    let mut page = Page::create(&dir.0, Layout::One).unwrap();
    page.publish(&record(1)).unwrap();
    assert_eq!(generation(&fs::read(&path).unwrap()), 78);
}

#[test]
fn what_is_in_the_way_stays_and_is_named() {
    for (name, what) in [
        ("socket", "is a socket"),
        ("folder", "is a directory"),
        ("link", "is a symbolic link"),
        ("text", "is another file"),
        ("empty", "is another file"),
        ("other", "is another file"),
    ] {
        let dir = Dir::new(name);
        let path = dir.0.join("shm1");
        match name {
            "socket" => drop(UnixListener::bind(&path).unwrap()),
            "folder" => fs::create_dir(&path).unwrap(),
            "link" => symlink("/dev/null", &path).unwrap(),
            "text" => fs::write(&path, "a letter to somebody else, and not a short one").unwrap(),
            "empty" => fs::write(&path, "").unwrap(),
            // A page of another layout.
            _ => fs::write(&path, [&Layout::Two.header(2)[..], &[0; 88]].concat()).unwrap(),
        }
        let before = fs::symlink_metadata(&path).unwrap();
        let told = Page::create(&dir.0, Layout::Three).unwrap_err().to_string();
        assert!(told.contains(what) && told.contains("remove it"), "{told}");
        // A mere look finds the same.
        assert_eq!(Page::examine(&dir.0, Layout::Three).unwrap_err().to_string(), told);
        assert!(Page::examine(&dir.0, Layout::One).is_ok());
        let after = fs::symlink_metadata(&path).unwrap();
        assert_eq!((before.len(), before.file_type()), (after.len(), after.file_type()));
    }
}

#[test]
fn somebody_elses_page_and_a_missing_directory_are_named() {
    let dir = Dir::new("owner");
    let told = Page::create(&dir.0.join("not/there"), Layout::One).unwrap_err().to_string();
    assert!(told.contains("no directory") && told.contains("RuntimeDirectory="), "{told}");
    // Its last directory is made.
    Page::create(&dir.0.join("new"), Layout::One).unwrap();
    let path = Page::create(&dir.0, Layout::One).unwrap().path().to_owned();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
        let told = Page::create(&dir.0, Layout::One).unwrap_err().to_string();
        assert!(told.contains("belongs to user 4711"), "{told}");
    }
}

#[test]
fn two_do_not_write_one_page() {
    let dir = Dir::new("two");
    let page = Page::create(&dir.0, Layout::Three).unwrap();
    let told = Page::create(&dir.0, Layout::Three).unwrap_err().to_string();
    assert!(told.contains("another truechimer writes"), "{told}");
    assert!(Page::examine(&dir.0, Layout::Three).is_ok(), "nothing is in the way");
    drop(page);
    Page::create(&dir.0, Layout::Three).unwrap();
}

#[test]
fn whoever_writes_as_well_is_noticed_with_the_next_record() {
    let dir = Dir::new("stolen");
    let mut page = Page::create(&dir.0, Layout::Three).unwrap();
    page.publish(&record(1)).unwrap();
    let other = fs::OpenOptions::new().write(true).open(page.path()).unwrap();
    // A record by somebody else.
    other.write_all_at(&Layout::Three.header(6), 0).unwrap();
    assert!(matches!(page.publish(&record(2)), Err(Lost::Stolen)));
    // The file is emptied, to be made anew: no signal ends anybody.
    other.set_len(0).unwrap();
    assert!(matches!(page.publish(&record(2)), Err(Lost::Stolen)));
    fs::remove_file(page.path()).unwrap();
    other.write_all_at(&Layout::Three.header(4), 0).unwrap();
    assert!(matches!(page.publish(&record(2)), Err(Lost::Removed)));
    page.renew().unwrap();
    page.publish(&record(2)).unwrap();
    assert_eq!(generation(&fs::read(page.path()).unwrap()), 4);
}

#[test]
fn ten_thousand_readers_and_one_who_locks_the_page_hold_nobody_up() {
    let dir = Dir::new("many");
    let mut page = Page::create(&dir.0, Layout::Three).unwrap();
    let file = fs::File::open(page.path()).unwrap();
    let map = || memmap2::MmapOptions::new().len(104).map_raw_read_only(&file).unwrap();
    let readers: Vec<_> = (0..10_000).map(|_| map()).collect();
    file.lock_shared().unwrap();
    for n in 0..1_000 {
        page.publish(&record(n)).unwrap();
    }
    assert_eq!(readers.len(), 10_000);
    assert_eq!(generation(&fs::read(page.path()).unwrap()), 2_002);
}

#[test]
fn a_reader_never_sees_half_a_record() {
    let dir = Dir::new("seqlock");
    let mut page = Page::create(&dir.0, Layout::Two).unwrap();
    page.publish(&record(0)).unwrap();
    let stop = AtomicBool::new(false);
    let path = page.path().to_owned();
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let file = fs::File::open(path).unwrap();
            let mut read = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut bytes = [0; 80];
                let mut again = [0; 16];
                file.read_exact_at(&mut bytes[..16], 0).unwrap();
                file.read_exact_at(&mut bytes[16..], 16).unwrap();
                file.read_exact_at(&mut again, 0).unwrap();
                let first = generation(&bytes);
                if first % 2 == 1 || first != generation(&again) {
                    continue;
                }
                let word = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                assert_eq!([word(24), word(40), word(56)], [word(48); 3]);
                read += 1;
            }
            read
        });
        for n in 1..200_000 {
            page.publish(&record(n)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(read > 100, "hardly read: {read}");
}
