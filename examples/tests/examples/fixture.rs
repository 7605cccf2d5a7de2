//! The fixture of all tests here: a daemon with a Redis of its own, and an example as a child process.

use std::process::{Output, Stdio};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use topup_tests::{Daemon, Launch, SOON};

const CONFIG: &str = include_str!("../../topup.toml");

/// A daemon with the limits of the examples and a Redis of its own.
pub(crate) struct Fixture {
    pub(crate) redis: String,
    _daemon: Daemon,
}

/// An example that is a server. It is killed on drop.
pub(crate) struct Server {
    pub(crate) url: String,
    _child: Child,
}

// === impl Fixture ===

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::of(Launch::new(CONFIG)).await
    }

    /// This daemon with a Redis of its own.
    pub(crate) async fn of(launch: Launch) -> Self {
        let mut daemon = launch.arg("--embedded").run();
        Self { redis: daemon.embedded_url(SOON).await, _daemon: daemon }
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("TOPUP_REDIS_URL", &self.redis).env("LISTEN", "127.0.0.1:0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Starts an example that prints the address of its socket.
    pub(crate) async fn serve(&self, mut command: Command) -> Server {
        command.stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(SOON, lines.next_line()).await.expect("it listens soon").unwrap();
        let url =
            line.as_deref().and_then(|line| line.strip_prefix("listening on ")).expect("where?").to_owned();
        Server { url, _child: child }
    }
}

/// Runs a program to its end, with `input` on its standard input.
pub(crate) async fn run(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    timeout(SOON, child.wait_with_output()).await.expect("it ends soon").unwrap()
}

/// The lines that a program has written, sorted.
pub(crate) fn lines(written: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(written).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
