//! The server of an association, which keeps nothing of its clients: a cookie holds their keys,
//! encrypted for nobody but the server (RFC 8915 §6).

use crate::aead::{Aead, Key, Keys};
use crate::field::{self, AUTHENTICATOR, COOKIE, Field, Fields, PLACEHOLDER, UNIQUE};
use crate::session::COOKIES;
use crate::{HEADER, Refusal};

/// Bytes of a key's number, of the algorithm's number with two zeros, and of a nonce.
const NUMBER: usize = 4;
const ALGORITHM: usize = 4;
/// Keys that open cookies: the one that makes them, and those before it.
const KEPT: usize = 3;
/// The algorithm of cookies: one nonce that comes twice shows nothing but that two are alike.
const OWN: Aead = Aead::SivCmac256;
/// Longest unique identifier that is sent back, in bytes.
const LONGEST_UNIQUE: usize = 256;

/// The keys that cookies are made with.
pub struct Cookies {
    /// The newest first, each with its number.
    keys: Vec<([u8; NUMBER], Key)>,
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cookies").field("keys", &self.keys.len()).finish()
    }
}

/// A request that was protected with keys of ours.
#[derive(Debug)]
pub struct Opened {
    keys: Keys,
    unique: Vec<u8>,
    wanted: usize,
}

/// A request that is not answered as it asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closed {
    /// Reason for that.
    pub refusal: Refusal,
    /// Unique identifier to be sent back with the kiss code `NTSN`; `None` if nothing is to be sent.
    pub nak: Option<Vec<u8>>,
}

impl Cookies {
    /// Begins with a fresh key. `random` fills in bytes that nobody can guess.
    #[must_use]
    pub fn new(random: &mut dyn FnMut(&mut [u8])) -> Cookies {
        let mut cookies = Cookies { keys: Vec::new() };
        cookies.rotate(random);
        cookies
    }

    /// Begins with the keys that [`Cookies::bytes`] gave; `None` if that is not what they are.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Cookies> {
        let each = NUMBER + OWN.key_len();
        let keys: Vec<_> = bytes
            .chunks(each)
            .map_while(|one| {
                let (number, key) = one.split_first_chunk::<NUMBER>()?;
                Some((*number, Key::new(OWN, key)?))
            })
            .collect();
        let whole = bytes.len() == keys.len() * each && (1..=KEPT).contains(&keys.len());
        whole.then_some(Cookies { keys })
    }

    /// The keys, the newest first: to be kept where nobody else reads them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.keys
            .iter()
            .flat_map(|(number, key)| number.iter().chain(key.bytes.iter()))
            .copied()
            .collect()
    }

    /// Makes cookies with another key from now on. Those of the two before are still opened.
    pub fn rotate(&mut self, random: &mut dyn FnMut(&mut [u8])) {
        let mut bytes = vec![0; NUMBER + OWN.key_len()];
        random(&mut bytes);
        if let Some((number, key)) = bytes.split_first_chunk::<NUMBER>()
            && let Some(key) = Key::new(OWN, key)
        {
            self.keys.insert(0, (*number, key));
            self.keys.truncate(KEPT);
        }
    }

    /// A cookie that holds these keys.
    #[must_use]
    pub fn bake(&self, keys: &Keys, random: &mut dyn FnMut(&mut [u8])) -> Vec<u8> {
        let Some((number, key)) = self.keys.first() else { return Vec::new() };
        let mut nonce = vec![0; OWN.nonce_len()];
        random(&mut nonce);
        let mut text = Vec::with_capacity(ALGORITHM + 2 * keys.aead.key_len());
        text.extend_from_slice(&keys.aead.number().to_be_bytes());
        text.resize(ALGORITHM, 0);
        keys.bytes().iter().for_each(|key| text.extend_from_slice(key));
        let mut cookie = number.to_vec();
        cookie.extend_from_slice(&nonce);
        cookie.extend(key.seal(&nonce, number, &text));
        cookie
    }

    /// The keys in a cookie, if it is one of ours.
    fn eat(&self, cookie: &[u8]) -> Option<Keys> {
        let (number, rest) = cookie.split_first_chunk::<NUMBER>()?;
        let (nonce, sealed) = rest.split_at_checked(OWN.nonce_len())?;
        let (_, key) = self.keys.iter().find(|(own, _)| own == number)?;
        let text = key.open(nonce, number, sealed)?;
        let aead = Aead::of(field::two(&text, 0)?)?;
        let (to_server, to_client) = text.get(ALGORITHM..)?.split_at_checked(aead.key_len())?;
        Keys::new(aead, to_server, to_client)
    }

    /// Checks a request, of which nothing has been checked.
    ///
    /// # Errors
    /// Why it is not answered, and whether its client should be told that its cookie is unknown.
    pub fn open(&self, request: &[u8]) -> Result<Opened, Closed> {
        let closed = |refusal| Closed { refusal, nak: None };
        let (mut unique, mut cookie, mut wanted) = (None, None, 0usize);
        for field in Fields::of_packet(request) {
            let Some(Field { kind, body, start }) = field else {
                return Err(closed(Refusal::Malformed));
            };
            match kind {
                // One that is there twice is nobody's in particular.
                UNIQUE if unique.is_some() => return Err(closed(Refusal::Malformed)),
                UNIQUE if (32..=LONGEST_UNIQUE).contains(&body.len()) => unique = Some(body),
                UNIQUE => return Err(closed(Refusal::Malformed)),
                COOKIE if cookie.is_some() => return Err(closed(Refusal::Malformed)),
                COOKIE => cookie = Some(body),
                // One that is shorter than a cookie would make the reply longer than the request.
                PLACEHOLDER if cookie.is_some_and(|cookie| body.len() >= cookie.len()) => {
                    wanted = wanted.saturating_add(1);
                }
                AUTHENTICATOR => {
                    let unique = unique.ok_or(closed(Refusal::NotOurs))?;
                    let cookie = cookie.ok_or(closed(Refusal::NoCookie))?;
                    let nak = |refusal| Closed { refusal, nak: Some(unique.to_vec()) };
                    let keys = self.eat(cookie).ok_or_else(|| nak(Refusal::NoCookie))?;
                    let about = request.get(..start).ok_or(closed(Refusal::Malformed))?;
                    let (nonce, sealed) = field::sealed(body).ok_or(closed(Refusal::Malformed))?;
                    let proven = keys.to_server.open(nonce, about, sealed);
                    proven.ok_or_else(|| nak(Refusal::Forged))?;
                    let wanted = (wanted + 1).min(COOKIES);
                    return Ok(Opened { keys, unique: unique.to_vec(), wanted });
                }
                _ => {}
            }
        }
        Err(closed(Refusal::Unprotected))
    }

    /// The reply with this header to a request that was opened, with as many cookies as it asked
    /// for. It is never longer than the request.
    #[must_use]
    pub fn protect(
        &self,
        header: &[u8; HEADER],
        to: &Opened,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..to.wanted {
            field::push(&mut text, COOKIE, &self.bake(&to.keys, random));
        }
        let mut packet = header.to_vec();
        field::push(&mut packet, UNIQUE, &to.unique);
        let mut nonce = vec![0; to.keys.aead.nonce_len()];
        random(&mut nonce);
        let sealed = to.keys.to_client.seal(&nonce, &packet, &text);
        field::push(&mut packet, AUTHENTICATOR, &field::authenticator(&nonce, &sealed));
        packet
    }
}

/// The packet that says that a cookie is unknown: a header with the kiss code `NTSN`, and the
/// request's unique identifier.
#[must_use]
pub fn nak(header: &[u8; HEADER], unique: &[u8]) -> Vec<u8> {
    let mut packet = header.to_vec();
    field::push(&mut packet, UNIQUE, unique);
    packet
}
