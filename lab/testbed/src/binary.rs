//! The programs under test and those that help, as Cargo builds them beside the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::lacking::Lacking;

/// The command `truechimer`.
#[must_use]
pub fn truechimer() -> PathBuf {
    beside("truechimer")
}

/// The laboratory, `truechimer-lab`.
#[must_use]
pub fn lab() -> PathBuf {
    beside("truechimer-lab")
}

/// This crate's own helper.
#[must_use]
pub fn testbed() -> PathBuf {
    beside("truechimer-testbed")
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

/// A program or library of ours that a benchmark needs: in the folder of its own program, or in
/// `TRUECHIMER_PROGRAMS`. Nothing is built for it.
///
/// # Errors
/// Where it is not there, with the command that builds it.
pub fn find(name: &str) -> Result<PathBuf, Lacking> {
    let folder = match std::env::var_os("TRUECHIMER_PROGRAMS") {
        Some(folder) => PathBuf::from(folder),
        None => own_folder()?,
    };
    there(folder.join(name), name)
}

/// Finds it where the user may have named it.
///
/// # Errors
/// Where it is not there.
pub fn named_or_found(named: Option<&Path>, name: &str) -> Result<PathBuf, Lacking> {
    match named {
        None => find(name),
        Some(path) if path.is_file() => {
            std::path::absolute(path).map_err(|why| Lacking(format!("{}: {why}", path.display())))
        }
        Some(path) => Err(Lacking(format!("{}: no such file", path.display()))),
    }
}

fn there(path: PathBuf, name: &str) -> Result<PathBuf, Lacking> {
    if path.is_file() {
        return Ok(path);
    }
    let package = match name {
        "truechimer" => "truechimer-cli".to_owned(),
        library => match library.strip_prefix("libtruechimer_").and_then(|l| l.strip_suffix(".so"))
        {
            Some("group") => "truechimer-group-preload".to_owned(),
            Some(name) => format!("truechimer-{name}"),
            None => library.to_owned(),
        },
    };
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    Err(Lacking(format!(
        "{} is missing: build it with 'cargo build{release} -p {package}'",
        path.display()
    )))
}

fn own_folder() -> Result<PathBuf, Lacking> {
    let own = std::env::current_exe()
        .map_err(|why| Lacking(format!("the folder of this program: {why}")))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    Ok(above.unwrap_or(folder).to_owned())
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
        let folder = own_folder().expect("a test knows its own path");
        // Cargo builds no binaries of other packages for a test. Where Cargo runs the test, let it.
        if std::env::var_os("CARGO").is_some() {
            let mut build =
                Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/again"));
            build.args(["build", "--quiet", "--workspace", "--target-dir"]);
            build.arg(folder.parent().expect("the target folder"));
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
            let status = build.status().expect("cargo runs");
            assert!(status.success(), "the workspace does not build");
        }
        folder
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_is_named_with_its_command() {
        let lacking = |name: &str| there(PathBuf::from("/nonexistent").join(name), name);
        for (name, package) in [
            ("truechimer", "-p truechimer-cli'"),
            ("truechimer-testbed", "-p truechimer-testbed'"),
            ("libtruechimer_warp.so", "-p truechimer-warp'"),
            ("libtruechimer_group.so", "-p truechimer-group-preload'"),
        ] {
            let Lacking(why) = lacking(name).unwrap_err();
            assert!(why.starts_with(&format!("/nonexistent/{name} is missing")), "{why}");
            assert!(why.ends_with(package) && !why.contains('\n'), "{why}");
        }
        let named = Path::new("/nonexistent/other");
        assert!(named_or_found(Some(named), "truechimer").is_err());
    }
}
