//! A caller of one bucket: it takes, waits, looks, leaves and refunds.

use std::{fs, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use topup::{Bucket, Error};
use topup_lab::Random;
use topup_tests::{Stalls, clock};

use super::words::{Answer, Call, Told, Traffic, What};

/// The longest that a waiter waits.
const PATIENCE: Duration = Duration::from_millis(40);
/// A caller that leaves does so within so many µs.
const LEAVES: usize = 3_000;

pub(super) struct Caller {
    pub(super) worker: usize,
    pub(super) bucket: Bucket,
    pub(super) traffic: Traffic,
    pub(super) random: Random,
    pub(super) stalls: Arc<Stalls>,
    pub(super) tell: Arc<dyn Fn(Told) + Send + Sync>,
}

// === impl Caller ===

impl Caller {
    pub(super) async fn work(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let pause = Duration::from_micros(self.random.below(2 * self.traffic.every as usize) as u64);
            if timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
            self.call().await;
        }
    }

    async fn call(&mut self) {
        let bucket = self.bucket.clone();
        let decided = |decided: Result<topup::Decision, Error>| match decided {
            Ok(decision) if decision.is_allowed() => Answer::Done,
            Ok(_) => Answer::Denied,
            Err(error) => error.into(),
        };
        match self.random.below(if self.traffic.is_varied { 100 } else { 78 }) {
            0..70 => drop(self.note(What::Take, 1, async { decided(bucket.take(1).await) }).await),
            70..78 => drop(self.note(What::Take, 2, async { decided(bucket.take(2).await) }).await),
            78..85 => {
                drop(self.note(What::Take, 1, async { decided(bucket.wait(1, PATIENCE).await) }).await);
            }
            85..88 => drop(self.note(What::Peek, 0, async { decided(bucket.peek().await) }).await),
            88..91 => {
                let leaves = Duration::from_micros(self.random.below(LEAVES) as u64);
                let take = async {
                    tokio::select! {
                        biased;
                        taken = bucket.take(1) => decided(taken),
                        () = sleep(leaves) => Answer::Left,
                    }
                };
                drop(self.note(What::Take, 1, take).await);
            }
            _ => {
                if self.note(What::Take, 1, async { decided(bucket.take(1).await) }).await == Answer::Done {
                    let refund = async { bucket.refund(1).await.map_or_else(Answer::from, |_| Answer::Done) };
                    self.note(What::Refund, 1, refund).await;
                }
            }
        }
    }

    async fn note(&self, what: What, count: u64, call: impl Future<Output = Answer>) -> Answer {
        let (stalled, sent) = (self.stalled(), clock::now());
        let answer = call.await;
        let (received, stalled) = (clock::now(), self.stalled() - stalled);
        let (worker, bucket) = (self.worker, self.traffic.bucket);
        (self.tell)(Told::Call(Call {
            worker,
            bucket,
            what,
            count,
            sent,
            received,
            stalled,
            answer: answer.clone(),
        }));
        answer
    }

    /// Time so far in which this thread was ready to run and did not, or in which the whole machine stood still, in µs.
    fn stalled(&self) -> u64 {
        let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let queued = stat.split(' ').nth(1).and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        queued / 1_000 + self.stalls.total()
    }
}
