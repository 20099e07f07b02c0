//! Services of users of their own on one agent, and replicas under a cluster manager.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, command, is_root};
use truechimer_testbed::{binary, temp};

use crate::agents::until;

/// Users and groups that no machine's files have.
const AGENT: u32 = 64_201;
const SERVICES: [(&str, u32); 2] = [("ledger", 64_211), ("shop", 64_212)];

/// A command as another user, who is in these groups.
fn as_user(user: u32, groups: &[u32], program: &Path) -> Command {
    let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
    let mut command = command("setpriv");
    command.args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--inh-caps=-all"]);
    match groups.is_empty() {
        true => command.arg("--clear-groups"),
        false => command.args(["--groups", &groups.join(",")]),
    };
    command.arg("--").arg(program).current_dir("/");
    command
}

fn root() -> Option<()> {
    or_skip(is_root().then_some(()).ok_or(Lacking("root, to be other users".to_owned())))
}

/// Agent of local members with this configuration.
fn agent(mut command: Command, dir: &Path, configuration: &str) -> Process {
    let file = dir.join("truechimer-group.toml");
    fs::write(&file, configuration).unwrap();
    command.args(["group", "agent", "--system-clock", "50ms", "--state", "none", "--config"]);
    command.arg(&file).arg("--directory").arg(dir.join("agents"));
    Process::start(command, &dir.join("agent.log"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn one_agent_serves_services_of_two_users() {
    let Some(()) = root() else { return };
    let dir = temp::Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let groups: Vec<u32> = SERVICES.iter().map(|(_, user)| *user).collect();
    let groups_of = |(name, user): &(&str, u32)| {
        format!("[[group]]\nname = \"{name}\"\nlocal = 1\nlink = {{ group = {user} }}\n")
    };
    let configuration: String = SERVICES.iter().map(groups_of).collect();
    let _agent = agent(as_user(AGENT, &groups, &binary::truechimer()), dir.path(), &configuration);
    let directory = dir.path().join("agents");
    until("both sockets", || {
        SERVICES.iter().all(|(name, _)| directory.join(name).join("1.sock").exists())
    });
    for (own, user) in SERVICES {
        for (name, _) in SERVICES {
            let mut now = as_user(user, &[], &binary::truechimer());
            now.args(["group", "now", "--group", name, "--wait", "20s", "--directory"]);
            let now = now.arg(&directory).output().unwrap();
            assert_eq!(now.status.success(), own == name, "{user} of {name}: {}", said(&now));
            let denied = said(&now).contains("this user may not use the agent's socket");
            assert_eq!(denied, own != name, "{user} of {name}: {}", said(&now));
        }
        // An unmodified program, and a word that is root's and the agent's user's alone.
        let mut exec = as_user(user, &[], &binary::truechimer());
        exec.args(["group", "exec", "--group", own, "--directory"]).arg(&directory);
        let exec = exec.args(["--", "date", "+%s"]).output().unwrap();
        assert!(exec.status.success(), "{}", said(&exec));
        let mut drain = as_user(user, &[], &binary::truechimer());
        drain.args(["group", "drain", own, "--directory"]).arg(&directory);
        let drain = drain.output().unwrap();
        assert_eq!(drain.status.code(), Some(2), "{}", said(&drain));
        // A front's page is its user's, beside the socket, which that user cannot take away.
        let page = directory.join(own).join("1.front");
        let touch = as_user(user, &[], Path::new("touch")).arg(&page).status().unwrap();
        let socket = directory.join(own).join("1.sock");
        let mut remove = as_user(user, &[], Path::new("rm"));
        let remove = remove.arg("-f").arg(&socket).output().unwrap();
        assert!(touch.success() && !remove.status.success() && socket.exists());
    }
}

/// Folder with `ocf-tester` and what resource agents are written with.
fn ocf() -> Result<PathBuf, Lacking> {
    let folder = std::env::var_os("TRUECHIMER_OCF").map(PathBuf::from);
    folder
        .filter(|folder| folder.join("ocf-tester").is_file())
        .ok_or_else(|| Lacking("ocf-tester (need_ocf_tester of scripts/needs.sh)".to_owned()))
}

fn preload() -> Vec<String> {
    let library = binary::find("libtruechimer_group.so").unwrap();
    vec!["--library".to_owned(), library.display().to_string()]
}

/// The resource agent, with its parameters.
struct Resource<'a> {
    ocf: &'a Path,
    dir: &'a Path,
    parameters: Vec<(&'static str, String)>,
}

impl Resource<'_> {
    fn new<'a>(ocf: &'a Path, dir: &'a Path) -> Resource<'a> {
        let parameters = vec![
            ("group", "demo".to_owned()),
            ("member", "1".to_owned()),
            ("directory", dir.join("agents").display().to_string()),
            ("binary", binary::truechimer().display().to_string()),
            ("program", "sleep 1000".to_owned()),
            ("options", preload().join(" ")),
        ];
        Resource { ocf, dir, parameters }
    }

    fn agent() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/pacemaker/group"))
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("OCF_ROOT", self.ocf.join("usr/lib/ocf")).env("HA_RSCTMP", self.dir);
        command.env("HA_LOGFACILITY", "none").env("OCF_RESOURCE_INSTANCE", "replica");
        command.envs(self.parameters.iter().map(|(k, v)| (format!("OCF_RESKEY_{k}"), v)));
        command
    }

    /// The program's process, as the resource agent knows it.
    fn pid(&self) -> u32 {
        let text = fs::read_to_string(self.dir.join("truechimer-group-replica.pid")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    fn set(&mut self, key: &'static str, value: &str) {
        self.parameters.retain(|(other, _)| *other != key);
        self.parameters.push((key, value.to_owned()));
    }

    /// Exit status of an action.
    fn does(&self, action: &str) -> i32 {
        self.command(Resource::agent()).arg(action).output().unwrap().status.code().unwrap()
    }
}

/// Another member's program, so that there is one to be the primary.
fn another(dir: &Path) -> Process {
    let mut exec = command(binary::truechimer());
    exec.args(["group", "exec", "--group", "demo", "--member", "2"]).args(preload());
    exec.arg("--directory").arg(dir.join("agents")).args(["--", "sleep", "1000"]);
    Process::start(exec, &dir.join("two.log"))
}

fn local(mode: &str) -> String {
    format!("[[group]]\nname = \"demo\"\nlocal = 3\nmode = \"{mode}\"\n")
}

/// The report of a member.
fn report(dir: &Path, member: &str) -> Option<serde_json::Value> {
    let mut status = command(binary::truechimer());
    status.args(["group", "status", "--json", "--group", "demo", "--member", member]);
    let output = status.arg("--directory").arg(dir.join("agents")).output().unwrap();
    serde_json::from_slice(&output.stdout).ok()
}

fn is_live(dir: &Path) -> bool {
    report(dir, "1").is_some_and(|report| report["phase"] == "live")
}

#[test]
fn the_resource_agent_is_as_pacemaker_wants_it() {
    let (Some(()), Some(ocf)) = (root(), or_skip(ocf())) else { return };
    for mode in ["active", "semi-active", "passive"] {
        let dir = temp::Dir::new();
        let _agent = agent(command(binary::truechimer()), dir.path(), &local(mode));
        until("the group is there", || is_live(dir.path()));
        let _two = another(dir.path());
        let resource = Resource::new(&ocf, dir.path());
        let mut tester = resource.command(ocf.join("ocf-tester"));
        tester.args(["-n", "replica"]);
        for (key, value) in &resource.parameters {
            tester.arg("-o").arg(format!("{key}={value}"));
        }
        let output = tester.arg(Resource::agent()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{mode}: {text}{}", said(&output));
        let promotable = !text.contains("does not support the promote action");
        assert_eq!(promotable, mode != "active", "{text}");
    }
}

/// Statuses as Pacemaker has them: 0 it runs, 6 a parameter is wrong, 7 it does not run, 8 it is
/// promoted, 9 it is not what it was promoted to, 1 it is to be started anew.
#[test]
fn the_resource_agent_says_how_things_are() {
    let (Some(()), Some(ocf)) = (root(), or_skip(ocf())) else { return };
    let dir = temp::Dir::new();
    let mut agent = Some(agent(command(binary::truechimer()), dir.path(), &local("semi-active")));
    until("the group is there", || is_live(dir.path()));
    let _two = another(dir.path());
    let primary = |member: u64| {
        until("the primary", || report(dir.path(), "1").is_some_and(|it| it["first"] == member));
    };
    primary(2);
    let mut resource = Resource::new(&ocf, dir.path());
    assert_eq!((resource.does("monitor"), resource.does("start")), (7, 0));
    assert_eq!((resource.does("monitor"), resource.does("promote")), (0, 0));
    primary(1);
    assert_eq!(resource.does("monitor"), 8);
    // The group has moved it.
    let mut promote = command(binary::truechimer());
    promote.args(["group", "promote", "demo", "2", "--directory"]).arg(dir.path().join("agents"));
    assert!(promote.status().unwrap().success());
    primary(2);
    // With `on-fail=demote` that is all that Pacemaker does: the program stays, as a backup.
    let pid = resource.pid();
    assert_eq!((resource.does("monitor"), resource.does("demote")), (9, 0));
    assert_eq!((resource.does("monitor"), resource.does("promote")), (0, 0));
    primary(1);
    assert_eq!((resource.does("monitor"), resource.pid()), (8, pid));
    assert_eq!((resource.does("demote"), resource.does("monitor")), (0, 0));
    // The program crashes.
    assert!(command("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    until("it is gone", || resource.does("monitor") == 7);
    assert_eq!((resource.does("start"), resource.does("monitor")), (0, 0));
    agent.take();
    until("without an agent it is to be started anew", || resource.does("monitor") == 1);
    assert_eq!((resource.does("stop"), resource.does("monitor")), (0, 7));
    // Of three seconds it waits two.
    resource.set("CRM_meta_timeout", "3000");
    assert_eq!(resource.does("start"), 1);
    for (key, value, status) in
        [("group", "no/name", 6), ("program", "", 6), ("reads", "all", 6), ("binary", "/no", 5)]
    {
        let parameters = resource.parameters.clone();
        resource.set(key, value);
        assert_eq!(resource.does("validate-all"), status, "{key}");
        resource.parameters = parameters;
    }
}

/// Processes of a group that are not dead.
fn in_group(group: u32) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    let of_group = |stat: &String| {
        let mut fields = stat.rsplit(") ").next().unwrap().split(' ');
        let dead = matches!(fields.next(), Some("Z" | "X"));
        !dead && fields.nth(1) == Some(&group.to_string())
    };
    stats.filter(of_group).count()
}

/// At boot, or where the agent has crashed, Pacemaker starts the replica before there is one; and a
/// program that has crashed may have left others of its own.
#[test]
fn the_resource_agent_waits_for_an_agent_and_leaves_nothing() {
    let (Some(()), Some(ocf)) = (root(), or_skip(ocf())) else { return };
    let dir = temp::Dir::new();
    let mut resource = Resource::new(&ocf, dir.path());
    resource.set("program", "sh -c 'env -u LD_PRELOAD sleep 1000 & exec sleep 1000'");
    // What Pacemaker is told of promotions.
    let sbin = dir.path().join("sbin");
    fs::create_dir(&sbin).unwrap();
    let told = dir.path().join("told");
    let script = format!("#!/bin/sh\necho \"$*\" >>'{}'\n", told.display());
    fs::write(sbin.join("crm_attribute"), script).unwrap();
    fs::set_permissions(sbin.join("crm_attribute"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", sbin.display(), std::env::var("PATH").unwrap());
    let with_sbin = |action: &str| {
        let mut command = resource.command(Resource::agent());
        command.env("PATH", &path).env("HA_SBIN_DIR", &sbin).arg(action);
        command
    };
    let mut start = with_sbin("start").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(start.try_wait().unwrap(), None);
    let _agent = agent(command(binary::truechimer()), dir.path(), &local("semi-active"));
    assert!(start.wait().unwrap().success());
    let pid = resource.pid();
    until("both processes", || in_group(pid) == 2);
    assert!(command("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    until("it is gone", || resource.does("monitor") == 7);
    assert_eq!(in_group(pid), 1);
    assert!(with_sbin("stop").status().unwrap().success());
    assert_eq!(in_group(pid), 0);
    let told = fs::read_to_string(told).unwrap();
    assert_eq!(told.lines().next_back(), Some("-p -D"), "{told}");
    assert!(told.lines().any(|line| line == "-p -v 10"), "{told}");
}

/// The log is opened as the program's user, who might have laid a link there to what is root's.
#[test]
fn the_resource_agent_writes_to_nothing_that_the_user_may_not() {
    let (Some(()), Some(ocf)) = (root(), or_skip(ocf())) else { return };
    let dir = temp::Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let _agent = agent(command(binary::truechimer()), dir.path(), &local("active"));
    until("the group is there", || is_live(dir.path()));
    let (secret, log) = (dir.path().join("secret"), dir.path().join("log"));
    std::os::unix::fs::symlink(&secret, &log).unwrap();
    let mut resource = Resource::new(&ocf, dir.path());
    resource.set("program", "echo changed");
    resource.set("user", "nobody");
    resource.set("log", log.to_str().unwrap());
    // Not even an empty file.
    assert_eq!((resource.does("start"), secret.exists()), (4, false));
    fs::write(&secret, "as it was").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(resource.does("start"), 4);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "as it was");
}
