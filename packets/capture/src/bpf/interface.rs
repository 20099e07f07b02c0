//! Interfaces by name.

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::error::BpfError;

/// The number of an interface in the calling thread's network namespace.
///
/// # Errors
/// Where there is no such interface.
pub fn interface_index(name: &str) -> Result<u32, BpfError> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.and_then(|socket| name_to_index(socket, name)).map_err(|why| {
        let doing = format!("interface `{name}`");
        let error = BpfError::system(doing, &why.into(), "");
        match error.errno {
            Some(libc::ENODEV) => error.mend("`ip link` lists the interfaces"),
            _ => error,
        }
    })
}
