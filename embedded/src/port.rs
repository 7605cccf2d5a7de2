//! A loopback port that stays ours while no Redis listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A port chosen by the kernel and kept by a socket that is bound but does not listen.
///
/// Redis can bind it as well, since both sides set `SO_REUSEADDR` and only one listens; nobody else is given it,
/// so there is no race for it at the start, nor while Redis is down between a stop and a restart.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _reservation: OwnedFd,
}

// === impl Port ===

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { number: address.port(), _reservation: socket })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}
