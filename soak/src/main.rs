//! `topup-soak`: runs plans of faults, seed after seed, until one breaks a law.

use std::{
    collections::VecDeque,
    env::current_exe,
    path::PathBuf,
    pin::pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Parser;
use tokio::sync::watch;
use topup_lab::{
    cli,
    clock::{Stopwatch, seconds},
    output::{answer, tell},
    short, unless_signalled,
};
use topup_soak::{
    cluster,
    judge::Judgement,
    plan::Plan,
    run::{finish, remember_panics, start},
    steady,
    totals::Totals,
    worker,
};

/// Time between two daemons that are killed.
const KILL_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs topup under seeded faults, and holds every law against it.
#[derive(Debug, Parser)]
#[command(name = "topup-soak")]
struct Args {
    /// Minutes to begin new runs, 5 unless set; with --steady, --kills and --cluster, the length of the run, 1 unless set.
    #[arg(long)]
    minutes: Option<f64>,
    /// Number of runs.
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Runs at once.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// One run without faults: at least 20,000 takes a second, and memory that stays flat.
    #[arg(long)]
    steady: bool,
    /// One run in which one of three daemons is killed each second: every second is credited once.
    #[arg(long)]
    kills: bool,
    /// One run on a cluster whose third master is killed: takes on the others are as fast as before.
    #[arg(long)]
    cluster: bool,
    /// A worker process of a run.
    #[arg(long, hide = true)]
    worker: bool,
    /// A worker process of a soak, on this Redis.
    #[arg(long, hide = true)]
    load: Option<String>,
}

fn main() -> ExitCode {
    cli::main(|args: Args| {
        if args.worker {
            worker::process();
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(url) = &args.load {
            steady::load(url)?;
            return Ok(ExitCode::SUCCESS);
        }
        remember_panics();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, told) = watch::channel(false);
        runtime.block_on(async {
            if args.steady || args.cluster {
                return unless_signalled(measure(&args)).await?.unwrap_or_else(|signal| Ok(signal.into()));
            }
            let mut chaos = pin!(chaos(&args, told));
            match unless_signalled(&mut chaos).await? {
                Ok(ended) => ended,
                Err(signal) => {
                    // Runs end their children and remove their folders.
                    stop.send_replace(true);
                    chaos.await?;
                    Ok(signal.into())
                }
            }
        })
    })
}

/// Makes the one run of `--steady` or `--cluster`.
async fn measure(args: &Args) -> anyhow::Result<ExitCode> {
    let length = Duration::from_secs_f64(60.0 * args.minutes.unwrap_or(1.0));
    let (report, is_well) = if args.steady {
        steady::run(&current_exe()?, length).await?
    } else {
        cluster::run(length / 3).await?
    };
    answer(&format!("{report}\n{}", if is_well { "ok" } else { "BROKEN" }));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs plan after plan, some at once.
async fn chaos(args: &Args, stop: watch::Receiver<bool>) -> anyhow::Result<ExitCode> {
    let (program, began): (PathBuf, _) = (current_exe()?, Stopwatch::start());
    let length = Duration::from_secs_f64(60.0 * args.minutes.unwrap_or(if args.kills { 1.0 } else { 5.0 }));
    let runs = if args.kills { 1 } else { args.runs.unwrap_or(u64::MAX) };
    let plan = |seed| if args.kills { Plan::kills(seed, length, KILL_EVERY) } else { Plan::of(seed) };
    let next = Arc::new(AtomicU64::new(args.seed));
    let goes_on = || {
        let is_time = args.runs.is_some() || args.kills || began.elapsed() < length;
        is_time && next.load(Relaxed) < args.seed.saturating_add(runs) && !*stop.borrow()
    };
    let (mut running, mut all, mut failed) = (VecDeque::new(), Totals::default(), 0);
    while goes_on() || !running.is_empty() {
        while running.len() < args.jobs && goes_on() {
            let plan = plan(next.fetch_add(1, Relaxed));
            running.push_back((plan.clone(), start(plan, &program, stop.clone())));
        }
        let Some(place) = running.iter().position(|(_, run)| run.is_finished()) else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let Some((plan, run)) = running.remove(place) else { continue };
        let Some(judgement) = finish(run) else { continue };
        all.add(&judgement);
        tell(&format!("seed {}: {}", plan.seed, line(&judgement)));
        if !judgement.broken.is_empty() {
            failed += 1;
            answer(&story(&plan, &judgement, args));
        }
    }
    answer(&format!("{}; {failed} failed; {} s", all.summary(), short(began.elapsed().as_secs_f64())));
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A judgement in one line.
fn line(judgement: &Judgement) -> String {
    let Judgement { broken, calls, admitted, undecided, faults, slowest, recovery, .. } = judgement;
    let verdict = match (broken.is_empty(), judgement.is_void) {
        (true, false) => "ok",
        (true, true) => "ok, but for times: the machine stood still",
        (false, _) => "BROKEN",
    };
    format!(
        "{verdict}; {faults} faults, {calls} calls, {admitted} tokens, {undecided} undecided; the slowest call {} ms \
         against its deadline; {} ms without a decision after the faults",
        short(*slowest as f64 / 1e3),
        short(seconds(*recovery) * 1e3)
    )
}

/// The story of a failed run, and the command that replays it.
fn story(plan: &Plan, judgement: &Judgement, args: &Args) -> String {
    let mut text = format!("\n{plan}");
    for broken in judgement.broken.iter().take(10) {
        text += &format!("  ! {broken}\n");
    }
    if judgement.broken.len() > 10 {
        text += &format!("  ! and {} more\n", judgement.broken.len() - 10);
    }
    for log in &judgement.logs {
        text += &format!("  {}\n", log.replace('\n', "\n  "));
    }
    let mode = if args.kills { " --kills" } else { " --runs 1" };
    text + &format!("replay: scripts/soak --seed {}{mode}\n", plan.seed)
}
