//! The sweep for stray counters: a slow scan that removes counters without a bucket.
//!
//! A late bare `DECR` creates such a counter, of a bucket that is full by then or of a removed limit. It never expires,
//! and no index names it. The sweep also removes keys at rest of removed limits, and keys that are no strings. It ends fixed
//! windows whose worker has died between the count and the expiry.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::InNamespace,
    scripts::{self, Strays},
};

use crate::text::counted;

/// Keys that one step scans: 0.3 ms of Redis at most, if all of them are counters.
const STEP: usize = 100;
/// The pause after a step: 0.3 % of Redis at most, and a million keys in 17 minutes. Several daemons share this load.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a round, so that a small keyspace is not scanned all the time. A key of a wrong type is an error to
/// every take until then.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// Sweeps round after round, without end.
pub(super) async fn sweep_strays(connection: Connection) {
    loop {
        match sweep_round(&connection).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!("removed {}", counted(removed, "stray counter")),
            Err(error) => tracing::debug!(
                "the sweep for stray counters failed ({error}); starting again in {ROUND_PAUSE:?}"
            ),
        }
        sleep(ROUND_PAUSE).await;
    }
}

/// Scans each key once. Returns the number of removed keys.
async fn sweep_round(connection: &Connection) -> RedisResult<usize> {
    let conn = &mut connection.clone();
    let daemons = scripts::daemons(conn).await?.len().clamp(1, 100);
    // A limit published during the round is not in this list, but its record tells the script that it exists.
    let published = scripts::published_limits(conn).await?;
    let mut removed = 0;
    for mut node in connection.each_node().await? {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (strays, next) = scripts::find_strays(&mut node, &published, from, STEP).await?;
            removed += end_strays(conn, strays).await?;
            cursor = next;
            sleep(STEP_PAUSE * daemons as u32).await;
        }
    }
    Ok(removed)
}

/// Removes the counters of `strays`, and has its windows end. Returns the number of removed counters.
pub(crate) async fn end_strays(conn: &mut Connection, strays: Strays) -> RedisResult<usize> {
    let mut removed = 0;
    for ((name, shard), members) in strays.counters {
        let keys = ShardKeys::new(conn.namespace(), &name, shard);
        removed += scripts::sweep_keys(conn, &keys, &members).await?;
    }
    for ((name, shard), members) in strays.windows {
        let keys = ShardKeys::new(conn.namespace(), &name, shard);
        for member in members {
            let nothing = Operation::Refund(0);
            scripts::settle(conn, Algorithm::FixedWindow, &keys, &member, nothing, false, None).await?;
        }
    }
    Ok(removed)
}
