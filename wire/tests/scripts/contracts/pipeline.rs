//! Promises of a pipeline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::RedisResult;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    join,
    net::TcpListener,
    sync::oneshot,
    time::timeout,
};
use topup_wire::{
    bucket::Pace,
    connection::connect_lazily,
    constants,
    hash_slot::HashSlot,
    pipeline::{Pipelines, Reply, Request},
    scripts,
};

use crate::server::Redis;

const KEY: &str = "topup:{mail:0}:b:a";
const PACE: Pace = Pace { n: 1, p: 1_000_000 };
/// Long after now.
const FULL_AT: u64 = 1 << 52;
/// More bytes than the buffers of two sockets hold.
const MANY_BYTES: usize = 1 << 26;
/// Generous, for a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Appends commands, and returns their number of replies.
type Ask = fn(&mut Vec<u8>) -> usize;

/// Commands, and the waiter for their reply.
struct Asked(Ask, oneshot::Sender<RedisResult<Reply>>);

impl Request for Asked {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        self.0(out)
    }

    fn complete(self, answer: RedisResult<Reply>) {
        self.1.send(answer).unwrap();
    }
}

/// A request and its answer to come.
fn asking(ask: Ask) -> (Asked, impl Future<Output = RedisResult<Reply>>) {
    let (sender, receiver) = oneshot::channel();
    (Asked(ask, sender), async { timeout(TIMEOUT, receiver).await.unwrap().unwrap() })
}

#[tokio::test]
async fn several_commands_have_one_answer_and_what_may_wait_has_its_own() {
    let mut redis = Redis::start().await;
    let pipelines = Pipelines::beside(&connect_lazily(redis.url()).unwrap());
    let hash_slot = HashSlot::of(KEY.as_bytes());
    let full_at = redis.time().await + 1_000_000;
    // Alone, it goes all the same.
    let (soon, answer) = asking(|out| scripts::encode_correction(out, KEY, PACE, 0, 0, 1 << 50));
    pipelines.send_soon(hash_slot, soon);
    if redis.is_too_old().await {
        assert!(scripts::is_too_old(&answer.await.unwrap_err()));
        return;
    }
    assert_eq!(answer.await.unwrap(), Reply::Nothing);
    // Sent before, it is done before.
    let (soon, given) = asking(|out| scripts::encode_correction(out, KEY, PACE, 2, 0, 0));
    pipelines.send_soon(hash_slot, soon);
    let (both, taken) = asking(|out| scripts::encode_take_at_rest(out, KEY, 1, PACE, 3, FULL_AT));
    pipelines.send(hash_slot, both);
    let unit = (PACE.p * constants::AT_REST_UNIT) as i64;
    assert_eq!(given.await.unwrap(), Reply::Number(2 * unit));
    assert_eq!(taken.await.unwrap(), Reply::Number(-unit), "a key that was there is not written");
    redis.ask::<()>(&["DEL", KEY]).await;
    let (both, taken) = asking(|out| scripts::encode_take_at_rest(out, KEY, 1, PACE, 3, FULL_AT));
    pipelines.send(hash_slot, both);
    let number = scripts::number_at_rest(1, FULL_AT) - 3 * unit;
    assert_eq!(taken.await.unwrap(), Reply::NumberAfterSet(number));
    // The first error of several is the answer, and the next request has its own.
    redis.ask::<()>(&["SET", KEY, &format!("r0001{full_at}")]).await;
    let (both, refused) = asking(|out| scripts::encode_correction(out, KEY, PACE, 1, 0, 1 << 50));
    pipelines.send(hash_slot, both);
    let (next, answer) = asking(|out| {
        scripts::encode_first_take(out, KEY, 1, PACE, 1, 0);
        1
    });
    pipelines.send(hash_slot, next);
    assert!(scripts::is_not_a_counter(&refused.await.unwrap_err()));
    assert_eq!(answer.await.unwrap(), Reply::Nothing);
}

/// A request that notes its encoding, and leaves work for after the write of a second one.
struct Leaves {
    pipelines: Arc<Pipelines<Self>>,
    encoded: Arc<AtomicUsize>,
    /// The requests that had been encoded when the work was done.
    done: Option<oneshot::Sender<usize>>,
    asks_again: bool,
}

impl Request for Leaves {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        self.encoded.fetch_add(1, Relaxed);
        scripts::encode_first_take(out, KEY, 1, PACE, 1, 0);
        1
    }

    fn complete(mut self, answer: RedisResult<Reply>) {
        answer.unwrap();
        let Some(done) = self.done.take() else { return };
        let (slot, encoded) = (HashSlot::of(KEY.as_bytes()), self.encoded.clone());
        self.pipelines.after_write(slot, Box::new(move || done.send(encoded.load(Relaxed)).unwrap()));
        if self.asks_again {
            self.pipelines.clone().send(slot, self);
        }
    }
}

#[tokio::test]
async fn work_is_done_after_the_next_write_or_without_one() {
    let redis = Redis::start().await;
    let slot = HashSlot::of(KEY.as_bytes());
    let pipelines = Arc::new(Pipelines::<Leaves>::beside(&connect_lazily(redis.url()).unwrap()));
    let (done, mut told) = oneshot::channel();
    pipelines.after_write(slot, Box::new(|| done.send(0).unwrap()));
    assert_eq!(told.try_recv(), Ok(0), "at once without a connection");
    for (asks_again, encoded) in [(true, 2), (false, 1)] {
        let (done, told) = oneshot::channel();
        let count = Arc::new(AtomicUsize::new(0));
        let request = Leaves { pipelines: pipelines.clone(), encoded: count, done: Some(done), asks_again };
        pipelines.send(slot, request);
        assert_eq!(timeout(TIMEOUT, told).await.unwrap(), Ok(encoded));
    }
    // A connection that breaks keeps nobody waiting.
    let (done, told) = oneshot::channel();
    drop(redis);
    pipelines.after_write(slot, Box::new(|| done.send(0).unwrap()));
    assert_eq!(timeout(TIMEOUT, told).await.unwrap(), Ok(0));
}

/// On one thread: each task does all that it can before another one looks.
#[tokio::test]
async fn no_work_waits_for_a_write_that_has_to_wait() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", server.local_addr().unwrap());
    let pipelines = Pipelines::beside(&connect_lazily(&url).unwrap());
    let slot = HashSlot::of(KEY.as_bytes());
    let (small, answer) = asking(|out| {
        scripts::encode_first_take(out, KEY, 1, PACE, 1, 0);
        1
    });
    pipelines.send(slot, small);
    // The server replies to the sign-in and to one request, then reads no more.
    let serve = async {
        let (mut peer, _) = server.accept().await.unwrap();
        for reply in ["+PONG\r\n", ":1\r\n"] {
            assert!(peer.read(&mut [0; 1_024]).await.unwrap() > 0);
            peer.write_all(reply.as_bytes()).await.unwrap();
        }
        peer
    };
    let (_peer, answer) = join!(serve, answer);
    assert_eq!(answer.unwrap(), Reply::Number(1));
    let (done, told) = oneshot::channel();
    pipelines.after_write(slot, Box::new(|| done.send(()).unwrap()));
    let (sender, mut answer) = oneshot::channel();
    let large: Ask = |out| {
        out.resize(MANY_BYTES, b' ');
        1
    };
    pipelines.send(slot, Asked(large, sender));
    timeout(TIMEOUT, told).await.unwrap().unwrap();
    assert!(answer.try_recv().is_err(), "work from before the write is done while it waits");
    let (done, mut told) = oneshot::channel();
    pipelines.after_write(slot, Box::new(|| done.send(()).unwrap()));
    assert_eq!(told.try_recv(), Ok(()), "at once, while the write waits");
    assert!(answer.try_recv().is_err(), "the write waits");
}
