//! One exchange with an NTP server, judged by the host's clock.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde_json::{Value, json};
use truechimer_ntp::{LeapIndicator, Mode, Packet, Timestamp, VERSION};

use crate::truth::Truth;
use crate::udp::receive;

/// Asks once, and says what the server says of itself and how far its time is from the host's:
/// `offset_ns` = the server's − the host's, known to ± half of `rtt_ns`.
///
/// # Errors
/// If there is no reply within a second.
pub fn exchange(server: SocketAddr) -> Result<Value, String> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let failed = |error: std::io::Error| format!("{server}: {error}");
    let socket = UdpSocket::bind(any).map_err(failed)?;
    socket.connect(server).map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).map_err(failed)?;
    let host = Truth::host();
    let sent = host.now_ns();
    let id = Timestamp::from_unix(sent / 1_000_000_000, (sent as u64) << 32 | 1);
    let request = Packet {
        version: VERSION,
        mode: Mode::Client,
        transmit_timestamp: id,
        ..Packet::default()
    };
    let mut bytes = [0; 48];
    let begun = host.now_ns();
    socket.send(&request.encode()).map_err(failed)?;
    receive(&socket, &mut bytes).map_err(failed)?;
    let ended = host.now_ns();
    let (reply, _) = Packet::decode(&bytes).ok_or("the reply is cut short")?;
    if reply.origin_timestamp != id {
        return Err(format!("{server}: the reply is to another request"));
    }
    let pivot = ended / 1_000_000_000;
    let unix_ns = |stamp: Timestamp| {
        let (secs, frac) = stamp.to_unix(pivot);
        secs * 1_000_000_000 + ((u128::from(frac) * 1_000_000_000) >> 64) as i64
    };
    let (arrived, left) = (unix_ns(reply.receive_timestamp), unix_ns(reply.transmit_timestamp));
    Ok(json!({
        "synchronised": reply.leap != LeapIndicator::Unsynchronised,
        "leap": reply.leap as u8,
        "stratum": reply.stratum,
        "reference": reply.reference_id.text(reply.stratum).to_string(),
        "root_delay_ns": reply.root_delay.span().as_nanos_i64(),
        "root_dispersion_ns": reply.root_dispersion.span().as_nanos_i64(),
        "offset_ns": ((arrived - begun) + (left - ended)) / 2,
        "rtt_ns": (ended - begun) - (left - arrived),
    }))
}
