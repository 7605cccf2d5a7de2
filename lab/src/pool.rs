//! Worker processes that work together.

use std::{process::Command, time::Duration};

use anyhow::{Context, ensure};
use futures_util::future::{select_all, try_join_all};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::{ChildProcess, this_program};

/// Worker processes. All of them are killed on drop.
#[derive(Debug)]
pub struct WorkerPool(Vec<ChildProcess>);

// === impl WorkerPool ===

impl WorkerPool {
    /// Starts a worker for each of `commands`. It reads orders and writes answers as [`crate::worker`] does.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn start(commands: impl IntoIterator<Item = Command>) -> anyhow::Result<Self> {
        commands.into_iter().map(ChildProcess::start_piped).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Starts `count` workers of this program, in the role that `args` name.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub fn of_this_program(count: usize, args: &[&str]) -> anyhow::Result<Self> {
        let commands = (0..count).map(|_| {
            let mut command = this_program()?;
            command.args(args);
            Ok(command)
        });
        Self::start(commands.collect::<anyhow::Result<Vec<_>>>()?)
    }

    /// Returns when all workers are ready.
    ///
    /// # Errors
    /// When one is not `within` this time.
    pub async fn ready(&mut self, within: Duration) -> anyhow::Result<()> {
        try_join_all(self.0.iter_mut().map(|worker| worker.ready(within))).await.map(drop)
    }

    /// Tells every worker the same line.
    ///
    /// # Errors
    /// When one does not listen any more.
    pub async fn tell_line(&mut self, line: &str) -> anyhow::Result<()> {
        for worker in &mut self.0 {
            worker.tell_line(line).await?;
        }
        Ok(())
    }

    /// Tells each worker its own order, made from its number.
    ///
    /// # Errors
    /// When one does not listen any more.
    pub async fn tell_each<T: Serialize>(&mut self, order: impl Fn(usize) -> T) -> anyhow::Result<()> {
        for (number, worker) in self.0.iter_mut().enumerate() {
            worker.tell(&order(number)).await?;
        }
        Ok(())
    }

    /// Reads `lines` answers of each worker.
    ///
    /// # Errors
    /// When a worker fails, or has not answered `within` this time.
    pub async fn hear<T: DeserializeOwned>(
        &mut self,
        lines: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        let hear = async |worker: &mut ChildProcess| {
            let mut heard = Vec::with_capacity(lines);
            for _ in 0..lines {
                heard.push(worker.hear().await?);
            }
            anyhow::Ok(heard)
        };
        timeout(within, try_join_all(self.0.iter_mut().map(hear))).await.context("a worker hangs")?
    }

    /// Reads one answer of each worker.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub async fn hear_one<T: DeserializeOwned>(&mut self, within: Duration) -> anyhow::Result<Vec<T>> {
        Ok(self.hear(1, within).await?.into_iter().flatten().collect())
    }

    /// Reads the next answer of any worker, with the worker's number. Safe to drop and call again.
    ///
    /// # Errors
    /// When a worker fails or ends.
    pub async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<(usize, T)> {
        let lines = self.0.iter_mut().map(|worker| Box::pin(worker.hear()));
        let (heard, number, _) = select_all(lines).await;
        Ok((number, heard.with_context(|| format!("worker {}", number + 1))?))
    }

    /// Closes the standard input of all workers and reads their last answers, until each has ended.
    ///
    /// # Errors
    /// When one does not end `within` this time, or not well.
    pub async fn finish<T: DeserializeOwned>(mut self, within: Duration) -> anyhow::Result<Vec<(usize, T)>> {
        for worker in &mut self.0 {
            worker.close_input();
        }
        let mut last = Vec::new();
        for (number, worker) in self.0.iter_mut().enumerate() {
            let rest = async {
                while let Some(line) = worker.next_line().await? {
                    last.push((number, serde_json::from_str(&line)?));
                }
                anyhow::Ok(())
            };
            timeout(within, rest).await.context("a worker did not end in time")??;
            let status = worker.exit(within).await?;
            ensure!(status.success(), "worker {} failed ({status})", number + 1);
        }
        Ok(last)
    }

    /// Kills all workers and waits for their end.
    pub async fn kill(self) {
        for worker in self.0 {
            worker.kill().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use topup_embedded::child_command;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn workers(script: &str) -> WorkerPool {
        let command = |number: u32| {
            let mut command = child_command("sh");
            command.args(["-c", script, "sh", &number.to_string()]);
            command
        };
        WorkerPool::start((0..3).map(command)).unwrap()
    }

    #[tokio::test]
    async fn all_workers_are_told_and_heard() {
        let mut pool = workers("echo ready; read a; read b; echo $a$1; echo $b; read c; echo 9");
        pool.ready(SOON).await.unwrap();
        pool.tell_each(|number| number + 1).await.unwrap();
        pool.tell_line("7").await.unwrap();
        assert_eq!(pool.hear::<u32>(2, SOON).await.unwrap(), [[10, 7], [21, 7], [32, 7]]);
        let mut last = pool.finish::<u32>(SOON).await.unwrap();
        last.sort_unstable();
        assert_eq!(last, [(0, 9), (1, 9), (2, 9)]);
    }

    #[tokio::test]
    async fn answers_come_from_any_worker_until_one_ends() {
        let mut pool = workers("echo $1; read line");
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.push(pool.next::<usize>().await.unwrap());
        }
        heard.sort_unstable();
        assert_eq!(heard, [(0, 0), (1, 1), (2, 2)]);
        pool.tell_line("end").await.unwrap();
        assert!(pool.next::<usize>().await.is_err());
    }
}
