//! A worker process: it asks one limiter as it is told to.
//!
//! A worker in a closed loop asks for every key once, says `ready`, and waits for `go`. After its time it says what it saw,
//! in JSON. Programs in other languages do the same. A worker in an open loop connects and says `ready`. Each line that it
//! reads is a load: phases, one after the other. It answers with a list, in JSON, of what it saw of each phase.

mod closed;
mod open;
mod pacer;

use std::{io::Write, time::Duration};

use anyhow::Context;

use crate::{
    cli::Work,
    limiter::{Decide, Names},
    rules::{Rule, apart_name},
};

/// Begins the line of a worker that cannot do what it was told.
pub(crate) const FAILED: &str = "failed: ";
/// Deadline of takes in an open loop: the one that topup has unless told otherwise.
const OPEN_DEADLINE: Duration = Duration::from_millis(250);

/// Load of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) redis: String,
    pub(crate) rule: Rule,
    pub(crate) keys: usize,
    /// An answer that is later is none.
    pub(crate) deadline: Option<Duration>,
    way: Way,
}

/// Kind of a load, and its size.
#[derive(Clone, Copy, Debug)]
enum Way {
    Closed(Closed),
    Open(Open),
}

/// Tasks that ask without a pause, and their time.
#[derive(Clone, Copy, Debug)]
struct Closed {
    tasks: usize,
    time: Duration,
}

/// A part of a schedule.
#[derive(Clone, Copy, Debug)]
struct Open {
    seed: u64,
    part: u32,
    parts: u32,
}

pub(crate) fn run(work: &Work) -> anyhow::Result<()> {
    let Work { redis, limiter, rule, keys, tasks, seconds, seed, part, parts } = work.clone();
    let (way, deadline) = match seed {
        Some(seed) => (Way::Open(Open { seed, part, parts }), Some(OPEN_DEADLINE)),
        None => (Way::Closed(Closed { tasks, time: Duration::from_secs_f64(seconds) }), None),
    };
    let load = Load { redis, rule, keys, deadline, way };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let met = runtime.block_on(limiter.meet(&load));
    // For whoever started this; the error itself is for people.
    if let Err(error) = &met {
        say(&format!("{FAILED}{error:#}"))?;
    }
    met
}

// === impl Load ===

impl Load {
    /// The names of all keys, at least one. An open loop may have millions of keys: their names are written for each take.
    pub(crate) fn names(&self) -> Names {
        let kept = if matches!(self.way, Way::Open(_)) { 0 } else { self.keys.max(1) };
        Names::new(kept, if self.rule == Rule::Apart { apart_name } else { |key| format!("key-{key}") })
    }

    /// Asks `limiter`, as described above.
    pub(crate) async fn put_on(&self, limiter: impl Decide) -> anyhow::Result<()> {
        match self.way {
            Way::Closed(closed) => closed::drive(self, closed, limiter).await,
            Way::Open(open) => open::drive(self, open, limiter).await,
        }
    }
}

/// One line, to whoever started this.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("nobody listens")
}
