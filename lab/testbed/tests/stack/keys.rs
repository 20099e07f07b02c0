//! Servers and clients that share symmetric keys (RFC 5905 §7.3, RFC 8573): chronyd and ntpd at the other end, and
//! those who have no key.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use truechimer::Status;
use truechimer_keys::{Key, Keys, nak};
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Daemon, SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{CLIENT, Namespace, Pair, SERVER};
use truechimer_testbed::process::Signal;
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;

use crate::hostile::{self, reply};
use crate::number;
use crate::serve::{Chain, Client, ask, ntpd, ntpd_follows};

/// Secrets of the tests.
const SECRET: &str = "000102030405060708090A0B0C0D0E0F";
const OTHER: &str = "F0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF";
/// The key that both ends have and know differently, and one that the server has not.
const DIFFERENT: u32 = 8;
const UNKNOWN: u32 = 9;

/// A file of keys 1 to 5, one for each algorithm, and these more.
fn key_file(dir: &temp::Dir, name: &str, more: &[(u32, &str)]) -> PathBuf {
    let path = dir.join(name);
    let mut text = format!(
        "# in chrony's format\n1 AES128 HEX:{SECRET}\n2 AES256 HEX:{SECRET}{OTHER}\n\
         3 SHA256 HEX:{SECRET}\n4 SHA384 ASCII:words-without-spaces\n5 SHA512 HEX:{SECRET}{OTHER}\n"
    );
    for (number, secret) in more {
        text.push_str(&format!("{number} AES128 HEX:{secret}\n"));
    }
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A daemon that follows this server by the key of this number.
fn follower(
    dir: &temp::Dir,
    network: Option<&Namespace>,
    host: &str,
    (file, key): (&Path, u32),
) -> Daemon {
    let name = format!("follower-{key}");
    let log = dir.join(&format!("{name}.replay"));
    let settings = format!("key-file = {file:?}\nreplay-log = {log:?}");
    let sections = format!("[[source]]\nhost = {host:?}\nkey = {key}\npoll = 1\n");
    let (settings, sections) = (settings.as_str(), sections.as_str());
    Setup { name: &name, network, servers: Vec::new(), settings, sections, ..Setup::new(dir, "") }
        .start()
}

fn ends(mut daemon: Daemon) {
    daemon.process.signal(Signal::Term);
    assert!(daemon.process.wait(SOON).is_some(), "it does not end");
}

fn count(source: &Value, refusal: &str) -> i64 {
    source["refused"][refusal].as_i64().unwrap_or(0)
}

fn is_never_believed(source: &Value) {
    assert_eq!(number(source, "accepted"), 0, "{source:#}");
    assert_eq!(source["status"], "unreachable", "{source:#}");
}

#[test]
fn a_server_that_shares_a_key_is_followed_and_no_other() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let theirs = key_file(&dir, "theirs", &[(DIFFERENT, SECRET)]);
    let ours = key_file(&dir, "ours", &[(DIFFERENT, OTHER), (UNKNOWN, SECRET)]);
    let lines = format!("keyfile {}\n", theirs.display());
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let followed = |key| (key, follower(&dir, Some(&net.client), "192.0.2.1", (&ours, key)));
    let shared: Vec<_> = (1..=5).map(followed).collect();
    let others = [DIFFERENT, UNKNOWN].map(followed);
    for (key, mut daemon) in shared {
        let source = daemon.source_when(|source| source["accepted"].as_i64() > Some(3));
        assert_eq!(
            (&source["authentication"], &source["key"]),
            (&"key".into(), &key.into()),
            "{source:#}"
        );
        assert_eq!(source["refused"].as_object().map(serde_json::Map::len), Some(0), "{source:#}");
        if key == 1 {
            let mut watch = daemon.watch(Truth::host());
            watch.run_until_status(Status::Synchronised, SOON);
            watch.run(Duration::from_secs(5));
            println!("{}", watch.summary());
        }
        ends(daemon);
        let log = std::fs::read_to_string(dir.join(&format!("follower-{key}.replay"))).unwrap();
        assert!(log.contains("\"reply\"") && !log.contains(SECRET), "no log holds a key");
    }
    // chronyd does not answer at all.
    for (_, mut daemon) in others {
        let source = daemon.source_when(|source| source["requests"].as_i64() > Some(4));
        is_never_believed(&source);
        assert_eq!(source["reason"]["kind"], "no-reply", "{source:#}");
        ends(daemon);
    }
}

#[test]
fn without_the_key_nothing_is_asked_and_a_mended_file_is_read() {
    let dir = temp::Dir::new();
    let file = key_file(&dir, "keys", &[]);
    let key = Keys::read(&file).unwrap().get(1).unwrap().clone();
    let server = hostile::Server::start(move |request, client| {
        client.send(&key.protect(&reply(request, Duration::ZERO)));
    });
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\n1 AES128", "\n1 MD5")).unwrap();
    let address = server.address.to_string();
    let mut daemon = follower(&dir, None, &address, (&file, 1));
    let source = daemon.source_when(|source| {
        source["trouble"].as_str().is_some_and(|said| said.contains("keys:2: MD5 is not used"))
    });
    is_never_believed(&source);
    assert_eq!((&source["reason"]["kind"], server.asked()), (&"no-keys".into(), 0), "{source:#}");
    std::fs::write(&file, text).unwrap();
    daemon.source_when(|source| source["accepted"].as_i64() > Some(3));
    ends(daemon);
}

/// An attacker on the path knows what has gone by, and no key.
#[test]
fn what_is_stripped_changed_or_said_again_is_never_believed() {
    const HOUR: Duration = Duration::from_secs(3600);
    const HONEST: i64 = 5;
    type Attack = fn(&Key, &[u8]) -> Vec<u8>;
    let attacks: [(&str, Attack, &str); 5] = [
        ("stripped", |key, time| key.protect(time)[..48].to_vec(), "unauthentic"),
        ("crypto-nak", |_, time| nak(time.first_chunk().unwrap()), "unauthentic"),
        (
            "changed",
            |key, time| {
                let mut packet = key.protect(time);
                packet[43] ^= 1;
                packet
            },
            "unauthentic",
        ),
        ("another", |_, time| other().protect(time), "unauthentic"),
        // Of a request that was, long since.
        (
            "again",
            |key, time| {
                let mut old = time.to_vec();
                old[24..32].copy_from_slice(&[7; 8]);
                key.protect(&old)
            },
            "wrong-origin",
        ),
    ];
    let dir = temp::Dir::new();
    let file = key_file(&dir, "keys", &[]);
    let begin = |(name, attack, refusal): (&'static str, Attack, &'static str)| {
        let own = temp::Dir::new();
        let key = Keys::read(&file).unwrap().get(1).unwrap().clone();
        let mut asked = 0;
        let server = hostile::Server::start(move |request, client| {
            // Honest until it is followed; then an hour ahead.
            asked += 1;
            client.send(&match asked {
                0..=HONEST => key.protect(&reply(request, Duration::ZERO)),
                _ => attack(&key, &reply(request, HOUR)),
            });
        });
        let mut daemon = follower(&own, None, &server.address.to_string(), (&file, 1));
        let watch = daemon.watch(Truth::host());
        (name, refusal, own, server, daemon, watch)
    };
    let under_way = attacks.map(begin);
    for (name, refusal, _own, _server, mut daemon, mut watch) in under_way {
        let source = daemon.source_when(|source| count(source, refusal) > 2);
        watch.run(Duration::from_secs(1));
        println!("{name}: {}; {}", watch.summary(), source["refused"]);
        let accepted = number(&source, "accepted");
        assert!((1..=HONEST).contains(&accepted), "{name}: {source:#}");
        ends(daemon);
    }
}

fn other() -> Key {
    Key::new(1, truechimer_keys::Algorithm::Aes128, &[9; 16]).unwrap()
}

/// chronyd asks in version 4 by AES, and in version 3 by hashes whose code version 4 would cut.
#[test]
fn our_server_proves_itself_to_chronyd_by_its_keys() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let ours = key_file(&dir, "ours", &[(DIFFERENT, SECRET)]);
    let theirs = key_file(&dir, "theirs", &[(DIFFERENT, OTHER), (UNKNOWN, SECRET)]);
    let keys = ours.to_str().unwrap();
    let options = ["--allow", "192.0.2.0/24", "--allow", "2001:db8::/64", "--keys", keys];
    let mut chain = Chain::start(&net.server, &dir, &options);
    let client = |dir: &temp::Dir, [v4, v6]: [u32; 2], version: &str| {
        let file = theirs.display();
        let poll = "minpoll 0 maxpoll 0 iburst";
        let lines = format!(
            "server 192.0.2.1 key {v4} {poll}\nserver 2001:db8::1 key {v6} {poll} {version}\nkeyfile {file}\n"
        );
        Client::of(&net.client, dir, &lines)
    };
    for (pair, version) in [([1, 2], ""), ([3, 4], ""), ([5, 5], "version 4")] {
        let own = temp::Dir::new();
        let Some(mut chrony) = or_skip(client(&own, pair, version)) else { return };
        chrony.expect(&["-c", "sources"], |said| {
            let fit = |line: &&str| line.starts_with("^,*,") || line.starts_with("^,+,");
            said.lines().filter(fit).count() == 2
        });
        let proven = chrony.expect(&["authdata"], |said| said.matches(" SK ").count() == 2);
        println!("{proven}");
    }
    let own = temp::Dir::new();
    let Some(mut chrony) = or_skip(client(&own, [DIFFERENT, UNKNOWN], "")) else { return };
    for address in ["192.0.2.1", "2001:db8::1"] {
        let said = chrony.expect(&["ntpdata", address], |said| {
            let received = said.lines().find(|line| line.starts_with("Total RX"));
            received.and_then(|line| line.rsplit(' ').next()?.parse().ok()) > Some(3)
        });
        assert!(said.contains("Total valid RX  : 0"), "{said}");
    }
    // Who asks for no proof is answered as before.
    assert!(ask(&net.client, SERVER).is_ok());
    let strict = [&options[..], &["--require-proof"]].concat();
    let tally = chain.restart(&net.server, &dir, &strict);
    println!("{tally}");
    let last = tally.lines().last().unwrap_or_default();
    assert!(last.contains("keyed ") && last.contains("key_naks "), "{last}");
    assert!(last.contains("version3 ") && last.contains("version4 "), "{last}");
    // And by one that is stricter not at all; chronyd, which has a key, is.
    let own = temp::Dir::new();
    let Some(mut chrony) = or_skip(client(&own, [1, 3], "")) else { return };
    chrony.expect(&["sources"], |said| said.contains("^*"));
    assert!(ask(&net.client, SERVER).is_err());
    let tally = chain.ends();
    assert!(tally.contains("unproven "), "{tally}");
}

/// AES-CMAC both ways with an implementation that has nothing of chrony's.
#[test]
fn ntpd_shares_a_key_with_us_at_either_end() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let ours = key_file(&dir, "ours", &[]);
    let theirs = dir.join("ntp.keys");
    std::fs::write(&theirs, format!("1 AES-128 {SECRET}\n3 SHA256 {SECRET}\n")).unwrap();
    let allowed = CLIENT.to_string();
    let options = ["--allow", &allowed, "--keys", ours.to_str().unwrap()];
    let mut chain = Chain::start(&net.server, &dir, &options);
    let lines = format!(
        "keys {}\ntrustedkey 1 3\nserver {SERVER} key 1 iburst minpoll 3 maxpoll 3\n",
        theirs.display()
    );
    let Some(mut process) = or_skip(ntpd(&net.client, &dir, &lines)) else { return };
    ntpd_follows(&net.client, &mut process, SERVER);
    // And ntpd to us; also by a key that it knows differently.
    let own = temp::Dir::new();
    let other = key_file(&own, "other", &[]);
    let text = std::fs::read_to_string(&other).unwrap();
    std::fs::write(&other, text.replacen(SECRET, OTHER, 1)).unwrap();
    let host = CLIENT.to_string();
    let follows = |dir, file, key| (key, follower(dir, Some(&net.server), &host, (file, key)));
    let shared = [follows(&dir, &ours, 1), follows(&dir, &ours, 3)];
    let (_, mut stranger) = follows(&own, &other, 1);
    for (key, mut daemon) in shared {
        let source = daemon.source_when(|source| source["accepted"].as_i64() > Some(3));
        assert_eq!(source["key"], key, "{source:#}");
        assert_eq!(count(&source, "unauthentic"), 0, "{source:#}");
        ends(daemon);
    }
    let source = stranger.source_when(|source| source["requests"].as_i64() > Some(4));
    is_never_believed(&source);
    ends(stranger);
    let tally = chain.ends();
    assert!(tally.contains("keyed ") && !tally.contains("key_naks"), "{tally}");
}
