//! The daemon's side as its clients see it, good ones and others.

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
    changes: Vec<(Change, Option<String>)>,
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
                cards: Vec::new(),
                clockbound: Vec::new(),
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

    fn reload(&mut self) -> Result<Reloaded, String> {
        self.reloads += 1;
        match self.reloads {
            1 => Ok(Reloaded { reloading: true, warnings: vec!["a restart".into()] }),
            _ => Err("c:1: wrong".into()),
        }
    }

    fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String> {
        let accepted = source.ok_or("which one?")?.to_owned();
        Ok(Accepted { accepted, status: "synchronised".into() })
    }

    fn change(&mut self, change: Change, source: Option<&str>) -> Result<Changed, String> {
        self.changes.push((change, source.map(str::to_owned)));
        let name = source.ok_or("which source?")?;
        Ok(Changed { changed: vec![name.into()] })
    }
}

/// Serves at a path of its own while `client` runs, and returns how it went.
fn with_server<T: Send>(client: impl FnOnce(&Path) -> T + Send) -> (T, Oracle, usize) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("truechimer-control-{}-{number}", std::process::id()));
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
        assert_eq!(control::reload(path, TIMEOUT).unwrap().warnings, ["a restart"]);
        let wrong = control::reload(path, TIMEOUT).unwrap_err();
        assert_eq!(wrong.to_string(), "the daemon refused: c:1: wrong");
        let accepted = control::accept(path, Some("s1:123"), TIMEOUT).unwrap();
        assert_eq!((&*accepted.accepted, &*accepted.status), ("s1:123", "synchronised"));
        let refused = control::accept(path, None, TIMEOUT).unwrap_err();
        assert_eq!(refused.to_string(), "the daemon refused: which one?");
        let text = "source = [{ host = \"a\" }]";
        assert_eq!(control::change(path, "add", Some(text), TIMEOUT).unwrap().changed, [text]);
        assert!(control::change(path, "offline", None, TIMEOUT).is_err());
        (version, control::report(path, TIMEOUT).unwrap())
    });
    let text = Some("source = [{ host = \"a\" }]".into());
    assert_eq!(oracle.changes, [(Change::Add, text), (Change::Offline, None)]);
    assert_eq!(answers.0, Version { version: crate::VERSION.into() });
    assert_eq!(answers.1, Oracle::default().report(), "to the last bit");
    assert_eq!(oracle.reloads, 2);
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
        BufReader::new(stream).lines().take(requests.len()).map(Result::unwrap).collect::<Vec<_>>()
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

/// Request that is not even looked at.
#[test]
fn nobody_else_changes_anything() {
    let (told, oracle, _) = with_server(|path| {
        as_user(4321, || {
            let verbs = ["add", "delete", "offline", "online", "reload", "accept"];
            verbs.map(|verb| {
                let told = control::change(path, verb, Some("x"), TIMEOUT);
                told.unwrap_err().to_string()
            })
        })
    });
    let Some(told) = told else {
        let _ = writeln!(io::stderr(), "SKIPPED nobody_else_changes: only root can be others");
        return;
    };
    assert!(told.iter().all(|why| why.contains("only root and the daemon's own user")), "{told:?}");
    assert!(oracle.changes.is_empty() && oracle.reloads == 0);
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
        let _ = writeln!(io::stderr(), "SKIPPED one_user_does_not_take: only root can be others");
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
