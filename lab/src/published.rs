//! Waiting for the daemon's publication.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{sleep, timeout};
use topup::{Client, Error};
use topup_wire::{connection::connect_lazily, scripts};

/// Between two looks: short against a publication of some 10 ms, and cheap. The looks and the caller's deadline decide.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Returns when all of `buckets`, each a limit's name and perhaps a key, are published on the Redis at `url`, and the
/// generation is announced.
///
/// # Errors
/// When that does not happen `within` this time, or a worker could not use the limits.
pub async fn published(url: &str, buckets: &[(&str, Option<&str>)], within: Duration) -> anyhow::Result<()> {
    let looks = async {
        let client = Client::connect(url).await?;
        for (limit, key) in buckets {
            let limit = client.limit(*limit);
            let bucket = key.map_or(limit.clone(), |key| limit.key(key));
            while let Err(error) = bucket.peek().await {
                match error {
                    Error::UnknownLimit { .. } | Error::NothingPublished { .. } => sleep(LOOK_EVERY).await,
                    // A machine that is busy with something else.
                    error if error.is_transient() => {}
                    error => return Err(error.into()),
                }
            }
        }
        // The announcement is last. A worker that knew limits before it would read all of them again.
        let mut connection = connect_lazily(url)?;
        while scripts::generation(&mut connection).await?.is_none() {
            sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    let names = || buckets.iter().map(|(limit, _)| *limit).collect::<Vec<_>>().join(", ");
    timeout(within, looks).await.with_context(|| format!("topupd does not publish {}", names()))?
}
