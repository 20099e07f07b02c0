//! A daemon that was built without Network Time Security: servers that are to prove who they are have no
//! keys, and so nothing is asked of them.

use std::path::Path;

use truechimer_engine::{Event, SourceId};

use crate::config::Settings;
use crate::resolve::Found;

const WITHOUT: &str = "this program was built without NTS";

/// Keys that nobody has.
#[derive(Debug)]
pub(crate) enum Session {}

/// An exchange that nobody makes.
#[derive(Debug)]
pub(crate) enum Exchange {}

impl Exchange {
    pub(crate) fn with(self, _: &str, _: u16) -> Result<Found, String> {
        match self {}
    }
}

/// No server that proves who it is.
#[derive(Debug)]
pub(crate) struct Nts;

impl Nts {
    pub(crate) fn new(_: &Settings, _: Option<&Path>) -> Nts {
        Nts
    }

    pub(crate) fn configure(&mut self, _: &Settings) {}

    pub(crate) fn expect(&mut self, _: SourceId) {}

    pub(crate) fn close(&mut self, _: SourceId) {}

    pub(crate) fn kept(&mut self, _: &str, _: u16) -> Option<Found> {
        None
    }

    pub(crate) fn exchange(&self) -> Result<Exchange, String> {
        Err(WITHOUT.into())
    }

    pub(crate) fn begin(&mut self, _: SourceId, session: Session) {
        match session {}
    }

    pub(crate) fn protect(&mut self, _: SourceId, header: &[u8; 48]) -> Result<Vec<u8>, String> {
        // A source that has no keys has no address either, and is never sent anything.
        Ok(header.to_vec())
    }

    pub(crate) fn check(&mut self, _: &mut Event) {}

    pub(crate) fn keep_beside(&mut self, _: Option<&Path>) {}

    pub(crate) fn save(&self) -> Option<String> {
        None
    }
}
