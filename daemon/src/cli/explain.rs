//! `topupd explain`: the plan of a key, and its reason.

use clap::Args;
use serde_json::json;
use topup_wire::{
    limit::{Assigned, Assignment, Limit, Part, PlanReason, Supply, Target},
    scripts,
};

use super::{
    args::Query,
    assign::{published, shown},
    exit::Exit,
    limit_name::parse,
    output::print_line,
    redis::{ask, connect_checked, run_as},
    table::printable,
};
use crate::{
    report,
    text::{grouped, utc},
};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd explain user --key acme")]
pub(super) struct Explain {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key
    #[arg(long)]
    key: String,
    #[command(flatten)]
    query: Query,
}

pub(super) fn main(args: &Explain) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let key = args.key.as_str();
        let name = parse(&args.limit, Some(key))?;
        let mut connection = connect_checked(&args.query.connect).await?;
        let published = published(&mut connection, &name).await?;
        let sources = ask(report::plan_sources(&mut connection, &published, key)).await?;
        let (by_hand, by_source) = (sources.by_hand.clone(), sources.by_source.clone());
        // A user with few rights may not read who reads a source.
        let told = scripts::source_statuses(&mut connection).await.unwrap_or_default().remove(&name);
        let now = ask(scripts::now(&mut connection)).await?;
        let ((target, reason), period) = (sources.at(now), sources.period(now));
        let config = published.limit.plans.of(key, now);
        let terms = ask(report::terms_of(&mut connection, &published, target)).await?;
        let by_hand_now = by_hand.as_ref().and_then(|one| one.assignment);
        if args.query.json {
            let assignment =
                |one: Assignment| json!({ "plan": one.target.to_string(), "until": one.until.map(utc) });
            let answer = json!({
                "limit": name.as_str(),
                "key": key,
                "plan": target.map(|target| target.to_string()),
                "decided_by": word(reason),
                "by_hand": by_hand_now.map(assignment),
                "by_hand_in_force_from": by_hand.as_ref().map(|one| utc(one.at)),
                "by_source": by_source.as_ref().and_then(|one| one.assignment).map(assignment),
                "by_source_in_force_from": by_source.as_ref().map(|one| utc(one.at)),
                "source": told.map(|told| json!({
                    "name": told.name, "rows": told.rows, "last_read": told.read.map(utc),
                    "problem": told.problem.as_ref().map(|(problem, _)| problem),
                    "problem_since": told.problem.as_ref().map(|(_, since)| utc(*since)),
                })),
                "config": config.map(|(by, one)| json!({ "key": by, "assigned": assignment(one) })),
                "changes_at": period.until.map(utc),
                "capacity": terms.as_ref().map(|limit| limit.terms.capacity.get()),
                "terms": terms.as_ref().map(|limit| terms_of(limit, key)),
                "part": terms.as_ref().and_then(|limit| part_of(limit, key)).map(|part| json!({
                    "name": part.name, "weight": part.weight, "capacity": part.capacity,
                    "tokens_per_second": part.tokens_per_second(),
                })),
            });
            print_line(&answer.to_string());
            return Ok(Exit::Done);
        }
        let mark = |decides: bool| if decides { "  <- decides" } else { "" };
        let outside = |assigned: Option<Assigned>| match assigned {
            None => "none".to_owned(),
            Some(Assigned { assignment, at, .. }) => {
                let from = if now < at { format!(", from {}", utc(at)) } else { String::new() };
                format!("{}{from}", assignment.map_or("none".to_owned(), shown))
            }
        };
        let about = told.map_or(String::new(), |told| match (told.problem, told.read) {
            (Some((problem, since)), _) => {
                format!("  ({}, not read since {}: {problem})", told.name, utc(since))
            }
            (None, Some(read)) => {
                format!("  ({}, {} rows, last read {})", told.name, grouped(told.rows), utc(read))
            }
            (None, None) => format!("  ({}, not read yet)", told.name),
        });
        let in_config = config.map_or("none".to_owned(), |(by, one)| format!("{}, by {by:?}", shown(one)));
        let what = target.map_or("the limit's own terms".to_owned(), |target| match target {
            Target::Plan(plan) => format!("plan {plan}"),
            other => other.to_string(),
        });
        let terms = terms.as_ref().map_or(String::new(), |limit| format!(": {}", terms_of(limit, key)));
        print_line(&format!("limit {name}, key {}: {what}{terms}", printable(key)));
        let is_config = matches!(reason, PlanReason::Config(_));
        for (line, decides) in [
            (format!("1. by hand  {}", outside(by_hand)), reason == PlanReason::ByHand),
            (format!("2. source   {}", outside(by_source)), reason == PlanReason::Source),
            (format!("3. config   {in_config}"), is_config),
            (format!("4. own      {}", terms_of(&published.limit, key)), reason == PlanReason::Own),
        ] {
            let about = if line.starts_with('2') { about.as_str() } else { "" };
            print_line(&format!("  {}{}{}", printable(&line), mark(decides), printable(about)));
        }
        if let Some(at) = period.until {
            print_line(&format!("this changes at {}", utc(at)));
        }
        Ok(Exit::Done)
    })
}

fn word(reason: PlanReason<'_>) -> &'static str {
    match reason {
        PlanReason::ByHand => "by-hand",
        PlanReason::Source => "source",
        PlanReason::Config(_) => "config",
        PlanReason::Own => "own",
    }
}

/// The part of a limit with fair shares that `key` belongs to.
fn part_of(limit: &Limit, key: &str) -> Option<Part> {
    let name = limit.parts.of(key)?;
    let parts = limit.parts.under(limit.terms.capacity, limit.terms.supply.pace()).ok()?;
    parts.into_iter().find(|part| part.name == name)
}

fn terms_of(limit: &Limit, key: &str) -> String {
    let part = part_of(limit, key).map_or(String::new(), |part| {
        let (weights, tokens) = (limit.parts.iter().map(|(_, weight)| weight).sum::<u64>(), part.capacity);
        format!("part {:?}, sure of {} of {weights} shares, {tokens} tokens; ", part.name, part.weight)
    });
    match limit.terms.supply {
        Supply::Rate(rate) => format!("{part}capacity {}, rate {rate}", limit.terms.capacity),
        Supply::Period(_) => format!("capacity {}, filled by its calendar", limit.terms.capacity),
        Supply::Permits(_) => format!("{} at once", limit.terms.capacity),
        Supply::Windows(windows) => format!("{windows}"),
    }
}
