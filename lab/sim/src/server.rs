//! Servers: what time they tell, how they come to be wrong about it, and what they claim.

mod absence;
mod address;
mod attack;
mod work;

use serde::{Deserialize, Serialize};
use truechimer_engine::{Asymmetry, POLL_RANGE, PtpConfig};
use truechimer_ntp::{Log2, Short};
use truechimer_time::Span;

use crate::limits::{TIME, each, interval, within};
use crate::path::{PathSpec, Recording, Shift};
use truechimer_feedforward::number::{seconds, span};

pub(crate) use absence::is_absent;
pub use address::AddressSpec;
pub(crate) use attack::Sender;
pub use attack::{Forgery, Warned, Warning};
pub(crate) use work::{Answered, LeapSecond, Server};

/// No server can be further off than this, ms: three years.
const FARTHEST_MS: f64 = 1e11;
/// Intervals between a PTP master's `Sync`, s: 1/128 s and 4 s, what profiles have.
pub(crate) const SYNCS: (f64, f64) = (0.0078125, 4.0);
/// Strata that a synchronised server may claim.
pub(crate) const STRATA: (f64, f64) = (1.0, 15.0);
/// The precisions that it may claim, as powers of two.
pub(crate) const PRECISIONS: (f64, f64) = (-32.0, 0.0);
/// A smear lasts from half a day before the leap to half a day after it, s.
const HALF_DAY: f64 = 43_200.0;

/// One server and the way to it. All times are in seconds since the start of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ServerSpec {
    /// Name, one word.
    pub name: String,
    /// Seconds between requests; that of the scenario if there is none here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<u32>,
    /// Seconds between its `Sync` if it is a PTP master, alone on a network of its own; else it is an
    /// NTP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptp_sync_s: Option<f64>,
    /// 1–15.
    pub stratum: u8,
    /// The round trip to its reference that it claims, µs.
    pub root_delay_us: f64,
    /// The root dispersion that it claims, µs.
    pub root_dispersion_us: f64,
    /// The precision that it claims, as a power of two in seconds: −32 to 0.
    pub precision: i8,
    /// Quantum to whose multiples stamps are cut, µs; 0: 2⁻³² s, as NTP has them.
    pub quantum_us: f64,
    /// Time for which it holds a request at least, µs.
    pub residence_us: f64,
    /// Addition to that: the mean of an exponential distribution, µs.
    pub residence_jitter_us: f64,
    /// Clock of the server − the truth, ms, all the time.
    pub offset_ms: f64,
    /// True if it shows leap seconds as a frequency of ±1 s over the day around them, instead of
    /// announcing them.
    pub smears: bool,
    /// True if it announces the leap second that the scenario may have.
    pub announces: bool,
    /// True if it proves who it is, by NTS or a key: nobody else can answer for it.
    pub proof: bool,
    /// Steps of its clock, for good.
    #[serde(rename = "step", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Stretches in which its clock gains on the truth; what was gained stays.
    #[serde(rename = "ramp", skip_serializing_if = "Vec::is_empty")]
    pub ramps: Vec<Ramp>,
    /// Stretches in which it lies, and then tells the truth again.
    #[serde(rename = "lie", skip_serializing_if = "Vec::is_empty")]
    pub lies: Vec<Lie>,
    /// A random walk of its clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wander: Option<Wander>,
    /// Restarts.
    #[serde(rename = "restart", skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<ServerRestart>,
    /// Stretches without a word from it.
    #[serde(rename = "silence", skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Stretch>,
    /// Stretches without its own reference.
    #[serde(rename = "lapse", skip_serializing_if = "Vec::is_empty")]
    pub lapses: Vec<Lapse>,
    /// Stretches in which it refuses service.
    #[serde(rename = "refuse", skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refuse>,
    /// Stretches in which it announces a leap second, or none, whatever is to come.
    #[serde(rename = "warn", skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Stretches in which somebody sends one of its earlier replies before each of its own.
    #[serde(rename = "replay", skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<Stretch>,
    /// Stretches in which somebody answers in its name, before it does.
    #[serde(rename = "forge", skip_serializing_if = "Vec::is_empty")]
    pub forgeries: Vec<Forgery>,
    /// Asymmetry that the daemon is told: how much longer the fastest request takes than the
    /// fastest reply, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared_asymmetry_us: Option<f64>,
    /// ... to within this, µs.
    pub declared_error_us: f64,
    /// Until when look-ups of its name give its own address, s; all the time if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_address_until_s: Option<f64>,
    /// Server whose address look-ups of its name give from then on. That one has no keys for whoever asks by this name,
    /// and does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// The other addresses of its name.
    #[serde(rename = "address", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressSpec>,
    /// The way there.
    pub forward: PathSpec,
    /// The way back.
    pub backward: PathSpec,
}

/// A step of a clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// When, s.
    pub at_s: f64,
    /// By how much, ms; positive: forward.
    pub by_ms: f64,
}

/// A stretch in which a clock gains.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ramp {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// Rate of the gain, ppm; negative: a loss.
    pub ppm: f64,
}

/// A stretch in which a server's time is wrong.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lie {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// Time − the truth, ms.
    pub by_ms: f64,
}

/// A random walk of a server's clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Wander {
    /// Standard deviation after one second, µs; it grows with the square root of time.
    pub us_per_root_s: f64,
    /// True if it knows, and claims a root dispersion that covers it.
    #[serde(default)]
    pub honest: bool,
}

/// A restart of a server.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServerRestart {
    /// When it stops, s.
    pub at_s: f64,
    /// Time for which it is away, s.
    pub silent_s: f64,
    /// Time after that for which it says that it is not synchronised (its time is then off by an
    /// hour), s.
    #[serde(default)]
    pub unsynchronised_s: f64,
}

/// A stretch without a reference. Its clock drifts, and its root dispersion grows; then it says
/// that it is not synchronised; then it is right again.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lapse {
    /// When it begins, s.
    pub from_s: f64,
    /// Time for which it goes on without, s.
    pub lost_s: f64,
    /// Time after that for which it says that it is not synchronised, s.
    #[serde(default)]
    pub silent_s: f64,
    /// Drift of its clock meanwhile, ppm; positive: it gains.
    pub ppm: f64,
    /// Growth of its root dispersion meanwhile, ppm.
    pub claimed_ppm: f64,
}

/// A stretch of time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stretch {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
}

/// A stretch in which a server refuses service.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Refuse {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// The kiss code (RFC 5905 §7.4): `RATE`, `DENY`, `RSTR` or any other four capital letters.
    pub code: String,
}

impl Default for ServerSpec {
    fn default() -> ServerSpec {
        ServerSpec {
            name: "server".into(),
            poll: None,
            ptp_sync_s: None,
            stratum: 1,
            root_delay_us: 0.0,
            root_dispersion_us: 1.0,
            precision: -25,
            quantum_us: 0.0,
            residence_us: 20.0,
            residence_jitter_us: 0.0,
            offset_ms: 0.0,
            smears: false,
            announces: true,
            proof: false,
            steps: Vec::new(),
            ramps: Vec::new(),
            lies: Vec::new(),
            wander: None,
            restarts: Vec::new(),
            silences: Vec::new(),
            lapses: Vec::new(),
            refusals: Vec::new(),
            warnings: Vec::new(),
            replays: Vec::new(),
            forgeries: Vec::new(),
            declared_asymmetry_us: None,
            declared_error_us: 0.0,
            own_address_until_s: None,
            leads_to: None,
            addresses: Vec::new(),
            forward: PathSpec::default(),
            backward: PathSpec::default(),
        }
    }
}

impl ServerSpec {
    /// Server and path like those of the Part C reference figures: the same both ways.
    #[must_use]
    pub fn symmetric(name: &str, path: PathSpec) -> ServerSpec {
        ServerSpec {
            name: name.into(),
            forward: path.clone(),
            backward: path,
            ..ServerSpec::default()
        }
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        if !is_word(&self.name) {
            return Err(format!(
                "name = {:?}: must be one word of up to 63 letters, digits, `-`, `.` and `_`",
                self.name
            ));
        }
        if let Some(poll) = self.poll {
            check_poll("poll", poll)?;
        }
        if let Some(sync) = self.ptp_sync_s {
            within("ptp-sync-s", sync, SYNCS.0, SYNCS.1)?;
        }
        let us = |field: &str, value: f64| within(field, value, 0.0, 1e6);
        let ms = |field: &str, value: f64| within(field, value, -FARTHEST_MS, FARTHEST_MS);
        within("stratum", f64::from(self.stratum), STRATA.0, STRATA.1)?;
        us("root-delay-us", self.root_delay_us)?;
        us("root-dispersion-us", self.root_dispersion_us)?;
        within("precision", f64::from(self.precision), PRECISIONS.0, PRECISIONS.1)?;
        us("quantum-us", self.quantum_us)?;
        us("residence-us", self.residence_us)?;
        us("residence-jitter-us", self.residence_jitter_us)?;
        within("declared-asymmetry-us", self.declared_asymmetry_us.unwrap_or(0.0), -1e6, 1e6)?;
        us("declared-error-us", self.declared_error_us)?;
        ms("offset-ms", self.offset_ms)?;
        each("step", &self.steps, |step| {
            within("at-s", step.at_s, 0.0, TIME)?;
            ms("by-ms", step.by_ms)
        })?;
        each("ramp", &self.ramps, |ramp| {
            interval(ramp.from_s, ramp.to_s)?;
            within("ppm", ramp.ppm, -1e5, 1e5)
        })?;
        each("lie", &self.lies, |lie| {
            interval(lie.from_s, lie.to_s)?;
            ms("by-ms", lie.by_ms)
        })?;
        if let Some(wander) = &self.wander {
            within("us-per-root-s", wander.us_per_root_s, 0.0, 1e4)
                .map_err(|e| format!("wander: {e}"))?;
        }
        each("restart", &self.restarts, |restart| {
            within("at-s", restart.at_s, 0.0, TIME)?;
            within("silent-s", restart.silent_s, 0.0, TIME)?;
            within("unsynchronised-s", restart.unsynchronised_s, 0.0, TIME)
        })?;
        each("silence", &self.silences, |silence| interval(silence.from_s, silence.to_s))?;
        each("lapse", &self.lapses, |lapse| {
            within("from-s", lapse.from_s, 0.0, TIME)?;
            within("lost-s", lapse.lost_s, 0.0, TIME)?;
            within("silent-s", lapse.silent_s, 0.0, TIME)?;
            within("ppm", lapse.ppm, -1e5, 1e5)?;
            within("claimed-ppm", lapse.claimed_ppm, 0.0, 1e5)
        })?;
        each("refuse", &self.refusals, |refuse| {
            interval(refuse.from_s, refuse.to_s)?;
            check_code(&refuse.code)
        })?;
        each("warn", &self.warnings, |warning| interval(warning.from_s, warning.to_s))?;
        each("replay", &self.replays, |replay| interval(replay.from_s, replay.to_s))?;
        each("forge", &self.forgeries, |forgery| {
            interval(forgery.from_s, forgery.to_s)?;
            ms("by-ms", forgery.by_ms)?;
            forgery.code.as_deref().map_or(Ok(()), check_code)
        })?;
        self.check_addresses()?;
        self.forward.check().map_err(|e| format!("forward: {e}"))?;
        self.backward.check().map_err(|e| format!("backward: {e}"))
    }

    /// Reads the recorded delays of the ways to it, at each address. `read` gets the name of a
    /// file.
    pub(crate) fn resolve(
        &mut self,
        read: &mut impl FnMut(&str) -> Result<Recording, String>,
    ) -> Result<(), String> {
        self.resolve_paths(read)?;
        for (i, address) in self.addresses.iter_mut().enumerate() {
            let resolved = address.machine.resolve_paths(read);
            resolved.map_err(|why| format!("address {}: machine: {why}", i + 1))?;
        }
        Ok(())
    }

    fn resolve_paths(
        &mut self,
        read: &mut impl FnMut(&str) -> Result<Recording, String>,
    ) -> Result<(), String> {
        for (way, path) in [("forward", &mut self.forward), ("backward", &mut self.backward)] {
            path.resolve(&mut *read).map_err(|why| format!("{way}: {why}"))?;
        }
        Ok(())
    }

    /// Asymmetry of the path that the daemon is told, if any.
    pub(crate) fn declared(&self) -> Option<Asymmetry> {
        let us = |value: f64| span(value * 1e-6);
        let by = us(self.declared_asymmetry_us?);
        Some(Asymmetry { by, error: us(self.declared_error_us) })
    }

    /// True if the path is what the daemon is told, at all times and at all addresses.
    pub(crate) fn is_as_declared(&self) -> bool {
        let Some(declared) = self.declared_asymmetry_us else { return true };
        self.machines().all(|m| m.has_asymmetry(declared, self.declared_error_us))
    }

    /// True if the way there takes `declared` longer than the way back at all times, to within
    /// `error`; both µs.
    fn has_asymmetry(&self, declared: f64, error: f64) -> bool {
        let floor = |path: &PathSpec, t: f64| {
            let on = |s: &&Shift| s.at_s <= t && s.until_s.is_none_or(|until| t < until);
            let shifted = path.shifts.iter().filter(on).map(|s| s.by_ms);
            1e3 * shifted.fold(path.floor_ms, |sum, by| sum + by)
        };
        let shifts = self.forward.shifts.iter().chain(&self.backward.shifts);
        let changes = shifts.flat_map(|s| [Some(s.at_s), s.until_s]).flatten();
        changes.chain([0.0]).all(|t| {
            let asymmetry = floor(&self.forward, t) - floor(&self.backward, t);
            (asymmetry - declared).abs() <= error + 1e-9
        })
    }

    /// Time − the truth, s, at `t`, without wander and smear.
    fn offset_at(&self, t: f64) -> f64 {
        let steps = self.steps.iter().filter(|s| t >= s.at_s).map(|s| s.by_ms);
        let gained = |r: &Ramp| (t - r.from_s).clamp(0.0, r.to_s - r.from_s) * r.ppm * 1e-3;
        let ramps = self.ramps.iter().map(gained);
        let lies = self.lies.iter().filter(|l| during(t, l.from_s, l.to_s)).map(|l| l.by_ms);
        let drifted = |l: &Lapse| 1e-3 * l.ppm * l.lost_for(t).unwrap_or(0.0);
        let drifts = self.lapses.iter().map(drifted);
        let all = steps.chain(ramps).chain(lies).chain(drifts);
        1e-3 * all.fold(self.offset_ms, |sum, by| sum + by)
    }

    /// By how much its root dispersion has grown at `t`, s.
    fn grown_at(&self, t: f64) -> f64 {
        let grown = |l: &Lapse| 1e-6 * l.claimed_ppm * l.lost_for(t).unwrap_or(0.0);
        self.lapses.iter().map(grown).sum()
    }

    /// True if it is away at `t`.
    fn is_silent(&self, t: f64) -> bool {
        self.silences.iter().any(|s| during(t, s.from_s, s.to_s))
            || self.restarts.iter().any(|r| during(t, r.at_s, r.at_s + r.silent_s))
    }

    /// True if it says at `t` that it is not synchronised.
    fn is_unsynchronised(&self, t: f64) -> bool {
        let back = |r: &ServerRestart| r.at_s + r.silent_s;
        let says_so = |l: &Lapse| during(t, l.from_s + l.lost_s, l.from_s + l.lost_s + l.silent_s);
        self.restarts.iter().any(|r| during(t, back(r), back(r) + r.unsynchronised_s))
            || self.lapses.iter().any(says_so)
    }

    /// The root distance that goes with such a dispersion, as a client works it out.
    fn root_distance(&self, dispersion: Short) -> Span {
        let delay = Short::at_least(span(self.root_delay_us * 1e-6)).span();
        delay.half() + dispersion.span() + Log2(self.precision).span()
    }

    /// Settings of the daemon's port that follows it, if it is a PTP master. It says nothing of how good
    /// it is, so the user does.
    pub(crate) fn ptp(&self) -> Option<PtpConfig> {
        let error = Some(self.root_distance(self.dispersion(0.0)));
        self.ptp_sync_s.map(|_| PtpConfig { error, ..PtpConfig::default() })
    }

    fn dispersion(&self, wandered: f64) -> Short {
        Short::at_least(span(self.root_dispersion_us * 1e-6 + wandered))
    }

    /// True if its time will be right to within its root distance for `length` seconds from the
    /// start on, at each of its addresses, by what is said here. `leap` is when there is a leap
    /// second.
    #[must_use]
    pub fn is_honest(&self, length: f64, leap: Option<f64>) -> bool {
        self.machines().all(|machine| machine.is_right(length, leap))
    }

    fn is_right(&self, length: f64, leap: Option<f64>) -> bool {
        let claimed = seconds(self.root_distance(self.dispersion(0.0)));
        // Between these the offset is a straight line.
        let edges = (self.steps.iter().map(|s| s.at_s))
            .chain(self.ramps.iter().flat_map(|r| [r.from_s, r.to_s]))
            .chain(self.lies.iter().flat_map(|l| [l.from_s, l.to_s]))
            .flat_map(|t| [t.next_down(), t])
            .chain([0.0, length]);
        let cut = self.quantum_us * 1e-6;
        let right = |t: f64| {
            let offset = self.offset_at(t);
            offset <= claimed && offset - cut >= -claimed
        };
        let overran = |l: &Lapse| l.ppm.abs() > l.claimed_ppm;
        let lapsed = self.lapses.iter().any(|l| l.from_s < length && overran(l));
        let smeared = self.smears && leap.is_some_and(|at| at - HALF_DAY < length);
        let wandering = self.wander.is_some_and(|w| !w.honest && w.us_per_root_s > 0.0);
        let exact = edges.into_iter().filter(|t| (0.0..=length).contains(t)).all(right);
        exact && !smeared && !wandering && !lapsed && self.warnings.is_empty() && !self.is_forged()
    }
}

impl Lapse {
    /// For how long it has been without its reference at `t`, if it counts yet or still, s.
    fn lost_for(&self, t: f64) -> Option<f64> {
        during(t, self.from_s, self.from_s + self.lost_s).then_some(t - self.from_s)
    }
}

/// True if `t` lies in the stretch.
pub(crate) fn during(t: f64, from: f64, to: f64) -> bool {
    t >= from && t < to
}

/// Refuses what is no kiss code.
fn check_code(code: &str) -> Result<(), String> {
    let letters = code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if code.len() == 4 && letters {
        return Ok(());
    }
    Err(format!("code = {code:?}: must be four capital letters, as in \"RATE\""))
}

/// True if something is fit to be a name: it is used in tables, files and as a host.
pub(crate) fn is_word(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    !name.is_empty() && name.len() <= 63 && name.bytes().all(letter)
}

/// Refuses a poll interval out of range.
pub(crate) fn check_poll(field: &str, poll: u32) -> Result<(), String> {
    let (low, high) = (*POLL_RANGE.start(), *POLL_RANGE.end());
    within(field, f64::from(poll), f64::from(low), f64::from(high))
}
