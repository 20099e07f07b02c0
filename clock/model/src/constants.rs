//! Constants of the model: each with its unit, and why it is what it is.
//!
//! They are values and not literals so that the laboratory can vary each and measure what it buys.

use crate::hypothesis::FEW;

/// A constant: its name, value, unit and reason.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Name of the field of [`Constants`].
    pub name: &'static str,
    /// Value in use.
    pub value: f64,
    /// Unit, empty for a plain number.
    pub unit: &'static str,
    /// Reason for the value.
    pub why: &'static str,
}

/// Events that are asked for: all, where the laboratory leaves none out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asked {
    /// Another path.
    pub path: bool,
    /// ... by which all packets are late.
    pub longer: bool,
    /// Queues had hidden the floor.
    pub floor: bool,
    /// The server's time moved.
    pub server: bool,
    /// Wandering of the server.
    pub wander: bool,
    /// The oscillator changed.
    pub oscillator: bool,
}

impl Asked {
    /// None is left out.
    pub const ALL: Asked = Asked {
        path: true,
        longer: true,
        floor: true,
        server: true,
        wander: true,
        oscillator: true,
    };
}

macro_rules! constants {
    ($($name:ident: $value:expr, $unit:literal, $why:literal;)*) => {
        /// All constants of the model.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Constants {
            $(#[doc = concat!($why, " Unit: ", $unit, ".")] pub $name: f64,)*
            /// Events that are asked for.
            pub asked: Asked,
        }

        impl Constants {
            /// Values in use.
            pub const DEFAULT: Constants = Constants { $($name: $value,)* asked: Asked::ALL };

            /// List of these values.
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
    // Delays, and what walks.
    step: 4.0, "1", "Ratio of neighbours: of the means of laws, which their algebra rests on, and of the walks of modes.";
    law_change: 0.1, "1", "Probability per packet that another delay law is in force; and that a server that has moved does so again.";
    law_memory: 256.0, "exchanges", "Memory of the long run: an hour at 16 s, so that bursts belong to it.";
    law_least: 1e-4, "1", "No delay law is ever ruled out.";
    idle_quantile: 0.3, "1", "Quantile of the laws' means that is the typical delay of an idle path.";
    undercut_scale: 2.0, "typical delays", "Mean of how far a packet is below the floor known so far.";
    blur: 0.5, "typical delays", "Standard deviation of a blurred floor.";
    // Oscillator.
    walk: 1.6e-9, "1/√s", "Random walk of the rate: quartz in still air.";
    tide_slow: 1.0, "typical delays/√s", "Queues that grow or drain slowly in both directions.";
    tide_fast: 8.0, "typical delays/√s", "The same, faster.";
    blurred: 0.12, "1", "Probability beforehand that floors are blurred.";
    stretch: 128.0, "s", "A clock holds its course for so long: the rate hardly walks in the first stretch, whose stamps are worked through again, and between instants of the difference clock; and a server that wanders is steered.";
    start_worth: 0.5, "1", "Share of what the first stamps say that counts: the law they are read by comes of them.";
    floor_walk: 2.5e-4, "typical delays/√s", "Floors are open to small changes.";
    // Events.
    early: 1.5, "standard deviations", "Innovation that makes events worth trying.";
    change: 0.02, "1/day", "Rate of what seldom happens, each once in fifty days: the path changes, the server's time or how the path is shared begins to wander, the oscillator changes (e times less for each more of what it promises).";
    server: 0.25, "1/day", "Rate of moves of the server's time that the statistics are to consider: most that look like one are none.";
    hold: 10.0, "ln odds", "From here on a server that has moved is held off. Half of that is a word that is enough for a change of the path, and half as much more puts a hypothesis out of the question.";
    told: 2.0, "ln odds", "An event has to be so much likelier than none for it to have shown itself.";
}

/// Ln odds at which what one direction says is enough, and a change of the path is told: a hold-off takes both.
pub const ENOUGH: f64 = Constants::DEFAULT.hold / 2.0;
/// Ln odds from which a hypothesis is out of the question: beside the doubt that a hold-off leaves, what all such
/// may have had is next to nothing.
pub const SURE: f64 = Constants::DEFAULT.hold + ENOUGH;

impl Constants {
    /// Probability per exchange of what the memory could not show, so that a few of them within it are no chance: a
    /// packet below the floor, at least; that floors become sharp or blurred.
    #[must_use]
    pub fn rare(&self) -> f64 {
        1.0 / (FEW as f64 * self.law_memory)
    }
}
