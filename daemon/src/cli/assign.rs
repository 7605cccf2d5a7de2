//! `topupd assign` and `unassign`: the plan of a key, by hand.

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use topup_wire::{
    connection::Connection,
    limit::{Assignment, LimitName, Target},
    reply::PublishedLimit,
    scripts::{self, Change},
};

use super::{
    args::Query,
    exit::Exit,
    limit_name::{parse, unknown},
    output::print_answer,
    redis::{Failure, ask, connect_checked, run_as},
    table::printable,
};
use crate::{assigned_rows::check_target, config::Instant, text::utc};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd assign user acme gold
  topupd assign user acme gold --until 2026-12-01T00:00:00Z
  topupd assign user evil deny")]
pub(super) struct Assign {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key
    key: String,
    /// The plan, as in [limit.NAME.plan.PLAN] of the config, or exempt or deny
    plan: Target,
    /// The end of the assignment, with its time zone: 2026-12-01T00:00:00Z
    #[arg(long, value_name = "INSTANT")]
    until: Option<Instant>,
    #[command(flatten)]
    query: Query,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd unassign user acme")]
pub(super) struct Unassign {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key
    key: String,
    #[command(flatten)]
    query: Query,
}

pub(super) fn assign(args: &Assign) -> Exit {
    let until = args.until.map(|until| until.0);
    let assignment = Assignment { target: args.plan, until };
    change(&args.limit, &args.key, Some(assignment), &args.query)
}

pub(super) fn unassign(args: &Unassign) -> Exit {
    change(&args.limit, &args.key, None, &args.query)
}

fn change(limit: &str, key: &str, assignment: Option<Assignment>, query: &Query) -> Exit {
    run_as(query.json, &query.connect, async {
        let name = parse(limit, Some(key))?;
        let mut connection = connect_checked(&query.connect).await?;
        let limit = published(&mut connection, &name).await?.limit;
        if let Some(target) = assignment.map(|one| one.target) {
            check_target(&name, &limit.plans, target).map_err(|problem| Failure::Usage(anyhow!(problem)))?;
        }
        if let Some(until) = assignment.and_then(|one| one.until)
            && until <= ask(scripts::now(&mut connection)).await?
        {
            let past = utc(until);
            return Err(Failure::Usage(anyhow!("{past} is past: name a later instant, or unassign the key")));
        }
        let changes = [(key.to_owned(), assignment)];
        let change = ask(scripts::assign(&mut connection, &name, &changes)).await?;
        let Change { at, changed, .. } = change;
        let from = utc(at);
        let (what, key_shown) = (assignment.map(shown), printable(key));
        let text = match (&what, changed) {
            (Some(what), 0) => format!("{name} key {key_shown} is assigned to {what} already"),
            (Some(what), _) => format!("{name} key {key_shown} is assigned to {what}, in force from {from}"),
            (None, 0) => format!("{name} key {key_shown} was not assigned by hand"),
            (None, _) => format!("{name} key {key_shown} is assigned no longer, in force from {from}"),
        };
        let plan = assignment.map(|one| one.target.to_string());
        let until = assignment.and_then(|one| one.until).map(utc);
        let answer = json!({
            "limit": name.as_str(), "key": key, "plan": plan, "until": until, "changed": changed > 0,
            "in_force_from": if changed > 0 { Some(from) } else { None },
        });
        print_answer(query.json, &answer, &text);
        Ok(Exit::Done)
    })
}

/// The published limit `name`, if it is keyed.
pub(super) async fn published(
    connection: &mut Connection,
    name: &LimitName,
) -> Result<PublishedLimit, Failure> {
    match ask(scripts::read_limit(connection, name)).await? {
        None => Err(unknown(connection, name).await),
        Some(published) if !published.limit.keyed => {
            Err(Failure::Usage(anyhow!("limit {name} has one bucket for all, and no keys with a plan")))
        }
        Some(published) if published.limit.algorithm.has_permits() => {
            Err(Failure::Usage(anyhow!("limit {name} has permits, and keys without plans")))
        }
        Some(published) => Ok(published),
    }
}

pub(super) fn shown(assignment: Assignment) -> String {
    let until = assignment.until.map_or(String::new(), |until| format!(" until {}", utc(until)));
    format!("{}{until}", assignment.target)
}
