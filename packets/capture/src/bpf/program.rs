//! Programs that the kernel took.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::asm::Asm;
use super::error::BpfError;
use super::sys::{self, Load, Run};

/// Most helpers are for programs whose licence the kernel knows to go with its own.
const LICENCE: &CStr = c"Dual MIT/GPL";
/// Room for what the verifier says.
const LOG_BYTES: usize = 1 << 20;
/// Run on the CPU that is named.
const ON_CPU: u32 = 1;

/// Where a tracing program belongs; the number is the kernel's BTF number of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hook {
    /// A tracepoint ([`super::Btf::tracepoint`]): arguments are typed and may be read directly.
    Tracepoint(u32),
    /// The entry of a function ([`super::Btf::function`]).
    Entry(u32),
    /// The return of a function ([`super::Btf::function`]).
    Exit(u32),
}

/// Purpose of a program, and so what it gets in R1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProgramKind {
    /// Packets as the driver takes them; R1: `xdp_md`.
    Xdp,
    /// Packets in or out of the stack (tc, TCX); R1: `__sk_buff`.
    SchedCls,
    /// Packets of a socket; R1: `__sk_buff`.
    SocketFilter,
    /// A raw tracepoint; R1: its arguments, 64 bits each, to be read by
    /// [`super::Helper::ProbeReadKernel`].
    RawTracepoint,
    /// A tracepoint or function with typed arguments; R1: 64 bits each.
    Tracing(Hook),
}

impl ProgramKind {
    /// Numbers of the kind: its type, attach type and BTF number.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            ProgramKind::SocketFilter => (1, 0, 0),
            ProgramKind::SchedCls => (3, 0, 0),
            ProgramKind::Xdp => (6, 37, 0),
            ProgramKind::RawTracepoint => (17, 0, 0),
            ProgramKind::Tracing(Hook::Tracepoint(btf)) => (26, 23, btf),
            ProgramKind::Tracing(Hook::Entry(btf)) => (26, 24, btf),
            ProgramKind::Tracing(Hook::Exit(btf)) => (26, 25, btf),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ProgramKind::Xdp => "XDP",
            ProgramKind::SchedCls => "tc",
            ProgramKind::SocketFilter => "socket filter",
            ProgramKind::RawTracepoint => "raw tracepoint",
            ProgramKind::Tracing(_) => "tracing",
        }
    }

    pub(crate) fn capabilities(self) -> &'static str {
        match self {
            ProgramKind::Xdp | ProgramKind::SchedCls => "cap_bpf,cap_net_admin,cap_perfmon",
            ProgramKind::SocketFilter => "cap_bpf",
            ProgramKind::RawTracepoint | ProgramKind::Tracing(_) => "cap_bpf,cap_perfmon",
        }
    }
}

/// A program in the kernel. It goes when this, its links and its users are gone.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    kind: ProgramKind,
    name: String,
}

/// Result of running a program by hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Value that it returned.
    pub value: u32,
    /// Mean time of one run, ns.
    pub nanos: u32,
    /// The packet afterwards; empty where there was none.
    pub data: Vec<u8>,
}

impl Program {
    /// Assembles and loads.
    ///
    /// # Errors
    /// Where the labels do not fit, rights are missing, or the verifier refuses: its log is in the
    /// error.
    pub fn load(kind: ProgramKind, name: &str, asm: &Asm) -> Result<Program, BpfError> {
        let doing = || format!("loading the {} program `{name}`", kind.name());
        let code = asm.assemble().map_err(|error| BpfError::ours(doing(), error.to_string()))?;
        let code: Vec<[u8; 8]> = code.iter().map(|instruction| instruction.bytes()).collect();
        let (number, attach, btf) = kind.numbers();
        let load = Load { kind: number, attach, btf, name, code: &code, licence: LICENCE };
        let error = match sys::program_load(&load, None) {
            Ok(fd) => return Ok(Program { fd, kind, name: name.to_owned() }),
            Err(error) => error,
        };
        // Only now is the log worth its memory.
        let mut log = vec![0; LOG_BYTES];
        let error = match sys::program_load(&load, Some(&mut log)) {
            Ok(fd) => return Ok(Program { fd, kind, name: name.to_owned() }),
            Err(again) if again.raw_os_error() == Some(libc::ENOSPC) => error,
            Err(again) => again,
        };
        let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut refused = BpfError::system(doing(), &error, kind.capabilities());
        refused.log = String::from_utf8_lossy(said).trim().to_owned();
        if !refused.log.is_empty() {
            refused.why = format!("the verifier refused it ({})", refused.why);
            // It takes more from those who have all rights.
            refused.mend = refused.mend.map(|mend| format!("if rights are missing: {mend}"));
        }
        Err(refused)
    }

    /// The program, of this kind, that somebody else loaded and the kernel knows by this number (as
    /// `ip link show` tells it of an interface's).
    ///
    /// # Errors
    /// Where there is none, or rights are missing.
    pub fn by_id(kind: ProgramKind, id: u32) -> Result<Program, BpfError> {
        let fd = sys::program_by_id(id).map_err(|error| {
            BpfError::system(
                format!("opening the program with the number {id}"),
                &error,
                "cap_sys_admin",
            )
        })?;
        Ok(Program { fd, kind, name: format!("number {id}") })
    }

    /// Kind of program.
    #[must_use]
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    pub(crate) fn doing(&self, verb: &str) -> String {
        format!("{verb} the {} program `{}`", self.kind.name(), self.name)
    }

    fn run(&self, run: Run<'_>) -> Result<(u32, u32), BpfError> {
        sys::program_run(self.fd.as_fd(), run).map_err(|error| {
            BpfError::system(self.doing("running"), &error, self.kind.capabilities())
        })
    }

    /// Runs it `repeat` times on a packet (from the Ethernet header on, at least 14 bytes).
    pub fn test_run(&self, packet: &[u8], repeat: u32) -> Result<Ran, BpfError> {
        // Programs may make a packet longer, by what XDP leaves before and behind it at most.
        let mut data = vec![0; packet.len().saturating_add(512)];
        let run = Run {
            data: packet,
            context: &[],
            repeat,
            flags: 0,
            cpu: 0,
            batch: 0,
            out: Some(&mut data),
        };
        let (value, nanos) = self.run(run)?;
        Ok(Ran { value, nanos, data })
    }

    /// Runs a raw tracepoint program once with these arguments; on this CPU, or on the one named.
    pub fn test_run_arguments(&self, args: &[u64], cpu: Option<u32>) -> Result<Ran, BpfError> {
        let context: Vec<u8> = args.iter().flat_map(|arg| arg.to_ne_bytes()).collect();
        let (flags, cpu) = cpu.map_or((0, 0), |cpu| (ON_CPU, cpu));
        let run = Run { data: &[], context: &context, repeat: 0, flags, cpu, batch: 0, out: None };
        let (value, nanos) = self.run(run)?;
        Ok(Ran { value, nanos, data: Vec::new() })
    }

    pub(crate) fn run_raw(&self, run: Run<'_>) -> Result<(u32, u32), BpfError> {
        self.run(run)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
