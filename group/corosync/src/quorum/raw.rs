//! libquorum's functions and callback; as with libcpg, the callback only collects.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::OnceLock;

use super::View;
use crate::error::{self, CorosyncError};
use crate::library::{self, Functions};

/// `QUORUM_FREE`: there is no provider.
const FREE: u32 = 0;
/// `CS_TRACK_CURRENT | CS_TRACK_CHANGES`.
const CURRENT_AND_CHANGES: c_uint = 3;
/// `CS_DISPATCH_ONE_NONBLOCKING`.
const ONE_NONBLOCKING: c_int = 4;

/// `quorum_callbacks_t`.
#[repr(C)]
struct Callbacks {
    notify: extern "C" fn(u64, u32, u64, u32, *mut u32),
}

struct Library {
    initialize: unsafe extern "C" fn(*mut u64, *mut Callbacks, *mut u32) -> c_int,
    finalize: unsafe extern "C" fn(u64) -> c_int,
    fd_get: unsafe extern "C" fn(u64, *mut c_int) -> c_int,
    trackstart: unsafe extern "C" fn(u64, c_uint) -> c_int,
    dispatch: unsafe extern "C" fn(u64, c_int) -> c_int,
}

impl Functions for Library {
    const NAME: &'static str = "libquorum.so.5";

    unsafe fn find(library: &libloading::Library) -> Result<Library, libloading::Error> {
        // SAFETY: the types are those of corosync/quorum.h, which this number of the library
        // stands for; the caller sees to it that the library stays.
        unsafe {
            Ok(Library {
                initialize: *library.get(b"quorum_initialize\0")?,
                finalize: *library.get(b"quorum_finalize\0")?,
                fd_get: *library.get(b"quorum_fd_get\0")?,
                trackstart: *library.get(b"quorum_trackstart\0")?,
                dispatch: *library.get(b"quorum_dispatch\0")?,
            })
        }
    }
}

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

/// A connection, for one thread at a time, which `&mut self` means.
pub(super) struct Handle {
    library: &'static Library,
    id: u64,
    descriptor: RawFd,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn open() -> Result<Option<Handle>, CorosyncError> {
        let library = library::get(&LIBRARY)?;
        let mut callbacks = Callbacks { notify };
        let (mut id, mut kind) = (0, 0);
        // SAFETY: callbacks that are copied, and places for the handle and the kind of quorum.
        let code = unsafe { (library.initialize)(&mut id, &mut callbacks, &mut kind) };
        error::opened("quorum_initialize", code)?;
        let mut handle = Handle { library, id, descriptor: -1 };
        if kind == FREE {
            return Ok(None);
        }
        // SAFETY: a live handle, and a place for the descriptor.
        let code = unsafe { (library.fd_get)(id, &mut handle.descriptor) };
        error::checked("quorum_fd_get", code)?;
        // SAFETY: a live handle and a number.
        let code = unsafe { (library.trackstart)(id, CURRENT_AND_CHANGES) };
        error::checked("quorum_trackstart", code)?;
        Ok(Some(handle))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: libquorum closes it in quorum_finalize alone, which is called when `self` is
        // dropped.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    /// At most one event; what came of it.
    pub(super) fn dispatch_one(&mut self, into: &mut Vec<View>) -> c_int {
        // SAFETY: a live handle; the callback is the one below.
        let code = unsafe { (self.library.dispatch)(self.id, ONE_NONBLOCKING) };
        let _ = COLLECTED.try_with(|collected| {
            if let Ok(mut collected) = collected.try_borrow_mut() {
                into.append(&mut collected);
            }
        });
        code
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a live handle, used no more. libquorum asks nobody for leave to go.
        unsafe { (self.library.finalize)(self.id) };
    }
}

thread_local! {
    /// Views that the callback has seen since the last dispatch of this thread.
    static COLLECTED: RefCell<Vec<View>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn notify(_: u64, quorate: u32, ring_sequence: u64, count: u32, nodes: *mut u32) {
    let nodes = if count == 0 || nodes.is_null() {
        Vec::new()
    } else {
        // SAFETY: libquorum's list has so many entries until this returns.
        unsafe { std::slice::from_raw_parts(nodes, count as usize) }.to_vec()
    };
    let view = View { quorate: quorate != 0, ring_sequence, nodes };
    let _ = COLLECTED.try_with(|collected| {
        if let Ok(mut collected) = collected.try_borrow_mut() {
            collected.push(view);
        }
    });
}
