//! The wall clocks of a time zone: from instants to local times and back.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::{GapInfo, Tz};

use super::Zone;

/// The instants at which a zone's clocks show a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// One instant.
    Once(DateTime<Utc>),
    /// Two instants: the clocks go back in between.
    Twice(DateTime<Utc>, DateTime<Utc>),
    /// None: the clocks go forward past it at `resumes`.
    Skipped { resumes: DateTime<Utc> },
}

/// A span of local time that the clocks show twice: from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) start: NaiveDateTime,
    pub(super) end: NaiveDateTime,
}

/// The local time in `zone` at `instant`.
pub(super) fn shown_at(zone: Zone, instant: DateTime<Utc>) -> NaiveDateTime {
    instant.with_timezone(&zone.tz()).naive_local()
}

/// The instants at which the clocks of `zone` show `local`.
pub(super) fn shown(zone: Zone, local: NaiveDateTime) -> Shown {
    match zone.tz().from_local_datetime(&local) {
        MappedLocalTime::Single(instant) => Shown::Once(instant.to_utc()),
        MappedLocalTime::Ambiguous(first, second) => Shown::Twice(first.to_utc(), second.to_utc()),
        MappedLocalTime::None => {
            let gap = GapInfo::new(&local, &zone.tz()).and_then(|gap| gap.end);
            // Every gap of the IANA database has an end. An hour is the length of most gaps.
            let resumes = gap.map_or_else(|| local.and_utc() + TimeDelta::hours(1), |end| end.to_utc());
            Shown::Skipped { resumes }
        }
    }
}

/// The span that contains `instant`, if the clocks show it twice; in its first showing or its second.
pub(super) fn fold(zone: Zone, instant: DateTime<Utc>) -> Option<Fold> {
    let Shown::Twice(first, second) = shown(zone, shown_at(zone, instant)) else { return None };
    let change = change(zone.tz(), first, second);
    let second_showing = shown_at(zone, change);
    let went_back = shown_at(zone, change - TimeDelta::seconds(1)) + TimeDelta::seconds(1);
    Some(Fold { start: second_showing, end: went_back })
}

/// The second at which the offset of `zone` changes, after `before` and not after `after`.
fn change(zone: Tz, before: DateTime<Utc>, after: DateTime<Utc>) -> DateTime<Utc> {
    let offset = |instant: DateTime<Utc>| zone.offset_from_utc_datetime(&instant.naive_utc()).fix();
    let (old, mut before, mut after) = (offset(before), before, after);
    while after - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
        if offset(middle) == old {
            before = middle;
        } else {
            after = middle;
        }
    }
    after
}
