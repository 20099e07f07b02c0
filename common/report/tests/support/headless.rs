//! A browser without a screen, for pages that have to work in one.
#![allow(dead_code)] // Not every test takes all of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a browser may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("truechimer-report-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A browser, or `None` once it has been said that there is none. Where nothing may be skipped
/// (`CI=true`) that is a failure.
pub fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    });
    if found.is_none() {
        let lack = "no chromium, chromium-browser or google-chrome (package chromium)";
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} cannot run: {lack}");
        // Past the test harness, which would keep it to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED report in a browser: {test}: {lack}");
    }
    found
}

/// Runs the browser on a page until its script has run; what it prints.
pub fn open(browser: &Path, folder: &Folder, page: &str, width: u32, arguments: &[&str]) -> String {
    let profile = folder.0.join("profile");
    let _ = std::fs::remove_dir_all(&profile);
    let printed = folder.0.join("printed");
    let mut running = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},1400"))
        .args(arguments)
        .arg(format!("file://{}/{page}", folder.0.display()))
        .stdout(std::fs::File::create(&printed).expect("a file in the folder"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.try_wait().expect("a child process") {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = running.kill();
            panic!("{} did not end within {PATIENCE:?}", browser.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{}: {status}", browser.display());
    String::from_utf8_lossy(&std::fs::read(&printed).expect("what it printed")).into_owned()
}

/// An attribute of the document's first tag.
pub fn attribute<'d>(document: &'d str, name: &str) -> Option<&'d str> {
    let tag = document.split_once("<html")?.1.split_once('>')?.0;
    let value = tag.split_once(&format!("{name}=\""))?.1;
    value.split_once('"').map(|(value, _)| value)
}
