//! libcmap's functions: Corosync's settings by name.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::error::{self, CorosyncError};
use crate::library::{self, Functions};

/// `CMAP_KEYNAME_MAXLEN` and the NUL after it.
const KEY_SIZE: usize = 256;
/// More settings than any ring has under one name.
const MOST_KEYS: usize = 1 << 16;

struct Library {
    initialize: unsafe extern "C" fn(*mut u64) -> c_int,
    finalize: unsafe extern "C" fn(u64) -> c_int,
    get_uint32: unsafe extern "C" fn(u64, *const c_char, *mut u32) -> c_int,
    get_string: unsafe extern "C" fn(u64, *const c_char, *mut *mut c_char) -> c_int,
    iter_init: unsafe extern "C" fn(u64, *const c_char, *mut u64) -> c_int,
    iter_next: unsafe extern "C" fn(u64, u64, *mut c_char, *mut usize, *mut c_int) -> c_int,
    iter_finalize: unsafe extern "C" fn(u64, u64) -> c_int,
}

impl Functions for Library {
    const NAME: &'static str = "libcmap.so.4";

    unsafe fn find(library: &libloading::Library) -> Result<Library, libloading::Error> {
        // SAFETY: the types are those of corosync/cmap.h, which this number of the library stands
        // for; the caller sees to it that the library stays.
        unsafe {
            Ok(Library {
                initialize: *library.get(b"cmap_initialize\0")?,
                finalize: *library.get(b"cmap_finalize\0")?,
                get_uint32: *library.get(b"cmap_get_uint32\0")?,
                get_string: *library.get(b"cmap_get_string\0")?,
                iter_init: *library.get(b"cmap_iter_init\0")?,
                iter_next: *library.get(b"cmap_iter_next\0")?,
                iter_finalize: *library.get(b"cmap_iter_finalize\0")?,
            })
        }
    }
}

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

/// A connection to the settings.
pub(super) struct Handle {
    library: &'static Library,
    id: u64,
}

impl Handle {
    pub(super) fn open() -> Result<Handle, CorosyncError> {
        let library = library::get(&LIBRARY)?;
        let mut id = 0;
        // SAFETY: a place for the handle.
        let code = unsafe { (library.initialize)(&mut id) };
        error::opened("cmap_initialize", code)?;
        Ok(Handle { library, id })
    }

    /// All names that begin so.
    pub(super) fn keys(&self, prefix: &str) -> Result<Vec<String>, CorosyncError> {
        let prefix = name(prefix)?;
        let mut walk = 0;
        // SAFETY: a live handle, a C string, and a place for the walk.
        let code = unsafe { (self.library.iter_init)(self.id, prefix.as_ptr(), &mut walk) };
        error::checked("cmap_iter_init", code)?;
        let mut keys = Vec::new();
        let outcome = loop {
            let mut key = [0 as c_char; KEY_SIZE];
            // SAFETY: a live handle and walk, and room for the longest name; the value's length and
            // kind are not asked for.
            let code = unsafe {
                (self.library.iter_next)(
                    self.id,
                    walk,
                    key.as_mut_ptr(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            if code == error::ERR_NO_SECTIONS || keys.len() == MOST_KEYS {
                break Ok(());
            }
            if let Err(error) = error::checked("cmap_iter_next", code) {
                break Err(error);
            }
            // SAFETY: libcmap ends names with a NUL within their room, the last byte of which was
            // never another.
            keys.push(unsafe { CStr::from_ptr(key.as_ptr()) }.to_string_lossy().into_owned());
        };
        // SAFETY: a live handle and walk, which ends here.
        unsafe { (self.library.iter_finalize)(self.id, walk) };
        outcome.map(|()| keys)
    }

    /// A number, if there is one of this name.
    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, CorosyncError> {
        let key = name(key)?;
        let mut value = 0;
        // SAFETY: a live handle, a C string, and a place for the number.
        let code = unsafe { (self.library.get_uint32)(self.id, key.as_ptr(), &mut value) };
        if code == error::ERR_NOT_EXIST {
            return Ok(None);
        }
        error::checked("cmap_get_uint32", code).map(|()| Some(value))
    }

    /// A text, if there is one of this name.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, CorosyncError> {
        let key = name(key)?;
        let mut value: *mut c_char = ptr::null_mut();
        // SAFETY: a live handle, a C string, and a place for the text's address.
        let code = unsafe { (self.library.get_string)(self.id, key.as_ptr(), &mut value) };
        if code == error::ERR_NOT_EXIST {
            return Ok(None);
        }
        error::checked("cmap_get_string", code)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: a C string from malloc that is ours now; it is copied, then freed once.
        unsafe {
            let text = CStr::from_ptr(value).to_string_lossy().into_owned();
            libc::free(value.cast::<c_void>());
            Ok(Some(text))
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a live handle, used no more.
        unsafe { (self.library.finalize)(self.id) };
    }
}

fn name(key: &str) -> Result<CString, CorosyncError> {
    CString::new(key).map_err(|_| CorosyncError::Other { call: "cmap", code: 7 })
}
