//! `topup-compare` itself, and what it starts itself as.

use std::{ffi::OsString, fs, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::{Output, Run, Where};
use crate::{
    comparison::Comparison,
    limiter::{Limiter, rival::Refill},
    report::{answer, page, tell, terminal},
    stage::{Server, Stage, follow},
    suite::{self, Choices},
    verdict,
    worker::{READY, hear, say},
};

/// Removing what was written takes milliseconds; a Redis that hangs is not waited for longer.
const CLEAR_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn compare(run: &Run) -> anyhow::Result<ExitCode> {
    let choices = Choices {
        limiters: limiters(&run.only),
        traffics: suite::traffics(&run.traffic, run.quick)?,
        rounds: run.rounds,
        seed: run.seed,
        costs: !run.no_costs,
        quick: run.quick,
        workers: run.workers,
        command: command_line(),
    };
    on_stage(&run.place, run.workers, async |stage| {
        let comparison = suite::run(stage, &choices).await?;
        show(&comparison, &run.output)
    })
}

/// Says what was found, as it was asked for.
pub(super) fn show(comparison: &Comparison, output: &Output) -> anyhow::Result<()> {
    if let Some(path) = &output.html {
        fs::write(path, page(comparison)).with_context(|| path.display().to_string())?;
        tell(&format!("written to {}", path.display()));
    }
    answer(&if output.json { serde_json::to_string_pretty(comparison)? } else { terminal(comparison) });
    Ok(())
}

/// Shows what an earlier run has found.
pub(super) fn show_again(file: &Path, output: &Output) -> anyhow::Result<ExitCode> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| name.to_string())?;
    let read = serde_json::from_str(&text);
    let mut comparison: Comparison = read.with_context(|| format!("{name}: not what --json writes"))?;
    comparison.verdicts = verdict::verdicts(&comparison);
    show(&comparison, output)?;
    Ok(ExitCode::SUCCESS)
}

/// Those named, or all.
fn limiters(only: &[Limiter]) -> Vec<Limiter> {
    Limiter::all().iter().filter(|limiter| only.is_empty() || only.contains(limiter)).copied().collect()
}

/// The command line, without the folder of this program.
pub(super) fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("topup-compare {}", words.join(" ")).trim().to_owned()
}

/// Does `work` on a stage at `place` unless a signal comes first; in either case, whatever was started is ended and
/// whatever was written removed. One thread only: the kernel ends children with the thread that started them.
pub(super) fn on_stage(
    place: &Where,
    workers: u32,
    work: impl AsyncFnOnce(&mut Stage) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate, mut hangup) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        let mut stage = Stage::new(place.server().await?, workers);
        let ended = tokio::select! {
            worked = work(&mut stage) => worked.map(|()| ExitCode::SUCCESS),
            _ = interrupt.recv() => Ok(ExitCode::from(130)),
            _ = terminate.recv() => Ok(ExitCode::from(143)),
            _ = hangup.recv() => Ok(ExitCode::from(129)),
        };
        let cleared = timeout(CLEAR_WITHIN, stage.end()).await.context("Redis does not answer");
        let ended = ended?;
        cleared??;
        Ok(ended)
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
