//! Votes: words of the fronts to each other on their programs, and what follows from them.

use std::time::{Duration, Instant};

use truechimer_group::Phase;

use crate::order::{PeerStanding, Replied};
use crate::report::{FrontReport, PeerReport, State};
use crate::streams::Difference;
use crate::wire::{MOST_REPLIED, Message};

use super::{Ended, Front, Readers};

/// Differences that are said; further ones are counted.
const MOST_SAID: u64 = 20;
/// Longest part of a silence of the whole group that counts, ns.
const GAP_NS: i64 = 1_000_000_000;
/// Interval at which the report is written, besides whenever clients are answered or no more.
const LOOK: Duration = Duration::from_secs(1);

/// Where this front stands with the others' programs.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// Last words to the others: how much the program has dealt with, and when.
    told: Option<(u64, Instant)>,
    /// Members that have left out replies for long.
    late: Vec<Difference>,
    /// True if clients were answered.
    answering: bool,
    /// When a report was written last.
    reported: Option<Instant>,
    /// Number of forgotten words that was said last.
    forgotten: u64,
}

impl Front {
    /// True if replies wait for a majority of the programs, and who differs is out.
    pub(super) fn votes(&self) -> bool {
        self.replies.waits() && self.settings.clock
    }

    /// A message has come, and the time gone on: whose programs count now.
    pub(super) fn count(&mut self, before: i64) {
        let mut counted = self.order.following();
        counted.remove(&self.order.me().member);
        self.streams.count(counted);
        if self.order.is_in() {
            let gap = self.order.time().saturating_sub(before).clamp(0, GAP_NS);
            let patience = i64::try_from(self.settings.patience.as_nanos()).unwrap_or(i64::MAX);
            let differences = self.streams.pass(gap, patience);
            self.votes.late.extend(differences);
        }
    }

    /// Others' replies differ from our program's.
    pub(super) fn differ(&mut self, differences: Vec<Difference>) -> Result<(), String> {
        for Difference { with, conn, length } in differences {
            if !self.settings.clock {
                // They may.
                if self.streams.different <= MOST_SAID {
                    self.says.push(format!(
                        "the replies of replica {with} on connection {conn} differ from those \
                         here within {length} bytes"
                    ));
                }
            } else if let Some(from) = self.order.front_of(with) {
                self.send(&Message::Differs { from, conn, length })?;
            }
        }
        Ok(())
    }

    /// Tells the others what the program has done, and looks who follows.
    pub(super) fn vote(&mut self) -> Result<(), String> {
        let late = std::mem::take(&mut self.votes.late);
        self.differ(late)?;
        if self.order.is_in() {
            while self.streams.has_news() {
                let news = self.streams.news(MOST_REPLIED);
                if !news.is_empty() {
                    self.tell_done(news)?;
                }
            }
            let told = self.votes.told;
            let due = told.is_none_or(|(done, at)| {
                done != self.work.done() && at.elapsed() >= self.settings.tick
            });
            if due {
                self.tell_done(Vec::new())?;
                let waiting = self.replies.waiting_of(self.order.me().member);
                self.streams.forget(self.work.done(), &waiting);
            }
        }
        self.look_who_follows()?;
        self.say_forgotten();
        self.report();
        Ok(())
    }

    /// Says that others' words were forgotten, and again when they are twice as many.
    fn say_forgotten(&mut self) {
        let now = self.streams.forgotten;
        if now > 2 * self.votes.forgotten {
            self.votes.forgotten = now;
            self.says.push(format!(
                "this replica's program is far behind the others': {now} of their replies' \
                 checksums were forgotten; a reply may be withheld that a majority has given"
            ));
        }
    }

    /// The others may not know what they were told.
    pub(super) fn tell_again(&mut self) {
        self.votes.told = None;
        self.streams.tell_again();
    }

    /// Tells the others how far the program is.
    pub(super) fn tell_done(&mut self, replied: Vec<Replied>) -> Result<(), String> {
        // What is not told yet belongs to what was done before it.
        let before = self.votes.told.map_or(0, |(done, _)| done);
        let count = if self.streams.has_news() { before } else { self.work.done() };
        let now = Instant::now();
        (self.spoke, self.votes.told) = (now, Some((count, now)));
        self.send(&Message::Done { count, replied })
    }

    /// Stops answering where no majority of the programs follows, and begins again.
    fn look_who_follows(&mut self) -> Result<(), String> {
        let may = self.order.may_answer();
        if std::mem::replace(&mut self.votes.answering, may) == may || !self.order.is_in() {
            return Ok(());
        }
        self.votes.reported = None;
        let (following, all) = (self.order.following().len(), self.settings.replicas);
        if may {
            self.says.push(format!("answering: {following} of {all} replicas' programs follow"));
            return Ok(());
        }
        let why = self.why_not();
        self.says.push(format!("not answering: {why}; the clients' connections are closed"));
        let clients: Vec<u32> = self.clients.numbers().collect();
        self.clients.clear();
        self.replies.clear();
        if let Some(readers) = &mut self.readers {
            // It may be the program that hangs: nothing else closes their connections then.
            readers.clear();
        }
        for client in clients {
            self.close(client);
        }
        Ok(())
    }

    /// Reason why nobody is answered, though this front is in.
    pub(super) fn why_not(&self) -> String {
        let (following, all) = (self.order.following().len(), self.settings.replicas);
        let mut why = format!("{following} of {all} replicas' programs follow");
        let known = self.order.standings();
        for (member, standing) in &known {
            let text = match standing {
                PeerStanding::Follows => continue,
                PeerStanding::Starts => "it starts from a checkpoint",
                PeerStanding::Behind(why)
                | PeerStanding::Diverged(why)
                | PeerStanding::Gone(why) => why,
            };
            why += &format!("; replica {member}: {text}");
        }
        why
    }

    /// Writes the report, once in a while.
    fn report(&mut self) {
        let now = Instant::now();
        let since = self.votes.reported.map(|at| now.saturating_duration_since(at));
        if since.is_some_and(|since| since < LOOK) {
            return;
        }
        self.votes.reported = Some(now);
        // A file that cannot be written is missed by whoever looks for it.
        let _ = self.make_report().write(&self.settings.page);
    }

    /// The last report: none if all is well.
    pub(super) fn report_end(&mut self, ended: &Ended) {
        match ended {
            Ended::Stopped => {
                let _ = std::fs::remove_file(FrontReport::path(&self.settings.page));
            }
            Ended::Unfit(why) => {
                let mut report = self.make_report();
                (report.state, report.why) = (State::Stopped, Some(why.clone()));
                let _ = report.write(&self.settings.page);
            }
        }
    }

    fn make_report(&self) -> FrontReport {
        let (state, why) = if !self.order.is_in() {
            let why = match self.phase {
                Some(Phase::Live) => {
                    let waits = self.order.waits_for().map(|what| format!("it waits for {what}"));
                    waits.or_else(|| self.program.misses()).or_else(|| {
                        let busy = self.work.is_restoring();
                        busy.then(|| "its program starts from a checkpoint".to_string())
                    })
                }
                _ => Some("this member is outside the majority".to_string()),
            };
            (State::Outside, why.or_else(|| Some("it has just begun".to_string())))
        } else if !self.order.may_answer() {
            (State::Waiting, Some(self.why_not()))
        } else {
            (State::Answering, None)
        };
        let peers = self.order.standings().into_iter().map(|(member, standing)| {
            let (standing, why) = match standing {
                PeerStanding::Follows => ("follows", None),
                PeerStanding::Starts => {
                    ("starts", Some("its program starts from a checkpoint".into()))
                }
                PeerStanding::Behind(why) => ("behind", Some(why)),
                PeerStanding::Diverged(why) => ("diverged", Some(why)),
                PeerStanding::Gone(why) => ("gone", Some(why)),
            };
            let lost = self.order.lost(member);
            PeerReport {
                member: member.0,
                standing: standing.into(),
                why,
                since_ns: lost.map(|lost| lost.since_ns),
                request: lost.map(|lost| lost.request),
            }
        });
        FrontReport {
            pid: std::process::id(),
            at_ns: FrontReport::now_ns(),
            state,
            why,
            replicas: self.settings.replicas,
            following: self.order.following().len(),
            count: self.order.total(),
            done: self.work.done(),
            same: self.streams.same,
            different: self.streams.different,
            reads: self.readers.as_ref().map_or(0, Readers::given),
            time_ns: self.program.page().time(),
            peers: peers.collect(),
        }
    }
}
