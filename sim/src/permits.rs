//! Permits in virtual time: the client's leases, the twin of `permits.lua`, lost and late messages, and processes that die.
//!
//! # Laws
//!
//! - *Never one too many*: when a holder learns of its places, those of all holders together are at most the limit. A
//!   holder that was killed counts until the end of the lease that it knew.
//! - *None lost*: no place is taken for longer than a ttl after the last word of its holder.
//! - *In order*: no waiter that is alive is overtaken.

mod holders;
mod laws;
mod redis;
mod task;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use topup::machine::{Micros, PermitLease};
use topup_twin::{PermitFault, PermitTerms, Permits};
use topup_wire::scripts::PermitState;

use self::task::{Doing, Event, Task, Word};
use crate::dice::Dice;

/// The instant of Redis at the begin.
const BEGIN: u64 = 1_700_000_000_000_000;
/// Tasks of a process.
const TASKS: usize = 3;
/// Steps of a run.
const STEPS: u32 = 3_000;
/// The longest time that a command waits for an answer: longer than the shortest ttl.
const TIMEOUT: Micros = 1_000_000;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitMistake {
    /// A mistake of the script.
    Script(PermitFault),
    /// A holder counts its lease from the answer, not from the sending.
    CountsFromAnswer,
}

/// One run.
struct World {
    now: Micros,
    dice: Dice,
    queue: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    count: u64,
    tasks: Vec<Task>,
    redis: Permits,
    terms: PermitTerms,
    /// Redis `TIME` is ahead by so much.
    ahead: u64,
    /// The limits in force so far, and when each ended.
    limits: Vec<(u64, Micros)>,
    /// Places of killed holders, and the ends of their leases.
    ghosts: Vec<(u64, Micros)>,
    /// Redis `TIME` of the last word of each id, and its turn.
    heard: BTreeMap<String, u64>,
    turns: BTreeMap<String, u64>,
    mistake: Option<PermitMistake>,
}

/// Runs `seed` with a mistake. Returns the law that is broken.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_permits(seed: u64, mistake: Option<PermitMistake>) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let (limit, ttl) = (dice.of(1..=4), dice.pick(&[500_000, 1_000_000, 3_000_000]));
    let script = if let Some(PermitMistake::Script(fault)) = mistake { Some(fault) } else { None };
    let processes = dice.of(2..=4) as usize;
    let idle = Task { id: String::new(), places: 1, doing: Doing::Nothing, lease: PermitLease::Forgotten };
    let mut world = World {
        now: 0,
        dice,
        queue: BinaryHeap::new(),
        count: 0,
        tasks: vec![idle; processes * TASKS],
        redis: Permits::with_fault(script),
        terms: PermitTerms { limit, ttl, longest: ttl },
        ahead: BEGIN,
        limits: vec![(limit, u64::MAX)],
        ghosts: Vec::new(),
        heard: BTreeMap::new(),
        turns: BTreeMap::new(),
        mistake,
    };
    for task in 0..world.tasks.len() {
        world.at(1_000 * task as u64, Event::Wake(task));
    }
    let first = world.dice.gap(3_000_000);
    world.at(first, Event::Dies(0));
    world.run()
}

// === impl World ===

impl World {
    fn at(&mut self, at: Micros, event: Event) {
        self.count += 1;
        self.queue.push(Reverse((at, self.count, event)));
    }

    fn run(&mut self) -> Result<u64, String> {
        for _ in 0..STEPS {
            let Some(Reverse((at, _, event))) = self.queue.pop() else { break };
            self.now = at;
            self.step(event).map_err(|law| format!("{law} at {at}"))?;
        }
        // All die, and messages on their way arrive.
        while let Some(Reverse((at, _, event))) = self.queue.pop() {
            if let Event::Arrives { task, id, places, word, sent } = event {
                self.now = at;
                self.arrives(task, id, places, word, sent)?;
            }
        }
        self.now += self.terms.longest;
        let limit = self.terms.limit;
        match self.redis.acquire(self.terms, "all", limit, false, self.redis_now()) {
            PermitState::Held => Ok(self.heard.len() as u64),
            state => Err(format!("none lost: {state:?} a ttl after the last word: {:?}", self.redis)),
        }
    }

    const fn redis_now(&self) -> u64 {
        self.now + self.ahead
    }

    /// µs that a message takes.
    fn latency(&mut self) -> Micros {
        match self.dice.of(0..=19) {
            0 => self.dice.of(1_000..=800_000),
            _ => self.dice.of(100..=3_000),
        }
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Wake(task) => self.wake(task),
            Event::Arrives { task, id, places, word, sent } => self.arrives(task, id, places, word, sent)?,
            Event::Answered { task, id, word, sent, state, ttl } => {
                self.answered(task, &id, word, sent, state, ttl)?;
            }
            Event::Late { task, id } => {
                if self.tasks[task].id == id && self.tasks[task].doing == Doing::Asks {
                    self.send(task, Word::Release);
                    self.rest(task);
                }
            }
            Event::Dies(process) => self.dies(process),
        }
        Ok(())
    }
}
