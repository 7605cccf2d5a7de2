//! A cron expression: the local times it names, without a time zone.

use std::{str::FromStr, sync::Arc};

use chrono::{Datelike, NaiveDate, NaiveDateTime};
use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds},
};

/// The years of all instants up to [`super::NEVER`].
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2255;

/// A cron expression of six fields, seconds first (a seventh may name years), that fires at least once.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Shared between copies of a config: it has some hundreds of bytes.
    cron: Arc<Cron>,
    text: String,
    every_hour: bool,
}

/// The reason why a text is no [`Expression`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Five fields, as in a crontab.
    #[error("{text:?} has 5 fields: write seconds first: \"0 {text}\"")]
    SecondsMissing {
        /// The text as given.
        text: String,
    },
    /// Not a cron expression.
    #[error(
        "{text:?} is not a cron expression ({reason}): write second minute hour day month weekday, such as \"0 0 22 * * *\""
    )]
    Form {
        /// The text as given.
        text: String,
        /// The parser's message.
        reason: String,
    },
    /// No such time exists, such as 30 February.
    #[error("{text:?} never fires: write a date that exists, such as \"0 0 22 * * *\"")]
    Never {
        /// The text as given.
        text: String,
    },
}

// === impl Expression ===

impl Expression {
    /// The expression, as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it names all 24 hours of the day.
    pub(super) const fn names_every_hour(&self) -> bool {
        self.every_hour
    }

    /// The first local time it names after `local`, which must be a whole second.
    pub(super) fn next(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        // As UTC, local time has no gaps, and croner's search is right.
        self.cron.find_next_occurrence(&local.and_utc(), false).ok().map(|found| found.naive_utc())
    }

    /// The last local time it names up to and including `local`, which must be a whole second.
    pub(super) fn latest(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        self.cron.find_previous_occurrence(&local.and_utc(), true).ok().map(|found| found.naive_utc())
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        // The same settings as tokio-cron-scheduler's `Job::new`, so that wake-ups agree with this calendar.
        let parser = CronParser::builder().seconds(Seconds::Required).dom_and_dow(true).build();
        let shown = || text.trim().chars().take(80).collect::<String>();
        let cron = parser.parse(text).map_err(|error| match text.split_whitespace().count() {
            5 => ExpressionError::SecondsMissing { text: shown() },
            _ => ExpressionError::Form { text: shown(), reason: reason(error) },
        })?;
        if !fires(&cron) {
            return Err(ExpressionError::Never { text: shown() });
        }
        let every_hour = (0..24).all(|hour| cron.pattern.hour_match(hour).unwrap_or(false));
        Ok(Self { cron: Arc::new(cron), text: text.to_owned(), every_hour })
    }
}

/// Whether `cron` names any time at all. A field such as `,` names none. The search of croner would try every day up to
/// the year 5000.
fn fires(cron: &Cron) -> bool {
    let pattern = &cron.pattern;
    let year = |year: i32| pattern.year_match(year).unwrap_or(false);
    let month = |month: u32| pattern.month_match(month).unwrap_or(false);
    let day = |date: NaiveDate| pattern.day_match(date.year(), date.month(), date.day()).unwrap_or(false);
    let firsts = YEARS.filter(|y| year(*y)).flat_map(|y| (1..=12).map(move |m| (y, m)));
    let mut dates = firsts
        .filter(|(_, m)| month(*m))
        .flat_map(|(y, m)| (1..=31).filter_map(move |d| NaiveDate::from_ymd_opt(y, m, d)));
    (0..24).any(|hour| pattern.hour_match(hour).unwrap_or(false))
        && (0..60).any(|minute| pattern.minute_match(minute).unwrap_or(false))
        && (0..60).any(|second| pattern.second_match(second).unwrap_or(false))
        && dates.any(day)
}

/// The message of croner without its headings.
fn reason(error: CronError) -> String {
    let reason = match error {
        CronError::InvalidPattern(reason)
        | CronError::IllegalCharacters(reason)
        | CronError::ComponentError(reason) => reason,
        other => other.to_string(),
    };
    reason.trim_end_matches('.').to_owned()
}
