//! topup, as a worker uses it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use topup::{Client, Decision};
use topup_lab::clock::{Micros, micros};

use super::{Ask, Held, HeldOrNot, Limiter, LimiterUnderTest};
use crate::take::Answer;

#[derive(Debug)]
pub(super) struct Ours {
    client: Client,
    limit: String,
    leased: bool,
    limiter: Limiter,
    held_for: Micros,
}

// === impl Ours ===

impl Ours {
    pub(super) async fn connect(redis: &str, under_test: &LimiterUnderTest) -> anyhow::Result<Self> {
        let (limiter, held_for) = (under_test.limiter, under_test.held_for());
        let leased = limiter == Limiter::TokenBucketLeased;
        let client = Client::connect(redis).await?;
        Ok(Self { client, limit: under_test.name.clone(), leased, limiter, held_for })
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
            Ok(answer(decision))
        })
    }

    fn hold<'a>(&'a self, key: &'a str, count: u64) -> Option<BoxFuture<'a, HeldOrNot>> {
        let bucket = self.client.limit(self.limit.as_str()).key(key);
        Some(match self.limiter {
            Limiter::TokenBucketSettled => Box::pin(async move {
                let hold = bucket.reserve_cost(count).await?;
                let answer = answer(hold.decision());
                let is_held = answer == Answer::Allowed;
                Ok((answer, is_held.then(|| Held::tokens(hold, count, self.held_for))))
            }),
            Limiter::Concurrency => Box::pin(async move {
                Ok(match bucket.acquire(count, Duration::ZERO).await? {
                    Ok(permit) => (Answer::Allowed, Some(Held::permit(permit, count, self.held_for))),
                    Err(_) => (Answer::Denied { retry_after: None }, None),
                })
            }),
            _ => return None,
        })
    }
}

fn answer(decision: Decision) -> Answer {
    match decision {
        Decision::Denied { retry_after, .. } => Answer::Denied { retry_after: Some(micros(retry_after)) },
        _ => Answer::Allowed,
    }
}
