//! The socket of a pipeline.

use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, Value, parse_redis_value,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

#[cfg(target_os = "linux")]
use crate::connection::VANISHED;

/// The reading half.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The writing half.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens a socket to the Redis of `info`, signs in and selects the database.
pub(crate) async fn connect(info: &ConnectionInfo) -> RedisResult<(Reader, Writer)> {
    let (mut reader, mut writer): (Reader, Writer) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(VANISHED))?;
            let (reader, writer) = stream.into_split();
            (Box::new(reader), Box::new(writer))
        }
        ConnectionAddr::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            (Box::new(reader), Box::new(writer))
        }
        _ => {
            return Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "a pipeline goes over TCP or a unix socket",
            )));
        }
    };
    let settings = info.redis_settings();
    if let Some(password) = settings.password() {
        let mut auth = Cmd::new();
        auth.arg("AUTH");
        if let Some(username) = settings.username() {
            auth.arg(username);
        }
        ask(&mut reader, &mut writer, auth.arg(password)).await?;
    }
    if settings.db() != 0 {
        ask(&mut reader, &mut writer, Cmd::new().arg("SELECT").arg(settings.db())).await?;
    }
    Ok((reader, writer))
}

/// Sends one command of the handshake, whose reply is one line.
async fn ask(reader: &mut Reader, writer: &mut Writer, command: &Cmd) -> RedisResult<()> {
    writer.write_all(&command.get_packed_command()).await?;
    let mut line = Vec::with_capacity(64);
    while !line.ends_with(b"\r\n") {
        line.push(reader.read_u8().await?);
    }
    match parse_redis_value(&line)? {
        Value::ServerError(error) => Err(error.into()),
        _ => Ok(()),
    }
}
