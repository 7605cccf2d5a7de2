//! Redis, as far as buckets go: the twin of the scripts, the expiry of keys, and bare commands.

use topup::machine::{Command, Reply, Terms};
use topup_twin::{AtRest, Bucket, Counter, Credit, Record};
use topup_wire::{
    bucket::Operation,
    constants::{LONGEST_SHORT_HEADROOM, TAGS},
    limit::Capacity,
    reply::{Settled, Verdict},
};

use crate::{fault::Fault, plan::Plan};

/// The instant at which a run begins, in µs of Redis `TIME`.
const BEGINS: u64 = 1_790_000_000_123_457;

/// A bucket's key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key {
    pub(crate) bucket: Bucket,
    /// When it expires, in ms; 0 where it does not.
    pub(crate) expires: u64,
    /// The counter that bare commands have made of an absent bucket.
    pub(crate) stray: Option<i64>,
    /// A bucket at rest is kept as a number.
    pub(crate) number: bool,
    /// When the key was made, in µs of Redis.
    pub(crate) born: u64,
}

/// The terms under which a worker writes its commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) capacity: Capacity,
    pub(crate) terms: Terms,
}

/// The result of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) reply: Reply,
    /// Tokens taken.
    pub(crate) granted: u64,
    /// Tokens that no caller gets: those in doubt of a settle, or of a counter that takes at rest have met.
    pub(crate) charged: u64,
    /// Tokens in doubt that the bucket did not have any more.
    pub(crate) unpaid: u64,
    /// Tokens that a bare command took of a full bucket, which became full after the command was written. Tokens that a
    /// first take left too many, since it named an instant that had passed.
    pub(crate) overflow: u64,
    /// When the key was made that a native take has met.
    pub(crate) born: u64,
    /// Tokens in the bucket before.
    pub(crate) before: u64,
    /// Nothing was done: the limit is not published, or the take is more than a bucket ever holds.
    pub(crate) refused: bool,
}

/// One Redis.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The limit's record. None after a flush.
    pub(crate) record: Option<Record>,
    /// Instant of Redis at which a change was announced, in µs. 0 where none is.
    pub(crate) frozen: u64,
    pub(crate) generation: u64,
    pub(crate) keys: Vec<Key>,
    /// Until when a daemon is believed to be alive, in µs of Redis.
    pub(crate) beats: u64,
    /// Tokens that were forgotten of a bucket: which, how many, and whether by the command that took them.
    pub(crate) gifts: Vec<(usize, u64, bool)>,
    /// Steps of its clock so far, in µs.
    stepped: i64,
    pub(crate) fault: Option<Fault>,
}

// === impl Server ===

impl Server {
    pub(crate) fn new(plan: &Plan, fault: Option<Fault>) -> Self {
        let begins = BEGINS + plan.seed % 1_000_003;
        let mut record = Record::new(&plan.terms.limit(plan.lease, plan.on_change), begins);
        if fault != Some(Fault::ScheduleIgnored) {
            record.schedule = plan.record_schedule(begins);
        }
        let keys = vec![Key::default(); plan.buckets];
        let stepped = (begins - BEGINS) as i64;
        Self {
            record: Some(record),
            frozen: 0,
            generation: 1,
            keys,
            beats: 0,
            gifts: Vec::new(),
            stepped,
            fault,
        }
    }

    /// Redis `TIME` at an instant of the run.
    pub(crate) fn time(&self, at: u64) -> u64 {
        (BEGINS + at).saturating_add_signed(self.stepped)
    }

    pub(crate) fn step_clock(&mut self, by: i64) {
        self.stepped += by;
    }

    /// Lets go of a key whose time has come.
    pub(crate) fn expire(&mut self, key: usize, now: u64) {
        let early = if self.fault == Some(Fault::ExpiryEarly) { 4 } else { 0 };
        let Key { bucket, expires, .. } = self.keys[key];
        let Bucket::AtRest(
            AtRest::FirstTake { tag, .. } | AtRest::Until { tag, .. } | AtRest::Debt { tag, .. },
        ) = bucket
        else {
            return;
        };
        if now / 1_000 + early <= expires || self.fault == Some(Fault::KeyStays) {
            return;
        }
        let before = self.tokens(key, now);
        self.keys[key] = Key::default();
        let is_previous = self.record.is_some_and(|record| record.terms_id % TAGS != u64::from(tag));
        let given = self.tokens(key, now).saturating_sub(before);
        if is_previous && given > 0 {
            self.gifts.push((key, given + 1, false));
        }
    }

    /// Removes the key, as a script of an unknown limit does. Tokens of a first take are forgotten with it.
    pub(crate) fn forget(&mut self, key: usize) {
        if self.keys[key].number {
            return;
        }
        let Key { bucket, .. } = std::mem::take(&mut self.keys[key]);
        if let Bucket::AtRest(AtRest::FirstTake { count, .. }) = bucket {
            self.gifts.push((key, count, false));
        }
    }

    /// Carries out `command`, which was written at the instant `sent` of the run.
    pub(crate) fn execute(
        &mut self,
        key: usize,
        command: Command,
        written: Written,
        sent: u64,
        at: u64,
    ) -> Executed {
        let now = self.time(at);
        self.expire(key, now);
        let before = self.tokens(key, now);
        let mut executed = Executed {
            reply: Reply::NotCounting,
            granted: 0,
            charged: 0,
            unpaid: 0,
            overflow: 0,
            born: 0,
            before,
            refused: false,
        };
        match command {
            Command::FirstTake { count, full_at } => {
                let taken = match full_at {
                    0 => self.first_take(key, count, written, now),
                    _ => self.first_as_number(key, full_at, written, now),
                };
                if taken && full_at > 0 {
                    let first_at = full_at.saturating_sub(written.time_of(count));
                    executed.overflow = written.tokens_late(count, first_at, now);
                    executed.born = now;
                }
                executed.reply = Reply::First(taken);
                executed.granted = if taken { count } else { 0 };
                // The command came later after a change than any worker allows. It counts as carried out before the change.
                let is_previous = self.record.is_some_and(|record| record.terms_id != written.terms.id);
                if taken && is_previous {
                    self.gifts.push((key, count, true));
                }
            }
            Command::Decrement { by } => {
                executed.overflow = self.overflow(key, by, self.time(sent), now);
                match self.decrement(key, by).map(|left| written.left(left)) {
                    None => {}
                    Some(None) => executed.charged = by,
                    Some(Some(left)) => {
                        executed.reply = Reply::Left(left);
                        executed.granted = by.saturating_sub(left.min(0).unsigned_abs());
                    }
                }
            }
            Command::TakeAtRest { count, first_at } => {
                self.take_at_rest(key, count, first_at, written, now, &mut executed);
            }
            Command::Settle { operation, may_count, in_doubt: doubt } => {
                let doubt = if self.fault == Some(Fault::DoubtUntold) { 0 } else { doubt };
                let Some(record) = self.record else {
                    self.forget(key);
                    return Executed { refused: true, ..executed };
                };
                executed.unpaid = doubt.saturating_sub(self.tokens_in_doubt(key, doubt, now));
                executed.charged = doubt;
                let settled = self.settle(key, &record, operation, may_count, doubt, now);
                executed.refused = settled.verdict == Verdict::ExceedsCapacity;
                executed.granted = settled.granted;
                executed.reply = Reply::Settled(self.told(settled, operation, written, &record));
            }
        }
        executed
    }

    /// The settle script.
    pub(crate) fn settle(
        &mut self,
        key: usize,
        record: &Record,
        operation: Operation,
        may_count: bool,
        doubt: u64,
        now: u64,
    ) -> Settled {
        self.expire(key, now);
        let key = &mut self.keys[key];
        let before = key.bucket;
        let settled = topup_twin::settle(record, &mut key.bucket, operation, may_count, doubt, now);
        let denied_in_doubt = doubt > 0 && settled.verdict == Verdict::Denied;
        let writes = before != key.bucket || settled.verdict == Verdict::Allowed || denied_in_doubt;
        if writes && !matches!(operation, Operation::Peek(_)) {
            key.written(record, now);
            if let (Some(Fault::ChangeAheadForgotten), Bucket::AtRest(AtRest::Until { full_at, .. })) =
                (self.fault, key.bucket)
            {
                key.expires = full_at.div_ceil(1_000);
            }
        }
        settled
    }

    /// A settle's reply as the worker reads it: all that was asked for is told in one number.
    fn told(&self, settled: Settled, operation: Operation, written: Written, record: &Record) -> Settled {
        let headroom = settled.headroom + self.too_long(record);
        let asked = match operation {
            Operation::Take(count) | Operation::Share(count) => count,
            _ => return Settled { headroom, ..settled },
        };
        if settled.verdict != Verdict::Allowed
            || settled.granted != asked
            || settled.headroom >= LONGEST_SHORT_HEADROOM
        {
            return Settled { headroom, ..settled };
        }
        let number = headroom * 2 + u64::from(settled.counting);
        Settled::from_number(number, written.capacity, written.terms.pace, asked)
    }

    /// µs that a planted fault adds to the time for which a bucket stays below full.
    fn too_long(&self, record: &Record) -> u64 {
        match self.fault {
            Some(Fault::FullInstantLate) => record.pace.p.div_ceil(record.pace.n),
            Some(Fault::Leeway) => record.tick / 2,
            _ => 0,
        }
    }

    /// `SET … PX … NX`.
    fn first_take(&mut self, key: usize, count: u64, written: Written, now: u64) -> bool {
        let key = &mut self.keys[key];
        let overwrites = self.fault == Some(Fault::FirstTakeOverwrites);
        if !key.is_absent() && !overwrites {
            return false;
        }
        let expires = now / 1_000 + written.terms.pace.first_take_ms(count);
        let tag = (written.terms.id % TAGS) as u16;
        let bucket = Bucket::AtRest(AtRest::FirstTake { tag, count, expires });
        *key = Key { bucket, expires, born: now, ..Key::default() };
        true
    }

    /// `DECRBY`; `None` where the bucket is at rest.
    fn decrement(&mut self, key: usize, by: u64) -> Option<i64> {
        let Key { bucket, stray, .. } = &mut self.keys[key];
        let tokens = match bucket {
            Bucket::AtRest(_) => return None,
            Bucket::Absent => stray.get_or_insert(0),
            Bucket::Counting(Counter { tokens, .. }) => tokens,
        };
        *tokens = tokens.saturating_sub(by as i64);
        Some(*tokens)
    }

    /// Tokens that a bare command now takes beyond the bucket's capacity, since the bucket became full on the way.
    fn overflow(&self, key: usize, by: u64, sent: u64, now: u64) -> u64 {
        let (Some(record), Bucket::Counting(held)) = (self.record, self.keys[key].bucket) else { return 0 };
        if held.is_previous || held.score > now || self.headroom(key, sent) == 0 {
            return 0;
        }
        let tokens = u128::from(held.tokens.max(0) as u64) + record.pace.owed(held.score, now).0;
        let overflow = tokens.saturating_sub(u128::from(record.capacity)) + 1;
        if tokens < u128::from(record.capacity) { 0 } else { (overflow as u64).min(by) }
    }

    /// Tokens in a bucket.
    pub(crate) fn tokens(&self, key: usize, now: u64) -> u64 {
        self.peek(key, now).map_or(0, |settled| settled.tokens)
    }

    /// µs for which a bucket stays below full.
    pub(crate) fn headroom(&self, key: usize, now: u64) -> u64 {
        self.peek(key, now).map_or(0, |settled| settled.headroom)
    }

    fn peek(&self, key: usize, now: u64) -> Option<Settled> {
        let mut bucket = self.keys[key].bucket;
        Some(topup_twin::settle(&self.record?, &mut bucket, Operation::Peek(1), false, 0, now))
    }

    /// Tokens in a bucket from which those in doubt can be paid.
    fn tokens_in_doubt(&self, key: usize, doubt: u64, now: u64) -> u64 {
        let Some(record) = &self.record else { return 0 };
        let Bucket::Counting(held) = self.keys[key].bucket else { return self.tokens(key, now) };
        let tokens = held.tokens.max(0).saturating_add(doubt as i64);
        let mut fuller = Bucket::Counting(Counter { tokens, ..held });
        topup_twin::settle(record, &mut fuller, Operation::Peek(1), false, 0, now).tokens
    }
}
