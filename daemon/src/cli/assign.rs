//! `topupd assign`, `unassign` and `explain`: the plan of a key.

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use topup_wire::{
    limit::{Assigned, Assignment, Limit, LimitName, PlanReason, PlanSources, Target},
    reply::PublishedLimit,
    scripts::{self, Change},
};

use super::{
    args::Connect,
    exit::Exit,
    limit_name::{parse, unknown},
    output::print_line,
    redis::{Failure, ask, check_schema, connect, run_as},
    table::printable,
};
use crate::{
    assigned_rows::check_target,
    config::Instant,
    text::{grouped, utc},
};

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
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd unassign user acme")]
pub(super) struct Unassign {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key
    key: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd explain user --key acme")]
pub(super) struct Explain {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key
    #[arg(long)]
    key: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn assign(args: &Assign) -> Exit {
    let until = args.until.map(|until| until.0);
    let assignment = Assignment { target: args.plan, until };
    change(&args.limit, &args.key, Some(assignment), args.json, &args.connect)
}

pub(super) fn unassign(args: &Unassign) -> Exit {
    change(&args.limit, &args.key, None, args.json, &args.connect)
}

fn change(limit: &str, key: &str, assignment: Option<Assignment>, json: bool, args: &Connect) -> Exit {
    run_as(json, async {
        let name = parse(limit, Some(key))?;
        let mut connection = connect(args)?;
        check_schema(&mut connection).await?;
        let limit = published(&mut connection, &name).await?.limit;
        if let Some(target) = assignment.map(|one| one.target) {
            check_target(&name, &limit.plans, target).map_err(|problem| Failure::Usage(anyhow!(problem)))?;
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
        if json {
            let plan = assignment.map(|one| one.target.to_string());
            let until = assignment.and_then(|one| one.until).map(utc);
            let answer = json!({
                "limit": name.as_str(), "key": key, "plan": plan, "until": until, "changed": changed > 0,
                "in_force_from": if changed > 0 { Some(from) } else { None },
            });
            print_line(&answer.to_string());
        } else {
            print_line(&text);
        }
        Ok(Exit::Done)
    })
}

pub(super) fn explain(args: &Explain) -> Exit {
    run_as(args.json, async {
        let key = args.key.as_str();
        let name = parse(&args.limit, Some(key))?;
        let mut connection = connect(&args.connect)?;
        check_schema(&mut connection).await?;
        let published = published(&mut connection, &name).await?;
        let index = ask(scripts::assignment_index(&mut connection)).await?;
        let mut assigned = [None; 2];
        for (set, assigned) in [name, name.source()].iter().zip(&mut assigned) {
            if let Some(shape) = index.shapes.get(set) {
                *assigned = ask(scripts::assigned(&mut connection, set, shape, key)).await?;
            }
        }
        let [by_hand, by_source] = assigned;
        // A user with few rights may not read who reads a source.
        let told = scripts::source_statuses(&mut connection).await.unwrap_or_default().remove(&name);
        let now = ask(scripts::now(&mut connection)).await?;
        let sources = PlanSources {
            key,
            config: &published.limit.plans,
            config_before: &published.plans_before,
            config_at: published.plans_at,
            by_hand,
            by_source,
        };
        let ((target, reason), period) = (sources.at(now), sources.period(now));
        let config = published.limit.plans.of(key, now);
        let terms = match target {
            None => Some(published.limit.clone()),
            Some(target) => match target.plan() {
                Some(plan) => {
                    ask(scripts::read_limit(&mut connection, &name.plan(plan))).await?.map(|read| read.limit)
                }
                None => None,
            },
        };
        let by_hand_now = by_hand.and_then(|one| one.assignment);
        if args.json {
            let assignment =
                |one: Assignment| json!({ "plan": one.target.to_string(), "until": one.until.map(utc) });
            let answer = json!({
                "limit": name.as_str(),
                "key": key,
                "plan": target.map(|target| target.to_string()),
                "decided_by": word(reason),
                "by_hand": by_hand_now.map(assignment),
                "by_hand_in_force_from": by_hand.map(|one| utc(one.at)),
                "by_source": by_source.and_then(|one| one.assignment).map(assignment),
                "by_source_in_force_from": by_source.map(|one| utc(one.at)),
                "source": told.map(|told| json!({
                    "name": told.name, "rows": told.rows, "last_read": told.read.map(utc),
                    "problem": told.problem.as_ref().map(|(problem, _)| problem),
                    "problem_since": told.problem.as_ref().map(|(_, since)| utc(*since)),
                })),
                "config": config.map(|(by, one)| json!({ "key": by, "assigned": assignment(one) })),
                "changes_at": period.until.map(utc),
                "capacity": terms.as_ref().map(|limit| limit.terms.capacity.get()),
                "terms": terms.as_ref().map(terms_of),
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
        let terms = terms.as_ref().map_or(String::new(), |limit| format!(": {}", terms_of(limit)));
        print_line(&format!("limit {name}, key {}: {what}{terms}", printable(key)));
        let is_config = matches!(reason, PlanReason::Config(_));
        for (line, decides) in [
            (format!("1. by hand  {}", outside(by_hand)), reason == PlanReason::ByHand),
            (format!("2. source   {}", outside(by_source)), reason == PlanReason::Source),
            (format!("3. config   {in_config}"), is_config),
            (format!("4. own      {}", terms_of(&published.limit)), reason == PlanReason::Own),
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

/// The published limit `name`, if it is keyed.
pub(super) async fn published(
    connection: &mut topup_wire::connection::Connection,
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

fn word(reason: PlanReason<'_>) -> &'static str {
    match reason {
        PlanReason::ByHand => "by-hand",
        PlanReason::Source => "source",
        PlanReason::Config(_) => "config",
        PlanReason::Own => "own",
    }
}

fn terms_of(limit: &Limit) -> String {
    use topup_wire::limit::Supply;
    match limit.terms.supply {
        Supply::Rate(rate) => format!("capacity {}, rate {rate}", limit.terms.capacity),
        Supply::Period(_) => format!("capacity {}, filled by its calendar", limit.terms.capacity),
        Supply::Permits(_) => format!("{} at once", limit.terms.capacity),
        Supply::Windows(windows) => format!("{windows}"),
    }
}
