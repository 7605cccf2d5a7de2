//! One private Redis per test, and its content.

use std::collections::BTreeMap;

use redis::{
    Cmd, FromRedisValue, Pipeline, RedisResult, Script, ScriptInvocation, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use topup_embedded::RedisServer;
use topup_wire::{keyspace::ShardKeys, limit::Limit, reply::PublishReply, scripts};

/// A private Redis and a connection to it.
pub(crate) struct Redis {
    pub(crate) connection: MultiplexedConnection,
    server: RedisServer,
    seen: Script,
}

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(String),
    /// Whole numbers, packed as doubles.
    Numbers(Vec<i64>),
    Fields(BTreeMap<String, String>),
    Scores(BTreeMap<String, i64>),
    /// The rows of a list, each of them numbers.
    Rows(Vec<Vec<i64>>),
    Other(String),
}

/// A whole keyspace.
pub(crate) type Keyspace = BTreeMap<String, Content>;

// === impl Redis ===

impl Redis {
    /// The `redis-server` on the PATH.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with these options.
    pub(crate) async fn start_with(options: &[(&str, &str)]) -> Self {
        let builder =
            options.iter().fold(RedisServer::builder(), |builder, (name, value)| builder.arg(name, value));
        let server = builder.start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        // A busy machine may take its time.
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
        Self { connection, server, seen: Script::new(include_str!("keyspace.lua")) }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// The answer to a command.
    pub(crate) async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        self.try_ask(words).await.unwrap()
    }

    /// The answer to a command that may fail.
    pub(crate) async fn try_ask<T: FromRedisValue>(&mut self, words: &[&str]) -> redis::RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut self.connection).await
    }

    /// The answer of a script of the tests' own.
    pub(crate) async fn call<T: FromRedisValue>(&mut self, call: &ScriptInvocation<'_>) -> T {
        call.invoke_async(&mut self.connection).await.unwrap()
    }

    /// The answers to so many commands as they would be written to Redis, in one packet: each an error by itself.
    pub(crate) async fn ask_bare(&mut self, out: &[u8], many: usize) -> Vec<RedisResult<Value>> {
        let answers = self.connection.req_packed_commands(&pipeline(out), 0, many).await.unwrap();
        answers.into_iter().map(Value::extract_error).collect()
    }

    /// Whether `PEXPIREAT` has no option `GT`: before Redis 7.0.
    pub(crate) async fn is_too_old(&mut self) -> bool {
        let error = self.try_ask::<Value>(&["PEXPIREAT", "none", "1", "GT"]).await.err();
        error.is_some_and(|error| scripts::is_too_old(&error))
    }

    /// The instant at which a key expires, in ms; below 0 if there is no key, or no expiry. Redis 6.2 has no
    /// `PEXPIRETIME`, and tells `PTTL` by a clock that does not stand still.
    pub(crate) async fn expiry(&mut self, key: &str) -> i64 {
        if let Ok(exact) = self.try_ask(&["PEXPIRETIME", key]).await {
            return exact;
        }
        loop {
            let mut asked = redis::pipe();
            asked.cmd("TIME").cmd("PTTL").arg(key).cmd("TIME");
            let (before, left, after): ((u64, u64), i64, (u64, u64)) =
                asked.query_async(&mut self.connection).await.unwrap();
            let [before, after] = [before, after].map(|time| instant(time) / 1_000);
            if left < 0 {
                return left;
            }
            if before == after {
                return before as i64 + left;
            }
        }
    }

    /// The instant, in µs of Redis `TIME`.
    pub(crate) async fn time(&mut self) -> u64 {
        instant(self.ask(&["TIME"]).await)
    }

    /// Has `key` hold `content`, whatever it held.
    pub(crate) async fn put(&mut self, key: &str, content: &Content) {
        self.ask::<()>(&["DEL", key]).await;
        match content {
            Content::Text(text) => self.ask::<()>(&["SET", key, text]).await,
            Content::Fields(fields) => {
                for (field, value) in fields {
                    self.ask::<()>(&["HSET", key, field, value]).await;
                }
            }
            Content::Numbers(numbers) => {
                let set = redis::Cmd::set(key, packed(numbers));
                set.exec_async(&mut self.connection).await.unwrap();
            }
            Content::Rows(rows) => {
                for row in rows {
                    let push = redis::Cmd::rpush(key, packed(row));
                    push.exec_async(&mut self.connection).await.unwrap();
                }
            }
            other => panic!("{other:?} is no state"),
        }
    }

    /// Everything there is.
    pub(crate) async fn keyspace(&mut self) -> Keyspace {
        let seen: Vec<Vec<Value>> = self.seen.invoke_async(&mut self.connection).await.unwrap();
        seen.into_iter().map(entry).collect()
    }
}

/// Publishes `limit`, and makes a change at once that workers would have to be told of.
pub(crate) async fn publish(
    connection: &mut MultiplexedConnection,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
) -> RedisResult<PublishReply> {
    let published = scripts::publish(connection, keys, limit, at, None).await?;
    let PublishReply::Announced(told) = published else { return Ok(published) };
    // As if it had been long ago.
    Cmd::hset(&keys.record, "frozen", 1).exec_async(connection).await?;
    scripts::publish(connection, keys, limit, at, Some(told)).await
}

/// Commands as they would be written to Redis, to be sent in one packet.
fn pipeline(mut out: &[u8]) -> Pipeline {
    // The number in the first line, without the kind before it.
    fn length(out: &mut &[u8]) -> usize {
        let end = out.iter().position(|byte| *byte == b'\r').unwrap();
        let (line, rest) = out.split_at(end);
        *out = &rest[2..];
        std::str::from_utf8(&line[1..]).unwrap().parse().unwrap()
    }
    let mut commands = Pipeline::new();
    while !out.is_empty() {
        let mut command = Cmd::new();
        for _ in 0..length(&mut out) {
            let word = length(&mut out);
            command.arg(&out[..word]);
            out = &out[word + 2..];
        }
        commands.add_command(command);
    }
    commands
}

/// A reply of `TIME`, in µs.
pub(crate) fn instant((seconds, micros): (u64, u64)) -> u64 {
    seconds * 1_000_000 + micros
}

/// Numbers as the scripts pack them.
fn packed(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}

/// Numbers as `keyspace.lua` tells them; `None` of another text.
fn numbers(text: &str) -> Option<Vec<i64>> {
    text.split(' ').map(|number| number.parse().ok()).collect()
}

/// One key, of what `keyspace.lua` answers.
fn entry(row: Vec<Value>) -> (String, Content) {
    let [key, kind, content] = row.try_into().unwrap();
    let content = match String::from_redis_value(kind).unwrap().as_str() {
        "string" => {
            let text = String::from_redis_value(content).unwrap();
            match numbers(&text) {
                Some(numbers) if numbers.len() > 2 => Content::Numbers(numbers),
                _ => Content::Text(text),
            }
        }
        "hash" => Content::Fields(FromRedisValue::from_redis_value(content).unwrap()),
        "list" => {
            let rows = Vec::<String>::from_redis_value(content).unwrap();
            Content::Rows(rows.iter().map(|row| numbers(row).unwrap_or_default()).collect())
        }
        "zset" => Content::Scores(FromRedisValue::from_redis_value(content).unwrap()),
        other => Content::Other(other.to_owned()),
    };
    (FromRedisValue::from_redis_value(key).unwrap(), content)
}
