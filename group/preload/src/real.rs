//! The functions that this library stands in for, as the next library in the order of loading has
//! them: libc's.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    clockid_t, epoll_event, fd_set, iovec, itimerspec, mqd_t, msghdr, nfds_t, pid_t, pollfd,
    pthread_attr_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t, sem_t, sigevent,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, time_t, timer_t, timespec, timeval,
};

/// A function of libc, looked up once: before `main` for all of them, as looking up is nothing for
/// a signal handler.
pub struct Real<F> {
    at: AtomicPtr<c_void>,
    name: &'static CStr,
    version: Option<&'static CStr>,
    is: PhantomData<F>,
}

// SAFETY: holds only atomics and constants; `F` is a function pointer that it gives away copies of.
unsafe impl<F> Sync for Real<F> {}

impl<F: Copy> Real<F> {
    const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Real<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Real { at: AtomicPtr::new(null_mut()), name, version, is: PhantomData }
    }

    /// The function; none if this libc has none of that name.
    pub fn get(&self) -> Option<F> {
        let mut at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            at = self.look_up();
            self.at.store(at, Ordering::Relaxed);
        }
        if at.is_null() {
            return None;
        }
        // SAFETY: `F` is a function pointer (of this size, as `new` checks) with the signature
        // that libc documents for the function of this name, as the table below says.
        Some(unsafe { core::mem::transmute_copy::<*mut c_void, F>(&at) })
    }

    fn look_up(&self) -> *mut c_void {
        if let Some(version) = self.version {
            // SAFETY: C strings; RTLD_NEXT is meant for this.
            let at = unsafe { dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) };
            if !at.is_null() {
                return at;
            }
        }
        // SAFETY: as above.
        unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }
    }
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// `NAME name [version]: type`, and `look_all_up`.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $symbol:literal $($version:literal)?: $type:ty;)*) => {
        $(
            #[doc = concat!("`", stringify!($symbol), "` of libc.")]
            pub static $name: Real<$type> = Real::new($symbol, functions!(@version $($version)?));
        )*

        /// Looks all of them up.
        pub fn look_all_up() {
            $($name.get();)*
        }
    };
    (@version) => { None };
    (@version $version:literal) => { Some($version) };
}

// Those that a thread may be cancelled in are "C-unwind": cancelling unwinds the callers.
functions! {
    CLOCK_GETTIME c"clock_gettime": unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
    GETTIMEOFDAY c"gettimeofday": unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int;
    TIME c"time": unsafe extern "C" fn(*mut time_t) -> time_t;
    FTIME c"ftime": unsafe extern "C" fn(*mut c_void) -> c_int;
    TIMESPEC_GET c"timespec_get": unsafe extern "C" fn(*mut timespec, c_int) -> c_int;

    CLOCK_NANOSLEEP c"clock_nanosleep":
        unsafe extern "C-unwind" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
    COND_WAIT c"pthread_cond_wait" c"GLIBC_2.3.2":
        unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int;
    COND_SIGNAL c"pthread_cond_signal" c"GLIBC_2.3.2":
        unsafe extern "C" fn(*mut pthread_cond_t) -> c_int;
    COND_BROADCAST c"pthread_cond_broadcast" c"GLIBC_2.3.2":
        unsafe extern "C" fn(*mut pthread_cond_t) -> c_int;
    CND_WAIT c"cnd_wait":
        unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int;
    CND_SIGNAL c"cnd_signal": unsafe extern "C" fn(*mut pthread_cond_t) -> c_int;
    CND_BROADCAST c"cnd_broadcast": unsafe extern "C" fn(*mut pthread_cond_t) -> c_int;
    SEM_WAIT c"sem_wait": unsafe extern "C-unwind" fn(*mut sem_t) -> c_int;
    SEM_POST c"sem_post": unsafe extern "C" fn(*mut sem_t) -> c_int;
    JOIN c"pthread_join":
        unsafe extern "C-unwind" fn(pthread_t, *mut *mut c_void) -> c_int;
    COND_TIMEDWAIT c"pthread_cond_timedwait" c"GLIBC_2.3.2": unsafe extern "C-unwind" fn(
        *mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;
    COND_CLOCKWAIT c"pthread_cond_clockwait": unsafe extern "C-unwind" fn(
        *mut pthread_cond_t, *mut pthread_mutex_t, clockid_t, *const timespec) -> c_int;
    CND_TIMEDWAIT c"cnd_timedwait": unsafe extern "C-unwind" fn(
        *mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;
    MUTEX_TIMEDLOCK c"pthread_mutex_timedlock":
        unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int;
    MUTEX_CLOCKLOCK c"pthread_mutex_clocklock":
        unsafe extern "C" fn(*mut pthread_mutex_t, clockid_t, *const timespec) -> c_int;
    MTX_TIMEDLOCK c"mtx_timedlock":
        unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int;
    RWLOCK_TIMEDRDLOCK c"pthread_rwlock_timedrdlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int;
    RWLOCK_TIMEDWRLOCK c"pthread_rwlock_timedwrlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int;
    RWLOCK_CLOCKRDLOCK c"pthread_rwlock_clockrdlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int;
    RWLOCK_CLOCKWRLOCK c"pthread_rwlock_clockwrlock":
        unsafe extern "C" fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int;
    SEM_TIMEDWAIT c"sem_timedwait":
        unsafe extern "C-unwind" fn(*mut sem_t, *const timespec) -> c_int;
    SEM_CLOCKWAIT c"sem_clockwait":
        unsafe extern "C-unwind" fn(*mut sem_t, clockid_t, *const timespec) -> c_int;
    TIMEDJOIN c"pthread_timedjoin_np":
        unsafe extern "C-unwind" fn(pthread_t, *mut *mut c_void, *const timespec) -> c_int;
    CLOCKJOIN c"pthread_clockjoin_np": unsafe extern "C-unwind" fn(
        pthread_t, *mut *mut c_void, clockid_t, *const timespec) -> c_int;
    MQ_TIMEDSEND c"mq_timedsend": unsafe extern "C-unwind" fn(
        mqd_t, *const c_char, size_t, c_uint, *const timespec) -> c_int;
    MQ_TIMEDRECEIVE c"mq_timedreceive": unsafe extern "C-unwind" fn(
        mqd_t, *mut c_char, size_t, *mut c_uint, *const timespec) -> ssize_t;
    TIMERFD_SETTIME c"timerfd_settime":
        unsafe extern "C" fn(c_int, c_int, *const itimerspec, *mut itimerspec) -> c_int;
    TIMER_CREATE c"timer_create" c"GLIBC_2.3.3":
        unsafe extern "C" fn(clockid_t, *mut sigevent, *mut timer_t) -> c_int;
    TIMER_DELETE c"timer_delete" c"GLIBC_2.3.3": unsafe extern "C" fn(timer_t) -> c_int;
    TIMER_SETTIME c"timer_settime" c"GLIBC_2.3.3":
        unsafe extern "C" fn(timer_t, c_int, *const itimerspec, *mut itimerspec) -> c_int;

    FORK c"fork": unsafe extern "C" fn() -> pid_t;
    UNDERSCORE_FORK c"_Fork": unsafe extern "C" fn() -> pid_t;
    PTHREAD_CREATE c"pthread_create": unsafe extern "C" fn(
        *mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
    THRD_CREATE c"thrd_create":
        unsafe extern "C" fn(*mut pthread_t, ThrdStart, *mut c_void) -> c_int;

    CLOSE c"close": unsafe extern "C-unwind" fn(c_int) -> c_int;
    CLOSE_RANGE c"close_range": unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    DUP c"dup": unsafe extern "C" fn(c_int) -> c_int;
    DUP2 c"dup2": unsafe extern "C" fn(c_int, c_int) -> c_int;
    DUP3 c"dup3": unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    FCNTL c"fcntl": unsafe extern "C-unwind" fn(c_int, c_int, c_long) -> c_int;

    ACCEPT c"accept":
        unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    ACCEPT4 c"accept4":
        unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    READ c"read": unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t;
    READV c"readv": unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
    RECV c"recv": unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    RECVFROM c"recvfrom": unsafe extern "C-unwind" fn(
        c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    RECVMSG c"recvmsg": unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    READ_CHK c"__read_chk":
        unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    RECV_CHK c"__recv_chk":
        unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    RECVFROM_CHK c"__recvfrom_chk": unsafe extern "C-unwind" fn(
        c_int, *mut c_void, size_t, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    POLL c"poll": unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, c_int) -> c_int;
    POLL_CHK c"__poll_chk":
        unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int;
    PPOLL c"ppoll": unsafe extern "C-unwind" fn(
        *mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    PPOLL_CHK c"__ppoll_chk": unsafe extern "C-unwind" fn(
        *mut pollfd, nfds_t, *const timespec, *const sigset_t, size_t) -> c_int;
    SELECT c"select": unsafe extern "C-unwind" fn(
        c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    PSELECT c"pselect": unsafe extern "C-unwind" fn(
        c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int;
    EPOLL_CTL c"epoll_ctl":
        unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    EPOLL_WAIT c"epoll_wait":
        unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    EPOLL_PWAIT c"epoll_pwait": unsafe extern "C-unwind" fn(
        c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    EPOLL_PWAIT2 c"epoll_pwait2": unsafe extern "C-unwind" fn(
        c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
    PAUSE c"pause": unsafe extern "C-unwind" fn() -> c_int;
    SIGSUSPEND c"sigsuspend": unsafe extern "C-unwind" fn(*const sigset_t) -> c_int;
}

/// Function with which a thread begins.
pub type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
/// Function with which a thread of C11 begins.
pub type ThrdStart = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
