//! 5G: slots of 0.125 to 1 ms, in patterns for both directions (TDD) or for each its own (FDD).

use super::cellular::{Radio, Slots, ways};
use super::part::{MS, Ways};
use super::range::{Drawing, Range, Values};

const SLOT: Range = Range {
    name: "slot",
    unit: "ms",
    values: Values::OneOf(&[1.0, 0.5, 0.5, 0.5, 0.125]),
    reason: "subcarriers 15 kHz (FDD, below 3 GHz), 30 kHz (3.5 GHz), 120 kHz (26 GHz); 38.211",
};
const PATTERN: Range = Range {
    name: "TDD pattern",
    unit: "slots",
    values: Values::OneOf(&[5.0, 10.0, 20.0]),
    reason: "DDDSU, DDDDDDDSUU and twice as long: 2.5, 5 and 10 ms at 0.5 ms (38.331); FDD has \
             none",
};
const UP_SHARE: Range = Range {
    name: "slots upstream",
    unit: "",
    values: Values::OneOf(&[0.2, 0.2, 0.4]),
    reason: "share of a TDD pattern, at its end",
};
const REQUEST: Range = Range {
    name: "scheduling request period",
    unit: "slots",
    values: Values::OneOf(&[0.0, 5.0, 10.0, 20.0, 20.0, 40.0, 80.0]),
    reason: "38.331; 0: configured grants, which need no request",
};
const GRANT: Range = Range {
    name: "request to transmission",
    unit: "slots",
    values: Values::OneOf(&[4.0, 6.0, 8.0, 12.0]),
    reason: "K2 of 38.214 and the base station's own time",
};
const RETRY: Range = Range {
    name: "transmission to retransmission",
    unit: "slots",
    values: Values::OneOf(&[8.0, 10.0, 16.0, 20.0]),
    reason: "K1 of 38.213, decoding and scheduling; asynchronous both ways",
};
const SET_UP: Range = Range {
    name: "resumption",
    unit: "ms",
    values: Values::Even(10.0, 40.0),
    reason: "from RRC inactive: random access and one message; 38.913 has 10 ms as the aim",
};

/// Parameters that are drawn beside [`super::cellular::RANGES`].
pub(super) const RANGES: [Range; 7] = [SLOT, PATTERN, UP_SHARE, REQUEST, GRANT, RETRY, SET_UP];

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    let slot = d.draw("radio up", &SLOT) * MS;
    let length = d.draw("radio up", &PATTERN) as usize;
    let share = d.draw("radio up", &UP_SHARE);
    let upstream = libm::rint(share * length as f64).max(1.0) as usize;
    let fdd = slot >= 1.0 * MS;
    let pattern = |up: bool| {
        let ours = |n: usize| fdd || (n >= length.saturating_sub(upstream)) == up;
        Slots { length: slot, pattern: (0..length).map(ours).collect() }
    };
    let radio = Radio {
        up: pattern(true),
        down: pattern(false),
        request: d.draw("radio up", &REQUEST) * slot,
        grant: d.draw("radio up", &GRANT) * slot,
        retry: d.draw("radio up", &RETRY) * slot,
        decoding: slot,
        set_up: d.draw("radio up", &SET_UP) * MS,
    };
    ways(d, &radio, seconds)
}
