//! The fixture of all benchmarks: a private Redis, the daemon, one client.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use topup::{Bucket, Client};
use topup_lab::{Fixture, Random, published};

/// As many keys as in every comparison.
pub(crate) const KEYS: usize = 10_000;
/// Takes timed as one: so short a time that nothing expires meanwhile.
pub(crate) const SAMPLE: u32 = 1_000;

/// Longer than any benchmark keeps the client's tasks from running.
const LONG: Duration = Duration::from_secs(60);

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

pub(crate) struct Shared {
    pub(crate) client: Client,
    fixture: Fixture,
    /// Runs the client's tasks only while somebody waits for Redis: none of them is part of what is timed otherwise.
    pub(crate) runtime: Runtime,
}

/// The fixture, for one benchmark at a time. The first benchmark starts it.
pub(crate) fn shared() -> MutexGuard<'static, Option<Shared>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.is_none() {
        *shared = Some(Shared::start());
    }
    shared
}

/// Ends the fixture.
pub(crate) fn end() {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
}

// === impl Shared ===

impl Shared {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let topupd =
            std::env::var_os("TOPUPD").map(PathBuf::from).expect("TOPUPD names the daemon's program");
        let (fixture, client) = runtime.block_on(async {
            let fixture = topup_bench::fixture::start(&topupd, None, None).await.unwrap();
            // Between two samples nobody runs its tasks, and what they were asked for waits.
            let client = Client::builder().deadline(LONG).connect(fixture.url()).await.unwrap();
            (fixture, client)
        });
        Self { client, fixture, runtime }
    }

    /// A limit, once it is published.
    pub(crate) fn limit(&self, name: &str, keyed: bool) -> Bucket {
        self.runtime
            .block_on(published(self.fixture.url(), &[(name, keyed.then_some("key-0"))], LONG))
            .unwrap();
        self.client.limit(name)
    }

    /// Empties each of `buckets` that is not known to be empty.
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
    let mut random = Random::new(1);
    move || random.below(KEYS)
}
