//! The parts of our estimator, each of which can be left out to see what it buys.

/// Which parts of [`Ours`](crate::Ours) are at work. All of them, unless somebody wants to measure
/// what one is worth: no daemon has a setting for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Several ideas of how restless the oscillator is; without: one, 2·10⁻⁹ /√s.
    pub walks: bool,
    /// The hidden state of the delays' law; without: every packet is drawn from the long run.
    pub law_state: bool,
    /// The walk of the floors; without: floors never change by themselves.
    pub floor_walk: bool,
    /// The bank for blurred floors.
    pub blurred: bool,
    /// The filter for like queues, and the doubt while round trips change steadily.
    pub like_queues: bool,
    /// What came too early; without: it is noise.
    pub surprises: bool,
    /// What stays late; without: it is a burst for ever.
    pub shifts: bool,
    /// Working through the first exchanges again with each that comes.
    pub start: bool,
    /// What the first stamps say, worked out again from all the others; without: from the earlier.
    pub revisit: bool,
}

impl Parts {
    /// All of them.
    pub const ALL: Parts = Parts {
        walks: true,
        law_state: true,
        floor_walk: true,
        blurred: true,
        like_queues: true,
        surprises: true,
        shifts: true,
        start: true,
        revisit: true,
    };

    /// All but one, for each: what is left out, in words, and the rest.
    #[must_use]
    pub fn each_left_out() -> [(&'static str, Parts); 9] {
        let all = Parts::ALL;
        [
            ("several walks (2·10⁻⁹ only)", Parts { walks: false, ..all }),
            ("the hidden state of the law", Parts { law_state: false, ..all }),
            ("the floors' walk", Parts { floor_walk: false, ..all }),
            ("the blurred floor", Parts { blurred: false, ..all }),
            ("like queues", Parts { like_queues: false, ..all }),
            ("what came too early", Parts { surprises: false, ..all }),
            ("evidence of shifts", Parts { shifts: false, ..all }),
            ("working through the start again", Parts { start: false, ..all }),
            ("the first stamps in the light of all", Parts { revisit: false, ..all }),
        ]
    }
}
