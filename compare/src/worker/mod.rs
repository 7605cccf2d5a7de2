//! A worker: a process that asks limiters as it is told to.
//!
//! It reads what to do, says `ready` when it is connected, reads when to begin, and in the end says what it saw; all of it
//! in lines of JSON.

mod hammer;
mod play;

use std::{io::Write, sync::Arc};

use anyhow::Context;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

pub use hammer::{Hammer, Hammered};

use crate::{
    clock::Micros,
    limiter::{Ask, Contender},
    traffic::Traffic,
};

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The Redis to ask.
    pub redis: String,
    /// Its number, from 0.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// By how many µs its clock is wrong.
    pub skew: i64,
    /// What to do.
    pub work: Work,
}

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Ask all of these as the traffic says: their takes, in order.
    Play {
        /// Whom.
        contenders: Vec<Contender>,
        /// When.
        traffic: Traffic,
        /// Which of all traffics of this kind.
        seed: u64,
    },
    /// Ask one as often as it answers.
    Hammer(Hammer),
}

/// What a worker says when it is connected.
pub const READY: &str = "ready";

/// Does what standard input says.
///
/// # Errors
/// When Redis does not answer at the beginning, or nobody listens.
pub fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worked = runtime.block_on(work());
    // A read of standard input may still be under way, in a thread that nobody needs to wait for.
    runtime.shutdown_background();
    worked
}

async fn work() -> anyhow::Result<()> {
    let mut told = BufReader::new(stdin()).lines();
    let orders: Orders = hear(&mut told).await?;
    match &orders.work {
        Work::Play { contenders, traffic, seed } => {
            let mut askers = Vec::new();
            for contender in contenders {
                askers.push(contender.asker(&orders.redis, orders.worker, orders.skew).await?.into());
            }
            say(&READY)?;
            let begin: Micros = hear(&mut told).await?;
            let played: Vec<_> = askers
                .into_iter()
                .zip(contenders)
                .map(|(asker, contender)| {
                    let part = play::Part::new(&orders, traffic, contender, *seed);
                    tokio::spawn(part.play(asker, begin))
                })
                .collect();
            for takes in played {
                say(&takes.await?)?;
            }
            Ok(())
        }
        Work::Hammer(hammer) => {
            let asker: Arc<dyn Ask> =
                hammer.contender.asker(&orders.redis, orders.worker, orders.skew).await?.into();
            hammer.warm_up(&*asker).await;
            say(&READY)?;
            let begin: Micros = hear(&mut told).await?;
            say(&hammer.run(asker, begin, orders.worker).await?)
        }
    }
}

/// The next line.
pub async fn hear<T: DeserializeOwned>(lines: &mut Lines<BufReader<Stdin>>) -> anyhow::Result<T> {
    let line = lines.next_line().await?.context("nobody says what to do")?;
    Ok(serde_json::from_str(&line)?)
}

/// One line, to whoever started this.
pub fn say(what: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n").and_then(|()| out.flush()).context("nobody listens")
}
