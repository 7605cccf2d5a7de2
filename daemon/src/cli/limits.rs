//! `topupd limits`: the published limits, in a table or as JSON.

use clap::Args;
use serde_json::json;

use super::{
    args::Connect,
    exit::Exit,
    output::print_answer,
    redis::{Failure, open, run_as, server},
    table::Table,
};
use crate::report::{Health, LimitRow, Pace, gather};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd limits
  topupd limits --json | jq '.limits[] | select(.denied_per_second > 0) | .name'")]
pub(super) struct Limits {
    /// Answer in JSON, {"limits": [...]}, with the fields of `status --json` for each limit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn main(args: &Limits) -> Exit {
    run_as(args.json, &args.connect, async {
        let url = server(&args.connect)?;
        let connection = open(&url)?;
        let report = gather(url.to_string(), &connection, Pace::AT_ONCE).await;
        if let Some(problem) = report.problems.first().filter(|_| report.health == Health::Undecided) {
            return Err(Failure::Undecided(anyhow::anyhow!("{}: {}", problem.what, problem.action)));
        }
        let text = table(&report.limits).render();
        print_answer(args.json, &json!({ "limits": report.limits }), &text);
        Ok(Exit::Done)
    })
}

fn table(limits: &[LimitRow]) -> Table {
    let mut table = Table::new(&["limit", "algorithm", "buckets", "mode"], &["capacity", "rate", "tokens"]);
    for row in limits {
        let mode = match (row.mode, row.enforce_percent) {
            ("enforce", percent @ ..100) => format!("enforce {percent} %"),
            (mode, _) => mode.to_owned(),
        };
        table.row([
            row.name.clone(),
            row.algorithm.to_owned(),
            if row.keyed { "one a key" } else { "one" }.to_owned(),
            mode,
            row.capacity.to_string(),
            row.rate.clone().unwrap_or_else(|| "calendar".to_owned()),
            row.tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
        ]);
    }
    table
}
