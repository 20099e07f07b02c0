//! System calls, by seccomp: the list of those that a service of ours makes, and the filter.

use std::collections::BTreeMap;
use std::str::FromStr;

use rustix::thread::CapabilitySet;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// Fate of a system call that is not on the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unlisted {
    /// Passes: there is no filter.
    #[default]
    Pass,
    /// The kernel ends the process (`SIGSYS`, which nothing can catch).
    Kill,
    /// The kernel lets it pass and writes a line with its number to the audit log (or its own).
    Log,
}

impl FromStr for Unlisted {
    type Err = String;

    /// Takes the words of options and configuration files: `off`, `kill`, `log`.
    fn from_str(word: &str) -> Result<Unlisted, String> {
        match word {
            "off" => Ok(Unlisted::Pass),
            "kill" => Ok(Unlisted::Kill),
            "log" => Ok(Unlisted::Log),
            _ => Err("must be \"off\", \"kill\" or \"log\"".to_owned()),
        }
    }
}

/// Filter that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Filtered {
    /// None is wanted.
    Off,
    /// Filter of so many calls; any other ends the process.
    To(usize),
    /// Any other than so many calls is logged.
    Logged(usize),
    /// None, for this reason.
    Not(String),
}

/// A list of calls; in braces, so that it is laid out by hand.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Calls of files and directories, sockets, memory, threads, time and signals. Not among them, nor
/// ever to be: those that start programs, trace others, load code into the kernel (`bpf`, modules),
/// mount, change users, make namespaces, or go round the others (`io_uring`).
const EVERYWHERE: &[libc::c_long] = calls! {
    // Files.
    SYS_openat SYS_openat2 SYS_close SYS_read SYS_write
    SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_lseek
    SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs
    SYS_faccessat SYS_faccessat2 SYS_readlinkat SYS_getdents64
    SYS_getcwd SYS_renameat2 SYS_unlinkat
    SYS_mkdirat SYS_linkat SYS_fchmod SYS_fchmodat SYS_umask
    SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync
    SYS_flock SYS_fcntl SYS_ioctl SYS_dup SYS_dup3
    SYS_pipe2 SYS_utimensat
    // Sockets, and waiting for them.
    SYS_socket SYS_socketpair SYS_bind SYS_connect SYS_listen
    SYS_accept SYS_accept4 SYS_shutdown SYS_getsockname
    SYS_getpeername SYS_getsockopt SYS_setsockopt SYS_sendto
    SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg
    SYS_recvmmsg SYS_ppoll SYS_pselect6 SYS_epoll_create1
    SYS_epoll_ctl SYS_epoll_pwait SYS_eventfd2 SYS_timerfd_create
    SYS_timerfd_settime SYS_timerfd_gettime
    // Memory; a receiver's shared memory too.
    SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect
    SYS_madvise SYS_membarrier SYS_shmget SYS_shmat SYS_shmdt
    SYS_shmctl
    // Threads, and what libc and std ask for them.
    SYS_clone SYS_clone3 SYS_exit SYS_exit_group SYS_futex
    SYS_set_robust_list SYS_set_tid_address SYS_rseq SYS_gettid
    SYS_getpid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid
    SYS_getegid SYS_getgroups SYS_sched_yield SYS_sched_getaffinity
    SYS_sched_setaffinity SYS_getcpu SYS_prctl SYS_prlimit64
    SYS_getrusage SYS_sysinfo SYS_uname SYS_getrandom
    SYS_capget
    // Time: `clock_adjtime` reads what the kernel says of its clock, too; without `CAP_SYS_TIME` it
    // does no more.
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep
    SYS_nanosleep SYS_gettimeofday SYS_clock_adjtime SYS_adjtimex
    SYS_times
    // Signals, to oneself.
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn
    SYS_sigaltstack SYS_tgkill SYS_restart_syscall
};

/// Older forms of the same, which libraries still use.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = calls! {
    SYS_renameat SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink
    SYS_rename SYS_unlink SYS_mkdir SYS_link SYS_chmod
    SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_wait
    SYS_time SYS_getdents SYS_arch_prctl
};
#[cfg(target_arch = "aarch64")]
const OLDER: &[libc::c_long] = calls! { SYS_renameat };
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER: &[libc::c_long] = &[];

/// For who steers the system clock.
const STEERING: &[libc::c_long] = calls! { SYS_clock_settime SYS_settimeofday };

/// Filters the calls of this thread, and of those that it starts from now on.
pub(crate) fn filter(unlisted: Unlisted, keep: CapabilitySet) -> Filtered {
    let steering = if keep.contains(CapabilitySet::SYS_TIME) { STEERING } else { &[] };
    let listed: BTreeMap<i64, _> =
        [EVERYWHERE, OLDER, steering].concat().into_iter().map(|call| (call, Vec::new())).collect();
    let count = listed.len();
    let action = match unlisted {
        Unlisted::Pass => return Filtered::Off,
        Unlisted::Kill => SeccompAction::KillProcess,
        Unlisted::Log => SeccompAction::Log,
    };
    let install = || -> Result<(), String> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|why| why.to_string())?;
        let filter = SeccompFilter::new(listed, action, SeccompAction::Allow, arch);
        let program = filter.and_then(BpfProgram::try_from).map_err(|why| why.to_string())?;
        seccompiler::apply_filter(&program).map_err(|why| why.to_string())
    };
    match install() {
        Ok(()) if unlisted == Unlisted::Log => Filtered::Logged(count),
        Ok(()) => Filtered::To(count),
        Err(why) => Filtered::Not(why),
    }
}
