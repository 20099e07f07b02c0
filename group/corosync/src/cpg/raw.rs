//! libcpg's functions and callbacks.
//!
//! The callbacks run inside `cpg_dispatch` alone, on the thread that calls it. They copy what they
//! are given into that thread's [`COLLECTED`] and do nothing else, so that nothing in them can
//! panic.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Event, Gone, Process, Reason, Ring};
use crate::error::{self, CorosyncError};
use crate::library::{self, Functions};

/// `CPG_MAX_NAME_LENGTH`.
pub(super) const NAME_SIZE: usize = 128;
/// More members than Corosync can have of one group (`CPG_MEMBERS_MAX` is 128).
const MOST_MEMBERS: usize = 512;
/// A message longer than any that we would take.
const LONGEST: usize = 16 << 20;

/// `CPG_MODEL_V1`, `CPG_MODEL_V1_DELIVER_INITIAL_TOTEM_CONF`.
const MODEL_V1: c_int = 1;
const INITIAL_RING: c_uint = 1;
/// `CPG_TYPE_AGREED`.
const AGREED: c_int = 2;
/// `CS_DISPATCH_ONE_NONBLOCKING`.
const ONE_NONBLOCKING: c_int = 4;

/// Longest time for leaving before it is left to itself: a Corosync that was stopped by a signal
/// answers nothing.
const LEAVING: Duration = Duration::from_millis(500);

/// `struct cpg_name`.
#[repr(C)]
pub(super) struct Name {
    length: u32,
    value: [u8; NAME_SIZE],
}

impl Name {
    pub(super) fn new(name: &str) -> Result<Name, CorosyncError> {
        let mut value = [0; NAME_SIZE];
        match value.get_mut(..name.len()) {
            Some(room) if !name.is_empty() => room.copy_from_slice(name.as_bytes()),
            _ => return Err(CorosyncError::Name { name: name.to_owned() }),
        }
        // It fits, so its length does.
        Ok(Name { length: name.len() as u32, value })
    }
}

/// `struct cpg_address`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Address {
    node: u32,
    pid: u32,
    reason: u32,
}

/// `struct cpg_ring_id`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RingId {
    node: u32,
    sequence: u64,
}

type Delivered = extern "C" fn(u64, *const Name, u32, u32, *mut c_void, usize);
type Changed = extern "C" fn(
    u64,
    *const Name,
    *const Address,
    usize,
    *const Address,
    usize,
    *const Address,
    usize,
);
type RingChanged = extern "C" fn(u64, RingId, u32, *const u32);

/// `cpg_model_v1_data_t`.
#[repr(C)]
struct Model {
    model: c_int,
    delivered: Delivered,
    changed: Changed,
    ring_changed: RingChanged,
    flags: c_uint,
}

struct Library {
    initialize: unsafe extern "C" fn(*mut u64, c_int, *mut Model, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(u64) -> c_int,
    fd_get: unsafe extern "C" fn(u64, *mut c_int) -> c_int,
    local_get: unsafe extern "C" fn(u64, *mut c_uint) -> c_int,
    membership_get: unsafe extern "C" fn(u64, *mut Name, *mut Address, *mut c_int) -> c_int,
    join: unsafe extern "C" fn(u64, *const Name) -> c_int,
    dispatch: unsafe extern "C" fn(u64, c_int) -> c_int,
    mcast_joined: unsafe extern "C" fn(u64, c_int, *const libc::iovec, c_uint) -> c_int,
}

impl Functions for Library {
    const NAME: &'static str = "libcpg.so.4";

    unsafe fn find(library: &libloading::Library) -> Result<Library, libloading::Error> {
        // SAFETY: the types are those of corosync/cpg.h, which this number of the library stands
        // for; the caller sees to it that the library stays.
        unsafe {
            Ok(Library {
                initialize: *library.get(b"cpg_model_initialize\0")?,
                finalize: *library.get(b"cpg_finalize\0")?,
                fd_get: *library.get(b"cpg_fd_get\0")?,
                local_get: *library.get(b"cpg_local_get\0")?,
                membership_get: *library.get(b"cpg_membership_get\0")?,
                join: *library.get(b"cpg_join\0")?,
                dispatch: *library.get(b"cpg_dispatch\0")?,
                mcast_joined: *library.get(b"cpg_mcast_joined\0")?,
            })
        }
    }
}

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

/// A connection. libcpg takes calls on it from any one thread at a time, which `&mut self` means.
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
    pub(super) fn open() -> Result<Handle, CorosyncError> {
        let library = library::get(&LIBRARY)?;
        let mut model =
            Model { model: MODEL_V1, delivered, changed, ring_changed, flags: INITIAL_RING };
        let mut id = 0;
        // SAFETY: a place for the handle, and a model of version 1 that is copied.
        let code = unsafe { (library.initialize)(&mut id, MODEL_V1, &mut model, ptr::null_mut()) };
        error::opened("cpg_model_initialize", code)?;
        let mut handle = Handle { library, id, descriptor: -1 };
        // SAFETY: a live handle, and a place for the descriptor.
        let code = unsafe { (library.fd_get)(id, &mut handle.descriptor) };
        error::checked("cpg_fd_get", code)?;
        Ok(handle)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: libcpg closes it in cpg_finalize alone, which is called when `self` is dropped.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    pub(super) fn local_node(&self) -> Result<u32, CorosyncError> {
        let mut node = 0;
        // SAFETY: a live handle, and a place for the number.
        let code = unsafe { (self.library.local_get)(self.id, &mut node) };
        error::checked("cpg_local_get", code)?;
        Ok(node)
    }

    pub(super) fn join(&mut self, name: &Name) -> Result<(), CorosyncError> {
        // SAFETY: a live handle, and a name that is as long as it says.
        let code = unsafe { (self.library.join)(self.id, name) };
        error::checked("cpg_join", code)
    }

    pub(super) fn members(&mut self, name: &Name) -> Result<Vec<Process>, CorosyncError> {
        let mut name = Name { length: name.length, value: name.value };
        let mut list = [Address::default(); MOST_MEMBERS];
        let mut count = 0;
        // SAFETY: a live handle, a name, room for more members than there can be, and a place for
        // how many there are.
        let code = unsafe {
            (self.library.membership_get)(self.id, &mut name, list.as_mut_ptr(), &mut count)
        };
        error::checked("cpg_membership_get", code)?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(list.iter().take(count).map(process).collect())
    }

    pub(super) fn multicast(&mut self, message: &[u8]) -> c_int {
        let part =
            libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
        // SAFETY: a live handle, and one part that is as long as it says and only read.
        unsafe { (self.library.mcast_joined)(self.id, AGREED, &part, 1) }
    }

    /// At most one event; what came of it.
    pub(super) fn dispatch_one(&mut self, into: &mut VecDeque<Event>) -> c_int {
        // SAFETY: a live handle; the callbacks are those below.
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
        let (library, id) = (self.library, self.id);
        // SAFETY: a live handle that nobody uses after this.
        let finalize = move || unsafe { (library.finalize)(id) };
        let (done, wait) = std::sync::mpsc::channel();
        let leave = move || {
            finalize();
            let _ = done.send(());
        };
        match std::thread::Builder::new().name("leave".to_owned()).spawn(leave) {
            Ok(_) => drop(wait.recv_timeout(LEAVING)),
            Err(_) => drop(finalize()),
        }
    }
}

thread_local! {
    /// Events that the callbacks have seen since the last dispatch of this thread.
    static COLLECTED: RefCell<VecDeque<Event>> = const { RefCell::new(VecDeque::new()) };
}

fn collect(event: Event) {
    let _ = COLLECTED.try_with(|collected| {
        if let Ok(mut collected) = collected.try_borrow_mut() {
            collected.push_back(event);
        }
    });
}

extern "C" fn delivered(
    _: u64,
    _: *const Name,
    node: u32,
    pid: u32,
    message: *mut c_void,
    length: usize,
) {
    if length > LONGEST {
        return;
    }
    // SAFETY: libcpg's buffer has `length` bytes until this returns.
    let bytes = unsafe { list(message.cast::<u8>().cast_const(), length) }.to_vec();
    collect(Event::Delivered { from: Process { node, pid }, bytes });
}

extern "C" fn changed(
    _: u64,
    _: *const Name,
    members: *const Address,
    member_count: usize,
    left: *const Address,
    left_count: usize,
    joined: *const Address,
    joined_count: usize,
) {
    // SAFETY: libcpg's lists have so many entries until this returns.
    let (members, left, joined) = unsafe {
        (list(members, member_count), list(left, left_count), list(joined, joined_count))
    };
    let gone = |one: &Address| Gone { process: process(one), reason: reason(one.reason) };
    collect(Event::Configuration {
        members: members.iter().map(process).collect(),
        left: left.iter().map(gone).collect(),
        joined: joined.iter().map(process).collect(),
    });
}

extern "C" fn ring_changed(_: u64, id: RingId, count: u32, nodes: *const u32) {
    // SAFETY: libcpg's list has so many entries until this returns.
    let nodes = unsafe { list(nodes, count as usize) }.to_vec();
    collect(Event::Ring(Ring { leader: id.node, sequence: id.sequence, nodes }));
}

/// A list of libcpg's, which has no address when it is empty.
///
/// # Safety
/// There are `count` entries at `first`, for as long as the result is used.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn process(address: &Address) -> Process {
    Process { node: address.node, pid: address.pid }
}

/// `cpg_reason_t`.
fn reason(code: u32) -> Reason {
    match code {
        2 => Reason::Left,
        3 => Reason::NodeDown,
        5 => Reason::ProcessDown,
        other => Reason::Other(other),
    }
}
