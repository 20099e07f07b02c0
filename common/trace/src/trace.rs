//! Record of one run of a clock, with the truth beside it.
//!
//! A simulation makes a [`Trace`], and so does whatever else knows the truth about a clock that it
//! watches (the demo, the replay of a stamp file with reference stamps). Statistics and reports are
//! made from nothing else.

use truechimer_engine::Level;
use truechimer_timehands::Status;

/// One run of one clock. Times are in seconds since the first request, by true time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// Name of the scenario that was run, a word or two.
    pub title: String,
    /// Description of it, in a sentence.
    pub about: String,
    /// The estimator's name, as `--estimator` takes it.
    pub estimator: String,
    /// The seed, where everything random came from one.
    pub seed: Option<u64>,
    /// Parameters that decided the run besides: name and value, for people.
    pub parameters: Vec<(String, String)>,
    /// When the first request left, as TAI-like leap-free Unix seconds (see `Instant`).
    pub begun: i64,
    /// Until when the clock is given time to settle: statistics leave it out.
    pub warm_up: f64,
    /// True if every server was honest all the time (its time right to within the root distance
    /// that it claims): the bound has to hold then.
    pub honest: bool,
    /// The sources' names; [`Exchanged::source`] is an index into it.
    pub sources: Vec<String>,
    /// The clock as a program read it, once a second, oldest first.
    pub samples: Vec<Sample>,
    /// The exchanges with servers, oldest first.
    pub exchanges: Vec<Exchanged>,
    /// Notes of the clock, oldest first.
    pub notes: Vec<Noted>,
    /// The system clock once a second, where the daemon steers it, oldest first.
    pub system: Vec<SystemSample>,
}

/// The system clock that the daemon steers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SystemSample {
    /// When.
    pub at: f64,
    /// System clock − truth, s: positive is ahead.
    pub error: f64,
    /// System clock − the published clock, s, where that tells a time.
    pub against_ours: Option<f64>,
    /// Bound of |`error`| that the kernel gives whoever asks, s; `None` while it takes its clock
    /// for not synchronised.
    pub bound: Option<f64>,
    /// The frequency that the kernel was given: positive, faster.
    pub frequency: f64,
    /// Number of times that the daemon has stepped it so far.
    pub steps: u32,
}

/// One reading of the clock through the hand that was published last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// When.
    pub at: f64,
    /// Clock − truth, s: positive is ahead. Infinite before the clock has its first word.
    pub error: f64,
    /// Bound of |`error`| that the clock claimed, s; infinite where it promises nothing.
    pub bound: f64,
    /// Reach of the claimed interval after the clock, less its reach before it, s; `bound` is the
    /// larger of the two.
    pub imbalance: f64,
    /// Half the width of the likely interval, s, where there is one.
    pub likely: Option<f64>,
    /// The statistical part of `bound` (at the hand's base) plus its growth since, s; likewise.
    pub statistical: f64,
    /// The status as the reader sees it.
    pub status: Status,
    /// Relative error of the published period: positive, the clock runs fast.
    pub rate_error: f64,
    /// Relative error of the counter's true rate against its nominal one: positive, it is fast.
    pub skew: f64,
    /// The last second by the difference clock.
    pub second: Option<Interval>,
    /// The last 1000 s by the difference clock.
    pub thousand: Option<Interval>,
}

impl Sample {
    /// Reach of the claimed interval from the clock to the side where the truth is, s.
    #[must_use]
    pub fn reach(&self) -> f64 {
        // A clock that is ahead has the truth before it.
        let shorter = if self.error > 0.0 { self.imbalance } else { -self.imbalance };
        self.bound - shorter.max(0.0)
    }

    /// The width of the claimed interval, s.
    #[must_use]
    pub fn width(&self) -> f64 {
        2.0 * self.bound - self.imbalance.abs()
    }
}

/// A span measured by the difference clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Measured − true, s.
    pub error: f64,
    /// Bound of |`error`| that the clock claimed, s.
    pub bound: f64,
    /// Standard uncertainty of the span by the measured noise, s; NaN where nobody said.
    pub deviation: f64,
}

/// One exchange with a server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exchanged {
    /// When its reply arrived.
    pub at: f64,
    /// With which source.
    pub source: usize,
    /// Round trip less the server's residence time, s.
    pub rtt: f64,
    /// The estimator's floor of `rtt` afterwards, s.
    pub floor: f64,
    /// The server's receive stamp − the request's departure by the clock as published then, s: the
    /// forward delay as far as anybody can tell.
    pub forward: f64,
    /// The reply's arrival by the clock as published then − the server's transmit stamp, s.
    pub backward: f64,
    /// The true delays there and back, s, where they are known.
    pub true_delays: Option<(f64, f64)>,
    /// True if the estimator used it.
    pub used: bool,
    /// True if the published clock followed this source afterwards.
    pub selected: bool,
}

/// Something that the clock said, or that was done to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Noted {
    /// When.
    pub at: f64,
    /// Severity.
    pub level: Level,
    /// One line.
    pub text: String,
}
