//! A server that was built without Network Time Security, and proves nothing to anybody.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use truechimer_ntp::{HEADER_LEN, Timestamp};

use crate::access::Access;
use crate::proof::{NtsSettings, Protected};
use crate::tally::Tally;

/// Keys and certificate of a server that proves who it is, which nobody has here.
#[derive(Debug)]
pub enum Nts {}

/// Proof that nobody has asked for.
#[derive(Debug)]
pub(crate) enum Opened {}

impl Nts {
    /// Says that there is none.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &NtsSettings) -> Result<Nts, String> {
        Err("this program was built without NTS".into())
    }

    pub(crate) fn renew(&self) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn news(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn look(&self, _: &[u8], _: Timestamp) -> Protected {
        match *self {}
    }

    pub(crate) fn protect(&self, _: &[u8; HEADER_LEN], _: &Opened) -> Vec<u8> {
        match *self {}
    }

    pub(crate) fn bind(
        &self,
        _: &[SocketAddr],
    ) -> Result<Vec<(TcpListener, u16)>, (SocketAddr, io::Error)> {
        match *self {}
    }

    pub(crate) fn run(
        self: &Arc<Nts>,
        _: &[(TcpListener, u16)],
        _: &Access,
        _: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        match **self {}
    }

    pub(crate) fn add_to(&self, _: &mut Tally) {
        match *self {}
    }
}
