//! Other clocks on the same packets: a model of chrony, and the trimmed mean that Khronos
//! (RFC 9523) takes.

use truechimer_estimators::{ChronyModel, Measured};
use truechimer_feedforward::number::seconds;
use truechimer_ntp::Log2;
use truechimer_report::median;
use truechimer_time::{Count, Instant};

use crate::scenario::Scenario;
use crate::stamps::Stamped;
use crate::world::Run;

/// A source that has said nothing for so many polls does not count in the trimmed mean.
const REACH: f64 = 8.0;

/// Results of other clocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Beside {
    /// Largest error of the model of chrony, µs; NaN if it never had a time.
    pub chrony_us: f64,
    /// The largest error beyond its own claim, µs; 0 if the claim held throughout.
    pub chrony_beyond_us: f64,
    /// Median of its claim, µs.
    pub chrony_claim_us: f64,
    /// Largest error of the mean of what all sources said last, without the highest and the lowest
    /// third, µs; NaN where there never were three.
    pub trimmed_us: f64,
}

/// Runs the others on the packets of a run. Whoever made up a reply that nobody uses is left out.
#[must_use]
pub fn beside(scenario: &Scenario, run: &Run) -> Beside {
    let mut all: Vec<(usize, &Stamped)> = Vec::new();
    for (source, stamps) in run.stamps.iter().enumerate() {
        all.extend(stamps.iter().map(|stamped| (source, stamped)));
    }
    all.sort_by(|(_, a), (_, b)| (a.received - b.received).0.cmp(&0));
    let Some((_, first)) = all.first() else {
        return Beside { chrony_us: f64::NAN, trimmed_us: f64::NAN, ..Beside::default() };
    };
    let hz = scenario.host.counter_hz as f64;
    let start = first.received;
    let local = |count: Count| (count - start).0 as f64 / hz;
    let base = first.reference.map_or(first.server_sent, |reference| reference.received);
    let since = |at: Instant| seconds(at - base);
    let poll = f64::from(scenario.poll);
    let proven: Vec<bool> = scenario.servers.iter().map(|server| server.proof).collect();
    let mut chrony = ChronyModel::new(&proven, poll);
    let mut newest: Vec<Option<(f64, f64)>> = vec![None; scenario.servers.len()];
    let (mut largest, mut beyond, mut trimmed) = (f64::NAN, 0.0f64, f64::NAN);
    let mut claims = Vec::new();
    for (source, stamped) in all {
        let Some(reference) = stamped.reference else { continue };
        let Some(spec) = scenario.servers.get(source) else { continue };
        let (sent, received) = (local(stamped.sent), local(stamped.received));
        let at = (sent + received) / 2.0;
        let server = (since(stamped.server_received) + since(stamped.server_sent)) / 2.0;
        let residence = seconds(stamped.server_sent - stamped.server_received);
        let right = since(reference.received) - received;
        let mut judge = |chrony: &ChronyModel| {
            let Some((offset, claim)) = chrony.reading(received) else { return };
            let error = (offset - right).abs();
            largest = error.max(largest);
            beyond = beyond.max(error - claim);
            claims.push(claim);
        };
        judge(&chrony);
        chrony.measure(&Measured {
            source,
            at,
            offset: server - at,
            delay: received - sent - residence,
            waited: received - sent,
            root_delay: 1e-6 * spec.root_delay_us,
            root_dispersion: 1e-6 * spec.root_dispersion_us + seconds(Log2(spec.precision).span()),
        });
        judge(&chrony);
        let middle = (since(reference.sent) + since(reference.received)) / 2.0;
        if let Some(place) = newest.get_mut(source) {
            *place = Some((at, server - middle));
        }
        let fresh = newest.iter().flatten().filter(|(then, _)| at - then <= REACH * poll);
        let mut errors: Vec<f64> = fresh.map(|(_, error)| *error).collect();
        errors.sort_by(f64::total_cmp);
        let cut = errors.len() / 3;
        if let Some(middle) = errors.get(cut..errors.len() - cut).filter(|_| cut > 0) {
            trimmed = truechimer_report::mean(middle.iter().copied()).abs().max(trimmed);
        }
    }
    Beside {
        chrony_us: 1e6 * largest,
        chrony_beyond_us: 1e6 * beyond,
        chrony_claim_us: 1e6 * median(claims),
        trimmed_us: 1e6 * trimmed,
    }
}
