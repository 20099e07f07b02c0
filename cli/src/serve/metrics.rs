//! Metrics of the NTP server of the page's clock.

use std::time::Duration;

use truechimer::{Status, View};
use truechimer_metrics::{Family, Labels, number, seconds};
use truechimer_ntp::LeapIndicator;
use truechimer_ntp::server::ServerState;
use truechimer_serve::{Serving, Tally};

/// All that metrics tell.
pub struct Snapshot {
    uptime: Duration,
    tally: Tally,
    /// State by the server's word.
    state: ServerState,
    /// The clock as this reader of the page sees it.
    view: Option<View>,
}

impl Snapshot {
    /// Snapshot of a server that has run for so long.
    pub fn of(serving: &Serving, uptime: Duration) -> Snapshot {
        Snapshot {
            uptime,
            tally: serving.tally(),
            state: serving.state(),
            view: serving.clock().and_then(|clock| clock.view().ok()),
        }
    }
}

/// All that there is to tell.
pub fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut families = of_requests(&snapshot.tally);
    families.extend(of_clock(snapshot));
    families
}

fn of_requests(tally: &Tally) -> Vec<Family> {
    let one = |name, help, n: u64| Family::counter(name, help, n as f64);
    vec![
        one("serve_received", "Datagrams received", tally.received),
        Family::counts(
            "serve_answered",
            "Requests answered with the time, by version of the protocol",
            "version",
            [
                ("1", tally.version1),
                ("2", tally.version2),
                ("3", tally.version3),
                ("4", tally.version4),
            ],
        ),
        one("serve_interleaved", "Answers in interleaved mode", tally.interleaved),
        one(
            "serve_unsynchronised",
            "Answers that say that the clock is not synchronised",
            tally.unsynchronised,
        ),
        Family::counts(
            "serve_refused",
            "Datagrams without an answer with the time, by reason",
            "reason",
            [
                ("kissed", tally.kissed),
                ("limited", tally.limited),
                ("nts", tally.nts_refused),
                ("nts_nak", tally.nts_naks),
                ("key_nak", tally.key_naks),
                ("unproven", tally.unproven),
                ("denied", tally.denied),
                ("short", tally.short),
                ("mode", tally.mode),
                ("version", tally.version),
            ],
        ),
        one("serve_unsent", "Answers that the system would not take", tally.unsent),
        one("serve_overflowed", "Datagrams that the kernel dropped", tally.overflowed),
        one("serve_unstamped", "Requests that the kernel did not stamp", tally.unstamped),
    ]
}

fn of_clock(snapshot: &Snapshot) -> Vec<Family> {
    let Snapshot { uptime, state, view, .. } = snapshot;
    let synchronised = state.leap != LeapIndicator::Unsynchronised;
    let status = view.map_or(Status::Unknown, |view| view.status);
    let all = [Status::Synchronised, Status::Holdover, Status::Disrupted, Status::Unknown];
    let (delay, dispersion) = (state.root_delay.span(), state.root_dispersion.span());
    let told = |value: f64| synchronised.then_some(value);
    let reference = state.reference_id.text(if synchronised { state.stratum } else { 0 });
    let build: Labels = vec![("version", env!("CARGO_PKG_VERSION").into())];
    vec![
        Family::info("serve_build", "The server", [build]),
        Family::gauge("serve_uptime", "seconds", "How long it has run", uptime.as_secs_f64()),
        Family::states(
            "serve_status",
            "Status of the clock that is served: 1 for the one it has, 0 for the others",
            "status",
            all.map(Status::name),
            status.name(),
        ),
        Family::gauge(
            "serve_synchronised",
            "",
            "Whether answers say that the clock is synchronised: 1 or 0",
            number(synchronised),
        ),
        Family::info(
            "serve_reference",
            "Reference id in answers",
            [vec![("id", reference.to_string())]],
        ),
        Family::gauge("serve_stratum", "", "Stratum in answers", told(state.stratum.into())),
        Family::gauge(
            "serve_bound",
            "seconds",
            "Bound that clients are told: root delay / 2 + root dispersion",
            told(seconds(delay.half() + dispersion)),
        ),
        Family::gauge("serve_root_delay", "seconds", "Root delay in answers", told(seconds(delay))),
        Family::gauge(
            "serve_root_dispersion",
            "seconds",
            "Root dispersion in answers",
            told(seconds(dispersion)),
        ),
        Family::gauge(
            "serve_heartbeat_age",
            "seconds",
            "Age of the daemon's heartbeat as this reader of the page sees it",
            view.and_then(|view| view.heartbeat_age()).map(seconds),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_metrics::examine::{self, Told};
    use truechimer_metrics::{Form, text};
    use truechimer_ntp::{Log2, RefId, Short, Timestamp};

    fn snapshot(leap: LeapIndicator) -> Snapshot {
        Snapshot {
            uptime: Duration::from_secs(60),
            tally: Tally {
                received: 100,
                answered: 90,
                version3: 30,
                version4: 60,
                denied: 7,
                short: 3,
                overflowed: 5,
                ..Tally::default()
            },
            state: ServerState {
                leap,
                stratum: 3,
                precision: Log2(-20),
                root_delay: Short(1 << 7),
                root_dispersion: Short(1 << 6),
                reference_id: RefId([192, 0, 2, 1]),
                reference_timestamp: Timestamp(1),
            },
            view: None,
        }
    }

    fn told(leap: LeapIndicator) -> Told {
        examine::read(&text(families(&snapshot(leap)), Form::OpenMetrics))
    }

    #[test]
    fn requests_and_what_clients_are_told_come_out() {
        let told = told(LeapIndicator::None).samples;
        for (name, value) in [
            ("truechimer_serve_received_total", 100.0),
            ("truechimer_serve_answered_total{version=\"4\"}", 60.0),
            ("truechimer_serve_answered_total{version=\"1\"}", 0.0),
            ("truechimer_serve_refused_total{reason=\"denied\"}", 7.0),
            ("truechimer_serve_refused_total{reason=\"kissed\"}", 0.0),
            ("truechimer_serve_overflowed_total", 5.0),
            ("truechimer_serve_status{status=\"unknown\"}", 1.0),
            ("truechimer_serve_synchronised", 1.0),
            ("truechimer_serve_stratum", 3.0),
            ("truechimer_serve_bound_seconds", 1.0 / 512.0),
            ("truechimer_serve_reference_info{id=\"192.0.2.1\"}", 1.0),
        ] {
            assert_eq!(told.get(name), Some(&value), "{name} in {told:#?}");
        }
    }

    #[test]
    fn what_is_not_promised_is_left_out() {
        let told = told(LeapIndicator::Unsynchronised).samples;
        assert_eq!(told["truechimer_serve_synchronised"], 0.0);
        for name in ["bound", "stratum", "root", "heartbeat"] {
            let name = format!("truechimer_serve_{name}");
            assert!(told.keys().all(|key| !key.starts_with(&name)), "{name} in {told:#?}");
        }
    }

    #[test]
    fn reference_rules_and_dashboard_have_these_names() {
        let ours = |name: &str| name.starts_with("truechimer_serve_");
        examine::hold_to(
            &told(LeapIndicator::None).families,
            ours,
            include_str!("../../../docs/reference/metrics.md"),
            &[
                include_str!("../../../contrib/prometheus/rules.yml"),
                include_str!("../../../contrib/prometheus/dashboard.json"),
            ],
        );
    }
}
