//! A proxy between clients and Redis that breaks the way as networks do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::Redis;

/// A proxy in front of a Redis, on a loopback port of its own; gone on drop, with its connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    way: watch::Sender<Way>,
    requests: Arc<AtomicU64>,
    listening: AbortHandle,
}

/// The way to Redis at the moment.
#[derive(Clone, Copy, Debug)]
struct Way {
    mode: Mode,
    /// Connections made under another number are cut.
    age: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Everything comes later, either way.
    Delay(Duration),
    /// Connections stay, nothing comes through.
    Hang,
    /// Requests arrive, answers do not.
    LoseAnswers,
    /// Instants in answers, whole numbers of 16 digits, are later by so many µs.
    StepClock(u64),
    /// Every so manieth piece of data, either way, is the last of its connection and comes through by half.
    Tear(u64),
    /// The same for answers only.
    TearAnswers(u64),
    /// Answers come through in pieces of so many bytes, this long apart.
    Drip(usize, Duration),
    /// Connections that are used meanwhile stay open, and nothing comes through any more.
    HalfOpen,
}

/// One direction of one connection.
struct Pipe {
    way: watch::Receiver<Way>,
    answers: bool,
    /// Requests that went through, of all connections.
    requests: Arc<AtomicU64>,
    /// Pieces of data that went through, of all connections: [`Mode::Tear`] goes by it.
    pieces: Arc<AtomicU64>,
}

// === impl Proxy ===

impl Proxy {
    /// A proxy in front of `redis` that lets everything through.
    ///
    /// # Panics
    ///
    /// When there is no port for it.
    pub async fn before(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
        let (way, watched) = watch::channel(Way { mode: Mode::Pass, age: 0 });
        let requests = Arc::new(AtomicU64::new(0));
        let serve = serve(listener, redis.server.socket(), watched, requests.clone());
        Self { url, way, requests, listening: tokio::spawn(serve).abort_handle() }
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests that have gone through to Redis. Counts wrongly where an argument begins with `*`.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Lets everything through again.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Holds everything up by `delay`, either way.
    pub fn delay(&self, delay: Duration) {
        self.set(Mode::Delay(delay));
    }

    /// Lets nothing through; what comes meanwhile goes through afterwards.
    pub fn hang(&self) {
        self.set(Mode::Hang);
    }

    /// Lets requests through and loses the answers.
    pub fn lose_answers(&self) {
        self.set(Mode::LoseAnswers);
    }

    /// Sets the clock of Redis forward by so many µs: every instant in its answers.
    pub fn step_clock(&self, micros: u64) {
        self.set(Mode::StepClock(micros));
    }

    /// Cuts connections in the middle of every `nth` piece of data.
    pub fn tear(&self, nth: u64) {
        self.set(Mode::Tear(nth));
    }

    /// Cuts connections in the middle of every `nth` piece of an answer.
    pub fn tear_answers(&self, nth: u64) {
        self.set(Mode::TearAnswers(nth));
    }

    /// Lets answers through in pieces of so many bytes, with pauses between them.
    pub fn drip(&self, bytes: usize, pause: Duration) {
        self.set(Mode::Drip(bytes, pause));
    }

    /// Makes every connection half open that is used meanwhile: it stays, and nothing comes through, now or later.
    pub fn half_open(&self) {
        self.set(Mode::HalfOpen);
    }

    /// Cuts all connections; new ones are served.
    pub fn cut(&self) {
        self.way.send_modify(|way| way.age += 1);
    }

    fn set(&self, mode: Mode) {
        self.way.send_modify(|way| way.mode = mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections end with `way`, which they watch.
        self.listening.abort();
    }
}

async fn serve(listener: TcpListener, redis: PathBuf, way: watch::Receiver<Way>, requests: Arc<AtomicU64>) {
    let pieces = Arc::new(AtomicU64::new(0));
    while let Ok((client, _)) = listener.accept().await {
        let pipe =
            |answers| Pipe { way: way.clone(), answers, requests: requests.clone(), pieces: pieces.clone() };
        tokio::spawn(connect(client, redis.clone(), pipe(false), pipe(true)));
    }
}

/// Serves one connection; when this ends, both its ends are closed.
async fn connect(mut client: TcpStream, redis: PathBuf, requests: Pipe, answers: Pipe) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = UnixStream::connect(redis).await?;
    let (mut way, age) = (requests.way.clone(), requests.way.borrow().age);
    let ((client_reads, client_writes), (server_reads, server_writes)) = (client.split(), server.split());
    tokio::select! {
        _ = way.wait_for(|way| way.age != age) => Ok(()),
        ended = requests.run(client_reads, server_writes) => ended,
        ended = answers.run(server_reads, client_writes) => ended,
    }
}

// === impl Pipe ===

impl Pipe {
    async fn run(
        mut self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (mut piece, mut last_byte, mut is_lost) = (vec![0; 65_536], b'\n', false);
        loop {
            let length = from.read(&mut piece).await?;
            let mode = self.passable().await;
            is_lost |= mode == Mode::HalfOpen;
            let data = &mut piece[..length];
            if length == 0 {
                return Ok(());
            }
            if !self.answers {
                self.requests.fetch_add(commands(last_byte, data), Relaxed);
                last_byte = data[length - 1];
            }
            if is_lost {
                continue;
            }
            match mode {
                // The fault itself.
                Mode::Delay(delay) => sleep(delay).await,
                Mode::LoseAnswers if self.answers => continue,
                Mode::StepClock(micros) if self.answers => step_instants(data, micros),
                Mode::Tear(nth) if self.is_every(nth) => return to.write_all(&data[..length / 2]).await,
                Mode::TearAnswers(nth) if self.answers && self.is_every(nth) => {
                    return to.write_all(&data[..length / 2]).await;
                }
                Mode::Drip(bytes, pause) if self.answers => {
                    for drop in data.chunks(bytes) {
                        to.write_all(drop).await?;
                        // The fault itself.
                        sleep(pause).await;
                    }
                    continue;
                }
                _ => {}
            }
            to.write_all(data).await?;
        }
    }

    fn is_every(&self, nth: u64) -> bool {
        (self.pieces.fetch_add(1, Relaxed) + 1).is_multiple_of(nth)
    }

    /// The way as soon as it does not hang.
    async fn passable(&mut self) -> Mode {
        // A proxy that is gone lets nothing through: its connections are just being cut.
        self.way.wait_for(|way| way.mode != Mode::Hang).await.map_or(Mode::Pass, |way| way.mode)
    }
}

/// Adds `micros` to each whole number of 16 digits, as it stands in an answer: `:1700000000000000\r\n`.
fn step_instants(data: &mut [u8], micros: u64) {
    for at in 0..data.len().saturating_sub(17) {
        if data[at] != b':' || data[at + 17] != b'\r' {
            continue;
        }
        let digits = &mut data[at + 1..at + 17];
        let instant = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        let stepped = instant.map(|instant| (instant + micros).to_string());
        if let Some(stepped) = stepped.filter(|stepped| stepped.len() == 16) {
            digits.copy_from_slice(stepped.as_bytes());
        }
    }
}

/// Commands that begin in `data`, which follows on `last`: each is an array, `*3\r\n...`.
fn commands(last: u8, data: &[u8]) -> u64 {
    let before = std::iter::once(last).chain(data.iter().copied());
    let begun = before.zip(data).filter(|(before, byte)| (*before, **byte) == (b'\n', b'*'));
    begun.count() as u64
}
