//! A soak without faults: the memory of all processes stays flat while takes come at a steady rate.

use std::{path::Path, time::Duration};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval, sleep};
use topup::Client;
use topup_lab::{
    ChildProcess, Random, Table, child_command, count, machine::resident, output::tell, short, worker,
};
use topup_tests::{Daemon, Launch, Redis, SOON, clock};

/// Worker processes, and tasks of each.
const WORKERS: usize = 2;
const TASKS: usize = 24;
/// Time between two takes of a task: 24,000 takes a second in all.
const EVERY: Duration = Duration::from_millis(2);
/// Keys, of which each task takes at random.
const KEYS: usize = 2_000;
/// The fewest takes a second.
const LEAST: f64 = 20_000.0;
/// The most by which memory may vary.
const FLAT: f64 = 0.05;
/// Parts of the time. The first is the warm-up, and each other one has a median.
const PARTS: usize = 6;

const CONFIG: &str = "[limit.user]\nkeyed = true\ncapacity = 20\nrate = \"5/s\"\n[limit.api]\ncapacity = 1000\n\
                      rate = \"2000/s\"\n[limit.leased]\ncapacity = 2000\nrate = \"4000/s\"\nlease = { max = 50 }\n";

/// Counts of a worker in a second.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    takes: u64,
    allowed: u64,
    failed: u64,
}

/// Runs for `length`. Returns the report, and whether all is well.
pub async fn run(program: &Path, length: Duration) -> anyhow::Result<(String, bool)> {
    let redis = Redis::start().await;
    let mut daemons: Vec<Daemon> = Vec::new();
    for _ in 0..2 {
        let config = format!("name = \"soak\"\n{CONFIG}");
        let mut daemon = Launch::new(&config).redis(&redis).run();
        daemon.wait_for_line("ready: ", SOON).await;
        daemons.push(daemon);
    }
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let mut command = child_command(program);
        command.args(["--load", redis.url()]);
        let mut child = ChildProcess::start_piped(command)?;
        child.ready(SOON).await?;
        workers.push(child);
    }
    let mut processes = vec![("redis-server".to_owned(), redis.server.pid().context("Redis runs")?)];
    processes
        .extend(daemons.iter().enumerate().map(|(i, daemon)| (format!("topupd {}", i + 1), daemon.pid())));
    for (number, worker) in workers.iter().enumerate() {
        processes.push((format!("worker {}", number + 1), worker.id().context("a worker runs")?));
    }
    let seconds = (length.as_secs() as usize).max(2 * PARTS);
    let (mut sizes, mut all, mut told) = (vec![Vec::new(); processes.len()], Counts::default(), clock::now());
    let (mut warm, mut warm_at) = (Counts::default(), clock::now());
    for second in 0..seconds {
        if second == seconds / PARTS {
            (warm, warm_at) = (all, clock::now());
        }
        for worker in &mut workers {
            let counts: Counts = worker.hear().await?;
            all.takes += counts.takes;
            all.allowed += counts.allowed;
            all.failed += counts.failed;
        }
        for (sizes, (name, pid)) in sizes.iter_mut().zip(&processes) {
            sizes.push(resident(*pid).with_context(|| format!("{name} has ended"))?);
        }
        if clock::now() - told > 10_000_000 {
            told = clock::now();
            let mib: Vec<String> =
                sizes.iter().filter_map(|sizes| sizes.last()).map(|size| short(size / 1048576.0)).collect();
            tell(&format!(
                "{second} s of {seconds} s: {} takes, {} failed; MiB: {}",
                count(all.takes as f64),
                all.failed,
                mib.join(", ")
            ));
        }
    }
    let rate = (all.takes - warm.takes) as f64 / (clock::now() - warm_at) as f64 * 1e6;
    let mut table = Table::new("Memory", ["process", "MiB at first", "MiB at last", "most against least"]);
    let mut is_flat = true;
    for ((name, _), sizes) in processes.iter().zip(&sizes) {
        let medians: Vec<f64> = sizes.chunks(seconds.div_ceil(PARTS)).skip(1).map(median).collect();
        let (least, most) =
            (medians.iter().copied().fold(f64::MAX, f64::min), medians.iter().copied().fold(0.0, f64::max));
        let (first, last) = (medians[0], medians[medians.len() - 1]);
        is_flat &= most / least <= 1.0 + FLAT;
        let more = format!("+{} %", short((most / least - 1.0) * 100.0));
        table.row(name, [short(first / 1048576.0), short(last / 1048576.0), more]);
    }
    let report = format!(
        "{}{} takes a second ({} in all, {} allowed, {} failed)",
        table,
        count(rate),
        count(all.takes as f64),
        count(all.allowed as f64),
        all.failed
    );
    Ok((report, is_flat && rate >= LEAST && all.failed == 0))
}

fn median(sizes: &[f64]) -> f64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// A worker process: it takes from then on, and tells its counts each second.
pub fn load(url: &str) -> anyhow::Result<()> {
    let url = url.to_owned();
    worker::run(async move {
        let client = Client::connect(&url).await?;
        worker::say_line(worker::READY)?;
        let counts = std::rc::Rc::new(std::cell::Cell::new(Counts::default()));
        let tasks = tokio::task::LocalSet::new();
        for number in 0..TASKS {
            let (client, counts) = (client.clone(), counts.clone());
            tasks.spawn_local(async move {
                let mut random = Random::new(number as u64);
                let mut turns = interval(EVERY);
                turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
                loop {
                    turns.tick().await;
                    let bucket = match number % 4 {
                        0 => client.limit("api"),
                        1 => client.limit("leased"),
                        _ => client.limit("user").key(random.below(KEYS).to_string()),
                    };
                    let taken = bucket.take(1).await;
                    let mut now = counts.get();
                    now.takes += 1;
                    now.allowed += u64::from(taken.as_ref().is_ok_and(topup::Decision::is_allowed));
                    now.failed += u64::from(taken.is_err());
                    counts.set(now);
                }
            });
        }
        tasks
            .run_until(async {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    worker::say(&counts.take())?;
                }
            })
            .await
    })
}
