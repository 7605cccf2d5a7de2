//! One decision of a limiter, and the load that asks for it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use crate::rules::{Rule, apart_name};

/// A limiter, ready to be asked.
pub trait Decide: Send + Sync + 'static {
    /// One take of the key numbered `key`, of the tokens that the load says: whether it is granted.
    fn decide(&self, key: usize) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// The names of the keys.
#[derive(Clone, Debug)]
pub struct Names {
    /// Names of the first keys. A name beyond them is written for each take.
    kept: Arc<[String]>,
    write: fn(usize) -> String,
}

/// The load of one worker, as its limiter sees it.
#[derive(Clone, Debug)]
pub struct Load {
    pub(crate) redis: String,
    pub(crate) rule: Rule,
    pub(crate) keys: usize,
    /// Tokens of each take. Only raw, topup, redis-cell and the GCRA script take several.
    pub(crate) tokens: u64,
    /// Whether each take is also of one bucket for all keys. Only topup and the GCRA script do that.
    pub(crate) and_all: bool,
    /// An answer after this counts as none.
    pub(crate) deadline: Option<Duration>,
    /// Whether the names of all keys are written beforehand. An open loop may have millions of keys.
    pub(crate) names_kept: bool,
}

// === impl Load ===

impl Load {
    /// The URL of the Redis to ask.
    pub fn redis(&self) -> &str {
        &self.redis
    }

    /// Tokens of a key that may be taken at once.
    pub fn capacity(&self) -> u64 {
        self.rule.capacity()
    }

    /// Tokens of a key that come each second.
    pub fn per_second(&self) -> u64 {
        self.rule.per_second()
    }

    /// The names of all keys, at least one.
    pub fn names(&self) -> Names {
        let kept = if self.names_kept { self.keys.max(1) } else { 0 };
        Names::new(kept, if self.rule == Rule::Apart { apart_name } else { |key| format!("key-{key}") })
    }
}

// === impl Names ===

impl Names {
    /// Names that `write` writes, `kept` of them beforehand.
    pub(crate) fn new(kept: usize, write: fn(usize) -> String) -> Self {
        Self { kept: (0..kept).map(write).collect(), write }
    }

    /// The name of the key numbered `key`.
    pub fn of(&self, key: usize) -> Cow<'_, str> {
        match self.kept.get(key) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned((self.write)(key)),
        }
    }

    /// Names written beforehand.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }
}
