//! The laws of holds: see [the module above](super).

use topup_wire::{bucket::Operation, scripts};

use super::{KEY, World};
use crate::{
    clients::{LIMIT, locked, text},
    plan::SECOND,
};

/// Redis remembers settled holds for so long.
const REMEMBERED: u64 = 65 * SECOND;

// === impl World ===

impl World {
    pub(super) async fn judge(&mut self) -> Result<u64, String> {
        // Calls without an answer yet are settled.
        let mut quiet = 0;
        while quiet < 20 {
            self.clients.advance(SECOND / 20).await;
            let left = locked(&self.used, std::mem::take);
            quiet = if left.is_empty() { quiet + 1 } else { 0 };
            left.into_iter().for_each(|one| self.settle(one));
        }
        let (ledger, keys) = (locked(&self.ledger, |ledger| *ledger), self.clients.keys(&self.limit.name));
        let (capacity, most_debt) = (self.limit.terms.capacity.get(), self.limit.holds.max_debt());
        let mut settle = async |operation| {
            let algorithm = self.limit.algorithm;
            let redis = &mut self.clients.redis;
            scripts::settle(redis, algorithm, &keys, KEY, operation, false, None).await.map_err(text)
        };
        // A bucket in debt shows no tokens. The tokens put back until it has some are the debt.
        let (mut missing, mut put_back) = (capacity - settle(Operation::Peek(1)).await?.tokens, 0);
        while missing == capacity && put_back <= most_debt + 1 {
            missing = capacity - settle(Operation::Refund(1)).await?.tokens;
            put_back += 1;
        }
        missing += put_back;
        let told =
            format!("{missing} are missing, {ledger:?}, {:?}, {:?}", self.limit.algorithm, self.limit.holds);
        if missing > capacity + most_debt {
            return Err(format!("debt: {told}"));
        }
        if !(ledger.charged..=ledger.charged + ledger.unsure).contains(&missing) {
            return Err(format!("to the token: {told}"));
        }
        settle(Operation::Reset).await?;
        self.clients.advance(REMEMBERED).await;
        let left = self.clients.keys_like(&format!("topup:{{{LIMIT}:*")).await?;
        match left.iter().all(|key| *key == keys.record || key.ends_with(":counts")) {
            true => Ok(ledger.holds),
            false => Err(format!("nothing left: {left:?}")),
        }
    }
}
