//! The settlement of a hold, which is done once.

use std::time::Duration;

use topup_wire::limit::{MAX_TOKENS, Mode, OnOutage};

use super::{Hold, Settlement};
use crate::{
    decision::Decision,
    error::Error,
    machine::Event,
    shell::{
        deadline::Deadline,
        holds::{HoldRef, HoldRequest},
    },
};

/// Redis remembers a settled hold for 60 s. An attempt that begins later than this after the first one is refused.
const SETTLES_WITHIN: Duration = Duration::from_secs(45);
/// Between two attempts to settle a hold.
const RETRY: Duration = Duration::from_millis(20);

// === impl Hold ===

impl Hold {
    /// Settles the hold: `used` tokens, 0 to 2^53, were used. Puts back those that were not, or charges those beyond the
    /// estimate as [`Bucket::charge`](crate::Bucket::charge) does.
    ///
    /// It is done once, however often it is called. A second call answers as the first one did. Attempts that fail are
    /// repeated within the deadline, with the number of the first one. After an error, call it again within 45 s. A
    /// put-back into a bucket that other workers take from waits as [`Bucket::refund`](crate::Bucket::refund) does.
    ///
    /// Where nothing was taken, since the limit is in shadow, Redis was away or the hold was denied, all of `used` is
    /// charged. Under the outage policy `local`, the worker takes the estimate from Redis by itself, so only what is
    /// beyond it is charged.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`](crate::Bucket::take). [`Error::SettledTooLate`] more than 45 s after the first
    /// attempt.
    pub async fn settle(&mut self, used: u64) -> Result<Settlement, Error> {
        if used > MAX_TOKENS {
            return Err(Error::InvalidCount { count: used });
        }
        if let Some(settlement) = self.settlement {
            return Ok(settlement);
        }
        let settlement = self.try_settle(used).await?;
        self.settlement = Some(settlement);
        Ok(settlement)
    }

    async fn try_settle(&mut self, used: u64) -> Result<Settlement, Error> {
        let (shared, entry) = (self.bucket.handle().shared(), &self.entry);
        let covered = match self.decision {
            Decision::Degraded { on_outage: OnOutage::Local, allowed: true, .. } => self.estimate.min(used),
            _ => self.tokens(),
        };
        let is_off = entry.limit().last().is_some_and(|published| published.mode(entry.key()) == Mode::Off);
        let remembered = self.remembered();
        // An earlier attempt may have been carried out, with its own number.
        let is_first = self.first_try.is_none();
        if is_first && !remembered && (is_off || self.is_exempt || used == covered) {
            return Ok(Settlement { charged: used, uncharged: 0 });
        }
        let now = shared.clock.now();
        let (first, used) = *self.first_try.get_or_insert((now, used));
        let since = Duration::from_micros(now.saturating_sub(first));
        if since > SETTLES_WITHIN {
            return Err(Error::SettledTooLate { limit: entry.name().to_string(), since });
        }
        let waits = entry.limit().last().map_or(Duration::ZERO, |last| last.limit.puts_in_within());
        let deadline = Deadline::new(&shared.clock, shared.deadline, waits);
        loop {
            let left = deadline.left();
            let hold = HoldRef { id: &self.id, tokens: covered, is_remembered: remembered };
            let result = match self.bucket.handle().check_circuit(entry) {
                Err(error) => Err(error),
                Ok(()) => {
                    let (request, handle) = (HoldRequest::Settle(used), self.bucket.handle());
                    let settling = entry.request_hold(hold, request, handle, Some(&deadline));
                    let late = Err(Error::DeadlineExceeded { deadline: shared.deadline });
                    deadline.within(settling).await.unwrap_or(late)
                }
            };
            self.bucket.handle().note_reply(entry, &result);
            match result {
                Ok(reply) => {
                    // The worker's estimate of the bucket and its cached denials are out of date.
                    entry.step(Event::Changed, self.bucket.handle(), None);
                    let uncharged = reply.uncharged;
                    return Ok(Settlement { charged: used.saturating_sub(uncharged), uncharged });
                }
                Err(error) if error.is_transient() && left > RETRY => shared.clock.sleep(RETRY).await,
                Err(error) => return Err(error),
            }
        }
    }
}
