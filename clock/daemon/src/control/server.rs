//! The daemon's side: it never waits for a client, and no client costs it much.

#[cfg(any(test, fuzzing))]
pub mod check;

use std::cmp::Reverse;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use serde::Serialize;
use truechimer_files::Bound;
use truechimer_time::Count;

use super::budget::Budget;
use super::{Accepted, Answer, Changed, MAX_REQUEST, Refused, Reloaded, Request, Version};
use crate::changes::Change;
use crate::sys::{self, POLLIN, POLLOUT, pollfd};

/// Clients at a time, of all users but the daemon's own and root; one more, and another has to go.
const MAX_CLIENTS: usize = 16;
/// Clients at a time of one user, and of the daemon's own or root.
const MAX_OF_USER: usize = 4;
const MAX_OF_OWNER: usize = 8;
/// Connections that are taken between two calls of [`Server::resume`], most of them only to be
/// refused: who waits behind them is not known before.
const MAX_ACCEPTED: u32 = 4096;
/// Connections taken at a time: what else the daemon does comes in between.
const ACCEPTED_AT_ONCE: u32 = 32;
/// Permission to connect: everybody has it; each request is judged by itself.
const MODE: u32 = 0o666;

/// Someone who knows the answers.
pub(crate) trait Handler {
    /// All that the daemon knows.
    fn report(&mut self) -> Answer;
    /// Reads the configuration again, or says what is wrong with it.
    fn reload(&mut self) -> Result<Reloaded, String>;
    /// Believes this source now, or the one that is held off; or says why not.
    fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String>;
    /// Changes the sources, or says why not.
    fn change(&mut self, change: Change, source: Option<&str>) -> Result<Changed, String>;
}

/// The listening socket and its clients.
#[derive(Debug)]
pub(crate) struct Server {
    /// Removes the socket's name in the end.
    _name: Bound,
    listener: UnixListener,
    clients: Vec<Client>,
    budget: Budget,
    /// No more connections until [`Server::resume`]: accepting failed.
    paused: bool,
    /// Number of connections that may still be taken until then.
    left: u32,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    user: u32,
    may_change: bool,
    /// Bytes read and not answered yet.
    input: Vec<u8>,
    /// The rest of an answer. Nothing more is read before it is gone.
    output: Vec<u8>,
    /// When it last made progress.
    active: Count,
}

impl Server {
    /// Listens at `path`. A socket that a dead daemon left there is replaced, one that is alive is
    /// not, and neither is anything else.
    pub(crate) fn bind(path: &Path) -> io::Result<Server> {
        let (listener, name) = truechimer_files::listen(path, MODE)?;
        Ok(Server {
            _name: name,
            listener,
            clients: Vec::new(),
            budget: Budget::new(sys::uid()),
            paused: false,
            left: MAX_ACCEPTED,
        })
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        if !self.paused && self.left > 0 {
            fds.push(pollfd { fd: self.listener.as_raw_fd(), events: POLLIN, revents: 0 });
        }
        fds.extend(self.clients.iter().filter_map(|client| {
            let events = match client.output.is_empty() {
                true if self.budget.allows(client.user) => POLLIN,
                // It has to wait for its own budget, in silence.
                true => return None,
                false => POLLOUT,
            };
            Some(pollfd { fd: client.stream.as_raw_fd(), events, revents: 0 })
        }));
    }

    /// Does what can be done without waiting. `ready` tells which descriptors poll(2) reported.
    pub(crate) fn serve(
        &mut self,
        ready: impl Fn(RawFd) -> bool,
        now: Count,
        handler: &mut dyn Handler,
    ) {
        let Server { clients, budget, .. } = self;
        clients.sort_by_key(|client| budget.rank(client.user));
        clients.retain_mut(|client| {
            // What came while the budget was used up is not reported again.
            let waits = client.has_request() && budget.allows(client.user);
            let ready = waits || ready(client.stream.as_raw_fd());
            !ready || client.serve(now, budget, handler).is_ok()
        });
        if ready(self.listener.as_raw_fd()) {
            self.accept(now);
        }
    }

    /// Accepts connections again after a failure such as too many open files, or after too many,
    /// and lets everybody ask for more. To be called once a second or so.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.left = MAX_ACCEPTED;
        self.budget.refill();
    }

    fn accept(&mut self, now: Count) {
        for _ in 0..ACCEPTED_AT_ONCE.min(self.left) {
            self.left -= 1;
            match self.listener.accept() {
                Ok((stream, _)) => self.take(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_temporary(&error) => {}
                Err(_) => {
                    self.paused = true;
                    return;
                }
            }
        }
    }

    /// Takes a new client, if its user is not too fast.
    fn take(&mut self, stream: UnixStream, now: Count) {
        let Ok(user) = sys::peer_uid(&stream) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if !self.budget.spend(user) {
            // Whether it hears that or not.
            let said = refuse("too many requests of this user, or of all: try again later".into());
            let _ = said.and_then(|line| (&stream).write(&line));
            return;
        }
        self.make_room(user, now);
        let may_change = self.budget.is_owner(user);
        let (input, output) = (Vec::new(), Vec::new());
        self.clients.push(Client { stream, user, may_change, input, output, active: now });
    }

    /// Hangs up on somebody if there are too many: of the same user, or else of the one that has
    /// the most, on whoever was quiet longest.
    fn make_room(&mut self, user: u32, now: Count) {
        let of = |user: u32| self.clients.iter().filter(|c| c.user == user).count();
        let is_owner = |client: &Client| self.budget.is_owner(client.user);
        let most = if self.budget.is_owner(user) { MAX_OF_OWNER } else { MAX_OF_USER };
        let leaves: Option<u32> = if of(user) >= most {
            Some(user)
        } else if self.budget.is_owner(user)
            || self.clients.iter().filter(|client| !is_owner(client)).count() < MAX_CLIENTS
        {
            None
        } else {
            let others = self.clients.iter().filter(|client| !is_owner(client));
            others.max_by_key(|c| (of(c.user), Reverse((c.active - now).0))).map(|c| c.user)
        };
        let quiet = self.clients.iter().enumerate().filter(|(_, c)| Some(c.user) == leaves);
        if let Some((index, _)) = quiet.min_by_key(|(_, c)| (c.active - now).0) {
            self.clients.swap_remove(index);
        }
    }
}

impl Client {
    /// True if a whole request waits.
    fn has_request(&self) -> bool {
        self.output.is_empty() && self.input.contains(&b'\n')
    }

    /// Moves on as far as it goes without waiting; an error ends the connection.
    fn serve(
        &mut self,
        now: Count,
        budget: &mut Budget,
        handler: &mut dyn Handler,
    ) -> io::Result<()> {
        if self.output.is_empty() && !self.has_request() {
            self.read()?;
        }
        self.write(now)?;
        while self.output.is_empty()
            && let Some(end) = self.input.iter().position(|b| *b == b'\n')
            && budget.spend(self.user)
        {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.output = self.answer(&line, handler)?;
            self.active = now;
            self.write(now)?;
        }
        if self.output.is_empty() && !self.has_request() && self.input.len() >= MAX_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; MAX_REQUEST];
        let room = MAX_REQUEST.saturating_sub(self.input.len());
        let Some(buffer) = buffer.get_mut(..room).filter(|b| !b.is_empty()) else { return Ok(()) };
        match self.stream.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.input.extend(buffer.iter().take(n));
                Ok(())
            }
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, now: Count) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => {
                    self.output.drain(..n);
                    self.active = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(&self, line: &[u8], handler: &mut dyn Handler) -> io::Result<Vec<u8>> {
        let (verb, source) = match serde_json::from_slice(line) {
            Ok(Request { verb, source }) => (verb, source),
            Err(error) => return refuse(format!("not a request: {error}")),
        };
        match verb.as_str() {
            "report" => json_line(&handler.report()),
            "version" => json_line(&Version { version: crate::VERSION.into() }),
            "reload" if self.may_change => match handler.reload() {
                Ok(reloaded) => json_line(&reloaded),
                Err(why) => refuse(why),
            },
            "reload" => refuse("only root and the daemon's own user may reload it".into()),
            "accept" if self.may_change => match handler.accept(source.as_deref()) {
                Ok(accepted) => json_line(&accepted),
                Err(why) => refuse(why),
            },
            "accept" => {
                refuse("only root and the daemon's own user may say whom to believe".into())
            }
            verb => match Change::named(verb) {
                Some(change) if self.may_change => {
                    match handler.change(change, source.as_deref()) {
                        Ok(changed) => json_line(&changed),
                        Err(why) => refuse(why),
                    }
                }
                Some(_) => {
                    refuse("only root and the daemon's own user may change its sources".into())
                }
                None => refuse(
                    "unknown verb: known are report, version, reload, accept, add, delete, offline, \
                     online"
                        .into(),
                ),
            },
        }
    }
}

fn refuse(error: String) -> io::Result<Vec<u8>> {
    json_line(&Refused { error })
}

fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests;
