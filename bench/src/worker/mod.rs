//! A worker process, which asks one limiter.
//!
//! A worker in a closed loop asks for every key once, says `ready`, and waits for `go`. After its time it writes what it
//! saw, in JSON. Programs in other languages do the same. A worker in an open loop connects and says `ready`. Each line
//! that it reads is a load: phases, one after the other. It answers with a list, in JSON, of the results of the phases.

pub(crate) mod asker;
mod closed;
mod open;
mod pacer;

use std::time::Duration;

use self::asker::{Asker, Loop};
use crate::{
    cli::{rivals::Rivals, work::Work},
    limiter::{self, decide::Load, kind::Limiter},
};

/// Deadline of takes in an open loop: topup's default.
const OPEN_DEADLINE: Duration = Duration::from_millis(250);

pub(crate) fn run(work: &Work, rivals: Rivals) -> anyhow::Result<()> {
    let Work { redis, limiter, rule, keys, tasks, tokens, and_all, seconds, seed, part, parts } =
        work.clone();
    let (kind, deadline) = match seed {
        Some(seed) => (Loop::Open(open::Open { seed, part, parts }), Some(OPEN_DEADLINE)),
        None => (Loop::Closed(closed::Closed { tasks, time: Duration::from_secs_f64(seconds) }), None),
    };
    let names_kept = matches!(kind, Loop::Closed(_));
    let load = Load { redis, rule, keys, tokens, and_all, deadline, names_kept };
    topup_lab::worker::run(connect_and_ask(limiter, Asker { load, kind }, rivals))
}

async fn connect_and_ask(limiter: Limiter, asker: Asker, rivals: Rivals) -> anyhow::Result<()> {
    use limiter::{lua, raw, redis_cell, topup};

    if rivals.built.contains(&limiter) {
        return (rivals.ask)(limiter, asker).await;
    }
    let load = &asker.load;
    let names = load.names();
    if let Some(form) = limiter.form() {
        return asker.ask(topup::Topup::new(load, names, form).await?).await;
    }
    match limiter {
        Limiter::Raw => asker.ask(raw::Raw::new(load, names).await?).await,
        Limiter::RedisCell => asker.ask(redis_cell::RedisCell::new(load, names).await?).await,
        Limiter::LuaLazy => asker.ask(lua::Script::lazy(load, names).await?).await,
        Limiter::LuaGcra => asker.ask(lua::Script::gcra(load, names).await?).await,
        Limiter::LuaLeaky => asker.ask(lua::Script::leaky(load, names).await?).await,
        Limiter::LuaFixed => asker.ask(lua::Script::fixed(load, names).await?).await,
        Limiter::LuaCounter => asker.ask(lua::Counter::new(load, names).await?).await,
        Limiter::LuaLog => asker.ask(lua::Script::log(load, names).await?).await,
        _ => anyhow::bail!("{} is no part of this program", limiter.name()),
    }
}
