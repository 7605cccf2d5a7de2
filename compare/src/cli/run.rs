//! `topup-compare` itself, and what it starts itself as.

use std::{ffi::OsString, fs, process::ExitCode};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::signal::unix::{SignalKind, signal};

use super::{Run, Where};
use crate::{
    limiter::{Limiter, rival::Refill},
    report::{answer, complain, tell, terminal},
    stage::{Server, follow},
    suite::{self, Choices},
    worker::{READY, hear, say},
};

pub(super) fn compare(run: &Run) -> anyhow::Result<ExitCode> {
    let choices = Choices {
        limiters: limiters(&run.only),
        traffics: suite::traffics(&run.traffic, run.quick)?,
        rounds: run.rounds,
        seed: run.seed,
        costs: !run.no_costs,
        quick: run.quick,
        workers: run.workers,
        command: std::env::args()
            .map(|arg| arg.rsplit('/').next().unwrap_or(&arg).to_owned())
            .collect::<Vec<_>>()
            .join(" "),
    };
    until_signalled(async {
        let comparison = suite::run(run.place.server().await?, &choices).await?;
        if let Some(path) = &run.html {
            fs::write(path, crate::report::page(&comparison)).with_context(|| path.display().to_string())?;
            tell(&format!("written to {}", path.display()));
        }
        answer(&if run.json { serde_json::to_string_pretty(&comparison)? } else { terminal(&comparison) });
        Ok(())
    })
}

/// Those named, or all.
fn limiters(only: &[Limiter]) -> Vec<Limiter> {
    Limiter::all().iter().filter(|limiter| only.is_empty() || only.contains(limiter)).copied().collect()
}

/// Does `work` unless a signal comes first; children end with this process. One thread only: the kernel ends children
/// with the thread that started them.
pub(super) fn until_signalled(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate, mut hangup) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        let signal = tokio::select! {
            worked = work => return worked.map(|()| ExitCode::SUCCESS),
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
            _ = hangup.recv() => 1,
        };
        complain("topup-compare: ended early");
        Ok(ExitCode::from(128 + signal))
    })
}

pub(super) fn refill(parent: i32) -> anyhow::Result<ExitCode> {
    follow(parent)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let refill: Refill = hear(&mut BufReader::new(stdin()).lines()).await?;
        refill.run(|| say(&READY)).await
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn daemon(parent: i32, config: OsString) -> anyhow::Result<ExitCode> {
    follow(parent)?;
    let args = [OsString::from("topupd"), "run".into(), "--config".into(), config];
    Ok(topup_daemon::cli::main(args).into())
}

// === impl Where ===

impl Where {
    pub(super) async fn server(&self) -> anyhow::Result<Server> {
        match &self.redis {
            Some(url) => Server::at(url, self.shared).await,
            None => Server::private(),
        }
    }
}
