//! Proof of who servers are, by Network Time Security or by symmetric keys.
//!
//! The engine knows nothing of keys: what it sends is protected here, what it hears has been proven
//! here, and neither its log nor its state holds a secret.

use std::path::{Path, PathBuf};

use truechimer_engine::{Authentication, Event, SourceId};
use truechimer_keys::{HEADER_LEN as HEADER, Key, Keys};

use crate::config::Settings;
use crate::nts::{self, Nts};
use crate::resolve::{Found, Route, look_up};

/// Keys that a server and this daemon share.
#[derive(Debug)]
pub(crate) enum Session {
    /// Of an exchange, with its cookies.
    #[cfg_attr(not(feature = "nts"), expect(dead_code, reason = "nobody exchanges any"))]
    Nts(Box<nts::Session>),
    /// Of the file of keys, as it was after the configuration had been read again so many times.
    Key(Key, u32),
}

/// Work to get the keys of a server, for a thread of its own.
pub(crate) enum Exchange {
    Nts(nts::Exchange),
    /// The number of a key in this file, and how many times the configuration has been read again.
    Key(PathBuf, u32, u32),
}

/// Preparation of a look-up.
pub(crate) enum Prepared {
    /// All is known.
    Known(Box<Found>),
    /// A name is to be looked up, and keys are to be had if there is an exchange.
    Ask(Option<Exchange>),
}

/// Keys of all servers that prove who they are.
#[derive(Debug)]
pub(crate) struct Proofs {
    nts: Nts,
    /// File of symmetric keys.
    key_file: Option<PathBuf>,
    /// Times that the configuration was read again.
    configured: u32,
    /// Sources that nothing is sent to, or taken from, without proof.
    expected: Vec<SourceId>,
    sessions: Vec<(SourceId, Session)>,
}

impl Proofs {
    /// Begins with what the daemon before has kept beside its state. It is `least` or later, Unix time in s.
    pub(crate) fn new(settings: &Settings, state: Option<&Path>, least: u64) -> Proofs {
        Proofs {
            nts: Nts::new(settings, state, least),
            key_file: settings.key_file.clone(),
            configured: 0,
            expected: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// Keeps keys beside this state from now on.
    pub(crate) fn keep_beside(&mut self, state: Option<&Path>) {
        self.nts.keep_beside(state);
    }

    /// Takes over a configuration that was read again. Keys that were had by other authorities are of no use, and those
    /// of the file are what stands there now.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.nts.configure(settings);
        self.key_file.clone_from(&settings.key_file);
        self.configured = self.configured.wrapping_add(1);
        let keys = self.key_file.as_deref().and_then(|file| Keys::read(file).ok());
        let keys = keys.unwrap_or_default();
        let nts = &self.nts;
        self.sessions.retain_mut(|(_, session)| match session {
            Session::Nts(session) => nts.fits(session),
            // Where it is gone, the look-up that follows says why.
            Session::Key(key, _) => match keys.get(key.number()) {
                Some(new) => {
                    key.clone_from(new);
                    true
                }
                None => false,
            },
        });
    }

    /// Prepares a look-up of the source's server. From now on the source is sent nothing, and nothing of it is used,
    /// without this proof. Keys of an exchange are fetched by `route`. `now` is the Unix time in s, if the clock knows it.
    ///
    /// # Errors
    /// Why there can be no keys.
    pub(crate) fn prepare(
        &mut self,
        source: SourceId,
        (host, port): (&str, u16),
        authentication: Authentication,
        route: Route,
        now: Option<u64>,
    ) -> Result<Prepared, String> {
        if authentication.is_none() {
            self.close(source);
            return Ok(Prepared::Ask(None));
        }
        if !self.expected.contains(&source) {
            self.expected.push(source);
        }
        Ok(match authentication {
            Authentication::None => Prepared::Ask(None),
            Authentication::Key(number) => {
                let file = self.key_file.clone().ok_or("no `key-file` is configured")?;
                Prepared::Ask(Some(Exchange::Key(file, number, self.configured)))
            }
            Authentication::Nts => match self.nts.kept(host, port) {
                Some(kept) => Prepared::Known(Box::new(kept)),
                None => Prepared::Ask(Some(Exchange::Nts(self.nts.exchange(route, now)))),
            },
        })
    }

    /// The clock knows the time, Unix time in s: keys that were had while it did not are dropped, so that others are fetched from servers
    /// whose certificates are judged by that. Returns whether there were any.
    pub(crate) fn clock_is_set(&mut self, now: u64) -> bool {
        self.nts.clock_is_set(now);
        let before = self.sessions.len();
        self.sessions.retain(|(_, session)| match session {
            Session::Nts(session) => !session.is_provisional(),
            Session::Key(..) => true,
        });
        self.sessions.len() < before
    }

    /// The source is gone, or needs no proof any more.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.expected.retain(|expected| *expected != source);
        self.sessions.retain(|(of, _)| *of != source);
    }

    /// Uses these keys for the source from now on, unless it is gone meanwhile, or other authorities count. Returns whether it does.
    pub(crate) fn begin(&mut self, source: SourceId, session: Session) -> bool {
        let fits = match &session {
            Session::Nts(session) => self.nts.fits(session),
            // A file that was read before the configuration was is out of date.
            Session::Key(_, configured) => *configured == self.configured,
        };
        let begins = self.expected.contains(&source) && fits;
        if begins {
            self.sessions.retain(|(of, _)| *of != source);
            self.sessions.push((source, session));
        }
        begins
    }

    fn session(&mut self, source: SourceId) -> Option<&mut Session> {
        let of = |(of, _): &&mut (SourceId, Session)| *of == source;
        self.sessions.iter_mut().find(of).map(|(_, session)| session)
    }

    /// Cookies that are left for requests to this source, if an exchange gave any, and the algorithm that was agreed on.
    pub(crate) fn cookies(&self, source: SourceId) -> Option<(usize, String)> {
        self.sessions.iter().find_map(|(of, session)| match session {
            Session::Nts(session) if *of == source => {
                Some((session.cookies(), session.aead().to_string()))
            }
            _ => None,
        })
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
        match self.session(source) {
            Some(Session::Nts(session)) => session.protect(header),
            Some(Session::Key(key, _)) => Ok(key.protect(header)),
            None => Err("no keys yet".into()),
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
            Some(Session::Nts(session)) => session.accept(packet),
            Some(Session::Key(key, _)) => key.accept(packet).map_err(|why| why.to_string()),
            None => Err("a reply before there are keys".into()),
        };
        match accepted {
            Ok(header) => *packet = header.to_vec(),
            Err(error) => *event = Event::Unauthentic { source, error },
        }
    }

    /// Keeps keys of exchanges for the next daemon, where nobody else reads them; none is used here any more. Returns
    /// why they cannot be.
    pub(crate) fn save(&self) -> Option<String> {
        self.nts.save(self.sessions.iter().filter_map(|(_, session)| match session {
            Session::Nts(session) => Some(session.as_ref()),
            Session::Key(..) => None,
        }))
    }
}

impl Exchange {
    /// Gets keys and addresses of this server; blocks for some seconds at most, and for as long as the name service
    /// takes.
    pub(crate) fn with(self, host: &str, port: u16) -> Result<Found, String> {
        match self {
            Exchange::Nts(exchange) => exchange.with(host, port),
            Exchange::Key(file, number, configured) => {
                let session = Some(Session::Key(key(&file, number)?, configured));
                let addresses = look_up(host, port);
                let addresses = addresses.map_err(|why| format!("cannot look it up: {why}"))?;
                Ok(Found { addresses, session })
            }
        }
    }
}

/// A key of a file, or why there is none, in one line.
pub(crate) fn key(file: &Path, number: u32) -> Result<Key, String> {
    let keys = Keys::read(file).map_err(|why| why.to_string().replace('\n', "; "))?;
    keys.get(number).cloned().ok_or_else(|| match keys.unused(number) {
        Some(why) => why.to_string(),
        None => {
            let file = file.display();
            format!("{file}: has no key {number}: add the line of it, the same as the server's")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; HEADER] = [0x23; HEADER];

    fn reply(source: SourceId, packet: Vec<u8>) -> Event {
        use truechimer_time::{Count, CountSpan, Stamp, StampMethod};
        let stamp = Stamp { count: Count(1), error: CountSpan(1), method: StampMethod::Kernel };
        let from = "192.0.2.1:123".parse().unwrap();
        Event::Reply { source, from, sent: stamp, received: stamp, packet }
    }

    fn is_refused(proofs: &mut Proofs, of: SourceId, packet: &[u8], why: &str) {
        let mut event = reply(of, packet.to_vec());
        proofs.check(&mut event);
        let Event::Unauthentic { source, error } = event else { panic!("{event:?}") };
        assert!(source == of && error.contains(why), "{error}");
    }

    #[test]
    fn nothing_leaves_or_comes_in_without_proof() {
        let file = std::env::temp_dir().join(format!("truechimer-proof-{}", std::process::id()));
        let settings = Settings { key_file: Some(file.clone()), ..Settings::default() };
        let mut proofs = Proofs::new(&settings, None, 0);
        let (plain, proven) = (SourceId(1), SourceId(2));
        let place = ("192.0.2.1", 123);
        let authentication = Authentication::Key(5);
        let prepared = proofs.prepare(proven, place, authentication, Route::default(), None);
        let Ok(Prepared::Ask(Some(exchange))) = prepared else { panic!("a key is to be read") };
        assert_eq!(proofs.protect(plain, &HEAD), Ok(HEAD.to_vec()));
        assert!(proofs.protect(proven, &HEAD).unwrap_err().contains("no keys yet"));
        let mut of_plain = reply(plain, HEAD.to_vec());
        proofs.check(&mut of_plain);
        assert_eq!(of_plain, reply(plain, HEAD.to_vec()));
        is_refused(&mut proofs, proven, &HEAD, "before there are keys");

        let said = exchange.with(place.0, place.1).unwrap_err();
        assert!(said.contains("No such file"), "{said}");
        let write = |text: &str| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let found = || Exchange::Key(file.clone(), 5, 0).with(place.0, place.1);
        write("5\n6 MD5 x");
        assert_eq!(found().unwrap_err().lines().count(), 1);
        write("6 AES128 ASCII:0123456789abcdef");
        assert!(found().unwrap_err().contains("has no key 5"));
        write("5 MD5 x\n6 AES128 ASCII:0123456789abcdef");
        assert!(found().unwrap_err().contains("MD5 is not used here"));
        write("5 AES128 ASCII:0123456789abcdef");
        let Found { addresses, session } = found().unwrap();
        assert_eq!(addresses, ["192.0.2.1:123".parse().unwrap()]);
        assert!(proofs.begin(proven, session.unwrap()));

        let request = proofs.protect(proven, &HEAD).unwrap();
        let (other, own) = (key(&file, 5).unwrap(), request.clone());
        assert_eq!(other.accept(&request), Ok(HEAD));
        is_refused(&mut proofs, proven, &HEAD, "without proof");
        is_refused(&mut proofs, proven, &[&HEAD[..], &[0; 4]].concat(), "crypto-NAK");
        is_refused(&mut proofs, proven, &[&own[..47], &own[48..]].concat(), "without proof");
        let mut authentic = reply(proven, own);
        proofs.check(&mut authentic);
        assert_eq!(authentic, reply(proven, HEAD.to_vec()));

        // The file is read again with the configuration.
        write("5 AES128 ASCII:0123456789ABCDEF");
        proofs.configure(&settings);
        let changed = proofs.protect(proven, &HEAD).unwrap();
        assert!(changed != request && key(&file, 5).unwrap().accept(&changed) == Ok(HEAD));
        write("6 AES128 ASCII:0123456789ABCDEF");
        proofs.configure(&settings);
        assert!(proofs.protect(proven, &HEAD).unwrap_err().contains("no keys yet"));
        // An answer that was under way meanwhile has the key of before.
        assert!(!proofs.begin(proven, Session::Key(other.clone(), 0)));
        assert!(proofs.protect(proven, &HEAD).unwrap_err().contains("no keys yet"));
        proofs.close(proven);
        assert_eq!(proofs.protect(proven, &HEAD), Ok(HEAD.to_vec()));
        assert!(!proofs.begin(proven, Session::Key(other, 2)));
        assert_eq!(proofs.protect(proven, &HEAD), Ok(HEAD.to_vec()), "it is gone");
        std::fs::remove_file(&file).unwrap();
    }
}
