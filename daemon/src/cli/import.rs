//! `topupd import` and `export`: all assignments of a limit at once.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufWriter, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::json;
use topup_wire::{
    limit::{Assignment, Limit},
    scripts::{self, AllAssigned},
};

use super::{
    args::Connect,
    assign::published,
    exit::Exit,
    limit_name::parse,
    output::{eprint_line, print_line},
    redis::{Failure, check_schema, connect, run_as},
};
use crate::{
    assigned_rows::{RowError, read_rows, write_rows},
    clock::Moment,
    text::{grouped, utc},
};

/// Most wrong rows that are named.
const MOST_NAMED: usize = 20;
/// Rows between two lines about progress.
const PROGRESS: usize = 100_000;
/// Attempts while others assign keys meanwhile.
const ATTEMPTS: usize = 3;
/// Workers know of an import by then, and read nothing of the arrangement before any more.
const REMOVED_AFTER: Duration = Duration::from_secs(2);

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
    run_as(args.json, async {
        let name = parse(&args.limit, None)?;
        let text = match args.file.as_os_str() == "-" {
            true => std::io::read_to_string(std::io::stdin()).context("standard input"),
            false => fs::read_to_string(&args.file).with_context(|| args.file.display().to_string()),
        };
        let text = text.map_err(Failure::Usage)?;
        let mut connection = connect(&args.connect)?;
        check_schema(&mut connection).await?;
        let limit = published(&mut connection, &name).await?.limit;
        let wanted = rows(&limit, &text).map_err(|problem| Failure::Usage(anyhow!(problem)))?;
        let began = Moment::now();
        for _ in 0..ATTEMPTS {
            // A million assignments take some seconds: no timeout.
            let held = undecided(scripts::all_assigned(&mut connection, &name).await)?;
            let before = effective(&held).len();
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
            let Some(change) = undecided(replaced)? else { continue };
            let seconds = began.elapsed().as_secs_f64();
            if args.json {
                let answer = json!({
                    "limit": name.as_str(), "assigned": wanted.len(), "before": before, "seconds": seconds,
                    "in_force_from": utc(change.at),
                });
                print_line(&answer.to_string());
            } else {
                print_line(&format!(
                    "{} keys of limit {name} are assigned, {} before, in {seconds:.1} s; in force from {}",
                    grouped(wanted.len() as u64),
                    grouped(before as u64),
                    utc(change.at)
                ));
            }
            if let Some(old) = held.shape {
                tokio::time::sleep(REMOVED_AFTER).await;
                undecided(scripts::remove_arrangement(&mut connection, &name, &old).await)?;
            }
            return Ok(Exit::Done);
        }
        Err(Failure::Undecided(anyhow!("other keys are assigned all the time: nothing was imported")))
    })
}

pub(super) fn export(args: &Export) -> Exit {
    run_as(false, async {
        let name = parse(&args.limit, None)?;
        let mut connection = connect(&args.connect)?;
        check_schema(&mut connection).await?;
        published(&mut connection, &name).await?;
        let held = undecided(scripts::all_assigned(&mut connection, &name).await)?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let written = write_rows(&mut out, &effective(&held), args.json).and_then(|()| Ok(out.flush()?));
        match written {
            // The reader of a pipe may have enough.
            Ok(()) | Err(_) => Ok(Exit::Done),
        }
    })
}

/// The assignments that stay, or will.
fn effective(held: &AllAssigned) -> BTreeMap<String, Assignment> {
    let holds = |assignment: &Assignment| assignment.holds_at(held.now);
    let keys = held.keys.iter();
    keys.filter_map(|(key, one)| Some((key.clone(), one.assignment.filter(holds)?))).collect()
}

/// The rows of `text`, or all that is wrong with them.
fn rows(limit: &Limit, text: &str) -> Result<BTreeMap<String, Assignment>, String> {
    let known = |target| super::assign::check_target(limit, target);
    read_rows(text, known).map_err(|errors| {
        let mut lines: Vec<String> = errors.iter().take(MOST_NAMED).map(RowError::to_string).collect();
        if errors.len() > MOST_NAMED {
            lines.push(format!("and {} more", grouped((errors.len() - MOST_NAMED) as u64)));
        }
        format!("nothing was imported:\n{}", lines.join("\n"))
    })
}

fn undecided<T>(answer: redis::RedisResult<T>) -> Result<T, Failure> {
    answer.map_err(|error| Failure::Undecided(anyhow::Error::new(error).context("Redis")))
}
