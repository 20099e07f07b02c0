//! Every constant of the published algorithm, with its value and where it comes from.
//!
//! "ToN" is Veitch, Ridoux, Korada (IEEE/ACM ToN 17(2), 2009), "IMC" is Veitch, Babu, Pasztor
//! (IMC 2004), "code" is what the newest public implementation (RADclock 1.2, 2025) is measured to
//! use. Where paper and code differ the value is the code's.

/// Quality that the host's oscillator and its temperature are held to have. The user's guess:
/// nothing is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostClass {
    /// An air-conditioned machine room.
    Excellent,
    /// An ordinary office; the default.
    #[default]
    Good,
    /// No temperature control.
    Poor,
}

/// δ, TSLIMIT: typical worst latency of interrupt and stamping, s (IMC §3; code: 15 µs in every
/// class).
pub(super) const STAMP_LATENCY: f64 = 15e-6;
/// Time that the running minima remember, s (IMC §5: a week; code: 7 days).
pub(super) const HISTORY: f64 = 604_800.0;
/// Scale of the shift window: it lasts 10 δ / 10⁻⁷ (code).
pub(super) const SHIFT_RATE: f64 = 1e-7;
/// The shift window has at least so many stamps (code).
pub(super) const SHIFT_LEAST: u64 = 100;
/// The offset window has at least so many stamps (code).
pub(super) const OFFSET_LEAST: u64 = 2;
/// The window of the local rate is so many offset windows (IMC §5.2: 5 τ*; code), and at least
/// [`LOCAL_LEAST`] stamps.
pub(super) const LOCAL_OFFSET_WINDOWS: u64 = 5;
pub(super) const LOCAL_LEAST: u64 = 4;
/// The near and the far end of the local rate are its window / this, at least [`LOCAL_LEAST`].
pub(super) const LOCAL_ENDS: u64 = 5;
/// Warm-up has at least so many stamps (code).
pub(super) const WARM_UP_LEAST: u64 = 100;
/// Every so many stamps, the end windows of the warm-up's rate grow by one: each is then a quarter
/// of the data (code).
pub(super) const WARM_UP_ENDS: u64 = 4;
/// Round trips of fewer counts are no round trips (code: 120 ticks).
pub(super) const RTT_LEAST: i64 = 120;
/// A server whose baseline is below this is near, s (code: 3 ms).
pub(super) const NEAR: f64 = 3e-3;
/// Upward shift of the round trip: so many δ near, three times that far (code; IMC §5.4: 4 E).
pub(super) const SHIFT_DELTAS: f64 = 10.0;
pub(super) const SHIFT_FAR: f64 = 3.0;
/// Drops of the baseline of more than 1/this of the shift threshold are told (code).
pub(super) const DROP_TOLD: i64 = 4;
/// Ep: point error up to which a stamp may refine the long-term rate, in δ (code; IMC: 20 δ).
pub(super) const RATE_DELTAS: f64 = 3.0;
/// Ep_qual: γ / this is good enough to replace any earlier estimate; a tenth of it once there is
/// half a history window (code).
pub(super) const RATE_GOOD: f64 = 5.0;
pub(super) const RATE_GOOD_LATER: f64 = 10.0;
/// Ep_sanity and Epl_sanity: a rate must not step by more than so many γ (code; IMC: 0.3 ppm).
pub(super) const RATE_SANITY: f64 = 3.0;
/// Epl_qual is so much larger for a far server (code).
pub(super) const LOCAL_FAR: f64 = 2.0;
/// E_qual: the best stamp of the offset window must be better than so many E, near and far (code;
/// IMC: 6 E).
pub(super) const OFFSET_QUALITY: (f64, f64) = (3.0, 6.0);
/// Es_min: an offset must not step by more than so many δ ... (code: 1.5 ms; IMC: 1 ms)
pub(super) const OFFSET_SANITY_DELTAS: f64 = 100.0;
/// Es_rate: ... plus so many γ times the gap in the data (code).
pub(super) const OFFSET_SANITY_GAMMAS: f64 = 20.0;
/// S: scale of the path penalty, and how long a chosen server is kept at least, s (code: 5 h).
pub(super) const PATH_SCALE: f64 = 18_000.0;
/// Assumed worst |asymmetry| / round trip in the path penalty (code).
pub(super) const ASYMMETRY: f64 = 0.2;
/// Poll periods that the configuration allows, s (code).
pub(super) const POLL: core::ops::RangeInclusive<u32> = 1..=1024;

/// Constants that depend on the [`HostClass`] (code: "temperature class").
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// τ*, SKM_SCALE: how long the oscillator may be taken for constant, s (IMC §3: 1000 s).
    pub(super) skm_scale: f64,
    /// γ, RateErrBOUND: bound of the drift at any scale (IMC §3: 0.1 ppm).
    pub(super) rate_bound: f64,
    /// ε, BestSKMrate: the rate that offsets age with (IMC: 0.02 ppm).
    pub(super) ageing: f64,
    /// E: width of the offset's weights, in δ (IMC: 4; ToN: 6).
    pub(super) offset_deltas: f64,
    /// Epl_qual: error up to which a local rate is used.
    pub(super) local_quality: f64,
}

impl HostClass {
    pub(super) const fn values(self) -> Class {
        match self {
            HostClass::Excellent => Class {
                skm_scale: 1024.0,
                rate_bound: 0.1e-6,
                ageing: 0.05e-6,
                offset_deltas: 6.0,
                local_quality: 0.8e-6,
            },
            HostClass::Good => Class {
                skm_scale: 1024.0,
                rate_bound: 0.5e-6,
                ageing: 0.2e-6,
                offset_deltas: 10.0,
                local_quality: 0.8e-6,
            },
            HostClass::Poor => Class {
                skm_scale: 512.0,
                rate_bound: 1e-6,
                ageing: 1e-6,
                offset_deltas: 10.0,
                local_quality: 2e-6,
            },
        }
    }
}

impl Class {
    /// E, s.
    pub(super) fn offset_width(&self) -> f64 {
        self.offset_deltas * STAMP_LATENCY
    }
}
