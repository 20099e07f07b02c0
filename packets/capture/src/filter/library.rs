//! libpcap, loaded when it is first wanted; everything unsafe about that is kept inside.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::code::Instruction;
use super::{FilterError, LINKTYPE_LINUX_SLL2, LINKTYPE_RAW};

/// Names of the library: upstream and most distributions, Debian and its kin.
const NAMES: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];
/// `PCAP_ERRBUF_SIZE`.
const ERROR_SIZE: usize = 256;
/// `PCAP_NETMASK_UNKNOWN`.
const NO_MASK: u32 = u32::MAX;
/// `PCAP_ERROR_IFACE_NOT_UP`, `PCAP_ERROR_NO_SUCH_DEVICE`, `PCAP_ERROR_PERM_DENIED`.
const NOT_UP: c_int = -9;
const NO_DEVICE: c_int = -5;
const NO_PERMISSION: c_int = -8;
/// More instructions than any filter has: the kernel takes 4096.
const LONGEST: u32 = 1 << 16;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    length: c_uint,
    code: *mut Instruction,
}

type Pcap = *mut c_void;

/// The functions that are used of it.
pub(super) struct Library {
    open_dead: unsafe extern "C" fn(c_int, c_int) -> Pcap,
    create: unsafe extern "C" fn(*const c_char, *mut c_char) -> Pcap,
    set_snaplen: unsafe extern "C" fn(Pcap, c_int) -> c_int,
    set_buffer_size: unsafe extern "C" fn(Pcap, c_int) -> c_int,
    activate: unsafe extern "C" fn(Pcap) -> c_int,
    set_datalink: unsafe extern "C" fn(Pcap, c_int) -> c_int,
    datalink: unsafe extern "C" fn(Pcap) -> c_int,
    compile: unsafe extern "C" fn(Pcap, *mut Program, *const c_char, c_int, u32) -> c_int,
    freecode: unsafe extern "C" fn(*mut Program),
    geterr: unsafe extern "C" fn(Pcap) -> *const c_char,
    status_to_str: unsafe extern "C" fn(c_int) -> *const c_char,
    lookup_net: unsafe extern "C" fn(*const c_char, *mut u32, *mut u32, *mut c_char) -> c_int,
    close: unsafe extern "C" fn(Pcap),
    /// Compiling was not safe for threads before 1.8.
    turn: Mutex<()>,
}

/// Reason why a text was not compiled.
pub(super) enum Refusal {
    /// The text, in libpcap's words.
    Text(String),
    /// Anything else.
    Other(FilterError),
}

/// The library, loaded once.
pub(super) fn get() -> Result<&'static Library, FilterError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| load(&NAMES))
        .as_ref()
        .map_err(|why| FilterError::NoLibrary { why: why.clone() })
}

/// The first of `names` that is there.
pub(super) fn load(names: &[&str]) -> Result<Library, String> {
    let mut why = String::new();
    for name in names {
        // SAFETY: libpcap runs no code of note when it is loaded.
        match unsafe { libloading::Library::new(name) } {
            Ok(library) => return functions(library).map_err(|error| error.to_string()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn functions(library: libloading::Library) -> Result<Library, libloading::Error> {
    // SAFETY: the types are those of pcap/pcap.h, unchanged since 1.0 (2008); the library is never
    // unloaded, see below.
    let functions = unsafe {
        Library {
            open_dead: *library.get(b"pcap_open_dead\0")?,
            create: *library.get(b"pcap_create\0")?,
            set_snaplen: *library.get(b"pcap_set_snaplen\0")?,
            set_buffer_size: *library.get(b"pcap_set_buffer_size\0")?,
            activate: *library.get(b"pcap_activate\0")?,
            set_datalink: *library.get(b"pcap_set_datalink\0")?,
            datalink: *library.get(b"pcap_datalink\0")?,
            compile: *library.get(b"pcap_compile\0")?,
            freecode: *library.get(b"pcap_freecode\0")?,
            geterr: *library.get(b"pcap_geterr\0")?,
            status_to_str: *library.get(b"pcap_statustostr\0")?,
            lookup_net: *library.get(b"pcap_lookupnet\0")?,
            close: *library.get(b"pcap_close\0")?,
            turn: Mutex::new(()),
        }
    };
    std::mem::forget(library);
    Ok(functions)
}

/// A handle to compile with: it knows the link type and whether the kernel runs the code.
pub(super) struct Handle {
    library: &'static Library,
    pcap: Pcap,
    mask: u32,
}

impl Handle {
    /// One of no interface.
    pub(super) fn dead(
        library: &'static Library,
        link_type: u16,
        snap_length: u32,
    ) -> Result<Handle, FilterError> {
        // libpcap refuses to compile for packets of which nothing is kept.
        let snap = c_int::try_from(snap_length.max(1)).unwrap_or(c_int::MAX);
        // SAFETY: two numbers.
        let pcap = unsafe { (library.open_dead)(own_number(link_type), snap) };
        Handle::new(library, pcap, NO_MASK)
            .ok_or_else(|| FilterError::library("no memory for a handle"))
    }

    /// One of an interface; `any` is all of them.
    pub(super) fn live(
        library: &'static Library,
        interface: &str,
        link_type: u16,
        snap_length: u32,
    ) -> Result<Handle, FilterError> {
        let name = CString::new(interface)
            .map_err(|_| FilterError::library("a NUL in the interface's name"))?;
        let mut error = [0 as c_char; ERROR_SIZE];
        // SAFETY: a C string, and room for as long an error as libpcap has.
        let pcap = unsafe { (library.create)(name.as_ptr(), error.as_mut_ptr()) };
        let (mut net, mut mask) = (0, 0);
        // SAFETY: as above; two words to write to.
        let found =
            unsafe { (library.lookup_net)(name.as_ptr(), &mut net, &mut mask, error.as_mut_ptr()) };
        let mask = if found == 0 { mask } else { NO_MASK };
        let handle = Handle::new(library, pcap, mask)
            .ok_or_else(|| FilterError::library(&text(error.as_ptr())))?;
        let snap = c_int::try_from(snap_length).unwrap_or(c_int::MAX);
        // SAFETY: a handle that is not active yet. The ring, which stays unused, is to be small.
        let status = unsafe {
            (library.set_snaplen)(handle.pcap, snap);
            (library.set_buffer_size)(handle.pcap, 1 << 16);
            (library.activate)(handle.pcap)
        };
        if status < 0 {
            return Err(handle.not_active(interface, status));
        }
        // SAFETY: an active handle.
        let has = unsafe { (library.datalink)(handle.pcap) };
        // SAFETY: as above.
        let set = || unsafe { (library.set_datalink)(handle.pcap, own_number(link_type)) };
        if has != own_number(link_type) && set() < 0 {
            // Cooked capture where libpcap knows of version 1 alone.
            return Handle::dead(library, link_type, snap_length);
        }
        Ok(handle)
    }

    fn new(library: &'static Library, pcap: Pcap, mask: u32) -> Option<Handle> {
        (!pcap.is_null()).then_some(Handle { library, pcap, mask })
    }

    fn not_active(&self, interface: &str, status: c_int) -> FilterError {
        // SAFETY: libpcap's own strings.
        let (mut why, more) = unsafe {
            (text((self.library.status_to_str)(status)), text((self.library.geterr)(self.pcap)))
        };
        if !more.is_empty() && more != why {
            why = format!("{why}: {more}");
        }
        let mend = match status {
            NO_PERMISSION => Some("run as root or with CAP_NET_RAW".to_owned()),
            NOT_UP => Some(format!("`ip link set {interface} up`")),
            NO_DEVICE => Some("`ip link` lists the interfaces".to_owned()),
            _ => None,
        };
        FilterError::Interface { interface: interface.to_owned(), why, mend }
    }

    /// The code of a text.
    pub(super) fn compile(&self, filter: &str) -> Result<Vec<Instruction>, Refusal> {
        let filter = CString::new(filter).map_err(|_| Refusal::Text("a NUL in it".to_owned()))?;
        let _turn = self.library.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut program = Program { length: 0, code: ptr::null_mut() };
        // SAFETY: a live handle, a C string, and a program to fill in.
        let status = unsafe {
            (self.library.compile)(self.pcap, &mut program, filter.as_ptr(), 1, self.mask)
        };
        if status < 0 {
            // SAFETY: a live handle.
            return Err(Refusal::Text(text(unsafe { (self.library.geterr)(self.pcap) })));
        }
        let sound = program.length <= LONGEST && !program.code.is_null();
        let code = if sound {
            // SAFETY: so many instructions are there until the program is freed below.
            unsafe { std::slice::from_raw_parts(program.code, program.length as usize) }.to_vec()
        } else {
            Vec::new()
        };
        // SAFETY: libpcap filled it in.
        unsafe { (self.library.freecode)(&mut program) };
        if code.is_empty() {
            return Err(Refusal::Other(FilterError::library("a program without instructions")));
        }
        Ok(code)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a live handle, closed once.
        unsafe { (self.library.close)(self.pcap) }
    }
}

/// Number of a link type in libpcap's functions (`DLT_`…): where systems disagreed on the number,
/// files have another one.
fn own_number(link_type: u16) -> c_int {
    match link_type {
        LINKTYPE_RAW => 12,
        LINKTYPE_LINUX_SLL2 => 276,
        other => c_int::from(other),
    }
}

fn text(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: libpcap gives C strings.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct pcap_pkthdr`.
    #[repr(C)]
    struct Packet {
        time: libc::timeval,
        kept: u32,
        length: u32,
    }

    impl Library {
        /// Verdict of libpcap's own machine on a packet.
        pub(in super::super) fn offline_filter(
            &self,
            code: &[Instruction],
            packet: &[u8],
            length: u32,
        ) -> u32 {
            type Run = unsafe extern "C" fn(*const Program, *const Packet, *const u8) -> c_int;
            let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let header = Packet { time, kept: packet.len() as u32, length };
            let program = Program { length: code.len() as c_uint, code: code.as_ptr().cast_mut() };
            let library = NAMES.iter().find_map(|name| {
                // SAFETY: as in `load`.
                unsafe { libloading::Library::new(name) }.ok()
            });
            let library = library.expect("it was loaded before");
            // SAFETY: the type is that of pcap/pcap.h; program and packet are as long as they say,
            // and are only read.
            unsafe {
                let run = library.get::<Run>(b"pcap_offline_filter\0").expect("since 1.0");
                run(&program, &header, packet.as_ptr()) as u32
            }
        }
    }

    #[test]
    fn without_the_library_it_is_said_how_to_get_it() {
        let Err(why) = load(&["libno-such-pcap.so.7"]) else { panic!("found") };
        assert!(why.contains("libno-such-pcap.so.7"), "{why}");
        let shown = FilterError::NoLibrary { why }.to_string();
        assert!(shown.contains("libpcap0.8") && shown.contains("dnf install libpcap"), "{shown}");
    }
}
