//! Two hosts and a wire, made of network namespaces.
//!
//! Each namespace is kept by a process that waits for its input to end, so that everything
//! vanishes with the test, however that ends. A user namespace around both gives an ordinary user
//! the rights that this takes; where there are none but we are root, they are done without.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::binary;
use crate::lacking::Lacking;
use crate::process::{MORTAL, NO_CLOCK};

/// The server's address.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The client's address.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
/// The server's IPv6 address.
pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// The client's IPv6 address.
pub const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

/// Two namespaces joined by a pair of virtual Ethernet devices, loopback up in both.
#[derive(Debug)]
pub struct Pair {
    /// Where servers run.
    pub server: Namespace,
    /// Where clients run.
    pub client: Namespace,
}

/// One network namespace.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
    means: Means,
}

/// Means to make network namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// A user namespace in which we are root.
    UserNamespace,
    /// Being root.
    Root,
}

impl Pair {
    /// Makes them by whichever means there are.
    pub fn new() -> Result<Pair, Lacking> {
        Pair::by(Means::UserNamespace).or_else(|lacking| Pair::by(Means::Root).map_err(|_| lacking))
    }

    /// Makes them by these means.
    pub fn by(means: Means) -> Result<Pair, Lacking> {
        if let Err(error) = Command::new(binary::system("ip")).arg("-V").output() {
            return Err(Lacking(format!("ip (package iproute2): {error}")));
        }
        let mut first = Command::new("unshare");
        first.args(match means {
            Means::UserNamespace => ["-r", "-n"].as_slice(),
            Means::Root => ["-n"].as_slice(),
        });
        let server = Namespace::hold(first, means)?;
        let pair = Pair { client: server.another()?, server };
        let there = pair.client.holder.id().to_string();
        pair.server.ip(&[
            "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", &there,
        ])?;
        for (host, v4, v6) in [(&pair.server, SERVER, SERVER_V6), (&pair.client, CLIENT, CLIENT_V6)]
        {
            host.ip(&["address", "add", &format!("{v4}/24"), "dev", "wire"])?;
            host.ip(&["address", "add", &format!("{v6}/64"), "dev", "wire", "nodad"])?;
            host.ip(&["link", "set", "wire", "up"])?;
        }
        Ok(pair)
    }

    /// A third host, behind the server: 198.51.100.1 on its `wire`, and 198.51.100.2 the server's `far`.
    pub fn behind_server(&self) -> Result<Namespace, Lacking> {
        let third = self.server.another()?;
        let there = third.holder.id().to_string();
        let server = &self.server;
        server
            .ip(&["link", "add", "far", "type", "veth", "peer", "name", "wire", "netns", &there])?;
        for (host, device, address) in
            [(server, "far", "198.51.100.2/24"), (&third, "wire", "198.51.100.1/24")]
        {
            host.ip(&["address", "add", address, "dev", device])?;
            host.ip(&["link", "set", device, "up"])?;
        }
        Ok(third)
    }
}

impl Namespace {
    fn hold(mut unshare: Command, means: Means) -> Result<Namespace, Lacking> {
        unshare.args(["--", "sh", "-c", "\"$0\" link set lo up && echo ready && exec cat"]);
        unshare.arg(binary::system("ip"));
        unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder =
            unshare.spawn().map_err(|error| Lacking(format!("unshare or nsenter: {error}")))?;
        let mut line = String::new();
        if let Some(output) = holder.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        if line == "ready\n" {
            return Ok(Namespace { holder, means });
        }
        let mut why = String::new();
        if let Some(mut errors) = holder.stderr.take() {
            let _ = holder.kill();
            let _ = errors.read_to_string(&mut why);
        }
        let _ = holder.wait();
        Err(Lacking(why.trim().to_owned()))
    }

    /// Another one, that a wire can lead to: of the same user namespace.
    fn another(&self) -> Result<Namespace, Lacking> {
        let mut unshare = match self.means {
            Means::UserNamespace => {
                let mut enter = Command::new("nsenter");
                enter.args(["-t", &self.holder.id().to_string(), "-U", "--preserve-credentials"]);
                enter.args(["--", "unshare"]);
                enter
            }
            Means::Root => Command::new("unshare"),
        };
        unshare.arg("-n");
        Namespace::hold(unshare, self.means)
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), Lacking> {
        let output = self
            .command(binary::system("ip"))
            .args(arguments)
            .output()
            .map_err(|error| Lacking(format!("nsenter: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Lacking(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// The process that keeps it.
    #[must_use]
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The way into it for threads of this process.
    #[must_use]
    pub fn way(&self) -> Way {
        Way(format!("/proc/{}/ns/net", self.holder.id()).into())
    }

    /// A command that runs `program` here. It dies with the thread that starts it; in a user
    /// namespace it is root, without any right outside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n"]);
        if self.means == Means::UserNamespace {
            command.args(["-U", "--preserve-credentials"]);
        }
        // Entering a user namespace clears the death signal, so it is set inside.
        command.args(["--", "setpriv"]).args(MORTAL).args(NO_CLOCK).arg("--").arg(program);
        command
    }
}

/// The way of a thread into a network.
#[derive(Clone, Debug)]
pub struct Way(PathBuf);

impl Way {
    /// Takes this thread there, and none other: the sockets that it makes from then on are there.
    ///
    /// # Errors
    /// Where it may not, or the network is gone.
    pub fn enter(&self) -> io::Result<()> {
        let network = File::open(&self.0)?;
        Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
