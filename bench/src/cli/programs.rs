//! The programs that are compared.

use std::{path::PathBuf, process::Command};

use anyhow::Context;
use clap::Args;
use topup_lab::{child_command, this_program};

use crate::limiter::kind::Limiter;

/// Programs that scripts/bench has found or built.
#[derive(Clone, Debug, Args)]
pub(crate) struct Programs {
    /// The daemon
    #[arg(long)]
    pub(crate) topupd: PathBuf,
    /// The Redis module redis-cell
    #[arg(long)]
    pub(crate) redis_cell: Option<PathBuf>,
    /// A Python that has the package limits
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// A folder whose node_modules hold rate-limiter-flexible
    #[arg(long)]
    pub(crate) node: Option<PathBuf>,
    /// Name and version of something else that is compared
    #[arg(long = "version-of", value_name = "NAME VERSION")]
    pub(crate) versions: Vec<String>,
    /// The folder of the programs in other languages
    #[arg(long)]
    pub(crate) foreign: Option<PathBuf>,
    /// Limiters that are built into this program
    #[arg(skip)]
    pub(crate) built: &'static [Limiter],
}

// === impl Programs ===

impl Programs {
    /// Why `limiter` cannot be measured here, if it cannot.
    pub(crate) fn lack(&self, limiter: Limiter) -> Option<&'static str> {
        match limiter {
            Limiter::Limitador | Limiter::LimitadorCached if !self.built.contains(&limiter) => {
                Some("limitador needs OpenSSL's headers: install libssl-dev and pkg-config")
            }
            Limiter::RedisCell if self.redis_cell.is_none() => Some("the module could not be built"),
            Limiter::Limits if self.python.is_none() => Some("no Python with the package limits"),
            Limiter::RateLimiterFlexible if self.node.is_none() => Some("no Node with rate-limiter-flexible"),
            _ => None,
        }
    }

    /// A command that starts a worker for `limiter`, without the options of its load.
    pub(crate) fn worker(&self, limiter: Limiter) -> anyhow::Result<Command> {
        let foreign =
            |name: &str| self.foreign.as_ref().map(|folder| folder.join(name)).context("no --foreign");
        Ok(match limiter {
            Limiter::Limits => {
                let mut command = child_command(self.python.as_ref().context("no --python")?);
                command.arg(foreign("python_limits.py")?);
                command
            }
            Limiter::RateLimiterFlexible => {
                let modules = self.node.as_ref().context("no --node")?;
                let mut command = child_command("node");
                command.arg(foreign("node_rate_limiter_flexible.cjs")?).arg("--modules").arg(modules);
                command
            }
            _ => {
                let mut command = this_program()?;
                command.arg("worker");
                command
            }
        })
    }
}
