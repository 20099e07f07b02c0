//! A browser without a screen, for pages that have to work in one.
#![allow(dead_code)] // Not every test takes all of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a browser may take, on a busy machine.
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

/// Page of a report in six windows, 360, 900 and 1600 pixels wide, light and dark: a telephone's width, half a screen, a screen.
/// Tells what is wrong in any of them: a failed script, a chart that is neither drawn nor one of so many that say they are
/// empty, what is wider than the window, a text that is cut.
const WINDOWS: &str = r"<!doctype html><body><script>
var frames = [];
[360, 900, 1600].forEach(function (width) { ['light', 'dark'].forEach(function (theme) {
  var frame = document.createElement('iframe');
  frame.width = width; frame.height = 1400; frame.src = 'PAGE#' + theme; frame.title = theme;
  document.body.appendChild(frame); frames.push(frame);
}); });
function cut(page, view) {
  return Array.from(page.querySelectorAll('body *')).filter(function (e) {
    var style = view.getComputedStyle(e), hides = /hidden|clip/.test(style.overflowX) && style.visibility !== 'hidden';
    return hides && e.textContent.trim() && e.scrollWidth > e.clientWidth + 1;
  }).map(function (e) { return e.className + ' cuts ' + e.textContent.trim().slice(0, 40); });
}
function wrong(frame) {
  var page = frame.contentDocument, root = page.documentElement, told = root.dataset, found = cut(page, frame.contentWindow);
  function is(name, got, wanted) { if (String(got) !== String(wanted)) found.push(name + ' ' + got + ', not ' + wanted); }
  var charts = page.querySelectorAll('figure.chart').length;
  is('theme', told.theme, frame.title);
  is('error', told.error || 'none', 'none');
  is('errors', told.errors, 0);
  is('charts', told.charts, charts);
  is('empty', page.querySelectorAll('.empty').length, EMPTY);
  is('drawn', page.querySelectorAll('canvas').length, charts - EMPTY);
  is('wider', root.scrollWidth - root.clientWidth, 0);
  return found.map(function (what) { return frame.width + ' ' + frame.title + ': ' + what; });
}
window.addEventListener('load', function () { setTimeout(function () {
  var all = [].concat.apply([], frames.map(wrong)).join('; ');
  document.documentElement.setAttribute('data-looked', frames.length);
  document.documentElement.setAttribute('data-wrong', all.replace(/[\x22<>]/g, ' '));
}, 2000); });
</script></body>";

/// Faults of the page of this name in any window, in words, where so many of its charts have nothing to show. None: an empty text.
pub fn faults(browser: &Path, folder: &Folder, page: &str, empty: usize) -> String {
    let windows = WINDOWS.replace("PAGE", page).replace("EMPTY", &empty.to_string());
    std::fs::write(folder.0.join("windows.html"), windows).expect("a file in the folder");
    let reads_frames = ["--dump-dom", "--allow-file-access-from-files"];
    let document = open(browser, folder, "windows.html", 1700, &reads_frames);
    assert_eq!(attribute(&document, "data-looked"), Some("6"), "{page}: {document}");
    attribute(&document, "data-wrong").expect("the verdict").to_owned()
}

/// Opens that page so, and says what is wrong with it.
#[track_caller]
pub fn looks_right(browser: &Path, folder: &Folder, page: &str, empty: usize) {
    assert_eq!(faults(browser, folder, page, empty), "", "{page}");
}

/// Looks for what somebody who was not there has to be told: these facts, the command, and three figures at least.
#[track_caller]
pub fn headed(page: &str, facts: &[&str]) {
    for fact in facts.iter().chain(&["made by"]) {
        assert!(page.contains(&format!("<dt>{fact}</dt>")), "no {fact}");
    }
    let tiles =
        page.split("<dl class=highlights>").nth(1).and_then(|rest| rest.split("</dl>").next());
    let title = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next());
    assert!(tiles.is_some_and(|tiles| tiles.matches("<dt>").count() >= 3), "{title:?}: {tiles:?}");
}
