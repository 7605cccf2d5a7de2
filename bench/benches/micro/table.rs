//! What all benchmarks stand on: a private Redis, the daemon, one client.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use topup::{Bucket, Client};
use topup_bench::Fixture;

/// As many keys as in every comparison.
pub(crate) const KEYS: usize = 10_000;
/// Takes timed as one: so short a time that nothing expires meanwhile.
pub(crate) const SAMPLE: u32 = 1_000;

/// Longer than any benchmark keeps the client's tasks from running.
const LONG: Duration = Duration::from_secs(60);

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

pub(crate) struct Table {
    pub(crate) client: Client,
    fixture: Fixture,
    /// Runs the client's tasks only while somebody waits for Redis: none of them is part of what is timed otherwise.
    pub(crate) runtime: Runtime,
}

/// The table, for as long as one benchmark needs it; set by the first.
pub(crate) fn lay() -> MutexGuard<'static, Option<Table>> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if table.is_none() {
        *table = Some(Table::set());
    }
    table
}

/// Ends everything.
pub(crate) fn clear() {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).take();
}

// === impl Table ===

impl Table {
    fn set() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let topupd =
            std::env::var_os("TOPUPD").map(PathBuf::from).expect("TOPUPD names the daemon's program");
        let (fixture, client) = runtime.block_on(async {
            let fixture = Fixture::start(&topupd, None).await.unwrap();
            // Between two samples nobody runs its tasks, and what they were asked for waits.
            let client = Client::builder().deadline(LONG).connect(fixture.url()).await.unwrap();
            (fixture, client)
        });
        Self { client, fixture, runtime }
    }

    /// A limit, once it is published.
    pub(crate) fn limit(&self, name: &str, keyed: bool) -> Bucket {
        self.runtime.block_on(self.fixture.published(name, keyed.then_some("key-0"))).unwrap();
        self.client.limit(name)
    }

    /// Asks Redis for each of `buckets` of which it is not known here that it is empty.
    pub(crate) fn deny(&self, buckets: &[Bucket]) {
        self.runtime.block_on(stream::iter(buckets).for_each_concurrent(256, async |bucket| {
            while bucket.try_take().is_none() && bucket.take(1).await.unwrap().is_allowed() {}
        }));
    }
}

/// The names of all keys.
pub(crate) fn names() -> Vec<String> {
    (0..KEYS).map(|key| format!("key-{key}")).collect()
}

/// Numbers below [`KEYS`] in no order.
pub(crate) fn at_random() -> impl FnMut() -> usize {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % KEYS as u64) as usize
    }
}
