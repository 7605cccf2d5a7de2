//! One part of an admission: a number of tokens of a named limit.

use std::borrow::Cow;

use crate::{bucket::Bucket, client::Client};

/// A number of tokens of one bucket, by the names of limit and key: a part of an [`Admission`](crate::Admission).
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

    /// Takes from the bucket of `key`: UTF-8 text of 1 to 256 bytes. A keyed limit needs one.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Takes `count` tokens instead of one: 1 to 2^53.
    pub fn count(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// The message of [`Denied`](crate::Denied) if this limit denies.
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

    /// The names of limit and key.
    pub(crate) fn name(&self) -> (&str, Option<&str>) {
        (&self.limit, self.key.as_deref())
    }

    pub(crate) const fn tokens(&self) -> u64 {
        self.count
    }

    pub(crate) fn denial_message(&self) -> Option<&Cow<'static, str>> {
        self.message.as_ref()
    }
}
