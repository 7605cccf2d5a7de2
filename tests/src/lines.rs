//! The lines a child writes, kept and awaited.

use std::thread;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;
use tokio::time::timeout;

#[derive(Debug, Default)]
struct Written {
    lines: Vec<String>,
    ended: bool,
}

/// All lines so far, and a place in them: what a wait has found is behind the next one.
#[derive(Debug)]
pub(crate) struct Lines {
    written: watch::Receiver<Written>,
    next: usize,
}

// === impl Lines ===

impl Lines {
    /// Reads `output` to its end, in the background, whether anyone waits or not: the child must never block.
    pub(crate) fn of(output: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let (writer, written) = watch::channel(Written::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                writer.send_modify(|written| written.lines.push(line));
            }
            writer.send_modify(|written| written.ended = true);
        });
        Self { written, next: 0 }
    }

    /// The next line with `text` in it.
    pub(crate) async fn wait_for(&mut self, text: &str, deadline: Duration) -> String {
        let next = self.next;
        let find = |written: &Written| {
            let fresh = written.lines.iter().skip(next);
            fresh.enumerate().find(|(_, line)| line.contains(text)).map(|(at, line)| (at, line.clone()))
        };
        let arrival = self.written.wait_for(|written| written.ended || find(written).is_some());
        let found = timeout(deadline, arrival).await.ok().and_then(Result::ok).and_then(|found| find(&found));
        let Some((skipped, line)) = found else {
            panic!("no line with {text:?} within {deadline:?}; the output:\n{}", self.all().join("\n"));
        };
        self.next += skipped + 1;
        line
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.written.borrow().lines.clone()
    }
}

impl Drop for Lines {
    #[allow(clippy::print_stderr, reason = "cargo test shows it with the failure, where it is looked for")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the output of a child:\n{}", self.all().join("\n"));
        }
    }
}
