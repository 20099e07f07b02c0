//! Output of `sources`, by example.

use super::*;
use truechimer_engine::{Reason, ReasonKind};
use truechimer_time::Rate;

pub fn source() -> SourceReport {
    SourceReport {
        name: "ntp.example.org:123".into(),
        pool: None,
        interleaved: false,
        origin: truechimer_engine::Origin::Configuration,
        kind: SourceKind::Server,
        authentication: Authentication::None,
        cookies: None,
        aead: None,
        vote: true,
        address: Some("192.0.2.7:123".parse().unwrap()),
        status: SourceStatus::Selected,
        reason: None,
        weight: Some(0.837),
        holdover: false,
        reach: 0o377,
        polls: 8,
        poll: 16,
        retry: None,
        last_reply: Some(Span::from_millis(3_250)),
        stratum: Some(2),
        reference: Some("192.0.2.1".into()),
        leap: Some(0),
        root_distance: Some(Span::from_micros(12_345)),
        rtt: Some(Span::from_micros(700)),
        rtt_floor: Some(Span::from_micros(612)),
        offset: Some(Span::from_nanos(-1_234)),
        offset_to: None,
        bound: Some(Span::from_micros(13_000)),
        likely: Some(Span::from_micros(1_700)),
        deviation: Some(Span::from_nanos(321)),
        skew: Some(Rate::from_ppb(-12_345)),
        sent_method: Some(StampMethod::Kernel),
        received_method: Some(StampMethod::User),
        stamp_errors: Some((Span::from_nanos(40), Span::from_micros(21))),
        requests: 120,
        accepted: 118,
        timeouts: 2,
        refused: BTreeMap::from([("wrong-origin".into(), 3), ("duplicate".into(), 1)]),
        asymmetry: None,
        learnt: None,
        trouble: None,
        ptp: None,
    }
}

/// One that never answered.
fn silent() -> SourceReport {
    SourceReport {
        name: "nowhere.invalid:123".into(),
        address: None,
        status: SourceStatus::Unreachable,
        weight: None,
        reach: 0,
        polls: 3,
        last_reply: None,
        stratum: None,
        reference: None,
        leap: None,
        root_distance: None,
        rtt: None,
        rtt_floor: None,
        offset: None,
        bound: None,
        likely: None,
        deviation: None,
        skew: None,
        sent_method: None,
        received_method: None,
        stamp_errors: None,
        requests: 0,
        accepted: 0,
        timeouts: 0,
        refused: BTreeMap::new(),
        trouble: Some("cannot resolve".into()),
        ..source()
    }
}

fn text(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_table_shows_who_is_followed_and_who_is_in_trouble() {
    let shown = text(|out| write_table(&[source(), silent()], out));
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[1].starts_with("*  ntp.example.org:123   84%   2  377  3.2 s"), "{shown}");
    assert!(lines[1].ends_with("-1.234 µs  13.000 ms  612.000 µs"), "{shown}");
    assert!(lines[2].starts_with("?  nowhere.invalid:123"));
    assert!(lines[3].ends_with("replies are stamped in user space, as the kernel does not"));
    assert_eq!(lines[4], "nowhere.invalid:123: cannot resolve");
    assert!(lines[..3].iter().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn the_detail_counts_refusals_by_reason() {
    let shown = text(|out| write_detail(&source(), out));
    assert!(shown.contains("refused     duplicate 1, wrong-origin 3"), "{shown}");
    assert!(shown.contains("kernel/user, sent to ± 40.000 ns, received to ± 21.000 µs"));
    assert!(!shown.contains("trouble"));
    assert!(text(|out| write_detail(&silent(), out)).contains("has not answered yet"));
}

#[test]
fn the_cookies_that_are_left_are_counted() {
    for (cookies, said) in
        [(None, "not used\n"), (Some(1), "; 1 cookie left"), (Some(8), "; 8 cookies left")]
    {
        let aead = cookies.map(|_| "AES-128-GCM-SIV".to_owned());
        let by = aead.as_ref().map_or("by NTS:", |_| "by NTS (AES-128-GCM-SIV):");
        let authentication = Authentication::Nts;
        let source = SourceReport { authentication, cookies, aead: aead.clone(), ..source() };
        let shown = text(|out| write_detail(&source, out));
        assert!(shown.contains(said) && shown.contains(by), "{shown}");
        let json = serde_json::to_value(Json::of(&source)).unwrap();
        assert_eq!(json["cookies"], serde_json::json!(cookies));
        assert_eq!(json["aead"], serde_json::json!(aead));
    }
}

#[test]
fn a_share_is_said_as_people_say_it() {
    let detail = |status, weight| {
        let source = SourceReport { status, weight, ..source() };
        text(|out| write_detail(&source, out)).lines().nth(1).unwrap().trim().to_owned()
    };
    let leads = |weight| detail(SourceStatus::Selected, weight);
    let alone = "status      * selected: the published time is by this one alone";
    assert_eq!([leads(Some(1.0)), leads(None)], [alone, alone]);
    assert_eq!(
        leads(Some(0.837)),
        "status      * selected: 84% of where the published time stands is by it; another is \
         selected once its share is 2.5 times as large"
    );
    assert!(leads(Some(0.997)).contains(": >99% of where"), "{}", leads(Some(0.997)));
    let little = detail(SourceStatus::Combined, Some(0.001));
    assert_eq!(little, "status      + combined: <1% of where the published time stands is by it");
    // Where another is preferred.
    let none = detail(SourceStatus::Combined, Some(0.0));
    assert!(
        none.starts_with("status      + combined: the published time is by others alone"),
        "{none}"
    );
    assert!(detail(SourceStatus::Truechimer, None).ends_with("has no part in the published time"));
}

#[test]
fn a_pulse_has_edges_and_no_server() {
    let pulse = SourceReport {
        name: "gps".into(),
        kind: SourceKind::Pulse,
        address: None,
        poll: 1,
        stratum: Some(0),
        reference: Some("PPS".into()),
        leap: None,
        sent_method: None,
        received_method: Some(StampMethod::Kernel),
        ..source()
    };
    let shown = text(|out| write_detail(&pulse, out));
    assert!(shown.starts_with("gps (pulse per second)\n"), "{shown}");
    assert!(shown.contains("120 edges, 118 accepted, 2 missed"), "{shown}");
    assert!(shown.contains("stamps      kernel, to ± 21.000 µs"), "{shown}");
    assert!(!shown.contains("server") && !shown.contains("requests"), "{shown}");
    let shown = text(|out| write_table(std::slice::from_ref(&pulse), out));
    assert!(shown.lines().nth(1).unwrap().starts_with("*  gps      84%   0  377"), "{shown}");
    let json = serde_json::to_value(Json::of(&pulse)).unwrap();
    assert_eq!((&json["pulse"], &json["reference"]), (&true.into(), &"PPS".into()));
}

#[test]
fn a_source_that_only_refuses_says_so_in_the_table() {
    let refusing = SourceReport { trouble: None, refused: source().refused, ..silent() };
    assert_eq!(trouble(&refusing).unwrap(), "refused: duplicate 1, wrong-origin 3");
    let mute = SourceReport { trouble: None, timeouts: 4, ..silent() };
    assert_eq!(trouble(&mute).unwrap(), "no answer to 4 requests");
    assert_eq!(trouble(&source()), None);
}

#[test]
fn who_has_no_part_says_why() {
    let reason = reason(ReasonKind::Outvoted, "it is 18.2 ms from where the majority agrees");
    let status = SourceStatus::Falseticker;
    let liar = SourceReport { status, weight: None, reason, ..source() };
    let away = SourceReport { holdover: true, status: SourceStatus::Truechimer, ..liar.clone() };
    let shown = text(|out| write_table(&[source(), liar.clone(), away.clone()], out));
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[2].starts_with("x   ntp.example.org:123     -   2"), "{shown}");
    assert!(lines[3].starts_with("-h  ntp.example.org:123     -   2"), "{shown}");
    assert!(lines.iter().take(4).all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.lines().rev().take(3).all(|line| line.chars().count() <= 80), "{shown}");
    let detail = text(|out| write_detail(&liar, out));
    assert!(detail.contains("(it is 18.2 ms from where the majority agrees)"), "{detail}");
    assert!(text(|out| write_detail(&away, out)).contains("; stale"));
    let json = serde_json::to_value(Json::of(&liar)).unwrap();
    assert_eq!((&json["status"], json["weight"].is_null()), (&"falseticker".into(), true));
    assert_eq!(json["reason"]["kind"], "outvoted");
}

/// (It was "unreachable: nothing usable from it (nothing usable has come from it)".)
#[test]
fn one_that_nothing_comes_from_says_so_once() {
    let status = |source: &SourceReport| {
        let detail = text(|out| write_detail(source, out));
        detail
            .lines()
            .filter(|line| line.contains("usable") || line.contains("refused:"))
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let mute = reason(ReasonKind::NoReply, "nothing usable has come from it");
    let mute = SourceReport { reason: mute, trouble: None, ..silent() };
    assert_eq!(status(&mute), ["status      ? unreachable: nothing usable has come from it"]);
    // What the network said of it is more, and is said once as well.
    let trouble = Some("request not delivered: refused: so".into());
    let refused = SourceReport { trouble, ..mute };
    let says = "status      ? unreachable: request not delivered: refused: so";
    assert_eq!(status(&refused), [says]);
    let stale =
        reason(ReasonKind::Stale, "nothing usable from it for 3 h: no vote until it answers");
    let stale = SourceReport { reason: stale, trouble: None, ..silent() };
    let says =
        "status      ? unreachable: nothing usable from it for 3 h: no vote until it answers";
    assert_eq!(status(&stale), [says]);
    let unknown = SourceReport { reason: None, trouble: None, ..silent() };
    assert_eq!(status(&unknown), ["status      ? unreachable: nothing usable from it"]);
}

#[test]
fn one_that_is_held_off_has_no_part_and_says_what_it_says() {
    let held = SourceReport {
        reason: Some(held_off()),
        offset: Some(Span::from_millis(150)),
        holdover: true,
        weight: Some(1.0),
        ..source()
    };
    let shown = text(|out| write_table(std::slice::from_ref(&held), out));
    let row = shown.lines().nth(1).unwrap();
    assert!(row.starts_with("*!  ntp.example.org:123     -   2  377"), "{shown}");
    assert!(row.contains("+150.000 ms  13.000 ms"), "{shown}");
    assert!(shown.contains("! newest samples held off"), "{shown}");
    let detail = text(|out| write_detail(&held, out));
    let part = "*! selected by what was known before (held off: its time moved by -150.000 ms)\n";
    assert!(detail.contains(part), "{detail}");
    let other = SourceReport { status: SourceStatus::Falseticker, ..held };
    let detail = text(|out| write_detail(&other, out));
    let part = "x! falseticker: is not where a majority agrees, or the one that you have accepted \
                (held off: ";
    assert!(detail.contains(part), "{detail}");
    let json = serde_json::to_value(Json::of(&other)).unwrap();
    assert_eq!(json["why"], "held off: its time moved by -150.000 ms");
}

#[test]
fn without_a_clock_offsets_say_what_they_are_shown_against() {
    let of = |name: &str, offset| SourceReport {
        name: name.into(),
        status: SourceStatus::Candidate,
        reason: reason(ReasonKind::NoMajority, "no majority agrees at all"),
        weight: None,
        offset: Some(offset),
        offset_to: Some("a:123".into()),
        ..source()
    };
    let split = [of("a:123", Span::ZERO), of("b:123", Span::from_millis(-50))];
    let shown = text(|out| write_table(&split, out));
    assert!(shown.contains("offset: a:123's (in the middle) - the server's: no clock yet"));
    assert!(shown.lines().nth(2).unwrap().contains("-50.000 ms"), "{shown}");
    assert!(shown.lines().nth(2).unwrap().starts_with("w  b:123"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let detail = text(|out| split.iter().try_for_each(|one| write_detail(one, out)));
    assert!(detail.contains("offset      the others' are shown against it; ± 13.000 ms"));
    assert!(!detail.contains("falseticker"), "{detail}");
    assert!(detail.contains("w candidate: nobody can say yet"), "{detail}");
    assert!(detail.contains("(no majority agrees at all)"), "{detail}");
    assert!(detail.contains("-50.000 ms ± 13.000 ms, of a:123, as there is no clock"));
    let json = |source: &SourceReport| serde_json::to_value(Json::of(source)).unwrap();
    assert_eq!(json(&split[1])["offset_to"], "a:123");
    assert_eq!(json(&split[1])["status"], "candidate");
    assert_eq!(json(&split[1])["reason"]["kind"], "no-majority");
    assert_eq!(json(&source())["offset_to"], "clock");
    assert!(json(&silent())["offset_to"].is_null());
}

pub fn reason(kind: ReasonKind, text: &str) -> Option<Reason> {
    let (by, replies, left) = (None, None, None);
    Some(Reason { kind, text: text.into(), age: Span::from_secs(190), by, replies, left })
}

fn held_off() -> Reason {
    Reason {
        by: Some(Span::from_millis(-150)),
        replies: Some(12),
        left: Some(Span::from_secs(3410)),
        ..reason(ReasonKind::StepSuspected, "held off: its time moved by -150.000 ms").unwrap()
    }
}

#[test]
fn a_reason_is_for_programs_too() {
    let held = SourceReport { reason: Some(held_off()), ..source() };
    let json = serde_json::to_value(Json::of(&held)).unwrap();
    let expected = serde_json::json!({
        "kind": "step-suspected", "text": "held off: its time moved by -150.000 ms",
        "age_ns": 190_000_000_000_i64, "by_ns": -150_000_000, "replies": 12,
        "accepted_in_ns": 3_410_000_000_000_i64,
    });
    assert_eq!(json["reason"], expected);
    let alone = reason(ReasonKind::Stale, "nothing usable from it for 3 h").unwrap();
    let json = serde_json::to_value(ReasonJson::of(&alone)).unwrap();
    assert_eq!(json["kind"], "stale");
    assert!(["by_ns", "replies", "accepted_in_ns"].iter().all(|name| json[name].is_null()));
    assert!(serde_json::to_value(Json::of(&source())).unwrap()["reason"].is_null());
}

/// Programs that were written before the words changed read on.
#[test]
fn the_words_of_before_are_still_there() {
    use ReasonKind as Kind;
    let json = |status, kind| {
        let reason = reason(kind, "so");
        serde_json::to_value(Json::of(&SourceReport { status, reason, ..source() })).unwrap()
    };
    for (status, kind, selection, doubt) in [
        (SourceStatus::Unselectable, Kind::Noselect, "watched", None),
        (SourceStatus::Unselectable, Kind::LeapSmear, "smeared", Some("smear")),
        (SourceStatus::Unselectable, Kind::SameServer, "unusable", None),
        (SourceStatus::Falseticker, Kind::Overruled, "falseticker", Some("falseticker")),
        (SourceStatus::Unreachable, Kind::Stale, "unusable", Some("silent")),
        (SourceStatus::Candidate, Kind::Waiting, "unusable", None),
        (SourceStatus::Candidate, Kind::NoMajority, "no-majority", Some("no-majority")),
        (SourceStatus::Falseticker, Kind::Outvoted, "falseticker", Some("falseticker")),
        (SourceStatus::Falseticker, Kind::DriftSuspected, "falseticker", Some("server-drift")),
        (SourceStatus::Truechimer, Kind::Outlier, "truechimer", Some("improbable")),
        (SourceStatus::Truechimer, Kind::RateDiffers, "truechimer", Some("contradiction")),
        (SourceStatus::Truechimer, Kind::MaxStep, "truechimer", Some("held")),
        (SourceStatus::Selected, Kind::StepSuspected, "selected", Some("server-step")),
    ] {
        let json = json(status, kind);
        assert_eq!(
            (json["selection"].as_str(), json["doubt"]["kind"].as_str()),
            (Some(selection), doubt)
        );
        assert_eq!(json["why"].is_null(), doubt.is_none());
    }
}

#[test]
fn json_is_in_nanoseconds() {
    let json = serde_json::to_value(Json::of(&source())).unwrap();
    assert_eq!(json["offset_ns"], -1_234);
    assert_eq!(json["skew_ppb"], -12_345.0);
    assert_eq!(json["status"], "selected");
    assert_eq!(json["refused"]["wrong-origin"], 3);
}

#[test]
fn one_without_a_vote_is_said_to_have_none() {
    let reason = reason(ReasonKind::Noselect, "noselect, as configured");
    let status = SourceStatus::Unselectable;
    let noselect = SourceReport { status, reason, weight: None, ..source() };
    let shown = text(|out| write_table(&[source(), noselect.clone()], out));
    assert!(
        shown.lines().any(|line| line.starts_with(".  ntp.example.org:123     -  ")),
        "{shown}"
    );
    assert!(shown.contains("\n. unselectable  "), "{shown}");
    let detail = text(|out| write_detail(&noselect, out));
    let status = "status      . unselectable: has no vote and no part in the published time \
                  (noselect, as configured)";
    assert!(detail.contains(status), "{detail}");
}

#[test]
fn one_that_smears_is_not_said_to_have_no_vote() {
    let reason = reason(ReasonKind::LeapSmear, "it smears");
    let status = SourceStatus::Unselectable;
    let smears = SourceReport { status, reason, weight: None, ..source() };
    let detail = text(|out| write_detail(&smears, out));
    let status = "status      . unselectable: has no part in the published time (it smears)";
    assert!(detail.contains(status), "{detail}");
}
