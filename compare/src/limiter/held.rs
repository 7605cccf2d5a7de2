//! Tokens and permits that are held for a while.

use topup::{Hold, Permit};
use topup_lab::clock::{Micros, now, sleep_until};

use crate::{rule::Rule, take::End};

/// Tokens or permits in use.
#[derive(Debug)]
pub struct Held {
    what: What,
    count: u64,
    until: Micros,
}

#[derive(Debug)]
enum What {
    Tokens(Box<Hold>),
    Permit(Permit),
}

/// The most debt of a bucket of `rule`.
pub(crate) const fn most_debt(rule: &Rule) -> u64 {
    rule.capacity
}

// === impl Held ===

impl Held {
    pub(super) fn tokens(hold: Hold, count: u64, time: Micros) -> Self {
        Self { what: What::Tokens(Box::new(hold)), count, until: now() + time }
    }

    pub(super) fn permit(permit: Permit, count: u64, time: Micros) -> Self {
        Self { what: What::Permit(permit), count, until: now() + time }
    }

    /// Holds it for its time, and ends its use. The used tokens are 0, 0.5, 1, 1.5 or 2 times the estimate.
    pub async fn end(self) -> End {
        sleep_until(self.until).await;
        let (sent, count) = (now(), self.count);
        let tokens = match self.what {
            What::Tokens(mut hold) => {
                let used = count * (self.until / 7 % 5) / 2;
                let settled = hold.settle(used).await;
                settled.ok().map(|settled| settled.charged.cast_signed() - count.cast_signed())
            }
            What::Permit(permit) => permit.release().await.ok().map(|()| -count.cast_signed()),
        };
        End { sent, received: now(), tokens }
    }
}
