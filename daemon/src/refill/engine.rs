//! The loop of the daemon. It owns all state; the rest of the daemon sends commands and watches its status.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::{RedisError, RedisResult};
use tokio::sync::{mpsc, watch};
use topup_wire::{
    connection::{Connection, connect_lazily},
    limit::{Limit, LimitName},
    reply::{Beat, PublishedLimit},
    scripts::{self, Health},
};

use super::{
    Presence, Status,
    passes::{self, Passes},
    patience::{InFlight, NowAndThen, finished, patiently, ticks},
    publication::{Ended, Publication},
    shard::Shard,
    strays::sweep_strays,
    touch::Touches,
};
use crate::{
    clock::RedisTime,
    config::{Config, RedisUrl},
    publish::{ABREAST, is_unreadable},
};

/// How long a heartbeat is good: four of the longest turns of the loop. Shorter, and a busy machine's hiccup would send
/// all workers to the scripts; longer, and they would trust a dead daemon.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// Heartbeats need not come faster than this, however short the tick.
const BEAT_EVERY: Duration = Duration::from_millis(50);
/// Two clocks drift; apart by more µs than this between two heartbeats, one was set.
const STEP: u64 = 1_000;

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
    /// Where Redis is.
    pub url: RedisUrl,
    /// What to publish.
    pub config: Arc<Config>,
}

/// The refill engine.
pub struct Engine {
    connection: Connection,
    id: String,
    tick: Duration,
    presence: Presence,
    /// A heartbeat under way, and what time it was for Redis when it was sent.
    beating: Option<InFlight<(u64, RedisResult<Beat>)>>,
    /// What is published, while it is being read.
    reading: Option<InFlight<RedisResult<Found>>>,
    time: Option<RedisTime>,
    publication: Publication,
    touches: Touches,
    passes: Passes,
    unread: NowAndThen,
    status: watch::Sender<Status>,
}

/// What is published.
struct Found {
    generation: u64,
    shards: Vec<Shard>,
}

// === impl Engine ===

impl Engine {
    /// An engine at rest, and its status to watch.
    ///
    /// # Errors
    /// When the URL is not one of a Redis.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(settings: Settings) -> RedisResult<(Self, watch::Receiver<Status>)> {
        let (status, watched) = watch::channel(Status::default());
        let tick = settings.config.tick;
        let engine = Self {
            passes: Passes::new(tick),
            connection: connect_lazily(settings.url.as_str())?,
            id: settings.id,
            tick,
            presence: Presence::default(),
            beating: None,
            reading: None,
            time: None,
            publication: Publication::new(settings.config),
            touches: Touches::default(),
            unread: NowAndThen::default(),
            status,
        };
        Ok((engine, watched))
    }

    /// Runs until `stop` says so; then ends the slices at hand and takes the heartbeat back.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut stop: watch::Receiver<bool>) {
        let mut turns = ticks(self.tick);
        let mut sweeping = pin!(sweep_strays(self.connection.clone()));
        loop {
            tokio::select! {
                biased;
                () = asked_to_stop(&mut stop) => break,
                Some(command) = commands.recv() => match command {
                    Command::Apply(config) => {
                        self.tick = config.tick;
                        turns = ticks(self.tick);
                        self.publication.replace(config);
                    }
                    Command::Wake => self.work(),
                },
                // Before the passes, which may be so many that one has always just ended.
                _ = turns.tick() => self.turn(),
                Some((sent, beat)) = finished(&mut self.beating) => self.beaten(sent, beat),
                Some(read) = finished(&mut self.reading) => self.read(read),
                Some(ended) = self.publication.ended() => self.published(ended),
                Some(()) = self.touches.ended() => self.touches.begin(&self.connection),
                Some(ended) = self.passes.next() => self.passed(ended),
                () = &mut sweeping => {}
            }
        }
        self.passes.drain().await;
        if self.presence.is_present() && scripts::retire(&mut self.connection, &self.id).await.is_err() {
            tracing::warn!("the heartbeat could not be taken back: workers will notice by themselves");
        }
    }

    /// A turn waits for nothing: in a cluster, the node that hears the heartbeats may be away while others are not.
    fn turn(&mut self) {
        self.status.send_modify(|status| status.ticks += 1);
        let old = self.time.is_none_or(|time| time.age() >= BEAT_EVERY.min(self.tick));
        if old && self.beating.is_none() && !self.presence.is_pausing() {
            self.beating = Some(self.beat());
        } else {
            self.work();
        }
    }

    /// Begins what there is to do now.
    fn work(&mut self) {
        let Some(now) = self.time.map(RedisTime::now) else { return };
        let present = self.presence.is_present();
        if present {
            self.publication.begin(&self.connection, now);
        }
        if !self.publication.is_crossing() {
            self.passes.begin(&self.connection, now, present);
        }
    }

    /// Says that this daemon is alive, and hears what time it is.
    fn beat(&self) -> InFlight<(u64, RedisResult<Beat>)> {
        let status = *self.status.borrow();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let health = Health { lag: status.lag, credited: self.passes.credited(), version };
        let (mut connection, id) = (self.connection.clone(), self.id.clone());
        let sent = self.time.map_or(0, RedisTime::now);
        Box::pin(async move {
            (sent, patiently(scripts::heartbeat(&mut connection, &id, GOOD_FOR, &health)).await)
        })
    }

    fn beaten(&mut self, sent: u64, beat: RedisResult<Beat>) {
        let beat = match beat {
            Ok(beat) => beat,
            Err(error) => {
                self.presence.lost(&error, self.tick);
                self.status.send_modify(|status| status.connected = false);
                return;
            }
        };
        if self.presence.found() || self.time.is_none() {
            warn_of_eviction(self.connection.clone());
        }
        if beat.now + STEP < sent {
            let back = Duration::from_micros(sent - beat.now);
            tracing::warn!("Redis's clock stepped back by {back:?}: buckets count from now");
            self.passes.clock_stepped_back();
            self.publication.look();
        }
        self.time = Some(RedisTime::heard(beat.now));
        self.status.send_modify(|status| status.connected = true);
        let known = self.status.borrow().generation;
        match beat.generation {
            _ if self.publication.is_under_way() || self.reading.is_some() => {}
            None => {
                tracing::warn!(
                    "nothing is published any more: Redis was flushed or is new; publishing again"
                );
                self.publication.again();
            }
            Some(generation) if generation < known => {
                tracing::warn!("Redis has fallen back to what was published before: publishing again");
                self.publication.again();
            }
            Some(generation) if generation != known => self.reading = Some(self.read_published()),
            Some(_) => {}
        }
        self.work();
    }

    fn published(&mut self, ended: Ended) {
        if ended.succeeded {
            self.touches.add(&self.connection, ended.changed);
            self.status.send_modify(|status| status.applied += 1);
            self.reading = Some(self.read_published());
        }
    }

    /// Reads what is published, by whichever daemon.
    fn read_published(&self) -> InFlight<RedisResult<Found>> {
        let mut connection = self.connection.clone();
        Box::pin(patiently(async move {
            // Before the rest: what is published meanwhile is read again.
            let generation = scripts::generation(&mut connection).await?.unwrap_or(0);
            let names = scripts::published_limits(&mut connection).await?;
            let each = names.into_keys().map(|name| {
                let mut connection = connection.clone();
                async move { readable(&name, scripts::read_limit(&mut connection, &name).await) }
            });
            let limits: Vec<_> = stream::iter(each).buffered(ABREAST).try_collect().await?;
            Ok(Found { generation, shards: limits.iter().flatten().flat_map(Shard::of).collect() })
        }))
    }

    /// Refills from now on what has been read.
    fn read(&mut self, read: RedisResult<Found>) {
        match read {
            Ok(Found { generation, shards }) => {
                self.passes.replace(shards, self.tick);
                let (shards, ready) = (self.passes.shards(), self.passes.all_seen());
                self.status.send_modify(|status| {
                    (status.generation, status.shards) = (generation, shards);
                    status.ready |= ready;
                });
            }
            Err(error) => self.could_not_read(&error),
        }
    }

    /// Left to the next heartbeat, which also tells whether Redis is there at all.
    fn could_not_read(&mut self, error: &RedisError) {
        if self.unread.is_news() {
            tracing::warn!("what is published could not be read ({error}); trying again");
        }
    }

    fn passed(&mut self, ended: passes::Ended) {
        let lag = self.passes.ended(ended, self.time.map_or(0, RedisTime::now));
        let (ready, credited) = (self.passes.all_seen(), self.passes.credited());
        self.status.send_modify(|status| {
            (status.credited, status.lag) = (credited, lag);
            status.ready |= ready;
        });
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("id", &self.id)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone has nobody left to serve either.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A limit as published; one that a newer daemon or a hand has written otherwise stops no other.
fn readable(name: &LimitName, read: RedisResult<Option<PublishedLimit>>) -> RedisResult<Option<Limit>> {
    match read {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!("limit {name} is not refilled: what is published of it cannot be read ({error})");
            Ok(None)
        }
        read => Ok(read?.map(|published| published.limit)),
    }
}

/// Says so when this Redis may throw away what limits rely on. An evicted counter counts as empty, but an evicted due
/// index makes its buckets full.
fn warn_of_eviction(mut connection: Connection) {
    tokio::spawn(async move {
        if let Ok(Some(policy)) = scripts::eviction_policy(&mut connection).await {
            tracing::warn!(
                "this Redis may evict keys (maxmemory-policy {policy}): set noeviction, or limits may be exceeded"
            );
        }
    });
}
