//! PostgreSQL behind fronts: what follows, and that what does not is noticed and answered to nobody.
//! A primary and its hot standby, by PostgreSQL's own replication, that read the time at present.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::postgresql::{NOBODY, Session, cluster, micros};
use truechimer_testbed::process::{Process, Signal, is_root};
use truechimer_testbed::{binary, ports, temp};

use crate::agents::{GROUP, PATIENCE, until};
use crate::front::{Local, Runner, runs};

const REPLICAS: usize = 3;
const WARP: &str = "libtruechimer_warp.so";

/// A cluster that all replicas begin with, and who runs them.
struct Bed {
    dir: temp::Dir,
    runner: Runner,
    server: PathBuf,
}

fn bed() -> Result<Bed, Lacking> {
    let server = runs("postgres")?;
    let dir = temp::Dir::new();
    let mut runner = Runner { truechimer: binary::truechimer(), user: None };
    if is_root() {
        // Where they can be executed by whomever.
        for name in ["truechimer", "libtruechimer_group.so", WARP] {
            let copy = dir.join(name);
            std::fs::copy(binary::truechimer().with_file_name(name), &copy).unwrap();
            std::fs::set_permissions(copy, PermissionsExt::from_mode(0o755)).unwrap();
        }
        runner = Runner { truechimer: dir.join("truechimer"), user: Some(NOBODY) };
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let settings = "fsync = off\nautovacuum = off\nunix_socket_directories = ''\n";
    cluster(&dir.join("base"), settings)?;
    Ok(Bed { dir, runner, server })
}

fn start(bed: Bed) -> Local {
    let Bed { dir, runner, server } = bed;
    let (base, user) = (dir.join("base"), runner.user);
    let program = move |port: u16, own: &Path| {
        let copied = Command::new("cp").arg("-a").arg(&base).arg(own.join("data")).status();
        assert!(copied.unwrap().success());
        chown(own, user, user).unwrap();
        let data = own.join("data").display().to_string();
        let server = server.display().to_string();
        vec![
            server,
            "-D".into(),
            data,
            "-h".into(),
            "127.0.0.1".into(),
            "-p".into(),
            port.to_string(),
        ]
    };
    // It listens before it serves.
    let ready = "front=$TRUECHIMER_GROUP_FRONT; member=$(basename \"$front\" .front)
                 grep -q 'ready to accept connections' \"${front%/*/*}/program$member.log\"";
    let options = ["--protocol", "bytes", "--patience", "2s", "--ready-command", ready];
    Local::start_by(runner, dir, program, &options)
}

const TABLE: &str = "create table t(id serial, who int, at timestamptz default now()); \
                     create table b(k int primary key, v int); insert into b values (1, 0)";

/// The rows of a replica's program, asked beside its front.
fn rows(local: &Local, at: usize) -> Vec<String> {
    let mut session = Session::open(local.connect[at]).unwrap();
    session.ask("select id, who, at from t order by id").unwrap()
}

#[test]
fn postgresqls_sessions_that_do_not_wait_for_each_other_follow() {
    let Some(bed) = or_skip(bed()) else { return };
    let local = start(bed);
    Session::open(local.listen[0]).unwrap().ask(TABLE).unwrap();
    // One after the other, at all fronts.
    for number in 0..9 {
        let mut session = Session::open(local.listen[number % REPLICAS]).unwrap();
        session.ask(&format!("insert into t(who) values ({number})")).unwrap();
    }
    // Side by side.
    std::thread::scope(|scope| {
        for client in 0..4 {
            let port = local.listen[client % REPLICAS];
            scope.spawn(move || {
                let mut session = Session::open(port).unwrap();
                for _ in 0..25 {
                    session.ask(&format!("insert into t(who) values ({client})")).unwrap();
                }
            });
        }
    });
    assert_eq!(local.status(), (0, Vec::new()));
    let mut session = Session::open(local.listen[1]).unwrap();
    let answer = session.ask("select id, who, at from t order by id").unwrap();
    assert_eq!(answer.len(), 109);
    for at in 0..REPLICAS {
        // A majority has answered: one of them may not be there yet.
        until("it has all rows", || rows(&local, at).len() >= answer.len());
        assert_eq!(rows(&local, at), answer, "replica {}", at + 1);
    }
}

/// Four sessions change one row, each in transactions of several statements: who waits for the lock
/// goes on when each replica pleases. Whatever comes of it, no client has been told of a row that
/// the replicas that still answer do not have, and if they differ they do not answer.
#[test]
fn postgresqls_sessions_that_wait_for_locks_are_noticed_and_answered_to_nobody() {
    let Some(bed) = or_skip(bed()) else { return };
    let mut local = start(bed);
    Session::open(local.listen[0]).unwrap().ask(TABLE).unwrap();
    let told: Vec<String> = std::thread::scope(|scope| {
        let clients = (0..4).map(|client| {
            let port = local.listen[client % REPLICAS];
            scope.spawn(move || {
                let mut told = Vec::new();
                let Some(mut session) = Session::open(port) else { return told };
                for _ in 0..50 {
                    let insert =
                        format!("insert into t(who) values ({client}) returning id, who, at");
                    let update = "update b set v = v + 1 where k = 1";
                    let mut row = Vec::new();
                    for query in ["begin", update, &insert, "commit"] {
                        let Some(rows) = session.ask(query) else { return told };
                        row.extend(rows);
                    }
                    told.extend(row);
                }
                told
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    // Whoever differs finds that out within its patience: then status says so, and it answers nobody.
    let mut all: Vec<Vec<String>> = Vec::new();
    until("status says what the fronts do, and those that answer have the same", || {
        let (code, troubles) = local.status();
        let named = |at: &usize| {
            let name = format!("member {}: ", at + 1);
            troubles.iter().any(|trouble| trouble.starts_with(&name))
        };
        let follow: Vec<usize> = (0..REPLICAS).filter(|at| !named(at)).collect();
        let is_told = |(member, front): (&u32, &mut Process)| {
            let stopped = format!("member {member}: its front has stopped: ");
            front.is_running() != troubles.iter().any(|trouble| trouble.starts_with(&stopped))
        };
        if (code == 0) != (follow.len() == REPLICAS) || !local.fronts.iter_mut().all(is_told) {
            return false;
        }
        if follow.len() * 2 <= REPLICAS {
            all.clear();
            // Where fronts still run they say that they answer nobody.
            return troubles.iter().any(|trouble| trouble.contains("answers nobody"))
                || local.fronts.values_mut().all(|front| !front.is_running());
        }
        all = follow.iter().map(|at| rows(&local, *at)).collect();
        all.iter().all(|rows| *rows == all[0])
    });
    let Some(rows) = all.first() else { return };
    for row in &told {
        assert!(rows.contains(row), "a client was told of {row}");
    }
}

/// Lag of the clock of the standby's host.
const BEHIND_S: i64 = 3600;

/// A primary at member 1 and a hot standby at member 2.
struct Pair {
    servers: Vec<Process>,
    _agent: Process,
    runner: Runner,
    ports: Vec<u16>,
    /// Kept until the processes have ended.
    dir: temp::Dir,
}

impl Pair {
    fn start(bed: Bed) -> Pair {
        let Bed { dir, runner, server } = bed;
        let _agent = Local::agent(&runner, &dir);
        let mut pair = Pair { dir, runner, _agent, servers: Vec::new(), ports: ports::free(2) };
        for member in [1, 2] {
            let data = pair.dir.join(&format!("data{member}"));
            let base = pair.dir.join("base");
            let copied = Command::new("cp").arg("-a").arg(base).arg(&data).status();
            assert!(copied.unwrap().success());
            if member == 2 {
                let standby = data.join("standby.signal");
                std::fs::write(&standby, "").unwrap();
                chown(&standby, pair.runner.user, pair.runner.user).unwrap();
            }
            pair.serve(member, &server, &data);
        }
        pair
    }

    fn serve(&mut self, member: u32, server: &Path, data: &Path) {
        let mut exec = self.runner.command(&self.runner.truechimer);
        exec.args(["group", "exec", "--group", GROUP, "--member", &member.to_string()]);
        exec.args(["--reads", "now", "--"]).arg(server).arg("-D").arg(data);
        let port = self.ports[member as usize - 1];
        exec.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        let primary = format!("primary_conninfo=host=127.0.0.1 port={} user=test", self.ports[0]);
        exec.arg("-c").arg(primary).env("TRUECHIMER_GROUP_DIR", self.dir.path());
        if member == 2 {
            exec.env("LD_PRELOAD", self.warp()).env("TRUECHIMER_WARP", behind());
        }
        let log = self.dir.join(&format!("server{member}.log"));
        self.servers.push(Process::start(exec, &log));
        until("it serves", || Session::open(port).is_some());
    }

    fn warp(&self) -> PathBuf {
        self.runner.truechimer.with_file_name(WARP)
    }

    fn session(&self, at: usize) -> Session {
        Session::open(self.ports[at]).unwrap()
    }

    /// Clients of one of them write, and are told when.
    fn write(&self, at: usize, clients: usize, told: &AtomicI64) {
        std::thread::scope(|scope| {
            for client in 0..clients {
                scope.spawn(move || {
                    let mut session = self.session(at);
                    for _ in 0..50 {
                        let before = told.load(SeqCst);
                        let insert = format!(
                            "insert into t(who, at) values ({client}, clock_timestamp()) returning {}",
                            micros("at")
                        );
                        session.ask("begin").unwrap();
                        session.ask("update b set v = v + 1 where k = 1").unwrap();
                        let time = number(&mut session, &insert);
                        session.ask("commit").unwrap();
                        assert!(time >= before, "{time} after {before}");
                        told.fetch_max(time, SeqCst);
                    }
                });
            }
        });
    }
}

fn behind() -> String {
    format!("epoch=0,offset=-{BEHIND_S}s")
}

/// The one number that a session answers with.
fn number(session: &mut Session, query: &str) -> i64 {
    let rows = session.ask(query).unwrap();
    assert_eq!(rows.len(), 1, "{query}");
    rows[0].parse().unwrap()
}

/// The time at one of them is not before any that anybody had been told by then.
fn ask_time(session: &mut Session, time: &str, told: &AtomicI64) {
    let before = told.load(SeqCst);
    let value = number(session, &format!("select {}", micros(time)));
    assert!(value >= before, "{time}: {value} after {before}");
    told.fetch_max(value, SeqCst);
}

/// On one agent process with all members; `truechimer-lab bench group postgresql` has a ring. A client that was told a time by one of them is told none before it by the other, also while four
/// sessions write, and when the primary is gone; though the standby's own clock is an hour behind.
#[test]
fn postgresqls_primary_and_standby_have_one_time_across_a_fail_over() {
    let Some(bed) = or_skip(bed()) else { return };
    let mut pair = Pair::start(bed);
    pair.session(0).ask(TABLE).unwrap();
    let told = AtomicI64::new(0);
    let alternate = |turns: usize| {
        let mut sessions = [pair.session(0), pair.session(1)];
        for turn in 0..turns {
            let time = ["clock_timestamp()", "now()"][turn % 2];
            sessions.iter_mut().for_each(|session| ask_time(session, time, &told));
        }
    };
    alternate(100);
    std::thread::scope(|scope| {
        scope.spawn(|| pair.write(0, 4, &told));
        alternate(50);
    });
    until("all is well", || Local::status_at(&pair.runner, &pair.dir) == (0, Vec::new()));
    // The standby has a clock of its own that is another.
    let mut date = Command::new("date");
    date.arg("+%s").env("LD_PRELOAD", pair.warp()).env("TRUECHIMER_WARP", behind());
    let date = String::from_utf8(date.output().unwrap().stdout).unwrap();
    let behind = told.load(SeqCst) / 1_000_000 - date.trim().parse::<i64>().unwrap();
    assert!(behind > BEHIND_S / 2, "{behind} s");
    let place = pair.session(0).ask("select pg_current_wal_lsn()").unwrap().remove(0);
    let follows = format!("select pg_last_wal_replay_lsn() >= '{place}'");
    let mut session = pair.session(1);
    until("the standby has all rows", || session.ask(&follows).unwrap() == ["t"]);
    // The primary dies, with all its processes.
    pair.servers[0].signal(Signal::Kill);
    pair.servers[0].wait(PATIENCE).unwrap();
    assert_eq!(session.ask("select pg_promote()").unwrap(), ["t"]);
    ask_time(&mut session, "now()", &told);
    ask_time(&mut session, "clock_timestamp()", &told);
    let rows = "select count(*), count(*) filter (where at > now()) from t";
    assert_eq!(session.ask(rows).unwrap(), ["200 0"]);
    pair.write(1, 2, &told);
    until("all is well", || Local::status_at(&pair.runner, &pair.dir) == (0, Vec::new()));
}
