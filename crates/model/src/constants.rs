//! Constants of the model: each with its unit, and why it is what it is.
//!
//! They are values and not literals so that the laboratory can vary each and measure what it buys.

/// A constant: its name, value, unit and reason.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Name of the field of [`Constants`].
    pub name: &'static str,
    /// Value in use.
    pub value: f64,
    /// Unit, empty for a plain number.
    pub unit: &'static str,
    /// Why it is what it is.
    pub why: &'static str,
}

macro_rules! constants {
    ($($name:ident: $value:expr, $unit:literal, $why:literal;)*) => {
        /// All constants of the model.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Constants {
            $(#[doc = concat!($why, " Unit: ", $unit, ".")] pub $name: f64,)*
        }

        impl Constants {
            /// Values in use.
            pub const DEFAULT: Constants = Constants { $($name: $value,)* };

            /// The same as a list.
            pub const LIST: &'static [Constant] = &[
                $(Constant { name: stringify!($name), value: $value, unit: $unit, why: $why },)*
            ];

            /// The constants with one of them changed; `None` if there is none of this name.
            #[must_use]
            pub fn with(mut self, name: &str, value: f64) -> Option<Constants> {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return None,
                }
                Some(self)
            }
        }
    };
}

constants! {
    // Delays.
    law_change: 0.1, "1", "Probability per packet that another delay law is in force.";
    law_memory: 256.0, "exchanges", "Memory of the long run: an hour at 16 s, so that bursts belong to it.";
    law_least: 1e-4, "1", "No delay law is ever ruled out.";
    idle_quantile: 0.3, "1", "Quantile of the laws' means that is the typical delay of an idle path.";
    blur: 0.5, "law means", "Standard deviation of a blurred floor.";
    noise_most: 0.15, "typical delays", "More noise than that is a floor that queues have blurred.";
    blur_prior: -2.0, "ln odds", "Floors are sharp on most paths.";
    blur_most: 8.0, "ln odds", "Bound of these odds.";
    blur_memory: 64.0, "exchanges", "Memory of these odds.";
    blur_step: 2.0, "ln odds", "What one exchange may say of it.";
    // Oscillator.
    mode_change: 0.015625, "1", "Probability per exchange that the oscillator's mode is drawn anew.";
    restless_prior: -14.0, "ln odds", "Oscillators seldom change by 1 ppm within seconds.";
    mix: 0.5, "1", "Share of a mode that is its own below which it takes over from the others.";
    floor_walk: 2.5e-4, "typical delays/√s", "Floors are open to small changes.";
    tide_alike: 8.0, "typical delays/√s", "A slow queue in both directions.";
    tide_each: 0.0, "typical delays/√s", "A slow queue in one direction.";
    tide_slow: 1.0, "typical delays/√s", "The same, more slowly.";
    tide_alike_prior: -5.0, "ln odds", "Slow queues are rarer than none.";
    tide_each_prior: -7.0, "ln odds", "Slow queues are rarer than none.";
    tide_rate: 1.6e-9, "1/√s", "Random walk of the rate while queues grow.";
    far: 8.0, "usual excess", "Round trips that say nothing of the oscillator.";
    // Events.
    sure: 16.0, "ln odds", "From here on a hypothesis is out of the question.";
    early: 3.0, "standard deviations", "Innovation that makes events worth trying.";
    late: 8.0, "typical delays", "The same above the floor.";
    path: -12.0, "ln", "Probability that the path changed since the exchange before.";
    server: -10.0, "ln", "Probability that the server's time moved.";
    server_again: -2.0, "ln", "Probability that it moves again: it may drift.";
    oscillator: -14.0, "ln", "Probability that the oscillator changed.";
    undone: -4.0, "ln", "Probability that a server that had moved is right again.";
    told: 5.0, "ln odds", "Hypotheses that differ by less have not been told apart.";
    patience: 64.0, "exchanges", "After so many without a surprise the likeliest is left alone.";
}
