//! Attaching programs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::error::BpfError;
use super::program::{Program, ProgramKind};
use super::sys;

const XDP: u32 = 37;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
const XDP_SKB_MODE: u32 = 1 << 1;
const XDP_DRIVER_MODE: u32 = 1 << 2;

/// Place where an interface runs XDP programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XdpMode {
    /// In the driver, before there is a socket buffer. Not every driver can.
    Native,
    /// In the stack, for every driver, slower.
    Generic,
}

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Gate {
    /// Into the host.
    Ingress,
    /// Out of it.
    Egress,
}

/// A program at its place. Dropping it takes the program away, as does the process's end.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    fn made(
        program: &Program,
        place: &str,
        result: io::Result<OwnedFd>,
        mend: impl Fn(i32) -> Option<&'static str>,
    ) -> Result<Link, BpfError> {
        result.map(|fd| Link { fd }).map_err(|error| {
            let doing = format!("{} to {place}", program.doing("attaching"));
            let error = BpfError::system(doing, &error, program.kind().capabilities());
            match error.errno.and_then(mend) {
                Some(mend) => error.mend(mend),
                None => error,
            }
        })
    }

    /// Attaches an XDP program to an interface of the calling thread's network namespace.
    pub fn xdp(program: &Program, interface: u32, mode: XdpMode) -> Result<Link, BpfError> {
        let flags = match mode {
            XdpMode::Native => XDP_DRIVER_MODE,
            XdpMode::Generic => XDP_SKB_MODE,
        };
        let result = sys::link_create(program.as_fd(), interface, XDP, flags);
        Link::made(program, &format!("interface {interface}"), result, |errno| match errno {
            libc::EBUSY | libc::EEXIST => {
                Some("another XDP program is there, maybe in the other mode: `ip link` shows it")
            }
            libc::EOPNOTSUPP if mode == XdpMode::Native => {
                Some("its driver has no XDP, or not with its present settings; generic XDP has")
            }
            libc::EINVAL if mode == XdpMode::Native => Some(
                "there is no such interface in this namespace, its driver refuses (too large an \
                 MTU, too many queues?), or the kernel is older than 5.9",
            ),
            libc::EINVAL | libc::ENODEV => Some(
                "there is no such interface in this namespace, or the kernel is older than 5.9",
            ),
            _ => None,
        })
    }

    /// Attaches a tc program to an interface by TCX (kernel 6.6 or later), behind those that are
    /// there.
    pub fn tcx(program: &Program, interface: u32, gate: Gate) -> Result<Link, BpfError> {
        let attach = match gate {
            Gate::Ingress => TCX_INGRESS,
            Gate::Egress => TCX_EGRESS,
        };
        let result = sys::link_create(program.as_fd(), interface, attach, 0);
        Link::made(program, &format!("interface {interface}"), result, |errno| match errno {
            libc::EINVAL => Some("TCX came with Linux 6.6"),
            libc::ENODEV => Some("there is no such interface in this namespace"),
            _ => None,
        })
    }

    /// Attaches a raw tracepoint program by name: `netif_receive_skb`.
    pub fn raw_tracepoint(program: &Program, name: &str) -> Result<Link, BpfError> {
        let place = format!("the tracepoint `{name}`");
        let name = CString::new(name)
            .map_err(|_| BpfError::ours(format!("attaching to {place}"), "no such name"))?;
        let result = sys::tracepoint_open(program.as_fd(), Some(&name));
        Link::made(program, &place, result, |errno| {
            (errno == libc::ENOENT).then_some("this kernel has no such tracepoint")
        })
    }

    /// Attaches a tracing program where it was loaded for.
    pub fn tracing(program: &Program) -> Result<Link, BpfError> {
        let result = match program.kind() {
            ProgramKind::Tracing(_) => sys::tracepoint_open(program.as_fd(), None),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        Link::made(program, "its place", result, |_| None)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
