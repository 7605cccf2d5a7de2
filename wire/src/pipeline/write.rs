//! The writing half of a pipeline's task: it sends all requests that wait, as soon as the socket can be written to.

use std::{io, pin::Pin};

use futures_util::future::join;
use redis::RedisResult;
use tokio::{
    io::AsyncWriteExt,
    time::{Sleep, sleep},
};

use super::{Request, SOON, Shared, queue::Next};
use crate::connection::Writer;

/// A larger buffer is not kept after a burst.
const KEEP: usize = 256 * 1024;

/// The timer of requests that may wait to be sent with others.
#[derive(Default)]
struct SoonTimer(Option<Pin<Box<Sleep>>>);

/// Writes until the pipeline is dropped and all replies have come (`Ok`), or the connection breaks.
pub(super) async fn write<R: Request>(shared: &Shared<R>, mut writer: Writer) -> RedisResult<()> {
    let mut batch = Vec::new();
    let mut soon = SoonTimer::default();
    loop {
        if shared.has_later() && shared.next() != Next::Now {
            // Callers that have been answered may ask again. They get one turn.
            tokio::task::yield_now().await;
            if shared.next() != Next::Now {
                shared.do_later();
            }
        }
        match shared.next() {
            Next::NoMore if shared.lock().waiting.is_empty() => return Ok(()),
            Next::NoMore | Next::Nothing => {
                shared.filled.notified().await;
                // Other tasks that are ready now may send requests as well. They get one turn, unless work waits for this
                // write.
                if !shared.has_later() {
                    tokio::task::yield_now().await;
                }
            }
            Next::Soon if !soon.is_over() => tokio::select! {
                biased;
                () = shared.filled.notified() => tokio::task::yield_now().await,
                () = soon.over() => {}
            },
            Next::Soon | Next::Now => {
                soon = SoonTimer::default();
                shared.encode(&mut batch);
                // A write that has to wait holds up no other work.
                shared.lock().takes_later = false;
                let (written, ()) = join(send(&mut writer, &batch), async { shared.do_later() }).await;
                written?;
                shared.lock().takes_later = true;
                batch.clear();
                if batch.capacity() > KEEP {
                    batch = Vec::new();
                }
            }
        }
    }
}

async fn send(writer: &mut Writer, batch: &[u8]) -> io::Result<()> {
    writer.write_all(batch).await?;
    writer.flush().await
}

// === impl SoonTimer ===

impl SoonTimer {
    fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|timer| timer.is_elapsed())
    }

    /// Ends [`SOON`] after the first call.
    async fn over(&mut self) {
        self.0.get_or_insert_with(|| Box::pin(sleep(SOON))).as_mut().await;
    }
}
