//! Accepted texts, and the messages about all others.

use proptest::prelude::*;
use tokio_cron_scheduler::Job;

use super::Calendar;
use crate::calendar::{Expression, ExpressionError, Zone};

#[test]
fn wrong_texts_say_what_to_write() {
    for (cron, zone, message) in [
        ("0 22 * * *", "UTC", r#""0 22 * * *" has 5 fields: write seconds first: "0 0 22 * * *""#),
        ("0 61 0 * * *", "UTC", "is not a cron expression (Number out of bounds): write second minute hour"),
        ("", "UTC", "is not a cron expression (CronPattern cannot be an empty string)"),
        ("0 0 0 30 2 *", "UTC", r#""0 0 0 30 2 *" never fires: write a date that exists"#),
        ("0 0 , * * *", "UTC", "never fires"),
        ("0 0 0 1 1 * 1969", "UTC", "never fires"),
        ("0 0 0 * * *", "Europe/Berlln", r#"is not an IANA time zone: did you mean "Europe/Berlin"?"#),
        ("0 0 0 * * *", "europe/berlin", r#"did you mean "Europe/Berlin"?"#),
        ("0 0 0 * * *", "Berlin", r#"did you mean "Europe/Berlin"?"#),
        ("0 0 0 * * *", "new york", r#"did you mean "America/New_York"?"#),
        ("0 0 0 * * *", "somewhere", r#"write a name such as "Europe/Berlin""#),
    ] {
        let error = Calendar::parse(cron, zone).expect_err(cron).to_string();
        assert!(error.contains(message), "{cron} {zone}: {error}");
    }
}

#[test]
fn the_default_zone_is_utc() {
    assert_eq!(Zone::default().name(), "UTC");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// This parser and the scheduler's accept the same texts. Only expressions that never fire are refused here alone.
    /// No text causes a panic.
    #[test]
    fn the_scheduler_accepts_the_same_texts(text in "([0-9*/,LW#?+-]{1,5} ){4,7}|[ -~]{0,30}|(\\* ){5,6}(MON|5L|FRI#2|\\*)|\\PC{0,12}") {
        let ours = text.parse::<Expression>();
        let theirs = Job::new(text.as_str(), |_, _| {});
        let never = matches!(ours, Err(ExpressionError::Never { .. }));
        prop_assert_eq!(ours.is_ok() || never, theirs.is_ok(), "{:?}", text);
    }
}
