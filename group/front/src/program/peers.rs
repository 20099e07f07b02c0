//! Sockets of the program's side, by the kernel's tables of TCP (proc_net_tcp(5)).

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A connection to this host, as its server has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// Bytes that have come and were not read.
    pub unread: u64,
    /// True if a process has it; false while it waits to be accepted.
    pub accepted: bool,
    /// True if the other side, where that is a socket of this host, has sent what was not acknowledged yet.
    pub underway: bool,
}

/// The kernel's tables, by both ends of each socket: the own one first.
#[derive(Debug)]
pub struct Table(BTreeMap<(SocketAddr, SocketAddr), Line>);

impl Table {
    /// Reads them.
    pub fn read() -> Table {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        Table::of(&tables.map(|path| fs::read_to_string(path).unwrap_or_default()))
    }

    fn of(tables: &[String]) -> Table {
        let lines = tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(parse);
        Table(lines.collect())
    }

    /// True if anything listens there; a connection to try it would be one that the program sees.
    pub fn listens(&self, at: SocketAddr) -> bool {
        let ip = at.ip().to_canonical();
        let fits = |own: IpAddr| match own {
            // One of IPv6 has those of IPv4 as well, unless it was told not to.
            own if own.is_unspecified() => own.is_ipv6() || ip.is_ipv4(),
            own if ip.is_unspecified() => own.is_loopback() && own.is_ipv4() == ip.is_ipv4(),
            own => own == ip,
        };
        let listens = |((own, _), line): (&(SocketAddr, _), &Line)| {
            line.state == LISTEN && own.port() == at.port() && fits(own.ip())
        };
        self.0.iter().any(listens)
    }

    /// The server's side of the open connection from `client` to `server`, if it is there.
    pub fn between(&self, client: SocketAddr, server: SocketAddr) -> Option<Socket> {
        let own = self.0.get(&(server, client)).filter(|line| line.state == ESTABLISHED)?;
        let underway = self.0.get(&(client, server)).is_some_and(|other| other.unsent > 0);
        Some(Socket { unread: own.unread, accepted: own.accepted, underway })
    }
}

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

#[derive(Clone, Copy, Debug)]
struct Line {
    state: u8,
    /// Bytes that were written, and that the other side has not acknowledged.
    unsent: u64,
    unread: u64,
    accepted: bool,
}

fn parse(line: &str) -> Option<((SocketAddr, SocketAddr), Line)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, peer) = (address(words.next()?)?, address(words.next()?)?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let (unsent, unread) = words.next()?.split_once(':')?;
    let [unsent, unread] = [unsent, unread].map(|bytes| u64::from_str_radix(bytes, 16).ok());
    // One that nobody has accepted is no file yet.
    let accepted = words.nth(4)? != "0";
    Some(((local, peer), Line { state, unsent: unsent?, unread: unread?, accepted }))
}

/// Address and port: words of four bytes in the machine's own order, in hexadecimal digits. One of IPv4 that a socket of
/// IPv6 has is that.
fn address(word: &str) -> Option<SocketAddr> {
    let (ip, port) = word.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let word = |word: u32| format!("{:08X}", u32::from_ne_bytes(word.to_be_bytes()));
        let four = word(0x7f00_0001);
        let of = |ip: &str| address(&format!("{ip}:1F90"));
        assert_eq!(of(&four), Some("127.0.0.1:8080".parse().unwrap()));
        let mapped = format!("{}{}{}{four}", word(0), word(0), word(0xffff));
        assert_eq!(of(&mapped), of(&four));
        let one = format!("{}{}{}{}", word(0), word(0), word(0), word(1));
        assert_eq!(of(&one), Some("[::1]:8080".parse().unwrap()));
        for wrong in ["", "7F", "7F00000G", &mapped[1..]] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    /// A line of the kernel's, of a socket that a process has: both ends, state, bytes unsent and unread.
    fn line(own: &str, peer: &str, state: u8, unsent: u32, unread: u32) -> String {
        let word = |end: &str| {
            let end: SocketAddr = end.parse().unwrap();
            let ip: Vec<u8> = match end.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            let words = ip.chunks_exact(4).map(|part| u32::from_ne_bytes(part.try_into().unwrap()));
            let words: String = words.map(|word| format!("{word:08X}")).collect();
            format!("{words}:{:04X}", end.port())
        };
        let (own, peer) = (word(own), word(peer));
        format!(
            "   0: {own} {peer} {state:02X} {unsent:08X}:{unread:08X} 00:00000000 00000000     0        0 4711 1\n"
        )
    }

    fn table(lines: &[String]) -> Table {
        Table::of(&[format!("the head\n{}", lines.concat())])
    }

    /// Strangers' connections with the same ports: another client's address, another server's, and both ends exchanged.
    #[test]
    fn look_alikes_are_told_by_their_addresses() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (client, server) = ("127.0.0.1:40000", "127.0.0.1:7000");
        let strangers = [
            line(server, "127.0.0.2:40000", ESTABLISHED, 0, 11),
            line("127.0.0.2:40000", server, ESTABLISHED, 5, 0),
            line("127.0.0.2:7000", client, ESTABLISHED, 0, 12),
            line(client, "127.0.0.2:7000", ESTABLISHED, 5, 0),
            line("[::1]:7000", "[::1]:40000", ESTABLISHED, 0, 13),
            line("127.0.0.1:7000", "127.0.0.1:40001", ESTABLISHED, 0, 14),
            line("0.0.0.0:7000", "0.0.0.0:0", LISTEN, 0, 0),
        ];
        let between = |table: &Table| table.between(at(client), at(server));
        assert_eq!(between(&table(&strangers)), None);
        // One of IPv4 may be at a socket of IPv6.
        for own in [server, "[::ffff:127.0.0.1]:7000"] {
            for (unsent, underway) in [(0, false), (3, true)] {
                let mut lines = strangers.to_vec();
                lines.insert(
                    3,
                    line(
                        own,
                        if own == server { client } else { "[::ffff:127.0.0.1]:40000" },
                        ESTABLISHED,
                        9,
                        3,
                    ),
                );
                lines.insert(2, line(client, server, ESTABLISHED, unsent, 0));
                let found = Socket { unread: 3, accepted: true, underway };
                assert_eq!(between(&table(&lines)), Some(found), "{own}");
            }
        }
        // One that has ended is none, whatever its client has not sent yet.
        let closing = [line(server, client, 8, 0, 3), line(client, server, 5, 3, 0)];
        assert_eq!(between(&table(&closing)), None);
    }

    #[test]
    fn who_listens_elsewhere_is_no_listener_of_this_address() {
        let listens = |own: &str, at: &str| {
            table(&[line(
                own,
                if own.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" },
                LISTEN,
                0,
                0,
            )])
            .listens(at.parse().unwrap())
        };
        for own in ["127.0.0.1:7000", "0.0.0.0:7000", "[::]:7000", "[::ffff:127.0.0.1]:7000"] {
            for at in ["127.0.0.1:7000", "0.0.0.0:7000"] {
                assert!(listens(own, at), "{own} {at}");
            }
            assert!(!listens(own, "127.0.0.1:7001"), "{own}");
        }
        assert!(listens("[::1]:7000", "[::1]:7000") && listens("[::]:7000", "[::1]:7000"));
        for (own, at) in [
            ("127.0.0.2:7000", "127.0.0.1:7000"),
            ("192.0.2.1:7000", "0.0.0.0:7000"),
            ("[::1]:7000", "0.0.0.0:7000"),
            ("0.0.0.0:7000", "[::1]:7000"),
        ] {
            assert!(!listens(own, at), "{own} {at}");
        }
        let open = line("127.0.0.1:7000", "127.0.0.1:40000", ESTABLISHED, 0, 0);
        assert!(!table(&[open]).listens("127.0.0.1:7000".parse().unwrap()));
    }

    /// One that accepts nothing, one that reads nothing, and one that has read all.
    #[test]
    fn what_the_kernel_says_of_them_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        assert!(Table::read().listens(server));
        let mut stream = TcpStream::connect(server).unwrap();
        let client = stream.local_addr().unwrap();
        // An acknowledgement may take its time.
        let arrived = || {
            let end = std::time::Instant::now() + std::time::Duration::from_secs(600);
            loop {
                let found = Table::read().between(client, server).unwrap();
                if !found.underway {
                    return (found.unread, found.accepted);
                }
                assert!(std::time::Instant::now() < end);
            }
        };
        assert_eq!(arrived(), (0, false));
        let (mut theirs, _) = listener.accept().unwrap();
        assert_eq!(arrived(), (0, true));
        stream.write_all(b"ask").unwrap();
        assert_eq!(arrived(), (3, true));
        theirs.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(arrived(), (0, true));
        assert_eq!(
            Table::read().between(server, client).map(|it| it.unread),
            Some(0),
            "the client's side"
        );
    }
}
