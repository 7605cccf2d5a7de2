//! Opening of connections: socket, TLS, sign-in.

use redis::{
    Cmd, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, ServerError, Value,
    parse_redis_value,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

#[cfg(target_os = "linux")]
use super::VANISHED;
#[cfg(feature = "tls")]
use super::tls::handshake;
#[cfg(not(feature = "tls"))]
use super::tls_files::{TlsFiles, without_tls};
use super::{
    CONNECT_TIMEOUT,
    address::Endpoint,
    halves::{Reader, Writer},
    silence::watch,
};

/// The longest reply of a handshake: an error message.
const LONGEST_LINE: usize = 4096;
/// First byte of a TLS alert, which a TLS port sends to a client without TLS.
const TLS_ALERT: u8 = 0x15;

/// The step of an attempt to connect.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Socket,
    Tls,
    Reply,
}

/// Opens a connection to `endpoint` within [`CONNECT_TIMEOUT`], signs in and selects the database.
pub(crate) async fn open(endpoint: &Endpoint) -> RedisResult<(Reader, Writer)> {
    let mut stage = Stage::Socket;
    let opened = timeout(CONNECT_TIMEOUT, open_in_stages(endpoint, &mut stage)).await;
    opened.unwrap_or_else(|_| Err(late(stage))).map(watch)
}

async fn open_in_stages(endpoint: &Endpoint, stage: &mut Stage) -> RedisResult<(Reader, Writer)> {
    #[cfg(feature = "in-memory")]
    if let Some(redis) = endpoint.in_memory() {
        let (reader, writer) = redis.open()?;
        return Ok((Box::new(reader), Box::new(writer)));
    }
    let (mut reader, mut writer): (Reader, Writer) = match endpoint.info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(VANISHED))?;
            match endpoint.tls() {
                Some(files) => {
                    *stage = Stage::Tls;
                    handshake(files, host, stream).await?
                }
                None => {
                    let (reader, writer) = stream.into_split();
                    (Box::new(reader), Box::new(writer))
                }
            }
        }
        ConnectionAddr::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            (Box::new(reader), Box::new(writer))
        }
        _ => {
            return Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "a connection goes over TCP or a unix socket",
            )));
        }
    };
    *stage = Stage::Reply;
    sign_in(endpoint, &mut reader, &mut writer).await?;
    Ok((reader, writer))
}

/// No URL asks for TLS without the feature.
#[cfg(not(feature = "tls"))]
#[allow(clippy::unused_async, reason = "as with the feature")]
async fn handshake(_: &TlsFiles, _: &str, _: TcpStream) -> RedisResult<(Reader, Writer)> {
    Err(without_tls())
}

/// Asks for one reply in any case. Only then it is certain that both sides speak TLS, or that both do not, and that the
/// server accepts the client's certificate.
async fn sign_in(endpoint: &Endpoint, reader: &mut Reader, writer: &mut Writer) -> RedisResult<()> {
    let settings = endpoint.info().redis_settings();
    let first = match settings.password() {
        Some(password) => {
            let mut auth = Cmd::new();
            auth.arg("AUTH");
            if let Some(username) = settings.username() {
                auth.arg(username);
            }
            ask(endpoint, reader, writer, auth.arg(password)).await?
        }
        None => ask(endpoint, reader, writer, Cmd::new().arg("PING")).await?,
    };
    match first {
        Some(error) if settings.password().is_some() => return Err(without_secrets(&error, settings)),
        // A server with too many clients says so and closes the connection. Other errors come again.
        Some(error) if error.code() == "ERR" => return Err(error.into()),
        _ => {}
    }
    if settings.db() != 0
        && let Some(error) =
            ask(endpoint, reader, writer, Cmd::new().arg("SELECT").arg(settings.db())).await?
    {
        return Err(error.into());
    }
    Ok(())
}

/// Sends one command of the handshake, whose reply is one line. Returns the error that it replies with.
async fn ask(
    endpoint: &Endpoint,
    reader: &mut Reader,
    writer: &mut Writer,
    command: &Cmd,
) -> RedisResult<Option<ServerError>> {
    let explain = |error| endpoint.explain(error);
    writer.write_all(&command.get_packed_command()).await.map_err(explain)?;
    writer.flush().await.map_err(explain)?;
    let mut line = Vec::with_capacity(64);
    while !line.ends_with(b"\r\n") {
        line.push(reader.read_u8().await.map_err(explain)?);
        if line.first() == Some(&TLS_ALERT) {
            let reason = "the server speaks TLS at this port: write rediss:// in its URL".to_owned();
            return Err(redis::make_extension_error("TLS".to_owned(), Some(reason)));
        }
        if line.len() > LONGEST_LINE {
            return Err(RedisError::from((ErrorKind::Parse, "no Redis answers at this port")));
        }
    }
    match parse_redis_value(&line)? {
        Value::ServerError(error) => Ok(Some(error)),
        _ => Ok(None),
    }
}

/// The error of a sign-in. A server that does not know the command repeats its arguments.
fn without_secrets(error: &ServerError, settings: &RedisConnectionInfo) -> RedisError {
    let detail = error.details().unwrap_or_default();
    let secret = settings.password().unwrap_or_default();
    let detail = if detail.contains(secret) { "the server refuses to sign in" } else { detail };
    redis::make_extension_error(error.code().to_owned(), Some(detail.to_owned()))
}

fn late(stage: Stage) -> RedisError {
    let reason = match stage {
        Stage::Socket => "the host does not answer",
        Stage::Tls => "no TLS at this port? write redis:// for a port without",
        Stage::Reply => "the server does not answer",
    };
    RedisError::from((ErrorKind::Io, "no connection", format!("within {CONNECT_TIMEOUT:?}: {reason}")))
}
