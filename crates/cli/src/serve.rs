//! `truechimer serve`: the embedded NTP server by itself.

use std::io::Write;

use serde::Serialize;
use truechimer_serve::{ServedClock, Server};
use truechimer_time::{Rate, Span};

use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::show::{json, ppb};
use crate::signals;

/// What a test needs to know in order to know the truth.
#[derive(Serialize)]
struct Ready {
    listen: String,
    origin_raw_ns: i64,
    offset_ns: i64,
    skew_ppb: f64,
    stratum: u8,
}

/// Runs the command.
pub fn run(args: &args::Serve, out: &mut dyn Write) -> Ended {
    let args::ServedBase::System = args.clock;
    let stop = signals::stop()?;
    let clock = clock(args.offset, args.skew_ppm)?;
    let mut server = Server::bind(args.listen, clock, args.stratum).map_err(|why| {
        let what = format!("cannot listen on {}", args.listen);
        Failure::new(what, format!("{why}; choose another address or port with --listen"))
    })?;
    let address = server.address();
    if args.json {
        let ready = Ready {
            listen: address.to_string(),
            origin_raw_ns: clock.origin_raw_ns,
            offset_ns: clock.offset.as_nanos_i64(),
            skew_ppb: ppb(clock.skew),
            stratum: args.stratum,
        };
        writeln!(out, "{}", json(&ready)?)?;
    } else {
        writeln!(
            out,
            "serving on {address}: the system clock {:+}, gaining {} on it, as stratum {}",
            clock.offset, clock.skew, args.stratum
        )?;
    }
    server.run(&stop).map_err(|why| Failure::new(format!("serving on {address}"), why))?;
    Ok(Outcome::Good)
}

/// A served time that begins now.
pub fn clock(offset: Span, skew: Rate) -> Result<ServedClock, Failure> {
    ServedClock::starting_now(offset, skew).map_err(|why| Failure::new("cannot serve a time", why))
}
