//! Fate of an attached program when its process is killed.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use truechimer_capture::bpf::{
    Asm, BpfError, Link, Program, ProgramKind, XdpMode, interface_index,
};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{Means, Pair};

/// Which part of the test this process plays.
const ROLE: &str = "TRUECHIMER_BPF_TEST_ROLE";
const NAME: &str = "what_is_attached_goes_with_its_process";

fn attach() -> Result<(Program, Link), BpfError> {
    let mut asm = Asm::new();
    asm.give(2);
    let program = Program::load(ProgramKind::Xdp, "held", &asm)?;
    let link = Link::xdp(&program, interface_index("lo")?, XdpMode::Generic)?;
    Ok((program, link))
}

#[test]
fn what_is_attached_goes_with_its_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("hold") => {
            let held = attach().unwrap();
            println!("\nholding");
            std::thread::sleep(Duration::from_secs(600));
            drop(held);
        }
        Ok(_) => watch(),
        Err(_) => {
            let mut asm = Asm::new();
            asm.give(2);
            let loaded = Program::load(ProgramKind::Xdp, "may", &asm);
            let lacking = |error: BpfError| Lacking(error.to_string());
            if or_skip(loaded.map_err(lacking)).is_none() {
                return;
            }
            // In a namespace whose loopback nobody else uses.
            let Some(pair) = or_skip(Pair::by(Means::Root)) else { return };
            let mut command = pair.client.command(std::env::current_exe().unwrap());
            command.args(["--exact", NAME, "--nocapture"]).env(ROLE, "watch");
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
    }
}

fn watch() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture"]).env(ROLE, "hold").stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"));
    let error = attach().unwrap_err();
    assert_eq!(error.errno, Some(libc::EBUSY), "{error}");
    assert!(error.to_string().contains("another XDP program"), "{error}");
    // By SIGKILL.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let start = Instant::now();
    while let Err(error) = attach() {
        assert!(start.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
