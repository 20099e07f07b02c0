//! Reading the Truechimer clock from any program: time with its bound, at the cost of reading the
//! counter.
#![forbid(unsafe_code)]

mod clock;
mod error;
mod judge;
mod reading;
mod view;
mod wait;

pub use clock::Clock;
pub use error::{OpenError, ReadError};
pub use reading::{Elapsed, Moment, Reading};
pub use truechimer_counter::CounterError;
pub use truechimer_time::{
    Count, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate, Span, Utc,
};
pub use truechimer_timehands::{Corrupt, Hand, Made, PageError, PageReader, Status, places};
pub use view::View;
pub use wait::WaitError;
