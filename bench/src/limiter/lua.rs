//! The scripts that most projects write for themselves.

use redis::aio::MultiplexedConnection;
use topup_lab::clock::time_of_day;

use super::{
    connect::connect,
    decide::{Decide, Load, Names},
};

const LAZY: &str = include_str!("lazy.lua");
const GCRA: &str = include_str!("gcra.lua");
const GCRA_OF_TWO: &str = include_str!("gcra_of_two.lua");
const LEAKY: &str = include_str!("leaky.lua");
const FIXED: &str = include_str!("fixed.lua");
const LOG: &str = include_str!("log.lua");
const COUNTER: &str = include_str!("counter.lua");

/// A script of one key.
#[derive(Debug)]
pub(crate) struct Script {
    connection: MultiplexedConnection,
    script: redis::Script,
    names: Names,
    /// As the script reads them.
    arguments: [String; 2],
    /// The bucket for all keys.
    for_all: Option<&'static str>,
}

/// A script of the counts of two windows.
#[derive(Debug)]
pub(crate) struct Counter {
    script: Script,
    window_ms: u64,
}

// === impl Script ===

impl Script {
    pub(crate) async fn lazy(load: &Load, names: Names) -> anyhow::Result<Self> {
        Self::new(LAZY, load, names, load.rule.capacity(), load.rule.rate()).await
    }

    pub(crate) async fn gcra(load: &Load, names: Names) -> anyhow::Result<Self> {
        // A take of several tokens is one of a bucket with as many times fewer, which come as many times more slowly.
        let (capacity, token) = (load.rule.capacity() / load.tokens, 1e6 / load.rule.rate());
        let text = if load.and_all { GCRA_OF_TWO } else { GCRA };
        let script = Self::new(text, load, names, capacity, token * load.tokens as f64).await?;
        Ok(Self { for_all: load.and_all.then_some("all"), ..script })
    }

    pub(crate) async fn leaky(load: &Load, names: Names) -> anyhow::Result<Self> {
        Self::new(LEAKY, load, names, load.rule.capacity(), load.rule.rate()).await
    }

    // Windows admit as many as the rate brings in a period, and have no burst beside it.

    pub(crate) async fn fixed(load: &Load, names: Names) -> anyhow::Result<Self> {
        Self::new(FIXED, load, names, load.rule.tokens(), load.rule.period() as f64 * 1e3).await
    }

    pub(crate) async fn log(load: &Load, names: Names) -> anyhow::Result<Self> {
        Self::new(LOG, load, names, load.rule.tokens(), load.rule.period() as f64 * 1e6).await
    }

    async fn new(text: &str, load: &Load, names: Names, most: u64, second: f64) -> anyhow::Result<Self> {
        let (script, mut connection) = (redis::Script::new(text), connect(load).await?);
        script.load_async(&mut connection).await?;
        let arguments = [most.to_string(), second.to_string()];
        Ok(Self { connection, script, names, arguments, for_all: None })
    }
}

impl Decide for Script {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let mut call = self.script.key(&*self.names.of(key));
        if let Some(for_all) = self.for_all {
            call.key(for_all);
        }
        let reply: i64 = call.arg(&self.arguments).invoke_async(&mut self.connection.clone()).await?;
        Ok(reply == 1)
    }
}

// === impl Counter ===

impl Counter {
    pub(crate) async fn new(load: &Load, names: Names) -> anyhow::Result<Self> {
        let window_ms = load.rule.period() * 1_000;
        let script = Script::new(COUNTER, load, names, load.rule.tokens(), window_ms as f64).await?;
        Ok(Self { script, window_ms })
    }
}

impl Decide for Counter {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let (now, script) = (time_of_day() / 1_000, &self.script);
        let (name, window) = (script.names.of(key), now / self.window_ms);
        let mut call = script.script.key(format!("{name}:{window}"));
        call.key(format!("{name}:{}", window.saturating_sub(1))).arg(&script.arguments).arg(now);
        let reply: i64 = call.invoke_async(&mut script.connection.clone()).await?;
        Ok(reply == 1)
    }
}
