//! `topup-compare` itself, and what it starts itself as.

use std::{ffi::OsString, fs, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use tokio::time::timeout;
use topup_lab::{
    unless_signalled,
    worker::{self, READY, say_line},
};

use super::args::{Output, Run, Where};
use crate::{
    comparison::Comparison,
    fixture::{Fixture, Server},
    limiter::{Limiter, rival::Refill},
    report::{answer, page, tell, terminal},
    suite::{self, Choices},
    verdict,
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
    on_fixture(&run.place, run.workers, async |fixture| {
        let comparison = suite::run(fixture, &choices).await?;
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

/// The limiters named, or all.
fn limiters(only: &[Limiter]) -> Vec<Limiter> {
    Limiter::all().iter().filter(|limiter| only.is_empty() || only.contains(limiter)).copied().collect()
}

/// The command line, without the folder of this program.
pub(super) fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("topup-compare {}", words.join(" ")).trim().to_owned()
}

/// Does `work` on a fixture at `place` unless a signal comes first. In either case, all processes are ended and all keys
/// removed. One thread only: the kernel ends children with the thread that started them.
pub(super) fn on_fixture(
    place: &Where,
    workers: u32,
    work: impl AsyncFnOnce(&mut Fixture) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut fixture = Fixture::new(place.server().await?, workers);
        let ended = unless_signalled(work(&mut fixture)).await?;
        let cleared = timeout(CLEAR_WITHIN, fixture.end()).await.context("Redis does not answer");
        let ended = match ended {
            Ok(worked) => worked.map(|()| ExitCode::SUCCESS)?,
            Err(interrupted) => interrupted.into(),
        };
        cleared??;
        Ok(ended)
    })
}

pub(super) fn refill() -> anyhow::Result<ExitCode> {
    worker::run(async {
        let refill: Refill = worker::Orders::new().expect().await?;
        refill.run(|| say_line(READY)).await
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn daemon(args: Vec<OsString>) -> ExitCode {
    topup_daemon::cli::main([OsString::from("topupd")].into_iter().chain(args)).into()
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
