//! Pauses of a bucket, or of all buckets of a limit.

use std::{sync::Arc, time::Duration};

use topup_wire::{
    limit::{LimitName, Mode},
    scripts::{self, LONGEST_PAUSE, MOST_PAUSES},
};

use crate::{
    bucket::Bucket,
    decision::Decision,
    error::Error,
    shell::{BucketEntry, Handle, Published, clock::micros},
};

// === impl Bucket ===

impl Bucket {
    /// Pauses the bucket for `time`, at most a day, in all workers: as when the called service asks for it. Without a
    /// [key](Self::key), all buckets of a keyed limit are paused. Returns the time until the pause ends.
    ///
    /// This client pauses at once, and all others with their next control poll: within 250 ms and a round trip. Until the
    /// pause ends, takes are denied without a command to Redis, waits wait, and tokens in hand are not spent. Refunds work.
    /// A longer pause stays as it is. A limit in shadow, or off, is not held up.
    ///
    /// # Errors
    /// [`Error::UnknownLimit`] and the like, without a pause. [`Error::TooManyPauses`], or a transient error if Redis gives
    /// no answer: the pause then holds for this client and its clones, and perhaps for others.
    pub async fn pause(&self, time: Duration) -> Result<Duration, Error> {
        let (name, key) = self.pausable().await?;
        self.begin_pause(time)?;
        let (shared, mut connection) = (self.handle().shared(), self.handle().shared().connection());
        let pause = scripts::pause(&mut connection, &name, key.as_deref(), time);
        let reply = self.handle().within_deadline(async { pause.await.map_err(Error::redis) }).await?;
        let left = reply.left.ok_or(Error::TooManyPauses { most: MOST_PAUSES })?;
        shared.pauses.confirm(&name, key.as_deref(), shared.clock.now());
        Ok(left)
    }

    /// Ends the pause of the bucket in all workers. Without a key, the pause of all buckets of a keyed limit ends, and
    /// those of single keys stay. Others learn of it as for [`pause`](Self::pause).
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn resume(&self) -> Result<(), Error> {
        let (name, key) = self.pausable().await?;
        let (shared, mut connection) = (self.handle().shared(), self.handle().shared().connection());
        let resume = scripts::resume(&mut connection, &name, key.as_deref());
        self.handle().within_deadline(async { resume.await.map_err(Error::redis) }).await?;
        shared.pauses.end(&name, key.as_deref());
        Ok(())
    }

    /// Pauses the bucket in this client at once, and in the others as soon as Redis can be told.
    #[cfg(feature = "tower")]
    pub(crate) fn pause_soon(&self, time: Duration) {
        if self.begin_pause(time).is_ok() {
            let bucket = self.clone();
            // If Redis cannot be told, this client pauses alone.
            self.handle().shared().runtime.spawn(async move { bucket.pause(time).await });
        }
    }

    /// The end of the bucket's pause, by the worker's clock.
    #[cfg(feature = "tower")]
    pub(crate) fn paused_until(&self) -> Option<crate::machine::Micros> {
        let entry = self.entry().ok()?;
        self.handle().shared().pauses.until(entry.name(), entry.key())
    }

    fn begin_pause(&self, time: Duration) -> Result<(), Error> {
        let (entry, shared) = (self.entry()?, self.handle().shared());
        let now = shared.clock.now();
        let until = now.saturating_add(micros(time.min(LONGEST_PAUSE)));
        shared.pauses.begin(*entry.name(), entry.key(), until, now);
        Ok(())
    }

    /// The names of the limit and of the key, if the limit is published and has such a bucket.
    async fn pausable(&self) -> Result<(LimitName, Option<String>), Error> {
        let entry = self.entry()?;
        match self.handle().within_deadline(entry.read(self.handle())).await {
            // All its buckets are meant.
            Ok(_) | Err(Error::KeyRequired { .. }) => Ok((*entry.name(), entry.key().map(str::to_owned))),
            Err(error) => Err(error),
        }
    }

    /// The decision of a take of `count` tokens while the bucket is paused.
    pub(crate) async fn paused_decision(&self, count: u64) -> Option<Decision> {
        let entry = self.entry().ok()?;
        if !entry.is_paused(self.handle()) {
            return None;
        }
        let published = self.handle().within_deadline(entry.read(self.handle())).await.ok()?;
        entry.paused_denial(count, &published, self.handle())
    }
}

// === impl BucketEntry ===

impl BucketEntry {
    /// Whether the bucket is paused, and its limit enforced, as far as that is known.
    #[inline]
    pub(crate) fn is_paused(&self, client: &Handle) -> bool {
        client.shared().pauses.any() && self.is_held_up(client)
    }

    #[cold]
    fn is_held_up(&self, client: &Handle) -> bool {
        let shared = client.shared();
        let until = shared.pauses.until(self.name(), self.key());
        until.is_some_and(|until| until > shared.clock.now())
            && self.limit().last().is_none_or(|published| published.mode(self.key()) == Mode::Enforce)
    }

    /// The limit as published now, or as last read if the bucket is paused: its takes need no newer terms to be denied.
    pub(crate) fn published_or_paused(&self, client: &Handle) -> Option<Arc<Published>> {
        self.published(client).or_else(|| self.is_paused(client).then(|| self.limit().last()).flatten())
    }

    /// The denial of a paused bucket, if the limit is enforced.
    pub(crate) fn paused_denial(
        &self,
        count: u64,
        published: &Published,
        client: &Handle,
    ) -> Option<Decision> {
        let is_enforced = published.mode(self.key()) == Mode::Enforce;
        let denial = || self.denial(count, published, client).map(Decision::from);
        (is_enforced && self.is_paused(client)).then(denial).flatten()
    }
}

/// Reads the limits of paused buckets that were never read: these tell whether the pause holds. An error shows with the
/// take.
pub(crate) async fn read_if_paused(client: &Handle, entries: impl Iterator<Item = &Arc<BucketEntry>>) {
    for entry in entries {
        if entry.is_paused(client) && entry.limit().last().is_none() {
            let _ = client.within_deadline(entry.read(client)).await;
        }
    }
}
