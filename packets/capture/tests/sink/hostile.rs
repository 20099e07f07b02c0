//! Links in a directory that others can change, where a capture is to be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use truechimer_capture::sink::{CaptureFile, FileOptions, Sink};

use super::{facts, frame, options, packet, stamped, story};
use crate::made::Scratch;

/// A directory that everybody may write to, and beside it a file that nobody may touch.
fn trap(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (open, victim) = (scratch.file("open"), scratch.file("victim"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    fs::write(&victim, "precious").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o644)).unwrap();
    (open, victim)
}

#[track_caller]
fn intact(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    assert_eq!(fs::metadata(victim).unwrap().mode() & 0o777, 0o644);
}

#[track_caller]
fn refused(path: &Path, because: &str) {
    let why = CaptureFile::create(&facts(), options(path)).unwrap_err().to_string();
    assert!(why.contains(because) && why.contains(path.to_str().unwrap()), "{why}");
}

#[test]
fn a_capture_is_not_written_through_a_link() {
    let scratch = Scratch::new();
    let (open, victim) = trap(&scratch);
    let path = open.join("day.pcapng");
    symlink(&victim, &path).unwrap();
    refused(&path, "is a symbolic link in a directory that other users");
    symlink(scratch.file(""), open.join("way")).unwrap();
    refused(&open.join("way/new.pcapng"), "'way' is a symbolic link");
    assert!(!scratch.file("new.pcapng").exists());
    fs::remove_file(&path).unwrap();
    fs::hard_link(&victim, &path).unwrap();
    refused(&path, "has another name (a hard link)");
    // One that leads to nothing would make a file there.
    fs::remove_file(&path).unwrap();
    symlink(scratch.file("nothing"), &path).unwrap();
    refused(&path, "is a symbolic link");
    assert!(!scratch.file("nothing").exists());
    intact(&victim);
}

#[test]
fn a_row_of_files_ends_at_a_link_and_loses_nothing() {
    let scratch = Scratch::new();
    let (open, victim) = trap(&scratch);
    let way = open.join("way");
    fs::create_dir(&way).unwrap();
    let options =
        FileOptions { rotate_bytes: Some(1), keep: Some(1), ..options(&way.join("row.pcapng")) };
    let mut sink = CaptureFile::create(&facts(), options).unwrap();
    let first = fs::read_dir(&way).unwrap().next().unwrap().unwrap().path();
    // Where the directory was, others put a link to another one.
    fs::rename(&way, open.join("moved")).unwrap();
    symlink(scratch.file(""), &way).unwrap();
    sink.packet(&packet(&frame(150)), &stamped(1)).unwrap();
    let why = sink.packet(&packet(&frame(150)), &stamped(2)).unwrap_err().to_string();
    assert!(why.contains("'way' is a symbolic link in a directory that other users"), "{why}");
    // The packet that was taken is in the first file, which is whole.
    let written = sink.written();
    assert_eq!((written.packets, written.unwritten, written.files), (1, 0, 1));
    let story = story(&open.join("moved").join(first.file_name().unwrap()));
    assert_eq!(story.iter().filter(|what| *what == "packet").count(), 1);
    assert_eq!(story.iter().filter(|what| *what == "statistics").count(), 1);
    assert_eq!(scratch.names(), ["open", "victim"], "nothing is made elsewhere");
    intact(&victim);
}
