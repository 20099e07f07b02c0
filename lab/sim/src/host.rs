//! The host: its counter and clocks, when it wakes, and how it stamps packets.

use serde::{Deserialize, Serialize};
use truechimer_engine::HostCheck;
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};
use truechimer_timehands::Made;

use crate::limits::{TIME, each, interval, within};
use crate::oscillator::{Oscillator, OscillatorSpec};
use crate::random::Random;
use crate::server::during;
use truechimer_feedforward::number::span;

/// Count when the run begins: that of a machine that has been up for a while.
pub(crate) const BEGUN: Count = Count(1_000_000_000_000);
/// The slowest and the fastest counter, Hz.
pub(crate) const COUNTER_HZ: (f64, f64) = (1e6, 1e10);
/// Stretches in which the host may be held up once, s.
const STALL_BLOCK: f64 = 0.1;
/// Time that reading the host's clocks takes, s.
const READING: f64 = 80e-9;

/// Properties of the host. All times are in seconds since the start of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HostSpec {
    /// Counts per second, nominally.
    pub counter_hz: u64,
    /// Length of each stretch in which it wakes once, at a moment of its own, for what is due, ms.
    pub tick_ms: f64,
    /// Time that it takes to wake for a packet, µs: the mean of an exponential distribution.
    pub wake_us: f64,
    /// Stamping of packets.
    pub stamps: StampSpec,
    /// When it has other work to do.
    #[serde(rename = "load", skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// When it sleeps.
    #[serde(rename = "suspend", skip_serializing_if = "Vec::is_empty")]
    pub suspends: Vec<Suspend>,
    /// When its counter jumps.
    #[serde(rename = "jump", skip_serializing_if = "Vec::is_empty")]
    pub jumps: Vec<Jump>,
    /// Delays added to the client's requests, once they have been stamped.
    #[serde(rename = "request-delay", skip_serializing_if = "Vec::is_empty")]
    pub request_delays: Vec<RequestDelay>,
}

/// Properties of the stamping of packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StampSpec {
    /// Source of the stamps.
    pub law: StampLaw,
    /// Standard deviation of the error of turning a kernel stamp into a count, ns.
    pub noise_ns: f64,
    /// The bound that is stated with a kernel stamp, ns. The error never exceeds it.
    pub stated_ns: f64,
    /// Share of kernel stamps that can be turned into counts no better than to `outlier-us`.
    pub outliers: f64,
    /// The mean of such an error, µs; what is stated then is true as well.
    pub outlier_us: f64,
    /// Time that a packet takes from the stamp to the wire, µs: the mean of an exponential
    /// distribution. To a user-space stamp that is what the system call takes.
    pub send_us: f64,
    /// Time from the wire to the stamp, µs, likewise. To a user-space stamp it comes beside what it
    /// takes to wake.
    pub receive_us: f64,
    /// Share of packets that wait much longer, in either direction,
    pub held_up: f64,
    /// namely for this on average, ms.
    pub held_up_ms: f64,
}

/// Source of the stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StampLaw {
    /// The kernel; its stamps become counts, each with a bound of a fraction of a microsecond.
    #[default]
    Kernel,
    /// The program, by reading the counter around its system calls: what the scheduler does in
    /// between is in the stamps and in the bounds stated with them.
    User,
}

/// A stretch in which the host has other work to do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Load {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// Sending, receiving and waking take so many times as long.
    pub factor: f64,
    /// Share of tenths of a second in which nothing runs for a while,
    #[serde(default)]
    pub stalls: f64,
    /// namely for up to this, ms (at most 100).
    #[serde(default)]
    pub stall_ms: f64,
}

/// A stretch in which the host sleeps.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Suspend {
    /// When it falls asleep, s.
    pub from_s: f64,
    /// When it wakes up, s.
    pub to_s: f64,
    /// True if the counter stands still meanwhile.
    #[serde(default)]
    pub counter_stops: bool,
}

/// A jump of the counter.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Jump {
    /// When, s.
    pub at_s: f64,
    /// By how much, s; negative: back.
    pub by_s: f64,
    /// True if the kernel's raw clock is made of the counter and jumps with it, so that nothing
    /// shows.
    #[serde(default)]
    pub raw_too: bool,
}

/// Something that holds up the client's requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RequestDelay {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// By how much, µs.
    pub by_us: f64,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            counter_hz: 2_400_000_000,
            tick_ms: 1.0,
            wake_us: 20.0,
            stamps: StampSpec::default(),
            loads: Vec::new(),
            suspends: Vec::new(),
            jumps: Vec::new(),
            request_delays: Vec::new(),
        }
    }
}

impl Default for StampSpec {
    fn default() -> StampSpec {
        StampSpec {
            law: StampLaw::Kernel,
            noise_ns: 10.0,
            stated_ns: 100.0,
            outliers: 0.0,
            outlier_us: 0.0,
            send_us: 0.0,
            receive_us: 0.0,
            held_up: 0.0,
            held_up_ms: 0.0,
        }
    }
}

impl HostSpec {
    /// Refuses what is out of range.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let (low, high) = COUNTER_HZ;
        within("counter-hz", self.counter_hz as f64, low, high)?;
        within("tick-ms", self.tick_ms, 0.01, 100.0)?;
        within("wake-us", self.wake_us, 0.0, 1e5)?;
        self.stamps.check().map_err(|e| format!("stamps: {e}"))?;
        each("load", &self.loads, |load| {
            interval(load.from_s, load.to_s)?;
            within("factor", load.factor, 1.0, 1000.0)?;
            within("stalls", load.stalls, 0.0, 0.9)?;
            within("stall-ms", load.stall_ms, 0.0, 1e3 * STALL_BLOCK)
        })?;
        each("suspend", &self.suspends, |suspend| interval(suspend.from_s, suspend.to_s))?;
        let follow = self.suspends.windows(2).all(|pair| match pair {
            [a, b] => b.from_s > a.to_s,
            _ => true,
        });
        if !follow {
            return Err("suspend: each must begin after the one before has ended".to_owned());
        }
        each("jump", &self.jumps, |jump| {
            within("at-s", jump.at_s, 0.0, TIME)?;
            within("by-s", jump.by_s, -TIME, TIME)
        })?;
        each("request-delay", &self.request_delays, |delay| {
            interval(delay.from_s, delay.to_s)?;
            within("by-us", delay.by_us, 0.0, 1e7)
        })
    }
}

impl StampSpec {
    fn check(&self) -> Result<(), String> {
        within("noise-ns", self.noise_ns, 0.0, 1e6)?;
        within("stated-ns", self.stated_ns, 0.0, 1e6)?;
        within("outliers", self.outliers, 0.0, 1.0)?;
        within("outlier-us", self.outlier_us, 0.0, 1e4)?;
        within("send-us", self.send_us, 0.0, 1e5)?;
        within("receive-us", self.receive_us, 0.0, 1e5)?;
        within("held-up", self.held_up, 0.0, 1.0)?;
        within("held-up-ms", self.held_up_ms, 0.0, 1000.0)
    }
}

/// A request that left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    /// Stamp as the program hears of it.
    pub(crate) stamp: Stamp,
    /// The true time that the stamp's count is of, s.
    pub(crate) stamped: f64,
    /// When it was on the wire, s.
    pub(crate) wire: f64,
}

/// A reply that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Stamp as the program hears of it; a user-space stamp's error is found when that is known.
    pub(crate) stamp: Stamp,
    /// The true time that the stamp's count is of, s.
    pub(crate) stamped: f64,
    /// When it was there to be read, s.
    pub(crate) passed: f64,
    /// When the program runs because of it, s.
    pub(crate) woken: f64,
}

/// A host at work.
#[derive(Debug)]
pub(crate) struct Host {
    spec: HostSpec,
    oscillator: Oscillator,
    hz: u64,
    ticks: Random,
    stalls: Random,
    stamps: Random,
    wakes: Random,
}

impl Host {
    pub(crate) fn new(spec: &HostSpec, oscillator: &OscillatorSpec, seed: u64) -> Host {
        Host {
            oscillator: Oscillator::new(oscillator, seed),
            hz: spec.counter_hz,
            ticks: Random::new(seed, "host/ticks"),
            stalls: Random::new(seed, "host/stalls"),
            stamps: Random::new(seed, "host/stamps"),
            wakes: Random::new(seed, "host/wakes"),
            spec: spec.clone(),
        }
    }

    pub(crate) fn nominal(&self) -> Period {
        Period::from_hz(self.hz)
    }

    /// Stamps of packets.
    pub(crate) fn stamp_spec(&self) -> StampSpec {
        self.spec.stamps
    }

    /// The true relative error of the counter's rate.
    pub(crate) fn skew_at(&mut self, t: f64) -> f64 {
        self.oscillator.skew_at(t)
    }

    /// Time for which the host has slept by `t`, s.
    fn slept(&self, t: f64, only_stopped: bool) -> f64 {
        let counts = |s: &&Suspend| !only_stopped || s.counter_stops;
        let slept = |s: &Suspend| (t - s.from_s).clamp(0.0, s.to_s - s.from_s);
        self.spec.suspends.iter().filter(counts).map(slept).sum()
    }

    fn jumped(&self, t: f64, only_raw: bool) -> f64 {
        let jumps = self.spec.jumps.iter().filter(|j| t >= j.at_s && (j.raw_too || !only_raw));
        jumps.map(|j| j.by_s).sum()
    }

    /// Reading of the counter at `t`.
    pub(crate) fn count(&mut self, t: f64) -> Count {
        let ran = self.oscillator.count_at(t, self.hz, BEGUN);
        if self.spec.suspends.is_empty() && self.spec.jumps.is_empty() {
            return ran;
        }
        let extra = self.jumped(t, false) - self.slept(t, true);
        ran + self.counts(extra)
    }

    /// Counts in so many seconds at the nominal rate.
    fn counts(&self, seconds: f64) -> CountSpan {
        CountSpan(libm::rint(seconds * self.hz as f64) as i64)
    }

    /// The kernel's clocks at `t`: raw, suspended, ns.
    fn clocks(&mut self, t: f64) -> (i64, i64) {
        let ran = self.oscillator.count_at(t, self.hz, Count(0));
        let slept = self.slept(t, false);
        let extra = self.counts(self.jumped(t, true) - slept);
        let raw = self.nominal().span(ran + extra - Count(0)).as_nanos_i64();
        (raw, span(slept).as_nanos_i64())
    }

    /// Findings of the daemon's look at the host at `t`.
    pub(crate) fn check(&mut self, t: f64) -> HostCheck {
        let (raw_ns, suspended_ns) = self.clocks(t);
        HostCheck { count: self.count(t), raw_ns, suspended_ns, width: self.counts(READING) }
    }

    /// Findings for a hand that is being published.
    pub(crate) fn made(&mut self, t: f64) -> Made {
        let HostCheck { count, raw_ns, suspended_ns, .. } = self.check(t);
        Made { count, monotonic_ns: raw_ns, raw_ns, suspended_ns, device: None }
    }

    /// When it wakes up again, if it sleeps at `t`.
    pub(crate) fn asleep_until(&self, t: f64) -> Option<f64> {
        self.spec.suspends.iter().find(|s| during(t, s.from_s, s.to_s)).map(|s| s.to_s)
    }

    /// By what the other work makes everything slower at `t`.
    fn slowness(&self, t: f64) -> f64 {
        let loads = self.spec.loads.iter().filter(|l| during(t, l.from_s, l.to_s));
        loads.fold(1.0, |most, load| most.max(load.factor))
    }

    /// True if nothing runs at `t`, a tick's moment.
    fn is_stalled(&mut self, t: f64) -> bool {
        let loads = self.spec.loads.iter().filter(|l| during(t, l.from_s, l.to_s));
        let Some(load) = loads.max_by(|a, b| a.stalls.total_cmp(&b.stalls)).copied() else {
            return false;
        };
        if load.stalls <= 0.0 {
            return false;
        }
        let block = libm::floor(t / STALL_BLOCK);
        [block - 1.0, block].into_iter().any(|block| {
            self.stalls.seek(block.max(0.0) as u64);
            let stalled = self.stalls.chance(load.stalls);
            let begin = (block + self.stalls.uniform()) * STALL_BLOCK;
            let length = self.stalls.uniform() * load.stall_ms * 1e-3;
            stalled && during(t, begin, begin + length)
        })
    }

    /// The first moment at or after `t` at which the host can wake for something that is due.
    /// What runs out while it sleeps is put off by as long as it sleeps (see poll(2)).
    ///
    /// These moments depend on the seed alone, not on what is due: whatever else an estimator has
    /// the engine wake up for, it polls at the same moments as any other.
    pub(crate) fn wakes_at(&mut self, t: f64) -> f64 {
        let tick = self.spec.tick_ms * 1e-3;
        let awake = t - self.slept(t, false);
        let mut cell = (libm::floor(awake / tick) - 1.0).max(0.0);
        loop {
            self.ticks.seek(cell as u64);
            let moment = (cell + self.ticks.uniform()) * tick;
            let at = self.after_sleep(moment);
            if at >= t && !self.is_stalled(at) {
                return at;
            }
            cell += 1.0;
        }
    }

    /// The true time at which the host has been awake for `awake` seconds.
    fn after_sleep(&self, awake: f64) -> f64 {
        self.spec.suspends.iter().fold(awake, |t, suspend| {
            if t >= suspend.from_s { t + (suspend.to_s - suspend.from_s) } else { t }
        })
    }

    /// Time of what is due at `due` by the counter, s, going by what it reads at `t`, now.
    pub(crate) fn time_of(&mut self, due: Count, t: f64) -> f64 {
        let ahead = (due - self.count(t)).0 as f64 / self.hz as f64;
        t + ahead / (1.0 + self.skew_at(t))
    }

    /// Time that something takes, s, mean `us` (µs), with what may hold it up.
    fn takes(random: &mut Random, spec: &StampSpec, us: f64) -> f64 {
        let took = random.exponential(1e-6) * us;
        let held_up = random.chance(spec.held_up);
        let extra = random.exponential(1e-3) * spec.held_up_ms;
        took + if held_up { extra } else { 0.0 }
    }

    /// The error of turning a kernel stamp into a count, and what is stated of it, s.
    fn kernel_error(random: &mut Random, spec: &StampSpec) -> (f64, f64) {
        let noise = random.normal() * spec.noise_ns * 1e-9;
        let outlier = random.chance(spec.outliers);
        let large = random.exponential(1e-6) * spec.outlier_us;
        let sign = if random.chance(0.5) { 1.0 } else { -1.0 };
        let stated = spec.stated_ns * 1e-9;
        if outlier {
            (sign * large, stated + 1.5 * large)
        } else {
            (noise.clamp(-stated, stated), stated)
        }
    }

    fn stamp(&mut self, t: f64, error: f64, method: StampMethod) -> Stamp {
        // One count more, as counts are whole.
        let error = CountSpan(libm::ceil(error * self.hz as f64) as i64 + 1);
        Stamp { count: self.count(t), error, method }
    }

    /// The stamp of an edge that came at `t`; `noise` is a standard normal number, and `more` what
    /// is stated beside the error of a packet's stamp, s.
    pub(crate) fn edge(&mut self, t: f64, noise: f64, more: f64) -> Stamp {
        let spec = self.spec.stamps;
        let stated = spec.stated_ns * 1e-9;
        let error = (noise * spec.noise_ns * 1e-9).clamp(-stated, stated);
        self.stamp(t + error, stated + more, StampMethod::Kernel)
    }

    /// The host sends request `number` of all, `t` being when the program wants it to.
    pub(crate) fn send(&mut self, number: u64, t: f64) -> Departure {
        self.stamps.seek(2 * number);
        let spec = self.spec.stamps;
        let (error, stated) = Host::kernel_error(&mut self.stamps, &spec);
        let slow = self.slowness(t);
        let took = slow * Host::takes(&mut self.stamps, &spec, spec.send_us);
        let delays = self.spec.request_delays.iter().filter(|d| during(t, d.from_s, d.to_s));
        let delayed: f64 = delays.map(|d| d.by_us * 1e-6).sum();
        match spec.law {
            StampLaw::Kernel => {
                let stamped = t + error;
                let stamp = self.stamp(stamped, stated, StampMethod::Kernel);
                Departure { stamp, stamped, wire: t + took + delayed }
            }
            StampLaw::User => {
                // Read before and after the system call; the packet left at any time between.
                let returned = t + took * (1.0 + self.stamps.uniform());
                let stamped = t + (returned - t) / 2.0;
                let stamp = self.stamp(stamped, (returned - t) / 2.0, StampMethod::User);
                Departure { stamp, stamped, wire: t + took + delayed }
            }
        }
    }

    /// A reply to request `number` (its copy if so said) comes in at `t`.
    pub(crate) fn receive(&mut self, number: u64, copy: bool, t: f64) -> Arrival {
        let place = 2 * number + u64::from(copy);
        self.wakes.seek(place);
        let spec = self.spec.stamps;
        let slow = self.slowness(t);
        let (error, stated) = Host::kernel_error(&mut self.wakes, &spec);
        let took = slow * Host::takes(&mut self.wakes, &spec, spec.receive_us);
        let mut woken = t + took + slow * self.wakes.exponential(1e-6) * self.spec.wake_us;
        if self.is_stalled(woken) {
            woken = self.wakes_at(woken);
        }
        let (stamped, stated, method) = match spec.law {
            StampLaw::Kernel => (t + took + error, stated, StampMethod::Kernel),
            StampLaw::User => (woken, 0.0, StampMethod::User),
        };
        Arrival { stamp: self.stamp(stamped, stated, method), stamped, passed: t + took, woken }
    }
}

/// The stamp of an arrival as the program hears it: of a user-space stamp it is only known that
/// the packet came between the request and the reading.
pub(crate) fn as_heard(arrival: &Arrival, departure: &Departure) -> Stamp {
    let stamp = arrival.stamp;
    match stamp.method {
        StampMethod::Hardware | StampMethod::Kernel => stamp,
        StampMethod::User => Stamp {
            error: (stamp.count - departure.stamp.count).abs() + departure.stamp.error,
            ..stamp
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(spec: HostSpec) -> Host {
        Host::new(&spec, &OscillatorSpec::reference(), 3)
    }

    fn stated(host: &Host, stamp: Stamp) -> f64 {
        stamp.error.0 as f64 / host.hz as f64
    }

    /// Promise of stamps: the packet passed within the stated error of the count.
    #[test]
    fn stated_errors_are_true() {
        let kernel = StampSpec {
            outliers: 0.1,
            outlier_us: 3.0,
            send_us: 1.0,
            receive_us: 5.0,
            held_up: 0.05,
            held_up_ms: 2.0,
            ..StampSpec::default()
        };
        let user = StampSpec { law: StampLaw::User, ..kernel };
        for stamps in [kernel, user] {
            let mut host = host(HostSpec { stamps, ..HostSpec::default() });
            let mut widest = 0.0f64;
            for number in 0..5000 {
                let t = 10.0 + number as f64 * 0.37;
                let departure = host.send(number, t);
                assert!(departure.wire >= t);
                let at = departure.wire + 200e-6;
                let arrival = host.receive(number, false, at);
                assert!(arrival.woken >= arrival.passed && arrival.passed >= at);
                let heard = as_heard(&arrival, &departure);
                // The kernel's stamp is of the moment at which the packet passed it.
                let (left, came) = match stamps.law {
                    StampLaw::Kernel => (t, arrival.passed),
                    StampLaw::User => (departure.wire, at),
                };
                for (stamp, passed) in [(departure.stamp, left), (heard, came)] {
                    let off = (stamp.count - host.count(passed)).0.abs();
                    assert!(off <= stamp.error.0, "{stamps:?} {number}: {off} {stamp:?}");
                    widest = widest.max(stated(&host, stamp));
                }
                // Causality, whatever the law: the packet came after it left.
                assert!((heard.count - departure.stamp.count).0 > 0);
            }
            assert!(widest > 1e-6, "outliers are rare, not absent");
        }
    }

    #[test]
    fn it_wakes_on_a_grid_of_its_own() {
        let load = Load { from_s: 5.0, to_s: 8.0, factor: 10.0, stalls: 0.5, stall_ms: 80.0 };
        let suspend = Suspend { from_s: 3.0, to_s: 4.0, counter_stops: true };
        let mut host =
            host(HostSpec { loads: vec![load], suspends: vec![suspend], ..HostSpec::default() });
        let (mut t, mut longest) = (0.0, 0.0f64);
        while t < 10.0 {
            let next = host.wakes_at(t);
            assert!(next >= t && host.asleep_until(next).is_none(), "{t}: {next}");
            // Asked from anywhere before it, it is the same moment.
            assert_eq!(host.wakes_at(t + (next - t) / 2.0), next);
            assert_eq!(host.wakes_at(next), next);
            if !during(t, 2.99, 4.0) {
                longest = longest.max(next - t);
                assert!(next - t < 2e-3 || during(next, 5.0, 8.1), "{t}: {next}");
            }
            t = next.next_up();
        }
        assert!(longest > 20e-3, "nothing ever held it up: {longest}");
    }

    #[test]
    fn clocks_tell_of_sleep_and_jumps() {
        let suspend = |counter_stops| Suspend { from_s: 10.0, to_s: 110.0, counter_stops };
        let jump = |raw_too| Jump { at_s: 200.0, by_s: 0.5, raw_too };
        for (stops, raw_too) in [(false, false), (true, true)] {
            let mut host = host(HostSpec {
                suspends: vec![suspend(stops)],
                jumps: vec![jump(raw_too)],
                ..HostSpec::default()
            });
            let [before, after, jumped] = [9.0, 111.0, 201.0].map(|t| host.check(t));
            let counted = |a: HostCheck, b: HostCheck, host: &Host| {
                (b.count - a.count).0 as f64 / host.hz as f64
            };
            let raw = |a: HostCheck, b: HostCheck| (b.raw_ns - a.raw_ns) as f64 * 1e-9;
            let near = |a: f64, b: f64| (a - b).abs() < 5e-3;
            assert!(near(counted(before, after, &host), if stops { 2.0 } else { 102.0 }));
            assert!(near(raw(before, after), 2.0));
            assert_eq!(after.suspended_ns - before.suspended_ns, 100_000_000_000);
            assert!(near(counted(after, jumped, &host), 90.5));
            assert!(near(raw(after, jumped), if raw_too { 90.5 } else { 90.0 }));
            // What is due by the counter comes after the sleep.
            let due = host.count(9.0) + CountSpan(host.hz as i64 / 2);
            assert!(near(host.time_of(due, 9.0), 9.5));
        }
    }
}
