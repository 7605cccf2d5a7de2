//! One run: a plan carried out, and judged.

mod drain;
mod leftovers;
mod panics;

use std::{path::Path, thread, time::Duration};

use anyhow::Context;
use tokio::{runtime::Builder, sync::watch, time::timeout};
use topup::Client;
use topup_tests::{SOON, Stalls, clock, eventually};

pub use self::panics::remember_panics;
use self::{
    drain::drain,
    leftovers::{law_4, still_open},
    panics::panics_of,
};
use crate::{
    heard::lock,
    judge::{Audit, Case, Judgement, judge},
    limits::Limit,
    plan::Plan,
    world::World,
};

/// Traffic after the last fault, on which law 2 is judged.
const TAIL: Duration = Duration::from_millis(2_500);
/// The longest that descriptors of replaced connections stay open.
const CLOSED: Duration = Duration::from_secs(5);

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

async fn play(plan: &Plan, program: &Path) -> anyhow::Result<Judgement> {
    let mut world = World::start(plan, program).await?;
    let stalls = Stalls::watch();
    let auditor = Client::builder().deadline(SOON).connect(world.redis.url()).await?;
    let bucket_of = |(limit, key): &(&Limit, Option<&str>)| {
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
    broken.extend(panics_of(&format!("worker of seed {}", plan.seed)));
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
