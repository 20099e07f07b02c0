//! Network Time Security (RFC 8915): the key exchange over TCP, and the keys that cookies are made with.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::rand::{GetRandomFlags, getrandom};
use truechimer_files::{Durable, Entry};
use truechimer_ntp::server;
use truechimer_ntp::{HEADER_LEN, Log2, Packet, RefId, Timestamp};
pub(crate) use truechimer_nts::Opened;
use truechimer_nts::tls::{self, Failed};
use truechimer_nts::{Closed, Cookies, Refusal, nak};

use crate::access::Access;
use crate::proof::{NtsSettings, Proof, Protected};
use crate::tally::Tally;

/// The longest that an exchange may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Exchanges at a time: whoever comes beyond that is turned away.
const MOST: usize = 32;
/// Exchanges at a time with one address, so that nobody has all of them.
const EACH: usize = 4;
/// How late a request to stop may be seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long cookies are made with one key. They are good for two such times at least.
const ROTATION: Duration = Duration::from_secs(86_400);
/// The kiss code of a server that does not know a cookie (§5.7).
const NTSN: RefId = RefId(*b"NTSN");
/// The largest file of keys, bytes.
const MAX_FILE: u64 = 4096;

/// Keys and certificate of a server that proves who it is.
pub struct Nts {
    chain: PathBuf,
    key: PathBuf,
    server: RwLock<tls::Server>,
    cookies: RwLock<Cookies>,
    kept: Option<PathBuf>,
    port: u16,
    exchanges: AtomicU64,
    refused: AtomicU64,
    /// Whose exchanges are under way.
    at_work: Mutex<Vec<IpAddr>>,
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
        let NtsSettings { chain, key, .. } = settings.clone();
        let server = RwLock::new(read(&chain, &key)?);
        let kept = settings.kept.as_deref().map(load).transpose()?.flatten();
        let cookies = kept.unwrap_or_else(|| Cookies::new(&mut random));
        let nts = Nts {
            chain,
            key,
            server,
            cookies: RwLock::new(cookies),
            kept: settings.kept.clone(),
            port: settings.port,
            exchanges: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            at_work: Mutex::new(Vec::new()),
        };
        nts.keep().map_err(|why| {
            let path = nts.kept.as_deref().unwrap_or(Path::new("")).display();
            format!("NTS: keys cannot be kept in {path}: {why}")
        })?;
        Ok(nts)
    }

    /// Reads certificate and key again, for exchanges from now on. Keys and cookies that clients have stay good.
    ///
    /// # Errors
    /// If they cannot be used, in words for the user.
    pub(crate) fn renew(&self) -> Result<(), String> {
        let new = read(&self.chain, &self.key)?;
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Keeps the keys of cookies for the next start, where nobody else reads them.
    fn keep(&self) -> io::Result<()> {
        let Some(path) = &self.kept else { return Ok(()) };
        let bytes = self.cookies.read().unwrap_or_else(PoisonError::into_inner).bytes();
        let mut new = Entry::at(path)?.replace(0o600)?;
        new.write_all(&bytes)?;
        new.commit(Durable::No)
    }

    /// Sets the keys of cookies that are a day old aside for others.
    fn rotate(&self) -> io::Result<()> {
        self.cookies.write().unwrap_or_else(PoisonError::into_inner).rotate(&mut random);
        self.keep()
    }

    /// How a request is to be answered that arrived at `receive`; nothing of it but its header has been checked.
    pub(crate) fn look(&self, request: &[u8], receive: Timestamp) -> Protected {
        let Some((header, [_, ..])) = Packet::decode(request) else { return Protected::Plain };
        let cookies = self.cookies.read().unwrap_or_else(PoisonError::into_inner);
        match cookies.open(request) {
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
        let cookies = self.cookies.read().unwrap_or_else(PoisonError::into_inner);
        cookies.protect(header, to, &mut random)
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
        let mut rotation = Instant::now() + ROTATION;
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
            if Instant::now() >= rotation {
                rotation += ROTATION;
                // Cookies made meanwhile are good all the same, until the next start.
                let _ = self.rotate();
            }
        }
        Ok(())
    }

    fn take(self: &Arc<Nts>, stream: TcpStream, from: IpAddr, ntp: u16, access: &Access) {
        let nts = Arc::clone(self);
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = move || {
            let bake = |keys: &_| {
                let cookies = nts.cookies.read().unwrap_or_else(PoisonError::into_inner);
                tls::batch(&cookies, keys, &mut random)
            };
            let answered = stream
                .set_nonblocking(false)
                .map_err(Failed::from)
                .and_then(|()| server.answer(stream, LIMIT, ntp, &bake));
            let counter = if matches!(answered, Ok(true)) { &nts.exchanges } else { &nts.refused };
            counter.fetch_add(1, Ordering::Relaxed);
            nts.ends(from);
        };
        if !access.allows(from) || !self.begins(from) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if thread::Builder::new().name("nts-ke".into()).spawn(answer).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.ends(from);
        }
    }

    /// Whether there is room for an exchange with this client, which then begins.
    fn begins(&self, from: IpAddr) -> bool {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let own = at_work.iter().filter(|other| **other == from).count();
        let room = at_work.len() < MOST && own < EACH;
        if room {
            at_work.push(from);
        }
        room
    }

    fn ends(&self, from: IpAddr) {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = at_work.iter().position(|other| *other == from) {
            at_work.swap_remove(place);
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

/// Keys that were kept; `None` if none were.
fn load(path: &Path) -> Result<Option<Cookies>, String> {
    let say = |why: &dyn fmt::Display| format!("NTS: the keys in {}: {why}", path.display());
    let bytes = match truechimer_config::read_secret(path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(say(&why)),
    };
    let cookies = Cookies::from_bytes(&bytes);
    cookies
        .map(Some)
        .ok_or_else(|| say(&"not what this server writes: remove the file, or name another"))
}
