//! Pods of contrib/kubernetes, made of mount namespaces: the page comes by its directory, which is
//! mounted before there is a page.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use truechimer::{Clock, Status};
use truechimer_testbed::daemon::{SOON, Server};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::watch::Watch;
use truechimer_testbed::{binary, temp};

/// Directory of the page, in every pod.
const PAGES: &str = "/run/truechimer";

/// The daemon's control socket, as the manifest has it.
fn control() -> PathBuf {
    let manifest = include_str!("../../../../contrib/kubernetes/truechimer.yaml");
    let (_, after) =
        manifest.split_once("args: [\"run\", \"--control\", \"").expect("the manifest names it");
    PathBuf::from(after.split_once('"').expect("a quotation's end").0)
}

/// Files as a pod sees them, kept by a process that ends with the test.
pub(crate) struct Pod {
    holder: Child,
    in_user_namespace: bool,
}

impl Pod {
    /// Mounts the node's directory, with these options, over an empty /run.
    fn with(node: &Path, options: &str) -> Result<Pod, Lacking> {
        // On the way to the mount point nothing may be hidden that it comes from.
        let script = format!(
            "exec 3<\"$1\" && mount -t tmpfs tmpfs /run && mkdir {PAGES} {} &&
             mount --bind /proc/self/fd/3 {PAGES} && mount -o \"remount,bind,nosuid,nodev,$2\" {PAGES} &&
             exec 3<&- && echo ready && exec cat",
            control().parent().expect("a directory").display(),
        );
        Pod::by(&script, node, options)
    }

    /// Puts this file where the device of a vmclock is, beside those that programs cannot do without; `place` is an
    /// empty directory.
    pub(crate) fn with_vmclock(device: &Path, place: &Path) -> Result<Pod, Lacking> {
        let script = "exec 3<\"$1\" && mount --bind /dev \"$2\" && mount -t tmpfs tmpfs /dev &&
             for name in null zero random urandom; do
                 : >/dev/$name && mount --bind \"$2/$name\" /dev/$name || exit
             done && : >/dev/vmclock0 && mount --bind /proc/self/fd/3 /dev/vmclock0 &&
             exec 3<&- && echo ready && exec cat";
        Pod::by(script, device, place)
    }

    fn by(script: &str, one: &Path, other: impl AsRef<OsStr>) -> Result<Pod, Lacking> {
        let in_user_namespace = !process::is_root();
        let mut command = process::command("unshare");
        command.args(if in_user_namespace { ["-r", "-m"].as_slice() } else { &["-m"] });
        command.args(["--", "sh", "-c", script, "sh"]).arg(one).arg(other);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|why| Lacking(format!("unshare: {why}")))?;
        let mut line = String::new();
        let _ = BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line);
        if line == "ready\n" {
            return Ok(Pod { holder, in_user_namespace });
        }
        let mut why = String::new();
        let _ = holder.stderr.take().unwrap().read_to_string(&mut why);
        let _ = holder.wait();
        Err(Lacking(format!("a mount namespace: {}", why.trim())))
    }

    /// A command in it, by root without any capability, as the manifests have it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-m"]);
        if self.in_user_namespace {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.args(["--", "setpriv", "--pdeathsig", "KILL", "--inh-caps", "-all"]);
        command.args(["--bounding-set", "-all", "--"]).arg(program);
        command
    }

    pub(crate) fn truechimer(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(binary::truechimer());
        command.args(arguments);
        command
    }

    /// The page, as this pod sees it.
    fn page(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{PAGES}/clock", self.holder.id()))
    }

    /// Waits until its clock is synchronised, as a readiness probe does.
    fn waits(&self) {
        let output = self.truechimer(&["waitsync", "--timeout", "60s"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn where_nothing_can_be_made_below_run_the_mend_is_named() {
    let script = "mount -t tmpfs -o ro tmpfs /run && echo ready && exec cat";
    let Some(pod) = or_skip(Pod::by(script, Path::new("/"), "")) else { return };
    let mut command = pod.truechimer(&["run", "--server", "127.0.0.1:9"]);
    for name in ["XDG_RUNTIME_DIR", "TRUECHIMER_PAGE", "TRUECHIMER_CONFIG"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["/run/truechimer/clock", "Read-only file system", "name another page with --page"]
    {
        assert!(said.contains(part), "{said}");
    }
}

/// A clock in a pod, with a new word since this generation.
fn again(watch: &mut Watch, before: u64) {
    let end = Instant::now() + SOON;
    while watch.clock().view().expect("a hand").generation == before {
        assert!(Instant::now() < end, "no word from the successor");
        watch.run(Duration::from_millis(100));
    }
    watch.run_until_status(Status::Synchronised, SOON);
}

#[test]
fn a_page_by_its_directory_is_seen_once_it_is_there_and_after_a_restart() {
    let (dir, node) = (temp::Dir::new(), temp::Dir::new());
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "-2.5s"]);
    let config = dir.join("truechimer.toml");
    let socket = control();
    let text = format!("state = \"none\"\n[[source]]\nhost = \"{}\"\npoll = 1\n", server.address);
    fs::write(&config, text).unwrap();

    // The reader is first.
    let Some(reader) = or_skip(Pod::with(node.path(), "ro")) else { return };
    let mut wait = Process::start(
        reader.truechimer(&["waitsync", "--timeout", "60s"]),
        &dir.join("waitsync.log"),
    );
    assert!(wait.wait(Duration::from_millis(500)).is_none(), "{}", wait.output());
    assert!(Clock::open_at(reader.page()).is_err(), "there is no page yet");

    let clock = or_skip(Pod::with(node.path(), "rw")).expect("as the other one");
    let start = || {
        let mut command = clock.truechimer(&["run", "--control"]);
        command.arg(&socket).arg("--config").arg(&config);
        Process::start(command, &dir.join("clock.log"))
    };
    let mut daemon = start();
    let ended = wait.wait(SOON).expect("the page is seen");
    assert_eq!(ended.code(), Some(0), "{}{}", wait.output(), daemon.output());
    // It can do nothing to it.
    for name in ["clock", "other"] {
        let status = reader.command("sh").args(["-c", &format!(": >{PAGES}/{name}")]).output();
        assert!(!status.unwrap().status.success(), "{name} is written by a reader");
    }
    // Nor tell the daemon whom to believe, root as it is: there is no socket for it. The daemon's
    // own pod has one, which the liveness probe asks.
    let control = socket.to_str().unwrap();
    for command in [["sources"].as_slice(), &["sources", "add", "127.0.0.1:9"]] {
        let asked = |pod: &Pod, more: &[&str]| {
            pod.truechimer(&[command, more].concat()).output().unwrap().status.success()
        };
        assert!(!asked(&reader, &[]), "{command:?} of a pod that has the page");
        assert!(!asked(&reader, &["--control", control]), "{command:?} by its own /run");
        assert!(asked(&clock, &["--control", control]), "{command:?} of the daemon's own pod");
    }

    // One that has it open keeps the page.
    let page = node.join("clock");
    let inode = fs::metadata(&page).unwrap().ino();
    let open = Clock::open_at(reader.page()).unwrap();
    let mut watch = Watch::new(open, server.truth, Instant::now());
    watch.run_until_status(Status::Synchronised, SOON);
    for signal in [Signal::Kill, Signal::Term] {
        let before = watch.clock().view().expect("a hand").generation;
        daemon.signal(signal);
        daemon.wait(SOON).expect("it ends");
        daemon = start();
        again(&mut watch, before);
        reader.waits();
        assert_eq!(fs::metadata(&page).unwrap().ino(), inode);
    }

    // And one that opens it anew sees the next page of that name.
    daemon.signal(Signal::Term);
    daemon.wait(SOON).expect("it ends");
    for file in fs::read_dir(node.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert!(Clock::open_at(reader.page()).is_err(), "the page has gone");
    let _daemon = start();
    reader.waits();
    let open = Clock::open_at(reader.page()).unwrap();
    Watch::new(open, server.truth, Instant::now()).run_until_status(Status::Synchronised, SOON);
}
