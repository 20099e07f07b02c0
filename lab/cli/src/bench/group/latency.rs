//! End to end: a request to a server of three replicas and its first answer, with and without the
//! group's clock. The paper's first experiment.

use serde_json::json;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, quantile, show_ns, tail};
use truechimer_outcome::verdict::{Control, Verdict};
use truechimer_outcome::wakes::Wakes;

use crate::bench::group::options::Options;
use crate::bench::group::placement::Placement;
use crate::bench::group::serve::Way;
use crate::bench::group::service::Service;

/// Cost of the one-round read in a first prototype, end to end, on udpu, ns.
const PROTOTYPE_NS: f64 = 147_000.0;
/// Cost that the paper reports for its own, ns.
const PAPER_NS: f64 = 300_000.0;
const WAYS: [Way; 5] = [Way::None, Way::Bare, Way::Round, Way::Riding, Way::System];

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let count = options.count(10_000, 300) as u64;
    options.say(&format!("latency: {count} invocations in each way"));
    let wakes = Wakes::start();
    let service = Service::run(options, count, false)?;
    Ok(outcome(&service, count, &options.placement, &wakes.end()))
}

fn outcome(service: &Service, count: u64, placement: &Placement, control: &Control) -> Outcome {
    let without = median(service.end_to_end(Way::None));
    let added = |way| median(service.end_to_end(way)) - without;
    let mut grid = Grid::new(
        "From the request to the first answer",
        ["the answer's time", "p50", "p90", "p99", "p99.9", "added, p50", "answers all the same"],
    );
    let mut json = Vec::new();
    for measured in service.client.iter().filter(|measured| WAYS.contains(&measured.way)) {
        let all = service.end_to_end(measured.way);
        let at = |q| quantile(&all, q);
        let share = format!("{} of {count}", measured.same);
        let cells = [0.5, 0.9, 0.99, 0.999].map(|q| show_ns(at(q)));
        let rest = [show_ns(at(0.5) - without), share];
        let name = [measured.way.name().to_owned()];
        grid.row(name.into_iter().chain(cells).chain(rest));
        json.push(json!({
            "way": measured.way.name(), "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99),
            "p999_ns": at(0.999), "added_p50_ns": at(0.5) - without, "same": measured.same,
            "count": count,
        }));
    }
    let same = |way: Way| {
        let measured = service.client.iter().find(|measured| measured.way == way);
        measured.map_or(0, |measured| measured.same)
    };
    let (round, riding, bare) = (added(Way::Round), added(Way::Riding), added(Way::Bare));
    // The ways take turns, so that a part of the run is a round of all of them.
    let [plain, by_round, by_bare] =
        [Way::None, Way::Round, Way::Bare].map(|way| service.end_to_end(way));
    let added_by_round = Interval::of_blocks([&plain, &by_round], |[a, b]| median(b) - median(a));
    let to_bare = Interval::of_blocks([&plain, &by_round, &by_bare], |[plain, round, bare]| {
        (median(round) - median(plain)) / (median(bare) - median(plain))
    });
    // A ring on which a bare message takes as long as that can add no less.
    let ring = if bare < PROTOTYPE_NS {
        Ok(())
    } else {
        Err(format!("on this ring a bare message itself adds {}", show_ns(bare)))
    };
    let alike = same(Way::Round) + same(Way::Riding);
    let goals = vec![
        Goal {
            name: "what a one-round read adds, median".to_owned(),
            wanted: format!("≤ {}", show_ns(PROTOTYPE_NS)),
            measured: added_by_round.text(show_ns),
            verdict: Verdict::at_most(PROTOTYPE_NS, &added_by_round).under(&ring),
        }
        .under(control),
        Goal::at_most(
            "what a one-round read adds ÷ what a bare message adds, medians",
            1.2,
            &to_bare,
        )
        .under(control),
        Goal::counted(
            "answers by the group's clock that are the same at all replicas",
            &format!("{} of {}", 2 * count, 2 * count),
            format!("{alike} of {}", 2 * count),
            alike == 2 * count,
        ),
    ];
    let line = |way: Way| {
        let all = service.end_to_end(way);
        (way.name().to_owned(), tail(all.into_iter().map(|ns| ns * 1e-3)))
    };
    Outcome {
        headline: Vec::new(),
        name: "latency",
        title: "End-to-end latency with and without the group's clock".to_owned(),
        about: vec![
            format!(
                "A client at the fourth node of a ring, which only observes the group, sends {count} \
                 requests in each of five ways, taking turns, to a server of three active replicas: \
                 the request goes into the group's order, each replica answers into it, the client \
                 takes the first answer and waits for the others. udpu, all on one machine, an agent \
                 and a Corosync for each node: processes wait for each other's processors, so \
                 compare within the table. {}",
                placement.text()
            ),
            format!(
                "What a message in the group's order costs at the same place, whoever sends it, is the \
                 row of the bare message: node 1 sends one of 96 bytes by libcpg and nothing else, and \
                 each replica answers when it has it. That adds {}.",
                show_ns(bare)
            ),
            format!(
                "With the one-round read each replica reads the group's clock by a round before it \
                 answers; with the riding read it takes the request's time of delivery, for which \
                 the client's proposal rode on the request. The system clock is what a service has \
                 without the group's clock: fast, and different at each replica. The paper's own \
                 figure for what its service adds is about {}, on its machines; here the one-round \
                 read adds {} and the riding read {}.",
                show_ns(PAPER_NS),
                show_ns(round),
                show_ns(riding)
            ),
        ],
        goals,
        grids: vec![grid],
        figures: vec![Figure::Plot(Plot {
            title: "From the request to the first answer, µs: share that takes longer".to_owned(),
            x: Axis::log("latency, µs"),
            y: Axis::log("share of the invocations that take longer"),
            lines: WAYS.map(line).to_vec(),
        })],
        json: json!({ "invocations": count, "ways": json }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::group::serve::Measured;

    /// A service whose bare message and round add so much, µs.
    fn service(bare: u64, round: u64) -> Service {
        let added = |way| match way {
            Way::Bare => bare,
            Way::Round => round,
            _ => 0,
        };
        let measured = |way| Measured {
            way,
            // Requests become slower and slower, in all ways alike.
            ns: (0..200).map(|n| (300 + n + added(way)) * 1000).collect(),
            further: Vec::new(),
            same: 200,
        };
        Service { client: WAYS.map(measured).to_vec(), servers: Vec::new() }
    }

    fn met(service: &Service, control: &Control) -> Vec<Option<bool>> {
        let outcome = outcome(service, 200, &Placement::Together, control);
        outcome.goals.iter().map(|goal| goal.verdict.met()).collect()
    }

    #[test]
    fn a_busy_machine_or_a_slow_ring_judges_no_figure_by_the_clock() {
        assert_eq!(met(&service(100, 110), &Ok(())), [Some(true); 3]);
        assert_eq!(met(&service(100, 160), &Ok(())), [Some(false), Some(false), Some(true)]);
        // What a bare message adds by itself, a round cannot undercut; their ratio stands.
        assert_eq!(met(&service(200, 210), &Ok(())), [None, Some(true), Some(true)]);
        let busy = Err("busy".to_owned());
        for round in [110, 160] {
            assert_eq!(met(&service(100, round), &busy), [None, None, Some(true)]);
        }
    }
}
