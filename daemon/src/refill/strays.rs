//! The slow sweep: finds and removes counters that are no bucket of any limit.
//!
//! A bare `DECR` that comes late leaves one, of a bucket that is full by then or of a limit that is gone. It never expires,
//! and no index names it. Keys at rest of a removed limit are found, too.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;
use topup_wire::{connection::Connection, keyspace::ShardKeys, scripts};

/// Keys that one step looks at: some 0.3 ms of Redis at most, when all of them are counters.
const STEP: usize = 100;
/// From step to step, of one daemon: 0.3 % of Redis at most, and a million keys in 17 minutes. Several daemons share this.
const EVERY: Duration = Duration::from_millis(100);
/// From round to round. Small keyspaces would be gone through all the time.
const REST: Duration = Duration::from_secs(60);

/// Sweeps round after round, and never ends.
pub(super) async fn sweep_strays(connection: Connection) {
    loop {
        match round(&connection).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!("removed {removed} stray counters"),
            Err(error) => tracing::debug!("the slow sweep was cut short ({error})"),
        }
        sleep(REST).await;
    }
}

/// Looks at each key once: how many were removed.
async fn round(connection: &Connection) -> RedisResult<usize> {
    let conn = &mut connection.clone();
    let daemons = scripts::daemons(conn).await?.len().clamp(1, 100);
    // A limit that is published meanwhile seems to be none, but its record tells the script.
    let published = scripts::published_limits(conn).await?;
    let mut removed = 0;
    for mut node in connection.each_node().await? {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (strays, next) = scripts::find_strays(&mut node, &published, from, STEP).await?;
            for ((name, shard), members) in strays {
                removed += scripts::sweep_keys(conn, &ShardKeys::new(&name, shard), &members).await?;
            }
            cursor = next;
            sleep(EVERY * daemons as u32).await;
        }
    }
    Ok(removed)
}
