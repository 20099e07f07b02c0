//! The programs under test and those that help, as Cargo builds them beside the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The command `truechimer`.
#[must_use]
pub fn truechimer() -> PathBuf {
    beside("truechimer")
}

/// This crate's own helper.
#[must_use]
pub fn testbed() -> PathBuf {
    beside("truechimer-testbed")
}

/// The benchmarks of groups, which make the fail-overs.
#[must_use]
pub fn group_bench() -> PathBuf {
    beside("truechimer-group-bench")
}

/// The comparison with other daemons.
#[must_use]
pub fn compare() -> PathBuf {
    beside("truechimer-compare")
}

/// The library to preload for a warped system clock.
#[must_use]
pub fn warp() -> PathBuf {
    beside("libtruechimer_warp.so")
}

/// The library to preload for the rules of a clock simulator.
#[must_use]
pub fn strict() -> PathBuf {
    beside("libtruechimer_strict.so")
}

/// A program of the system, wherever daemons live: an ordinary user's path may not lead there.
#[must_use]
pub fn system(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = places.map(|place| place.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| name.into())
}

fn beside(name: &str) -> PathBuf {
    let path = target().join(name);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace`", path.display());
    path
}

/// The folder of this profile's programs, brought up to date once; or `TRUECHIMER_PROGRAMS`.
fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        if let Some(folder) = std::env::var_os("TRUECHIMER_PROGRAMS") {
            return folder.into();
        }
        let own = std::env::current_exe().expect("a test knows its own path");
        let folder = own.parent().expect("in a folder");
        let folder =
            if folder.ends_with("deps") { folder.parent().expect("above deps") } else { folder };
        // Cargo builds no binaries of other packages for a test. Where Cargo runs the test, let it.
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--workspace", "--target-dir"]);
            build.arg(folder.parent().expect("the target folder"));
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
            let status = build.status().expect("cargo runs");
            assert!(status.success(), "the workspace does not build");
        }
        folder.to_owned()
    })
}
