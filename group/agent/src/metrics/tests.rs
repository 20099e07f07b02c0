use truechimer_metrics::examine;
use truechimer_metrics::{Form, text};

use super::*;
use crate::notices::Noticed;
use crate::report::{Counts, GroupReport, MemberReport, Programs, Waiting};

fn member(member: u32, connected: bool) -> MemberReport {
    MemberReport {
        member,
        observer: false,
        connected,
        live: connected,
        apart: None,
        suspect: false,
        ahead_of_utc_ns: None,
        report_age_ns: None,
        won: u64::from(member),
        rank: None,
        program: true,
        drained: false,
        fenced: false,
        differs: None,
    }
}

/// Account of a live member of which all is known, one of whose peers is away.
fn account(name: &str) -> Account {
    let group = GroupReport {
        name: name.to_owned(),
        members: vec![1, 2, 3],
        mode: "passive".to_owned(),
        order: "monotone".to_owned(),
        rotate: false,
        steering_cap_ppb: 500_000,
        steering_time_ns: 8_000_000_000,
        horizon_ns: 5_000_000_000,
        lease_ns: 1_000,
        causal_horizon_ns: 10_000_000_000,
        digest: "0".to_owned(),
    };
    let report = Report {
        version: "0.1.0".to_owned(),
        pid: 1,
        uptime_ns: 60_000_000_000,
        group,
        member: 1,
        transport: "corosync".to_owned(),
        connected_to_transport: true,
        transport_joins: 2,
        phase: "live".to_owned(),
        stalled_ns: None,
        tied: true,
        timed: true,
        primary: true,
        generation: 4,
        index: 1000,
        connected: vec![1, 2],
        asking: Vec::new(),
        members: vec![member(1, true), member(2, true), member(3, false)],
        first: Some(2),
        handover: None,
        recent_synchronizers: Vec::new(),
        last: None,
        view_ns: Some(1_800_000_000_000_000_000),
        offset_ns: Some(5),
        ahead_of_utc_ns: Some(-3_000),
        utc_bound_ns: Some(80_000),
        error_bound_ns: Some(83_000),
        utc: "a page".to_owned(),
        steering_ppb: 250,
        counts: Counts { rounds: 900, joins_sent: 1, ..Counts::default() },
        waiting: Waiting { operations: 1, commits: 6, ..Waiting::default() },
        threads: Vec::new(),
        thread_count: 3,
        programs: Programs { program: true, attached: 5, refused: 1, ..Programs::default() },
        floor_ns: None,
        notices: vec![Noticed {
            kind: "cut".to_owned(),
            count: 8,
            last: "\"\n".to_owned(),
            age_ns: 1,
        }],
    };
    let mut waits = no_waits();
    waits.add(seconds(150_000));
    waits.add(seconds(700_000));
    let page = std::env::temp_dir().join(format!("truechimer-{}-{name}.front", std::process::id()));
    Account { report, processes: 2, waits, page }
}

fn told(accounts: &[Account]) -> examine::Told {
    let told = Told { accounts: accounts.to_vec(), waiting: vec!["ledger".to_owned()] };
    examine::read(&text(families(&told), Form::OpenMetrics))
}

#[test]
fn places_are_counted_by_group() {
    let mut second = account("other");
    second.report.member = 2;
    let told = told(&[account("ledger"), account("other"), second]).samples;
    for (group, state, value) in [
        ("ledger", "taken", 1.0),
        ("ledger", "waiting", 1.0),
        ("other", "taken", 2.0),
        ("other", "waiting", 0.0),
    ] {
        let name = format!("truechimer_group_places{{group=\"{group}\",state=\"{state}\"}}");
        assert_eq!(told[&name], value, "{name}");
    }
}

#[test]
fn each_member_tells_its_own() {
    let told = told(&[account("ledger"), account("other")]).samples;
    let labels = "group=\"ledger\",member=\"1\"";
    for (name, more, value) in [
        ("uptime_seconds", "", 60.0),
        ("phase", "phase=\"live\"", 1.0),
        ("phase", "phase=\"outside\"", 0.0),
        ("primary", "", 1.0),
        ("generation", "", 4.0),
        ("members", "", 3.0),
        ("live_members", "", 2.0),
        ("first_member", "", 2.0),
        ("peer_connected", "peer=\"3\"", 0.0),
        ("won_rounds_total", "peer=\"2\"", 2.0),
        ("troubles", "kind=\"away\"", 1.0),
        ("troubles", "kind=\"outside\"", 0.0),
        ("notices_total", "kind=\"cut\"", 8.0),
        ("ahead_of_utc_seconds", "", -3e-6),
        ("error_bound_seconds", "", 83e-6),
        ("steering_ratio", "", 250e-9),
        ("rounds_total", "", 900.0),
        ("joins_total", "", 1.0),
        ("connections_total", "", 2.0),
        ("waiting", "what=\"commits\"", 6.0),
        ("longest_wait_seconds", "", 0.0),
        ("attached_processes", "", 2.0),
        ("attachments_total", "outcome=\"refused\"", 1.0),
        ("read_wait_seconds_count", "", 2.0),
        ("info", "mode=\"passive\",order=\"monotone\",transport=\"corosync\"", 1.0),
    ] {
        let comma = if more.is_empty() { "" } else { "," };
        let name = format!("truechimer_group_{name}{{{labels}{comma}{more}}}");
        let found = told.get(&name).unwrap_or_else(|| panic!("no {name} in {told:#?}"));
        assert!((found - value).abs() <= value.abs() * 1e-9, "{name}: {found}");
    }
    let half = told["truechimer_group_read_wait_seconds_bucket{le=\"0.0002\",group=\"other\",member=\"1\"}"];
    assert_eq!(half, 1.0);
}

#[test]
fn what_is_not_known_is_left_out() {
    let mut account = account("ledger");
    account.report.first = None;
    account.report.ahead_of_utc_ns = None;
    let told = told(&[account]).samples;
    for name in ["first_member", "ahead_of_utc"] {
        let name = format!("truechimer_group_{name}");
        assert!(told.keys().all(|key| !key.starts_with(&name)), "{name} in {told:#?}");
    }
}

#[test]
fn every_kind_of_trouble_is_counted() {
    let mut account = account("ledger");
    account.report.waiting.longest_ns = Some(3_000_000_000);
    account.report.programs.missed = true;
    account.report.programs.began = "late".to_owned();
    account.report.programs.left_behind_by = vec![2];
    for phase in ["live", "joining", "outside"] {
        account.report.phase = phase.to_owned();
        for trouble in account.report.troubles() {
            assert!(TROUBLES.contains(&trouble.kind), "{trouble:?}");
        }
    }
}

#[test]
fn what_a_front_finds_is_counted() {
    let account = account("front");
    let count = |kind: &str| {
        let found = troubles(&account);
        let of = |labels: &Labels| labels.contains(&("kind", kind.to_owned()));
        found.iter().find(|(labels, _)| of(labels)).unwrap().1
    };
    let kinds = ["front", "diverged", "blocked", "gone"];
    assert_eq!(kinds.map(count), [0.0; 4], "there is none");
    let path = FrontReport::path(&account.page);
    let says = |state: &str| {
        let peer = |member: u32, standing: &str| {
            format!(
                r#"{{"member": {member}, "standing": "{standing}", "why": "so", "since_ns": 5, "request": 6}}"#
            )
        };
        let peers = [peer(1, "follows"), peer(2, "diverged"), peer(3, "behind")].join(", ");
        let now = FrontReport::now_ns();
        let text = format!(
            r#"{{"pid": 7, "at_ns": {now}, "state": "{state}", "why": "so", "replicas": 3, "following": 1,
                "count": 9, "done": 8, "same": 1, "different": 1, "peers": [{peers}]}}"#
        );
        std::fs::write(&path, text).unwrap();
    };
    says("answering");
    assert_eq!(kinds.map(count), [0.0, 1.0, 1.0, 0.0]);
    says("waiting");
    assert_eq!(kinds.map(count), [1.0, 1.0, 1.0, 0.0]);
    std::fs::write(&path, "what is this").unwrap();
    assert_eq!(kinds.map(count), [1.0, 0.0, 0.0, 0.0]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn reference_rules_and_dashboard_have_these_names() {
    examine::hold_to(
        &told(&[account("ledger")]).families,
        |name| name.starts_with("truechimer_group_"),
        include_str!("../../../../docs/reference/metrics.md"),
        &[
            include_str!("../../../../contrib/prometheus/rules.yml"),
            include_str!("../../../../contrib/prometheus/dashboard.json"),
        ],
    );
}
