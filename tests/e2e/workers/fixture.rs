//! A Redis, a daemon that is ready, and a client: most of these tests begin with them.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use topup::{Bucket, Client};
use topup_tests::{Attempt, AttemptLog, Daemon, Pace, Redis, SOON, Signal, Workers, eventually, work};

/// A Redis with the daemon that serves it, and a client of its own.
pub(super) struct Fixture {
    pub(super) redis: Redis,
    pub(super) daemon: Daemon,
    pub(super) topup: Client,
}

/// Tasks that take from buckets until they are told to stop.
pub(super) struct Tasks {
    /// The attempts of all of them.
    pub(super) log: AttemptLog,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

// === impl Fixture ===

impl Fixture {
    /// A daemon with this configuration, ready, and a client that waits long for answers.
    pub(super) async fn set(config: &str) -> Self {
        Self::on(Redis::start().await, config).await
    }

    /// The same on a Redis of the test's choice.
    pub(super) async fn on(redis: Redis, config: &str) -> Self {
        let daemon = ready(config, &redis).await;
        let topup = patient(redis.url()).await;
        Self { redis, daemon, topup }
    }

    pub(super) fn bucket(&self, limit: &str) -> Bucket {
        self.topup.limit(limit)
    }

    /// Has the daemon apply another configuration, and waits until it says so.
    pub(super) async fn reload(&mut self, config: &str) {
        self.daemon.reload(config);
        self.daemon.wait_for_line("reloaded: ", SOON).await;
    }

    /// Ends the daemon without a word of farewell.
    pub(super) async fn kill_daemon(&mut self) {
        self.daemon.end(Signal::KILL, SOON).await;
    }

    /// Starts worker processes on `limit`, each of which takes one token every `every`.
    pub(super) async fn workers(&self, count: usize, limit: &str, every: Duration) -> Workers {
        self.workers_at(count, limit, Pace::steady(every)).await
    }

    /// Starts worker processes on `limit`, each of which takes at this pace.
    pub(super) async fn workers_at(&self, count: usize, limit: &str, pace: Pace) -> Workers {
        Workers::start(env!("CARGO_BIN_EXE_worker"), count, self.redis.url(), limit, pace).await
    }

    /// The keys of buckets there are, of any algorithm.
    pub(super) async fn bucket_keys(&self) -> Vec<String> {
        bucket_keys(&self.redis).await
    }
}

/// A client that no stall of the machine makes give up.
pub(super) async fn patient(url: &str) -> Client {
    Client::builder().deadline(SOON).connect(url).await.unwrap()
}

/// A client for a Redis that goes away: it gives up, and on a busy machine not before Redis has gone.
pub(super) async fn briefly_patient(url: &str) -> Client {
    Client::builder().deadline(Duration::from_secs(2)).connect(url).await.unwrap()
}

/// The instant of Redis, in µs.
pub(super) async fn now(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

pub(super) async fn bucket_keys(redis: &Redis) -> Vec<String> {
    let mut keys = Vec::new();
    for pattern in ["*}:?:*", "*}:due", "*}:former"] {
        keys.extend(redis.ask::<Vec<String>>(&["KEYS", pattern]).await);
    }
    keys
}

/// A daemon on `redis` that has published this configuration and looked at every bucket.
pub(super) async fn ready(config: &str, redis: &Redis) -> Daemon {
    let mut daemon = Daemon::spawn(config, redis);
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

/// Waits until the bucket holds all tokens of its capacity that were not taken.
pub(super) async fn holds_all_but(taken: u64, capacity: u64, bucket: &Bucket) {
    eventually(SOON, async || {
        let left = bucket.peek().await.unwrap().remaining();
        if left + taken == capacity { Ok(()) } else { Err(format!("{left} left, {taken} taken")) }
    })
    .await;
}

// === impl Tasks ===

impl Tasks {
    /// Starts a task for each bucket, each of which takes one token every `every`.
    pub(super) fn start(buckets: impl IntoIterator<Item = Bucket>, every: Duration) -> Self {
        let ((stop, told), log) = (watch::channel(false), AttemptLog::default());
        let mut running = JoinSet::new();
        for bucket in buckets {
            let (mut told, log) = (told.clone(), log.clone());
            running.spawn(async move {
                let told_to_stop = async {
                    let _ = told.wait_for(|stop| *stop).await;
                };
                work(&bucket, Pace::steady(every), told_to_stop, |attempt| log.push(attempt)).await;
            });
        }
        Self { log, stop, running }
    }

    /// Stops them: all attempts, in the order of their answers.
    pub(super) async fn stop(self) -> Vec<Attempt> {
        self.stop.send_replace(true);
        self.running.join_all().await;
        self.log.take()
    }
}
