//! The lazy token bucket.

use std::sync::LazyLock;

use redis::{RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{bucket::Operation, keyspace::ShardKeys, lane::Command, reply::Settled};

static LAZY: LazyLock<Script> = script!("lazy_token_bucket.lua" "scripted.lua", after "quick.lua");

/// `operation` on the lazy bucket `member` of the shard `keys`, in one step and exactly.
///
/// # Errors
/// Those of Redis. The operation may have been carried out all the same.
pub async fn lazy(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
) -> RedisResult<Settled> {
    let (word, count) = operation.as_args();
    let mut call = LAZY.prepare_invoke();
    call.key(&keys.record).key(keys.lazy_state(member));
    call.arg(word).arg(count).invoke_async(connection).await
}

/// Appends the command that [`lazy`] sends, for the bucket whose state is at `state`.
pub fn ask_lazy(out: &mut Vec<u8>, keys: &ShardKeys, state: &str, operation: Operation) {
    let (word, count) = operation.as_args();
    let count = count.to_string();
    let keys = [&keys.record, state].map(str::as_bytes);
    let args = [word.as_bytes(), count.as_bytes()];
    Command::Script { hash: LAZY.get_hash(), keys: &keys, args: &args }.encode(out);
}
