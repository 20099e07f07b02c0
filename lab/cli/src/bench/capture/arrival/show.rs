//! The measurement as text, tables and pictures.

use serde_json::{Value, json};

use super::trial::KEPT;
use super::{PERIOD_NS, RATE, Row, SIZE, Source};
use truechimer_outcome::outcome::{Figure, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{Spread, show_ns, show_share, tail};

/// Everything.
pub fn outcome(
    rows: &[Row],
    refused: &[String],
    places: &str,
    frames: u32,
    rounds: usize,
) -> Outcome {
    let mut outcome = Outcome {
        name: "arrival",
        title: "Inter-arrival precision of a constant rate".to_owned(),
        headline: headline(rows),
        about: about(refused, places, frames, rounds),
        ..Outcome::default()
    };
    for source in Source::ALL {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.source == source).collect();
        if !rows.is_empty() {
            outcome.grids.extend(grids(source, &rows));
            outcome.figures.push(Figure::Plot(plot(source, &rows)));
        }
    }
    let spread =
        |s: &Spread| json!({ "p50": s.p50, "p99": s.p99, "p99.9": s.p999, "most": s.most });
    let json: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "sender": row.source.name(), "method": row.method.name,
                "conversion_thread": !row.method.inline,
                "inter_arrival_minus_period_ns": spread(&row.precision),
                "where_sender_kept_within_1us_ns": spread(&row.kept),
                "share_where_sender_kept": row.kept_share,
                "of_raw_stamps_ns": spread(&row.raw),
                "inter_arrival_minus_inter_send_ns": spread(&row.own),
                "change_of_inter_arrival_ns": spread(&row.change),
                "inter_send_minus_period_ns": spread(&row.sender),
                "frames": row.sent, "lost": row.lost,
            })
        })
        .collect();
    outcome.json = json!({
        "rate_hz": RATE, "bytes": SIZE, "frames_per_run": frames, "rounds": rounds,
        "methods": json, "not_available": refused,
    });
    outcome
}

/// The 99th percentile of three stamps, of frames that the kernel itself sends.
fn headline(rows: &[Row]) -> Vec<(String, String)> {
    let of = |name: &str| {
        let found =
            rows.iter().find(|row| row.source == Source::Driver && row.method.name == name)?;
        Some((format!("{name}, p99"), show_ns(found.precision.p99)))
    };
    ["packet: kernel's stamp", "xdp: clock in XDP", "xdp: count at dequeue"]
        .into_iter()
        .filter_map(of)
        .collect()
}

fn about(refused: &[String], places: &str, frames: u32, rounds: usize) -> Vec<String> {
    let mut about = vec![
        format!(
            "Frames of {SIZE} bytes come at {RATE} a second, {frames} in a run, {rounds} runs of \
             every method, all methods taking turns; figures are medians over the runs, of the \
             magnitude of the inter-arrival time less {} µs. Two senders: over the wire, a thread in \
             another namespace that does nothing but wait for the next moment and send by a UDP \
             socket; live frames, made and paced by an XDP program on the capturing interface and \
             handed on as a driver would. Both write into each frame when they sent it \
             (CLOCK_MONOTONIC), so that the sender's own jitter is known: it stands in the tables. \
             The second table of each sender keeps to frames that were sent in time, the third has \
             the inter-arrival time less the inter-send time. The sender has the highest ordinary \
             priority, the capturing threads have what `truechimer capture` has.",
            PERIOD_NS / 1000
        ),
        "Packets go through the pipeline of `truechimer capture`, with conversion on a thread of its \
         own or inline; times are as they would be written. Stamps that are taken in the kernel are \
         as good with a conversion thread as without, whatever that thread does: it comes after \
         them. A stamp at dequeue has the capturing thread's wake-up in it. An interruption of the \
         sender's processor delays sending and arrival alike: it is in the inter-arrival time of \
         all methods, and in the sender's."
            .to_owned(),
        places.to_owned(),
    ];
    about.extend(refused.iter().map(|why| format!("Not measured here: {why}.")));
    about
}

fn grids(source: Source, rows: &[&Row]) -> Vec<Grid> {
    let name = source.name();
    let mut precision = Grid::new(
        &format!("Sender: {name}. |inter-arrival time − period|"),
        ["stamp", "p50", "p99", "p99.9", "most", "sender p50", "p99", "p99.9", "lost"],
    );
    let mut kept = Grid::new(
        &format!(
            "Sender: {name}. |inter-arrival time − period| of frames that were sent within {} of the \
             period",
            show_ns(KEPT)
        ),
        ["stamp", "p50", "p99", "p99.9", "most", "share of frames"],
    );
    let mut others = Grid::new(
        &format!(
            "Sender: {name}. |change of inter-arrival time|; |inter-arrival − inter-send time|; raw \
             stamps before conversion, |inter-arrival time − period|"
        ),
        [
            "stamp",
            "change p50",
            "p99",
            "p99.9",
            "less sender p50",
            "p99",
            "p99.9",
            "raw p50",
            "p99",
            "p99.9",
        ],
    );
    let three = |s: &Spread| [s.p50, s.p99, s.p999].map(show_ns);
    for row in rows {
        let lost = show_share(row.lost as f64 / (row.sent as f64).max(1.0));
        let cells = three(&row.precision).into_iter().chain([show_ns(row.precision.most)]);
        let cells = cells.chain(three(&row.sender)).chain([lost]);
        precision.row([row.method.name.to_owned()].into_iter().chain(cells));
        let cells = three(&row.kept).into_iter().chain([show_ns(row.kept.most)]);
        let cells = cells.chain([show_share(row.kept_share)]);
        kept.row([row.method.name.to_owned()].into_iter().chain(cells));
        let cells = [&row.change, &row.own, &row.raw].into_iter().flat_map(three);
        others.row([row.method.name.to_owned()].into_iter().chain(cells));
    }
    vec![precision, kept, others]
}

fn plot(source: Source, rows: &[&Row]) -> Plot {
    Plot {
        title: format!("Inter-arrival time − period, share that is larger; {}", source.name()),
        x: Axis::log("|inter-arrival time − period|, ns"),
        y: Axis::log("share"),
        lines: rows
            .iter()
            .map(|row| (row.method.name.to_owned(), tail(row.all.iter().copied())))
            .collect(),
    }
}
