//! `truechimer sources`: the servers that the daemon follows.

mod json;

use std::collections::BTreeMap;
use std::io::{self, Write};

use truechimer_engine::{Asymmetry, DoubtKind, Selection, SourceReport};
use truechimer_time::{Span, StampMethod};

use crate::args;
use crate::daemon;
use crate::failure::{Ended, Outcome};
use crate::show::{age, json, optional, plain};
use crate::table::{Side, Table};
use json::Json;

pub use json::DoubtJson;

/// Runs the command.
pub fn run(args: &args::Sources, out: &mut dyn Write) -> Ended {
    let sources = daemon::ask(&args.page, &args.control)?.report.sources;
    if args.json {
        let sources: Vec<_> = sources.iter().map(Json::of).collect();
        writeln!(out, "{}", json(&sources)?)?;
    } else if sources.is_empty() {
        writeln!(out, "no servers are configured")?;
    } else if args.verbose {
        for source in &sources {
            write_detail(source, out)?;
        }
    } else {
        write_table(&sources, out)?;
    }
    Ok(Outcome::Good)
}

/// The sign that stands for a source's part, as users of other NTP programs know it.
fn mark(selection: Selection) -> char {
    match selection {
        Selection::Selected => '*',
        Selection::Combined => '+',
        Selection::Truechimer => '-',
        Selection::Falseticker => 'x',
        Selection::NoMajority => '≠',
        Selection::Smeared => '~',
        Selection::Unusable => '?',
    }
}

fn meaning(selection: Selection) -> &'static str {
    match selection {
        Selection::Selected => "leads",
        Selection::Combined => "combined",
        Selection::Truechimer => "agrees with the majority, has no part in the published time",
        Selection::Smeared => "smears a leap second, which others do not: never mixed with them",
        Selection::Falseticker => "falseticker: is not where a majority agrees",
        Selection::NoMajority => {
            "disagrees: no majority of the servers agrees, so nobody is followed"
        }
        Selection::Unusable => "nothing yet that counts: it, or others, have yet to answer",
    }
}

fn write_table(sources: &[SourceReport], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("S", Side::Left),
        ("server", Side::Left),
        ("part", Side::Right),
        ("st", Side::Right),
        ("rch", Side::Right),
        ("last", Side::Right),
        ("offset", Side::Right),
        ("± bound", Side::Right),
        ("floor", Side::Right),
    ]);
    for source in sources {
        table.row(vec![
            marks(source),
            source.name.clone(),
            share(source),
            number(source.stratum),
            format!("{:o}", source.reach),
            source.last_reply.map_or_else(|| "-".into(), age),
            source.offset.map_or_else(|| "-".into(), |offset| format!("{offset:+}")),
            optional(source.bound.map(Span::rounded_up)),
            optional(source.rtt_floor),
        ]);
    }
    table.write(out)?;
    // A server that gives nothing says why.
    for source in sources {
        if let Some(trouble) = trouble(source) {
            writeln!(out, "{}: {trouble}", source.name)?;
        }
        if let Some(remark) = stamped_by_hand(source) {
            writeln!(out, "{}: {remark}", source.name)?;
        }
    }
    writeln!(out, "* leads (until another's part is much larger)  + combined  - agrees, no part")?;
    writeln!(
        out,
        "x falseticker  ≠ no majority  ~ smears  ? nothing yet  h silent  ! held off"
    )?;
    writeln!(out, "offset: {} (-v says why)", reference(sources))
}

/// What the offsets are shown against.
fn reference(sources: &[SourceReport]) -> String {
    match sources.iter().find_map(|source| source.offset_to.as_ref()) {
        Some(name) => format!("{name}'s (in the middle) - the server's: no clock yet"),
        None => "our clock's - the server's".into(),
    }
}

/// Whether what it says now is held off: its time has moved by more than it may.
pub fn is_held_off(source: &SourceReport) -> bool {
    let kind = source.doubt.as_ref().map(|doubt| doubt.kind);
    matches!(kind, Some(DoubtKind::ServerStep | DoubtKind::ServerDrift))
}

/// Its part, and whether it lives on what it said before.
fn marks(source: &SourceReport) -> String {
    let more = match source.holdover {
        _ if is_held_off(source) => "!",
        true => "h",
        false => "",
    };
    format!("{}{more}", mark(source.selection))
}

/// Its share in the published time.
fn share(source: &SourceReport) -> String {
    match source.weight {
        // That of what it said before.
        _ if is_held_off(source) => "-".into(),
        Some(weight) if weight < 0.005 => "<1%".into(),
        Some(weight) if weight >= 0.995 && !is_all(weight) => ">99%".into(),
        Some(weight) => format!("{:.0}%", 100.0 * weight),
        None => "-".into(),
    }
}

/// Whether that share is the whole.
fn is_all(weight: f64) -> bool {
    weight > 1.0 - 1e-9
}

/// What its share comes to.
fn by_it(source: &SourceReport) -> String {
    if is_held_off(source) {
        return String::new();
    }
    match (source.selection, source.weight) {
        (Selection::Selected, None) => ": the published time is by this one alone".into(),
        (Selection::Selected, Some(weight)) if is_all(weight) => {
            ": the published time is by this one alone".into()
        }
        (Selection::Selected, Some(_)) => format!(
            ": {} of where the published time stands is by it; another leads once its share is 2.5 \
             times as large",
            share(source)
        ),
        (_, Some(_)) => format!(": {} of where the published time stands is by it", share(source)),
        (_, None) => String::new(),
    }
}

/// Its part, in words, with the reason if it has none.
fn part(source: &SourceReport) -> String {
    let why = source.why.as_deref().map(plain);
    if is_held_off(source) && source.selection == Selection::Selected {
        let why = why.unwrap_or_default();
        return format!("{} {why}: what was known by it before leads", marks(source));
    }
    let holdover = if source.holdover { "; in holdover" } else { "" };
    let by_it = by_it(source);
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let meaning = meaning(source.selection);
    format!("{} {meaning}{by_it}{why}{holdover}", marks(source))
}

/// That the kernel did not stamp its packets, if so: it costs accuracy.
fn stamped_by_hand(source: &SourceReport) -> Option<String> {
    let by_hand = |method| method == Some(StampMethod::User);
    let what = match (by_hand(source.sent_method), by_hand(source.received_method)) {
        (false, false) => return None,
        (true, false) => "requests",
        (false, true) => "replies",
        (true, true) => "packets",
    };
    Some(format!("{what} are stamped in user space, as the kernel does not"))
}

/// What is wrong with a source, if anything is.
fn trouble(source: &SourceReport) -> Option<String> {
    match (&source.trouble, source.selection) {
        (Some(trouble), _) => Some(plain(trouble)),
        (None, Selection::Unusable) if !source.refused.is_empty() => {
            Some(format!("refused: {}", refusals(&source.refused)))
        }
        (None, Selection::Unusable) if source.timeouts > 0 => Some(match source.is_pulse {
            true => format!("{} edges missed", source.timeouts),
            false => format!("no answer to {} requests", source.timeouts),
        }),
        _ => None,
    }
}

fn write_detail(source: &SourceReport, out: &mut dyn Write) -> io::Result<()> {
    let address = match source.address {
        _ if source.is_pulse => "pulse per second".into(),
        Some(address) => address.to_string(),
        None => "no address yet".into(),
    };
    writeln!(out, "{} ({address})", source.name)?;
    let last = source.last_reply.map_or_else(|| "never".into(), |span| age(span) + " ago");
    let offset = match (source.offset, source.bound.map(Span::rounded_up), &source.offset_to) {
        (Some(offset), Some(bound), None) => format!("{offset:+} ± {bound}"),
        (Some(_), Some(bound), Some(name)) if *name == source.name => {
            format!("the others' are shown against it; ± {bound}")
        }
        (Some(offset), Some(bound), Some(name)) => {
            format!("{offset:+} ± {bound}, of {name}, as there is no clock")
        }
        _ => "-".into(),
    };
    let stamps = match source.stamp_errors {
        Some((sent, received)) => {
            format!("{}, sent to ± {sent}, received to ± {received}", stamps(source))
        }
        None => stamps(source),
    };
    if source.is_pulse {
        return write_pulse(source, &last, &offset, out);
    }
    let mut lines = vec![
        ("part", part(source)),
        ("server", server(source)),
        ("replies", format!("last {last}; poll {} s, reach {:o}", source.poll, source.reach)),
        ("offset", format!("{offset} (deviation {})", optional(source.deviation))),
        ("skew", source.skew.map_or_else(|| "-".into(), |skew| format!("counter {skew:+}"))),
        ("round trip", format!("{}, floor {}", optional(source.rtt), optional(source.rtt_floor))),
        ("stamps", stamps),
        (
            "counted",
            format!(
                "{} requests, {} accepted, {} timeouts",
                source.requests, source.accepted, source.timeouts
            ),
        ),
        ("refused", refusals(&source.refused)),
    ];
    if let Some(Asymmetry { by, error }) = source.asymmetry {
        lines.push(("asymmetry", format!("{by:+} ± {error}, as declared (there − back)")));
    }
    if let Some(trouble) = trouble(source) {
        lines.push(("trouble", trouble));
    }
    for (name, text) in lines {
        writeln!(out, "  {name:<11} {text}")?;
    }
    Ok(())
}

/// The rest of a pulse per second.
fn write_pulse(
    source: &SourceReport,
    last: &str,
    offset: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let stamped = source.received_method.map_or("-", StampMethod::name);
    let error = source.stamp_errors.map(|(_, stamp)| stamp);
    let mut lines = vec![
        ("part", part(source)),
        ("edges", format!("last {last}; reach {:o}", source.reach)),
        ("offset", format!("{offset} (deviation {})", optional(source.deviation))),
        ("skew", source.skew.map_or_else(|| "-".into(), |skew| format!("counter {skew:+}"))),
        ("latency", format!("{} at most, as configured", optional(source.rtt))),
        ("stamps", format!("{stamped}, to ± {}", optional(error))),
        (
            "counted",
            format!(
                "{} edges, {} accepted, {} missed",
                source.requests, source.accepted, source.timeouts
            ),
        ),
        ("refused", refusals(&source.refused)),
    ];
    if let Some(trouble) = trouble(source) {
        lines.push(("trouble", trouble));
    }
    for (name, text) in lines {
        writeln!(out, "  {name:<11} {text}")?;
    }
    Ok(())
}

/// What the server says of itself.
fn server(source: &SourceReport) -> String {
    let leap = match source.leap {
        Some(0) => "no leap second",
        Some(1) => "leap second to insert",
        Some(2) => "leap second to leave out",
        Some(_) => "unsynchronised",
        None => return "has not answered yet".into(),
    };
    format!(
        "stratum {}, reference {}, root distance {}, {leap}",
        number(source.stratum),
        source.reference.as_deref().unwrap_or("-"),
        optional(source.root_distance),
    )
}

/// How packets were stamped, sent and received.
fn stamps(source: &SourceReport) -> String {
    let name = |method: Option<StampMethod>| method.map_or("-", StampMethod::name);
    format!("{}/{}", name(source.sent_method), name(source.received_method))
}

fn number(n: Option<u8>) -> String {
    n.map_or_else(|| "-".into(), |n| n.to_string())
}

fn refusals(refused: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_engine::Doubted;
    use truechimer_time::Rate;

    fn source() -> SourceReport {
        SourceReport {
            name: "ntp.example.org:123".into(),
            is_pulse: false,
            address: Some("192.0.2.7:123".parse().unwrap()),
            selection: Selection::Selected,
            weight: Some(0.837),
            why: None,
            holdover: false,
            reach: 0o377,
            poll: 16,
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
            trouble: None,
            doubt: None,
        }
    }

    /// One that never answered.
    fn silent() -> SourceReport {
        SourceReport {
            name: "nowhere.invalid:123".into(),
            address: None,
            selection: Selection::Unusable,
            weight: None,
            reach: 0,
            last_reply: None,
            stratum: None,
            reference: None,
            leap: None,
            root_distance: None,
            rtt: None,
            rtt_floor: None,
            offset: None,
            bound: None,
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
    fn a_share_is_said_as_people_say_it() {
        let detail = |selection, weight| {
            let source = SourceReport { selection, weight, ..source() };
            text(|out| write_detail(&source, out)).lines().nth(1).unwrap().trim().to_owned()
        };
        let leads = |weight| detail(Selection::Selected, weight);
        let alone = "part        * leads: the published time is by this one alone";
        assert_eq!([leads(Some(1.0)), leads(None)], [alone, alone]);
        assert_eq!(
            leads(Some(0.837)),
            "part        * leads: 84% of where the published time stands is by it; another leads \
             once its share is 2.5 times as large"
        );
        assert!(leads(Some(0.997)).contains(": >99% of where"), "{}", leads(Some(0.997)));
        let little = detail(Selection::Combined, Some(0.001));
        assert_eq!(
            little,
            "part        + combined: <1% of where the published time stands is by it"
        );
        assert!(detail(Selection::Truechimer, None).ends_with("has no part in the published time"));
    }

    #[test]
    fn a_pulse_has_edges_and_no_server() {
        let pulse = SourceReport {
            name: "gps".into(),
            is_pulse: true,
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
        let why = Some("it is 18.2 ms from where the majority agrees".to_owned());
        let part = Selection::Falseticker;
        let liar = SourceReport { selection: part, weight: None, why, ..source() };
        let away =
            SourceReport { holdover: true, selection: Selection::Truechimer, ..liar.clone() };
        let shown = text(|out| write_table(&[source(), liar.clone(), away.clone()], out));
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[2].starts_with("x   ntp.example.org:123     -   2"), "{shown}");
        assert!(lines[3].starts_with("-h  ntp.example.org:123     -   2"), "{shown}");
        assert!(lines.iter().take(4).all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.lines().rev().take(3).all(|line| line.chars().count() <= 80), "{shown}");
        let detail = text(|out| write_detail(&liar, out));
        assert!(detail.contains("(it is 18.2 ms from where the majority agrees)"), "{detail}");
        assert!(text(|out| write_detail(&away, out)).contains("; in holdover"));
        let json = serde_json::to_value(Json::of(&liar)).unwrap();
        assert_eq!((&json["selection"], json["weight"].is_null()), (&"falseticker".into(), true));
    }

    #[test]
    fn one_that_is_held_off_has_no_part_and_says_what_it_says() {
        let held = SourceReport {
            doubt: Some(HELD),
            why: Some("held off: its time moved by -150.000 ms".into()),
            offset: Some(Span::from_millis(150)),
            holdover: true,
            weight: Some(1.0),
            ..source()
        };
        let shown = text(|out| write_table(std::slice::from_ref(&held), out));
        let row = shown.lines().nth(1).unwrap();
        assert!(row.starts_with("*!  ntp.example.org:123     -   2  377"), "{shown}");
        assert!(row.contains("+150.000 ms  13.000 ms"), "{shown}");
        assert!(shown.contains("! held off"), "{shown}");
        let detail = text(|out| write_detail(&held, out));
        let part =
            "*! held off: its time moved by -150.000 ms: what was known by it before leads\n";
        assert!(detail.contains(part), "{detail}");
        let other = SourceReport { selection: Selection::Falseticker, ..held };
        let detail = text(|out| write_detail(&other, out));
        assert!(detail.contains("x! falseticker: is not where a majority agrees (held off: "));
        let json = serde_json::to_value(Json::of(&other)).unwrap();
        assert_eq!(json["why"], "held off: its time moved by -150.000 ms");
    }

    #[test]
    fn without_a_clock_offsets_say_what_they_are_shown_against() {
        let of = |name: &str, offset| SourceReport {
            name: name.into(),
            selection: Selection::NoMajority,
            weight: None,
            offset: Some(offset),
            offset_to: Some("a:123".into()),
            ..source()
        };
        let split = [of("a:123", Span::ZERO), of("b:123", Span::from_millis(-50))];
        let shown = text(|out| write_table(&split, out));
        assert!(shown.contains("offset: a:123's (in the middle) - the server's: no clock yet"));
        assert!(shown.lines().nth(2).unwrap().contains("-50.000 ms"), "{shown}");
        assert!(shown.lines().nth(2).unwrap().starts_with("≠  b:123"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let detail = text(|out| split.iter().try_for_each(|one| write_detail(one, out)));
        assert!(detail.contains("offset      the others' are shown against it; ± 13.000 ms"));
        assert!(!detail.contains("falseticker"), "{detail}");
        assert!(detail.contains("≠ disagrees: no majority of the servers agrees"), "{detail}");
        assert!(detail.contains("-50.000 ms ± 13.000 ms, of a:123, as there is no clock"));
        let json = |source: &SourceReport| serde_json::to_value(Json::of(source)).unwrap();
        assert_eq!(json(&split[1])["offset_to"], "a:123");
        assert_eq!(json(&split[1])["selection"], "no-majority");
        assert_eq!(json(&source())["offset_to"], "clock");
        assert!(json(&silent())["offset_to"].is_null());
    }

    const HELD: Doubted = Doubted {
        kind: DoubtKind::ServerStep,
        age: Span::from_secs(190),
        by: Some(Span::from_millis(-150)),
        replies: Some(12),
        left: Some(Span::from_secs(3410)),
    };

    #[test]
    fn a_doubt_is_for_programs_too() {
        let held = HELD;
        let json = serde_json::to_value(Json::of(&SourceReport { doubt: Some(held), ..source() }));
        let expected = serde_json::json!({
            "kind": "server-step", "age_ns": 190_000_000_000_i64, "by_ns": -150_000_000,
            "replies": 12, "believed_in_ns": 3_410_000_000_000_i64,
        });
        assert_eq!(json.unwrap()["doubt"], expected);
        let alone =
            Doubted { kind: DoubtKind::Silent, by: None, replies: None, left: None, ..held };
        let json = serde_json::to_value(DoubtJson::of(&alone)).unwrap();
        assert_eq!(json["kind"], "silent");
        assert!(["by_ns", "replies", "believed_in_ns"].iter().all(|name| json[name].is_null()));
        assert!(serde_json::to_value(Json::of(&source())).unwrap()["doubt"].is_null());
    }

    #[test]
    fn json_is_in_nanoseconds() {
        let json = serde_json::to_value(Json::of(&source())).unwrap();
        assert_eq!(json["offset_ns"], -1_234);
        assert_eq!(json["skew_ppb"], -12_345.0);
        assert_eq!(json["selection"], "selected");
        assert_eq!(json["refused"]["wrong-origin"], 3);
    }
}
