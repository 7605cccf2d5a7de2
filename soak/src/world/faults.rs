//! Faults: the network, signals, scripts and configs.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Worker, World, running::BAD};
use crate::{
    limits,
    plan::{Fault, Kind, Network, Target},
};

// === impl World ===

impl World {
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
}
