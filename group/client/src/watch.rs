//! Asking an agent for its status, and operators' words to it, without taking part.

use std::time::{Duration, Instant};

use truechimer_group::{Member, Post, Unshifted};

use crate::Where;
use crate::link::{Address, As, Refused, Role, greet};
use crate::message::{News, ToAgent, limit_to_program};
use crate::packet::{Assembly, LONGEST};
use crate::replica::{AttachError, NextError, SendError};
use crate::sys;

/// One who looks on.
#[derive(Debug)]
pub struct Watcher {
    socket: std::os::fd::OwnedFd,
    assembly: Assembly,
}

impl Watcher {
    /// Connects to the group's agent on this node.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(at: &Where) -> Result<Watcher, AttachError> {
        let path = at.socket().map_err(AttachError::Place)?;
        let address = Address::of(&path).ok_or_else(|| AttachError::TooLong(path.clone()))?;
        let refused = |why| AttachError::Refused { path: path.clone(), why };
        let socket = sys::own(address.connect().map_err(refused)?);
        let as_ = As { role: Role::Watcher, ..As::default() };
        let (_, descriptors) = greet(std::os::fd::AsRawFd::as_raw_fd(&socket), as_)
            .map_err(|why| AttachError::Refused { path: path.clone(), why })?;
        if descriptors != [-1; 4] {
            descriptors.iter().filter(|number| **number >= 0).for_each(|n| sys::close(*n));
            return Err(AttachError::Refused { path, why: Refused::Malformed });
        }
        Ok(Watcher { socket, assembly: Assembly::new(limit_to_program, 0) })
    }

    /// The agent's status, JSON; none if it does not come within `patience`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn status(&mut self, patience: Duration) -> Result<Option<String>, NextError> {
        self.ask(&ToAgent::Status, patience, |news| match news {
            News::Status(text) => Some(text),
            _ => None,
        })
    }

    /// Puts a member to another place in the order of those that propose: what came of it; none if
    /// that does not come within `patience`. Only root and the agent's own user may.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn shift(
        &mut self,
        member: Member,
        to: Post,
        patience: Duration,
    ) -> Result<Option<Result<(), Unshifted>>, NextError> {
        self.ask(&ToAgent::Shift { member, to }, patience, |news| match news {
            News::Shifted(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// The answer that `pick` finds.
    fn ask<T>(
        &mut self,
        what: &ToAgent,
        patience: Duration,
        pick: impl Fn(News) -> Option<T>,
    ) -> Result<Option<T>, NextError> {
        let until = Instant::now().checked_add(patience);
        let socket = std::os::fd::AsRawFd::as_raw_fd(&self.socket);
        for packet in what.packets() {
            sys::send(socket, &packet, &[]).map_err(|_| NextError::Send(SendError::Gone(None)))?;
        }
        let mut packet = vec![0; LONGEST + 1];
        loop {
            let mut descriptors = [-1; 4];
            match sys::receive(socket, &mut packet, &mut descriptors) {
                Ok(received) => {
                    let sent = descriptors.iter().take(received.descriptors);
                    sent.for_each(|number| sys::close(*number));
                    let malformed =
                        |error: crate::packet::Malformed| NextError::Malformed(error.what);
                    let packet = match packet.get(..received.length) {
                        _ if received.length == 0 => return Err(NextError::Gone(None)),
                        Some(packet) if !received.cut => packet,
                        _ => return Err(NextError::Malformed("a packet that is too long")),
                    };
                    if let Some((kind, body)) = self.assembly.take(packet).map_err(malformed)?
                        && let Some(answer) = pick(News::of(kind, &body).map_err(malformed)?)
                    {
                        return Ok(Some(answer));
                    }
                }
                Err(libc::EAGAIN) => {
                    let left = until.map_or(Duration::MAX, |until| {
                        until.saturating_duration_since(Instant::now())
                    });
                    if left.is_zero() {
                        return Ok(None);
                    }
                    let ns = left.as_nanos().min(u128::from(u64::MAX)) as u64;
                    let _ = sys::poll(socket, libc::POLLIN, Some(ns));
                }
                Err(libc::EINTR) => {}
                Err(_) => return Err(NextError::Gone(None)),
            }
        }
    }
}
