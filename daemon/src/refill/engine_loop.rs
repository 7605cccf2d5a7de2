//! The loop of the daemon: commands, turns, and the ends of what is in flight.

use std::{pin::pin, time::Duration};

use tokio::sync::{mpsc, watch};
use topup_wire::scripts;

use super::{
    definitions::remove_ended_definitions,
    engine::Engine,
    engine_settings::EngineCommand,
    holds::sweep_holds,
    in_flight::finished,
    strays::sweep_strays,
    timeouts::{HEARTBEAT_LIFE, turns},
};
use crate::clock::RedisTime;

/// The time between two heartbeats, unless the tick is shorter.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(50);

// === impl Engine ===

impl Engine {
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
}

/// Waits until `stop` is true or its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
