//! Holds in virtual time: whole clients that take at an estimate and settle at what was used, twice, late or never.
//!
//! # Laws
//!
//! - *To the token*: in the end, the tokens that are missing or owed are the sum of all charges. A settled hold was charged its
//!   use. For an abandoned one, its limit tells the charge. A call without an answer may have taken its estimate.
//! - *Debt*: no charge leaves a deeper debt than `max_debt`.
//! - *Nothing left*: a minute later there is no key but the limit's record and counts.

mod fault;
mod laws;
mod ledger;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use topup::Hold;
use topup_wire::{
    limit::{Algorithm, Capacity, Holds, Limit, OnAbandon, Rate, Supply, Terms},
    scripts::{self, HoldOf},
};

pub use self::fault::HoldFault;
use self::ledger::Ledger;
use crate::{
    clients::{Clients, LIMIT, Planted, alone, locked, name, text},
    dice::Dice,
    plan::SECOND,
};

const KEY: &str = "acme";
/// Traffic of a run, in µs.
const LASTS: u64 = 4 * SECOND;
/// The shortest time to live of a hold. It is that of all runs.
const TTL: u64 = SECOND;

/// A hold in use.
struct Used {
    hold: Hold,
    estimate: u64,
    until: u64,
    /// It was settled without an answer, and nobody gives up on it.
    is_tried: bool,
}

struct World {
    clients: Clients,
    dice: Dice,
    limit: Limit,
    ledger: Arc<Mutex<Ledger>>,
    used: Arc<Mutex<Vec<Used>>>,
    /// Holds of holders that died: they are never settled.
    dead: Vec<Used>,
}

/// Runs `seed` with a mistake. Returns the number of holds.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_holds(seed: u64, fault: Option<HoldFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let on_abandon = dice.pick(&[OnAbandon::Charge, OnAbandon::Refund, OnAbandon::Refund]);
        let holds =
            Holds::new(dice.pick(&[0, 10, 200]), on_abandon, Duration::from_micros(TTL)).map_err(text)?;
        let capacity = Capacity::new(dice.pick(&[100, 1_000, 100_000])).map_err(text)?;
        // Nothing comes back by itself in a run.
        let rate = Rate::new(1, Duration::from_secs(3_600)).map_err(text)?;
        let terms = Terms { capacity, supply: Supply::Rate(rate) };
        let algorithm = dice.pick(&[Algorithm::TokenBucket, Algorithm::LazyTokenBucket, Algorithm::Gcra]);
        let limit = Limit { holds, ..Limit::plain(name()?, algorithm, terms) };
        let many = dice.of(1..=3) as usize;
        let planted = fault.map_or(Planted::Nothing, HoldFault::planted);
        // Some replies come after the deadline of 250 ms, and some commands are sent again.
        let late = dice.pick(&[0, 150_000, 300_000]);
        let clients = Clients::start(&mut dice, many, late, planted, std::slice::from_ref(&limit)).await?;
        let (ledger, used) = Default::default();
        World { clients, dice, limit, ledger, used, dead: Vec::new() }.run().await
    })
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        let gap = self.dice.pick(&[3_000, 20_000]);
        let mut sweeps_at = 0;
        while self.clients.now() < ends + 3 * TTL {
            let gap = self.dice.gap(gap);
            self.clients.advance(gap).await;
            let now = self.clients.now();
            if now < ends {
                self.reserve();
            }
            if now >= sweeps_at {
                sweeps_at = now + SECOND / 10;
                self.sweep().await?;
            }
            self.end(now);
        }
        self.judge().await
    }

    /// A caller takes at an estimate.
    fn reserve(&mut self) {
        let bucket = self.clients.any(&mut self.dice).limit(LIMIT).key(KEY);
        let estimate = self.dice.of(1..=9);
        let lasts = self.dice.pick(&[1_000, SECOND / 5, SECOND / 2, TTL + SECOND / 5]);
        let until = self.clients.now() + self.dice.gap(lasts);
        let (ledger, used) = (self.ledger.clone(), self.used.clone());
        tokio::spawn(async move {
            match bucket.reserve_cost(estimate).await {
                Ok(hold) if hold.is_allowed() => {
                    locked(&ledger, |ledger| ledger.holds += 1);
                    locked(&used, |used| used.push(Used { hold, estimate, until, is_tried: false }));
                }
                Ok(_) => {}
                Err(_) => locked(&ledger, |ledger| ledger.unsure += estimate),
            }
        });
    }

    /// The daemon's part: tokens of holders that died are put back.
    async fn sweep(&mut self) -> Result<(), String> {
        let keys = self.clients.keys(&self.limit.name);
        let due = scripts::due_holds(&mut self.clients.redis, &keys, 100).await.map_err(text)?;
        for hold in due.holds {
            let hold = HoldOf {
                algorithm: self.limit.algorithm,
                keys: &keys,
                member: &hold.member,
                id: &hold.id,
                tokens: hold.tokens,
                is_remembered: true,
            };
            // One that meets a counter is put back by the next look.
            scripts::abandon_hold(&mut self.clients.redis, hold, Duration::ZERO).await.map_err(text)?;
        }
        Ok(())
    }

    /// Holds whose use is over are settled, or dropped, or their holder dies.
    fn end(&mut self, now: u64) {
        let over = locked(&self.used, |used| {
            let (over, rest) = std::mem::take(used).into_iter().partition(|one: &Used| one.until <= now);
            *used = rest;
            let over: Vec<Used> = over;
            over
        });
        let stays = self.limit.holds.on_abandon() == OnAbandon::Charge;
        for one in over {
            let abandoned = if stays { one.estimate } else { 0 };
            match self.dice.of(0..=9) {
                _ if one.is_tried => self.settle(one),
                0 => {
                    locked(&self.ledger, |ledger| ledger.charged += abandoned);
                    drop(one.hold);
                }
                1 => {
                    locked(&self.ledger, |ledger| ledger.charged += abandoned);
                    self.dead.push(one);
                }
                _ => self.settle(one),
            }
        }
    }

    fn settle(&mut self, mut one: Used) {
        let actual = self.dice.of(0..=2 * one.estimate);
        let (ledger, used) = (self.ledger.clone(), self.used.clone());
        one.is_tried = true;
        tokio::spawn(async move {
            match one.hold.settle(actual).await {
                Ok(settled) => locked(&ledger, |ledger| ledger.charged += settled.charged),
                // It is settled again, at the number of the first time.
                Err(_) => locked(&used, |used| used.push(one)),
            }
        });
    }
}
