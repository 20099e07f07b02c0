//! The server's end of an exchange.

use crate::{HEADER_LEN, LeapIndicator, Log2, Mode, Packet, RefId, Short, Timestamp, VERSION};

/// What a server says of its clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServerState {
    /// The coming leap second, or that the clock is not synchronised.
    pub leap: LeapIndicator,
    /// 1 with a reference clock, 2–15 behind other servers; 0 and 16 or more go out as 0, no
    /// usable time.
    pub stratum: u8,
    /// The precision of the clock.
    pub precision: Log2,
    /// The round trip to the reference clock.
    pub root_delay: Short,
    /// The error collected on the way from the reference clock.
    pub root_dispersion: Short,
    /// What the clock follows; with no usable time, a kiss code (`INIT`: not synchronised yet).
    pub reference_id: RefId,
    /// When the clock was last set or corrected.
    pub reference_timestamp: Timestamp,
}

/// The reply to a datagram, or `None` if it gets none.
///
/// `receive` is when the datagram arrived and `transmit` when the reply will leave, by the clock
/// that `state` describes; neither may be zero.
///
/// Only requests of clients (mode 3) in versions 1–4 are answered. A reply is never longer than
/// what it answers, so that the server cannot be made to send a victim more than the attacker
/// sent; and it is never in mode 3, so that two servers cannot be made to talk to each other.
#[must_use]
pub fn respond(
    datagram: &[u8],
    receive: Timestamp,
    transmit: Timestamp,
    state: &ServerState,
) -> Option<[u8; HEADER_LEN]> {
    let (request, _) = Packet::decode(datagram)?;
    if request.mode != Mode::Client || !(1..=VERSION).contains(&request.version) {
        return None;
    }
    let reply = Packet {
        leap: state.leap,
        version: request.version,
        mode: Mode::Server,
        stratum: if state.stratum < 16 { state.stratum } else { 0 },
        poll: request.poll,
        precision: state.precision,
        root_delay: state.root_delay,
        root_dispersion: state.root_dispersion,
        reference_id: state.reference_id,
        reference_timestamp: state.reference_timestamp,
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: receive,
        transmit_timestamp: transmit,
    };
    Some(reply.encode())
}
