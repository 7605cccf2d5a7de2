//! The schema: the version of the keys, their values, and what the scripts of daemons and workers expect of each other.
//!
//! Daemons write its number to Redis with their heartbeats. Workers read it with their control polls. A version that
//! finds a higher number than its own neither writes nor decides. A record may gain fields, and a script may change,
//! under the same number: versions of one number work together.

use std::fmt;

/// The schema that this version writes, and the highest that it knows. Rises when an older version would decide wrongly
/// or break something; `CONTRIBUTING.md` has the steps. A Redis without a number has schema 1 or nothing.
pub const SCHEMA: u64 = 1;

/// A schema that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewerSchema(u64);

impl NewerSchema {
    /// `schema`, if it is higher than [`SCHEMA`].
    pub const fn of(schema: u64) -> Option<Self> {
        if schema > SCHEMA { Some(Self(schema)) } else { None }
    }

    /// The number of the schema.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NewerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the keys in Redis are of schema {}, and this version knows {SCHEMA} at most", self.0)
    }
}
