//! Running the programs, with nothing left behind. The tests of `truechimer-lab` have it as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time that anything that should happen soon may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(300);

/// The program of this name: both lie in one directory.
fn program(name: &str) -> PathBuf {
    let own =
        option_env!("CARGO_BIN_EXE_truechimer").or(option_env!("CARGO_BIN_EXE_truechimer-lab"));
    let path = Path::new(own.expect("built for a program's tests")).with_file_name(name);
    assert!(path.exists(), "{} is missing: cargo build --bins", path.display());
    path
}

/// `truechimer` with these arguments, and nothing in its environment that it might look at.
pub fn command(arguments: &[&str]) -> Command {
    clean("truechimer", arguments)
}

/// `truechimer-lab` with these arguments, likewise.
pub fn lab_command(arguments: &[&str]) -> Command {
    clean("truechimer-lab", arguments)
}

fn clean(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program(name));
    command.args(arguments).stdin(Stdio::null());
    for name in
        ["TRUECHIMER_PAGE", "TRUECHIMER_CONFIG", "TRUECHIMER_GROUP_CONFIG", "XDG_RUNTIME_DIR"]
    {
        command.env_remove(name);
    }
    command
}

/// Outcome of a command.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Value of each line, every key of which `docs/reference/json.md` explains.
    #[track_caller]
    pub fn documented(&self) -> Vec<Value> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/json.md");
        let page = fs::read_to_string(path).unwrap();
        let lines = self.out.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.inspect(|value| assert_documented(value, &page)).collect()
    }

    /// That it failed with an error, in one line that says all of this.
    #[track_caller]
    pub fn assert_error(&self, says: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (2, ""), "{self:?}");
        let ours = ["truechimer: ", "truechimer-lab: "];
        assert!(ours.iter().any(|name| self.err.starts_with(name)), "{self:?}");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{self:?}");
        for part in says {
            assert!(self.err.contains(part), "{part:?} is missing in {self:?}");
        }
    }
}

/// Objects of numbers that the page does not name one by one.
const COUNTS: [&str; 5] = ["counts", "waiting", "programs", "front", "refused"];

#[track_caller]
fn assert_documented(value: &Value, page: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(
                    page.contains(&format!("`{key}`")),
                    "{key:?} is not in docs/reference/json.md"
                );
                if !COUNTS.contains(&key.as_str()) {
                    assert_documented(value, page);
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| assert_documented(value, page)),
        _ => {}
    }
}

/// Runs `truechimer` to its end.
pub fn truechimer(arguments: &[&str]) -> Answer {
    answer(command(arguments))
}

/// Runs `truechimer-lab` to its end.
pub fn lab(arguments: &[&str]) -> Answer {
    answer(lab_command(arguments))
}

fn answer(mut command: Command) -> Answer {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Answer {
        code: status.code().expect("ended by a signal"),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// A directory of one test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("truechimer-cli-test-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.join(name);
        fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One that goes on until told otherwise; killed at the end of the test.
pub struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    pub fn start(dir: &Dir, name: &str, arguments: &[&str]) -> Process {
        Process::start_in(dir, name, arguments, |_| ())
    }

    /// With these changes to its surroundings.
    pub fn start_in(
        dir: &Dir,
        name: &str,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Process {
        let output = PathBuf::from(dir.join(name));
        let file = fs::File::create(&output).unwrap();
        let mut command = command(arguments);
        change(command.stdout(file.try_clone().unwrap()).stderr(file));
        Process { child: command.spawn().unwrap(), output }
    }

    /// All that it has said so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// Waits until it has said this.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + SOON;
        while !self.output().contains(text) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "no {text:?} in {}", self.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends it a signal, by its process number.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits until it has mapped this file.
    #[track_caller]
    pub fn wait_mapped(&mut self, path: &str) {
        let end = Instant::now() + SOON;
        let maps = format!("/proc/{}/maps", self.child.id());
        while !fs::read_to_string(&maps).is_ok_and(|maps| maps.contains(path)) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{}", self.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "still there: {}", self.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- {}\n{}", self.output.display(), self.output());
        }
    }
}

/// A configuration that reads nothing outside of the test's directory and leaves nothing there.
pub fn config(dir: &Dir, sources: &[(&str, u32)]) -> String {
    let mut text = String::from("state = \"none\"\nleap-file = \"none\"\n");
    for (host, poll) in sources {
        text += &format!("[[source]]\nhost = \"{host}\"\npoll = {poll}\n");
    }
    dir.write("truechimer.toml", text)
}

/// A daemon that follows these servers.
pub fn daemon(dir: &Dir, sources: &[(&str, u32)]) -> Process {
    let (config, page) = (config(dir, sources), dir.join("clock"));
    let log = dir.join("replay");
    let arguments = ["run", "-v", "--config", &config, "--page", &page, "--replay-log", &log];
    let mut daemon = Process::start(dir, "run.log", &arguments);
    let end = Instant::now() + SOON;
    while !Path::new(&format!("{page}.control")).exists() {
        let ended = daemon.child.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < end, "{}", daemon.output());
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon
}
