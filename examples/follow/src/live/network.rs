//! The network: UDP over IPv4 by smoltcp, with a count for each request and each reply.

use core::net::{IpAddr, SocketAddr};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{self, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::socket::udp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};
use truechimer_time::Count;

use crate::counter;
use crate::lan9118::{self, Frame};

/// Bytes of a request or a reply that are taken.
pub const DATAGRAM: usize = 128;
/// Datagrams of either direction that wait.
const WAITING: usize = 4;
/// Mark of a request among the frames that are sent.
const REQUEST: u32 = 1;
/// The lowest of the ports that requests leave from, and how many there are.
const PORTS: (u16, u64) = (49_152, 16_384);

/// Memory of the sockets.
pub struct Memory {
    sockets: [SocketStorage<'static>; 1],
    headers: [[udp::PacketMetadata; WAITING]; 2],
    bytes: [[u8; WAITING * DATAGRAM]; 2],
}

impl Memory {
    /// Empty memory.
    pub const fn new() -> Memory {
        Memory {
            sockets: [SocketStorage::EMPTY; 1],
            headers: [[udp::PacketMetadata::EMPTY; WAITING]; 2],
            bytes: [[0; WAITING * DATAGRAM]; 2],
        }
    }
}

/// The machine's end of the network.
pub struct Network {
    interface: Interface,
    device: Device,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    random: u64,
}

/// A datagram that came.
pub struct Datagram {
    /// Address of the sender.
    pub from: SocketAddr,
    /// A count before the newest request left.
    pub sent: Count,
    /// A count after the datagram arrived.
    pub received: Count,
    /// Bytes that it has.
    pub length: usize,
}

impl Network {
    /// Starts it with this address, in a network of 24 bits.
    pub fn start(address: [u8; 4], seed: u64, memory: &'static mut Memory) -> Network {
        let mut config = Config::new(EthernetAddress(lan9118::start()).into());
        config.random_seed = seed;
        let mut device = Device { input: Frame::new(), output: Output::new() };
        let mut interface = Interface::new(config, &mut device, time());
        let [a, b, c, d] = address;
        interface.update_ip_addrs(|all| {
            // There is room for one.
            let _ = all.push(IpCidr::new(IpAddress::v4(a, b, c, d), 24));
        });
        let Memory { sockets, headers: [in_headers, out_headers], bytes: [in_bytes, out_bytes] } =
            memory;
        let mut sockets = SocketSet::new(&mut sockets[..]);
        let socket = sockets.add(udp::Socket::new(
            udp::PacketBuffer::new(&mut in_headers[..], &mut in_bytes[..]),
            udp::PacketBuffer::new(&mut out_headers[..], &mut out_bytes[..]),
        ));
        Network { interface, device, sockets, socket, random: seed | 1 }
    }

    /// Sends a request from another port than the last one.
    ///
    /// # Errors
    /// If it cannot, with the reason.
    pub fn send(&mut self, to: SocketAddr, request: &[u8]) -> Result<(), &'static str> {
        let IpAddr::V4(address) = to.ip() else { return Err("no IPv6 here") };
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        socket.close();
        let port = PORTS.0 + (random(&mut self.random) % PORTS.1) as u16;
        socket.bind(port).map_err(|_| "no port")?;
        let [a, b, c, d] = address.octets();
        let endpoint = IpEndpoint::new(IpAddress::v4(a, b, c, d), to.port());
        let mut meta = udp::UdpMetadata::from(endpoint);
        meta.meta.id = REQUEST;
        socket.send_slice(request, meta).map_err(|_| "no room for a request")?;
        self.poll();
        Ok(())
    }

    /// Takes in and sends what waits.
    pub fn poll(&mut self) {
        self.interface.poll(time(), &mut self.device, &mut self.sockets);
    }

    /// The next datagram that came on the socket.
    pub fn receive(&mut self, into: &mut [u8; DATAGRAM]) -> Option<Datagram> {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        let (length, from) = socket.recv_slice(into).ok()?;
        let IpAddress::Ipv4(address) = from.endpoint.addr;
        Some(Datagram {
            from: (address, from.endpoint.port).into(),
            sent: self.device.output.sent,
            received: counter::recent(from.meta.id),
            length,
        })
    }
}

fn time() -> Instant {
    Instant::from_micros((counter::now().0 / (counter::HZ / 1_000_000)) as i64)
}

/// Marsaglia's xorshift.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// The controller, as smoltcp wants it.
struct Device {
    input: Frame,
    output: Output,
}

struct Output {
    bytes: [u8; lan9118::LONGEST],
    /// A count before the newest request left.
    sent: Count,
}

impl Output {
    fn new() -> Output {
        Output { bytes: [0; lan9118::LONGEST], sent: counter::now() }
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Input<'a>;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Input<'_>, Outgoing<'_>)> {
        let came = lan9118::take(&mut self.input);
        came.then_some((Input(&self.input), Outgoing { output: &mut self.output, mark: 0 }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing { output: &mut self.output, mark: 0 })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ethernet;
        all.max_transmission_unit = lan9118::LONGEST;
        all
    }
}

struct Input<'a>(&'a Frame);

impl phy::RxToken for Input<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0.bytes())
    }

    /// The lower half of the count: smoltcp hands it on with what the frame bears.
    fn meta(&self) -> PacketMeta {
        let mut meta = PacketMeta::default();
        meta.id = self.0.received().0 as u32;
        meta
    }
}

struct Outgoing<'a> {
    output: &'a mut Output,
    mark: u32,
}

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let frame = &mut self.output.bytes[..length];
        let made = f(frame);
        let before = lan9118::send(frame);
        if self.mark == REQUEST {
            self.output.sent = before;
        }
        made
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.mark = meta.id;
    }
}
