//! Loss, rate and jitter beside tcpdump, dumpcap and netsniff-ng.

mod jitter;
mod ladder;
mod most;

use serde_json::json;

use crate::bench::capture::contest::Contest;
use crate::bench::capture::options::{Options, Part};
use crate::bench::capture::peers::{self, RING_MIB, SNAP};
use truechimer_outcome::outcome::{Failure, Outcome};

/// Those whose rates are compared.
const RATES: [&str; 9] = [
    "tcpdump",
    peers::TCPDUMP_RING,
    "dumpcap",
    "dumpcap -B 64 MiB",
    peers::NETSNIFF_RING,
    peers::PACKET,
    peers::XDP_STAMP,
    peers::XDP_DEQUEUE,
    peers::XDP_COPY,
];

/// Those whose jitter is: all times in nanoseconds.
const JITTER: [&str; 7] = [
    peers::TCPDUMP_NANO,
    "dumpcap -B 64 MiB",
    peers::NETSNIFF_RING,
    peers::PACKET,
    peers::XDP_STAMP,
    peers::XDP_DEQUEUE,
    peers::XDP_COPY,
];

/// Measures it.
///
/// # Errors
/// Where the bed cannot be made, or a program does not run.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let mut contest = Contest::new(options)?;
    let most = options.has(Part::Most).then(|| most::measure(&mut contest));
    let ladder = options.has(Part::Ladder).then(|| ladder::measure(&mut contest));
    let jitter = options.has(Part::Jitter).then(|| jitter::measure(&mut contest));
    let mut about = vec![
        format!(
            "All programs write into memory (tmpfs), keep {SNAP} bytes of each frame (netsniff-ng: all of it), and have \
             their turn in every round, each trial with a fresh process. Loss is the difference \
             between the frames sent, which the generator counts, and those of them in the file, \
             counted after the program has ended; what a program says of itself is shown beside it. Rings \
             are {RING_MIB} MiB but for tcpdump (2 MiB) and dumpcap (2 MiB) as they come."
        ),
        contest.stage.places.text(),
        "Frames are made in the kernel (XDP live frames) in bursts of 64, numbered, and handed to \
         the capturing interface as a native driver would: what an interface receives in earnest \
         takes the same way from there on. The receive path runs on the generator's processor, so \
         that the rate of an unpaced generator is the most that the receive path of one processor \
         can do with that method; a method that loses nothing then can do no more here, and no \
         less. What this does not show: interrupts, the card's own rings, several receive queues \
         at once, disks."
            .to_owned(),
    ];
    about.extend(most.is_some().then(|| most::about(options)));
    about.extend(jitter.as_ref().map(jitter::Jitter::about));
    about.extend(contest.missing());
    let mut outcome = Outcome {
        name: "rate",
        title: "Loss, rate and jitter beside tcpdump, dumpcap and netsniff-ng".to_owned(),
        about,
        ..Outcome::default()
    };
    if let Some(most) = &most {
        outcome.headline = most.headline();
        most.report(&mut outcome);
    }
    if let Some(ladder) = &ladder {
        ladder.report(&mut outcome);
    }
    if let Some(jitter) = &jitter {
        jitter.report(&mut outcome);
    }
    outcome.json = json!({
        "most": most.map(|most| most.to_json()),
        "ladder": ladder.map(|ladder| ladder.to_json()),
        "jitter": jitter.map(|jitter| jitter.to_json()),
    });
    Ok(outcome)
}
