//! A worker: a client of topup with callers on several buckets. A thread or a process.

mod caller;
mod words;

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use topup::Client;
use topup_lab::Random;
use topup_tests::{SOON, Stalls, eventually};

use self::caller::Caller;
pub use self::words::{Answer, Call, Order, Told, Traffic, What};

/// Deadline of all calls.
pub const DEADLINE: Duration = Duration::from_millis(250);

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
