//! Frames: made in the kernel and received as from a native driver, or sent by a socket.
//!
//! It runs as a process of its own, in a namespace and on a processor that its owner names, and
//! tells in one line of JSON what it really sent.

pub mod program;

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use truechimer_capture::bpf::{BpfError, LiveFrames, interface_index};
use truechimer_testbed::namespace::Namespace;

use crate::bench::capture::bed::{Bed, NOBODY, WIRE};
use crate::bench::capture::frame;
pub use program::LONGEST_GAP_NS;
use program::Way;
pub use program::{Generator, Recipe};
use truechimer_outcome::outcome::Failure;

/// Where frames come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, clap::ValueEnum)]
pub enum Source {
    /// Made in the kernel, and handed to the capturing interface as its driver would.
    Driver,
    /// Made in the kernel, and sent through the peer of the capturing interface.
    Wire,
    /// Sent by an ordinary socket on the other side.
    Socket,
}

/// Frames to send.
#[derive(Clone, PartialEq, Debug, clap::Args)]
pub struct Order {
    /// Where they come from
    #[arg(long, value_enum, default_value = "driver")]
    pub source: Source,
    /// Bytes of each, without the frame check sequence
    #[arg(long, default_value_t = 64)]
    pub size: usize,
    /// Number of frames
    #[arg(long, default_value_t = 1000)]
    pub frames: u32,
    /// Frames a second; 0: as many as can be made
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Frames that follow each other without a gap; a power of two, at most 256
    #[arg(long, default_value_t = 64)]
    pub burst: u32,
    /// Each frame carries the time at which it was sent
    #[arg(long)]
    pub timed: bool,
    /// Number that tells these frames from those of other runs
    #[arg(long, default_value_t = 0)]
    pub run: u32,
    /// The number of the XDP program on the capturing interface; 0: none
    #[arg(long, default_value_t = 0)]
    pub program: u32,
    /// Where a socket sends to
    #[arg(long, default_value_t = SocketAddr::from((NOBODY, 9)))]
    pub to: SocketAddr,
}

/// Result of sending.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Number of frames that left the generator.
    pub frames: u64,
    /// Time taken, s.
    pub seconds: f64,
    /// Number of times that the sender was held up for more than 0.2 ms.
    pub held_up: u64,
}

impl Order {
    /// Frames of this size from there, as many as can be made.
    #[must_use]
    pub fn new(source: Source, size: usize, frames: u32) -> Order {
        let to = SocketAddr::from((NOBODY, 9));
        Order { source, size, frames, rate: 0.0, burst: 64, timed: false, run: 0, program: 0, to }
    }
}

impl Sent {
    /// Frames a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.frames as f64 / self.seconds.max(1e-9)
    }
}

impl Order {
    /// Ns between bursts; 0 for none.
    fn gap_ns(&self) -> Result<u64, Failure> {
        if self.rate <= 0.0 {
            return Ok(0);
        }
        let gap = (f64::from(self.burst) / self.rate * 1e9).round();
        if !(1.0..=LONGEST_GAP_NS as f64).contains(&gap) {
            return Err(Failure(format!(
                "{} frames a second in bursts of {}: bursts can be up to {LONGEST_GAP_NS} ns apart",
                self.rate, self.burst
            )));
        }
        Ok(gap as u64)
    }

    /// At this rate, in bursts as long as the pacing allows, at most 64: as many as a driver takes
    /// at a time.
    #[must_use]
    pub fn at(self, rate: f64) -> Order {
        let longest = rate * LONGEST_GAP_NS as f64 * 1e-9;
        let burst = if rate > 0.0 { (longest.clamp(1.0, 64.0)) as u32 } else { 64 };
        let burst = burst.checked_next_power_of_two().unwrap_or(1);
        let burst =
            if f64::from(burst) > longest.max(1.0) && rate > 0.0 { burst / 2 } else { burst };
        Order { rate, burst: burst.clamp(1, 64), ..self }
    }

    /// The arguments that make a generator of this.
    fn arguments(&self) -> Vec<String> {
        let source = match self.source {
            Source::Driver => "driver",
            Source::Wire => "wire",
            Source::Socket => "socket",
        };
        let mut arguments = vec!["generate".to_owned(), format!("--source={source}")];
        arguments.push(format!("--size={}", self.size));
        arguments.push(format!("--frames={}", self.frames));
        arguments.push(format!("--rate={}", self.rate));
        arguments.push(format!("--burst={}", self.burst));
        arguments.push(format!("--run={}", self.run));
        arguments.push(format!("--program={}", self.program));
        arguments.push(format!("--to={}", self.to));
        arguments.extend(self.timed.then(|| "--timed".to_owned()));
        arguments
    }

    /// Sends it all, from a process of its own on the processors `cpus` (as taskset names them).
    ///
    /// # Errors
    /// With what that process said.
    pub fn send(&self, bed: &Bed, cpus: &str) -> Result<Sent, Failure> {
        let side = match self.source {
            Source::Driver => bed.receiver(),
            Source::Wire | Source::Socket => bed.sender(),
        };
        self.send_from(side, cpus)
    }

    /// Sends it likewise from the side that is named.
    ///
    /// # Errors
    /// With what that process said.
    pub fn send_from(&self, side: &Namespace, cpus: &str) -> Result<Sent, Failure> {
        let running = self.start(side, cpus)?;
        let output = running.wait_with_output().map_err(|e| Failure::of("the generator", e))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::of("the generator", said));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::of("reading what the generator said", error))
    }

    /// Starts to send.
    fn start(&self, side: &Namespace, cpus: &str) -> Result<Child, Failure> {
        let own = std::env::current_exe().map_err(|e| Failure::of("our own program", e))?;
        let mut command = Bed::foremost(side, own, Some(cpus));
        command.args(["bench", "capture"]).args(self.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| Failure::of("starting the generator", error))
    }
}

/// The generator's own process: sends and tells.
///
/// # Errors
/// Where that does not work.
pub fn generate(order: &Order) -> Result<Sent, Failure> {
    if !order.burst.is_power_of_two() || order.burst > 256 {
        return Err(Failure(format!("bursts of {}: a power of two up to 256", order.burst)));
    }
    let failed = |error: BpfError| Failure(error.to_string());
    let bytes = frame::frame(order.size, order.run);
    if order.timed && bytes.len() < frame::TIMED {
        return Err(Failure(format!("timed frames have {} bytes at least", frame::TIMED)));
    }
    if order.source == Source::Socket {
        return by_socket(order, &bytes);
    }
    let interface = interface_index(WIRE).map_err(failed)?;
    let way = match (order.source, order.program) {
        (Source::Wire, _) => Way::Out(interface),
        (_, 0) => Way::Stack,
        (_, id) => Way::Attached(id),
    };
    let recipe = Recipe { way, gap_ns: order.gap_ns()?, burst: order.burst, timed: order.timed };
    let generator = Generator::load(&recipe).map_err(failed)?;
    let live =
        LiveFrames { frame: &bytes, ingress: interface, repeat: order.frames, batch: order.burst };
    let start = Instant::now();
    generator.program.run_live(&live).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    let tally = generator.tally().map_err(failed)?;
    if tally.astray > 0 {
        return Err(Failure(format!("{} frames met no program", tally.astray)));
    }
    Ok(Sent { frames: tally.frames, seconds, held_up: tally.held_up })
}

fn by_socket(order: &Order, bytes: &[u8]) -> Result<Sent, Failure> {
    let failed = |error: std::io::Error| Failure::of("sending", error);
    let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed)?;
    socket.connect(order.to).map_err(failed)?;
    let mut payload = bytes.get(frame::MARK_AT..).unwrap_or_default().to_vec();
    let number_at = frame::NUMBER_AT - frame::MARK_AT;
    let gap = (order.rate > 0.0).then(|| Duration::from_secs_f64(1.0 / order.rate));
    let start = Instant::now();
    let (mut due, mut frames, mut held_up) = (start, 0_u64, 0);
    for number in 0..u64::from(order.frames) {
        if let Some(to) = payload.get_mut(number_at..number_at + 8) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        if let Some(gap) = gap {
            due += gap;
            let now = Instant::now();
            if now > due + Duration::from_micros(200) {
                (due, held_up) = (now, held_up + 1);
            }
            // The scheduler wakes a sleeper up within a millisecond, if it is not too busy.
            let spare = due.saturating_duration_since(now);
            std::thread::sleep(spare.saturating_sub(Duration::from_millis(1)));
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        // What the sender itself cannot put on the wire was not sent.
        frames += u64::from(socket.send(&payload).is_ok());
    }
    Ok(Sent { frames, seconds: start.elapsed().as_secs_f64(), held_up })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rate: f64, burst: u32) -> Order {
        Order {
            source: Source::Driver,
            size: 64,
            frames: 1,
            rate,
            burst,
            timed: false,
            run: 3,
            program: 0,
            to: SocketAddr::from((NOBODY, 9)),
        }
    }

    #[test]
    fn bursts_are_paced_as_a_whole() {
        assert_eq!(order(0.0, 64).gap_ns(), Ok(0));
        assert_eq!(order(1e6, 64).gap_ns(), Ok(64_000));
        assert_eq!(order(20e3, 1).gap_ns(), Ok(50_000));
        assert!(order(20e3, 64).gap_ns().is_err(), "longer than the program can wait");
        assert!(order(1e12, 1).gap_ns().is_err());
    }

    #[test]
    fn any_rate_from_some_thousand_on_can_be_paced() {
        for rate in [1001.0, 5e3, 20e3, 63e3, 64e3, 65e3, 1e6, 1e7] {
            let order = order(0.0, 1).at(rate);
            assert!(order.burst.is_power_of_two() && order.gap_ns().is_ok(), "{order:?}");
        }
        assert_eq!(order(0.0, 1).at(0.0).burst, 64);
        assert_eq!(order(0.0, 1).at(1e6).burst, 64);
        assert_eq!(order(0.0, 1).at(10e3).burst, 8);
    }

    #[test]
    fn an_order_survives_the_command_line() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            order: Order,
        }
        let order = Order { timed: true, program: 7, ..order(1.5e6, 32) };
        let line: Line = clap::Parser::try_parse_from(order.arguments()).unwrap();
        assert_eq!(line.order, order);
    }
}
