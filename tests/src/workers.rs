//! Worker processes: each has a client of its own and takes tokens until it is told to stop.

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use topup_lab::{ChildProcess, child_command};

use crate::{Attempt, AttemptLog, Pace, SOON};

/// Running worker processes; killed on drop.
#[derive(Debug)]
#[must_use = "workers end when this is dropped"]
pub struct Workers {
    /// The attempts of all of them.
    pub log: AttemptLog,
    running: JoinSet<()>,
    end: watch::Sender<Option<End>>,
}

/// The way in which workers end.
#[derive(Clone, Copy, Debug)]
enum End {
    Told,
    Killed,
}

// === impl Workers ===

impl Workers {
    /// Starts `count` processes of `program` (`worker/main.rs`), each of which takes of `limit` at this pace.
    /// Returns when all have connected.
    ///
    /// # Panics
    ///
    /// When one does not start or connect.
    pub async fn start(program: &str, count: usize, url: &str, limit: &str, pace: Pace) -> Self {
        let mut workers = Vec::new();
        for _ in 0..count {
            let mut command = child_command(program);
            command.args([url, limit, &pace.to_string()]);
            workers.push(ChildProcess::start_piped(command).unwrap_or_else(|error| panic!("{error:#}")));
        }
        for worker in &mut workers {
            worker.ready(SOON).await.unwrap_or_else(|error| panic!("a worker: {error:#}"));
        }
        let (log, (end, told)) = (AttemptLog::default(), watch::channel(None));
        let running = workers.into_iter().map(|worker| read(worker, log.clone(), told.clone())).collect();
        Self { log, running, end }
    }

    /// Stops them: all attempts, in the order of their answers.
    ///
    /// # Panics
    ///
    /// When one does not end, or prints something else than attempts.
    pub async fn stop(mut self) -> Vec<Attempt> {
        self.end(End::Told).await
    }

    /// Kills them: all attempts that they have printed.
    ///
    /// # Panics
    ///
    /// When one cannot be killed.
    pub async fn kill(&mut self) -> Vec<Attempt> {
        self.end(End::Killed).await
    }

    async fn end(&mut self, how: End) -> Vec<Attempt> {
        self.end.send_replace(Some(how));
        let running = std::mem::take(&mut self.running);
        timeout(SOON, running.join_all()).await.expect("a worker that is told to stop, or killed, ends");
        self.log.take()
    }
}

/// Logs the attempts of one worker, to the end of its output. The end of its input tells it to stop.
async fn read(mut worker: ChildProcess, log: AttemptLog, mut end: watch::Receiver<Option<End>>) {
    loop {
        tokio::select! {
            line = worker.next_line() => match line.expect("the output of a worker is text") {
                Some(line) => log.push(line.parse().expect("a worker prints attempts")),
                None => return,
            },
            told = end.wait_for(Option::is_some), if worker.listens() => {
                if matches!(told.as_deref(), Ok(Some(End::Killed))) {
                    worker.signal(Signal::KILL).expect("a child can be killed");
                }
                worker.close_input();
            }
        }
    }
}
