//! Interfaces by name.

use crate::error::BpfError;
use crate::sys;

/// The number of an interface in the calling thread's network namespace.
///
/// # Errors
/// Where there is no such interface.
pub fn interface_index(name: &str) -> Result<u32, BpfError> {
    sys::interface_index(name).map_err(|error| {
        let error = BpfError::system(format!("looking for the interface `{name}`"), &error, "");
        match error.errno {
            Some(libc::ENODEV) => error.mend("`ip link` lists the interfaces"),
            _ => error,
        }
    })
}
