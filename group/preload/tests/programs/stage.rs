//! Programs under the library, and what they say.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::agent::{AHEAD, Agent, Agreement};

/// Longer than anything here takes on the slowest machine; only what hangs meets it.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Members of one group, each with a folder of its own for the test's files.
pub struct Stage {
    pub folder: PathBuf,
    pub agreement: Arc<Mutex<Agreement>>,
    pub agents: Vec<Agent>,
}

impl Stage {
    pub fn new(members: u32) -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tc-preload-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        let agreement = Arc::default();
        let start = |member| Agent::start(folder.clone(), member, Arc::clone(&agreement));
        let agents = (1..=members).map(start).collect();
        Stage { folder, agreement, agents }
    }

    pub fn agent(&self) -> &Agent {
        self.agents.first().expect("one")
    }

    /// A program at the first member.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.command_at(0, program)
    }

    pub fn command_at(&self, member: usize, program: impl AsRef<Path>) -> Command {
        let mut command = self.plain(program);
        let agent = self.agents.get(member).expect("there are so many");
        command.env("TRUECHIMER_GROUP_SOCKET", &agent.socket);
        command
    }

    /// A program of no member yet.
    pub fn plain(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("LD_PRELOAD", library()).env("TRUECHIMER_GROUP", "test");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A program in C, compiled; none where there is no compiler.
    pub fn compiled(&self, source: &str, options: &[&str]) -> Option<PathBuf> {
        let program = self.folder.join("program");
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-O1", "-pthread", "-o"])
            .arg(&program)
            .arg("-")
            .args(options)
            .stdin(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = compiler.stdin.take().expect("asked for");
        input.write_all(source.as_bytes()).expect("the compiler reads");
        drop(input);
        assert!(compiler.wait().expect("the compiler ends").success(), "it compiles");
        Some(program)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.agents.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The library, brought up to date once: Cargo builds none for a test. Or that of the folder
/// `TRUECHIMER_PROGRAMS`.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let name = "libtruechimer_group.so";
        if let Some(folder) = std::env::var_os("TRUECHIMER_PROGRAMS") {
            return Path::new(&folder).join(name);
        }
        let own = std::env::current_exe().expect("a test knows its own path");
        let folder = own.ancestors().nth(2).expect("two folders above");
        if std::env::var_os("CARGO").is_some() {
            let mut build =
                Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/again"));
            build.args(["build", "--quiet", "--target-dir"]).arg(folder.parent().expect("above"));
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
            assert!(status.expect("cargo runs").success(), "the library does not build");
        }
        folder.join(name)
    })
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Output {
    wait(command.spawn().expect("it starts"))
}

/// Waits for its end.
pub fn wait(mut child: Child) -> Output {
    // Little is said here, so no pipe fills up.
    let begin = Instant::now();
    while child.try_wait().expect("our child").is_none() {
        if begin.elapsed() > FOR_EVER {
            let _ = child.kill();
            let output = child.wait_with_output().expect("our child");
            panic!("it hangs: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("our child")
}

/// Text that it says on standard output, if it ended well.
pub fn said(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    text.trim().to_owned()
}

/// True if a time in s is the group's: an hour ahead, give or take what any machine may lose.
pub fn is_group(seconds: f64) -> bool {
    let host = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    (seconds - host - AHEAD as f64).abs() < 900.0
}

/// Waits until it is so.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < FOR_EVER, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
