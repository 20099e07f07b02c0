use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use truechimer_engine::{
    Engine, HostCheck, Level, RefClockConfig, Shown, SourceConfig, SourceId, SourceStatus,
};
use truechimer_estimators::{Kind, OURS, PUBLISHED, TABLE};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{
    BootId, CountSpan, CounterId, CounterKind, Epoch, Leaps, Period, Stamp, StampMethod,
};
use truechimer_timehands::Status;

const SECOND: u64 = 1_000_000_000;

fn start() -> Start {
    Start::new(
        Count(5 * SECOND),
        CounterId { kind: CounterKind::Simulated, boot: BootId([3; 16]), epoch: Epoch(1) },
        Period::NANOSECOND,
        [9; 32],
    )
}

fn server_time(count: u64) -> Timestamp {
    let frac = ((u128::from(count % SECOND) << 64) / u128::from(SECOND)) as u64;
    Timestamp::from_unix(1_800_000_000 + (count / SECOND) as i64, frac)
}

/// An engine, its log, and what it wants done.
struct Bench {
    engine: Engine,
    log: Log<Vec<u8>>,
    wanted: VecDeque<Action>,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let log = Log::begin(Vec::new(), &start(), &config).unwrap();
        let (engine, actions) = Engine::new(config, start());
        let mut bench = Bench { engine, log, wanted: VecDeque::new() };
        bench.want(actions);
        bench
    }

    fn feed(&mut self, now: u64, event: Event) {
        self.log.event(Count(now), &event);
        let actions = self.engine.handle(Count(now), event);
        self.want(actions);
    }

    fn want(&mut self, actions: Vec<Action>) {
        actions.iter().for_each(|action| self.log.action(action));
        self.wanted.extend(actions);
    }
}

/// The answer of a server 0.2 ms away, at count `back`.
fn reply(source: SourceId, to: SocketAddr, packet: &[u8], sent: u64, back: u64) -> Event {
    let state = ServerState {
        leap: LeapIndicator::None,
        stratum: 1,
        precision: Log2(-24),
        root_delay: Short(0),
        root_dispersion: Short(1),
        reference_id: RefId(*b"GPS\0"),
        reference_timestamp: Timestamp::UNKNOWN,
    };
    let stamp =
        |count| Stamp { count: Count(count), error: CountSpan(20), method: StampMethod::Kernel };
    let (there, left) = (server_time(sent + 200_000), server_time(back - 200_000));
    let packet = respond(packet, there, left, &state).unwrap().to_vec();
    Event::Reply { source, from: to, sent: stamp(sent), received: stamp(back), packet }
}

fn config(hosts: &[&str], poll: u32) -> Config {
    let source = |host: &&str| SourceConfig { poll, ..SourceConfig::new(*host) };
    Config { sources: hosts.iter().map(source).collect(), ..Config::default() }
}

/// The log of a daemon that follows a server for half a minute, in virtual time.
fn log() -> String {
    log_of(35, 0..0, Vec::new())
}

/// The log of a daemon until second `end`, with no replies within `silent`, and with these further
/// events.
fn log_of(end: u64, silent: Range<u64>, events: Vec<(u64, Event)>) -> String {
    let mut events = VecDeque::from(events);
    let mut bench = Bench::new(config(&["192.0.2.1"], 16));
    let mut now = start().at.0;
    let mut checked = now;
    let check = |count| HostCheck {
        count: Count(count),
        raw_ns: count as i64,
        suspended_ns: 0,
        width: CountSpan(300),
    };
    while now < end * SECOND {
        match bench.wanted.pop_front() {
            Some(Action::Resolve { source, host, port, .. }) => {
                let result = Ok(vec![(host.parse::<std::net::IpAddr>().unwrap(), port).into()]);
                bench.feed(now, Event::Resolved { source, result });
            }
            Some(Action::Send { source, to, packet, .. }) => {
                if silent.contains(&(now / SECOND)) {
                    continue;
                }
                let back = now + 400_000 + now % 7_000;
                bench.feed(back + 30_000, reply(source, to, &packet, now, back));
                now = back + 30_000;
            }
            Some(_) => {}
            None => {
                let due = bench.engine.next_deadline().unwrap().0.max(now + 1);
                now = due.min(checked + SECOND);
                if now == checked + SECOND {
                    checked = now;
                    bench.feed(now, Event::Check(check(now)));
                }
                if events.front().is_some_and(|(at, _)| now >= at * SECOND) {
                    bench.feed(now, events.pop_front().unwrap().1);
                }
                bench.feed(now, Event::Timer);
            }
        }
    }
    assert!(events.is_empty());
    bench.log.flush();
    String::from_utf8(bench.log.out.unwrap().into_inner().unwrap()).unwrap()
}

/// A reload that adds a server and polls faster, a disruption, and an outage.
fn eventful_log() -> String {
    let reload = Event::Configure(config(&["192.0.2.1", "192.0.2.2"], 4));
    let disruption = Event::Disruption { reason: "the machine moved".into() };
    log_of(240, 120..180, vec![(40, reload), (70, disruption)])
}

/// By another estimator than the log's.
fn by(kind: Kind) -> Options {
    Options { method: Some(kind.method()) }
}

fn happens(log: &str, options: Options) -> (Summary, Vec<Happened>) {
    let mut all = Vec::new();
    let summary = repeat(log.as_bytes(), options, &mut |happened| {
        all.push(happened.clone());
        Ok(())
    });
    (summary.unwrap(), all)
}

fn replies(all: &[Happened]) -> Vec<(&Happened, &Heard)> {
    let reply = |h| match h {
        &Happened { what: What::Reply(ref heard), .. } => Some((h, &**heard)),
        _ => None,
    };
    all.iter().filter_map(reply).collect()
}

#[test]
fn what_happens_is_told_in_order() {
    let log = eventful_log();
    let (summary, all) = happens(&log, Options::default());
    let lines: Vec<&str> = log.lines().collect();
    assert!(all.is_sorted_by_key(|happened| happened.line));
    assert_eq!((summary.reloads, summary.disruptions, summary.unmatched), (1, 1, 0));
    assert!(summary.holdovers >= 1 && !summary.truncated, "{summary:?}");
    let plain = verify(log.as_bytes()).unwrap();
    assert_eq!(
        (plain.events, plain.hands, plain.actions),
        (summary.events, summary.hands, summary.actions)
    );

    let heard = replies(&all);
    assert_eq!(heard.len() as u64, summary.used + summary.refused.values().sum::<u64>());
    assert_eq!(heard.len(), lines.iter().filter(|line| line.contains("\"reply\":")).count());
    for (happened, heard) in &heard {
        assert!(lines[happened.line as usize - 1].contains("\"reply\":"));
        assert_eq!((&heard.refused, happened.logged), (&None, None));
        // Half of the difference between the ways, which is at most what they take.
        let naive = heard.naive_offset().unwrap();
        assert!(naive.abs() <= heard.rtt.unwrap(), "{naive} {heard:?}");
        assert!(["192.0.2.1:123", "192.0.2.2:123"].contains(&heard.source.as_str()));
        // The truth: server_time(), of which the stamps are 0.2 ms from either end.
        let (time, utc) = happened.time.unwrap();
        let truth = server_time(happened.count.0).to_instant(1_800_000_000, &Leaps::default());
        assert_eq!((utc.unix, utc.frac), (time.secs(), time.frac()));
        if let Some(bound) = happened.bound {
            assert!((time - truth).abs() <= bound, "{happened:?}");
        }
        assert!(heard.floor.unwrap() <= heard.rtt.unwrap() + truechimer_time::Span::from_nanos(1));
        assert!(heard.bound.is_some() && heard.deviation.is_some() && heard.offset.is_some());
    }
    let position = |wanted: &dyn Fn(&Happened) -> bool| all.iter().position(wanted).unwrap();
    let reload = position(&|h| h.what == What::Reload { sources: 2 });
    let moved = position(
        &|h| matches!(&h.what, What::Note { level: Level::Warning, text } if text.contains("the machine moved")),
    );
    let disrupted = position(&|h| h.what == What::Disruption);
    let outage =
        position(&|h| h.status == Status::Holdover && matches!(h.what, What::Status { .. }));
    let back = all.iter().rposition(|h| matches!(h.what, What::Status { from: Status::Holdover }));
    assert!(reload < moved && moved < disrupted && disrupted < outage);
    assert!(back.unwrap() > outage && all[back.unwrap()].status == Status::Synchronised);
    assert_eq!((all[disrupted].status, all[disrupted].bound), (Status::Disrupted, None));
    assert!(lines[all[reload].line as usize - 1].contains("\"configure\":"));
}

/// The log of a daemon that is given a pulse at second 8 and loses its server at 20.
fn log_with_a_pulse() -> String {
    let with = Config {
        refclocks: vec![RefClockConfig::pulse("/dev/pps0")],
        ..config(&["192.0.2.1"], 16)
    };
    let edge = |second: u64| {
        let stamp = Stamp {
            count: Count(second * SECOND + 3_000),
            error: CountSpan(20),
            method: StampMethod::Kernel,
        };
        // One in ten was on no pair.
        let stamp = if second.is_multiple_of(10) { Err("no pairs".into()) } else { Ok(stamp) };
        let shown = Shown::PULSE;
        (second + 1, Event::Sample { source: SourceId(1), sequence: second, stamp, shown })
    };
    let mut events = vec![(8, Event::Configure(with))];
    events.extend((9..60).map(edge));
    let failed = Event::RefClockFailed { source: SourceId(1), error: "gone".into() };
    events.push((61, failed));
    log_of(70, 20..70, events)
}

#[test]
fn a_pulse_repeats_like_a_server() {
    let log = log_with_a_pulse();
    assert!(log.starts_with("{\"truechimer-replay\":14,") && log.contains("\"watch\":"));
    let (summary, all) = happens(&log, Options::default());
    assert_eq!(summary.refused.get("no-stamp"), Some(&5), "{summary:?}");
    let edges: Vec<_> =
        replies(&all).into_iter().filter(|(_, heard)| heard.source == "/dev/pps0").collect();
    assert_eq!(edges.len(), 51);
    let (happened, last) = edges.last().unwrap();
    assert_eq!(last.status, SourceStatus::Selected);
    assert_eq!(last.rtt, Some(truechimer_engine::DEFAULT_LATENCY));
    assert_eq!(happened.count, Count(59 * SECOND + 3_000));
    let truth = server_time(happened.count.0).to_instant(1_800_000_000, &Leaps::default());
    let ahead = happened.time.unwrap().0 - truth;
    assert!(ahead.abs() <= truechimer_time::Span::from_micros(5), "{ahead}");
    assert_eq!(happened.status, Status::Synchronised);
    // To the last bit, and with another estimator at least to the end.
    assert_eq!(verify(log.as_bytes()).unwrap().events, summary.events);
    let other = log.replacen("\"sequence\":41", "\"sequence\":40", 1);
    assert!(matches!(verify(other.as_bytes()), Err(ReplayError::Differs { .. })));
    for kind in &TABLE[1..] {
        let (summary, _) = happens(&log, by(*kind));
        let refused = summary.refused.get("estimator").copied().unwrap_or(0);
        assert_eq!(refused > 40, *kind == PUBLISHED, "{summary:?}");
    }
}

#[test]
fn logs_of_before_there_were_pulses_are_read() {
    let new = log();
    let old = new.replacen("{\"truechimer-replay\":14,", "{\"truechimer-replay\":3,", 1);
    assert!(old != new && !old.contains("pps"), "without a pulse nothing else is new");
    assert_eq!(verify(old.as_bytes()).unwrap(), verify(new.as_bytes()).unwrap());
}

/// The beginnings of logs that earlier versions wrote: all that happened in them is read, and where
/// that leads to other decisions by now, the error says what to do.
#[test]
fn logs_of_earlier_versions_are_read_or_say_what_to_do() {
    for (format, log) in [
        (3, include_str!("old/format-3.log")),
        (4, include_str!("old/format-4.log")),
        (5, include_str!("old/format-5.log")),
    ] {
        let (summary, _) = happens(log, by(OURS));
        let events = log.lines().filter(|line| line.starts_with("{\"at\":")).count() as u64;
        assert!(events >= 8 && summary.events == events && summary.used > 0, "{summary:?}");
        let error = verify(log.as_bytes()).unwrap_err();
        let ReplayError::Differs { writer: Some(writer), .. } = &error else { panic!("{error}") };
        assert_eq!(*writer, Writer { version: "0.1.0".into(), format });
        assert!(error.to_string().contains("repeat it with that version, or leave"), "{error}");
    }
}

#[test]
fn logs_of_before_there_were_other_reference_clocks_are_read() {
    let new = log_with_a_pulse();
    let words = [
        ("{\"truechimer-replay\":14,", "{\"truechimer-replay\":6,"),
        ("\"sample\":{", "\"edge\":{"),
        (",\"shown\":{\"unix_ns\":0,\"pulse\":true,\"error\":0,\"leap\":0}", ""),
        ("\"ref-clock-failed\":", "\"pps-failed\":"),
        ("\"refclocks\":[{\"kind\":\"pulse\",", "\"pps\":[{"),
        (
            "\"error\":184467440737096,\"offset\":0,\"poll\":1,\"scale\":\"utc\"}",
            "\"latency\":184467440737096,\"offset\":0}",
        ),
        ("\"kind\":\"pulse\",\"path\":\"/dev/pps0\",\"poll\":1}", "\"path\":\"/dev/pps0\"}"),
    ];
    let mut old = new.clone();
    for (now, then) in words {
        assert!(old.contains(now), "{now}");
        old = old.replace(now, then);
    }
    assert!(!old.contains("refclock") && !old.contains("\"sample\""));
    assert_eq!(verify(old.as_bytes()).unwrap(), verify(new.as_bytes()).unwrap());
}

#[test]
fn logs_of_before_hands_had_two_sides_are_read() {
    let new = log();
    let mut old = new.replacen("{\"truechimer-replay\":14,", "{\"truechimer-replay\":5,", 1);
    while let Some(at) = old.find("\"imbalance\":") {
        let end = at + old[at..].find(',').unwrap() + 1;
        old.replace_range(at..end, "");
    }
    assert!(!old.contains("imbalance") && new.contains("\"imbalance\":"));
    assert_eq!(verify(old.as_bytes()).unwrap(), verify(new.as_bytes()).unwrap());
    let claimed = old.replacen("{\"truechimer-replay\":5,", "{\"truechimer-replay\":14,", 1);
    assert!(verify(claimed.as_bytes()).is_err(), "a log of now has them");
}

#[test]
fn logs_that_name_the_estimator_are_read() {
    let new = log();
    let old = new.replacen("\"max_wander\":", "\"estimator\":\"ours\",\"max_wander\":", 1);
    assert!(old != new);
    assert_eq!(verify(old.as_bytes()).unwrap(), verify(new.as_bytes()).unwrap());
}

#[test]
fn another_estimator_gets_the_same_replies() {
    let log = eventful_log();
    let (own, _) = happens(&log, Options::default());
    for kind in TABLE {
        let (summary, all) = happens(&log, by(*kind));
        assert_eq!((summary.estimator.as_deref(), summary.events), (Some(kind.name()), own.events));
        assert_eq!(summary.unmatched, 0, "{summary:?}");
        assert_eq!(replies(&all).len() as u64, own.used);
        assert!(all.is_sorted_by_key(|happened| happened.line));
        let compared: Vec<_> = all.iter().filter_map(Happened::ahead_of_logged).collect();
        assert!(compared.len() as u64 > own.used / 2, "{kind:?}: {}", compared.len());
        // The log's own estimator, which is ours, says what is logged; others do not, but are near.
        let same = compared.iter().filter(|ahead| **ahead == truechimer_time::Span::ZERO).count();
        assert_eq!(same == compared.len(), *kind == OURS, "{kind:?}");
        let near = truechimer_time::Span::from_millis(1);
        assert!(compared.iter().all(|ahead| ahead.abs() < near), "{kind:?} {compared:?}");
        assert_eq!((summary.reloads, summary.disruptions), (1, 1));
    }
    // Decisions that are not the engine's are nobody's concern then.
    let other = log.replacen("\"status\":\"synchronised\"", "\"status\":\"unknown\"", 1);
    assert!(verify(other.as_bytes()).is_err());
    assert_eq!(happens(&other, by(OURS)).0.unmatched, 0);
}

#[test]
fn what_was_found_before_an_error_is_passed_on() {
    let log = log() + "garbage\n";
    for options in [Options::default(), by(OURS)] {
        let mut told = 0;
        let done = repeat(log.as_bytes(), options, &mut |happened| {
            told += u64::from(matches!(happened.what, What::Reply(_)));
            Ok(())
        });
        assert!(matches!(done, Err(ReplayError::Line { column: Some(1), .. })), "{done:?}");
        assert_eq!(told, log.matches("\"reply\":").count() as u64);
    }
}

#[test]
fn replies_that_no_longer_match_are_counted() {
    let log = log();
    let asked = |line: &&str| line.contains("\"send\":");
    let last = log.lines().rfind(asked).unwrap();
    // Another request in the log than the engine's: its reply is the log's affair.
    let at = last.rfind(']').unwrap();
    let digit = last[..at].rfind(',').unwrap();
    let other = format!(
        "{},{}{}",
        &last[..digit],
        if last[digit..at] == *",7" { "8" } else { "7" },
        &last[at..]
    );
    let summary = happens(&log.replace(last, &other), by(OURS)).0;
    assert_eq!(summary.unmatched, 1, "{summary:?}");
}

#[test]
fn whoever_takes_it_may_stop() {
    let full = |_: &Happened| Err(io::Error::from(io::ErrorKind::BrokenPipe));
    let error = repeat(log().as_bytes(), Options::default(), &mut { full }).unwrap_err();
    assert!(matches!(&error, ReplayError::Output(_)), "{error:?}");
}

#[test]
fn every_decision_is_repeated() {
    let summary = verify(log().as_bytes()).unwrap();
    assert_eq!((summary.version.as_str(), summary.truncated), (VERSION, false));
    assert!(summary.hands > 8 && summary.actions > 2 * summary.hands, "{summary:?}");
    assert!(summary.events > 20, "{summary:?}");
}

#[test]
fn the_first_line_that_differs_is_named() {
    let log = log();
    let hand = log
        .lines()
        .position(|line| line.starts_with("{\"hand\":") && line.contains("synchronised"));
    let hand = hand.unwrap();
    let altered: Vec<String> =
        log.lines()
            .enumerate()
            .map(|(i, line)| {
                if i == hand {
                    line.replacen("\"base\":", "\"base\":1", 1)
                } else {
                    line.to_owned()
                }
            })
            .collect();
    let error = verify((altered.join("\n") + "\n").as_bytes()).unwrap_err();
    assert!(
        matches!(&error, ReplayError::Differs { line, field, writer: None, .. }
            if *line == hand as u64 + 1 && field == "hand.base"),
        "{error}"
    );
    // Both values, and no more than a line of text, in the log's own terms.
    let base = |line: &str| {
        let at = line.find("\"base\":").unwrap() + 7;
        line[at..].chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let (logged, decided) = (base(&altered[hand]), base(log.lines().nth(hand).unwrap()));
    let said = format!("line {}: hand.base differs: logged {logged}, decided {decided}", hand + 1);
    assert_eq!(error.to_string(), said);
    let other = format!("\"version\":\"{}\"", VERSION);
    let other = (altered.join("\n") + "\n").replace(&other, "\"version\":\"0.0.1\"");
    let error = verify(other.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{said}; version 0.0.1 (format 14) wrote the log, and this one, {} (format 14), may decide \
             otherwise: repeat it with that version, or leave its decisions aside (--estimator)",
            VERSION
        )
    );
    // One decision fewer, one more.
    let without: Vec<&str> =
        log.lines().enumerate().filter(|(i, _)| *i != hand).map(|(_, line)| line).collect();
    assert!(matches!(
        verify((without.join("\n") + "\n").as_bytes()),
        Err(ReplayError::Differs { .. })
    ));
    let last_hand = log.lines().rfind(|line| line.starts_with("{\"hand\":")).unwrap();
    let more = format!("{log}{last_hand}\n{last_hand}\n");
    assert!(matches!(verify(more.as_bytes()), Err(ReplayError::Differs { .. })));
}

#[test]
fn a_log_may_break_off_anywhere_after_its_first_line() {
    let log = log();
    let first = log.find('\n').unwrap() + 1;
    for end in (first..log.len()).step_by(997).chain([first, log.len() - 1]) {
        let summary = verify(log.get(..end).unwrap().as_bytes()).unwrap();
        assert!(summary.truncated || log.as_bytes()[end - 1] == b'\n', "{end}");
    }
}

#[test]
fn what_is_no_log_is_refused() {
    let log = log();
    let with = |line: &str| format!("{log}{line}\n");
    for (text, part) in [
        (String::new(), "it is empty"),
        ("{}\n".into(), "missing field"),
        (
            "{\"truechimer-replay\":1,\"version\":\"9\"}\n".into(),
            "its format is 1, known are 3 to 14: repeat it with version \"9\", which wrote it",
        ),
        (with("{}"), "neither an event nor a decision"),
        (with("x"), "column 1: expected value"),
        ("{\"truechimer-replay\":true}\n".into(), "line 1, column 25: invalid type: boolean"),
        (with("{\"at\":1}"), "neither an event nor a decision"),
        (with("{\"extra\":1}"), "unknown field `extra`"),
    ] {
        let error = verify(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        // One line number is enough.
        assert!(error.matches("line").count() <= 1, "{error}");
    }
    let abnormal = log.replace(&start().nominal.mantissa().to_string(), "5");
    assert!(verify(abnormal.as_bytes()).unwrap_err().to_string().contains("mantissa"));
    assert!(verify(&b"\xff\xfe\n"[..]).is_err());
}

#[test]
fn an_older_log_is_kept() {
    let dir = std::env::temp_dir().join(format!("truechimer-replay-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("log");
    let config = Config::default();
    drop(Log::create(&path, &start(), &config).unwrap());
    let first = std::fs::read(&path).unwrap();
    drop(Log::create(&path, &Start { at: Count(77), ..start() }, &config).unwrap());
    assert_eq!(std::fs::read(dir.join("log.old")).unwrap(), first);
    assert_ne!(std::fs::read(&path).unwrap(), first);
    // Where others can put a link in its place, that is not written through.
    let open = dir.join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(&path, open.join("log")).unwrap();
    let second = std::fs::read(&path).unwrap();
    let why = Log::create(&open.join("log"), &start(), &config).unwrap_err().to_string();
    assert!(why.contains("symbolic link"), "{why}");
    assert_eq!(std::fs::read(&path).unwrap(), second);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_disk_that_fills_up_ends_the_log_and_nothing_else() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(Log::begin(Full(100), &start(), &Config::default()).is_err());
    let mut log = Log::begin(Full(2_000), &start(), &Config::default()).unwrap();
    for _ in 0..100 {
        log.event(Count(1), &Event::Timer);
        log.flush();
    }
    assert_eq!(log.trouble().unwrap().kind(), io::ErrorKind::StorageFull);
    assert!(log.trouble().is_none());
    assert!(Log::create(Path::new("/dev/full"), &start(), &Config::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_line_panics(line in "\\{\"(at|event|hand|action)\":(-?[0-9]{1,20}|\"timer\"|\\{.{0,30}\\})\\}|.{0,60}") {
        let log = format!(
            "{}\n{}\n{line}\n",
            serde_json::to_string(&Header { format: FORMAT, version: "0".into() }).unwrap(),
            serde_json::to_string(&Beginning { start: start(), config: Config::default() }).unwrap(),
        );
        let _ = verify(log.as_bytes());
        let _ = repeat(log.as_bytes(), by(OURS), &mut |_| Ok(()));
    }
}
