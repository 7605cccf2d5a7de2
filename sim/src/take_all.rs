//! Takes of several limits in virtual time: whole clients take of a user's bucket and of the one for all users.
//!
//! They get tokens of both or of none, by one native command after the other or by the script. Other takes are of one bucket
//! only. Some callers leave.
//!
//! # Laws
//!
//! - *Never over*: in each window, the allowed takes of a bucket have less than one token above capacity + rate × w.
//! - *To the token*: where no tokens come with time, a bucket misses those of its allowed takes in the end. A call without
//!   an answer may have taken its own. Tokens that go back may be lost on the way, or by a refund meanwhile. So may
//!   leased tokens that come after the deadline.

mod fault;
mod laws;
mod tally;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::task::AbortHandle;
use topup::{Bucket, Client};
use topup_wire::limit::{Algorithm, Capacity, Lease, Limit, LimitName, Rate, Supply, Terms};

pub use self::fault::TakeAllFault;
use self::tally::Tally;
use crate::{
    clients::{Clients, LIMIT, Planted, alone, is_allowed, locked, name, text},
    dice::Dice,
    plan::SECOND,
};

/// The limit for all users.
const ALL: &str = "all";
/// Numbers of users, of which a run has one. Where there are many, most takes are the first ones of their users.
const USERS: [usize; 3] = [3, 3, 300];
/// Traffic of a run, in µs.
const LASTS: u64 = SECOND;

struct World {
    clients: Clients,
    dice: Dice,
    /// The limit of a user, and the one for all.
    limits: [Limit; 2],
    /// Tokens come back within a run.
    refills: bool,
    /// Commands may be late, or callers put tokens back.
    is_disturbed: bool,
    refunds: bool,
    /// One for each user's bucket, the last for the one of all.
    tallies: Vec<Arc<Mutex<Tally>>>,
    /// Callers that leave, and when.
    leave: Vec<(u64, AbortHandle)>,
}

/// Runs `seed` with a mistake. Returns the number of allowed takes.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_take_all(seed: u64, fault: Option<TakeAllFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let refills = dice.chance(1, 2);
        let limits = [
            limit(&mut dice, name()?, refills, [3, 20, 1_000])?,
            limit(&mut dice, ALL.parse().map_err(text)?, refills, [8, 60, 400])?,
        ];
        let many = dice.pick(&[1, 1, 4, 16]);
        // Some replies come after the deadline of 250 ms. Late commands may exceed a limit that refills.
        let late = if refills { 0 } else { dice.pick(&[0, 0, 300_000]) };
        // By a refund, leased tokens may be lost.
        let refunds = limits[1].lease.is_none() && dice.chance(1, 4);
        let planted = fault.map_or(Planted::Nothing, TakeAllFault::planted);
        let clients = Clients::start(&mut dice, many, late, planted, &limits).await?;
        let is_disturbed = late > 0 || refunds;
        let tallies = (0..=dice.pick(&USERS)).map(|_| Arc::default()).collect();
        let leave = Vec::new();
        World { clients, dice, limits, refills, is_disturbed, refunds, tallies, leave }.run().await
    })
}

/// A limit that `refills` within a run, or hardly at all.
fn limit(dice: &mut Dice, name: LimitName, refills: bool, capacities: [u64; 3]) -> Result<Limit, String> {
    let (rate, per) = if refills { (dice.pick(&[1, 10, 100, 1_000]), 1) } else { (1, 3_600) };
    let rate = Rate::new(rate, Duration::from_secs(per)).map_err(text)?;
    let capacity = Capacity::new(dice.pick(&capacities)).map_err(text)?;
    let leased = dice.chance(1, 4);
    let lease = Lease::new(dice.pick(&[10, 100]), Duration::from_millis(dice.pick(&[100, 1_000])));
    let lease = leased.then_some(lease.map_err(text)?);
    let terms = Terms { capacity, supply: Supply::Rate(rate) };
    let keyed = name.as_str() == LIMIT;
    Ok(Limit { lease, keyed, ..Limit::plain(name, Algorithm::TokenBucket, terms) })
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        let gaps = self.dice.pick(&[[500, 500], [4_000, 4_000], [500, 20_000]]);
        while self.clients.now() < ends {
            let gap = self.dice.pick(&gaps);
            let gap = self.dice.gap(gap);
            self.clients.advance(gap).await;
            let now = self.clients.now();
            self.leave.extract_if(.., |(at, _)| *at <= now).for_each(|(_, task)| task.abort());
            // Some come at once.
            let callers = if self.dice.chance(1, 20) { self.dice.of(2..=8) } else { 1 };
            (0..callers).for_each(|_| self.call());
        }
        self.judge().await
    }

    /// A caller of any kind.
    fn call(&mut self) {
        let client = self.clients.any(&mut self.dice);
        let users = self.tallies.len() - 1;
        let user = self.dice.index(users);
        let buckets = [client.limit(LIMIT).key(user.to_string()), client.limit(ALL)];
        let tallies = [user, users].map(|i| self.tallies[i].clone());
        let [mut of_user, mut of_all] = [1, 1];
        if self.dice.chance(1, 8) {
            [of_user, of_all] = [self.dice.of(1..=4), self.dice.of(1..=4)];
        }
        match self.dice.of(0..=9) {
            0 => self.take(&buckets[0], tallies[0].clone(), of_user),
            1 => self.take(&buckets[1], tallies[1].clone(), of_all),
            2 if self.refunds => self.refund(&buckets[1], tallies[1].clone(), of_all),
            _ => self.take_both(client, buckets, tallies, [of_user, of_all]),
        }
    }

    /// A caller takes of both buckets, or of none.
    fn take_both(
        &mut self,
        client: Client,
        buckets: [Bucket; 2],
        tallies: [Arc<Mutex<Tally>>; 2],
        counts: [u64; 2],
    ) {
        let (redis, sent) = (self.clients.topup.redis().clone(), self.clients.now());
        let may_be_lost = self.is_disturbed;
        (0..2).for_each(|i| locked(&tallies[i], |tally| tally.unsure += counts[i]));
        let task = tokio::spawn(async move {
            let Ok(decided) = client.take_all(buckets.into_iter().zip(counts)).await else { return };
            for (tally, count) in tallies.iter().zip(counts) {
                let (is_allowed, now) = (decided.is_allowed(), redis.now());
                locked(tally, |tally| tally.told(sent, now, count, is_allowed, may_be_lost));
            }
        });
        self.may_leave(task.abort_handle());
    }

    /// A caller takes of one bucket.
    fn take(&mut self, bucket: &Bucket, tally: Arc<Mutex<Tally>>, count: u64) {
        let (redis, sent, bucket) = (self.clients.topup.redis().clone(), self.clients.now(), bucket.clone());
        locked(&tally, |tally| tally.unsure += count);
        let task = tokio::spawn(async move {
            if let Some(is_allowed) = is_allowed(&bucket.take(count).await) {
                locked(&tally, |tally| tally.told(sent, redis.now(), count, is_allowed, false));
            }
        });
        self.may_leave(task.abort_handle());
    }

    /// A caller gives back tokens that it has had.
    fn refund(&self, bucket: &Bucket, tally: Arc<Mutex<Tally>>, count: u64) {
        let (redis, bucket) = (self.clients.topup.redis().clone(), bucket.clone());
        if let Some(refund) = locked(&tally, |tally| tally.gives_back(self.clients.now(), count)) {
            tokio::spawn(async move {
                if bucket.refund(count).await.is_ok() {
                    locked(&tally, |tally| tally.given_back(refund, redis.now()));
                }
            });
        }
    }

    /// The caller may leave before its answer comes.
    fn may_leave(&mut self, task: AbortHandle) {
        if self.dice.chance(1, 10) {
            let at = self.clients.now() + self.dice.of(1..=2_000);
            self.leave.push((at, task));
        }
    }
}
