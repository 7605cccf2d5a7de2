//! Penalties in virtual time: whole clients, and keys that are denied again and again.
//!
//! # Laws
//!
//! - *Earned*: a block begins after as many denied takes as the penalty says, within its time and that of a hand-over.
//!   Takes that were denied within a block do not count.
//! - *Blocked*: twice as many denied takes less one always begin a block, if they come within that time less that of a
//!   hand-over. A block that somebody ended stands in the way until it would have been over.
//! - *Length*: a block takes as long as the penalty says, and the time of two answers at most. Nothing makes it longer. A key
//!   that stays free for as long as its last block took begins anew. A block that Redis refused begins later, and has
//!   its first end.
//! - *Held*: no take of the key is allowed from the next poll of a worker to the end of the block. The poll
//!   comes within 250 ms and the time of a few commands.
//! - *Told*: a denial tells the end of a block, or a wait for tokens. No worker tells of a block a poll after it was ended.
//! - *Nothing left*: a key that nobody takes from has no key in Redis once its last block and as much time again are over.

mod block;
mod fault;
mod laws;
mod looks;
mod mishaps;

use std::time::Duration;

use topup_wire::limit::{Algorithm, Limit, Penalty};

use self::block::Block;
pub use self::fault::PenaltyFault;
use crate::{
    clients::{Clients, LIMIT, Planted, Rule, Ways, alone, name, text},
    dice::Dice,
    plan::SECOND,
};

/// Traffic of a run, in µs.
const LASTS: u64 = 16 * SECOND;
/// The longest step of a run.
const STEP: u64 = 40_000;
/// A client with commands that take no longer than this never loses an answer.
const SURE: u64 = 20_000;
/// The times between takes of a key, of which few are denied or most.
const SLOWLY: [u64; 4] = [400_000, 400_000, 500_000, 5 * SECOND];
const QUICKLY: [u64; 4] = [15_000, 60_000, 400_000, 5 * SECOND];
const KEYS: [&str; 2] = ["eve", "bot"];
/// Tokens come slowly, and denied takes do not.
const RULES: [Rule; 3] = [Rule::new(1, 1), Rule::new(5, 1), Rule::new(3, 4)];
/// The shortest block of any penalty, in µs.
const SHORTEST: u64 = 2 * SECOND;
/// The longest block of any penalty, in seconds.
const LONGEST: u64 = 9;

/// A penalty in force since an instant.
type Terms = (u64, Penalty);

struct World {
    clients: Clients,
    dice: Dice,
    rule: Rule,
    limit: Limit,
    /// Commands are late by more than [`SURE`].
    is_late: bool,
    /// Some blocks are refused by Redis.
    is_refused: bool,
    is_slow: bool,
    terms: Vec<Terms>,
    blocks: [Vec<Block>; KEYS.len()],
    /// When Redis was away, and when it lost its data.
    outages: Vec<(u64, u64)>,
    flushes: Vec<u64>,
    /// When the blocks were noted last.
    looked_at: u64,
}

/// Runs `seed` with a mistake. Returns the number of blocks.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_penalties(seed: u64, fault: Option<PenaltyFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let algorithm = dice.pick(&[Algorithm::TokenBucket, Algorithm::LazyTokenBucket, Algorithm::Gcra]);
        let is_slow = dice.chance(1, 3);
        let penalty = penalty(&mut dice, is_slow)?;
        let rule = dice.pick(&RULES);
        let limit = Limit { algorithm, penalty: Some(penalty), ..rule.limit(name()?)? };
        let many = dice.pick(&[1, 1, 1, 4, 4, 4, 4, 4, 16, 16, 64]);
        // Some replies come after the deadline of 250 ms.
        let late = dice.pick(&[0, SURE, SURE, 300_000]);
        let planted = fault.map_or(Planted::Nothing, PenaltyFault::planted);
        let is_refused = dice.chance(1, 5);
        let ways = if is_refused { Ways::from(0).refusing(b"pause") } else { late.into() };
        let clients = Clients::start(&mut dice, many, ways, planted, std::slice::from_ref(&limit)).await?;
        let looked_at = clients.now();
        let mut world = World {
            clients,
            dice,
            rule,
            limit,
            is_late: !is_refused && late > SURE,
            is_refused,
            is_slow,
            terms: vec![(0, penalty)],
            blocks: Default::default(),
            outages: Vec::new(),
            flushes: Vec::new(),
            looked_at,
        };
        world.run().await
    })
}

fn penalty(dice: &mut Dice, is_slow: bool) -> Result<Penalty, String> {
    let (after, within) = (if is_slow { 8 } else { dice.pick(&[1, 3, 8, 20]) }, dice.pick(&[2, 3, 6]));
    let [within, block, longest] =
        [within, dice.pick(&[2, 3]), dice.of(3..=LONGEST)].map(Duration::from_secs);
    Penalty::new(after, within, block, dice.pick(&[1, 2, 3]), longest).map_err(text)
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        let often = if self.is_slow { SLOWLY } else { QUICKLY };
        let (mut gaps, mut next) = ([often[0]; KEYS.len()], [0; KEYS.len()]);
        let mut mishap_at = self.clients.now() + self.dice.gap(5 * SECOND);
        while self.clients.now() < ends {
            let gap = self.dice.gap(15_000).min(STEP);
            self.clients.advance(gap).await;
            self.look().await?;
            let now = self.clients.now();
            if now >= mishap_at {
                mishap_at = now + self.dice.gap(5 * SECOND);
                self.mishap().await?;
            }
            for key in 0..KEYS.len() {
                if self.dice.chance(1, 150) {
                    gaps[key] = self.dice.pick(&often);
                }
                if now >= next[key] {
                    next[key] = now + self.dice.gap(gaps[key]);
                    let client = self.clients.any(&mut self.dice);
                    self.clients.take(&client, (key, KEYS[key]), 1, None);
                }
            }
        }
        for _ in 0..2 * SECOND / STEP {
            self.clients.advance(STEP).await;
            self.look().await?;
        }
        let calls = self.clients.calls_of(KEYS.len());
        for (key, calls) in calls.iter().enumerate() {
            let blocks = &self.blocks[key];
            self.judge(blocks, calls).map_err(|law| {
                let (many, slowest) = (self.clients.all.len(), self.clients.slowest);
                let Self { terms, outages, flushes, .. } = self;
                let key = KEYS[key];
                format!(
                    "{law}, {many} clients, slowest {slowest}, {key}, {terms:?}, {blocks:?}, away {outages:?}, \
                     {flushes:?}"
                )
            })?;
        }
        self.nothing_left().await?;
        Ok(self.blocks.iter().map(|blocks| blocks.len() as u64).sum())
    }

    /// The clients are gone.
    async fn nothing_left(&mut self) -> Result<(), String> {
        self.clients.all.clear();
        self.clients.advance(2 * LONGEST * SECOND + SECOND).await;
        let mut left = self.clients.keys_like(&format!("topup:{{{LIMIT}:*:penalty:*")).await?;
        left.extend(self.clients.keys_like("topup:*pauses").await?);
        if left.is_empty() { Ok(()) } else { Err(format!("nothing left: {left:?}")) }
    }
}
