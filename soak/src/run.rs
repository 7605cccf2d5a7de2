//! One run: a plan carried out, and judged.

use std::{path::Path, sync::Mutex, thread, time::Duration};

use anyhow::Context;
use tokio::{runtime::Builder, sync::watch, time::timeout};
use topup::{Bucket, Client};
use topup_tests::{SOON, Stalls, clock, eventually};

use crate::{
    heard::lock,
    judge::{Audit, Case, Judgement, judge},
    oracle::seconds,
    plan::Plan,
    world::World,
};

/// Traffic after the last fault, on which law 2 is judged.
const TAIL: Duration = Duration::from_millis(2_500);
/// The longest that descriptors of replaced connections stay open.
const CLOSED: Duration = Duration::from_secs(5);
/// Attempts to empty a bucket. The first one does, unless the machine stands still.
const DRAINS: usize = 20;
/// Panics of threads of this process: their names, and what they said.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Runs `plan` on a thread of its own. `None` if `stop` became true first.
pub fn start(
    plan: Plan,
    program: &Path,
    stop: watch::Receiver<bool>,
) -> thread::JoinHandle<Option<Judgement>> {
    let program = program.to_owned();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut stop = stop;
        let played = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                played = play(&plan, &program) => Some(played),
            }
        });
        // Readers of children may still block.
        runtime.shutdown_background();
        played.map(|played| played.unwrap_or_else(|error| Judgement::failed(format!("{error:#}"))))
    };
    thread::Builder::new().name("run".into()).spawn(run).expect("a thread")
}

/// The judgement of a run that has begun. A fault of the harness, or a wait that takes too long, is a broken promise as well.
pub fn finish(run: thread::JoinHandle<Option<Judgement>>) -> Option<Judgement> {
    run.join().unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Some(Judgement::failed(said.to_owned()))
    })
}

/// Remembers panics of all threads from now on.
pub fn remember_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        if let Ok(mut panics) = PANICS.lock() {
            panics.push((name, info.to_string()));
        }
        before(info);
    }));
}

async fn play(plan: &Plan, program: &Path) -> anyhow::Result<Judgement> {
    let mut world = World::start(plan, program).await?;
    let stalls = Stalls::watch();
    let auditor = Client::builder().deadline(SOON).connect(world.redis.url()).await?;
    let bucket_of = |(limit, key): &(&crate::limits::Limit, Option<&str>)| {
        let bucket = auditor.limit(limit.name);
        key.map_or(bucket.clone(), |key| bucket.key(key))
    };
    let buckets = World::buckets(plan);
    let mut audits = Vec::new();
    for (number, (limit, _)) in buckets.iter().enumerate().filter(|(_, (limit, _))| limit.has_ledger()) {
        let (sent, bucket) = (clock::now(), bucket_of(&buckets[number]));
        anyhow::ensure!(bucket.take(limit.capacity as u64).await?.is_allowed(), "a full bucket gives all");
        audits.push(Audit {
            bucket: number,
            began: (sent, clock::now()),
            ended: (0, 0),
            drained: 0,
            left: 0,
        });
    }
    if plan.loses_data() {
        // A bucket that is full again has more tokens than one by one can be taken.
        audits.clear();
    }
    world.start_workers().await?;
    let begin = clock::now();
    // Connections are made by now, and no fault has begun.
    clock::sleep_until(begin + 500_000).await;
    let descriptors = world.descriptors();
    let mut turns: Vec<_> = plan
        .faults
        .iter()
        .flat_map(|fault| [(fault.at, fault, true), (fault.at + fault.lasts, fault, false)])
        .collect();
    turns.sort_by_key(|(at, _, begins)| (*at, !begins));
    let mut began = Vec::new();
    for (at, fault, begins) in turns {
        clock::sleep_until(begin + at * 1_000).await;
        let now = clock::now();
        world.turn(*fault, begins).await.with_context(|| format!("{:?}", fault.kind))?;
        if begins {
            began.push((now, *fault));
        } else if let Some(place) = began.iter().position(|(_, other)| other == fault) {
            world.happened.push((began.swap_remove(place).0, clock::now(), *fault));
        }
    }
    clock::sleep_until(begin + plan.length.as_micros() as u64).await;
    world.heal().await;
    for bucket in &buckets {
        let bucket = bucket_of(bucket);
        let _ = eventually(SOON, async || bucket.peek().await).await;
    }
    let quiet = clock::now();
    clock::sleep_until(quiet + TAIL.as_micros() as u64).await;
    let tail_end = clock::now();
    // A connection that is replaced just now has two for a moment.
    let are_closed = async || still_open(&descriptors, &world.descriptors()).is_empty();
    let _ = timeout(CLOSED, eventually(SOON, are_closed)).await;
    let mut broken = still_open(&descriptors, &world.descriptors());
    world.stop_workers().await;
    for audit in &mut audits {
        *audit = Audit {
            bucket: audit.bucket,
            ..drain(&bucket_of(&buckets[audit.bucket]), buckets[audit.bucket].0.rate, *audit).await?
        };
    }
    broken.extend(law_4(&world, &auditor, &buckets).await);
    world.stop_daemons().await;
    broken.append(&mut world.broken);
    let words = std::fs::read_to_string(world.words_of_workers()).unwrap_or_default();
    let heard = std::mem::take(&mut *lock(&world.heard));
    let tasks: usize = heard.ended.iter().sum();
    if tasks > 0 {
        broken.push(format!("tasks: {tasks} are left after a client was dropped"));
    }
    if words.contains("panicked") {
        broken.push(format!("a worker panicked: {words}"));
    }
    let name = format!("worker of seed {}", plan.seed);
    let panics = PANICS.lock().map(|panics| panics.clone()).unwrap_or_default();
    broken.extend(panics.into_iter().filter(|(thread, _)| *thread == name).map(|(_, said)| said));
    let case = Case {
        plan,
        buckets: &buckets,
        calls: &heard.calls,
        happened: &world.happened,
        audits: &audits,
        stalled: heard.calls.iter().map(|call| call.stalled).max().unwrap_or(0).max(stalls.worst()),
        begin,
        quiet,
        tail_end,
    };
    let mut judgement = judge(&case);
    judgement.broken.append(&mut broken);
    judgement.logs = std::mem::take(&mut world.logs);
    Ok(judgement)
}

/// Programs with more open descriptors `now` than any process of theirs had `before`.
fn still_open(before: &[(String, usize)], now: &[(String, usize)]) -> Vec<String> {
    let more = |(program, count): &(String, usize)| {
        let most = before.iter().filter(|(name, _)| name == program).map(|(_, count)| *count).max()?;
        // A worker opens some connections when it first needs them.
        (*count > most + 1).then(|| format!("descriptors: {program} had {most} open, and has {count} now"))
    };
    now.iter().filter_map(more).collect()
}

/// Takes the tokens that are left, until a take of a few more is denied. Tokens that come meanwhile may be left.
async fn drain(bucket: &Bucket, rate: f64, audit: Audit) -> anyhow::Result<Audit> {
    let mut drained = 0;
    for _ in 0..DRAINS {
        let began = clock::now();
        let held = bucket.peek().await?.remaining();
        if held > 0 && bucket.take(held).await?.is_allowed() {
            drained += held;
        }
        let sent = clock::now();
        let few = 1 + (2.0 * rate * seconds(sent - began)).ceil() as u64;
        if !bucket.take(few).await?.is_allowed() {
            return Ok(Audit { ended: (sent, clock::now()), drained, left: few, ..audit });
        }
        drained += few;
    }
    anyhow::bail!("a bucket is never empty")
}

/// Law 4: when all buckets are full again, no key of a bucket is left.
async fn law_4(
    world: &World,
    auditor: &Client,
    buckets: &[(&crate::limits::Limit, Option<&str>)],
) -> Vec<String> {
    for (limit, _) in buckets.iter().filter(|(limit, _)| limit.has_ledger()) {
        if let Err(error) = auditor.limit(limit.name).reset().await {
            return vec![format!("reset of {}: {error}", limit.name)];
        }
    }
    let left = async || {
        let keys: Vec<String> = world.redis.ask(&["KEYS", "*"]).await;
        let of_limits = ["}:limit", "}:counts"];
        let is_shared = |key: &String| {
            key.starts_with("topup:{topup}:") || of_limits.iter().any(|end| key.ends_with(end))
        };
        let left: Vec<String> = keys.into_iter().filter(|key| !is_shared(key)).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    match timeout(SOON / 2, eventually(SOON, left)).await {
        Ok(()) => Vec::new(),
        Err(_) => vec![format!("law 4: keys are left: {:?}", left().await)],
    }
}
