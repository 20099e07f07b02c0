//! Intervals and events as they come of hands, and a disk that takes none of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use truechimer_counter::Choice;
use truechimer_engine::{
    Asymmetry, AuthenticationMode, Config, Reason, RefClockConfig, SourceConfig, SourceKind,
};
use truechimer_time::{BootId, CounterId, CounterKind, Epoch, Instant, Rate};

use super::*;

/// Unix time at count 0, s.
const ZERO: i64 = 1_795_737_600;

fn at(second: u64) -> Count {
    Count(second * 1_000_000_000)
}

/// A hand made at this second that is good for 1000 s; its bound is 10 µs and grows by 1 µs a
/// second.
fn hand(second: u64, status: Status) -> Hand {
    Hand {
        difference_error: Rate::from_ppb(20),
        path_bound: Span::from_micros(10),
        growth: Rate::from_ppb(1_000),
        status,
        leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
        ..Hand::exact(
            CounterId { kind: CounterKind::Raw, boot: BootId([1; 16]), epoch: Epoch(0) },
            at(second),
            Instant::new(ZERO + 37 + second.cast_signed(), 0),
            Period::NANOSECOND,
            at(second + 1000),
        )
    }
}

fn audit(directory: &str) -> Audit {
    let directory = std::env::temp_dir().join(format!("{directory}-{}", std::process::id()));
    let wanted = Wanted { directory, interval: Span::from_secs(60), max_mb: 1 };
    let counter = Counter::open(Choice::Raw).unwrap();
    let mut audit = Audit::new(wanted, counter, Period::NANOSECOND);
    audit.since = (at(0), Time(ZERO * 1_000_000_000), true);
    audit.checked = at(0);
    // Most do without the looks of every second.
    audit.patience = CountSpan(i64::MAX / 4);
    audit.turns.1 = at(0);
    audit
}

/// Seconds of begin and end, status and bound, µs, of the intervals so far.
fn intervals(audit: &Audit) -> Vec<(i64, i64, &str, Option<u64>)> {
    let each = audit.pending.iter().filter_map(|line| match line {
        Line::Interval(i) => {
            // To the nearest: a span of counts is rounded.
            let second = |ns: i64| (ns + 500_000_000).div_euclid(1_000_000_000) - ZERO;
            Some((
                second(i.to.0 - i.for_ns),
                second(i.to.0),
                i.status.as_str(),
                i.bound_ns.map(|ns| ns / 1000),
            ))
        }
        _ => None,
    });
    each.collect()
}

fn texts(audit: &Audit) -> Vec<String> {
    let each = audit.pending.iter().filter_map(|line| match line {
        Line::Event(event) => Some(format!("{}: {}", event.kind.name(), event.text)),
        _ => None,
    });
    each.collect()
}

#[test]
fn the_worst_bound_of_an_interval_counts() {
    let mut audit = audit("truechimer-audit-worst");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    // 40 s without news, and a better hand; then looks, and the end of the interval.
    audit.publish(&hand(40, Status::Synchronised), at(40));
    for second in [41, 61, 62, 125] {
        audit.look(at(second));
    }
    let of = intervals(&audit);
    assert_eq!(of, [(0, 61, "synchronised", Some(50)), (61, 125, "synchronised", Some(95))]);
}

#[test]
fn an_interval_ends_where_the_bound_ends_and_where_it_begins() {
    let mut audit = audit("truechimer-audit-ends");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    audit.look(at(30));
    audit.publish(&hand(30, Status::Unknown), at(30));
    assert_eq!(intervals(&audit), [(0, 30, "synchronised", Some(40))]);
    audit.publish(&hand(50, Status::Synchronised), at(50));
    audit.look(at(111));
    let of = intervals(&audit);
    assert_eq!(of[1], (30, 50, "unknown", None));
    assert_eq!(of[2], (50, 111, "synchronised", Some(71)));
    // Nobody looks for longer than the hand is good: stopped, say.
    audit.look(at(1100));
    assert_eq!(intervals(&audit)[3], (111, 1050, "synchronised", Some(1_010)));
}

#[test]
fn after_a_break_nothing_holds_since_the_last_look() {
    let mut audit = audit("truechimer-audit-break");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    audit.look(at(20));
    audit.publish(&hand(20, Status::Synchronised), at(20));
    // The counter jumped by a day meanwhile.
    let broken = hand(86_400, Status::Disrupted);
    let counter = CounterId { epoch: Epoch(1), ..broken.counter };
    audit.note(at(86_400), Status::Disrupted, Level::Warning, "disrupted: a jump");
    audit.publish(&Hand { counter, ..broken }, at(86_400));
    assert!(audit.announce(at(86_400), || panic!("it was told")));
    assert_eq!(intervals(&audit), [(0, 20, "synchronised", Some(30))]);
    assert!(!audit.holds(at(86_401)));
    assert_eq!(texts(&audit).last().unwrap(), "disruption: disrupted: a jump (was unknown)");
}

#[test]
fn a_status_is_told_once_and_notes_are_not_without_end() {
    let mut audit = audit("truechimer-audit-notes");
    let status = Status::Synchronised;
    audit.note(at(0), status, Level::Info, "synchronised: following a");
    audit.publish(&hand(0, status), at(0));
    assert!(audit.announce(at(0), || panic!("it was told")));
    assert!(!audit.announce(at(0), || panic!("it is none")));
    audit.publish(&hand(1, Status::Holdover), at(1));
    assert!(audit.announce(at(1), || "no reply".into()));
    let told = texts(&audit);
    assert_eq!(told[1], "status: synchronised: following a (was unknown)");
    assert_eq!(told.last().unwrap(), "status: holdover: no reply (was synchronised)");
    let before = told.len();
    for _ in 0..1000 {
        audit.note(at(2), Status::Holdover, Level::Warning, &"x".repeat(5000));
    }
    audit.look(at(70));
    let told = texts(&audit);
    assert_eq!(told.len(), before + 60 + 1);
    assert!(told[before].chars().count() < 1100);
    assert_eq!(told.last().unwrap(), "log: 940 more lines of the log are not in the record");
}

#[test]
fn an_announcement_that_comes_to_nothing_is_a_line_of_the_log() {
    let mut audit = audit("truechimer-audit-vain");
    let status = Status::Synchronised;
    audit.note(at(0), status, Level::Info, "synchronised: following a");
    audit.note(at(0), status, Level::Warning, "synchronised: following b");
    assert_eq!(texts(&audit), ["log: synchronised: following a"]);
    assert!(!audit.announce(at(0), || panic!("it is none")));
    assert_eq!(texts(&audit).last().unwrap(), "warning: synchronised: following b");
    audit.note(at(1), status, Level::Info, "synchronised: following c");
    audit.publish(&hand(1, Status::Holdover), at(1));
    assert!(audit.announce(at(1), || "no reply".into()));
    let told = texts(&audit);
    let last = ["log: synchronised: following c", "status: holdover: no reply (was unknown)"];
    assert_eq!(told[told.len() - 2..], last);
    audit.note(at(2), Status::Disrupted, Level::Warning, "disrupted: a jump");
    audit.finish(at(2));
    assert!(texts(&audit).contains(&"warning: disrupted: a jump".to_owned()));
}

#[test]
fn a_hand_that_ran_out_is_another_status() {
    let mut audit = audit("truechimer-audit-out");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    assert!(audit.announce(at(0), || "a".into()));
    audit.look(at(999));
    assert!(!audit.announce(at(999), || panic!("it holds")));
    audit.look(at(1001));
    assert!(audit.announce(at(1001), || "b".into()));
    assert_eq!(texts(&audit).last().unwrap(), "status: unknown: b (was synchronised)");
    audit.look(at(1002));
    assert!(!audit.announce(at(1002), || panic!("it was told")));
    audit.publish(&hand(1003, Status::Synchronised), at(1003));
    assert!(audit.announce(at(1003), || "c".into()));
    assert_eq!(texts(&audit).last().unwrap(), "status: synchronised: c (was unknown)");
}

/// Readers took the page for untended three seconds after the last look.
#[test]
fn time_in_which_the_daemon_did_not_run_is_holdover() {
    let begun = |name: &str| {
        let mut audit = audit(name);
        audit.patience = Period::NANOSECOND.counts(PATIENCE);
        audit.note(at(0), Status::Synchronised, Level::Info, "synchronised: following a");
        audit.publish(&hand(0, Status::Synchronised), at(0));
        assert!(audit.announce(at(0), || panic!("it was told")));
        (1..=10).for_each(|second| audit.look(at(second)));
        assert!(intervals(&audit).is_empty());
        audit
    };
    let cause = "status: holdover: no daemon tended the clock, as it did not run for 90.000 s \
                 (was synchronised)";

    // It goes on as before.
    let mut audit = begun("truechimer-audit-stood");
    audit.sources(&report(100, &[("a", SourceStatus::Selected)]), BTreeSet::new());
    audit.look(at(100));
    assert!(audit.announce(at(100), || "again".into()));
    audit.look(at(101));
    assert!(!audit.announce(at(101), || panic!("it was told")));
    let expected = [(0, 13, "synchronised", Some(23)), (13, 100, "holdover", Some(110))];
    assert_eq!(intervals(&audit), expected);
    let told = texts(&audit);
    let again = "status: synchronised: again (was holdover)";
    assert_eq!(told[told.len() - 2..], [cause, again]);

    // The servers were silent meanwhile, as nobody asked them: that is not why.
    let mut audit = begun("truechimer-audit-silent");
    audit.note(at(100), Status::Holdover, Level::Warning, "holdover: no usable reply from a");
    audit.publish(&hand(100, Status::Holdover), at(100));
    assert!(!audit.announce(at(100), || panic!("it was told")));
    audit.look(at(100));
    audit.publish(&hand(101, Status::Synchronised), at(101));
    let expected = [(13, 100, "holdover", Some(110)), (100, 101, "holdover", Some(11))];
    assert_eq!(intervals(&audit)[1..], expected);
    let told = texts(&audit);
    let silent = "warning: holdover: no usable reply from a";
    assert_eq!(told[told.len() - 2..], [cause, silent]);

    // What is promised without an end is not; and a break is more than that.
    let mut audit = begun("truechimer-audit-void");
    audit.look(at(1_100));
    let expected = [(0, 13, "synchronised", Some(23)), (13, 1_000, "holdover", Some(1_010))];
    assert_eq!(intervals(&audit)[..2], expected);
    let mut audit = begun("truechimer-audit-broke");
    let broken = hand(100, Status::Disrupted);
    let counter = CounterId { epoch: Epoch(1), ..broken.counter };
    audit.publish(&Hand { counter, ..broken }, at(100));
    assert_eq!(intervals(&audit), [(0, 10, "synchronised", Some(20))]);
}

/// Of the first seconds, what was recorded by the system clock is set apart from what comes by ours.
#[test]
fn a_system_clock_that_was_wrong_is_told_of_where_ours_begins() {
    let mut audit = audit("truechimer-audit-apart");
    // 1.5 s behind, 3 s before.
    audit.since.1 = Time(ZERO * 1_000_000_000 - 1_500_000_000);
    audit.note(at(3), Status::Synchronised, Level::Info, "synchronised: following a");
    audit.publish(&hand(3, Status::Synchronised), at(3));
    assert!(audit.announce(at(3), || panic!("it was told")));
    let events: Vec<&Event> = audit
        .pending
        .iter()
        .filter_map(|line| match line {
            Line::Event(event) => Some(event),
            _ => None,
        })
        .collect();
    let [apart, leap, status] = events[..] else { panic!("{events:?}") };
    let says = "times before this line are the system clock's, which was 1.500 s behind this clock";
    assert_eq!((apart.text.as_str(), leap.kind), (says, Kind::Leap));
    assert_eq!(status.text, "synchronised: following a (was unknown)");
    assert!(
        events.iter().all(|event| !event.by_system_clock && event.at.0 / 1_000_000_000 == ZERO + 3)
    );
}

/// Report of servers with these statuses.
fn report(second: u64, servers: &[(&str, SourceStatus)]) -> Report {
    let one = |&(name, status): &(&str, SourceStatus)| SourceReport {
        status,
        ..SourceReport::new(name.into(), SourceKind::Server)
    };
    let (sources, reason) = (servers.iter().map(one).collect(), String::new());
    Report { at: at(second), hand: None, skew: None, reason, disputed: None, sources }
}

/// Begin, end and source of the intervals so far.
fn selected(audit: &Audit) -> Vec<(i64, i64, Option<String>)> {
    let sources = audit.pending.iter().filter_map(|line| match line {
        Line::Interval(i) => Some(i.source.clone()),
        _ => None,
    });
    let times = intervals(audit);
    times.iter().zip(sources).map(|((from, to, ..), source)| (*from, *to, source)).collect()
}

/// Statuses of the second source in each list so far.
fn second_of_each(audit: &Audit) -> Vec<&str> {
    let lists = audit.pending.iter().filter_map(|line| match line {
        Line::Sources(sources) => Some(sources.list[1].status.as_str()),
        _ => None,
    });
    lists.collect()
}

#[test]
fn another_status_of_a_source_is_another_list() {
    use SourceStatus::{Combined, Falseticker, Selected, Truechimer};
    let mut audit = audit("truechimer-audit-false");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    for (second, status) in
        [(0, Combined), (61, Falseticker), (122, Falseticker), (183, Truechimer)]
    {
        audit.sources(&report(second, &[("a", Selected), ("b", status)]), BTreeSet::new());
        audit.look(at(second));
    }
    assert_eq!(second_of_each(&audit), ["combined", "falseticker", "truechimer"]);
}

#[test]
fn a_source_that_turns_is_looked_at_at_once_and_not_without_end() {
    use SourceStatus::{Combined, Falseticker, Selected, Truechimer};
    let mut audit = audit("truechimer-audit-turns");
    let mut turned = |second, status| {
        audit.has_turned(at(second), [("a", Selected, false), ("b", status, false)].into_iter())
    };
    assert!(turned(0, Combined));
    assert!(!turned(1, Truechimer), "it is seen at the end of the interval");
    assert!(turned(2, Falseticker) && !turned(3, Falseticker) && turned(4, Combined));
    let flaps = (5..50).filter(|n| turned(*n, if n % 2 == 0 { Combined } else { Falseticker }));
    assert_eq!(flaps.count(), TURNS as usize - 3);
    assert!(turned(70, Combined) && turned(71, Falseticker));
}

/// A silent source agrees with the majority still, by what it said before.
#[test]
fn a_source_that_falls_silent_is_looked_at_at_once() {
    use SourceStatus::{Combined, Selected, Truechimer};
    let mut audit = audit("truechimer-audit-falls-silent");
    let mut turned = |second, status, is_silent| {
        let now = [("a", Selected, false), ("b", status, is_silent)];
        audit.has_turned(at(second), now.into_iter())
    };
    assert!(turned(0, Combined, false));
    assert!(turned(1, Truechimer, true) && !turned(2, Truechimer, true));
    // And why is in the list.
    audit.publish(&hand(0, Status::Synchronised), at(0));
    let mut report = report(1, &[("a", Selected), ("b", Truechimer)]);
    let (kind, text, age) = (ReasonKind::Stale, String::new(), Span::ZERO);
    report.sources[1].reason =
        Some(Reason { kind, text, age, by: None, replies: None, left: None });
    audit.sources(&report, BTreeSet::new());
    let Some(Line::Sources(sources)) = audit.pending.back() else { panic!("{:?}", audit.pending) };
    assert_eq!(sources.list[1].reason.as_deref(), Some("stale"));
}

#[test]
fn an_interval_ends_where_another_source_is_selected() {
    use SourceStatus::{Combined, Selected};
    let mut audit = audit("truechimer-audit-selected");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    let mut look = |second, a, b| {
        audit.sources(&report(second, &[("a", a), ("b", b)]), BTreeSet::new());
        audit.look(at(second));
    };
    look(0, Selected, Combined);
    look(10, Selected, Combined);
    look(40, Combined, Selected);
    look(50, Combined, Combined);
    look(70, Selected, Combined);
    look(131, Selected, Combined);
    let of = |name: &str| Some(name.to_owned());
    let expected = [(0, 40, of("a")), (40, 50, of("b")), (50, 70, None), (70, 131, of("a"))];
    assert_eq!(selected(&audit), expected);
}

/// The log says nothing of it in the first half minute, nor of each that follows another at once.
#[test]
fn another_selected_source_is_an_event_once() {
    use SourceStatus::{Combined, Selected};
    let mut audit = audit("truechimer-audit-leads");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    let before = texts(&audit).len();
    let look = |audit: &mut Audit, second, a, b| {
        audit.sources(&report(second, &[("a", a), ("b", b)]), BTreeSet::new());
    };
    look(&mut audit, 0, Selected, Combined);
    look(&mut audit, 10, Combined, Selected);
    let text =
        "a is selected from now on, with 70 % of where the time stands, instead of b (30 % now)";
    audit.note(at(20), Status::Synchronised, Level::Info, text);
    look(&mut audit, 20, Selected, Combined);
    look(&mut audit, 30, Selected, Combined);
    look(&mut audit, 40, Combined, Selected);
    let told = "log: b is selected from now on, instead of a";
    let said = format!("log: {text}");
    assert_eq!(texts(&audit)[before..], [told, &said, told]);
}

#[test]
fn an_interval_ends_where_the_status_is_another() {
    let mut audit = audit("truechimer-audit-status");
    audit.publish(&hand(0, Status::Synchronised), at(0));
    audit.publish(&hand(30, Status::Holdover), at(30));
    audit.publish(&hand(50, Status::Synchronised), at(50));
    audit.look(at(115));
    let expected = [
        (0, 30, "synchronised", Some(40)),
        (30, 50, "holdover", Some(30)),
        (50, 115, "synchronised", Some(75)),
    ];
    assert_eq!(intervals(&audit), expected);
    // Without a bound as well. There it is the system clock's time that counts, but for the end.
    audit.publish(&hand(120, Status::Disrupted), at(120));
    audit.publish(&hand(140, Status::Unknown), at(140));
    audit.publish(&hand(150, Status::Disrupted), at(150));
    audit.publish(&hand(160, Status::Synchronised), at(160));
    let statuses: Vec<&str> =
        intervals(&audit)[3..].iter().map(|(_, _, status, _)| *status).collect();
    assert_eq!(statuses, ["synchronised", "disrupted", "unknown", "disrupted"]);
}

#[test]
fn what_cannot_be_written_is_counted_and_told_once() {
    let mut audit = audit("truechimer-audit-full");
    // A file in the place of the directory, as nobody is without rights here.
    let place = audit.wanted.directory.clone();
    fs::write(&place, "").unwrap();
    audit.event(at(0), Kind::Start, "begins");
    let (level, text) = audit.flush().unwrap();
    assert!(level == Level::Warning && text.contains("cannot be written in"), "{text}");
    audit.event(at(1), Kind::Log, "more");
    assert_eq!((audit.flush(), audit.lost()), (None, 2));
    audit.publish(&hand(1, Status::Synchronised), at(1));
    audit.look(at(70));
    assert_eq!(audit.flush(), None);
    let lost = audit.lost();
    assert!(lost > 2 && audit.pending.is_empty());
    // There is room again: tried with the next interval.
    fs::remove_file(&place).unwrap();
    audit.event(at(71), Kind::Log, "more");
    assert_eq!((audit.flush(), audit.lost()), (None, lost + 1));
    audit.look(at(140));
    let (level, text) = audit.flush().unwrap();
    assert!(level == Level::Info && text.ends_with("it can be written again"), "{text}");
    let mut lines = Vec::new();
    let chain =
        truechimer_audit::read(&place, None, &mut |line| lines.push(line.unwrap())).unwrap();
    assert!(chain.is_whole());
    let Some(Line::Event(event)) = lines.get(1) else { panic!("{lines:?}") };
    assert_eq!(event.text, format!("{} lines before this one could not be written", lost + 1));
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o750);
    drop(audit);
    fs::remove_dir_all(&place).unwrap();
}

/// A full disk lets the file be opened, and takes no line.
#[test]
fn what_opens_and_takes_no_line_is_told_of_once() {
    let mut audit = audit("truechimer-audit-short");
    let place = audit.wanted.directory.clone();
    audit.event(at(0), Kind::Start, "begins");
    audit.publish(&hand(1, Status::Synchronised), at(1));
    assert_eq!(audit.flush(), None);
    for minute in 1..=5 {
        audit.look(at(70 * minute));
        let mut line = audit.made(at(70 * minute), Kind::Log, String::new(), None, None);
        let Line::Event(event) = &mut line else { panic!("{line:?}") };
        event.text = "longer than any line may be ".repeat(10_000);
        audit.pending.push_front(line);
        assert_eq!(audit.flush().is_some(), minute == 1);
    }
    let lost = audit.lost();
    assert!(lost >= 10 && audit.pending.is_empty(), "{lost}");
    audit.look(at(420));
    let (level, text) = audit.flush().unwrap();
    assert!(level == Level::Info && text.ends_with("it can be written again"), "{text}");
    let mut texts = Vec::new();
    let chain = truechimer_audit::read(&place, None, &mut |line| {
        if let Ok(Line::Event(event)) = line {
            texts.push(event.text);
        }
    });
    assert!(chain.unwrap().is_whole());
    let said = texts.iter().filter_map(|text| {
        text.strip_suffix(" lines before this one could not be written")?.parse::<u64>().ok()
    });
    assert_eq!(said.sum::<u64>(), lost, "{texts:?}");
    drop(audit);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_changed_configuration_says_what_changed_by_the_names_of_the_file() {
    let source = |host: &str, poll| SourceConfig { poll, ..SourceConfig::new(host) };
    let trusted = SourceConfig { trust: true, ..source("fd99::2", 16) };
    let clock =
        |error| RefClockConfig { name: "PPS".into(), error, ..RefClockConfig::pulse("/dev/pps0") };
    let old = Config {
        sources: vec![trusted, source("b", 16)],
        refclocks: vec![clock(Span::from_micros(10))],
        ..Config::default()
    };
    let asymmetry = Some(Asymmetry { by: Span::from_micros(300), error: Span::from_micros(20) });
    let required = SourceConfig { require: true, asymmetry, ..source("fd99::2", 32) };
    let sources = vec![required, source("fd99::3", 16)];
    let (max_wander, authentication) = (Rate::from_ppb(250), AuthenticationMode::Ignore);
    let new = Config {
        sources,
        refclocks: vec![clock(Span::from_micros(25))],
        discipline: true,
        max_wander,
        authentication,
        max_step: None,
        min_sources: Some(2),
        likely_doubt: Rate::from_ppb(50_000_000),
        ..Config::default()
    };
    let expected = "[system-clock] discipline: false → true; \
        authentication: mix → ignore; \
        likely-confidence: 0.999999 → 0.95; \
        max-step: 1000.000 s → none; \
        max-wander-ppm: 0.5 → 0.25; \
        min-sources: not set → 2; \
        [fd99::2]:123 asymmetry: not set → 300.000 µs; \
        [fd99::2]:123 asymmetry-error: not set → 20.000 µs; \
        [fd99::2]:123 poll: 16 → 32; \
        [fd99::2]:123 require: false → true; \
        [fd99::2]:123 trust: true → false; \
        [fd99::3]:123 added; \
        PPS latency: 10.000 µs → 25.000 µs; \
        b:123 removed";
    assert_eq!(difference(&old, &new), expected);
    assert_eq!(difference(&old, &old), "nothing that counts here changed");
    assert_eq!(configured(&new), "sources [fd99::2]:123, [fd99::3]:123, PPS");
}
