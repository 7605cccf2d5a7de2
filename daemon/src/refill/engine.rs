//! The loop of the daemon. It owns all state; the rest of the daemon sends commands and watches its status.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::{
    sync::{mpsc, watch},
    time::{Interval, MissedTickBehavior},
};
use topup_wire::{
    connection::Connection,
    scripts::{self, Health},
};

use super::{
    Presence, Status,
    shard::{Done, Errand, Shard},
};
use crate::{
    clock::RedisTime,
    config::Config,
    publish::{Wanted, publish},
    wanted::{has_calendar, next_boundary, wanted},
};

/// The longest one request to Redis may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(1);
/// However long the refill period, the loop comes round this often.
const LONGEST_TICK: Duration = Duration::from_millis(250);
/// How long a heartbeat is good: four of the longest ticks. Shorter, and a busy machine's hiccup would send all workers
/// to the scripts; longer, and they would trust a dead daemon.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// Heartbeats need not come faster than this, however short the tick.
const BEAT_EVERY: Duration = Duration::from_millis(50);
/// Looks at shards with nothing due, per tick: what many idle limits cost stays flat, each being looked at less often.
const IDLE_LOOKS: usize = 100;
/// However many there are, and however slow, each shard is looked at this often, in µs.
const LOOK_EVERY: u64 = 1_000_000;
/// Two clocks drift; apart by more µs than this between two heartbeats, one was set.
const STEP: u64 = 1_000;
/// A lag is worth a word no more often than this.
const SAY_LAG_EVERY: Duration = Duration::from_secs(10);

/// What the engine is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Obey this config from now on.
    Apply(Arc<Config>),
    /// A schedule may have reached a boundary: look.
    Wake,
}

/// What an engine starts with.
#[derive(Debug)]
pub struct Settings {
    /// Names this daemon among others.
    pub id: String,
    /// What to publish.
    pub config: Arc<Config>,
}

type InFlight<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The refill engine.
pub struct Engine {
    connection: Connection,
    id: String,
    config: Arc<Config>,
    presence: Presence,
    time: Option<RedisTime>,
    /// When a schedule changes something next, in µs of Redis `TIME`.
    boundary: Option<u64>,
    /// The config is to be published as a whole, from the schedules' instants (`true`) or from now on.
    unpublished: Option<bool>,
    publishing: Option<InFlight<RedisResult<bool>>>,
    shards: Vec<Shard>,
    /// Tells passes over shards as they are now from passes over those of before.
    version: u64,
    passes: FuturesUnordered<InFlight<(u64, usize, RedisResult<Done>)>>,
    /// Shards not looked at since they were published.
    unseen: usize,
    said_lag: Option<RedisTime>,
    stop: Arc<AtomicBool>,
    status: watch::Sender<Status>,
}

// === impl Engine ===

impl Engine {
    /// An engine at rest, and its status to watch.
    pub fn new(connection: Connection, settings: Settings) -> (Self, watch::Receiver<Status>) {
        let (status, watched) = watch::channel(Status::default());
        let engine = Self {
            connection,
            id: settings.id,
            config: settings.config,
            presence: Presence::default(),
            time: None,
            boundary: None,
            unpublished: Some(true),
            publishing: None,
            shards: Vec::new(),
            version: 0,
            passes: FuturesUnordered::new(),
            unseen: 0,
            said_lag: None,
            stop: Arc::new(AtomicBool::new(false)),
            status,
        };
        (engine, watched)
    }

    /// Runs until `stop` says so; then ends the slices at hand and takes the heartbeat back.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut stop: watch::Receiver<bool>) {
        let mut ticks = ticks(self.config.tick);
        loop {
            tokio::select! {
                biased;
                () = asked_to_stop(&mut stop) => break,
                Some(command) = commands.recv() => {
                    if let Command::Apply(config) = &command && config.tick != self.config.tick {
                        ticks = self::ticks(config.tick);
                    }
                    self.obey(command);
                }
                Some(published) = finished(&mut self.publishing) => self.published(published).await,
                Some((version, index, done)) = self.passes.next() => self.passed(version, index, done),
                _ = ticks.tick() => self.tick().await,
            }
        }
        self.stop.store(true, Relaxed);
        while self.passes.next().await.is_some() {}
        if self.presence.is_present() && scripts::retire(&mut self.connection, &self.id).await.is_err() {
            tracing::warn!("the heartbeat could not be taken back: workers will notice by themselves");
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Apply(config) => {
                self.config = config;
                self.unpublished = Some(false);
            }
            // The next tick looks, by Redis's clock.
            Command::Wake => self.boundary = Some(0),
        }
    }

    async fn tick(&mut self) {
        self.status.send_modify(|status| status.ticks += 1);
        if self.presence.is_pausing() {
            return;
        }
        if self.time.is_none_or(|time| time.age() >= BEAT_EVERY.min(self.config.tick)) && !self.beat().await {
            return;
        }
        let Some(now) = self.time.map(RedisTime::now) else { return };
        self.publish_what_is_due(now);
        self.refill_what_is_due(now);
    }

    /// Says that this daemon is alive, and hears what time it is: whether Redis answered.
    async fn beat(&mut self) -> bool {
        let status = *self.status.borrow();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let health = Health { lag: status.lag, credited: status.credited, version };
        let expected = self.time.map_or(0, RedisTime::now);
        let mut connection = self.connection.clone();
        let beat = patiently(scripts::heartbeat(&mut connection, &self.id, GOOD_FOR, &health)).await;
        let beat = match beat {
            Ok(beat) => beat,
            Err(error) => {
                self.presence.lost(&error, self.config.tick);
                self.status.send_modify(|status| status.connected = false);
                return false;
            }
        };
        if self.presence.found() || self.time.is_none() {
            warn_of_eviction(self.connection.clone());
        }
        if beat.now + STEP < expected {
            let back = Duration::from_micros(expected - beat.now);
            tracing::warn!("Redis's clock stepped back by {back:?}: buckets count from now");
            self.look_at_all(|shard| shard.future = true);
            self.boundary = Some(0);
        }
        self.time = Some(RedisTime::heard(beat.now));
        self.status.send_modify(|status| status.connected = true);
        let known = self.status.borrow().generation;
        match beat.generation {
            _ if self.publishing.is_some() || self.unpublished.is_some() => {}
            None => {
                tracing::warn!("nothing is published any more: Redis was flushed or is new; publishing again");
                self.unpublished = Some(false);
            }
            Some(generation) if generation != known => self.read_published(generation).await,
            Some(_) => {}
        }
        true
    }

    /// Begins to publish when a config or a boundary of a schedule asks for it.
    fn publish_what_is_due(&mut self, now: u64) {
        if self.publishing.is_some() {
            return;
        }
        let connection = self.connection.clone();
        let (limits, alone): (Vec<Wanted>, bool) = match self.unpublished.take() {
            Some(scheduled) => {
                let mut limits = wanted(&self.config, now, |_| true);
                if !scheduled {
                    limits.iter_mut().for_each(|wanted| wanted.at = None);
                }
                (limits, true)
            }
            None if self.boundary.is_some_and(|boundary| boundary <= now) => {
                (wanted(&self.config, now, has_calendar), false)
            }
            None => return,
        };
        self.boundary = next_boundary(&self.config, now);
        self.publishing = Some(Box::pin(async move { publish(&connection, &limits, alone).await }));
    }

    async fn published(&mut self, published: RedisResult<bool>) {
        match published {
            Ok(_) => {
                self.status.send_modify(|status| status.applied += 1);
                match patiently(scripts::generation(&mut self.connection.clone())).await {
                    Ok(generation) => self.read_published(generation.unwrap_or(0)).await,
                    Err(error) => self.presence.lost(&error, self.config.tick),
                }
            }
            Err(error) => {
                tracing::warn!("publishing was cut short ({error}); doing it again");
                self.unpublished = self.unpublished.or(Some(true));
            }
        }
    }

    /// Refills from now on what is published as `generation`, whichever daemon published it.
    async fn read_published(&mut self, generation: u64) {
        let mut connection = self.connection.clone();
        let read = patiently(async {
            let mut shards = Vec::new();
            for name in scripts::published_limits(&mut connection).await?.keys() {
                if let Some(limit) = scripts::read_limit(&mut connection, name).await? {
                    shards.extend(Shard::of(&limit));
                }
            }
            Ok(shards)
        });
        match read.await {
            Ok(shards) => {
                self.version += 1;
                self.unseen = shards.len();
                self.shards = shards;
                let (shards, ready) = (self.shards.len(), self.unseen == 0);
                self.status.send_modify(|status| {
                    (status.generation, status.shards) = (generation, shards);
                    status.ready |= ready;
                });
            }
            Err(error) => self.presence.lost(&error, self.config.tick),
        }
    }

    fn look_at_all(&mut self, prepare: impl Fn(&mut Shard)) {
        for shard in &mut self.shards {
            prepare(shard);
            shard.next = 0;
        }
    }

    fn refill_what_is_due(&mut self, now: u64) {
        for (index, shard) in self.shards.iter_mut().enumerate() {
            if shard.busy || shard.next > now {
                continue;
            }
            shard.busy = true;
            let errand = Errand {
                keys: shard.keys.clone(),
                period: shard.period,
                quota: shard.quota,
                former: std::mem::take(&mut shard.former),
                future: std::mem::take(&mut shard.future),
                now,
                stop: self.stop.clone(),
            };
            let (version, connection) = (self.version, self.connection.clone());
            self.passes.push(Box::pin(async move { (version, index, errand.run(connection).await) }));
        }
    }

    fn passed(&mut self, version: u64, index: usize, done: RedisResult<Done>) {
        let now = self.time.map_or(0, RedisTime::now);
        let (tick, idle) = (self.config.tick, self.idle_pause());
        let Some(shard) = self.shards.get_mut(index).filter(|_| version == self.version) else { return };
        let (planned, first) = (shard.next, shard.next == 0);
        shard.busy = false;
        match done {
            Ok(done) => {
                shard.next = if done.credited == 0 { done.next.max(now + idle) } else { done.next };
                shard.next = shard.next.min(now + LOOK_EVERY.max(idle));
                if !std::mem::replace(&mut shard.seen, true) {
                    self.unseen -= 1;
                }
                // A shard whose time has come waits for the next tick at most: what is above that is behind.
                let late = Duration::from_micros(now.saturating_sub(planned));
                let lag = if first { Duration::ZERO } else { late.saturating_sub(ticks_apart(tick)) };
                let ready = self.unseen == 0;
                self.status.send_modify(|status| {
                    status.credited += done.credited;
                    status.lag = lag;
                    status.ready |= ready;
                });
                self.say_lag(lag, tick);
            }
            Err(error) => {
                // The others go on; this one is tried again with the next tick, as if it had never been looked at.
                tracing::warn!("refilling {} failed ({error}); trying again", shard.keys.due);
                (shard.former, shard.future) = (true, true);
                shard.next = now + tick.as_micros() as u64;
            }
        }
    }

    /// How long a shard with nothing due is left alone, in µs: nothing while there are few.
    fn idle_pause(&self) -> u64 {
        self.config.tick.as_micros() as u64 * (self.shards.len() / IDLE_LOOKS) as u64
    }

    fn say_lag(&mut self, lag: Duration, tick: Duration) {
        let quiet = self.said_lag.is_some_and(|said| said.age() < SAY_LAG_EVERY);
        if lag > tick && !quiet {
            self.said_lag = self.time;
            tracing::warn!("refilling is {lag:?} behind its tick of {tick:?}: Redis or this machine is overloaded");
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("id", &self.id).field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

/// Ticks for a refill period: looking more often than a limit is refilled does no harm, saying nothing for long would.
fn ticks(tick: Duration) -> Interval {
    let mut ticks = tokio::time::interval(ticks_apart(tick));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// How far apart two turns of the loop are.
fn ticks_apart(tick: Duration) -> Duration {
    tick.min(LONGEST_TICK)
}

async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone has nobody left to serve either.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What has finished, taken out of its place; never ready while there is nothing.
async fn finished<T>(running: &mut Option<InFlight<T>>) -> Option<T> {
    let done = running.as_mut()?.await;
    *running = None;
    Some(done)
}

/// A request that fails when it takes too long.
async fn patiently<T>(request: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {PATIENCE:?}")));
    tokio::time::timeout(PATIENCE, request).await.unwrap_or_else(|_| Err(late()))
}

/// Says so when this Redis may throw away what limits rely on. An evicted counter counts as empty, but an evicted due
/// index makes its buckets full.
fn warn_of_eviction(mut connection: Connection) {
    tokio::spawn(async move {
        if let Ok(Some(policy)) = scripts::eviction_policy(&mut connection).await {
            tracing::warn!("this Redis may evict keys (maxmemory-policy {policy}): set noeviction, or limits may be exceeded");
        }
    });
}
