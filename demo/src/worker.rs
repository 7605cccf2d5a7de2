//! A worker: a process that links the client, asks buckets as its orders say, and reports each answer. It ends when its
//! standard input does.

use std::{collections::HashMap, pin::pin, task::Poll, time::Duration};

use anyhow::Context;
use futures_util::poll;
use tokio::{
    sync::{mpsc, watch},
    time::{interval, sleep},
};
use topup::{Bucket, Client, Decision};
use topup_lab::{
    clock::{micros, now},
    worker::{self, Orders, READY, say, say_line},
};

use crate::{
    plan::buckets,
    protocol::{Answer, BucketNumber, Order, Report},
};

/// Time in which reports are gathered before they are written: so few writes are no load themselves.
const GATHER: Duration = Duration::from_millis(50);

/// Works until standard input ends.
pub(crate) fn run(redis: &str) -> anyhow::Result<()> {
    worker::run(work(redis))
}

async fn work(redis: &str) -> anyhow::Result<()> {
    let client = Client::connect(redis).await.context("a worker cannot connect")?;
    let buckets: Vec<Bucket> = buckets()
        .into_iter()
        .map(|(limit, key)| {
            let limit = client.limit(limit);
            key.map_or(limit.clone(), |key| limit.key(key))
        })
        .collect();
    let (reports, gathered) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(gathered));
    say_line(READY)?;

    let mut askers: HashMap<BucketNumber, watch::Sender<Order>> = HashMap::new();
    let mut told = Orders::new();
    while let Some(orders) = told.next::<Vec<Order>>().await? {
        for order in orders {
            if let Some(asker) = askers.get(&order.bucket) {
                asker.send_replace(order);
                continue;
            }
            let bucket = buckets.get(order.bucket).context("there is no such bucket")?.clone();
            let (asker, order) = watch::channel(order);
            askers.insert(order.borrow().bucket, asker);
            tokio::spawn(ask(bucket, order, reports.clone()));
        }
    }
    // Without these, the askers end, and then the writer.
    drop((askers, reports));
    writer.await?
}

/// Asks for a token again and again, as the last order says, until the sender of orders is dropped.
async fn ask(bucket: Bucket, mut order: watch::Receiver<Order>, reports: mpsc::UnboundedSender<Report>) {
    loop {
        let Order { bucket: number, per_second, delay } = *order.borrow_and_update();
        let period = Duration::from_secs_f64(1.0 / per_second);
        // Ticks missed in a busy moment are made up for, so the load stays as ordered.
        let mut ticks = interval(period);
        ticks.reset_after(period.mul_f64(delay));
        loop {
            tokio::select! {
                biased;
                told = order.changed() => match told {
                    Ok(()) => break,
                    Err(_) => return,
                },
                _ = ticks.tick() => {
                    let sent = now();
                    let answer = take(&bucket).await.unwrap_or_else(|error| Answer::Failed(error.to_string()));
                    let _ = reports.send(Report { bucket: number, sent, received: now(), answer });
                }
            }
        }
    }
}

async fn take(bucket: &Bucket) -> Result<Answer, topup::Error> {
    let mut take = pin!(bucket.take(1));
    // A take that asks Redis has to wait. An answer that is there at once comes from the worker's memory.
    let (decision, from_memory) = match poll!(take.as_mut()) {
        Poll::Ready(decision) => (decision?, true),
        Poll::Pending => (take.await?, false),
    };
    Ok(match decision {
        Decision::Denied { retry_after, .. } => {
            Answer::Denied { retry_after: micros(retry_after), from_memory }
        }
        // No limit of the demo is in shadow.
        _ => Answer::Allowed,
    })
}

async fn write(mut gathered: mpsc::UnboundedReceiver<Report>) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    while gathered.recv_many(&mut reports, usize::MAX).await > 0 {
        say(&reports)?;
        reports.clear();
        sleep(GATHER).await;
    }
    Ok(())
}
