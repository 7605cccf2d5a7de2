//! Commands as Redis itself tells them: its statistics do not say which of them scripts called.

use std::time::Duration;

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// Commands that workers send in `time` and that are no scripts.
pub(crate) async fn native(url: &str, time: Duration) -> anyhow::Result<f64> {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
    stream.write_all(b"MONITOR\r\n").await?;
    let mut lines = BufReader::new(stream).lines();
    let mut count = 0.0;
    // Ends with the time: Redis goes on for ever.
    let _ = timeout(time, async {
        while let Ok(Some(line)) = lines.next_line().await {
            if is_native(&line) {
                count += 1.0;
            }
        }
    })
    .await;
    Ok(count)
}

/// Whether a line of `MONITOR` tells a command of a worker that is no script, nor called by one:
/// `+1700000000.123456 [0 127.0.0.1:5000] "DECR" "key"`. A command that a script called has `[0 lua]`.
fn is_native(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(" [") else { return false };
    let Some((by, command)) = rest.split_once("] \"") else { return false };
    let command = command.split('"').next().unwrap_or_default().to_ascii_lowercase();
    // Others, such as those of the control poll, are not of takes.
    !by.ends_with(" lua")
        && matches!(command.as_str(), "decr" | "decrby" | "set" | "get" | "incrby" | "getex")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_call_is_not_native() {
        assert!(is_native("+1.2 [0 127.0.0.1:5000] \"DECR\" \"a] \\\"b\""));
        assert!(is_native("+1.2 [0 unix:/tmp/s] \"SET\" \"key\" \"f\" \"NX\""));
        for line in ["+OK", "+1.2 [0 lua] \"SET\" \"key\"", "+1.2 [0 127.0.0.1:5000] \"EVALSHA\" \"DECR\""] {
            assert!(!is_native(line), "{line}");
        }
    }
}
