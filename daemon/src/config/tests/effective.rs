//! The effective terms of a limit at chosen instants.

use chrono::DateTime;
use proptest::prelude::*;
use topup_wire::limit::{Period, Supply};

use crate::{
    calendar::NEVER,
    config::{Config, EffectiveTerms, LimitConfig},
};

fn limit(keys: &str) -> LimitConfig {
    let mut config = Config::parse(&format!("[limit.x]\n{keys}"), "config.toml").unwrap();
    config.limits.remove("x").unwrap()
}

fn utc(text: &str) -> u64 {
    DateTime::parse_from_rfc3339(text).expect(text).timestamp_micros().try_into().unwrap()
}

/// Capacity, rate, and the boundaries before and after `now`.
fn at(limit: &LimitConfig, now: &str) -> (u64, String, Option<u64>, Option<u64>) {
    let EffectiveTerms { terms, since, until } = limit.effective_at(utc(now));
    let Supply::Rate(rate) = terms.supply else { panic!("{terms:?}") };
    (terms.capacity.get(), rate.to_string(), since, until)
}

const NIGHTS: &str = r#"
    capacity = 100
    rate = "50/s"
    [[limit.x.schedule]]
    cron = "0 0 22 * * *"
    timezone = "Europe/Berlin"
    rate = "200/s"
    [[limit.x.schedule]]
    cron = "0 30 2 * * *"
    timezone = "Europe/Berlin"
    capacity = 400
"#;

#[test]
fn the_entry_that_fired_last_sets_what_it_names_and_the_rest_is_the_limits_own() {
    let limit = limit(NIGHTS);
    let (evening, night) = (utc("2026-06-01T20:00:00Z"), utc("2026-06-02T00:30:00Z"));
    assert_eq!(at(&limit, "2026-06-01T23:00:00Z"), (100, "200/s".to_owned(), Some(evening), Some(night)));
    let next_evening = utc("2026-06-02T20:00:00Z");
    assert_eq!(at(&limit, "2026-06-02T12:00:00Z"), (400, "50/s".to_owned(), Some(night), Some(next_evening)));
    assert_eq!(at(&limit, "2026-06-02T00:30:00Z").2, Some(night));
}

#[test]
fn the_next_changes_are_those_that_the_boundaries_will_make() {
    let limit = limit(NIGHTS);
    let now = utc("2026-06-01T23:00:00Z");
    let changes = limit.changes_after(now);
    assert_eq!(changes.len(), 24);
    let mut expected = limit.effective_at(now);
    for (at, terms) in changes {
        expected = limit.effective_at(expected.until.unwrap());
        assert_eq!((Some(at), terms), (expected.since, expected.terms));
    }
}

#[test]
fn a_firing_that_changes_nothing_is_no_change() {
    let limit =
        limit("capacity = 1\nrate = \"1/s\"\n[[limit.x.schedule]]\ncron = \"0 0 * * * *\"\nrate = \"2/s\"");
    assert_eq!(limit.changes_after(utc("2026-06-01T23:00:00Z")), []);
}

#[test]
fn entries_apply_on_the_days_the_clocks_change() {
    let limit = limit(NIGHTS);
    // The skipped time does not exist, so the entry applies from 03:00 CEST on.
    let forward = utc("2026-03-29T01:00:00Z");
    assert_eq!(at(&limit, "2026-03-29T00:59:59Z").3, Some(forward));
    assert_eq!(
        at(&limit, "2026-03-29T01:00:00Z"),
        (400, "50/s".to_owned(), Some(forward), Some(utc("2026-03-29T20:00:00Z")))
    );
    // 02:30 comes twice. The entry applies from the first on, and the second is no boundary.
    let back = utc("2026-10-25T00:30:00Z");
    assert_eq!(
        at(&limit, "2026-10-25T01:45:00Z"),
        (400, "50/s".to_owned(), Some(back), Some(utc("2026-10-25T21:00:00Z")))
    );
}

#[test]
fn before_any_firing_the_limits_own_terms_apply() {
    let text =
        "capacity = 100\nrate = \"50/s\"\n[[limit.x.schedule]]\ncron = \"0 0 0 1 1 * 2030\"\nrate = \"1/s\"";
    let new_year = utc("2030-01-01T00:00:00Z");
    assert_eq!(at(&limit(text), "2026-01-01T00:00:00Z"), (100, "50/s".to_owned(), None, Some(new_year)));
    assert_eq!(at(&limit(text), "2031-01-01T00:00:00Z"), (100, "1/s".to_owned(), Some(new_year), None));
    assert_eq!(at(&limit("capacity = 100\nrate = \"50/s\""), "2026-01-01T00:00:00Z").3, None);
}

#[test]
fn of_two_entries_that_fire_together_the_later_in_the_file_applies() {
    let entry = |rate| format!("[[limit.x.schedule]]\ncron = \"0 0 22 * * *\"\nrate = \"{rate}/s\"\n");
    let limit = limit(&format!("capacity = 1\nrate = \"9/s\"\n{}{}{}", entry(1), entry(3), entry(2)));
    assert_eq!(at(&limit, "2026-06-01T22:00:00Z").1, "2/s");
}

#[test]
fn a_calendar_refill_has_the_firings_around_now() {
    let limit = limit(
        r#"
        capacity = 1000
        refill = { cron = "0 0 0 1 * *", timezone = "Europe/Berlin" }
        [[limit.x.schedule]]
        cron = "0 0 12 15 3 *"
        capacity = 5000
        [[limit.x.schedule]]
        cron = "0 0 12 15 4 *"
        capacity = 1000
    "#,
    );
    let EffectiveTerms { terms, since, until } = limit.effective_at(utc("2026-03-20T00:00:00Z"));
    let (begun, next) = (utc("2026-02-28T23:00:00Z"), utc("2026-03-31T22:00:00Z"));
    assert_eq!(terms.supply, Supply::Period(Period { since: begun, next }));
    assert_eq!((terms.capacity.get(), since, until), (5000, Some(utc("2026-03-15T12:00:00Z")), Some(next)));
}

#[test]
fn a_refill_that_has_not_fired_or_will_not_again_says_so() {
    let limit = limit("capacity = 1\nrefill = { cron = \"0 0 0 1 1 * 2030\" }");
    let fires = utc("2030-01-01T00:00:00Z");
    let period = |now| limit.effective_at(now).terms.supply;
    assert_eq!(period(fires - 1), Supply::Period(Period { since: 0, next: fires }));
    assert_eq!(period(fires), Supply::Period(Period { since: fires, next: NEVER }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Terms change at boundaries only, so a daemon that looks at each boundary misses no change.
    #[test]
    fn terms_hold_until_the_next_boundary(now in 0_u64..4_000_000_000_000_000, part in 0.0..1.0_f64) {
        let limit = limit(NIGHTS);
        let here = limit.effective_at(now);
        let until = here.until.expect("fires every day");
        let between = now + ((until - 1 - now) as f64 * part) as u64;
        prop_assert!(now < until);
        prop_assert_eq!(limit.effective_at(between), here);
        prop_assert_eq!(limit.effective_at(until).since, Some(until));
    }
}
