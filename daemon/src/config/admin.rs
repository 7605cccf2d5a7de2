//! The table `[admin]`: where the admin server listens, and who may ask it.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use super::{
    keys,
    raw_table::{Located, RawTable},
};

/// The settings of the admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens.
    pub listen: Listen,
    /// The file with the bearer token; always there unless the address is a loopback one or a socket.
    pub token_file: Option<PathBuf>,
}

/// An address of the admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// The text is no address of an admin server.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no address: write an IP address and a port, such as \"127.0.0.1:9187\", or \"unix:/run/topup/admin.sock\""
)]
pub struct ListenError(String);

// === impl Listen ===

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ListenError(text.chars().take(80).collect());
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(error()),
            None => text.parse().map(Self::Tcp).map_err(|_| error()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Whether other machines may connect.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

/// The table, if it is there and right.
pub(super) fn read(root: &RawTable<'_>) -> Option<AdminConfig> {
    let admin = root.table("admin", keys::ADMIN)?;
    admin.require("listen", "");
    let token_file = admin.text::<PathBuf>("token_file").map(|file| file.value);
    let Located { value: listen, location } = admin.text::<Listen>("listen")?;
    if listen.is_remote() && !admin.has("token_file") {
        let message = format!(
            "other machines can connect to {listen}: write token_file = \"/etc/topup/admin-token\", or listen on 127.0.0.1"
        );
        admin.error(&location, message);
    }
    Some(AdminConfig { listen, token_file })
}
