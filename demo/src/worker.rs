//! A worker: a process that links the client, asks its limits as often as it is told to, and reports each answer.
//!
//! It ends when its standard input does, so no worker outlives the demo, however that ends.

use std::{collections::HashMap, pin::pin, task::Poll, time::Duration};

use anyhow::Context;
use futures_util::poll;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout},
    sync::{mpsc, watch},
    time::interval,
};
use topup::{Bucket, Client, Decision};

use crate::{
    clock::now,
    protocol::{BucketId, Decided, Order, Outcome, Pace, Report},
};

/// How long reports are gathered before they are written: few enough writes not to be the load themselves.
const GATHER: Duration = Duration::from_millis(50);

/// Works until standard input ends.
pub(crate) fn run(redis: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worked = runtime.block_on(work(redis));
    // A read of standard input may still be under way, in a thread that nobody needs to wait for.
    runtime.shutdown_background();
    worked
}

async fn work(redis: &str) -> anyhow::Result<()> {
    let topup = Client::connect(redis).await.context("a worker cannot connect")?;
    let (reports, gathered) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(gathered));
    let _ = reports.send(Report::Ready);

    let mut asked: HashMap<BucketId, watch::Sender<Pace>> = HashMap::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Order { bucket, pace } = line.parse().with_context(|| format!("not an order: {line:?}"))?;
        if let Some(asker) = asked.get(&bucket) {
            asker.send_replace(pace);
        } else {
            let (asker, told) = watch::channel(pace);
            tokio::spawn(ask(topup.clone(), bucket.clone(), told, reports.clone()));
            asked.insert(bucket, asker);
        }
    }
    // Without these, the askers end, and then the writer.
    drop((asked, reports));
    writer.await?
}

/// Asks for a token again and again, at the pace told, until nobody tells any more.
async fn ask(
    topup: Client,
    id: BucketId,
    mut pace: watch::Receiver<Pace>,
    reports: mpsc::UnboundedSender<Report>,
) {
    let bucket = id.of(&topup);
    loop {
        // Ticks missed in a busy moment are made up for, so that the load is what it says.
        let Pace { per_second, delay } = *pace.borrow_and_update();
        let period = Duration::from_secs_f64(1.0 / per_second);
        let mut ticks = interval(period);
        ticks.reset_after(period.mul_f64(delay));
        loop {
            tokio::select! {
                biased;
                told = pace.changed() => match told {
                    Ok(()) => break,
                    Err(_) => return,
                },
                _ = ticks.tick() => {
                    let report = match take(&bucket).await {
                        Ok(decided) => Report::Took(id.clone(), decided),
                        Err(error) => Report::Failed(error.to_string()),
                    };
                    let _ = reports.send(report);
                }
            }
        }
    }
}

async fn take(bucket: &Bucket) -> Result<Decided, topup::Error> {
    let sent = now();
    let mut take = pin!(bucket.take(1));
    // Whatever asks Redis has to wait; an answer that is there at once comes from the worker's memory.
    let (decision, from_memory) = match poll!(take.as_mut()) {
        Poll::Ready(decision) => (decision?, true),
        Poll::Pending => (take.await?, false),
    };
    let received = now();
    let (remaining, outcome) = match decision {
        Decision::Denied { remaining, retry_after, .. } => {
            (remaining, Outcome::Denied { retry_after: retry_after.as_micros() as u64, from_memory })
        }
        // No limit of the demo is in shadow.
        allowed => (allowed.remaining(), Outcome::Allowed),
    };
    Ok(Decided { sent, received, remaining, outcome })
}

async fn write(mut gathered: mpsc::UnboundedReceiver<Report>) -> anyhow::Result<()> {
    let mut out = stdout();
    let mut reports = Vec::new();
    while gathered.recv_many(&mut reports, usize::MAX).await > 0 {
        let text: String = reports.drain(..).map(|report| format!("{report}\n")).collect();
        out.write_all(text.as_bytes()).await?;
        out.flush().await?;
        tokio::time::sleep(GATHER).await;
    }
    Ok(())
}
