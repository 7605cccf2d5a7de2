//! Findings on the claims to limits, for the log and the status line.

use std::{
    fmt,
    time::{Duration, UNIX_EPOCH},
};

use topup_wire::{claims::Owner, limit::LimitName};

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// A limit is refused: a live daemon of another config holds it with other terms.
    Conflict {
        /// The limit.
        limit: LimitName,
        /// The other config.
        owner: Owner,
        /// A live daemon of it.
        daemon: String,
    },
    /// A limit is refused: another config holds it with other terms, and has no live daemon.
    Orphaned {
        /// The limit.
        limit: LimitName,
        /// The other config.
        owner: Owner,
        /// Its last heartbeat, in µs of Redis `TIME`.
        since: Option<u64>,
    },
    /// A limit is refused: code has defined it.
    Defined {
        /// The limit.
        limit: LimitName,
        /// The owner of the definition.
        owner: Owner,
    },
    /// Another config wants a limit of this one, with other terms, and is refused.
    Contested {
        /// The limit.
        limit: LimitName,
        /// The other config.
        owner: Owner,
        /// The daemon that is refused.
        daemon: String,
    },
    /// A newer version of this config has published other terms for a limit.
    Outdated {
        /// The limit.
        limit: LimitName,
        /// This config.
        owner: Owner,
    },
    /// A live daemon has loaded a newer version of this config.
    Newer {
        /// That daemon.
        daemon: String,
        /// This config.
        owner: Owner,
    },
    /// A live daemon still has an older version of this config.
    Lagging {
        /// That daemon.
        daemon: String,
        /// This config.
        owner: Owner,
    },
    /// A dropped limit stays: a live daemon of this config still has it.
    Kept {
        /// The limit.
        limit: LimitName,
        /// That daemon.
        daemon: String,
    },
    /// The claim of a config without a live daemon has ended.
    TakenOver {
        /// The limit.
        limit: LimitName,
        /// That config.
        owner: Owner,
    },
}

// === impl Note ===

impl Note {
    /// Whether a limit of this daemon is not in force.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. } | Self::Orphaned { .. } | Self::Defined { .. } | Self::Outdated { .. }
        )
    }

    /// Whether somebody has to do something.
    pub const fn is_problem(&self) -> bool {
        !matches!(self, Self::TakenOver { .. })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { limit, owner, daemon } => write!(
                f,
                "limit {limit} refused: config {owner} (daemon {daemon}) holds it with other terms, which stay in force: \
                 give both the same terms, or rename one"
            ),
            Self::Orphaned { limit, owner, since } => {
                write!(
                    f,
                    "limit {limit} refused: config {owner} holds it with other terms, which stay in force, and "
                )?;
                match since {
                    Some(micros) => write!(f, "no daemon of it has been alive since {}", instant(*micros))?,
                    None => write!(f, "no daemon of it is alive")?,
                }
                write!(f, ": to take it over, \"topupd remove {limit}\", or start with --take-over {limit}")
            }
            Self::Defined { limit, owner } => write!(
                f,
                "limit {limit} refused: {owner} has defined it by code, and its terms stay in force: rename one, or end \
                 the definition there or by \"topupd remove {limit}\""
            ),
            Self::Contested { limit, owner, daemon } => write!(
                f,
                "limit {limit} contested: config {owner} (daemon {daemon}) wants other terms for it and is refused: the \
                 terms of this config stay in force"
            ),
            Self::Outdated { limit, owner } => write!(
                f,
                "limit {limit} refused: a newer version of config {owner} has published other terms, which stay in force: \
                 reload this daemon"
            ),
            Self::Newer { daemon, owner } => {
                write!(f, "daemon {daemon} has loaded a newer version of config {owner}: reload this daemon")
            }
            Self::Lagging { daemon, owner } => {
                write!(f, "daemon {daemon} has an older version of config {owner}: reload that daemon")
            }
            Self::Kept { limit, daemon } => {
                write!(f, "limit {limit} is no longer in this config, and stays while daemon {daemon} has it")
            }
            Self::TakenOver { limit, owner } => write!(f, "limit {limit} taken over from config {owner}"),
        }
    }
}

/// An instant of Redis, in µs, as text.
pub fn instant(micros: u64) -> String {
    // A year beyond 9999 cannot be written so.
    let at = UNIX_EPOCH + Duration::from_micros(micros.min(253_402_300_799_000_000));
    humantime::format_rfc3339_seconds(at).to_string()
}
