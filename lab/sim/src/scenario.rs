//! A scenario: everything that decides a run, but for the seed and the estimator.

mod error;
mod text;

use serde::{Deserialize, Serialize};
use truechimer_engine::AuthenticationMode;
use truechimer_time::{Leap, Leaps};

use crate::host::HostSpec;
use crate::limits::{TIME, each, within};
use crate::oscillator::OscillatorSpec;
use crate::path::Recording;
use crate::pps::PpsSpec;
use crate::server::{LeapSecond, ServerSpec, check_poll, is_word};
use crate::system_clock::SystemClockSpec;

pub use error::ScenarioError;
#[cfg(test)]
pub(crate) use text::parse;

/// The longest run, h.
const HOURS: f64 = 10_000.0;
/// The most servers.
const SERVERS: usize = 64;
/// The most pulses.
const PULSES: usize = 8;
/// 2027-01-15T08:00:00Z, where runs begin unless they say otherwise.
const BEGIN: i64 = 1_800_000_000;
/// TAI − UTC since 2017, s.
const TAI_OFFSET: i32 = 37;

/// Course of a run. Times are in seconds of true time since its start unless the name says
/// otherwise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Name, one word.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub about: String,
    /// Length of the run, h. Up to 10 000.
    #[serde(default = "hours")]
    pub hours: f64,
    /// Part of it that statistics leave out, h.
    #[serde(default = "warm_up_hours")]
    pub warm_up_hours: f64,
    /// Seconds between requests, 1–1024.
    #[serde(default = "poll")]
    pub poll: u32,
    /// The poll interval is the estimator's to choose, from the first to the second of these, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<[u32; 2]>,
    /// True to begin with eight requests two seconds apart.
    #[serde(default = "yes")]
    pub burst: bool,
    /// Bound of the oscillator's wander, as the daemon takes it, ppm.
    #[serde(default = "max_wander_ppm")]
    pub max_wander_ppm: f64,
    /// Time for which the replies of a server whose time has moved must agree before the daemon
    /// believes them, s.
    #[serde(default = "accept_step_after_s")]
    pub accept_step_after_s: f64,
    /// The furthest that servers may move the daemon's time by themselves, s.
    #[serde(default = "max_step_s")]
    pub max_step_s: f64,
    /// Number of servers that must agree; two if three or more have a vote, else one, unless it is
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_sources: Option<u32>,
    /// All servers are addresses of one name, of which so many are followed at a time (`pool`), in the order in which they
    /// stand here, and others take the places of those that are of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
    /// Part of servers without proof beside those with it.
    #[serde(default)]
    pub authentication: AuthenticationMode,
    /// Unix time at the start.
    #[serde(default = "begin")]
    pub begin: i64,
    /// True if the daemon has a list of leap seconds. Without, it knows what servers announce.
    #[serde(default = "yes")]
    pub leap_list: bool,
    /// A leap second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leap: Option<LeapSpec>,
    /// Look-ups of names.
    #[serde(default, skip_serializing_if = "ResolveSpec::is_default")]
    pub resolve: ResolveSpec,
    /// Changes of the configuration while the daemon runs.
    #[serde(default, rename = "change", skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Restarts of the daemon.
    #[serde(default, rename = "restart", skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// The oscillator.
    #[serde(default = "OscillatorSpec::reference")]
    pub oscillator: OscillatorSpec,
    /// The host.
    #[serde(default)]
    pub host: HostSpec,
    /// The system clock, if the daemon steers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_clock: Option<SystemClockSpec>,
    /// The servers.
    #[serde(rename = "server")]
    pub servers: Vec<ServerSpec>,
    /// The pulses per second.
    #[serde(default, rename = "pps", skip_serializing_if = "Vec::is_empty")]
    pub pulses: Vec<PpsSpec>,
}

/// A leap second.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LeapSpec {
    /// The Unix time of the midnight (UTC) before which it is inserted or left out.
    pub midnight: i64,
    /// True if a second is inserted; else one is left out.
    #[serde(default = "yes")]
    pub inserted: bool,
}

/// Behaviour of look-ups of names.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ResolveSpec {
    /// Time that a look-up takes, s.
    pub takes_s: f64,
    /// Before this, every look-up fails, s.
    pub fails_until_s: f64,
}

impl ResolveSpec {
    fn is_default(&self) -> bool {
        *self == ResolveSpec::default()
    }
}

/// A change of the configuration.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Change {
    /// When, s.
    pub at_s: f64,
    /// Seconds between requests from then on, of all servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<u32>,
    /// The bound of the oscillator's wander from then on, ppm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wander_ppm: Option<f64>,
}

/// A restart of the daemon.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Restart {
    /// When it ends, s.
    pub at_s: f64,
    /// For how long there is none, s.
    #[serde(default)]
    pub gap_s: f64,
    /// True if the clock page is still there when it starts again.
    #[serde(default = "yes")]
    pub warm: bool,
    /// True if it has kept its rate.
    #[serde(default = "yes")]
    pub saved_rate: bool,
}

fn hours() -> f64 {
    28.0
}

fn warm_up_hours() -> f64 {
    4.0
}

fn poll() -> u32 {
    truechimer_engine::DEFAULT_POLL
}

fn yes() -> bool {
    true
}

fn max_wander_ppm() -> f64 {
    0.5
}

fn max_step_s() -> f64 {
    truechimer_feedforward::number::seconds(truechimer_engine::DEFAULT_MAX_STEP)
}

fn accept_step_after_s() -> f64 {
    truechimer_feedforward::number::seconds(truechimer_feedforward::ACCEPT_STEP_AFTER)
}

fn begin() -> i64 {
    BEGIN
}

impl Scenario {
    /// A scenario of the reference figures: 28 hours of which the first four do not count, an
    /// oscillator 10 ppm fast that walks by 10⁻⁹ per √s, poll 16 s, these servers.
    #[must_use]
    pub fn new(name: &str, about: &str, servers: Vec<ServerSpec>) -> Scenario {
        Scenario {
            name: name.into(),
            about: about.into(),
            hours: hours(),
            warm_up_hours: warm_up_hours(),
            poll: poll(),
            adaptive: None,
            burst: true,
            max_wander_ppm: max_wander_ppm(),
            accept_step_after_s: accept_step_after_s(),
            max_step_s: max_step_s(),
            min_sources: None,
            pool: None,
            authentication: AuthenticationMode::default(),
            begin: BEGIN,
            leap_list: true,
            leap: None,
            resolve: ResolveSpec::default(),
            changes: Vec::new(),
            restarts: Vec::new(),
            oscillator: OscillatorSpec::reference(),
            host: HostSpec::default(),
            system_clock: None,
            servers,
            pulses: Vec::new(),
        }
    }

    /// Reads a scenario that names no files.
    ///
    /// # Errors
    /// What is wrong, with its line: no TOML, an unknown key (with the nearest known one), a value
    /// of the wrong type or out of range.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::from_toml_with(text, |file| {
            Err(format!("{file}: recorded delays can only be read where files can"))
        })
    }

    /// Reads a scenario. `read` gets the name of a file of recorded delays, and gives what
    /// [`crate::parse_delays`] made of it.
    ///
    /// # Errors
    /// As [`Scenario::from_toml`], and what `read` says.
    pub fn from_toml_with(
        text: &str,
        mut read: impl FnMut(&str) -> Result<Recording, String>,
    ) -> Result<Scenario, ScenarioError> {
        let mut scenario: Scenario = text::parse(text)?;
        for (i, server) in scenario.servers.iter_mut().enumerate() {
            server
                .resolve(&mut read)
                .map_err(|why| text::located(text, format!("server {}: {why}", i + 1)))?;
        }
        scenario.check_fields().map_err(|what| text::located(text, what))?;
        Ok(scenario)
    }

    /// The scenario as text, as [`Scenario::from_toml`] reads it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // All that TOML cannot hold is a number too large for i64, which `check` refuses.
        let text = toml::to_string(self).unwrap_or_default();
        format!("# Every key and what it means: docs/reference/scenarios.md\n\n{text}")
    }

    /// Sets the length of the run. If that leaves too little after the warm-up, the warm-up is made
    /// a seventh of it, as it is in the reference figures.
    ///
    /// # Errors
    /// Not within 0 to 10 000 hours.
    pub fn with_hours(mut self, hours: f64) -> Result<Scenario, ScenarioError> {
        if self.warm_up_hours > hours / 2.0 {
            self.warm_up_hours = hours / 7.0;
        }
        self.hours = hours;
        self.check()?;
        Ok(self)
    }

    /// Sets the poll interval of all servers.
    ///
    /// # Errors
    /// Not within 1 to 1024 s.
    pub fn with_poll(mut self, poll: u32) -> Result<Scenario, ScenarioError> {
        self.poll = poll;
        for server in &mut self.servers {
            server.poll = None;
        }
        self.check()?;
        Ok(self)
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_fields().map_err(ScenarioError::new)
    }

    fn check_fields(&self) -> Result<(), String> {
        if !is_word(&self.name) {
            return Err(format!(
                "name = {:?}: must be one word of up to 63 letters, digits, `-`, `.` and `_`",
                self.name
            ));
        }
        if self.about.len() > 1000 || self.about.chars().any(char::is_control) {
            return Err("about: must be one line of up to 1000 bytes".to_owned());
        }
        within("hours", self.hours, 1e-3, HOURS)?;
        if !(self.warm_up_hours >= 0.0 && self.warm_up_hours < self.hours) {
            return Err(format!(
                "warm-up-hours = {} (4 unless said): must be at least 0 and less than hours = {}",
                self.warm_up_hours, self.hours
            ));
        }
        check_poll("poll", self.poll)?;
        if let Some([low, high]) = self.adaptive {
            check_poll("adaptive", low)?;
            check_poll("adaptive", high)?;
            if low > high {
                return Err(format!("adaptive = [{low}, {high}]: the smaller one comes first"));
            }
        }
        within("max-wander-ppm", self.max_wander_ppm, 1e-3, 100.0)?;
        within("accept-step-after-s", self.accept_step_after_s, 0.0, TIME)?;
        within("max-step-s", self.max_step_s, 0.0, 1e10)?;
        // From 2000 to 2100.
        within("begin", self.begin as f64, 946_684_800.0, 4_102_444_800.0)?;
        if let Some(leap) = self.leap {
            if leap.midnight.rem_euclid(86_400) != 0 {
                return Err(format!("leap: midnight = {}: not a midnight, UTC", leap.midnight));
            }
            // No server can announce any other.
            let day = truechimer_time::Date::of(leap.midnight.div_euclid(86_400)).day;
            if day != 1 {
                return Err(format!(
                    "leap: midnight = {}: the midnight before day {day} of a month; must be that \
                     before the first, as leap seconds come at a month's end",
                    leap.midnight
                ));
            }
            let apart = leap.midnight.saturating_sub(self.begin) as f64;
            within("leap: midnight − begin", apart, 0.0, TIME)?;
        }
        within("resolve: takes-s", self.resolve.takes_s, 0.0, TIME)?;
        within("resolve: fails-until-s", self.resolve.fails_until_s, 0.0, TIME)?;
        each("change", &self.changes, |change| {
            within("at-s", change.at_s, 0.0, TIME)?;
            change.poll.map_or(Ok(()), |poll| check_poll("poll", poll))?;
            let wander = change.max_wander_ppm;
            wander.map_or(Ok(()), |ppm| within("max-wander-ppm", ppm, 1e-3, 100.0))
        })?;
        each("restart", &self.restarts, |restart| {
            within("at-s", restart.at_s, 0.0, TIME)?;
            within("gap-s", restart.gap_s, 0.0, TIME)
        })?;
        let follow = self.restarts.windows(2).all(|pair| match pair {
            [a, b] => b.at_s > a.at_s + a.gap_s,
            _ => true,
        });
        if !follow {
            return Err("restart: each must come after the gap of the one before".to_owned());
        }
        self.oscillator.check().map_err(|e| format!("oscillator: {e}"))?;
        self.host.check().map_err(|e| format!("host: {e}"))?;
        if let Some(system) = &self.system_clock {
            system.check().map_err(|e| format!("system-clock: {e}"))?;
        }
        if self.servers.is_empty() || self.servers.len() > SERVERS {
            let n = self.servers.len();
            return Err(format!("server: {n} of them; there must be 1 to {SERVERS} [[server]]"));
        }
        each("server", &self.servers, ServerSpec::check)?;
        for (i, server) in self.servers.iter().enumerate() {
            if self.servers.iter().take(i).any(|s| s.name == server.name) {
                return Err(format!("server {}: name = {:?}: twice", i + 1, server.name));
            }
            let other = server.leads_to.as_deref();
            if other.is_some_and(|other| self.servers.iter().all(|s| s.name != other)) {
                let n = i + 1;
                return Err(format!(
                    "server {n}: leads-to = {other:?}: no [[server]] is called so"
                ));
            }
        }
        within("pool", f64::from(self.pool.unwrap_or(1)), 1.0, 16.0)?;
        if self.pulses.len() > PULSES {
            let n = self.pulses.len();
            return Err(format!("pps: {n} of them; there may be up to {PULSES} [[pps]]"));
        }
        each("pps", &self.pulses, PpsSpec::check)?;
        for (i, pulse) in self.pulses.iter().enumerate() {
            let servers = self.servers.iter().map(|s| &s.name);
            let mut others = servers.chain(self.pulses.iter().take(i).map(|p| &p.name));
            if others.any(|name| *name == pulse.name) {
                return Err(format!("pps {}: name = {:?}: twice", i + 1, pulse.name));
            }
        }
        Ok(())
    }

    /// True for each of the servers that will be honest all the time: its time right to within the
    /// root distance that it claims.
    #[must_use]
    pub fn honest(&self) -> Vec<bool> {
        let length = self.hours * 3600.0;
        let leap = self.leap_second().map(|leap| leap.at);
        self.servers.iter().map(|server| server.is_honest(length, leap)).collect()
    }

    /// Refuses a pool whose servers have what no server of a pool can have.
    ///
    /// # Errors
    /// The first of them.
    pub(crate) fn check_pool(&self) -> Result<(), ScenarioError> {
        if self.pool.is_none() {
            return Ok(());
        }
        let own = |s: &ServerSpec| {
            s.proof
                || s.poll.is_some()
                || s.ptp_sync_s.is_some()
                || s.declared_asymmetry_us.is_some()
                || s.own_address_until_s.is_some()
                || !s.addresses.is_empty()
        };
        if self.adaptive.is_some() || !self.pulses.is_empty() || self.servers.iter().any(own) {
            let text = "pool: goes with neither `adaptive`, [[pps]], nor servers with `proof`, `poll`, \
                        `ptp-sync-s`, `declared-asymmetry-us` or addresses of their own";
            return Err(ScenarioError::new(text));
        }
        Ok(())
    }

    /// Which of the servers have a vote on what time it is, by the configuration.
    #[must_use]
    pub fn voters(&self) -> Vec<bool> {
        let proof = self.servers.iter().any(|server| server.proof);
        let plain = match self.authentication {
            AuthenticationMode::Mix => !proof,
            AuthenticationMode::Require => false,
            AuthenticationMode::Ignore => true,
        };
        self.servers.iter().map(|server| plain || server.proof).collect()
    }

    /// Entries of [`Scenario::honest`] for the servers that have a vote.
    pub(crate) fn honest_voters(&self) -> Vec<bool> {
        let honest = self.honest().into_iter().zip(self.voters());
        honest.filter(|(_, votes)| *votes).map(|(honest, _)| honest).collect()
    }

    /// True if all servers are honest all the time.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.honest().into_iter().all(|honest| honest)
    }

    /// True if the bound has to hold: a majority of the servers, and all the time of those that
    /// answer, is honest, no pulse is wrong by so little that it is believed, a leap second is
    /// known of, and the counter never jumps unseen. (Where it jumps, or the host sleeps, the
    /// promise is void until the daemon's next look, at most a second later.)
    #[must_use]
    pub fn must_hold(&self) -> bool {
        let honest = self.honest_voters();
        let majority = honest.iter().filter(|honest| **honest).count() * 2 > honest.len();
        let pulses = self.pulses.iter().all(PpsSpec::is_harmless);
        let declared = self.servers.iter().all(ServerSpec::is_as_declared);
        let told = self.has_honest_word() && !self.leaps_unannounced();
        majority && told && declared && pulses && !self.host.jumps.iter().any(|jump| jump.raw_too)
    }

    /// True if the counter runs on without a break. After one, the old promise stands until the
    /// daemon has looked, for up to a second.
    #[must_use]
    pub fn is_unbroken(&self) -> bool {
        self.host.jumps.is_empty() && !self.host.suspends.iter().any(|s| s.counter_stops)
    }

    /// Leap seconds as they really are, at the start.
    pub(crate) fn leaps(&self) -> Leaps {
        let tai_offset = self.tai_offset();
        let next = self.leap.map(|leap| {
            let step = if leap.inserted { 1 } else { -1 };
            let at = leap.midnight + i64::from(tai_offset) + i64::from(step);
            Leap { at, step }
        });
        Leaps { tai_offset, known: self.leap_list, last: None, next }
    }

    /// Leap seconds as the daemon knows them at its start, when the truth is `leaps`.
    pub(crate) fn known_leaps(&self, leaps: Leaps) -> Leaps {
        if self.leap_list { leaps } else { Leaps { next: None, ..leaps } }
    }

    /// Where it is not known, the leap-free scale counts from UTC as of the start.
    fn tai_offset(&self) -> i32 {
        if self.leap_list { TAI_OFFSET } else { 0 }
    }

    pub(crate) fn leap_second(&self) -> Option<LeapSecond> {
        let leap = self.leap?;
        // The scale is free of leaps: the new offset begins one step later than midnight.
        let step = if leap.inserted { 1 } else { -1 };
        Some(LeapSecond { at: (leap.midnight - self.begin + step) as f64, inserted: leap.inserted })
    }

    /// The leap-free second at the start.
    pub(crate) fn origin(&self) -> i64 {
        self.begin + i64::from(self.tai_offset())
    }
}
