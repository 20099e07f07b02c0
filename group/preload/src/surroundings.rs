//! The process's environment, by its own memory: some programs (bash) have functions of their own
//! under the names of libc's, which are not ready before `main`.

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Largest number of variables that are looked at: an array without an end is not ours to mend.
const MOST: usize = 1 << 20;

/// The strings `NAME=value`, with where they are.
fn all() -> impl Iterator<Item = (*mut *mut c_char, &'static CStr)> {
    // SAFETY: libc keeps it null or an array of C strings that ends with null.
    let first = unsafe { environ };
    let count = if first.is_null() { 0 } else { MOST };
    (0..count).map_while(move |at| {
        // SAFETY: not beyond the end, at which this stops.
        let place = unsafe { first.add(at) };
        // SAFETY: as above; a string stays while the program has not begun to change it.
        unsafe { (!(*place).is_null()).then(|| (place, CStr::from_ptr(*place))) }
    })
}

/// Text that follows `NAME=`.
fn value_of<'a>(variable: &'a CStr, name: &CStr) -> Option<&'a CStr> {
    let rest = variable.to_bytes_with_nul().strip_prefix(name.to_bytes())?.strip_prefix(b"=")?;
    CStr::from_bytes_with_nul(rest).ok()
}

/// A variable's value. Allocates nothing.
pub fn get(name: &CStr) -> Option<&'static CStr> {
    all().find_map(|(_, variable)| value_of(variable, name))
}

/// Takes a variable away.
///
/// # Safety
/// Only before the program's own code runs.
pub unsafe fn remove(name: &CStr) {
    let Some((place, _)) = all().find(|(_, variable)| value_of(variable, name).is_some()) else {
        return;
    };
    let mut at = place;
    // SAFETY: within the array; the last that is moved is the null at its end.
    unsafe {
        while !(*at).is_null() {
            *at = *at.add(1);
            at = at.add(1);
        }
    }
}

/// Sets variables, in an array of its own that is never freed. Does nothing where there is no
/// memory.
///
/// # Safety
/// Only before the program's own code runs.
pub unsafe fn set(variables: &[(&CStr, &CStr)]) {
    for (name, _) in variables {
        // SAFETY: the caller's word.
        unsafe { remove(name) };
    }
    let kept = all().count();
    let room = kept + variables.len() + 1;
    // SAFETY: zeros are nulls.
    let array = unsafe { libc::calloc(room, size_of::<*mut c_char>()) }.cast::<*mut c_char>();
    if array.is_null() {
        return;
    }
    let new = variables.iter().filter_map(|(name, value)| joined(name, value));
    let strings = all().take(kept).map(|(_, variable)| variable.as_ptr().cast_mut()).chain(new);
    for (at, string) in strings.enumerate() {
        // SAFETY: within the array: one less than its room at most.
        unsafe { array.add(at).write(string) };
    }
    // SAFETY: the caller's word; a whole array with null at its end.
    unsafe { environ = array };
}

/// `NAME=value` in memory of libc's.
fn joined(name: &CStr, value: &CStr) -> Option<*mut c_char> {
    let (name, value) = (name.to_bytes(), value.to_bytes_with_nul());
    // SAFETY: room for both, the sign and the zero.
    let string = unsafe { libc::malloc(name.len() + 1 + value.len()) }.cast::<u8>();
    if string.is_null() {
        return None;
    }
    // SAFETY: within the room, and apart from what is copied.
    unsafe {
        string.copy_from_nonoverlapping(name.as_ptr(), name.len());
        string.add(name.len()).write(b'=');
        string.add(name.len() + 1).copy_from_nonoverlapping(value.as_ptr(), value.len());
    }
    Some(string.cast())
}
