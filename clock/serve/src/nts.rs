//! Network Time Security (RFC 8915): the key exchange over TCP, and the keys that cookies are made with.

mod kept;
mod room;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::rand::{GetRandomFlags, getrandom};
use truechimer_ntp::server;
use truechimer_ntp::{HEADER_LEN, Log2, Packet, RefId, Timestamp};
pub(crate) use truechimer_nts::Opened;
use truechimer_nts::tls::{self, Failed};
use truechimer_nts::{Closed, Refusal, nak};

use crate::access::Access;
use crate::proof::{NtsSettings, Proof, Protected};
use crate::tally::Tally;
use kept::Kept;
use room::{MOST, Room};

/// The longest that an exchange may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Longest time until a request to stop is seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// The kiss code of a server that does not know a cookie (§5.7).
const NTSN: RefId = RefId(*b"NTSN");
/// Right of everybody to read a file.
const READ_BY_ALL: u32 = 0o004;

/// Keys and certificate of a server that proves who it is.
pub struct Nts {
    chain: PathBuf,
    key: PathBuf,
    server: RwLock<tls::Server>,
    kept: RwLock<Kept>,
    port: u16,
    exchanges: AtomicU64,
    refused: AtomicU64,
    room: Room,
    /// Troubles that the user has not been told of, the oldest first.
    news: Mutex<Vec<String>>,
}

impl fmt::Debug for Nts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nts").field("port", &self.port).finish_non_exhaustive()
    }
}

fn random(bytes: &mut [u8]) {
    // Up to 256 come all at once, and none fail once the system has begun to have any.
    while getrandom(&mut *bytes, GetRandomFlags::empty()).is_err() {
        thread::sleep(PATIENCE);
    }
}

impl Nts {
    /// Reads certificate, key and the keys that were kept.
    ///
    /// # Errors
    /// If they cannot be used, in words for the user.
    pub fn new(settings: &NtsSettings) -> Result<Nts, String> {
        let NtsSettings { chain, key, kept, port } = settings.clone();
        let server = RwLock::new(read(&chain, &key)?);
        let news = Mutex::new(exposed(&key).into_iter().collect());
        Ok(Nts {
            chain,
            key,
            server,
            kept: RwLock::new(Kept::new(kept)?),
            port,
            exchanges: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            room: Room::new(),
            news,
        })
    }

    /// Reads certificate and key again, for exchanges from now on. Keys and cookies that clients have stay good.
    ///
    /// # Errors
    /// If they cannot be used, in words for the user.
    pub(crate) fn renew(&self) -> Result<(), String> {
        let new = read(&self.chain, &self.key)?;
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = new;
        exposed(&self.key).into_iter().for_each(|text| self.tell(text));
        Ok(())
    }

    /// Sets the keys of cookies that are a day old aside for others.
    fn rotate(&self) {
        if !self.kept.read().unwrap_or_else(PoisonError::into_inner).is_due() {
            return;
        }
        let contents = self.kept.write().unwrap_or_else(PoisonError::into_inner).rotate();
        if let Some(Err(why)) = contents.map(|contents| contents.write()) {
            self.tell(format!("{why}; after the next start clients fetch new cookies"));
        }
    }

    fn tell(&self, text: String) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Troubles that are new to the user.
    pub(crate) fn news(&self) -> Vec<String> {
        core::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Treatment of a request that arrived at `receive`, of which only the header has been checked.
    pub(crate) fn look(&self, request: &[u8], receive: Timestamp) -> Protected {
        let Some((header, [_, ..])) = Packet::decode(request) else { return Protected::Plain };
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        match kept.cookies.open(request) {
            Ok(opened) => Protected::By(Proof::Nts(opened)),
            // A message authentication code, or fields of other kinds.
            Err(Closed { refusal: Refusal::Unprotected | Refusal::Malformed, .. }) => {
                Protected::Plain
            }
            Err(Closed { nak: Some(unique), .. }) => {
                let kiss = server::kiss(&header, receive, NTSN, Log2(0));
                Protected::Nak { packet: nak(&kiss.encode(), &unique), of_key: false }
            }
            Err(_) => Protected::Refused,
        }
    }

    /// The reply with this header, with proof.
    pub(crate) fn protect(&self, header: &[u8; HEADER_LEN], to: &Opened) -> Vec<u8> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.cookies.protect(header, to, &mut random)
    }

    /// Binds the key exchange to the hosts of these addresses; with each goes the port of its NTP server, of several
    /// the first.
    pub(crate) fn bind(
        &self,
        addresses: &[SocketAddr],
    ) -> Result<Vec<(TcpListener, u16)>, (SocketAddr, io::Error)> {
        let mut listeners: Vec<(TcpListener, u16)> = Vec::new();
        let mut bound: Vec<IpAddr> = Vec::new();
        for ntp in addresses {
            if bound.contains(&ntp.ip()) {
                continue;
            }
            bound.push(ntp.ip());
            let address = SocketAddr::new(ntp.ip(), self.port);
            listeners.push((listen(&address).map_err(|why| (address, why))?, ntp.port()));
        }
        Ok(listeners)
    }

    /// Answers exchanges until told to stop, each on a thread of its own.
    pub(crate) fn run(
        self: &Arc<Nts>,
        listeners: &[(TcpListener, u16)],
        access: &Access,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut ready = vec![truechimer_stamp::Ready::default(); listeners.len()];
        while !stop() {
            let sockets = listeners.iter().map(|(listener, _)| listener.as_fd());
            truechimer_stamp::any(sockets, &mut ready, PATIENCE)?;
            for (listener, ntp) in listeners {
                match listener.accept() {
                    Ok((stream, from)) => self.take(stream, from.ip(), *ntp, access),
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                    // Out of descriptors, say: those that are open end within seconds.
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
            self.rotate();
        }
        Ok(())
    }

    fn take(self: &Arc<Nts>, stream: TcpStream, from: IpAddr, ntp: u16, access: &Access) {
        let nts = Arc::clone(self);
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = move || {
            let bake = |keys: &_| {
                let kept = nts.kept.read().unwrap_or_else(PoisonError::into_inner);
                tls::batch(&kept.cookies, keys, &mut random)
            };
            let answered = stream
                .set_nonblocking(false)
                .map_err(Failed::from)
                .and_then(|()| server.answer(stream, LIMIT, ntp, &bake));
            let counter = if matches!(answered, Ok(true)) { &nts.exchanges } else { &nts.refused };
            counter.fetch_add(1, Ordering::Relaxed);
            nts.room.ends(from);
        };
        if !access.allows(from) || !self.room.begins(from) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if thread::Builder::new().name("nts-ke".into()).spawn(answer).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.room.ends(from);
        }
    }

    /// Adds what became of exchanges.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        tally.nts_exchanges += self.exchanges.load(Ordering::Relaxed);
        tally.nts_exchanges_refused += self.refused.load(Ordering::Relaxed);
    }
}

/// Certificate and key of a server.
fn read(chain: &Path, key: &Path) -> Result<tls::Server, String> {
    tls::Server::new(chain, key).map_err(|why| format!("NTS: {why}"))
}

/// Warning where everybody may read the private key, by links as the server itself reads it.
fn exposed(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.mode();
    let text = || {
        let mode = mode & 0o777;
        format!("NTS: everybody may read the key in {} (mode {mode:o}): chmod o-r", key.display())
    };
    (mode & READ_BY_ALL != 0).then(text)
}

/// A socket for connections to `address`, without waiting for them.
fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    net::bind(&fd, address)?;
    net::listen(&fd, MOST as i32)?;
    Ok(TcpListener::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_key_that_everybody_may_read_is_told() {
        let folder = std::env::temp_dir().join(format!("truechimer-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (key, link) = (folder.join("key.pem"), folder.join("live.pem"));
        std::fs::write(&key, "").unwrap();
        symlink(&key, &link).unwrap();
        let told = |mode| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            [exposed(&key), exposed(&link)].map(|told| told.is_some_and(|t| t.contains("o-r")))
        };
        assert_eq!(told(0o644), [true, true]);
        assert_eq!(told(0o640), [false, false], "a group of its own");
        assert_eq!(told(0o600), [false, false]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
