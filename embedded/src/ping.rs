//! The question whether a Redis answers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time limit of one PING. A slower Redis is asked again until the start's deadline.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a Redis serves on `socket`: it does also when it wants a password first, but not while it loads.
pub(crate) fn answers(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        std::io::Result::Ok(reply)
    };
    ask().is_ok_and(|reply| matches!(&reply, b"+PONG" | b"-NOAU"))
}
