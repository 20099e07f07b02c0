//! LTE (FDD): subframes of 1 ms, scheduling requests, retransmissions after 8 ms.

use super::cellular::{Radio, Slots, ways};
use super::part::{MS, Ways};
use super::range::{Drawing, Range, Values};

const REQUEST: Range = Range {
    name: "scheduling request period",
    unit: "ms",
    values: Values::OneOf(&[5.0, 10.0, 10.0, 20.0, 40.0, 80.0]),
    reason: "36.213, section 10.1.5",
};
const GRANT: Range = Range {
    name: "request to transmission",
    unit: "ms",
    values: Values::OneOf(&[7.0, 8.0, 8.0, 9.0, 11.0]),
    reason: "4 ms from a grant to its subframe (36.213), and 3 ms or more to give it",
};
const SET_UP: Range = Range {
    name: "connection set-up",
    unit: "ms",
    values: Values::Even(50.0, 120.0),
    reason: "random access and RRC, at least; 36.912 has 50 ms as the aim",
};

/// Parameters that are drawn beside [`super::cellular::RANGES`].
pub(super) const RANGES: [Range; 3] = [REQUEST, GRANT, SET_UP];

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    let slots = Slots { length: 1.0 * MS, pattern: vec![true] };
    let radio = Radio {
        up: slots.clone(),
        down: slots,
        request: d.draw("radio up", &REQUEST) * MS,
        grant: d.draw("radio up", &GRANT) * MS,
        // Eight processes, one subframe each: synchronous upstream, no sooner downstream.
        retry: 8.0 * MS,
        decoding: 2.0 * MS,
        set_up: d.draw("radio up", &SET_UP) * MS,
    };
    ways(d, &radio, seconds)
}
