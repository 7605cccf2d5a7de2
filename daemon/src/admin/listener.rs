//! The socket of the admin server.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
};

use crate::config::Listen;

/// Rights on the socket: of the user and the group of the daemon.
const MODE: u32 = 0o660;

/// A listening socket. A unix socket is removed with it.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, file: SocketFile },
}

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The file of a unix socket, removed on drop.
pub(super) struct SocketFile(PathBuf);

// === impl Listener ===

impl Listener {
    /// Where it listens. A port 0 of the config is the one that the system chose.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
            }
            Self::Unix { file, .. } => format!("unix:{}", file.0.display()),
        }
    }

    pub(super) async fn bind(listen: &Listen) -> anyhow::Result<Self> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await;
                Ok(Self::Tcp(listener.with_context(|| format!("admin.listen {address}"))?))
            }
            Listen::Unix(path) => {
                let bound = bind_unix(path).await;
                let listener = bound.with_context(|| format!("admin.listen unix:{}", path.display()))?;
                Ok(Self::Unix { listener, file: SocketFile(path.clone()) })
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix { listener, .. } => Box::new(listener.accept().await?.0),
        })
    }
}

/// Binds the socket at `path`. Replaces one that nobody listens on any more.
async fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => bail!("there is a file that is no socket"),
        Ok(_) => match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error.into()),
            Ok(_) => bail!("another process listens there"),
        },
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
