//! The client of a worker.

use std::{sync::Arc, time::Duration};

use topup_wire::{counts::Counts, scripts};

use crate::{
    bucket::Bucket,
    counts,
    error::Error,
    multi_decision::MultiDecision,
    outage::OutageCounts,
    shell::{
        BucketEntry, Handle, Shared,
        control_poll::{self, Polled},
        put_back,
    },
};

/// Between two looks whether commands of leased buckets have ended, and the most looks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const MOST_LOOKS: u32 = 20;

/// A worker's access to its limits: one per process is enough.
///
/// Cheap to clone. Clones share one connection and one memory.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), topup::Error> {
/// let topup = topup::Client::connect("redis://127.0.0.1:6379").await?;
/// let decision = topup.limit("user").key("alice").take(1).await?;
/// if let Some(wait) = decision.retry_after() {
///     println!("denied, come back in {wait:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client(Handle);

// === impl Client ===

impl Client {
    pub(crate) const fn of(handle: Handle) -> Self {
        Self(handle)
    }

    /// The limit `name`, as in `[limit.name]` of the daemon's config. Sends nothing to Redis.
    pub fn limit(&self, name: impl AsRef<str>) -> Bucket {
        Bucket::new(self.0.clone(), name.as_ref())
    }

    /// Takes tokens of several buckets, all or nothing: for a request that has to pass several limits.
    ///
    /// ```no_run
    /// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
    /// let takes = [(topup.limit("api"), 1), (topup.limit("user").key("alice"), 1)];
    /// let decided = topup.take_all(takes).await?;
    /// if let Some(by) = decided.denied_by() {
    ///     println!("{} denies, come back in {:?}", by.limit(), decided.retry_after());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One script decides, in one step. Two cases are exceptions. The buckets may be in different hash slots of a Redis
    /// Cluster. Or one is of a key and the other is for all and has plenty, so that no script is needed. The client then
    /// asks one bucket after the other, those of keyed limits first. If a later one denies, the tokens of earlier ones are
    /// put back: name the limit that denies most often first. Tokens of a limit of more than 5 a second may be lost by that.
    ///
    /// A limit in shadow stops no take. Its tokens are taken only if all enforced limits allow. A limit that is off is
    /// not asked. A denial that the client remembers decides without Redis.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`], for any of the buckets. Nothing is taken then, unless the error is transient.
    pub async fn take_all(
        &self,
        takes: impl IntoIterator<Item = (Bucket, u64)>,
    ) -> Result<MultiDecision, Error> {
        MultiDecision::take(&self.0, takes, |_| true).await
    }

    /// Tokens that this client has prefetched and may still spend. Redis has counted them as taken.
    ///
    /// Limits with a `lease` have such tokens, and for some ms any bucket that many tasks take from at once.
    pub fn prefetched_tokens(&self) -> u64 {
        self.shared().buckets.all().iter().map(|entry| entry.prefetched(&self.0)).sum()
    }

    /// Puts prefetched tokens back, releases dropped permits and hands counts over, for an orderly end.
    ///
    /// The drop of the last clone puts tokens back too, but does not wait for that. It hands the last counts over, and
    /// waits for Redis until the deadline if there are any. A process that ends by `exit` drops nothing: it calls this
    /// before.
    ///
    /// Tokens go back only if no other worker has taken from the bucket meanwhile, or if the limit is slow. Otherwise the
    /// bucket loses them, one lease at most.
    pub async fn put_back(&self) {
        let mut looks = 0;
        let is_busy = |entry: &Arc<BucketEntry>| entry.prefetched(&self.0) > 0 && entry.is_in_flight();
        while looks < MOST_LOOKS && self.shared().buckets.all().iter().any(is_busy) {
            tokio::time::sleep(LOOK_AGAIN).await;
            looks += 1;
        }
        let (connection, deadline) = (self.shared().connection(), self.shared().deadline);
        let prefetched = self.shared().take_prefetched();
        put_back::put_back_all(prefetched, &connection, deadline, &self.shared().clock).await;
        // Without an answer, the places are free when their time is over.
        let _ = self.shared().clock.timeout(deadline, self.shared().permits.flush()).await;
        #[cfg(feature = "metrics")]
        counts::emit(&self.shared().limits);
        if self.shared().control.newer_schema().is_none() {
            let (limits, clock) = (&self.shared().limits, &self.shared().clock);
            counts::hand_over(limits, &connection, deadline, clock).await;
        }
    }

    /// Takes so far that Redis did not decide, so that an [outage policy](crate::OnOutage) did.
    pub fn undecided(&self) -> u64 {
        self.shared().outages.undecided()
    }

    /// Takes of the limit `name` that an outage policy decided.
    pub fn outage_counts(&self, name: impl AsRef<str>) -> OutageCounts {
        self.shared().outages.counts(name.as_ref())
    }

    /// Counts of the takes of the limit `name` since this client was connected. Trial metrics are 0 for a limit that has no
    /// candidate and is not compared.
    ///
    /// The client hands its counts over to Redis once a second, in [`put_back`](Self::put_back), and when its last clone is
    /// dropped. `topupd status` shows the sums of all workers.
    pub fn counts(&self, name: impl AsRef<str>) -> Counts {
        self.shared().limits.find(name.as_ref()).map(|limit| limit.counts.counts()).unwrap_or_default()
    }

    pub(crate) async fn first_poll(&self) -> redis::RedisResult<()> {
        let shared = self.shared();
        let sent = shared.clock.now();
        let connection = &mut shared.connection();
        let polled = scripts::poll(connection).await?;
        let (control, clock) = (&shared.control, &shared.clock);
        control.note(&polled, sent, clock.now());
        shared.pauses.catch_up(&polled, control.stored_time(), connection, clock, shared.deadline).await;
        shared.plans.catch_up(&polled, sent, connection, clock, &shared.limits).await;
        Ok(())
    }

    pub(crate) fn start_polls(&self) {
        let shared = self.shared();
        let polled = Polled {
            connection: shared.connection(),
            deadline: shared.deadline,
            outages: shared.outages.clone(),
            limits: shared.limits.clone(),
            clock: shared.clock.clone(),
            pauses: shared.pauses.clone(),
            plans: shared.plans.clone(),
        };
        control_poll::start(&shared.control, polled);
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.0.shared()
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.0
    }
}
