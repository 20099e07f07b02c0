//! Proof that equal events lead to equal hands, to the last bit, on every machine.

use crate::bed::{Bed, STORY, story};
use truechimer_engine::Standard;
use truechimer_time::Span;

#[test]
fn the_hands_are_those_of_a_microcontroller() {
    let bed: Bed = story(Box::new(Standard), &mut ());
    assert!(bed.error().abs() < Span::from_millis(1), "{}", bed.error());
    assert_eq!(bed.digest, STORY, "now {:#018x}; see tests/bed", bed.digest);
}
