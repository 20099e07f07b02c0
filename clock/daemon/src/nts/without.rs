//! A daemon that was built without Network Time Security: servers that are to prove who they are by it have no
//! keys, and so nothing is asked of them.

use std::path::Path;

use truechimer_keys::HEADER_LEN;

use crate::config::Settings;
use crate::resolve::{Found, Route};

const WITHOUT: &str = "this program was built without NTS";

/// Keys that nobody has.
#[derive(Debug)]
pub(crate) enum Session {}

impl Session {
    pub(crate) fn is_provisional(&self) -> bool {
        match *self {}
    }

    pub(crate) fn cookies(&self) -> usize {
        match *self {}
    }

    pub(crate) fn aead(&self) -> &'static str {
        match *self {}
    }

    pub(crate) fn told(&self) -> String {
        match *self {}
    }

    pub(crate) fn protect(&mut self, _: &[u8; HEADER_LEN]) -> Result<Vec<u8>, String> {
        match *self {}
    }

    pub(crate) fn accept(&mut self, _: &[u8]) -> Result<[u8; HEADER_LEN], String> {
        match *self {}
    }
}

/// Reason why no server can prove itself: nobody asks one to.
pub(crate) fn trouble(_: &Settings) -> Option<String> {
    None
}

/// An exchange that nobody makes.
#[derive(Debug)]
pub(crate) struct Exchange;

impl Exchange {
    pub(crate) fn with(self, _: &str, _: u16) -> Result<Found, String> {
        Err(WITHOUT.into())
    }
}

/// No server that proves who it is.
#[derive(Debug)]
pub(crate) struct Nts;

impl Nts {
    pub(crate) fn new(_: &Settings, _: Option<&Path>, _: u64) -> Nts {
        Nts
    }

    pub(crate) fn clock_is_set(&mut self, _: u64) {}

    pub(crate) fn configure(&mut self, _: &Settings) {}

    pub(crate) fn fits(&self, session: &Session) -> bool {
        match *session {}
    }

    pub(crate) fn kept(&mut self, _: &str, _: u16) -> Option<Found> {
        None
    }

    pub(crate) fn exchange(&self, _: Route, _: Option<u64>) -> Exchange {
        Exchange
    }

    pub(crate) fn keep_beside(&mut self, _: Option<&Path>) {}

    pub(crate) fn save<'a>(&self, _: impl Iterator<Item = &'a Session>) -> Option<String> {
        None
    }
}
