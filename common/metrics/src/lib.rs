//! Metrics for Prometheus and others that read OpenMetrics: `GET /metrics` over HTTP, from a TCP or
//! a Unix socket.
//!
//! A [`Server`] needs no thread of its own: it never waits for a client, makes the text anew at most
//! once between two calls of [`Server::resume`], and takes only so many connections and pieces of
//! requests until then. Whoever hangs, never reads or asks without end costs it next to nothing.
//! A loop that waits in poll(2) has [`Server::interests`] and [`Server::serve`]; others call
//! [`Server::turn`], or leave a thread to [`Server::run`].
//!
//! ```
//! use std::time::Duration;
//! use truechimer_metrics::{Family, Form, Server};
//!
//! let families = || vec![Family::counter("served_requests", "Requests that came", 7.0)];
//! let mut server = Server::bind(&"127.0.0.1:0".parse()?)?;
//! println!("metrics are served at {}", server.place());
//! server.turn(Duration::ZERO, &mut { families });
//!
//! let text = truechimer_metrics::text(families(), Form::Plain);
//! assert!(text.contains("\ntruechimer_served_requests_total 7"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every name begins with `truechimer_`. Names and meanings are in docs/reference/metrics.md; the
//! tests of whoever has families hold them to that with [`examine`].
//!
//! Not here: TLS, compression, any path but `/metrics`, and pushing.
#![forbid(unsafe_code)]

pub mod examine;
mod family;
mod listen;
mod request;
mod server;

pub use family::{Family, Histogram, Labels, number, seconds, text};
pub use listen::{Listen, unbound};
pub use prometheus_client::metrics::MetricType;
pub use request::Form;
pub use server::Server;
