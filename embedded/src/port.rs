//! A loopback port that stays reserved while no Redis listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A free loopback port, chosen by the kernel and kept by a socket that is bound but does not listen.
///
/// Redis can bind the same port: both sides set `SO_REUSEADDR`, and only Redis listens. The kernel gives the port to no
/// other process, neither at the start nor while Redis is down between a stop and a restart.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    _reservation: OwnedFd,
}

// === impl ReservedPort ===

impl ReservedPort {
    /// Reserves a port until the value is dropped.
    ///
    /// # Errors
    ///
    /// When no port is free, or the process may open no further file.
    pub fn reserve() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { number: address.port(), _reservation: socket })
    }

    /// The port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}
