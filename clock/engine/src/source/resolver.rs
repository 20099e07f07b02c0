//! Which address of a server is asked: the addresses that its name leads to, and the one in use.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::backoff::{Backoff, TO_LOOK_UP};

/// The addresses of one server.
#[derive(Debug)]
pub(super) struct Resolver {
    addresses: Vec<SocketAddr>,
    /// Which of them is in use.
    index: usize,
    /// The name was looked up since a server last served us.
    pub(super) looked_up: bool,
    /// Waits after look-ups that fail.
    pub(super) wait: Backoff,
    /// Reason why the last look-up failed.
    failure: Option<String>,
    /// A request could not be protected since a server served us, or a look-up succeeded.
    lacks_keys: bool,
}

impl Resolver {
    /// A name that is about to be looked up.
    pub(super) fn new() -> Resolver {
        Resolver {
            addresses: Vec::new(),
            index: 0,
            looked_up: true,
            wait: Backoff::new(TO_LOOK_UP),
            failure: None,
            lacks_keys: false,
        }
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The place of the address after the one in use.
    pub(super) fn next(&self) -> usize {
        self.index + 1
    }

    /// True if there is an address after the one in use.
    pub(super) fn has_next(&self) -> bool {
        self.next() < self.addresses.len()
    }

    /// Chooses the first address from this place on that is `open`, if there is one.
    pub(super) fn choose(
        &mut self,
        from: usize,
        open: impl Fn(SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        let mut addresses = self.addresses.iter().enumerate().skip(from);
        let (index, address) = addresses.find(|(_, address)| open(**address))?;
        self.index = index;
        Some(*address)
    }

    /// The look-up found these. Only a name whose addresses have all failed is looked up again:
    /// they begin anew.
    pub(super) fn found(&mut self, addresses: Vec<SocketAddr>) {
        (self.failure, self.lacks_keys) = (None, false);
        self.addresses = addresses;
    }

    /// A server of these addresses served us: the next look-up is another matter.
    pub(super) fn served(&mut self) {
        (self.looked_up, self.failure, self.lacks_keys) = (false, None, false);
        self.wait.reset();
    }

    /// Reason why the last look-up failed, if it did.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A request could not be protected.
    pub(super) fn unprotected(&mut self) {
        self.lacks_keys = true;
    }

    /// True if the last look-up failed, and nothing can be sent without what it was to bring: an address, or keys.
    pub(super) fn lacks_keys(&self) -> bool {
        self.failure.is_some() && (self.addresses.is_empty() || self.lacks_keys)
    }

    /// The look-up failed. Returns why, if that is new.
    pub(super) fn failed(&mut self, failure: String) -> Option<String> {
        self.wait.take();
        let new = self.failure.as_ref() != Some(&failure);
        self.failure = Some(failure);
        self.failure.clone().filter(|_| new)
    }
}
