//! Workers: their start, their orders and their end.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    sync::mpsc,
    thread,
};

use anyhow::Context;
use tokio::sync::watch;
use topup_embedded::child_command;
use topup_tests::{SOON, eventually};

use super::{CALLERS, Worker, World};
use crate::{
    heard::lock,
    limits,
    worker::{self, Order, Traffic},
};

/// Demand on a bucket, as a multiple of its rate.
const DEMAND: f64 = 1.6;

// === impl World ===

impl World {
    /// Starts all workers.
    pub async fn start_workers(&mut self) -> anyhow::Result<()> {
        for number in 0..self.plan.workers {
            let worker = self.worker(number)?;
            self.workers.push(worker);
        }
        let (heard, count) = (self.heard.clone(), self.plan.workers);
        eventually(SOON, async || lock(&heard).ready >= count).await;
        Ok(())
    }

    /// Stops all workers, and waits for the end of their calls.
    pub async fn stop_workers(&mut self) {
        for worker in &mut self.workers {
            match worker {
                Worker::Thread(stop) => drop(stop.send_replace(true)),
                Worker::Process(child) => drop(child.stdin.take()),
            }
        }
        let (heard, count) = (self.heard.clone(), self.workers.len());
        eventually(SOON, async || {
            let ended = lock(&heard).ended.len();
            if ended == count { Ok(()) } else { Err(format!("{ended} of {count} workers have ended")) }
        })
        .await;
    }

    pub(super) fn worker(&self, number: usize) -> anyhow::Result<Worker> {
        let way = &self.ways[self.plan.daemons + number];
        let order =
            Order { worker: number, url: way.url().into(), seed: self.plan.seed, traffics: self.traffics() };
        let heard = self.heard.clone();
        if number == 0 {
            let (stop, told) = watch::channel(false);
            let thread = thread::Builder::new().name(format!("worker of seed {}", self.plan.seed));
            // The worker never waits for a lock of this process: that would look like a call that hangs.
            let (sender, receiver) = mpsc::channel();
            thread.spawn(move || worker::run(&order, &told, move |told| drop(sender.send(told))))?;
            thread::spawn(move || receiver.into_iter().for_each(|told| lock(&heard).note(told)));
            return Ok(Worker::Thread(stop));
        }
        let mut command = child_command(&self.program);
        command.arg("--worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(fs::File::options().create(true).append(true).open(self.words_of_workers())?);
        let mut child = command.spawn()?;
        let input = child.stdin.as_mut().context("its input is piped")?;
        writeln!(input, "{}", serde_json::to_string(&order)?)?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A killed worker may leave half a line.
                if let Ok(told) = serde_json::from_str(&line) {
                    lock(&heard).note(told);
                }
            }
        });
        Ok(Worker::Process(child))
    }

    /// The file with the stderr of worker processes.
    pub fn words_of_workers(&self) -> std::path::PathBuf {
        self.redis.server.folder().join("workers.log")
    }

    fn traffics(&self) -> Vec<Traffic> {
        let traffic = |(bucket, (limit, key)): (usize, (&limits::Limit, Option<&str>))| Traffic {
            bucket,
            limit: limit.name.to_owned(),
            key: key.map(str::to_owned),
            callers: CALLERS,
            every: ((CALLERS * self.plan.workers) as f64 * 1e6 / limit.rate / DEMAND) as u64,
            is_varied: !limit.has_ledger(),
            in_hand: if limit.form == limits::Form::Leased { 200_000 } else { 10_000 },
        };
        Self::buckets(&self.plan).into_iter().enumerate().map(traffic).collect()
    }
}
