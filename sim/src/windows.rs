//! Fixed windows in virtual time: whole clients count takes by native commands, and scripts do everything else.
//!
//! Takes come in rounds. Between two of them nobody takes for longer than a window, so the first take of a round begins one.
//! Commands are late or get no answer, clients die between any two commands, callers put tokens back, and limits change.
//!
//! # Laws
//!
//! - *Never over*: the takes of a round that were decided within the length of its first window are no more than the limit and
//!   the tokens put back. Where windows are aligned, this holds for each of them.
//! - *Ends*: after all that, a caller who comes when told is allowed the limit in a window, and a window later once more.
//! - *To the token*: tokens that are put back into a window without any left can be taken, and no others. All clients have
//!   asked for more than was left before.

mod fault;
mod laws;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use topup_wire::limit::{Algorithm, Capacity, Limit, Rule, Supply, Terms, Windows};

pub use self::fault::WindowFault;
use crate::{
    clients::{Clients, LIMIT, Planted, alone, locked, name, text},
    dice::Dice,
    plan::SECOND,
};

const KEY: &str = "user";
const ROUNDS: u64 = 4;

/// Tokens that a caller puts back, and when it said so.
#[derive(Clone, Copy, Debug)]
struct PutBack {
    sent: u64,
    count: u64,
}

struct World {
    clients: Clients,
    dice: Dice,
    limit: Limit,
    /// Clients die in this run.
    dies: bool,
    put_back: Arc<Mutex<Vec<PutBack>>>,
}

/// Runs `seed` with a mistake. Returns the number of allowed takes.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_windows(seed: u64, fault: Option<WindowFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        // Some replies come after the deadline of 250 ms, and some commands a window later.
        let late = dice.pick(&[0, 0, 20_000, 300_000]);
        let lengths = if late > 20_000 { [100_000; 3] } else { [100_000, SECOND, 1_234_567] };
        let (length, aligned) = (dice.pick(&lengths), dice.chance(if late > 20_000 { 3 } else { 1 }, 4));
        let limit = limit(dice.pick(&[1, 3, 10, 30]), length, aligned)?;
        let many = dice.pick(&[1, 2, 4, 16]);
        let planted = fault.map_or(Planted::Nothing, WindowFault::planted);
        let clients = Clients::start(&mut dice, many, late, planted, std::slice::from_ref(&limit)).await?;
        let dies = dice.chance(1, 2);
        World { clients, dice, limit, dies, put_back: Arc::default() }.run().await
    })
}

/// A limit of so many tokens in a window of `length` µs.
fn limit(tokens: u64, length: u64, aligned: bool) -> Result<Limit, String> {
    let rule = Rule::new(tokens, Duration::from_micros(length)).map_err(text)?;
    let windows = Windows::new(&[rule], aligned).map_err(text)?;
    let terms = Terms { capacity: Capacity::new(tokens).map_err(text)?, supply: Supply::Windows(windows) };
    Ok(Limit::plain(name()?, Algorithm::FixedWindow, terms))
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let mut allowed = 0;
        for _ in 0..ROUNDS {
            self.pass(self.quiet()).await;
            if self.dice.chance(1, 3) {
                self.change().await?;
            }
            self.round().await?;
            // Callers without an answer give up, and tokens are put back, before the next round.
            self.pass(2 * self.clients.slowest + SECOND).await;
            allowed += self.judge_round()?;
        }
        self.judge_end().await?;
        self.judge_put_backs().await?;
        Ok(allowed)
    }

    /// Length of the windows, in µs, and whether they are aligned.
    fn window(&self) -> (u64, bool) {
        match self.limit.terms.supply {
            Supply::Windows(windows) => (windows.longest(), windows.aligned()),
            _ => (SECOND, false),
        }
    }

    /// A time in which every window ends.
    fn quiet(&self) -> u64 {
        2 * self.window().0 + self.clients.slowest + SECOND / 100
    }

    /// Time passes. A long step would delay control polls, without which scripts take.
    async fn pass(&self, micros: u64) {
        const STEP: u64 = SECOND / 20;
        for _ in 0..micros.div_ceil(STEP) {
            self.clients.advance(STEP).await;
        }
    }

    /// Callers take for up to four windows.
    async fn round(&mut self) -> Result<(), String> {
        let length = self.window().0;
        let gap = self.dice.pick(&[length / 100, length / 40, length / 20]);
        locked(&self.clients.calls, Vec::clear);
        locked(&self.put_back, Vec::clear);
        let (begun, lasts) = (self.clients.now(), self.dice.of(length / 2..=4 * length));
        let mut turn = 0;
        while self.clients.now() < begun + lasts {
            let at = self.dice.index(self.clients.all.len());
            let callers = if self.dice.chance(1, 8) { self.dice.of(2..=20) } else { 1 };
            for _ in 0..callers {
                let count = if self.dice.chance(1, 10) { self.dice.of(2..=4) } else { 1 };
                self.clients.take(&self.clients.all[at], (0, KEY), count, None);
            }
            if self.dice.chance(1, 20) {
                self.refund();
            }
            // Often, the client that has begun a window.
            if self.dies && (turn == 0 || self.dice.chance(1, 20)) {
                // Between any two commands of these takes.
                let after = self.dice.of(0..=1_500);
                self.clients.advance(after).await;
                self.clients.replace(&mut self.dice, at)?;
            }
            turn += 1;
            let gap = self.dice.gap(gap);
            self.clients.advance(gap).await;
        }
        Ok(())
    }

    fn refund(&mut self) {
        let bucket = self.clients.any(&mut self.dice).limit(LIMIT).key(KEY);
        let (count, sent) = (self.dice.of(1..=3), self.clients.now());
        // It may be carried out, whatever its answer.
        locked(&self.put_back, |all| all.push(PutBack { sent, count }));
        tokio::spawn(async move { bucket.refund(count).await });
    }

    /// Another limit is published. Clients may not have heard of it at the next round.
    async fn change(&mut self) -> Result<(), String> {
        let (length, aligned) = self.window();
        let most = self.limit.terms.capacity.get();
        let capacity = self.dice.pick(&[1, 3, 10, 30]).max(most / 2);
        if capacity == most {
            return Ok(());
        }
        let limit = limit(capacity, length, aligned)?;
        self.clients.publish(&limit).await?;
        self.limit = limit;
        // Until then, clients may count by the limit before.
        self.pass(SECOND).await;
        Ok(())
    }
}
