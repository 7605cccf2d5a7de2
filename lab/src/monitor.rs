//! Commands as Redis itself lists them. Its counters do not say which of them scripts called.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    task::JoinHandle,
};

/// Native commands with which workers take or give back tokens.
const NATIVE: [&str; 7] = ["decr", "decrby", "set", "get", "incrby", "getex", "pexpireat"];
/// Commands that run a script.
const SCRIPTS: [&str; 4] = ["eval", "evalsha", "fcall", "fcall_ro"];

/// Counts of commands that clients have sent, without those that scripts called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCommands {
    /// Native commands of takes.
    pub native: u64,
    /// Scripts.
    pub scripts: u64,
}

/// A connection on which Redis lists every command, until dropped. It makes Redis slower.
#[derive(Debug)]
pub struct Monitor {
    counts: Arc<[AtomicU64; 2]>,
    reader: JoinHandle<()>,
}

// === impl Monitor ===

impl Monitor {
    /// Begins to count on the Redis that listens at the unix socket `socket`.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn start(socket: &Path) -> anyhow::Result<Self> {
        let mut stream = UnixStream::connect(socket).await.context("cannot connect to Redis")?;
        stream.write_all(b"MONITOR\r\n").await?;
        let mut lines = BufReader::new(stream).lines();
        lines.next_line().await?.context("Redis ended")?;
        let counts = Arc::<[AtomicU64; 2]>::default();
        let [native, scripts] = [(0, &NATIVE[..]), (1, &SCRIPTS[..])];
        let counted = counts.clone();
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(command) = sent_by_client(&line) else { continue };
                for (place, commands) in [native, scripts] {
                    if commands.contains(&command.as_str()) {
                        counted[place].fetch_add(1, Relaxed);
                    }
                }
            }
        });
        Ok(Self { counts, reader })
    }

    /// Counts since the start.
    pub fn sent(&self) -> SentCommands {
        let [native, scripts] = &*self.counts;
        SentCommands { native: native.load(Relaxed), scripts: scripts.load(Relaxed) }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The command of a line of `MONITOR`, such as `+1700000000.123456 [0 127.0.0.1:5000] "DECR" "key"`, in lower case.
/// `None` if a script called it: its address is `lua`.
fn sent_by_client(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(" [")?;
    let (by, command) = rest.split_once("] \"")?;
    (!by.ends_with(" lua")).then(|| command.split('"').next().unwrap_or_default().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_are_not_those_of_clients() {
        for (line, command) in [
            ("+1.2 [0 127.0.0.1:5000] \"DECR\" \"a] \\\"b\"", Some("decr")),
            ("+1.2 [0 unix:/tmp/s] \"SET\" \"key\" \"f\" \"NX\"", Some("set")),
            ("+1.2 [0 127.0.0.1:5000] \"EVALSHA\" \"DECR\"", Some("evalsha")),
            ("+1.2 [0 lua] \"SET\" \"key\"", None),
            ("+OK", None),
        ] {
            assert_eq!(sent_by_client(line).as_deref(), command, "{line}");
        }
    }
}
