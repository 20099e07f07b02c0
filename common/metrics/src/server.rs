//! The sockets: no client is waited for, and none costs much.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{POLLIN, POLLOUT, pollfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};
use truechimer_files::Bound;

use crate::request::{Asked, Form, asked, found, refused};
use crate::{Family, Listen, text};

/// Clients at a time; one more, and the one that has been there longest has to go.
const MAX_CLIENTS: usize = 16;
/// Time that a client may take, from its connection to the end of the answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Connections, pieces of requests and pieces of answers between two calls of [`Server::resume`].
const MAX_STEPS: u32 = 4096;
/// Connections that are taken at a time: what else the program does comes in between.
const ACCEPTED_AT_ONCE: u32 = 32;
/// Permission to connect to a Unix socket: everybody has it, as its directory may say otherwise.
const MODE: u32 = 0o666;
/// Time between two calls of [`Server::resume`] by a server that has nobody to make them.
const ROUND: Duration = Duration::from_secs(1);
/// Delay with which [`Server::run`] may see that it is over.
const STEP: Duration = Duration::from_millis(200);

/// The listening socket and its clients.
#[derive(Debug)]
pub struct Server {
    /// Removes a Unix socket's name in the end.
    _name: Option<Bound>,
    place: Listen,
    listener: OwnedFd,
    clients: Vec<Client>,
    /// No more connections until [`Server::resume`]: accepting failed.
    paused: bool,
    /// Steps that may still be taken until then.
    left: u32,
    /// Answers until then, each form once it was asked for.
    answers: [Option<Vec<u8>>; 2],
    /// Moment at which [`Server::turn`] last called [`Server::resume`].
    resumed: Instant,
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
    ///
    /// # Errors
    /// If somebody else is there, or the system refuses: [`crate::unbound`] has words for it.
    pub fn bind(listen: &Listen) -> io::Result<Server> {
        let (listener, name, place) = match listen {
            Listen::At(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let place = Listen::At(listener.local_addr()?);
                (listener.into(), None, place)
            }
            Listen::Socket(path) => {
                let (listener, name) = truechimer_files::listen(path, MODE)?;
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
            resumed: Instant::now(),
        })
    }

    /// Place where it listens.
    #[must_use]
    pub fn place(&self) -> &Listen {
        &self.place
    }

    /// Adds what to wait for.
    pub fn interests(&self, fds: &mut Vec<pollfd>) {
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
    pub fn serve(
        &mut self,
        ready: impl Fn(RawFd) -> bool,
        families: &mut dyn FnMut() -> Vec<Family>,
    ) {
        let Server { clients, answers, left, .. } = self;
        let mut answer = |form: Form| made(answers, form, families);
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
            let mut answer = |form: Form| made(&mut self.answers, form, families);
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
    pub fn resume(&mut self) {
        self.clients.retain(|client| client.since.elapsed() < DEADLINE);
        self.paused = false;
        self.left = MAX_STEPS;
        self.answers = [None, None];
    }

    /// Serves for so long, and waits in between: for programs without a loop of their own. What it
    /// tells is a second old at most.
    pub fn turn(&mut self, span: Duration, families: &mut dyn FnMut() -> Vec<Family>) {
        let end = Instant::now() + span;
        loop {
            if self.resumed.elapsed() >= ROUND {
                self.resume();
                self.resumed = Instant::now();
            }
            let left = end.saturating_duration_since(Instant::now());
            let ready = self.wait(left);
            self.serve(|fd| ready.contains(&fd), families);
            if left.is_zero() {
                return;
            }
        }
    }

    /// Serves until it is over, on a thread of its own.
    pub fn run(&mut self, over: &AtomicBool, families: &mut dyn FnMut() -> Vec<Family>) {
        while !over.load(Ordering::Relaxed) {
            self.turn(STEP, families);
        }
    }

    /// Waits until somebody can be served, but no longer than this: who that is.
    fn wait(&self, most: Duration) -> Vec<RawFd> {
        let mut fds = Vec::with_capacity(1 + self.clients.len());
        if self.left > 0 {
            if !self.paused {
                fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
            }
            fds.extend(self.clients.iter().map(|client| {
                let flags = if client.has_more() { PollFlags::OUT } else { PollFlags::IN };
                PollFd::from_borrowed_fd(client.socket.as_fd(), flags)
            }));
        }
        let timeout = Timespec::try_from(most).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // No memory for it, say: in haste nothing gets better.
            Err(_) => thread::sleep(most),
        }
        let ready = fds.iter().filter(|fd| !fd.revents().is_empty());
        ready.map(|fd| fd.as_fd().as_raw_fd()).collect()
    }
}

/// The answer with the metrics, made at most once until it is forgotten.
fn made(
    answers: &mut [Option<Vec<u8>>; 2],
    form: Form,
    families: &mut dyn FnMut() -> Vec<Family>,
) -> Vec<u8> {
    let [plain, open] = answers;
    let answer = if form == Form::Plain { plain } else { open };
    answer.get_or_insert_with(|| found(form, &text(families(), form))).clone()
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
