//! topup, as a worker uses it.

use futures_util::future::BoxFuture;
use topup::{Client, Decision};
use topup_lab::clock::micros;

use super::{Ask, Limiter, LimiterUnderTest};
use crate::take::Answer;

#[derive(Debug)]
pub(super) struct Ours {
    client: Client,
    limit: String,
    leased: bool,
}

// === impl Ours ===

impl Ours {
    pub(super) async fn connect(redis: &str, under_test: &LimiterUnderTest) -> anyhow::Result<Self> {
        let leased = under_test.limiter == Limiter::TokenBucketLeased;
        Ok(Self { client: Client::connect(redis).await?, limit: under_test.name.clone(), leased })
    }
}

impl Ask for Ours {
    fn take<'a>(&'a self, key: &'a str, count: u64) -> BoxFuture<'a, anyhow::Result<Answer>> {
        Box::pin(async move {
            let bucket = self.client.limit(self.limit.as_str()).key(key);
            // As its documentation says of limits with a lease.
            let ahead = if self.leased && count == 1 { bucket.try_take() } else { None };
            let decision = match ahead {
                Some(decision) => decision,
                None => bucket.take(count).await?,
            };
            Ok(match decision {
                Decision::Denied { retry_after, .. } => {
                    Answer::Denied { retry_after: Some(micros(retry_after)) }
                }
                _ => Answer::Allowed,
            })
        })
    }
}
