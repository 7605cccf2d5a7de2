//! A cluster of three masters, of which one is killed: takes on the others are as fast as before.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use topup::{Bucket, Client};
use topup_lab::{Quantiles, Table, short};
use topup_tests::{Cluster, Daemon, SOON, clock};
use topup_wire::namespace::Namespace;

/// Callers of each master, and the time between two takes of one.
const CALLERS: usize = 16;
const EVERY: Duration = Duration::from_millis(4);
const SHARDS: u64 = 16;
const CONFIG: &str = "[limit.user]\nkeyed = true\nshards = 16\ncapacity = 10000\nrate = \"5000/s\"\n";
/// The p99 of one part may be so many times that of another one, on a machine where nothing fails.
const NOISE: f64 = 2.0;

/// Runs three parts of `part` each; before the third one, a master is killed. Returns the report, and whether all is well.
pub async fn run(part: Duration) -> anyhow::Result<(String, bool)> {
    let mut cluster = Cluster::start(3).await;
    let mut daemon = Daemon::spawn(CONFIG, &cluster.masters()[0].redis);
    daemon.wait_for_line("ready: ", SOON).await;
    let client = Client::connect(cluster.url()).await?;
    // Not the master that has the heartbeats.
    let heartbeats = cluster.home(&Namespace::default().daemons()).await;
    let victim = (heartbeats + 1) % 3;
    let mut buckets = Vec::new();
    for master in (0..3).filter(|master| *master != victim) {
        buckets.push(client.limit("user").key(cluster.key_on(master, "user", SHARDS).await));
    }
    let doomed = client.limit("user").key(cluster.key_on(victim, "user", SHARDS).await);
    let part = part.as_micros() as u64;
    let begin = clock::now() + part / 10;
    let mut callers = JoinSet::new();
    for (bucket, is_doomed) in buckets.iter().map(|bucket| (bucket, false)).chain([(&doomed, true)]) {
        for _ in 0..if is_doomed { 1 } else { CALLERS } {
            callers.spawn(calls(bucket.clone(), is_doomed, begin + 3 * part));
        }
    }
    // The instant of the fault.
    clock::sleep_until(begin + 2 * part).await;
    cluster.nodes[victim].redis.server.kill()?;
    let mut times = vec![Vec::new(); 3];
    let (mut failures, mut lost) = (BTreeMap::<String, usize>::new(), 0);
    for (is_doomed, calls) in callers.join_all().await {
        for (sent, took, failure) in calls.into_iter().filter(|(sent, ..)| *sent >= begin) {
            match (is_doomed, failure) {
                (true, failure) => lost += usize::from(failure.is_some()),
                (false, Some(why)) => *failures.entry(why).or_default() += 1,
                (false, None) => times[(((sent - begin) / part) as usize).min(2)].push(took as f64),
            }
        }
    }
    let failed: usize = failures.values().sum();
    let mut table =
        Table::new("Takes on masters that live", ["part", "takes", "p50 µs", "p99 µs", "p99.9 µs"]);
    let mut p99 = Vec::new();
    for (name, times) in ["before", "before, again", "one master gone"].into_iter().zip(times) {
        let takes = times.len();
        let Some(Quantiles { p50, p99: at_99, p999 }) = Quantiles::of(times) else { continue };
        p99.push(at_99);
        table.row(name, [takes.to_string(), short(p50), short(at_99), short(p999)]);
    }
    let [first, second, gone] = p99[..] else { anyhow::bail!("a part has no takes") };
    let (noise, ratio) = (first.max(second) / first.min(second), gone / first.max(second));
    let report = format!(
        "{table}p99 of takes on the other masters: {} times that of before, and the two parts before differ by {}; {failed} \
         of them failed, and {lost} on the master that is gone",
        short(ratio),
        short(noise)
    );
    let report =
        failures.iter().fold(report, |report, (why, times)| format!("{report}\n{times} failed: {why}"));
    Ok((report, ratio <= NOISE.max(noise) && failed == 0))
}

/// Takes until `end`: when each was sent, how many µs it took, and why Redis did not decide it.
async fn calls(bucket: Bucket, is_doomed: bool, end: u64) -> (bool, Vec<(u64, u64, Option<String>)>) {
    let (mut calls, mut turns) = (Vec::new(), interval(EVERY));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while clock::now() < end {
        turns.tick().await;
        let sent = clock::now();
        let failure = bucket.take(1).await.err().map(|error| error.to_string());
        calls.push((sent, clock::now() - sent, failure));
    }
    (is_doomed, calls)
}
