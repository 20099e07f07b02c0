//! Metrics of the agent, served by a thread of its own: the loop, which programs wait for, only lays
//! down an account once a second. Names and meanings are in docs/reference/metrics.md.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use truechimer_group_front::FrontReport;
use truechimer_metrics::{Family, Histogram, Labels, Listen, MetricType, Server, number, unbound};

use crate::report::Report;

/// Time between accounts, ns.
const EVERY: i64 = 1_000_000_000;
/// Upper limits of the waits that are told apart, s.
const WAITS: [f64; 12] =
    [50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 50e-3, 0.2, 1.0, 10.0];

/// Account of one member.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) report: Report,
    /// Processes attached.
    pub(crate) processes: usize,
    /// Times from a reading's arrival to its answer.
    pub(crate) waits: Histogram,
    /// Page that its front makes, if there is one: what that says of itself is beside it.
    pub(crate) page: PathBuf,
}

/// Account of the whole agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) accounts: Vec<Account>,
    /// Groups with a member's place here that nobody has taken yet: their transport is waited for.
    pub(crate) waiting: Vec<String>,
}

/// Times of readings, none yet.
pub(crate) fn no_waits() -> Histogram {
    Histogram::new(&WAITS)
}

/// Span of so many ns in seconds.
pub(crate) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Accounts that the thread finds.
type Shared = Arc<Mutex<Arc<Told>>>;

/// The socket and its thread, which ends with this.
#[derive(Debug)]
pub(crate) struct Metrics {
    place: Listen,
    accounts: Shared,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    due: i64,
}

impl Metrics {
    /// Listens.
    ///
    /// # Errors
    /// Words for the operator: the place, the obstacle and the mend.
    pub(crate) fn start(listen: &Listen) -> Result<Metrics, String> {
        let option = "`listen` in [metrics] (or --metrics) and start the agent again";
        let mut server = Server::bind(listen).map_err(|why| unbound(listen, &why, option))?;
        let place = server.place().clone();
        let accounts = Shared::default();
        let over = Arc::<AtomicBool>::default();
        let (told, ends) = (Arc::clone(&accounts), Arc::clone(&over));
        let serve = move || {
            server.run(&ends, &mut || {
                let told = Arc::clone(&told.lock().unwrap_or_else(PoisonError::into_inner));
                families(&told)
            });
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve);
        let thread = thread.map_err(|why| format!("no metrics: no thread for them: {why}"))?;
        Ok(Metrics { place, accounts, over, thread: Some(thread), due: i64::MIN })
    }

    /// Place where they are served.
    pub(crate) fn place(&self) -> &Listen {
        &self.place
    }

    /// True if it is time for an account.
    pub(crate) fn is_due(&self, now: i64) -> bool {
        now >= self.due
    }

    /// Lays down an account.
    pub(crate) fn lay_down(&mut self, now: i64, account: Told) {
        self.due = now.saturating_add(EVERY);
        // Never waiting: if it is being read at this very moment, the next one will do.
        if let Ok(mut told) = self.accounts.try_lock() {
            *told = Arc::new(account);
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It has nothing to say in the end.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Labels of a member.
fn of(account: &Account) -> Labels {
    let report = &account.report;
    vec![("group", report.group.name.clone()), ("member", report.member.to_string())]
}

/// Labels of a member, and one more.
fn with(account: &Account, label: &'static str, word: &str) -> Labels {
    let mut labels = of(account);
    labels.push((label, word.to_owned()));
    labels
}

/// Makes families of what all members say.
struct All<'a>(&'a [Account]);

impl All<'_> {
    /// A sample for each member that has the value.
    fn each(
        &self,
        kind: MetricType,
        name: &'static str,
        unit: &str,
        help: &'static str,
        value: impl Fn(&Account) -> Option<f64>,
    ) -> Family {
        let samples = self.0.iter().filter_map(|one| Some((of(one), value(one)?)));
        Family::of(kind, name, unit, help, samples)
    }

    fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        value: impl Fn(&Report) -> Option<f64>,
    ) -> Family {
        self.each(MetricType::Gauge, name, "", help, |one| value(&one.report))
    }

    fn span(
        &self,
        name: &'static str,
        help: &'static str,
        ns: impl Fn(&Report) -> Option<i64>,
    ) -> Family {
        self.each(MetricType::Gauge, name, "seconds", help, |one| ns(&one.report).map(seconds))
    }

    fn flag(&self, name: &'static str, help: &'static str, is: impl Fn(&Report) -> bool) -> Family {
        self.gauge(name, help, |report| Some(number(is(report))))
    }

    fn count(
        &self,
        name: &'static str,
        help: &'static str,
        count: impl Fn(&Report) -> u64,
    ) -> Family {
        let value = |one: &Account| Some(count(&one.report) as f64);
        self.each(MetricType::Counter, name, "", help, value)
    }

    /// A sample for each member and each word of a label.
    fn by(
        &self,
        kind: MetricType,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl Fn(&Report) -> Vec<(String, f64)>,
    ) -> Family {
        let samples = self.0.iter().flat_map(|one| {
            let values = values(&one.report).into_iter();
            values.map(move |(word, value)| (with(one, label, &word), value))
        });
        Family::of(kind, name, "", help, samples)
    }
}

/// All that there is to tell.
pub(crate) fn families(told: &Told) -> Vec<Family> {
    let all = All(&told.accounts);
    let mut families = of_members(&told.accounts);
    families.push(places(told));
    families.extend(of_group(&all));
    families.extend(of_clock(&all));
    families.extend(of_messages(&all));
    families.extend(of_programs(&all));
    families
}

fn of_members(accounts: &[Account]) -> Vec<Family> {
    let about = |one: &Account| {
        let mut labels = with(one, "mode", &one.report.group.mode);
        labels.push(("order", one.report.group.order.clone()));
        labels.push(("transport", one.report.transport.clone()));
        labels
    };
    let waits = accounts.iter().map(|one| (of(one), one.waits.clone()));
    vec![
        Family::info("group_build", "The agent", [vec![("version", crate::VERSION.to_owned())]]),
        Family::info("group", "Each member here, and its group", accounts.iter().map(about)),
        Family::histograms(
            "group_read_wait",
            "seconds",
            "Time from a program's reading of the clock to its value: a round, as a rule",
            waits,
        ),
    ]
}

/// Places of members here, taken or not.
fn places(told: &Told) -> Family {
    let mut groups: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    let taken = told.accounts.iter().map(|one| (one.report.group.name.as_str(), [1, 0]));
    let waiting = told.waiting.iter().map(|group| (group.as_str(), [0, 1]));
    for (group, [taken, waiting]) in taken.chain(waiting) {
        let counts = groups.entry(group).or_default();
        let [all_taken, all_waiting] = counts;
        *all_taken += taken;
        *all_waiting += waiting;
    }
    let samples = groups.into_iter().flat_map(|(group, [taken, waiting])| {
        let sample = |state: &str, n: u32| {
            (vec![("group", group.to_owned()), ("state", state.to_owned())], f64::from(n))
        };
        [sample("taken", taken), sample("waiting", waiting)]
    });
    let help = "Places of members at this agent: taken, or waiting for what carries messages";
    Family::of(MetricType::Gauge, "group_places", "", help, samples)
}

/// The member's place in the group.
fn of_group(all: &All<'_>) -> Vec<Family> {
    let many = |n: usize| Some(n as f64);
    let words = |words: &[&str], is: &str| -> Vec<(String, f64)> {
        words.iter().map(|word| ((*word).to_owned(), number(*word == is))).collect()
    };
    let peers = |report: &Report, is: fn(&crate::MemberReport) -> bool| -> Vec<(String, f64)> {
        let peer = |one: &crate::MemberReport| (one.member.to_string(), number(is(one)));
        report.members.iter().map(peer).collect()
    };
    vec![
        all.span("group_uptime", "How long the agent has had the member's place", |report| {
            Some(report.uptime_ns)
        }),
        all.by(
            MetricType::Gauge,
            "group_phase",
            "Where the member stands: 1 for the phase it is in, 0 for the others",
            "phase",
            |report| words(&["outside", "joining", "live"], &report.phase),
        ),
        all.flag(
            "group_primary",
            "Whether the member is in the primary component, which alone advances: 1 or 0",
            |report| report.primary,
        ),
        all.gauge("group_generation", "Which primary component it is, from 1", |report| {
            Some(report.generation as f64)
        }),
        all.gauge("group_members", "Members that there can be", |report| {
            many(report.group.members.len())
        }),
        all.gauge("group_live_members", "Members that take part, observers too", |report| {
            many(report.members.iter().filter(|one| one.live).count())
        }),
        all.gauge("group_first_member", "The live member that proposes first", |report| {
            report.first.map(f64::from)
        }),
        all.by(
            MetricType::Gauge,
            "group_peer_connected",
            "Whether a member is connected: 1 or 0",
            "peer",
            |report| peers(report, |peer| peer.connected),
        ),
        all.by(
            MetricType::Gauge,
            "group_peer_suspect",
            "Whether a member's clock contradicts the majority's: 1 or 0",
            "peer",
            |report| peers(report, |peer| peer.suspect),
        ),
        all.by(
            MetricType::Counter,
            "group_won_rounds",
            "Rounds that a member was the synchronizer of",
            "peer",
            |report| {
                let won = |one: &crate::MemberReport| (one.member.to_string(), one.won as f64);
                report.members.iter().map(won).collect()
            },
        ),
        Family::of(
            MetricType::Gauge,
            "group_troubles",
            "",
            "Things that are not as they should be, as 'group status' names them, by kind",
            all.0.iter().flat_map(troubles),
        ),
        all.by(
            MetricType::Counter,
            "group_notices",
            "Notices for the operator, by kind, as the log has them",
            "kind",
            |report| {
                let counted = report.notices.iter();
                counted.map(|notice| (notice.kind.clone(), notice.count as f64)).collect()
            },
        ),
    ]
}

/// Kinds of trouble that a member or its front can see.
const TROUBLES: [&str; 11] = [
    "outside",
    "apart",
    "stateless",
    "stalled",
    "untimed",
    "away",
    "missed",
    "diverged",
    "blocked",
    "gone",
    "front",
];

fn troubles(one: &Account) -> Vec<(Labels, f64)> {
    let mut all = one.report.troubles();
    // Only numbers are made of them.
    let front = FrontReport::read(&one.page);
    all.extend(one.report.front_troubles(&front, |_| String::new()));
    let of_kind = |kind: &str| all.iter().filter(|trouble| trouble.kind == kind).count() as f64;
    TROUBLES.iter().map(|kind| (with(one, "kind", kind), of_kind(kind))).collect()
}

/// The group's clock as this member sees it.
fn of_clock(all: &All<'_>) -> Vec<Family> {
    let steering = |one: &Account| Some(one.report.steering_ppb as f64 / 1e9);
    vec![
        all.flag("group_tied", "Whether the group's clock is tied to UTC: 1 or 0", |report| {
            report.tied
        }),
        all.flag("group_timed", "Whether programs here get times: 1 or 0", |report| report.timed),
        all.span(
            "group_ahead_of_utc",
            "Group's clock - UTC by this member's clock; positive: the group's is ahead",
            |report| report.ahead_of_utc_ns,
        ),
        all.span(
            "group_error_bound",
            "How far the group's clock is from UTC at most, by this member",
            |report| report.error_bound_ns,
        ),
        all.span("group_utc_bound", "Bound of UTC by this member's clock", |report| {
            report.utc_bound_ns
        }),
        all.each(
            MetricType::Gauge,
            "group_steering",
            "ratio",
            "How much faster than the physical clocks the group's clock is made to go",
            steering,
        ),
    ]
}

/// Rounds, messages, and what waits.
fn of_messages(all: &All<'_>) -> Vec<Family> {
    let waiting = |report: &Report| {
        let waiting = &report.waiting;
        let of = |what: &str, n: usize| (what.to_owned(), n as f64);
        vec![
            of("operations", waiting.operations),
            of("commits", waiting.commits),
            of("messages", waiting.messages),
            of("causal", waiting.causal),
            of("values", waiting.values),
            of("disk", waiting.disk),
        ]
    };
    vec![
        all.count("group_rounds", "Rounds decided", |report| report.counts.rounds),
        all.count("group_sent_messages", "Messages sent, of all kinds", |report| {
            report.counts.messages_sent
        }),
        all.count("group_delivered_messages", "Messages delivered, foreign ones too", |report| {
            report.counts.messages_delivered
        }),
        all.count("group_foreign_messages", "Foreign or broken messages delivered", |report| {
            report.counts.foreign
        }),
        all.count("group_unheard_messages", "Messages that no program was there for", |report| {
            report.counts.unheard
        }),
        all.count("group_sent_proposals", "Proposals for rounds sent", |report| {
            report.counts.proposals_sent
        }),
        all.count(
            "group_suppressed_proposals",
            "Operations that needed no proposal from here",
            |report| report.counts.suppressed,
        ),
        all.count(
            "group_duplicate_proposals",
            "Proposals delivered for rounds that had been decided",
            |report| report.counts.duplicates,
        ),
        all.count(
            "group_cut_proposals",
            "Proposals that were cut, as they were too far ahead",
            |report| report.counts.cuts,
        ),
        all.count("group_clock_reports", "Reports of clocks delivered", |report| {
            report.counts.reports
        }),
        all.count("group_joins", "How often the member has asked to be let in", |report| {
            report.counts.joins_sent
        }),
        all.count("group_gaps", "How often the member had missed part of the stream", |report| {
            report.counts.gaps
        }),
        all.count("group_connections", "How often the transport was connected", |report| {
            report.transport_joins
        }),
        all.flag("group_connected", "Whether the transport is connected: 1 or 0", |report| {
            report.connected_to_transport
        }),
        all.span(
            "group_stalled",
            "For how long nothing has been delivered though messages are under way; 0: no such time",
            |report| Some(report.stalled_ns.unwrap_or(0)),
        ),
        all.by(
            MetricType::Gauge,
            "group_waiting",
            "Things that wait, by what they are: operations for a value, commits for a majority, and others",
            "what",
            waiting,
        ),
        all.span("group_longest_wait", "Wait of the oldest reading; 0: none waits", |report| {
            Some(report.waiting.longest_ns.unwrap_or(0))
        }),
    ]
}

/// Programs attached here.
fn of_programs(all: &All<'_>) -> Vec<Family> {
    let attachments = |report: &Report| {
        let programs = &report.programs;
        let of = |what: &str, n: u64| (what.to_owned(), n as f64);
        vec![
            of("accepted", programs.attached),
            of("refused", programs.refused),
            of("cut-off", programs.cut_off),
        ]
    };
    let processes = |one: &Account| Some(one.processes as f64);
    vec![
        all.each(
            MetricType::Gauge,
            "group_attached_processes",
            "",
            "Processes that are attached",
            processes,
        ),
        all.flag("group_program", "Whether the member's program is here: 1 or 0", |report| {
            report.programs.program
        }),
        all.gauge("group_threads", "Threads of the group", |report| {
            Some(report.thread_count as f64)
        }),
        all.by(
            MetricType::Counter,
            "group_attachments",
            "Attachments of processes, by what became of them",
            "outcome",
            attachments,
        ),
        all.count("group_reads", "Readings that came", |report| report.programs.reads),
        all.count("group_answers", "Readings answered", |report| report.programs.answers),
        all.count("group_reclaimed_reads", "Readings of dead processes", |report| {
            report.programs.reclaimed
        }),
    ]
}

#[cfg(test)]
mod tests;
