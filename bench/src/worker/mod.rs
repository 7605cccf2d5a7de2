//! A worker process, which asks one limiter.
//!
//! A worker in a closed loop asks for every key once, says `ready`, and waits for `go`. After its time it writes what it
//! saw, in JSON. Programs in other languages do the same. A worker in an open loop connects and says `ready`. Each line
//! that it reads is a load: phases, one after the other. It answers with a list, in JSON, of the results of the phases.

mod closed;
mod open;
mod pacer;

use std::time::Duration;

use crate::{
    cli::work::Work,
    limiter::{
        self,
        decide::{Decide, Load},
        kind::Limiter,
    },
};

/// Deadline of takes in an open loop: topup's default.
const OPEN_DEADLINE: Duration = Duration::from_millis(250);

/// Kind of a load, and its size.
#[derive(Clone, Copy, Debug)]
enum Loop {
    Closed(closed::Closed),
    Open(open::Open),
}

pub(crate) fn run(work: &Work) -> anyhow::Result<()> {
    let Work { redis, limiter, rule, keys, tasks, seconds, seed, part, parts } = work.clone();
    let (kind, deadline) = match seed {
        Some(seed) => (Loop::Open(open::Open { seed, part, parts }), Some(OPEN_DEADLINE)),
        None => (Loop::Closed(closed::Closed { tasks, time: Duration::from_secs_f64(seconds) }), None),
    };
    let load = Load { redis, rule, keys, deadline, names_kept: matches!(kind, Loop::Closed(_)) };
    topup_lab::worker::run(connect_and_ask(limiter, &load, kind))
}

async fn connect_and_ask(limiter: Limiter, load: &Load, kind: Loop) -> anyhow::Result<()> {
    let names = load.names();
    if let Some(form) = limiter.form() {
        return ask(load, kind, limiter::topup::Topup::new(load, names, form).await?).await;
    }
    use limiter::{lua, raw, redis_cell};
    match limiter {
        Limiter::Raw => ask(load, kind, raw::Raw::new(load, names).await?).await,
        Limiter::RedisCell => ask(load, kind, redis_cell::RedisCell::new(load, names).await?).await,
        Limiter::LuaLazy => ask(load, kind, lua::Script::lazy(load, names).await?).await,
        Limiter::LuaGcra => ask(load, kind, lua::Script::gcra(load, names).await?).await,
        Limiter::LuaLeaky => ask(load, kind, lua::Script::leaky(load, names).await?).await,
        Limiter::LuaFixed => ask(load, kind, lua::Script::fixed(load, names).await?).await,
        Limiter::LuaCounter => ask(load, kind, lua::Counter::new(load, names).await?).await,
        Limiter::LuaLog => ask(load, kind, lua::Script::log(load, names).await?).await,
        #[cfg(feature = "limitador")]
        Limiter::Limitador => ask(load, kind, limiter::limitador::Limitador::redis(load, names).await?).await,
        #[cfg(feature = "limitador")]
        Limiter::LimitadorCached => {
            ask(load, kind, limiter::limitador::Limitador::cached(load, names).await?).await
        }
        #[cfg(feature = "trypema")]
        Limiter::Trypema => ask(load, kind, limiter::trypema::Redis::new(load, names.kept()).await?).await,
        #[cfg(feature = "trypema")]
        Limiter::TrypemaHybrid => {
            ask(load, kind, limiter::trypema::Hybrid::new(load, names.kept()).await?).await
        }
        #[cfg(feature = "governor")]
        Limiter::Governor => ask(load, kind, limiter::governor::Governor::new(load)?).await,
        _ => anyhow::bail!("{} is no part of this program", limiter.name()),
    }
}

async fn ask(load: &Load, kind: Loop, limiter: impl Decide) -> anyhow::Result<()> {
    match kind {
        Loop::Closed(closed) => closed::drive(load.keys, closed, limiter).await,
        Loop::Open(open) => open::drive(load.keys, open, limiter).await,
    }
}
