//! The cause of a failed request.

use std::{error::Error, io, sync::Arc, time::Duration};

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{address::Endpoint, sentinel::NO_MASTER, socket::open, transient::code};

/// The longest time of one step of a diagnosis. Redis needs a round trip for each.
const STEP: Duration = Duration::from_millis(300);

/// A `ClientHello` of TLS 1.2 with one cipher. Any server of TLS answers it, if only with an alert.
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [0; 50];
    // Record: handshake, TLS 1.0, 45 bytes. Message: ClientHello, 41 bytes, TLS 1.2. A random of zeros follows.
    let head = [0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    let mut i = 0;
    while i < head.len() {
        hello[i] = head[i];
        i += 1;
    }
    // No session. One cipher, ECDHE-RSA-AES128-GCM-SHA256. No compression.
    [hello[45], hello[46], hello[47], hello[48]] = [2, 0xc0, 0x2f, 1];
    hello
};
/// First bytes of an answer of TLS: an alert, or a handshake.
const TLS_ANSWERS: [u8; 2] = [0x15, 0x16];

/// The cause of a failed request, as an operator has to tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing listens at the address.
    Refused,
    /// The host has no address, or no connection to it comes about.
    Unreachable,
    /// The server accepts connections and does not answer.
    Silent,
    /// The server, or a proxy before it, closes connections.
    Closed,
    /// The password is wrong or missing.
    Password,
    /// The user may not run the command.
    Rights,
    /// One side of the port speaks TLS and the other does not, or a certificate does not fit.
    Tls,
    /// The server reads its data set.
    Loading,
    /// A script or function of another user holds the server up.
    Busy,
    /// The server is a replica.
    Replica,
    /// `maxmemory` is reached.
    Memory,
    /// The server cannot save its data set.
    Disk,
    /// Too few replicas are connected.
    Replicas,
    /// The server has too many clients.
    Clients,
    /// A cluster has hash slots without a master.
    Cluster,
    /// No sentinel tells the master.
    Sentinel,
    /// Anything else.
    Other,
}

// === impl Cause ===

impl Cause {
    /// The cause of `error`, as far as the error alone tells.
    pub fn of(error: &RedisError) -> Self {
        let text = error.to_string();
        match code(error).as_deref() {
            Some("NOAUTH" | "WRONGPASS") => return Self::Password,
            Some("NOPERM") => return Self::Rights,
            Some("LOADING") => return Self::Loading,
            Some("BUSY") => return Self::Busy,
            Some("READONLY" | "MASTERDOWN") => return Self::Replica,
            Some("OOM") => return Self::Memory,
            Some("MISCONF") => return Self::Disk,
            Some("NOREPLICAS") => return Self::Replicas,
            Some("CLUSTERDOWN") => return Self::Cluster,
            Some("TLS") => return Self::Tls,
            _ if text.starts_with(NO_MASTER) => return Self::Sentinel,
            _ if text.contains("max number of clients") => return Self::Clients,
            // Without the password, Redis refuses a command of more than ten arguments with this word and no NOAUTH.
            _ if text.contains("unauthenticated") => return Self::Password,
            _ if text.contains("the host does not answer") => return Self::Unreachable,
            _ if text.contains("no TLS at this port") => return Self::Tls,
            _ if text.contains("Redis closed the connection") => return Self::Closed,
            _ if error.kind() == ErrorKind::AuthenticationFailed => return Self::Password,
            _ => {}
        }
        match io_error(error).map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Self::Refused,
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => Self::Unreachable,
            Some(io::ErrorKind::TimedOut) => Self::Silent,
            // A name without an address has no kind of its own.
            Some(_) if text.contains("lookup address") => Self::Unreachable,
            Some(_) => Self::Closed,
            None if error.is_io_error() && (text.contains("within") || error.is_timeout()) => Self::Silent,
            None if error.is_connection_dropped() || error.kind() == ErrorKind::Parse => Self::Closed,
            None => Self::Other,
        }
    }

    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::Password => "password",
            Self::Rights => "rights",
            Self::Tls => "tls",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::Replica => "replica",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Replicas => "replicas",
            Self::Clients => "clients",
            Self::Cluster => "cluster",
            Self::Sentinel => "sentinel",
            Self::Other => "other",
        }
    }

    /// Whether the error tells less than the server does when it is asked.
    fn is_vague(self) -> bool {
        matches!(self, Self::Silent | Self::Closed | Self::Other)
    }
}

/// The error of the operating system behind `error`.
fn io_error(error: &RedisError) -> Option<&io::Error> {
    // The redis crate shares it.
    error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?.downcast_ref()
}

/// The cause of `error` of the server of `info`. If the error alone does not tell, the server is asked on a new
/// connection.
pub(super) async fn diagnose(error: &RedisError, endpoint: &Endpoint) -> Cause {
    let cause = Cause::of(error);
    if !cause.is_vague() {
        return cause;
    }
    // A server that answers now had another trouble before.
    probe(endpoint).await.unwrap_or(cause)
}

/// The cause why the server of `info` does not answer a `PING`; `None` if it does.
async fn probe(endpoint: &Endpoint) -> Option<Cause> {
    let info = endpoint.info();
    if let ConnectionAddr::Tcp(host, port) = info.addr() {
        match timeout(STEP, TcpStream::connect((host.as_str(), *port))).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Some(Cause::of(&error.into())),
            Err(_) => return Some(Cause::Unreachable),
        }
    }
    let ping = async {
        let (mut reader, mut writer) = open(endpoint).await?;
        writer.write_all(b"PING\r\n").await?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(reader.read_u8().await?);
        }
        redis::parse_redis_value(&line)?.extract_error()
    };
    let cause = match timeout(STEP, ping).await {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => Cause::of(&error),
        Err(_) => return Some(Cause::Silent),
    };
    let speaks_tls =
        cause.is_vague() && timeout(STEP, speaks_tls(info)).await.is_ok_and(|tls| tls.is_ok_and(|tls| tls));
    Some(if speaks_tls { Cause::Tls } else { cause })
}

/// Whether a server that closes plain connections answers as one of TLS does.
async fn speaks_tls(info: &ConnectionInfo) -> io::Result<bool> {
    let ConnectionAddr::Tcp(host, port) = info.addr() else { return Ok(false) };
    let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
    stream.write_all(&CLIENT_HELLO).await?;
    Ok(TLS_ANSWERS.contains(&stream.read_u8().await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_one_cause() {
        let server = |code: &str| redis::make_extension_error(code.into(), Some("detail".into()));
        let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        let silent = RedisError::from((ErrorKind::Io, "no answer", "within 1s".to_owned()));
        for (error, cause) in [
            (server("NOAUTH"), Cause::Password),
            (server("WRONGPASS"), Cause::Password),
            (server("READONLY"), Cause::Replica),
            (server("NOREPLICAS"), Cause::Replicas),
            (server("ERR"), Cause::Other),
            (io(io::ErrorKind::ConnectionRefused), Cause::Refused),
            (io(io::ErrorKind::NotFound), Cause::Refused),
            (io(io::ErrorKind::HostUnreachable), Cause::Unreachable),
            (io(io::ErrorKind::TimedOut), Cause::Silent),
            (io(io::ErrorKind::BrokenPipe), Cause::Closed),
            (io(io::ErrorKind::UnexpectedEof), Cause::Closed),
            (silent, Cause::Silent),
        ] {
            assert_eq!(Cause::of(&error), cause, "{error}");
        }
    }
}
