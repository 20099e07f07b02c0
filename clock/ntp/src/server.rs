//! The server's end of an exchange.
//!
//! Nothing is kept here between requests. What interleaved mode needs to be kept (RFC 9769) is the
//! caller's: [`is_interleaved`] says whose requests to keep something for, and [`interleaved`]
//! makes the reply.

use core::fmt;

use crate::{HEADER_LEN, LeapIndicator, Log2, Mode, Packet, RefId, Short, Timestamp, VERSION};

/// State of a server's clock.
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
    /// Source that the clock follows; with no usable time, a kiss code (`INIT`: not synchronised
    /// yet).
    pub reference_id: RefId,
    /// When the clock was last set or corrected.
    pub reference_timestamp: Timestamp,
}

/// Reasons why a datagram gets no reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ignored {
    /// Shorter than a header.
    Short,
    /// No client's request: another mode, the control protocols of `ntpq` and `ntpdc` among them.
    Mode(Mode),
    /// A version that is not spoken here.
    Version(u8),
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ignored::Short => f.write_str("shorter than a header"),
            Ignored::Mode(mode) => write!(f, "mode {mode}, no request"),
            Ignored::Version(version) => write!(f, "version {version}"),
        }
    }
}

/// The request in a datagram. Only those of clients (mode 3) in versions 1–4 are answered; what
/// follows the header (extension fields, a message authentication code) is passed over.
///
/// # Errors
/// Why there is none.
pub fn request(datagram: &[u8]) -> Result<Packet, Ignored> {
    let (request, _) = Packet::decode(datagram).ok_or(Ignored::Short)?;
    match request.mode {
        Mode::Client if (1..=VERSION).contains(&request.version) => Ok(request),
        Mode::Client => Err(Ignored::Version(request.version)),
        mode => Err(Ignored::Mode(mode)),
    }
}

/// The reply to a request.
///
/// `receive` is when the request arrived and `transmit` when the reply will leave, by the clock
/// that `state` describes; neither may be zero.
#[must_use]
pub fn reply(
    request: &Packet,
    receive: Timestamp,
    transmit: Timestamp,
    state: &ServerState,
) -> Packet {
    Packet {
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
    }
}

/// True if a request may be one of interleaved mode (RFC 9769 §2): then its origin timestamp is the
/// receive timestamp of an earlier reply. Whether that reply was ours and to this client is for
/// whoever keeps them to say.
#[must_use]
pub fn is_interleaved(request: &Packet) -> bool {
    !request.origin_timestamp.is_unknown()
        && request.receive_timestamp != request.transmit_timestamp
}

/// The reply to a request of interleaved mode: `transmit` is when the reply left whose receive
/// timestamp the request names.
#[must_use]
pub fn interleaved(
    request: &Packet,
    receive: Timestamp,
    transmit: Timestamp,
    state: &ServerState,
) -> Packet {
    Packet {
        origin_timestamp: request.receive_timestamp,
        ..reply(request, receive, transmit, state)
    }
}

/// A kiss-o'-death (RFC 5905 §7.4): the refusal `code`, and no time. `poll` is the interval that
/// the client should keep at least.
#[must_use]
pub fn kiss(request: &Packet, at: Timestamp, code: RefId, poll: Log2) -> Packet {
    Packet {
        leap: LeapIndicator::Unsynchronised,
        version: request.version,
        mode: Mode::Server,
        poll: request.poll.max(poll),
        reference_id: code,
        origin_timestamp: request.transmit_timestamp,
        receive_timestamp: at,
        transmit_timestamp: at,
        ..Packet::default()
    }
}

/// The reply to a datagram, or `None` if it gets none: [`request`] and [`reply`].
///
/// A reply is never longer than what it answers, so that the server cannot be made to send a
/// victim more than the attacker sent; and it is never in mode 3, so that two servers cannot be
/// made to talk to each other.
#[must_use]
pub fn respond(
    datagram: &[u8],
    receive: Timestamp,
    transmit: Timestamp,
    state: &ServerState,
) -> Option<[u8; HEADER_LEN]> {
    let request = request(datagram).ok()?;
    Some(reply(&request, receive, transmit, state).encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: ServerState = ServerState {
        leap: LeapIndicator::Insert,
        stratum: 3,
        precision: Log2(-24),
        root_delay: Short(5),
        root_dispersion: Short(9),
        reference_id: RefId([192, 0, 2, 1]),
        reference_timestamp: Timestamp(77),
    };

    fn asked() -> Packet {
        Packet {
            version: 4,
            mode: Mode::Client,
            poll: Log2(6),
            origin_timestamp: Timestamp(100),
            receive_timestamp: Timestamp(200),
            transmit_timestamp: Timestamp(300),
            ..Packet::default()
        }
    }

    #[test]
    fn the_two_modes_differ_in_origin_and_transmit() {
        let (arrived, left) = (Timestamp(1000), Timestamp(2000));
        let basic = reply(&asked(), arrived, left, &STATE);
        assert_eq!(basic.origin_timestamp, Timestamp(300));
        let late = interleaved(&asked(), arrived, Timestamp(900), &STATE);
        assert_eq!(late.origin_timestamp, Timestamp(200));
        assert_eq!(late.transmit_timestamp, Timestamp(900));
        assert_eq!(
            Packet { origin_timestamp: Timestamp(300), transmit_timestamp: left, ..late },
            basic
        );
    }

    #[test]
    fn only_what_names_a_reply_can_be_interleaved() {
        assert!(is_interleaved(&asked()));
        assert!(!is_interleaved(&Packet { origin_timestamp: Timestamp::UNKNOWN, ..asked() }));
        // As RFC 9769 has it: such a request would be answered alike in both modes.
        assert!(!is_interleaved(&Packet { receive_timestamp: Timestamp(300), ..asked() }));
    }

    #[test]
    fn a_kiss_has_no_time_to_give() {
        let kiss = kiss(&asked(), Timestamp(5), RefId(*b"RATE"), Log2(3));
        assert_eq!((kiss.leap, kiss.stratum), (LeapIndicator::Unsynchronised, 0));
        assert_eq!((kiss.mode, kiss.version), (Mode::Server, 4));
        // It names the request, and asks for no shorter interval than the client has.
        assert_eq!((kiss.origin_timestamp, kiss.poll), (Timestamp(300), Log2(6)));
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        let with = |first: u8, len: usize| {
            let mut bytes = std::vec![0; len];
            bytes.iter_mut().take(1).for_each(|byte| *byte = first);
            request(&bytes).map(|request| request.version)
        };
        assert_eq!(with(0b00_100_011, 47), Err(Ignored::Short));
        assert_eq!(with(0b00_100_011, 48), Ok(4));
        assert_eq!(with(0b11_011_011, 1000), Ok(3));
        assert_eq!(with(0b00_101_011, 48), Err(Ignored::Version(5)));
        assert_eq!(with(0b00_000_011, 48), Err(Ignored::Version(0)));
        assert_eq!(with(0b00_010_111, 48), Err(Ignored::Mode(Mode::Private)));
        assert_eq!(with(0b00_010_110, 12), Err(Ignored::Short));
        assert_eq!(with(0b00_010_110, 60), Err(Ignored::Mode(Mode::Control)));
        assert_eq!(with(0b00_100_100, 48), Err(Ignored::Mode(Mode::Server)));
    }
}
