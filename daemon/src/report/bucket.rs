//! One bucket of a published limit: where it is, and what may be done to it by hand.

use std::time::Duration;

use redis::RedisError;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::{ShardKeys, shard_of},
    limit::{Key, KeyError, Limit, LimitName, Mode, NameError},
    namespace::InNamespace,
    reply::{Settled, Verdict},
    schema::NewerSchema,
    scripts,
};

/// The limit record, shard and key of a bucket.
pub(crate) struct BucketLocation {
    pub(crate) connection: Connection,
    pub(crate) limit: Limit,
    /// The limit's mode for this key.
    pub(crate) mode: Mode,
    keys: ShardKeys,
    /// The key; empty for an unkeyed limit.
    member: String,
}

/// The reason why nothing is known of a bucket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BucketError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("limit {0} is keyed")]
    NeedsKey(LimitName),
    #[error("limit {0} has one bucket for all")]
    HasNoKeys(LimitName),
    #[error("limit {0} has permits in place of tokens: workers acquire and release them")]
    HasPermits(LimitName),
    #[error("no limit {0} is published")]
    Unpublished(LimitName),
    #[error("limit {0} has changed just now: try again")]
    Changed(LimitName),
    #[error("limit {0} holds at most {1} tokens: take no more than that")]
    ExceedsCapacity(LimitName, u64),
    #[error("{0}")]
    NewerSchema(NewerSchema),
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
}

/// The published limit `name`.
///
/// # Errors
/// If there is none, or if Redis does not tell.
pub(crate) async fn find_limit(connection: &mut Connection, name: &str) -> Result<Limit, BucketError> {
    let name: LimitName = name.parse()?;
    if let Some(newer) = scripts::newer_schema(connection).await? {
        return Err(BucketError::NewerSchema(newer));
    }
    let published = scripts::read_limit(connection, &name).await?;
    Ok(published.ok_or(BucketError::Unpublished(name))?.limit)
}

// === impl BucketLocation ===

impl BucketLocation {
    /// Finds the bucket of `limit`, or of its `key`.
    ///
    /// # Errors
    /// If there can be no such bucket, or if Redis does not tell.
    pub(crate) async fn find(
        mut connection: Connection,
        limit: &str,
        key: Option<&str>,
    ) -> Result<Self, BucketError> {
        key.map(Key::new).transpose()?;
        let limit = find_limit(&mut connection, limit).await?;
        Self::of(connection, limit, key)
    }

    /// The bucket of the published `limit`, or of its `key`.
    ///
    /// # Errors
    /// If there can be no such bucket.
    pub(crate) fn of(connection: Connection, limit: Limit, key: Option<&str>) -> Result<Self, BucketError> {
        let name = limit.name;
        let (member, shard) = match (key, limit.keyed) {
            (Some(key), true) => (key, shard_of(key, limit.shards)),
            (None, false) => ("", 0),
            (None, true) => return Err(BucketError::NeedsKey(name)),
            (Some(_), false) => return Err(BucketError::HasNoKeys(name)),
        };
        let (mode, keys) =
            (limit.rollout.mode_for(key), ShardKeys::new(connection.namespace(), &name, shard));
        Ok(Self { connection, mode, keys, member: member.to_owned(), limit })
    }

    /// Carries out `operation`. A limit that is off asks Redis for a reset only, as a worker does.
    ///
    /// # Errors
    /// If more tokens are asked for than the bucket can hold, or if Redis does not answer.
    pub(crate) async fn settle(&self, operation: Operation) -> Result<Settled, BucketError> {
        if self.limit.algorithm.has_permits() && !matches!(operation, Operation::Peek(_)) {
            return Err(BucketError::HasPermits(self.limit.name));
        }
        if operation == Operation::Reset {
            return self.put_in(None).await;
        }
        if self.mode == Mode::Off {
            return Ok(Settled::free(self.limit.terms.capacity, operation));
        }
        let (mut connection, algorithm) = (self.connection.clone(), self.limit.algorithm);
        let settle =
            scripts::settle(&mut connection, algorithm, &self.keys, &self.member, operation, false, 0);
        self.checked(settle.await?)
    }

    /// Puts tokens into the bucket, or fills it.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn put_in(&self, tokens: Option<u64>) -> Result<Settled, BucketError> {
        if self.limit.algorithm.has_permits() {
            return Err(BucketError::HasPermits(self.limit.name));
        }
        let (mut connection, algorithm) = (self.connection.clone(), self.limit.algorithm);
        let in_hand_for = self.limit.in_hand_for();
        let request = scripts::PutIn { tokens, spare: 0, full_at: None, in_hand_for };
        let put_in = scripts::put_in(&mut connection, algorithm, &self.keys, &self.member, request);
        self.checked(put_in.await?)
    }

    /// Time until the pause of the bucket ends, if it is paused and the limit enforced.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn paused(&self) -> Result<Option<Duration>, BucketError> {
        if self.mode != Mode::Enforce {
            return Ok(None);
        }
        let mut connection = self.connection.clone();
        // A user of an earlier version may not read pauses.
        let Ok(all) = scripts::paused(&mut connection).await else { return Ok(None) };
        let is_this = |pause: &&scripts::Pause| {
            pause.limit == self.limit.name && pause.key.as_ref().is_none_or(|key| *key == self.member)
        };
        let Some(until) = all.pauses.iter().filter(is_this).map(|pause| pause.until).max() else {
            return Ok(None);
        };
        let now = scripts::now(&mut connection).await?;
        Ok((until > now).then(|| Duration::from_micros(until - now)))
    }

    fn checked(&self, settled: Settled) -> Result<Settled, BucketError> {
        let name = self.limit.name;
        match settled.verdict {
            Verdict::Allowed | Verdict::Denied => Ok(settled),
            Verdict::Unknown => Err(BucketError::Changed(name)),
            Verdict::ExceedsCapacity => Err(BucketError::ExceedsCapacity(name, settled.capacity)),
        }
    }
}
