//! Finding agents and asking them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer_group::{Digest, Member, Thread};
use truechimer_group_agent::{Report, Trouble};
use truechimer_group_client::link::Refused;
use truechimer_group_client::{
    AttachError, PlaceError, Watcher, Where, directories, members, valid_group,
};

use truechimer_group_front::FrontReport;

use super::Place;
use truechimer_command::Failure;

/// Time that an agent has to answer. It does so at once, unless it has been stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between looks for an agent that is not there yet.
const LOOK: Duration = Duration::from_millis(50);
/// The most sockets that are looked at.
const MOST: usize = 1024;

/// All agents' sockets that fit, in order.
pub fn find(place: &Place, group: Option<&str>) -> Result<Vec<Where>, Failure> {
    search(place, group).map_err(Missing::failure)
}

/// Reason why none was found.
enum Missing {
    /// There is none: one may come.
    Nobody(Failure),
    /// No permission to look for it.
    Denied(Failure),
}

impl Missing {
    fn failure(self) -> Failure {
        match self {
            Missing::Nobody(why) | Missing::Denied(why) => why,
        }
    }
}

fn search(place: &Place, group: Option<&str>) -> Result<Vec<Where>, Missing> {
    let searched = place.directory.clone().map_or_else(directories, |one| vec![one]);
    let (mut found, mut others, mut denied) = (BTreeSet::new(), BTreeSet::new(), None);
    for directory in &searched {
        let names = group.map_or_else(|| names(directory), |name| Ok(vec![name.to_owned()]));
        let listed = names.and_then(|names| {
            let of = |name: String| members(&directory.join(&name)).map(|members| (name, members));
            names.into_iter().map(of).collect::<Result<Vec<_>, _>>()
        });
        match listed {
            Ok(listed) => {
                for (name, member) in
                    listed.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, *one)))
                {
                    if place.member.is_none_or(|only| only == member) && found.len() < MOST {
                        found.insert((name.clone(), member, directory.clone()));
                    } else if others.len() < MOST {
                        others.insert(member);
                    }
                }
            }
            Err(why) => drop(denied.get_or_insert(why)),
        }
    }
    match denied {
        Some(PlaceError::Directory { path, error })
            if found.is_empty() && error.kind() == ErrorKind::PermissionDenied =>
        {
            let path = path.display();
            let text = "this user may not look for agents there; run as the agent's user or root";
            return Err(Missing::Denied(Failure::new(path, text)));
        }
        Some(why) if found.is_empty() => {
            return Err(Missing::Denied(Failure::Said(why.to_string())));
        }
        _ => {}
    }
    if found.is_empty() {
        return Err(Missing::Nobody(nobody(&searched, group, place.member, &others)));
    }
    let place = |(group, member, directory): (String, Member, PathBuf)| Where {
        directory: Some(directory),
        group,
        member: Some(member),
    };
    Ok(found.into_iter().map(place).collect())
}

/// Finds them when all of them are live, or when the wait is over and there is at least one.
pub fn awaited(
    place: &Place,
    group: Option<&str>,
    end: Instant,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Where>, Failure> {
    loop {
        let late = Instant::now() >= end || stop();
        match search(place, group) {
            Err(Missing::Nobody(_)) if !late => {}
            Err(why) => return Err(why.failure()),
            Ok(found) => {
                let mut live = true;
                for one in &found {
                    match look(one) {
                        Ok(Some(report)) => live &= report.phase == "live",
                        Ok(None) => live = false,
                        Err(why) => return Err(why),
                    }
                }
                if live || late {
                    return Ok(found);
                }
            }
        }
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Report of an agent; none if there is none, or it does not answer.
fn look(at: &Where) -> Result<Option<Report>, Failure> {
    let mut watcher = match Watcher::attach(at) {
        Ok(watcher) => watcher,
        Err(
            AttachError::Place(PlaceError::None { .. })
            | AttachError::Refused { why: Refused::NoAgent | Refused::Silent, .. },
        ) => return Ok(None),
        Err(why) => return Err(Failure::Said(why.to_string())),
    };
    let text = watcher.status(PATIENCE).ok().flatten();
    Ok(text.and_then(|text| Report::from_json(&text).ok()))
}

fn nobody(
    searched: &[PathBuf],
    group: Option<&str>,
    member: Option<Member>,
    others: &BTreeSet<Member>,
) -> Failure {
    let places: Vec<_> = searched.iter().map(|place| place.display().to_string()).collect();
    let name = group.unwrap_or("NAME");
    let group = group.map_or_else(String::new, |group| format!(" of group '{group}'"));
    let member = member.map_or_else(String::new, |member| format!(" for member {member}"));
    let others: Vec<_> = others.iter().map(Member::to_string).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        [one] => format!(" (only one for member {one})"),
        several => format!(" (only those for the members {})", several.join(", ")),
    };
    Failure::Said(format!(
        "no agent{group}{member} in {}{others}: start one with `truechimer group agent --group {name}`, or \
         name its --directory",
        places.join(" or ")
    ))
}

/// The only one that fits.
pub fn one(place: &Place, group: Option<&str>) -> Result<Where, Failure> {
    only(find(place, group)?)
}

/// Finds the one when it is live or the wait is over.
pub fn one_awaited(place: &Place, group: Option<&str>, end: Instant) -> Result<Where, Failure> {
    only(awaited(place, group, end, &|| false)?)
}

fn only(found: Vec<Where>) -> Result<Where, Failure> {
    match <[Where; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) => {
            let name = |place: &Where| match place.member {
                Some(member) => format!("{} of {}", member, place.group),
                None => place.group.clone(),
            };
            let all: Vec<String> = found.iter().map(name).collect();
            let groups: BTreeSet<&str> = found.iter().map(|place| place.group.as_str()).collect();
            let options = if groups.len() > 1 { "--group and --member" } else { "--member" };
            Err(Failure::new(
                "several members are here",
                format!("{}: say which with {options}", all.join(", ")),
            ))
        }
    }
}

/// The logical thread of a command's own that has this name: the same on all nodes and in all
/// versions.
pub fn thread(name: &str) -> Thread {
    Thread::shared(Digest::of(name.as_bytes()).0)
}

/// The groups that a directory has something of, by name.
fn names(directory: &Path) -> Result<Vec<String>, PlaceError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(PlaceError::Directory { path: directory.into(), error }),
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        (valid_group(&name) && entry.path().is_dir()).then_some(name)
    };
    Ok(entries.take(MOST).filter_map(name).collect())
}

/// Asks one agent.
pub fn report(of: &Where) -> Result<Report, Failure> {
    let said = |why: &dyn std::fmt::Display| Failure::Said(why.to_string());
    let mut watcher = Watcher::attach(of).map_err(|why| said(&why))?;
    let text = watcher.status(PATIENCE).map_err(|why| said(&why))?;
    let text = text.ok_or_else(|| {
        Failure::Said(format!("the agent of group '{}' does not answer: is it stopped?", of.group))
    })?;
    Report::from_json(&text).map_err(|why| {
        Failure::Said(format!(
            "cannot make out what the agent of group '{}' says ({why}): is it of another version?",
            of.group
        ))
    })
}

/// Knowledge of a member, its program and its front.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// Report of its agent.
    #[serde(flatten)]
    pub report: Report,
    /// Report of its front, if it has or had one.
    pub front: Option<FrontReport>,
    /// Troubles of both.
    pub troubles: Vec<Trouble>,
}

impl Found {
    fn new(of: &Where, report: Report) -> Found {
        let page = of.socket().map(|path| path.with_file_name(format!("{}.front", report.member)));
        let front = page.map_or(Ok(None), |page| FrontReport::read(&page));
        let mut troubles = report.troubles();
        troubles.extend(report.front_troubles(&front, super::screen::time));
        let front = front.ok().flatten();
        Found { report, front, troubles }
    }
}

/// Names the programs that began late where those of their group differ.
fn blame(all: &mut [Found]) {
    let late = all.iter().map(|found| &found.report).filter(|report| report.is_late());
    let late: Vec<(String, u32)> =
        late.map(|report| (report.group.name.clone(), report.member)).collect();
    for Found { report, troubles, .. } in all {
        let here = late.iter().filter(|(group, _)| *group == report.group.name);
        let here: Vec<u32> = here.map(|(_, member)| *member).collect();
        troubles.iter_mut().for_each(|trouble| trouble.blame(&here));
    }
}

/// Asks all of them. Those that are gone are left out as long as one answers.
pub fn reports(place: &Place, group: Option<&str>) -> Result<Vec<Found>, Failure> {
    let (mut reports, mut first_error) = (Vec::new(), None);
    for one in find(place, group)? {
        match report(&one) {
            Ok(report) => reports.push(Found::new(&one, report)),
            Err(why) => {
                first_error.get_or_insert(why);
            }
        }
    }
    blame(&mut reports);
    match first_error {
        Some(why) if reports.is_empty() => Err(why),
        _ => Ok(reports),
    }
}
