//! The 2013 paper's experiment on its own terms: the kernel's time against the raw count with
//! conversion left to another thread, by size and gap of the packets, each with each.

mod show;
mod trial;

use truechimer_capture::xdp::StampAt;

use super::options::Options;
use super::overhead::series::{Block, Random, Series};
use super::wire::{Method, Way, Wire};
use trial::Trial;
use truechimer_outcome::outcome::{Failure, Outcome};

/// Sizes of frames: those of the paper's two patterns, without the frame check sequence.
const SIZES: [usize; 2] = [140, 1368];

/// A gap from frame to frame, and how many frames follow each other before the next kind has its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gap {
    name: &'static str,
    ns: u64,
    frames: u32,
}

/// The paper's two, and a denser one.
const GAPS: [Gap; 3] = [
    Gap { name: "200 µs", ns: 200_000, frames: 1000 },
    Gap { name: "1.37 ms", ns: (169_631 + 1368) * 8, frames: 300 },
    Gap { name: "20 ms", ns: 20_000_000, frames: 60 },
];

const PACKET: usize = 0;
const TIME: usize = 1;
const TIME_APART: usize = 2;
const COUNT: usize = 3;
const COUNT_APART: usize = 4;

/// Stamps, and who converts each.
const KINDS: [Method; 5] = [
    Method { name: "kernel's stamp (packet), converted at once", way: Way::Packet, inline: true },
    Method { name: "time in XDP, converted at once", way: Way::Xdp(StampAt::Xdp), inline: true },
    Method { name: "time in XDP, by a thread", way: Way::Xdp(StampAt::Xdp), inline: false },
    Method { name: "count in XDP, converted at once", way: Way::Xdp(StampAt::Tsc), inline: true },
    Method { name: "count in XDP, by a thread", way: Way::Xdp(StampAt::Tsc), inline: false },
];

/// Two kinds that are compared: the first less the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Contrast {
    name: &'static str,
    of: usize,
    ground: usize,
}

const CONTRASTS: [Contrast; 4] = [
    Contrast {
        name: "the paper's: count by a thread − time at once",
        of: COUNT_APART,
        ground: TIME,
    },
    Contrast { name: "stamp: count − time, both at once", of: COUNT, ground: TIME },
    Contrast {
        name: "stamp: count − time, both by a thread", of: COUNT_APART, ground: TIME_APART
    },
    Contrast { name: "count by a thread − the kernel's stamp", of: COUNT_APART, ground: PACKET },
];

/// All of one size and gap.
#[derive(Clone, Debug)]
struct Cell {
    size: usize,
    gap: Gap,
    /// Of each of [`KINDS`], a trial for each round; none where it did not work.
    trials: Vec<Vec<Option<Trial>>>,
}

impl Cell {
    fn name(&self) -> String {
        format!("{} bytes every {}", self.size, self.gap.name)
    }

    /// Delays of the stamps of a kind, a block for each round.
    fn series(&self, kind: usize) -> Series {
        self.blocks(kind, |trial| &trial.delays)
    }

    /// Delays of the times that would be written.
    fn written(&self, kind: usize) -> Series {
        self.blocks(kind, |trial| &trial.written)
    }

    fn blocks(&self, kind: usize, part: fn(&Trial) -> &Block) -> Series {
        let trials = self.trials.get(kind).into_iter().flatten();
        let blocks =
            trials.map(|trial| trial.as_ref().map_or_else(Block::default, |t| part(t).clone()));
        blocks.collect()
    }

    /// A figure of each round.
    fn figures(&self, kind: usize, figure: impl Fn(&Trial) -> f64) -> Vec<f64> {
        let trials = self.trials.get(kind).into_iter().flatten();
        trials.map(|trial| trial.as_ref().map_or(f64::NAN, &figure)).collect()
    }
}

/// Measures it.
///
/// # Errors
/// Where namespaces cannot be made or nothing can be captured.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let rounds = options.rounds(8, 2);
    let sizes = options.sizes(&SIZES, &SIZES);
    let mut wire = Wire::new()?;
    let mut cells: Vec<Cell> = Vec::new();
    for size in sizes {
        for gap in GAPS {
            cells.push(Cell { size, gap, trials: vec![Vec::new(); KINDS.len()] });
        }
    }
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let mut refused: Vec<String> = Vec::new();
    for round in 0..rounds {
        options.say(&format!("crossed: round {} of {rounds}", round + 1));
        for cell in shuffled(cells.len(), &mut random) {
            let Some(cell) = cells.get_mut(cell) else { continue };
            // All kinds of a cell follow each other: what else the machine does hits them alike.
            for kind in shuffled(KINDS.len(), &mut random) {
                let (Some(of), Some(all)) = (KINDS.get(kind), cell.trials.get_mut(kind)) else {
                    continue;
                };
                if !options.wants(of.name) {
                    continue;
                }
                let trial = match trial::run(&mut wire, *of, cell.size, cell.gap)? {
                    Ok(trial) => Some(trial),
                    Err(why) => {
                        let why = format!("{}: {why}", of.name);
                        if !refused.contains(&why) {
                            options.say(&why);
                            refused.push(why);
                        }
                        None
                    }
                };
                all.push(trial);
            }
        }
    }
    Ok(show::outcome(&cells, &refused, &wire.places(), rounds))
}

/// The numbers below `count`, in an order drawn anew.
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for n in (1..count).rev() {
        order.swap(n, random.below(n + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_all_and_differ() {
        let mut random = Random(7);
        let [one, two] = [(); 2].map(|()| shuffled(6, &mut random));
        assert_ne!(one, two);
        for mut order in [one, two] {
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        }
        assert!(shuffled(0, &mut random).is_empty());
    }
}
