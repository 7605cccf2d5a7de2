//! Puts tokens back, or fills a bucket.

use topup_wire::{bucket::Operation, limit::Mode, reply::Verdict};

use crate::{
    bucket::{Bucket, Here, checked},
    error::Error,
    machine::Event,
    shell::{deadline::Deadline, not_tokens},
};

// === impl Bucket ===

impl Bucket {
    /// Puts `count` tokens back, 1 to 2^53, as far as the bucket has room. Returns the tokens in the bucket after it.
    ///
    /// If other workers take from the bucket too, the call waits until their prefetched tokens are spent or have expired.
    /// The wait is some ms, or the `ttl` of the limit's lease. Where callers of [`Bucket::wait`] have reserved tokens, since
    /// other workers took all that came, it may be as long as 1.1 s. Where tokens come further apart than a second, it is 0.1 s
    /// longer than the time of one, and 30.1 s at most.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn refund(&self, count: u64) -> Result<u64, Error> {
        checked(count)?;
        match self.here().await? {
            Here::Bucket(bucket) => bucket.put_in(Some(count)).await,
            Here::Decided(decision) => Ok(decision.remaining()),
        }
    }

    /// Fills the bucket. Waits as [`Bucket::refund`] does.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn reset(&self) -> Result<(), Error> {
        match self.here().await? {
            Here::Bucket(bucket) => bucket.put_in(None).await.map(drop),
            Here::Decided(_) => Ok(()),
        }
    }

    /// Puts `tokens` into the bucket, or fills it. Returns the tokens in the bucket after it.
    async fn put_in(&self, tokens: Option<u64>) -> Result<u64, Error> {
        let entry = self.entry()?;
        self.handle().check_circuit(entry)?;
        let shared = self.handle().shared();
        let began = shared.clock.now();
        let read = self.handle().within_deadline(entry.read(self.handle())).await;
        self.handle().note_reply(entry, &read);
        let published = read?;
        if published.limit.algorithm.has_permits() {
            return Err(not_tokens(entry));
        }
        let capacity = published.terms.capacity;
        if published.mode(entry.key()) == Mode::Off && tokens.is_some() {
            return Ok(capacity);
        }
        // Prefetched tokens of this worker go back with them. A bucket that is filled needs none.
        let step = entry.step(Event::PutsBack(tokens.unwrap_or(u64::MAX)), self.handle(), None);
        let request = step.put_back.unwrap_or_default().request(tokens, published.limit.in_hand_for());
        let (location, mut connection) = (published.locate(entry), shared.connection());
        let left = shared.deadline.saturating_sub(shared.clock.since(began));
        let deadline = Deadline::new(&shared.clock, left, published.limit.puts_in_within());
        let put = deadline.within(location.put_in(&mut connection, request, &deadline)).await;
        entry.step(Event::Changed, self.handle(), None);
        let put = match put {
            Some(put) => put.map_err(Error::redis),
            None => Err(Error::DeadlineExceeded { deadline: shared.deadline }),
        };
        self.handle().note_reply(entry, &put);
        let settled = put?;
        if settled.verdict != Verdict::Unknown {
            return Ok(settled.tokens);
        }
        // Removed, or changed in kind since it was read: sent once more, as the bucket's own record says.
        entry.limit().invalidate();
        let operation = tokens.map_or(Operation::Reset, Operation::Refund);
        let settled = deadline.within(self.settle(operation)).await;
        Ok(settled.ok_or(Error::DeadlineExceeded { deadline: shared.deadline })??.tokens)
    }
}
