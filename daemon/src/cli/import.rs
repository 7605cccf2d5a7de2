//! `topupd import` and `export`: all assignments of a limit at once.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::json;
use topup_wire::{
    limit::Assignment,
    scripts::{self, AllAssigned},
};

use super::{
    args::Connect,
    assign::published,
    exit::Exit,
    limit_name::parse,
    output::{eprint_line, print_answer},
    redis::{Failure, connect_checked, run_as},
};
use crate::{
    assigned_rows::{Rows, write_rows},
    clock::Moment,
    text::{grouped, utc},
};

/// Rows between two lines about progress.
const PROGRESS: usize = 100_000;
/// Attempts while others assign keys meanwhile.
const ATTEMPTS: usize = 3;
/// Imports that have not ended by then have died.
const ABANDONED: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd import user customers.csv
  topupd export user | topupd import user -

A row is KEY,PLAN or KEY,PLAN,UNTIL, or in JSON {\"key\": \"acme\", \"plan\": \"gold\", \"until\": \"2026-12-01T00:00:00Z\"}
with one object on each line.")]
pub(super) struct Import {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The file with all assignments, as CSV or as JSON lines; - is standard input
    file: PathBuf,
    /// Import even if less than half of the assignments are left
    #[arg(long)]
    force: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd export user > customers.csv")]
pub(super) struct Export {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// Write JSON, with one object on each line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn import(args: &Import) -> Exit {
    run_as(args.json, &args.connect, async {
        let name = parse(&args.limit, None)?;
        let text: anyhow::Result<Box<dyn BufRead>> = match args.file.as_os_str() == "-" {
            true => Ok(Box::new(std::io::stdin().lock())),
            false => match File::open(&args.file).with_context(|| args.file.display().to_string()) {
                Ok(file) => Ok(Box::new(BufReader::new(file))),
                Err(error) => Err(error),
            },
        };
        let text = text.map_err(Failure::Usage)?;
        let mut connection = connect_checked(&args.connect).await?;
        let limit = published(&mut connection, &name).await?.limit;
        let mut rows = Rows::new(name, &limit.plans, "line", usize::MAX);
        let read = rows.read(text, None).with_context(|| args.file.display().to_string());
        read.map_err(Failure::Usage)?;
        let wanted =
            rows.finish().map_err(|wrong| Failure::Usage(anyhow!("nothing was imported:\n{wrong}")))?;
        let began = Moment::now();
        scripts::remove_idle(&mut connection, &name, ABANDONED).await?;
        for _ in 0..ATTEMPTS {
            // A million assignments take some seconds: no timeout.
            let held = scripts::all_assigned(&mut connection, &name).await?;
            let before = effective(&held).count();
            if wanted.len() * 2 < before && !args.force {
                return Err(Failure::Usage(anyhow!(
                    "the file has {} assignments where limit {name} has {}: this would take more than half of them \
                     back; use --force if that is meant",
                    grouped(wanted.len() as u64),
                    grouped(before as u64),
                )));
            }
            let mut told = 0;
            let progress = |written: usize| {
                if written / PROGRESS > told {
                    told = written / PROGRESS;
                    eprint_line(&format!("{} written", grouped(written as u64)));
                }
            };
            let replaced = scripts::replace_assigned(&mut connection, &name, &held, &wanted, progress).await;
            let Some(change) = replaced? else { continue };
            let seconds = began.elapsed().as_secs_f64();
            let answer = json!({
                "limit": name.as_str(), "assigned": wanted.len(), "before": before, "seconds": seconds,
                "in_force_from": utc(change.at),
            });
            let text = format!(
                "{} keys of limit {name} are assigned, {} before, in {seconds:.1} s; in force from {}",
                grouped(wanted.len() as u64),
                grouped(before as u64),
                utc(change.at)
            );
            print_answer(args.json, &answer, &text);
            if let Some(old) = held.shape {
                tokio::time::sleep(scripts::IDLE).await;
                scripts::remove_arrangement(&mut connection, &name, &old).await?;
            }
            return Ok(Exit::Done);
        }
        Err(Failure::Undecided(anyhow!("other keys are assigned all the time: nothing was imported")))
    })
}

pub(super) fn export(args: &Export) -> Exit {
    run_as(false, &args.connect, async {
        let name = parse(&args.limit, None)?;
        let mut connection = connect_checked(&args.connect).await?;
        published(&mut connection, &name).await?;
        let held = scripts::all_assigned(&mut connection, &name).await?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let written = write_rows(&mut out, effective(&held), args.json).and_then(|()| Ok(out.flush()?));
        match written {
            // The reader of a pipe may have enough.
            Ok(()) | Err(_) => Ok(Exit::Done),
        }
    })
}

/// The assignments that stay, or will.
fn effective(held: &AllAssigned) -> impl Iterator<Item = (&str, Assignment)> {
    held.keys.iter().filter(|(_, one)| one.holds_at(held.now))
}
