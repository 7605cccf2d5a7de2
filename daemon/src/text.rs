//! Wording that several messages share.

use std::time::{Duration, UNIX_EPOCH};

/// The end of the year 2255, which a text of four digits can tell.
const LATEST: u64 = 1 << 53;

/// Formats an instant, in µs of Redis `TIME`, as in `2026-11-22T18:39:00Z`.
pub fn utc(instant: u64) -> String {
    let since_1970 = Duration::from_micros(instant.min(LATEST));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string()
}

/// A number and its noun: "1 limit", "2 limits".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A number in groups of three digits: "3,120".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// A length of time, rounded up to whole seconds, or below one to milliseconds.
pub fn length(time: Duration) -> humantime::FormattedDuration {
    let whole = if time < Duration::from_secs(1) {
        Duration::from_millis(time.as_micros().div_ceil(1_000) as u64)
    } else {
        Duration::from_secs(time.as_micros().div_ceil(1_000_000) as u64)
    };
    humantime::format_duration(whole)
}
