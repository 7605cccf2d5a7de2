//! A Redis in memory, for the tests of those who use topup: the commands that topup sends, at an instant that its owner
//! sets.
//!
//! The scripts are those of production, run by Lua 5.1 as in Redis. A command is carried out when its last byte is
//! written, on the task that writes it. No server is waited for, and no time passes.

mod commands;
mod database;
mod hashes;
mod lists;
mod lua;
mod numbers;
mod reply;
mod sorted_set;
mod sorted_sets;
mod stream;
mod structs;

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use database::Database;
use lua::Scripts;
use redis::{Arg, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value, aio::ConnectionLike};
use reply::Reply;
use stream::{Pipe, ReadHalf, WriteHalf};

use crate::namespace::{InNamespace, Namespace};

/// A Redis in memory. Clones are the same one.
#[derive(Clone)]
pub struct InMemoryRedis(Arc<Shared>, Option<Arc<Way>>);

/// The way of a connection to Redis, for simulations: how many µs a command takes to Redis, and its reply back. It may
/// change the words of the command.
pub type Way = dyn Fn(&mut Vec<Vec<u8>>) -> (u64, u64) + Send + Sync;

struct Shared {
    engine: Mutex<Engine>,
    /// Redis `TIME`, in µs.
    now: AtomicU64,
    is_away: AtomicBool,
    /// Commands so far.
    commands: AtomicU64,
    pipes: Mutex<Vec<Weak<Pipe>>>,
}

/// The state that each command changes, one after the other.
struct Engine {
    database: Arc<Mutex<Database>>,
    scripts: Scripts,
}

/// A connection whose commands are carried out at once, also while the Redis is [away](InMemoryRedis::set_away): futures
/// of commands are ready at their first poll.
#[derive(Clone, Debug)]
pub struct Direct {
    redis: InMemoryRedis,
    namespace: Namespace,
}

// === impl InMemoryRedis ===

impl InMemoryRedis {
    /// An empty Redis whose `TIME` is `now`, in µs.
    pub fn new(now: u64) -> Self {
        let database = Arc::new(Mutex::new(Database::default()));
        let scripts = Scripts::new(database.clone());
        let shared = Shared {
            engine: Mutex::new(Engine { database, scripts }),
            now: AtomicU64::new(now),
            is_away: AtomicBool::new(false),
            commands: AtomicU64::new(0),
            pipes: Mutex::default(),
        };
        Self(Arc::new(shared), None)
    }

    /// The same Redis, at the end of connections that take time. Their commands and replies arrive when
    /// [`deliver`](Self::deliver) is called at [`next`](Self::next).
    #[must_use]
    pub fn by(&self, way: Arc<Way>) -> Self {
        Self(self.0.clone(), Some(way))
    }

    /// The next instant at which a command or a reply arrives that is on its way.
    pub fn next(&self) -> Option<u64> {
        self.pipes().iter().filter_map(|pipe| pipe.next()).min()
    }

    /// Lets all commands and replies arrive that are due. Returns whether any were.
    pub fn deliver(&self) -> bool {
        self.pipes().iter().filter(|pipe| pipe.deliver()).count() > 0
    }

    /// Plants a fault: scripts that are loaded from now on have the text `to` in place of `from`.
    pub fn plant(&self, from: &'static str, to: &'static str) {
        self.0.engine.lock().unwrap_or_else(PoisonError::into_inner).scripts.plant(from, to);
    }

    /// Redis `TIME`, in µs.
    pub fn now(&self) -> u64 {
        self.0.now.load(Relaxed)
    }

    /// Sets Redis `TIME`, in µs.
    pub fn set_now(&self, now: u64) {
        self.0.now.store(now, Relaxed);
    }

    /// Commands so far.
    pub fn commands(&self) -> u64 {
        self.0.commands.load(Relaxed)
    }

    /// Whether the Redis is away: its connections are broken, and further ones refused.
    pub fn is_away(&self) -> bool {
        self.0.is_away.load(Relaxed)
    }

    /// Breaks all connections and refuses further ones, or takes them again. The data stay.
    pub fn set_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Relaxed);
        if is_away {
            let mut pipes = self.0.pipes.lock().unwrap_or_else(PoisonError::into_inner);
            pipes.drain(..).filter_map(|pipe| pipe.upgrade()).for_each(|pipe| pipe.break_off());
        }
    }

    /// Removes all keys, as a server does that comes back without its data.
    pub fn flush(&self) {
        let engine = self.0.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.database.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A connection for the keys of `namespace`, whose commands are carried out at once.
    pub fn direct(&self, namespace: Namespace) -> Direct {
        Direct { redis: self.clone(), namespace }
    }

    /// Opens a connection of bytes.
    pub(crate) fn open(&self) -> io::Result<(ReadHalf, WriteHalf)> {
        if self.is_away() {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the Redis in memory is away"));
        }
        let pipe = Arc::new(Pipe::new(self.clone()));
        let mut pipes = self.0.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.retain(|pipe| pipe.strong_count() > 0);
        pipes.push(Arc::downgrade(&pipe));
        Ok(stream::halves(pipe))
    }

    fn way(&self) -> Option<&Way> {
        self.1.as_deref()
    }

    fn pipes(&self) -> Vec<Arc<Pipe>> {
        let pipes = self.0.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.iter().filter_map(Weak::upgrade).collect()
    }

    fn execute(&self, words: &[&[u8]]) -> Reply {
        self.0.commands.fetch_add(1, Relaxed);
        let mut engine = self.0.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let Engine { database, scripts } = &mut *engine;
        database.lock().unwrap_or_else(PoisonError::into_inner).now = self.now();
        scripts.execute(words).unwrap_or_else(|| {
            commands::execute(&mut database.lock().unwrap_or_else(PoisonError::into_inner), words)
        })
    }
}

impl fmt::Debug for InMemoryRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryRedis").field("now", &self.now()).finish_non_exhaustive()
    }
}

// === impl Direct ===

impl Direct {
    fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let words: Vec<&[u8]> = command
            .args_iter()
            .filter_map(|arg| if let Arg::Simple(word) = arg { Some(word) } else { None })
            .collect();
        self.redis.execute(&words).into_value()
    }
}

impl ConnectionLike for Direct {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let answer = self.ask(cmd);
        Box::pin(async move { answer })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let answers: Result<Vec<Value>, RedisError> = pipeline.cmd_iter().map(|cmd| self.ask(cmd)).collect();
        Box::pin(async move { Ok(answers?.into_iter().skip(offset).take(count).collect()) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

impl InNamespace for Direct {
    fn namespace(&self) -> Namespace {
        self.namespace
    }
}
