//! The processes of a run, and the faults that hit them.

mod daemons;
mod faults;
mod running;
mod workers;

use std::{
    fs,
    process::Child,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;
use topup_embedded::RedisServer;
use topup_tests::{Proxy, Redis, SOON};

use self::running::Running;
use crate::{
    heard::Heard,
    limits,
    plan::{Fault, Plan},
};

/// Callers of one bucket in each worker.
pub const CALLERS: usize = 4;

/// All processes of a run. They end with it.
#[derive(Debug)]
pub struct World {
    plan: Plan,
    /// Reports of the workers.
    pub heard: Arc<Mutex<Heard>>,
    /// Faults that have happened: from, until, in µs.
    pub happened: Vec<(u64, u64, Fault)>,
    /// Broken promises of processes.
    pub broken: Vec<String>,
    /// Logs of daemons that have ended.
    pub logs: Vec<String>,
    workers: Vec<Worker>,
    /// None while it is down.
    daemons: Vec<Option<Running>>,
    config: String,
    program: std::path::PathBuf,
    ways: Vec<Proxy>,
    /// The Redis.
    pub redis: Redis,
}

/// A worker. The first one of a run is a thread, the others are processes.
#[derive(Debug)]
pub(super) enum Worker {
    Thread(watch::Sender<bool>),
    Process(Child),
}

// === impl World ===

impl World {
    /// Starts everything. `program` is this program, for worker processes.
    pub async fn start(plan: &Plan, program: &std::path::Path) -> anyhow::Result<Self> {
        let server = RedisServer::builder().tcp();
        let keep = |server: topup_embedded::Builder| {
            server.arg("--appendonly", "yes").arg("--appendfsync", "always")
        };
        let redis = Redis::with(if plan.keeps_data { keep(server) } else { server }).await;
        let mut ways = Vec::new();
        for _ in 0..plan.daemons + plan.workers {
            ways.push(Proxy::before(&redis).await);
        }
        let mut world = Self {
            plan: plan.clone(),
            heard: Arc::default(),
            happened: Vec::new(),
            broken: Vec::new(),
            logs: Vec::new(),
            workers: Vec::new(),
            daemons: Vec::new(),
            config: limits::config(plan.limits(), false),
            program: program.to_owned(),
            ways,
            redis,
        };
        for number in 0..plan.daemons {
            let daemon = world.daemon(number);
            world.daemons.push(Some(daemon));
        }
        for running in world.daemons.iter_mut().flatten() {
            running.daemon.wait_for_line("ready: ", SOON).await;
        }
        Ok(world)
    }

    /// Open descriptors of daemons and of worker processes.
    pub fn descriptors(&self) -> Vec<(String, usize)> {
        let count = |pid: u32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let daemons = self.daemons.iter().flatten();
        let daemons = daemons.map(|running| ("topupd".to_owned(), count(running.daemon.pid())));
        let workers = self.workers.iter().filter_map(|worker| match worker {
            Worker::Thread(_) => None,
            Worker::Process(child) => Some(("worker".to_owned(), count(child.id()))),
        });
        daemons.chain(workers).collect()
    }

    /// The buckets, by their numbers.
    pub fn buckets(plan: &Plan) -> Vec<(&'static limits::Limit, Option<&'static str>)> {
        let keys = |limit: &'static limits::Limit| match limit.keys {
            [] => vec![(limit, None)],
            keys => keys.iter().map(|key| (limit, Some(*key))).collect(),
        };
        plan.limits().flat_map(keys).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            match worker {
                Worker::Thread(stop) => drop(stop.send_replace(true)),
                Worker::Process(child) => {
                    let _ = child.kill().and_then(|()| child.wait());
                }
            }
        }
    }
}
