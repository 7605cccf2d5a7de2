//! One bucket of a published limit: where it is, and what may be done to it by hand.

use std::time::Duration;

use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::{ShardKeys, shard_of},
    limit::{Key, Limit, LimitName, Mode, Target},
    namespace::InNamespace,
    reply::{PublishedLimit, Settled, Verdict},
    scripts,
};

use super::{bucket_error::BucketError, key_plan::KeyPlan};

/// The limit record, shard and key of a bucket.
pub(crate) struct BucketLocation {
    pub(crate) connection: Connection,
    /// The limit, and not a plan of it.
    pub(crate) limit: Limit,
    /// The limit's mode for this key.
    pub(crate) mode: Mode,
    plan: KeyPlan,
    /// The key; empty for an unkeyed limit.
    member: String,
}

/// The published limit `name`.
///
/// # Errors
/// If there is none, or if Redis does not tell.
pub(crate) async fn find_limit(
    connection: &mut Connection,
    name: &str,
) -> Result<PublishedLimit, BucketError> {
    let name: LimitName = name.parse()?;
    if let Some(newer) = scripts::newer_schema(connection).await? {
        return Err(BucketError::NewerSchema(newer));
    }
    let published = scripts::read_limit(connection, &name).await?;
    published.ok_or(BucketError::Unpublished(name))
}

/// Time until a denied take would be allowed. `None` for an allowed one, and for a key that is denied for good.
pub(crate) fn retry_after(settled: &Settled) -> Option<Duration> {
    let is_denied = settled.verdict != Verdict::Allowed && settled.wait < u64::MAX;
    is_denied.then(|| Duration::from_micros(settled.wait))
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
        Self::of(connection, limit, key).await
    }

    /// The bucket of the published limit, or of its `key`: that of the key's plan, if it has one.
    ///
    /// # Errors
    /// If there can be no such bucket, or if Redis does not tell.
    pub(crate) async fn of(
        mut connection: Connection,
        published: PublishedLimit,
        key: Option<&str>,
    ) -> Result<Self, BucketError> {
        let limit = &published.limit;
        let plan = match (key, limit.keyed) {
            (None, true) => return Err(BucketError::NeedsKey(limit.name)),
            (Some(_), false) => return Err(BucketError::HasNoKeys(limit.name)),
            (Some(key), true) if !limit.algorithm.has_permits() => {
                KeyPlan::find(&mut connection, &published, key).await?
            }
            _ => KeyPlan::Bucket { terms: Box::new(limit.clone()), target: None },
        };
        let (mode, member) = (limit.rollout.mode_for(key), key.unwrap_or_default().to_owned());
        Ok(Self { connection, mode, plan, member, limit: published.limit })
    }

    /// The key, of a keyed limit.
    pub(crate) fn key(&self) -> Option<&str> {
        Some(self.member.as_str()).filter(|_| self.limit.keyed)
    }

    /// The target of the key, unless it has the terms of the limit itself.
    pub(crate) fn target(&self) -> Option<Target> {
        match &self.plan {
            KeyPlan::Bucket { target, .. } => *target,
            KeyPlan::Exempt => Some(Target::Exempt),
            KeyPlan::Denied { .. } => Some(Target::Deny),
        }
    }

    /// The limit whose terms the bucket has, and the keys of its shard.
    ///
    /// # Errors
    /// If the key has no bucket.
    pub(crate) fn terms(&self) -> Result<(&Limit, ShardKeys), BucketError> {
        let word = match &self.plan {
            KeyPlan::Bucket { terms, .. } => {
                let shard = if terms.keyed { shard_of(&self.member, terms.shards) } else { 0 };
                return Ok((terms, ShardKeys::new(self.connection.namespace(), &terms.name, shard)));
            }
            KeyPlan::Exempt => "exempt",
            KeyPlan::Denied { .. } => "deny",
        };
        Err(BucketError::HasNoBucket(self.limit.name, word))
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
        let free = Settled::free(self.limit.terms.capacity, operation);
        match &self.plan {
            _ if self.mode == Mode::Off => return Ok(free),
            KeyPlan::Exempt => return Ok(free),
            KeyPlan::Denied { left } => {
                let wait = left.unwrap_or(u64::MAX);
                return Ok(Settled { verdict: Verdict::Denied, tokens: 0, granted: 0, wait, ..free });
            }
            KeyPlan::Bucket { .. } => {}
        }
        let ((limit, keys), mut connection) = (self.terms()?, self.connection.clone());
        let settle =
            scripts::settle(&mut connection, limit.algorithm, &keys, &self.member, operation, false, None);
        self.checked(settle.await?)
    }

    /// Puts tokens into the bucket, or fills it.
    ///
    /// # Errors
    /// If the key has no bucket, or if Redis does not answer.
    pub(crate) async fn put_in(&self, tokens: Option<u64>) -> Result<Settled, BucketError> {
        if self.limit.algorithm.has_permits() {
            return Err(BucketError::HasPermits(self.limit.name));
        }
        let ((limit, keys), mut connection) = (self.terms()?, self.connection.clone());
        let in_hand_for = limit.in_hand_for();
        let request =
            scripts::PutIn { tokens, unused: 0, unused_since: 0, spare: 0, full_at: None, in_hand_for };
        let put_in = scripts::put_in(&mut connection, limit.algorithm, &keys, &self.member, request);
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
