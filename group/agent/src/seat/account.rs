//! Account that a member gives of itself.

use std::path::Path;

use truechimer_group::{Agreed, Apart, Cause, Fence, Handover, Mode, Phase, Status};
use truechimer_group_client::Began;
use truechimer_group_client::link::Role;

use super::Seat;
use crate::clocks::Clocks;
use crate::config::Carrier;
use crate::floor::Floor;
use crate::metrics::Account;
use crate::report::{
    ApartReport, Counts, DifferenceReport, GroupReport, HandoverReport, MOST_PROCESSES,
    MOST_THREADS, MemberReport, ProcessReport, Programs, Report, ThreadReport, ValueReport,
    Waiting,
};

impl Seat {
    /// Everything, for `truechimer group status`.
    pub(crate) fn account(&self, clocks: &Clocks) -> Report {
        let processes = self.door.processes().take(MOST_PROCESSES).map(process).collect();
        self.report(clocks, processes)
    }

    /// Numbers, for metrics: no file is read for them here.
    pub(crate) fn figures(&self, clocks: &Clocks) -> Account {
        Account {
            report: self.report(clocks, Vec::new()),
            processes: self.door.processes().count(),
            waits: self.waits.clone(),
            page: self.door.path().with_file_name(format!("{}.front", self.member.0)),
        }
    }

    fn report(&self, clocks: &Clocks, processes: Vec<ProcessReport>) -> Report {
        let now = clocks.read();
        let status = self.engine.status();
        let view = self.engine.view(now).map(|time| time.0);
        let bound = now.utc.map(|utc| {
            let before = utc.best.saturating_sub(utc.bound.earliest);
            utc.bound.latest.saturating_sub(utc.best).max(before)
        });
        let error = view.zip(now.utc).map(|(view, utc)| {
            let behind = utc.bound.latest.saturating_sub(view).saturating_abs();
            view.saturating_sub(utc.bound.earliest).saturating_abs().max(behind)
        });
        let gated = self.gate.len();
        let present = self.now.since().min();
        let oldest = self.reads.values().map(|read| read.since).chain(present).min();
        Report {
            version: crate::VERSION.to_owned(),
            pid: std::process::id(),
            uptime_ns: now.physical.saturating_sub(self.started),
            group: self.group_report(),
            member: self.member.0,
            transport: match self.membership.carrier {
                Carrier::Corosync => "corosync".to_owned(),
                Carrier::Local(_) => "local".to_owned(),
            },
            connected_to_transport: self.is_joined(),
            transport_joins: self.joins,
            phase: match status.phase {
                Phase::Outside => "outside",
                Phase::Joining => "joining",
                Phase::Live => "live",
            }
            .to_owned(),
            stalled_ns: self
                .is_joined()
                .then(|| self.flow.stalled(!self.outbox.is_empty(), now.physical))
                .flatten(),
            tied: status.tied,
            timed: self.is_timed(&now),
            primary: status.phase != Phase::Outside,
            generation: status.point.generation,
            index: status.point.index,
            connected: status.connected.iter().map(|member| member.0).collect(),
            asking: status.asking.iter().map(|member| member.0).collect(),
            members: members(&status, view),
            first: status.first.map(|member| member.0),
            handover: status.handover.map(handover),
            recent_synchronizers: status.recent.iter().map(|member| member.0).collect(),
            last: status.last.map(value),
            view_ns: view,
            offset_ns: status.offset_ns,
            ahead_of_utc_ns: view.zip(now.utc).map(|(view, utc)| view.saturating_sub(utc.best)),
            utc_bound_ns: bound,
            error_bound_ns: error,
            utc: match clocks.why_not() {
                Some(why) => why.to_owned(),
                None => clocks.description(),
            },
            steering_ppb: status.steering_ppb,
            counts: Counts {
                rounds: status.rounds,
                messages_sent: status.messages_sent,
                messages_delivered: status.messages_delivered,
                foreign: status.foreign,
                proposals_sent: status.proposals_sent,
                suppressed: status.suppressed,
                duplicates: status.duplicates,
                cuts: status.cuts,
                reports: status.reports,
                gaps: status.gaps,
                joins_sent: status.joins_sent,
                joins_heard: status.joins_heard,
                state_parts: status.state_parts,
                state_parts_unfit: status.state_parts_unfit,
                unheard: self.unheard,
            },
            waiting: Waiting {
                operations: status.pending.saturating_add(gated.0 + self.now.open()),
                longest_ns: oldest.map(|since| crate::sys::raw_ns().saturating_sub(since)),
                longest_is_now: present.is_some() && present == oldest,
                commits: status.commits,
                messages: status.queued.saturating_add(self.outbox.len()).saturating_add(gated.1),
                causal: status.held,
                values: status.kept,
                disk: self.held.len(),
            },
            threads: threads(&status),
            thread_count: status.threads.len(),
            programs: self.programs(processes),
            floor_ns: Floor::kept(&self.floor),
            notices: self.notices.report(now.physical),
        }
    }

    fn group_report(&self) -> GroupReport {
        let group = &self.membership.group;
        GroupReport {
            name: group.name.clone(),
            members: group.universe.iter().map(|member| member.0).collect(),
            mode: match group.mode {
                Mode::Active => "active",
                Mode::SemiActive => "semi-active",
                Mode::Passive => "passive",
            }
            .to_owned(),
            order: group.order.to_string(),
            rotate: group.rotate,
            steering_cap_ppb: group.steering_cap_ppb,
            steering_time_ns: group.steering_time_ns,
            horizon_ns: group.horizon_ns,
            lease_ns: group.lease_ns,
            causal_horizon_ns: group.causal_horizon_ns,
            digest: format!("{:016x}", group.digest()),
        }
    }

    fn programs(&self, processes: Vec<ProcessReport>) -> Programs {
        let counts = self.door.counts();
        Programs {
            program: self.door.program().is_some(),
            wanted: self.membership.checkpoints,
            family: self.door.family().map(|family| format!("{family:016x}")),
            processes,
            missed: self.door.missed().is_some(),
            began: match self.began {
                Began::Unknown => "",
                Began::Waits => "waits",
                Began::Together => "together",
                Began::Late => "late",
            }
            .to_owned(),
            left_behind_by: self.left_behind_by(),
            attached: counts.attached,
            refused: counts.refused,
            cut_off: counts.cut_off,
            reads: counts.reads,
            answers: counts.answers,
            reclaimed: counts.reclaimed,
        }
    }
}

fn members(status: &Status, view: Option<i64>) -> Vec<MemberReport> {
    let report = |member: &truechimer_group::MemberStatus| MemberReport {
        member: member.member.0,
        observer: member.observer,
        connected: status.connected.contains(&member.member),
        live: member.live,
        apart: member.apart.map(|(why, live)| {
            let version = match why {
                Apart::Settings => None,
                Apart::Version(version) => Some(version),
            };
            ApartReport { version, live }
        }),
        suspect: member.suspect,
        ahead_of_utc_ns: member.behind_utc_ns.map(i64::saturating_neg),
        report_age_ns: view.zip(member.reported_at).map(|(now, then)| now.saturating_sub(then)),
        won: member.won,
        rank: member.rank,
        program: member.has_program,
        drained: member.drained,
        fenced: member.fenced,
        differs: member.differs.as_ref().map(difference),
    };
    status.members.iter().map(report).collect()
}

fn difference(fence: &Fence) -> DifferenceReport {
    DifferenceReport {
        thread: fence.thread.to_string(),
        round: fence.round.0,
        call: fence.ours.to_string(),
        others: fence.theirs.to_string(),
        since_ns: fence.since.0,
    }
}

fn handover(handover: Handover) -> HandoverReport {
    HandoverReport {
        from: handover.from.0,
        to: handover.to.0,
        cause: match handover.cause {
            Cause::Left => "left",
            Cause::Ended => "ended",
            Cause::Began => "began",
            Cause::Drained => "drained",
            Cause::Suspect => "suspect",
            Cause::Operator => "operator",
            Cause::Fenced => "fenced",
        }
        .to_owned(),
        why: handover.to_string(),
        ago_ns: handover.ago_ns,
    }
}

fn process((pid, role, reads): (u32, Role, u64)) -> ProcessReport {
    let name =
        truechimer_config::read(Path::new(&format!("/proc/{pid}/comm")), 64).unwrap_or_default();
    let name = truechimer_config::printable(name.trim_end());
    ProcessReport { pid, name, messages: role == Role::Program, reads }
}

fn value(agreed: Agreed) -> ValueReport {
    ValueReport {
        time_ns: agreed.time.0,
        error_bound_ns: agreed.error_bound(),
        utc_earliest_ns: agreed.utc.map(|bound| bound.earliest),
        utc_latest_ns: agreed.utc.map(|bound| bound.latest),
        synchronizer: agreed.synchronizer.0,
    }
}

/// Those that are least up to date, which are of most interest.
fn threads(status: &Status) -> Vec<ThreadReport> {
    let mut threads: Vec<ThreadReport> = status
        .threads
        .iter()
        .map(|(thread, here)| ThreadReport {
            thread: thread.to_string(),
            read: here.read.0,
            decided: here.decided.0,
            surplus: here.decided.0.saturating_sub(here.read.0),
            waits: here.waits,
        })
        .collect();
    threads.sort_by_key(|thread| std::cmp::Reverse((thread.surplus, thread.read)));
    threads.truncate(MOST_THREADS);
    threads
}
