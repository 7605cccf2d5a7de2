//! Series of changes while nobody takes, between two bursts that take all there is.

use topup_wire::limit::LimitName;

use super::{KEYS, World};
use crate::{
    clients::{Call, locked},
    plan::SECOND,
};

/// Times between changes of a series, in µs. Some plans fill in less, others in much more.
const GAPS: [u64; 4] = [0, 200_000, SECOND, 4 * SECOND];
/// Takes of a burst: more than any plan has.
const BURST: u64 = 40;

// === impl World ===

impl World {
    /// Takes all tokens of a key, charges it, changes its plan again and again, and takes all tokens then.
    pub(super) async fn series(&mut self) -> Result<(), String> {
        let key = self.dice.index(KEYS.len());
        if self.dice.chance(3, 4) {
            self.burst(key).await;
        }
        if self.max_debt > 0 && self.dice.chance(2, 3) {
            self.charge(key).await;
        }
        let changes = if self.dice.chance(1, 8) { 10 } else { self.dice.of(2..=5) };
        let gap = self.dice.pick(&GAPS);
        for _ in 0..changes {
            match self.dice.index(5) {
                0 => self.reload().await?,
                origin => self.assign_key(origin % 2, key).await?,
            }
            let gap = self.dice.gap(gap.max(1));
            self.clients.advance(gap).await;
        }
        let longest = self.dice.pick(&[0, SECOND, 5 * SECOND]);
        let rest = 3 * SECOND / 2 + self.dice.of(0..=longest);
        self.clients.advance(rest).await;
        self.burst(key).await;
        Ok(())
    }

    async fn burst(&mut self, key: usize) {
        for _ in 0..BURST {
            let client = self.clients.any(&mut self.dice);
            self.clients.take(&client, (key, KEYS[key]), 1, None);
        }
        self.clients.advance(self.clients.slowest + 20_000).await;
    }

    /// A client charges a key more than it may have.
    async fn charge(&mut self, key: usize) {
        let (bucket, count) =
            (self.clients.any(&mut self.dice).limit("user").key(KEYS[key]), self.dice.of(1..=2 * BURST));
        let (redis, charges) = (self.clients.topup.redis().clone(), self.charges.clone());
        let sent = self.clients.now();
        tokio::spawn(async move {
            if let Ok(charged) = bucket.charge(count).await {
                let (is_allowed, received) = (Some(true), redis.now());
                let call =
                    Call { key, count: charged.charged, sent, received, is_allowed, ..Call::default() };
                locked(&charges, |charges| charges.push(call));
            }
        });
        self.clients.advance(self.clients.slowest + 20_000).await;
    }

    /// Assigns `key` by hand (0) or by the source (1).
    pub(super) async fn assign_key(&mut self, origin: usize, key: usize) -> Result<(), String> {
        let assignment = self.assignment()?;
        let set: LimitName = if origin == 0 { self.limit.name } else { self.limit.name.source() };
        self.say((origin, key), set, assignment).await
    }
}
