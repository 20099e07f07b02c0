//! Two hosts and a wire, on which frames are made and captured.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::namespace::{Means, Namespace, Pair};

use truechimer_outcome::outcome::Failure;

/// The interface's name, on both sides.
pub const WIRE: &str = "wire";
/// An address on the wire that nobody has: what is sent there is captured, and goes no further.
pub const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 72);
const NOBODY_MAC: &str = "02:00:00:00:48:02";

/// Goes first, as far as that is possible, and becomes its arguments.
const FOREMOST: &str = "echo -20 2>/dev/null >/proc/self/autogroup || :; exec nice -n -10 \"$@\"";

/// Two namespaces joined by a veth pair, gone when this process is, however it ends: each is kept
/// by a process that waits for its input to end.
#[derive(Debug)]
pub struct Bed {
    pair: Pair,
}

impl Bed {
    /// Makes it, with so many receive queues on the capturing side. Root is needed, and no user
    /// namespace: programs in the kernel are refused there.
    ///
    /// # Errors
    /// Where that is not allowed, or `ip` or `ethtool` are missing.
    pub fn new(queues: u32) -> Result<Bed, Failure> {
        if !binary::system("ethtool").is_file() {
            return Err(Failure("ethtool is missing: install the package of that name".to_owned()));
        }
        let pair = Pair::by(Means::Root).map_err(|lacking| {
            Failure(format!("making network namespaces: {lacking}; run as root"))
        })?;
        let bed = Bed { pair };
        if queues > 1 {
            bed.system(bed.sender(), "ethtool", &["-L", WIRE, "tx", &queues.to_string()])?;
            bed.system(bed.receiver(), "ethtool", &["-L", WIRE, "rx", &queues.to_string()])?;
        }
        // With it the receiving side polls, and so takes frames that are redirected to it.
        bed.system(bed.receiver(), "ethtool", &["-K", WIRE, "gro", "on"])?;
        let nobody = NOBODY.to_string();
        let neighbour = ["neigh", "add", &nobody, "lladdr", NOBODY_MAC, "dev", WIRE];
        bed.system(bed.sender(), "ip", &neighbour)?;
        Ok(bed)
    }

    /// Where ordinary senders run.
    #[must_use]
    pub fn sender(&self) -> &Namespace {
        &self.pair.server
    }

    /// Where packets are captured, and where frames are made in the kernel.
    #[must_use]
    pub fn receiver(&self) -> &Namespace {
        &self.pair.client
    }

    /// A command that runs `program` on one of the sides, before whatever else the machine does, on
    /// the processors `cpus` (as taskset names them).
    ///
    /// It has a session of its own: where the scheduler shares time out among sessions, niceness
    /// alone decides nothing between them. Both end with it.
    #[must_use]
    pub fn foremost(side: &Namespace, program: impl AsRef<OsStr>, cpus: Option<&str>) -> Command {
        let mut command = side.command("setsid");
        command.args(["sh", "-c", FOREMOST, "sh"]);
        if let Some(cpus) = cpus {
            command.args(["taskset", "-c", cpus]);
        }
        command.arg(program);
        command
    }

    /// A command of the system, on one of the sides.
    fn system(&self, side: &Namespace, program: &str, args: &[&str]) -> Result<Output, Failure> {
        output(side.command(binary::system(program)).args(args))
    }

    /// The number of the XDP program on the capturing side, as long as there is one.
    ///
    /// # Errors
    /// Where `ip` does not tell.
    pub fn xdp_program(&self) -> Result<Option<u32>, Failure> {
        let output = self.system(self.receiver(), "ip", &["-j", "link", "show", "dev", WIRE])?;
        let links: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::of("reading what `ip -j link` says", error))?;
        let id = links.pointer("/0/xdp/prog/id").and_then(Value::as_u64);
        Ok(id.and_then(|id| u32::try_from(id).ok()))
    }
}

/// Runs a command that must succeed.
///
/// # Errors
/// With what it said.
pub fn output(command: &mut Command) -> Result<Output, Failure> {
    let name = format!("{command:?}");
    let output = command.output().map_err(|error| Failure::of(&name, error))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Failure::of(name, String::from_utf8_lossy(&output.stderr).trim()))
}
