//! Finding agents and asking them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use truechimer_group::Member;
use truechimer_group_agent::Report;
use truechimer_group_client::{Watcher, Where, directories, members, valid_group};

use super::Place;
use crate::failure::Failure;

/// How long an agent may take to answer. It does at once, unless it has been stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most sockets that are looked at.
const MOST: usize = 1024;

/// All agents' sockets that fit, in order.
pub fn find(place: &Place, group: Option<&str>) -> Result<Vec<Where>, Failure> {
    let searched = place.directory.clone().map_or_else(directories, |one| vec![one]);
    let mut found = BTreeSet::new();
    for directory in &searched {
        for name in group.map_or_else(|| names(directory), |name| vec![name.to_owned()]) {
            for member in members(&directory.join(&name)).unwrap_or_default() {
                if place.member.is_none_or(|only| only == member) && found.len() < MOST {
                    found.insert((name.clone(), member, directory.clone()));
                }
            }
        }
    }
    if found.is_empty() {
        return Err(nobody(&searched, group, place.member));
    }
    let place = |(group, member, directory): (String, Member, PathBuf)| Where {
        directory: Some(directory),
        group,
        member: Some(member),
    };
    Ok(found.into_iter().map(place).collect())
}

fn nobody(searched: &[PathBuf], group: Option<&str>, member: Option<Member>) -> Failure {
    let places: Vec<_> = searched.iter().map(|place| place.display().to_string()).collect();
    let name = group.unwrap_or("NAME");
    let group = group.map_or_else(String::new, |group| format!(" of group '{group}'"));
    let member = member.map_or_else(String::new, |member| format!(" for member {member}"));
    Failure::Said(format!(
        "no agent{group}{member} in {}: start one with `truechimer group agent --group {name}`, or \
         name its --directory",
        places.join(" or ")
    ))
}

/// What lies in a directory, by name, as far as it can be read.
fn listed(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.take(MOST).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn names(directory: &Path) -> Vec<String> {
    listed(directory).into_iter().filter(|name| valid_group(name)).collect()
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

/// Asks all of them. Those that are gone are left out as long as one answers.
pub fn reports(place: &Place, group: Option<&str>) -> Result<Vec<Report>, Failure> {
    let (mut reports, mut first_error) = (Vec::new(), None);
    for one in find(place, group)? {
        match report(&one) {
            Ok(report) => reports.push(report),
            Err(why) => {
                first_error.get_or_insert(why);
            }
        }
    }
    match first_error {
        Some(why) if reports.is_empty() => Err(why),
        _ => Ok(reports),
    }
}
