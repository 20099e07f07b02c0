//! Where the clock is looked for: this program, started again with another environment.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::Daemon;
use truechimer::{Clock, OpenError, places};

const ROLE: &str = "CLIENT_TEST_ROLE";

/// Opens the clock and says which page it found; as an ordinary test it does nothing.
#[test]
fn role() {
    if env::var_os(ROLE).is_none() {
        return;
    }
    match Clock::open() {
        Ok(clock) => println!("found {}", clock.page().path().display()),
        Err(OpenError::NoPage { searched }) => println!("searched {searched:?}"),
        Err(error) => println!("error {error}"),
    }
    println!("daemon {}", places::for_daemon().display());
}

/// Output with these variables and no others.
fn said(variables: &[(&str, &Path)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture"]).env(ROLE, "");
    command.env_remove(places::VARIABLE).env_remove("XDG_RUNTIME_DIR");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_that_is_tended_or_else_the_first_that_exists() {
    let mut named = Daemon::synchronised();
    let own = Daemon::synchronised();
    let runtime = own.directory.join("truechimer");
    fs::create_dir(&runtime).unwrap();
    fs::rename(own.path(), runtime.join("clock")).unwrap();
    let found = |path: &Path| format!("found {}\n", path.display());

    let page = named.path();
    let both: [(&str, &Path); 2] = [(places::VARIABLE, &page), ("XDG_RUNTIME_DIR", &own.directory)];
    // What is named is taken, tended or not, or nothing is.
    let text = said(&both);
    assert!(text.contains(&found(&page)), "{text}");
    assert!(text.contains(&format!("daemon {}\n", page.display())), "{text}");
    named.writer = None;
    assert!(said(&both).contains(&found(&page)));
    fs::remove_file(&page).unwrap();
    let text = said(&both);
    assert!(text.contains(&format!("searched [{page:?}]")), "{text}");

    // The user's own, which a daemon tends, comes before the machine's.
    let text = said(&both[1..]);
    assert!(text.contains(&found(&runtime.join("clock"))), "{text}");

    // Only absolute paths count.
    let text = said(&[("XDG_RUNTIME_DIR", "truechimer".as_ref())]);
    assert!(!text.contains("found truechimer"), "{text}");
    assert!(text.contains(&format!("daemon {}\n", places::SYSTEM)), "{text}");
}
