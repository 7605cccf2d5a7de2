//! The laws of plans of keys: see [the module above](super).

mod most;
mod moved;
mod never_over;

use topup_wire::limit::OnChange;

use super::{
    LATE, World,
    periods::{Period, Place},
};
use crate::clients::Call;

// === impl World ===

impl World {
    pub(super) fn judge(
        &self,
        key: usize,
        periods: &[Period],
        calls: &[Call],
        charges: &[Call],
    ) -> Result<(), String> {
        self.at_its_instant(periods, calls)?;
        self.never_over(periods, calls, charges)?;
        self.kept(periods, calls)?;
        self.moved(key, periods, calls, charges)
    }

    fn at_its_instant(&self, periods: &[Period], calls: &[Call]) -> Result<(), String> {
        for call in calls {
            let within = |period: &&Period| period.from <= call.sent && call.received < period.until;
            match (periods.iter().find(within).map(|period| period.place), call.is_allowed) {
                (Some(Place::Exempt), Some(false)) | (Some(Place::Deny), Some(true)) => {
                    return Err(format!("at its instant: {call:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A denied take of one token, though two have come since the last take, under one of the plans since. Takes at one instant may
    /// deny each other two: a client that asks for three tokens gives back those that it found.
    fn kept(&self, periods: &[Period], calls: &[Call]) -> Result<(), String> {
        if self.most > 1 || self.max_debt > 0 {
            // Others ask for more tokens than there are, and are before this take. Debt has no tokens.
            return Ok(());
        }
        for denied in calls.iter().filter(|call| call.is_allowed == Some(false)) {
            // A denial from memory is as old as its reply.
            let late = LATE + self.clients.slowest;
            // A waiter is before others, even if it goes away in the end.
            let may_take =
                |call: &&Call| (call.is_allowed != Some(false) || call.waits) && call.sent <= denied.received;
            let quiet = calls.iter().filter(may_take).map(|call| call.received).max().unwrap_or(0);
            // Earlier changes than the last ones may be lost.
            let known = periods.partition_point(|period| period.from <= denied.received);
            for period in &periods[known.saturating_sub(6)..known] {
                let Place::Bucket(index) = period.place else { continue };
                let (rule, proportional) =
                    (self.rules[index], self.limit.on_change == OnChange::Proportional);
                let asked = denied.sent.saturating_sub(rule.time_of(1) + late);
                let at_once =
                    calls.iter().filter(|call| (asked..=denied.received).contains(&call.sent)).count();
                let least = if at_once > 2 { 3 } else { 2 };
                let tokens = if proportional { rule.capacity.max(least) } else { least };
                let time = period.until.min(denied.sent).saturating_sub(period.from.max(quiet));
                let denies = |period: &Period| {
                    period.place == Place::Deny
                        && period.from <= denied.received
                        && denied.sent < period.until
                };
                if time > rule.time_of(tokens) + late && !periods.iter().any(denies) {
                    return Err(format!("kept: {denied:?}, nobody took since {quiet}"));
                }
            }
        }
        Ok(())
    }
}
