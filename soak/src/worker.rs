//! A worker: a client of topup with callers on several buckets. A thread or a process.

use std::{fs, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use topup::{Bucket, Client, Error};
use topup_lab::Random;
use topup_tests::{SOON, Stalls, clock, eventually};

/// Deadline of all calls.
pub const DEADLINE: Duration = Duration::from_millis(250);
/// The longest that a waiter waits.
const PATIENCE: Duration = Duration::from_millis(40);
/// A caller that leaves does so within so many µs.
const LEAVES: usize = 3_000;

/// The work of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub worker: usize,
    /// The Redis, or a proxy before it.
    pub url: String,
    /// The number that its callers' random numbers begin with.
    pub seed: u64,
    /// The traffic on each bucket.
    pub traffics: Vec<Traffic>,
}

/// The callers of one bucket, and the way in which they call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// The number of the bucket.
    pub bucket: usize,
    /// Its limit.
    pub limit: String,
    /// Its key.
    pub key: Option<String>,
    /// Tasks that call, one call after the other.
    pub callers: usize,
    /// Mean time between two calls of one caller, in µs.
    pub every: u64,
    /// Whether callers leave, look and refund, too.
    pub is_varied: bool,
    /// Time that a refund may take longer than the deadline, in µs.
    pub in_hand: u64,
}

/// A report of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Told {
    /// It is connected.
    Ready(usize),
    /// A call is answered.
    Call(Call),
    /// It has put back its tokens and dropped its client, and so many tasks are left.
    Ended(usize),
}

/// One call and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The worker.
    pub worker: usize,
    /// The bucket.
    pub bucket: usize,
    /// The call.
    pub what: What,
    /// Tokens.
    pub count: u64,
    /// The instant before it, in µs of the machine's clock.
    pub sent: u64,
    /// The instant after it.
    pub received: u64,
    /// Time in which the machine kept the worker from running meanwhile, in µs.
    pub stalled: u64,
    /// The answer.
    pub answer: Answer,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A take, with patience or without.
    Take,
    /// A look.
    Peek,
    /// Tokens put back.
    Refund,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The tokens were taken, or put back.
    Done,
    /// They were not.
    Denied,
    /// The caller has left before the answer.
    Left,
    /// An error that may pass.
    Transient(String),
    /// Any other error.
    Failed(String),
}

/// Carries out `order` until `stop` is true, and tells what happens. Ends when all tasks have.
pub fn run(order: &Order, stop: &watch::Receiver<bool>, tell: impl Fn(Told) + Send + Sync + 'static) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tell: Arc<dyn Fn(Told) + Send + Sync> = Arc::new(tell);
    runtime.block_on(async {
        // The Redis may be away just now, as for any worker that starts.
        let client = Client::builder().deadline(DEADLINE).connect_lazy(&order.url).expect("a good URL");
        tell(Told::Ready(order.worker));
        let (mut callers, stalls) = (JoinSet::new(), Arc::new(Stalls::watch()));
        for (place, traffic) in order.traffics.iter().enumerate() {
            let limit = client.limit(&traffic.limit);
            let bucket = traffic.key.as_ref().map_or(limit.clone(), |key| limit.key(key));
            for number in 0..traffic.callers {
                let seed = order.seed + 1_000 * (order.worker as u64 + 1) + 50 * place as u64 + number as u64;
                let caller = Caller {
                    worker: order.worker,
                    bucket: bucket.clone(),
                    traffic: traffic.clone(),
                    random: Random::new(seed),
                    stalls: stalls.clone(),
                    tell: tell.clone(),
                };
                callers.spawn(caller.work(stop.clone()));
            }
        }
        callers.join_all().await;
        client.put_back().await;
        drop(client);
        let alive = || Handle::current().metrics().num_alive_tasks();
        let ended = async || if alive() == 0 { Ok(()) } else { Err(alive()) };
        let _ = timeout(SOON / 3, eventually(SOON, ended)).await;
        tell(Told::Ended(alive()));
    });
}

/// A worker process: its order is the first line of standard input, and it works until that ends.
pub fn process() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("an order");
    let order: Order = serde_json::from_str(&line).expect("an order");
    let (stop, told) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        stop.send_replace(true);
    });
    run(&order, &told, |told| {
        // A parent that does not listen any more ends this process.
        let _ = topup_lab::worker::say(&told);
    });
}

struct Caller {
    worker: usize,
    bucket: Bucket,
    traffic: Traffic,
    random: Random,
    stalls: Arc<Stalls>,
    tell: Arc<dyn Fn(Told) + Send + Sync>,
}

// === impl Caller ===

impl Caller {
    async fn work(mut self, mut stop: watch::Receiver<bool>) {
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

// === impl Answer ===

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        if error.is_transient() {
            Self::Transient(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}
