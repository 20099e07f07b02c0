//! The program's state as bytes: the commands that take and give it.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use crate::order::LARGEST_CHECKPOINT;
use crate::waker::Waker;

/// Surroundings in which the commands are started.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Where the program listens, for the command: `TRUECHIMER_FRONT_CONNECT`.
    pub connect: SocketAddr,
    /// The page: `TRUECHIMER_GROUP_FRONT`.
    pub page: PathBuf,
}

/// Result of a command.
pub type Gave = Receiver<Result<Vec<u8>, String>>;

impl Shell {
    /// Runs it on a thread: its standard output is the checkpoint.
    pub fn take(&self, command: &str, waker: &Waker) -> std::io::Result<Gave> {
        self.start(command, None, waker)
    }

    /// Runs it on a thread: it gets the checkpoint on standard input, and ends when the program
    /// has it.
    pub fn give(&self, command: &str, data: Vec<u8>, waker: &Waker) -> std::io::Result<Gave> {
        self.start(command, Some(data), waker)
    }

    fn start(&self, command: &str, input: Option<Vec<u8>>, waker: &Waker) -> std::io::Result<Gave> {
        let (tell, told) = mpsc::channel();
        let mut shell = shell(command, self.connect, &self.page);
        let (line, waker) = (command.to_string(), waker.clone());
        std::thread::Builder::new().name("transfer".into()).spawn(move || {
            let gave = match input {
                None => take(&mut shell),
                Some(data) => give(&mut shell, &data).map(|()| Vec::new()),
            };
            let _ = tell.send(gave.map_err(|why| format!("'{line}': {why}")));
            waker.wake();
        })?;
        Ok(told)
    }
}

fn shell(command: &str, connect: SocketAddr, page: &Path) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env("TRUECHIMER_FRONT_CONNECT", connect.to_string());
    shell.env(truechimer_group_client::delivery::VARIABLE, page);
    shell
}

fn take(shell: &mut Command) -> Result<Vec<u8>, String> {
    let child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|why| why.to_string())?;
    let mut data = Vec::new();
    let read = match child.stdout.take() {
        Some(out) => out.take(LARGEST_CHECKPOINT + 1).read_to_end(&mut data),
        None => Ok(0),
    };
    if data.len() as u64 > LARGEST_CHECKPOINT {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|why| why.to_string())?;
    read.map_err(|why| why.to_string())?;
    if data.len() as u64 > LARGEST_CHECKPOINT {
        return Err(format!("more than {} MiB", LARGEST_CHECKPOINT >> 20));
    }
    if !status.success() {
        return Err(status.to_string());
    }
    Ok(data)
}

fn give(shell: &mut Command, data: &[u8]) -> Result<(), String> {
    // Its output must not be a pipe: the program that it starts may keep that open.
    let child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|why| why.to_string())?;
    let wrote = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(data));
    let status = child.wait().map_err(|why| why.to_string())?;
    if !status.success() {
        return Err(status.to_string());
    }
    wrote.map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waker::waker;

    #[test]
    fn a_state_goes_out_and_in() {
        let connect = "127.0.0.1:6379".parse().unwrap();
        let shell = Shell { connect, page: "/nowhere/1.front".into() };
        let (waker, _woken) = waker().unwrap();
        let command = "printf '%s %s' \"$TRUECHIMER_FRONT_CONNECT\" \"$TRUECHIMER_GROUP_FRONT\"";
        let data = shell.take(command, &waker).unwrap().recv().unwrap().unwrap();
        assert_eq!(data, b"127.0.0.1:6379 /nowhere/1.front");
        let check = "read -r line; test \"$line\" = state";
        assert_eq!(
            shell.give(check, b"state\n".into(), &waker).unwrap().recv().unwrap(),
            Ok(vec![])
        );
        let failed = shell.give(check, b"other\n".into(), &waker).unwrap().recv().unwrap();
        assert!(failed.unwrap_err().contains("exit status: 1"));
        let failed = shell.take("exit 3", &waker).unwrap().recv().unwrap();
        assert!(failed.unwrap_err().contains("exit status: 3"));
    }
}
