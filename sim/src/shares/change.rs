//! Changes of terms: another capacity or rate, and other weights and parts.

use topup_twin::{FairShares, ShareTerms};
use topup_wire::{bucket::Operation, limit::OnChange};

use super::{World, limit::limit};
use crate::ideal::Ideal;

// === impl World ===

impl World {
    /// Another capacity or rate, and other weights and parts.
    pub(super) fn change(&mut self) -> Result<(), String> {
        let tenants =
            if self.dice.chance(1, 3) { self.dice.pick(&[1, 4, 16]) } else { self.own.len() as u64 };
        let before: Vec<String> = self.terms.parts().iter().map(|part| part.name.clone()).collect();
        let changed = limit(&mut self.dice, tenants)?;
        let mut record = self.terms.record.changed(&changed, self.now);
        // Weights alone change something, too.
        record.since = self.now;
        self.limit = changed;
        self.terms = ShareTerms::new(&self.limit, record);
        let on_change = self.limit.on_change;
        self.total.credit(self.now);
        let capacities = (record.capacity, self.total.capacity);
        self.total.change(record.capacity, record.pace, on_change, capacities, 0);
        let own = |part: &topup_wire::limit::Part| {
            let mut own = Ideal::full(part.capacity, part.pace, self.now);
            match before.iter().position(|name| *name == part.name) {
                Some(index) => {
                    own = self.own[index];
                    own.credit(self.now);
                    own.change(part.capacity, part.pace, on_change, capacities, 2);
                }
                None if on_change != OnChange::Reset => own.level = 0,
                None => {}
            }
            own
        };
        let own: Vec<Ideal> = self.terms.parts().iter().map(own).collect();
        self.admitted = vec![0; own.len()];
        self.own = own;
        // The daemon touches the state, so that it expires by these terms.
        FairShares::settle(&self.terms, &mut self.state, "*", Operation::Refund(0), self.now, self.fault);
        Ok(())
    }
}
