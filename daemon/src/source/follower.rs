//! Follows one source: reads it, and has Redis follow.

use std::{path::PathBuf, time::Duration};

use redis::RedisResult;
use tokio::time::{sleep, timeout};
use topup_wire::{
    assigned_keys::AssignedKeys,
    claims::Fingerprint,
    connection::Connection,
    limit::{LimitName, Plans},
    scripts::{self, Differences, SourceNews, SourceTurn},
};

use super::{LONGEST_LOOK, SourceSettings, file};
use crate::{
    config::{LimitConfig, SourceConfig, SourcePlace},
    publish::fingerprint,
    text::{counted, grouped, utc},
};

/// The pause before the next question whether the limit is published, and whether Redis is back.
const SOON: Duration = Duration::from_millis(200);
/// A daemon that cannot read the source leaves it to others for this time beyond their next look.
const LEAVE: Duration = Duration::from_secs(1);

/// Follows the source of one limit.
#[derive(Debug)]
pub(super) struct Follower {
    connection: Connection,
    /// The name of this daemon.
    id: String,
    folder: PathBuf,
    limit: LimitName,
    plans: Plans,
    fingerprint: Fingerprint,
    source: SourceConfig,
    /// The last look at the source, if it is a file.
    last: file::LastLook,
    /// The problem that was logged last, while there is one.
    said: Option<String>,
}

/// The outcome of an attempt to change Redis.
enum Written {
    /// Nothing was different.
    Nothing,
    /// The number of assignments that have changed, and the instant from which on they have.
    Changed(u64, u64),
    /// Another daemon has the turn now, or has changed the same.
    Lost,
}

// === impl Follower ===

impl Follower {
    /// A follower of the source of `limit`, if it has one.
    pub(super) fn new(
        settings: &SourceSettings,
        connection: Connection,
        limit: &LimitConfig,
        tick: Duration,
        said: Option<String>,
    ) -> Option<Self> {
        Some(Self {
            connection,
            id: settings.id.clone(),
            folder: settings.folder.clone(),
            limit: limit.name,
            plans: limit.plans(),
            fingerprint: fingerprint(limit, tick),
            source: limit.source.clone()?,
            last: file::LastLook::default(),
            said,
        })
    }

    /// The problem that was logged last, while there is one.
    pub(super) fn into_said(self) -> Option<(LimitName, String)> {
        Some((self.limit, self.said?))
    }

    /// Follows until it is dropped. The next look, of any daemon, ends the work that was begun.
    pub(super) async fn run(&mut self) {
        loop {
            let pause = match self.look().await {
                Ok(pause) => pause,
                Err(error) => {
                    // The engine says where Redis is away.
                    let problem = format!("its assignments cannot be written ({error}); trying again");
                    if !error.is_io_error() && self.said.as_ref() != Some(&problem) {
                        tracing::warn!("limit {}: {problem}", self.limit);
                        self.said = Some(problem);
                    }
                    SOON
                }
            };
            sleep(pause).await;
        }
    }

    /// Looks at the source if it is this daemon's turn, and has Redis follow. Returns the pause before the next look.
    async fn look(&mut self) -> RedisResult<Duration> {
        if !self.is_published().await? {
            return Ok(SOON);
        }
        let (name, settings) = (self.source.place.to_string(), self.source.to_string());
        let own = [SourceNews::Name(&name), SourceNews::Settings(&settings)];
        let SourceTurn { is_own, now, applied } = self.turn(&own).await?;
        if !is_own {
            return Ok(self.source.every);
        }
        scripts::remove_idle(&mut self.connection, &self.limit.source(), scripts::IDLE).await?;
        if let Some(rows) = self.rows_if_unchanged(&applied).await {
            let news = [SourceNews::Read(now, rows), SourceNews::Applied(&applied)];
            let is_done = self.conclude(&name, &news).await?;
            return Ok(if is_done { self.source.every } else { SOON });
        }
        let (rows, hash) = match timeout(LONGEST_LOOK, self.read(applied.clone())).await {
            Ok(Ok(read)) => read,
            Ok(Err(problem)) => return self.leave(&problem).await,
            Err(_) => return self.leave(&format!("no answer within {LONGEST_LOOK:?}")).await,
        };
        let written = match applied == hash {
            true => Written::Nothing,
            false => {
                let set = self.limit.source();
                let found = scripts::compare_assigned(&mut self.connection, &set, &rows).await?;
                if let Some(problem) = self.dropped_too_many(&rows, &found, now) {
                    self.refuse(&problem, &[]).await?;
                    return Ok(self.source.every);
                }
                self.write(&rows, found).await?
            }
        };
        let news = [SourceNews::Read(now, rows.len()), SourceNews::Applied(&hash)];
        if matches!(written, Written::Lost) || !self.conclude(&name, &news).await? {
            // The other daemon may have compared before this one's last change.
            scripts::doubt_source(&mut self.connection, &self.limit).await?;
            return Ok(SOON);
        }
        if let Written::Changed(number, at) = written {
            let changed = format!("{} of {}", grouped(number), grouped(rows.len() as u64));
            tracing::info!(
                "limit {}: assignments have changed by {name}: {changed}, in force from {}",
                self.limit,
                utc(at)
            );
            if number > scripts::MOST_LOGGED as u64 {
                drop(rows);
                sleep(scripts::IDLE).await;
                scripts::remove_idle(&mut self.connection, &self.limit.source(), scripts::IDLE).await?;
            }
        }
        Ok(self.source.every)
    }

    /// Tells that the source was read, and that Redis has its rows. Returns whether this daemon still has the turn.
    async fn conclude(&mut self, name: &str, news: &[SourceNews<'_>]) -> RedisResult<bool> {
        let is_own = self.turn(news).await?.is_own;
        if is_own && self.said.take().is_some() {
            tracing::info!("limit {}: its source {name} can be used again", self.limit);
        }
        Ok(is_own)
    }

    /// The number of rows of a file that is as it was, if Redis has them.
    async fn rows_if_unchanged(&self, applied: &str) -> Option<usize> {
        match &self.source.place {
            SourcePlace::File(path) => self.last.rows_if_unchanged(self.folder.join(path), applied).await,
            SourcePlace::Query { .. } => None,
        }
    }

    /// Whether the limit is published as this daemon's config has it.
    async fn is_published(&mut self) -> RedisResult<bool> {
        if scripts::newer_schema(&mut self.connection).await?.is_some() {
            return Ok(false);
        }
        let seen = scripts::ownership(&mut self.connection).await?;
        let declared = seen.daemons.get(&self.id).and_then(|declared| declared.limits.get(&self.limit));
        Ok(declared.is_some_and(|limit| limit.held && limit.fingerprint == self.fingerprint))
    }

    async fn turn(&mut self, news: &[SourceNews<'_>]) -> RedisResult<SourceTurn> {
        scripts::source_turn(&mut self.connection, &self.id, &self.limit, news).await
    }

    /// The rows, and their hash.
    async fn read(&mut self, applied: String) -> Result<(AssignedKeys, String), String> {
        match &self.source.place {
            SourcePlace::File(path) => {
                let path = self.folder.join(path);
                let (rows, look) = file::read(path, self.limit, self.plans.clone(), applied).await?;
                let hash = look.hash().to_owned();
                self.last.note(look);
                Ok((rows, hash))
            }
            #[cfg(feature = "sql")]
            SourcePlace::Query { url, query } => {
                let rows = super::sql::read(url, query, &self.folder, self.limit, &self.plans).await?;
                let hash = super::hash_of(&rows);
                Ok((rows, hash))
            }
            #[cfg(not(feature = "sql"))]
            SourcePlace::Query { .. } => Err(crate::config::SqlUrlError::NotBuilt.to_string()),
        }
    }

    /// Why so few rows are not to be believed.
    fn dropped_too_many(&self, rows: &AssignedKeys, found: &Differences, now: u64) -> Option<String> {
        let (most, held) = (u64::from(self.source.max_drop.get()), found.held);
        let left = rows.iter().filter(|(_, one)| one.holds_at(now)).count() as u64;
        (left * 100 < held * (100 - most)).then(|| {
            format!(
                "it has {} where there were {}, and max_drop_percent = {most} allows no such drop: if it is meant, write \
                 max_drop_percent = 100, reload, and write the number before again",
                counted(left as usize, "assignment"),
                grouped(held),
            )
        })
    }

    /// Says the problem, and leaves the source to other daemons for a while.
    async fn leave(&mut self, problem: &str) -> RedisResult<Duration> {
        self.refuse(problem, &[SourceNews::GivesUp]).await?;
        Ok(self.source.every + LEAVE)
    }

    async fn refuse(&mut self, problem: &str, news: &[SourceNews<'_>]) -> RedisResult<()> {
        if self.said.as_deref() != Some(problem) {
            tracing::error!(
                "limit {}: its source {} cannot be used, and nothing changes: {problem}",
                self.limit,
                self.source.place
            );
            self.said = Some(problem.to_owned());
        }
        self.turn(&[&[SourceNews::Problem(problem)], news].concat()).await.map(drop)
    }

    /// Writes what differs: a few keys one by one, more as a whole, in force at one instant.
    async fn write(&mut self, rows: &AssignedKeys, found: Differences) -> RedisResult<Written> {
        if found.different == 0 {
            return Ok(Written::Nothing);
        }
        let set = self.limit.source();
        // The daemon that has the turn next compares everything.
        if !self.turn(&[SourceNews::Changes]).await?.is_own {
            return Ok(Written::Lost);
        }
        if found.different > found.changes.len() as u64 || !found.has_room {
            let held = scripts::all_assigned(&mut self.connection, &set).await?;
            let changed = scripts::replace_assigned(&mut self.connection, &set, &held, rows, |_| {}).await?;
            return Ok(changed.map_or(Written::Lost, |change| Written::Changed(found.different, change.at)));
        }
        let mut at = 0;
        for changes in found.changes.chunks(scripts::MOST_AT_ONCE) {
            at = scripts::assign(&mut self.connection, &set, changes).await?.at;
            if !self.turn(&[]).await?.is_own {
                return Ok(Written::Lost);
            }
        }
        Ok(Written::Changed(found.different, at))
    }
}
