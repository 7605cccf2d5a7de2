//! topup, as its documentation says: what a limit's name gives is kept, the bucket of a key made of it anew for every take.

use std::time::Duration;

use topup::{Bucket, Client};

use super::decide::{Decide, Load, Names};
use crate::rules::{Form, Rule};

/// Where a load has no deadline. Longer than its default: where thousands ask at once through one connection, what is late
/// is to be measured as such.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most buckets that a client is told to remember.
const MOST_REMEMBERED: usize = 2_000_000;

#[derive(Debug)]
pub(crate) struct Topup {
    client: Client,
    leased: bool,
    asked: Asked,
    tokens: u64,
}

/// A key, as topup sees it.
#[derive(Debug)]
enum Asked {
    /// Nothing: one bucket serves all.
    One(Bucket),
    /// A key of a limit.
    Keys(Bucket, Names),
    /// A key of a limit, and one bucket for all.
    Both(Bucket, Names, Bucket),
    /// A limit.
    Limits(Vec<Bucket>),
}

// === impl Topup ===

impl Topup {
    pub(crate) async fn new(load: &Load, names: Names, form: Form) -> anyhow::Result<Self> {
        // More than the keys it has to do with, as its documentation says.
        let remembered = (2 * load.keys).clamp(65_536, MOST_REMEMBERED);
        let deadline = load.deadline.unwrap_or(DEADLINE);
        let client =
            Client::builder().deadline(deadline).cached_buckets(remembered).connect(&load.redis).await?;
        let limit = || client.limit(load.rule.limit(load.keys > 0, form));
        let asked = match load.rule {
            Rule::Apart => Asked::Limits(names.kept().iter().map(|name| client.limit(name)).collect()),
            _ if load.and_all => {
                let of_users = client.limit(load.rule.limit(true, Form::TokenBucket));
                Asked::Both(of_users, names, client.limit(load.rule.limit(false, form)))
            }
            _ if load.keys > 0 => Asked::Keys(limit(), names),
            _ => Asked::One(limit()),
        };
        let leased = matches!(form, Form::Leased | Form::LeasedMore);
        Ok(Self { client, leased, asked, tokens: load.tokens })
    }

    async fn take(&self, bucket: &Bucket) -> anyhow::Result<bool> {
        // As its documentation says of limits with a lease: what needs no Redis needs no task.
        if self.leased
            && self.tokens == 1
            && let Some(decision) = bucket.try_take()
        {
            return Ok(decision.is_allowed());
        }
        Ok(bucket.take(self.tokens).await?.is_allowed())
    }
}

impl Decide for Topup {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        match &self.asked {
            Asked::One(bucket) => self.take(bucket).await,
            Asked::Keys(limit, names) => self.take(&limit.key(names.of(key))).await,
            Asked::Both(limit, names, all) => {
                let takes = [(limit.key(names.of(key)), self.tokens), (all.clone(), self.tokens)];
                Ok(self.client.take_all(takes).await?.is_allowed())
            }
            Asked::Limits(buckets) => self.take(&buckets[key]).await,
        }
    }
}
