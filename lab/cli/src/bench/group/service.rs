//! Runs the replicated server and its client on a ring of four, and fetches what they measured.

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::bench::group::options::Options;
use crate::bench::group::serve::{self, Measured, Orders, Way};

/// Measurements of all of them.
#[derive(Debug)]
pub struct Service {
    /// The client's figures.
    pub client: Vec<Measured>,
    /// Those of the replicas, node 1 first.
    pub servers: Vec<Vec<Measured>>,
}

impl Service {
    /// `count` requests of each way.
    ///
    /// # Errors
    /// Where the machine lacks what that takes, or the group fails.
    pub fn run(options: &Options, count: u64, knet: bool) -> Result<Service, Failure> {
        let observer = MEMBERS + 1;
        let processors = options.placement.processors();
        let ring = Settings { nodes: observer, knet, processors, ..Settings::default() };
        let mut bed = Bed::up(How { ring, ..How::usual(&options.truechimer) })?;
        let _listeners = bed.listeners(observer..=observer)?;
        let out = |node: u32| format!("figures{node}.json");
        let mut programs = Vec::new();
        for node in 1..=observer {
            let (what, name) =
                if node == observer { ("client", "client") } else { ("server", "server") };
            let path = bed.ring().dir().join(&out(node));
            let args = Orders::arguments(what, &bed.place(node), &path, count, observer);
            programs.push((node, bed.program(node, &format!("{name}{node}"), args)?));
            if node == MEMBERS {
                // The client's first request must find all three.
                bed.wait_for_programs(MEMBERS)?;
            }
        }
        let mut figures = Vec::new();
        for (node, process) in &mut programs {
            bed.wait_for_end(*node, process)?;
            figures.push(serve::read::<Vec<Measured>>(&bed.ring().dir().join(&out(*node)))?);
        }
        let client = figures.pop().unwrap_or_default();
        Ok(Service { client, servers: figures })
    }

    /// The client's figures of a way, ns.
    #[must_use]
    pub fn end_to_end(&self, way: Way) -> Vec<f64> {
        of(&self.client, way)
    }

    /// A replica's figures of a way, ns.
    #[must_use]
    pub fn at(&self, node: usize, way: Way) -> Vec<f64> {
        self.servers.get(node - 1).map(|measured| of(measured, way)).unwrap_or_default()
    }

    /// Times that a replica needed for leased readings, ns.
    #[must_use]
    pub fn leased(&self) -> Vec<f64> {
        let all = self.servers.iter().flatten().flat_map(|measured| &measured.further);
        all.map(|ns| *ns as f64).collect()
    }
}

/// Settings for the measurement of a program that is alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// Name in tables.
    pub name: &'static str,
    /// By knet instead of udpu.
    pub knet: bool,
    /// Number of nodes, all of them members.
    pub nodes: u32,
    /// Pauses before each operation, at most, µs.
    pub most_us: u64,
    /// The Corosyncs anywhere, wherever they are to be otherwise.
    pub together: bool,
}

/// Measurements of it, ns.
#[derive(Clone, Debug)]
pub struct Alones {
    /// Settings of the measurement.
    pub how: Alone,
    /// Readings by a round.
    pub round: Vec<f64>,
    /// Bare round trips, in turn with them.
    pub bare: Vec<f64>,
}

/// A program at node 1 alone, the other members' agents without one.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn alone(options: &Options, count: u64, how: Alone) -> Result<Alones, Failure> {
    let Alone { knet, nodes, most_us, together, .. } = how;
    let processors = options.placement.processors().filter(|_| !together);
    let ring = Settings { knet, nodes, processors, ..Settings::default() };
    let mut bed = Bed::up(How { ring, members: nodes, ..How::usual(&options.truechimer) })?;
    let _listeners = bed.listeners(2..=nodes)?;
    let path = bed.ring().dir().join("alone.json");
    let mut args = Orders::arguments("alone", &bed.place(1), &path, count, nodes);
    args.push(format!("--most-us={most_us}"));
    let mut program = bed.program(1, "alone", args)?;
    bed.wait_for_end(1, &mut program)?;
    let measured: Vec<Measured> = serve::read(&path)?;
    let [round, bare] = [Way::Round, Way::Bare].map(|way| of(&measured, way));
    Ok(Alones { how, round, bare })
}

fn of(measured: &[Measured], way: Way) -> Vec<f64> {
    let mine = measured.iter().filter(|measured| measured.way == way);
    mine.flat_map(|measured| measured.ns.iter().map(|ns| *ns as f64)).collect()
}
