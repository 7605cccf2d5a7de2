//! Mishaps: blocks that end by hand, other penalties, and a Redis that goes away or loses its data.

use topup_wire::scripts;

use super::{KEYS, World, penalty};
use crate::{clients::text, plan::SECOND};

// === impl World ===

impl World {
    /// Somebody ends a block, the config changes, or Redis goes away or loses its data.
    pub(super) async fn mishap(&mut self) -> Result<(), String> {
        match self.dice.of(0..=9) {
            0..=4 => {
                let key = self.dice.index(KEYS.len());
                let now = self.clients.now();
                if self.blocks[key].last().is_some_and(|last| last.until > now && last.ended.is_none()) {
                    let redis = &mut self.clients.redis;
                    scripts::resume(redis, &self.limit.name, Some(KEYS[key])).await.map_err(text)?;
                    self.end(key);
                }
            }
            5..=7 => {
                let penalty = penalty(&mut self.dice, self.is_slow)?;
                if self.limit.penalty != Some(penalty) {
                    self.limit.penalty = Some(penalty);
                    self.terms.push((self.clients.now(), penalty));
                    self.clients.publish(&self.limit.clone()).await?;
                }
            }
            8 => {
                let (redis, from) = (self.clients.topup.redis().clone(), self.clients.now());
                redis.set_away(true);
                let lasts = self.dice.gap(SECOND / 2);
                self.clients.advance(lasts).await;
                redis.set_away(false);
                self.outages.push((from, self.clients.now()));
                self.look().await?;
            }
            _ => {
                self.clients.topup.redis().flush();
                self.flushes.push(self.clients.now());
                (0..KEYS.len()).for_each(|key| self.end(key));
                self.clients.publish(&self.limit.clone()).await?;
            }
        }
        Ok(())
    }

    /// A block ends before its time.
    fn end(&mut self, key: usize) {
        let now = self.clients.now();
        if let Some(last) = self.blocks[key].last_mut().filter(|last| last.until > now) {
            last.ended.get_or_insert(now);
        }
    }
}
