//! The client of an association: protects requests, checks replies, keeps the cookies.

use std::collections::VecDeque;

use truechimer_ntp::WAITING;

use crate::aead::{Keys, TAG};
use crate::field::{self, AUTHENTICATOR, COOKIE, Field, Fields, PLACEHOLDER, UNIQUE};
use crate::{HEADER, LONGEST, Refusal, Unprotected};

/// Cookies that are kept at most (RFC 8915 §5.7 recommends eight).
pub const COOKIES: usize = 8;
/// Longest cookie that is used, in bytes: a request with it and no placeholder is far below
/// [`LONGEST`].
const LONGEST_COOKIE: usize = 512;
/// Bytes of a unique identifier (§5.3: 32 at least).
const UNIQUE_LEN: usize = 32;

/// An association with a server under one pair of keys.
#[derive(Debug)]
pub struct Session {
    keys: Keys,
    /// The oldest first. None is used twice.
    cookies: VecDeque<Vec<u8>>,
    /// Unique identifiers of the requests that wait for their replies, the oldest first.
    waiting: VecDeque<[u8; UNIQUE_LEN]>,
    /// A word without proof said that the server does not know the cookies.
    nak: bool,
}

impl Session {
    /// Begins with what the key exchange gave. Of the cookies, those that can be used are kept.
    #[must_use]
    pub fn new(keys: Keys, cookies: Vec<Vec<u8>>) -> Session {
        let mut session =
            Session { keys, cookies: VecDeque::new(), waiting: VecDeque::new(), nak: false };
        cookies.into_iter().for_each(|cookie| session.keep(cookie));
        session
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The cookies that are left, the oldest first.
    pub fn cookies(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.cookies.iter().map(Vec::as_slice)
    }

    fn keep(&mut self, cookie: Vec<u8>) {
        if !cookie.is_empty() && cookie.len() <= LONGEST_COOKIE && self.cookies.len() < COOKIES {
            self.cookies.push_back(cookie);
        }
    }

    /// The request with this header, protected; of those before it the newest go on waiting, [`WAITING`]
    /// in all. It asks for as many
    /// cookies as are missing. `random` fills in bytes that nobody can guess.
    ///
    /// # Errors
    /// If a key exchange is needed first.
    pub fn protect(
        &mut self,
        header: &[u8; HEADER],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<u8>, Unprotected> {
        if self.nak {
            return Err(Unprotected::Nak);
        }
        let cookie = self.cookies.pop_front().ok_or(Unprotected::NoCookies)?;
        let mut unique = [0; UNIQUE_LEN];
        random(&mut unique);
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(unique);
        let mut packet = header.to_vec();
        field::push(&mut packet, UNIQUE, &unique);
        field::push(&mut packet, COOKIE, &cookie);
        // The reply brings one for the one that is spent.
        let missing = COOKIES - 1 - self.cookies.len().min(COOKIES - 1);
        let nonce_len = self.keys.aead.nonce_len();
        let room = LONGEST - packet.len() - field::padded(field::HEAD + nonce_len + TAG);
        let placeholder = vec![0; cookie.len()];
        for _ in 0..missing.min(room / field::padded(cookie.len())) {
            field::push(&mut packet, PLACEHOLDER, &placeholder);
        }
        let mut nonce = vec![0; nonce_len];
        random(&mut nonce);
        let sealed = self.keys.to_server.seal(&nonce, &packet, &[]);
        field::push(&mut packet, AUTHENTICATOR, &field::authenticator(&nonce, &sealed));
        Ok(packet)
    }

    /// Header of an authentic reply to a request that waits; nothing of the packet has been
    /// checked. Its cookies are kept.
    ///
    /// # Errors
    /// If it is not used. The requests go on waiting: anybody can send packets.
    pub fn accept(&mut self, packet: &[u8]) -> Result<[u8; HEADER], Refusal> {
        let header = packet.first_chunk::<HEADER>().ok_or(Refusal::Malformed)?;
        if self.waiting.is_empty() {
            return Err(Refusal::Unasked);
        }
        let mut asked = None;
        for field in Fields::of_packet(packet) {
            let Field { kind, body, start } = field.ok_or(Refusal::Malformed)?;
            match kind {
                UNIQUE => {
                    let own = self.waiting.iter().position(|unique| body == unique.as_slice());
                    asked = Some(own.ok_or(Refusal::NotOurs)?);
                }
                AUTHENTICATOR => {
                    let asked = asked.ok_or(Refusal::NotOurs)?;
                    let about = packet.get(..start).ok_or(Refusal::Malformed)?;
                    self.take_in(asked, about, body)?;
                    return Ok(*header);
                }
                // Nothing before the authenticator is for us, and nothing behind it is proven.
                _ => {}
            }
        }
        match (asked.is_some(), is_nak(header)) {
            (true, true) => {
                self.nak = true;
                Err(Refusal::Nak)
            }
            (true, false) => Err(Refusal::Unprotected),
            (false, _) => Err(Refusal::NotOurs),
        }
    }

    /// Takes in what is proven of a reply to the request of this place. Those before it wait no more.
    fn take_in(&mut self, asked: usize, about: &[u8], proof: &[u8]) -> Result<(), Refusal> {
        let (nonce, sealed) = field::sealed(proof).ok_or(Refusal::Malformed)?;
        let text = self.keys.to_client.open(nonce, about, sealed).ok_or(Refusal::Forged)?;
        self.waiting.drain(..=asked);
        self.nak = false;
        // Of the server's own making; the rest of what is malformed is passed over.
        for field in Fields::of_text(&text).map_while(|field| field) {
            if field.kind == COOKIE {
                self.keep(field.body.to_vec());
            }
        }
        Ok(())
    }
}

/// A kiss-o'-death (stratum 0) with the code `NTSN`.
fn is_nak(header: &[u8; HEADER]) -> bool {
    header.get(1) == Some(&0) && header.get(12..16) == Some(b"NTSN")
}
