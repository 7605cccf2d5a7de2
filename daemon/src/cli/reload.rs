//! `topupd reload`: has the daemons of this host read their config again, and tells what came of it.
//!
//! A daemon's id names its host and process, and its heartbeat counts reloads. HUP goes to the process, and the answer
//! comes by the heartbeat: under systemd or not.

use std::{fs, path::Path, time::Duration};

use anyhow::anyhow;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::sleep;
use topup_wire::{
    connection::Connection,
    scripts::{self, DaemonStatus},
};

use super::{
    args::Connect,
    exit::Exit,
    output::print_line,
    redis::{Failure, ask, connect, run_as},
};
use crate::{clock::Moment, config_source::ConfigSource};

/// The longest wait for the answer of a daemon. Heartbeats come every 50 ms, and a busy daemon reads a long file first.
const LONGEST: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd reload
  topupd reload --config /etc/topup/config.toml --json

Under systemd, run it as root, or use: systemctl reload topupd")]
pub(super) struct Reload {
    /// Reload the daemon of this process only
    #[arg(long)]
    pid: Option<u32>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// The result of a reload.
struct Outcome {
    daemon: DaemonStatus,
    /// The problems of the config, if the daemon refuses it.
    refused: Vec<String>,
}

pub(super) fn main(args: &Reload) -> Exit {
    run_as(args.json, &args.connect, async {
        let mut connection = connect(&args.connect)?;
        let daemons = daemons_here(&mut connection, args).await?;
        for daemon in &daemons {
            hang_up(daemon)?;
        }
        let mut outcomes = Vec::new();
        for before in &daemons {
            outcomes.push(outcome(&mut connection, before).await?);
        }
        let is_refused = outcomes.iter().any(|outcome| !outcome.refused.is_empty());
        if args.json {
            let rows: Vec<_> = outcomes.iter().map(Outcome::json).collect();
            print_line(&json!({ "daemons": rows }).to_string());
        } else {
            outcomes.iter().for_each(|outcome| print_line(&outcome.text()));
        }
        Ok(if is_refused { Exit::Config } else { Exit::Done })
    })
}

/// The live daemons of this host that are meant.
async fn daemons_here(connection: &mut Connection, args: &Reload) -> Result<Vec<DaemonStatus>, Failure> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let mut daemons = ask(scripts::daemons(connection)).await?;
    daemons.retain(|daemon| process(daemon).is_some_and(|(on, pid)| on == host && is_topupd(pid)));
    if let Some(wanted) = args.pid {
        daemons.retain(|daemon| process(daemon).is_some_and(|(_, pid)| pid == wanted));
    }
    if let Some(file) = &args.connect.config.config {
        let source = ConfigSource { file: file.clone(), redis: None };
        let owner = source.owner(&source.load_without_limits().unwrap_or_default());
        daemons.retain(|daemon| daemon.health.owner == owner);
    }
    if daemons.is_empty() {
        return Err(Failure::Undecided(anyhow!(
            "no such daemon of host {host} is alive in this Redis: see `topupd status`; a daemon whose Redis is away reads \
             its config on HUP, too"
        )));
    }
    Ok(daemons)
}

/// Host and process of a daemon.
fn process(daemon: &DaemonStatus) -> Option<(&str, u32)> {
    let (process, _) = daemon.id.rsplit_once(':')?;
    let (host, pid) = process.rsplit_once(':')?;
    Some((host, pid.parse().ok()?))
}

/// Whether the process is a topupd: its number may have been given to another since.
fn is_topupd(pid: u32) -> bool {
    let name = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
    name.is_ok_and(|name| name.trim_end() == "topupd")
}

fn hang_up(daemon: &DaemonStatus) -> Result<(), Failure> {
    let pid = process(daemon).and_then(|(_, pid)| Pid::from_raw(pid.try_into().ok()?));
    let sent = pid.map(|pid| kill_process(pid, Signal::HUP));
    match sent {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => {
            let root =
                if error == rustix::io::Errno::PERM { ": it runs as another user, try sudo" } else { "" };
            Err(Failure::Undecided(anyhow!("cannot signal daemon {}: {error}{root}", daemon.id)))
        }
        None => Err(Failure::Undecided(anyhow!("daemon {} names no process", daemon.id))),
    }
}

/// Waits until the daemon has read its config.
async fn outcome(connection: &mut Connection, before: &DaemonStatus) -> Result<Outcome, Failure> {
    let began = Moment::now();
    while began.elapsed() < LONGEST {
        let daemons = ask(scripts::daemons(connection)).await?;
        let now = daemons.into_iter().find(|daemon| daemon.id == before.id);
        let now = now.ok_or_else(|| Failure::Undecided(anyhow!("daemon {} has ended", before.id)))?;
        if now.health.reloads > before.health.reloads {
            let refused = problems(&now);
            return Ok(Outcome { daemon: now, refused });
        }
        sleep(LOOK_EVERY).await;
    }
    Err(Failure::Undecided(anyhow!(
        "daemon {} has not said within {LONGEST:?} that it read its config: see its log and `topupd status`",
        before.id
    )))
}

/// The problems of the config that the daemon refuses: all of them if its file can be read here, else the first.
fn problems(daemon: &DaemonStatus) -> Vec<String> {
    let Some((first, _)) = &daemon.health.refused else { return Vec::new() };
    let source = ConfigSource { file: daemon.health.owner.as_str().into(), redis: None };
    match source.read().parse() {
        Err(problems) if source.file.is_file() => problems.0.iter().map(ToString::to_string).collect(),
        _ => vec![first.clone()],
    }
}

// === impl Outcome ===

impl Outcome {
    fn text(&self) -> String {
        let DaemonStatus { id, health, .. } = &self.daemon;
        if self.refused.is_empty() {
            return format!("daemon {id} applied config {}", health.owner);
        }
        let problems: String = self.refused.iter().map(|problem| format!("\n  {problem}")).collect();
        format!("daemon {id} refused config {}, and the one before stays in force:{problems}", health.owner)
    }

    fn json(&self) -> serde_json::Value {
        let DaemonStatus { id, health, .. } = &self.daemon;
        json!({
            "id": id, "config": health.owner.as_str(), "config_hash": health.config.to_string(),
            "applied": self.refused.is_empty(), "problems": self.refused,
        })
    }
}
