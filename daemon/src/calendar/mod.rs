//! Cron expressions in named time zones: when they fire, and how changes of the clocks affect that.
//!
//! Times are arguments and answers: µs since the Unix epoch, as Redis `TIME` counts them.
//!
//! The croner crate searches in UTC only, where local time has no gaps. This module turns the local times it finds into
//! instants. In a real zone, croner has two faults. If a daily `02:30` fell into a gap, its backward search finds
//! `01:59:59` instead of `03:00`. Its forward search can find an instant that has passed.
//!
//! - An expression fires once for each local time it names. A time that is skipped when clocks go forward fires at that
//!   change. A time that comes twice when they go back fires the first time.
//! - An expression that names all 24 hours follows real time through both changes: `0 */10 * * * *` fires every ten
//!   minutes. A skipped hour has no firings then, and a repeated hour has them twice.

mod expression;
mod local;
#[cfg(test)]
mod tests;
mod zone;

use chrono::{DateTime, NaiveDateTime, SubsecRound, TimeDelta, Utc};

pub use expression::{Expression, ExpressionError};
use local::Shown;
pub use zone::{Zone, ZoneError};

/// The end of the calendar: 2^53 µs, in the year 2255. A Redis script holds no later instant exactly.
pub const NEVER: u64 = 1 << 53;

/// A cron expression in a time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    expression: Expression,
    zone: Zone,
}

/// The reason why a pair of texts is no [`Calendar`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    /// The cron expression is wrong.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// The time zone is unknown.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

// === impl Calendar ===

impl Calendar {
    /// `expression`, read by the clocks of `zone`.
    pub const fn new(expression: Expression, zone: Zone) -> Self {
        Self { expression, zone }
    }

    /// Parses both texts.
    ///
    /// # Errors
    /// If `cron` is no expression that ever fires, or if `zone` is no IANA name.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, CalendarError> {
        Ok(Self::new(cron.parse()?, zone.parse()?))
    }

    /// The cron expression, as written.
    pub fn text(&self) -> &str {
        self.expression.text()
    }

    /// The IANA name of the time zone.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// The last firing at or before `now`; `None` if there is none since the Unix epoch.
    pub fn latest(&self, now: u64) -> Option<u64> {
        let now = instant(now.min(NEVER))?;
        // In a repeated hour, the wall clock has shown later times already: search from these, too.
        let fold = local::fold(self.zone, now).map(|fold| fold.end - TimeDelta::seconds(1));
        let starts = [Some(local::shown_at(self.zone, now)), fold];
        let firings = starts.into_iter().flatten().flat_map(|start| self.backward(start));
        firings.filter(|firing| *firing <= now).max().and_then(micros)
    }

    /// The first firing after `now`; `None` if there is none before [`NEVER`].
    pub fn next(&self, now: u64) -> Option<u64> {
        let now = instant(now)?;
        let fold = local::fold(self.zone, now);
        // From the first showing of a repeated hour, the next firing is in its second showing or after both.
        let again = fold.map(|fold| fold.start - TimeDelta::seconds(1));
        let after = fold.map(|fold| fold.end - TimeDelta::seconds(1));
        let starts = [Some(local::shown_at(self.zone, now)), again, after];
        let firings = starts.into_iter().flatten().flat_map(|start| self.forward(start));
        firings.filter(|firing| *firing > now).min().and_then(micros).filter(|firing| *firing < NEVER)
    }

    /// The instants of the first named local time after `start` that fires.
    fn forward(&self, start: NaiveDateTime) -> Vec<DateTime<Utc>> {
        let mut start = start;
        while let Some(local) = self.expression.next(start) {
            match self.firings(local) {
                Ok(firings) => return firings,
                Err(resumes) => start = local::shown_at(self.zone, resumes) - TimeDelta::seconds(1),
            }
        }
        Vec::new()
    }

    /// The instants of the last named local time up to `start` that fires.
    fn backward(&self, start: NaiveDateTime) -> Vec<DateTime<Utc>> {
        let mut start = start;
        while let Some(local) = self.expression.latest(start) {
            match self.firings(local) {
                Ok(firings) => return firings,
                Err(resumes) => start = local::shown_at(self.zone, resumes - TimeDelta::seconds(1)),
            }
        }
        Vec::new()
    }

    /// The instants at which `local`, a time that the expression names, fires. The error is the end of the gap, for a time
    /// that is skipped and does not fire.
    fn firings(&self, local: NaiveDateTime) -> Result<Vec<DateTime<Utc>>, DateTime<Utc>> {
        match (local::shown(self.zone, local), self.expression.names_every_hour()) {
            (Shown::Once(instant), _) => Ok(vec![instant]),
            (Shown::Twice(first, second), true) => Ok(vec![first, second]),
            (Shown::Twice(first, _), false) => Ok(vec![first]),
            (Shown::Skipped { resumes }, true) => Err(resumes),
            (Shown::Skipped { resumes }, false) => Ok(vec![resumes]),
        }
    }
}

/// The instant `micros` µs after the epoch, without its fraction of a second; `None` after [`NEVER`].
fn instant(micros: u64) -> Option<DateTime<Utc>> {
    let micros = i64::try_from(micros).ok().filter(|_| micros <= NEVER)?;
    DateTime::from_timestamp_micros(micros).map(|instant| instant.trunc_subsecs(0))
}

/// `instant` in µs after the epoch; `None` before it.
fn micros(instant: DateTime<Utc>) -> Option<u64> {
    u64::try_from(instant.timestamp_micros()).ok()
}
