//! The system clock steered by ours.

use truechimer_engine::StepPolicy;

use super::{HOUR, at, from_the_start, lan_path, on_lan, single};
use crate::path::{Outage, PathSpec};
use crate::scenario::{LeapSpec, Restart, Scenario};
use crate::system_clock::{Set, SystemClockSpec};

/// 2027-02-01T00:00:00Z.
const MIDNIGHT: i64 = 1_801_440_000;

pub(super) fn all() -> Vec<Scenario> {
    let fast = || SystemClockSpec { skew_ppm: 80.0, ..SystemClockSpec::default() };
    let away = Outage { from_s: HOUR, to_s: 2.0 * HOUR };
    let outage = || PathSpec { outages: vec![away], ..lan_path() };
    let restart = Restart { at_s: HOUR, gap_s: 10.0, warm: true, saved_rate: true };
    let leap = |name: &str, about: &str, inserted: bool| Scenario {
        begin: MIDNIGHT - 3600,
        leap: Some(LeapSpec { midnight: MIDNIGHT, inserted }),
        ..steered(name, about, fast())
    };
    vec![
        steered(
            "system-clock",
            "the LAN; the system clock, 3 s ahead and 80 ppm fast, follows",
            SystemClockSpec { offset_ms: 3000.0, ..fast() },
        ),
        steered(
            "system-clock-slewed",
            "the LAN; the system clock, 20 ms behind and 60 ppm slow, may not be stepped",
            SystemClockSpec {
                offset_ms: -20.0,
                skew_ppm: -60.0,
                step: StepPolicy::Never,
                ..SystemClockSpec::default()
            },
        ),
        steered(
            "system-clock-set",
            "the LAN; somebody sets the system clock by 0.2, −5 and 800 ms",
            SystemClockSpec {
                step: StepPolicy::Always,
                sets: [(3000.0, 0.2), (5000.0, -5.0), (8000.0, 800.0)]
                    .map(|(at_s, by_ms)| Set { at_s, by_ms })
                    .to_vec(),
                ..fast()
            },
        ),
        Scenario {
            restarts: vec![restart],
            ..steered(
                "system-clock-restart",
                "the LAN; the daemon, which steers the system clock, starts again after 10 s",
                fast(),
            )
        },
        Scenario {
            servers: vec![at(outage(), outage())],
            ..steered("system-clock-outage", "the LAN, an hour of it without the server", fast())
        },
        leap("system-clock-leap", "a leap second is inserted; the kernel inserts it", true),
        leap(
            "system-clock-leap-deleted",
            "a leap second is left out, by the kernel as well",
            false,
        ),
    ]
}

fn steered(name: &str, about: &str, system: SystemClockSpec) -> Scenario {
    let scenario = single(name, about, on_lan());
    from_the_start(Scenario { system_clock: Some(system), ..scenario }, 3.0)
}
