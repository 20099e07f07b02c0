//! Putting a program on an interface.

use std::os::fd::{AsFd, OwnedFd};

use super::{Mode, RIGHTS, failed, system};
use crate::ask::promiscuous;
use crate::bpf::{BpfError, Link as Attached, Program, XdpMode};
use crate::link::{Link, Watcher};
use crate::tap::TapError;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use truechimer_stamp::interface::Asker;

/// An interface that XDP can be had on.
#[derive(Debug)]
pub(super) struct Place {
    pub link: Link,
    pub asker: Asker,
    /// The longest packet without its Ethernet header, in bytes.
    pub mtu: u32,
    /// The card takes VLAN tags out of packets.
    pub strips_tags: bool,
}

impl Place {
    pub fn find(interface: &str) -> Result<Place, TapError> {
        let doing = || format!("interface `{interface}`");
        let link = Link::named(interface).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => TapError {
                doing: doing(),
                why: "there is none of that name".to_owned(),
                mend: Some("`ip link` lists them".to_owned()),
            },
            _ => system(doing(), |_| None)(error),
        })?;
        if !matches!(link.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
            return Err(TapError {
                doing: format!("preparing XDP on {interface}"),
                why: format!("it does not carry Ethernet frames (hardware type {})", link.hardware),
                mend: Some("use the method `packet`".to_owned()),
            });
        }
        let asker = Asker::new().map_err(system("opening a socket", |_| None))?;
        let mtu = asker.mtu(interface).map_err(system(doing(), |_| None))?;
        // A driver that does not tell has no such setting.
        let strips_tags = asker.strips_tags(interface).unwrap_or(false);
        Ok(Place { link, asker, mtu, strips_tags })
    }

    /// Hears what becomes of it.
    pub fn watch(&self) -> Result<Watcher, TapError> {
        let name = &self.link.name;
        Watcher::open(self.link.index).map_err(system(format!("watching {name}"), |_| None))
    }

    /// Has it hear packets for everybody, if that is wished for and means anything.
    /// It does so until the socket is closed, be it by the end of the process.
    pub fn promiscuous(&self, wish: bool) -> Result<Option<OwnedFd>, TapError> {
        if !wish || self.link.is_loopback {
            return Ok(None);
        }
        let doing = format!("setting {} promiscuous", self.link.name);
        let on = || -> std::io::Result<OwnedFd> {
            // Without a protocol this socket itself gets no packets.
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            promiscuous(socket.as_fd(), self.link.index, true)?;
            Ok(socket)
        };
        on().map(Some).map_err(system(doing, |_| Some(RIGHTS)))
    }

    /// The variety of a tap, for people: how the program is run, what else, and what there is to
    /// regret.
    pub fn detail(&self, mode: XdpMode, what: &str, regret: Option<String>) -> String {
        let mode = match mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        let mut detail = format!("{mode}, {what}");
        for note in regret.into_iter().chain(self.strips_tags.then(|| TAGS.to_owned())) {
            detail.push_str("; ");
            detail.push_str(&note);
        }
        detail
    }

    /// Attaches the program; says how, and if that is not what was wished for most, why.
    pub fn attach(
        &self,
        program: &Program,
        mode: Mode,
    ) -> Result<(Attached, XdpMode, Option<String>), TapError> {
        let attach = |mode| Attached::xdp(program, self.link.index, mode);
        match mode {
            Mode::Native => {
                Ok((attach(XdpMode::Native).map_err(|e| self.why(e, true))?, XdpMode::Native, None))
            }
            Mode::Generic => Ok((
                attach(XdpMode::Generic).map_err(|e| self.why(e, false))?,
                XdpMode::Generic,
                None,
            )),
            Mode::Auto => match attach(XdpMode::Native) {
                Ok(attached) => Ok((attached, XdpMode::Native, None)),
                Err(error) if error.errno == Some(libc::EBUSY) || error.is_permission() => {
                    Err(self.why(error, true))
                }
                Err(error) => {
                    let attached = attach(XdpMode::Generic).map_err(|e| self.why(e, false))?;
                    Ok((attached, XdpMode::Generic, Some(format!("not native: {}", error.why))))
                }
            },
        }
    }

    fn why(&self, error: BpfError, native: bool) -> TapError {
        let name = &self.link.name;
        let errno = error.errno;
        let mut error = failed(error);
        error.doing = format!("attaching an XDP program to {name}");
        error.mend = match errno {
            Some(libc::EBUSY) => Some(format!(
                "another program is there: `ip link show {name}`; `ip link set {name} xdp off` \
                 removes one that `ip` put there, else end the process that has it"
            )),
            Some(libc::ERANGE | libc::E2BIG | libc::EINVAL | libc::EOPNOTSUPP) if native => {
                Some(format!(
                    "its driver cannot, or not with its settings (an MTU of {}, queues, offloads): use \
                 mode generic, or the method `packet`",
                    self.mtu
                ))
            }
            _ => error.mend,
        };
        error
    }
}

/// Fate of VLAN tags that the card takes out, for people.
const TAGS: &str =
    "the card may take VLAN tags out, which are lost then: `ethtool -K IF rxvlan off` keeps them";
