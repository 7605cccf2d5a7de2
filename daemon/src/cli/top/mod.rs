//! `topupd top`: the published state, live in the terminal. Elsewhere it prints one table and ends.

mod model;
mod plain;
mod screen;
mod view;

#[cfg(test)]
mod tests;

use std::{env, io::IsTerminal, time::Duration};

use anyhow::Context;
use clap::Args;
use futures_util::StreamExt;
use ratatui::crossterm::event::Event;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::time::sleep;
use topup_wire::connection::Connection;

use self::{
    model::{Flow, Model},
    screen::Screen,
};
use super::{
    args::{Connect, parse_duration},
    exit::Exit,
    output::print_line,
    redis::{Failure, open, run_as, server},
};
use crate::report::{Pace, StatusReport, gather};

/// The shortest time between two looks: each asks Redis some questions for each limit.
const LEAST_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd top
  topupd top --every 5s
  topupd top | head

Keys:
  q, Ctrl-C  quit                    s  sort by the next column
  up, down   scroll                  /  show limits with this text only
  ?          this list               Esc  all limits again")]
pub(super) struct Top {
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// Answer once, in JSON, as `status --json` does
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn main(args: &Top) -> Exit {
    run_as(args.json, &args.connect, async {
        let url = server(&args.connect)?;
        let connection = open(&url)?;
        let look = async || gather(url.to_string(), &connection, Pace::AT_ONCE).await;
        if args.json {
            let report = look().await;
            print_line(&json!(report).to_string());
            return Ok(report.health.into());
        }
        if !is_live() {
            let report = look().await;
            print_line(&plain::render(&report));
            return Ok(report.health.into());
        }
        let every = args.every.max(LEAST_EVERY);
        live(url.to_string(), &connection, every).await.map_err(Failure::Undecided)
    })
}

/// Whether a person sees the screen and has keys.
fn is_live() -> bool {
    let is_dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_dumb && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

async fn live(redis: String, connection: &Connection, every: Duration) -> anyhow::Result<Exit> {
    // Before the screen: a signal must find it restored.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot handle signals")?;
    let has_colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut model = Model::new(has_colours);
    let mut screen = Screen::open().context("cannot use this terminal")?;
    let look = async |wait: Duration| -> StatusReport {
        sleep(wait).await;
        gather(redis.clone(), connection, Pace::AT_ONCE).await
    };
    let mut looking = Box::pin(look(Duration::ZERO));
    loop {
        screen.draw(&mut model).context("cannot draw on this terminal")?;
        tokio::select! {
            event = screen.next() => match event {
                Some(Event::Key(key)) if model.on_key(key) == Flow::Quit => break,
                Some(_) => {}
                // The terminal is gone.
                None => break,
            },
            report = &mut looking => {
                model.show(report);
                looking = Box::pin(look(every));
            }
            _ = signals.next() => break,
        }
    }
    Ok(Exit::Done)
}
