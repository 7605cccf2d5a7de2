//! Changes of the clocks, leap days and the special forms, worked out by hand.

use chrono::DateTime;
use chrono_tz::{
    Africa::Casablanca,
    America::{New_York, Santiago},
    Australia::Lord_Howe,
    Europe::Berlin,
    Pacific::Apia,
    UTC,
};
use croner::parser::{CronParser, Seconds};

use super::{Calendar, between, shown, utc};

#[test]
fn a_daily_time_fires_once_on_the_days_the_clocks_change() {
    let half_past_two = "0 30 2 * * *";
    assert_eq!(
        between(half_past_two, Berlin, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
        ["2026-03-28 02:30:00 CET", "2026-03-29 03:00:00 CEST", "2026-03-30 02:30:00 CEST"]
    );
    assert_eq!(
        between(half_past_two, Berlin, "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z"),
        ["2026-10-24 02:30:00 CEST", "2026-10-25 02:30:00 CEST", "2026-10-26 02:30:00 CET"]
    );
    assert_eq!(
        between(half_past_two, New_York, "2026-03-07T06:00:00Z", "2026-03-10T00:00:00Z"),
        ["2026-03-07 02:30:00 EST", "2026-03-08 03:00:00 EDT", "2026-03-09 02:30:00 EDT"]
    );
    assert_eq!(
        between("0 30 1 * * *", New_York, "2026-10-31T00:00:00Z", "2026-11-02T12:00:00Z"),
        ["2026-10-31 01:30:00 EDT", "2026-11-01 01:30:00 EDT", "2026-11-02 01:30:00 EST"]
    );
}

#[test]
fn several_times_in_a_gap_fire_together_when_it_ends() {
    assert_eq!(
        between("0 */20 2,3 * * *", Berlin, "2026-03-28T23:00:00Z", "2026-03-29T23:00:00Z"),
        ["2026-03-29 03:00:00 CEST", "2026-03-29 03:20:00 CEST", "2026-03-29 03:40:00 CEST"]
    );
}

#[test]
fn an_expression_for_every_hour_runs_on_through_both_changes() {
    let hourly = "0 15 * * * *";
    assert_eq!(
        between(hourly, Berlin, "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z"),
        ["2026-03-29 01:15:00 CET", "2026-03-29 03:15:00 CEST"]
    );
    assert_eq!(
        between(hourly, Berlin, "2026-10-24T23:30:00Z", "2026-10-25T02:30:00Z"),
        ["2026-10-25 02:15:00 CEST", "2026-10-25 02:15:00 CET", "2026-10-25 03:15:00 CET"]
    );
}

#[test]
fn half_hour_changes_and_gaps_at_midnight_or_of_a_whole_day_are_right() {
    // The clocks of Lord Howe go back half an hour on 2026-04-05 at 2 h, and forward on 2026-10-04 at 2 h.
    assert_eq!(
        between("0 45 1 * * *", Lord_Howe, "2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z"),
        ["2026-04-05 01:45:00 +11"]
    );
    assert_eq!(
        between("0 10 2 * * *", Lord_Howe, "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z"),
        ["2026-10-04 02:30:00 +11"]
    );
    // In Santiago the day of the change begins at 01:00.
    assert_eq!(
        between("0 0 0 * * *", Santiago, "2026-09-05T12:00:00Z", "2026-09-07T12:00:00Z"),
        ["2026-09-06 01:00:00 -03", "2026-09-07 00:00:00 -03"]
    );
    // Samoa left out 30 December 2011.
    assert_eq!(
        between("0 0 12 * * *", Apia, "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z"),
        ["2011-12-29 12:00:00 -10", "2011-12-31 00:00:00 +14", "2011-12-31 12:00:00 +14"]
    );
    // Morocco has summer time all year except in Ramadan.
    assert_eq!(
        between("0 30 2 * * *", Casablanca, "2026-03-21T12:00:00Z", "2026-03-22T12:00:00Z"),
        ["2026-03-22 03:00:00 +01"]
    );
}

#[test]
fn the_repeated_hour_is_known_in_both_its_showings() {
    let night = Calendar::parse("0 30 2 * * *", "Europe/Berlin").unwrap();
    let fired = Some(utc("2026-10-25T00:30:00Z"));
    let yesterday = Some(utc("2026-10-24T00:30:00Z"));
    let tomorrow = Some(utc("2026-10-26T01:30:00Z"));
    for (now, latest, next) in [
        ("2026-10-25T00:29:59Z", yesterday, fired),
        ("2026-10-25T00:30:00Z", fired, tomorrow),
        ("2026-10-25T00:59:59Z", fired, tomorrow),
        ("2026-10-25T01:00:00Z", fired, tomorrow),
        ("2026-10-25T01:29:59Z", fired, tomorrow),
        ("2026-10-25T01:30:00Z", fired, tomorrow),
        ("2026-10-25T02:00:00Z", fired, tomorrow),
    ] {
        assert_eq!((night.latest(utc(now)), night.next(utc(now))), (latest, next), "{now}");
    }
}

#[test]
fn leap_days_and_special_forms_fire_on_the_right_dates() {
    for (cron, zone, from, latest, next) in [
        ("0 0 0 29 2 *", UTC, "2026-06-01", "2024-02-29 00:00:00 UTC", "2028-02-29 00:00:00 UTC"),
        ("0 0 0 29 2 *", UTC, "2097-06-01", "2096-02-29 00:00:00 UTC", "2104-02-29 00:00:00 UTC"),
        ("0 0 0 L * *", Berlin, "2028-02-15", "2028-01-31 00:00:00 CET", "2028-02-29 00:00:00 CET"),
        ("0 0 9 * * FRI#2", UTC, "2026-06-13", "2026-06-12 09:00:00 UTC", "2026-07-10 09:00:00 UTC"),
        ("0 0 9 * * FRI#L", UTC, "2026-06-13", "2026-05-29 09:00:00 UTC", "2026-06-26 09:00:00 UTC"),
        ("0 0 9 * * 5L", UTC, "2026-06-13", "2026-05-29 09:00:00 UTC", "2026-06-26 09:00:00 UTC"),
        // The 15th of August 2026 is a Saturday.
        ("0 0 9 15W * *", UTC, "2026-08-01", "2026-07-15 09:00:00 UTC", "2026-08-14 09:00:00 UTC"),
        // Both: Friday the 13th.
        ("0 0 0 13 * FRI", UTC, "2026-06-01", "2026-03-13 00:00:00 UTC", "2026-11-13 00:00:00 UTC"),
        ("59 59 23 31 12 *", New_York, "2026-06-01", "2025-12-31 23:59:59 EST", "2026-12-31 23:59:59 EST"),
        ("0 0 0 1 1 * 2027", UTC, "2026-06-01", "never", "2027-01-01 00:00:00 UTC"),
        ("0 0 0 1 1 * 2027", UTC, "2028-06-01", "2027-01-01 00:00:00 UTC", "never"),
        ("@monthly", UTC, "2026-06-15", "2026-06-01 00:00:00 UTC", "2026-07-01 00:00:00 UTC"),
    ] {
        let (calendar, now) =
            (Calendar::parse(cron, zone.name()).expect(cron), utc(&format!("{from}T12:00:00Z")));
        assert_eq!(shown(calendar.latest(now), zone), latest, "{cron} before {from}");
        assert_eq!(shown(calendar.next(now), zone), next, "{cron} after {from}");
    }
}

#[test]
fn fractions_of_a_second_and_the_ends_of_time_are_no_trouble() {
    let calendar = Calendar::parse("* * * * * *", "Europe/Berlin").unwrap();
    assert_eq!((calendar.latest(1_999_999), calendar.next(1_999_999)), (Some(1_000_000), Some(2_000_000)));
    assert_eq!((calendar.latest(2_000_000), calendar.next(2_000_000)), (Some(2_000_000), Some(3_000_000)));
    let yearly = Calendar::parse("0 0 0 1 1 *", "America/New_York").unwrap();
    assert_eq!((yearly.latest(0), yearly.next(u64::MAX)), (None, None));
    assert_eq!(shown(yearly.latest(u64::MAX), New_York), "2255-01-01 00:00:00 EST");
}

/// The reason for the search in UTC. If this test fails after an update of croner, that search may go.
#[test]
fn croner_itself_is_wrong_where_clocks_change() {
    let at = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().with_timezone(&Berlin);
    let parse = |cron: &str| CronParser::builder().seconds(Seconds::Required).build().parse(cron).unwrap();
    let (night, minutes) = (parse("0 30 2 * * *"), parse("0 * * * * *"));
    let (gap, repeated) = (at("2026-03-29T04:00:00Z"), at("2026-10-25T01:10:00Z"));
    assert_eq!(night.find_previous_occurrence(&gap, true).unwrap(), at("2026-03-29T00:59:59Z"));
    assert!(minutes.find_next_occurrence(&repeated, false).unwrap() < repeated);
}
