//! Follows one source: reads it, and has Redis follow.

mod reading;
mod refusal;
mod writing;

use std::{path::PathBuf, time::Duration};

use redis::RedisResult;
use tokio::time::{sleep, timeout};
use topup_wire::{
    claims::Fingerprint,
    connection::Connection,
    limit::{LimitName, Plans},
    scripts::{self, SourceNews, SourceTurn},
};

use super::{LONGEST_LOOK, SourceSettings, file};
use crate::{
    config::{LimitConfig, SourceConfig},
    publish::fingerprint,
    text::{grouped, utc},
};

/// The pause before the next question whether the limit is published, and whether Redis is back.
const SOON: Duration = Duration::from_millis(200);

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
}
