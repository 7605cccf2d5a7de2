//! Redis, as far as buckets go: the twin of the scripts, the expiry of keys, and bare commands.

mod at_rest;
mod command;
mod corrections;
mod execute;
mod key;
mod native;
mod settle;

use topup_twin::{AtRest, Bucket, Record};
use topup_wire::{bucket::Operation, constants::TAGS, reply::Settled};

pub(crate) use self::{
    command::{Corrected, Executed, Written},
    key::Key,
};
use crate::{fault::Fault, plan::Plan};

/// The instant at which a run begins, in µs of Redis `TIME`.
const BEGINS: u64 = 1_790_000_000_123_457;

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
        Some(topup_twin::settle(&self.record?, &mut bucket, Operation::Peek(1), false, None, now))
    }
}
