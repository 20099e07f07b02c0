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
use super::{Accepted, Answer, MAX_REQUEST, Refused, Reloading, Request, Version};
use crate::sys::{self, POLLIN, POLLOUT, pollfd};

/// Clients at a time, of all users but the daemon's own and root; one more, and another has to go.
const MAX_CLIENTS: usize = 16;
/// Clients at a time of one user, and of the daemon's own or root.
const MAX_OF_USER: usize = 4;
const MAX_OF_OWNER: usize = 8;
/// Connections that are taken between two calls of [`Server::resume`], most of them only to be
/// refused: who waits behind them is not known before.
const MAX_ACCEPTED: u32 = 4096;
/// How many of them at a time: what else the daemon does comes in between.
const ACCEPTED_AT_ONCE: u32 = 32;
/// Permission to connect: everybody has it; each request is judged by itself.
const MODE: u32 = 0o666;

/// Someone who knows the answers.
pub(crate) trait Handler {
    /// All that the daemon knows.
    fn report(&mut self) -> Answer;
    /// Reads the configuration again, soon.
    fn reload(&mut self);
    /// Believes this source now, or the one that is held off; or says why not.
    fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String>;
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
    /// How many connections may still be taken until then.
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
    /// Whether a whole request waits.
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
            "reload" if self.may_change => {
                handler.reload();
                json_line(&Reloading { reloading: true })
            }
            "reload" => refuse("only root and the daemon's own user may reload it".into()),
            "accept" if self.may_change => match handler.accept(source.as_deref()) {
                Ok(accepted) => json_line(&accepted),
                Err(why) => refuse(why),
            },
            "accept" => {
                refuse("only root and the daemon's own user may say whom to believe".into())
            }
            _ => refuse("unknown verb: known are report, version, reload, accept".into()),
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
mod tests {
    use super::*;
    use crate::control::{self, ControlError, DaemonInfo};
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;
    use truechimer_engine::Report;
    use truechimer_time::{Rate, Span};

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Knows extreme answers, and counts.
    #[derive(Default)]
    struct Oracle {
        reloads: u32,
    }

    impl Handler for Oracle {
        fn report(&mut self) -> Answer {
            Answer {
                daemon: DaemonInfo {
                    version: "0".into(),
                    pid: 1,
                    counter: "x".repeat(100_000),
                    resolution: Span::MAX,
                    uptime: Span(i128::MIN),
                    memory: u64::MAX,
                    page: "/page".into(),
                    replay_log: None,
                    state: None,
                    system_clock: String::new(),
                    floods: 0,
                },
                report: Report {
                    at: Count(u64::MAX),
                    hand: None,
                    skew: Some(Rate(i64::MIN)),
                    reason: "\"\n".into(),
                    disputed: None,
                    sources: Vec::new(),
                },
            }
        }

        fn reload(&mut self) {
            self.reloads += 1;
        }

        fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String> {
            let accepted = source.ok_or("which one?")?.to_owned();
            Ok(Accepted { accepted, status: "synchronised".into() })
        }
    }

    /// Serves at a path of its own while `client` runs, and returns how it went.
    fn with_server<T: Send>(client: impl FnOnce(&Path) -> T + Send) -> (T, Oracle, usize) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("truechimer-control-{}-{number}", std::process::id()));
        let mut server = Server::bind(&path).unwrap();
        let mut oracle = Oracle::default();
        let mut most = 0;
        let result = thread::scope(|scope| {
            let client = scope.spawn(|| client(&path));
            let mut turn = 0;
            while !client.is_finished() {
                turn += 1;
                let mut fds = Vec::new();
                server.interests(&mut fds);
                sys::poll(&mut fds, 10).unwrap();
                let ready = |fd| fds.iter().any(|p| p.fd == fd && p.revents != 0);
                server.serve(ready, Count(turn), &mut oracle);
                server.resume();
                most = most.max(server.clients.len());
            }
            client.join().unwrap()
        });
        drop(server);
        assert!(!path.exists());
        (result, oracle, most)
    }

    #[test]
    fn every_verb_is_answered() {
        let (answers, oracle, _) = with_server(|path| {
            let version = control::version(path, TIMEOUT).unwrap();
            control::reload(path, TIMEOUT).unwrap();
            let accepted = control::accept(path, Some("s1:123"), TIMEOUT).unwrap();
            assert_eq!((&*accepted.accepted, &*accepted.status), ("s1:123", "synchronised"));
            let refused = control::accept(path, None, TIMEOUT).unwrap_err();
            assert_eq!(refused.to_string(), "the daemon refused: which one?");
            (version, control::report(path, TIMEOUT).unwrap())
        });
        assert_eq!(answers.0, Version { version: crate::VERSION.into() });
        assert_eq!(answers.1, Oracle::default().report(), "to the last bit");
        assert_eq!(oracle.reloads, 1);
    }

    #[test]
    fn nonsense_is_refused_and_the_connection_goes_on() {
        let (lines, ..) = with_server(|path| {
            let mut stream = UnixStream::connect(path).unwrap();
            let requests = [
                "{}",
                "[]",
                "null",
                "{\"verb\":7}",
                "\u{fffd}",
                "{\"verb\":\"stop\"}",
                "{\"verb\":\"version\",\"x\":1}",
                "{\"verb\":\"version\"}",
            ];
            // All at once.
            stream.write_all(requests.join("\n").as_bytes()).unwrap();
            stream.write_all(b"\n").unwrap();
            BufReader::new(stream)
                .lines()
                .take(requests.len())
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        });
        let (last, errors) = lines.split_last().unwrap();
        assert!(errors.iter().all(|line| line.starts_with("{\"error\":")), "{errors:?}");
        assert!(errors[5].contains("known are report"), "{}", errors[5]);
        assert!(last.contains(crate::VERSION));
    }

    #[test]
    fn a_request_without_end_is_hung_up_on() {
        let (result, ..) = with_server(|path| {
            let mut stream = UnixStream::connect(path).unwrap();
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
            control::version(path, TIMEOUT)
        });
        assert!(result.is_ok());
    }

    #[test]
    fn clients_that_never_read_or_never_speak_are_in_nobodys_way() {
        let (result, _, most) = with_server(|path| {
            let hostile: Vec<_> = (0..3 * MAX_CLIENTS)
                .map(|k| {
                    let mut stream = UnixStream::connect(path).unwrap();
                    if k % 2 == 0 {
                        // 100 kB each that nobody will read. It may have been hung up on already.
                        let _ = stream.write_all(&b"{\"verb\":\"report\"}\n".repeat(30));
                    }
                    stream
                })
                .collect();
            let result = control::report(path, TIMEOUT);
            drop(hostile);
            result
        });
        assert!(result.is_ok());
        assert!(most <= MAX_CLIENTS);
    }

    /// Serves at a path of its own while `client` runs, for as long as a second lasts: nobody's
    /// budget is refilled. The rest is for a look at the server.
    fn within_a_second<T: Send>(client: impl FnOnce(&Path) -> T + Send) -> (T, Server) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("truechimer-second-{}-{number}", std::process::id()));
        let mut server = Server::bind(&path).unwrap();
        let result = thread::scope(|scope| {
            let client = scope.spawn(|| client(&path));
            let mut turn = 0;
            while !client.is_finished() {
                turn += 1;
                let mut fds = Vec::new();
                server.interests(&mut fds);
                sys::poll(&mut fds, 10).unwrap();
                let ready = |fd| fds.iter().any(|p| p.fd == fd && p.revents != 0);
                server.serve(ready, Count(turn), &mut Oracle::default());
            }
            client.join().unwrap()
        });
        (result, server)
    }

    /// Does something as another user, in a thread that then ends; nothing if that cannot be.
    fn as_user<T: Send>(user: u32, what: impl FnOnce() -> T + Send) -> Option<T> {
        thread::scope(|scope| scope.spawn(|| sys::become_user(user).then(what)).join().unwrap())
    }

    #[test]
    fn one_user_in_haste_is_in_nobody_elses_way() {
        let short = Duration::from_secs(60);
        let (told, mut server) = within_a_second(|path| {
            let ask = |times: u32| {
                (0..times).filter(|_| control::version(path, short).is_ok()).count() as u32
            };
            // Each at once after the one before, and hundreds of them.
            let hasty = as_user(4321, || (ask(700), control::version(path, short)))?;
            let own = control::report(path, short);
            let other = as_user(4322, || control::report(path, short))?;
            Some((hasty, own, other))
        });
        let Some(((answered, refused), own, other)) = told else {
            let _ = writeln!(io::stderr(), "SKIPPED one_user_in_haste: only root can be others");
            return;
        };
        assert_eq!(answered, 32, "a connection and an answer each");
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("too many requests") || refused.contains("hung up"), "{refused}");
        assert!(own.is_ok(), "{own:?}");
        assert!(other.is_ok(), "{other:?}");
        // Nothing is for ever.
        server.resume();
        assert!(server.budget.allows(4321));
    }

    #[test]
    fn one_user_does_not_take_all_the_places() {
        let (held, server) = within_a_second(|path| {
            let connect = |times| -> Vec<UnixStream> {
                (0..times).map(|_| UnixStream::connect(path).unwrap()).collect()
            };
            let greedy = as_user(4321, || connect(30))?;
            let few = as_user(4322, || connect(3))?;
            let own = connect(30);
            // All have been taken by the time that somebody who came later is answered.
            let answered = control::version(path, TIMEOUT).is_ok();
            Some((greedy, few, own, answered))
        });
        let Some((.., answered)) = held else {
            let _ =
                writeln!(io::stderr(), "SKIPPED one_user_does_not_take: only root can be others");
            return;
        };
        assert!(answered);
        let of = |user| server.clients.iter().filter(|client| client.user == user).count();
        assert_eq!((of(4321), of(4322)), (MAX_OF_USER, 3));
        // The one that was answered may have been seen to go.
        assert!((MAX_OF_OWNER - 1..=MAX_OF_OWNER).contains(&of(0)), "{}", of(0));
    }

    #[test]
    fn where_all_places_are_taken_whoever_has_most_makes_room() {
        let (held, mut server) = within_a_second(|path| {
            let connect = |times| -> Vec<UnixStream> {
                (0..times).map(|_| UnixStream::connect(path).unwrap()).collect()
            };
            let mut held = Vec::new();
            for (user, times) in [(1, 4), (2, 4), (3, 3), (4, 1), (5, 4), (6, 1), (7, 1)] {
                held.push(as_user(4000 + user, || connect(times))?);
            }
            let answered = control::version(path, TIMEOUT).is_ok();
            Some((held, answered))
        });
        if held.is_none() {
            let _ = writeln!(io::stderr(), "SKIPPED where_all_places: only root can be others");
            return;
        }
        let mut of = BTreeMap::new();
        for client in server.clients.drain(..).filter(|client| client.user != 0) {
            *of.entry(client.user).or_insert(0) += 1;
        }
        assert_eq!(of.values().sum::<usize>(), MAX_CLIENTS);
        assert_eq!((of[&4004], of[&4006], of[&4007]), (1, 1, 1), "{of:?}");
        assert!(of.values().all(|n| *n >= 1), "{of:?}");
    }

    #[test]
    fn a_dead_daemons_socket_is_replaced_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("truechimer-stale-{}", std::process::id()));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(
            control::version(&path, TIMEOUT),
            Err(ControlError::NoDaemon { why, .. }) if why.kind() == ErrorKind::ConnectionRefused
        ));
        let live = Server::bind(&path).unwrap();
        let error = Server::bind(&path).unwrap_err();
        assert!(error.to_string().contains("another daemon"), "{error}");
        drop(live);
        fs::write(&path, "precious").unwrap();
        let error = Server::bind(&path).unwrap_err();
        assert!(error.to_string().contains("something else"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        let error = control::version(&path, TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("truechimer run"), "{error}");
    }

    /// The socket has its mode from the first moment on: a mode that were set afterwards, by name,
    /// could be set of whatever somebody has put there meanwhile.
    #[test]
    fn its_mode_is_never_changed_by_name() {
        use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
        let name = format!("truechimer-mode-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let events = init(CreateFlags::NONBLOCK).unwrap();
        add_watch(&events, &folder, WatchFlags::CREATE | WatchFlags::ATTRIB).unwrap();
        let server = Server::bind(&folder.join("control")).unwrap();
        let there = fs::symlink_metadata(folder.join("control")).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, MODE);
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 1024];
        let mut reader = Reader::new(events, &mut buffer);
        assert_eq!(reader.next().unwrap().events(), ReadFlags::CREATE);
        assert!(reader.next().is_err(), "nothing else has happened to it");
        drop(server);
        fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn silence_and_noise_are_told_apart() {
        let path = std::env::temp_dir().join(format!("truechimer-silent-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let silent = control::version(&path, Duration::from_millis(20));
        assert!(matches!(silent, Err(ControlError::Silent { .. })), "{silent:?}");
        let noise = thread::scope(|scope| {
            scope.spawn(|| {
                let _first = listener.accept().unwrap();
                let (mut second, _) = listener.accept().unwrap();
                let _ = second.read(&mut [0; 100]);
                second.write_all(b"220 mail.example.org\n").unwrap();
            });
            control::version(&path, TIMEOUT)
        });
        assert!(matches!(noise, Err(ControlError::Unintelligible { .. })), "{noise:?}");
        fs::remove_file(&path).unwrap();
    }
}
