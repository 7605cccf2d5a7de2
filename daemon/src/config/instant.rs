//! Instants as a config writes them.

use std::str::FromStr;

use chrono::DateTime;

/// An instant with its time zone, in µs since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub u64);

/// A text that is no instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no instant with a time zone: write one such as 2026-12-01T00:00:00Z")]
pub struct InstantError(String);

// === impl Instant ===

impl FromStr for Instant {
    type Err = InstantError;

    fn from_str(text: &str) -> Result<Self, InstantError> {
        let micros = DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp_micros());
        let micros = micros.and_then(|micros| u64::try_from(micros).ok());
        micros.map(Self).ok_or_else(|| InstantError(text.chars().take(80).collect()))
    }
}
