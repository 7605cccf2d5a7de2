//! Sources of assignments: files and databases that the daemon reads again and again.
//!
//! They have a thread, a runtime and a connection to Redis of their own. A million rows therefore keep no bucket from
//! being refilled. One daemon at a time reads the source of a limit, and writes what differs from Redis.

mod file;
mod follower;
#[cfg(feature = "sql")]
mod sql;
mod withdraw;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{runtime, sync::watch};
use topup_wire::{
    assigned_keys::AssignedKeys,
    connection::{Connection, connect_lazily},
    limit::LimitName,
};

use crate::config::{Config, RedisUrl};
use follower::Follower;
use withdraw::withdraw;

/// Most rows of a source. A million with keys of 16 bytes take 85 MB while they are compared, and 170 MB while many
/// changes are written.
const MOST_ROWS: usize = 2_000_000;
/// The longest look at a source.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// The settings of all sources.
#[derive(Debug)]
pub(crate) struct SourceSettings {
    /// The name of this daemon.
    pub(crate) id: String,
    /// The Redis that has the assignments.
    pub(crate) url: RedisUrl,
    /// The folder in which relative paths begin.
    pub(crate) folder: PathBuf,
    /// The config to begin with.
    pub(crate) config: Arc<Config>,
}

/// The sources of a config. Their thread ends some time after this is dropped.
#[derive(Debug)]
pub(crate) struct Sources {
    configs: watch::Sender<Arc<Config>>,
}

// === impl Sources ===

impl Sources {
    /// Begins to read the sources of a config.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(settings: SourceSettings) -> io::Result<Self> {
        let (configs, watched) = watch::channel(settings.config.clone());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("sources".to_owned());
        thread.spawn(move || {
            runtime.block_on(run(&settings, watched));
            // A database that hangs is left behind.
            runtime.shutdown_background();
        })?;
        Ok(Self { configs })
    }

    /// Reads the sources of this config from now on, all of them at once.
    pub(crate) fn apply(&self, config: Arc<Config>) {
        self.configs.send_replace(config);
    }
}

async fn run(settings: &SourceSettings, mut configs: watch::Receiver<Arc<Config>>) {
    // The engine has connected to the same URL, so it is a right one.
    let Ok(connection) = connect_lazily(settings.url.as_str()) else { return };
    let connection = connection.in_namespace(settings.url.namespace());
    // Problems that have been logged.
    let mut said: BTreeMap<LimitName, String> = BTreeMap::new();
    loop {
        let config = configs.borrow_and_update().clone();
        let mut followers = followers(settings, &connection, &config, &mut said);
        let changed = tokio::select! {
            changed = configs.changed() => changed,
            _ = async { tokio::join!(
                withdraw(&connection, &settings.id, &config),
                join_all(followers.iter_mut().map(Follower::run)),
                std::future::pending::<()>(),
            ) } => return,
        };
        if changed.is_err() {
            return;
        }
        said = followers.into_iter().filter_map(Follower::into_said).collect();
    }
}

fn followers(
    settings: &SourceSettings,
    connection: &Connection,
    config: &Config,
    said: &mut BTreeMap<LimitName, String>,
) -> Vec<Follower> {
    let limits = config.limits.values().filter(|limit| limit.source.is_some());
    limits
        .filter_map(|limit| {
            let said = said.remove(&limit.name);
            Follower::new(settings, connection.clone(), limit, config.tick, said)
        })
        .collect()
}

/// A hash of all rows, in hexadecimal digits. Daemons of other versions may have another one.
fn hash_of(rows: &AssignedKeys) -> String {
    let mut hasher = DefaultHasher::new();
    rows.len().hash(&mut hasher);
    rows.iter().for_each(|(key, one)| (key, one.target.as_str(), one.until).hash(&mut hasher));
    format!("{:016x}", hasher.finish())
}
