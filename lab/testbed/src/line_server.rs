//! An NTP server of a time that has nothing to do with the system clock.

use std::net::UdpSocket;

use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_testbed::scale::Line;
use truechimer_testbed::truth::raw_ns;
use truechimer_testbed::udp::receive;
use truechimer_time::Span;

/// Serves for ever. The times in a reply are when the request was in our hands and when the reply
/// is made: what comes before and after counts as delay.
pub fn serve(listen: &str, line: &str) -> Result<(), String> {
    let line: Line = line.parse()?;
    let socket = UdpSocket::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    let mut state = state();
    println!("serving");
    let mut request = [0; 512];
    loop {
        let (length, from) = receive(&socket, &mut request).map_err(|error| error.to_string())?;
        let received = line.unix_ns(raw_ns());
        state.leap =
            if line.leap_announced(received) { LeapIndicator::Insert } else { LeapIndicator::None };
        let request = request.get(..length).unwrap_or_default();
        let received = timestamp(received);
        state.reference_timestamp = received;
        if let Some(reply) = respond(request, received, timestamp(line.unix_ns(raw_ns())), &state) {
            // A reply that cannot leave is one lost on the way.
            let _ = socket.send_to(&reply, from);
        }
    }
}

/// State of a server that is right.
pub fn state() -> ServerState {
    ServerState {
        leap: LeapIndicator::None,
        stratum: 1,
        precision: Log2::at_least(Span::from_micros(1)),
        root_delay: Short::default(),
        root_dispersion: Short::at_least(Span::from_micros(15)),
        reference_id: RefId(*b"LINE"),
        reference_timestamp: Timestamp::UNKNOWN,
    }
}

/// Unix time as a timestamp of NTP.
pub fn timestamp(unix_ns: i64) -> Timestamp {
    let (seconds, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    Timestamp::from_unix(seconds, (((ns as u128) << 64) / 1_000_000_000) as u64)
}
