//! The interfaces that there are.

use std::fs;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use truechimer_capture::check::{self, Plan};
use truechimer_capture::hardware::{Claims, claims};
use truechimer_capture::link::Link;
use truechimer_capture::packet;

use truechimer_command::show::json;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

use super::check::{Tally, tallies};

/// An interface.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// The link type of what is captured there, as tcpdump.org numbers them.
    pub link_type: Option<u16>,
    /// `up`, `down`, `unknown`, as the kernel has it; `None` where `/sys` does not tell.
    pub state: Option<String>,
    /// The driver; `None` for a virtual one, or where `/sys` does not tell.
    pub driver: Option<String>,
    /// Number of receive queues.
    pub queues: Option<usize>,
    /// Stamps that its driver claims; `None` where it does not say.
    pub stamps: Option<Stamps>,
    /// Stamps that came when it was tried; `None` where it was not, or could not be.
    pub came: Option<Vec<Tally>>,
    /// Reason that it could not be.
    pub trouble: Option<String>,
}

/// Time that each is tried, and between frames that are sent meanwhile.
const TRIED: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_millis(10);

impl Interface {
    /// Tries which stamps come: with frames of its own, which no bridge passes on. One that is down, or has no
    /// carrier, is left alone.
    fn try_stamps(&mut self) {
        let is_up = || Link::named(&self.name).is_ok_and(|link| link.is_up);
        let has_carrier = match self.state.as_deref() {
            Some(state) => matches!(state, "up" | "unknown"),
            // `/sys` is of another namespace.
            None => true,
        };
        if self.name == "any" || !has_carrier || !is_up() {
            return;
        }
        let plan = Plan { interface: self.name.clone(), duration: TRIED, every: Some(EVERY) };
        match check::measure(&plan, &AtomicBool::new(false)) {
            Ok(measured) => self.came = Some(tallies(&measured)),
            Err(why) => self.trouble = Some(why.to_string()),
        }
    }

    /// Stamps that came, in a few words.
    fn came(&self) -> String {
        let of = |Tally { stamp, came, of, .. }: &Tally| {
            format!("{} {came}/{of}", stamp.replace(", ", " "))
        };
        match (&self.came, &self.trouble) {
            (Some(came), _) => {
                let tried: Vec<String> = came.iter().filter(|one| one.of > 0).map(of).collect();
                if tried.is_empty() { "nothing passed".to_owned() } else { tried.join(", ") }
            }
            (None, Some(trouble)) => trouble.clone(),
            (None, None) => "-".to_owned(),
        }
    }
}

/// Stamps that a driver claims to take.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Stamps {
    /// The kernel's, of what arrives.
    pub kernel: bool,
    /// The driver's, of what is sent.
    pub driver: bool,
    /// The card's, of what arrives: `all`, `some` (PTP, …), `none`.
    pub card_in: &'static str,
    /// The card's, of what is sent.
    pub card_out: bool,
    /// Number of the card's clock, `/dev/ptpN`.
    pub clock: Option<u32>,
}

impl From<Claims> for Stamps {
    fn from(claims: Claims) -> Stamps {
        let Claims { kernel, driver, card_in_all, card_in, card_out, clock } = claims;
        let card_in = match (card_in_all, card_in) {
            (true, _) => "all",
            (false, true) => "some",
            (false, false) => "none",
        };
        Stamps { kernel, driver, card_in, card_out, clock }
    }
}

impl Stamps {
    /// In a few words.
    fn words(&self) -> String {
        let mut words = Vec::new();
        for (has, word) in [(self.kernel, "kernel"), (self.driver, "driver")] {
            words.extend(has.then(|| word.to_owned()));
        }
        let card = match (self.card_in, self.card_out) {
            ("none", false) => None,
            ("none", true) => Some("card (sent)".to_owned()),
            ("all", true) => Some("card".to_owned()),
            ("all", false) => Some("card (received)".to_owned()),
            (_, true) => Some("card (sent, some received)".to_owned()),
            (_, false) => Some("card (some received)".to_owned()),
        };
        words.extend(card);
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }
}

/// Those of this network namespace, and `any`.
pub fn interfaces() -> Result<Vec<Interface>, Failure> {
    let table = "/proc/self/net/dev";
    let text = fs::read_to_string(table).map_err(|why| Failure::new(table, why))?;
    let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    let mut all: Vec<_> = names.map(interface).collect();
    all.push(Interface {
        name: "any".into(),
        link_type: packet::link_type("any").ok(),
        state: None,
        driver: None,
        queues: None,
        stamps: None,
        came: None,
        trouble: None,
    });
    Ok(all)
}

fn interface(name: &str) -> Interface {
    // May be of another namespace than the names, in which these are then missing.
    let folder = format!("/sys/class/net/{name}");
    let state = fs::read_to_string(format!("{folder}/operstate")).ok();
    let driver = fs::read_link(format!("{folder}/device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let queues = fs::read_dir(format!("{folder}/queues")).ok().map(|queues| {
        let names = queues.flatten().map(|queue| queue.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("rx-")).count()
    });
    Interface {
        name: name.to_owned(),
        link_type: packet::link_type(name).ok(),
        state: state.map(|state| state.trim().to_owned()),
        driver,
        queues,
        stamps: claims(name).ok().map(Stamps::from),
        came: None,
        trouble: None,
    }
}

/// Lists them; with `measure` each is tried as well, all at once.
pub fn list(as_json: bool, measure: bool, out: &mut dyn Write) -> Ended {
    let mut all = interfaces()?;
    if measure {
        std::thread::scope(|scope| {
            for interface in &mut all {
                scope.spawn(|| interface.try_stamps());
            }
        });
    }
    if as_json {
        writeln!(out, "{}", json(&all)?)?;
        return Ok(Outcome::Good);
    }
    let mut columns = vec![
        ("interface", Side::Left),
        ("state", Side::Left),
        ("link type", Side::Left),
        ("driver", Side::Left),
        ("queues", Side::Right),
        ("stamps, as claimed", Side::Left),
    ];
    columns.extend(measure.then_some(("as they came", Side::Left)));
    let mut table = Table::new(&columns);
    for interface in all {
        let came = measure.then(|| interface.came());
        let Interface { name, link_type, state, driver, queues, stamps, .. } = interface;
        let dash = || "-".to_owned();
        let link = match link_type {
            Some(1) => "Ethernet".into(),
            Some(101) => "IP".into(),
            Some(276) => "cooked".into(),
            Some(other) => other.to_string(),
            None => dash(),
        };
        let mut row = vec![
            name,
            state.unwrap_or_else(dash),
            link,
            driver.unwrap_or_else(dash),
            queues.map_or_else(dash, |queues| queues.to_string()),
            stamps.map_or_else(dash, |stamps| stamps.words()),
        ];
        row.extend(came);
        table.row(row);
    }
    table.write(out)?;
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_any_comes_last() {
        let all = interfaces().unwrap();
        assert!(all.iter().any(|interface| interface.name == "lo"), "{all:?}");
        assert_eq!(all.last().unwrap().name, "any");
        let mut out = Vec::new();
        list(false, false, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().starts_with("interface"));
    }
}
