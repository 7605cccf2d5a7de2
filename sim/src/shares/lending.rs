//! The laws of lending: parts that are left are lent, by weight.

use super::{World, segment::Wants};

// === impl World ===

impl World {
    /// Holds the tokens that each part has had since `before`, in `time` µs, to the laws of lending.
    pub(super) fn judge(&self, wants: &[Wants], before: &[u64], time: u64) -> Result<(), String> {
        let (time, rate, period) = (time as f64, self.total.per_micro(), self.terms.period() as f64);
        let smallest = self.own.iter().map(|own| own.capacity).min().unwrap_or(1) as f64;
        // A part that is full within a fraction of a millisecond cannot borrow all.
        if !wants.contains(&Wants::All) || period > smallest / rate / 2.0 + 1.0 {
            return Ok(());
        }
        let had = |index: usize| (self.admitted[index] - before[index]) as f64;
        let parts = wants.len();
        let all: f64 = (0..parts).map(had).sum();
        let least = 0.98 * rate * time - 2.0 * rate * period - parts as f64 - 2.0;
        if all < least {
            return Err(format!("lend: {parts} parts had {all} of {least}, {wants:?}"));
        }
        let by_weight: f64 =
            (0..parts).filter(|i| wants[*i] == Wants::All).map(|i| self.own[i].per_micro()).sum();
        let left: f64 = (0..parts)
            .map(|i| match wants[i] {
                Wants::All => 0.0,
                Wants::Some(every) => self.own[i].per_micro() - 1.0 / every as f64,
                Wants::Nothing => self.own[i].per_micro(),
            })
            .sum();
        for index in (0..parts).filter(|i| wants[*i] == Wants::All) {
            let own = self.own[index].per_micro();
            let fair = own + left * own / by_weight;
            let slack = 0.05 * fair * time + 2.0 * fair * period + 4.0;
            if (had(index) - fair * time).abs() > slack {
                let expected = fair * time;
                return Err(format!("weights: {index} of {parts} had {} of {expected}", had(index)));
            }
        }
        Ok(())
    }
}
