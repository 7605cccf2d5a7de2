//! What is wanted of a limit.

use std::borrow::Cow;

use crate::{bucket::Bucket, client::Client};

/// So many tokens of a limit's bucket, by name: a part of an [`Admission`](crate::Admission).
#[derive(Clone, Debug)]
#[must_use = "nothing is taken until an admission decides"]
pub struct Take {
    limit: Cow<'static, str>,
    key: Option<String>,
    count: u64,
    message: Option<Cow<'static, str>>,
}

// === impl Take ===

impl Take {
    /// One token of the limit `name`.
    pub fn of(name: impl Into<Cow<'static, str>>) -> Self {
        Self { limit: name.into(), key: None, count: 1, message: None }
    }

    /// From the bucket of `key`: a limit that is keyed needs one.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// So many tokens instead of one.
    pub fn count(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// What [`Denied`](crate::Denied) says when it is this limit that denies.
    pub fn message(self, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    pub(crate) fn bucket(&self, client: &Client) -> Bucket {
        let bucket = client.limit(self.limit.as_ref());
        match &self.key {
            Some(key) => bucket.key(key),
            None => bucket,
        }
    }

    pub(crate) fn name(&self) -> (&str, Option<&str>) {
        (&self.limit, self.key.as_deref())
    }

    pub(crate) const fn tokens(&self) -> u64 {
        self.count
    }

    pub(crate) fn wording(&self) -> Option<&Cow<'static, str>> {
        self.message.as_ref()
    }
}
