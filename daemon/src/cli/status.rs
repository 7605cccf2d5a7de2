//! `topupd status`: reads the published limits, their counts and the live daemons.

use std::collections::BTreeMap;

use topup_wire::{
    bucket::Operation,
    claims::Ownership,
    connection::Connection,
    counts::{Count, Counts},
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Supply},
    namespace::InNamespace,
    reply::Verdict,
    schema::NewerSchema,
    scripts,
};

use super::{
    args::Status,
    exit::Exit,
    output::print_line,
    ownership::{conflicts, owners},
    redis::{Failure, ask, connect, run},
    report::{CandidateRow, DaemonRow, LimitRow, StatusReport},
    status_text::render,
};
use crate::text::utc;

pub(super) fn main(args: &Status) -> Exit {
    run(async {
        let report = gather(connect(&args.connect)?).await?;
        if args.json {
            let text = serde_json::to_string_pretty(&report);
            print_line(&text.map_err(|error| Failure::Undecided(error.into()))?);
        } else {
            print_line(&render(&report));
        }
        Ok(Exit::Done)
    })
}

/// Reads the published state.
async fn gather(mut connection: Connection) -> Result<StatusReport, Failure> {
    let newer_schema = ask(scripts::newer_schema(&mut connection)).await?;
    let generation = ask(scripts::generation(&mut connection)).await?;
    let alive = ask(scripts::daemons(&mut connection)).await?;
    let daemons = alive.into_iter().map(|daemon| DaemonRow {
        id: daemon.id,
        config: daemon.health.owner.to_string(),
        config_hash: daemon.health.config.to_string(),
        version: daemon.health.version,
        lag_ms: daemon.health.lag.as_secs_f64() * 1e3,
        credited: daemon.health.credited,
        repaired: daemon.health.repaired,
        config_refused: daemon.health.refused.as_ref().map(|(problem, _)| problem.clone()),
        config_refused_since: daemon.health.refused.as_ref().map(|(_, since)| utc(*since)),
    });
    let seen = ask(scripts::ownership(&mut connection)).await?;
    let mut limits = Vec::new();
    let published = ask(scripts::published_limits(&mut connection)).await?;
    let readable = |name: &&LimitName| newer_schema.is_none() && name.live() == **name;
    for name in published.keys().filter(readable) {
        if let Some(published) = ask(scripts::read_limit(&mut connection, name)).await? {
            limits.push(row(&mut connection, &published.limit, &seen).await?);
        }
    }
    Ok(StatusReport {
        namespace: connection.namespace().to_string(),
        newer_schema: newer_schema.map(NewerSchema::number),
        generation,
        daemons: daemons.collect(),
        limits,
        conflicts: conflicts(&seen),
    })
}

/// Reads one limit's row.
async fn row(connection: &mut Connection, limit: &Limit, seen: &Ownership) -> Result<LimitRow, Failure> {
    let mut active = (!limit.algorithm.is_script_only()).then_some(0);
    for shard in 0..limit.shards.get() {
        let keys = ShardKeys::new(connection.namespace(), &limit.name, shard);
        if let Some(active) = &mut active {
            *active += ask(scripts::count_active(connection, &keys)).await?;
        }
    }
    let mut tokens = None;
    if !limit.keyed {
        let (keys, peek) = (ShardKeys::new(connection.namespace(), &limit.name, 0), Operation::Peek(1));
        let settled = ask(scripts::settle(connection, limit.algorithm, &keys, "", peek, false, 0)).await?;
        tokens = (settled.verdict != Verdict::Unknown).then_some(settled.tokens);
    }
    let counts = match limit.has_trial() {
        true => Some(named(&ask(scripts::counts(connection, &limit.name)).await?)),
        false => None,
    };
    let candidate = match limit.candidate {
        true => ask(scripts::read_limit(connection, &limit.name.candidate()))
            .await?
            .map(|published| published.limit),
        false => None,
    };
    let owners = owners(&limit.name, seen);
    Ok(LimitRow {
        name: limit.name.to_string(),
        orphaned: !owners.iter().any(|owner| owner.alive),
        owners,
        algorithm: limit.algorithm.as_str(),
        keyed: limit.keyed,
        capacity: limit.terms.capacity.get(),
        rate: rate(limit),
        tokens,
        active,
        mode: limit.rollout.mode.as_str(),
        enforce_percent: limit.rollout.enforced.get(),
        candidate: candidate
            .map(|limit| CandidateRow { capacity: limit.terms.capacity.get(), rate: rate(&limit) }),
        counts,
    })
}

fn rate(limit: &Limit) -> Option<String> {
    match limit.terms.supply {
        Supply::Rate(rate) => Some(rate.to_string()),
        Supply::Windows(windows) => Some(windows.to_string()),
        Supply::Period(_) => None,
    }
}

fn named(counts: &Counts) -> BTreeMap<&'static str, u64> {
    Count::ALL.into_iter().map(|count| (count.as_str(), counts.get(count))).collect()
}
