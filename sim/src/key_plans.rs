//! Plans of keys in virtual time: whole clients, and somebody who assigns keys by hand, by a source and by the config.
//!
//! # Laws
//!
//! - *Never over*: a window gives a key less than one token above `capacity + refills`. The capacity is that of its plan at
//!   the beginning, and the refills are by its rates since. The plan may change often while nobody takes. With
//!   `on_change = "proportional"`, the same holds for shares of the capacities. Charges count up to the last take that is
//!   allowed: debt goes with the key. A bucket that is full by the time its tokens are moved counts as full at the change. After the time in which
//!   the slowest plan fills, Redis forgets the bucket of an exempt or denied key. The next one is full then. With `"reset"`, each
//!   change gives the largest capacity.
//! - *At its instant*: an exempt key is never denied and a denied key never served, from the instant of the assignment to its end.
//! - *Kept*: a key that nobody takes from keeps its tokens over changes. After the time of two tokens under any of its plans, or
//!   of three if several takes ask at once, it has one.
//! - *Moved*: with `on_change = "keep"`, a key that takes in bursts only has the tokens that a move at each change leaves. Each
//!   move may lose less than one of them.
//! - *In time*: an assignment is in force within 1.5 s.

mod changes;
mod fault;
mod laws;
mod periods;
mod series;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use topup_wire::limit::{Assignment, Holds, Limit, OnAbandon, OnChange, PlanName, Plans};

pub use self::fault::KeyPlanFault;
use crate::{
    clients::{Call, Clients, Planted, Rule, alone, locked, name, text},
    dice::Dice,
    plan::SECOND,
};

/// Traffic of a run, in µs.
const LASTS: u64 = 12 * SECOND;
/// A token may come so late: a key at rest lives longer than its bucket is below full, and instants are in ms.
const LATE: u64 = 5_000;
const KEYS: [&str; 3] = ["acme", "ac", "zoo"];
const PLANS: [&str; 2] = ["silver", "gold"];
/// Terms of plans, and of the limit itself.
const RULES: [Rule; 8] = [
    Rule::new(2, 1),
    Rule::new(4, 2),
    Rule::new(10, 1),
    Rule::new(12, 2),
    Rule::new(20, 10),
    Rule::new(1, 3),
    Rule::new(30, 5),
    Rule::new(8, 20),
];

/// An assignment, in force from an instant on.
#[derive(Clone, Copy, Debug)]
struct Said {
    at: u64,
    assignment: Option<Assignment>,
}

struct World {
    clients: Clients,
    dice: Dice,
    rules: [Rule; 3],
    limit: Limit,
    /// By hand, and by the source, for each key.
    said: [[Vec<Said>; KEYS.len()]; 2],
    configs: Vec<(u64, Plans)>,
    /// The most tokens of a take.
    most: u64,
    max_debt: u64,
    /// Keys are used in bursts only. Plans change between them.
    is_quiet: bool,
    /// Charged tokens.
    charges: Arc<Mutex<Vec<Call>>>,
}

/// Runs `seed` with a mistake. Returns the number of takes.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_key_plans(seed: u64, fault: Option<KeyPlanFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let rules = [(); 3].map(|()| dice.pick(&RULES));
        let on_change = dice.pick(&[OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset]);
        let (own, max_debt) = (name()?, dice.pick(&[0, 0, 5, 60]));
        let plans = plan_names()?;
        let mut limits: Vec<Limit> = Vec::new();
        for (rule, name) in rules.iter().zip([own, own.plan(plans[0]), own.plan(plans[1])]) {
            limits.push(Limit { on_change, holds: holds(max_debt)?, ..rule.limit(name)? });
        }
        limits[0].plans = Plans::new(plans, []);
        limits[0].plans_fill = limits.iter().map(Limit::fill_time).max().unwrap_or(0);
        let many = dice.of(1..=4) as usize;
        let planted = fault.map_or(Planted::Nothing, KeyPlanFault::planted);
        // A command is on its way for less than 250 ms.
        let late = dice.pick(&[0, 0, 150_000, 200_000]);
        let clients = Clients::start(&mut dice, many, late, planted, &limits).await?;
        let (most, is_quiet) = (dice.pick(&[1, 1, 3]), dice.chance(1, 2));
        let configs = vec![(0, limits[0].plans.clone())];
        let mut world = World {
            clients,
            dice,
            rules,
            limit: limits.swap_remove(0),
            said: Default::default(),
            configs,
            most,
            max_debt,
            is_quiet,
            charges: Arc::default(),
        };
        world.run().await
    })
}

/// The holds of a limit with such a debt.
pub(super) fn holds(max_debt: u64) -> Result<Holds, String> {
    Holds::new(max_debt, OnAbandon::Charge, Holds::DEFAULT_TTL).map_err(text)
}

fn plan_names() -> Result<[PlanName; 2], String> {
    let [one, two] = PLANS.map(|plan| plan.parse().map_err(text));
    Ok([one?, two?])
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        let (mut busy, changes_every) = ([0; KEYS.len()], self.dice.of(300_000..=2 * SECOND));
        let mut changes_at = self.clients.now() + self.dice.gap(changes_every);
        while self.is_quiet && self.clients.now() < ends + 2 * LASTS {
            self.series().await?;
            let rest = self.dice.of(0..=12 * SECOND);
            self.clients.advance(rest).await;
        }
        while self.clients.now() < ends {
            let gap = self.dice.gap(12_000);
            self.clients.advance(gap).await;
            let now = self.clients.now();
            if now >= changes_at {
                changes_at = now + self.dice.gap(changes_every);
                match self.dice.index(10) {
                    0 | 1 => self.reload().await?,
                    2 | 3 => self.series().await?,
                    _ => self.assign().await?,
                }
            }
            let key = self.dice.index(KEYS.len());
            if self.dice.chance(1, 60) {
                // No client asks for the key for a while.
                busy[key] = now + self.dice.gap(2 * SECOND);
            }
            if now >= busy[key] {
                self.ask(key);
            }
        }
        self.clients.advance(5 * SECOND).await;
        let calls = self.clients.calls_of(KEYS.len());
        let charges = locked(&self.charges, |charges| charges.clone());
        for (key, calls) in calls.iter().enumerate() {
            let periods = self.periods(key);
            let charges: Vec<Call> = charges.iter().filter(|call| call.key == key).copied().collect();
            self.judge(key, &periods, calls, &charges).map_err(|law| {
                format!("{law}, key {}, {:?}, {:?}, {periods:?}", KEYS[key], self.rules, self.limit.on_change)
            })?;
        }
        // A take of more tokens than a plan's capacity is an error.
        let least = self.rules.iter().map(|rule| rule.capacity).min().unwrap_or(0);
        let asked = calls.iter().flatten().filter(|call| call.count <= least).count();
        let answered = calls.iter().flatten().filter(|call| call.is_allowed.is_some()).count();
        // A burst may wait for one late command, and fail as a whole.
        if answered * 10 < asked * 3 && !self.is_quiet {
            return Err(format!("answered: {answered} of {asked}"));
        }
        Ok(answered as u64)
    }

    /// Takes of a key, by any client.
    fn ask(&mut self, key: usize) {
        for _ in 0..self.dice.pick(&[1, 1, 1, 5]) {
            let client = self.clients.any(&mut self.dice);
            let count = self.dice.of(1..=self.most);
            let patience =
                self.dice.chance(1, 20).then(|| Duration::from_micros(self.dice.of(0..=2 * SECOND)));
            self.clients.take(&client, (key, KEYS[key]), count, patience);
        }
    }
}
