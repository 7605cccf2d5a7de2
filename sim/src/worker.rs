//! A worker: its clock, the state of its control poll, and the machine of each bucket.

mod clock;
mod control;
mod entry;

use std::rc::Rc;

use topup::machine::{BucketState, Context, FirstTakes, Micros, Timers};

pub(crate) use self::entry::Caller;
use self::{clock::Clock, control::Control, entry::Entry};
use crate::{dice::Dice, in_flight::SentCorrection, plan::Plan, read_limit::ReadLimit};

/// The longest time from a take to its answer, in µs.
pub(crate) const DEADLINE: Micros = 250_000;
/// All first takes, the weight of the last, and the share of them that may be in vain.
const ALL: u32 = 1 << 16;
const WEIGHT: u32 = 64;
const WORTH_TRYING: u32 = ALL / 100 * 60;
const SURE: u32 = ALL / 100 * 5;
const FADES: u32 = 4;

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
    /// Tokens that its callers were told of, of those that waited for them.
    pub(crate) waited_for: u64,
    round_trip: Micros,
    in_vain: u32,
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
            waited_for: 0,
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
