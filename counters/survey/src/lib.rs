//! Survey of a machine's clock hardware: what it has, what reading it costs, and how stable it is.
//!
//! For engineers on a new host, through `truechimer counters`; nothing of the clock itself depends
//! on it.
//!
//! Not here: reading a counter ([`truechimer_counter`]), and changing the clocksource but for the time of a measurement.
#![deny(unsafe_code)]

pub mod advice;
pub mod analysis;
pub mod bench;
pub mod clocksource;
pub mod inventory;
pub mod latency;
pub mod stability;
pub mod stress;
mod sys;

pub use truechimer_counter::affinity;
