//! What tops up buckets: topup's own daemon, and the tasks of rivals.

use std::{fs, time::Duration};

use anyhow::Context;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use topup::{Client, Error};

use super::Child;
use crate::{
    clock::Micros,
    limiter::{Contender, rival::Refill},
    worker::READY,
};

/// A daemon publishes within some 10 ms; this is for a machine that is busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// All that refills. Ends with this.
#[derive(Debug, Default)]
pub struct Refillers {
    daemons: Vec<Child>,
    tasks: Vec<Child>,
    folder: Option<TempDir>,
    ours: Vec<Contender>,
    refill: Option<Refill>,
}

// === impl Refillers ===

impl Refillers {
    /// Starts what `contenders` need on the Redis at `url`, where each has so many keys, to refill every `tick`.
    pub(super) async fn start(
        &mut self,
        url: &str,
        contenders: &[Contender],
        keys: u32,
        tick: Micros,
    ) -> anyhow::Result<()> {
        let tables: String =
            contenders.iter().filter_map(Contender::config).map(|table| table + "\n").collect();
        self.ours = contenders.iter().filter(|contender| contender.limiter.is_ours()).cloned().collect();
        let jobs: Vec<_> = contenders
            .iter()
            .filter(|contender| contender.limiter.is_ticked())
            .map(|contender| (contender.clone(), keys))
            .collect();
        self.refill = (!jobs.is_empty()).then(|| Refill { redis: url.to_owned(), jobs, tick, fill: true });
        if !self.ours.is_empty() {
            let folder = tempfile::tempdir()?;
            let head = format!("[redis]\nurl = {url:?}\n\n[daemon]\ntick = \"{}ms\"\n\n", tick / 1_000);
            fs::write(folder.path().join("config.toml"), head + &tables)?;
            self.folder = Some(folder);
        }
        self.start_again().await?;
        if let Some(refill) = &mut self.refill {
            refill.fill = false;
        }
        let Some(daemon) = self.daemons.first_mut() else { return Ok(()) };
        tokio::select! {
            published = timeout(READY_WITHIN, all_published(url, &self.ours)) => published.context("topupd publishes nothing")?,
            error = daemon.failure() => Err(error.context("topupd")),
        }
    }

    /// Starts the same once more: beside those that run, or after they were ended.
    pub(super) async fn start_again(&mut self) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            let config = folder.path().join("config.toml");
            self.daemons.push(Child::start("daemon", &[&config.to_string_lossy()])?);
        }
        if let Some(refill) = &self.refill {
            let mut task = Child::start("refill", &[])?;
            task.tell(refill).await?;
            let ready: String =
                timeout(READY_WITHIN, task.hear()).await.context("a refill does not start")??;
            anyhow::ensure!(ready == READY, "a refill said {ready:?}");
            self.tasks.push(task);
        }
        Ok(())
    }

    /// Kills all that runs.
    pub(super) async fn end(&mut self) {
        for child in self.daemons.drain(..).chain(self.tasks.drain(..)) {
            child.end().await;
        }
    }

    /// CPU µs that topup's daemons have used.
    pub fn daemon_cpu(&self) -> f64 {
        self.daemons.iter().filter_map(Child::id).filter_map(cpu_of).sum()
    }
}

/// CPU µs of all threads of the process `pid`; `None` when it has ended.
fn cpu_of(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // Finer than the ticks of /proc/PID/stat: the first of three figures is ns on a CPU.
    let nanos = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<f64>().ok()
    });
    Some(nanos.sum::<f64>() / 1e3)
}

async fn all_published(url: &str, ours: &[Contender]) -> anyhow::Result<()> {
    if ours.is_empty() {
        return Ok(());
    }
    let client = Client::connect(url).await?;
    for contender in ours {
        while let Err(error) = client.limit(contender.name.as_str()).key("0").peek().await {
            match error {
                Error::UnknownLimit { .. } | Error::NothingPublished { .. } => {
                    sleep(Duration::from_millis(2)).await
                }
                // A machine that is busy with something else.
                error if error.is_transient() => {}
                error => return Err(error.into()),
            }
        }
    }
    Ok(())
}
