//! Metrics of the daemon: from what it knows to families.
//!
//! The daemon's one thread serves them in its loop, as it does the control socket; the text is made
//! anew only after a look at the host's clocks. Names and meanings are in docs/reference/metrics.md.

use truechimer_engine::{SourceReport, SourceStatus};
use truechimer_feedforward::number::fraction;
use truechimer_metrics::{Family, Labels, MetricType, number, seconds};
use truechimer_time::{CounterKind, Rate, Span, StampMethod};
use truechimer_timehands::{Hand, Status};

use crate::cards::{CardReport, Tally};
use crate::clockbound::{PageReport, PageState};
use crate::control::Answer;

/// All that metrics tell, at one count.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The daemon and its engine.
    pub(crate) answer: Answer,
    pub(crate) counter: CounterKind,
    /// Age of the hand in force.
    pub(crate) hand_age: Option<Span>,
    /// Age of the page's heartbeat.
    pub(crate) heartbeat_age: Option<Span>,
    pub(crate) max_wander: Rate,
    /// Measure over the recent past, see [`crate::wander`].
    pub(crate) wander: Option<Rate>,
    pub(crate) difference_deviation: Option<Rate>,
    /// System clock − published clock; positive: the system clock is ahead.
    pub(crate) system_offset: Option<Span>,
    pub(crate) is_steered: bool,
    /// Lines of the audit record that could not be written, if one is kept.
    pub(crate) audit_lost: Option<u64>,
}

/// All that there is to tell.
pub(crate) fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut families = of_clock(snapshot);
    families.extend(of_daemon(snapshot));
    families.extend(of_sources(&snapshot.answer.report.sources));
    families
}

/// The bound, the status, the rates.
fn of_clock(snapshot: &Snapshot) -> Vec<Family> {
    let report = &snapshot.answer.report;
    let hand = report.hand.as_ref();
    // Nothing is promised otherwise.
    let holds =
        |hand: &&Hand| hand.status.bound_holds() && !(report.at - hand.void_after).0.is_positive();
    let promised = hand.filter(holds);
    let bound = |part: fn(&Hand) -> Span| promised.map(|hand| seconds(part(hand)));
    let growth = |hand: &Hand| hand.bound_at(report.at) - hand.bound();
    let rate = |of: fn(&Hand) -> Rate| hand.map(|hand| fraction(of(hand)));
    let status = match (hand, promised) {
        (Some(hand), None) if hand.status.bound_holds() => Status::Unknown,
        (Some(hand), _) => hand.status,
        (None, _) => Status::Unknown,
    };
    let all = [Status::Synchronised, Status::Holdover, Status::Disrupted, Status::Unknown];
    let tai = promised.filter(|hand| hand.leaps.known);
    vec![
        Family::states(
            "status",
            "Status of the clock: 1 for the one it has, 0 for the others",
            "status",
            all.map(Status::name),
            status.name(),
        ),
        Family::gauge(
            "bound",
            "seconds",
            "Half-width of the interval of true time",
            promised.map(|hand| seconds(hand.bound_at(report.at))),
        ),
        Family::gauge(
            "path_bound",
            "seconds",
            "Part of the bound that is path and server",
            bound(|hand| hand.path_bound),
        ),
        Family::gauge(
            "statistical_bound",
            "seconds",
            "Part of the bound that is stamps, queues, drift when the hand was made, with what is disputed",
            bound(|hand| hand.statistical_bound),
        ),
        Family::gauge(
            "disputed_bound",
            "seconds",
            "Part of the statistical bound that covers samples that are held off",
            bound(|hand| hand.disputed.min(hand.statistical_bound)),
        ),
        Family::gauge(
            "growth_bound",
            "seconds",
            "Part of the bound that came since the hand was made",
            promised.map(|hand| seconds(growth(hand))),
        ),
        Family::gauge(
            "likely",
            "seconds",
            "How far the time is likely to be off; no promise",
            promised.and_then(|hand| hand.likely_at(report.at)).map(seconds),
        ),
        Family::gauge("growth", "ratio", "How fast the bound grows", rate(|hand| hand.growth)),
        Family::gauge(
            "skew",
            "ratio",
            "Rate of the counter against its nominal rate; positive: it is fast",
            report.skew.map(fraction),
        ),
        Family::gauge(
            "max_wander",
            "ratio",
            "How far the oscillator's rate may stray from its mean, as configured",
            // As it was configured, without the digits of a binary fraction.
            snapshot.max_wander.as_ppt() as f64 / 1e12,
        ),
        Family::gauge(
            "wander",
            "ratio",
            "How far the oscillator's rate has strayed from its mean over the last 10000 s, measured",
            snapshot.wander.map(fraction),
        ),
        Family::gauge(
            "difference_error",
            "ratio",
            "What the length of an interval is off by at most",
            rate(|hand| hand.difference_error),
        ),
        Family::gauge(
            "difference_deviation",
            "ratio",
            "Standard deviation of the length of an interval; no promise",
            snapshot.difference_deviation.map(fraction),
        ),
        Family::gauge(
            "hand_age",
            "seconds",
            "Age of the last hand, the clock parameters in force",
            snapshot.hand_age.map(seconds),
        ),
        Family::gauge(
            "heartbeat_age",
            "seconds",
            "Age of the heartbeat that readers of the clock page see",
            snapshot.heartbeat_age.map(seconds),
        ),
        Family::gauge(
            "epoch",
            "",
            "Epoch of the counter: it rises with each break",
            hand.map(|hand| f64::from(hand.counter.epoch.0)),
        ),
        Family::gauge(
            "tai_offset",
            "seconds",
            "TAI - UTC",
            tai.map(|hand| f64::from(hand.leaps.offset_at(hand.time_at(report.at)))),
        ),
        Family::gauge(
            "system_clock_offset",
            "seconds",
            "System clock - this clock; positive: the system clock is ahead",
            snapshot.system_offset.map(seconds),
        ),
        Family::gauge(
            "system_clock_disciplined",
            "",
            "Whether the system clock is made to follow: 1 or 0",
            number(snapshot.is_steered),
        ),
    ]
}

/// The program and its counter.
fn of_daemon(snapshot: &Snapshot) -> Vec<Family> {
    let daemon = &snapshot.answer.daemon;
    let hand = snapshot.answer.report.hand.as_ref();
    vec![
        Family::info("build", "The daemon", [vec![("version", daemon.version.clone())]]),
        Family::info(
            "timecounter",
            "The counter",
            [vec![("kind", snapshot.counter.name().into())]],
        ),
        Family::gauge(
            "timecounter_frequency",
            "hertz",
            "Frequency of the counter as measured",
            hand.map(|hand| hand.period.hz() as f64),
        ),
        Family::gauge(
            "timecounter_resolution",
            "seconds",
            "Step of the counter",
            seconds(daemon.resolution),
        ),
        Family::gauge("uptime", "seconds", "How long the daemon has run", seconds(daemon.uptime)),
        Family::gauge("memory", "bytes", "Resident memory of the daemon", daemon.memory as f64),
        Family::counter(
            "floods",
            "How often so many datagrams came for one request that the rest was left unread",
            daemon.floods as f64,
        ),
        Family::of(
            MetricType::Counter,
            "hardware_stamps",
            "",
            "Packets by a card that stamps, by what became of its stamp",
            daemon.cards.iter().flat_map(card_stamps),
        ),
        Family::of(
            MetricType::Gauge,
            "clockbound_page",
            "",
            "What each page for clients of ClockBound says: 1 for the state it has, 0 for the others",
            daemon.clockbound.iter().flat_map(page_states),
        ),
        Family::counter(
            "audit_lost_lines",
            "Lines of the audit record that could not be written, if one is kept",
            snapshot.audit_lost.map(|lost| lost as f64),
        ),
    ]
}

fn page_states(page: &PageReport) -> Vec<(Labels, f64)> {
    let one = |state: PageState| {
        let labels = vec![("page", page.name.clone()), ("state", state.name().to_owned())];
        (labels, number(state == page.state))
    };
    PageState::ALL.map(one).into()
}

/// Number of packets for each direction and fate.
fn card_stamps(card: &CardReport) -> Vec<(Labels, f64)> {
    let of = |packet: &'static str, tally: &Tally| {
        let interface = card.interface.clone();
        tally.named().map(|(outcome, n)| {
            let labels = vec![
                ("interface", interface.clone()),
                ("packet", packet.to_owned()),
                ("outcome", outcome.to_owned()),
            ];
            (labels, n as f64)
        })
    };
    [of("request", &card.sent), of("reply", &card.received)].concat()
}

fn name_of(source: &SourceReport) -> Labels {
    vec![("source", source.name.clone())]
}

/// Labels of a source, and one more.
fn with(source: &SourceReport, key: &'static str, value: &str) -> Labels {
    vec![("source", source.name.clone()), (key, value.into())]
}

/// The sources, each with its name as a label.
fn of_sources(sources: &[SourceReport]) -> Vec<Family> {
    let gauges = |name, of: &str, help, value: &dyn Fn(&SourceReport) -> Option<f64>| {
        let samples = sources.iter().filter_map(|s| Some((name_of(s), value(s)?)));
        Family::of(MetricType::Gauge, name, of, help, samples)
    };
    let spans = |name, help, value: fn(&SourceReport) -> Option<Span>| {
        gauges(name, "seconds", help, &|s| value(s).map(seconds))
    };
    let labelled = |name, help, kind, value: &dyn Fn(&SourceReport) -> Vec<(Labels, f64)>| {
        Family::of(kind, name, "", help, sources.iter().flat_map(value))
    };
    let counts = |name, help, value: fn(&SourceReport) -> u64| {
        let counted = |s: &SourceReport| vec![(name_of(s), value(s) as f64)];
        labelled(name, help, MetricType::Counter, &counted)
    };
    let reason = |s: &SourceReport| -> Vec<(Labels, f64)> {
        let kind = s.reason.as_ref().and_then(|reason| serde_json::to_value(reason.kind).ok());
        let word = kind.as_ref().and_then(serde_json::Value::as_str);
        word.map(|word| (with(s, "reason", word), 1.0)).into_iter().collect()
    };
    let states = |s: &SourceReport| -> Vec<(Labels, f64)> {
        let one = |one: SourceStatus| (with(s, "status", one.name()), number(one == s.status));
        STATUSES.map(one).into()
    };
    let refused = |s: &SourceReport| -> Vec<(Labels, f64)> {
        s.refused.iter().map(|(kind, n)| (with(s, "reason", kind), *n as f64)).collect()
    };
    let stamps = |s: &SourceReport| -> Vec<(Labels, f64)> {
        let of = |way, method: Option<StampMethod>| {
            // A card's are better still: whoever watches this wants to hear of the worse ones.
            Some((with(s, "packet", way), number(method? != StampMethod::User)))
        };
        let both = [of("request", s.sent_method), of("reply", s.received_method)];
        both.into_iter().flatten().collect()
    };
    let about = |s: &SourceReport| {
        let mut labels = with(s, "kind", s.kind.name());
        let address = s.address.map(|address| address.to_string());
        labels.push(("address", address.unwrap_or_default()));
        labels.push(("reference", s.reference.clone().unwrap_or_default()));
        labels.push(("pool", s.pool.clone().unwrap_or_default()));
        labels.push(("authentication", s.authentication.name().to_owned()));
        labels
    };
    vec![
        Family::info(
            "source",
            "Each source: its kind, the address in use, the server's reference, the pool that it is of, its proof of who it is",
            sources.iter().map(about),
        ),
        labelled(
            "source_status",
            "How far a source is believed: 1 for the status it has, 0 for the others",
            MetricType::Gauge,
            &states,
        ),
        labelled(
            "source_reason",
            "Why a source has its status: 1 for the reason there is",
            MetricType::Gauge,
            &reason,
        ),
        gauges(
            "source_held_off",
            "",
            "Whether the newest samples of a source are held off: 1 or 0",
            &|s| Some(number(s.is_held_off())),
        ),
        spans("source_reason_age", "For how long the reason has been there", |s| {
            s.reason.as_ref().map(|reason| reason.age)
        }),
        spans(
            "source_accepted_in",
            "How much longer samples that are held off must stay there to be accepted",
            |s| s.reason.as_ref().and_then(|reason| reason.left),
        ),
        gauges("source_holdover", "", "Whether a source lives on old samples: 1 or 0", &|s| {
            Some(number(s.holdover))
        }),
        gauges("source_weight", "ratio", "Share of a source in the published time", &|s| s.weight),
        gauges(
            "source_reach",
            "ratio",
            "Share of the last eight polls with a reply that was used or is held off",
            // Before the first poll: none.
            &|s| Some(f64::from(s.reach.count_ones()) / f64::from(s.polls.max(1))),
        ),
        gauges("source_stratum", "", "Stratum of the server", &|s| s.stratum.map(f64::from)),
        gauges("source_poll", "seconds", "Time between requests", &|s| Some(f64::from(s.poll))),
        spans("source_last_reply_age", "Time since a reply was used or held off", |s| s.last_reply),
        spans("source_offset", "Published clock - this source; positive: ours is ahead", |s| {
            s.offset.filter(|_| s.offset_to.is_none())
        }),
        spans("source_bound", "Bound of a source's own estimate", |s| s.bound),
        spans("source_likely", "How far that is likely to be off; no promise", |s| s.likely),
        spans(
            "source_deviation",
            "Jitter: standard uncertainty of a source's own estimate, statistics only",
            |s| s.deviation,
        ),
        gauges(
            "source_skew",
            "ratio",
            "Rate of the counter by a source; positive: the counter is fast",
            &|s| s.skew.map(fraction),
        ),
        spans("source_rtt", "Delay: the last round trip, without the server's own time", |s| s.rtt),
        spans(
            "source_rtt_floor",
            "What the round trip takes at least just now, estimated: a single one may be shorter",
            |s| s.rtt_floor,
        ),
        spans(
            "source_root_distance",
            "Root delay / 2 + root dispersion, as the server claims",
            |s| s.root_distance,
        ),
        labelled(
            "source_kernel_stamps",
            "Whether the last request and reply were stamped by the kernel: 1 or 0",
            MetricType::Gauge,
            &stamps,
        ),
        gauges(
            "source_cookies",
            "",
            "Cookies left for requests to a server that proves itself by NTS: 8 at most; at 0 keys are fetched anew",
            &|s| s.cookies.map(|cookies| cookies as f64),
        ),
        counts("source_requests", "Requests sent", |s| s.requests),
        counts("source_accepted", "Replies used", |s| s.accepted),
        counts("source_timeouts", "Requests without a reply in time", |s| s.timeouts),
        labelled("source_refused", "Refusals, by reason", MetricType::Counter, &refused),
    ]
}

/// Every status that a source may have.
const STATUSES: [SourceStatus; 7] = [
    SourceStatus::Selected,
    SourceStatus::Combined,
    SourceStatus::Truechimer,
    SourceStatus::Falseticker,
    SourceStatus::Candidate,
    SourceStatus::Unselectable,
    SourceStatus::Unreachable,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use truechimer_engine::{Reason, ReasonKind, Report};
    use truechimer_metrics::examine::{self, Told};
    use truechimer_metrics::{Form, text};
    use truechimer_time::{BootId, Count, CountSpan, CounterId, Epoch, Instant, Leaps, Period};
    use truechimer_timehands::Likely;

    use crate::control::DaemonInfo;

    fn hand() -> Hand {
        Hand {
            difference_error: Rate::from_ppb(20),
            path_bound: Span::from_micros(80),
            statistical_bound: Span::from_micros(20),
            disputed: Span::from_micros(5),
            growth: Rate::from_ppb(1_000),
            likely: Some(Likely { half: Span::from_micros(9), growth: Rate::ZERO }),
            leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
            ..Hand::exact(
                CounterId { kind: CounterKind::Tsc, boot: BootId([1; 16]), epoch: Epoch(3) },
                Count(1_000),
                Instant::new(1_800_000_037, 0),
                Period::NANOSECOND,
                Count(1 << 50),
            )
        }
    }

    /// A source of which all is known.
    fn source(name: &str) -> SourceReport {
        let span = Some(Span::from_micros(3));
        SourceReport {
            name: name.into(),
            pool: None,
            interleaved: false,
            origin: truechimer_engine::Origin::Configuration,
            kind: truechimer_engine::SourceKind::Server,
            authentication: truechimer_engine::Authentication::Nts,
            cookies: Some(6),
            aead: Some("AES-SIV-CMAC-256".into()),
            vote: true,
            address: Some("192.0.2.7:123".parse().unwrap()),
            status: SourceStatus::Selected,
            reason: Some(Reason {
                kind: ReasonKind::StepSuspected,
                text: "held off".into(),
                age: Span::from_secs(7),
                by: span,
                replies: Some(3),
                left: Some(Span::from_secs(900)),
            }),
            weight: Some(0.25),
            holdover: false,
            reach: 0b1110_1111,
            polls: 8,
            poll: 16,
            retry: None,
            last_reply: Some(Span::from_secs(2)),
            stratum: Some(1),
            // As a server that means no good says it.
            reference: Some("\"}\n\\".into()),
            leap: Some(0),
            root_distance: span,
            rtt: span,
            rtt_floor: span,
            offset: Some(Span::from_micros(-3)),
            offset_to: None,
            bound: span,
            likely: span,
            deviation: span,
            skew: Some(Rate::from_ppb(-50)),
            sent_method: Some(StampMethod::Kernel),
            received_method: Some(StampMethod::User),
            stamp_errors: None,
            requests: 1 << 53,
            accepted: 9,
            timeouts: 1,
            refused: BTreeMap::from([("server-step".into(), 4)]),
            asymmetry: None,
            learnt: None,
            trouble: None,
            ptp: None,
        }
    }

    /// A second after the hand was made.
    fn snapshot(hand: Option<Hand>, sources: Vec<SourceReport>) -> Snapshot {
        Snapshot {
            answer: Answer {
                daemon: DaemonInfo {
                    version: "0.1.0".into(),
                    pid: 1,
                    counter: "tsc".into(),
                    resolution: Span::from_nanos(1),
                    uptime: Span::from_secs(60),
                    memory: 8 << 20,
                    page: "/page".into(),
                    replay_log: None,
                    state: None,
                    system_clock: "left alone".into(),
                    floods: 2,
                    cards: vec![CardReport {
                        interface: "eth0".into(),
                        sent: Tally { hardware: 7, ..Tally::default() },
                        received: Tally { stepped: 5, ..Tally::default() },
                        ..CardReport::default()
                    }],
                    clockbound: vec![PageReport { name: "shm0".into(), state: PageState::Lost }],
                },
                report: Report {
                    at: Count(1_000_001_000),
                    hand,
                    skew: Some(Rate::from_ppb(1_500)),
                    reason: String::new(),
                    disputed: None,
                    sources,
                },
            },
            counter: CounterKind::Tsc,
            hand_age: Some(Span::from_secs(1)),
            heartbeat_age: Some(Span::from_millis(500)),
            max_wander: Rate::from_ppb(500),
            wander: Some(Rate::from_ppb(20)),
            difference_deviation: Some(Rate::from_ppb(3)),
            system_offset: Some(Span::from_millis(-2)),
            is_steered: true,
            audit_lost: Some(3),
        }
    }

    fn read(snapshot: &Snapshot) -> Told {
        examine::read(&text(families(snapshot), Form::OpenMetrics))
    }

    #[test]
    fn what_is_configured_is_told_as_it_was() {
        let text = text(families(&snapshot(None, vec![])), Form::OpenMetrics);
        assert!(text.contains("\ntruechimer_max_wander_ratio 5e-7\n"), "{text}");
    }

    fn told(snapshot: &Snapshot) -> BTreeMap<String, f64> {
        read(snapshot).samples
    }

    #[test]
    fn what_is_known_is_told_in_base_units() {
        // The second has been asked three times, and has answered twice.
        let new = SourceReport { reach: 0b110, polls: 3, ..source("b:123") };
        let told = told(&snapshot(Some(hand()), vec![source("a:123"), new]));
        for (name, expected) in [
            ("truechimer_bound_seconds", 101e-6),
            ("truechimer_path_bound_seconds", 80e-6),
            ("truechimer_statistical_bound_seconds", 20e-6),
            ("truechimer_disputed_bound_seconds", 5e-6),
            ("truechimer_growth_bound_seconds", 1e-6),
            ("truechimer_likely_seconds", 9e-6),
            ("truechimer_growth_ratio", 1e-6),
            ("truechimer_skew_ratio", 1.5e-6),
            ("truechimer_max_wander_ratio", 0.5e-6),
            ("truechimer_wander_ratio", 0.02e-6),
            ("truechimer_hand_age_seconds", 1.0),
            ("truechimer_heartbeat_age_seconds", 0.5),
            ("truechimer_epoch", 3.0),
            ("truechimer_tai_offset_seconds", 37.0),
            ("truechimer_system_clock_offset_seconds", -2e-3),
            ("truechimer_system_clock_disciplined", 1.0),
            ("truechimer_timecounter_frequency_hertz", 1e9),
            ("truechimer_memory_bytes", 8_388_608.0),
            ("truechimer_floods_total", 2.0),
            (
                "truechimer_hardware_stamps_total{interface=\"eth0\",packet=\"request\",outcome=\"hardware\"}",
                7.0,
            ),
            (
                "truechimer_hardware_stamps_total{interface=\"eth0\",packet=\"reply\",outcome=\"stepped\"}",
                5.0,
            ),
            ("truechimer_clockbound_page{page=\"shm0\",state=\"lost\"}", 1.0),
            ("truechimer_clockbound_page{page=\"shm0\",state=\"free-running\"}", 0.0),
            ("truechimer_audit_lost_lines_total", 3.0),
            ("truechimer_status{status=\"synchronised\"}", 1.0),
            ("truechimer_status{status=\"holdover\"}", 0.0),
            ("truechimer_build_info{version=\"0.1.0\"}", 1.0),
            ("truechimer_timecounter_info{kind=\"tsc\"}", 1.0),
            ("truechimer_source_status{source=\"a:123\",status=\"selected\"}", 1.0),
            ("truechimer_source_status{source=\"b:123\",status=\"unreachable\"}", 0.0),
            ("truechimer_source_reason{source=\"a:123\",reason=\"step-suspected\"}", 1.0),
            ("truechimer_source_held_off{source=\"a:123\"}", 1.0),
            ("truechimer_source_accepted_in_seconds{source=\"a:123\"}", 900.0),
            ("truechimer_source_reach_ratio{source=\"a:123\"}", 0.875),
            ("truechimer_source_reach_ratio{source=\"b:123\"}", 2.0 / 3.0),
            ("truechimer_source_offset_seconds{source=\"a:123\"}", -3e-6),
            ("truechimer_source_cookies{source=\"a:123\"}", 6.0),
            ("truechimer_source_requests_total{source=\"a:123\"}", 9_007_199_254_740_992.0),
            ("truechimer_source_refused_total{source=\"a:123\",reason=\"server-step\"}", 4.0),
            ("truechimer_source_kernel_stamps{source=\"a:123\",packet=\"request\"}", 1.0),
            ("truechimer_source_kernel_stamps{source=\"a:123\",packet=\"reply\"}", 0.0),
            (
                "truechimer_source_info{source=\"a:123\",kind=\"server\",address=\"192.0.2.7:123\",\
                 reference=\"\\\"}\\n\\\\\",pool=\"\",authentication=\"nts\"}",
                1.0,
            ),
        ] {
            let found = told.get(name).unwrap_or_else(|| panic!("no {name} in {told:#?}"));
            assert!((found - expected).abs() <= expected.abs() * 1e-6, "{name}: {found}");
        }
        let one = told.iter().filter(|(name, _)| name.starts_with("truechimer_status{"));
        assert_eq!(one.map(|(_, value)| value).sum::<f64>(), 1.0);
    }

    #[test]
    fn what_is_not_promised_is_left_out() {
        let disrupted = Hand { status: Status::Disrupted, ..hand() };
        let void = Hand { void_after: Count(1_000) + CountSpan(1), ..hand() };
        for (hand, status) in
            [(None, "unknown"), (Some(disrupted), "disrupted"), (Some(void), "unknown")]
        {
            let told = told(&snapshot(hand, Vec::new()));
            assert!(told.keys().all(|name| !name.contains("bound_seconds")), "{told:#?}");
            assert_eq!(told[&format!("truechimer_status{{status=\"{status}\"}}")], 1.0);
        }
        let against = SourceReport { offset_to: Some("b".into()), ..source("a") };
        let told = told(&snapshot(None, vec![against]));
        assert!(told.keys().all(|name| !name.starts_with("truechimer_source_offset")));
    }

    /// True if a metric is the daemon's: those of other programs have their name in theirs.
    fn is_ours(name: &str) -> bool {
        let others = ["serve", "group", "capture"];
        others.iter().all(|other| !name.starts_with(&format!("truechimer_{other}_")))
    }

    #[test]
    fn reference_rules_and_dashboard_have_these_names() {
        let told = read(&snapshot(Some(hand()), vec![source("a")]));
        let dashboard = include_str!("../../../contrib/prometheus/dashboard.json");
        let rules = include_str!("../../../contrib/prometheus/rules.yml");
        let reference = include_str!("../../../docs/reference/metrics.md");
        examine::hold_to(&told.families, is_ours, reference, &[rules, dashboard]);
        let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let panels = parsed["panels"].as_array().unwrap();
        assert!(panels.len() >= 8 && panels.iter().all(|panel| panel["title"].is_string()));
        assert!(examine::asked_for(rules).len() > 8);
    }
}
