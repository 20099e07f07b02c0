//! The C libraries of Truechimer and ClockBound, called as a program in C calls them: by their
//! functions in the shared libraries.
#![allow(unsafe_code)] // Functions of C.

use std::error::Error;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libloading::Library;

/// `truechimer_reading`.
pub type Reading = [u64; 9];
/// `clockbound_now_result`: earliest, latest, status.
pub type Window = [u64; 5];
/// `clockbound_err`: two numbers, and a text.
pub type Failed = [u32; 34];

type TruechimerOpen = unsafe extern "C" fn(
    *const c_char,
    u32,
    *const c_void,
    *mut *mut c_void,
    *mut c_char,
    usize,
) -> c_int;
type TruechimerNow = unsafe extern "C" fn(*const c_void, *mut Reading) -> c_int;
type TruechimerClose = unsafe extern "C" fn(*mut c_void);
type ClockBoundOpen =
    unsafe extern "C" fn(*const c_char, *const c_char, *mut Failed) -> *mut c_void;
type ClockBoundNow = unsafe extern "C" fn(*mut c_void, *mut Window, *mut Failed) -> *mut Failed;
type ClockBoundClose = unsafe extern "C" fn(*mut c_void, *mut Failed) -> *mut Failed;

/// Both libraries.
pub struct Libraries {
    truechimer: Library,
    clock_bound: Library,
}

impl Libraries {
    /// Loads `libtruechimer_c.so` and `libclockbound.so` from a folder; `None` where neither is.
    pub fn load(folder: &Path) -> Result<Option<Libraries>, Box<dyn Error>> {
        let paths = ["libtruechimer_c.so", "libclockbound.so"].map(|name| folder.join(name));
        if !paths.iter().all(|path| path.exists()) {
            return Ok(None);
        }
        let [truechimer, clock_bound] = paths;
        // SAFETY: libraries that `scripts/bench` has built from sources with no initialisers but
        // those of Rust's standard library.
        let [truechimer, clock_bound] =
            unsafe { [Library::new(truechimer)?, Library::new(clock_bound)?] };
        Ok(Some(Libraries { truechimer, clock_bound }))
    }

    /// Opens Truechimer's page.
    pub fn truechimer(&self, page: &Path) -> Result<TruechimerC<'_>, Box<dyn Error>> {
        let page = CString::new(page.as_os_str().as_bytes())?;
        // SAFETY: the types are those of `truechimer.h`.
        let (open, now, close) = unsafe {
            (
                self.truechimer.get::<TruechimerOpen>(b"truechimer_open_at\0")?,
                *self.truechimer.get::<TruechimerNow>(b"truechimer_now\0")?,
                *self.truechimer.get::<TruechimerClose>(b"truechimer_close\0")?,
            )
        };
        let mut clock = ptr::null_mut();
        // SAFETY: the strings and places live until it returns; no text and no timeout is wanted.
        let error =
            unsafe { open(page.as_ptr(), 0, ptr::null(), &raw mut clock, ptr::null_mut(), 0) };
        if error != 0 {
            return Err(format!("truechimer_open_at: error {error}").into());
        }
        Ok(TruechimerC { clock, now, close, library: &self.truechimer })
    }

    /// Opens ClockBound's segment.
    pub fn clock_bound(&self, segment: &Path) -> Result<ClockBoundC<'_>, Box<dyn Error>> {
        let segment = CString::new(segment.as_os_str().as_bytes())?;
        // SAFETY: the types are those of `clockbound.h`.
        let (open, now, close) = unsafe {
            (
                self.clock_bound.get::<ClockBoundOpen>(b"clockbound_open_with\0")?,
                *self.clock_bound.get::<ClockBoundNow>(b"clockbound_now\0")?,
                *self.clock_bound.get::<ClockBoundClose>(b"clockbound_close\0")?,
            )
        };
        let mut failed: Failed = [0; 34];
        // SAFETY: strings and the place for an error live until it returns.
        let context = unsafe { open(segment.as_ptr(), c"/dev/vmclock0".as_ptr(), &raw mut failed) };
        if context.is_null() {
            return Err(format!("clockbound_open_with: error {}", failed[0]).into());
        }
        Ok(ClockBoundC { context, now, close, library: &self.clock_bound })
    }
}

/// Truechimer's clock, one for all threads.
pub struct TruechimerC<'a> {
    clock: *mut c_void,
    now: TruechimerNow,
    close: TruechimerClose,
    #[allow(dead_code)] // Keeps the functions where they are.
    library: &'a Library,
}

// SAFETY: `truechimer.h` promises that all threads may use an open clock at the same time.
unsafe impl Sync for TruechimerC<'_> {}

impl TruechimerC<'_> {
    /// Reads it into this, as a program in C does: a copy afterwards would be a cost of its own.
    #[inline(always)]
    pub fn now(&self, reading: &mut Reading) -> c_int {
        // SAFETY: the clock is open until this is dropped, and the reading has the size of C's.
        unsafe { (self.now)(self.clock, reading) }
    }
}

impl Drop for TruechimerC<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by this library, and used by nobody any more.
        unsafe { (self.close)(self.clock) };
    }
}

/// A context of ClockBound's, for one thread.
pub struct ClockBoundC<'a> {
    context: *mut c_void,
    now: ClockBoundNow,
    close: ClockBoundClose,
    #[allow(dead_code)] // Keeps the functions where they are.
    library: &'a Library,
}

// SAFETY: `clockbound.h` forbids to share a context, and says nothing against its going to the one
// thread that uses it.
unsafe impl Send for ClockBoundC<'_> {}

impl ClockBoundC<'_> {
    /// Reads it into these, as [`TruechimerC::now`]; whether it could be read.
    #[inline(always)]
    pub fn now(&mut self, window: &mut Window, failed: &mut Failed) -> bool {
        // SAFETY: the context is open until this is dropped, and both places have the size of C's.
        unsafe { (self.now)(self.context, window, failed) }.is_null()
    }
}

impl Drop for ClockBoundC<'_> {
    fn drop(&mut self) {
        let mut failed: Failed = [0; 34];
        // SAFETY: opened by this library, and used by nobody any more.
        unsafe { (self.close)(self.context, &raw mut failed) };
    }
}
