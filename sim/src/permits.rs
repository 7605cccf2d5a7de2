//! Permits in virtual time: the client's leases, the twin of `permits.lua`, lost and late messages, and processes that die.
//!
//! # Laws
//!
//! - *Never one too many*: when a holder learns of its places, those of all holders together are at most the limit. A
//!   holder that was killed counts until the end of the lease that it knew.
//! - *None lost*: no place is taken for longer than a ttl after the last word of its holder.
//! - *In order*: no waiter that is alive is overtaken.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use topup::machine::{Micros, PermitAnswer, PermitLease};
use topup_twin::{PermitFault, PermitTerms, Permits};
use topup_wire::scripts::PermitState;

use crate::dice::Dice;

/// The instant of Redis at the begin.
const BEGIN: u64 = 1_700_000_000_000_000;
/// Tasks of a process.
const TASKS: usize = 3;
/// Steps of a run.
const STEPS: u32 = 3_000;
const POLL: Micros = 50_000;
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

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Asks,
    Waits,
    Holds { until: Micros },
}

#[derive(Clone, Debug)]
struct Task {
    id: String,
    places: u64,
    doing: Doing,
    lease: PermitLease,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Acquire { waits: bool },
    Renew,
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Arrives { task: usize, id: String, places: u64, word: Word, sent: Micros },
    Answered { task: usize, id: String, word: Word, sent: Micros, state: i8, ttl: u64 },
    Late { task: usize, id: String },
    Dies(usize),
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

    fn wake(&mut self, task: usize) {
        let now = self.now;
        match self.tasks[task].doing {
            Doing::Nothing => {
                self.count += 1;
                let places = if self.dice.chance(1, 5) { self.dice.of(1..=self.terms.limit) } else { 1 };
                let of_task = &mut self.tasks[task];
                (of_task.id, of_task.places) = (format!("{task}.{}-{places}", self.count), places);
                (of_task.doing, of_task.lease) = (Doing::Asks, PermitLease::Forgotten);
                let waits = self.dice.chance(3, 4);
                self.send(task, Word::Acquire { waits });
                let id = self.tasks[task].id.clone();
                self.at(now + TIMEOUT, Event::Late { task, id });
            }
            Doing::Asks => {}
            Doing::Waits => {
                if self.dice.chance(1, 30) {
                    self.send(task, Word::Release);
                    return self.rest(task);
                }
                self.send(task, Word::Renew);
                self.at(now + POLL, Event::Wake(task));
            }
            Doing::Holds { until } => {
                let PermitLease::Held { renew_at, .. } = self.tasks[task].lease.at(now) else {
                    self.send(task, Word::Release);
                    return self.rest(task);
                };
                if now >= until {
                    self.send(task, Word::Release);
                    return self.rest(task);
                }
                if now >= renew_at {
                    self.send(task, Word::Renew);
                }
                self.at((now + POLL).min(until.max(now + 1)), Event::Wake(task));
            }
        }
    }

    /// The task does nothing for a while.
    fn rest(&mut self, task: usize) {
        self.tasks[task].doing = Doing::Nothing;
        let at = self.now + self.dice.gap(20_000);
        self.at(at, Event::Wake(task));
    }

    fn latency(&mut self) -> Micros {
        match self.dice.of(0..=19) {
            0 => self.dice.of(1_000..=800_000),
            _ => self.dice.of(100..=3_000),
        }
    }

    fn send(&mut self, task: usize, word: Word) {
        let (id, places, sent) = (self.tasks[task].id.clone(), self.tasks[task].places, self.now);
        if !self.dice.chance(1, 40) {
            let at = sent + self.latency();
            self.at(at, Event::Arrives { task, id, places, word, sent });
        }
    }

    /// Redis executes a command.
    fn arrives(
        &mut self,
        task: usize,
        id: String,
        places: u64,
        word: Word,
        sent: Micros,
    ) -> Result<(), String> {
        self.change();
        let (now, terms) = (self.redis_now(), self.terms);
        let before: Vec<String> = self.redis.holders.iter().map(|(id, ..)| id.clone()).collect();
        let state = match word {
            Word::Acquire { waits } => self.redis.acquire(terms, &id, places, waits, now),
            Word::Renew => self.redis.renew(terms, &id, places, now),
            Word::Release => self.redis.release(terms, [&id[..]], now)[0],
        };
        self.heard.insert(id.clone(), now);
        self.count += 1;
        if state == PermitState::Waiting {
            self.turns.entry(id.clone()).or_insert(self.count);
        }
        for (new, ..) in self.redis.holders.iter().filter(|(id, ..)| !before.contains(id)) {
            let turn = self.turns.get(new).copied().unwrap_or(u64::MAX);
            let overtaken = self.redis.waiters.iter().find(|(one, ..)| self.turns.get(one) < Some(&turn));
            if let Some((one, ..)) = overtaken {
                return Err(format!("in order: {new} overtook {one}"));
            }
        }
        for (one, _, till) in self.redis.holders.iter().chain(&self.redis.waiters) {
            if *till > self.heard.get(one).copied().unwrap_or(0) + terms.longest {
                return Err(format!("none lost: {one} is taken for longer than a ttl after its last word"));
            }
        }
        if word != Word::Release && !self.dice.chance(1, 40) {
            let state = match state {
                PermitState::Held => 1,
                PermitState::Waiting => 2,
                PermitState::Absent | PermitState::ExceedsLimit => 0,
            };
            let at = self.now + self.latency();
            self.at(at, Event::Answered { task, id, word, sent, state, ttl: terms.ttl });
        }
        Ok(())
    }

    fn answered(
        &mut self,
        task: usize,
        id: &str,
        word: Word,
        sent: Micros,
        state: i8,
        ttl: u64,
    ) -> Result<(), String> {
        let now = self.now;
        let of_task = &mut self.tasks[task];
        // A call gives up after its deadline.
        if of_task.id != id || of_task.doing == Doing::Nothing || now > sent + TIMEOUT {
            return Ok(());
        }
        let counts_from = if self.mistake == Some(PermitMistake::CountsFromAnswer) { now } else { sent };
        let answer = match state {
            1 => PermitAnswer::Held { ttl },
            2 => PermitAnswer::Waiting,
            _ => PermitAnswer::Absent,
        };
        let was_held = matches!(of_task.lease.at(now), PermitLease::Held { .. });
        of_task.lease = of_task.lease.answered(answer, counts_from, now);
        let is_held = matches!(of_task.lease, PermitLease::Held { .. });
        match (word, state) {
            _ if is_held && !matches!(of_task.doing, Doing::Holds { .. }) => {
                let until = now + self.dice.gap(300_000);
                self.tasks[task].doing = Doing::Holds { until };
                self.at(now + 1, Event::Wake(task));
            }
            (Word::Acquire { .. }, 2) => {
                of_task.doing = Doing::Waits;
                self.at(now + POLL, Event::Wake(task));
            }
            (_, 0) if !matches!(of_task.doing, Doing::Holds { .. }) => self.rest(task),
            _ => {}
        }
        if is_held && !was_held { self.judge() } else { Ok(()) }
    }

    /// The places that holders have, as they see it, against the largest limit that a lease may come from.
    fn judge(&self) -> Result<(), String> {
        let now = self.now;
        let has = |task: &&Task| {
            matches!(task.doing, Doing::Holds { .. })
                && matches!(task.lease.at(now), PermitLease::Held { .. })
        };
        let alive: u64 = self.tasks.iter().filter(has).map(|task| task.places).sum();
        let dead: u64 = self.ghosts.iter().filter(|(_, until)| *until > now).map(|(places, _)| places).sum();
        // An answer comes within the deadline.
        let effective = self.limits.iter().filter(|(_, ended)| now <= ended.saturating_add(TIMEOUT));
        let most = effective.map(|(limit, _)| *limit).max().unwrap_or(0);
        match alive + dead {
            held if held > most => {
                Err(format!("never one too many: {held} of {most}, {dead} of them killed"))
            }
            _ => Ok(()),
        }
    }

    /// The config or the clock of Redis changes now and then.
    fn change(&mut self) {
        let now = self.now;
        match self.dice.of(0..=599) {
            0 => {
                let limit = self.dice.of(1..=4);
                if let Some((_, ended)) = self.limits.last_mut() {
                    *ended = now;
                }
                self.limits.push((limit, u64::MAX));
                self.terms.limit = limit;
            }
            1 => {
                self.terms.ttl = self.dice.pick(&[500_000, 1_000_000, 3_000_000]);
                self.terms.longest = self.terms.longest.max(self.terms.ttl);
            }
            // Back only: a step forward ends leases early.
            2 => self.ahead -= self.dice.of(1..=5_000_000),
            _ => {}
        }
    }

    fn dies(&mut self, process: usize) {
        for task in process * TASKS..(process + 1) * TASKS {
            let (one, now) = (&mut self.tasks[task], self.now);
            if let (Doing::Holds { .. }, PermitLease::Held { until, .. }) = (one.doing, one.lease.at(now)) {
                self.ghosts.push((one.places, until));
            }
            // Its successor begins anew.
            one.id.clear();
            if !matches!(one.doing, Doing::Nothing) {
                one.doing = Doing::Nothing;
                self.at(now + 1_000, Event::Wake(task));
            }
        }
        let (next, at) = (self.dice.index(self.tasks.len() / TASKS), self.now + self.dice.gap(1_000_000));
        self.at(at, Event::Dies(next));
    }
}
