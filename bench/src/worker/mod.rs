//! A worker process: it asks one limiter as it is told to.
//!
//! Of a closed loop it says `ready` when it has asked for every key once, waits for `go`, and then says what it saw, in
//! JSON. Programs in other languages say the same. Of an open loop it says `ready` when it is connected, reads phases, a
//! line of them for each load, and says what each phase came to.

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
/// How long takes of an open loop wait for their answers, as topup does unless told otherwise.
const OPEN_DEADLINE: Duration = Duration::from_millis(250);

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) redis: String,
    pub(crate) rule: Rule,
    pub(crate) keys: usize,
    /// An answer that is later is none.
    pub(crate) deadline: Option<Duration>,
    way: Way,
}

/// How a limiter is asked.
#[derive(Clone, Copy, Debug)]
enum Way {
    Closed(Closed),
    Open(Open),
}

/// So many tasks, for so long.
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
    /// The names of all keys, at least one. Those of an open loop are written for each take: they may be very many.
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
