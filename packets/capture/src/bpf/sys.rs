//! The system calls `bpf` and `perf_event_open`, with everything unsafe about them kept inside.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Argument of bpf(2); longer than any kernel's so far would need, zeros at the end are ignored.
#[repr(C, align(8))]
struct Attr([u8; Attr::SIZE]);

impl Attr {
    const SIZE: usize = 152;

    fn new() -> Attr {
        Attr([0; Attr::SIZE])
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Attr {
        let room = self.0.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
        if let Some(room) = room {
            room.copy_from_slice(bytes);
        }
        self
    }

    fn u32(self, at: usize, value: u32) -> Attr {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn u64(self, at: usize, value: u64) -> Attr {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn fd(self, at: usize, fd: BorrowedFd<'_>) -> Attr {
        self.bytes(at, &fd.as_raw_fd().to_ne_bytes())
    }

    fn pointer<T>(self, at: usize, pointer: *const T) -> Attr {
        self.u64(at, pointer as u64)
    }

    fn get(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_ne_bytes)
    }

    /// # Safety
    /// The pointers in it must be good for what the command does with them.
    unsafe fn call(&mut self, command: u32) -> io::Result<i64> {
        // SAFETY: the structure is `SIZE` bytes long; the rest is the caller's word.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, ptr::from_mut(self), Attr::SIZE as u32)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// # Safety
    /// As for `call`; and the command's result must be a new descriptor.
    unsafe fn open(&mut self, command: u32) -> io::Result<OwnedFd> {
        // SAFETY: the caller's word.
        let fd = unsafe { self.call(command) }?;
        // SAFETY: likewise.
        unsafe { opened(fd) }
    }
}

/// # Safety
/// It must be the result of a call that gives a new descriptor, nobody else's, or a negative number.
unsafe fn opened(result: i64) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = RawFd::try_from(result).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the caller's word.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The kernel keeps 15 bytes of a name and refuses most signs.
fn name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let fit = name.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'_' { b } else { b'_' });
    bytes.iter_mut().take(15).zip(fit).for_each(|(to, from)| *to = from);
    bytes
}

/// The sizes that make reading and writing a map safe.
#[derive(Debug)]
pub(crate) struct MapSizes {
    pub key: usize,
    /// Size that user space sees: of all CPUs together.
    pub value: usize,
}

/// Shape of a map.
pub(crate) struct MapShape<'a> {
    pub kind: u32,
    pub key: u32,
    pub value: u32,
    pub entries: u32,
    pub flags: u32,
    pub name: &'a str,
}

pub(crate) fn map_create(shape: &MapShape<'_>) -> io::Result<OwnedFd> {
    let mut attr = Attr::new()
        .u32(0, shape.kind)
        .u32(4, shape.key)
        .u32(8, shape.value)
        .u32(12, shape.entries)
        .u32(16, shape.flags)
        .bytes(28, &name(shape.name));
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { attr.open(0) }
}

fn fits(bytes: &[u8], size: usize) -> io::Result<()> {
    if bytes.len() == size { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// `sizes` must be the truth about `map`; key and value are held against it.
pub(crate) fn map_get(
    map: BorrowedFd<'_>,
    sizes: &MapSizes,
    key: &[u8],
    value: &mut [u8],
) -> io::Result<()> {
    fits(key, sizes.key).and(fits(value, sizes.value))?;
    let mut attr = Attr::new().fd(0, map).pointer(8, key.as_ptr()).pointer(16, value.as_mut_ptr());
    // SAFETY: key and value are as long as the map's.
    unsafe { attr.call(1) }.map(drop)
}

pub(crate) fn map_set(
    map: BorrowedFd<'_>,
    sizes: &MapSizes,
    key: &[u8],
    value: &[u8],
) -> io::Result<()> {
    fits(key, sizes.key).and(fits(value, sizes.value))?;
    let mut attr = Attr::new().fd(0, map).pointer(8, key.as_ptr()).pointer(16, value.as_ptr());
    // SAFETY: key and value are as long as the map's; the kernel only reads them.
    unsafe { attr.call(2) }.map(drop)
}

pub(crate) fn map_delete(map: BorrowedFd<'_>, sizes: &MapSizes, key: &[u8]) -> io::Result<()> {
    fits(key, sizes.key)?;
    let mut attr = Attr::new().fd(0, map).pointer(8, key.as_ptr());
    // SAFETY: the key is as long as the map's.
    unsafe { attr.call(3) }.map(drop)
}

/// The key after `key` (the first for `None`) into `next`.
pub(crate) fn map_next(
    map: BorrowedFd<'_>,
    sizes: &MapSizes,
    key: Option<&[u8]>,
    next: &mut [u8],
) -> io::Result<()> {
    fits(key.unwrap_or(next), sizes.key).and(fits(next, sizes.key))?;
    let key = key.map_or(ptr::null(), <[u8]>::as_ptr);
    let mut attr = Attr::new().fd(0, map).pointer(8, key).pointer(16, next.as_mut_ptr());
    // SAFETY: both keys are as long as the map's; no key at all asks for the first.
    unsafe { attr.call(4) }.map(drop)
}

/// Program as the kernel loads it.
pub(crate) struct Load<'a> {
    pub kind: u32,
    pub attach: u32,
    pub btf: u32,
    pub name: &'a str,
    pub code: &'a [[u8; 8]],
    pub licence: &'a CStr,
}

/// Number of times that a signal may cut the verifier short before that is an error.
const INTERRUPTED: usize = 20;

/// With `log`, the verifier writes there.
pub(crate) fn program_load(load: &Load<'_>, mut log: Option<&mut Vec<u8>>) -> io::Result<OwnedFd> {
    let mut result = program_load_once(load, log.as_deref_mut());
    for _ in 0..INTERRUPTED {
        match &result {
            Err(why) if matches!(why.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                result = program_load_once(load, log.as_deref_mut());
            }
            _ => break,
        }
    }
    result
}

fn program_load_once(load: &Load<'_>, log: Option<&mut Vec<u8>>) -> io::Result<OwnedFd> {
    let count = u32::try_from(load.code.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut attr = Attr::new()
        .u32(0, load.kind)
        .u32(4, count)
        .pointer(8, load.code.as_ptr())
        .pointer(16, load.licence.as_ptr())
        .bytes(48, &name(load.name))
        .u32(68, load.attach)
        .u32(108, load.btf);
    if let Some(log) = log {
        let room = u32::try_from(log.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        attr = attr.u32(24, 1).u32(28, room).pointer(32, log.as_mut_ptr());
    }
    // SAFETY: code, licence (ended by a zero) and log are as long as said and outlive the call.
    unsafe { attr.open(5) }
}

/// A descriptor of a program that the kernel knows by this number.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = Attr::new().u32(0, id);
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { attr.open(13) }
}

/// One run of a program by hand.
pub(crate) struct Run<'a> {
    pub data: &'a [u8],
    pub context: &'a [u8],
    pub repeat: u32,
    pub flags: u32,
    pub cpu: u32,
    pub batch: u32,
    pub out: Option<&'a mut Vec<u8>>,
}

/// Returns what the program returned, and the mean time of a run in ns.
pub(crate) fn program_run(program: BorrowedFd<'_>, run: Run<'_>) -> io::Result<(u32, u32)> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput);
    let mut attr = Attr::new()
        .fd(0, program)
        .u32(8, size(run.data)?)
        .u32(32, run.repeat)
        .u32(40, size(run.context)?)
        .u32(64, run.flags)
        .u32(68, run.cpu)
        .u32(72, run.batch);
    if !run.data.is_empty() {
        attr = attr.pointer(16, run.data.as_ptr());
    }
    if !run.context.is_empty() {
        attr = attr.pointer(48, run.context.as_ptr());
    }
    let mut out = run.out;
    if let Some(out) = out.as_deref_mut() {
        attr = attr.u32(12, size(out)?).pointer(24, out.as_mut_ptr());
    }
    // SAFETY: data and context are only read, `out` has the room that is said.
    unsafe { attr.call(10) }?;
    if let Some(out) = out {
        out.truncate(attr.get(12) as usize);
    }
    Ok((attr.get(4), attr.get(36)))
}

/// A link of a program to an interface (`target`) or whatever else `attach` says.
pub(crate) fn link_create(
    program: BorrowedFd<'_>,
    target: u32,
    attach: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attr = Attr::new().fd(0, program).u32(4, target).u32(8, attach).u32(12, flags);
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { attr.open(28) }
}

/// `name`: for programs that do not know where they belong.
pub(crate) fn tracepoint_open(program: BorrowedFd<'_>, name: Option<&CStr>) -> io::Result<OwnedFd> {
    let pointer = name.map_or(ptr::null(), CStr::as_ptr);
    let mut attr = Attr::new().pointer(0, pointer).fd(8, program);
    // SAFETY: the name, if any, ends by a zero and outlives the call; the result is a descriptor.
    unsafe { attr.open(17) }
}

/// A perf event that counts on one CPU, whatever runs there.
pub(crate) fn perf_event(kind: u32, config: u64, cpu: i32) -> io::Result<OwnedFd> {
    /// The first version of `perf_event_attr`, which every kernel takes.
    const SIZE: usize = 64;
    let attr = Attr::new().u32(0, kind).u32(4, SIZE as u32).u64(8, config);
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the structure is longer than it says; the kernel reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, ptr::from_ref(&attr), -1, cpu, -1, CLOSE_ON_EXEC)
    };
    // SAFETY: the result of that call.
    unsafe { opened(fd) }
}
