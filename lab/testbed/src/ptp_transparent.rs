//! An end-to-end transparent clock of PTP over UDP/IPv4, between two networks: it holds event messages for a
//! while, and says in their correction how long it had them, or does not.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use truechimer_testbed::udp::receive;

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);
const EVENT: u16 = 319;
const GENERAL: u16 = 320;
/// Place of the correction in a message, in 2⁻¹⁶ ns (13.3.2.9).
const CORRECTION: std::ops::Range<usize> = 8..16;

/// Passes messages on between the networks of these two addresses of this host, each event message after so
/// many µs, until it is ended. `says`: whether it corrects them.
pub fn run(addresses: [&str; 2], held_us: &str, says: bool) -> Result<(), String> {
    let address = |text: &str| text.parse().map_err(|_| format!("no IPv4 address: {text}"));
    let [one, other]: [Ipv4Addr; 2] = [address(addresses[0])?, address(addresses[1])?];
    let held = Duration::from_micros(held_us.parse().map_err(|_| "no number of µs".to_owned())?);
    let mut ways = Vec::new();
    for (from, to) in [(one, other), (other, one)] {
        for port in [EVENT, GENERAL] {
            ways.push(Way::open(from, to, port).map_err(|why| format!("{from}: {why}"))?);
        }
    }
    println!("is a transparent clock");
    std::thread::scope(|threads| {
        for way in &ways {
            threads.spawn(move || way.carry(held, says));
        }
    });
    Ok(())
}

/// One kind of messages in one direction.
#[derive(Debug)]
struct Way {
    from: Ipv4Addr,
    port: u16,
    heard: UdpSocket,
    out: UdpSocket,
}

impl Way {
    fn open(from: Ipv4Addr, to: Ipv4Addr, port: u16) -> std::io::Result<Way> {
        let open = |at: Ipv4Addr| -> std::io::Result<UdpSocket> {
            let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddrV4::new(at, port))?;
            Ok(UdpSocket::from(socket))
        };
        let (heard, out) = (open(GROUP)?, open(to)?);
        heard.join_multicast_v4(&GROUP, &from)?;
        out.set_multicast_loop_v4(false)?;
        Ok(Way { from, port, heard, out })
    }

    fn carry(&self, held: Duration, says: bool) {
        let mut buffer = [0; 1024];
        while let Ok((length, sender)) = receive(&self.heard, &mut buffer) {
            let came = Instant::now();
            let Some(message) = buffer.get_mut(..length) else { continue };
            // Linux hands a socket of a group what came from any network in which somebody joined it.
            if !self.is_of_network(sender) {
                continue;
            }
            if self.port == EVENT {
                std::thread::sleep(held);
                if says {
                    correct(message, came.elapsed());
                }
            }
            let _ = self.out.send_to(message, SocketAddr::from((GROUP, self.port)));
        }
    }

    /// True for another host of the network that this side is in, which has 256 addresses.
    fn is_of_network(&self, sender: SocketAddr) -> bool {
        let SocketAddr::V4(sender) = sender else { return false };
        let [ours, theirs] = [self.from, *sender.ip()].map(u32::from);
        ours >> 8 == theirs >> 8 && ours != theirs
    }
}

/// Adds to the correction.
fn correct(message: &mut [u8], more: Duration) {
    let Some(field) = message.get_mut(CORRECTION) else { return };
    let mut bytes = [0; 8];
    bytes.copy_from_slice(field);
    let more = i64::try_from(more.as_nanos() << 16).unwrap_or(i64::MAX);
    field.copy_from_slice(&i64::from_be_bytes(bytes).saturating_add(more).to_be_bytes());
}
