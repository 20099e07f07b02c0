//! Receiving datagrams, whatever interrupts it.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Receives like [`UdpSocket::recv_from`], again where a signal or a debugger cut it short: with a
/// timeout set, the kernel does not do that by itself.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
