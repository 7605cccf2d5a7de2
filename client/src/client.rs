//! The client: one per process is enough.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use topup_wire::{
    connection::{Connection, Link},
    lane::Lane,
    limit::LimitName,
    scripts,
};

use crate::{
    bucket::Bucket,
    clock::Clock,
    deadline,
    error::Error,
    published::{Cache, Published},
    slot::Ticket,
    slots::Slots,
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
    link: Arc<Link>,
    pub(crate) clock: Clock,
    pub(crate) lane: Lane<Ticket>,
    pub(crate) slots: Slots,
    pub(crate) watch: Arc<Watch>,
    pub(crate) deadline: Duration,
    limits: Cache,
    pub(crate) module: Module,
    /// What runs the client's own tasks, wherever it is called from.
    pub(crate) runtime: Handle,
}

/// Settings of a [`Client`], from [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    deadline: Duration,
}

// === impl Client ===

impl Client {
    /// A client of the Redis at `url`: `redis://[user:password@]host[:port][/db]` or `unix:///path[?db=n]`.
    ///
    /// # Errors
    /// When `url` is not of that form, or Redis does not answer within two seconds.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Settings to choose before connecting.
    pub fn builder() -> Builder {
        Builder { deadline: DEADLINE }
    }

    /// The limit `name`, as in `[limit.name]` of the daemon's config. Nothing is asked of Redis yet.
    pub fn limit(&self, name: impl Into<String>) -> Bucket {
        Bucket::new(self.clone(), name.into())
    }

    /// Tokens this client has taken ahead and may still spend, of limits with a `lease`: so many are missing elsewhere.
    pub fn tokens_held(&self) -> u64 {
        self.0.slots.all().iter().map(|slot| slot.held(self)).sum()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self(shared)
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

    /// Connects to the Redis at `url`, as [`Client::connect`] does.
    ///
    /// # Errors
    /// When `url` is not of a Redis, or Redis does not answer within two seconds.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let link = Arc::new(Link::open(url)?);
        let watch = Arc::new(Watch::default());
        let first = tokio::time::timeout(FIRST_DEADLINE, scripts::poll(&mut link.get())).await;
        watch.note(&first.map_err(|_| Error::DeadlineExceeded { deadline: FIRST_DEADLINE })??);
        watch.start(link.clone(), self.deadline);
        let shared = Arc::new(Shared {
            link,
            clock: Clock::start(),
            lane: Lane::open(url)?,
            slots: Slots::new(),
            watch,
            deadline: self.deadline,
            limits: Cache::default(),
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
        self.link.get()
    }

    /// The limit `name` as published now.
    pub(crate) async fn published(&self, name: &LimitName) -> Result<Arc<Published>, Error> {
        let epoch = self.watch.epoch();
        if let Some(published) = self.limits.get(name.as_str(), epoch) {
            return Ok(published);
        }
        let limit = scripts::read_limit(&mut self.connection(), name).await?;
        let limit = limit.ok_or_else(|| Error::UnknownLimit { limit: name.to_string() })?;
        let published = Arc::new(Published::new(limit, epoch));
        self.limits.put(published.clone());
        Ok(published)
    }

    /// Reads the limit `name` anew when it is next asked for.
    pub(crate) fn forget_limit(&self, name: &str) {
        self.limits.forget(name);
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
