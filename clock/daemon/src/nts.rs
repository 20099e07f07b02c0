//! Network Time Security: keys and cookies of the servers that prove who they are (RFC 8915).
//!
//! The engine knows nothing of keys: what it sends is protected here, what it hears has been proven
//! here, and neither its log nor its state holds a secret.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use truechimer_engine::{Event, SourceId};
use truechimer_files::{Durable, Entry};
use truechimer_nts::tls::Client;
use truechimer_nts::{Aead, HEADER, Keys, Refusal};

use crate::config::Settings;
use crate::resolve::{Found, look_up};
use crate::sys;

/// The longest that an exchange takes.
const LIMIT: Duration = Duration::from_secs(10);
/// Port of the NTP server where the exchange names none.
const NTP_PORT: u16 = 123;
/// The file of keys and cookies, beside the state.
const NAME: &str = "nts.json";
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 4 << 20;

/// Keys that a server and this daemon share, and for which server.
#[derive(Debug)]
pub(crate) struct Session {
    place: Server,
    /// File of the authorities that the exchange went by.
    ca: Option<PathBuf>,
    protected: truechimer_nts::Session,
}

/// A server of the configuration, and where its NTP server is.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Server {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
}

/// Keys and cookies as the next daemon finds them, to go on without an exchange.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
    /// The number of the algorithm.
    aead: u16,
    /// File of the authorities that the exchange went by; `None`: the system's.
    ca: Option<PathBuf>,
    /// Keys for requests and for replies, in hexadecimal, and so the cookies.
    keys: [String; 2],
    cookies: Vec<String>,
}

/// All servers that prove who they are.
#[derive(Debug)]
pub(crate) struct Nts {
    client: Option<Result<Client, String>>,
    /// Sources that nothing is sent to, or taken from, without proof.
    expected: Vec<SourceId>,
    sessions: Vec<(SourceId, Session)>,
    /// Those of the daemon before that nobody has asked for yet.
    kept: Vec<Session>,
    path: Option<PathBuf>,
    /// File of the authorities that exchanges go by; `None`: the system's.
    ca: Option<PathBuf>,
}

impl Nts {
    /// Begins with what the daemon before has kept beside its state. Authorities are read now: later they may not be
    /// reached any more.
    pub(crate) fn new(settings: &Settings, state: Option<&Path>) -> Nts {
        let path = state.map(|state| state.with_file_name(NAME));
        let mut nts = Nts {
            client: None,
            expected: Vec::new(),
            sessions: Vec::new(),
            kept: Vec::new(),
            path,
            ca: None,
        };
        if settings.engine.sources.iter().any(|source| source.nts) {
            nts.configure(settings);
            nts.load();
        }
        nts
    }

    /// Keys of the daemon before, by the same authorities. The file is removed: a cookie that is used twice would say
    /// who we are. Of one that cannot be read nothing is lost: there is an exchange for each server.
    fn load(&mut self) {
        let Some(path) = &self.path else { return };
        self.kept = load(path);
        self.kept.retain(|session| session.ca == self.ca);
        let _ = truechimer_files::remove(path);
    }

    /// Keeps keys beside this state from now on.
    pub(crate) fn keep_beside(&mut self, state: Option<&Path>) {
        self.path = state.map(|state| state.with_file_name(NAME));
    }

    /// Takes over a configuration that was read again. Keys that were had by other authorities are of no use.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        if self.ca != settings.nts_ca {
            self.ca.clone_from(&settings.nts_ca);
            self.sessions.clear();
            self.kept.clear();
        }
        self.client =
            settings.engine.sources.iter().any(|source| source.nts).then(|| {
                Client::new(settings.nts_ca.as_deref()).map_err(|why| format!("NTS: {why}"))
            });
    }

    /// From now on the source is sent nothing, and nothing of it is used, without proof.
    pub(crate) fn expect(&mut self, source: SourceId) {
        if !self.expected.contains(&source) {
            self.expected.push(source);
        }
    }

    /// The source is gone, or needs no proof any more.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.expected.retain(|expected| *expected != source);
        self.sessions.retain(|(of, _)| *of != source);
    }

    /// Keys that the daemon before had of this server, once.
    pub(crate) fn kept(&mut self, host: &str, port: u16) -> Option<Found> {
        let is =
            |session: &Session| (session.place.host.as_str(), session.place.port) == (host, port);
        let place = self.kept.iter().position(is)?;
        Some(self.kept.swap_remove(place).found())
    }

    /// Work for a helper thread: an exchange of keys.
    pub(crate) fn exchange(&self) -> Result<Exchange, String> {
        match &self.client {
            Some(client) => {
                let ca = self.ca.clone();
                client.clone().map(|client| Exchange { client, ca })
            }
            None => Err("NTS: not configured".into()),
        }
    }

    /// Uses these keys for the source from now on, unless it is gone meanwhile, or other authorities count.
    pub(crate) fn begin(&mut self, source: SourceId, session: Session) {
        if !self.expected.contains(&source) || session.ca != self.ca {
            return;
        }
        self.sessions.retain(|(of, _)| *of != source);
        self.sessions.push((source, session));
    }

    fn session(&mut self, source: SourceId) -> Option<&mut truechimer_nts::Session> {
        let of = |(of, _): &&mut (SourceId, Session)| *of == source;
        self.sessions.iter_mut().find(of).map(|(_, session)| &mut session.protected)
    }

    /// The request as it goes out: protected, if the source is to prove who it is.
    ///
    /// # Errors
    /// If it cannot be protected: nothing may be sent then.
    pub(crate) fn protect(
        &mut self,
        source: SourceId,
        header: &[u8; HEADER],
    ) -> Result<Vec<u8>, String> {
        if !self.expected.contains(&source) {
            return Ok(header.to_vec());
        }
        let session = self.session(source).ok_or("NTS: no keys yet")?;
        let mut trouble = None;
        let mut random = |bytes: &mut [u8]| trouble = sys::random(bytes).err().or(trouble.take());
        let packet = session.protect(header, &mut random).map_err(|why| why.to_string())?;
        match trouble {
            Some(why) => Err(format!("NTS: no random numbers: {why}")),
            None => Ok(packet),
        }
    }

    /// Makes of a datagram that proves itself the header in it, and of one that does not another event.
    pub(crate) fn check(&mut self, event: &mut Event) {
        let Event::Reply { source, packet, .. } = event else { return };
        if !self.expected.contains(source) {
            return;
        }
        let source = *source;
        let accepted = match self.session(source) {
            Some(session) => session.accept(packet),
            None => Err(Refusal::Unasked),
        };
        match accepted {
            Ok(header) => *packet = header.to_vec(),
            Err(why) => *event = Event::Unauthentic { source, error: why.to_string() },
        }
    }

    /// Keeps keys and cookies for the next daemon, where nobody else reads them; none is used here any more. Returns why
    /// they cannot be.
    pub(crate) fn save(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let sessions: Vec<Kept> = self.sessions.iter().map(|(_, session)| session.keep()).collect();
        if sessions.is_empty() {
            return None;
        }
        let why = write(path, &sessions).err()?;
        Some(format!("keys of servers (NTS) cannot be kept in {}: {why}", path.display()))
    }
}

fn write(path: &Path, sessions: &[Kept]) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(sessions)?;
    text.push(b'\n');
    let mut new = Entry::at(path)?.replace(0o600)?;
    new.write_all(&text)?;
    new.commit(Durable::No)
}

fn load(path: &Path) -> Vec<Session> {
    let text = match truechimer_config::read_own(path, MAX_FILE) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(_) => return Vec::new(),
    };
    let kept: Vec<Kept> = serde_json::from_str(&text).unwrap_or_default();
    kept.into_iter().filter_map(Session::from_kept).collect()
}

impl Session {
    fn found(self) -> Found {
        Found { addresses: self.place.addresses.clone(), session: Some(self) }
    }

    fn keep(&self) -> Kept {
        let Server { host, port, addresses } = self.place.clone();
        let keys = self.protected.keys();
        Kept {
            host,
            port,
            addresses,
            aead: keys.aead().number(),
            ca: self.ca.clone(),
            keys: keys.bytes().map(hex),
            cookies: self.protected.cookies().map(hex).collect(),
        }
    }

    fn from_kept(kept: Kept) -> Option<Session> {
        let Kept { host, port, addresses, aead, ca, keys: [to_server, to_client], cookies } = kept;
        let keys = Keys::new(Aead::of(aead)?, &bytes(&to_server)?, &bytes(&to_client)?)?;
        let cookies = cookies.iter().map(|cookie| bytes(cookie)).collect::<Option<Vec<_>>>()?;
        let usable = !cookies.is_empty() && !addresses.is_empty();
        let protected = truechimer_nts::Session::new(keys, cookies);
        usable.then_some(Session { place: Server { host, port, addresses }, ca, protected })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

/// An exchange of keys, for a thread of its own.
pub(crate) struct Exchange {
    client: Client,
    ca: Option<PathBuf>,
}

impl Exchange {
    /// Asks this server; blocks for some seconds at most, and for as long as the name service takes.
    pub(crate) fn with(self, host: &str, port: u16) -> Result<Found, String> {
        let (agreement, keys, peer) =
            self.client.exchange(host, port, LIMIT).map_err(|why| format!("NTS: {why}"))?;
        let ntp = agreement.port.unwrap_or(NTP_PORT);
        let addresses = match &agreement.server {
            None => vec![SocketAddr::new(peer.ip(), ntp)],
            Some(server) => look_up(server, ntp).map_err(|why| {
                format!("NTS: cannot look up {server}, the NTP server that it names: {why}")
            })?,
        };
        let place = Server { host: host.to_owned(), port, addresses };
        let protected = truechimer_nts::Session::new(keys, agreement.cookies);
        Ok(Session { place, ca: self.ca, protected }.found())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn session(host: &str, cookies: u8) -> Session {
        let keys = Keys::new(Aead::SivCmac256, &[3; 32], &[0xfe; 32]).unwrap();
        let cookies = (0..cookies).map(|n| vec![n; 100]).collect();
        let place = Server {
            host: host.into(),
            port: 4460,
            addresses: vec!["192.0.2.1:123".parse().unwrap()],
        };
        Session { place, ca: None, protected: truechimer_nts::Session::new(keys, cookies) }
    }

    fn nts(path: Option<PathBuf>) -> Nts {
        let (expected, sessions, kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut nts = Nts { client: None, expected, sessions, kept, path, ca: None };
        nts.load();
        nts
    }

    #[test]
    fn keys_outlive_the_daemon_and_are_the_owner_s_alone() {
        let folder = std::env::temp_dir().join(format!("truechimer-nts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(NAME);
        let mut before = nts(Some(path.clone()));
        assert_eq!(before.save(), None);
        assert!(!path.exists(), "nothing to keep");
        before.begin(SourceId(1), session("a.example", 8));
        assert_eq!(before.save(), None);
        assert!(!path.exists(), "a source that is gone");
        before.expect(SourceId(1));
        before.expect(SourceId(2));
        before.begin(SourceId(1), session("a.example", 8));
        before.begin(SourceId(3), Session { ca: Some("/other".into()), ..session("c.example", 8) });
        before.begin(SourceId(2), session("b.example", 0));
        assert_eq!(before.save(), None);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("c.example"), "other authorities");
        let mut after = nts(Some(path.clone()));
        assert!(!path.exists(), "no cookie is used twice");
        assert!(after.kept("a.example", 123).is_none());
        assert!(after.kept("b.example", 4460).is_none(), "no cookie");
        let found = after.kept("a.example", 4460).unwrap();
        assert_eq!(found.addresses, ["192.0.2.1:123".parse().unwrap()]);
        let (kept, was) = (found.session.unwrap(), session("a.example", 8));
        assert_eq!(kept.protected.keys(), was.protected.keys());
        assert!(kept.protected.cookies().eq(was.protected.cookies()));
        assert!(after.kept("a.example", 4460).is_none(), "once");
        // What somebody else may have changed, or is damaged, is nothing.
        let other = text.replace("\"ca\": null", "\"ca\": \"/other\"");
        assert_ne!(text, other);
        for damaged in
            ["", "[", "[{}]", &other, &text.replacen("03", "0x", 1), &text.replacen("15", "16", 1)]
        {
            std::fs::write(&path, damaged).unwrap();
            assert!(nts(Some(path.clone())).kept("a.example", 4460).is_none(), "{damaged}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_leaves_or_comes_in_without_proof() {
        let mut nts = nts(None);
        let (plain, proven) = (SourceId(1), SourceId(2));
        nts.expect(proven);
        assert_eq!(nts.protect(plain, &[0x23; 48]), Ok(vec![0x23; 48]));
        assert!(nts.protect(proven, &[0x23; 48]).unwrap_err().contains("no keys yet"));
        let reply = |source| Event::Reply {
            source,
            from: "192.0.2.1:123".parse().unwrap(),
            sent: crate::nts::tests::stamp(),
            received: crate::nts::tests::stamp(),
            packet: vec![0x24; 48],
        };
        let mut of_plain = reply(plain);
        nts.check(&mut of_plain);
        assert_eq!(of_plain, reply(plain));
        for with_keys in [false, true] {
            if with_keys {
                nts.begin(proven, session("a.example", 2));
                assert!(nts.protect(proven, &[0x23; 48]).unwrap().len() > 48);
            }
            let mut of_proven = reply(proven);
            nts.check(&mut of_proven);
            assert!(matches!(of_proven, Event::Unauthentic { source, .. } if source == proven));
        }
        nts.close(proven);
        assert_eq!(nts.protect(proven, &[0x23; 48]), Ok(vec![0x23; 48]));
    }

    fn stamp() -> truechimer_time::Stamp {
        use truechimer_time::{Count, CountSpan, Stamp, StampMethod};
        Stamp { count: Count(1), error: CountSpan(1), method: StampMethod::Kernel }
    }
}
