//! A counter per window, which begins with its first request.

use futures_util::future::BoxFuture;
use redis::{Cmd, RedisResult, Script};

use super::{Common, Form};

/// GET, and INCR when there is room: two others may have read the same in between.
pub(super) struct Racy;

/// INCR, and EXPIRE with the first, in one script.
pub(super) struct Lua(Script);

// === impl Racy ===

impl Form for Racy {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(async move {
            let connection = &mut common.connection();
            let so_far: Option<u64> = Cmd::get(&key).query_async(connection).await?;
            if so_far.unwrap_or(0) + count > common.rule.capacity {
                return Ok(false);
            }
            let now: u64 = Cmd::incr(&key, count).query_async(connection).await?;
            if now == count {
                let window = i64::try_from(common.window_ms()).unwrap_or(i64::MAX);
                Cmd::pexpire(&key, window).exec_async(connection).await?;
            }
            Ok(true)
        })
    }
}

// === impl Lua ===

impl Lua {
    pub(super) fn new() -> Self {
        Self(Script::new(include_str!("fixed.lua")))
    }
}

impl Form for Lua {
    fn decide<'a>(&'a self, common: &'a Common, key: String, count: u64) -> BoxFuture<'a, RedisResult<bool>> {
        Box::pin(
            async move { common.run(&self.0, key, &[common.rule.capacity, common.window_ms(), count]).await },
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]
mod tests {
    use futures_util::future::try_join_all;
    use topup_embedded::RedisServer;
    use topup_wire::connection::connect_lazily;

    use super::*;
    use crate::rule::Rule;

    /// All `GET`s are on their way before the first reply is read, as they are where workers ask at one instant.
    #[tokio::test]
    async fn takes_that_read_before_any_has_written_exceed_the_limit() {
        let server = RedisServer::start().unwrap();
        let connection = connect_lazily(server.url()).unwrap();
        let prefix = "limit".to_owned();
        let common = Common { connection, rule: Rule::per_second(5, 5), prefix, worker: 0, skew: 0 };
        let taken = async |form: &dyn Form, user: &str| {
            let takes = (0..20).map(|_| form.decide(&common, user.to_owned(), 1));
            try_join_all(takes).await.unwrap().into_iter().filter(|allowed| *allowed).count()
        };
        assert_eq!(taken(&Racy, "one").await, 20);
        assert_eq!(taken(&Lua::new(), "other").await, 5);
    }
}
