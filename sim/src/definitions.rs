//! Limits that code defines, in virtual time. Whole clients quarrel over one limit, a config names it, too, and a daemon
//! removes ended ones.
//!
//! # Laws
//!
//! - *Owner*: from an answered definition to its end, no other owner and no config gets the limit. No code gets that of a
//!   config.
//! - *In force*: from an answered definition to its end, every client finds the limit. No other call brings its end nearer.
//! - *Ended*: a poll after the last end that any definition may have, no client takes. Two looks of a daemon later, the
//!   limit has no record.
//! - *Never over*: in each window, a key has less than one token more than the largest of its terms in force gives. A limit
//!   that is defined anew gives a capacity, and one that ends gives one to clients that do not know of it. A change with
//!   `on_change = "reset"` gives one, and a Redis that lost its data gives two.
//! - *Kept*: the tokens of a key are those of an ideal bucket, over all changes, by `on_change`. A key that the previous
//!   terms fill before it is settled may be full.
//! - *At most*: there are never more definitions than 10,000. None is refused for that while there are fewer.

mod acts;
mod calls;
mod fault;
mod history;
mod laws;
mod looks;

use std::sync::{Arc, Mutex, PoisonError};

use topup_wire::{
    connection::{Connection, connect_in_memory},
    limit::{Algorithm, LimitName, OnChange},
    publishing, scripts,
};

pub use self::fault::DefinitionFault;
use self::history::{Answer, Seen, Told};
use crate::{
    clients::{Clients, LIMIT, Planted, Rule, Ways, alone, name, text},
    dice::Dice,
    ideal::Ideal,
    plan::SECOND,
};

/// Traffic of a run, in µs.
const LASTS: u64 = 8 * SECOND;
/// The longest step of a run.
const STEP: u64 = 30_000;
const KEYS: [&str; 2] = ["acme", "zoo"];
/// A key that only Redis itself is asked for, at known instants.
const STILL: &str = "still";
const OWNERS: [&str; 2] = ["billing", "sales"];
const CONFIG: &str = "shop";
const RULES: [Rule; 5] =
    [Rule::new(2, 1), Rule::new(10, 1), Rule::new(20, 10), Rule::new(4, 20), Rule::new(30, 5)];
/// Longer than any run.
const LONG: u64 = 3_600 * SECOND;
/// Two daemons' looks for ended definitions, in µs.
const LOOKS: u64 = SECOND;

struct World {
    clients: Clients,
    dice: Dice,
    daemon: Connection,
    algorithm: Algorithm,
    on_change: OnChange,
    name: LimitName,
    told: Arc<Mutex<Vec<Told>>>,
    seen: Vec<Seen>,
    flushes: Vec<u64>,
    /// The times in which Redis was away.
    outages: Vec<(u64, u64)>,
    /// The most tokens that the still key may have, and the fewest.
    still: Option<[Ideal; 2]>,
    /// The still key has the bucket of a limit that ended.
    is_left: bool,
    /// From a change to the next take of the still key: the instant at which the previous terms fill it, and what it has
    /// under the present ones if nobody has settled it by then.
    unsettled: Option<(u64, Ideal)>,
    /// Other limits that are defined.
    is_crowded: bool,
    is_late: bool,
    looked_at: u64,
    /// Looks that found as many definitions as there may be.
    full_at: Vec<u64>,
}

/// Runs `seed` with a mistake. Returns the number of answered definitions.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_definitions(seed: u64, fault: Option<DefinitionFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let algorithm = dice.pick(&[Algorithm::TokenBucket, Algorithm::TokenBucket, Algorithm::Gcra]);
        let on_change = dice.pick(&[OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset]);
        let many = dice.pick(&[1, 4, 4, 4, 16]);
        let late = dice.pick(&[0, 0, 20_000, 100_000]);
        let planted = fault.map_or(Planted::Nothing, DefinitionFault::planted);
        let clients = Clients::start(&mut dice, many, Ways::from(late), planted, &[]).await?;
        let daemon = connect_in_memory(clients.topup.redis());
        let (is_crowded, looked_at) = (dice.chance(1, 5), clients.now());
        let mut world = World {
            clients,
            dice,
            daemon,
            algorithm,
            on_change,
            name: name()?,
            told: Arc::default(),
            seen: Vec::new(),
            flushes: Vec::new(),
            outages: Vec::new(),
            still: None,
            is_left: false,
            unsettled: None,
            is_crowded,
            is_late: late > 20_000,
            looked_at,
            full_at: Vec::new(),
        };
        world.run().await
    })
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        if self.is_crowded {
            self.define_others().await?;
        }
        let every = self.dice.pick(&[SECOND / 4, SECOND, 2 * SECOND]);
        let (mut acts_at, mut removes_at, mut has_config) = (0, 0, false);
        while self.clients.now() < ends {
            let gap = self.dice.gap(15_000).min(STEP);
            self.clients.advance(gap).await;
            self.look().await?;
            let now = self.clients.now();
            if now >= removes_at {
                removes_at = now + LOOKS;
                self.remove_ended().await?;
            }
            if now >= acts_at {
                acts_at = now + self.dice.gap(every);
                self.act(&mut has_config).await?;
            }
            for _ in 0..self.dice.pick(&[0, 1, 1, 4]) {
                let key = self.dice.index(KEYS.len());
                let client = self.clients.any(&mut self.dice);
                self.clients.take(&client, (key, KEYS[key]), 1, None);
            }
            if self.dice.chance(1, 20) {
                self.take_still().await?;
            }
        }
        for _ in 0..4 * SECOND / STEP {
            self.clients.advance(STEP).await;
            self.look().await?;
        }
        self.judge().map_err(|law| {
            let many = self.clients.all.len();
            format!("{law}, {many} clients, {:?}, {:?}, {:?}", self.algorithm, self.on_change, self.flushes)
        })?;
        self.nothing_left(has_config).await?;
        let is_done = |told: &&Told| told.answer == Answer::Done;
        Ok(self.told().iter().filter(is_done).count() as u64)
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The daemon's part.
    async fn remove_ended(&mut self) -> Result<(), String> {
        let ended = self.clients.now() - SECOND;
        for name in scripts::ended_definitions(&mut self.clients.redis, ended, 100).await.map_err(text)? {
            publishing::remove_ended(&self.daemon, &name).await.map_err(text)?;
        }
        Ok(())
    }

    /// The clients are gone, and definitions end.
    async fn nothing_left(&mut self, has_config: bool) -> Result<(), String> {
        if has_config {
            self.drop_config().await?;
        }
        self.clients.all.clear();
        for _ in 0..2 {
            self.clients.advance(LONG + 2 * SECOND).await;
            self.remove_ended().await?;
        }
        let left = self.clients.keys_like(&format!("topup:{{{LIMIT}:*:limit")).await?;
        if left.is_empty() { Ok(()) } else { Err(format!("ended: {left:?} is left")) }
    }
}
