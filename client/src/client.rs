//! The client: one per process is enough.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::runtime::Handle as Runtime;
use topup_wire::{connection::connect_lazily, counts::Counts, pipeline::Pipelines, scripts};

#[cfg(feature = "tower")]
use crate::shell::pauses::Pauses;
use crate::{
    bucket::Bucket,
    error::Error,
    joint::Joint,
    outage::Outage,
    shell::{
        BucketCache, BucketEntry, Handle, Limits, MOST_BUCKETS, Shared,
        clock::{Clock, micros},
        control_poll::{self, Control},
        dispatch::RoundTrip,
        module::Module,
        put_back, timers,
    },
    tally::Tallies,
};

/// The longest a call waits for Redis unless told otherwise.
const DEADLINE: Duration = Duration::from_millis(250);
/// The longest the first answer of Redis may take: a connection has to be made for it.
const FIRST_DEADLINE: Duration = Duration::from_secs(2);

/// Whoever gives tokens back waits for commands in flight: so long, at most so often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const MOST_LOOKS: u32 = 20;

/// A worker's way to its limits. Cheap to clone; clones share one connection and one memory.
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

/// Settings of a [`Client`], from [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    deadline: Duration,
    remembered: usize,
}

// === impl Client ===

impl Client {
    /// A client of the Redis at `url`: `redis://[user:password@]host[:port][/db]` or `unix:///path[?db=n]`; of a Redis
    /// Cluster any node, or several, `redis://[user:password@]host:port,host:port`: the first that answers tells of all.
    ///
    /// # Errors
    /// When `url` is not of that form, or Redis does not answer within two seconds.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Settings to choose before connecting.
    pub fn builder() -> Builder {
        Builder { deadline: DEADLINE, remembered: MOST_BUCKETS }
    }

    /// The limit `name`, as in `[limit.name]` of the daemon's config. Nothing is asked of Redis yet.
    pub fn limit(&self, name: impl AsRef<str>) -> Bucket {
        Bucket::new(self.0.clone(), name.as_ref())
    }

    /// Takes so many tokens of each bucket, all of it or nothing: a request that has to pass several limits.
    ///
    /// ```no_run
    /// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
    /// let levels = [(topup.limit("api"), 1), (topup.limit("user").key("alice"), 1)];
    /// let joint = topup.take_all(levels).await?;
    /// if let Some(level) = joint.denied_by() {
    ///     println!("{} denies, come back in {:?}", level.limit(), joint.retry_after());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One script decides it, in one step. Where the buckets are in different slots of a Redis Cluster, they are asked in
    /// order instead, and what was taken is given back when a later one denies: name the one that denies most first.
    /// A limit in shadow has no say: nothing is taken of it unless all others allow, and then what it has too few of stops
    /// nobody and is not taken. One that is off is not asked.
    /// Once one of them is known to deny, none is asked: [`Joint::levels`] then tells of those that deny as far as known.
    ///
    /// # Errors
    /// As [`Bucket::take`], for any of them. Nothing is taken then, unless the error is transient.
    pub async fn take_all(&self, takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Joint, Error> {
        Joint::take(&self.0, takes).await
    }

    /// Tokens this client has taken ahead and may still spend: of limits with a `lease`, and for some ms of any that very
    /// many tasks ask at once. So many are missing elsewhere.
    pub fn tokens_held(&self) -> u64 {
        self.shared().buckets.all().iter().map(|entry| entry.in_hand(&self.0)).sum()
    }

    /// Gives back what this client has taken ahead and not spent, for an end in good order: dropping its last clone does
    /// so too, but nobody waits for it. Of a limit with a `lease`, only where nobody else has taken meanwhile, who would
    /// not know of it: the rest is lost to the bucket, at most a lease.
    pub async fn give_back(&self) {
        let mut looks = 0;
        let has_in_hand = |entry: &Arc<BucketEntry>| entry.in_hand(&self.0) > 0;
        while self.shared().buckets.all().iter().any(|entry| has_in_hand(entry) && entry.is_in_flight())
            && looks < MOST_LOOKS
        {
            tokio::time::sleep(LOOK_AGAIN).await;
            looks += 1;
        }
        put_back::give_all(self.0.in_hand(), &self.shared().connection(), self.shared().deadline).await;
    }

    /// How often an [`Admission`](crate::Admission) or a layer had to do as it was told because nothing could be decided.
    pub fn undecided(&self) -> u64 {
        self.shared().outage.undecided()
    }

    /// What this client has counted of the limit `name` since it was connected, while the limit was not in force for all,
    /// had a candidate, or was compared. Of any other, nothing is counted.
    pub fn counts(&self, name: impl AsRef<str>) -> Counts {
        self.shared().tallies.counts(name.as_ref())
    }

    pub(crate) fn outage(&self) -> &Outage {
        &self.shared().outage
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.0.shared()
    }
}

// === impl Builder ===

impl Builder {
    /// The longest any call waits for Redis; 250 ms unless set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many buckets the client remembers: 65,536 unless set. A bucket at rest takes some 150 bytes, one in use up to 400.
    /// Of more buckets, those asked for longest ago are forgotten. Their next take costs Redis one native command more.
    #[must_use]
    pub fn remembered(mut self, buckets: usize) -> Self {
        self.remembered = buckets;
        self
    }

    /// Connects to the Redis at `url`, as [`Client::connect`] does.
    ///
    /// # Errors
    /// When `url` is not of a Redis, or Redis does not answer within two seconds.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let connection = connect_lazily(url)?;
        let (control, clock) = (Arc::new(Control::default()), Arc::new(Clock::start()));
        let sent = clock.now();
        let first = tokio::time::timeout(FIRST_DEADLINE, scripts::poll(&mut connection.clone())).await;
        let first = first.map_err(|_| Error::DeadlineExceeded { deadline: FIRST_DEADLINE })??;
        control.note(&first, sent, clock.now());
        let tallies = Arc::new(Tallies::default());
        control_poll::start(&control, connection.clone(), self.deadline, tallies.clone(), clock.clone());
        let shared = Arc::new(Shared {
            clock,
            lanes: Pipelines::beside(&connection),
            connection,
            buckets: BucketCache::new(self.remembered),
            limits: Limits::default(),
            control,
            deadline: self.deadline,
            deadline_micros: micros(self.deadline),
            round_trip: RoundTrip::default(),
            timers: Arc::default(),
            put_backs: Arc::default(),
            outage: Outage::default(),
            tallies,
            #[cfg(feature = "tower")]
            pauses: Pauses::default(),
            apart: AtomicBool::new(false),
            module: Module::default(),
            runtime: Runtime::current(),
        });
        timers::start(&shared);
        put_back::start(&shared);
        Ok(Client(Handle::of(shared)))
    }
}
