//! Steady traffic for tests that watch a daemon: `traffic <redis url> <limit>=<takes per second>[x<keys>|:<key>] …`.
//!
//! `api=800` takes from an unkeyed limit, `user=300x1000` from keys `0` to `999` in turn, `user=50:alice` from one key.
//! `print+5` holds permits of an unkeyed limit, with 5 tasks that want one each for as long as this program runs. `chat-4`
//! holds 4 times 10 tokens, which nobody settles. Ends when its stdin is closed.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: they read its stdout")]

use std::{future::pending, time::Duration};

use tokio::{
    io::{AsyncReadExt, stdin},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};
use topup::{Bucket, Client};
use topup_lab::worker::READY;
use topup_tests::SOON;

/// The time between two rounds of takes.
const ROUND: Duration = Duration::from_millis(20);

/// A permit, or a hold, that is kept.
#[derive(Clone, Copy)]
enum Kept {
    Permit,
    Hold,
}

/// Buckets that are taken from in turn, and takes per second.
struct Stream {
    buckets: Vec<Bucket>,
    per_second: f64,
}

// === impl Stream ===

impl Stream {
    fn read(text: &str, topup: &Client) -> Option<Self> {
        let (limit, pace) = text.split_once('=')?;
        let limit = topup.limit(limit);
        let (pace, buckets) = match (pace.split_once(':'), pace.split_once('x')) {
            (Some((pace, key)), _) => (pace, vec![limit.key(key)]),
            (None, Some((pace, keys))) => {
                let keys = 0..keys.parse::<u32>().ok()?;
                (pace, keys.map(|key| limit.key(key.to_string())).collect())
            }
            (None, None) => (pace, vec![limit.clone()]),
        };
        Some(Self { buckets, per_second: pace.parse().ok()? })
    }

    /// Takes forever. A busy machine takes less.
    async fn run(self) {
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut owed, mut next) = (0.0, 0);
        loop {
            rounds.tick().await;
            owed += self.per_second * ROUND.as_secs_f64();
            while owed >= 1.0 {
                owed -= 1.0;
                let Some(bucket) = self.buckets.get(next) else { return };
                next = (next + 1) % self.buckets.len();
                // Without a Redis, there is nothing to take.
                let _ = bucket.take(1).await;
            }
        }
    }
}

/// A permit or hold to keep, its bucket, and how many of them.
fn kept(text: &str, topup: &Client) -> Option<(Kept, Bucket, usize)> {
    if text.contains('=') {
        return None;
    }
    let read = |kind, sign| {
        let (limit, number) = text.split_once(sign)?;
        Some((kind, topup.limit(limit), number.parse().ok()?))
    };
    read(Kept::Permit, '+').or_else(|| read(Kept::Hold, '-'))
}

/// Gets a permit or a hold, and keeps it. The limit may not be published yet.
async fn keep(kind: Kept, bucket: Bucket) {
    loop {
        match kind {
            Kept::Permit => {
                if let Ok(Ok(_permit)) = bucket.acquire(1, SOON).await {
                    return pending().await;
                }
            }
            Kept::Hold => {
                if let Ok(_hold) = bucket.reserve_cost(10).await {
                    return pending().await;
                }
            }
        }
        sleep(ROUND).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("a URL");
    let topup = Client::builder().deadline(SOON).connect(&url).await.expect("a Redis");
    let mut streams = JoinSet::new();
    for arg in args {
        if let Some((kind, bucket, number)) = kept(&arg, &topup) {
            (0..number).for_each(|_| drop(streams.spawn(keep(kind, bucket.clone()))));
            continue;
        }
        let stream = Stream::read(&arg, &topup).expect("a limit, a pace, and keys");
        streams.spawn(stream.run());
    }
    println!("{READY}");
    let _ = stdin().read(&mut [0]).await;
    streams.shutdown().await;
    topup.put_back().await;
}
