//! chronyd as a server of the host's time.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::lacking::Lacking;
use crate::namespace::{Namespace, SERVER};
use crate::process::{Process, Signal};
use crate::{binary, temp};

/// A chronyd in a namespace, run with `-x`: it serves the system clock and never touches it.
#[derive(Debug)]
pub struct Chronyd<'n> {
    network: &'n Namespace,
    program: &'static str,
    address: SocketAddr,
    configuration: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

/// Name of the chronyd that the tests have of chrony, as it comes.
pub const PROGRAM: &str = "chronyd";
/// Name of one that has AES-128-GCM-SIV with the keys of RFC 8915: 4.6.1 or later (`scripts/needs.sh`).
pub const WITH_GCM_SIV: &str = "chronyd-siv";

/// Checks that chronyd is installed.
pub fn installed() -> Result<(), Lacking> {
    runs(PROGRAM)
}

/// Checks that this chronyd is there.
pub fn runs(program: &str) -> Result<(), Lacking> {
    match Command::new(binary::system(program)).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Lacking(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(Lacking(format!("{program} (package chrony): {error}"))),
    }
}

impl<'n> Chronyd<'n> {
    /// Starts one that claims stratum 2, with more lines of configuration if need be, and waits
    /// until it answers.
    pub fn start(
        network: &'n Namespace,
        dir: &temp::Dir,
        more: &str,
    ) -> Result<Chronyd<'n>, Lacking> {
        Chronyd::at(network, dir, SocketAddr::new(SERVER, 123), more)
    }

    /// Starts one likewise that is asked at this address.
    pub fn at(
        network: &'n Namespace,
        dir: &temp::Dir,
        address: SocketAddr,
        more: &str,
    ) -> Result<Chronyd<'n>, Lacking> {
        Chronyd::by(PROGRAM, network, dir, address, more)
    }

    /// Starts this program likewise.
    pub fn by(
        program: &'static str,
        network: &'n Namespace,
        dir: &temp::Dir,
        address: SocketAddr,
        more: &str,
    ) -> Result<Chronyd<'n>, Lacking> {
        runs(program)?;
        let mut text =
            String::from("local stratum 2\nallow all\ncmdport 0\nbindcmdaddress /\nuser root\n");
        let pid = dir.join("chronyd.pid");
        let _ = writeln!(text, "port {}\npidfile {}\n{more}", address.port(), pid.display());
        let configuration = dir.join("chronyd.conf");
        std::fs::write(&configuration, text).expect("the configuration can be written");
        let log = dir.join("chronyd.log");
        let mut chronyd = Chronyd { network, program, address, configuration, log, process: None };
        chronyd.resume();
        Ok(chronyd)
    }

    /// Starts it again after [`Chronyd::stop`], and waits until it answers.
    pub fn resume(&mut self) {
        let mut command = self.network.command(binary::system(self.program));
        command.args(["-d", "-x", "-f"]).arg(&self.configuration);
        let mut process = Process::start(command, &self.log);
        let end = Instant::now() + Duration::from_secs(60);
        while query(self.network, self.address.ip(), self.address.port()).is_none() {
            assert!(
                process.is_running() && Instant::now() < end,
                "chronyd does not answer:\n{}",
                process.output()
            );
        }
        self.process = Some(process);
    }

    /// Ends it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::Term);
            assert!(process.wait(Duration::from_secs(10)).is_some(), "chronyd does not end");
        }
    }
}

/// Asks an NTP server once, from within `network`: its stratum, if it answers within 200 ms.
#[must_use]
pub fn query(network: &Namespace, address: IpAddr, port: u16) -> Option<u8> {
    let mut command = network.command(binary::testbed());
    let output =
        command.args(["query", &SocketAddr::new(address, port).to_string()]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
