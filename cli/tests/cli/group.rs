//! `truechimer group`: an agent without a ring, what is asked of it, and its errors.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Answer, Dir, Process, SOON, command, truechimer};

/// An agent with three members, and where it is.
struct Local {
    dir: Dir,
    agent: Process,
}

impl Local {
    fn start() -> Local {
        let dir = Dir::new();
        let agent = Local::agent(&dir);
        let local = Local { dir, agent };
        local.until_live();
        local
    }

    fn agent(dir: &Dir) -> Process {
        let (agents, state) = (dir.join("agents"), dir.join("state"));
        let arguments = [
            "group",
            "agent",
            "--group",
            "demo",
            "--local",
            "3",
            "--page",
            "none",
            "--without-utc",
        ];
        let places = ["--directory", &agents, "--state", &state];
        Process::start(dir, "agent.log", &[&arguments[..], &places].concat())
    }

    /// `truechimer group` with these arguments, asking this agent.
    fn ask(&self, arguments: &[&str]) -> Answer {
        let agents = self.dir.join("agents");
        truechimer(&[&["group"], arguments, &["--directory", &agents]].concat())
    }

    fn until_live(&self) {
        let end = Instant::now() + SOON;
        while self.ask(&["status"]).code != 0 {
            assert!(Instant::now() < end, "{:?}\n{}", self.ask(&["status"]), self.agent.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_member_without_an_agent_is_told_who_has_one() {
    let dir = Dir::new();
    let agents = dir.join("agents");
    std::fs::create_dir_all(Path::new(&agents).join("db")).unwrap();
    let place = ["--directory", &agents, "--group", "db", "--member", "9"];
    let library = dir.write("library.so", "");
    let commands = [&["status"][..], &["exec", "--wait", "0s", "--library", &library]];
    for (file, says) in [("1.sock", "(only one for member 1)"), ("2.sock", "the members 1, 2)")] {
        std::fs::write(Path::new(&agents).join("db").join(file), "").unwrap();
        for command in commands {
            let program: &[&str] = if command[0] == "exec" { &["--", "true"] } else { &[] };
            let answer = truechimer(&[&["group"], command, &place, program].concat());
            answer.assert_error(&["for member 9", says]);
        }
    }
}

#[test]
fn a_group_without_a_ring_is_started_asked_read_and_ended() {
    let mut local = Local::start();
    let status = local.ask(&["status", "--group", "demo", "--member", "2"]);
    for part in ["demo: active, monotone; members 1 2 3", "2, live", "without a ring", "2 *"] {
        assert!(status.out.contains(part), "no {part:?} in {}", status.out);
    }
    assert!(status.out.lines().all(|line| line.chars().count() <= 80), "{}", status.out);
    let reports = local.ask(&["status", "--json"]);
    assert_eq!(reports.out.lines().count(), 3);
    for report in reports.documented() {
        assert_eq!((&report["phase"], &report["transport"]), (&"live".into(), &"local".into()));
    }

    let read = |member: &str, thread: &[&str]| {
        let now = ["now", "--group", "demo", "--member", member, "--json", "--timeout", "40s"];
        local.ask(&[&now[..], thread].concat()).json()
    };
    let shared = ["--thread", "job"];
    let (first, second) = (read("1", &shared), read("1", &shared));
    assert!(first["time_unix_ns"].as_i64() < second["time_unix_ns"].as_i64());
    let (here, there) = (read("2", &shared), read("3", &shared));
    assert_eq!(
        (&here["time_unix_ns"], &here["thread"]),
        (&first["time_unix_ns"], &first["thread"])
    );
    assert_eq!(there["time_utc"], first["time_utc"]);
    let newest = read("3", &[]);
    assert!(newest["time_unix_ns"].as_i64() > second["time_unix_ns"].as_i64());
    assert_eq!(newest["utc_earliest_unix_ns"], serde_json::Value::Null, "nobody has UTC");
    assert_eq!(newest["error_bound_ns"], serde_json::Value::Null);
    let plain = local.ask(&["now", "--group", "demo", "--member", "3"]);
    assert!(plain.out.ends_with("Z (its distance from UTC is not known)\n"), "{plain:?}");
    // Nobody keeps what nobody else will read.
    for line in local.ask(&["status", "--json"]).out.lines() {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        let behind = if report["member"] == 1 { 0 } else { 1 };
        assert_eq!(report["waiting"]["values"], behind, "{report}");
    }

    let watched = local.ask(&["watch", "--once", "--interval", "50ms"]);
    assert_eq!((watched.code, watched.out.lines().count()), (0, 4), "{watched:?}");
    let watched = local.ask(&["watch", "--once", "--interval", "50ms", "--json"]);
    assert!(watched.out.lines().all(|line| line.contains("rounds_per_s")), "{watched:?}");
    local.ask(&["now"]).assert_error(&["1 of demo, 2 of demo, 3 of demo", "--member"]);

    local.agent.signal("TERM");
    assert!(local.agent.wait().success(), "{}", local.agent.output());
    assert!(local.agent.output().contains("has left"), "{}", local.agent.output());
    assert!(!Path::new(&local.dir.join("agents/demo/1.sock")).exists());
    local.ask(&["status"]).assert_error(&["no agent in ", "truechimer group agent --group NAME"]);

    // What was told is behind what comes, even if all members were gone.
    local.agent = Local::agent(&local.dir);
    local.until_live();
    let next = local.ask(&["now", "--group", "demo", "--member", "1", "--json"]).json();
    assert!(next["time_unix_ns"].as_i64() > newest["time_unix_ns"].as_i64(), "{next} {newest}");
}

#[test]
fn what_readings_cost_is_measured_at_a_member() {
    let local = Local::start();
    let bench = |more: &[&str]| {
        let usual = ["bench", "--member", "2", "-n", "40", "--threads", "4", "--timeout", "40s"];
        local.ask(&[&usual[..], more].concat())
    };
    let text = bench(&[]);
    assert_eq!(text.code, 0, "{text:?}");
    for part in
        ["group demo, member 2", "one round", "riding", "leased", "truechimer-lab bench group"]
    {
        assert!(text.out.contains(part), "no {part:?} in {}", text.out);
    }
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
    let figures = bench(&["--json"]).json();
    assert_eq!((&figures["member"], &figures["one_round"]["count"]), (&2.into(), &40.into()));
    assert_eq!((&figures["riding"]["count"], &figures["threads"]), (&40.into(), &4.into()));
    // All rounds were read: 40 by one thread, as many by four.
    assert!(figures["single"]["rounds"].as_u64() >= Some(40), "{figures}");
    assert!(figures["several"]["rounds"].as_u64() >= Some(40), "{figures}");
    assert!(figures["single"]["messages_per_round"].as_f64() >= Some(1.0), "{figures}");
    let most = figures["several"]["messages_per_round"].as_f64();
    assert!(most.is_some_and(|per_round| per_round > 0.0), "{figures}");
    local.ask(&["bench"]).assert_error(&["1 of demo, 2 of demo, 3 of demo", "--member"]);
}

/// Status of programs with three members: who is attached, what they read, who was refused.
#[test]
fn status_shows_who_is_attached() {
    let local = Local::start();
    let place = truechimer_group_client::Where {
        directory: Some(local.dir.join("agents").into()),
        group: "demo".to_owned(),
        member: Some(truechimer_group::Member(2)),
    };
    let programs = || {
        let status = local.ask(&["status", "--member", "2", "--group", "demo"]);
        assert_eq!(status.code, 0, "{status:?}");
        let words: Vec<&str> = status.out.split_whitespace().collect();
        let from = words.iter().position(|word| *word == "programs").unwrap();
        let end = words.iter().position(|word| *word == "agent").unwrap();
        words[from + 1..end].join(" ")
    };
    assert!(programs().starts_with("none; 0 readings so far"), "{}", programs());
    let replica = truechimer_group_client::Replica::attach(&place).unwrap();
    for _ in 0..3 {
        let patience = Some(SOON);
        replica.first_thread().now(truechimer_group::Call::Group, patience).unwrap();
    }
    let me = std::process::id();
    let shown = programs();
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let who = format!("{} ({me}): 3 readings, the group's messages;", name.trim_end());
    assert!(shown.contains(&who), "no {who:?} in {shown}");
    assert!(shown.contains("3 readings so far, 3 answered"), "{shown}");
    // Another program at the same member, and who is in its way.
    let refused = truechimer_group_client::Replica::attach(&place).unwrap_err().to_string();
    assert!(refused.contains(&me.to_string()), "{refused}");
    assert!(programs().contains("1 attachment refused"), "{}", programs());
    // The other members have nobody.
    let other = local.ask(&["status", "--member", "3", "--json"]).json();
    assert_eq!(other["programs"]["processes"], serde_json::json!([]), "{other}");
    let report = local.ask(&["status", "--member", "2", "--json"]).json();
    let process = &report["programs"]["processes"][0];
    assert_eq!((&process["pid"], &process["reads"]), (&me.into(), &3.into()), "{report}");
    drop(replica);
    let end = Instant::now() + SOON;
    while !programs().starts_with("none; 3 readings so far, 3 answered") {
        assert!(Instant::now() < end, "{}", programs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Status of fronts with a member: the exit code, and the reasons of that member.
#[test]
fn status_says_why_a_front_does_not_answer_and_that_one_is_gone() {
    let local = Local::start();
    let status = || {
        let status = local.ask(&["status", "--member", "1", "--json"]);
        let report: serde_json::Value = serde_json::from_str(status.out.trim()).unwrap();
        (status.code, report)
    };
    let (code, report) = status();
    assert_eq!((code, &report["front"], &report["troubles"]), (0, &().into(), &[(); 0][..].into()));
    let until = |part: &str| {
        let end = Instant::now() + SOON;
        loop {
            let (code, report) = status();
            let why = report["troubles"][0]["why"].as_str().unwrap_or_default();
            if why.contains(part) {
                assert_eq!(
                    (code, &report["troubles"][0]["kind"]),
                    (1, &"front".into()),
                    "{report}"
                );
                assert_eq!(report["troubles"][0]["member"], 1, "{report}");
                return;
            }
            assert!(Instant::now() < end, "no {part:?} in {report}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let agents = local.dir.join("agents");
    let front = |name: &str| {
        // A port that nothing listens on, as it is bound and not more.
        let arguments =
            ["group", "front", "--group", "demo", "--member", "1", "--directory", &agents];
        let places = ["--listen", "127.0.0.1:0", "--connect", "127.0.0.1:1"];
        Process::start(&local.dir, name, &[&arguments[..], &places].concat())
    };
    let mut first = front("first.log");
    until("its front is not in: nothing listens at 127.0.0.1:1");
    // It joins by a state of its own, whoever runs elsewhere.
    assert_eq!(status().1["programs"]["began"], "");
    let text = local.ask(&["status", "--member", "1"]);
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("trouble member 1: its front is not in: nothing listens"), "{words}");
    let watched = local.ask(&["watch", "--once", "--interval", "50ms"]);
    assert!(watched.code == 1 && watched.out.contains("trouble"), "{watched:?}");
    first.signal("KILL");
    first.wait();
    until("has ended without a word");
    // The next one takes its place; that it ends as asked is no trouble.
    let mut second = front("second.log");
    until("its front is not in");
    second.signal("TERM");
    assert!(second.wait().success(), "{}", second.output());
    assert_eq!(status().0, 0);
}

#[test]
fn a_stopped_agent_is_told_from_one_that_is_not_there() {
    let mut local = Local::start();
    local.agent.signal("STOP");
    local.ask(&["status", "--member", "1"]).assert_error(&["1.sock", "is it stopped?"]);
    local.agent.signal("CONT");
    local.until_live();
    local.agent.signal("KILL");
    local.agent.wait();
    // Its sockets are still there.
    local.ask(&["status", "--member", "1"]).assert_error(&["1.sock", "no agent"]);
}

/// Commands of a user who may not use the agent's sockets.
#[test]
fn who_may_not_ask_is_told_so() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    const NO_RIGHT: &str =
        "this user may not use the agent's socket; run as the agent's user, or let";
    let local = Local::start();
    let (agents, group) = (local.dir.join("agents"), local.dir.join("agents/demo"));
    let mode = |path: &str, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    // Where it can be executed by whomever.
    let copy = local.dir.join("truechimer");
    if root {
        // By a process of its own: whatever another test starts meanwhile would have it open for writing if this one did that.
        let mut cp = std::process::Command::new("cp");
        assert!(cp.arg(env!("CARGO_BIN_EXE_truechimer")).arg(&copy).status().unwrap().success());
        mode(&copy, 0o755);
    }
    let ask = |arguments: &[&str]| {
        let mut command = command(&[&["group"], arguments, &["--directory", &agents]].concat());
        if root {
            let by_root = command;
            command = std::process::Command::new(&copy);
            command.args(by_root.get_args()).uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        Answer { code: output.status.code().unwrap(), out, err }
    };
    // Neither may look.
    mode(&group, if root { 0o700 } else { 0 });
    for command in ["status", "now", "watch"] {
        ask(&[command]).assert_error(&[&group, "may not look for agents there", "root"]);
    }
    // They may look, but not connect.
    mode(&group, 0o755);
    let sockets: Vec<String> = (1..=3).map(|member| format!("{group}/{member}.sock")).collect();
    sockets.iter().for_each(|socket| mode(socket, if root { 0o600 } else { 0 }));
    ask(&["status", "--member", "2"]).assert_error(&["2.sock", NO_RIGHT]);
    // They may.
    if root {
        sockets.iter().for_each(|socket| mode(socket, 0o666));
        assert_eq!(ask(&["status", "--member", "2"]).code, 0);
    }
    assert_eq!(local.ask(&["status"]).code, if root { 0 } else { 2 });
}

/// (It was waited for as many as there are, and nobody said so.)
#[test]
fn a_program_cannot_start_with_more_members_than_there_are() {
    let local = Local::start();
    let (agents, library) = (local.dir.join("agents"), local.dir.write("library.so", ""));
    let start = |together: &str| {
        let place = ["--group", "demo", "--member", "2", "--directory", &agents];
        let how = ["--library", &library, "--together", together, "--", "true"];
        truechimer(&[&["group", "exec"], &place[..], &how].concat())
    };
    start("4").assert_error(&["--together 4", "group 'demo' has 3 members: give at most 3"]);
    assert_eq!(start("3").code, 0, "ld.so says that there is nothing in that library");
}

/// An agent of a local group of so many members, with these options.
fn agent(dir: &Dir, members: &str, options: &[&str]) -> Process {
    let agents = dir.join("agents");
    let usual = ["group", "agent", "--group", "demo", "--local", members, "--state", "none"];
    let there = ["--directory", &agents];
    Process::start(dir, "agent.log", &[&usual[..], &there, options].concat())
}

/// `truechimer group` with these arguments, asking this agent.
fn ask(dir: &Dir, arguments: &[&str]) -> Answer {
    truechimer(&[&["group"], arguments, &["--directory", &dir.join("agents")]].concat())
}

#[test]
fn without_utc_no_time_is_given_and_it_is_said_what_to_do() {
    let dir = Dir::new();
    let agent = agent(&dir, "1", &["--page", "none"]);
    // It may be asked while it starts.
    let now = ask(&dir, &["now", "--group", "demo", "--timeout", "200ms", "--wait", "60s"]);
    assert_eq!((now.code, now.out.as_str()), (1, ""), "{now:?}");
    assert!(now.err.contains("--system-clock BOUND (or, for a clock"), "{now:?}");
    let status = ask(&dir, &["status"]);
    assert_eq!(status.code, 1);
    let words = status.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the group's clock is not tied to UTC"), "{}", status.out);
    assert!(agent.output().contains("programs wait"), "{}", agent.output());
}

#[test]
fn with_utc_a_value_comes_with_its_distance_from_it() {
    let dir = Dir::new();
    let _agent = agent(&dir, "3", &["--system-clock", "7ms"]);
    let member = ["--group", "demo", "--member", "2", "--wait", "60s", "--timeout", "40s"];
    let json = ask(&dir, &[&["now", "--json"], &member[..]].concat()).json();
    let ns = |name: &str| json[name].as_i64().unwrap();
    let (time, bound) = (ns("time_unix_ns"), ns("error_bound_ns"));
    assert!(bound >= 7_000_000, "{json}");
    assert!(ns("utc_earliest_unix_ns") >= time - bound && ns("utc_latest_unix_ns") <= time + bound);
    let plain = ask(&dir, &[&["now"], &member[..]].concat());
    assert!(plain.code == 0 && plain.out.contains("Z ± "), "{plain:?}");
    let watched = ask(&dir, &["watch", "--once", "--interval", "50ms", "--wait", "60s"]);
    assert_eq!((watched.code, watched.out.lines().count()), (0, 4), "{watched:?}");
    let status = ask(&dir, &["status"]);
    assert!(status.out.contains("within ") && status.out.contains(" of UTC"), "{status:?}");
    assert!(status.out.contains("last synchronizers "), "{status:?}");
}

#[test]
fn a_second_agent_of_the_same_members_is_refused() {
    let local = Local::start();
    let (agents, state) = (local.dir.join("agents"), local.dir.join("state"));
    let same = ["group", "agent", "--group", "demo", "--local", "3", "--directory", &agents];
    truechimer(&[&same[..], &["--state", &state]].concat())
        .assert_error(&["another agent is member 1 of group 'demo'"]);
    let elsewhere = truechimer(&[&same[..], &["--state", "none"]].concat());
    elsewhere.assert_error(&["group 'demo'", "1.sock"]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let dir = Dir::new();
    let check = |options: &[&str]| truechimer(&[&["group", "agent", "--check"], options].concat());
    check(&[]).assert_error(&["no group: use --group NAME, or --config FILE"]);
    for (options, says) in [
        (["--group", "a/b"].as_slice(), "'--group <NAME>': must be 1 to 64"),
        (&["--group", "a", "--mode", "lazy"], "must be active, semi-active or passive"),
        (&["--group", "a", "--members", "1,1"], "node 1 is there twice"),
        (&["--group", "a", "--system-clock", "0"], "must be 1us to 3600s"),
        (&["--mode", "active"], "--group <NAME>"),
    ] {
        let refused = check(options);
        assert!(refused.code == 2 && refused.err.contains(says), "{says:?}: {refused:?}");
    }
    let file = dir.write("group.toml", "[[group]]\nnam = \"a\"\nname = \"a\"\n");
    check(&["--config", &file]).assert_error(&["group.toml:2", "did you mean `name`?"]);
    let file = dir.write("group.toml", "[[group]]\nname = \"a\"\nmembers = [1, 2, 3]\n");
    let good = check(&["--config", &file]);
    let said = format!("the configuration {file} is good: group 'a' of 1,2,3 by Corosync\n");
    assert_eq!((good.code, good.out), (0, said));
    let good = check(&["--group", "b", "--local", "2"]);
    assert_eq!(good.out, "the configuration is good: group 'b' of 1,2 without a ring\n");
    truechimer(&["group", "status", "--directory", &dir.join("none")]).assert_error(&["no agent"]);
    let state = dir.join("state");
    std::fs::create_dir_all(format!("{state}/a")).unwrap();
    std::fs::write(format!("{state}/a/1.floor"), "nonsense").unwrap();
    let agents = dir.join("agents");
    let start = ["group", "agent", "--group", "a", "--local", "1", "--directory", &agents];
    truechimer(&[&start[..], &["--state", &state]].concat())
        .assert_error(&["a/1.floor: is damaged", "or remove the file"]);
}

#[test]
fn every_group_command_has_help_that_says_how_it_ends() {
    for what in ["agent", "status", "watch", "now", "bench", "exec", "front"] {
        let help = command(&["group", what, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("Exit status: "), "{what}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{what}: {help}");
    }
}

#[test]
fn a_program_comes_while_another_waits_for_the_time_at_present() {
    let dir = Dir::new();
    let agent = agent(&dir, "1", &["--page", "none"]);
    let agents = dir.join("agents");
    let now = ["group", "now", "--group", "demo", "--timeout", "60s", "--wait", "60s"];
    let waits = Process::start(&dir, "now.log", &[&now[..], &["--directory", &agents]].concat());
    let end = Instant::now() + SOON;
    let attached = || {
        let status = ask(&dir, &["status", "--json"]);
        let status = (status.code < 2).then(|| status.json())?;
        status["programs"]["family"].as_str().map(str::to_owned)
    };
    while attached().is_none() {
        assert!(Instant::now() < end, "{}", waits.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    let place = truechimer_group_client::Where {
        directory: Some(agents.into()),
        group: "demo".into(),
        member: None,
    };
    let program = truechimer_group_client::Replica::attach(&place).unwrap();
    let family = format!("{:x}", program.family());
    // What waits goes on beside it.
    let processes = || {
        let status = ask(&dir, &["status", "--json"]).json();
        let programs = &status["programs"];
        let is = programs["family"].as_str().map(|text| text.trim_start_matches('0').to_owned());
        assert_eq!(is.as_deref(), Some(&*family), "{status}");
        programs["processes"].as_array().unwrap().len()
    };
    while processes() != 2 {
        assert!(Instant::now() < end, "{}\n{}", waits.output(), agent.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}
