//! The processes of a run, and the faults that hit them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use topup_embedded::{RedisServer, die_with_parent};
use topup_tests::{Daemon, Launch, Proxy, Redis, SOON, eventually};

use crate::{
    heard::{Heard, lock},
    limits,
    plan::{Fault, Kind, Network, Plan, Target},
    worker::{self, Order, Traffic},
};

/// A config that does not parse.
const BAD: &str = "name = \"soak\"\n[limit.counting\n";
/// Callers of one bucket in each worker.
pub const CALLERS: usize = 4;
/// Demand on a bucket, as a multiple of its rate.
const DEMAND: f64 = 1.6;

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

#[derive(Debug)]
struct Running {
    daemon: Daemon,
    /// Whether it began with a config that does not parse.
    is_bad: bool,
}

#[derive(Debug)]
enum Worker {
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

    /// Begins (`true`) or ends a fault.
    pub async fn turn(&mut self, fault: Fault, begins: bool) -> anyhow::Result<()> {
        match fault.kind {
            Kind::Network(target, network) => self.network(target, network, begins),
            Kind::Kill(target) => self.kill(target, Signal::KILL, begins).await?,
            Kind::Term(target) => self.kill(target, Signal::TERM, begins).await?,
            Kind::Stop(target) => self.pause(target, begins)?,
            Kind::FlushScripts => self.redis_asked(&["SCRIPT", "FLUSH"]).await,
            Kind::Reload => self.reload(&limits::config(self.plan.limits(), begins)),
            Kind::BadReload if begins => self.reload(BAD),
            Kind::BadReload => self.reload(&limits::config(self.plan.limits(), false)),
        }
        Ok(())
    }

    /// Brings all processes back, with the first config. Returns when all daemons are ready.
    pub async fn heal(&mut self) {
        self.ways.iter().for_each(Proxy::pass);
        for number in 0..self.daemons.len() {
            if self.daemons[number].as_ref().is_none_or(Running::has_ended) {
                self.end(number, None).await;
                self.daemons[number] = Some(self.daemon(number));
            }
        }
        for running in self.daemons.iter().flatten() {
            eventually(SOON, async || running.hears()).await;
        }
        self.reload(&limits::config(self.plan.limits(), false));
        for running in self.daemons.iter().flatten() {
            eventually(SOON, async || {
                let lines = running.daemon.lines();
                let ready = if running.is_bad { "reloaded: " } else { "ready: " };
                if lines.iter().any(|line| line.contains(ready)) { Ok(()) } else { Err(lines.join("\n")) }
            })
            .await;
        }
        self.redis.reconnect().await;
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

    /// Ends all daemons in order.
    pub async fn stop_daemons(&mut self) {
        for number in 0..self.daemons.len() {
            self.end(number, Some(Signal::TERM)).await;
        }
    }

    fn network(&self, target: Target, network: Network, begins: bool) {
        let ways = match target {
            Target::Redis => &self.ways[..],
            Target::Daemon(number) => &self.ways[number..=number],
            Target::Worker(number) => {
                let place = self.plan.daemons + number;
                &self.ways[place..=place]
            }
        };
        for way in ways {
            match network {
                _ if !begins => {
                    if matches!(network, Network::LoseAnswers | Network::HalfOpen) {
                        way.cut();
                    }
                    way.pass();
                }
                Network::Delay(ms) => way.delay(Duration::from_millis(ms)),
                Network::Hang => way.hang(),
                Network::LoseAnswers => way.lose_answers(),
                Network::HalfOpen => way.half_open(),
                Network::Cut => way.cut(),
                Network::TearAnswers(nth) => way.tear_answers(nth),
                Network::Tear(nth) => way.tear(nth),
                Network::Drip(bytes) => way.drip(bytes, Duration::from_millis(1)),
            }
        }
    }

    async fn kill(&mut self, target: Target, signal: Signal, begins: bool) -> anyhow::Result<()> {
        match (target, begins) {
            (Target::Redis, true) => self.redis.server.kill()?,
            (Target::Redis, false) => {
                self.redis.server.restart()?;
                self.redis.reconnect().await;
            }
            (Target::Daemon(number), true) => self.end(number, Some(signal)).await,
            (Target::Daemon(number), false) => self.daemons[number] = Some(self.daemon(number)),
            (Target::Worker(number), true) => {
                if let Worker::Process(child) = &mut self.workers[number] {
                    child.kill()?;
                    child.wait()?;
                }
            }
            (Target::Worker(number), false) => self.workers[number] = self.worker(number)?,
        }
        Ok(())
    }

    fn pause(&mut self, target: Target, begins: bool) -> anyhow::Result<()> {
        let signal = if begins { Signal::STOP } else { Signal::CONT };
        match (target, begins) {
            (Target::Redis, true) => self.redis.server.pause()?,
            (Target::Redis, false) => self.redis.server.resume()?,
            (Target::Daemon(number), _) => {
                self.daemons[number].iter().for_each(|running| running.daemon.signal(signal));
            }
            (Target::Worker(number), _) => {
                if let Worker::Process(child) = &self.workers[number] {
                    kill_process(Pid::from_child(child), signal)?;
                }
            }
        }
        Ok(())
    }

    async fn redis_asked(&self, words: &[&str]) {
        // It may be away or paused just now.
        let mut connection = self.redis.connection();
        let asked = async { redis::Cmd::new().arg(words).exec_async(&mut connection).await };
        let _ = tokio::time::timeout(Duration::from_millis(50), asked).await;
    }

    /// Writes another config for all daemons, and tells those that run.
    fn reload(&mut self, config: &str) {
        config.clone_into(&mut self.config);
        for running in self.daemons.iter().flatten() {
            running.daemon.rewrite_config(config);
            if running.hears() {
                running.daemon.signal(Signal::HUP);
            }
        }
    }

    fn daemon(&self, number: usize) -> Running {
        let daemon = Launch::new(&self.config).env("TOPUP_REDIS_URL", self.ways[number].url()).run();
        Running { daemon, is_bad: self.config == BAD }
    }

    /// Ends a daemon, and looks at how it ended and what it has said.
    async fn end(&mut self, number: usize, signal: Option<Signal>) {
        let Some(Running { mut daemon, is_bad }) = self.daemons[number].take() else { return };
        if let Some(signal) = signal {
            daemon.signal(signal);
        }
        let status = daemon.wait_exit(SOON).await;
        let lines = daemon.lines();
        let is_well = match signal {
            Some(Signal::KILL) => true,
            // It handles no signals before its first line.
            Some(_) if lines.is_empty() => true,
            _ => status.success() || is_bad && status.code() == Some(78),
        };
        if !is_well || lines.iter().any(|line| line.contains("panicked")) {
            self.broken.push(format!("daemon {number} ended with {status}"));
        }
        self.logs.push(format!("daemon {number}, which ended with {status}:\n  {}", lines.join("\n  ")));
    }

    fn worker(&self, number: usize) -> anyhow::Result<Worker> {
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
        let mut command = Command::new(&self.program);
        command.arg("--worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(fs::File::options().create(true).append(true).open(self.words_of_workers())?);
        die_with_parent(&mut command);
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

    /// The buckets, by their numbers.
    pub fn buckets(plan: &Plan) -> Vec<(&'static limits::Limit, Option<&'static str>)> {
        let keys = |limit: &'static limits::Limit| match limit.keys {
            [] => vec![(limit, None)],
            keys => keys.iter().map(|key| (limit, Some(*key))).collect(),
        };
        plan.limits().flat_map(keys).collect()
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

// === impl Running ===

impl Running {
    /// Whether it handles signals: from its first line on.
    fn hears(&self) -> bool {
        !self.daemon.lines().is_empty()
    }

    fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.daemon.pid())).unwrap_or_default();
        stat.contains(") Z ")
    }
}
