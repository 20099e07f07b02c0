//! Voice over a path, as the E-model of ITU-T G.107 (06/2015) rates it.
//!
//! The model has some twenty inputs. Those of the telephones and of the room are at the defaults of G.107 table 3
//! (echo well cancelled, no noise, advantage factor 0); the path and the codec are in [`Voice`].

use serde::Serialize;

/// Basic signal-to-noise ratio with the defaults (G.107 equation 7-2), on the scale of R.
const RO: f64 = 94.768;
/// Simultaneous impairment with the defaults (G.107 equation 7-8), on the scale of R.
const IS: f64 = 1.414;
/// Talker echo loudness rating, dB (G.107 table 3).
const TELR: f64 = 65.0;
/// Weighted echo path loss, dB (G.107 table 3).
const WEPL: f64 = 110.0;
/// Most by which a codec and losses can impair (G.107 equation 7-29).
const MOST_IMPAIRED: f64 = 95.0;

/// A codec by what G.113 appendix I says of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Codec {
    /// Name.
    pub name: &'static str,
    /// Equipment impairment factor Ie, on the scale of R.
    pub impairment: f64,
    /// Packet-loss robustness factor Bpl, %.
    pub robustness: f64,
    /// Speech in a packet and what the codec looks ahead, ms.
    pub framing_ms: f64,
}

impl Codec {
    /// Codecs known here: packets of 20 ms.
    pub const ALL: [Codec; 3] = [
        Codec { name: "g711", impairment: 0.0, robustness: 4.3, framing_ms: 20.0 },
        Codec { name: "g711-plc", impairment: 0.0, robustness: 25.1, framing_ms: 20.0 },
        Codec { name: "g729a", impairment: 11.0, robustness: 19.0, framing_ms: 25.0 },
    ];

    /// Codec of a payload type of RTP that is fixed (RFC 3551 table 4): 0 and 8 are G.711, 18 G.729, taken for its annex A.
    /// Of 96 to 127 the two ends agree elsewhere.
    #[must_use]
    pub fn of_payload_type(payload_type: u8) -> Option<Codec> {
        match payload_type {
            0 | 8 => Codec::named("g711"),
            18 => Codec::named("g729a"),
            _ => None,
        }
    }

    /// Codec of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name == name)
    }
}

/// Inputs of the model that a path has.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Voice {
    /// The codec.
    pub codec: Codec,
    /// From mouth to ear one way, ms, ≥ 0: path, framing and dejitter buffer.
    pub delay_ms: f64,
    /// Packets that cannot be played, lost or too late, ÷ packets sent: 0 to 1.
    pub loss: f64,
    /// Mean length of a run of losses ÷ that of losses by chance (BurstR), at least 1.
    pub burst: f64,
}

impl Voice {
    /// Transmission rating factor R: 93.2 for a perfect path.
    #[must_use]
    pub fn rating(&self) -> f64 {
        RO - IS - delay_impairment(self.delay_ms.max(0.0)) - self.equipment_impairment()
    }

    /// Estimate of the mean opinion score of a conversation (MOS-CQE), 1 to 4.5 (G.107 annex B).
    #[must_use]
    pub fn opinion(&self) -> f64 {
        let r = self.rating().clamp(0.0, 100.0);
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).clamp(1.0, 4.5)
    }

    /// Ie,eff (G.107 equation 7-29).
    fn equipment_impairment(&self) -> f64 {
        let Codec { impairment, robustness, .. } = self.codec;
        let percent = 100.0 * self.loss.clamp(0.0, 1.0);
        impairment
            + (MOST_IMPAIRED - impairment) * percent / (percent / self.burst.max(1.0) + robustness)
    }
}

/// Id (G.107 section 7.4): echo of the talker, echo of the listener, delay itself; the mean one-way delay, ms, is that
/// of the echo's way too, and a round trip twice as long.
fn delay_impairment(ms: f64) -> f64 {
    let terv = TELR - 40.0 * ((1.0 + ms / 10.0) / (1.0 + ms / 150.0)).log10()
        + 6.0 * (-0.3 * ms * ms).exp();
    // Roe is Ro with the default noise.
    let talker = RO - (80.0 + 2.5 * (terv - 14.0));
    let idte = (talker / 2.0 + (talker * talker / 4.0 + 100.0).sqrt() - 1.0) * (1.0 - (-ms).exp());
    let listener = RO - 10.5 * (WEPL + 7.0) * (2.0 * ms + 1.0).powf(-0.25);
    let idle = listener / 2.0 + (listener * listener / 4.0 + 169.0).sqrt();
    idte + idle + absolute_delay(ms)
}

/// Idd (G.107 equations 7-27 and 7-28): delay alone, ms, however well echo is cancelled.
fn absolute_delay(ms: f64) -> f64 {
    if ms <= 100.0 {
        return 0.0;
    }
    let x = (ms / 100.0).log2();
    let root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Share of the packets that a dejitter buffer waits for.
pub const IN_TIME: f64 = 0.99;

/// Estimate of voice over a direction by the E-model, with what went into it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VoiceReport {
    /// Inputs of the model; the rest are G.107's defaults.
    pub inputs: Voice,
    /// Network's share of the delay, ms: the quantile [`IN_TIME`], which a dejitter buffer waits for.
    pub network_ms: f64,
    /// The delay is assumed, for want of a measured one.
    pub assumed: bool,
    /// Transmission rating factor R.
    pub rating: f64,
    /// Mean opinion score, 1 to 4.5.
    pub mos: f64,
}

impl VoiceReport {
    /// Rates a path of which so many of the packets, 0 to 1, are lost, in runs of that mean length, and [`IN_TIME`] of
    /// the rest take `network_ns` at most.
    #[must_use]
    pub fn of(codec: Codec, network_ns: i64, lost: f64, mean_run: Option<f64>) -> VoiceReport {
        let network_ms = (network_ns as f64 / 1e6).max(0.0);
        // By chance a run of losses is 1 ÷ (1 − loss) long (G.107 section 7.4.2).
        let burst = mean_run.map_or(1.0, |run| (run * (1.0 - lost)).max(1.0));
        let delay_ms = network_ms + codec.framing_ms;
        let inputs = Voice { codec, delay_ms, loss: 1.0 - (1.0 - lost) * IN_TIME, burst };
        VoiceReport {
            inputs,
            network_ms,
            assumed: false,
            rating: inputs.rating(),
            mos: inputs.opinion(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voice(delay_ms: f64, loss: f64, name: &str) -> Voice {
        Voice { codec: Codec::named(name).unwrap(), delay_ms, loss, burst: 1.0 }
    }

    #[test]
    fn a_perfect_path_is_as_g107_has_it() {
        // G.107 section 7.1: with all defaults R = 93.2; annex B: MOS 4.41.
        let perfect = voice(0.0, 0.0, "g711");
        assert!((perfect.rating() - 93.2).abs() < 0.05, "{}", perfect.rating());
        assert!((perfect.opinion() - 4.41).abs() < 0.01, "{}", perfect.opinion());
    }

    #[test]
    fn delay_costs_as_the_usual_simplification_has_it() {
        // Cole and Rosenbluth (2001): 0.024 d + 0.11 (d − 177.3) beyond that, fitted to G.107 for ordinary delays.
        for ms in [20.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0] {
            let simple = 0.024 * ms + 0.11 * (ms - 177.3f64).max(0.0);
            let off = delay_impairment(ms) - delay_impairment(0.0) - simple;
            assert!(off.abs() < 2.5, "{ms} ms: {off}");
        }
    }

    #[test]
    fn delay_alone_costs_what_g107_has() {
        // By hand.
        for (ms, idd) in
            [(100.0, 0.0), (150.0, 0.164), (200.0, 3.044), (300.0, 14.761), (400.0, 24.070)]
        {
            let off = absolute_delay(ms) - idd;
            assert!(off.abs() < 1e-3, "{ms} ms: {off}");
        }
    }

    #[test]
    fn losses_cost_what_g107_and_g113_have() {
        // Ie,eff = Ie + (95 − Ie) · Ppl ÷ (Ppl ÷ BurstR + Bpl) (G.107 equation 7-29), by hand, with Ie and Bpl of G.113
        // appendix I: G.711 0 and 4.3, with concealment 25.1, G.729A 11 and 19.
        for (name, loss, burst, wanted) in [
            ("g711", 0.01, 1.0, 17.925),
            ("g711", 0.01, 4.0, 20.879),
            ("g711-plc", 0.05, 1.0, 15.781),
            ("g711-plc", 0.05, 2.0, 17.210),
            ("g729a", 0.0, 1.0, 11.0),
            ("g729a", 0.02, 1.0, 19.0),
            ("g729a", 0.02, 2.0, 19.4),
        ] {
            let whole = voice(0.0, 0.0, "g711").rating();
            let lost = whole - Voice { burst, ..voice(0.0, loss, name) }.rating();
            assert!((lost - wanted).abs() < 1e-3, "{name}, {loss}, {burst}: {lost}");
        }
        // Cole and Rosenbluth (2001) fitted measured speech, losses by chance: 30 ln(1 + 15 e) for G.711 with
        // concealment, 11 + 40 ln(1 + 10 e) for G.729A.
        for percent in 0..=5 {
            let loss = f64::from(percent) / 100.0;
            let fits = [
                ("g711-plc", 30.0 * (15.0 * loss).ln_1p()),
                ("g729a", 11.0 + 40.0 * (10.0 * loss).ln_1p()),
            ];
            for (name, fit) in fits {
                let off = voice(0.0, loss, name).equipment_impairment() - fit;
                assert!(off.abs() < 1.5, "{name}, {percent} %: {off}");
            }
        }
    }

    #[test]
    fn worse_is_never_better() {
        for name in ["g711", "g711-plc", "g729a"] {
            let mut before = f64::INFINITY;
            for percent in 0..=100 {
                let rating = voice(80.0, f64::from(percent) / 100.0, name).rating();
                assert!(rating < before);
                before = rating;
            }
            // Below 1 ms the model has a bump of its own (G.107 equation 7-17).
            let opinions = (2..2000).map(|ms| voice(f64::from(ms), 0.01, name).opinion());
            let opinions: Vec<_> = opinions.collect();
            assert!(opinions.is_sorted_by(|a, b| a >= b), "{name}");
            assert!(opinions.iter().all(|mos| (1.0..=4.5).contains(mos)));
        }
        // Losses in bursts are worse than by chance.
        let even = voice(50.0, 0.05, "g711-plc");
        assert!(Voice { burst: 3.0, ..even }.rating() < even.rating());
    }
}
