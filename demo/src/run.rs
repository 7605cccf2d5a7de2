//! A run of the demo, from the first process to the last figure.

use std::{pin::pin, process::ExitCode, time::Duration};

use anyhow::Context;
use futures_util::future::{BoxFuture, FutureExt, pending};
use tokio::time::{MissedTickBehavior, interval, sleep};
use topup_embedded::RedisServer;
use topup_lab::{
    Fixture, Monitor, SentCommands, WorkerPool,
    clock::{Micros, SECOND, now, seconds},
    output::tell,
    unless_signalled,
};

use crate::{
    change::{self, Change, Published},
    figures::Figures,
    frame::Frame,
    plan::{self, LIMITS, Limit, RAISED, RAISED_LIMITS, WORKERS},
    protocol::Report,
    record::Record,
    screen::Screen,
    verdict::{Times, broken, judge},
};

/// Between two frames on a terminal.
const FRAME_EVERY: Duration = Duration::from_millis(200);
/// Between two lines on other outputs.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// A worker starts within some 10 ms; this is for a machine that is busy with something else.
const START_WITHIN: Duration = Duration::from_secs(10);
/// A worker that is told to end has at most one answer of Redis to wait for.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The wait for a new rate.
type Publishing = BoxFuture<'static, anyhow::Result<Published>>;

/// All processes of the demo. They end with the value.
struct Processes {
    workers: WorkerPool,
    monitor: Monitor,
    fixture: Fixture,
}

/// The state of a run.
struct Run {
    screen: Screen,
    record: Record,
    limits: [Limit; LIMITS.len()],
    events: Vec<String>,
    begun: Micros,
    length: Micros,
    change: Option<Change>,
}

/// Runs the demo with `length` seconds of load.
pub(crate) fn run(length: u64) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match unless_signalled(perform(length * SECOND)).await? {
            Ok(held) => Ok(ExitCode::from(if held? { 0 } else { 1 })),
            Err(interrupted) => {
                tell("topup-demo: ended by a signal, with all its processes");
                Ok(interrupted.into())
            }
        }
    })
}

/// Whether the laws held.
async fn perform(length: Micros) -> anyhow::Result<bool> {
    let mut processes = Processes::start().await?;
    let mut run = Run::begin(length);
    run.happened("topupd tops up a private Redis, four workers take from it")?;
    processes.workers.tell_each(|worker| plan::orders(&LIMITS, worker)).await?;
    run.watch(&mut processes).await?;
    let ended = now();
    let sent = processes.monitor.sent();
    for report in processes.end().await? {
        run.note(report);
    }
    run.sum_up(ended, sent)
}

// === impl Processes ===

impl Processes {
    async fn start() -> anyhow::Result<Self> {
        let topupd = std::env::current_exe()?.with_file_name("topupd");
        let mut fixture = Fixture::start(RedisServer::builder(), &topupd)?;
        let config = plan::config(fixture.url(), &LIMITS);
        fixture.start_daemon(&config).await.context("scripts/demo builds all programs")?;
        fixture.published(&plan::buckets()).await?;
        let monitor = Monitor::start(&fixture.redis().socket()).await?;
        let mut workers = WorkerPool::of_this_program(WORKERS, &["worker", fixture.url()])?;
        workers.ready(START_WITHIN).await?;
        Ok(Self { workers, monitor, fixture })
    }

    /// Ends the workers, then the daemon. Returns the last reports.
    async fn end(self) -> anyhow::Result<Vec<Report>> {
        let Self { workers, mut fixture, .. } = self;
        let last: Vec<(usize, Vec<Report>)> = workers.finish(END_WITHIN).await?;
        fixture.stop_daemon().await?;
        Ok(last.into_iter().flat_map(|(_, reports)| reports).collect())
    }
}

// === impl Run ===

impl Run {
    fn begin(length: Micros) -> Self {
        Self {
            screen: Screen::of_stdout(),
            record: Record::new(),
            limits: LIMITS,
            events: Vec::new(),
            begun: now(),
            length,
            change: None,
        }
    }

    /// Watches the workers until their time is up, and raises the rate half way.
    async fn watch(&mut self, processes: &mut Processes) -> anyhow::Result<()> {
        let mut frames = interval(if self.screen.in_place { FRAME_EVERY } else { LINE_EVERY });
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // An interval begins at once; there is nothing to see yet.
        frames.reset();
        let length = Duration::from_micros(self.length);
        let (mut half, mut end) = (pin!(sleep(length / 2)), pin!(sleep(length)));
        let mut publishing: Publishing = pending().boxed();
        loop {
            tokio::select! {
                reports = processes.workers.next::<Vec<Report>>() => {
                    reports?.1.into_iter().for_each(|report| self.note(report));
                }
                error = processes.fixture.daemon()?.failure() => return Err(error),
                _ = frames.tick() => self.draw(processes.monitor.sent())?,
                () = &mut half, if self.change.is_none() => publishing = self.raise(processes).await?,
                published = &mut publishing => {
                    publishing = pending().boxed();
                    self.raised(published?)?;
                }
                () = &mut end => return if self.screen.in_place { self.draw(processes.monitor.sent()) } else { Ok(()) },
            }
        }
    }

    fn note(&mut self, report: Report) {
        if let Some(change) = &mut self.change {
            change.note(&report);
        }
        self.record.add(report);
    }

    /// Raises a rate in the daemon's config, and tells the workers to ask for more.
    async fn raise(&mut self, processes: &mut Processes) -> anyhow::Result<Publishing> {
        // The workers first, so that the first token of the new rate does not wait for a take.
        processes.workers.tell_each(|worker| plan::orders(&[RAISED], worker)).await?;
        let url = processes.fixture.url().to_owned();
        self.change = Some(Change::edited_now());
        processes.fixture.daemon()?.reload(&plan::config(&url, &RAISED_LIMITS))?;
        self.happened(&format!("config.toml: {} {}, and HUP to topupd", RAISED.name, RAISED.rate_text()))?;
        Ok(change::published(url).boxed())
    }

    fn raised(&mut self, published: Published) -> anyhow::Result<()> {
        let Some(change) = &mut self.change else { return Ok(()) };
        change.published = Some(published);
        let after = published.new_from.saturating_sub(change.edited) / 1_000;
        self.limits = RAISED_LIMITS;
        self.happened(&format!("the new rate of {} is in force, {after} ms after the edit", RAISED.name))
    }

    fn happened(&mut self, event: &str) -> anyhow::Result<()> {
        let event = format!("{:5.1} s  {event}", seconds(now() - self.begun));
        if !self.screen.in_place {
            self.screen.say(&event)?;
        }
        self.events.push(event);
        Ok(())
    }

    fn draw(&mut self, sent: SentCommands) -> anyhow::Result<()> {
        let now = now();
        let limits = self.limits.iter().map(|limit| (limit, self.record.last_second(limit, now)));
        let frame = Frame {
            elapsed: (now - self.begun).min(self.length),
            length: self.length,
            limits: limits.collect(),
            sent,
            events: &self.events,
        };
        if !self.screen.in_place {
            let line = frame.line();
            return self.screen.say(&line);
        }
        let lines = frame.lines(self.screen.looks);
        self.screen.draw(&lines)
    }

    fn sum_up(mut self, ended: Micros, sent: SentCommands) -> anyhow::Result<bool> {
        let raised = self.change.as_ref().and_then(|change| change.published);
        let verdicts = judge(&self.record, Times { begun: self.begun, ended, raised });
        let figures = Figures {
            verdicts: &verdicts,
            record: &self.record,
            change: self.change.as_ref(),
            sent,
            length: self.length,
        };
        for line in figures.lines(self.screen.looks) {
            self.screen.say(&line)?;
        }
        Ok(broken(&verdicts).is_empty())
    }
}
