//! Checkers that watch all the time: the page, the server, the group, the control socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use truechimer::{Clock, Status};
use truechimer_daemon::control::{ControlError, report};
use truechimer_group::{Call, Thread};
use truechimer_group_client::link::{Outside, ReadError, Together};
use truechimer_group_client::{Options, Replica, Where};
use truechimer_testbed::exchange::exchange;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::Sample;

use crate::soak::ledger::{Ledger, Part};

/// Readers say that nobody tends a page 3 s after its daemon has looked at the clocks for the last
/// time (docs/explanation/bound.md); with half a second for who reads on a busy machine.
const ORPHAN: Duration = Duration::from_millis(3_500);
/// A clock without fresh replies is in holdover once the last is older than four polls (of 1 s) and
/// 2 s; a busy machine gets 3 s more.
const UNHEARD: Duration = Duration::from_secs(9);
/// After so long without a fault there is an answer to everything.
const QUIET: Duration = Duration::from_secs(5);
/// Rounds of the group that are remembered.
const ROUNDS: usize = 200_000;

/// The page: the truth is within each reading's bound, the status tells of outages, and
/// `now_monotone` never goes back.
pub fn page(ledger: &Ledger, page: &Path) {
    const BOUND: &str = "page: the truth is within the bound";
    const STATUS: &str = "page: the status tells of an outage";
    const MONOTONE: &str = "page: now_monotone never goes back";
    const READABLE: &str = "page: it can be read";
    [BOUND, STATUS, MONOTONE, READABLE].iter().for_each(|check| ledger.checks(check));
    let truth = Truth::host();
    let clock = loop {
        match Clock::open_within(Some(page), Duration::from_millis(200)) {
            Ok(clock) => break clock,
            Err(_) if ledger.ends() => return,
            Err(_) => {}
        }
    };
    let start = Instant::now();
    let mut latest = i64::MIN;
    while !ledger.ends() {
        std::thread::sleep(Duration::from_millis(5));
        let orphan = ledger.out_for(Part::Daemon).is_some_and(|out| out > ORPHAN);
        let unheard = ledger.out_for(Part::Wire).is_some_and(|out| out > UNHEARD);
        let (sample, _) = match Sample::look(&clock, || truth.now_ns(), start) {
            Ok(look) => look,
            Err(error) => {
                ledger.count("page: readings refused");
                if ledger.settled_for().is_some() {
                    ledger.violation(READABLE, error.to_string());
                }
                continue;
            }
        };
        ledger.count("page: readings");
        ledger.count(match sample.status {
            Status::Synchronised => "page: readings synchronised",
            Status::Holdover => "page: readings in holdover",
            Status::Unknown => "page: readings unknown",
            Status::Disrupted => "page: readings disrupted",
        });
        if sample.status == Status::Synchronised && (orphan || unheard) {
            let what = if orphan { "daemon" } else { "server" };
            ledger.violation(STATUS, format!("synchronised, but there is no {what}"));
        }
        if !sample.status.bound_holds() {
            continue;
        }
        ledger.count("page: readings with a bound");
        ledger.largest("page: largest bound, ns", sample.bound_ns());
        if sample.status == Status::Synchronised {
            ledger.largest("page: largest bound while synchronised, ns", sample.bound_ns());
        }
        ledger
            .largest("page: largest |error|, ns", sample.error_ns().abs() - sample.width_ns() / 2);
        if sample.outside_ns() > 0 {
            ledger.violation(BOUND, format!("{} ns outside: {sample:?}", sample.outside_ns()));
        }
        if let Ok(reading) = clock.now_monotone()
            && reading.status.bound_holds()
        {
            let now = i64::try_from(reading.best.as_nanos()).unwrap_or(i64::MAX);
            if now < latest {
                ledger.violation(MONOTONE, format!("{} ns back", latest - now));
            }
            latest = latest.max(now);
        }
    }
}

/// The NTP server: whatever it says of itself, the truth is within its root distance. Runs in the
/// network of its clients.
pub fn served(ledger: &Ledger, server: SocketAddr) {
    const DISTANCE: &str = "serve: the truth is within the root distance";
    const ANSWERS: &str = "serve: it answers";
    [DISTANCE, ANSWERS].iter().for_each(|check| ledger.checks(check));
    while !ledger.ends() {
        std::thread::sleep(Duration::from_millis(50));
        let Ok(said) = exchange(server) else {
            ledger.count("serve: requests without a reply");
            let quiet = ledger.settled_for().is_some_and(|time| time > QUIET);
            if quiet && ledger.seen_for("served").is_none_or(|ago| ago > QUIET) {
                ledger.violation(ANSWERS, format!("no reply for {QUIET:?} without a fault"));
            }
            continue;
        };
        ledger.count("serve: replies");
        if said.get("synchronised") != Some(&true.into()) {
            ledger.count("serve: replies that promise nothing");
            continue;
        }
        ledger.saw("served");
        let int = |name: &str| said.get(name).and_then(serde_json::Value::as_i64).unwrap_or(0);
        let distance = int("root_delay_ns") / 2 + int("root_dispersion_ns");
        // 20 ns for what is read of the host's clock and rounded.
        let allowed = distance + int("rtt_ns") / 2 + 20;
        ledger.largest("serve: largest root distance, ns", distance);
        if int("offset_ns").abs() > allowed {
            ledger.violation(DISTANCE, format!("{allowed} ns allowed: {said}"));
        }
    }
}

/// The control socket: it answers while the daemon runs.
pub fn control(ledger: &Ledger, socket: &Path) {
    const ANSWERS: &str = "control: it answers";
    ledger.checks(ANSWERS);
    while !ledger.ends() {
        std::thread::sleep(Duration::from_secs(1));
        let before = ledger.settled_for();
        match report(socket, Duration::from_secs(2)) {
            Ok(_) => ledger.count("control: answers"),
            Err(why) => {
                ledger.count("control: no answers");
                // Who floods it is told so, and hung up on.
                let flooded = matches!(why, ControlError::Refused(_));
                let well = before.is_some_and(|time| time > QUIET);
                if well && ledger.settled_for().is_some() && !flooded {
                    ledger.violation(ANSWERS, why.to_string());
                }
            }
        }
    }
}

/// Values of the group's rounds, as the members got them.
#[derive(Default)]
pub struct Rounds(Mutex<BTreeMap<u64, i64>>);

impl Rounds {
    /// Takes a member's value of a round, ns; the value that was there before, if it is another.
    fn differs(&self, round: u64, time: i64) -> Option<i64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *all.entry(round).or_insert(time);
        if all.len() > ROUNDS {
            all.pop_first();
        }
        (first != time).then_some(first)
    }
}

/// A program of a member of the group (from 0): its values never go back, and are those that the
/// others have of the same rounds.
pub fn member(ledger: &Ledger, place: &Where, member: usize, rounds: &Arc<Rounds>) {
    const EQUAL: &str = "group: members have the same value of a round";
    const MONOTONE: &str = "group: the clock never goes back";
    [EQUAL, MONOTONE].iter().for_each(|check| ledger.checks(check));
    let thread = Thread(1000);
    let options = Options {
        outside: Outside::Wait,
        together: Together::Count(1),
        wait_for_agent: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    let mut latest = (0, i64::MIN);
    while !ledger.ends() {
        let attached = Replica::attach_with(place, &options).ok();
        let Some(replica) = attached.filter(|replica| replica.restarted().is_ok()) else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        ledger.count("group: programs attached");
        let clock = replica.thread(thread);
        while !ledger.ends() {
            match clock.now(Call::Group, Some(Duration::from_secs(1))) {
                Ok(value) => {
                    let (round, time) = (clock.rounds().0.wrapping_sub(1), value.time.0);
                    ledger.count("group: readings");
                    ledger.member_read(member);
                    if let Some(bound) = value.error_bound() {
                        ledger.largest("group: largest bound, ns", bound);
                    }
                    if round > latest.0 && time < latest.1 {
                        let text = format!("member {}: {latest:?}, then {time}", member + 1);
                        ledger.violation(MONOTONE, text);
                    }
                    latest = (round, time);
                    if let Some(first) = rounds.differs(round, time) {
                        let text = format!("round {round}: {first}, member {}: {time}", member + 1);
                        ledger.violation(EQUAL, text);
                    }
                }
                Err(ReadError::Late) => ledger.count("group: readings that were late"),
                Err(ReadError::Rejected(_)) => {
                    ledger.count("group: readings rejected");
                    if replica.restarted().is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_of_a_round_is_seen() {
        let rounds = Rounds::default();
        assert_eq!(rounds.differs(7, 100), None);
        assert_eq!(rounds.differs(8, 101), None);
        assert_eq!(rounds.differs(7, 100), None);
        assert_eq!(rounds.differs(7, 99), Some(100));
    }
}
