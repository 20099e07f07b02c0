//! The umask belongs to the whole process. (A program of its own: other tests need it to be 0.)

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use truechimer_files::Entry;

/// (It was 0 for a moment whatever the socket's mode: directories that other threads made meanwhile
/// were everybody's to write.)
#[test]
fn is_left_alone_where_a_sockets_mode_needs_no_other() {
    let base = std::env::temp_dir().join(format!("truechimer-umask-{}", std::process::id()));
    fs::create_dir(&base).unwrap();
    let usual = fs::metadata(&base).unwrap().mode();
    assert_eq!(usual & 0o022, 0, "this test needs an ordinary umask");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                drop(Entry::itself(&base.join("socket")).unwrap().listen(0o600).unwrap());
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let path = base.join("directory");
            fs::create_dir(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode(), usual);
            fs::remove_dir(&path).unwrap();
        }
    });
    fs::remove_dir_all(&base).unwrap();
}
