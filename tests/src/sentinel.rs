//! A master, its replicas, and the sentinels that watch them, of a test's own.

use std::collections::HashMap;
use std::fs;
use std::process::Stdio;

use redis::Cmd;
use tempfile::TempDir;
use topup_lab::{ChildProcess, ReservedPort, child_command};

use crate::{Redis, SOON, eventually};

/// The name of the master among the sentinels.
pub const MASTER: &str = "mymaster";
/// The password of master and replicas.
const PASSWORD: &str = "of-redis";
/// The password of the sentinels.
const SENTINEL_PASSWORD: &str = "of-sentinels";
/// A master that says nothing for so long, in ms, is down: the least at which a busy machine does no harm.
const DOWN_AFTER: u32 = 1_000;
const SENTINELS: usize = 3;

/// A master and two replicas, watched by three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    /// Master and replicas, in no order.
    pub redis: Vec<Redis>,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    port: ReservedPort,
    child: Option<ChildProcess>,
    _folder: TempDir,
}

// === impl Sentinels ===

impl Sentinels {
    /// Starts them. Returns when each sentinel knows all others and both replicas.
    ///
    /// # Panics
    ///
    /// When they do not start.
    pub async fn start() -> Self {
        let mut redis = Vec::new();
        for _ in 0..3 {
            let server = Redis::tcp().await;
            configure(&server).await;
            redis.push(server);
        }
        let port = port_of(&redis[0]);
        for replica in &redis[1..] {
            replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await;
        }
        let sentinels = (0..SENTINELS).map(|_| Sentinel::start(port)).collect();
        let started = Self { redis, sentinels };
        started.agree().await;
        started
    }

    /// Waits until each sentinel knows all others and both replicas, and these have the data of the master.
    pub async fn agree(&self) {
        for sentinel in &self.sentinels {
            let agreed = async || {
                let told = sentinel.master().await.map_err(|error| format!("{error}"))?;
                let known = [("num-other-sentinels", "2"), ("num-slaves", "2"), ("flags", "master")];
                let all =
                    known.iter().all(|(field, value)| told.get(*field).is_some_and(|told| told == value));
                if all { Ok(()) } else { Err(format!("{told:?}")) }
            };
            eventually(SOON, agreed).await;
        }
        for redis in &self.redis {
            let linked = async || {
                // Sentinels cut the connections of a server whose role they change.
                let info = ask::<String>(PASSWORD, port_of(redis), &["INFO", "replication"]).await;
                let info = info.map_err(|error| error.to_string())?;
                let is_linked = info.contains("role:master") || info.contains("master_link_status:up");
                if is_linked { Ok(()) } else { Err(info) }
            };
            eventually(SOON, linked).await;
        }
    }

    /// Where the master is found, with both passwords.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(MASTER)
    }

    /// Where a master of this name would be found.
    #[must_use]
    pub fn url_of(&self, master: &str) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port.number())).collect();
        let hosts = hosts.join(",");
        format!("redis+sentinel://:{PASSWORD}@{hosts}/{master}/0?sentinel_password={SENTINEL_PASSWORD}")
    }

    /// The present master, as the first sentinel tells it.
    ///
    /// # Panics
    ///
    /// When it tells none.
    pub async fn master(&mut self) -> &mut Redis {
        let told = self.sentinels[0].master().await.expect("a sentinel answers");
        let port: u16 = told["port"].parse().expect("a port");
        self.redis.iter_mut().find(|redis| port_of(redis) == port).expect("a master of this test")
    }

    /// Starts a server that was killed, with its passwords. It takes itself for a master until a sentinel tells it
    /// better.
    ///
    /// # Panics
    ///
    /// When none was killed.
    pub async fn revive(&mut self) {
        let killed =
            self.redis.iter_mut().find(|redis| redis.server.pid().is_none()).expect("one was killed");
        killed.restart().await;
        configure(killed).await;
    }

    /// Has the sentinels make a replica the master, while the master is well.
    ///
    /// # Panics
    ///
    /// When they refuse.
    pub async fn fail_over(&self) {
        // They refuse for a moment after the failover before.
        let command = ["SENTINEL", "FAILOVER", MASTER];
        eventually(SOON, async || self.sentinels[0].ask::<()>(&command).await).await;
    }

    /// Kills all sentinels and waits for their ends: one that writes its file to the disk listens until that is done.
    pub async fn kill_sentinels(&mut self) {
        for sentinel in &mut self.sentinels {
            if let Some(child) = sentinel.child.take() {
                child.kill().await;
            }
        }
    }
}

// === impl Sentinel ===

impl Sentinel {
    fn start(master: u16) -> Self {
        let (port, folder) =
            (ReservedPort::reserve().expect("a free port"), tempfile::tempdir().expect("a temp folder"));
        let config = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nrequirepass {SENTINEL_PASSWORD}\nsentinel sentinel-pass {SENTINEL_PASSWORD}\n\
             sentinel monitor {MASTER} 127.0.0.1 {master} 2\nsentinel auth-pass {MASTER} {PASSWORD}\n\
             sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}\nsentinel failover-timeout {MASTER} 5000\n\
             sentinel parallel-syncs {MASTER} 2\n",
            port.number(),
            folder.path().display(),
        );
        let file = folder.path().join("sentinel.conf");
        fs::write(&file, config).expect("a file in a temp folder");
        let mut command = child_command("redis-server");
        command.arg(file).arg("--sentinel");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = ChildProcess::start(command).expect("redis-server should be on the PATH");
        Self { port, child: Some(child), _folder: folder }
    }

    async fn master(&self) -> redis::RedisResult<HashMap<String, String>> {
        self.ask(&["SENTINEL", "MASTER", MASTER]).await
    }

    async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        ask(SENTINEL_PASSWORD, self.port.number(), words).await
    }
}

/// Asks the server at `port` on a connection of its own.
async fn ask<T: redis::FromRedisValue>(password: &str, port: u16, words: &[&str]) -> redis::RedisResult<T> {
    let client = redis::Client::open(format!("redis://:{password}@127.0.0.1:{port}"))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    Cmd::new().arg(words).query_async(&mut connection).await
}

/// Sets the passwords, and sends replicas their data without a wait for more replicas.
async fn configure(redis: &Redis) {
    for (option, value) in
        [("masterauth", PASSWORD), ("requirepass", PASSWORD), ("repl-diskless-sync-delay", "0")]
    {
        redis.ask::<()>(&["CONFIG", "SET", option, value]).await;
    }
}

fn port_of(redis: &Redis) -> u16 {
    let url = redis.url().trim_end_matches('/');
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("its URL has a port")
}
