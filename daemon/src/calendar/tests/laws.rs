//! Laws of the calendar, tested on random expressions, zones and instants near changes of the clocks.

use chrono::{DateTime, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use croner::parser::{CronParser, Seconds};
use proptest::prelude::*;

use super::Calendar;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// Instants at which the clocks of `zone` change, found by a look at every day of some years.
fn changes(zone: Tz) -> Vec<u64> {
    let offset = |hour: u64| {
        let micros = i64::try_from(hour * HOUR).expect("small");
        chrono::Offset::fix(&zone.offset_from_utc_datetime(&utc(micros).naive_utc()))
    };
    // 2009 to 2031; no change is undone within a day.
    let hours: Vec<u64> = (341_880..=543_000).step_by(24).collect();
    let days = hours.windows(2).filter(|pair| offset(pair[0]) != offset(pair[1]));
    days.filter_map(|day| (day[0]..=day[1]).find(|hour| offset(*hour) != offset(day[0])))
        .map(|hour| hour * HOUR)
        .collect()
}

fn utc(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).expect("in range")
}

/// A zone and an instant within three days of a change of its clocks, if it has any.
fn near_a_change() -> impl Strategy<Value = (Tz, u64)> {
    let zones =
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo"];
    let busy = proptest::sample::select(zones.map(|name| name.parse::<Tz>().expect(name)).to_vec());
    let zone = prop_oneof![busy, proptest::sample::select(TZ_VARIANTS.to_vec())];
    // Within three days, three hours, or the hour after. In that hour, a repeated hour has its second showing.
    let far = 72 * i64::try_from(HOUR).expect("small");
    (zone, any::<prop::sample::Index>(), prop_oneof![-far..far, -far / 24..far / 24, 0..far / 72]).prop_map(
        |(zone, index, away)| {
            let changes = changes(zone);
            let change = if changes.is_empty() { 1_774_746_000 * SECOND } else { *index.get(&changes) };
            (zone, change.saturating_add_signed(away))
        },
    )
}

/// Expressions that often fire near a change.
fn expressions() -> impl Strategy<Value = String> {
    let minute =
        prop_oneof![Just("*".to_owned()), Just("*/7".to_owned()), (0..60u8).prop_map(|m| m.to_string())];
    let hour = prop_oneof![
        Just("*".to_owned()),
        Just("0-23".to_owned()),
        Just("*/2".to_owned()),
        Just("1-3".to_owned()),
        (0..4u8).prop_map(|h| h.to_string()),
        (0..24u8, 0..24u8).prop_map(|(a, b)| format!("{a},{b}")),
    ];
    let dates = [
        "* * *",
        "* 3,4,9,10,11 *",
        "L * *",
        "1-15 * *",
        "*/3 * *",
        "* * SUN",
        "* * SUN#L",
        "* * 1-5",
        "8-14 * SUN",
    ];
    (minute, hour, proptest::sample::select(dates.to_vec()))
        .prop_map(|(m, h, date)| format!("{m} {h} {date}"))
}

/// Every firing in `(from, to]`, found by reading the wall clock minute by minute. A named time fires when the clock
/// passes it for the first time, also if it is skipped. For all 24 hours, it fires whenever the clock shows it.
fn watched(calendar: &Calendar, zone: Tz, from: u64, to: u64) -> Vec<u64> {
    let minute = 60 * SECOND;
    let shown = |micros: u64| {
        zone.from_utc_datetime(&utc(i64::try_from(micros).expect("small")).naive_utc()).naive_local()
    };
    let parser = CronParser::builder().seconds(Seconds::Required).dom_and_dow(true).build();
    let cron = parser.parse(calendar.text()).expect("parsed before");
    let named = |local: NaiveDateTime| cron.is_time_matching(&local.and_utc()).expect("in range");
    // Begins two days before, to know the latest time that the clock has shown.
    let start = (from - 48 * HOUR) / minute * minute;
    let mut furthest = shown(start);
    let mut firings = Vec::new();
    for now in (start..=to).step_by(minute as usize).skip(1) {
        let local = shown(now);
        let fires = if calendar.expression.names_every_hour() {
            named(local)
        } else {
            let mut passed = std::iter::successors(Some(furthest + TimeDelta::minutes(1)), |t| {
                Some(*t + TimeDelta::minutes(1))
            });
            passed.by_ref().take_while(|t| *t <= local).any(named)
        };
        furthest = furthest.max(local);
        if fires && now > from {
            firings.push(now);
        }
    }
    firings
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn firings_are_what_a_watched_wall_clock_shows((zone, now) in near_a_change(), fields in expressions()) {
        let calendar = Calendar::parse(&format!("0 {fields}"), zone.name()).unwrap();
        let (from, to) = (now, now + 36 * HOUR);
        let expected = watched(&calendar, zone, from, to);
        let forward: Vec<u64> =
            std::iter::successors(calendar.next(from), |t| calendar.next(*t)).take_while(|t| *t <= to).collect();
        prop_assert_eq!(&forward, &expected, "{} in {}: next", fields, zone);
        let mut backward: Vec<u64> =
            std::iter::successors(calendar.latest(to), |t| calendar.latest(*t - 1)).take_while(|t| *t > from).collect();
        backward.reverse();
        prop_assert_eq!(&backward, &expected, "{} in {}: latest", fields, zone);
    }

    #[test]
    fn latest_and_next_agree(
        (zone, now) in near_a_change(), fields in expressions(), second in "[0-9]|\\*|\\*/[1-9]|59", micros in 0..SECOND,
    ) {
        let calendar = Calendar::parse(&format!("{second} {fields}"), zone.name()).unwrap();
        let now = now / SECOND * SECOND + micros;
        let latest = calendar.latest(now).expect("these fire every year");
        let next = calendar.next(now).expect("these fire every year");
        prop_assert!(latest <= now && now < next);
        prop_assert_eq!(calendar.next(latest), Some(next));
        prop_assert_eq!(calendar.next(latest - 1), Some(latest));
        prop_assert_eq!(calendar.latest(next), Some(next));
        prop_assert_eq!(calendar.latest(next - 1), Some(latest));
    }
}
