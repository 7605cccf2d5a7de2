//! The execution of commands.

use topup::machine::{Command, Reply};
use topup_twin::{AtRest, Bucket, Credit};
use topup_wire::{bucket::Operation, reply::Verdict};

use super::{Executed, Server, Written};
use crate::fault::Fault;

// === impl Server ===

impl Server {
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
            Command::Decrement { by, .. } => {
                executed.overflow = self.overflow(key, by, self.time(sent), now);
                match self.decrement(key, by).map(|left| written.left(left)) {
                    None => {}
                    Some(None) => executed.charged = by,
                    Some(Some(left)) => {
                        let told =
                            if self.fault == Some(Fault::ShortfallUntold) { left.max(0) } else { left };
                        executed.reply = Reply::Left(told);
                        executed.granted = by.saturating_sub(left.min(0).unsigned_abs());
                    }
                }
            }
            // Windows have a simulation of their own: crate::windows.
            Command::TakeInWindow { .. } => {}
            Command::TakeAtRest { count, first_at } => {
                self.take_at_rest(key, count, first_at, written, now, &mut executed);
            }
            Command::Settle { operation, may_count, in_doubt } => {
                let in_doubt = in_doubt.filter(|_| self.fault != Some(Fault::DoubtUntold));
                let Some(record) = self.record else {
                    self.forget(key);
                    return Executed { refused: true, ..executed };
                };
                let bucket = self.keys[key].bucket;
                let doubt = in_doubt.map_or(0, |it| topup_twin::charged(&record, &bucket, it, now));
                executed.unpaid = doubt.saturating_sub(self.tokens(key, now));
                executed.charged = doubt;
                let settled = self.settle(key, &record, operation, may_count, in_doubt, now);
                executed.refused = settled.verdict == Verdict::ExceedsCapacity;
                executed.granted = settled.granted;
                if let (Operation::Reserve(reservation), Bucket::AtRest(AtRest::Debt { .. })) =
                    (operation, self.keys[key].bucket)
                    && settled.granted > 0
                {
                    executed.charged = (reservation.forfeit * record.pace.n).div_ceil(record.pace.p);
                }
                executed.reply = Reply::Settled(self.told(settled, operation, written, &record));
            }
        }
        executed
    }

    /// Tokens that a bare command now takes beyond the bucket's capacity, since the bucket became full on the way.
    fn overflow(&self, key: usize, by: u64, sent: u64, now: u64) -> u64 {
        let (Some(record), Bucket::Counting(held)) = (self.record, self.keys[key].bucket) else { return 0 };
        if held.is_previous || held.score > now || self.headroom(key, sent) == 0 {
            return 0;
        }
        // Takes at rest may have met the counter.
        let (counted, _) = record.counted(held.tokens);
        let tokens = u128::from(counted) + record.pace.owed(held.score, now).0;
        let overflow = tokens.saturating_sub(u128::from(record.capacity)) + 1;
        if tokens < u128::from(record.capacity) { 0 } else { (overflow as u64).min(by) }
    }
}
