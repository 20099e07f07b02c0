//! Several servers, of which some lie, go, come back, or have other ideas of a leap second.

use super::{HOUR, lan_path, wan_path};
use crate::path::{PathSpec, Shift};
use crate::scenario::{LeapSpec, Scenario};
use crate::server::{Lapse, Lie, Ramp, ServerSpec, Step, Stretch};

/// When things happen, s.
const FOUR: f64 = 4.0 * HOUR;
/// For how long liars lie, s.
const LONG: f64 = 2.0 * HOUR;
/// 2027-07-01T00:00:00Z, and when runs with a leap second begin: so that it is in the middle.
const MIDNIGHT: i64 = 1_814_400_000;
const BEFORE: i64 = MIDNIGHT - 14 * 3600;

/// An honest server of this name on the LAN.
fn named(name: &str) -> ServerSpec {
    ServerSpec::symmetric(name, lan_path())
}

/// Nearer than all the others.
fn nearest(name: &str) -> ServerSpec {
    ServerSpec::symmetric(name, PathSpec::exponential(0.05, 0.005))
}

fn honest() -> Vec<ServerSpec> {
    vec![named("first"), named("second")]
}

/// Those two and others.
fn with(others: impl IntoIterator<Item = ServerSpec>) -> Vec<ServerSpec> {
    honest().into_iter().chain(others).collect()
}

/// From the fourth hour on, for two.
fn lies(server: ServerSpec, by_ms: f64) -> ServerSpec {
    ServerSpec { lies: vec![Lie { from_s: FOUR, to_s: FOUR + LONG, by_ms }], ..server }
}

/// Twelve hours of which the first does not count.
fn half_a_day(name: &str, about: &str, servers: Vec<ServerSpec>) -> Scenario {
    Scenario { hours: 12.0, warm_up_hours: 1.0, ..Scenario::new(name, about, servers) }
}

pub(super) fn all() -> Vec<Scenario> {
    [liars(), unlike(), handed_over(), smears()].concat()
}

/// A minority that lies.
fn liars() -> Vec<Scenario> {
    let ramp = |ppm: f64, hours: f64| ServerSpec {
        ramps: vec![Ramp { from_s: FOUR, to_s: FOUR + hours * HOUR, ppm }],
        steps: vec![Step { at_s: FOUR + hours * HOUR, by_ms: -3.6 * ppm * hours }],
        ..nearest("liar")
    };
    let again = (0..9).map(|n| FOUR + 1200.0 * f64::from(n));
    let again = again.map(|from_s| Lie { from_s, to_s: from_s + 600.0, by_ms: 20.0 }).collect();
    // Its claim is smaller than its lie, and the others' claims are larger.
    let modest = |name: &str| ServerSpec { root_dispersion_us: 5000.0, stratum: 3, ..named(name) };
    let boasts = ServerSpec { root_dispersion_us: 0.1, ..lies(nearest("liar"), 3.0) };
    let five = |by_ms: f64| {
        let liars = [nearest("liar"), nearest("accomplice")].map(|server| lies(server, by_ms));
        with([named("third")].into_iter().chain(liars))
    };
    vec![
        half_a_day(
            "liar-1ms",
            "three servers; the nearest is 1 ms wrong for two hours",
            with([lies(nearest("liar"), 1.0)]),
        ),
        half_a_day(
            "liar-100us",
            "three servers; the nearest is 100 µs wrong for two hours, within the others' bounds",
            with([lies(nearest("liar"), 0.1)]),
        ),
        half_a_day(
            "liars-two-of-five",
            "five servers; the two nearest are 5 ms wrong together for two hours",
            five(5.0),
        ),
        half_a_day(
            "liars-two-of-five-100us",
            "five servers; the two nearest are 100 µs wrong together, within the others' bounds",
            five(0.1),
        ),
        half_a_day(
            "liar-ramp",
            "three servers; the nearest gains 10 ppm for two hours and is right again",
            with([ramp(10.0, 2.0)]),
        ),
        half_a_day(
            "liar-creeps",
            "three servers; the nearest gains 0.1 ppm for six hours and is right again",
            with([ramp(0.1, 6.0)]),
        ),
        half_a_day(
            "liar-again",
            "three servers; the nearest is 20 ms wrong for ten minutes in every twenty, nine times",
            with([ServerSpec { lies: again, ..nearest("liar") }]),
        ),
        half_a_day(
            "liar-boasts",
            "a near liar, 3 ms off, claims to be exact; the others claim 5 ms",
            vec![modest("first"), modest("second"), boasts],
        ),
    ]
}

/// A minority that is nearer than the others and lies, where distances are unlike.
fn unlike() -> Vec<Scenario> {
    let path = PathSpec::exponential;
    let city = |name: &str| ServerSpec {
        forward: path(0.6, 0.05),
        backward: path(0.5, 0.05),
        root_dispersion_us: 60.0,
        ..named(name)
    };
    let far = |name: &str, there: f64, back: f64| ServerSpec {
        stratum: 2,
        root_delay_us: 500.0,
        root_dispersion_us: 200.0,
        forward: path(there, 0.4),
        backward: path(back, 0.4),
        ..named(name)
    };
    // There and back again, so that it is right in the end.
    let drifts = |server: ServerSpec, ppm: f64| ServerSpec {
        ramps: vec![Ramp { from_s: FOUR, to_s: FOUR + LONG, ppm }],
        steps: vec![Step { at_s: FOUR + LONG, by_ms: -ppm * LONG * 1e-3 }],
        ..server
    };
    let three = |liar: ServerSpec| vec![liar, city("city"), far("far", 7.0, 6.0)];
    let five = |liar: ServerSpec, accomplice: ServerSpec| {
        let honest = [far("far", 7.0, 6.0), far("farther", 9.0, 9.0), city("city")];
        [liar, accomplice].into_iter().chain(honest).collect()
    };
    vec![
        half_a_day(
            "unlike-liar-400us",
            "near, same city, far: the near one is 0.4 ms wrong for two hours",
            three(lies(named("liar"), 0.4)),
        ),
        half_a_day(
            "unlike-liar-1ms",
            "near, same city, far: the near one is 1.2 ms wrong for two hours",
            three(lies(named("liar"), 1.2)),
        ),
        half_a_day(
            "unlike-drift",
            "near, same city, far: the near one gains 1 ppm for two hours and is right again",
            three(drifts(named("liar"), 1.0)),
        ),
        half_a_day(
            "unlike-drift-slow",
            "near, same city, far: the near one gains 0.3 ppm for two hours and is right again",
            three(drifts(named("liar"), 0.3)),
        ),
        half_a_day(
            "unlike-two-of-five",
            "five servers; the near one and one of the city's are 3 ms wrong together",
            five(lies(named("liar"), 3.0), lies(city("accomplice"), 3.0)),
        ),
        half_a_day(
            "unlike-two-of-five-drift",
            "five servers; the near one and one of the city's gain 1 ppm together for two hours",
            five(drifts(named("liar"), 1.0), drifts(city("accomplice"), 1.0)),
        ),
        half_a_day(
            "unlike-two-of-five-200ppm",
            "five servers; the near one and one of the city's gain 200 ppm together for two hours",
            five(drifts(named("liar"), 200.0), drifts(city("accomplice"), 200.0)),
        ),
    ]
}

/// Servers that go and come back, and paths that change under one of them.
fn handed_over() -> Vec<Scenario> {
    let away = |from_s: f64, to_s: f64| ServerSpec {
        silences: vec![Stretch { from_s, to_s }],
        ..nearest("near")
    };
    let askew = |name: &str, there: f64, back: f64| ServerSpec {
        forward: PathSpec::exponential(there, 0.5),
        backward: PathSpec::exponential(back, 0.5),
        ..named(name)
    };
    let far = |near: ServerSpec| vec![near, askew("far", 18.0, 12.0), askew("farther", 31.0, 25.0)];
    let lapse =
        Lapse { from_s: FOUR, lost_s: 3.0 * HOUR, silent_s: HOUR, ppm: 5.0, claimed_ppm: 15.0 };
    let shifted = |name: &str, by_ms: f64| {
        let path = PathSpec::exponential(0.6, 0.01);
        let shift = Shift { at_s: FOUR, by_ms, until_s: None };
        ServerSpec {
            forward: PathSpec { shifts: vec![shift], ..path.clone() },
            backward: path,
            ..named(name)
        }
    };
    let second = || ServerSpec::symmetric("second", PathSpec::exponential(0.6, 0.01));
    vec![
        half_a_day(
            "near-dies",
            "a near server is away for four hours; two others are far and lean to the same side",
            far(away(FOUR, FOUR + 4.0 * HOUR)),
        ),
        half_a_day(
            "near-comes-late",
            "a near server answers from the third hour on; two others are far and lean to one side",
            far(away(0.0, 3.0 * HOUR)),
        ),
        half_a_day(
            "reference-lost",
            "one of three loses its reference: it drifts, its dispersion grows, then it says so",
            with([ServerSpec { lapses: vec![lapse], ..nearest("lost") }]),
        ),
        half_a_day(
            "shift-second-tells",
            "requests to one of two servers take 0.4 ms less from the fourth hour on",
            vec![shifted("first", -0.4), second()],
        ),
        half_a_day(
            "shift-up-second-tells",
            "requests to one of two servers take 0.4 ms more from the fourth hour on",
            vec![shifted("first", 0.4), second()],
        ),
    ]
}

/// Leap seconds that some smear over a day and others do not.
fn smears() -> Vec<Scenario> {
    let smearing = |name: &str| ServerSpec { smears: true, ..named(name) };
    let leap = |name: &str, about: &str, inserted: bool, servers: Vec<ServerSpec>| Scenario {
        hours: 27.0,
        begin: BEFORE,
        leap: Some(LeapSpec { midnight: MIDNIGHT, inserted }),
        ..Scenario::new(name, about, servers)
    };
    vec![
        leap(
            "smear-of-four",
            "a leap second; one of four servers smears it",
            true,
            with([named("third"), smearing("smearing")]),
        ),
        leap(
            "smear-two-of-three",
            "a leap second; two of three servers smear it",
            true,
            vec![named("first"), smearing("smearing"), smearing("too")],
        ),
        leap(
            "smear-two-of-three-deleted",
            "a second is left out; two of three servers smear it",
            false,
            vec![named("first"), smearing("smearing"), smearing("too")],
        ),
        leap("smear-alone", "a leap second; the only server smears it", true, vec![smearing("it")]),
        leap(
            "smear-all",
            "a leap second; all three servers smear it",
            true,
            ["first", "second", "third"].map(smearing).to_vec(),
        ),
        leap(
            "smear-far-of-three",
            "a leap second; one of three servers smears it, and it is far away",
            true,
            with([ServerSpec { smears: true, ..ServerSpec::symmetric("far", wan_path()) }]),
        ),
        leap(
            "leap-deleted",
            "a second is left out; three servers announce it",
            false,
            with([named("third")]),
        ),
    ]
}
