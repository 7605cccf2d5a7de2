//! A worker: its clock, the state of its control poll, and the machine of each bucket.

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use topup::machine::{BucketState, Context, FirstTakes, HotCell, Micros, RedisTime, Timers, Waiter};

use crate::{dice::Dice, in_flight::SentCorrection, plan::Plan, read_limit::ReadLimit};

/// The longest time from a take to its answer, in µs.
pub(crate) const DEADLINE: Micros = 250_000;
/// An estimate is trusted for so long after the sending of the last poll that was answered, in µs.
const TRUST: Micros = 700_000;
/// A poll older than that says that Redis is out of sight, in µs.
const IN_SIGHT: Micros = 750_000;
/// All first takes, the weight of the last, and the share of them that may be in vain.
const ALL: u32 = 1 << 16;
const WEIGHT: u32 = 64;
const WORTH_TRYING: u32 = ALL / 100 * 60;
const SURE: u32 = ALL / 100 * 5;
const FADES: u32 = 4;

/// A caller that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) id: usize,
    pub(crate) left: Rc<Cell<bool>>,
}

impl Waiter for Caller {
    fn has_left(&self) -> bool {
        self.left.get()
    }
}

/// The state told by control polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// `None`: Redis is out of sight.
    generation: Option<u64>,
    pub(crate) epoch: u64,
    daemon_alive: bool,
    pub(crate) trusted_until: Micros,
    redis_now: u64,
    pub(crate) redis: RedisTime,
}

/// A bucket in a worker.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) machine: BucketState<Caller>,
    pub(crate) hot: HotCell,
    /// Instant of the next timer. 0 where there is none.
    pub(crate) armed_at: Micros,
    /// Doubts of the judge for which no settle has been written.
    pub(crate) doubts: Vec<u64>,
    /// Tokens that no caller was told of yet, the oldest first: the order of their command, and how many.
    pub(crate) untold: VecDeque<(u64, u64)>,
}

/// A clock that is a little off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Its reading when the run begins.
    zero: u64,
    /// Parts per million that it is fast.
    fast: i64,
}

/// A process that takes.
pub(crate) struct Worker {
    pub(crate) clock: Clock,
    pub(crate) control: Control,
    pub(crate) published: Option<Rc<ReadLimit>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) timers: Timers<usize>,
    /// When its timers are looked at next, in the run's time.
    pub(crate) looks_at: Option<u64>,
    /// Until then its connection has carried commands, in the run's time: none overtakes another.
    pub(crate) carried_until: u64,
    /// Corrections that go with the next command.
    pub(crate) corrections: Vec<SentCorrection>,
    /// Callers that wait for the limit to be read.
    pub(crate) reading: Vec<usize>,
    pub(crate) is_reading: bool,
    round_trip: Micros,
    in_vain: u32,
}

// === impl Entry ===

impl Entry {
    /// Takes out so many of the tokens that no caller was told of, those of the command with the order `of` first.
    pub(crate) fn tell_of(&mut self, count: u64, of: Option<u64>) {
        let mut rest = count;
        if let Some((_, tokens)) = self.untold.iter_mut().find(|(order, _)| Some(*order) == of) {
            let some = rest.min(*tokens);
            (*tokens, rest) = (*tokens - some, rest - some);
        }
        self.take_untold(rest);
    }

    /// Takes out so many of the tokens that no caller was told of, the oldest first. Returns how many there were.
    pub(crate) fn take_untold(&mut self, count: u64) -> u64 {
        let mut rest = count;
        while rest > 0
            && let Some((_, tokens)) = self.untold.front_mut()
        {
            let some = rest.min(*tokens);
            (*tokens, rest) = (*tokens - some, rest - some);
            if *tokens == 0 {
                self.untold.pop_front();
            }
        }
        count - rest
    }
}

// === impl Clock ===

impl Clock {
    /// Its reading at an instant of the run.
    pub(crate) const fn at(self, run: u64) -> Micros {
        let parts = (run as i128) * (1_000_000 + self.fast as i128) / 1_000_000;
        self.zero + parts as u64
    }

    /// The first instant of the run at which it shows `local`.
    pub(crate) const fn run(self, local: Micros) -> u64 {
        let parts = local.saturating_sub(self.zero) as i128;
        let per = 1_000_000 + self.fast as i128;
        ((parts * 1_000_000 + per - 1) / per) as u64
    }
}

// === impl Control ===

impl Control {
    /// Takes note of a poll sent at `sent` and answered at `received`.
    pub(crate) fn note(
        &mut self,
        generation: u64,
        daemon_alive: bool,
        redis_now: u64,
        sent: Micros,
        received: Micros,
    ) {
        if self.generation.replace(generation) != Some(generation) {
            self.epoch += 1;
        }
        (self.daemon_alive, self.redis_now) = (daemon_alive, redis_now);
        self.redis = self.redis.heard(redis_now, sent, received);
        self.trusted_until = sent + TRUST;
    }

    /// Redis gives no answer in time.
    pub(crate) fn lose_sight(&mut self, now: Micros) {
        if now > self.trusted_until + (IN_SIGHT - TRUST) {
            (self.daemon_alive, self.generation, self.redis) = (false, None, RedisTime::default());
        }
    }

    /// The connection is broken.
    pub(crate) fn break_off(&mut self) {
        (self.trusted_until, self.daemon_alive, self.generation) = (0, false, None);
        self.redis = RedisTime::default();
    }
}

// === impl Worker ===

impl Worker {
    pub(crate) fn new(plan: &Plan, dice: &mut Dice) -> Self {
        let fast = if plan.drift == 0 { 0 } else { dice.of(0..=2 * plan.drift) as i64 - plan.drift as i64 };
        Self {
            clock: Clock { zero: dice.of(1..=10_000_000), fast },
            control: Control::default(),
            published: None,
            entries: (0..plan.buckets).map(|_| Entry::default()).collect(),
            timers: Timers::default(),
            looks_at: None,
            carried_until: 0,
            corrections: Vec::new(),
            reading: Vec::new(),
            is_reading: false,
            round_trip: 0,
            in_vain: 0,
        }
    }

    /// The limit as it was read under the present epoch.
    pub(crate) fn current(&self) -> Option<Rc<ReadLimit>> {
        self.published.clone().filter(|published| published.epoch == self.control.epoch)
    }

    /// A bucket, and the context of its steps.
    pub(crate) fn surroundings<'a>(
        &'a mut self,
        bucket: usize,
        published: &'a ReadLimit,
        now: Micros,
    ) -> (&'a mut BucketState<Caller>, Context<'a>) {
        let pay = self.control.redis_now >= published.absent_full_at
            && (published.terms.rests_as_number() || self.first_takes_pay());
        let first_takes = match pay {
            true if self.in_vain < SURE => FirstTakes::Sure,
            true => FirstTakes::Likely,
            false => FirstTakes::Unlikely,
        };
        let trusted = published.epoch == self.control.epoch && !published.frozen;
        let trusted_until = if trusted {
            published.terms.trusted_until(self.control.trusted_until, self.control.redis)
        } else {
            0
        };
        let Entry { machine, hot, .. } = &mut self.entries[bucket];
        let context = Context {
            now,
            terms: &published.terms,
            epoch: self.control.epoch,
            trusted_until,
            deadline: DEADLINE,
            round_trip: self.round_trip,
            daemon_alive: self.control.daemon_alive,
            first_takes,
            redis: self.control.redis,
            enforced: true,
            paused_until: 0,
            hot,
        };
        (machine, context)
    }

    /// Takes note of a command that took so long.
    pub(crate) fn note_round_trip(&mut self, took: Micros) {
        let now = self.round_trip - self.round_trip / 16 + took / 16;
        self.round_trip = now.min(DEADLINE / 2);
    }

    pub(crate) fn note_first_take(&mut self, in_vain: bool) {
        self.in_vain = self.in_vain - self.in_vain / WEIGHT + if in_vain { ALL / WEIGHT } else { 0 };
    }

    fn first_takes_pay(&mut self) -> bool {
        if self.in_vain < WORTH_TRYING {
            return true;
        }
        self.in_vain -= FADES;
        false
    }
}
