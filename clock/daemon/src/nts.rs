//! Network Time Security: keys and cookies of servers by an exchange (RFC 8915).

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use truechimer_engine::{Authentication, NTP_PORT};
use truechimer_files::{Durable, Entry};
use truechimer_nts::tls::{Client, Dates};
use truechimer_nts::{Aead, HEADER, Keys};

use crate::config::Settings;
use crate::resolve::{Found, Route, look_up};
use crate::{proof, sys};

/// The longest that an exchange takes.
const LIMIT: Duration = Duration::from_secs(10);
/// The file of keys and cookies, beside the state.
const NAME: &str = "nts.json";
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 4 << 20;
/// The longest that keys of one exchange are used, s: four weeks, as chronyd has it (`ntsrefresh`). Each exchange looks
/// at the server's certificate anew.
const MAX_AGE: u64 = 28 * 86_400;

/// Keys that a server and this daemon share, and for which server.
#[derive(Debug)]
pub(crate) struct Session {
    place: Server,
    /// File of the authorities that the exchange went by.
    ca: Option<PathBuf>,
    /// When it was, Unix time in s.
    since: u64,
    /// Had before the clock was set.
    provisional: bool,
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
    /// When it was, Unix time in s.
    since: u64,
    /// Keys for requests and for replies, in hexadecimal, and so the cookies.
    keys: [String; 2],
    cookies: Vec<String>,
}

/// Settings of exchanges, read by the first that needs them: on its own thread, as a file system may hang.
type Reading = Arc<OnceLock<Client>>;

/// Exchanges of keys, and keys that outlive a daemon.
#[derive(Debug)]
pub(crate) struct Nts {
    client: Reading,
    /// Those of the daemon before that nobody has asked for yet.
    kept: Vec<Session>,
    path: Option<PathBuf>,
    /// File of the authorities that exchanges go by; `None`: the system's.
    ca: Option<PathBuf>,
    /// An exchange may go before the clock is set.
    unset_clock: bool,
    /// The least that the time is, whatever the system clock says, Unix time in s.
    least: u64,
}

impl Nts {
    /// Begins with what the daemon before has kept beside its state. Authorities that are needed from the start are read
    /// now, before the process gives up rights. It is `least` or later, Unix time in s.
    pub(crate) fn new(settings: &Settings, state: Option<&Path>, least: u64) -> Nts {
        let path = state.map(|state| state.with_file_name(NAME));
        let (kept, unset_clock) = (Vec::new(), false);
        let client = Reading::default();
        let mut nts = Nts { client, kept, path, ca: None, unset_clock, least };
        nts.configure(settings);
        if is_used(settings) {
            // The first exchange tells what is wrong with them.
            let _ = client_of(&nts.client, nts.ca.as_deref());
            nts.load();
        }
        nts
    }

    /// Keys of the daemon before, by the same authorities. The file is removed: a cookie that is used twice would say
    /// who we are. Of one that cannot be read nothing is lost: there is an exchange for each server.
    fn load(&mut self) {
        let Some(path) = &self.path else { return };
        self.kept = load(path);
        self.kept.retain(|session| session.ca == self.ca && !session.is_old(unix_now()));
        let _ = truechimer_files::remove(path);
    }

    /// Keeps keys beside this state from now on.
    pub(crate) fn keep_beside(&mut self, state: Option<&Path>) {
        self.path = state.map(|state| state.with_file_name(NAME));
    }

    /// Takes over a configuration that was read again. Keys that were had by other authorities are of no use.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.unset_clock = settings.nts_unset_clock;
        if self.ca != settings.nts_ca {
            self.ca.clone_from(&settings.nts_ca);
            self.kept.clear();
        }
        self.client = Reading::default();
    }

    /// True if these keys were had by the authorities that count.
    pub(crate) fn fits(&self, session: &Session) -> bool {
        session.ca == self.ca
    }

    /// Keys that the daemon before had of this server, once.
    pub(crate) fn kept(&mut self, host: &str, port: u16) -> Option<Found> {
        let is =
            |session: &Session| (session.place.host.as_str(), session.place.port) == (host, port);
        let place = self.kept.iter().position(is)?;
        Some(self.kept.swap_remove(place).found())
    }

    /// Work for a helper thread: an exchange of keys, by this route. `now` is the Unix time in s, if the clock knows it.
    pub(crate) fn exchange(&self, route: Route, now: Option<u64>) -> Exchange {
        let dates = match now {
            Some(now) => Dates::At(now),
            None if self.unset_clock => Dates::From(unix_now().max(self.least)),
            None => Dates::At(unix_now()),
        };
        Exchange { client: Arc::clone(&self.client), ca: self.ca.clone(), dates, route }
    }

    /// The clock knows the time: no certificate that has expired by now is ever taken again, Unix time in s.
    pub(crate) fn clock_is_set(&mut self, now: u64) {
        self.least = self.least.max(now);
    }

    /// Keeps keys and cookies for the next daemon, where nobody else reads them; none is used here any more. Returns why
    /// they cannot be.
    pub(crate) fn save<'a>(&self, used: impl Iterator<Item = &'a Session>) -> Option<String> {
        let path = self.path.as_ref()?;
        let sessions: Vec<Kept> = used.filter(|s| !s.provisional).map(Session::keep).collect();
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

/// Unix time by the system clock, s; 0 before 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Settings of exchanges by these authorities, read unless they have been. What cannot be read is tried again by the next.
fn client_of(reading: &Reading, ca: Option<&Path>) -> Result<Client, String> {
    if let Some(client) = reading.get() {
        return Ok(client.clone());
    }
    let client = Client::new(ca).map_err(|why| format!("NTS: {why}"))?;
    Ok(reading.get_or_init(|| client).clone())
}

/// Reason why no server can prove itself with these settings, if one is to.
pub(crate) fn trouble(settings: &Settings) -> Option<String> {
    let used = is_used(settings) || settings.nts_ca.is_some();
    used.then(|| client_of(&Reading::default(), settings.nts_ca.as_deref()).err()).flatten()
}

fn is_used(settings: &Settings) -> bool {
    settings.engine.sources.iter().any(|source| source.authentication == Authentication::Nts)
}

fn load(path: &Path) -> Vec<Session> {
    let Ok(text) = truechimer_config::read_secret(path, MAX_FILE) else { return Vec::new() };
    let kept: Vec<Kept> = serde_json::from_slice(&text).unwrap_or_default();
    kept.into_iter().filter_map(Session::from_kept).collect()
}

impl Session {
    fn found(self) -> Found {
        Found {
            addresses: self.place.addresses.clone(),
            session: Some(proof::Session::Nts(Box::new(self))),
        }
    }

    /// True if its keys have been used for long enough. A system clock that is not set yet says
    /// nothing of that.
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.since) > MAX_AGE
    }

    /// True if it was had before the clock was set, so that its server's certificate is to be judged anew.
    pub(crate) fn is_provisional(&self) -> bool {
        self.provisional
    }

    /// Cookies that are left.
    pub(crate) fn cookies(&self) -> usize {
        self.protected.cookies().len()
    }

    /// Algorithm that was agreed on.
    pub(crate) fn aead(&self) -> Aead {
        self.protected.keys().aead()
    }

    /// Line for the log as it begins to be used.
    pub(crate) fn told(&self) -> String {
        let Server { host, port, addresses } = &self.place;
        let ntp = addresses.first().map_or_else(String::new, ToString::to_string);
        let (aead, cookies, since) = (self.aead(), self.cookies(), self.since);
        format!(
            "keys of {host}:{port} (NTS, {aead}, {cookies} cookies), exchanged at {since} (Unix time); its NTP server is {ntp}"
        )
    }

    /// The request with this header as it goes out.
    pub(crate) fn protect(&mut self, header: &[u8; HEADER]) -> Result<Vec<u8>, String> {
        if self.is_old(unix_now()) {
            return Err("NTS: the keys are four weeks old, and others are fetched".into());
        }
        let mut trouble = None;
        let mut random = |bytes: &mut [u8]| trouble = sys::random(bytes).err().or(trouble.take());
        let packet = self.protected.protect(header, &mut random).map_err(|why| why.to_string())?;
        match trouble {
            Some(why) => Err(format!("NTS: no random numbers: {why}")),
            None => Ok(packet),
        }
    }

    /// Header of an authentic reply.
    pub(crate) fn accept(&mut self, packet: &[u8]) -> Result<[u8; HEADER], String> {
        self.protected.accept(packet).map_err(|why| why.to_string())
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
            since: self.since,
            keys: keys.bytes().map(hex),
            cookies: self.protected.cookies().map(hex).collect(),
        }
    }

    fn from_kept(kept: Kept) -> Option<Session> {
        let Kept { host, port, addresses, aead, ca, since, keys, cookies } = kept;
        let [to_server, to_client] = keys;
        let keys = Keys::new(Aead::of(aead)?, &bytes(&to_server)?, &bytes(&to_client)?)?;
        let cookies = cookies.iter().map(|cookie| bytes(cookie)).collect::<Option<Vec<_>>>()?;
        let usable = !cookies.is_empty() && !addresses.is_empty();
        let protected = truechimer_nts::Session::new(keys, cookies);
        let place = Server { host, port, addresses };
        usable.then_some(Session { place, ca, since, provisional: false, protected })
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
    client: Reading,
    ca: Option<PathBuf>,
    dates: Dates,
    route: Route,
}

impl Exchange {
    /// Asks this server; blocks for some seconds at most, and for as long as the name service takes.
    pub(crate) fn with(self, host: &str, port: u16) -> Result<Found, String> {
        let choose = |addresses| self.route.choose(addresses);
        let connect = |to: &SocketAddr, within| self.route.connect(to, within);
        let (agreement, keys, peer) = client_of(&self.client, self.ca.as_deref())?
            .exchange(host, port, LIMIT, self.dates, (&choose, &connect))
            .map_err(|why| format!("NTS: {why}"))?;
        // RFC 8915 §4.1.8: where it names none.
        let ntp = agreement.port.unwrap_or(NTP_PORT);
        let addresses = match &agreement.server {
            None => vec![SocketAddr::new(peer.ip(), ntp)],
            Some(server) => look_up(server, ntp).map_err(|why| {
                format!("NTS: cannot look up {server}, the NTP server that it names: {why}")
            })?,
        };
        let place = Server { host: host.to_owned(), port, addresses };
        let protected = truechimer_nts::Session::new(keys, agreement.cookies);
        let provisional = matches!(self.dates, Dates::From(_));
        Ok(Session { place, ca: self.ca, since: unix_now(), provisional, protected }.found())
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
        let protected = truechimer_nts::Session::new(keys, cookies);
        Session { place, ca: None, since: unix_now(), provisional: false, protected }
    }

    fn nts(path: Option<PathBuf>) -> Nts {
        let (kept, unset_clock) = (Vec::new(), false);
        let client = Reading::default();
        let mut nts = Nts { client, kept, path, ca: None, unset_clock, least: 0 };
        nts.load();
        nts
    }

    #[test]
    fn keys_outlive_the_daemon_and_are_the_owner_s_alone() {
        let folder = std::env::temp_dir().join(format!("truechimer-nts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(NAME);
        let before = nts(Some(path.clone()));
        assert_eq!(before.save([].iter()), None);
        assert!(!path.exists(), "nothing to keep");
        let other = Session { ca: Some("/other".into()), ..session("c.example", 8) };
        assert!(!before.fits(&other), "other authorities");
        let early = Session { provisional: true, ..session("d.example", 8) };
        assert_eq!(before.save([early].iter()), None);
        assert!(!path.exists(), "a certificate that was never judged by its dates");
        let used = [session("a.example", 8), session("b.example", 0)];
        assert!(used.iter().all(|session| before.fits(session)));
        assert_eq!(before.save(used.iter()), None);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut after = nts(Some(path.clone()));
        assert!(!path.exists(), "no cookie is used twice");
        assert!(after.kept("a.example", 123).is_none());
        assert!(after.kept("b.example", 4460).is_none(), "no cookie");
        let found = after.kept("a.example", 4460).unwrap();
        assert_eq!(found.addresses, ["192.0.2.1:123".parse().unwrap()]);
        let Some(proof::Session::Nts(kept)) = found.session else { panic!("no keys") };
        let was = session("a.example", 8);
        assert_eq!(kept.protected.keys(), was.protected.keys());
        assert!(kept.protected.cookies().eq(was.protected.cookies()));
        assert!(after.kept("a.example", 4460).is_none(), "once");
        // What somebody else may have changed, or is damaged, is nothing.
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let other = text.replace("\"ca\": null", "\"ca\": \"/other\"");
        assert_ne!(text, other);
        for damaged in
            ["", "[", "[{}]", &other, &text.replacen("03", "0x", 1), &text.replacen("15", "16", 1)]
        {
            write(damaged, 0o600);
            assert!(nts(Some(path.clone())).kept("a.example", 4460).is_none(), "{damaged}");
        }
        let kept = |text: &str, mode| {
            write(text, mode);
            nts(Some(path.clone())).kept("a.example", 4460).is_some()
        };
        assert!(kept(&text, 0o600) && !kept(&text, 0o666));
        let since = format!("\"since\": {}", used[0].since);
        assert!(text.contains(&since), "{text}");
        let aged = |age: u64| text.replace(&since, &format!("\"since\": {}", unix_now() - age));
        assert!(kept(&aged(MAX_AGE - 60), 0o600) && !kept(&aged(MAX_AGE + 1), 0o600));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_request_is_protected_and_a_plain_reply_refused() {
        let mut session = session("a.example", 1);
        assert!(session.accept(&[0x24; HEADER]).unwrap_err().contains("nothing that was asked"));
        assert!(session.protect(&[0x23; HEADER]).unwrap().len() > HEADER);
        assert!(session.accept(&[0x24; HEADER]).is_err());
        assert!(session.protect(&[0x23; HEADER]).unwrap_err().contains("no cookie is left"));
        session.since -= MAX_AGE + 1;
        assert!(session.protect(&[0x23; HEADER]).unwrap_err().contains("four weeks old"));
        assert!(!session.is_old(0), "no clock is set");
    }
}
