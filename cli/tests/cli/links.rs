//! Files that are named on the command line, in a directory where somebody else has put links.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::support::{Dir, lab, truechimer};

/// Whatever a command writes, it does not write it where somebody else's link leads.
#[test]
fn no_command_writes_through_somebody_elses_link() {
    let dir = Dir::new();
    let (open, victim) = (dir.join("open"), dir.join("victim"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    fs::write(&victim, "precious").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    for name in ["file", "truechimer-now.1"] {
        symlink(&victim, format!("{open}/{name}")).unwrap();
    }
    fs::create_dir(dir.join("elsewhere")).unwrap();
    symlink(dir.join("elsewhere"), format!("{open}/way")).unwrap();
    let shown = |name: &str| format!("{open}/{name}");
    let (file, folder, way) = (shown("file"), shown(""), shown("way"));
    for kind in ["--report", "--csv", "--stamps"] {
        let answer = lab(&["simulate", "early", kind, &file]);
        assert!(answer.code == 2 && answer.err.contains("is a symbolic link in a"), "{answer:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{kind}");
    }
    let log = dir.join("phases");
    fs::write(dir.join("phases"), "1e-9\n2e-9\n1e-9\n3e-9\n2e-9\n1e-9\n").unwrap();
    for arguments in [
        &["counters", "bench", "--report", &file][..],
        &["counters", "stability", "--report", &file],
        &["qos", &log, "--html", &file],
        &["man", &folder],
        &["man", &way],
        &["extcap", "--install", &way],
        &["run", "--server", "127.0.0.1:1", "--page", &shown("way/page"), "--control", "none"],
        &["group", "agent", "--group", "demo", "--local", "1", "--state", &way],
        &["group", "agent", "--group", "demo", "--local", "1", "--directory", &way],
    ] {
        let answer = truechimer(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}: {answer:?}");
        assert!(answer.err.contains("is a symbolic link in a"), "{arguments:?}: {answer:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{arguments:?}");
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o600, "{arguments:?}");
    }
    // It is not because of the directory: beside the links, a file can be made.
    let answer = lab(&["simulate", "early", "--csv", &shown("mine")]);
    assert_eq!(answer.code, 0, "{answer:?}");
    // One in place of the page is none wherever it is.
    truechimer(&["run", "--server", "127.0.0.1:1", "--page", &file]).assert_error(&[&file]);
    assert_eq!(fs::read_dir(dir.join("elsewhere")).unwrap().count(), 0);
}
