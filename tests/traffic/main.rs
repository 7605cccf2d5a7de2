//! Steady traffic for tests that watch a daemon: `traffic <redis url> <limit>=<takes per second>[x<keys>|:<key>] …`.
//!
//! `api=800` takes from an unkeyed limit, `user=300x1000` from keys `0` to `999` in turn, `user=50:alice` from one key.
//! Ends when its stdin is closed.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: they read its stdout")]

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, stdin},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use topup::{Bucket, Client};
use topup_lab::worker::READY;
use topup_tests::SOON;

/// The time between two rounds of takes.
const ROUND: Duration = Duration::from_millis(20);

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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("a URL");
    let topup = Client::builder().deadline(SOON).connect(&url).await.expect("a Redis");
    let mut streams = JoinSet::new();
    for arg in args {
        let stream = Stream::read(&arg, &topup).expect("a limit, a pace, and keys");
        streams.spawn(stream.run());
    }
    println!("{READY}");
    let _ = stdin().read(&mut [0]).await;
    streams.shutdown().await;
    topup.put_back().await;
}
