//! Tests of the calendar: dates worked out by hand, and laws.

mod dates;
mod laws;
mod texts;

use chrono::{NaiveDateTime, TimeZone};

use super::Calendar;

/// The µs after the epoch of a text such as `2026-03-29T01:30:00Z`.
fn utc(text: &str) -> u64 {
    let instant = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%SZ").expect(text).and_utc();
    u64::try_from(instant.timestamp_micros()).expect("after the epoch")
}

/// The instant `micros` µs after the epoch, as a text in `zone` such as `2026-03-29 03:00:00 CEST`.
fn shown(micros: Option<u64>, zone: chrono_tz::Tz) -> String {
    let Some(micros) = micros else { return "never".to_owned() };
    let micros = i64::try_from(micros).expect("in the calendar");
    zone.timestamp_micros(micros).unwrap().format("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The firings of `cron` in `zone` after `from`, up to and including `to`, found by `next`.
fn between(cron: &str, zone: chrono_tz::Tz, from: &str, to: &str) -> Vec<String> {
    let calendar = Calendar::parse(cron, zone.name()).expect(cron);
    let mut now = utc(from);
    let mut firings = Vec::new();
    while let Some(next) = calendar.next(now).filter(|next| *next <= utc(to)) {
        assert_eq!(calendar.latest(next), Some(next), "{cron}: latest and next disagree");
        firings.push(shown(Some(next), zone));
        now = next;
    }
    firings
}
