//! The client of an association: protects requests, checks replies, keeps the cookies.

use std::collections::VecDeque;

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
    /// The unique identifier of the request that waits for its reply.
    waiting: Option<[u8; UNIQUE_LEN]>,
    /// A word without proof said that the server does not know the cookies.
    nak: bool,
}

impl Session {
    /// Begins with what the key exchange gave. Of the cookies, those that can be used are kept.
    #[must_use]
    pub fn new(keys: Keys, cookies: Vec<Vec<u8>>) -> Session {
        let mut session = Session { keys, cookies: VecDeque::new(), waiting: None, nak: false };
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

    /// The request with this header, protected; the one before waits no more. It asks for as many
    /// cookies as are missing. `random` fills in bytes that nobody can guess.
    ///
    /// # Errors
    /// If a key exchange is needed first.
    pub fn protect(
        &mut self,
        header: &[u8; HEADER],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<u8>, Unprotected> {
        self.waiting = None;
        if self.nak {
            return Err(Unprotected::Nak);
        }
        let cookie = self.cookies.pop_front().ok_or(Unprotected::NoCookies)?;
        let mut unique = [0; UNIQUE_LEN];
        random(&mut unique);
        self.waiting = Some(unique);
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

    /// Header of an authentic reply to the request that waits; nothing of the packet has been
    /// checked. Its cookies are kept.
    ///
    /// # Errors
    /// Why it is not used. The request goes on waiting: anybody can send packets.
    pub fn accept(&mut self, packet: &[u8]) -> Result<[u8; HEADER], Refusal> {
        let header = packet.first_chunk::<HEADER>().ok_or(Refusal::Malformed)?;
        let waiting = self.waiting.ok_or(Refusal::Unasked)?;
        let mut unique = false;
        for field in Fields::of_packet(packet) {
            let Field { kind, body, start } = field.ok_or(Refusal::Malformed)?;
            match kind {
                UNIQUE if body == waiting => unique = true,
                UNIQUE => return Err(Refusal::NotOurs),
                AUTHENTICATOR if unique => {
                    let about = packet.get(..start).ok_or(Refusal::Malformed)?;
                    self.take_in(about, body)?;
                    return Ok(*header);
                }
                AUTHENTICATOR => return Err(Refusal::NotOurs),
                // Nothing before the authenticator is for us, and nothing behind it is proven.
                _ => {}
            }
        }
        match (unique, is_nak(header)) {
            (true, true) => {
                self.nak = true;
                Err(Refusal::Nak)
            }
            (true, false) => Err(Refusal::Unprotected),
            (false, _) => Err(Refusal::NotOurs),
        }
    }

    fn take_in(&mut self, about: &[u8], authenticator: &[u8]) -> Result<(), Refusal> {
        let (nonce, sealed) = field::sealed(authenticator).ok_or(Refusal::Malformed)?;
        let text = self.keys.to_client.open(nonce, about, sealed).ok_or(Refusal::Forged)?;
        (self.waiting, self.nak) = (None, false);
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
