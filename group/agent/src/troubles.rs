//! Troubles by a member's report: who, and the reason.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use truechimer_group_front::{FrontReport, State};

use crate::report::{ApartReport, DifferenceReport, MemberReport, Report};

/// A reading that has waited for so long is blocked, ns.
const BLOCKED_NS: i64 = 2_000_000_000;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Trouble {
    /// At which member.
    pub member: u32,
    /// Kind of trouble: `outside`, `apart`, `stateless`, `stalled`, `untimed`, `away`, `missed`, `diverged`,
    /// `blocked`, `gone`, `front`.
    pub kind: &'static str,
    /// Cause, in words.
    pub why: String,
}

impl Trouble {
    /// The programs of these members began late. Where programs differ those are the likely cause,
    /// whichever of them it is seen at: rounds go to who reads first.
    pub fn blame(&mut self, late: &[u32]) {
        if self.kind == "diverged" && !late.is_empty() {
            self.why += &format!(
                "; the likely cause is the program of member {}, which began without the others' \
                 state",
                list(late)
            );
        }
    }
}

impl Report {
    /// All that is not as it should be, as far as this member knows: of itself, its program, and
    /// the others.
    #[must_use]
    pub fn troubles(&self) -> Vec<Trouble> {
        let mut all = Vec::new();
        let own = |kind, why: String| Trouble { member: self.member, kind, why };
        all.extend(self.standing().map(|(kind, why)| own(kind, why)));
        if self.phase == "live" {
            all.extend(self.members.iter().filter_map(|member| self.other(member)));
            all.extend(self.members.iter().filter_map(|member| self.difference(member)));
        }
        all.extend(self.program().into_iter().map(|(kind, why)| own(kind, why)));
        all
    }

    /// Troubles of the member's front, by what [`FrontReport::read`] has found: with itself, and with
    /// the replicas' programs. `time` puts a time into words, ns since 1970.
    #[must_use]
    pub fn front_troubles(
        &self,
        front: &io::Result<Option<FrontReport>>,
        time: impl Fn(i64) -> String,
    ) -> Vec<Trouble> {
        let own = |why| Trouble { member: self.member, kind: "front", why };
        let front = match front {
            Ok(Some(front)) => front,
            Ok(None) => return Vec::new(),
            Err(why) => return vec![own(format!("what its front says cannot be read: {why}"))],
        };
        let trouble = front.trouble(self.programs.program, FrontReport::now_ns());
        let mut all: Vec<Trouble> = trouble.map(own).into_iter().collect();
        if matches!(front.state, State::Answering | State::Waiting) {
            all.extend(front.peers.iter().filter_map(|peer| {
                let kind = match peer.standing.as_str() {
                    "follows" => return None,
                    "starts" => "stateless",
                    "behind" => "blocked",
                    "diverged" => "diverged",
                    _ => "gone",
                };
                let since = peer.since_ns.map(|ns| format!(", since {}", time(ns)));
                let why = peer.why.clone().unwrap_or_default() + &since.unwrap_or_default();
                Some(Trouble { member: peer.member, kind, why })
            }));
        }
        all
    }

    /// Trouble of the member itself: the kind of trouble and the reason.
    #[must_use]
    pub fn standing(&self) -> Option<(&'static str, String)> {
        let last = |kinds: &[&str]| {
            let notices = self.notices.iter().filter(|notice| kinds.contains(&&*notice.kind));
            notices.min_by_key(|notice| notice.age_ns).map(|notice| notice.last.clone())
        };
        match self.phase.as_str() {
            "live" => match self.stalled_ns {
                Some(ns) => Some((
                    "stalled",
                    format!(
                        "nothing has been delivered for {} s (does Corosync hang?)",
                        ns / 1_000_000_000
                    ),
                )),
                None if !self.timed => {
                    Some(("untimed", "the group's clock is not tied to UTC".to_owned()))
                }
                None => None,
            },
            "joining" => {
                if let Some(why) = self.why_apart() {
                    return Some(("apart", why));
                }
                let why = last(&["no-checkpoint", "not-let-in"]);
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let text = "it lacks the group's state, and waits to be let in";
                Some(("stateless", format!("{text}{why}")))
            }
            _ => Some(("outside", self.why_outside(last(&["transport"])))),
        }
    }

    /// Explains why this member begins nothing, where others stand apart and too few are left, or some that
    /// stand apart are live.
    fn why_apart(&self) -> Option<String> {
        let strangers =
            || self.members.iter().filter_map(|one| Some((one.member, one.apart.as_ref()?)));
        let ours = self.members.iter().filter(|one| {
            self.group.members.contains(&one.member) && one.connected && one.apart.is_none()
        });
        let (ours, of) = (ours.count(), self.group.members.len());
        let wait = match ours * 2 > of {
            true if !strangers().any(|(_, apart)| apart.live) => return None,
            true => "it waits until none of these is live any longer".to_owned(),
            false => {
                format!("it waits for a majority that is like it, and knows of {ours} of {of}")
            }
        };
        // Each reason once, with its members.
        let mut reasons: BTreeMap<(String, &str), Vec<u32>> = BTreeMap::new();
        for (member, apart) in strangers() {
            reasons.entry((apart.what(), apart.mend())).or_default().push(member);
        }
        let texts: Vec<String> = reasons
            .iter()
            .map(|((what, mend), who)| {
                let (s, has) = if let [_] = who[..] { ("", "has") } else { ("s", "have") };
                format!("member{s} {} {has} {what} ({mend})", list(who))
            })
            .collect();
        (!texts.is_empty()).then(|| format!("{}: {wait}", texts.join(", ")))
    }

    fn why_outside(&self, transport: Option<String>) -> String {
        if self.programs.wanted && !self.programs.program {
            return "it is out of the group as long as its program is not there, which has the \
                    state (checkpoints)"
                .to_owned();
        }
        if !self.connected_to_transport {
            let why = transport.map_or_else(String::new, |why| format!(": {why}"));
            return format!("it is not connected to {}{why}", self.transport);
        }
        let members = &self.group.members;
        let (here, away): (Vec<u32>, Vec<u32>) =
            members.iter().partition(|member| self.connected.contains(member));
        if here.len() * 2 > members.len() {
            return "a majority is connected, and this member has not come in again yet".to_owned();
        }
        format!(
            "no majority of the members: {} of {} are connected, without {}",
            here.len(),
            members.len(),
            list(&away)
        )
    }

    /// Trouble of another member.
    fn other(&self, member: &MemberReport) -> Option<Trouble> {
        let (kind, why) = match member {
            MemberReport { apart: Some(apart), .. } => {
                let why =
                    format!("it has {}, and takes no part here: {}", apart.what(), apart.mend());
                return Some(Trouble { member: member.member, kind: "apart", why });
            }
            _ if member.member == self.member || member.observer => return None,
            MemberReport { connected: false, .. } => ("away", "it is not connected"),
            MemberReport { live: false, .. } => {
                ("stateless", "it is connected and lacks the group's state")
            }
            MemberReport { fenced: true, differs: None, .. } => {
                ("missed", "its program has missed part of what the group did")
            }
            _ => return None,
        };
        Some(Trouble { member: member.member, kind, why: why.to_owned() })
    }

    /// Difference of a member's program from the others'.
    fn difference(&self, member: &MemberReport) -> Option<Trouble> {
        let DifferenceReport { thread, round, call, others, since_ns } = member.differs.as_ref()?;
        let seconds = self.view_ns.unwrap_or(*since_ns).saturating_sub(*since_ns) / 1_000_000_000;
        let (whose, verdict) = if member.fenced {
            ("a majority's", "and is fenced: it gets no values until it is started anew")
        } else {
            (
                "others'",
                "and no majority can tell which is right: replies that depend on it wait until one of the two is ended",
            )
        };
        let why = format!(
            "its program has differed from {whose} for {seconds} s, {verdict}; it read round \
             {round} of thread {thread} by {call}, and they by {others}"
        );
        Some(Trouble { member: member.member, kind: "diverged", why })
    }

    /// True if the program here began while the others' were running, and lacks what they had
    /// read.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.programs.began == "late"
    }

    /// Troubles of the program here.
    fn program(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let own = self.members.iter().find(|one| one.member == self.member);
        let differs = own.is_some_and(|own| own.differs.is_some());
        if self.programs.missed && self.programs.family.is_some() && !differs {
            let why = "its program has missed part of what the group did: it is to be started anew";
            all.push(("missed", why.to_owned()));
        }
        if self.is_late() {
            let why = "its program began while those of other members were running, and lacks what \
                       they had read: it needs their state, or all are to be started together";
            all.push(("stateless", why.to_owned()));
        }
        let notice = self.notices.iter().find(|notice| notice.kind == "divergence");
        if let Some(notice) = notice.filter(|_| !differs) {
            all.push(("diverged", notice.last.clone()));
        }
        let blocked = self.waiting.longest_ns.filter(|ns| *ns > BLOCKED_NS);
        if let Some(ns) = blocked {
            let why = self.why_blocked();
            let seconds = ns / 1_000_000_000;
            all.push((
                "blocked",
                format!("its program has waited for a reading for {seconds} s: {why}"),
            ));
        }
        let running = self.members.iter().filter(|one| one.program && !one.observer).count();
        let majority = self.group.members.len() / 2 + 1;
        let runs = own.is_some_and(|own| own.program) && !self.programs.began.is_empty();
        if self.waiting.commits > 0 && runs && self.group.mode != "passive" && running < majority {
            all.push((
                "blocked",
                format!(
                    "{} of its program's replies wait for a majority of the programs: {running} of \
                     {} run",
                    self.waiting.commits,
                    self.group.members.len()
                ),
            ));
        }
        let others = &self.programs.left_behind_by;
        if !others.is_empty() {
            let why = format!("its program is gone, and those of member {} go on", list(others));
            all.push(("gone", why));
        }
        all
    }

    /// Explains why this member is a backup, and what it waits for.
    fn why_backup(&self, first: u32, drained: bool) -> String {
        let there = self.members.iter().any(|one| one.member == first && one.program);
        let drained = if drained { ", drained by an operator" } else { "" };
        let since = self.handover.as_ref().filter(|handover| handover.to == first);
        let since = since.map_or_else(String::new, |handover| {
            let tenths = handover.ago_ns.max(0) / 100_000_000;
            format!(" for {}.{} s, as {}", tenths / 10, tenths % 10, handover.why)
        });
        let waits = if there {
            "a value comes when its program has read as far: does that have work, and is it not \
             stuck?"
        } else {
            "no member has a program that reads"
        };
        format!(
            "this member is a backup in the mode {}{drained}: member {first} has been the \
             primary{since}; {waits}",
            self.group.mode
        )
    }

    /// Explains why a reading of the time at present gets no value.
    fn why_not_now(&self) -> String {
        let majority = self.group.members.len() / 2 + 1;
        let takes_over = if self.programs.wanted || self.group.mode == "passive" {
            ", or this member's program has not taken over a checkpoint yet"
        } else {
            ""
        };
        format!(
            "it is of the time at present, and {majority} of {} members' agents have not \
             acknowledged it{takes_over}",
            self.group.members.len()
        )
    }

    /// Explains why a reading gets no value.
    #[must_use]
    pub fn why_blocked(&self) -> String {
        if let Some((_, why)) = self.standing() {
            return why;
        }
        let drained = self.members.iter().any(|one| one.member == self.member && one.drained);
        if self.waiting.longest_is_now && self.waiting.disk == 0 {
            return self.why_not_now();
        }
        if self.programs.began == "waits" && drained {
            return "an operator has drained this member: no program begins here until it is \
                    promoted or demoted"
                .to_owned();
        }
        if self.programs.began == "waits" {
            return "programs of other members, which it starts with, have not started".to_owned();
        }
        let turn = self.first.filter(|first| *first != self.member);
        match turn {
            _ if self.waiting.disk > 0 => {
                "the disk does not take the clock's floor (see the agent's --state)".to_owned()
            }
            Some(first) if self.group.mode != "active" => self.why_backup(first, drained),
            _ if self.members.iter().any(|one| one.member == self.member && one.suspect) => {
                "this member's clock contradicts the majority's".to_owned()
            }
            _ => "it is proposed for, and not decided yet".to_owned(),
        }
    }
}

impl ApartReport {
    /// Difference of such a member.
    fn what(self) -> String {
        let (what, live) = match self.version {
            Some(version) => (format!("version {version} of the protocol"), ", live by it"),
            None => ("other settings".to_owned(), ", live by these"),
        };
        if self.live { what + live } else { what }
    }

    /// Cure.
    fn mend(self) -> &'static str {
        match self.version {
            Some(_) => "run one version of truechimer on all nodes",
            None => {
                "members, mode, order, steering, horizon, lease and the like must be the same on \
                 all nodes; 'truechimer group status --json' has them"
            }
        }
    }
}

fn list(members: &[u32]) -> String {
    members.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
