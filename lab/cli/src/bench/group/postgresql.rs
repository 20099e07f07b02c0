//! PostgreSQL's primary and hot standby by its own replication, under `group exec --reads now` and
//! by their hosts' clock, while `pgbench` works: transactions a second, whether the time ever went
//! back, and whether both have the same rows.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use truechimer_outcome::outcome::{Failure, Goal, Grid, Outcome};
use truechimer_outcome::stats::{median, range};
use truechimer_testbed::binary;
use truechimer_testbed::postgresql::{NOBODY, Session, cluster, micros};
use truechimer_testbed::process::{Process, is_root};
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, GROUP, How};
use crate::bench::group::options::Options;

/// Numbers of pgbench's clients.
const CLIENTS: [u32; 4] = [1, 4, 8, 16];
/// Turns of each pair with each number of clients.
const TURNS: usize = 3;
/// Branches in pgbench's tables: as many as the most clients, which else wait for each other's rows.
const SCALE: u32 = 16;
/// The primary's port, which is a name of its socket; the standby's is the next.
const PORT: u32 = 5432;
/// Nodes of the primary and the standby.
const PRIMARY: u32 = 1;
const STANDBY: u32 = 2;
/// Longest time for a server to start, or for the standby to have all that the primary has.
const PATIENCE: Duration = Duration::from_secs(120);
/// Words for setpriv by which a program runs as a user whom PostgreSQL does not refuse.
const AS_NOBODY: [&str; 6] = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];

/// Length of the turns.
#[derive(clap::Args, Clone, Debug)]
pub struct Wanted {
    /// Time that pgbench works in each of the 24 turns
    #[arg(long, value_name = "S", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seconds: u32,
}

/// Clock that a pair of servers reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Time {
    Host,
    Group,
}

/// Result of a turn.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Turn {
    time: Time,
    clients: u32,
    /// Transactions a second.
    rate: f64,
    /// Mean time that a transaction took, ms.
    latency_ms: f64,
    /// Readings meanwhile of the primary's clock and the standby's, in turn.
    readings: u64,
    /// Readings that were before one that had ended by then.
    back: u64,
    /// Rows of pgbench's history whose time is later than the standby's once it has them.
    ahead: u64,
    /// True if the standby came to have just the primary's rows.
    alike: bool,
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options, wanted: &Wanted) -> Result<Outcome, Failure> {
    if !is_root() {
        return Err(Failure("root is needed, for PostgreSQL to be another user".to_owned()));
    }
    let (seconds, turns) = if options.quick { (2, 1) } else { (wanted.seconds, TURNS) };
    let ring = Settings { processors: options.placement.processors(), ..Settings::default() };
    let group = "link = { mode = \"0666\" }".to_owned();
    let bed = Bed::up(How { ring, group, ..How::usual(&options.truechimer) })?;
    programs(&bed, options).map_err(|why| Failure::of("programs for another user", why))?;
    let pairs = [Pair::start(&bed, Time::Host)?, Pair::start(&bed, Time::Group)?];
    let mut all = Vec::new();
    for clients in CLIENTS {
        for turn in 1..=turns {
            for pair in &pairs {
                options
                    .say(&format!("postgresql: {clients} clients, turn {turn}, {:?}", pair.time));
                all.push(pair.turn(&bed, clients, seconds)?);
            }
        }
    }
    Ok(outcome(&all, seconds, options))
}

/// Copies the command and what it preloads to where any user can execute them.
fn programs(bed: &Bed, options: &Options) -> io::Result<()> {
    for name in ["truechimer", "libtruechimer_group.so"] {
        let copy = bed.ring().dir().join(name);
        std::fs::copy(options.truechimer.with_file_name(name), &copy)?;
        std::fs::set_permissions(copy, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// A primary at node 1 and a hot standby at node 2.
struct Pair {
    time: Time,
    dir: PathBuf,
    _servers: Vec<Process>,
}

impl Pair {
    fn start(bed: &Bed, time: Time) -> Result<Pair, Failure> {
        let dir = bed.ring().dir().join(if time == Time::Host { "host" } else { "group" });
        let made = || {
            std::fs::create_dir(&dir)?;
            chown(&dir, Some(NOBODY), Some(NOBODY))
        };
        made().map_err(|why| Failure::of(dir.display(), why))?;
        cluster(&dir.join("data1"), "").map_err(|why| Failure::of("PostgreSQL", why.0))?;
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(dir.join("data1")).arg(dir.join("data2"));
        done(&mut copy)?;
        std::fs::write(dir.join("data2/standby.signal"), "")
            .map_err(|why| Failure::of(dir.display(), why))?;
        let mut pair = Pair { time, dir, _servers: Vec::new() };
        for node in [PRIMARY, STANDBY] {
            let server = pair.serve(bed, node);
            pair._servers.push(server);
            pair.until("a server that serves", || Ok(pair.open(node).is_ok()))?;
        }
        let scale = SCALE.to_string();
        done(pair.pgbench(bed).args(["--initialize", "--quiet", "--scale", &scale]))?;
        Ok(pair)
    }

    /// Starts the server of a node.
    fn serve(&self, bed: &Bed, node: u32) -> Process {
        let mut server = bed.command(node, &binary::system("setpriv"));
        server.args(AS_NOBODY);
        if self.time == Time::Group {
            server.arg(bed.ring().dir().join("truechimer"));
            server.args(["group", "exec", "--group", GROUP, "--member", &node.to_string()]);
            server.args(["--reads", "now", "--"]).env("TRUECHIMER_GROUP_DIR", bed.sockets());
        }
        server.arg(binary::system("postgres"));
        server.arg("-D").arg(self.dir.join(format!("data{node}")));
        server.args(["-h", "", "-p", &port(node).to_string()]);
        server.arg("-k").arg(&self.dir);
        let primary = format!("host={} port={} user=test", self.dir.display(), port(PRIMARY));
        server.arg("-c").arg(format!("primary_conninfo={primary}")).current_dir("/");
        Process::start(server, &self.dir.join(format!("server{node}.log")))
    }

    fn open(&self, node: u32) -> Result<Session, Failure> {
        let socket = self.dir.join(format!(".s.PGSQL.{}", port(node)));
        let gone = || Failure(format!("{}: no session", socket.display()));
        Session::open_at(&socket).ok_or_else(gone)
    }

    fn pgbench(&self, bed: &Bed) -> Command {
        let mut command = bed.command(1, &binary::system("pgbench"));
        command.arg("-h").arg(&self.dir).args(["-p", &port(PRIMARY).to_string(), "-U", "test"]);
        command.arg("postgres");
        command
    }

    /// Lets pgbench work, and looks at both clocks meanwhile and at both servers' rows afterwards.
    fn turn(&self, bed: &Bed, clients: u32, seconds: u32) -> Result<Turn, Failure> {
        let over = AtomicBool::new(false);
        let mut pgbench = self.pgbench(bed);
        pgbench.args(["--no-vacuum", "--client", &clients.to_string()]);
        pgbench.args(["--jobs", &clients.min(2).to_string(), "--time", &seconds.to_string()]);
        let (said, looked) = std::thread::scope(|scope| {
            let looker = scope.spawn(|| self.look(&over));
            // Here, as it dies with the thread that starts it.
            let said = done(&mut pgbench);
            over.store(true, Relaxed);
            (said, looker.join())
        });
        let said = said?;
        let (readings, back) = looked.map_err(|_| Failure("a session failed".to_owned()))??;
        let figure = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            number.ok_or_else(|| Failure(format!("pgbench says no {name:?}: {said}")))
        };
        let (rate, latency_ms) = (figure("tps = ")?, figure("latency average = ")?);
        let (ahead, alike) = self.compare()?;
        Ok(Turn { time: self.time, clients, rate, latency_ms, readings, back, ahead, alike })
    }

    /// Readings of both clocks in turn until it is over, and how many were before one that had ended.
    fn look(&self, over: &AtomicBool) -> Result<(u64, u64), Failure> {
        let mut sessions = [self.open(PRIMARY)?, self.open(STANDBY)?];
        let (mut readings, mut back, mut last) = (0, 0, i64::MIN);
        while !over.load(Relaxed) {
            for session in &mut sessions {
                let time = number(session, &format!("select {}", micros("clock_timestamp()")))?;
                readings += 1;
                back += u64::from(time < last);
                last = last.max(time);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok((readings, back))
    }

    /// Rows that are later than the standby's time, and whether it has just the primary's rows.
    fn compare(&self) -> Result<(u64, bool), Failure> {
        let (mut primary, mut standby) = (self.open(PRIMARY)?, self.open(STANDBY)?);
        let place = one(&mut primary, "select pg_current_wal_flush_lsn()")?;
        let has = format!("select pg_last_wal_replay_lsn() >= '{place}'");
        self.until("a standby that has everything", || Ok(one(&mut standby, &has)? == "t"))?;
        let ahead = "select count(*) from pgbench_history where mtime > now()";
        let ahead = number(&mut standby, ahead)?;
        let rows = "select count(*), md5(string_agg(h::text, ',' order by h::text)), \
                    (select sum(abalance) from pgbench_accounts) from pgbench_history h";
        let alike = one(&mut primary, rows)? == one(&mut standby, rows)?;
        Ok((ahead.unsigned_abs(), alike))
    }

    fn until(
        &self,
        what: &str,
        mut is: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        while !is()? {
            if Instant::now() > end {
                let logs = ["server1.log", "server2.log"]
                    .map(|name| std::fs::read_to_string(self.dir.join(name)).unwrap_or_default());
                return Err(Failure(format!("{what}: not in time; {}", logs.join("\n"))));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn port(node: u32) -> u32 {
    PORT + node - PRIMARY
}

/// Output of a command that has ended well.
fn done(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| Failure::of(&name, why))?;
    if !output.status.success() {
        return Err(Failure::of(name, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The one row that a session answers with.
fn one(session: &mut Session, query: &str) -> Result<String, Failure> {
    let rows = session.ask(query).unwrap_or_default();
    rows.into_iter().next().ok_or_else(|| Failure(format!("PostgreSQL does not answer {query:?}")))
}

fn number(session: &mut Session, query: &str) -> Result<i64, Failure> {
    let row = one(session, query)?;
    row.parse().map_err(|why| Failure(format!("PostgreSQL answers {query:?} with {row:?}: {why}")))
}

fn outcome(all: &[Turn], seconds: u32, options: &Options) -> Outcome {
    let mut grid = Grid::new(
        "pgbench's usual transactions at the primary",
        [
            "clients",
            "by the host's clock, a second",
            "by the group's, a second",
            "ratio, over the turns",
            "mean by the host's",
            "mean by the group's",
        ],
    );
    for clients in CLIENTS {
        let of = |time: Time| all.iter().filter(move |t| t.time == time && t.clients == clients);
        let rates = |time: Time| of(time).map(|turn| turn.rate).collect::<Vec<_>>();
        let (host, group) = (rates(Time::Host), rates(Time::Group));
        let ratios: Vec<f64> = group.iter().zip(&host).map(|(group, host)| group / host).collect();
        let (least, most) = range(&ratios);
        let latency = |time: Time| median(of(time).map(|turn| turn.latency_ms));
        grid.row([
            clients.to_string(),
            format!("{:.0}", median(host)),
            format!("{:.0}", median(group)),
            format!("{:.2} ({least:.2} to {most:.2})", median(ratios)),
            format!("{:.2} ms", latency(Time::Host)),
            format!("{:.2} ms", latency(Time::Group)),
        ]);
    }
    Outcome {
        name: "postgresql",
        title: "PostgreSQL by the group's time".to_owned(),
        about: vec![
            format!(
                "Two pairs of primary and hot standby, with PostgreSQL's own replication, at nodes 1 \
                 and 2 of a ring of three: one by the host's clock, one under `truechimer group exec \
                 --reads now`. pgbench works at their primaries in turn, {seconds} s each, its tables \
                 of scale {SCALE}. Meanwhile the primary's clock and the standby's are read in turn; \
                 afterwards the standby has to have just the primary's rows, and none of a time that \
                 is later than its own."
            ),
            options.placement.text(),
        ],
        goals: goals(all),
        grids: vec![grid],
        json: json!(all),
        ..Outcome::default()
    }
}

fn goals(all: &[Turn]) -> Vec<Goal> {
    let group = || all.iter().filter(|turn| turn.time == Time::Group);
    let readings: u64 = group().map(|turn| turn.readings).sum();
    let back: u64 = group().map(|turn| turn.back).sum();
    let ahead: u64 = group().map(|turn| turn.ahead).sum();
    let unlike = all.iter().filter(|turn| !turn.alike).count();
    let name = "readings at primary and standby that were before one that had ended";
    vec![
        Goal::counted(name, "0", format!("{back} of {readings}"), back == 0 && readings > 0),
        Goal::counted("rows later than the standby's time", "0", ahead, ahead == 0),
        Goal::counted("turns after which the standby has other rows", "0", unlike, unlike == 0),
    ]
}
