//! The loop of the daemon. It owns all state. Other tasks send it commands and watch its status.

use std::{collections::BTreeSet, fmt, pin::pin, sync::Arc, time::Duration};

use redis::RedisResult;
use tokio::sync::{mpsc, watch};
use topup_wire::{
    claims::Owner,
    connection::{Connection, connect_lazily},
    limit::{Limit, LimitName},
    schema::NewerSchema,
    scripts,
};

use super::{
    at_rest::AtRestQueue,
    definitions::remove_ended_definitions,
    healing::Healing,
    healing_round::HealingRound,
    holds::sweep_holds,
    in_flight::{EndedHeartbeat, InFlight, finished},
    latency::Latency,
    log_throttle::LogThrottle,
    passes::{EndedPass, Passes},
    publication::{EndedRound, Publication},
    published::{PublishedShards, read_published},
    redis_health::RedisHealth,
    standing::Standing,
    status::EngineStatus,
    strays::sweep_strays,
    timeouts::{HEARTBEAT_LIFE, turns},
};
use crate::{
    clock::{Moment, RedisTime},
    config::{Config, RedisUrl},
    metrics::Metrics,
};

/// The time between two heartbeats, unless the tick is shorter.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(50);
/// A command to the engine.
#[derive(Debug)]
pub enum EngineCommand {
    /// Publish this config from now on.
    Apply(Arc<Config>),
    /// Say in each heartbeat that this problem keeps the config on disk from being used; `None` once it is used.
    Refuse(Option<String>),
    /// Look for due work: a schedule may have reached a boundary.
    Wake,
}

/// The settings of an engine.
#[derive(Debug)]
pub struct EngineSettings {
    /// The name of this daemon among others.
    pub id: String,
    /// The Redis to serve.
    pub url: RedisUrl,
    /// The config to publish.
    pub config: Arc<Config>,
    /// Whether to publish it. If not, the engine refills what is published until another config comes.
    pub publishes: bool,
    /// Its name among others.
    pub owner: Owner,
    /// Limits that it may take over from configs without a live daemon, at its start.
    pub take_over: BTreeSet<LimitName>,
    /// The metrics that it writes.
    pub metrics: Metrics,
}

/// The refill engine.
pub struct Engine {
    pub(super) connection: Connection,
    pub(super) id: String,
    pub(super) tick: Duration,
    pub(super) redis_health: RedisHealth,
    pub(super) latency: Latency,
    pub(super) started: Moment,
    pub(super) heartbeat: Option<InFlight<EndedHeartbeat>>,
    /// The read of published limits in flight.
    pub(super) reading: Option<InFlight<RedisResult<PublishedShards>>>,
    pub(super) time: Option<RedisTime>,
    /// The schema in Redis, if this version does not know it.
    pub(super) newer_schema: Option<NewerSchema>,
    /// The most by which `time` is behind: the time of the heartbeat that told it.
    pub(super) behind: Duration,
    pub(super) publication: Publication,
    pub(super) at_rest: AtRestQueue,
    pub(super) passes: Passes,
    pub(super) healing: Healing,
    pub(super) refused: Option<String>,
    /// Configs that were applied or refused since the start.
    pub(super) reloads: u64,
    pub(super) read_failure_log: LogThrottle,
    pub(super) metrics: Metrics,
    /// The limits whose abandoned holds are looked for.
    swept: watch::Sender<Vec<Limit>>,
    pub(super) status: watch::Sender<EngineStatus>,
}

// === impl Engine ===

impl Engine {
    /// An engine that does not run yet, and its status.
    ///
    /// # Errors
    /// If the URL is not one of a Redis.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(settings: EngineSettings) -> RedisResult<(Self, watch::Receiver<EngineStatus>)> {
        let (status, watched) = watch::channel(EngineStatus::default());
        let tick = settings.config.tick;
        let standing = Standing::new(settings.id.clone(), settings.owner, settings.take_over);
        let engine = Self {
            passes: Passes::new(tick, settings.metrics.clone()),
            metrics: settings.metrics,
            connection: connect_lazily(settings.url.as_str())?.in_namespace(settings.url.namespace()),
            id: settings.id,
            tick,
            redis_health: RedisHealth::default(),
            latency: Latency::default(),
            started: Moment::now(),
            heartbeat: None,
            reading: None,
            time: None,
            newer_schema: None,
            behind: Duration::ZERO,
            publication: Publication::new(settings.config, standing, settings.publishes),
            at_rest: AtRestQueue::default(),
            healing: Healing::new(),
            refused: None,
            reloads: 0,
            read_failure_log: LogThrottle::default(),
            swept: watch::Sender::new(Vec::new()),
            status,
        };
        Ok((engine, watched))
    }

    /// Runs until `stop` is true. Then waits for the slices in flight and removes the heartbeat.
    pub async fn run(mut self, mut commands: mpsc::Receiver<EngineCommand>, mut stop: watch::Receiver<bool>) {
        let mut turns_of_loop = turns(self.tick);
        let mut sweep = pin!(sweep_strays(self.connection.clone()));
        let mut definitions = pin!(remove_ended_definitions(self.connection.clone()));
        let mut holds = pin!(sweep_holds(self.connection.clone(), self.swept.subscribe()));
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                Some(command) = commands.recv() => match command {
                    EngineCommand::Apply(config) => {
                        self.reloads += 1;
                        self.tick = config.tick;
                        turns_of_loop = turns(self.tick);
                        self.publication.replace(config);
                    }
                    EngineCommand::Refuse(problem) => {
                        self.reloads += u64::from(problem.is_some());
                        self.refused = problem;
                        self.note_refusal();
                    }
                    EngineCommand::Wake => self.begin_due_work(),
                },
                // Before the passes: of many passes, one has always just ended.
                _ = turns_of_loop.tick() => self.turn(),
                Some(ended) = finished(&mut self.heartbeat) => self.heartbeat_ended(ended),
                Some(read) = finished(&mut self.reading) => self.reading_ended(read),
                Some(ended) = self.publication.ended() => self.round_ended(ended),
                Some(()) = self.at_rest.ended() => self.at_rest.begin(&self.connection),
                Some(round) = self.healing.next() => self.healing_ended(round),
                Some(ended) = self.passes.next() => self.pass_ended(ended),
                () = &mut sweep, if self.time.is_some() && self.may_write() => {}
                () = &mut holds, if self.time.is_some() && self.may_write() => {}
                () = &mut definitions, if self.time.is_some() && self.may_write() => {}
            }
        }
        self.passes.drain().await;
        let has_heartbeat = self.redis_health.is_up() && self.may_write();
        if has_heartbeat && scripts::retire(&mut self.connection, &self.id).await.is_err() {
            tracing::warn!(
                "the heartbeat could not be removed: workers count on this daemon for up to {HEARTBEAT_LIFE:?}"
            );
        }
    }

    /// Begins a heartbeat if one is due, and all other due work if not. A turn never waits: in a cluster, the node of
    /// the heartbeats may be away while others are not.
    fn turn(&mut self) {
        self.status.send_modify(|status| status.turns += 1);
        let is_due = self.time.is_none_or(|time| time.age() >= HEARTBEAT_INTERVAL.min(self.tick));
        if is_due && self.heartbeat.is_none() && !self.redis_health.is_pausing() {
            self.heartbeat = Some(self.send_heartbeat());
        } else {
            self.begin_due_work();
        }
    }

    /// Begins the round of publishing and the passes that are due.
    pub(super) fn begin_due_work(&mut self) {
        let Some(now) = self.time.map(RedisTime::now).filter(|_| self.may_write()) else { return };
        let is_up = self.redis_health.is_up();
        if is_up {
            self.publication.begin(&self.connection, now);
        }
        if is_up && self.healing.is_due() {
            self.begin_healing(now);
        }
        if !self.publication.is_at_boundary() {
            self.passes.begin(&self.connection, now, is_up);
        }
    }

    /// Begins a round of healing. Records are looked at only while they should be as published.
    fn begin_healing(&mut self, now: u64) {
        let generation = self.status.borrow().generation;
        let desired = match self.reading.is_none() {
            true if self.publication.publishes() => self.publication.settled(now),
            true => self.healing.published(),
            false => Vec::new(),
        };
        let is_own = self.publication.publishes();
        self.healing.begin(&self.connection, &self.id, generation, now, desired, is_own);
    }

    fn round_ended(&mut self, ended: EndedRound) {
        let notes = self.publication.notes().filter(|note| note.is_problem());
        let notes = notes.map(ToString::to_string).collect();
        self.status.send_if_modified(|status| {
            let changed = status.notes != notes;
            status.notes = notes;
            changed
        });
        if ended.published {
            self.at_rest.add(&self.connection, ended.changed);
            self.reading = Some(self.read_published(0));
        }
    }

    /// Reads the limits that have changed since the generation `known`, or all of them.
    pub(super) fn read_published(&self, known: u64) -> InFlight<RedisResult<PublishedShards>> {
        Box::pin(read_published(self.connection.clone(), known))
    }

    /// Refills the shards that were read. After an error, the next heartbeat begins another read.
    fn reading_ended(&mut self, read: RedisResult<PublishedShards>) {
        match read {
            Ok(PublishedShards { generation, changed: None, registered, mut limits, defined, shards }) => {
                self.swept.send_replace(limits.clone());
                // A program publishes the limits that it defines.
                limits.retain(|limit| !defined.contains(&limit.name));
                self.healing.note_published(&registered, limits);
                self.passes.replace(shards, self.tick);
                self.note_read(generation);
            }
            Ok(PublishedShards { generation, changed: Some(changed), limits, shards, .. }) => {
                self.swept.send_modify(|swept| {
                    swept.retain(|limit| !changed.contains(&limit.name));
                    swept.extend(limits);
                });
                self.healing.note_generation(self.status.borrow().generation, generation, &changed);
                self.passes.change(&changed, shards);
                self.note_read(generation);
            }
            Err(error) if self.read_failure_log.should_log() => {
                tracing::warn!("the published limits could not be read ({error}); trying again");
            }
            Err(_) => {}
        }
    }

    /// Records that the shards are those of this generation.
    fn note_read(&mut self, generation: u64) {
        let (shards, ready) = (self.passes.shards(), self.passes.all_seen());
        self.status.send_modify(|status| {
            (status.generation, status.shards) = (generation, shards);
            status.ready |= ready;
        });
    }

    fn healing_ended(&mut self, mut round: HealingRound) {
        self.healing.ended(&mut round);
        let repaired = self.healing.repaired();
        self.status.send_modify(|status| status.repaired = repaired);
        for name in &round.foreign {
            tracing::warn!(
                "limit {name} is published with other terms, by no daemon alive: publishing again"
            );
        }
        if !round.foreign.is_empty() {
            self.publication.publish_again();
        }
    }

    fn pass_ended(&mut self, ended: EndedPass) {
        let now = self.time.map_or(0, RedisTime::now);
        // Redis was away. Its answers to passes may come before its answer to a heartbeat.
        if !self.redis_health.is_up() || self.time.is_some_and(|time| time.age() > HEARTBEAT_LIFE) {
            self.passes.excuse(now);
        }
        let lag = self.passes.ended(ended, now);
        let ready = self.passes.all_seen() && self.may_write();
        let credited = self.passes.credited();
        self.status.send_modify(|status| {
            (status.credited, status.lag) = (credited, lag);
            status.ready |= ready;
        });
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("id", &self.id)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

/// Waits until `stop` is true or its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
