//! The show: set the stage, let the workers ask, change a rate half way, clear up, and tell what it came to.

use std::{pin::pin, time::Duration};

use anyhow::Context;
use tokio::{
    task::{JoinError, JoinHandle},
    time::{MissedTickBehavior, interval, sleep},
};
use topup_embedded::RedisServer;

use crate::{
    change::{self, Change, Published},
    clock::{Micros, SECOND, now, seconds},
    cost::Cost,
    plan::{self, LIMITS, Limit, RAISED},
    protocol::Report,
    screen::{Screen, complain},
    signals::Signals,
    stage::Stage,
    summary::Summary,
    tally::Tally,
    verdict::{Times, judge},
    view::{self, Redis, View},
};

/// Between two frames in place: often enough to look alive, seldom enough to be read.
const FRAME_EVERY: Duration = Duration::from_millis(200);
/// Between two lines where nothing is redrawn.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at Redis's counters: seldom, because each look is work for the Redis that is measured.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How the demo ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    LawsHeld,
    LawBroken,
    /// A signal came first.
    Signal(u8),
}

/// What is on the screen, and what is known.
struct Show {
    screen: Screen,
    tally: Tally,
    limits: [Limit; LIMITS.len()],
    events: Vec<String>,
    begun: Micros,
    length: Micros,
    change: Option<Change>,
    publishing: Option<JoinHandle<anyhow::Result<Published>>>,
    /// Redis's counters when the workers began, and at the last look.
    cost_before: Cost,
    looked: (Micros, Cost),
    redis: Redis,
}

/// Runs the show for so many seconds of asking.
pub(crate) fn run(length: u64) -> anyhow::Result<Ended> {
    let redis = RedisServer::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            biased;
            signal = signals.next() => {
                complain(&anyhow::anyhow!("ended by a signal, and with it all it had started"));
                Ok(Ended::Signal(signal))
            }
            ended = perform(&redis, length * SECOND) => ended,
        }
    })
}

async fn perform(redis: &RedisServer, length: Micros) -> anyhow::Result<Ended> {
    let mut stage = Stage::set(redis).await?;
    let mut show = Show::begin(length, stage.cost().await?);
    show.happened(&format!("topupd (pid {}) tops up a private Redis", stage.daemon.pid().unwrap_or(0)))?;
    for limit in &LIMITS {
        stage.crew.ask(limit).await?;
    }
    show.watch(&mut stage, redis.url()).await?;
    let ended = now();
    let (last, cost) = stage.end().await?;
    for (worker, report) in last {
        show.note(worker, report);
    }
    show.sum_up(ended, cost)
}

// === impl Show ===

impl Show {
    fn begin(length: Micros, cost: Cost) -> Self {
        let begun = now();
        Self {
            screen: Screen::of_stdout(),
            tally: Tally::default(),
            limits: LIMITS,
            events: Vec::new(),
            begun,
            length,
            change: None,
            publishing: None,
            cost_before: cost,
            looked: (begun, cost),
            redis: Redis::default(),
        }
    }

    /// Watches the workers until their time is up, and changes the rate half way.
    async fn watch(&mut self, stage: &mut Stage, url: &str) -> anyhow::Result<()> {
        let mut frames = interval(if self.screen.in_place { FRAME_EVERY } else { LINE_EVERY });
        let mut looks = interval(LOOK_EVERY);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // An interval begins at once; there is nothing to see yet.
        frames.reset();
        looks.reset();
        let length = Duration::from_micros(self.length);
        let (mut half, mut end) = (pin!(sleep(length / 2)), pin!(sleep(length)));
        loop {
            tokio::select! {
                report = stage.crew.next() => {
                    let (worker, report) = report?;
                    self.note(worker, report);
                }
                error = stage.daemon.failure() => return Err(error),
                _ = frames.tick() => self.draw()?,
                _ = looks.tick() => self.look(stage.cost().await?),
                () = &mut half, if self.change.is_none() => self.raise(stage, url).await?,
                published = finished(&mut self.publishing) => {
                    self.raised(published?.map_err(|error| stage.daemon.explain(error))?)?;
                }
                () = &mut end => return if self.screen.in_place { self.draw() } else { Ok(()) },
            }
        }
    }

    fn note(&mut self, worker: usize, report: Report) {
        if let Some(change) = &mut self.change {
            change.note(worker, &report);
        }
        self.tally.note(report);
    }

    /// Tells the daemon of a higher rate, and the workers to ask for more.
    async fn raise(&mut self, stage: &mut Stage, url: &str) -> anyhow::Result<()> {
        let limits = plan::raised();
        let limit = limits.iter().find(|limit| limit.name == RAISED).context("no limit is raised")?.clone();
        // First, so that not even the first token of the new rate waits for someone to take it.
        stage.crew.ask(&limit).await?;
        self.change = Some(Change::told(&limit));
        stage.daemon.reload(&plan::config(url, &limits))?;
        self.publishing = Some(tokio::spawn(change::published(url.to_owned(), limit.clone())));
        let pid = stage.daemon.pid().unwrap_or(0);
        self.happened(&format!(
            "config.toml: {RAISED} {}; HUP sent to topupd (pid {pid})",
            view::rate(&limit)
        ))
    }

    fn raised(&mut self, published: Published) -> anyhow::Result<()> {
        let Some(change) = &mut self.change else { return Ok(()) };
        change.published = Some(published);
        let after = published.new_from.saturating_sub(change.told) / 1_000;
        self.limits = plan::raised();
        self.happened(&format!("the new rate of {RAISED} is in force, {after} ms after HUP"))
    }

    fn look(&mut self, cost: Cost) {
        let (before, cost_then) = std::mem::replace(&mut self.looked, (now(), cost));
        let span = self.looked.0 - before;
        let lately = cost.since(&cost_then);
        self.redis = Redis { lately, span, total: cost.since(&self.cost_before), ..self.redis };
        let Tally { decisions, denied, remembered, .. } = self.tally;
        self.redis = Redis { allowed: decisions - denied, denied, remembered, ..self.redis };
    }

    fn happened(&mut self, what: &str) -> anyhow::Result<()> {
        let event = format!("{:5.1} s  {what}", seconds(now().saturating_sub(self.begun)));
        if !self.screen.in_place {
            self.screen.say(&event)?;
        }
        self.events.push(event);
        Ok(())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let now = now();
        let limits = self.limits.iter().map(|limit| (limit, self.tally.lately(limit, now)));
        let view = View {
            elapsed: (now - self.begun).min(self.length),
            length: self.length,
            limits: limits.collect(),
            redis: self.redis,
            events: &self.events,
        };
        if self.screen.in_place {
            let frame = view.frame(self.screen.looks);
            self.screen.draw(&frame)?;
        } else {
            self.screen.say(&view.line())?;
        }
        Ok(())
    }

    fn sum_up(mut self, ended: Micros, cost: Cost) -> anyhow::Result<Ended> {
        let raised = self.change.as_ref().and_then(|change| change.published);
        let verdicts = judge(&self.tally, Times { begun: self.begun, ended, raised });
        let summary = Summary {
            verdicts: &verdicts,
            tally: &self.tally,
            change: self.change.as_ref(),
            cost: cost.since(&self.cost_before),
            begun: self.begun,
        };
        let held = summary.laws_held();
        self.screen.leave();
        for line in summary.lines(self.screen.looks) {
            self.screen.say(&line)?;
        }
        Ok(if held { Ended::LawsHeld } else { Ended::LawBroken })
    }
}

/// The outcome of a task, taken out of its place; never ready while there is none.
async fn finished<T>(running: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match running {
        Some(task) => {
            let outcome = task.await;
            *running = None;
            outcome
        }
        None => std::future::pending().await,
    }
}
