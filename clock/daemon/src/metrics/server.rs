//! The sockets: no client is waited for, and none costs much.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};
use truechimer_files::Bound;

use super::request::{Asked, Form, asked, found, refused};
use super::{Listen, Snapshot, text};
use crate::control;
use crate::sys::{POLLIN, POLLOUT, pollfd};

/// Clients at a time; one more, and the one that has been there longest has to go.
const MAX_CLIENTS: usize = 16;
/// How long a client may take, from its connection to the end of the answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Connections, pieces of requests and pieces of answers between two calls of [`Server::resume`].
const MAX_STEPS: u32 = 4096;
/// Connections that are taken at a time: what else the daemon does comes in between.
const ACCEPTED_AT_ONCE: u32 = 32;

/// The listening socket and its clients.
#[derive(Debug)]
pub(crate) struct Server {
    /// Removes a Unix socket's name in the end.
    _name: Option<Bound>,
    place: Listen,
    listener: OwnedFd,
    clients: Vec<Client>,
    /// No more connections until [`Server::resume`]: accepting failed.
    paused: bool,
    /// How many steps may still be taken until then.
    left: u32,
    /// Answers until then, each form once it was asked for.
    answers: [Option<Vec<u8>>; 2],
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    since: Instant,
    /// The request so far.
    input: Vec<u8>,
    /// The answer, once there is one, and how much of it has gone.
    output: Vec<u8>,
    sent: usize,
}

impl Server {
    /// Listens. A Unix socket that a dead daemon left is replaced, and nothing else is.
    pub(crate) fn bind(listen: &Listen) -> io::Result<Server> {
        let (listener, name, place) = match listen {
            Listen::At(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let place = Listen::At(listener.local_addr()?);
                (listener.into(), None, place)
            }
            Listen::Socket(path) => {
                let (listener, name) = control::listen(path)?;
                (listener.into(), Some(name), listen.clone())
            }
        };
        Ok(Server {
            _name: name,
            place,
            listener,
            clients: Vec::new(),
            paused: false,
            left: MAX_STEPS,
            answers: [None, None],
        })
    }

    /// Where it listens.
    pub(crate) fn place(&self) -> &Listen {
        &self.place
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        if self.left == 0 {
            return;
        }
        if !self.paused {
            fds.push(pollfd { fd: self.listener.as_raw_fd(), events: POLLIN, revents: 0 });
        }
        fds.extend(self.clients.iter().map(|client| {
            let events = if client.has_more() { POLLOUT } else { POLLIN };
            pollfd { fd: client.socket.as_raw_fd(), events, revents: 0 }
        }));
    }

    /// Does what can be done without waiting. `ready` tells which descriptors poll(2) reported.
    pub(crate) fn serve(
        &mut self,
        ready: impl Fn(RawFd) -> bool,
        snapshot: &mut dyn FnMut() -> Snapshot,
    ) {
        let Server { clients, answers, left, .. } = self;
        let mut answer = |form: Form| made(answers, form, snapshot);
        clients.retain_mut(|client| {
            !ready(client.socket.as_raw_fd()) || client.serve(left, &mut answer).is_ok()
        });
        if !ready(self.listener.as_raw_fd()) {
            return;
        }
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => {
                    self.paused = true;
                    return;
                }
            };
            let (input, output) = (Vec::new(), Vec::new());
            let mut client = Client { socket, since: Instant::now(), input, output, sent: 0 };
            // The request is mostly there already.
            let mut answer = |form: Form| made(&mut self.answers, form, snapshot);
            if client.serve(&mut self.left, &mut answer).is_err() {
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS {
                self.clients.remove(0);
            }
            self.clients.push(client);
        }
    }

    /// Hangs up on whoever took too long, and lets everybody ask for what is new. To be called once
    /// a second or so.
    pub(crate) fn resume(&mut self) {
        self.clients.retain(|client| client.since.elapsed() < DEADLINE);
        self.paused = false;
        self.left = MAX_STEPS;
        self.answers = [None, None];
    }
}

/// The answer with the metrics, made at most once until it is forgotten.
fn made(
    answers: &mut [Option<Vec<u8>>; 2],
    form: Form,
    snapshot: &mut dyn FnMut() -> Snapshot,
) -> Vec<u8> {
    let [plain, open] = answers;
    let answer = if form == Form::Plain { plain } else { open };
    answer.get_or_insert_with(|| found(form, &text::text(&snapshot(), form))).clone()
}

impl Client {
    fn has_more(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Moves on as far as it goes without waiting; an error ends the connection.
    fn serve(
        &mut self,
        left: &mut u32,
        made: &mut dyn FnMut(Form) -> Vec<u8>,
    ) -> Result<(), Errno> {
        if !self.has_more() {
            self.read(left)?;
            if self.output.is_empty() {
                self.output = match asked(&self.input) {
                    Asked::Unfinished => return Ok(()),
                    Asked::For(form) => made(form),
                    Asked::Refused(status) => refused(status),
                };
            }
        }
        self.write(left)
    }

    /// Reads a piece of the request. What comes behind it is read too, and forgotten: who is hung
    /// up on with something unread may never see the answer.
    fn read(&mut self, left: &mut u32) -> Result<(), Errno> {
        let mut buffer = [0; 4096];
        if !step(left) {
            return Ok(());
        }
        match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(Errno::PIPE),
            Ok((n, _)) => {
                if self.output.is_empty() {
                    self.input.extend(buffer.iter().take(n));
                }
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn write(&mut self, left: &mut u32) -> Result<(), Errno> {
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            if !step(left) {
                return Ok(());
            }
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why),
            }
            if !self.has_more() {
                // The rest is the client's: it hangs up, or its time runs out.
                shutdown(&self.socket, Shutdown::Write)?;
            }
        }
        Ok(())
    }
}

/// Takes a step, if any is left.
fn step(left: &mut u32) -> bool {
    let may = *left > 0;
    *left = left.saturating_sub(1);
    may
}
