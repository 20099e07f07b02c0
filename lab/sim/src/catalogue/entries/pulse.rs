//! Pulses per second beside a server.

use super::{HOUR, NOON, on_lan, single, wan_path};
use crate::pps::PpsSpec;
use crate::scenario::Scenario;
use crate::server::{ServerSpec, Stretch};

pub(super) fn all() -> Vec<Scenario> {
    // An interrupt pin of a host with little else to do.
    let gpio = || PpsSpec { latency_us: 4.0, ..PpsSpec::default() };
    let wan = || ServerSpec::symmetric("wan", wan_path());
    let with = |pulse: PpsSpec, scenario: Scenario| Scenario { pulses: vec![pulse], ..scenario };
    let away = |hours: f64| vec![Stretch { from_s: NOON, to_s: NOON + hours * HOUR }];
    vec![
        with(
            gpio(),
            single("pps-and-lan", "the LAN and a pulse per second, stamped 1 µs late", on_lan()),
        ),
        with(
            PpsSpec { silences: away(2.0), ..gpio() },
            single("pps-stops", "the WAN and a pulse; two hours without edges", wan()),
        ),
        with(
            gpio(),
            single(
                "pps-alone",
                "the WAN and a pulse; six hours without the server",
                ServerSpec { silences: away(6.0), ..wan() },
            ),
        ),
        with(
            PpsSpec { offset_ms: 300.0, ..gpio() },
            single("pps-off-by-300ms", "the LAN and a pulse that is 300 ms late", on_lan()),
        ),
        with(
            PpsSpec { latency_us: 200.0, late_us: 20.0, loss: 0.1, ..PpsSpec::default() },
            single(
                "pps-late-edges",
                "the WAN and a pulse, stamped 20 µs late, 10 % of the edges lost",
                wan(),
            ),
        ),
    ]
}
