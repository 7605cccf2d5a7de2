//! Acts of a run: definitions and their ends, a config, and mishaps.

use std::time::Duration;

use redis::Cmd;
use topup::Defined;
use topup_wire::{
    connection::connect_in_memory,
    limit::MOST_DEFINED,
    namespace::Namespace,
    scripts::{self, Health},
};

use super::{LONG, OWNERS, RULES, STEP, World, history::Asked};
use crate::{
    clients::{LIMIT, text},
    plan::SECOND,
};

// === impl World ===

impl World {
    /// A client defines or undefines the limit, the config takes or drops it, a client dies, or Redis loses its data.
    pub(super) async fn act(&mut self, has_config: &mut bool) -> Result<(), String> {
        let owner = if self.dice.chance(1, 4) { 1 } else { 0 };
        match self.dice.of(0..=29) {
            0..=21 => {
                let rule = self.dice.pick(&RULES);
                let lasts = self.dice.pick(&[SECOND, SECOND, 2 * SECOND, 3 * SECOND, LONG]);
                let name = if self.is_crowded && self.dice.chance(2, 3) { "spare" } else { LIMIT };
                self.define(name, owner, rule, lasts);
            }
            22 | 23 => {
                let client = self.clients.any(&mut self.dice);
                let undefine = client.undefine(LIMIT).owner(OWNERS[owner]);
                self.tell(Asked::Undefine(owner), async move { undefine.await.map(|_| Defined::Renewed) });
            }
            24..=26 if *has_config => {
                *has_config = false;
                self.drop_config().await?;
            }
            24..=26 => *has_config = self.claim().await?,
            27 => {
                // A holder that died goes on no more. Another client takes its place.
                let at = self.dice.index(self.clients.all.len());
                self.clients.replace(&mut self.dice, at)?;
            }
            28 => {
                self.clients.topup.redis().flush();
                *has_config = false;
                self.is_crowded = false;
                self.flushes.push(self.clients.now());
                let (redis, long) = (&mut self.clients.redis, Duration::from_micros(LONG));
                scripts::heartbeat(redis, "daemon", long, &Health::default()).await.map_err(text)?;
            }
            _ => {
                let (redis, lasts) = (self.clients.topup.redis().clone(), self.dice.gap(SECOND / 4));
                let from = self.clients.now();
                redis.set_away(true);
                for _ in 0..lasts.div_ceil(STEP) {
                    self.clients.advance(STEP).await;
                    self.look().await?;
                }
                redis.set_away(false);
                self.outages.push((from, self.clients.now()));
                self.daemon = connect_in_memory(&redis);
            }
        }
        Ok(())
    }

    /// Up to one definition fewer than there may be.
    pub(super) async fn define_others(&mut self) -> Result<(), String> {
        let (mut defined, mut ends) = (Cmd::new(), Cmd::new());
        defined.arg("HSET").arg(Namespace::default().defined());
        ends.arg("ZADD").arg(Namespace::default().ends());
        for other in 1..MOST_DEFINED {
            defined.arg(format!("other-{other}")).arg("others");
            ends.arg(2 * self.clients.now()).arg(format!("other-{other}"));
        }
        for command in [defined, ends] {
            command.exec_async(&mut self.clients.redis).await.map_err(text)?;
        }
        Ok(())
    }
}
