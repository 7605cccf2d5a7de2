//! The limiters under test, and their names.

use clap::ValueEnum;

use crate::rules::Form;

/// A limiter, or what one is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limiter {
    /// A bare DECR: nothing that asks Redis can be faster.
    Raw,
    /// topup, every take asked of Redis or known to be denied.
    Topup,
    /// topup, with up to 100 tokens taken in advance.
    TopupLeased,
    /// topup, with up to 1,000 tokens taken in advance.
    TopupLeasedMore,
    /// topup's lazy token bucket.
    TopupLazy,
    /// topup's GCRA.
    TopupGcra,
    /// topup's leaky bucket.
    TopupLeaky,
    /// topup's fixed window.
    TopupFixed,
    /// topup's sliding counter.
    TopupCounter,
    /// topup's sliding window, a log of every allowed request.
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
    /// limitador, every take asked of Redis.
    Limitador,
    /// limitador, from memory, with writes behind.
    LimitadorCached,
    /// trypema, by a script in Redis.
    Trypema,
    /// trypema, from memory, with Redis told now and then.
    TrypemaHybrid,
    /// governor, in memory: no other process shares the limit.
    Governor,
    /// limits, in Python.
    Limits,
    /// rate-limiter-flexible, in Node.
    RateLimiterFlexible,
}

// === impl Limiter ===

impl Limiter {
    /// As given on the command line.
    pub fn name(self) -> String {
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
}
