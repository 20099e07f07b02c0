//! Precision of the stamps of each method at a constant rate.

mod sender;
mod show;
mod trial;

use truechimer_capture::xdp::StampAt;

use super::options::Options;
use super::wire::{Method, Way};
use trial::{Trial, Trials};
use truechimer_outcome::outcome::{Failure, Outcome};
use truechimer_outcome::stats::{Spread, median};

/// Frames a second.
const RATE: u32 = 20_000;
const PERIOD_NS: u64 = 1_000_000_000 / RATE as u64;
/// With everything that marks and times it, without the frame check sequence.
const SIZE: usize = 140;

/// Sender of the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// A thread on the other side of the wire.
    Wire,
    /// The kernel itself, in the driver's place.
    Driver,
}

impl Source {
    const ALL: [Source; 2] = [Source::Wire, Source::Driver];

    const fn name(self) -> &'static str {
        match self {
            Source::Wire => "over the wire",
            Source::Driver => "live frames",
        }
    }
}

const METHODS: [Method; 8] = [
    Method { name: "packet: kernel's stamp", way: Way::Packet, inline: false },
    Method { name: "packet: kernel's stamp, inline", way: Way::Packet, inline: true },
    Method { name: "xdp: clock in XDP", way: Way::Xdp(StampAt::Xdp), inline: false },
    Method { name: "xdp: clock in XDP, inline", way: Way::Xdp(StampAt::Xdp), inline: true },
    Method { name: "xdp: count in XDP", way: Way::Xdp(StampAt::Tsc), inline: false },
    Method { name: "xdp: count in XDP, inline", way: Way::Xdp(StampAt::Tsc), inline: true },
    Method { name: "xdp: count at dequeue", way: Way::Xdp(StampAt::Dequeue), inline: false },
    Method { name: "xdp: count at dequeue, inline", way: Way::Xdp(StampAt::Dequeue), inline: true },
];

/// Figures of one method: medians over the rounds.
#[derive(Clone, Debug)]
struct Row {
    source: Source,
    method: Method,
    /// |inter-arrival time − period|, as it goes into the file, ns.
    precision: Spread,
    /// Precision where the sender kept to the period, ns.
    kept: Spread,
    /// Share of the packets where it did.
    kept_share: f64,
    /// Precision of the raw stamps, before conversion, ns.
    raw: Spread,
    /// |inter-arrival time − inter-send time|: without the sender's own jitter, ns.
    own: Spread,
    /// |change of the inter-arrival time from packet to packet|, ns.
    change: Spread,
    /// |inter-send time − period|, ns.
    sender: Spread,
    /// Frames that were sent and are not there.
    lost: u64,
    /// Frames sent.
    sent: u64,
    /// Every |inter-arrival time − period|, for the picture.
    all: Vec<f64>,
}

/// Measures it.
///
/// # Errors
/// Where namespaces cannot be made or nothing can be captured.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let rounds = options.rounds(3, 1);
    let frames = if options.quick { RATE / 4 } else { 2 * RATE };
    let mut trials = Trials::new()?;
    let wanted: Vec<Method> =
        METHODS.into_iter().filter(|method| options.wants(method.name)).collect();
    let mut results: Vec<(Source, Method, Vec<Trial>)> = Vec::new();
    let mut refused = Vec::new();
    for round in 0..rounds {
        options.say(&format!("arrival: round {} of {rounds}", round + 1));
        for source in Source::ALL {
            for &method in &wanted {
                match trials.run(source, method, frames)? {
                    Ok(trial) => {
                        let at = results.iter_mut().find(|r| r.0 == source && r.1 == method);
                        match at {
                            Some(result) => result.2.push(trial),
                            None => results.push((source, method, vec![trial])),
                        }
                    }
                    Err(why) if round == 0 && source == Source::Wire => {
                        refused.push(format!("{}: {why}", method.name));
                    }
                    Err(_) => {}
                }
            }
        }
    }
    let rows: Vec<Row> = results.into_iter().map(|(s, m, trials)| row(s, m, &trials)).collect();
    Ok(show::outcome(&rows, &refused, &trials.wire.places(), frames, rounds))
}

fn row(source: Source, method: Method, trials: &[Trial]) -> Row {
    let spread =
        |part: fn(&Trial) -> Spread| Spread::median(&trials.iter().map(part).collect::<Vec<_>>());
    Row {
        source,
        method,
        precision: spread(|t| Spread::of(t.precision.iter().copied())),
        kept: spread(|t| t.kept),
        kept_share: median(trials.iter().map(|t| t.kept_share)),
        raw: spread(|t| t.raw),
        own: spread(|t| t.own),
        change: spread(|t| t.change),
        sender: spread(|t| t.sender),
        lost: trials.iter().map(|t| t.lost).sum(),
        sent: trials.iter().map(|t| t.sent).sum(),
        all: trials.iter().flat_map(|t| t.precision.iter().copied()).collect(),
    }
}
