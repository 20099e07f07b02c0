//! The key exchange over TLS 1.3, which blocks: for threads that nobody waits for.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

pub use crate::dates::Dates;
use crate::dates::Judge;
use crate::exchange::{self, ALPN, Agreement, Asked, LABEL, LONGEST, Mistake};
use crate::{Aead, COOKIES, Cookies, Keys};

/// Addresses of a name that are tried at most.
const ADDRESSES: usize = 4;

/// Reason for which there are no keys.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failed {
    /// A file of certificates or keys cannot be used.
    File {
        /// Which.
        path: PathBuf,
        /// Reason, for people.
        why: String,
    },
    /// The system has no certificates of authorities.
    NoRoots(String),
    /// The name cannot be looked up, or is no name that a certificate can be for.
    Name(String),
    /// No connection, or it ended, or took too long.
    Connection(io::Error),
    /// TLS: a certificate that is not valid, of another name, or by an authority that is not known; no
    /// version 1.3; another protocol.
    Tls(String),
    /// Records of the exchange.
    Exchange(Mistake),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::File { path, why } => write!(f, "{}: {why}", path.display()),
            Failed::NoRoots(why) => {
                write!(
                    f,
                    "this system has no certificates of authorities ({why}): install ca-certificates, or name a file with `ca`"
                )
            }
            Failed::Name(why) | Failed::Tls(why) => f.write_str(why),
            Failed::Connection(why) if timed_out(why) => {
                f.write_str("no answer in time: server down, or TCP to this port blocked")
            }
            Failed::Connection(why) => write!(f, "{why}"),
            Failed::Exchange(mistake) => write!(f, "{mistake}"),
        }
    }
}

impl std::error::Error for Failed {}

fn timed_out(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Failed {
        // rustls wraps its own errors in those of the system.
        match why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => tls_error(tls),
            None => Failed::Connection(why),
        }
    }
}

fn tls_error(why: &rustls::Error) -> Failed {
    use rustls::CertificateError as Bad;
    use rustls::Error::{InvalidCertificate, PeerIncompatible};
    Failed::Tls(match why {
        InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the server's certificate has expired, or the clock is set wrong".into()
        }
        InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the server's certificate is not valid yet, or the clock is set wrong".into()
        }
        InvalidCertificate(Bad::UnknownIssuer) => {
            "the server's certificate is by an authority that is not known here (`ca` names a file of others)"
                .into()
        }
        InvalidCertificate(Bad::BadSignature) => {
            "the server's certificate was not made by the authority of that name that is known here".into()
        }
        InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "the server's certificate is for another name".into()
        }
        InvalidCertificate(Bad::Other(other)) if other.0.to_string() == "CaUsedAsEndEntity" => {
            "the server's certificate is one of an authority (CA:TRUE), which proves no server: it has to have one \
             with CA:FALSE"
                .into()
        }
        PeerIncompatible(_) => format!("the server does not speak TLS 1.3 as RFC 8915 asks: {why}"),
        _ => format!("TLS: {why}"),
    })
}

/// Connection to an address within a time.
pub type Connect<'c> = dyn Fn(&SocketAddr, Duration) -> io::Result<TcpStream> + 'c;

/// Choice of those of a name's addresses that may be tried, or why there are none.
pub type Choose<'c> = dyn Fn(Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> + 'c;

/// Settings of a client for all its exchanges.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Trusts the system's authorities, or those of a file in PEM alone.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(authorities: Option<&Path>) -> Result<Client, Failed> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|why| file(path, why))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                // Some that are odd are no reason to do without the others.
                let (added, _) = roots.add_parsable_certificates(found.certs);
                if added == 0 {
                    let why = found.errors.first();
                    return Err(Failed::NoRoots(why.map_or("none".into(), ToString::to_string)));
                }
            }
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|why| Failed::Tls(format!("TLS: {why}")))?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| tls_error(&why))?
            .with_webpki_verifier(Arc::clone(&verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A session that goes on would say who we are.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Client { config: Arc::new(config), verifier })
    }

    /// Asks a server for keys and cookies, within `limit` once its name is looked up; the address that answered
    /// comes with them. Its certificate is judged by these `dates`. Of the addresses of the name those are tried that
    /// `choose` leaves, some at most; `connect` makes a connection to one within some time, as
    /// [`TcpStream::connect_timeout`] does.
    ///
    /// # Errors
    /// If there are none.
    pub fn exchange(
        &self,
        host: &str,
        port: u16,
        limit: Duration,
        dates: Dates,
        (choose, connect): (&Choose<'_>, &Connect<'_>),
    ) -> Result<(Agreement, Keys, SocketAddr), Failed> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failed::Name(format!("'{host}' is no name of a server")))?;
        let unknown = |why: String| Failed::Name(format!("cannot look up {host}: {why}"));
        let found = (host, port).to_socket_addrs().map_err(|why| unknown(why.to_string()))?;
        let addresses = candidates(found, choose).map_err(unknown)?;
        let mut config = (*self.config).clone();
        let judge = Judge { by: Arc::clone(&self.verifier), dates };
        config.dangerous().set_certificate_verifier(Arc::new(judge));
        let config = Arc::new(config);
        // How long the name service takes is its own affair.
        let deadline = Instant::now() + limit;
        let mut failed = unknown("it has no address".into());
        for (address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
            // One that does not answer leaves time for the others.
            let until = Instant::now() + deadline.saturating_duration_since(Instant::now()) / left;
            match with(&config, *address, name.clone(), until, connect) {
                Ok((agreement, keys)) => return Ok((agreement, keys, *address)),
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }
}

/// Addresses that are tried, in their order; those that are not wanted leave their places to others.
fn candidates(
    found: impl Iterator<Item = SocketAddr>,
    choose: &Choose<'_>,
) -> Result<Vec<SocketAddr>, String> {
    let mut addresses = choose(found.collect())?;
    addresses.truncate(ADDRESSES);
    Ok(addresses)
}

/// Exchange with the server at one address.
fn with(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    name: ServerName<'static>,
    deadline: Instant,
    connect: &Connect<'_>,
) -> Result<(Agreement, Keys), Failed> {
    let stream = connect(&address, left(deadline)?)?;
    stream.set_nodelay(true)?;
    let mut stream = Timed { stream, deadline };
    let mut connection =
        ClientConnection::new(Arc::clone(config), name).map_err(|why| tls_error(&why))?;
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    tls.write_all(&exchange::request(&Aead::ALL))?;
    tls.flush()?;
    let message = message(&mut tls)?;
    if connection.alpn_protocol() != Some(ALPN) {
        return Err(Failed::Tls("the server speaks another protocol there than NTS".into()));
    }
    let agreement = exchange::agreement(&message, &Aead::ALL).map_err(Failed::Exchange)?;
    let keys = keys(agreement.aead, |context, out| {
        connection.export_keying_material(out, LABEL, Some(context)).map(|_| ())
    })?;
    Ok((agreement, keys))
}

/// Keys of both directions, exported from the connection.
fn keys(
    aead: Aead,
    export: impl Fn(&[u8], &mut [u8]) -> Result<(), rustls::Error>,
) -> Result<Keys, Failed> {
    let [to_server, to_client] = exchange::contexts(aead).map(|context| {
        let mut key = vec![0; aead.key_len()];
        export(&context, &mut key).map(|()| key).map_err(|why| tls_error(&why))
    });
    Keys::new(aead, &to_server?, &to_client?).ok_or_else(|| Failed::Tls("no keys".into()))
}

/// Reads a message to its last record.
fn message(from: &mut impl Read) -> Result<Vec<u8>, Failed> {
    let (mut message, mut piece) = (Vec::new(), [0; 1024]);
    while !exchange::is_whole(&message) {
        let got = match from.read(&mut piece) {
            Ok(0) => return Err(Failed::Exchange(Mistake::Short)),
            // Closed without TLS's own farewell.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => {
                return Err(Failed::Exchange(Mistake::Short));
            }
            got => got?,
        };
        message.extend_from_slice(piece.get(..got).unwrap_or_default());
        if message.len() > LONGEST {
            return Err(Failed::Exchange(Mistake::Long));
        }
    }
    Ok(message)
}

/// Settings of a server for all its exchanges.
#[derive(Clone)]
pub struct Server {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Serves with a chain of certificates, its own first, and the key to it, both in PEM.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn new(chain: &Path, key: &Path) -> Result<Server, Failed> {
        let certificates = certificates(chain)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|why| match why {
            pem::Error::NoItemsFound => file(key, "no private key in it (PEM)"),
            pem::Error::Io(why) => file(key, why),
            why => file(key, why),
        })?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| tls_error(&why))?
            .with_no_client_auth()
            .with_single_cert(certificates, private)
            .map_err(|why| match why {
                rustls::Error::InconsistentKeys(_) => {
                    let chain = chain.display();
                    file(key, format!("it is not the key to the first certificate in {chain}"))
                }
                why => file(key, why),
            })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Nothing is kept of a client.
        config.send_tls13_tickets = 0;
        Ok(Server { config: Arc::new(config) })
    }

    /// Answers one client, within `limit`; `port` is the NTP server's. Returns whether it got
    /// cookies, which it does unless both have nothing in common.
    ///
    /// # Errors
    /// If the client did not make a request that can be answered.
    pub fn answer(
        &self,
        stream: TcpStream,
        limit: Duration,
        port: u16,
        bake: &dyn Fn(&Keys) -> Vec<Vec<u8>>,
    ) -> Result<bool, Failed> {
        let mut stream = Timed { stream, deadline: Instant::now() + limit };
        let mut connection =
            ServerConnection::new(Arc::clone(&self.config)).map_err(|why| tls_error(&why))?;
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let message = message(&mut tls);
        // TLS lets those pass who name no protocol (RFC 8915 §4).
        if message.is_ok() && tls.conn.alpn_protocol() != Some(ALPN) {
            return Err(Failed::Tls("the client does not say that it speaks NTS".into()));
        }
        let asked = message.and_then(|message| exchange::asked(&message).map_err(Failed::Exchange));
        let (reply, result) = match asked {
            Err(Failed::Exchange(mistake)) => {
                (exchange::refuse(&mistake), Err(Failed::Exchange(mistake)))
            }
            Err(other) => return Err(other),
            Ok(asked @ Asked { aead: Some(aead), ntp: true, .. }) => {
                let keys = keys(aead, |context, out| {
                    connection.export_keying_material(out, LABEL, Some(context)).map(|_| ())
                })?;
                (exchange::answer(&asked, &bake(&keys), port), Ok(true))
            }
            Ok(asked) => (exchange::answer(&asked, &[], port), Ok(false)),
        };
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        tls.write_all(&reply)?;
        tls.conn.send_close_notify();
        tls.flush()?;
        result
    }
}

/// Cookies, so many as a client keeps.
#[must_use]
pub fn batch(cookies: &Cookies, keys: &Keys, random: &mut dyn FnMut(&mut [u8])) -> Vec<Vec<u8>> {
    (0..COOKIES).map(|_| cookies.bake(keys, random)).collect()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failed> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|why| match why {
            pem::Error::Io(why) => file(path, why),
            why => file(path, why),
        })?
        .collect();
    let all = all.map_err(|why| file(path, why))?;
    if all.is_empty() { Err(file(path, "no certificate in it (PEM)")) } else { Ok(all) }
}

fn file(path: &Path, why: impl fmt::Display) -> Failed {
    Failed::File { path: path.to_owned(), why: why.to_string() }
}

/// A connection that is over at a moment, however slowly the other side sends.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may
mod tests {
    use super::*;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::UnixTime;

    #[test]
    fn an_address_that_is_not_wanted_takes_no_other_s_place() {
        let many = |one: &str| vec![one.parse::<SocketAddr>().unwrap(); ADDRESSES + 1];
        let found = [many("[2001:db8::1]:4460"), many("192.0.2.1:4460")].concat();
        let ipv4 = |all: Vec<SocketAddr>| {
            Ok(all.into_iter().filter(SocketAddr::is_ipv4).collect::<Vec<_>>())
        };
        let tried = candidates(found.iter().copied(), &ipv4).unwrap();
        assert_eq!(tried, many("192.0.2.1:4460").get(..ADDRESSES).unwrap());
        let tried = candidates(found.into_iter(), &|all| Ok(all)).unwrap();
        assert_eq!(tried.len(), ADDRESSES);
        let none = candidates([].into_iter(), &|_| Err("it has no such address".into()));
        assert_eq!(none.unwrap_err(), "it has no such address");
    }

    /// Certificate as `openssl req -x509` makes it where it is not told otherwise, valid until 2126.
    const OF_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBlDCCATugAwIBAgIUDmtrLDsZA1HhA9VM//18f50RpAYwCgYIKoZIzj0EAwIw\n\
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyOTIzMTAyNVoYDzIxMjYxMTA1\n\
MjMxMDI1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO\n\
PQMBBwNCAASi7/sMg5A+9d3E+aHDViiLDV3XLtuVQrtns6UWhuNTciwnlVJAlvfT\n\
n+cVhqhPf1TjZB7Qphn4ncHLGOSKse7zo2kwZzAdBgNVHQ4EFgQUB1xUs13kOEVa\n\
s8xFbJL/PVo6ZDgwHwYDVR0jBBgwFoAUB1xUs13kOEVas8xFbJL/PVo6ZDgwDwYD\n\
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID\n\
RwAwRAIgNTM0yEf14cZJbbULcxiCM7rT6Mi1g8Dp0zsGQ4Ye6HQCIH4D4Y7nNSak\n\
mpcOQ20oggk3QX+tlN03TP9RoIigYNfK\n\
-----END CERTIFICATE-----\n\
";

    #[test]
    fn an_authority_s_certificate_proves_no_server() {
        let folder = std::env::temp_dir().join(format!("truechimer-ca-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, none) = (folder.join("ca.pem"), folder.join("none"));
        std::fs::write(&path, OF_AUTHORITY).unwrap();
        let client = Client::new(Some(&path)).unwrap();
        let [certificate] = &certificates(&path).unwrap()[..] else { panic!("one certificate") };
        let no_key = Server::new(&path, &path).unwrap_err().to_string();
        let no_file = Client::new(Some(&none)).unwrap_err().to_string();
        std::fs::remove_dir_all(folder).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let refused = client.verifier.verify_server_cert(certificate, &[], &name, &[], now);
        let why = tls_error(&refused.unwrap_err()).to_string();
        assert!(why.contains("(CA:TRUE), which proves no server"), "{why}");
        assert!(no_key.ends_with("ca.pem: no private key in it (PEM)"), "{no_key}");
        assert!(no_file.ends_with("none: No such file or directory (os error 2)"), "{no_file}");
    }
}
