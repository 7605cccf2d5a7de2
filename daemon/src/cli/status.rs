//! `topupd status`.

use std::collections::BTreeMap;

use serde::Serialize;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    counts::{Count, Counts},
    keyspace::ShardKeys,
    limit::{Limit, Supply},
    reply::Verdict,
    scripts,
};

use super::{
    Exit, Status,
    bucket::{Failure, asked, connect, ended, on_runtime},
    exit::answer,
};

/// Everything there is to say.
#[derive(Debug, Serialize)]
struct Report {
    /// Counts publications; absent when nothing is published.
    generation: Option<u64>,
    daemons: Vec<Daemon>,
    limits: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Daemon {
    id: String,
    version: String,
    lag_ms: f64,
    credited: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    algorithm: &'static str,
    keyed: bool,
    capacity: u64,
    /// Tokens per interval, or per window of time; absent for a calendar quota.
    rate: Option<String>,
    /// Tokens in the bucket of an unkeyed limit.
    tokens: Option<u64>,
    /// Buckets that are not full; absent where only a scan would tell.
    active: Option<u64>,
    mode: &'static str,
    enforce_percent: u8,
    /// Other terms that are tried beside these.
    candidate: Option<Candidate>,
    /// What workers have counted since the limit last changed; absent where nothing is tried.
    counts: Option<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Serialize)]
struct Candidate {
    capacity: u64,
    rate: Option<String>,
}

pub(super) fn main(args: &Status) -> Exit {
    ended(on_runtime(async {
        let report = Report::gather(connect(&args.connect)?).await?;
        if args.json {
            let text = serde_json::to_string_pretty(&report);
            answer(&text.map_err(|error| Failure::Undecided(error.into()))?);
        } else {
            answer(&report.as_text());
        }
        Ok(Exit::Done)
    }))
}

// === impl Report ===

impl Report {
    async fn gather(mut connection: Connection) -> Result<Self, Failure> {
        let generation = asked(scripts::generation(&mut connection)).await?;
        let alive = asked(scripts::daemons(&mut connection)).await?;
        let daemons = alive.into_iter().map(|daemon| Daemon {
            id: daemon.id,
            version: daemon.health.version,
            lag_ms: daemon.health.lag.as_secs_f64() * 1e3,
            credited: daemon.health.credited,
        });
        let mut limits = Vec::new();
        let published = asked(scripts::published_limits(&mut connection)).await?;
        for name in published.keys().filter(|name| name.live() == **name) {
            if let Some(published) = asked(scripts::read_limit(&mut connection, name)).await? {
                limits.push(row(&mut connection, &published.limit).await?);
            }
        }
        Ok(Self { generation, daemons: daemons.collect(), limits })
    }

    fn as_text(&self) -> String {
        let mut lines = Vec::new();
        match self.generation {
            Some(generation) => lines.push(format!("generation {generation}")),
            None => lines.push("nothing is published: is topupd running?".to_owned()),
        }
        lines.push(match self.daemons.len() {
            0 => "no daemon alive: workers take by script".to_owned(),
            1 => "1 daemon alive".to_owned(),
            n => format!("{n} daemons alive"),
        });
        for daemon in &self.daemons {
            let Daemon { id, version, lag_ms, credited } = daemon;
            lines.push(format!("  {id}  version {version}  lag {lag_ms:.1} ms  {credited} buckets credited"));
        }
        let width = self.limits.iter().map(|row| row.name.len()).max().unwrap_or(0).max(5);
        lines.push(String::new());
        lines.push(format!(
            "{:width$}  {:17}  {:>10}  {:>10}  {:>10}  {:>10}",
            "limit", "algorithm", "capacity", "rate", "tokens", "active"
        ));
        for row in &self.limits {
            let number =
                |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let rate = row.rate.as_deref().unwrap_or("calendar");
            let (tokens, active) = (number(row.tokens), number(row.active));
            lines.push(format!(
                "{:width$}  {:17}  {:>10}  {:>10}  {:>10}  {:>10}",
                row.name, row.algorithm, row.capacity, rate, tokens, active
            ));
        }
        lines.extend(self.limits.iter().flat_map(Row::trial));
        lines.join("\n")
    }
}

// === impl Row ===

impl Row {
    /// How the limit does that is being tried out, and what is tried beside it.
    fn trial(&self) -> Vec<String> {
        let Some(counts) = &self.counts else { return Vec::new() };
        let count = |count: Count| counts.get(count.as_str()).copied().unwrap_or(0);
        let share = if self.enforce_percent < 100 {
            format!(" for {} of 100 keys", self.enforce_percent)
        } else {
            String::new()
        };
        let mut lines = vec![
            String::new(),
            format!(
                "{}: {}{share}: {} allowed, {} denied, {} would be denied, {} undecided",
                self.name,
                self.mode,
                count(Count::Allowed),
                count(Count::Denied),
                count(Count::WouldDeny),
                count(Count::Undecided),
            ),
        ];
        if let Some(Candidate { capacity, rate }) = &self.candidate {
            lines.push(format!(
                "  candidate, capacity {capacity}, {}: {} would be allowed, {} would be denied, {} not asked",
                rate.as_deref().unwrap_or("calendar"),
                count(Count::CandidateAllowed),
                count(Count::CandidateDenied),
                count(Count::CandidateUnasked),
            ));
        }
        let [both, ours, lazy, neither] =
            [Count::BothAllowed, Count::OnlyOurs, Count::OnlyLazy, Count::BothDenied].map(count);
        let compared = both + ours + lazy + neither;
        if compared + count(Count::Uncompared) > 0 {
            lines.push(format!(
                "  lazy-token-bucket beside it: {both} both allow, {ours} only this, {lazy} only lazy, {neither} both deny; \
                 {:.2} tokens apart, {} at most; {} not compared",
                count(Count::Difference) as f64 / compared.max(1) as f64,
                count(Count::LargestDifference),
                count(Count::Uncompared),
            ));
        }
        lines
    }
}

async fn row(connection: &mut Connection, limit: &Limit) -> Result<Row, Failure> {
    let mut active = (!limit.algorithm.is_script_only()).then_some(0);
    for shard in 0..limit.shards.get() {
        let keys = ShardKeys::new(&limit.name, shard);
        if let Some(active) = &mut active {
            *active += asked(scripts::count_active(connection, &keys)).await?;
        }
    }
    let mut tokens = None;
    if !limit.keyed {
        let (keys, peek) = (ShardKeys::new(&limit.name, 0), Operation::Peek(1));
        let settled = asked(scripts::settle(connection, limit.algorithm, &keys, "", peek, false, 0)).await?;
        tokens = (settled.verdict != Verdict::Unknown).then_some(settled.tokens);
    }
    let counts = match limit.has_trial() {
        true => Some(named(&asked(scripts::counts(connection, &limit.name)).await?)),
        false => None,
    };
    let candidate = match limit.candidate {
        true => asked(scripts::read_limit(connection, &limit.name.candidate()))
            .await?
            .map(|published| published.limit),
        false => None,
    };
    Ok(Row {
        name: limit.name.to_string(),
        algorithm: limit.algorithm.as_str(),
        keyed: limit.keyed,
        capacity: limit.terms.capacity.get(),
        rate: rate(limit),
        tokens,
        active,
        mode: limit.rollout.mode.as_str(),
        enforce_percent: limit.rollout.enforced.get(),
        candidate: candidate
            .map(|limit| Candidate { capacity: limit.terms.capacity.get(), rate: rate(&limit) }),
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
