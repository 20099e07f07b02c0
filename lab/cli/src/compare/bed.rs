//! Two hosts and a wire, the server and the path to it on one of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::binary;
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::process::Process;
use truechimer_testbed::temp;

use crate::compare::line::Line;

/// Where the server is asked: the one address at which ClockBound asks every 2 s. It is one of the
/// link-local addresses, which are nobody's beyond a link; here it is in a namespace of our own.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 123);

/// Time that server and path have to start.
const START: Duration = Duration::from_secs(20);

/// The bed of one run; everything vanishes with it.
#[derive(Debug)]
pub struct Bed {
    _world: Process,
    /// The hosts.
    pub net: Pair,
    /// For files.
    pub dir: temp::Dir,
}

impl Bed {
    /// Makes the hosts, and starts server and path.
    ///
    /// # Errors
    /// Where namespaces may not be made, or a program is missing.
    pub fn new(line: Line, scenario: &str, length: f64, seed: u64) -> Result<Bed, Failure> {
        let net = Pair::new().map_err(|lacking| {
            Failure(format!(
                "making network namespaces: {lacking}; run as root, or where user namespaces are \
                 allowed"
            ))
        })?;
        let (address, host) = (SERVER.to_string(), format!("{SERVER}/32"));
        ip(&net.server, &["address", "add", &host, "dev", "wire"])?;
        ip(&net.client, &["route", "add", &host, "dev", "wire"])?;
        let dir = temp::Dir::new();
        let own =
            std::env::current_exe().map_err(|why| Failure::of("finding this program", why))?;
        let mut command = net.server.command(own);
        command.args(["compare", "world"]).arg(format!("{address}:123")).arg(line.to_string());
        command.arg(scenario).arg(length.to_string()).arg(seed.to_string());
        let mut world = Process::start(command, &dir.join("world.log"));
        let end = std::time::Instant::now() + START;
        while !world.output().contains("ready\n") {
            if !world.is_running() || std::time::Instant::now() >= end {
                return Err(Failure::of("the server", world.output().trim()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Bed { _world: world, net, dir })
    }
}

fn ip(host: &Namespace, arguments: &[&str]) -> Result<(), Failure> {
    let output = host
        .command(binary::system("ip"))
        .args(arguments)
        .output()
        .map_err(|why| Failure::of("ip (package iproute2)", why))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::of("ip", String::from_utf8_lossy(&output.stderr).trim()))
}
