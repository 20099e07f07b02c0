//! A model of chrony 4's client, for comparison: statistics of each source, selection, combination.
//!
//! Written from its documentation (`chrony.conf(5)`, the FAQ) and its behaviour, not from its code.
//! Modelled: the test of delays (`maxdelaydevratio` 10), the register of up to 64 samples with a
//! weighted regression and a test of runs ([`statistics`]), selection by overlapping intervals with
//! `authselectmode mix` (proven sources are trusted and required where there are plain ones too),
//! `maxdistance` 3 s, `maxjitter` 1 s, scores with `reselectdist` 0.1 ms, `combinelimit` 3, the reference's root
//! distance. Not modelled: its own poll intervals, bursts and sockets (it is given packets that
//! another client exchanged), asymmetric jitter (`asymmetry`), slewing (the reference is followed at once; a
//! real one takes some time longer), `makestep` and `maxchange`, leap seconds.

mod selection;
mod statistics;

use statistics::Register;

/// Growth of the claimed error beside the skew, as a fraction (`maxclockerror`).
const MAX_CLOCK_ERROR: f64 = 1e-6;
/// A source that has said nothing for so many polls is unreachable.
const REACH: f64 = 8.0;
/// The greatest root distance of a source that may be selected, s (`maxdistance`).
const MAX_DISTANCE: f64 = 3.0;
/// Difference below which distances are equal, s (`reselectdist`).
const RESELECT_DISTANCE: f64 = 100e-6;
/// Another source takes the selected one's place from this score on.
const SCORE_LIMIT: f64 = 10.0;
/// The greatest deviation of a source that may be selected, s (`maxjitter`).
const MAX_JITTER: f64 = 1.0;
/// Number of updates in which a source that disagreed, or was far away, has no part.
const DISTANT: u32 = 32;
/// Sources further away than so many times the selected one have no part (`combinelimit`).
const COMBINE_LIMIT: f64 = 3.0;

/// A reply, by a local clock that runs free.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Which source.
    pub source: usize,
    /// When, by the local clock, s: half-way between request and reply.
    pub at: f64,
    /// Server − local clock, s.
    pub offset: f64,
    /// Round trip without the server's part, s.
    pub delay: f64,
    /// From request to reply, s.
    pub waited: f64,
    /// Root delay that the server claims, s.
    pub root_delay: f64,
    /// Root dispersion that the server claims, its precision with it, s.
    pub root_dispersion: f64,
}

/// The client.
#[derive(Clone, Debug)]
pub struct ChronyModel {
    sources: Vec<Source>,
    selected: Option<usize>,
    reference: Option<Reference>,
    poll: f64,
}

#[derive(Clone, Debug)]
struct Source {
    register: Register,
    trusted: bool,
    score: f64,
    /// For so many updates it has no part, though it may be selected.
    distant: u32,
    /// True if there is a sample since the last update of the reference.
    updated: bool,
}

/// Course of the clock that it steers.
#[derive(Clone, Copy, Debug)]
struct Reference {
    at: f64,
    offset: f64,
    frequency: f64,
    skew: f64,
    root_delay: f64,
    root_dispersion: f64,
}

impl ChronyModel {
    /// A client of so many sources, polled each `poll` seconds; `proven` are those that have NTS or
    /// a key.
    #[must_use]
    pub fn new(proven: &[bool], poll: f64) -> ChronyModel {
        let mixed = proven.contains(&true) && proven.contains(&false);
        let source = |proven: &bool| Source {
            register: Register::default(),
            trusted: mixed && *proven,
            score: 1.0,
            distant: 0,
            updated: false,
        };
        ChronyModel {
            sources: proven.iter().map(source).collect(),
            selected: None,
            reference: None,
            poll,
        }
    }

    /// Takes a reply.
    pub fn measure(&mut self, measured: &Measured) {
        let Some(source) = self.sources.get_mut(measured.source) else { return };
        if !source.register.take(measured) {
            return;
        }
        source.updated = true;
        self.select(measured.source, measured.at);
    }

    /// True time − local clock as it takes it to be at `at`, and how far it claims to be off at
    /// most: root dispersion and half the root delay, s. `None` before it has a reference.
    #[must_use]
    pub fn reading(&self, at: f64) -> Option<(f64, f64)> {
        let reference = self.reference?;
        let age = at - reference.at;
        let grown = (reference.skew + MAX_CLOCK_ERROR) * age.abs();
        let claim = reference.root_dispersion + 0.5 * reference.root_delay + grown;
        Some((reference.offset + reference.frequency * age, claim))
    }

    /// Follows the selected source, combined with those that are as good (`survivors`).
    fn follow(&mut self, selected: usize, survivors: &[usize]) {
        let Some(best) = self.sources.get(selected).and_then(|s| s.register.tracking()) else {
            return;
        };
        let (mut offset, mut frequency, mut skew) = (0.0, 0.0, 0.0);
        let (mut offset_weights, mut rate_weights) = (0.0, 0.0);
        for index in survivors {
            let Some(source) = self.sources.get_mut(*index) else { continue };
            let Some(own) = source.register.tracking() else { continue };
            let far = own.distance > COMBINE_LIMIT * (RESELECT_DISTANCE + best.distance);
            let rates = best.skew + own.skew + MAX_CLOCK_ERROR;
            let apart = (own.frequency - best.frequency).abs() > COMBINE_LIMIT * rates;
            if *index != selected && (far || apart) {
                source.distant = DISTANT;
            } else {
                source.distant = source.distant.saturating_sub(1);
            }
            if source.distant > 0 {
                continue;
            }
            let weight = 1.0 / (own.distance * own.distance);
            offset += weight * (own.offset + own.frequency * (best.at - own.at));
            offset_weights += weight;
            let weight = 1.0 / (own.skew * own.skew);
            frequency += weight * own.frequency;
            skew += weight * own.skew;
            rate_weights += weight;
        }
        self.reference = Some(Reference {
            at: best.at,
            offset: offset / offset_weights,
            frequency: frequency / rate_weights,
            skew: skew / rate_weights,
            root_delay: best.root_delay,
            root_dispersion: best.root_dispersion,
        });
        self.sources.iter_mut().for_each(|source| source.updated = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of sources that are `off` by so much, each 16 s; the local clock loses 10 ppm.
    fn run(client: &mut ChronyModel, off: &[f64], from: u32, to: u32) {
        for n in from..to {
            for (source, off) in off.iter().enumerate() {
                let at = f64::from(n) * 16.0 + source as f64;
                let delay = 200e-6 + 10e-6 * f64::from((n * 7 + source as u32) % 5);
                client.measure(&Measured {
                    source,
                    at,
                    offset: 1.0 + 10e-6 * at + off + 0.5 * (delay - 200e-6),
                    delay,
                    waited: delay,
                    root_delay: 0.0,
                    root_dispersion: 1e-6,
                });
            }
        }
    }

    /// Error at `at`, s, and its claim.
    fn error(client: &ChronyModel, at: f64) -> (f64, f64) {
        let (offset, claim) = client.reading(at).unwrap();
        (offset - 1.0 - 10e-6 * at, claim)
    }

    #[test]
    fn a_majority_is_followed_and_a_lone_liar_is_not() {
        let mut client = ChronyModel::new(&[false; 3], 16.0);
        assert_eq!(client.reading(0.0), None);
        run(&mut client, &[0.0, 0.0, 50e-3], 0, 100);
        let (off, claim) = error(&client, 1600.0);
        assert!(off.abs() < 20e-6 && claim < 1e-3, "{off} {claim}");
        // Two that lie alike are the majority.
        run(&mut client, &[0.0, 50e-3, 50e-3], 100, 300);
        assert!((error(&client, 4800.0).0 - 50e-3).abs() < 1e-3);
    }

    #[test]
    fn plain_sources_beside_a_proven_one_stay_within_it() {
        let mut client = ChronyModel::new(&[true, false, false, false], 16.0);
        run(&mut client, &[0.0, 50e-3, 50e-3, 50e-3], 0, 100);
        assert!(error(&client, 1600.0).0.abs() < 20e-6);
    }

    #[test]
    fn without_a_majority_it_goes_on_as_it_was_and_claims_more() {
        let mut client = ChronyModel::new(&[false; 2], 16.0);
        run(&mut client, &[0.0, 0.0], 0, 100);
        let before = error(&client, 1600.0).1;
        run(&mut client, &[20e-3, -20e-3], 100, 110);
        let (off, claim) = error(&client, 3600.0);
        assert!(off.abs() < 15e-3 && claim > before, "{off} {claim}");
    }
}
