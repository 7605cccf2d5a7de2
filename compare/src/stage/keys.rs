//! What a comparison writes to Redis, and how it is found again.

use redis::{Cmd, RedisResult, aio::ConnectionLike};
use topup_wire::keyspace::LIMITS;

use crate::limiter::{Contender, RIVAL_PREFIX};

/// Keys of one command.
const SLICE: usize = 500;

/// Whether some topup has published limits here: a second one with another config would remove them.
pub(super) async fn is_in_use(connection: &mut impl ConnectionLike) -> RedisResult<bool> {
    Cmd::exists(LIMITS).query_async(connection).await
}

/// Keys of any kind.
pub(super) async fn count(connection: &mut impl ConnectionLike) -> RedisResult<u64> {
    Cmd::new().arg("DBSIZE").query_async(connection).await
}

/// Removes all that a comparison writes, and nothing else.
pub(super) async fn remove_all(connection: &mut impl ConnectionLike) -> RedisResult<()> {
    for pattern in [format!("{RIVAL_PREFIX}*"), "topup:{compare-*".to_owned(), "topup:{topup}:*".to_owned()] {
        let keys = scan(connection, &pattern).await?;
        for keys in keys.chunks(SLICE) {
            Cmd::unlink(keys).exec_async(connection).await?;
        }
    }
    Ok(())
}

/// Bytes that the state of `contender` takes, indexes included; what a limit costs however many buckets it has is not.
pub(super) async fn bytes(connection: &mut impl ConnectionLike, contender: &Contender) -> RedisResult<u64> {
    let patterns = if contender.limiter.is_ours() {
        vec![format!("topup:{{{}:*", contender.name)]
    } else {
        vec![format!("{}:*", contender.name)]
    };
    let mut sum = 0;
    for pattern in patterns {
        for key in scan(connection, &pattern).await? {
            if key.ends_with(":limit") {
                continue;
            }
            let usage = Cmd::new().arg("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).to_owned();
            let bytes: Option<u64> = usage.query_async(connection).await?;
            // One that has expired since takes nothing.
            sum += bytes.unwrap_or(0);
        }
    }
    Ok(sum)
}

async fn scan(connection: &mut impl ConnectionLike, pattern: &str) -> RedisResult<Vec<String>> {
    let (mut found, mut cursor) = (Vec::new(), 0_u64);
    loop {
        let scan =
            Cmd::new().arg("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000).to_owned();
        let (next, mut keys): (u64, Vec<String>) = scan.query_async(connection).await?;
        found.append(&mut keys);
        cursor = next;
        if cursor == 0 {
            return Ok(found);
        }
    }
}
