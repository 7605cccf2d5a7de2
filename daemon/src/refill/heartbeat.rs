//! The heartbeat of the engine: it tells workers that this daemon is alive, and tells the engine how Redis is doing.

use std::{mem, time::Duration};

use topup_wire::{
    schema::NewerSchema,
    scripts::{self, Health},
};

use super::{
    at_rest::AtRestQueue,
    engine::Engine,
    eviction::warn_of_eviction,
    in_flight::{EndedHeartbeat, InFlight},
    latency::SLOW,
    redis_health::Failure,
    timeouts::{HEARTBEAT_LIFE, with_timeout},
};
use crate::clock::{Moment, RedisTime};

/// The most µs that two clocks may drift apart between two heartbeats. A larger difference means that one was set.
const CLOCK_STEP: u64 = 1_000;
/// One µs in so many is the most by which two clocks that are not set drift apart: 500 ppm each, as NTP slews them.
const CLOCK_DRIFT: u64 = 1_000;

// === impl Engine ===

impl Engine {
    /// Tells Redis that this daemon is alive. The reply has the time and the generation.
    pub(super) fn send_heartbeat(&self) -> InFlight<EndedHeartbeat> {
        let lag = self.status.borrow().lag;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let refused = self.refused.clone().zip(self.status.borrow().refused_since);
        let (owner, config) = self.publication.identity();
        let health = Health {
            lag,
            credited: self.passes.credited(),
            repaired: self.healing.repaired(),
            reloads: self.reloads,
            refused,
            version,
            owner,
            config,
        };
        let (mut connection, id) = (self.connection.clone(), self.id.clone());
        let (sent, last_failure) =
            (self.time.map_or(0, RedisTime::now), self.redis_health.last_failure().cloned());
        Box::pin(async move {
            let began = Moment::now();
            let request = scripts::heartbeat(&mut connection, &id, HEARTBEAT_LIFE, &health);
            let (reply, latency) = (with_timeout(request).await, began.elapsed());
            let result = match reply {
                Ok(beat) => Ok(beat),
                Err(error) => Err(Failure::diagnose(error, &connection, last_failure).await),
            };
            EndedHeartbeat { sent, began, latency, result }
        })
    }

    /// Learns the health, the time and the generation of Redis.
    pub(super) fn heartbeat_ended(
        &mut self,
        EndedHeartbeat { sent, began, latency, result }: EndedHeartbeat,
    ) {
        let beat = match result {
            Ok(beat) => beat,
            Err(failure) => {
                let is_corrupt = failure.is_corruption();
                self.metrics.failed(failure.cause());
                self.redis_health.failed(failure, began, self.tick);
                let cause = self.redis_health.cause();
                self.status.send_modify(|status| (status.connected, status.cause) = (false, cause));
                if is_corrupt && self.healing.is_idle() {
                    self.healing.begin(&self.connection, &self.id, 0, sent, Vec::new(), true);
                }
                return;
            }
        };
        let is_back = self.redis_health.answered();
        if is_back || self.time.is_none() {
            self.passes.excuse(beat.now);
            warn_of_eviction(self.connection.clone());
        }
        self.note_latency(latency);
        self.note_clock_step(sent, beat.now);
        (self.time, self.behind) = (Some(RedisTime::heard(beat.now)), began.elapsed());
        self.publication.heard(&beat);
        self.compare_schema(beat.newer_schema);
        self.status.send_modify(|status| (status.connected, status.cause) = (true, None));
        self.note_refusal();
        if self.may_write() && !self.publication.is_under_way() && self.reading.is_none() {
            self.compare_generation(beat.generation);
        }
        self.begin_due_work();
    }

    /// Says that Redis is slow, and that it is so no longer.
    fn note_latency(&mut self, latency: Duration) {
        match self.latency.observe(latency, self.started.elapsed()) {
            Some(true) => tracing::warn!(
                "Redis is slow: for a second, every answer has taken more than {SLOW:?}, the last one {latency:.0?}; \
                 see SLOWLOG, its machine and the network"
            ),
            Some(false) => tracing::info!("Redis is no longer slow: the last answer took {latency:.1?}"),
            None => {}
        }
        let slow = self.latency.is_slow().then_some(latency);
        self.status.send_if_modified(|status| mem::replace(&mut status.slow, slow) != slow);
    }

    /// Compares Redis `TIME`, now `now`, with the clock of this machine since the heartbeat before. One was `sent` then.
    fn note_clock_step(&mut self, sent: u64, now: u64) {
        let Some(time) = self.time else { return };
        if now + CLOCK_STEP < sent {
            let back = Duration::from_micros(sent - now);
            tracing::warn!(
                "Redis's clock stepped back by {back:?}: buckets are credited from the new time on"
            );
            self.passes.clock_stepped_back();
            self.publication.check_boundary();
        }
        // No answer is older than its receipt. Over a long outage, two good clocks may drift apart.
        let drift = time.age().as_micros() as u64 / CLOCK_DRIFT;
        let latest = time.now() + self.behind.as_micros() as u64 + CLOCK_STEP + drift;
        if now > latest {
            let forward = Duration::from_micros(now - time.now());
            tracing::warn!(
                "Redis's clock stepped forward by {forward:?}: buckets are credited for that time, up to their capacity"
            );
            self.passes.excuse(now);
        }
    }

    /// Whether this version knows the schema in Redis, as of the last heartbeat.
    pub(super) fn may_write(&self) -> bool {
        self.newer_schema.is_none()
    }

    /// Ends all work when the schema in Redis is `newer` than this version knows. Publishes everything when it no longer
    /// is.
    fn compare_schema(&mut self, newer: Option<NewerSchema>) {
        if mem::replace(&mut self.newer_schema, newer) == newer {
            return;
        }
        self.status.send_modify(|status| status.newer_schema = newer);
        match newer {
            Some(newer) => {
                tracing::error!(
                    "{newer}: this daemon neither publishes nor refills; upgrade it, see docs/upgrading.md"
                );
                self.passes.halt();
                self.publication.halt();
                (self.at_rest, self.reading) = (AtRestQueue::default(), None);
            }
            None => {
                tracing::warn!("the schema in Redis is known again: publishing again");
                self.publication.publish_again();
            }
        }
    }

    /// Notes since when the config on disk is refused, once Redis has told the time.
    pub(super) fn note_refusal(&self) {
        let now = self.time.map(RedisTime::now);
        self.status.send_modify(|status| match &self.refused {
            Some(_) => status.refused_since = status.refused_since.or(now),
            None => status.refused_since = None,
        });
    }

    /// Reads the limits again if another daemon has published, and publishes them again if Redis has lost them.
    fn compare_generation(&mut self, generation: Option<u64>) {
        let known = self.status.borrow().generation;
        match generation {
            None if !self.publication.publishes() => {
                self.status.send_modify(|status| status.nothing_published = true);
            }
            None => {
                tracing::warn!(
                    "nothing is published any more: Redis was flushed or is new; publishing again"
                );
                self.publication.publish_again();
            }
            Some(generation) if generation < known => {
                tracing::warn!(
                    "Redis has an older generation, {generation} instead of {known}: publishing again"
                );
                self.publication.publish_again();
            }
            Some(generation) if generation != known => self.reading = Some(self.read_published(known)),
            Some(_) => {}
        }
    }
}
