//! Eight processes of sixteen tasks share six permits, and each second one of the processes is killed. By hand for a
//! minute, with figures:
//!
//! `TOPUP_TEST_SECONDS=60 cargo test -p topup-tests --test e2e -- permits::attack --nocapture`

use std::{
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::task::{JoinHandle, spawn};
use topup_lab::{ChildProcess, child_command};
use topup_tests::{SOON, Signal, Stalls, clock, eventually, stalls::void};

use super::{
    super::fixture::{Fixture, now},
    ledger::Ledger,
};

const PROCESSES: usize = 8;
const TASKS: &str = "16";
const LIMIT: usize = 6;
/// The ttl of a permit, in µs.
const TTL: u64 = 1_000_000;
/// The time between two polls of a waiter, in µs.
const POLL: u64 = 50_000;
/// Seconds of a run, unless the environment names others.
const SECONDS: u64 = 5;

type Shared = Arc<Mutex<Ledger>>;

/// A worker process, and the task that reads it.
struct Worker {
    id: u32,
    read: JoinHandle<()>,
}

async fn start(url: &str, number: usize, ledger: Shared) -> Worker {
    let mut command = child_command(env!("CARGO_BIN_EXE_permits"));
    command.args([url, "gpu", TASKS]);
    let mut child = ChildProcess::start_piped(command).unwrap();
    child.ready(SOON).await.unwrap();
    let id = child.id().unwrap();
    let read = spawn(async move {
        while let Ok(Some(line)) = child.next_line().await {
            ledger.lock().unwrap().enter(number, &line);
        }
        let _ = child.exit(SOON).await;
    });
    Worker { id, read }
}

/// Kills the process, and reads all that it had told.
async fn kill(worker: Worker) {
    let id = rustix::process::Pid::from_raw(worker.id.try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, Signal::KILL).unwrap();
    worker.read.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_killed_and_no_permit_is_held_twice_or_lost() {
    let seconds = env::var("TOPUP_TEST_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let config = format!("[limit.gpu]\nalgorithm = \"concurrency\"\nlimit = {LIMIT}\nttl = \"1s\"\n");
    let fixture = Fixture::set(&config).await;
    let (ledger, stalls) = (Shared::default(), Stalls::watch());
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        workers.push(start(fixture.redis.url(), number, ledger.clone()).await);
    }
    for round in 0..seconds as usize {
        let at = clock::now() + 1_000_000;
        // The pace of the attack: nothing is waited for.
        clock::sleep_until(at).await;
        kill(workers.remove(0)).await;
        workers.push(start(fixture.redis.url(), PROCESSES + round, ledger.clone()).await);
    }
    // The last ones die at once, with all that they hold and wait for.
    for worker in workers {
        kill(worker).await;
    }
    let killed_by = now(&fixture.redis).await;
    let scores: Vec<f64> =
        scores(&fixture, "p").await.into_iter().chain(scores(&fixture, "w").await).collect();
    let last = scores.into_iter().fold(0.0, f64::max) as u64;
    assert!(last <= killed_by + TTL, "a place is taken until {last}, a ttl after {killed_by} at most");
    // All come back, without any help: as one permit for all places, behind the dead waiters.
    // A waiter that hears nothing for a second gives up, as on a machine that stands still.
    let gpu = fixture.bucket("gpu");
    let all = eventually(SOON, async || match gpu.acquire(LIMIT as u64, SOON).await {
        Err(error) if error.is_transient() => Err(error),
        answer => Ok(answer.unwrap().unwrap()),
    });
    all.await.release().await.unwrap();
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;

    let ledger = ledger.lock().unwrap();
    let (count, killed, at_once) = (ledger.all().count(), ledger.killed(), ledger.most_at_once());
    let most = at_once.len();
    let lost = ledger.all().filter(|held| held.is_lost).count();
    let (pairs, longest) = ledger.overtaken(250_000);
    println!(
        "{PROCESSES} processes of {TASKS} tasks, {seconds} kills: {count} permits, at most {most} of {LIMIT} at once; {killed} held \
         by killed processes, {lost} lost; {pairs} overtaken by {longest} µs at most; worst stall {} µs",
        stalls.worst(),
    );
    assert!(most <= LIMIT, "{most} at once: {at_once:?}");
    assert!(count > 20 && most == LIMIT && killed > 0, "{count} permits, {killed} killed");
    // A waiter knows of its place by its next poll. A machine that stands still delays any of them.
    if longest > POLL + 50_000 + stalls.worst()
        && stalls.below(Duration::from_millis(100), "order of waiters")
    {
        panic!("{pairs} waiters were overtaken, by {longest} µs at most");
    }
    if lost > 0 {
        void("lost permits: the machine kept holders from renewing");
    }
}

async fn scores(fixture: &Fixture, letter: &str) -> Vec<f64> {
    let key = format!("topup:{{gpu:0}}:{letter}:");
    let rows: Vec<String> = fixture.redis.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await;
    rows.into_iter().skip(1).step_by(2).map(|score| score.parse().unwrap()).collect()
}
