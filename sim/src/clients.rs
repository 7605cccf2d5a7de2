//! Whole clients in virtual time: all of the client that callers use, on a Redis in memory that runs the scripts. Their commands
//! take time. Some of them take long.

mod alone;
mod call;
mod locked;
mod rule;
mod way;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::Cmd;
use topup::{Client, Error, testing::Topup};
use topup_wire::{
    in_memory::Direct,
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Shards},
    namespace::{InNamespace, Namespace},
    reply::PublishReply,
    scripts::{self, FREEZE},
};

use self::way::{QUICK, way};
pub(crate) use self::{
    alone::{alone, text},
    call::{Call, is_allowed, never_over},
    locked::locked,
    rule::Rule,
    way::Ways,
};
use crate::dice::Dice;

/// The limit of all runs.
pub(crate) const LIMIT: &str = "user";

/// The fault that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// A text in scripts, and what stands there instead.
    Script(&'static str, &'static str),
    /// The first client never hears of this key.
    Unheard(&'static str),
    /// First takes write another key.
    FirstTakesMisplaced,
}

/// Clients, and their Redis.
pub(crate) struct Clients {
    pub(crate) topup: Topup,
    pub(crate) redis: Direct,
    pub(crate) all: Vec<Client>,
    /// Whether each has died.
    dead: Vec<Arc<AtomicBool>>,
    ways: Ways,
    /// The longest time that a command and its reply take, in µs.
    pub(crate) slowest: u64,
    pub(crate) calls: Arc<Mutex<Vec<Call>>>,
}

pub(crate) fn name() -> Result<LimitName, String> {
    LIMIT.parse().map_err(text)
}

// === impl Clients ===

impl Clients {
    /// Starts `many` clients of a Redis where `limits` are published, at the end of such ways.
    pub(crate) async fn start(
        dice: &mut Dice,
        many: usize,
        ways: impl Into<Ways>,
        planted: Planted,
        limits: &[Limit],
    ) -> Result<Self, String> {
        let mut ways: Ways = ways.into();
        ways.misplaces_first_takes = planted == Planted::FirstTakesMisplaced;
        let topup = Topup::new().start().map_err(text)?;
        if let Planted::Script(from, to) = planted {
            topup.redis().plant(from, to);
        }
        let redis = topup.redis().direct(Namespace::default());
        let slowest = 2 * (QUICK + ways.late);
        let mut clients =
            Self { topup, redis, all: Vec::new(), dead: Vec::new(), ways, slowest, calls: Arc::default() };
        for limit in limits {
            clients.publish(limit).await?;
        }
        for first in (0..many).map(|i| i == 0) {
            let unheard = match planted {
                Planted::Unheard(key) if first => Some(key.as_bytes()),
                _ => None,
            };
            let dead = Arc::default();
            let client = clients.topup.client_by(Client::builder(), way(dice, &clients.ways, unheard, &dead));
            clients.all.push(client.map_err(text)?);
            clients.dead.push(dead);
        }
        clients.topup.advance(Duration::from_secs(1)).await;
        Ok(clients)
    }

    /// Publishes a limit as the daemon does.
    pub(crate) async fn publish(&mut self, limit: &Limit) -> Result<(), String> {
        let keys = self.keys(&limit.name);
        scripts::register(&mut self.redis, &limit.name, Shards::ONE).await.map_err(text)?;
        let mut known = None;
        let published = loop {
            let reply = scripts::publish(&mut self.redis, &keys, limit, None, known).await;
            match reply.map_err(text)? {
                PublishReply::TooEarly(wait) => self.advance(wait).await,
                PublishReply::Announced(frozen) => {
                    known = Some(frozen);
                    scripts::announce(&mut self.redis).await.map_err(text)?;
                    self.advance(FREEZE.as_micros() as u64).await;
                }
                published => break published,
            }
        };
        if !matches!(published, PublishReply::Created | PublishReply::Changed) {
            return Err(format!("{} is not published: {published:?}", limit.name));
        }
        scripts::announce(&mut self.redis).await.map(drop).map_err(text)
    }

    pub(crate) fn keys(&self, name: &LimitName) -> ShardKeys {
        ShardKeys::new(self.redis.namespace(), name, 0)
    }

    /// Has a client die between any two of its commands. Another client takes its place.
    pub(crate) fn replace(&mut self, dice: &mut Dice, at: usize) -> Result<(), String> {
        std::mem::take(&mut self.dead[at]).store(true, Relaxed);
        let way = way(dice, &self.ways, None, &self.dead[at]);
        self.all[at] = self.topup.client_by(Client::builder(), way).map_err(text)?;
        Ok(())
    }

    /// Redis `TIME`.
    pub(crate) fn now(&self) -> u64 {
        self.topup.redis().now()
    }

    pub(crate) async fn advance(&self, micros: u64) {
        self.topup.advance(Duration::from_micros(micros)).await;
    }

    /// The names of all keys of Redis that match a pattern.
    pub(crate) async fn keys_like(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        let mut scan = Cmd::new();
        let scan = scan.arg("SCAN").arg(0).arg("MATCH").arg(pattern);
        let (_, keys): (u64, _) = scan.query_async(&mut self.redis).await.map_err(text)?;
        Ok(keys)
    }

    /// One of the clients.
    pub(crate) fn any(&self, dice: &mut Dice) -> Client {
        self.all[dice.index(self.all.len())].clone()
    }

    /// Has a task of a client take, and wait for as long as `patience`.
    pub(crate) fn take(&self, client: &Client, key: (usize, &str), count: u64, patience: Option<Duration>) {
        let (bucket, redis) = (client.limit(LIMIT).key(key.1), self.topup.redis().clone());
        let waits = patience.is_some();
        let (calls, key, sent) = (self.calls.clone(), key.0, redis.now());
        tokio::spawn(async move {
            let answer = match patience {
                Some(patience) => bucket.wait(count, patience).await,
                None => bucket.take(count).await,
            };
            let is_allowed = is_allowed(&answer);
            let is_unknown =
                matches!(answer, Err(Error::UnknownLimit { .. } | Error::NothingPublished { .. }));
            let wait = answer.ok().and_then(|decision| decision.retry_after());
            let retry_after = wait.map_or(0, |wait| wait.as_micros() as u64);
            let received = redis.now();
            let call = Call { key, count, sent, received, is_allowed, waits, retry_after, is_unknown };
            locked(&calls, |calls| calls.push(call));
        });
    }

    /// The calls of each key so far, by their answers.
    pub(crate) fn calls_of(&self, keys: usize) -> Vec<Vec<Call>> {
        let of = |calls: &[Call], key| calls.iter().filter(|call| call.key == key).copied().collect();
        locked(&self.calls, |calls| (0..keys).map(|key| of(calls, key)).collect())
    }
}
