//! The client: one per process is enough.

use std::{
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

use tokio::runtime::Handle;
#[cfg(feature = "tower")]
use topup_wire::limit::Supply;
use topup_wire::{
    connection::{Connection, connect_lazily},
    counts::Counts,
    lane::Lanes,
    limit::LimitName,
    scripts,
};

#[cfg(feature = "tower")]
use crate::http::Pauses;
use crate::{
    bucket::Bucket,
    clock::Clock,
    deadline,
    error::Error,
    joint::Joint,
    outage::Outage,
    published::{Cache, Published},
    slot::{Back, Ticket, outlast},
    slots::{MOST_BUCKETS, Slots},
    tally::Tallies,
    throttle::Module,
    watch::Watch,
};

/// The longest a call waits for Redis unless told otherwise.
const DEADLINE: Duration = Duration::from_millis(250);
/// The longest the first answer of Redis may take: a connection has to be made for it.
const FIRST_DEADLINE: Duration = Duration::from_secs(2);

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
pub struct Client(Arc<Shared>);

/// What clones share.
pub(crate) struct Shared {
    connection: Connection,
    pub(crate) clock: Arc<Clock>,
    pub(crate) lanes: Lanes<Ticket>,
    pub(crate) slots: Slots,
    pub(crate) watch: Arc<Watch>,
    pub(crate) deadline: Duration,
    limits: Cache,
    outage: Outage,
    tallies: Arc<Tallies>,
    #[cfg(feature = "tower")]
    pub(crate) pauses: Pauses,
    /// Redis is a cluster, and does not decide on buckets of several slots at once.
    pub(crate) apart: AtomicBool,
    pub(crate) module: Module,
    /// What runs the client's own tasks, wherever it is called from.
    pub(crate) runtime: Handle,
}

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
        Bucket::new(self.clone(), name.as_ref())
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
        Joint::take(self, takes).await
    }

    /// Tokens this client has taken ahead and may still spend: of limits with a `lease`, and for some ms of any that very
    /// many tasks ask at once. So many are missing elsewhere.
    pub fn tokens_held(&self) -> u64 {
        self.0.slots.all().iter().map(|slot| slot.held(self)).sum()
    }

    /// Gives back what this client has taken ahead and not spent, for an end in good order: dropping its last clone does
    /// so too, but nobody waits for it. Of a limit with a `lease`, only where nobody else has taken meanwhile, who would
    /// not know of it: the rest is lost to the bucket, at most a lease.
    pub async fn give_back(&self) {
        outlast(|| self.0.slots.all().iter().any(|slot| slot.is_unsettled())).await;
        Back::give_all(self.0.in_hand(), self.0.connection(), self.0.deadline).await;
    }

    /// How often an [`Admission`](crate::Admission) or a layer had to do as it was told because nothing could be decided.
    pub fn undecided(&self) -> u64 {
        self.0.outage.undecided()
    }

    /// What this client has counted of the limit `name` since it was connected, while the limit was not in force for all,
    /// had a candidate, or was compared. Of any other, nothing is counted.
    pub fn counts(&self, name: impl AsRef<str>) -> Counts {
        self.0.tallies.counts(name.as_ref())
    }

    pub(crate) fn outage(&self) -> &Outage {
        &self.0.outage
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
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

    /// How many buckets the client remembers, at about 700 bytes each, and twice that while it holds tokens of them; 65,536
    /// unless set. Of more than that, those that were asked for longest ago are forgotten: their next take costs Redis a
    /// script in place of a `DECR`, or of nothing where it would have been denied from memory. So it should be more than the
    /// keys that one worker has to do with within some minutes.
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
        let watch = Arc::new(Watch::default());
        let first = tokio::time::timeout(FIRST_DEADLINE, scripts::poll(&mut connection.clone())).await;
        watch.note(&first.map_err(|_| Error::DeadlineExceeded { deadline: FIRST_DEADLINE })??);
        let tallies = Arc::new(Tallies::default());
        let clock = Arc::new(Clock::start());
        watch.start(connection.clone(), self.deadline, tallies.clone(), clock.clone());
        let shared = Arc::new(Shared {
            clock,
            lanes: Lanes::beside(&connection),
            connection,
            slots: Slots::new(self.remembered),
            watch,
            deadline: self.deadline,
            limits: Cache::default(),
            outage: Outage::default(),
            tallies,
            #[cfg(feature = "tower")]
            pauses: Pauses::default(),
            apart: AtomicBool::new(false),
            module: Module::default(),
            runtime: Handle::current(),
        });
        deadline::keep(&shared);
        Ok(Client(shared))
    }
}

// === impl Shared ===

impl Shared {
    /// The connection, pipelined among all tasks.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// The limit `name` as published now.
    pub(crate) async fn published(&self, name: &LimitName) -> Result<Arc<Published>, Error> {
        let epoch = self.watch.epoch();
        if let Some(published) = self.limits.get(name.as_str(), epoch) {
            return Ok(published);
        }
        let limit = scripts::read_limit(&mut self.connection(), name).await?;
        let limit = limit.ok_or_else(|| Error::UnknownLimit { limit: name.to_string() })?.limit;
        let tally = self.tallies.of(&limit);
        let published = Arc::new(Published::new(limit, epoch, tally));
        self.limits.put(published.clone());
        Ok(published)
    }

    /// The limit `name` as it was when it could be read.
    pub(crate) fn last_published(&self, name: &LimitName) -> Option<Arc<Published>> {
        self.limits.last(name.as_str())
    }

    /// Where tokens of the limit `name` come from, if that is known without asking.
    #[cfg(feature = "tower")]
    pub(crate) fn supply(&self, name: &str) -> Option<Supply> {
        self.limits.get(name, self.watch.epoch()).map(|published| published.limit.terms.supply)
    }

    /// Takes out what was taken ahead, to be given back.
    fn in_hand(&self) -> Vec<Back> {
        let now = self.clock.now();
        self.slots.all().iter().filter_map(|slot| slot.hand_back(now)).collect()
    }

    /// Reads the limit `name` anew when it is next asked for.
    pub(crate) fn forget_limit(&self, name: &LimitName) {
        self.limits.forget(name.as_str());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let in_hand = self.in_hand();
        if !in_hand.is_empty() {
            self.runtime.spawn(Back::give_all(in_hand, self.connection(), self.deadline));
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("deadline", &self.deadline)
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}
