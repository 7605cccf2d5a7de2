//! The removal of limits whose definition by code has ended.
//!
//! Several daemons may do it at once: each step asks again whether the limit has ended.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;
use topup_wire::{connection::Connection, publishing::remove_ended, scripts};

/// Between two looks at the ends of definitions.
const STEP: Duration = Duration::from_secs(1);
/// From the end of a definition to its removal, in µs. Workers know of the end by then.
const GRACE: u64 = 1_000_000;
/// Limits that are removed before the next look.
const MOST: usize = 100;

/// Removes limits without end whose definition has ended.
pub(super) async fn remove_ended_definitions(connection: Connection) {
    loop {
        sleep(STEP).await;
        if let Err(error) = remove_some(&connection).await {
            tracing::debug!("limits that were defined by code are not removed ({error}); trying again");
        }
    }
}

async fn remove_some(connection: &Connection) -> RedisResult<()> {
    let conn = &mut connection.clone();
    if !scripts::has_definitions(conn).await? {
        return Ok(());
    }
    let ended = scripts::now(conn).await?.saturating_sub(GRACE);
    for name in scripts::ended_definitions(conn, ended, MOST).await? {
        if remove_ended(connection, &name).await? {
            tracing::info!("limit {name}: nobody renewed its definition by code, so it is removed");
        }
    }
    Ok(())
}
