//! The limiters under test. Each asks for one token of one key, the way its own documentation says.

#[cfg(feature = "governor")]
mod governor;
#[cfg(feature = "limitador")]
mod limitador;
mod lua;
mod raw;
mod redis_cell;
mod topup;
#[cfg(feature = "trypema")]
mod trypema;

use std::{borrow::Cow, sync::Arc};

pub(crate) use raw::open;

use clap::ValueEnum;

use crate::{cli::Programs, rules::Form, worker::Load};

/// A limiter, or what one is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Limiter {
    /// A bare DECR: nothing that asks Redis can be faster.
    Raw,
    /// topup, every take asked of Redis or known to be denied.
    Topup,
    /// topup, with up to 100 tokens taken in advance.
    TopupLeased,
    /// topup, with up to 1,000 tokens taken in advance.
    TopupLeasedMore,
    /// topup with another algorithm in its config, as those that follow.
    TopupLazy,
    TopupGcra,
    TopupLeaky,
    TopupFixed,
    TopupCounter,
    TopupLog,
    /// The Redis module.
    RedisCell,
    /// A token bucket refilled by the script of each take, as usually written.
    LuaLazy,
    /// A token bucket kept as one instant, as usually written.
    LuaGcra,
    /// A leaky bucket, as usually written.
    LuaLeaky,
    /// A count of a fixed window, as usually written.
    LuaFixed,
    /// The counts of two windows, as usually written.
    LuaCounter,
    /// A log of every allowed request in a sorted set, as usually written.
    LuaLog,
    Limitador,
    LimitadorCached,
    Trypema,
    TrypemaHybrid,
    /// In memory: no other process shares the limit.
    Governor,
    /// Python.
    Limits,
    /// Node.
    RateLimiterFlexible,
}

/// A limiter, ready to be asked.
pub(crate) trait Decide: Send + Sync + 'static {
    /// One token of the key numbered `key`: whether it is granted.
    fn decide(&self, key: usize) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// The names of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Names of the first keys. A name beyond them is written for each take.
    kept: Arc<[String]>,
    write: fn(usize) -> String,
}

// === impl Names ===

impl Names {
    /// Names that `write` writes, `kept` of them beforehand.
    pub(crate) fn new(kept: usize, write: fn(usize) -> String) -> Self {
        Self { kept: (0..kept).map(write).collect(), write }
    }

    /// The name of the key numbered `key`.
    pub(crate) fn of(&self, key: usize) -> Cow<'_, str> {
        match self.kept.get(key) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned((self.write)(key)),
        }
    }

    /// Names written beforehand.
    pub(crate) fn kept(&self) -> &[String] {
        &self.kept
    }
}

// === impl Limiter ===

impl Limiter {
    /// As given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// For tables.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Raw => "raw DECR",
            Self::Topup => "**topup**",
            Self::TopupLeased => "**topup, leased** (max 100)",
            Self::TopupLeasedMore => "**topup, leased** (max 1,000)",
            Self::TopupLazy => "**topup**, lazy-token-bucket",
            Self::TopupGcra => "**topup**, gcra",
            Self::TopupLeaky => "**topup**, leaky-bucket",
            Self::TopupFixed => "**topup**, fixed-window",
            Self::TopupCounter => "**topup**, sliding-counter",
            Self::TopupLog => "**topup**, sliding-window",
            Self::RedisCell => "redis-cell",
            Self::LuaLazy => "lazy token bucket, Lua",
            Self::LuaGcra => "GCRA, Lua",
            Self::LuaLeaky => "leaky bucket, Lua",
            Self::LuaFixed => "fixed window, Lua",
            Self::LuaCounter => "sliding counter, Lua",
            Self::LuaLog => "sliding log, Lua",
            Self::Limitador => "limitador, redis",
            Self::LimitadorCached => "limitador, cached",
            Self::Trypema => "trypema, redis",
            Self::TrypemaHybrid => "trypema, hybrid",
            Self::Governor => "governor (in memory)",
            Self::Limits => "limits (Python)",
            Self::RateLimiterFlexible => "rate-limiter-flexible (Node)",
        }
    }

    /// Form of the limit that is asked. None for limiters other than topup.
    pub(crate) const fn form(self) -> Option<Form> {
        Some(match self {
            Self::Topup => Form::TokenBucket,
            Self::TopupLeased => Form::Leased,
            Self::TopupLeasedMore => Form::LeasedMore,
            Self::TopupLazy => Form::Lazy,
            Self::TopupGcra => Form::Gcra,
            Self::TopupLeaky => Form::Leaky,
            Self::TopupFixed => Form::Fixed,
            Self::TopupCounter => Form::Counter,
            Self::TopupLog => Form::Log,
            _ => return None,
        })
    }

    /// Why it cannot be measured here, if it cannot.
    pub(crate) fn absent(self, found: &Programs) -> Option<&'static str> {
        match self {
            Self::Limitador | Self::LimitadorCached if !cfg!(feature = "limitador") => {
                Some("limitador needs OpenSSL's headers: install libssl-dev and pkg-config")
            }
            Self::Governor if !cfg!(feature = "governor") => Some("built without it"),
            Self::Trypema | Self::TrypemaHybrid if !cfg!(feature = "trypema") => Some("built without it"),
            Self::RedisCell if found.redis_cell.is_none() => Some("the module could not be built"),
            Self::Limits if found.python.is_none() => Some("no Python with the package limits"),
            Self::RateLimiterFlexible if found.node.is_none() => Some("no Node with rate-limiter-flexible"),
            _ => None,
        }
    }

    /// Makes it and loads it with `load`.
    pub(crate) async fn meet(self, load: &Load) -> anyhow::Result<()> {
        let names = load.names();
        if let Some(form) = self.form() {
            return load.put_on(topup::Topup::new(load, names, form).await?).await;
        }
        match self {
            Self::Raw => load.put_on(raw::Raw::new(load, names).await?).await,
            Self::RedisCell => load.put_on(redis_cell::RedisCell::new(load, names).await?).await,
            Self::LuaLazy => load.put_on(lua::Script::lazy(load, names).await?).await,
            Self::LuaGcra => load.put_on(lua::Script::gcra(load, names).await?).await,
            Self::LuaLeaky => load.put_on(lua::Script::leaky(load, names).await?).await,
            Self::LuaFixed => load.put_on(lua::Script::fixed(load, names).await?).await,
            Self::LuaCounter => load.put_on(lua::Counter::new(load, names).await?).await,
            Self::LuaLog => load.put_on(lua::Script::log(load, names).await?).await,
            #[cfg(feature = "limitador")]
            Self::Limitador => load.put_on(limitador::Limitador::redis(load, names).await?).await,
            #[cfg(feature = "limitador")]
            Self::LimitadorCached => load.put_on(limitador::Limitador::cached(load, names).await?).await,
            #[cfg(feature = "trypema")]
            Self::Trypema => load.put_on(trypema::Redis::new(load, names.kept()).await?).await,
            #[cfg(feature = "trypema")]
            Self::TrypemaHybrid => load.put_on(trypema::Hybrid::new(load, names.kept()).await?).await,
            #[cfg(feature = "governor")]
            Self::Governor => load.put_on(governor::Governor::new(load)?).await,
            _ => anyhow::bail!("{} is no part of this program", self.name()),
        }
    }
}
