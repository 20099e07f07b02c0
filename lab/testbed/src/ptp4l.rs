//! linuxptp's ptp4l as a PTP master of the host's time.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::lacking::Lacking;
use crate::namespace::Namespace;
use crate::process::{Process, Signal};
use crate::{binary, temp};

/// A ptp4l in a namespace with stamps in software: it serves the system clock, which is UTC and so
/// an arbitrary timescale to PTP, and never touches it.
#[derive(Debug)]
pub struct Ptp4l<'n> {
    network: &'n Namespace,
    interfaces: &'static [&'static str],
    configuration: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

/// Checks that ptp4l is installed.
pub fn installed() -> Result<(), Lacking> {
    match Command::new(binary::system("ptp4l")).arg("-v").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Lacking(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(Lacking(format!("ptp4l (package linuxptp): {error}"))),
    }
}

impl<'n> Ptp4l<'n> {
    /// Starts one whose clock has this identity in all its bytes and this first priority, with more
    /// lines of configuration if need be. Several on one interface do not hear each other.
    pub fn start(
        network: &'n Namespace,
        dir: &temp::Dir,
        (identity, priority1): (u8, u8),
        more: &str,
    ) -> Result<Ptp4l<'n>, Lacking> {
        Ptp4l::on(&["wire"], network, dir, (identity, priority1), more)
    }

    /// Starts one on these interfaces; of several it is a boundary clock.
    pub fn on(
        interfaces: &'static [&'static str],
        network: &'n Namespace,
        dir: &temp::Dir,
        (identity, priority1): (u8, u8),
        more: &str,
    ) -> Result<Ptp4l<'n>, Lacking> {
        installed()?;
        let name = format!("ptp4l-{identity}");
        let socket = dir.join(&format!("{name}.socket"));
        let all = format!("{identity:02x}");
        let text = format!(
            "[global]\ntime_stamping software\nfree_running 1\npriority1 {priority1}\n\
             clockIdentity {all}{all}{all}.{all}{all}.{all}{all}{all}\nlogAnnounceInterval 0\n\
             logSyncInterval 0\nuds_address {}\n{more}\n",
            socket.display()
        );
        let configuration = dir.join(&format!("{name}.conf"));
        std::fs::write(&configuration, text).expect("the configuration can be written");
        let log = dir.join(&format!("{name}.log"));
        let mut ptp4l = Ptp4l { network, interfaces, configuration, log, process: None };
        ptp4l.resume();
        Ok(ptp4l)
    }

    /// Starts it again after [`Ptp4l::stop`], and waits until it takes itself for the master, or as a boundary
    /// clock follows one.
    pub fn resume(&mut self) {
        let mut command = self.network.command(binary::system("ptp4l"));
        command.args(["-m", "-f"]).arg(&self.configuration);
        command.args(self.interfaces.iter().flat_map(|interface| ["-i", interface]));
        let mut process = Process::start(command, &self.log);
        let ready = match self.interfaces {
            [_] => "assuming the grand master role",
            _ => "to UNCALIBRATED on RS_SLAVE",
        };
        process.expect_output(ready, Duration::from_secs(60));
        self.process = Some(process);
    }

    /// Ends it without a word to anybody.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::Kill);
            assert!(process.wait(Duration::from_secs(10)).is_some(), "ptp4l does not end");
        }
    }
}
