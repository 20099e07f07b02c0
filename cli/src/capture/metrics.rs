//! Metrics of a capture.

use std::time::Duration;

use truechimer_capture::Facts;
use truechimer_capture::pipeline::Live;
use truechimer_command::Failure;
use truechimer_metrics::{Family, Labels, Listen, MetricType, Server, number, unbound};

/// Server of metrics, if they are wanted.
pub fn open(listen: Option<&Listen>) -> Result<Option<Server>, Failure> {
    let Some(listen) = listen else { return Ok(None) };
    let server = Server::bind(listen);
    server.map(Some).map_err(|why| Failure::Said(unbound(listen, &why, "--metrics")))
}

/// All that there is to tell of a capture that has run for so long.
pub fn families(facts: &Facts, live: &Live, uptime: Duration) -> Vec<Family> {
    let one = |name, help, n: u64| Family::counter(name, help, n as f64);
    let bytes = |name, help, n: u64| {
        let none: Labels = Vec::new();
        Family::of(MetricType::Counter, name, "bytes", help, [(none, n as f64)])
    };
    let about = vec![
        ("interface", facts.interface.clone()),
        ("method", facts.method.name().to_owned()),
        ("stamped_by", facts.stamped_by.clone()),
    ];
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    vec![
        Family::info("capture_build", "The program", [build]),
        Family::info("capture", "The interface, and how packets are taken and stamped", [about]),
        Family::gauge("capture_uptime", "seconds", "How long it has run", uptime.as_secs_f64()),
        one("capture_received_packets", "Packets received", live.losses.received),
        one(
            "capture_written_packets",
            "Packets written",
            live.written.saturating_sub(live.unwritten),
        ),
        bytes("capture_captured", "Their bytes, as captured", live.bytes),
        Family::counts(
            "capture_lost_packets",
            "Packets lost, by where",
            "where",
            [
                ("interface", live.losses.interface),
                ("kernel", live.losses.kernel),
                ("ring", live.losses.ring),
                ("queue", live.dropped),
                ("disk", live.unwritten),
            ],
        ),
        one(
            "capture_surplus_packets",
            "Packets taken beyond the number that was asked for",
            live.surplus,
        ),
        Family::gauge(
            "capture_backlog_packets",
            "",
            "Packets that wait for conversion",
            live.queued as f64,
        ),
        one("capture_waits", "How often the capture thread waited for conversion", live.waits),
        Family::counts(
            "capture_stamps",
            "Stamps of packets written, by what they are worth",
            "quality",
            [
                ("bounded", live.tally.bounded),
                ("unsynchronised", live.tally.unsynchronised),
                ("uncounted", live.tally.uncounted),
            ],
        ),
        one("capture_files", "Files begun", live.files),
        bytes("capture_file", "Bytes of all files together", live.file_bytes),
        Family::gauge(
            "capture_write_trouble",
            "",
            "Whether packets cannot be written at the moment, as the disk is full: 1 or 0",
            number(live.trouble.is_some()),
        ),
        Family::gauge(
            "capture_interface_up",
            "",
            "Whether the interface is up: 1 or 0",
            number(!live.down),
        ),
        one("capture_interface_downs", "How often the interface went down", live.downs),
        Family::gauge(
            "capture_ring",
            "bytes",
            "Memory for packets that wait",
            facts.ring_bytes as f64,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_capture::pipeline::Tally;
    use truechimer_capture::{Losses, Method};
    use truechimer_metrics::examine::{self, Told};
    use truechimer_metrics::{Form, text};
    use truechimer_time::CountSpan;

    fn told() -> Told {
        let facts = Facts {
            interface: "eth0".into(),
            method: Method::Packet,
            detail: String::new(),
            link_type: 1,
            snap_length: 262_144,
            stamped_by: "the kernel".into(),
            ring_bytes: 1 << 26,
            stamp_error: CountSpan(50),
        };
        let live = Live {
            losses: Losses { received: 120, ring: 4, kernel: 1, interface: 6 },
            taken: 115,
            written: 110,
            unwritten: 3,
            dropped: 2,
            bytes: 9_000,
            queued: 3,
            files: 2,
            file_bytes: 12_000,
            trouble: Some("no space left".into()),
            tally: Tally { bounded: 100, unsynchronised: 10, ..Tally::default() },
            ..Live::default()
        };
        examine::read(&text(families(&facts, &live, Duration::from_secs(9)), Form::OpenMetrics))
    }

    #[test]
    fn packets_losses_and_files_come_out() {
        let told = told().samples;
        for (name, value) in [
            ("received_packets_total", 120.0),
            ("written_packets_total", 107.0),
            ("captured_bytes_total", 9_000.0),
            ("lost_packets_total{where=\"interface\"}", 6.0),
            ("lost_packets_total{where=\"kernel\"}", 1.0),
            ("lost_packets_total{where=\"ring\"}", 4.0),
            ("lost_packets_total{where=\"queue\"}", 2.0),
            ("lost_packets_total{where=\"disk\"}", 3.0),
            ("backlog_packets", 3.0),
            ("stamps_total{quality=\"bounded\"}", 100.0),
            ("files_total", 2.0),
            ("file_bytes_total", 12_000.0),
            ("write_trouble", 1.0),
            ("interface_up", 1.0),
            ("info{interface=\"eth0\",method=\"packet\",stamped_by=\"the kernel\"}", 1.0),
        ] {
            let name = format!("truechimer_capture_{name}");
            assert_eq!(told.get(&name), Some(&value), "{name} in {told:#?}");
        }
    }

    #[test]
    fn reference_rules_and_dashboard_have_these_names() {
        let ours = |name: &str| name.starts_with("truechimer_capture_");
        examine::hold_to(
            &told().families,
            ours,
            include_str!("../../../docs/reference/metrics.md"),
            &[
                include_str!("../../../contrib/prometheus/rules.yml"),
                include_str!("../../../contrib/prometheus/dashboard.json"),
            ],
        );
    }
}
