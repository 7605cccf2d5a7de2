//! Charges: tokens that are taken after their use, also of a bucket that has none.

use topup_twin::{AtRest, Bucket};
use topup_wire::bucket::Operation;

use crate::{
    fault::Fault,
    oracle::Note,
    world::{Happening, World},
};

// === impl World ===

impl World {
    /// A caller charges tokens. A charge is a script of its own, beside the machine.
    pub(crate) fn sends_charge(&mut self, bucket: usize, count: u64) {
        let trip = self.long_trip();
        self.push(self.now + trip, Happening::Charges(bucket, count));
    }

    /// Redis carries a charge out.
    pub(crate) fn charges(&mut self, bucket: usize, count: u64) {
        self.see(bucket);
        let (now, most_debt) = (self.server.time(self.now), self.plan.max_debt);
        let Some(record) = self.server.record else { return self.server.forget(bucket) };
        let charge = Operation::Charge { count, most_debt };
        let was_number = self.server.keys[bucket].number;
        let elsewhere = self.books[bucket].elsewhere();
        let granted = self.server.settle(bucket, &record, charge, false, None, now).granted;
        let key = &mut self.server.keys[bucket];
        match self.server.fault {
            Some(Fault::ChargedTwice) => {
                self.server.settle(bucket, &record, charge, false, None, now);
            }
            Some(Fault::DebtForgiven) => {
                if let Bucket::AtRest(AtRest::Debt { tag, .. }) = key.bucket {
                    let full_at = record.pace.instant(now, record.capacity);
                    key.bucket = Bucket::AtRest(AtRest::Until { tag, full_at, early: 0, hold: 0 });
                    key.written(&record, now);
                }
            }
            _ => {}
        }
        self.tell(bucket, || format!("REDIS charges {granted} of {count}"));
        self.counts.charges += 1;
        self.books[bucket].granted += granted;
        self.books[bucket].told += granted;
        if granted > 0 {
            if was_number {
                self.note(bucket, Note::Forgotten(elsewhere));
            }
            let order = self.next_order();
            self.books[bucket].granted_at = order;
            self.books[bucket].notes.push((self.now, order, Note::Charged(granted, most_debt, elsewhere)));
        }
    }
}

impl crate::Plan {
    /// µs until a bucket in the deepest debt is full.
    pub(crate) fn longest_filling(&self) -> u64 {
        self.promises().map(|terms| terms.time_of(terms.capacity + self.max_debt)).max().unwrap_or(0)
    }

    /// The plan of `seed`, with charges into debt.
    pub fn charging(seed: u64) -> Self {
        let mut plan = Self::generate(seed);
        let terms = plan.terms;
        plan.max_debt = [1, terms.capacity.div_ceil(2), 2 * terms.capacity, 0][seed as usize % 4];
        let most = (plan.max_debt / 2 + terms.capacity / 2).clamp(1, 1_000);
        let gap = terms.time_of(most).clamp(20_000, plan.lasts / 4);
        plan.traffic.push(crate::Stream::Charges { gap, most });
        // Charges have no claim to the rate.
        plan.steady = false;
        plan
    }
}
