//! A PTP master that tells the host's time and lies as it is told, for what no real one does.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use truechimer_ptp::{
    Announce, Body, ClockIdentity, ClockQuality, Correction, Flags, Header, LogInterval, Message,
    PortIdentity, Timestamp,
};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::udp::receive;

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);
const EVENT: u16 = 319;
const GENERAL: u16 = 320;
/// Keys of a lie, and the value of each that is left out.
const HONEST: [(&str, i64); 9] = [
    // Every byte of its clock's identity.
    ("identity", 9),
    ("priority", 128),
    // Whether it announces itself and answers questions; Sync a second.
    ("announce", 1),
    ("answer", 1),
    ("sync", 1),
    // What it tells − the truth, ns.
    ("ahead", 0),
    // How long Sync and Delay_Req are held up on the way, ns.
    ("held", 0),
    ("request-held", 0),
    // Correction of Sync and of Delay_Resp, ns.
    ("correction", 0),
];

/// A master at work.
#[derive(Debug)]
struct Liar {
    lie: HashMap<String, i64>,
    out: UdpSocket,
}

/// Is a master at that address of its network, until it is ended. `lie`: `key=value` and a comma
/// between each two.
pub fn run(address: &str, lie: &str) -> Result<(), String> {
    let address: Ipv4Addr = address.parse().map_err(|_| format!("no IPv4 address: {address}"))?;
    let open = |at: Ipv4Addr| -> std::io::Result<UdpSocket> {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(at, EVENT))?;
        Ok(UdpSocket::from(socket))
    };
    let failed = |why: std::io::Error| format!("{address}: {why}");
    let out = open(address).map_err(failed)?;
    // Another master beside this one hears nothing of it.
    out.set_multicast_loop_v4(false).map_err(failed)?;
    let questions = open(GROUP).map_err(failed)?;
    questions.join_multicast_v4(&GROUP, &address).map_err(failed)?;
    let liar = Liar { lie: lies(lie)?, out };
    println!("is a master");
    std::thread::scope(|threads| {
        threads.spawn(|| liar.answer(&questions));
        let syncs = liar.of("sync").clamp(0, 1000) as u16;
        for sequence in (0..u16::MAX).cycle() {
            if sequence.is_multiple_of(syncs.max(1)) {
                liar.announce(sequence);
            }
            if syncs > 0 {
                liar.tell(sequence);
            }
            std::thread::sleep(Duration::from_secs(1) / u32::from(syncs.max(1)));
        }
    });
    Ok(())
}

fn lies(text: &str) -> Result<HashMap<String, i64>, String> {
    let mut lies: HashMap<String, i64> =
        HONEST.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let value = part.split_once('=').and_then(|(key, value)| {
            *lies.get_mut(key)? = value.parse().ok()?;
            Some(())
        });
        value.ok_or_else(|| format!("cannot make sense of `{part}`"))?;
    }
    Ok(lies)
}

impl Liar {
    fn of(&self, key: &str) -> i64 {
        self.lie.get(key).copied().unwrap_or(0)
    }

    fn hold(&self, key: &str) {
        let held = Duration::from_nanos(self.of(key).unsigned_abs());
        if !held.is_zero() {
            std::thread::sleep(held);
        }
    }

    fn now(&self) -> Timestamp {
        let now = (Truth::host().now_ns() + self.of("ahead")).unsigned_abs();
        Timestamp { seconds: now / 1_000_000_000, nanos: (now % 1_000_000_000) as u32 }
    }

    fn send(&self, body: Body, sequence: u16, correction: i64) {
        let kind = body.kind();
        let clock = ClockIdentity([self.of("identity") as u8; 8]);
        let header = Header {
            // Of an arbitrary timescale, which is UTC: as ptp4l with stamps in software.
            flags: Flags::default(),
            correction: Correction(correction.saturating_mul(1 << 16)),
            source: PortIdentity { clock, port: 1 },
            sequence,
            interval: LogInterval(0),
            ..Header::default()
        };
        let mut room = [0; 128];
        let Some(bytes) = (Message { header, body, rest: &[] }).encode(&mut room) else { return };
        let port = if kind.is_event() { EVENT } else { GENERAL };
        let _ = self.out.send_to(bytes, SocketAddr::from((GROUP, port)));
    }

    /// Announces itself.
    fn announce(&self, sequence: u16) {
        if self.of("announce") != 0 {
            self.send(
                Body::Announce(Announce {
                    priority1: self.of("priority") as u8,
                    quality: ClockQuality { class: 6, accuracy: 0x21, variance: 0xffff },
                    priority2: 128,
                    grandmaster: ClockIdentity([self.of("identity") as u8; 8]),
                    ..Announce::default()
                }),
                sequence,
                0,
            );
        }
    }

    /// Tells the time.
    fn tell(&self, sequence: u16) {
        let now = self.now();
        self.hold("held");
        self.send(Body::Sync(now), sequence, self.of("correction"));
    }

    /// Answers all questions.
    fn answer(&self, questions: &UdpSocket) {
        let mut buffer = [0; 256];
        while let Ok((length, _)) = receive(questions, &mut buffer) {
            let Some(Ok(message)) = buffer.get(..length).map(Message::decode) else { continue };
            if matches!(message.body, Body::DelayReq(_)) && self.of("answer") != 0 {
                self.hold("request-held");
                let body = Body::DelayResp(self.now(), message.header.source);
                self.send(body, message.header.sequence, self.of("correction"));
            }
        }
    }
}
