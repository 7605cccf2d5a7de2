//! A bucket, and the way to its entry in the bucket cache.

mod peek;
mod take;

use std::sync::{Arc, OnceLock};

use topup_wire::{
    bucket::Operation,
    limit::{MAX_TOKENS, OnOutage},
    reply::{Settled, Verdict},
};

use crate::{
    decision::Decision,
    error::Error,
    machine::Denial,
    outage::Policies,
    shell::{BucketEntry, Handle, LimitHandle},
};

/// The bucket of an unkeyed limit, or of one key of a keyed limit: from [`Client::limit`](crate::Client::limit).
///
/// Cheap to make for each take, and to keep and clone. An invalid name is no error before the first operation.
///
/// # Examples
/// ```no_run
/// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
/// let bucket = topup.limit("user").key("alice");
/// if bucket.take(1).await?.is_allowed() {
///     println!("{} tokens left", bucket.peek().await?.remaining());
///     bucket.refund(1).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    handle: Handle,
    target: Target,
    policies: Policies,
}

/// The cache entry of a bucket, or the way to it.
#[derive(Clone, Debug)]
enum Target {
    /// A limit. The entry of its one bucket is looked up at the first operation.
    Limit(Arc<LimitHandle>, OnceLock<Arc<BucketEntry>>),
    Bucket(Arc<BucketEntry>),
    /// An invalid name or key.
    Invalid(Box<Error>),
}

/// The answer to an operation on a key: the bucket that it is for, or a decision without one.
pub(crate) enum Here {
    Bucket(Bucket),
    Decided(Decision),
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(handle: Handle, limit: &str) -> Self {
        let target = match limit.parse() {
            Ok(name) => Target::Limit(handle.shared().limits.get(name), OnceLock::new()),
            Err(error) => Target::Invalid(Box::new(Error::InvalidName(error))),
        };
        Self { handle, target, policies: Policies::default() }
    }

    /// The bucket of `entry`.
    pub(crate) fn of(handle: &Handle, entry: &Arc<BucketEntry>) -> Self {
        Self { handle: handle.clone(), target: Target::Bucket(entry.clone()), policies: Policies::default() }
    }

    /// The bucket of `key`, any UTF-8 text of 1 to 256 bytes. For keyed limits only.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let handle = self.handle.clone();
        let limit = match &self.target {
            Target::Limit(limit, _) => limit,
            Target::Bucket(entry) => entry.limit(),
            Target::Invalid(_) => return self.clone(),
        };
        let shared = handle.shared();
        let target = match shared.buckets.get(&shared.limits, limit, Some(key.as_ref())) {
            Ok(entry) => Target::Bucket(entry),
            Err(error) => Target::Invalid(error.into()),
        };
        Self { handle, target, policies: self.policies }
    }

    /// Sends `operation` in a command of its own, to the script of the limit's algorithm.
    pub(crate) async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        let entry = self.entry()?;
        self.handle.check_circuit(entry)?;
        entry.settle(operation, false, None, &self.handle).await
    }

    pub(crate) const fn policies(&self) -> Policies {
        self.policies
    }

    pub(crate) fn with_policies(self, policies: Policies) -> Self {
        if policies.call == Some(OnOutage::Local) {
            self.handle.shared().control.use_local();
        }
        Self { policies, ..self }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The entry of the bucket in the bucket cache.
    #[inline]
    pub(crate) fn entry(&self) -> Result<&Arc<BucketEntry>, Error> {
        match &self.target {
            Target::Bucket(entry) => Ok(entry),
            Target::Invalid(error) => Err(Error::clone(error)),
            Target::Limit(limit, found) => match found.get() {
                Some(entry) => Ok(entry),
                None => {
                    let shared = self.handle.shared();
                    let entry = shared.buckets.get(&shared.limits, limit, None)?;
                    Ok(found.get_or_init(|| entry))
                }
            },
        }
    }
}

#[inline]
pub(crate) fn checked(count: u64) -> Result<(), Error> {
    if count == 0 || count > MAX_TOKENS { Err(Error::InvalidCount { count }) } else { Ok(()) }
}

pub(crate) fn decision(settled: &Settled) -> Decision {
    match settled.verdict {
        Verdict::Allowed => Decision::Allowed { remaining: settled.tokens, capacity: settled.capacity },
        _ => Denial::from(settled).into(),
    }
}
