//! Configurations of chrony's, and ours made of them.

use truechimer_daemon::config::{HardwareStamps, Settings, parse};

use super::*;
use truechimer_time::Span;

fn taken(text: &str) -> Found {
    let mut found = Found::default();
    for line in files::parse(text, "c") {
        directives::take(&line, &mut found);
    }
    found.finish();
    found
}

fn made(text: &str) -> (String, Settings) {
    let found = taken(text);
    let text = found.text(Path::new("c"));
    let settings = parse(&text, "made").unwrap_or_else(|why| panic!("{why}\n{text}"));
    (text, settings)
}

fn has(chrony: &str, wanted: &[&str]) {
    let (text, _) = made(chrony);
    for wanted in wanted {
        assert!(text.contains(wanted), "{chrony}: no {wanted}\n{text}");
    }
}

#[test]
fn servers_are_sources_with_their_poll_and_port() {
    let (_, settings) = made(
        "server a iburst\nserver b port 1123 maxpoll 2\nserver 2001:db8::1 port 11 noselect minpoll 4\n\
         server c minpoll -3 maxpoll 4\nserver d minpoll 12 offset -0.00005\nserver e minpoll 4 maxpoll 4",
    );
    let sources = &settings.engine.sources;
    let found: Vec<_> = sources.iter().map(|s| (s.host.as_str(), s.port, s.poll)).collect();
    let wanted = [
        ("a", 123, 64),
        // `maxpoll 2` alone is `minpoll 6 maxpoll 6`.
        ("b", 1123, 64),
        ("2001:db8::1", 11, 16),
        ("c", 123, 1),
        ("d", 123, 1024),
        ("e", 123, 16),
    ];
    assert_eq!(found, wanted);
    let longest: Vec<_> = sources.iter().map(|s| s.max_poll).collect();
    assert_eq!(longest, [Some(1024), None, Some(1024), Some(16), None, None]);
    let bursts: Vec<_> = sources.iter().map(|s| s.burst).collect();
    assert_eq!(bursts, [true, false, false, false, false, false], "iburst");
    has(
        "server a xleave maxdelayquant 0.3 version 3",
        &[
            "interleaved = true",
            "maxdelayquant: late packets are weighed by what their path does",
            "version: requests are of version 4",
        ],
    );
    has("server a offline", &["offline = true"]);
    let polls = "family = \"ipv6\"\nburst = false\npoll = 64\nmax-poll = 1024";
    has("server a ipv6 maxpoll 12", &[polls]);
    assert!(sources[2].no_select && !sources[0].no_select);
    // Requests take 100 µs longer than replies: chrony takes 50 µs off.
    let asymmetry = sources[4].asymmetry.unwrap();
    assert_eq!(asymmetry.by.as_nanos_i64(), 100_000);
}

#[test]
fn a_poll_that_cannot_be_is_told() {
    let told = "# Carried over, but not quite the same here:\n\
                # c:1: server a minpoll -3 maxpoll 99\n#     minpoll -3: 1 s is written, of 1 to 1024 s\n\
                # c:1: server a minpoll -3 maxpoll 99\n#     maxpoll 99: 1024 s is written, of 1 to 1024 s\n";
    has("server a minpoll -3 maxpoll 99", &[told]);
    has("server a minpoll 12 maxpoll 3", &["#     maxpoll 3, below minpoll: 1024 s is written"]);
    // A source that is not carried over at all differs in nothing.
    for refused in
        ["pool a nts minpoll -3", "server b\nserver b maxpoll 12", "pool a nts maxsources 1 key 5"]
    {
        let (text, _) = made(refused);
        assert!(text.contains("# Not carried over:\n") && !text.contains("not quite"), "{text}");
    }
    // A longest one below the shortest is not used at all.
    let (text, _) = made("server a minpoll 0 maxpoll 10\nserver b maxpoll -2");
    assert!(!text.contains("not quite"), "{text}");
}

/// Lines of that kind are Ubuntu's own.
#[test]
fn a_pool_of_one_server_with_proof_is_a_host() {
    let (text, settings) = made("pool 1.ntp.ubuntu.com iburst maxsources 1 nts prefer");
    let [source] = settings.engine.sources.as_slice() else { panic!("{text}") };
    assert_eq!((source.host.as_str(), source.pool), ("1.ntp.ubuntu.com", None));
    assert!(source.is_authenticated() && source.prefer && source.burst);
    assert!(text.contains("a certificate for the pool's name: written as host"), "{text}");
    has(
        "pool a nts certset 1 maxsources 1",
        &["host = \"a\"\nnts = true", "certset: all servers go"],
    );
    assert!(!made("server a nts certset 0").0.contains("certset: "));
}

#[test]
fn options_that_are_not_needed_are_named() {
    has(
        "server a auto_offline copy burst online",
        &["auto_offline: a request", "copy: ", "burst: one good", "online: each"],
    );
    let pulse = |rate: &str| made(&format!("refclock PPS /dev/pps0{rate}\nserver a")).0;
    assert_eq!(
        pulse(" rate 1").replace(" rate 1", ""),
        pulse(""),
        "the default says nothing of its own"
    );
    assert!(pulse(" rate 5").contains("rate: pulses more often than once a second"));
}

#[test]
fn numbers_that_are_none_are_named() {
    has("server a port abc\nserver b", &["port: must be 1 to 65535"]);
    has("server a minpoll 4.5", &["minpoll: must be a power of 2 s, as", "poll = 64"]);
}

#[test]
fn who_gets_no_server_is_told_why() {
    let why = |text: &str| taken(text).nothing();
    let pool = why("driftfile /d\nlocal stratum 8\npool a nts");
    let wanted = "no server was carried over: see \"Not carried over\" (c:3: pool a nts: `nts` is not for a pool";
    assert!(pool.starts_with(wanted), "{pool}");
    // An option may be lost, but it is not why the whole is.
    let pool = why("pool a nts certset 1\nserver b key");
    assert!(pool.contains("(c:1: pool a nts certset 1: `nts` is not for a pool"), "{pool}");
    let mut found = Found::default();
    files::parse("peer a", "/etc/with: colon").iter().for_each(|l| directives::take(l, &mut found));
    assert!(found.nothing().contains("(/etc/with: colon:1: peer a: symmetric"), "{found:?}");
    assert_eq!(why("local"), "no server was carried over: none is named there");
    assert!(!made("pool a nts").0.contains("it:"), "no inner name");
}

#[test]
fn a_pool_is_a_pool() {
    let pools = |text: &str| -> Vec<_> {
        let sources = made(text).1.engine.sources;
        sources.into_iter().map(|source| (source.host, source.port, source.pool)).collect()
    };
    let debian = "pool 2.debian.pool.ntp.org iburst";
    assert_eq!(pools(debian), [("2.debian.pool.ntp.org".into(), 123, Some(4))]);
    // As often as chronyd asks them, which are others' servers.
    has(debian, &["pool = \"2.debian.pool.ntp.org\"\npoll = 64\nmax-poll = 1024\n"]);
    let text = "pool a port 99 maxsources 2 key 3\nkeyfile /k\nserver b maxsources 3";
    assert_eq!(pools(text), [("a".into(), 99, Some(2)), ("b".into(), 123, None)]);
    assert_eq!(pools("pool a maxsources 99 offset 0.1"), [("a".into(), 123, Some(16))]);
    has("pool a offset 0.1", &["# c:1: pool a offset 0.1", "has a path of its own"]);
    has("pool a nts", &["`nts` is not for a pool: each of its servers would need a certificate"]);
    has("server a\nserver a", &["is there already, and counts once"]);
}

#[test]
fn cards_that_stamp_are_one_key() {
    let cards = |text: &str| made(text).1.hardware_stamps;
    let of = |names: &[&str]| HardwareStamps::Of(names.iter().map(|name| (*name).into()).collect());
    assert_eq!(cards("hwtimestamp eth0"), of(&["eth0"]));
    assert_eq!(
        cards("hwtimestamp eth0\nhwtimestamp eth1\nhwtimestamp eth0"),
        of(&["eth0", "eth1"])
    );
    for all in
        ["hwtimestamp *", "hwtimestamp eth0\nhwtimestamp *", "hwtimestamp *\nhwtimestamp eth0"]
    {
        assert_eq!(cards(all), HardwareStamps::Auto, "{all}");
    }
    has("hwtimestamp eth0", &["truechimer-hardware-stamps.conf"]);
    has(
        "hwtimestamp eth0 minpoll -6",
        &[
            "not quite the same",
            "# c:1: hwtimestamp eth0 minpoll -6\n#     hardware-stamps = [\"eth0\"] is written",
        ],
    );
    has(
        "hwtimestamp eth0 rxfilter all\nhwtimestamp *",
        &["#     hardware-stamps = \"auto\" is written"],
    );
    for wrong in ["hwtimestamp eth*", "hwtimestamp a-name-of-sixteen", "hwtimestamp"] {
        assert_eq!(cards(wrong), HardwareStamps::None, "{wrong}");
    }
}

#[test]
fn authentication_is_not_lost_in_silence() {
    has("server a nts iburst", &["host = \"a\"\nnts = true"]);
    let found = "[nts]\n# c:2: ntstrustedcerts /ca\nca = \"/ca\"\n# c:3: nocerttimecheck 1\nunset-clock = true\n";
    has("server a nts\nntstrustedcerts /ca\nnocerttimecheck 1", &[found]);
    let later = "# c:1: nocerttimecheck 1\n#     a later line counts";
    let (text, settings) = made("nocerttimecheck 1\nnocerttimecheck 0\nntstrustedcerts /ca");
    assert!(text.contains(later) && !text.contains("unset-clock"), "{text}");
    assert_eq!(settings.nts_ca, Some(PathBuf::from("/ca")));
    let (text, _) = made("nocerttimecheck 1\nnocerttimecheck 3");
    assert!(text.contains(later) && text.contains("nocerttimecheck 3\nunset-clock"), "{text}");
    has("nocerttimecheck x", &["must be a whole number"]);
    let differs = "takes the place of the system's authorities; chronyd has both";
    has("ntstrustedcerts /ca", &[differs]);
    has("ntstrustedcerts 0 /ca", &["ca = \"/ca\"", differs]);
    let (text, _) = made("nosystemcert\nntstrustedcerts /ca");
    assert!(text.contains("ca = \"/ca\"") && !text.contains("chronyd has both"), "{text}");
    has("nosystemcert", &["the system's authorities are trusted, unless"]);
    // Else nobody but the servers of that set would have proof.
    let (text, settings) = made("server a nts\nntstrustedcerts 1 /ca");
    assert_eq!(settings.nts_ca, None);
    assert!(text.contains("for servers with certset 1 only"), "{text}");
    let (text, settings) = made("server a key 25 port 1123\nkeyfile /etc/k.keys\nserver b");
    let found = |settings: &Settings| -> Vec<_> {
        settings.engine.sources.iter().map(|s| (s.authentication.key(), s.port)).collect()
    };
    assert_eq!(found(&settings), [(Some(25), 1123), (None, 123)], "{text}");
    assert_eq!(settings.key_file, Some(PathBuf::from("/etc/k.keys")));
    let (text, settings) = made("server a key 25");
    assert_eq!(found(&settings), [(Some(25), 123)]);
    assert!(text.contains("# no keyfile is named there"), "{text}");
    has("allow\nkeyfile /k", &["truechimer serve --allow 0.0.0.0/0 --allow ::/0 --keys /k\n"]);
    has(
        "keyfile /k\nkeyfile /l",
        &["key-file = \"/k\"", "# c:2: keyfile /l\n#     is there already"],
    );
    has("keyfile k", &["names no file by its whole path"]);
    // Rather left out than followed without proof.
    for unusable in ["server a key", "server a key x", "server a key 0", "server a nts key 5"] {
        assert!(made(unusable).1.engine.sources.is_empty(), "{unusable}");
    }
}

#[test]
fn pulses_keep_their_name_and_offset() {
    let (_, settings) =
        made("server a\nrefclock PPS /dev/pps0 lock NMEA refid GPS offset 0.0000005");
    let pps = &settings.engine.refclocks[0];
    assert_eq!((pps.name.as_str(), pps.offset.as_nanos_i64()), ("GPS", 500));
    has("refclock RTC /dev/rtc0", &["kind RTC are not there"]);
    let (text, settings) = made(
        "server a\nrefclock SHM 0 refid NMEA delay 0.2 offset 0.3\nrefclock SOCK /run/x.sock refid S\n\
         refclock PHC /dev/ptp0:nocrossts tai poll 2 trust\n",
    );
    let [shm, sock, phc] = settings.engine.refclocks.as_slice() else { panic!("{text}") };
    assert_eq!((shm.path.as_str(), shm.name.as_str()), ("0", "NMEA"));
    assert_eq!((shm.error.as_nanos_up(), shm.offset.as_nanos()), (100_000_000, 300_000_000));
    assert!(text.contains("error = \"500ms\"    # the most by which it may be off: set it"));
    assert_eq!(sock.path, "/run/x.sock");
    assert_eq!((phc.poll, phc.trust, phc.scale), (4, true, truechimer_engine::Scale::Tai));
    // The examples of chrony.conf(5).
    let (text, settings) = made(
        "server a\nrefclock PHC /dev/ptp0 poll 0 dpoll -2 offset -37\n\
         refclock PHC /dev/ptp1:extpps:pin=1 width 0.2 poll 2",
    );
    let [card, input] = settings.engine.refclocks.as_slice() else { panic!("{text}") };
    assert_eq!((card.scale, card.offset), (truechimer_engine::Scale::Tai, Span::ZERO), "{text}");
    assert!(text.contains("the card shows TAI: scale = \"tai\" is written"), "{text}");
    assert_eq!(input.path, "/dev/ptp1:channel=0:pin=1", "{text}");
    assert!(text.contains("pps = \"/dev/ptp1\"\npin = 1\nchannel = 0\n"), "{text}");
    has("refclock PHC /dev/ptp0 offset -36.5", &["less than 0.5 s; of a card that shows TAI"]);
    has("refclock PHC /dev/ptp0:extpps:pin=x", &["pin: must be a whole number"]);
    has("refclock PHC /dev/ptp0:extpps:clear", &["the clear edge"]);
    has("refclock PHC /dev/ptp0:pin=1", &["pin=1: no option of a card"]);
    has("refclock PPS /dev/pps0:clear", &["the clear edge"]);
    has("refclock PPS", &["names no device"]);
}

#[test]
fn who_serves_listens_where_chronyd_did() {
    has(
        "bindaddress 192.0.2.9\nallow\nbindaddress 192.0.2.1\nbindaddress 2001:db8::1",
        &[
            "truechimer serve --allow 0.0.0.0/0 --allow ::/0 --listen 192.0.2.1 --listen 2001:db8::1\n",
            "bindaddress 192.0.2.9\n#     a later line counts",
        ],
    );
    // Nobody is served.
    has(
        "server a\nbindaddress 192.0.2.1",
        &["bindaddress 192.0.2.1\n#     says where servers listen"],
    );
    has("allow\nbindaddress x", &["bindaddress x\n#     must be an address"]);
}

#[test]
fn no_option_of_a_reference_clock_vanishes() {
    // What would be taken for what it is not is left out.
    for option in ["local", "pps", "rate 5", "noselect"] {
        let (text, settings) = made(&format!("server a\nrefclock SHM 0 {option}"));
        assert!(settings.engine.refclocks.is_empty(), "{option}: {text}");
        assert!(text.contains(&format!("{}: ", option.split(' ').next().unwrap())), "{text}");
    }
    for option in [
        "dpoll 2",
        "lock NMEA",
        "maxlockage 2",
        "width 0.1",
        "stratum 3",
        "precision 1e-6",
        "maxdispersion 0.1",
        "filter 64",
        "minsamples 3",
        "maxsamples 9",
        "poll 9",
        "bogus 1",
        "delay x",
    ] {
        let (text, settings) = made(&format!("server a\nrefclock SHM 0 {option}"));
        assert_eq!(settings.engine.refclocks.len(), 1, "{option}: {text}");
        assert!(text.contains(&format!("{}: ", option.split(' ').next().unwrap())), "{text}");
    }
    has("refclock PPS /dev/pps0 tai", &["tai: a pulse has its seconds"]);
    has("refclock PPS /dev/pps0 lock", &["lock: no option that stands alone"]);
    has("refclock SHM 0 bogus prefer", &["bogus: no option that stands alone", "prefer = true"]);
    has("refclock PPS /dev/pps0 delay 1", &["delay: every edge is taken"]);
    has("server b minpoll x", &["minpoll: must be a power"]);
    has("maxslewrate 100\nleapsecmode slew", &["leapsecmode slew", "maxslewrate 100"]);
}

#[test]
fn numbers_of_the_same_meaning_are_carried_over() {
    let (text, settings) = made(
        "maxclockerror 2\nminsources 3\nmaxchange 1000 1 2\nleapseclist /usr/share/leap\nmakestep 0.1 3\nserver a\n",
    );
    assert_eq!(settings.engine.min_sources, Some(3));
    assert_eq!(settings.engine.max_wander.as_ppt(), 2_000_000);
    assert!(!settings.engine.discipline && text.contains("# discipline = true"));
    has("makestep 1 -1", &["step = \"always\"\nstep-above = \"1s\""]);
    for (seconds, unit) in
        [("0.1", "100ms"), ("1.5", "1500ms"), ("0.00025", "250us"), ("0", "10us")]
    {
        has(&format!("makestep {seconds} 3"), &[&format!("step-above = \"{unit}\"")]);
    }
    let (text, settings) = made("minsources 2\nlock_all\nlock_all\nminsources 3");
    assert!(settings.lock_memory, "{text}");
    assert_eq!(settings.engine.min_sources, Some(3), "the last one counts");
    assert!(text.contains("# c:1: minsources 2\n#     a later line counts"), "{text}");
    for wrong in ["2.5", "0", "1001", "nan", "-1"] {
        let (text, settings) = made(&format!("server a\nminsources {wrong}"));
        assert_eq!(settings.engine.min_sources, None, "{wrong}");
        assert!(text.contains("min-sources: must be a whole number, 1 to 1000"), "{text}");
    }
    has("maxclockerror 200", &["max-wander-ppm: must be 0.001 to 100"]);
    has("sched_priority 1", &["RestrictRealtime=yes"]);
    has("dscp 46\nntsprocesses 2", &["without a class (DSCP 0)", "has --threads"]);
    has("makestep 1", &["makestep has two numbers"]);
    has("maxchange 0.1 1 -1", &["max-step: must be 1s to 7d"]);
}

#[test]
fn serving_is_a_command() {
    let text = "allow 192.168.5.9/24\nallow 10.1\ndeny 10.1.2.3\nallow 2001:db8::1/32\nallow all 1.2.3.4\nallow a.b";
    has(
        text,
        &[
            "#   truechimer serve --allow 192.168.5.0/24 --allow 10.1.0.0/16 --deny 10.1.2.3/32 \
             --allow 2001:db8::/32 --allow 1.2.3.4/32\n",
            "takes addresses and prefixes, no names",
        ],
    );
    has("allow", &["--allow 0.0.0.0/0 --allow ::/0"]);
    let (text, _) = made("allow\nport 0\nntsservercert /c");
    assert!(!text.contains("truechimer serve -") && text.contains("serves nobody"), "{text}");
    has("port 0\nport 1123\nallow 10.1", &["#   truechimer serve --allow 10.1.0.0/16"]);
}

/// `port` of chronyd is a part of `--listen`.
#[test]
fn a_port_goes_to_where_servers_listen() {
    has(
        "port 1123\nallow 10.1",
        &["serve --allow 10.1.0.0/16 --listen 0.0.0.0:1123 --listen [::]:1123\n"],
    );
    let both = "port 11\nallow\nbindaddress 192.0.2.1\nbindaddress 2001:db8::1";
    has(both, &["--listen 192.0.2.1:11 --listen [2001:db8::1]:11\n"]);
    has("port 123\nallow 10.1\nbindaddress 192.0.2.1", &["--listen 192.0.2.1\n"]);
    has("port 123\nallow 10.1", &["serve --allow 10.1.0.0/16\n"]);
    has(
        "port 1123",
        &["# c:1: port 1123\n#     says where servers listen, and nobody is served\n"],
    );
    has("port x", &["must be 0 to 65535"]);
}

/// `truechimer run` knows such a file by its directives.
#[test]
fn directives_are_known_to_who_is_given_chronys_file() {
    let unknown: Vec<_> = directives::names()
        .filter(|name| !truechimer_daemon::config::is_directive_of_chrony(name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn nothing_of_a_file_gets_out_of_its_comment() {
    has("servr a", &["c:1: servr a\n#     no directive of chrony's is known here by that name"]);
    has("server \"x\\\u{1b}[2J iburst", &["# c:1: server \"x\\?[2J iburst"]);
    let (text, settings) =
        made("server a\u{7}b\nserver\nrefclock PPS /dev/\"p\nuser \u{1b}]0;x\u{7}");
    assert!(settings.engine.sources.is_empty());
    assert!(!text.contains(['\u{1b}', '\u{7}']));
}

/// Debian's chrony.conf names such a folder.
#[test]
fn a_folder_of_sources_does_not_vanish() {
    has(
        "sourcedir /run/chrony-dhcp",
        &[
            "Not carried over:\n# c:1: sourcedir /run/chrony-dhcp\n",
            "is for source-dir, whose files have [[source]]",
        ],
    );
    let mut found = Found::default();
    let mut line = files::parse("sourcedir /etc/chrony/sources.d", "c").remove(0);
    line.read = 2;
    directives::take(&line, &mut found);
    let text = found.text(Path::new("-"));
    assert!(text.starts_with("# Made from standard input by"), "{text}");
    let told = "not quite the same here:\n# c:1: sourcedir /etc/chrony/sources.d\n#     2 files were read, once";
    assert!(text.contains(told) && !text.contains("Not carried"), "{text}");
}

#[test]
fn included_files_are_read_in_order_and_never_for_ever() {
    let folder = std::env::temp_dir().join(format!("truechimer-import-{}", std::process::id()));
    let sources = folder.join("sources");
    std::fs::create_dir_all(&sources).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let path = folder.display();
    write(
        "chrony.conf",
        &format!(
            "server a\ninclude {path}/more*.conf\nsourcedir /run/chrony-dhcp {path}/sources {path}/none\nserver z"
        ),
    );
    write("more1.conf", "! a comment\nserver b");
    write("more2.conf", "SERVER c");
    write("sources/x.sources", "pool d");
    write("sources/y.conf", "server not");
    let lines = files::read(&folder.join("chrony.conf")).unwrap();
    let hosts: Vec<_> = lines.iter().map(|line| line.rest()[0].as_str()).collect();
    assert_eq!(hosts, ["a", "b", "c", "/run/chrony-dhcp", "d", "z"]);
    assert_eq!(lines[1].place, format!("{path}/more1.conf:2"));
    assert_eq!(lines[3].read, 1);
    write("chrony.conf", &format!("include {path}/chrony.conf"));
    let why = files::read(&folder.join("chrony.conf")).unwrap_err();
    assert!(why.contains("included more than 10 times over"), "{why}");
    write("chrony.conf", "include /no/such/file");
    let why = files::read(&folder.join("chrony.conf")).unwrap_err();
    assert!(why.starts_with("/no/such/file: "), "{why}");
    assert!(why.ends_with(&format!("({path}/chrony.conf:1 asks for it)")), "{why}");
    std::fs::write(folder.join("chrony.conf"), [0xff]).unwrap();
    assert!(files::read(&folder.join("chrony.conf")).unwrap_err().contains("UTF-8"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn proof_and_trust_are_carried_over() {
    use truechimer_engine::AuthenticationMode::{Ignore, Mix, Require};
    for (mode, wanted) in
        [("require", Require), ("prefer", Require), ("MIX", Mix), ("ignore", Ignore)]
    {
        let (text, settings) = made(&format!(
            "authselectmode {mode}\nserver a nts require\nserver b trust prefer\nrefclock PPS /dev/pps0 prefer"
        ));
        assert_eq!(settings.engine.authentication, wanted, "{text}");
        let found: Vec<_> = settings
            .engine
            .sources
            .iter()
            .map(|s| (s.is_authenticated(), s.trust, s.prefer, s.require))
            .collect();
        assert_eq!(found, [(true, false, false, true), (false, true, true, false)], "{text}");
        assert!(settings.engine.refclocks[0].prefer && !settings.engine.refclocks[0].require);
    }
    let (text, settings) = made("server a\nauthselectmode never");
    assert_eq!(settings.engine.authentication, Mix);
    assert!(text.contains("must be require, prefer, mix or ignore"), "{text}");
}
