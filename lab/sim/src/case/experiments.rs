//! The experiments and their scenarios.

use crate::catalogue::find;
use crate::host::{Load, RequestDelay};
use crate::path::Outage;
use crate::{Scenario, ScenarioError};

use super::{Experiment, Shows};

/// All experiments, each `scale` times as long as in full. At least 0.01.
///
/// # Errors
/// If that makes one of them too short or too long to be run.
pub fn experiments(scale: f64) -> Result<Vec<Experiment>, ScenarioError> {
    let scaled = |scenario: Scenario, hours: f64| scenario.with_hours((hours * scale).max(0.5));
    let known = |name: &str| find(name).map_err(|why| ScenarioError::new(why.to_string()));
    let one = |scenario: Scenario| vec![(String::new(), scenario)];

    let mut loaded = known("lan-bursts-both")?;
    loaded.name = "congestion-and-load".into();
    loaded.host.stamps = known("noisy-host")?.host.stamps;
    loaded.host.loads = bursts(28.0)
        .map(|(from_s, to_s)| Load { from_s, to_s, factor: 20.0, stalls: 0.05, stall_ms: 20.0 })
        .collect();
    // The host's noise by itself: what the network does is as on the quiet LAN.
    let mut host = loaded.clone();
    host.name = "load".into();
    host.servers = known("lan")?.servers;
    let mut steady = known("lan")?;
    steady.name = "lan-steady".into();
    steady.oscillator.walk_per_root_s = 1e-10;
    let mut start = known("lan")?;
    start.warm_up_hours = 0.0;
    let mut delayed = known("lan")?;
    delayed.name = "small-delays".into();
    delayed.host.request_delays = [100.0, 300.0, 1000.0]
        .into_iter()
        .zip([6.0, 12.0, 18.0])
        .map(|(by_us, hour)| RequestDelay {
            from_s: 3600.0 * hour * scale,
            to_s: 3600.0 * (hour + 2.0) * scale,
            by_us,
        })
        .collect();
    let mut gone = known("lan")?;
    gone.name = "two-hours-away".into();
    for server in &mut gone.servers {
        for path in [&mut server.forward, &mut server.backward] {
            path.outages = vec![Outage { from_s: 36_000.0 * scale, to_s: 43_200.0 * scale }];
        }
    }
    let mut experiments = vec![
        Experiment {
            title: "A quiet LAN",
            text: "Nothing disturbs anybody. The width of the histograms is what each clock makes of \
                   the same packets. How ours and published compare is a matter of the oscillator: some 13 to \
                   1 for one that walks by 1e-9 a root second, 3.5 to 1 for 1e-10 (RMS, three \
                   seeds). published weighs the packets of 1024 s and goes by the rate of the last \
                   hour and a half. The first oscillator has moved on by then, which puts published \
                   behind ntp-pll, whose loop suits that walk and this little noise; by the second \
                   published stays behind too, but by far less (why is in \
                   docs/explanation/published.md#on-a-quiet-lan). ours measures the walk, and averages for as \
                   long as that allows.",
            scenarios: vec![
                ("1e-9/√s".into(), scaled(known("lan")?, 28.0)?),
                ("1e-10/√s".into(), scaled(steady.clone(), 28.0)?),
            ],
            apart: "oscillator's walk",
            shows: Shows::Error,
        },
        Experiment {
            title: "Congestion",
            text: "Seven minutes in every seventeen, both directions queue for a millisecond on \
                   average. A feedback clock that believes its newest packet is pushed about.",
            scenarios: one(scaled(known("lan-bursts-both")?, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Congestion and a busy host",
            text: "The same, while the host takes twenty times as long to stamp and to wake, and is held \
                   up for as much as 20 ms now and then.",
            scenarios: one(scaled(loaded.clone(), 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "A busy host",
            text: "The host's noise by itself, on the quiet LAN: the host takes twenty times as long to \
                   stamp and to wake for seven minutes in every seventeen, and is held up for as much \
                   as 20 ms now and then (the right half of the paper's Figures 3 and 4).",
            scenarios: one(scaled(host.clone(), 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "The difference clock",
            text: "Intervals of 1 s and of 1000 s, one after the other through the whole run (the \
                   paper's section II-E). A clock for differences never sees a correction of the \
                   offset; a feedback clock has but one clock, whose corrections are errors of \
                   whatever interval they fall into.",
            scenarios: vec![
                ("quiet".into(), scaled(known("lan")?, 28.0)?),
                ("quiet, walk 1e-10/√s".into(), scaled(steady, 28.0)?),
                ("congestion".into(), scaled(known("lan-bursts-both")?, 28.0)?),
                ("busy host".into(), scaled(host, 28.0)?),
                ("both".into(), scaled(loaded, 28.0)?),
            ],
            apart: "disturbance",
            shows: Shows::Differences,
        },
        Experiment {
            title: "Start-up",
            text: "The first hour, from the first request. No clock knows anything but the nominal \
                   rate of the counter, which is 10 ppm wrong.",
            scenarios: one(start.with_hours(1.0)?),
            apart: "",
            shows: Shows::Start,
        },
        Experiment {
            title: "Two hours without a server",
            text: "The network is gone from hour 10 to hour 12 and then comes back. While it is gone \
                   the clocks live on the rate that they know; when it is back a feedback loop has an \
                   error to work off, and a feed-forward clock has new data.",
            scenarios: one(scaled(gone, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Small delays added to the client's packets",
            text: "From hour 6, 12 and 18 on, for two hours each, the client's requests are held up by \
                   0.1, 0.3 and 1 ms after they have been stamped. Half of that cannot be told from an \
                   offset by anybody; what a clock adds to it is its own doing.",
            scenarios: one(scaled(delayed, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "A long run at a slow poll",
            text: "A week at one request in 256 s.",
            scenarios: one(scaled(known("lan")?.with_poll(256)?, 168.0)?),
            apart: "",
            shows: Shows::Error,
        },
    ];
    let mut several = Vec::new();
    for adaptive in [None, Some([64, 1024])] {
        for servers in 1..=5 {
            let mut scenario = servers_of(known("city-64")?, servers);
            scenario.adaptive = adaptive;
            let poll = adaptive.map_or("64 s", |_| "adaptive");
            let scenario = scaled(scenario.with_poll(64)?, 48.0)?;
            several.push((format!("{servers}, {poll}"), scenario));
        }
    }
    experiments.push(Experiment {
        title: "One to five servers, fixed and adaptive polling",
        text: "Servers in the same city, at a poll of 64 s, or of 64 to 1024 s as the loop of RFC 5905 \
               chooses; all clocks get the packets that it asked for. A feedback loop has \
               one system clock for each server here, and one of them is followed at a time; a real \
               daemon has one in all.",
        apart: "servers, poll",
        scenarios: several,
        shows: Shows::Distributions,
    });
    let mut far = Vec::new();
    for (place, rtt) in [("near", "0.3 ms"), ("city", "0.9 ms"), ("far", "38 ms")] {
        for poll in [16, 64, 256, 1024] {
            let scenario = scaled(known(&format!("{place}-{poll}"))?, 96.0)?;
            far.push((format!("{rtt}, {poll} s"), scenario));
        }
    }
    experiments.push(Experiment {
        title: "Near and far, fast and slow",
        text: "A server near by (a round trip of 0.3 ms), in the same city (0.9 ms), and far away \
               (38 ms), asked every 16 to 1024 s.",
        apart: "round trip, poll",
        scenarios: far,
        shows: Shows::Distributions,
    });
    Ok(experiments)
}

/// The bursts of the reference scenarios within so many hours.
fn bursts(hours: f64) -> impl Iterator<Item = (f64, f64)> {
    (0..)
        .map(|n| 600.0 + 1020.0 * f64::from(n))
        .map(|from| (from, from + 420.0))
        .take_while(move |(_, to)| *to < hours * 3600.0)
}

/// Scenario with so many servers like its first.
fn servers_of(mut scenario: Scenario, servers: usize) -> Scenario {
    if let Some(first) = scenario.servers.first().cloned() {
        scenario.servers = (0..servers)
            .map(|n| {
                let mut server = first.clone();
                server.name = format!("{}-{}", first.name, n + 1);
                server
            })
            .collect();
    }
    scenario
}
